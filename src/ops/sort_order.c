/* sort_order.c - topk, and order statistics: median, kthvalue, mode. */
#include <math.h>

#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/sort.h"

/* ---- topk ---------------------------------------------------------------------------------------------------------- */

/* The bits of a float as an integer of the same order. XLA's TopkRewriter looks for exactly these ops. */
static tpt_val_t total_order(tpt_ir_t *ir, tpt_val_t x) {
    tpt_val_t whole = tpt_ir_bitcast(ir, x, TPT_I32), word = tpt_ir_bitcast(ir, x, TPT_U32);
    tpt_val_t flipped = tpt_ir_sub(ir, tpt_ir_const_i(ir, TPT_U32, INT32_MAX), word);
    tpt_val_t negative = tpt_ir_compare(ir, TPT_IR_LT, whole, tpt_ir_const_i(ir, TPT_I32, 0));
    return tpt_ir_select(ir, negative, tpt_ir_bitcast(ir, flipped, TPT_I32), whole);
}

/* Places of the k largest of each row of floats [rows, n]. A float32 sort in this form whose first k columns alone are used
 * becomes a partial sort on the CPU plugins, a hundred times faster than a whole one. */
static tpt_val_t largest_places(tpt_ir_t *ir, tpt_val_t x, int64_t k) {
    tpt_type_t type = *tpt_ir_type(ir, x);
    tpt_type_t value = tpt_type_make(TPT_F32, 0, NULL), index = tpt_type_make(TPT_I32, 0, NULL);
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, value), b = tpt_ir_region_arg(ir, value);
    (void)tpt_ir_region_arg(ir, index);
    (void)tpt_ir_region_arg(ir, index);
    tpt_val_t place_a = total_order(ir, a), place_b = total_order(ir, b);
    tpt_val_t before = tpt_ir_compare(ir, TPT_IR_GT, place_a, place_b), out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_region_t order = tpt_ir_region_end(ir, 1, &before);
    type.dtype = TPT_I32;
    tpt_ir_sort(ir, 2, (const tpt_val_t[]){x, tpt_ir_iota(ir, type, 1)}, 1, true, order, out);
    return tpt_ir_slice_dim(ir, out[1], 1, 0, k);
}

static bool exact_in_float(tpt_dtype_t d) {
    if (tpt_dtype_is_float(d)) return d != TPT_F64;
    return tpt_dtype_size(d) <= 2;
}

/* x is exact in float32. The smallest are the largest of the negated; zeros are equal; NaN is the largest number. */
static tpt_val_t float_places(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t k, bool largest) {
    int rank = tpt_ir_rank(ir, x);
    int64_t perm[TPT_MAX_RANK], back[TPT_MAX_RANK], dims[TPT_MAX_RANK], n = tpt_ir_dim(ir, x, dim), rows = 1;
    for (int d = 0, at = 0; d < rank; d++) {
        if (d == dim) continue;
        perm[at++] = d;
        rows *= tpt_ir_dim(ir, x, d);
    }
    perm[rank - 1] = dim;
    for (int d = 0; d < rank; d++) {
        back[perm[d]] = d;
        dims[d] = d == rank - 1 ? k : tpt_ir_dim(ir, x, (int)perm[d]);
    }
    x = tpt_ir_convert(ir, x, TPT_F32);
    if (dim != rank - 1) x = tpt_ir_transpose(ir, x, perm);
    x = tpt_ir_reshape(ir, x, 2, (const int64_t[]){rows, n});
    if (!largest) x = tpt_ir_neg(ir, x);
    tpt_val_t zero = tpt_ir_like(ir, x, 0.0);
    x = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, x, zero), zero, x);
    tpt_val_t nan = tpt_ir_const_i(ir, TPT_U32, largest ? INT64_C(0x7fffffff) : INT64_C(0xffffffff));
    x = tpt_ir_select(ir, tpt_reduce_isnan(ir, x), tpt_ir_bitcast(ir, nan, TPT_F32), x);
    tpt_val_t places = tpt_ir_reshape(ir, largest_places(ir, x, k), rank, dims);
    return dim != rank - 1 ? tpt_ir_transpose(ir, places, back) : places;
}

void tpt_sort_top(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t k, bool largest, tpt_val_t *out_values, tpt_val_t *out_indices) {
    if (k == 1 && (largest || !tpt_dtype_is_float(tpt_ir_dtype(ir, x)))) { /* NaN, which an extreme picks, is the largest number */
        tpt_reduce_extreme(ir, x, dim, largest, out_values, out_indices);
        *out_values = tpt_ir_unsqueeze(ir, *out_values, dim);
        *out_indices = tpt_ir_unsqueeze(ir, *out_indices, dim);
    } else if (k > 0 && tpt_ir_numel(ir, x) > 0 && tpt_ir_dim(ir, x, dim) < INT32_MAX && exact_in_float(tpt_ir_dtype(ir, x))) {
        *out_indices = float_places(ir, x, dim, k, largest);
        *out_values = tpt_sort_take_along(ir, x, *out_indices, dim);
    } else {
        tpt_sort_pairs(ir, x, dim, largest, out_values, out_indices);
        *out_values = tpt_ir_slice_dim(ir, *out_values, dim, 0, k);
        *out_indices = tpt_ir_slice_dim(ir, *out_indices, dim, 0, k);
    }
}

void tpt_ops_topk(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = tpt_sort_input(L, &dim), values, indices;
    int64_t k = tpt_lower_int(L, "k", 0);
    if (k < 0 || k > tpt_ir_dim(L->ir, x, dim)) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "selected index k out of range");
        return;
    }
    tpt_sort_top(L->ir, x, dim, k, tpt_lower_bool(L, "largest", true), &values, &indices);
    tpt_sort_result(L, values, indices);
}

/* ---- order statistics ---------------------------------------------------------------------------------------------- */

/* The element of v at the run-time place `at` (v's shape without dim) along dim. */
static tpt_val_t pick(tpt_ir_t *ir, tpt_val_t v, int dim, tpt_val_t at) {
    int rank = tpt_ir_rank(ir, v);
    int64_t sizes[TPT_MAX_RANK], map[TPT_MAX_RANK];
    int kept = 0;
    for (int d = 0; d < rank; d++) {
        sizes[d] = tpt_ir_dim(ir, v, d);
        if (d != dim) map[kept++] = d;
    }
    tpt_val_t iota = tpt_reduce_iota(ir, v, dim);
    at = tpt_ir_broadcast_in_dim(ir, tpt_ir_convert(ir, at, tpt_ir_dtype(ir, iota)), rank, sizes, map);
    tpt_val_t here = tpt_ir_compare(ir, TPT_IR_EQ, iota, at);
    v = tpt_ir_select(ir, here, v, tpt_ir_lowest(ir, tpt_ir_dtype(ir, v)));
    return tpt_ir_reduce(ir, TPT_IR_RED_MAX, v, 1, (const int64_t[]){dim});
}

static void pair_result(tpt_lower_t *L, tpt_val_t values, tpt_val_t indices, int dim) {
    bool keep = tpt_lower_bool(L, "keepdim", false) && tpt_ir_rank(L->ir, tpt_lower_tensor(L, "self")) > 0;
    indices = tpt_ir_convert(L->ir, indices, TPT_I64);
    tpt_lower_result(L, keep ? tpt_ir_unsqueeze(L->ir, values, dim) : values);
    tpt_lower_result(L, keep ? tpt_ir_unsqueeze(L->ir, indices, dim) : indices);
}

/* Place of the lower median in sorted order. With NaNs: the first of them, or (nanmedian) the median of the rest. */
static tpt_val_t median_place(tpt_ir_t *ir, tpt_val_t x, int dim, bool skip_nan) {
    int64_t n = tpt_ir_dim(ir, x, dim);
    tpt_val_t number = tpt_ir_compare(ir, TPT_IR_EQ, x, x);
    tpt_val_t count = tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_convert(ir, number, TPT_I64), 1, (const int64_t[]){dim});
    tpt_val_t one = tpt_ir_const_i(ir, TPT_I64, 1), two = tpt_ir_const_i(ir, TPT_I64, 2), zero = tpt_ir_const_i(ir, TPT_I64, 0);
    if (skip_nan) return tpt_ir_div(ir, tpt_ir_max(ir, tpt_ir_sub(ir, count, one), zero), two);
    tpt_val_t all = tpt_ir_compare(ir, TPT_IR_EQ, count, tpt_ir_const_i(ir, TPT_I64, n));
    return tpt_ir_select(ir, all, tpt_ir_const_i(ir, TPT_I64, (n - 1) / 2), count);
}

/* data: 1 = nanmedian. */
void tpt_ops_median(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    bool whole = !tpt_lower_has(L, "dim"), skip_nan = L->row->data != 0;
    int dim;
    tpt_val_t x = tpt_sort_input(L, &dim);
    if (whole) {
        x = tpt_ir_flatten(ir, x);
        dim = 0;
    }
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    if (tpt_ir_dim(ir, x, dim) == 0) {
        if (whole)
            tpt_lower_result(L, tpt_dtype_is_float(d) ? tpt_ir_const_f(ir, d, NAN) : tpt_ir_lowest(ir, d));
        else
            (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "median(): Expected reduction dim %d to have non-zero size.", dim);
        return;
    }
    tpt_val_t values, indices, at = median_place(ir, x, dim, skip_nan);
    tpt_sort_pairs(ir, x, dim, false, &values, &indices);
    values = pick(ir, values, dim, at);
    if (whole)
        tpt_lower_result(L, values);
    else
        pair_result(L, values, pick(ir, indices, dim, at), dim);
}

void tpt_ops_kthvalue(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    int dim;
    tpt_val_t x = tpt_sort_input(L, &dim), values, indices;
    int64_t k = tpt_lower_int(L, "k", 1);
    if (k < 1 || k > tpt_ir_dim(ir, x, dim)) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "kthvalue(): selected number k out of range for dimension %d", dim);
        return;
    }
    tpt_sort_pairs(ir, x, dim, false, &values, &indices);
    values = tpt_ir_squeeze(ir, tpt_ir_slice_dim(ir, values, dim, k - 1, k), dim);
    indices = tpt_ir_squeeze(ir, tpt_ir_slice_dim(ir, indices, dim, k - 1, k), dim);
    pair_result(L, values, indices, dim);
}

/* x along dim, moved one place up; `first` (rank 0) fills place 0. */
static tpt_val_t shift_up(tpt_ir_t *ir, tpt_val_t x, tpt_val_t first, int dim) {
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
    low[dim] = 1;
    high[dim] = -1;
    return tpt_ir_pad(ir, x, first, low, high, NULL);
}

/* The most frequent value, the smallest of several, and the last place where it stands: in sorted order the longest run. */
void tpt_ops_mode(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    int dim;
    tpt_val_t x = tpt_sort_input(L, &dim), values, indices;
    if (tpt_ir_dim(ir, x, dim) == 0) {
        (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "mode(): Expected reduction dim %d to have non-zero size.", dim);
        return;
    }
    tpt_sort_pairs(ir, x, dim, false, &values, &indices);
    tpt_val_t iota = tpt_reduce_iota(ir, x, dim);
    tpt_val_t before = shift_up(ir, values, tpt_ir_like(ir, values, 0.0), dim);
    tpt_val_t starts = tpt_ir_or(ir, tpt_ir_compare(ir, TPT_IR_NE, values, before),
                                 tpt_ir_compare(ir, TPT_IR_EQ, iota, tpt_ir_like(ir, iota, 0.0)));
    tpt_val_t start = tpt_scan_max(ir, tpt_ir_select(ir, starts, iota, tpt_ir_like(ir, iota, 0.0)), dim);
    tpt_val_t length = tpt_ir_sub(ir, iota, start), longest, at;
    tpt_reduce_extreme(ir, length, dim, true, &longest, &at);
    pair_result(L, pick(ir, values, dim, at), pick(ir, indices, dim, at), dim);
}
