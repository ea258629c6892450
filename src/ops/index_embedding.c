/* index_embedding.c - embedding tables, bags of embeddings, and their gradients. */
#include <math.h>

#include "ops/shape.h"

/* ---- embedding ----------------------------------------------------------------------------------------------------- */

void tpt_index_embedding(tpt_lower_t *L) {
    tpt_val_t weight = tpt_lower_tensor(L, "weight"), index = tpt_lower_tensor(L, "indices");
    index = tpt_index_strict(L, index, tpt_ir_dim(L->ir, weight, 0));
    tpt_lower_result(L, tpt_index_take(L->ir, weight, 0, index));
}

/* How often each of `n` rows is named; indices outside are not counted. */
static tpt_val_t frequencies(tpt_ir_t *ir, tpt_val_t index, int64_t n, tpt_dtype_t dtype) {
    int64_t count = tpt_ir_dim(ir, index, 0);
    return tpt_index_scatter_rows(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros(ir, dtype, 1, &n), 0, index,
                                  tpt_ir_full_i(ir, tpt_type_make(dtype, 1, &count), 1));
}

/* An index equal to `padding` (>= 0) is moved to `outside`, where a scatter drops it. */
static tpt_val_t drop_padding(tpt_ir_t *ir, tpt_val_t index, tpt_val_t target, int64_t padding, int64_t outside) {
    if (padding < 0) return target;
    tpt_val_t is_padding = tpt_ir_compare(ir, TPT_IR_EQ, index, tpt_ir_const_i(ir, TPT_I64, padding));
    return tpt_ir_select(ir, is_padding, tpt_ir_const_i(ir, TPT_I64, outside), target);
}

/* Adds rows g[k] to row index[k] of a table of zeros. */
static tpt_val_t table_gradient(tpt_ir_t *ir, tpt_val_t g, tpt_val_t index, int64_t rows, int64_t padding, bool by_frequency) {
    int64_t dims[2] = {rows, tpt_ir_dim(ir, g, 1)};
    tpt_dtype_t work = tpt_ir_dtype(ir, g);
    if (by_frequency) {
        tpt_val_t count = tpt_index_take(ir, frequencies(ir, index, rows, work), 0, index);
        g = tpt_ir_div(ir, g, tpt_ir_unsqueeze(ir, count, 1));
    }
    index = drop_padding(ir, index, index, padding, rows);
    return tpt_index_scatter_rows(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros(ir, work, 2, dims), 0, index, g);
}

void tpt_index_embedding_back(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "grad_output");
    tpt_val_t index = tpt_ir_convert(L->ir, tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "indices")), TPT_I64);
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, g);
    int64_t dims[2] = {tpt_ir_dim(L->ir, index, 0), tpt_ir_dim(L->ir, g, -1)}, rows = tpt_lower_int(L, "num_weights", 0);
    g = tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, g, tpt_dtype_opmath(dtype)), 2, dims);
    g = table_gradient(L->ir, g, index, rows, tpt_lower_int(L, "padding_idx", -1),
                       tpt_lower_bool(L, "scale_grad_by_freq", false));
    tpt_lower_result(L, tpt_ir_convert(L->ir, g, dtype));
}

/* [rows, 1] p-norms of the rows of a table. */
static tpt_val_t row_norms(tpt_ir_t *ir, tpt_val_t x, double p) {
    int64_t dim = 1;
    tpt_val_t a = tpt_ir_unary(ir, TPT_IR_ABS, x), norm;
    if (isinf(p)) {
        norm = tpt_ir_reduce(ir, TPT_IR_RED_MAX, a, 1, &dim);
    } else if (p == 1) {
        norm = tpt_ir_reduce(ir, TPT_IR_RED_ADD, a, 1, &dim);
    } else if (p == 2) {
        norm = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_mul(ir, a, a), 1, &dim));
    } else {
        norm = tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_binary(ir, TPT_IR_POW, a, tpt_ir_like(ir, a, p)), 1, &dim);
        norm = tpt_ir_binary(ir, TPT_IR_POW, norm, tpt_ir_like(ir, norm, 1 / p));
    }
    return tpt_ir_unsqueeze(ir, norm, 1);
}

/* Rows that are named and longer than max_norm are shortened to it. */
void tpt_index_embedding_renorm(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), index = tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "indices"));
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, x), work = tpt_dtype_opmath(dtype);
    int64_t rows = tpt_ir_dim(L->ir, x, 0);
    index = tpt_index_strict(L, index, rows);
    tpt_val_t wide = tpt_ir_convert(L->ir, x, work), limit = tpt_lower_number(L, "max_norm", work);
    tpt_val_t norm = row_norms(L->ir, wide, tpt_lower_static(L, "norm_type", 2));
    tpt_val_t named =
        tpt_ir_compare(L->ir, TPT_IR_GT, frequencies(L->ir, index, rows, TPT_I64), tpt_ir_const_i(L->ir, TPT_I64, 0));
    tpt_val_t shorten = tpt_ir_and(L->ir, tpt_ir_unsqueeze(L->ir, named, 1), tpt_ir_compare(L->ir, TPT_IR_GT, norm, limit));
    tpt_val_t scale = tpt_ir_div(L->ir, limit, tpt_ir_add(L->ir, norm, tpt_ir_like(L->ir, norm, 1e-7)));
    tpt_val_t shorter = tpt_ir_convert(L->ir, tpt_ir_mul(L->ir, wide, scale), dtype);
    tpt_lower_result(L, tpt_ir_select(L->ir, shorten, shorter, x));
}

/* ---- bags ---------------------------------------------------------------------------------------------------------- */

enum { BAG_SUM = 0, BAG_MEAN = 1, BAG_MAX = 2 };

typedef struct bags {
    int64_t n, count, width; /* indices, bags, columns of the table */
    int mode;
    tpt_val_t index;  /* [n] */
    tpt_val_t bag;    /* [n]: which bag each index is in */
    tpt_val_t target; /* the same, but `count` for padding */
    tpt_val_t rows;   /* [n, width], in the computing dtype, weighted */
    tpt_val_t sizes;  /* [count], int64, without padding */
} bags_t;

static bool bags_of(tpt_lower_t *L, bags_t *b) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t weight = tpt_lower_tensor(L, "weight"), offsets = tpt_ir_convert(ir, tpt_lower_tensor(L, "offsets"), TPT_I64);
    tpt_dtype_t work = tpt_dtype_opmath(tpt_ir_dtype(ir, weight));
    b->index = tpt_index_strict(L, tpt_lower_tensor(L, "indices"), tpt_ir_dim(ir, weight, 0));
    b->n = tpt_ir_dim(ir, b->index, 0);
    b->width = tpt_ir_dim(ir, weight, 1);
    b->mode = (int)tpt_lower_int(L, "mode", BAG_SUM);
    b->count = tpt_ir_dim(ir, offsets, 0) - (tpt_lower_bool(L, "include_last_offset", false) ? 1 : 0);
    if (b->count < 0 || tpt_ir_status(ir) != NULL) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "include_last_offset: number of offsets should be at least 1");
        return false;
    }
    b->bag = tpt_index_segments(ir, offsets, b->n);
    b->target = drop_padding(ir, b->index, b->bag, tpt_lower_int(L, "padding_idx", -1), b->count);
    b->rows = tpt_ir_convert(ir, tpt_index_take(ir, weight, 0, b->index), work);
    if (tpt_lower_has(L, "per_sample_weights")) {
        tpt_val_t weights = tpt_ir_convert(ir, tpt_lower_tensor(L, "per_sample_weights"), work);
        b->rows = tpt_ir_mul(ir, b->rows, tpt_ir_unsqueeze(ir, weights, 1));
    }
    b->sizes = frequencies(ir, b->target, b->count, TPT_I64);
    return true;
}

/* The largest of each bag, and which table row it came from (the first one in the bag); 0 for empty bags. */
static tpt_val_t bag_max(tpt_ir_t *ir, const bags_t *b, tpt_val_t *out_winner) {
    int64_t dims[2] = {b->count, b->width}, each[2] = {b->n, b->width};
    tpt_dtype_t work = tpt_ir_dtype(ir, b->rows);
    tpt_val_t low = tpt_ir_broadcast_to(ir, tpt_ir_lowest(ir, work), 2, dims);
    tpt_val_t best = tpt_index_scatter_rows(ir, TPT_IR_SCATTER_MAX, low, 0, b->target, b->rows);
    *out_winner = tpt_shape_zeros(ir, TPT_I64, 2, dims);
    if (b->n == 0 || b->count == 0) return tpt_shape_zeros(ir, work, 2, dims);
    tpt_val_t is_best = tpt_ir_compare(ir, TPT_IR_EQ, b->rows, tpt_index_take(ir, best, 0, b->bag));
    tpt_val_t none = tpt_ir_const_i(ir, TPT_I64, b->n);
    tpt_val_t place = tpt_ir_select(ir, is_best, tpt_ir_iota(ir, tpt_type_make(TPT_I64, 2, each), 0), none);
    tpt_val_t first =
        tpt_index_scatter_rows(ir, TPT_IR_SCATTER_MIN, tpt_ir_broadcast_to(ir, none, 2, dims), 0, b->target, place);
    tpt_val_t filled = tpt_ir_compare(ir, TPT_IR_LT, first, none);
    first = tpt_ir_min(ir, first, tpt_ir_const_i(ir, TPT_I64, b->n - 1));
    *out_winner = tpt_ir_select(ir, filled, tpt_index_take(ir, b->index, 0, first), tpt_ir_const_i(ir, TPT_I64, 0));
    tpt_val_t empty = tpt_ir_compare(ir, TPT_IR_EQ, tpt_ir_unsqueeze(ir, b->sizes, 1), tpt_ir_const_i(ir, TPT_I64, 0));
    return tpt_ir_select(ir, empty, tpt_ir_const_i(ir, work, 0), best);
}

static tpt_val_t bag_sum(tpt_ir_t *ir, const bags_t *b) {
    int64_t dims[2] = {b->count, b->width};
    tpt_dtype_t work = tpt_ir_dtype(ir, b->rows);
    tpt_val_t sum = tpt_index_scatter_rows(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros(ir, work, 2, dims), 0, b->target, b->rows);
    if (b->mode != BAG_MEAN) return sum;
    tpt_val_t size = tpt_ir_max(ir, b->sizes, tpt_ir_const_i(ir, TPT_I64, 1));
    return tpt_ir_div(ir, sum, tpt_ir_unsqueeze(ir, tpt_ir_convert(ir, size, work), 1));
}

/* Meta kernels decide how large the side results are (some are empty for some modes): cut or zero-pad to that. */
static void side_result(tpt_lower_t *L, int k, tpt_val_t v) {
    tpt_type_t want = *tpt_ir_type(L->ir, v);
    if (k < L->nouts && L->outs != NULL) want = tpt_type_make((tpt_dtype_t)L->outs[k].dtype, L->outs[k].rank, L->outs[k].sizes);
    if (tpt_ir_status(L->ir) != NULL) return;
    const tpt_type_t have = *tpt_ir_type(L->ir, v);
    if (want.rank != have.rank || tpt_type_numel(&want) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, want));
        return;
    }
    for (int d = 0; d < want.rank; d++) {
        if (want.dims[d] > have.dims[d]) v = tpt_shape_pad_dim(L->ir, v, d, 0, want.dims[d] - have.dims[d], 1);
        if (want.dims[d] < have.dims[d]) v = tpt_ir_slice_dim(L->ir, v, d, 0, want.dims[d]);
    }
    tpt_lower_result(L, tpt_ir_convert(L->ir, v, (tpt_dtype_t)want.dtype));
}

/* Four results: output, bag of each index, bag sizes, winners of max mode. */
void tpt_index_bag(tpt_lower_t *L) {
    bags_t b = {0};
    if (!bags_of(L, &b)) return;
    tpt_dtype_t dtype = (tpt_dtype_t)tpt_shape_arg(L, "weight").dtype;
    tpt_val_t winner = tpt_shape_zeros(L->ir, TPT_I64, 1, &b.count);
    tpt_val_t out = b.mode == BAG_MAX ? bag_max(L->ir, &b, &winner) : bag_sum(L->ir, &b);
    tpt_lower_result(L, tpt_ir_convert(L->ir, out, dtype));
    side_result(L, 1, b.bag);
    side_result(L, 2, b.sizes);
    side_result(L, 3, winner);
}

/* The bag of each index: saved by the forward, or made again from the offsets when it was not. */
static tpt_val_t saved_bags(tpt_lower_t *L, int64_t n) {
    tpt_val_t bag = tpt_ir_convert(L->ir, tpt_lower_tensor(L, "offset2bag"), TPT_I64);
    if (tpt_ir_numel(L->ir, bag) == n || !tpt_lower_has(L, "offsets")) return bag;
    return tpt_index_segments(L->ir, tpt_ir_convert(L->ir, tpt_lower_tensor(L, "offsets"), TPT_I64), n);
}

/* The gradient of each index: that of its bag. With include_last_offset indices may come behind the last bag: they are in none. */
static tpt_val_t gradient_of_each(tpt_lower_t *L, tpt_val_t g, int64_t n) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t bag = saved_bags(L, n);
    tpt_val_t inside = tpt_ir_compare(ir, TPT_IR_LT, bag, tpt_ir_const_i(ir, TPT_I64, tpt_ir_dim(ir, g, 0)));
    g = tpt_index_take(ir, g, 0, bag);
    return tpt_ir_select(ir, tpt_ir_unsqueeze(ir, inside, 1), g, tpt_ir_const_i(ir, tpt_ir_dtype(ir, g), 0));
}

void tpt_index_bag_back(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t g = tpt_lower_tensor(L, "grad");
    tpt_val_t index = tpt_ir_convert(ir, tpt_lower_tensor(L, "indices"), TPT_I64);
    tpt_val_t sizes = tpt_ir_convert(ir, tpt_lower_tensor(L, "bag_size"), TPT_I64);
    tpt_dtype_t dtype = tpt_ir_dtype(ir, g), work = tpt_dtype_opmath(dtype);
    int64_t rows = tpt_lower_int(L, "num_weights", 0), padding = tpt_lower_int(L, "padding_idx", -1);
    int64_t n = tpt_ir_dim(ir, index, 0), count = tpt_ir_dim(ir, g, 0), dims[2] = {rows, tpt_ir_dim(ir, g, 1)};
    int mode = (int)tpt_lower_int(L, "mode", BAG_SUM);
    if (tpt_lower_bool(L, "sparse", false)) {
        (void)tpt_lower_fail(L, TPT_UNIMPLEMENTED, "embedding_bag: sparse gradients are not supported on tpu");
        return;
    }
    g = tpt_ir_convert(ir, g, work);
    if (n == 0 || count == 0) {
        tpt_lower_result(L, tpt_shape_zeros(ir, dtype, 2, dims));
        return;
    }
    if (mode != BAG_SUM) sizes = tpt_ir_slice_dim(ir, sizes, 0, 0, count); /* there may be one more: the last offset */
    if (mode == BAG_MAX) {
        tpt_val_t winner = tpt_ir_convert(ir, tpt_lower_tensor(L, "maximum_indices"), TPT_I64);
        tpt_val_t filled = tpt_ir_compare(ir, TPT_IR_GT, tpt_ir_unsqueeze(ir, sizes, 1), tpt_ir_const_i(ir, TPT_I64, 0));
        g = tpt_ir_select(ir, filled, g, tpt_ir_const_i(ir, work, 0));
        g = tpt_index_scatter_elements(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros(ir, work, 2, dims), 0, winner, g);
        tpt_lower_result(L, tpt_ir_convert(ir, g, dtype));
        return;
    }
    if (mode == BAG_MEAN) {
        tpt_val_t size = tpt_ir_convert(ir, tpt_ir_max(ir, sizes, tpt_ir_const_i(ir, TPT_I64, 1)), work);
        g = tpt_ir_div(ir, g, tpt_ir_unsqueeze(ir, size, 1));
    }
    g = gradient_of_each(L, g, n);
    if (tpt_lower_has(L, "per_sample_weights")) {
        tpt_val_t weights = tpt_ir_convert(ir, tpt_lower_tensor(L, "per_sample_weights"), work);
        g = tpt_ir_mul(ir, g, tpt_ir_unsqueeze(ir, weights, 1));
    }
    g = table_gradient(ir, g, index, rows, padding, tpt_lower_bool(L, "scale_grad_by_freq", false));
    tpt_lower_result(L, tpt_ir_convert(ir, g, dtype));
}

/* d(output) / d(weight of one sample) = <gradient of its bag, its table row>. */
void tpt_index_bag_weights_back(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t g = tpt_lower_tensor(L, "grad"), weight = tpt_lower_tensor(L, "weight");
    tpt_val_t index = tpt_ir_convert(ir, tpt_lower_tensor(L, "indices"), TPT_I64);
    tpt_dtype_t dtype = tpt_ir_dtype(ir, g), work = tpt_dtype_opmath(dtype);
    int64_t n = tpt_ir_dim(ir, index, 0), padding = tpt_lower_int(L, "padding_idx", -1), dim = 1;
    if (n == 0) {
        tpt_lower_result(L, tpt_shape_zeros(ir, dtype, 1, &n));
        return;
    }
    tpt_val_t rows = tpt_ir_convert(ir, tpt_index_take(ir, weight, 0, index), work);
    tpt_val_t grads = tpt_ir_convert(ir, gradient_of_each(L, g, n), work);
    tpt_val_t out = tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_mul(ir, rows, grads), 1, &dim);
    if (padding >= 0) {
        tpt_val_t is_padding = tpt_ir_compare(ir, TPT_IR_EQ, index, tpt_ir_const_i(ir, TPT_I64, padding));
        out = tpt_ir_select(ir, is_padding, tpt_ir_const_i(ir, work, 0), out);
    }
    tpt_lower_result(L, tpt_ir_convert(ir, out, dtype));
}
