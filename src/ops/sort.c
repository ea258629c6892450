/* sort.c - sort, topk, and order statistics. */
#include "ops/sort.h"

#include <math.h>

#include "ops/reduce.h"
#include "ops/scan.h"

/* ---- sorting ------------------------------------------------------------------------------------------------------- */

/* Order of the first operand; the second (the index) only travels along. NaN is the largest. */
static tpt_region_t comparator(tpt_ir_t *ir, tpt_dtype_t key, tpt_dtype_t index, bool descending) {
    tpt_ir_region_begin(ir);
    tpt_type_t key_type = tpt_type_make(key, 0, NULL), index_type = tpt_type_make(index, 0, NULL);
    tpt_val_t a = tpt_ir_region_arg(ir, key_type), b = tpt_ir_region_arg(ir, key_type);
    (void)tpt_ir_region_arg(ir, index_type);
    (void)tpt_ir_region_arg(ir, index_type);
    tpt_val_t before = tpt_ir_compare(ir, descending ? TPT_IR_GT : TPT_IR_LT, a, b);
    if (tpt_dtype_is_float(key)) {
        tpt_val_t nan_last = descending ? a : b, number = descending ? b : a;
        tpt_val_t by_nan = tpt_ir_and(ir, tpt_reduce_isnan(ir, nan_last), tpt_ir_compare(ir, TPT_IR_EQ, number, number));
        before = tpt_ir_or(ir, before, by_nan);
    }
    return tpt_ir_region_end(ir, 1, &before);
}

void tpt_sort_pairs(tpt_ir_t *ir, tpt_val_t x, int dim, bool descending, tpt_val_t *out_values, tpt_val_t *out_indices) {
    tpt_val_t index = tpt_reduce_iota(ir, x, dim);
    *out_values = x;
    *out_indices = index;
    if (tpt_ir_numel(ir, x) == 0 || tpt_ir_dim(ir, x, dim) < 2) return;
    tpt_region_t order = comparator(ir, tpt_ir_dtype(ir, x), tpt_ir_dtype(ir, index), descending);
    tpt_val_t out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_sort(ir, 2, (const tpt_val_t[]){x, index}, dim, true, order, out);
    *out_values = out[0];
    *out_indices = out[1];
}

tpt_val_t tpt_sort_take(tpt_ir_t *ir, tpt_val_t x, tpt_val_t at) {
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = tpt_ir_rank(ir, at), .slice_sizes = {1}};
    return tpt_ir_gather(ir, x, at, &g);
}

/* The input, at least of rank 1, and its dim. */
static tpt_val_t sort_input(tpt_lower_t *L, int *out_dim) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(L->ir, x);
    *out_dim = tpt_lower_dim(L, "dim", rank, -1);
    if (tpt_dtype_is_complex(tpt_ir_dtype(L->ir, x)))
        return tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "Sort does not support complex dtypes on the device");
    return rank == 0 ? tpt_ir_reshape(L->ir, x, 1, (const int64_t[]){1}) : x;
}

/* Values and I64 indices, back in rank 0 for a 0-d input. */
static void sort_result(tpt_lower_t *L, tpt_val_t values, tpt_val_t indices) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t pair[2] = {values, tpt_ir_convert(ir, indices, TPT_I64)};
    for (int i = 0; i < 2; i++) {
        bool scalar = tpt_ir_rank(ir, tpt_lower_tensor(L, "self")) == 0 && tpt_ir_rank(ir, pair[i]) == 1;
        tpt_lower_result(L, scalar ? tpt_ir_reshape(ir, pair[i], 0, NULL) : pair[i]);
    }
}

void tpt_ops_sort(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = sort_input(L, &dim), values, indices;
    tpt_sort_pairs(L->ir, x, dim, tpt_lower_bool(L, "descending", false), &values, &indices);
    sort_result(L, values, indices);
}

void tpt_ops_topk(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = sort_input(L, &dim), values, indices;
    int64_t k = tpt_lower_int(L, "k", 0), n = tpt_ir_dim(L->ir, x, dim);
    bool largest = tpt_lower_bool(L, "largest", true);
    if (k < 0 || k > n) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "selected index k out of range");
        return;
    }
    if (k == 1) {
        tpt_reduce_extreme(L->ir, x, dim, largest, &values, &indices);
        values = tpt_ir_unsqueeze(L->ir, values, dim);
        indices = tpt_ir_unsqueeze(L->ir, indices, dim);
    } else {
        tpt_sort_pairs(L->ir, x, dim, largest, &values, &indices);
        values = tpt_ir_slice_dim(L->ir, values, dim, 0, k);
        indices = tpt_ir_slice_dim(L->ir, indices, dim, 0, k);
    }
    sort_result(L, values, indices);
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
    tpt_val_t x = sort_input(L, &dim);
    if (whole) {
        x = tpt_ir_flatten(ir, x);
        dim = 0;
    }
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    if (tpt_ir_dim(ir, x, dim) == 0) {
        if (whole) tpt_lower_result(L, tpt_dtype_is_float(d) ? tpt_ir_const_f(ir, d, NAN) : tpt_ir_lowest(ir, d));
        else (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "median(): Expected reduction dim %d to have non-zero size.", dim);
        return;
    }
    tpt_val_t values, indices, at = median_place(ir, x, dim, skip_nan);
    tpt_sort_pairs(ir, x, dim, false, &values, &indices);
    values = pick(ir, values, dim, at);
    if (whole) tpt_lower_result(L, values);
    else pair_result(L, values, pick(ir, indices, dim, at), dim);
}

void tpt_ops_kthvalue(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    int dim;
    tpt_val_t x = sort_input(L, &dim), values, indices;
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
    tpt_val_t x = sort_input(L, &dim), values, indices;
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
