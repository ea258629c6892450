/* tpt.h - the one public header of the C core (libtpt).
 *
 * The core records ATen op calls, lowers them to StableHLO, compiles and runs them through a PJRT plugin. It knows nothing
 * of PyTorch's C++ classes: the glue turns tensors into the flat structs below, which the core borrows for one call.
 *
 * Ownership, in three sentences. A returned pointer is borrowed from its parent. An `out_x` is the caller's to release.
 * What belongs to one graph lives in that graph's arena and dies with it.
 *
 * Errors: every fallible function returns a `tpt_status_t *`, NULL when all is well; the caller owns it and must free it
 * (tpt_status_free) or pass it on. All functions may be called from any thread unless their comment says otherwise.
 */
#ifndef TPT_TPT_H
#define TPT_TPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TPT_API __attribute__((visibility("default")))
#define TPT_MUST_USE __attribute__((warn_unused_result))
#define TPT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TPT_API
#define TPT_MUST_USE
#define TPT_PRINTF(fmt, args)
#endif

/* ---- status ------------------------------------------------------------------------------------------------------- */

/* The codes of absl and PJRT, so that a plugin's error maps one to one. The glue raises: INVALID_ARGUMENT -> RuntimeError,
 * OUT_OF_RANGE -> IndexError, UNIMPLEMENTED -> NotImplementedError, RESOURCE_EXHAUSTED -> torch.OutOfMemoryError,
 * all others -> RuntimeError. */
typedef enum tpt_code {
    TPT_OK = 0,
    TPT_CANCELLED = 1,
    TPT_UNKNOWN = 2,
    TPT_INVALID_ARGUMENT = 3,
    TPT_DEADLINE_EXCEEDED = 4,
    TPT_NOT_FOUND = 5,
    TPT_ALREADY_EXISTS = 6,
    TPT_PERMISSION_DENIED = 7,
    TPT_RESOURCE_EXHAUSTED = 8,
    TPT_FAILED_PRECONDITION = 9,
    TPT_ABORTED = 10,
    TPT_OUT_OF_RANGE = 11,
    TPT_UNIMPLEMENTED = 12,
    TPT_INTERNAL = 13,
    TPT_UNAVAILABLE = 14,
    TPT_DATA_LOSS = 15,
    TPT_UNAUTHENTICATED = 16
} tpt_code_t;

typedef struct tpt_status tpt_status_t;

TPT_API tpt_code_t tpt_status_code(const tpt_status_t *status); /* TPT_OK for NULL */
TPT_API const char *tpt_status_message(const tpt_status_t *status); /* borrowed; "" for NULL */
TPT_API void tpt_status_free(tpt_status_t *status);                 /* NULL is fine */

/* ---- element types ------------------------------------------------------------------------------------------------ */

typedef enum tpt_dtype {
    TPT_DTYPE_NONE = 0,
    TPT_BOOL,
    TPT_U8,
    TPT_I8,
    TPT_I16,
    TPT_I32,
    TPT_I64,
    TPT_U16,
    TPT_U32,
    TPT_U64,
    TPT_F16,
    TPT_BF16,
    TPT_F32,
    TPT_F64,
    TPT_C64,  /* two float32 */
    TPT_C128, /* two float64 */
    TPT_F8E4M3FN,
    TPT_F8E5M2,
    TPT_F8E4M3FNUZ,
    TPT_F8E5M2FNUZ,
    TPT_DTYPE_COUNT
} tpt_dtype_t;

TPT_API size_t tpt_dtype_size(tpt_dtype_t dtype);      /* bytes an element */
TPT_API const char *tpt_dtype_name(tpt_dtype_t dtype); /* as PyTorch's text: "float32", "bool", ... */

/* Highest rank of a tensor that the core takes; more is refused with a clear error. */
#define TPT_MAX_RANK 12

/* ---- the host's BLAS ---------------------------------------------------------------------------------------------- */

/* Products of matrices by Fortran's calling convention (sizes are 32-bit), and what sets how many threads a product of the
 * calling thread may use, giving the number before (0: as many as it likes). Programs of CPU plugins call it for their dots. */
typedef struct tpt_blas {
    void (*sgemm)(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a,
                  const int *lda, const float *b, const int *ldb, const float *beta, float *c, const int *ldc);
    void (*dgemm)(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a,
                  const int *lda, const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
    int (*threads_here)(int threads);
} tpt_blas_t;
/* Before the runtime is opened; the first that is whole stays. Without one, XLA's own dots do. */
TPT_API void tpt_blas_use(const tpt_blas_t *blas);

/* ---- the runtime and its devices ---------------------------------------------------------------------------------- */

/* Which plugin the next tpt_runtime_open opens: a path, or "null". The Python package resolves names (cpu, tpu, cuda) to paths.
 * TPT_FAILED_PRECONDITION once the runtime is open with another one. num_devices <= 0: TORCH_TPU_NUM_DEVICES decides. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_plugin_select(const char *path, int num_devices);
/* Opens the plugin at first use; later calls cost a load. All functions below that need a device call it themselves. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_runtime_open(void);
TPT_API bool tpt_runtime_is_open(void);
/* The process ends: what is being compiled or started is waited for, what has not begun never will. To be called before the C
 * library's exit handlers, in which a plugin takes itself apart. */
TPT_API void tpt_runtime_end(void);
TPT_API void tpt_runtime_empty_cache(void); /* gives memory that is kept for buffers to come back to the system, on CPU plugins */
TPT_API void tpt_runtime_close(void); /* for tests: drops all caches and the client; no storage may be alive */

/* Number of devices of the client, opening it if need be. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_device_count(int *out_count);
TPT_API const char *tpt_device_kind(int device);  /* e.g. "cpu", "TPU v5 lite"; borrowed; "" if closed */
TPT_API const char *tpt_platform_name(void);      /* "cpu", "tpu", "cuda"; "" if closed */
TPT_API const char *tpt_platform_version(void);
TPT_API const char *tpt_plugin_path(void);
TPT_API void tpt_plugin_api_version(int *out_major, int *out_minor);

/* Bytes on one device. `limit` is 0 where the plugin does not say; `in_use` then counts our own live buffers. */
typedef struct tpt_memory_stats {
    int64_t in_use, peak, limit, allocations, largest_free;
} tpt_memory_stats_t;
TPT_API TPT_MUST_USE tpt_status_t *tpt_device_memory(int device, tpt_memory_stats_t *out_stats);
TPT_API void tpt_device_memory_reset_peak(int device);

/* Waits until all work given to `device` (-1: every device) is done; returns the first error that is still unreported. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_device_synchronize(int device);

/* ---- storages ------------------------------------------------------------------------------------------------------
 * A storage owns one value: a node of the open graph, a PJRT buffer, or nothing yet (then it reads as zeros). The value has
 * a dtype and dims in memory order; its row-major elements are the storage's bytes. Tensors are windows on it. */

typedef struct tpt_storage tpt_storage_t;

/* A storage of `nbytes` without a value. dtype/dims are a hint of the tensor that makes it: product(dims) * size == nbytes. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_storage_new(int device, tpt_dtype_t dtype, int rank, const int64_t *dims,
                                                   tpt_storage_t **out_storage);
TPT_API void tpt_storage_retain(tpt_storage_t *storage);
TPT_API void tpt_storage_release(tpt_storage_t *storage);
/* A unique fake address: offsets add up, reading or writing through it faults. Stable for the storage's life. */
TPT_API void *tpt_storage_address(const tpt_storage_t *storage);
TPT_API int64_t tpt_storage_nbytes(const tpt_storage_t *storage);
TPT_API int tpt_storage_device(const tpt_storage_t *storage);
/* The living storage with exactly this address, borrowed; NULL if there is none. A slow search, for PyTorch's code that keeps
 * nothing but the pointer. */
TPT_API tpt_storage_t *tpt_storage_find(const void *address);
/* Changes the byte size; the common prefix of bytes is kept. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_storage_resize(tpt_storage_t *storage, int64_t nbytes);
/* Replaces the whole value by host data (row-major, dense; copied before the call returns). */
TPT_API TPT_MUST_USE tpt_status_t *tpt_storage_from_host(tpt_storage_t *storage, tpt_dtype_t dtype, int rank,
                                                         const int64_t *dims, const void *data);
/* Copies bytes [offset, offset + nbytes) to `dst`: cuts the graph, waits, raises pending errors. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_storage_to_host(tpt_storage_t *storage, int64_t offset, int64_t nbytes, void *dst);
/* Makes `dst` (same nbytes, any device) hold src's value. Asynchronous. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_storage_copy(tpt_storage_t *dst, tpt_storage_t *src);

/* ---- op calls ------------------------------------------------------------------------------------------------------ */

/* What a call's argument is. Numbers (Scalar and float of the schema, and 0-d cpu tensors) are run-time operands: they never
 * make a new program, unless the row names them as static. Ints, bools, strings and dtypes are part of the plan's key. */
typedef enum tpt_arg_kind {
    TPT_ARG_NONE = 0, /* None, or an absent optional */
    TPT_ARG_TENSOR,
    TPT_ARG_TENSORS, /* list; an element with storage == NULL is None */
    TPT_ARG_NUMBER,
    TPT_ARG_NUMBERS,
    TPT_ARG_INT,
    TPT_ARG_INTS,
    TPT_ARG_BOOL,
    TPT_ARG_BOOLS,
    TPT_ARG_STRING,
    TPT_ARG_DTYPE, /* ScalarType; in `i` as tpt_dtype_t */
    TPT_ARG_RNG    /* Generator: seed and offset, run-time operands */
} tpt_arg_kind_t;

/* One tensor argument, borrowed. */
typedef struct tpt_tensor {
    tpt_storage_t *storage;
    const int64_t *sizes, *strides; /* elements of `dtype` */
    int64_t offset;                 /* storage offset, elements of `dtype` */
    int32_t rank;
    uint8_t dtype; /* tpt_dtype_t */
    uint8_t conj, neg; /* lazy bits */
} tpt_tensor_t;

/* A Python number or a 0-d cpu tensor. `dtype` is TPT_I64, TPT_F64, TPT_BOOL or TPT_C128 for a Python number
 * (`wrapped` = true), the tensor's own for a 0-d cpu tensor (`wrapped` = false). */
typedef struct tpt_number {
    uint8_t dtype;
    bool wrapped;
    union {
        int64_t i; /* bool and integers */
        double f[2]; /* floating; complex: re, im */
    } v;
} tpt_number_t;

typedef struct tpt_arg {
    uint8_t kind; /* tpt_arg_kind_t */
    int32_t count; /* of a list */
    union {
        tpt_tensor_t tensor;
        const tpt_tensor_t *tensors;
        tpt_number_t number;
        const tpt_number_t *numbers;
        int64_t i; /* INT, BOOL, DTYPE */
        const int64_t *ints; /* INTS, BOOLS */
        struct {
            const char *text; /* `count` bytes */
        } string;
        struct {
            uint64_t seed, offset;
        } rng;
    } u;
} tpt_arg_t;

/* What meta kernels say of one fresh output. Strides of a dense permuted tensor (channels_last, say) are kept. */
typedef struct tpt_spec {
    uint8_t dtype;
    int32_t rank;
    int64_t sizes[TPT_MAX_RANK], strides[TPT_MAX_RANK];
} tpt_spec_t;

/* -- rows: what the core can lower. */
typedef enum tpt_row_flag {
    TPT_ROW_NOMETA = 1 << 0,  /* outputs are typed by the lowering itself; no meta kernel is run */
    TPT_ROW_RNG = 1 << 1,     /* takes random numbers: the glue appends an RNG argument named "generator" if the schema has none */
    TPT_ROW_DYNAMIC = 1 << 2, /* size of dimension 0 of the outputs is known only after running: one host read */
    TPT_ROW_INDEX = 1 << 3,   /* has user-given indices: yields an out-of-range flag */
    TPT_ROW_INDEX_RUNTIME = 1 << 4, /* with it: cpu raises RuntimeError for a bad index of this op, not IndexError */
    TPT_ROW_HOST = 1 << 5,    /* host routine: inputs are read, PyTorch's cpu kernel runs, outputs are put back; no lowering */
    TPT_ROW_DOT = 1 << 7,     /* has dots or convolutions: the framework's precision setting is asked before each call */
    TPT_ROW_INTEGERS = 1 << 9, /* takes integers, as other accelerators do, where cpu's kernel refuses them */
    TPT_ROW_CHANNELS_LAST = 1 << 11, /* outputs of 4 and 5 dims are channels_last where an argument is; meta kernels forget that */
    TPT_ROW_KEEPS_SHAPE = 1 << 13, /* its out= form keeps a target of another shape that has as many elements */
    TPT_ROW_GLUE = 1 << 8,    /* the glue calls it from a kernel of its own */
    TPT_ROW_HOST_CPU = 1 << 6 /* the same on plugins whose device is the host's cpu, where it is faster; a lowering elsewhere */
} tpt_row_flag_t;
typedef struct tpt_row tpt_row_t;
TPT_API size_t tpt_row_count(void);
TPT_API const tpt_row_t *tpt_row_at(size_t i);
TPT_API const tpt_row_t *tpt_row_find(const char *name);
TPT_API const char *tpt_row_name(const tpt_row_t *row); /* "add.Tensor": the ATen overload it stands for */
TPT_API uint32_t tpt_row_flags(const tpt_row_t *row);
TPT_API bool tpt_row_on_host(const tpt_row_t *row); /* is it a host routine on the open plugin? */

/* -- bound ops: a row seen through one schema (functional, in-place or out=). Made once at load, alive for ever. */
typedef struct tpt_param {
    const char *name;
    bool is_write; /* (a!) in the schema */
} tpt_param_t;
typedef struct tpt_op tpt_op_t;
/* Names and params are copied. `fresh_outs` says whether the schema returns new tensors (false: only written params). */
TPT_API TPT_MUST_USE tpt_status_t *tpt_op_bind(const tpt_row_t *row, const char *schema_name, int nparams,
                                               const tpt_param_t *params, bool fresh_outs, tpt_op_t **out_op);

/* -- one call. `tpt_call_t` lives on the caller's stack; every successful tpt_call_begin is ended by tpt_call_end.
 *
 *     tpt_call_t call;
 *     tpt_call_begin(&call, op, args, nargs, device)       finds the plan by key (no compile, no PyTorch)
 *     if (!call.plan && needs meta) run the meta kernel, then tpt_call_plan(&call, specs, nspecs)
 *     tpt_call_run(&call, out_storages)                     records; in strict mode also cuts: compiles on a miss, executes
 *     tpt_call_end(&call)
 *
 * After a run, call.nouts fresh outputs are described by tpt_call_spec(&call, k); out_storages[k] is the caller's to release.
 * Written params were updated in their storages. */
typedef struct tpt_plan tpt_plan_t;
#define TPT_CALL_INLINE_KEY 256 /* several tensors of the largest rank: the usual call takes nothing from the heap */
typedef struct tpt_call {
    const tpt_op_t *op;
    const tpt_arg_t *args;
    int nargs, device;
    tpt_plan_t *plan; /* NULL: a miss */
    int nouts;        /* valid once plan is set; may grow smaller specs after a DYNAMIC run */
    uint64_t hash;
    uint64_t *key; /* words; points to inline_key or to the heap */
    uint32_t key_words, key_capacity;
    uint64_t *numbers; /* run-time operands collected while making the key */
    uint32_t nnumbers, numbers_capacity;
    const char *where;       /* Python "file:line" for late errors, or NULL; borrowed for the call */
    int64_t dynamic_size[4]; /* after a DYNAMIC run: size of dimension 0 of each output */
    uint64_t inline_key[TPT_CALL_INLINE_KEY], inline_numbers[TPT_CALL_INLINE_KEY];
} tpt_call_t;
TPT_API TPT_MUST_USE tpt_status_t *tpt_call_begin(tpt_call_t *call, const tpt_op_t *op, const tpt_arg_t *args, int nargs,
                                                  int device);
/* Needs the call no specs: is it surely valid, and typed by its own lowering? */
TPT_API bool tpt_call_is_plain(const tpt_call_t *call);
/* `specs` may be NULL for NOMETA rows and plain calls. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_call_plan(tpt_call_t *call, const tpt_spec_t *specs, int nspecs);
TPT_API const tpt_spec_t *tpt_call_spec(const tpt_call_t *call, int k);
TPT_API TPT_MUST_USE tpt_status_t *tpt_call_run(tpt_call_t *call, tpt_storage_t **out_storages);
TPT_API void tpt_call_end(tpt_call_t *call);

/* Results' types that were found out for such a call before, by whatever process; false: not known. `tpt_call_remember` keeps
 * them. Nothing is known before tpt_recall_open has said for which version of PyTorch. */
TPT_API void tpt_recall_open(const char *framework);
TPT_API bool tpt_call_recall(const tpt_call_t *call, tpt_spec_t *specs, int room, int *out_count);
TPT_API void tpt_call_remember(const tpt_call_t *call, const tpt_spec_t *specs, int count);

/* -- when graphs are cut (thread-local). Strict cuts after every op; inside push/pop ops are recorded and cut together. */
typedef enum tpt_mode { TPT_MODE_STRICT = 0, TPT_MODE_DEBUG = 1, TPT_MODE_FUSED = 2 } tpt_mode_t;
TPT_API tpt_mode_t tpt_mode_get(void);
TPT_API void tpt_mode_set(tpt_mode_t mode);
TPT_API bool tpt_mode_defers(void); /* are ops of this thread held back just now? */
/* Nestable; a composite op records its parts as one program. The outermost pop cuts unless the mode is fused. */
TPT_API void tpt_defer_push(void);
TPT_API TPT_MUST_USE tpt_status_t *tpt_defer_pop(int device);
/* Why a graph was cut. */
typedef enum tpt_cut_reason {
    TPT_CUT_STRICT = 0, /* strict or debug mode: after the op */
    TPT_CUT_COMPOSITE,  /* the end of an op that was recorded by its parts */
    TPT_CUT_HOST_READ,  /* a value was read, or copied to another device */
    TPT_CUT_DYNAMIC,    /* an op whose result's size depends on data */
    TPT_CUT_SYNCHRONIZE,
    TPT_CUT_EVENT, /* a stream or an event */
    TPT_CUT_MODE,  /* the eager mode changed */
    TPT_CUT_LOOP,  /* the end of a loop's body */
    TPT_CUT_OVERLAP, /* within what repeats from read to read, so that it runs while more is recorded */
    TPT_CUT_NODES, /* the graph had grown to its limit: in nodes, */
    TPT_CUT_BYTES, /* in bytes of results, */
    TPT_CUT_AGE,   /* in time */
    TPT_CUT_REASONS
} tpt_cut_reason_t;
TPT_API const char *tpt_cut_reason_name(tpt_cut_reason_t why);
/* Cuts the open graph of a device, if any. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_graph_cut(int device, tpt_cut_reason_t why);

/* -- what was cut (explain.c): while on, the last TPT_EXPLAIN_NOTES cuts of all threads are noted */
#define TPT_EXPLAIN_NOTES 65536
typedef enum tpt_cut_way { TPT_CUT_DROPPED = 0, TPT_CUT_BY_NODE, TPT_CUT_HIT, TPT_CUT_COMPILED, TPT_CUT_FAILED, TPT_CUT_COMPILING } tpt_cut_way_t;
typedef struct tpt_cut_note {
    int64_t when_ns;       /* monotonic, at the end of the cut */
    int64_t taken_ns;      /* look-up, compile if any, and the execute call */
    int64_t execute_ns;    /* of it the plugin's execute call */
    int64_t result_bytes;  /* of the values that left the program */
    int64_t temporary_bytes; /* that the compiled program needs while it runs; -1: not told */
    uint64_t program;      /* the program's name in TORCH_TPU_DUMP; without a program, a hash of the graph */
    int32_t device, nodes, inputs, results, donated, gathers, views;
    uint8_t why, way;      /* tpt_cut_reason_t, tpt_cut_way_t */
    char first[48], last[48]; /* names of the first and the last op */
} tpt_cut_note_t;
TPT_API void tpt_explain_start(void);
TPT_API void tpt_explain_stop(void);
/* Copies at most `max` notes, oldest first; returns how many there are. */
TPT_API size_t tpt_explain_notes(tpt_cut_note_t *out_notes, size_t max);

/* ---- settings, counters -------------------------------------------------------------------------------------------- */

/* Of float32 dots and convolutions. What is set counts; else the framework's own wish; else what suits the plugin: full float32,
 * but bfloat16 products on TPUs, whose matrix units have nothing else. UNSET takes a setting or a wish back. */
typedef enum tpt_precision {
    TPT_PRECISION_UNSET = -1,
    TPT_PRECISION_DEFAULT = 0,
    TPT_PRECISION_HIGH = 1,
    TPT_PRECISION_HIGHEST = 2
} tpt_precision_t;
TPT_API void tpt_precision_set(tpt_precision_t precision);
TPT_API void tpt_precision_wish(tpt_precision_t precision);
TPT_API tpt_precision_t tpt_precision_chosen(void); /* what is set, or UNSET */
TPT_API tpt_precision_t tpt_precision_get(void);    /* what counts */
TPT_API bool tpt_precision_matters(void); /* false on processors: their products are full float32 whatever is asked */
TPT_API void tpt_index_checks_set(bool on);

#define TPT_COUNTERS(X)                                                                                                    \
    X(compiles) X(executes) X(plan_hits) X(plan_misses) X(program_hits) X(program_misses) X(cache_hits_memory)             \
    X(cache_hits_disk) X(cache_hits_remote) X(h2d_bytes) X(d2h_bytes) X(h2d_copies) X(d2h_copies) X(host_waits)            \
    X(fallbacks) X(host_routines) X(decompositions) X(donations) X(view_gathers) X(number_uploads) X(compile_ns)           \
    X(cache_writes) X(cache_waits) X(cache_bad_entries) X(cache_evictions) X(cache_load_ns) X(cache_hit_ns) \
    X(program_drops)
typedef enum tpt_counter {
#define TPT_COUNTER_ENUM(name) TPT_COUNTER_##name,
    TPT_COUNTERS(TPT_COUNTER_ENUM)
#undef TPT_COUNTER_ENUM
        TPT_COUNTER_COUNT
} tpt_counter_t;
TPT_API const char *tpt_counter_name(tpt_counter_t counter);
TPT_API int64_t tpt_counter_get(tpt_counter_t counter);
TPT_API void tpt_counter_add(tpt_counter_t counter, int64_t n);
TPT_API void tpt_counters_reset(void);
/* Waits for the compilers that work in the background, so that the counters tell of all ops until now. */
TPT_API void tpt_counters_settle(void);

/* A text that the user should be warned of, once each; false when there is none (one load). */
TPT_API bool tpt_notice_take(char *out, size_t room);

/* ---- compile cache -------------------------------------------------------------------------------------------------- */

TPT_API const char *tpt_cache_dir(void); /* as the environment says now; "" when there is none; borrowed until the thread's next call */
/* Waits until all that was compiled has been written. */
TPT_API void tpt_cache_flush(void);
/* Is this a whole and undamaged entry? TPT_DATA_LOSS says what is wrong. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_cache_check(const void *data, size_t bytes);
typedef struct tpt_cache_pruned {
    int64_t removed, removed_bytes, kept, kept_bytes;
} tpt_cache_pruned_t;
/* Removes the longest unused entries of a cache directory until the rest fits. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_cache_prune(const char *dir, int64_t most_bytes, tpt_cache_pruned_t *out);

/* The StableHLO text of one call as one program, without running it; `out_text` is freed with tpt_text_free. */
TPT_API TPT_MUST_USE tpt_status_t *tpt_call_text(tpt_call_t *call, char **out_text);
TPT_API void tpt_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
