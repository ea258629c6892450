/* index_mask.c - what a mask selects: results whose size is known only after running are padded and counted. */
#include "ops/scan.h"
#include "ops/shape.h"

typedef struct selected {
    int64_t n;
    tpt_val_t count;  /* rank 0, int64 */
    tpt_val_t places; /* [n]: rank of each selected element among the selected, n for the others (a scatter drops them) */
} selected_t;

/* `mask`: rank 1, bool. */
static selected_t select_places(tpt_ir_t *ir, tpt_val_t mask) {
    selected_t s = {.n = tpt_ir_dim(ir, mask, 0)};
    if (s.n == 0) {
        s.count = tpt_ir_const_i(ir, TPT_I64, 0);
        s.places = tpt_shape_zeros(ir, TPT_I64, 1, &s.n);
        return s;
    }
    tpt_val_t sums = tpt_scan_sum(ir, tpt_ir_convert(ir, mask, s.n <= INT32_MAX ? TPT_I32 : TPT_I64), 0);
    sums = tpt_ir_convert(ir, sums, TPT_I64);
    s.count = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, sums, 0, s.n - 1, s.n), 0, NULL);
    s.places = tpt_ir_select(ir, mask, tpt_ir_sub(ir, sums, tpt_ir_const_i(ir, TPT_I64, 1)), tpt_ir_const_i(ir, TPT_I64, s.n));
    return s;
}

/* Flat positions of the true elements in order, in a vector of `size` that starts as `fill`. */
static tpt_val_t true_positions(tpt_ir_t *ir, const selected_t *s, int64_t size, int64_t fill) {
    tpt_val_t out = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &size), fill);
    return tpt_index_scatter_rows(ir, TPT_IR_SCATTER_SET, out, 0, s->places,
                                  tpt_ir_iota(ir, tpt_type_make(TPT_I64, 1, &s->n), 0));
}

/* [size] flat positions -> [size, rank] coordinates. */
static tpt_val_t coordinates(tpt_ir_t *ir, tpt_val_t flat, const tpt_type_t *type) {
    tpt_val_t parts[TPT_MAX_RANK];
    int64_t size = tpt_ir_dim(ir, flat, 0), dims[2] = {size, type->rank}, below = 1;
    if (type->rank == 0 || size == 0) return tpt_shape_zeros(ir, TPT_I64, 2, dims);
    for (int d = type->rank - 1; d >= 0; d--) {
        int64_t n = type->dims[d] > 0 ? type->dims[d] : 1;
        tpt_val_t at = tpt_ir_div(ir, flat, tpt_ir_const_i(ir, TPT_I64, below));
        parts[d] = tpt_ir_unsqueeze(ir, tpt_ir_binary(ir, TPT_IR_REM, at, tpt_ir_const_i(ir, TPT_I64, n)), 1);
        below *= n;
    }
    return type->rank == 1 ? parts[0] : tpt_ir_concat(ir, type->rank, parts, 1);
}

void tpt_index_nonzero(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    selected_t s = select_places(L->ir, tpt_ir_flatten(L->ir, tpt_ir_convert(L->ir, x, TPT_BOOL)));
    tpt_lower_result(L, coordinates(L->ir, true_positions(L->ir, &s, s.n, 0), &type));
    L->count = s.count;
}

/* The first `size` rows of nonzero; missing ones are filled. */
void tpt_index_nonzero_static(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    int64_t size = tpt_lower_int(L, "size", 0), fill = tpt_lower_int(L, "fill_value", -1);
    selected_t s = select_places(L->ir, tpt_ir_flatten(L->ir, tpt_ir_convert(L->ir, x, TPT_BOOL)));
    if (s.n > 0 && size > s.n) { /* places of dropped elements must lie outside of the larger vector, too */
        tpt_val_t drop = tpt_ir_compare(L->ir, TPT_IR_EQ, s.places, tpt_ir_const_i(L->ir, TPT_I64, s.n));
        s.places = tpt_ir_select(L->ir, drop, tpt_ir_const_i(L->ir, TPT_I64, size), s.places);
    }
    tpt_val_t rows = coordinates(L->ir, true_positions(L->ir, &s, size, 0), &type);
    tpt_val_t valid = tpt_ir_compare(L->ir, TPT_IR_LT, tpt_ir_iota(L->ir, tpt_type_make(TPT_I64, 1, &size), 0), s.count);
    if (type.rank > 0 && size > 0)
        rows = tpt_ir_select(L->ir, tpt_ir_unsqueeze(L->ir, valid, 1), rows, tpt_ir_const_i(L->ir, TPT_I64, fill));
    tpt_lower_result(L, rows);
}

/* The common shape of two broadcast types. */
static tpt_type_t broadcast_type(const tpt_type_t *a, const tpt_type_t *b) {
    tpt_type_t out = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int k = 1; k <= out.rank; k++) {
        int64_t x = k <= a->rank ? a->dims[a->rank - k] : 1, y = k <= b->rank ? b->dims[b->rank - k] : 1;
        out.dims[out.rank - k] = x == 1 ? y : x;
    }
    return out;
}

void tpt_index_masked_select(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), mask = tpt_lower_tensor(L, "mask");
    if (tpt_ir_dtype(L->ir, mask) != TPT_BOOL) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "masked_select: expected BoolTensor for mask");
        return;
    }
    tpt_type_t type = broadcast_type(tpt_ir_type(L->ir, x), tpt_ir_type(L->ir, mask));
    x = tpt_ir_flatten(L->ir, tpt_ir_broadcast_to(L->ir, x, type.rank, type.dims));
    mask = tpt_ir_flatten(L->ir, tpt_ir_broadcast_to(L->ir, mask, type.rank, type.dims));
    selected_t s = select_places(L->ir, mask);
    tpt_val_t out = tpt_shape_zeros(L->ir, tpt_ir_dtype(L->ir, x), 1, &s.n);
    tpt_lower_result(L, tpt_index_scatter_rows(L->ir, TPT_IR_SCATTER_SET, out, 0, s.places, x));
    L->count = s.count;
}

/* The k-th true element takes source's k-th value; a source too short is flagged. */
void tpt_index_masked_scatter(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), mask = tpt_lower_tensor(L, "mask");
    if (tpt_ir_dtype(L->ir, mask) != TPT_BOOL) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "masked_scatter_ only supports boolean masks, but got mask with dtype %s",
                             tpt_dtype_name(tpt_ir_dtype(L->ir, mask)));
        return;
    }
    tpt_type_t type = broadcast_type(tpt_ir_type(L->ir, x), tpt_ir_type(L->ir, mask));
    tpt_val_t source = tpt_ir_convert(L->ir, tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "source")), (tpt_dtype_t)type.dtype);
    int64_t m = tpt_ir_dim(L->ir, source, 0);
    x = tpt_ir_broadcast_to(L->ir, x, type.rank, type.dims);
    mask = tpt_ir_broadcast_to(L->ir, mask, type.rank, type.dims);
    selected_t s = select_places(L->ir, tpt_ir_flatten(L->ir, mask));
    tpt_lower_refuse(L, tpt_ir_compare(L->ir, TPT_IR_GT, s.count, tpt_ir_const_i(L->ir, TPT_I64, m)),
                     "Number of elements of source < number of ones in mask");
    if (m == 0 || s.n == 0) {
        tpt_lower_result(L, x);
        return;
    }
    tpt_val_t at = tpt_ir_min(L->ir, s.places, tpt_ir_const_i(L->ir, TPT_I64, m - 1));
    tpt_val_t values = tpt_ir_reshape(L->ir, tpt_index_take(L->ir, source, 0, at), type.rank, type.dims);
    tpt_lower_result(L, tpt_ir_select(L->ir, mask, values, x));
}
