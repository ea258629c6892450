/* ir_internal.h - how src/ir keeps a program. Not for other rooms.
 *
 * Values and nodes are records in the arena, reached through pointer tables, so that a `const tpt_type_t *` handed out stays
 * valid while the program grows. Values are numbered in the order they are made; the results of a node are consecutive. A
 * block (the main function or a region) links its nodes in order. Each op's rule is written once, as an `infer` function: the
 * builder types new nodes with it, the verifier runs it again over the finished program. */
#ifndef TPT_IR_INTERNAL_H
#define TPT_IR_INTERNAL_H

#include "ir.h"

#define TPT_IR_MAX_VALUES (1u << 22)
#define TPT_IR_MAX_BYTES ((size_t)1 << 30)
#define TPT_TYPE_TEXT 256

typedef enum tpt_kind {
    TPT_KIND_CONST = 0,
    TPT_KIND_IOTA,
    TPT_KIND_UNARY,
    TPT_KIND_BINARY,
    TPT_KIND_COMPARE,
    TPT_KIND_SELECT,
    TPT_KIND_CONVERT,
    TPT_KIND_BITCAST,
    TPT_KIND_BROADCAST,
    TPT_KIND_RESHAPE,
    TPT_KIND_TRANSPOSE,
    TPT_KIND_SLICE,
    TPT_KIND_DYNAMIC_SLICE,
    TPT_KIND_DYNAMIC_UPDATE,
    TPT_KIND_PAD,
    TPT_KIND_CONCAT,
    TPT_KIND_REVERSE,
    TPT_KIND_REDUCE,
    TPT_KIND_REDUCE_WINDOW,
    TPT_KIND_SELECT_SCATTER,
    TPT_KIND_GATHER,
    TPT_KIND_SCATTER,
    TPT_KIND_DOT,
    TPT_KIND_CONV,
    TPT_KIND_CHOLESKY,
    TPT_KIND_TRIANGULAR,
    TPT_KIND_FFT,
    TPT_KIND_SORT,
    TPT_KIND_WHILE,
    TPT_KIND_IF,
    TPT_KIND_RNG,
    TPT_KIND_BARRIER,
    TPT_KIND_SET_SIZE,
    TPT_KIND_CUSTOM_CALL,
    TPT_KIND_COUNT
} tpt_kind_t;

typedef struct tpt_value {
    tpt_type_t type;
    int32_t node;  /* that makes it; -1: an argument of `block` */
    int32_t block; /* where it lives */
    int32_t index; /* which result or argument */
} tpt_value_t;

/* Attributes: `num` and `ints` mean what the kind's infer function says; larger ones are a struct behind `attr`. */
typedef struct tpt_node {
    uint8_t kind, sub; /* tpt_kind_t; the enumerator of a unary, binary, compare, fft op */
    bool effect;       /* must be printed even if nothing uses it */
    int32_t block, next;
    int32_t nin, nout, nregions, nints;
    tpt_val_t *in;
    tpt_val_t first; /* first result */
    tpt_region_t regions[2];
    const int64_t *ints[3]; /* each nints long, or NULL */
    int64_t num;
    const void *attr;
} tpt_node_t;

typedef struct tpt_block {
    int32_t parent;      /* -1: main */
    int32_t owner;       /* node that took the region; -1: none yet */
    int32_t first, last; /* nodes; -1: none */
    bool open, effect;
    int32_t nargs, nresults;
    tpt_val_t *args, *results;
    int32_t *aliases; /* main only: result that the argument may become, or -1 */
    size_t args_capacity, aliases_capacity, results_capacity;
} tpt_block_t;

struct tpt_ir {
    tpt_arena_t arena;
    tpt_status_t *error;
    tpt_value_t **values;
    tpt_node_t **nodes;
    tpt_block_t **blocks; /* 0: main */
    size_t nvalues, nnodes, nblocks, values_capacity, nodes_capacity, blocks_capacity;
    int32_t current; /* the open block that new nodes go to */
    tpt_precision_t precision;
    bool guarded_minmax, host_code, has_kernels, has_blas, alone;
    tpt_val_t last_gemm; /* result of the last call of tpt_gemm; 0: there was none (no call is the first value) */
};

/* A constant: rank 0, or rank 1 with `n` elements. One of the two arrays is set: ints for integers and bool. */
typedef struct tpt_attr_const {
    int32_t n;
    const int64_t *ints;
    const double *floats;
} tpt_attr_const_t;

typedef struct tpt_attr_dot {
    tpt_ir_dot_t dot;
    tpt_precision_t precision;
} tpt_attr_dot_t;

typedef struct tpt_attr_conv {
    tpt_ir_conv_t conv;
    tpt_precision_t precision;
} tpt_attr_conv_t;

/* Bits of `num` of a triangular solve. */
enum { TPT_TRI_LEFT = 1, TPT_TRI_LOWER = 2, TPT_TRI_UNIT = 4, TPT_TRI_TRANSPOSE_SHIFT = 3 };

/* What a new node is made of; everything is copied. */
typedef struct tpt_emit {
    tpt_kind_t kind;
    int sub;
    int nin;
    const tpt_val_t *in;
    int nout;
    const tpt_type_t *want; /* nout types, for the kinds whose result type is not implied by operands and attributes */
    int nints;
    const int64_t *ints[3];
    int64_t num;
    const void *attr;
    size_t attr_bytes;
    int nregions;
    tpt_region_t regions[2];
    bool effect;
} tpt_emit_t;

/* Makes the node; out gets nout values, or TPT_VAL_NONE each after an error. */
void tpt_ir_emit(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out);
tpt_val_t tpt_ir_emit1(tpt_ir_t *ir, const tpt_emit_t *emit);
tpt_val_t tpt_ir_error(tpt_ir_t *ir, const char *fmt, ...) TPT_PRINTF(2, 3); /* TPT_INVALID_ARGUMENT, sticky */
/* False (and a sticky error) unless v is a value; builders that look at a type before emitting call it first. */
bool tpt_ir_good(tpt_ir_t *ir, tpt_val_t v);
bool tpt_ir_dead(tpt_ir_t *ir); /* an error was met: do nothing */
/* The dot as a call of the runtime's routine (gemm.c), its result of `type`; TPT_VAL_NONE: XLA's will do. */
tpt_val_t tpt_ir_gemm(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d, tpt_type_t type);
/* If a transposition made v, the runtime's routine is to do it (as of tpt_ir_turn). */
void tpt_ir_turn_made(tpt_ir_t *ir, tpt_val_t v);
/* An elementwise op of turned values, done on what was turned (turned.c). False: it is to be emitted as it is. */
bool tpt_ir_emit_turned(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out);
/* A sum of two padded values whose parts lie side by side, as one padded value (padded.c). False: as above. */
bool tpt_ir_emit_padded(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out);
bool tpt_ir_in_scope(const tpt_ir_t *ir, int32_t value_block, int32_t user_block);

/* ---- rules: types[] holds the wanted or stored result types on entry, the implied ones on return -------------------- */
typedef tpt_status_t *(*tpt_infer_fn_t)(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
TPT_MUST_USE tpt_status_t *tpt_ir_infer(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
TPT_MUST_USE tpt_status_t *tpt_ir_check_type(const tpt_type_t *type);
const char *tpt_ir_kind_name(const tpt_node_t *node); /* "add", "reduce_window", ... */
tpt_status_t *tpt_infer_elementwise(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_leaf(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_shape(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_reduce(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_reduce_window(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_select_scatter(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_gather(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_scatter(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_dot(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_conv(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_linalg(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);
tpt_status_t *tpt_infer_control(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types);

static inline const tpt_node_t *tpt_maker(const tpt_ir_t *ir, tpt_val_t v) { /* NULL: an argument */
    const int32_t node = ir->values[v]->node;
    return node >= 0 ? ir->nodes[node] : NULL;
}
static inline const tpt_type_t *tpt_in_type(const tpt_ir_t *ir, const tpt_node_t *node, int i) {
    return &ir->values[node->in[i]]->type;
}
/* Region k of the node must take `nargs` arguments and give `nresults`; NULL types are not looked at. */
TPT_MUST_USE tpt_status_t *tpt_ir_check_region(const tpt_ir_t *ir, const tpt_node_t *node, int k, int nargs,
                                               const tpt_type_t *args, int nresults, const tpt_type_t *results);
/* Strictly: all in [0, limit), no two equal. */
TPT_MUST_USE tpt_status_t *tpt_ir_check_dims(const char *what, int n, const int64_t *dims, int limit);
/* Size of one windowed dim, < 0 if the window is malformed or too large. */
int64_t tpt_ir_window_dim(int64_t size, int64_t window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                          int64_t pad_low, int64_t pad_high);
const char *tpt_type_text(const tpt_type_t *type, char text[TPT_TYPE_TEXT]); /* "float32[2, 3]", for messages */

/* ---- printing ------------------------------------------------------------------------------------------------------- */
const char *tpt_dtype_mlir(tpt_dtype_t dtype); /* "f32", "i1", "complex<f32>" */
void tpt_print_type(tpt_str_t *out, const tpt_type_t *type);
void tpt_print_const(tpt_str_t *out, const tpt_type_t *type, const tpt_attr_const_t *attr); /* the text after "dense" */
void tpt_print_attrs(tpt_str_t *out, const tpt_ir_t *ir, const tpt_node_t *node);           /* "a = 1, b = 2", or nothing */
/* Bit pattern of the dtype's nearest value to x (ties to even; overflow to infinity, or to NaN where there is none). */
uint64_t tpt_float_bits(tpt_dtype_t dtype, double x);
/* Smallest normal and largest finite number of a real floating dtype. */
void tpt_float_limits(tpt_dtype_t dtype, double *out_tiny, double *out_max);

#define TPT_BAD(...) tpt_status_make(TPT_INTERNAL, __VA_ARGS__)

/* build_float8.c: float32 -> an 8-bit float */
tpt_val_t tpt_ir_to_float8(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype);
/* build_complex.c */
tpt_val_t tpt_ir_complex_divide(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y);
tpt_val_t tpt_ir_complex_sqrt(tpt_ir_t *ir, tpt_val_t x);

#endif
