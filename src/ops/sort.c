/* sort.c - sorting along a dim.
 *
 * CPU plugins call a comparator through a pointer, but compare whole words when one operand is sorted by a plain `less`: four
 * times faster. So the order of a value of at most 32 bits and its index are packed into one 64-bit word; that makes the sort
 * stable too. 64-bit integers are packed when their spread fits, which the program finds out when it runs. */
#include "ops/sort.h"

#include "ops/reduce.h"

/* ---- gathers ------------------------------------------------------------------------------------------------------- */

tpt_val_t tpt_sort_take(tpt_ir_t *ir, tpt_val_t x, tpt_val_t at) {
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = tpt_ir_rank(ir, at), .slice_sizes = {1}};
    return tpt_ir_gather(ir, x, at, &g);
}

tpt_val_t tpt_sort_take_along(tpt_ir_t *ir, tpt_val_t x, tpt_val_t at, int dim) {
    int rank = tpt_ir_rank(ir, x);
    int64_t n = tpt_ir_dim(ir, x, dim), inner = 1, outer = 1;
    for (int d = 0; d < dim; d++) outer *= tpt_ir_dim(ir, x, d);
    for (int d = dim + 1; d < rank; d++) inner *= tpt_ir_dim(ir, x, d);
    tpt_val_t flat = tpt_ir_flatten(ir, x);
    if (rank == 1 || tpt_ir_status(ir) != NULL) return tpt_sort_take(ir, flat, at);
    tpt_dtype_t d = tpt_ir_numel(ir, x) < INT32_MAX ? TPT_I32 : TPT_I64;
    tpt_type_t shape = *tpt_ir_type(ir, at), cube = tpt_type_make(d, 3, (const int64_t[]){outer, shape.dims[dim], inner});
    at = tpt_ir_reshape(ir, tpt_ir_convert(ir, at, d), 3, cube.dims);
    at = tpt_ir_add(ir, at, tpt_ir_mul(ir, tpt_ir_iota(ir, cube, 0), tpt_ir_const_i(ir, d, n)));
    if (inner > 1) at = tpt_ir_add(ir, tpt_ir_mul(ir, at, tpt_ir_const_i(ir, d, inner)), tpt_ir_iota(ir, cube, 2));
    return tpt_ir_reshape(ir, tpt_sort_take(ir, flat, at), shape.rank, shape.dims);
}

/* ---- packed words -------------------------------------------------------------------------------------------------- */

/* Values of at most 32 bits as U32 words in the same order. Zeros are equal, NaN is above all. */
static tpt_val_t order_word(tpt_ir_t *ir, tpt_val_t x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_val_t top = tpt_ir_const_i(ir, TPT_U32, INT64_C(0x80000000));
    if (!tpt_dtype_is_float(d)) {
        if (!tpt_dtype_is_signed(d)) return tpt_ir_convert(ir, x, TPT_U32);
        return tpt_ir_binary(ir, TPT_IR_XOR, tpt_ir_bitcast(ir, tpt_ir_convert(ir, x, TPT_I32), TPT_U32), top);
    }
    x = tpt_ir_convert(ir, x, TPT_F32);
    tpt_val_t zero = tpt_ir_like(ir, x, 0.0);
    tpt_val_t bits = tpt_ir_bitcast(ir, tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, x, zero), zero, x), TPT_U32);
    tpt_val_t negative = tpt_ir_compare(ir, TPT_IR_GE, bits, top);
    tpt_val_t word = tpt_ir_select(ir, negative, tpt_ir_not(ir, bits), tpt_ir_or(ir, bits, top));
    return tpt_ir_select(ir, tpt_reduce_isnan(ir, x), tpt_ir_const_i(ir, TPT_U32, UINT32_MAX), word);
}

/* The sorted places (I32) of U32 words along dim; equal words keep their order. */
static tpt_val_t sort_words(tpt_ir_t *ir, tpt_val_t word, int dim, bool descending) {
    tpt_type_t type = *tpt_ir_type(ir, word), one = tpt_type_make(TPT_U64, 0, NULL);
    type.dtype = TPT_U64;
    if (descending) word = tpt_ir_not(ir, word);
    word = tpt_ir_binary(ir, TPT_IR_SHL, tpt_ir_convert(ir, word, TPT_U64), tpt_ir_const_i(ir, TPT_U64, 32));
    word = tpt_ir_or(ir, word, tpt_ir_iota(ir, type, dim));
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, one), b = tpt_ir_region_arg(ir, one);
    tpt_val_t less = tpt_ir_compare(ir, TPT_IR_LT, a, b), sorted = TPT_VAL_NONE;
    tpt_ir_sort(ir, 1, &word, dim, true, tpt_ir_region_end(ir, 1, &less), &sorted);
    return tpt_ir_convert(ir, tpt_ir_convert(ir, sorted, TPT_U32), TPT_I32);
}

/* ---- any dtype ----------------------------------------------------------------------------------------------------- */

/* The sorted places by a comparator of values; the index travels along. NaN is the largest. */
static tpt_val_t sort_values(tpt_ir_t *ir, tpt_val_t x, int dim, bool descending) {
    tpt_val_t index = tpt_reduce_iota(ir, x, dim), out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_type_t value_type = tpt_type_make(d, 0, NULL), index_type = tpt_type_make(tpt_ir_dtype(ir, index), 0, NULL);
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, value_type), b = tpt_ir_region_arg(ir, value_type);
    (void)tpt_ir_region_arg(ir, index_type);
    (void)tpt_ir_region_arg(ir, index_type);
    tpt_val_t before = tpt_ir_compare(ir, descending ? TPT_IR_GT : TPT_IR_LT, a, b);
    if (tpt_dtype_is_float(d)) {
        tpt_val_t nan = descending ? a : b, number = descending ? b : a;
        tpt_val_t by_nan = tpt_ir_and(ir, tpt_reduce_isnan(ir, nan), tpt_ir_compare(ir, TPT_IR_EQ, number, number));
        before = tpt_ir_or(ir, before, by_nan);
    }
    tpt_region_t order = tpt_ir_region_end(ir, 1, &before);
    tpt_ir_sort(ir, 2, (const tpt_val_t[]){x, index}, dim, true, order, out);
    return out[1];
}

/* 64-bit integers: packed by their distance from the smallest if the largest distance fits into 32 bits. */
static tpt_val_t sort_long(tpt_ir_t *ir, tpt_val_t x, int dim, bool descending) {
    tpt_reduce_t all = tpt_reduce_all(ir, x);
    tpt_val_t least = tpt_reduce_run(&all, TPT_IR_RED_MIN, x), most = tpt_reduce_run(&all, TPT_IR_RED_MAX, x);
    tpt_val_t spread = tpt_ir_bitcast(ir, tpt_ir_sub(ir, most, least), TPT_U64), places = TPT_VAL_NONE;
    tpt_val_t fits = tpt_ir_compare(ir, TPT_IR_LE, spread, tpt_ir_const_i(ir, TPT_U64, UINT32_MAX));
    tpt_ir_region_begin(ir);
    tpt_val_t packed = sort_words(ir, tpt_ir_convert(ir, tpt_ir_sub(ir, x, least), TPT_U32), dim, descending);
    tpt_region_t then = tpt_ir_region_end(ir, 1, &packed);
    tpt_ir_region_begin(ir);
    tpt_val_t plain = sort_values(ir, x, dim, descending);
    tpt_region_t otherwise = tpt_ir_region_end(ir, 1, &plain);
    tpt_ir_if(ir, fits, then, otherwise, 1, &places);
    return places;
}

void tpt_sort_pairs(tpt_ir_t *ir, tpt_val_t x, int dim, bool descending, tpt_val_t *out_values, tpt_val_t *out_indices) {
    *out_values = x;
    int64_t n = tpt_ir_dim(ir, x, dim);
    if (tpt_ir_status(ir) != NULL || tpt_ir_numel(ir, x) == 0 || n < 2) {
        *out_indices = tpt_reduce_iota(ir, x, dim);
        return;
    }
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    if (n >= INT32_MAX)
        *out_indices = sort_values(ir, x, dim, descending);
    else if (tpt_dtype_size(d) <= 4)
        *out_indices = sort_words(ir, order_word(ir, x), dim, descending);
    else if (tpt_dtype_is_int(d))
        *out_indices = sort_long(ir, x, dim, descending);
    else
        *out_indices = sort_values(ir, x, dim, descending);
    *out_values = tpt_sort_take_along(ir, x, *out_indices, dim); /* as they were: signed zeros, NaN payloads */
}

/* ---- what the rows share ------------------------------------------------------------------------------------------- */

/* The input, at least of rank 1, and its dim. */
tpt_val_t tpt_sort_input(tpt_lower_t *L, int *out_dim) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(L->ir, x);
    *out_dim = tpt_lower_dim(L, "dim", rank, -1);
    if (tpt_dtype_is_complex(tpt_ir_dtype(L->ir, x)))
        return tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "Sort does not support complex dtypes on the device");
    return rank == 0 ? tpt_ir_reshape(L->ir, x, 1, (const int64_t[]){1}) : x;
}

/* Values and I64 indices, back in rank 0 for a 0-d input. */
void tpt_sort_result(tpt_lower_t *L, tpt_val_t values, tpt_val_t indices) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t pair[2] = {values, tpt_ir_convert(ir, indices, TPT_I64)};
    for (int i = 0; i < 2; i++) {
        bool scalar = tpt_ir_rank(ir, tpt_lower_tensor(L, "self")) == 0 && tpt_ir_rank(ir, pair[i]) == 1;
        tpt_lower_result(L, scalar ? tpt_ir_reshape(ir, pair[i], 0, NULL) : pair[i]);
    }
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

void tpt_ops_sort(tpt_lower_t *L) {
    int dim;
    tpt_val_t x = tpt_sort_input(L, &dim), values, indices;
    tpt_sort_pairs(L->ir, x, dim, tpt_lower_bool(L, "descending", false), &values, &indices);
    tpt_sort_result(L, values, indices);
}
