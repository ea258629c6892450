/* ir.h - the door of src/ir: programs in SSA form, with StableHLO's ops, built by lowering functions and printed as text.
 *
 * A program is a main function with arguments, nodes and results. `tpt_val_t` names one SSA value. The builder infers result
 * types, broadcasts operands of elementwise ops to their common shape (numpy's rule), and keeps the FIRST error: after it every
 * builder call returns TPT_VAL_NONE and does nothing, so lowering code checks once, at the end (tpt_ir_status).
 * Everything lives in the program's arena. Not thread-safe: one thread builds one program. */
#ifndef TPT_IR_IR_H
#define TPT_IR_IR_H

#include "base/arena.h"
#include "base/str.h"
#include "base/status.h"

typedef struct tpt_ir tpt_ir_t;
typedef int32_t tpt_val_t;
#define TPT_VAL_NONE (-1)

typedef struct tpt_type {
    uint8_t dtype; /* tpt_dtype_t */
    int32_t rank;
    int64_t dims[TPT_MAX_RANK];
} tpt_type_t;

tpt_type_t tpt_type_make(tpt_dtype_t dtype, int rank, const int64_t *dims);
int64_t tpt_type_numel(const tpt_type_t *type);
bool tpt_type_equal(const tpt_type_t *a, const tpt_type_t *b);
bool tpt_dtype_is_float(tpt_dtype_t d);   /* real floating, half and fp8 kinds included */
bool tpt_dtype_is_complex(tpt_dtype_t d);
bool tpt_dtype_is_int(tpt_dtype_t d);     /* signed or unsigned, not bool */
bool tpt_dtype_is_signed(tpt_dtype_t d);
tpt_dtype_t tpt_dtype_real(tpt_dtype_t d);    /* C64 -> F32, C128 -> F64, else d */
tpt_dtype_t tpt_dtype_complex(tpt_dtype_t d); /* F32 (and halves) -> C64, F64 -> C128 */
tpt_dtype_t tpt_dtype_opmath(tpt_dtype_t d);  /* F16, BF16, fp8 -> F32, else d */

/* ---- life ---------------------------------------------------------------------------------------------------------- */
TPT_MUST_USE tpt_status_t *tpt_ir_new(tpt_ir_t **out_ir);
void tpt_ir_free(tpt_ir_t *ir);
tpt_arena_t *tpt_ir_arena(tpt_ir_t *ir);
/* The sticky error, borrowed; NULL when fine. tpt_ir_fail sets it (the first stays; takes ownership), gives TPT_VAL_NONE. */
const tpt_status_t *tpt_ir_status(const tpt_ir_t *ir);
tpt_val_t tpt_ir_fail(tpt_ir_t *ir, tpt_status_t *status);
/* Moves the error to the caller and clears it. */
TPT_MUST_USE tpt_status_t *tpt_ir_take_status(tpt_ir_t *ir);
const tpt_type_t *tpt_ir_type(const tpt_ir_t *ir, tpt_val_t v); /* of TPT_VAL_NONE: a static rank-0 NONE type */
tpt_dtype_t tpt_ir_dtype(const tpt_ir_t *ir, tpt_val_t v);
int tpt_ir_rank(const tpt_ir_t *ir, tpt_val_t v);
int64_t tpt_ir_dim(const tpt_ir_t *ir, tpt_val_t v, int d); /* d < 0 counts from the end */
int64_t tpt_ir_numel(const tpt_ir_t *ir, tpt_val_t v);

/* Arguments and results of main. `alias` >= 0: the argument may be donated to result number `alias` (tf.aliasing_output). */
tpt_val_t tpt_ir_arg(tpt_ir_t *ir, tpt_type_t type);
void tpt_ir_arg_alias(tpt_ir_t *ir, int arg, int result);
/* Changes the type of an argument whose length was not known when it was made (packs of run-time numbers). Users were typed
 * with the old one; the verifier checks them against the new one. */
void tpt_ir_arg_retype(tpt_ir_t *ir, int arg, tpt_type_t type);
void tpt_ir_result(tpt_ir_t *ir, tpt_val_t v); /* appends a result */
int64_t tpt_ir_largest(const tpt_ir_t *ir); /* elements of the program's largest value */
int tpt_ir_nargs(const tpt_ir_t *ir);
int tpt_ir_nresults(const tpt_ir_t *ir);

/* Checks the whole program against the rules of each op (types, attributes, regions, dominance, no unbounded dims). Plugins
 * abort the process on some malformed programs, so every program is verified before it is handed over. */
TPT_MUST_USE tpt_status_t *tpt_ir_verify(const tpt_ir_t *ir);
/* StableHLO text of the module; `name` is the module's. Only nodes that results (or other effects) need are printed. */
TPT_MUST_USE tpt_status_t *tpt_ir_print(const tpt_ir_t *ir, const char *name, tpt_str_t *out);

/* ---- leaves -------------------------------------------------------------------------------------------------------- */
tpt_val_t tpt_ir_const_f(tpt_ir_t *ir, tpt_dtype_t dtype, double value); /* rank 0; any dtype: converted; inf and nan fine */
tpt_val_t tpt_ir_const_i(tpt_ir_t *ir, tpt_dtype_t dtype, int64_t value);
tpt_val_t tpt_ir_full_f(tpt_ir_t *ir, tpt_type_t type, double value); /* splat */
tpt_val_t tpt_ir_full_i(tpt_ir_t *ir, tpt_type_t type, int64_t value);
tpt_val_t tpt_ir_const_ints(tpt_ir_t *ir, tpt_dtype_t dtype, int n, const int64_t *values);  /* rank 1 */
tpt_val_t tpt_ir_const_floats(tpt_ir_t *ir, tpt_dtype_t dtype, int n, const double *values); /* rank 1 */
tpt_val_t tpt_ir_iota(tpt_ir_t *ir, tpt_type_t type, int dim);
/* Smallest and largest of a dtype: -inf/+inf for floats, false/true for bool. */
tpt_val_t tpt_ir_lowest(tpt_ir_t *ir, tpt_dtype_t dtype);
tpt_val_t tpt_ir_highest(tpt_ir_t *ir, tpt_dtype_t dtype);

/* ---- elementwise ---------------------------------------------------------------------------------------------------
 * X(enumerator, stablehlo name). Unary ops keep type except as noted in tpt_ir_unary's comment. */
#define TPT_IR_UNARY_OPS(X)                                                                                                \
    X(ABS, "abs") X(CBRT, "cbrt") X(CEIL, "ceil") X(CLZ, "count_leading_zeros") X(COS, "cosine") X(EXP, "exponential")     \
    X(EXPM1, "exponential_minus_one") X(FLOOR, "floor") X(IMAG, "imag") X(IS_FINITE, "is_finite") X(LOG, "log")            \
    X(LOG1P, "log_plus_one") X(LOGISTIC, "logistic") X(NEG, "negate") X(NOT, "not") X(POPCNT, "popcnt") X(REAL, "real")    \
    X(ROUND, "round_nearest_afz") X(ROUND_EVEN, "round_nearest_even") X(RSQRT, "rsqrt") X(SIGN, "sign") X(SIN, "sine")     \
    X(SQRT, "sqrt") X(TAN, "tan") X(TANH, "tanh")
#define TPT_IR_BINARY_OPS(X)                                                                                               \
    X(ADD, "add") X(AND, "and") X(ATAN2, "atan2") X(COMPLEX, "complex") X(DIV, "divide") X(MAX, "maximum")                 \
    X(MIN, "minimum") X(MUL, "multiply") X(OR, "or") X(POW, "power") X(REM, "remainder") X(SHL, "shift_left")              \
    X(SHR_ARITH, "shift_right_arithmetic") X(SHR_LOGIC, "shift_right_logical") X(SUB, "subtract") X(XOR, "xor")
typedef enum tpt_ir_unary_op {
#define TPT_IR_ENUM(id, text) TPT_IR_##id,
    TPT_IR_UNARY_OPS(TPT_IR_ENUM) TPT_IR_UNARY_COUNT
} tpt_ir_unary_op_t;
typedef enum tpt_ir_binary_op { TPT_IR_BINARY_OPS(TPT_IR_ENUM) TPT_IR_BINARY_COUNT } tpt_ir_binary_op_t;
#undef TPT_IR_ENUM
typedef enum tpt_ir_cmp { TPT_IR_EQ, TPT_IR_NE, TPT_IR_LT, TPT_IR_LE, TPT_IR_GT, TPT_IR_GE } tpt_ir_cmp_t;

/* ABS of complex, REAL and IMAG give the real dtype; IS_FINITE gives bool. TAN is printed as sine/cosine if need be: every
 * printed op must be accepted by StableHLO 1.13 plugins. */
tpt_val_t tpt_ir_unary(tpt_ir_t *ir, tpt_ir_unary_op_t op, tpt_val_t x);
/* Operands must share a dtype (shapes broadcast). MAX and MIN propagate NaN. On bool: ADD = or, MUL = and as StableHLO says. */
tpt_val_t tpt_ir_binary(tpt_ir_t *ir, tpt_ir_binary_op_t op, tpt_val_t x, tpt_val_t y);
tpt_val_t tpt_ir_compare(tpt_ir_t *ir, tpt_ir_cmp_t cmp, tpt_val_t x, tpt_val_t y); /* bool; unordered rules of IEEE */
tpt_val_t tpt_ir_select(tpt_ir_t *ir, tpt_val_t cond, tpt_val_t on_true, tpt_val_t on_false); /* all three broadcast */
/* PyTorch's casts: float -> int truncates, any -> bool is `!= 0`, complex -> real drops imag. No-op if equal. */
tpt_val_t tpt_ir_convert(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype);
/* stablehlo.bitcast_convert, for any pair of dtypes; a last dim may appear or go. */
tpt_val_t tpt_ir_bitcast(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype);

/* ---- shape --------------------------------------------------------------------------------------------------------- */
tpt_val_t tpt_ir_broadcast_to(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims); /* numpy's rule: aligned at the end */
/* dim_map[i] = dimension of the result that dim i of x becomes. */
tpt_val_t tpt_ir_broadcast_in_dim(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims, const int64_t *dim_map);
tpt_val_t tpt_ir_reshape(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims);
tpt_val_t tpt_ir_transpose(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm); /* result dim i = x dim perm[i] */
/* The same as a step of its own, which nothing is fused with: where the plugin can call the runtime's C routine it is ten times as
 * fast. Elsewhere, or for few elements, tpt_ir_transpose. */
tpt_val_t tpt_ir_turn(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm);
/* What a reduction of x over `dims` may be done on in its place, over as many `out_dims`: what a turned x was before its turn,
 * where the result is the same; else x and `dims`. */
tpt_val_t tpt_ir_before_reduce(const tpt_ir_t *ir, tpt_val_t x, int ndims, const int64_t *dims, int64_t *out_dims);
/* strides NULL: ones. Limits are exclusive. */
tpt_val_t tpt_ir_slice(tpt_ir_t *ir, tpt_val_t x, const int64_t *starts, const int64_t *limits, const int64_t *strides);
tpt_val_t tpt_ir_slice_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t start, int64_t limit); /* one dim, stride 1 */
/* starts: `rank` rank-0 integer values of one dtype. */
tpt_val_t tpt_ir_dynamic_slice(tpt_ir_t *ir, tpt_val_t x, const tpt_val_t *starts, const int64_t *sizes);
tpt_val_t tpt_ir_dynamic_update_slice(tpt_ir_t *ir, tpt_val_t x, tpt_val_t update, const tpt_val_t *starts);
/* value: rank 0 of x's dtype. Negative low/high crop. interior NULL: zeros. */
tpt_val_t tpt_ir_pad(tpt_ir_t *ir, tpt_val_t x, tpt_val_t value, const int64_t *low, const int64_t *high,
                     const int64_t *interior);
tpt_val_t tpt_ir_concat(tpt_ir_t *ir, int n, const tpt_val_t *xs, int dim);
tpt_val_t tpt_ir_reverse(tpt_ir_t *ir, tpt_val_t x, int ndims, const int64_t *dims);
/* Conveniences built on the above. */
tpt_val_t tpt_ir_unsqueeze(tpt_ir_t *ir, tpt_val_t x, int dim); /* dim in [-rank-1, rank] */
tpt_val_t tpt_ir_squeeze(tpt_ir_t *ir, tpt_val_t x, int dim);   /* that dim must be 1 */
tpt_val_t tpt_ir_flatten(tpt_ir_t *ir, tpt_val_t x);            /* rank 1 */

/* ---- regions -------------------------------------------------------------------------------------------------------
 * tpt_ir_region_begin opens a block; arguments are added; values are built as usual; tpt_ir_region_end closes it with its
 * results and gives the region, to be handed to exactly one op below. Regions nest; they may use outer values (only `while`,
 * `if` and `case` may: XLA demands that reducers and comparators close over nothing). */
typedef int32_t tpt_region_t;
void tpt_ir_region_begin(tpt_ir_t *ir);
tpt_val_t tpt_ir_region_arg(tpt_ir_t *ir, tpt_type_t type);
tpt_region_t tpt_ir_region_end(tpt_ir_t *ir, int n, const tpt_val_t *results);

/* ---- reductions ---------------------------------------------------------------------------------------------------- */
typedef enum tpt_ir_reducer {
    TPT_IR_RED_ADD,
    TPT_IR_RED_MUL,
    TPT_IR_RED_MAX,
    TPT_IR_RED_MIN,
    TPT_IR_RED_AND,
    TPT_IR_RED_OR,
    TPT_IR_RED_XOR
} tpt_ir_reducer_t;
/* Simple reduction over `dims` (removed from the result); the init value is the reducer's neutral element. */
tpt_val_t tpt_ir_reduce(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int ndims, const int64_t *dims);
/* General: n operands of equal shape, n rank-0 inits, a body with 2n args and n results. */
void tpt_ir_reduce_n(tpt_ir_t *ir, int n, const tpt_val_t *xs, const tpt_val_t *inits, int ndims, const int64_t *dims,
                     tpt_region_t body, tpt_val_t *out);
typedef struct tpt_ir_window {
    int rank;
    int64_t size[TPT_MAX_RANK], stride[TPT_MAX_RANK], base_dilation[TPT_MAX_RANK], window_dilation[TPT_MAX_RANK];
    int64_t pad_low[TPT_MAX_RANK], pad_high[TPT_MAX_RANK];
} tpt_ir_window_t;
tpt_ir_window_t tpt_ir_window_ones(int rank); /* all sizes, strides, dilations 1, pads 0 */
tpt_val_t tpt_ir_reduce_window(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, const tpt_ir_window_t *w);
void tpt_ir_reduce_window_n(tpt_ir_t *ir, int n, const tpt_val_t *xs, const tpt_val_t *inits, const tpt_ir_window_t *w,
                            tpt_region_t body, tpt_val_t *out);
/* select: region of two args -> bool (GE for max pooling); scatter adds. */
tpt_val_t tpt_ir_select_and_scatter_add(tpt_ir_t *ir, tpt_val_t x, tpt_val_t source, tpt_ir_cmp_t select,
                                        const tpt_ir_window_t *w);

/* ---- indexing ------------------------------------------------------------------------------------------------------ */
typedef struct tpt_ir_gather {
    int n_offset, n_collapsed, n_batch, n_start;
    int64_t offset_dims[TPT_MAX_RANK], collapsed_slice_dims[TPT_MAX_RANK];
    int64_t operand_batching_dims[TPT_MAX_RANK], start_indices_batching_dims[TPT_MAX_RANK]; /* n_batch */
    int64_t start_index_map[TPT_MAX_RANK];
    int64_t index_vector_dim;
    int64_t slice_sizes[TPT_MAX_RANK];
    bool indices_are_sorted;
} tpt_ir_gather_t;
tpt_val_t tpt_ir_gather(tpt_ir_t *ir, tpt_val_t x, tpt_val_t indices, const tpt_ir_gather_t *g);
typedef struct tpt_ir_scatter {
    int n_window, n_inserted, n_batch, n_scatter;
    int64_t update_window_dims[TPT_MAX_RANK], inserted_window_dims[TPT_MAX_RANK];
    int64_t input_batching_dims[TPT_MAX_RANK], scatter_indices_batching_dims[TPT_MAX_RANK]; /* n_batch */
    int64_t scatter_dims_to_operand_dims[TPT_MAX_RANK];
    int64_t index_vector_dim;
    bool indices_are_sorted, unique_indices;
} tpt_ir_scatter_t;
/* body: TPT_IR_SCATTER_SET keeps the update, others combine. */
typedef enum tpt_ir_scatter_op {
    TPT_IR_SCATTER_SET,
    TPT_IR_SCATTER_ADD,
    TPT_IR_SCATTER_MUL,
    TPT_IR_SCATTER_MAX,
    TPT_IR_SCATTER_MIN
} tpt_ir_scatter_op_t;
tpt_val_t tpt_ir_scatter(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, tpt_val_t indices, tpt_val_t updates,
                         const tpt_ir_scatter_t *s);

/* ---- linear algebra, windows --------------------------------------------------------------------------------------- */
typedef struct tpt_ir_dot {
    int n_batch, n_contract;
    int64_t lhs_batch[TPT_MAX_RANK], rhs_batch[TPT_MAX_RANK], lhs_contract[TPT_MAX_RANK], rhs_contract[TPT_MAX_RANK];
    tpt_dtype_t out_dtype; /* TPT_DTYPE_NONE: the operands' */
} tpt_ir_dot_t;
/* Precision attribute comes from tpt_ir_set_precision. */
tpt_val_t tpt_ir_dot(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d);
/* alpha x y + beta self, [m, k] x [k, n], as one call of the host's BLAS; alpha and beta are scalars, self broadcasts. TPT_VAL_NONE:
 * there is none, or it is not worth a call. */
tpt_val_t tpt_ir_gemm_add(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, tpt_val_t self, tpt_val_t alpha, tpt_val_t beta);
/* [..., m, k] x [..., k, n] with equal batch dims. */
tpt_val_t tpt_ir_matmul(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y);
/* When x was made by exchanging the last two dims of a value: that value. Else TPT_VAL_NONE. */
tpt_val_t tpt_ir_untransposed(const tpt_ir_t *ir, tpt_val_t x);
typedef struct tpt_ir_conv {
    int spatial; /* number of spatial dims */
    int64_t stride[3], pad_low[3], pad_high[3], lhs_dilation[3], rhs_dilation[3];
    bool reversal; /* flips the kernel */
    int64_t feature_groups, batch_groups;
    /* Positions of batch, feature and spatial dims in input and output, of features and spatial dims in the kernel. */
    int64_t in_batch, in_feature, in_spatial[3], k_in_feature, k_out_feature, k_spatial[3];
    int64_t out_batch, out_feature, out_spatial[3];
} tpt_ir_conv_t;
tpt_ir_conv_t tpt_ir_conv_nchw(int spatial); /* NC[DHW], OI[DHW]; ones and zeros elsewhere */
tpt_val_t tpt_ir_convolution(tpt_ir_t *ir, tpt_val_t x, tpt_val_t kernel, const tpt_ir_conv_t *c);
void tpt_ir_set_precision(tpt_ir_t *ir, tpt_precision_t precision); /* for the float32 dots and convolutions that follow */
tpt_precision_t tpt_ir_precision(const tpt_ir_t *ir);
/* MAX and MIN reductions that follow test for NaN themselves: for plugins whose own lose it. */
void tpt_ir_set_guarded_minmax(tpt_ir_t *ir, bool guarded);
/* Programs run on a processor: dots, reductions and windows take the forms that XLA's CPU compiler is fast at. */
bool tpt_ir_host_code(const tpt_ir_t *ir);
void tpt_ir_set_host_code(tpt_ir_t *ir, bool host);
bool tpt_ir_has_kernels(const tpt_ir_t *ir); /* the plugin can call the runtime's C routines */
void tpt_ir_set_has_kernels(tpt_ir_t *ir, bool has);
bool tpt_ir_has_blas(const tpt_ir_t *ir); /* and these the host's products of matrices */
void tpt_ir_set_has_blas(tpt_ir_t *ir, bool has);
void tpt_ir_set_alone(tpt_ir_t *ir, bool alone); /* it is a single op's program */
tpt_val_t tpt_ir_cholesky(tpt_ir_t *ir, tpt_val_t x, bool lower);
/* transpose: 0 none, 1 T, 2 H */
tpt_val_t tpt_ir_triangular_solve(tpt_ir_t *ir, tpt_val_t a, tpt_val_t b, bool left, bool lower, bool unit_diagonal,
                                  int transpose);
typedef enum tpt_ir_fft_kind { TPT_IR_FFT, TPT_IR_IFFT, TPT_IR_RFFT, TPT_IR_IRFFT } tpt_ir_fft_kind_t;
tpt_val_t tpt_ir_fft(tpt_ir_t *ir, tpt_val_t x, tpt_ir_fft_kind_t kind, int n, const int64_t *lengths);

/* ---- control, sorting, the rest ------------------------------------------------------------------------------------ */
/* n operands of one shape; comparator: 2n rank-0 args (a0, b0, a1, b1, ...) -> bool. */
void tpt_ir_sort(tpt_ir_t *ir, int n, const tpt_val_t *xs, int dim, bool stable, tpt_region_t comparator, tpt_val_t *out);
void tpt_ir_while(tpt_ir_t *ir, int n, const tpt_val_t *inits, tpt_region_t cond, tpt_region_t body, tpt_val_t *out);
void tpt_ir_if(tpt_ir_t *ir, tpt_val_t pred, tpt_region_t then, tpt_region_t otherwise, int n, tpt_val_t *out);
/* stablehlo.rng_bit_generator PHILOX: state u64[2] -> new state, bits of `type` (u32 or u64). The same bits on every plugin. */
void tpt_ir_rng_bits(tpt_ir_t *ir, tpt_val_t state, tpt_type_t type, tpt_val_t *out_state, tpt_val_t *out_bits);
void tpt_ir_barrier(tpt_ir_t *ir, int n, const tpt_val_t *xs, tpt_val_t *out); /* optimization_barrier */
tpt_val_t tpt_ir_set_dimension_size(tpt_ir_t *ir, tpt_val_t x, tpt_val_t size /* s32 */, int dim);
typedef struct tpt_ir_call_attr {
    const char *target, *backend_config;
    const int64_t *words; /* typed calls: attribute `words`, in place of a backend_config; or NULL */
    size_t nwords;
    const int32_t *aliases; /* of each result: the operand whose memory it takes over, or -1; NULL: none does */
    bool has_side_effect;
    int api_version; /* 4 = typed FFI */
} tpt_ir_call_attr_t;
void tpt_ir_custom_call(tpt_ir_t *ir, const tpt_ir_call_attr_t *attr, int n, const tpt_val_t *xs, int nout,
                        const tpt_type_t *types, tpt_val_t *out);

/* Elementwise arithmetic over one small array, or several of other sizes, becomes one call of the runtime's routine, where the plugin can call it. After
 * the last tpt_ir_result. */
void tpt_ir_as_formula(tpt_ir_t *ir);

/* Do any of `roots` depend on argument `arg`? (True when there is no memory to find out.) */
bool tpt_ir_reaches(const tpt_ir_t *ir, int nroots, const tpt_val_t *roots, tpt_val_t arg);

/* Short forms, used everywhere in src/ops. */
static inline tpt_val_t tpt_ir_add(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_ADD, x, y); }
static inline tpt_val_t tpt_ir_sub(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_SUB, x, y); }
static inline tpt_val_t tpt_ir_mul(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_MUL, x, y); }
static inline tpt_val_t tpt_ir_div(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_DIV, x, y); }
static inline tpt_val_t tpt_ir_max(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_MAX, x, y); }
static inline tpt_val_t tpt_ir_min(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_MIN, x, y); }
static inline tpt_val_t tpt_ir_and(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_AND, x, y); }
static inline tpt_val_t tpt_ir_or(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return tpt_ir_binary(b, TPT_IR_OR, x, y); }
static inline tpt_val_t tpt_ir_neg(tpt_ir_t *b, tpt_val_t x) { return tpt_ir_unary(b, TPT_IR_NEG, x); }
static inline tpt_val_t tpt_ir_not(tpt_ir_t *b, tpt_val_t x) { return tpt_ir_unary(b, TPT_IR_NOT, x); }
/* A rank-0 constant of v's dtype. */
static inline tpt_val_t tpt_ir_like(tpt_ir_t *b, tpt_val_t v, double value) {
    return tpt_ir_const_f(b, tpt_ir_dtype(b, v), value);
}

#endif
