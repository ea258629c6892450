/* run_internal.h - what the files of src/run share.
 *
 * One lock a device (tpt_dev_t.lock) guards its open graph, its storages and its pending flags. No lock is ever held while
 * calling back into PyTorch: the core does not call back at all. */
#ifndef TPT_RUN_INTERNAL_H
#define TPT_RUN_INTERNAL_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "ops/ops.h"
#include "ops/refuse.h"
#include "pjrt/pjrt.h"

#define TPT_MAX_DEVICES 64
#define TPT_MAX_NODES 4096     /* of one graph: it is cut when it gets so long */
#define TPT_MAX_VALUES (1 << 20)
#define TPT_MAX_SLOTS (1 << 20)

/* ---- storages ------------------------------------------------------------------------------------------------------ */
struct tpt_storage {
    atomic_int refs;
    int device;
    tpt_type_t type; /* memory-order dims; may be larger than any tensor on it (capacity) */
    int64_t nbytes;
    void *address;
    tpt_buffer_t *buffer; /* the value, when it is not pending; NULL and not pending: reads as zeros */
    uint64_t epoch;       /* `value` belongs to the open graph iff this equals the graph's epoch */
    int32_t value;
    bool pending;         /* value is a node's output that has not run yet */
    uint64_t flag;        /* number of the last out-of-range flag this value depends on; 0: none */
    tpt_status_t *error;  /* poison: the value could not be made */
    tpt_storage_t *next, *prev; /* all living storages of the device */
};

/* ---- views (view.c) ------------------------------------------------------------------------------------------------ */
typedef enum tpt_view_code {
    TPT_VIEW_SAME = 0,  /* whole base, same dims */
    TPT_VIEW_RESHAPE,   /* whole base, other dims */
    TPT_VIEW_GENERAL,   /* slices, steps, transposes, broadcasts of the base with some dims merged */
    TPT_VIEW_GATHER,    /* overlapping windows: flat indices */
    TPT_VIEW_EMPTY      /* no elements */
} tpt_view_code_t;

/* The structure of a window on a base, without its offset: windows that differ in the offset alone share it. */
typedef struct tpt_view {
    uint8_t code; /* tpt_view_code_t */
    uint8_t dtype, conj, neg;
    bool bitcast; /* base is first read as `dtype` */
    int32_t rank;
    int64_t sizes[TPT_MAX_RANK], strides[TPT_MAX_RANK];
    int32_t ngroups; /* GENERAL: base dims after merging */
    int64_t group_dims[TPT_MAX_RANK], group_strides[TPT_MAX_RANK];
    uint32_t fixed;  /* bit k: group k begins at fixed_starts[k], a part of the key */
    int64_t fixed_starts[TPT_MAX_RANK];
    int32_t nstarts; /* run-time starts: one a group that is not fixed for GENERAL, 1 for GATHER (flat offset), else 0 */
} tpt_view_t;

/* Is the tensor all of the base, with its dims? (Then classifying gives TPT_VIEW_SAME, without starts.) */
bool tpt_view_is_same(const tpt_type_t *base, const tpt_tensor_t *tensor);
/* Classifies; starts gets view->nstarts numbers. Refuses windows that reach past the base. */
TPT_MUST_USE tpt_status_t *tpt_view_classify(const tpt_type_t *base, const tpt_tensor_t *tensor, tpt_view_t *out_view,
                                             int64_t *out_starts);
/* The window's logical value. `starts`: rank-0 integers. */
/* `turned`: dims in another order are brought into theirs before all else (tpt_ir_turn). */
tpt_val_t tpt_view_read(tpt_ir_t *ir, const tpt_view_t *view, tpt_val_t base, const tpt_val_t *starts, bool turned);
/* The base after the window has been overwritten with `v` (logical shape, view dtype). */
tpt_val_t tpt_view_write(tpt_ir_t *ir, const tpt_view_t *view, tpt_val_t base, tpt_val_t v, const tpt_val_t *starts, bool turned);
/* Does a write replace the whole base? */
bool tpt_view_is_whole(const tpt_view_t *view);

/* ---- ops and plans (plan.c) ---------------------------------------------------------------------------------------- */
#define TPT_MAX_REFUSALS 4
struct tpt_op {
    uint64_t id;
    _Atomic(tpt_plan_t *) recent[2]; /* last plans used: the steady state needs no look-up. Plans are never freed in use */
    const tpt_row_t *row;
    char *schema_name;
    int nparams;
    tpt_param_t *params;
    const char **names;
    bool fresh_outs;
    uint64_t statics; /* bit i: number param i is part of the key */
    tpt_op_t *next;   /* all ops, alive for ever */
    uint64_t ones;    /* bit i: the same, but only while it is 1 ("alpha=1" of a row) */
    struct {
        const tpt_refusal_t *rule;
        int arg, with, when; /* -1: the schema has none */
    } refusals[TPT_MAX_REFUSALS]; /* numbers that PyTorch refuses */
    int nrefusals;
};

typedef struct tpt_plan_tensor {
    int arg, item; /* item: index in a list, 0 for a single tensor */
    tpt_type_t base;
    tpt_view_t view;
    uint32_t first_slot; /* of its starts */
    bool unread;         /* no result hangs on it: it is overwritten as a whole */
} tpt_plan_tensor_t;

/* One op with given types: everything that is the same in each call. Never freed while the runtime is open. */
struct tpt_plan {
    uint64_t id, hash;
    uint64_t *key; /* in the arena */
    uint32_t key_words;
    const tpt_op_t *op;
    tpt_arena_t arena;
    int nargs;
    tpt_arg_t *args;      /* static copies */
    uint32_t *arg_slot;   /* first run-time slot of a number, number list or rng argument */
    uint64_t equal_numbers; /* bit i: argument i is a list of equal numbers, which share one slot */
    int ntensors;         /* all non-None tensors of all arguments, in order */
    tpt_plan_tensor_t *tensors;
    int *arg_tensor;      /* first of an argument's tensors */
    uint32_t nslots;      /* two words each */
    int nouts;            /* fresh outputs */
    tpt_spec_t *outs;
    tpt_type_t *out_types; /* memory order */
    int nwrites;
    int *writes;          /* index into tensors */
    bool dynamic, pads;   /* has a count; fresh outputs are padded */
    bool flagged;         /* yields an out-of-range flag */
    const char *flag_text; /* what it says when it is not about an index; NULL */
    tpt_precision_t precision;
    bool index_checks;
    /* The last single-op program: saves the look-up in the steady state of strict mode. Guarded by the device lock. */
    struct tpt_prog *last[2];
    atomic_uint_fast64_t last_seen; /* device + 1 in the top byte, place in its stream of nodes (fuse.c) */
};

/* Is number `n` of param `i` part of the key, and so a constant of the program? */
bool tpt_op_number_is_static(const struct tpt_op *op, int i, const tpt_number_t *n);
bool tpt_key_numbers_equal(const struct tpt_op *op, int i, const tpt_arg_t *arg);
/* Collects the key and the slots of a call. */
TPT_MUST_USE tpt_status_t *tpt_key_make(tpt_call_t *call);
TPT_MUST_USE tpt_status_t *tpt_plan_make(tpt_call_t *call, const tpt_spec_t *specs, int nspecs, tpt_plan_t **out_plan);
void tpt_plan_free(tpt_plan_t *plan);
TPT_MUST_USE tpt_status_t *tpt_plan_set_outs(tpt_plan_t *plan, const tpt_spec_t *specs, int nspecs);
tpt_plan_t *tpt_plan_find(const tpt_call_t *call);
TPT_MUST_USE tpt_status_t *tpt_plan_add(const tpt_call_t *call, tpt_plan_t *plan, tpt_plan_t **out_kept);
void tpt_plans_clear(void);
void tpt_plans_forget_progs(void); /* the locks of all devices are held */

/* ---- the open graph (graph.c) -------------------------------------------------------------------------------------- */
typedef struct tpt_node {
    tpt_plan_t *plan;
    uint32_t first_input;  /* in graph->inputs: one value id a plan tensor */
    uint32_t first_slot;   /* in graph->slots */
    uint32_t first_output; /* value id of output 0; [fresh..., writes..., count] */
    uint32_t noutputs;
    char where[120];
} tpt_node_t;

typedef struct tpt_value {
    tpt_storage_t *owner; /* weak: the storage whose current value this is; NULL: nobody's */
    tpt_buffer_t *buffer; /* of an input; retained by the graph */
    int32_t node, output; /* node < 0: an input (buffer) or zeros (no buffer) */
    const tpt_type_t *type; /* belongs to a plan, which outlives the graph */
    int32_t replaces;     /* value id that the same storage had before, or -1 */
    uint64_t flag;        /* of inputs: the storage's flag when it was read */
} tpt_value_t;

typedef struct tpt_graph {
    uint64_t epoch;
    tpt_node_t *nodes;
    size_t nnodes, nodes_capacity;
    tpt_value_t *values;
    size_t nvalues, values_capacity;
    int32_t *inputs;
    size_t ninputs, inputs_capacity;
    uint64_t *slots; /* two words a slot */
    size_t nslots, slots_capacity; /* in slots */
    uint64_t *key; /* scratch of a cut */
    size_t key_capacity;
    uint32_t nowned; /* values with an owner that are pending */
    int64_t bytes;   /* of those */
    int64_t since;   /* time of the first node, ns */
} tpt_graph_t;

/* ---- programs (prog.c) --------------------------------------------------------------------------------------------- */
/* A run-time number of a program: slot `slot` of node `node`, after `fn`, at place `place` of the pack of its dtype. */
typedef struct tpt_pack_entry {
    uint32_t node, slot;
    uint8_t fn, source; /* source: dtype of the slot's number; TPT_U64: two raw words */
    uint32_t place;
} tpt_pack_entry_t;
enum { TPT_PACK_F32, TPT_PACK_F64, TPT_PACK_I32, TPT_PACK_I64, TPT_PACK_U64, TPT_PACK_COUNT };
typedef struct tpt_pack {
    tpt_pack_entry_t *entries;
    size_t nentries, capacity;
    uint32_t length; /* elements */
    tpt_val_t arg;   /* while lowering */
} tpt_pack_t;

typedef struct tpt_prog {
    tpt_program_t *program;
    tpt_pack_t packs[TPT_PACK_COUNT];
    int npacks;
    uint8_t pack_order[TPT_PACK_COUNT]; /* kinds in the order of the program's arguments, after the inputs */
    bool flagged; /* the last result is the out-of-range word: 0, or 1 + the first node that found a bad index */
    tpt_loops_t loops;
    int64_t temporary_bytes; /* 0: nobody has asked yet; -1: not told; INT64_MIN: none */
    bool lingers; /* it may run for a while, and who takes over a buffer that it uses would wait */
    int64_t *bad_sizes; /* per node, for messages; -1 unknown */
    int nnodes, nresults;
    int64_t *result_bytes; /* of each result's dense host form */
    uint64_t name; /* hash of its text */
    atomic_uint_fast64_t used; /* see tpt_prog_note_use */
    uint64_t *key;
    uint32_t key_words;
} tpt_prog_t;

/* What a cut has decided: which values go in and out. */
typedef struct tpt_cut {
    int ninputs, nlive;
    const int32_t *inputs;  /* value ids with a buffer, in argument order */
    const int32_t *live;    /* value ids that storages still own: the results */
    const int32_t *aliases; /* per input: the result it may be donated to, or -1 */
} tpt_cut_t;
/* A cut with its memory. */
#define TPT_SMALL_ARGS 48
typedef struct tpt_decided {
    tpt_cut_t cut;
    int32_t *inputs, *live, *aliases;
    int32_t room[3 * TPT_SMALL_ARGS];
    int32_t *heap;
} tpt_decided_t;
/* The key of a cut (in graph->key) and the program that memory holds for it, or NULL. */
typedef struct tpt_found {
    tpt_prog_t *prog;
    uint64_t hash; /* 0 when the plan itself remembered the program */
    uint32_t words;
} tpt_found_t;
/* Arguments and results of one execution. */
typedef struct tpt_run {
    int nargs, nkeep, ndonated;
    int64_t execute_ns; /* of the execute call, while somebody asks */
    tpt_buffer_t **args, **outs;
    int64_t *keep;
    tpt_buffer_t *room[2 * (TPT_SMALL_ARGS + TPT_PACK_COUNT + 1)];
    int64_t keep_room[TPT_SMALL_ARGS];
    void *heap; /* tpt_free when done */
} tpt_run_t;

/* Lowers a graph to one program; its StableHLO text is the caller's to release with tpt_free. */
TPT_MUST_USE tpt_status_t *tpt_prog_lower(const tpt_graph_t *graph, const tpt_cut_t *cut, tpt_prog_t **out_prog, char **out_text);
/* later: its compile need not have ended, nor to succeed. */
TPT_MUST_USE tpt_status_t *tpt_prog_compile(tpt_prog_t *prog, const char *text, int device, bool later);
void tpt_prog_free(tpt_prog_t *prog);
/* Runs the lowering of one plan in a scratch program: types of results, flags; fills the plan's unknown outputs. */
TPT_MUST_USE tpt_status_t *tpt_prog_try_plan(tpt_plan_t *plan);
void tpt_progs_clear(void);
void tpt_prog_note_use(tpt_prog_t *prog);
size_t tpt_progs_count(void);
/* Frees the programs that were not used for longest, and says how many. The locks of all devices are held. */
int64_t tpt_progs_drop_old(void);
void tpt_prog_cache_open(tpt_client_t *client);
/* A program from what the cache has found; false: there is none that can be used. */
bool tpt_prog_load(tpt_prog_t *prog, const tpt_cache_key_t *key, const tpt_compile_options_t *options, tpt_cache_find_t *find);
TPT_MUST_USE tpt_status_t *tpt_prog_compiled(tpt_prog_t *prog, const tpt_cache_key_t *key, tpt_cache_find_t *find, int64_t taken);
/* ahead.c: several compilers at once, while the caller goes on. */
bool tpt_ahead_on(void);
void tpt_ahead_end(void); /* the process ends */
TPT_MUST_USE tpt_status_t *tpt_ahead_compile(tpt_prog_t *prog, const char *text, int device);
TPT_MUST_USE tpt_status_t *tpt_prog_compile_now(tpt_prog_t *prog, const char *text, int device);
void tpt_ahead_drain(void);
bool tpt_ahead_is_busy(void); /* programs are being made */
void tpt_ahead_forget(void); /* for tests: the environment has changed */
void tpt_race_drain(void);
/* race.c: compiles while the remote cache is asked; who comes first wins. */
TPT_MUST_USE tpt_status_t *tpt_prog_race(tpt_prog_t *prog, const tpt_cache_key_t *key, const tpt_compile_options_t *options, tpt_cache_find_t *find);
tpt_prog_t *tpt_prog_find(uint64_t hash, const uint64_t *key, uint32_t words);
TPT_MUST_USE tpt_status_t *tpt_prog_add(uint64_t hash, const uint64_t *key, uint32_t words, tpt_prog_t *prog);

/* ---- devices (runtime.c) ------------------------------------------------------------------------------------------- */
#define TPT_FLAG_TEXT 320
typedef struct tpt_flag_message {
    tpt_code_t code;
    char text[TPT_FLAG_TEXT];
} tpt_flag_message_t;
typedef struct tpt_flag {
    uint64_t number, parent;
    tpt_buffer_t *word;
    int nmessages;
    tpt_flag_message_t *messages; /* one a node */
} tpt_flag_t;

/* The loop that fused mode has seen in the stream of recorded plans (fuse.c). */
#define TPT_LOOP_HISTORY 8192 /* of plans; a power of two, at least twice the longest loop body */
typedef struct tpt_loop {
    uint64_t *plans;   /* ring: ids of the plans recorded last */
    uint32_t *owned;   /* ring: storages that owned values of the open graph just after that node */
    uint64_t count;    /* nodes recorded so far */
    uint64_t start;    /* of the stretch in which a loop is looked for */
    uint64_t period;   /* candidate, or 0 */
    uint64_t matched;  /* nodes that repeated what was `period` before */
    uint64_t next_cut; /* count at which the next body ends; 0: no loop */
} tpt_loop_t;

/* Stretches of ops between host reads, and where within them fused mode cuts (pace.c). */
#define TPT_PACE_NODES 1024
#define TPT_PACE_STRETCHES 16
#define TPT_PACE_SETS 8
#define TPT_PACE_CUTS 64
#define TPT_PACE_SAMPLES 30
typedef struct tpt_pace_set { /* places to cut, in nodes from the stretch's start */
    uint32_t n, at[TPT_PACE_CUTS];
} tpt_pace_set_t;
typedef struct tpt_stretch {
    uint64_t *plans; /* ids, n of them */
    uint32_t n, read_at; /* read_at: nodes up to the one whose result was read; 0: not known */
    int follower;        /* the stretch that came after it last; -1: none that is known */
    int repeats;
    int64_t since;       /* ns: its first repeat */
    int64_t fastest;     /* ns: of its repeats; 0: none was clean */
    int nsets, best, trial, round, rounds; /* trial: the set that is being timed; -1: none is. rounds: there will be */
    tpt_pace_set_t sets[TPT_PACE_SETS];
    int primed, settled, waited, nsamples[TPT_PACE_SETS];
    int64_t samples[TPT_PACE_SETS][TPT_PACE_SAMPLES]; /* ns */
    double score[TPT_PACE_SETS]; /* time, of the fastest's, over all trials; 0: out of them */
    int64_t again, pause; /* ns: when the sets are timed anew, and how long after the last time */
} tpt_stretch_t;
typedef struct tpt_pace {
    tpt_stretch_t known[TPT_PACE_STRETCHES];
    uint64_t *plans; /* of the stretch being recorded */
    uint32_t *owned; /* storages that owned values of the open graph just after each node */
    uint32_t n, read_at, next_cut;
    int expected, last;  /* the stretch that this one seems to be, and the one before; -1: none */
    bool too_long, cut_once, clean; /* clean: all its cuts ran programs that were there */
    int64_t ended; /* ns: the stretch before */
} tpt_pace_t;

typedef struct tpt_failed {
    uint64_t number;
    tpt_code_t code; /* of its report */
} tpt_failed_t;

typedef struct tpt_dev {
    tpt_mutex_t lock;
    int index;
    tpt_graph_t graph, single; /* the open one; one node of it (replay.c) */
    tpt_loop_t loop;
    tpt_pace_t pace;
    tpt_map_t seen;     /* keys of graphs that were cut once and not compiled */
    int64_t most_held;  /* bytes of results that fused mode holds back; 0 until it first asks */
    tpt_storage_t *storages; /* living ones */
    atomic_uint_fast64_t clock; /* 1 + the host reads so far: what was used before one is idle now, or nearly so */
    uint64_t next_flag;
    tpt_flag_t *flags;
    size_t nflags, flags_capacity;
    tpt_failed_t *failed; /* flags that were set */
    size_t nfailed, failed_capacity;
    tpt_map_t constants; /* small packs -> buffer */
} tpt_dev_t;

void tpt_constants_clear(tpt_dev_t *dev);
/* A storage with its list entry, device lock held; release without locking. */
TPT_MUST_USE tpt_status_t *tpt_storage_make(tpt_dev_t *dev, const tpt_type_t *type, tpt_storage_t **out_storage);
void tpt_storage_drop(tpt_dev_t *dev, tpt_storage_t *storage);
int tpt_runtime_devices(void);          /* 0 when closed */
tpt_client_t *tpt_runtime_client(void); /* NULL when closed */
void tpt_dev_idle(tpt_dev_t *dev);      /* somebody has waited for it */
tpt_dev_t *tpt_dev(int device);         /* never NULL for a valid index of an open runtime */
/* With dev's lock held: takes those of all other devices, or none and false if one is busy. */
bool tpt_devs_stop(tpt_dev_t *dev);
void tpt_devs_go(tpt_dev_t *dev);
/* Called before a program is made: too many loaded ones are too much for a process (bound.c). dev's lock is held. */
void tpt_progs_bound(tpt_dev_t *dev);
TPT_MUST_USE tpt_status_t *tpt_dev_get(int device, tpt_dev_t **out_dev); /* opens the runtime, checks the index */
bool tpt_index_checks_on(void);
bool tpt_env_donate(void); /* TORCH_TPU_DONATE, read once */

/* ---- recording and cutting: the device lock is held in all of these ------------------------------------------------- */
/* graph.c */
TPT_MUST_USE tpt_status_t *tpt_graph_record(tpt_dev_t *dev, tpt_call_t *call, tpt_storage_t **outs, tpt_storage_t **out_count);
void tpt_graph_forget(tpt_graph_t *graph, tpt_storage_t *storage); /* the storage dies or gets another value */
void tpt_graph_reset(tpt_graph_t *graph);
void tpt_graph_free(tpt_graph_t *graph); /* a reset one */
int32_t tpt_graph_first(const tpt_graph_t *graph, int32_t id);
/* cut.c */
TPT_MUST_USE tpt_status_t *tpt_cut_decide(tpt_graph_t *graph, tpt_decided_t *out_decided); /* tpt_free(out_decided->heap) */
TPT_MUST_USE tpt_status_t *tpt_cut_find(tpt_graph_t *graph, const tpt_cut_t *cut, tpt_found_t *out_found);
/* Compiles what was not found; with `later` perhaps in the background (tpt_program_is_ready). */
TPT_MUST_USE tpt_status_t *tpt_cut_program(tpt_dev_t *dev, tpt_graph_t *graph, const tpt_cut_t *cut, tpt_found_t *found, bool later);
TPT_MUST_USE tpt_status_t *tpt_cut_execute(tpt_dev_t *dev, const tpt_graph_t *graph, tpt_prog_t *prog, const tpt_cut_t *cut, tpt_run_t *run);
/* deliver.c */
TPT_MUST_USE tpt_status_t *tpt_deliver(tpt_dev_t *dev, tpt_graph_t *graph, const tpt_prog_t *prog, const tpt_cut_t *cut, tpt_run_t *run);
void tpt_roll_back(tpt_graph_t *graph, const tpt_cut_t *cut, const tpt_status_t *why);
/* replay.c: runs the open graph node by node, as strict mode would have. What a failed node's results hang on is poisoned, the
 * rest lives. Every live value is delivered; the first error is returned. */
TPT_MUST_USE tpt_status_t *tpt_replay(tpt_dev_t *dev, const tpt_cut_t *cut);
/* fuse.c */
TPT_MUST_USE tpt_status_t *tpt_graph_run(tpt_dev_t *dev, tpt_cut_reason_t why); /* runs and empties the open graph */
/* After each recorded node: is this a place to cut, so that what was recorded runs while more is? */
bool tpt_pace_watch(tpt_dev_t *dev, const tpt_plan_t *plan);
bool tpt_pace_leads(const tpt_dev_t *dev); /* does it cut within this stretch? */
bool tpt_pace_cuts(const tpt_dev_t *dev);  /* has it done so, and is more recorded: a host read ends the stretch, whatever it reads */
void tpt_pace_read(tpt_dev_t *dev, int32_t node); /* the open graph's node whose result the host wants; -1: of none */
void tpt_pace_unclean(tpt_dev_t *dev);     /* a cut had to compile, or ran op by op */
void tpt_pace_end(tpt_dev_t *dev);         /* the stretch ends */
void tpt_pace_clear(tpt_dev_t *dev);
bool tpt_fuse_watch(tpt_dev_t *dev, tpt_cut_reason_t *out_why); /* after each recorded node: is this the place to cut? */
void tpt_fuse_clear(tpt_dev_t *dev);
/* explain.c */
void tpt_explain_note(const tpt_cut_note_t *note);
bool tpt_explain_is_on(void);
/* storage.c. Makes the storage's buffer exist (cuts; zeros for an unwritten one). */
TPT_MUST_USE tpt_status_t *tpt_storage_settle(tpt_dev_t *dev, tpt_storage_t *storage);
/* Lock held. After the error of an update whose program could not be compiled: the value from before it, if it can be had. */
bool tpt_storage_give_back(tpt_dev_t *dev, tpt_storage_t *s);

/* ---- compile-only mode (dry.c) */
bool tpt_dry_on(void);
TPT_MUST_USE tpt_status_t *tpt_dry_outputs(const tpt_dev_t *dev, const tpt_graph_t *g, const tpt_cut_t *cut, const tpt_prog_t *prog,
                                            tpt_buffer_t **outs);
void tpt_dry_clear(void);

/* ---- flags (flag.c) ------------------------------------------------------------------------------------------------ */
TPT_MUST_USE tpt_status_t *tpt_flags_add(tpt_dev_t *dev, const tpt_graph_t *graph, const tpt_prog_t *prog, tpt_buffer_t *word, uint64_t parent, uint64_t *out_number);
uint64_t tpt_flag_join(tpt_dev_t *dev, uint64_t a, uint64_t b); /* of two flags the one that matters more */
void tpt_flags_clear(tpt_dev_t *dev);
/* Reads the flags that are ready (all of them when `wait`); the first set one becomes an IndexError. */
TPT_MUST_USE tpt_status_t *tpt_flags_check(tpt_dev_t *dev, bool wait);
bool tpt_flag_failed(tpt_dev_t *dev, uint64_t number);
/* The error for reading a value that bears such a flag; NULL for any other. */
TPT_MUST_USE tpt_status_t *tpt_flag_refuse(tpt_dev_t *dev, uint64_t number);
bool tpt_flag_open(const tpt_dev_t *dev, uint64_t number);

/* ---- numbers (pack.c) ---------------------------------------------------------------------------------------------- */
#define TPT_NUM_IMAG 100 /* internal tpt_number_fn_t: the imaginary part */
tpt_dtype_t tpt_pack_dtype(int pack);
/* The device buffer of one pack of a program for the graph's slots. Caller releases. */
TPT_MUST_USE tpt_status_t *tpt_pack_buffer(tpt_dev_t *dev, const tpt_pack_t *pack, int kind, const tpt_graph_t *graph, tpt_buffer_t **out_buffer);

#endif
