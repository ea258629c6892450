/* sort_search.c - searchsorted, bucketize, isin: binary searches with the steps of PyTorch's own. */
#include "ops/reduce.h"
#include "ops/sort.h"

/* The same midpoints as on cpu, so that unsorted rows and NaNs end up in the same place: go right while !(mid >= value), or
 * !(mid > value) with `right`. */
tpt_val_t tpt_sort_search(tpt_ir_t *ir, tpt_val_t sorted, tpt_val_t values, bool right) {
    int64_t n = tpt_ir_dim(ir, sorted, 1), rows = tpt_ir_dim(ir, values, 0);
    tpt_type_t type = *tpt_ir_type(ir, values);
    tpt_dtype_t d = tpt_ir_numel(ir, sorted) < INT32_MAX ? TPT_I32 : TPT_I64; /* narrow places gather faster */
    type.dtype = (uint8_t)d;
    tpt_val_t low = tpt_ir_full_i(ir, type, 0), high = tpt_ir_full_i(ir, type, n);
    if (n == 0 || tpt_ir_numel(ir, values) == 0 || tpt_ir_status(ir) != NULL) return tpt_ir_convert(ir, low, TPT_I64);
    tpt_val_t one = tpt_ir_const_i(ir, d, 1), last = tpt_ir_const_i(ir, d, n - 1);
    tpt_val_t base = tpt_ir_const_i(ir, d, 0); /* first element of the row in the flattened rows */
    if (rows > 1 && tpt_ir_dim(ir, sorted, 0) > 1) base = tpt_ir_mul(ir, tpt_ir_iota(ir, type, 0), tpt_ir_const_i(ir, d, n));
    tpt_val_t flat = tpt_ir_flatten(ir, sorted);
    for (int64_t left = n; left > 0; left /= 2) {
        tpt_val_t half = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, tpt_ir_sub(ir, high, low), one);
        tpt_val_t mid = tpt_ir_add(ir, low, half), open = tpt_ir_compare(ir, TPT_IR_LT, low, high);
        tpt_val_t item = tpt_sort_take(ir, flat, tpt_ir_add(ir, base, tpt_ir_min(ir, mid, last)));
        tpt_val_t stop = tpt_ir_compare(ir, right ? TPT_IR_GT : TPT_IR_GE, item, values);
        tpt_val_t above = tpt_ir_add(ir, mid, one);
        tpt_val_t go = tpt_ir_and(ir, open, tpt_ir_not(ir, stop)), end = tpt_ir_and(ir, open, stop);
        low = tpt_ir_select(ir, go, above, low);
        high = tpt_ir_select(ir, end, mid, high);
    }
    return tpt_ir_convert(ir, low, TPT_I64);
}

static bool right_side(tpt_lower_t *L) { return tpt_lower_bool(L, "right", false) || tpt_lower_text_is(L, "side", "right"); }

/* x as [product of all dims but the last, last dim]. */
static tpt_val_t as_rows(tpt_ir_t *ir, tpt_val_t x) {
    int rank = tpt_ir_rank(ir, x);
    int64_t rows = 1, last = rank > 0 ? tpt_ir_dim(ir, x, rank - 1) : 1;
    for (int d = 0; d + 1 < rank; d++) rows *= tpt_ir_dim(ir, x, d);
    return tpt_ir_reshape(ir, x, 2, (const int64_t[]){rows, last});
}

/* searchsorted.{Tensor,Scalar} and bucketize.{Tensor,Scalar}: the rows are "sorted_sequence" or "boundaries". */
void tpt_ops_searchsorted(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    bool buckets = tpt_lower_has(L, "boundaries");
    tpt_val_t sorted = tpt_lower_tensor(L, buckets ? "boundaries" : "sorted_sequence"), values = tpt_lower_tensor(L, "self");
    tpt_type_t shape = *tpt_ir_type(ir, values);
    if (buckets && tpt_ir_rank(ir, sorted) != 1) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "boundaries tensor must be 1 dimension, but got dim(%d)", tpt_ir_rank(ir, sorted));
        return;
    }
    tpt_dtype_t d = tpt_ir_dtype(ir, sorted);
    if (d != tpt_ir_dtype(ir, values)) d = tpt_promote_args(L);
    tpt_val_t sorter = tpt_lower_optional(L, "sorter");
    bool one_row = tpt_ir_rank(ir, sorted) == 1;
    sorted = as_rows(ir, tpt_ir_convert(ir, sorted, d));
    values = tpt_ir_convert(ir, values, d);
    if (tpt_ir_status(ir) != NULL) return;
    if (tpt_ir_dim(ir, sorted, 1) == 0) { /* every place among nothing is the first */
        shape.dtype = tpt_lower_bool(L, "out_int32", false) ? TPT_I32 : TPT_I64;
        tpt_lower_result(L, tpt_ir_full_i(ir, shape, 0));
        return;
    }
    if (one_row)
        values = tpt_ir_reshape(ir, values, 2, (const int64_t[]){1, tpt_type_numel(&shape)});
    else
        values = as_rows(ir, values);
    if (sorter != TPT_VAL_NONE) {
        int64_t n = tpt_ir_dim(ir, sorted, 1);
        sorter = as_rows(ir, tpt_lower_index(L, sorter, n));
        tpt_type_t type = *tpt_ir_type(ir, sorter);
        tpt_val_t base = tpt_ir_mul(ir, tpt_ir_iota(ir, type, 0), tpt_ir_const_i(ir, tpt_ir_dtype(ir, sorter), n));
        sorted = tpt_sort_take(ir, tpt_ir_flatten(ir, sorted), tpt_ir_add(ir, base, sorter));
    }
    tpt_val_t place = tpt_sort_search(ir, sorted, values, right_side(L));
    place = tpt_ir_convert(ir, place, tpt_lower_bool(L, "out_int32", false) ? TPT_I32 : TPT_I64);
    tpt_lower_result(L, tpt_ir_reshape(ir, place, shape.rank, shape.dims));
}

#define ISIN_COMPARE 64 /* up to so many test elements every pair is compared */

/* isin: "elements" or "element" against "test_elements" or "test_element". */
void tpt_ops_isin(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, tpt_lower_has(L, "elements") ? "elements" : "element");
    tpt_val_t test = tpt_lower_tensor(L, tpt_lower_has(L, "test_elements") ? "test_elements" : "test_element");
    tpt_dtype_t d = tpt_promote_args(L);
    x = tpt_ir_convert(ir, x, d);
    test = tpt_ir_flatten(ir, tpt_ir_convert(ir, test, d));
    tpt_type_t shape = *tpt_ir_type(ir, x);
    int64_t m = tpt_ir_dim(ir, test, 0);
    tpt_val_t found;
    if (m <= ISIN_COMPARE || tpt_type_numel(&shape) <= ISIN_COMPARE || tpt_dtype_is_complex(d)) {
        tpt_val_t flat = tpt_ir_unsqueeze(ir, tpt_ir_flatten(ir, x), 1);
        tpt_val_t equal = tpt_ir_compare(ir, TPT_IR_EQ, flat, tpt_ir_unsqueeze(ir, test, 0));
        found = tpt_ir_reduce(ir, TPT_IR_RED_OR, equal, 1, (const int64_t[]){1});
    } else {
        tpt_val_t order, rows = tpt_ir_reshape(ir, x, 2, (const int64_t[]){1, tpt_type_numel(&shape)});
        tpt_sort_pairs(ir, test, 0, false, &test, &order);
        tpt_val_t place = tpt_sort_search(ir, tpt_ir_unsqueeze(ir, test, 0), rows, false);
        place = tpt_ir_min(ir, place, tpt_ir_const_i(ir, TPT_I64, m - 1));
        found = tpt_ir_compare(ir, TPT_IR_EQ, tpt_sort_take(ir, test, place), rows);
    }
    found = tpt_ir_reshape(ir, found, shape.rank, shape.dims);
    tpt_lower_result(L, tpt_lower_bool(L, "invert", false) ? tpt_ir_not(ir, found) : found);
}
