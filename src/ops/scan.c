/* scan.c - cumulative sums and their kin.
 *
 * Plugins lack a scan op, and a reduce_window over the whole dim costs n^2. So the dim is cut into short rows: each row is
 * scanned by a chain of slices, the rows' totals are scanned by the same means, and every element takes the total before its
 * row. Work is linear, the depth logarithmic, and a float32 sum keeps the precision of pairwise summation. */
#include "ops/scan.h"

#include <math.h>

#include "ops/reduce.h"

#define SCAN_ROW 16

/* xs: [outer, n, inner]; n <= SCAN_ROW. */
static void scan_short(tpt_ir_t *ir, int k, tpt_val_t *xs, int64_t n, tpt_scan_op_t op) {
    tpt_val_t parts[TPT_SCAN_MAX][SCAN_ROW];
    for (int64_t i = 0; i < n; i++) {
        tpt_val_t before[TPT_SCAN_MAX], here[TPT_SCAN_MAX], out[TPT_SCAN_MAX];
        for (int j = 0; j < k; j++) {
            here[j] = out[j] = tpt_ir_slice_dim(ir, xs[j], 1, i, i + 1);
            before[j] = i > 0 ? parts[j][i - 1] : TPT_VAL_NONE;
        }
        if (i > 0) op(ir, before, here, out);
        for (int j = 0; j < k; j++) parts[j][i] = out[j];
    }
    for (int j = 0; j < k; j++) xs[j] = tpt_ir_concat(ir, (int)n, parts[j], 1);
}

static tpt_val_t shape4(tpt_ir_t *ir, tpt_val_t x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return tpt_ir_reshape(ir, x, 4, (const int64_t[]){a, b, c, d});
}

/* xs: [outer, n, inner], any n >= 1. */
static void scan_long(tpt_ir_t *ir, int k, tpt_val_t *xs, int64_t outer, int64_t n, int64_t inner, tpt_scan_op_t op) {
    if (n <= SCAN_ROW) {
        if (n > 1) scan_short(ir, k, xs, n, op);
        return;
    }
    int64_t rows = (n + SCAN_ROW - 1) / SCAN_ROW, extra = rows * SCAN_ROW - n;
    tpt_val_t totals[TPT_SCAN_MAX], before[TPT_SCAN_MAX], sums[TPT_SCAN_MAX];
    for (int j = 0; j < k; j++) { /* what the padding holds comes after all that is kept */
        if (extra > 0)
            xs[j] = tpt_ir_pad(ir, xs[j], tpt_ir_like(ir, xs[j], 0.0), (const int64_t[]){0, 0, 0},
                               (const int64_t[]){0, extra, 0}, NULL);
        xs[j] = tpt_ir_reshape(ir, xs[j], 3, (const int64_t[]){outer * rows, SCAN_ROW, inner});
    }
    scan_short(ir, k, xs, SCAN_ROW, op);
    for (int j = 0; j < k; j++) {
        totals[j] = tpt_ir_slice_dim(ir, xs[j], 1, SCAN_ROW - 1, SCAN_ROW);
        totals[j] = tpt_ir_reshape(ir, totals[j], 3, (const int64_t[]){outer, rows, inner});
    }
    scan_long(ir, k, totals, outer, rows, inner, op);
    for (int j = 0; j < k; j++) {
        before[j] = tpt_ir_slice_dim(ir, totals[j], 1, 0, rows - 1);
        before[j] = shape4(ir, before[j], outer, rows - 1, 1, inner);
        before[j] = tpt_ir_broadcast_to(ir, before[j], 4, (const int64_t[]){outer, rows - 1, SCAN_ROW, inner});
        xs[j] = shape4(ir, xs[j], outer, rows, SCAN_ROW, inner);
        sums[j] = tpt_ir_slice_dim(ir, xs[j], 1, 1, rows);
        xs[j] = tpt_ir_slice_dim(ir, xs[j], 1, 0, 1);
    }
    tpt_val_t combined[TPT_SCAN_MAX];
    op(ir, before, sums, combined);
    for (int j = 0; j < k; j++) {
        tpt_val_t whole = tpt_ir_concat(ir, 2, (const tpt_val_t[]){xs[j], combined[j]}, 1);
        whole = tpt_ir_reshape(ir, whole, 3, (const int64_t[]){outer, rows * SCAN_ROW, inner});
        xs[j] = extra > 0 ? tpt_ir_slice_dim(ir, whole, 1, 0, n) : whole;
    }
}

void tpt_scan_run(tpt_ir_t *ir, int n, tpt_val_t *xs, int dim, tpt_scan_op_t op) {
    if (tpt_ir_status(ir) != NULL) return;
    tpt_type_t type = *tpt_ir_type(ir, xs[0]);
    int64_t length = type.dims[dim], outer = 1, inner = 1;
    if (length <= 1 || tpt_type_numel(&type) == 0) return;
    for (int d = 0; d < dim; d++) outer *= type.dims[d];
    for (int d = dim + 1; d < type.rank; d++) inner *= type.dims[d];
    for (int j = 0; j < n; j++) xs[j] = tpt_ir_reshape(ir, xs[j], 3, (const int64_t[]){outer, length, inner});
    scan_long(ir, n, xs, outer, length, inner, op);
    for (int j = 0; j < n; j++) xs[j] = tpt_ir_reshape(ir, xs[j], type.rank, type.dims);
}

/* ---- operations ---------------------------------------------------------------------------------------------------- */

static void op_add(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    out[0] = tpt_ir_add(ir, a[0], b[0]);
}

static void op_mul(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    out[0] = tpt_ir_mul(ir, a[0], b[0]);
}

static void op_max(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    out[0] = tpt_ir_max(ir, a[0], b[0]);
}

tpt_val_t tpt_scan_sum(tpt_ir_t *ir, tpt_val_t x, int dim) {
    tpt_scan_run(ir, 1, &x, dim, op_add);
    return x;
}

tpt_val_t tpt_scan_max(tpt_ir_t *ir, tpt_val_t x, int dim) {
    tpt_scan_run(ir, 1, &x, dim, op_max);
    return x;
}

/* A later element wins ties, and a NaN wins over all that came before it; after a NaN only a NaN can win. */
static void pick_later(tpt_ir_t *ir, tpt_ir_cmp_t cmp, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    tpt_val_t later = tpt_ir_compare(ir, cmp, b[0], a[0]);
    if (tpt_dtype_is_float(tpt_ir_dtype(ir, a[0]))) later = tpt_ir_or(ir, later, tpt_reduce_isnan(ir, b[0]));
    for (int j = 0; j < 2; j++) out[j] = tpt_ir_select(ir, later, b[j], a[j]);
}

static void op_later_max(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    pick_later(ir, TPT_IR_GE, a, b, out);
}

static void op_later_min(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    pick_later(ir, TPT_IR_LE, a, b, out);
}

static void op_logaddexp(tpt_ir_t *ir, const tpt_val_t *a, const tpt_val_t *b, tpt_val_t *out) {
    tpt_val_t high = tpt_ir_max(ir, a[0], b[0]), low = tpt_ir_min(ir, a[0], b[0]);
    tpt_val_t sum =
        tpt_ir_add(ir, high, tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, low, high))));
    /* Two equal infinities give inf - inf. */
    tpt_val_t both =
        tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_EQ, low, high), tpt_ir_not(ir, tpt_ir_unary(ir, TPT_IR_IS_FINITE, low)));
    out[0] = tpt_ir_select(ir, both, high, sum);
}

/* The same of complex numbers, the larger one by its real part. Where both are -inf their angle says nothing: either will do. */
static tpt_val_t logaddexp_complex(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y) {
    tpt_val_t x_real = tpt_ir_unary(ir, TPT_IR_REAL, x), y_real = tpt_ir_unary(ir, TPT_IR_REAL, y);
    tpt_val_t less = tpt_ir_compare(ir, TPT_IR_LT, x_real, y_real);
    tpt_val_t low = tpt_ir_select(ir, less, x, y), high = tpt_ir_select(ir, less, y, x);
    tpt_val_t low_real = tpt_ir_unary(ir, TPT_IR_REAL, low), high_real = tpt_ir_unary(ir, TPT_IR_REAL, high);
    tpt_val_t sum =
        tpt_ir_add(ir, high, tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, low, high))));
    tpt_val_t both = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_EQ, low_real, high_real),
                                tpt_ir_not(ir, tpt_ir_unary(ir, TPT_IR_IS_FINITE, low_real)));
    tpt_val_t none = tpt_ir_compare(ir, TPT_IR_LT, low_real, tpt_ir_like(ir, low_real, 0.0));
    tpt_val_t plain = tpt_ir_add(ir, tpt_ir_unary(ir, TPT_IR_EXP, x), tpt_ir_unary(ir, TPT_IR_EXP, y));
    sum = tpt_ir_select(ir, both, tpt_ir_select(ir, none, low, tpt_ir_unary(ir, TPT_IR_LOG, plain)), sum);
    tpt_val_t nan = tpt_ir_or(ir, tpt_reduce_isnan(ir, x), tpt_reduce_isnan(ir, y));
    tpt_val_t bad = tpt_ir_like(ir, x_real, NAN);
    return tpt_ir_select(ir, nan, tpt_ir_binary(ir, TPT_IR_COMPLEX, bad, bad), sum);
}

/* One element after the other: the imaginary part counts turns of the circle, and how many depends on the order. */
static tpt_val_t scan_complex(tpt_ir_t *ir, tpt_val_t x, int dim) {
    tpt_type_t type = *tpt_ir_type(ir, x), slice = type;
    if (tpt_ir_status(ir) != NULL || tpt_type_numel(&type) == 0) return x;
    slice.dims[dim] = 1;
    tpt_val_t nothing = tpt_ir_full_f(ir, slice, -INFINITY), zero = tpt_ir_const_i(ir, TPT_I64, 0);
    tpt_val_t inits[3] = {zero, nothing, x}, args[3], out[3], starts[TPT_MAX_RANK];
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, args[0], tpt_ir_const_i(ir, TPT_I64, type.dims[dim]));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    for (int d = 0; d < type.rank; d++) starts[d] = d == dim ? args[0] : tpt_ir_const_i(ir, TPT_I64, 0);
    tpt_val_t sum = logaddexp_complex(ir, tpt_ir_dynamic_slice(ir, args[2], starts, slice.dims), args[1]);
    tpt_val_t next[3] = {tpt_ir_add(ir, args[0], tpt_ir_const_i(ir, TPT_I64, 1)), sum,
                         tpt_ir_dynamic_update_slice(ir, args[2], sum, starts)};
    tpt_region_t body = tpt_ir_region_end(ir, 3, next);
    tpt_ir_while(ir, 3, inits, cond, body, out);
    return out[2];
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* The tensor, at least of rank 1, and the dim. */
static tpt_val_t scan_input(tpt_lower_t *L, int *out_dim) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(L->ir, x);
    *out_dim = tpt_lower_dim(L, "dim", rank, -1);
    return rank == 0 ? tpt_ir_reshape(L->ir, x, 1, (const int64_t[]){1}) : x;
}

static void scan_result(tpt_lower_t *L, tpt_val_t v) {
    bool scalar = tpt_ir_rank(L->ir, tpt_lower_tensor(L, "self")) == 0;
    tpt_lower_result(L, scalar ? tpt_ir_reshape(L->ir, v, 0, NULL) : v);
}

/* cumsum, cumprod; data: 1 = products. */
void tpt_ops_cumsum(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = scan_input(L, &dim);
    tpt_dtype_t own = tpt_ir_dtype(L->ir, x);
    tpt_dtype_t usual = own == TPT_BOOL || tpt_dtype_is_int(own) ? TPT_I64 : own;
    /* A given target decides: cpu sums up integers when the target is one. */
    if (tpt_lower_is_tensor(L, "out")) usual = (tpt_dtype_t)L->args[tpt_lower_find(L, "out")].u.tensor.dtype;
    tpt_dtype_t d = tpt_lower_dtype(L, "dtype", usual);
    x = tpt_ir_convert(L->ir, tpt_ir_convert(L->ir, x, d), tpt_dtype_opmath(d));
    tpt_scan_run(L->ir, 1, &x, dim, L->row->data ? op_mul : op_add);
    scan_result(L, x);
}

/* cummax, cummin: values and indices; data: 1 = the largest. */
void tpt_ops_cummax(tpt_lower_t *L) {
    int dim;
    tpt_val_t xs[TPT_SCAN_MAX] = {scan_input(L, &dim)};
    xs[1] = tpt_reduce_iota(L->ir, xs[0], dim);
    tpt_scan_run(L->ir, 2, xs, dim, L->row->data ? op_later_max : op_later_min);
    scan_result(L, xs[0]);
    scan_result(L, tpt_ir_convert(L->ir, xs[1], TPT_I64));
}

void tpt_ops_logcumsumexp(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = scan_input(L, &dim);
    if (tpt_dtype_is_complex(tpt_ir_dtype(L->ir, x))) {
        scan_result(L, scan_complex(L->ir, x, dim));
        return;
    }
    /* As PyTorch on cpu, in double: its gradient takes differences of what comes out, and keeps few digits else. */
    const tpt_dtype_t own = tpt_ir_dtype(L->ir, x);
    x = tpt_ir_convert(L->ir, x, TPT_F64);
    tpt_scan_run(L->ir, 1, &x, dim, op_logaddexp);
    scan_result(L, tpt_ir_convert(L->ir, x, own));
}
