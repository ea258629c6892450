/* linalg_solve.c - Cholesky factors and triangular systems, the two that StableHLO has ops for. On CPU plugins LAPACK with its
 * copies is faster than what XLA makes of them, so these lowerings serve the others (TPT_ROW_HOST_CPU). Measured on the default
 * plugin, microseconds, XLA against host routine: cholesky_ex of 8x8 18 and 6, 64x64 302 and 20, 512x512 33,000 and 5,700;
 * solve_triangular 7 and 6, 55 and 34, 1,800 and 6,500. */
#include "ops/ops.h"

static tpt_val_t conjugate(tpt_ir_t *ir, tpt_val_t x) {
    if (!tpt_dtype_is_complex(tpt_ir_dtype(ir, x))) return x;
    tpt_val_t im = tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_IMAG, x));
    return tpt_ir_binary(ir, TPT_IR_COMPLEX, tpt_ir_unary(ir, TPT_IR_REAL, x), im);
}

static tpt_val_t adjoint(tpt_ir_t *ir, tpt_val_t x) {
    int64_t perm[TPT_MAX_RANK];
    const int rank = tpt_ir_rank(ir, x);
    for (int i = 0; i < rank - 2; i++) perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return conjugate(ir, tpt_ir_transpose(ir, x, perm));
}

/* Zeros above the diagonal, and on it too if `strict`. */
static tpt_val_t lower_triangle(tpt_ir_t *ir, tpt_val_t x, bool strict) {
    tpt_type_t index = *tpt_ir_type(ir, x);
    index.dtype = TPT_I32;
    tpt_val_t row = tpt_ir_iota(ir, index, index.rank - 2), column = tpt_ir_iota(ir, index, index.rank - 1);
    tpt_val_t keep = tpt_ir_compare(ir, strict ? TPT_IR_GT : TPT_IR_GE, row, column);
    return tpt_ir_select(ir, keep, x, tpt_ir_like(ir, x, 0));
}

/* ---- Cholesky ------------------------------------------------------------------------------------------------------- */

/* Is there a NaN? Over the last two dims, or over all. */
static tpt_val_t any_nan(tpt_ir_t *ir, tpt_val_t x, bool of_all) {
    int64_t dims[TPT_MAX_RANK];
    const int rank = tpt_ir_rank(ir, x), first = of_all ? 0 : rank - 2;
    for (int i = first; i < rank; i++) dims[i - first] = i;
    if (tpt_dtype_is_complex(tpt_ir_dtype(ir, x))) x = tpt_ir_unary(ir, TPT_IR_ABS, x);
    return tpt_ir_reduce(ir, TPT_IR_RED_OR, tpt_ir_compare(ir, TPT_IR_NE, x, x), rank - first, dims);
}

/* The order of the first leading minor of each [b, n, n] matrix that is not positive, by plain elimination; 0: all are.
 * StableHLO's op fills a matrix that fails with NaN and does not say where it did, as LAPACK and PyTorch's errors do. */
static tpt_val_t first_bad_minor(tpt_ir_t *ir, tpt_val_t a) {
    enum { STEP, WORK, INFO, STATES };
    const tpt_type_t whole = *tpt_ir_type(ir, a);
    const int64_t batch = whole.dims[0], n = whole.dims[1];
    tpt_val_t state[STATES], in[STATES], out[STATES];
    in[STEP] = tpt_ir_const_i(ir, TPT_I32, 0);
    in[WORK] = tpt_ir_add(ir, lower_triangle(ir, a, false), adjoint(ir, lower_triangle(ir, a, true)));
    in[INFO] = tpt_ir_full_i(ir, tpt_type_make(TPT_I32, 1, &batch), 0);
    tpt_type_t types[STATES];
    for (int i = 0; i < STATES; i++) types[i] = *tpt_ir_type(ir, in[i]);

    tpt_ir_region_begin(ir);
    for (int i = 0; i < STATES; i++) state[i] = tpt_ir_region_arg(ir, types[i]);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, state[STEP], tpt_ir_const_i(ir, TPT_I32, n));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);

    tpt_ir_region_begin(ir);
    for (int i = 0; i < STATES; i++) state[i] = tpt_ir_region_arg(ir, types[i]);
    tpt_val_t zero = tpt_ir_const_i(ir, TPT_I32, 0), step = state[STEP];
    tpt_val_t row = tpt_ir_dynamic_slice(ir, state[WORK], (tpt_val_t[]){zero, step, zero}, (int64_t[]){batch, 1, n});
    tpt_val_t column = tpt_ir_dynamic_slice(ir, state[WORK], (tpt_val_t[]){zero, zero, step}, (int64_t[]){batch, n, 1});
    tpt_val_t pivot = tpt_ir_dynamic_slice(ir, row, (tpt_val_t[]){zero, zero, step}, (int64_t[]){batch, 1, 1});
    tpt_val_t size = pivot;
    if (tpt_dtype_is_complex(tpt_ir_dtype(ir, pivot))) size = tpt_ir_unary(ir, TPT_IR_REAL, pivot);
    size = tpt_ir_reshape(ir, size, 1, &batch);
    tpt_val_t fails = tpt_ir_not(ir, tpt_ir_compare(ir, TPT_IR_GT, size, tpt_ir_like(ir, size, 0)));
    fails = tpt_ir_and(ir, fails, tpt_ir_compare(ir, TPT_IR_EQ, state[INFO], zero));
    tpt_val_t next = tpt_ir_add(ir, step, tpt_ir_const_i(ir, TPT_I32, 1));
    out[STEP] = next;
    out[WORK] = tpt_ir_sub(ir, state[WORK], tpt_ir_mul(ir, tpt_ir_div(ir, column, pivot), row));
    out[INFO] = tpt_ir_select(ir, fails, next, state[INFO]);
    tpt_region_t body = tpt_ir_region_end(ir, STATES, out);
    tpt_ir_while(ir, STATES, in, cond, body, out);
    return out[INFO];
}

/* info: elimination runs only if some matrix failed. One that it has no fault to find with failed by a hair, in its last. */
static tpt_val_t info_of(tpt_ir_t *ir, tpt_val_t a, tpt_val_t factor) {
    const tpt_type_t t = *tpt_ir_type(ir, a);
    const int64_t n = t.dims[t.rank - 1];
    int64_t batch = 1;
    for (int i = 0; i < t.rank - 2; i++) batch *= t.dims[i];
    tpt_val_t flat = tpt_ir_reshape(ir, a, 3, (int64_t[]){batch, n, n});
    tpt_val_t failed = tpt_ir_reshape(ir, any_nan(ir, factor, false), 1, &batch), info;
    tpt_val_t none = tpt_ir_full_i(ir, tpt_type_make(TPT_I32, 1, &batch), 0);

    tpt_ir_region_begin(ir);
    tpt_val_t found = first_bad_minor(ir, flat), last = tpt_ir_const_i(ir, TPT_I32, n);
    found = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, found, none), last, found);
    found = tpt_ir_select(ir, failed, found, none);
    tpt_region_t then = tpt_ir_region_end(ir, 1, &found);
    tpt_ir_region_begin(ir);
    tpt_region_t otherwise = tpt_ir_region_end(ir, 1, &none);
    tpt_ir_if(ir, any_nan(ir, factor, true), then, otherwise, 1, &info);
    return tpt_ir_reshape(ir, info, t.rank - 2, t.dims);
}

/* linalg_cholesky_ex */
void tpt_ops_cholesky(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    const bool upper = tpt_lower_bool(L, "upper", false);
    tpt_val_t a = tpt_lower_tensor(L, "self");
    if (a == TPT_VAL_NONE) return;
    const tpt_type_t t = *tpt_ir_type(ir, a);
    if (tpt_type_numel(&t) == 0) {
        tpt_lower_result(L, a);
        tpt_lower_result(L, tpt_ir_full_i(ir, tpt_type_make(TPT_I32, t.rank - 2, t.dims), 0));
        return;
    }
    if (upper) a = adjoint(ir, a); /* its lower triangle is all that is read */
    tpt_val_t factor = lower_triangle(ir, tpt_ir_cholesky(ir, a, true), false);
    tpt_lower_result(L, upper ? adjoint(ir, factor) : factor);
    tpt_lower_result(L, info_of(ir, a, factor));
}

/* ---- triangular systems --------------------------------------------------------------------------------------------- */

/* Batch dims of both, broadcast. */
static void broadcast_batch(tpt_ir_t *ir, tpt_val_t *x, tpt_val_t *y) {
    if (*x == TPT_VAL_NONE || *y == TPT_VAL_NONE) return;
    const tpt_type_t a = *tpt_ir_type(ir, *x), b = *tpt_ir_type(ir, *y);
    const int rank = a.rank > b.rank ? a.rank : b.rank;
    tpt_type_t p = a, q = b;
    for (int i = 0; i < rank; i++) {
        const int ia = i - (rank - a.rank), ib = i - (rank - b.rank);
        const int64_t m = ia < 0 ? 1 : a.dims[ia], n = ib < 0 ? 1 : b.dims[ib];
        p.dims[i] = i >= rank - 2 ? m : m == 1 ? n : m;
        q.dims[i] = i >= rank - 2 ? n : p.dims[i];
    }
    *x = tpt_ir_broadcast_to(ir, *x, rank, p.dims);
    *y = tpt_ir_broadcast_to(ir, *y, rank, q.dims);
}

typedef struct system {
    bool left, lower, unit;
    int transpose; /* 0 none, 1 T, 2 H */
} system_t;

static tpt_val_t solve(tpt_ir_t *ir, tpt_val_t a, tpt_val_t b, system_t s) {
    if (a == TPT_VAL_NONE || b == TPT_VAL_NONE || tpt_ir_numel(ir, b) == 0) return b;
    return tpt_ir_triangular_solve(ir, a, b, s.left, s.lower, s.unit, s.transpose);
}

void tpt_ops_solve_triangular(tpt_lower_t *L) {
    tpt_val_t a = tpt_lower_tensor(L, "self"), b = tpt_lower_tensor(L, "B");
    broadcast_batch(L->ir, &a, &b);
    const system_t s = {.left = tpt_lower_bool(L, "left", true),
                        .lower = !tpt_lower_bool(L, "upper", true),
                        .unit = tpt_lower_bool(L, "unitriangular", false)};
    tpt_lower_result(L, solve(L->ir, a, b, s));
}

/* The deprecated triangular_solve: the right-hand side comes first, and the matrix comes back. */
void tpt_ops_triangular_solve(tpt_lower_t *L) {
    tpt_val_t a = tpt_lower_tensor(L, "A"), b = tpt_lower_tensor(L, "self");
    broadcast_batch(L->ir, &a, &b);
    const system_t s = {.left = true,
                        .lower = !tpt_lower_bool(L, "upper", true),
                        .unit = tpt_lower_bool(L, "unitriangular", false),
                        .transpose = tpt_lower_bool(L, "transpose", false)};
    tpt_lower_result(L, solve(L->ir, a, b, s));
    tpt_lower_result(L, a);
}

/* x of l l^H x = b, or of u^H u x = b. */
static tpt_val_t solve_by_factor(tpt_ir_t *ir, tpt_val_t factor, tpt_val_t b, bool upper) {
    system_t first = {.left = true, .lower = !upper, .transpose = upper ? 2 : 0}, second = first;
    second.transpose = 2 - first.transpose;
    return solve(ir, factor, solve(ir, factor, b, first), second);
}

/* _cholesky_solve_helper; PyTorch has broadcast both before. */
void tpt_ops_cholesky_solve(tpt_lower_t *L) {
    tpt_val_t factor = tpt_lower_tensor(L, "A"), b = tpt_lower_tensor(L, "self");
    tpt_lower_result(L, solve_by_factor(L->ir, factor, b, tpt_lower_bool(L, "upper", false)));
}

void tpt_ops_cholesky_inverse(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t factor = tpt_lower_tensor(L, "self");
    if (factor == TPT_VAL_NONE) return;
    tpt_type_t index = *tpt_ir_type(ir, factor);
    index.dtype = TPT_I32;
    tpt_val_t row = tpt_ir_iota(ir, index, index.rank - 2), column = tpt_ir_iota(ir, index, index.rank - 1);
    tpt_val_t eye = tpt_ir_convert(ir, tpt_ir_compare(ir, TPT_IR_EQ, row, column), tpt_ir_dtype(ir, factor));
    tpt_lower_result(L, solve_by_factor(ir, factor, eye, tpt_lower_bool(L, "upper", false)));
}
