/* reduce_dist.c - distances of all pairs of rows, and their gradients. */
#include <math.h>

#include "ops/reduce.h"

static tpt_val_t opmath(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_convert(ir, x, tpt_dtype_opmath(tpt_ir_dtype(ir, x))); }

/* x [..., P, M] and y [..., R, M] -> x - y as [..., P, R, M], to be reduced over the last dim. XLA fuses the difference into
 * the reduction: it is never stored. */
static tpt_reduce_t all_pairs(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y) {
    tpt_val_t off = tpt_ir_sub(ir, tpt_ir_unsqueeze(ir, x, -2), tpt_ir_unsqueeze(ir, y, -3));
    tpt_reduce_t r = tpt_reduce_all(ir, off);
    r.ndims = 1;
    r.dims[0] = r.rank > 0 ? r.rank - 1 : 0;
    r.count = r.rank > 0 ? r.sizes[r.rank - 1] : 1;
    return r;
}

void tpt_ops_cdist(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath(ir, tpt_lower_tensor(L, "x1")), y = opmath(ir, tpt_lower_tensor(L, "x2"));
    tpt_reduce_t r = all_pairs(ir, x, y);
    tpt_lower_result(L, tpt_reduce_norm(&r, tpt_lower_static(L, "p", 2.0)));
}

/* The derivative of the p-distance `dist` in each difference `off`, both of one shape. Where it is not defined it is 0. */
static tpt_val_t slope(tpt_ir_t *ir, tpt_val_t off, tpt_val_t dist, double p) {
    tpt_val_t zero = tpt_ir_like(ir, off, 0.0), size = tpt_ir_unary(ir, TPT_IR_ABS, off),
              sign = tpt_ir_unary(ir, TPT_IR_SIGN, off);
    if (p == 0.0) return tpt_ir_mul(ir, off, zero);
    if (p == 1.0) return sign;
    if (isinf(p)) return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, size, dist), sign, zero);
    tpt_val_t none = tpt_ir_compare(ir, TPT_IR_EQ, dist, zero);
    if (p < 1.0) none = tpt_ir_or(ir, none, tpt_ir_compare(ir, TPT_IR_EQ, size, zero));
    if (p == 2.0) return tpt_ir_select(ir, none, zero, tpt_ir_div(ir, off, dist));
    tpt_val_t share = tpt_ir_binary(ir, TPT_IR_POW, tpt_ir_div(ir, size, dist), tpt_ir_like(ir, size, p - 1.0));
    return tpt_ir_select(ir, none, zero, tpt_ir_mul(ir, sign, share));
}

/* The gradient in x: [..., P, M]. grad and dist: [..., P, R]. */
static tpt_val_t pair_gradient(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, tpt_val_t grad, tpt_val_t dist, double p) {
    tpt_reduce_t r = all_pairs(ir, x, y);
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    dist = tpt_ir_broadcast_to(ir, tpt_ir_unsqueeze(ir, dist, -1), r.rank, r.sizes);
    grad = tpt_ir_broadcast_to(ir, tpt_ir_unsqueeze(ir, grad, -1), r.rank, r.sizes);
    tpt_val_t terms = tpt_ir_mul(ir, grad, slope(ir, r.x, dist, p));
    r.dims[0] = r.rank - 2;
    r.count = r.sizes[r.rank - 2];
    return tpt_reduce_run(&r, TPT_IR_RED_ADD, terms);
}

/* Sums v over the batch dims that PyTorch does not expect of the result: it drops them where there is nothing to sum. */
static tpt_val_t sum_to(tpt_lower_t *L, tpt_val_t v) {
    tpt_ir_t *ir = L->ir;
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    tpt_type_t wide = *tpt_ir_type(ir, v), narrow = wide;
    if (L->nouts > 0 && L->outs != NULL) narrow = tpt_type_make((tpt_dtype_t)wide.dtype, L->outs[0].rank, L->outs[0].sizes);
    int extra = wide.rank - narrow.rank;
    tpt_reduce_t r = tpt_reduce_all(ir, v);
    r.ndims = 0;
    r.count = 1;
    for (int d = 0; d < wide.rank; d++) {
        if (d >= extra && narrow.dims[d - extra] == wide.dims[d]) continue;
        r.dims[r.ndims++] = d;
        r.count *= wide.dims[d];
    }
    if (r.ndims > 0) v = tpt_reduce_run(&r, TPT_IR_RED_ADD, v);
    return tpt_ir_reshape(ir, v, narrow.rank, narrow.dims);
}

void tpt_ops_cdist_backward(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath(ir, tpt_lower_tensor(L, "x1")), y = opmath(ir, tpt_lower_tensor(L, "x2"));
    tpt_val_t grad = opmath(ir, tpt_lower_tensor(L, "grad")), dist = opmath(ir, tpt_lower_tensor(L, "cdist"));
    tpt_lower_result(L, sum_to(L, pair_gradient(ir, x, y, grad, dist, tpt_lower_static(L, "p", 2.0))));
}

/* ---- pairs within one set ------------------------------------------------------------------------------------------ */

/* For each (i, j) of an n by n table its place in the list of pairs (0,1), (0,2), ..., (1,2), ...: the same for (j, i).
 * The diagonal (with upper_only all that is not above it) gets `outside`. */
static tpt_val_t pair_places(tpt_ir_t *ir, int64_t n, bool upper_only, int64_t outside) {
    tpt_type_t type = tpt_type_make(TPT_I64, 2, (const int64_t[]){n, n});
    tpt_val_t row = tpt_ir_iota(ir, type, 0), column = tpt_ir_iota(ir, type, 1);
    tpt_val_t i = tpt_ir_min(ir, row, column), j = tpt_ir_max(ir, row, column), one = tpt_ir_const_i(ir, TPT_I64, 1);
    tpt_val_t before = tpt_ir_mul(ir, i, tpt_ir_sub(ir, tpt_ir_const_i(ir, TPT_I64, 2 * n - 1), i));
    before = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, before, one);
    tpt_val_t place = tpt_ir_add(ir, before, tpt_ir_sub(ir, tpt_ir_sub(ir, j, i), one));
    tpt_val_t out = tpt_ir_compare(ir, upper_only ? TPT_IR_GE : TPT_IR_EQ, row, column);
    return tpt_ir_select(ir, out, tpt_ir_const_i(ir, TPT_I64, outside), place);
}

void tpt_ops_pdist(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath(ir, tpt_lower_tensor(L, "self"));
    int64_t n = tpt_ir_dim(ir, x, 0), pairs = n * (n - 1) / 2;
    tpt_reduce_t r = all_pairs(ir, x, x);
    tpt_val_t dist = tpt_reduce_norm(&r, tpt_lower_static(L, "p", 2.0));
    tpt_val_t out = tpt_ir_full_f(ir, tpt_type_make(tpt_ir_dtype(ir, dist), 1, &pairs), 0.0);
    if (pairs > 0) { /* places beyond the end are dropped */
        tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1, .unique_indices = false};
        tpt_val_t places = tpt_ir_flatten(ir, pair_places(ir, n, true, pairs));
        out = tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, out, places, tpt_ir_flatten(ir, dist), &s);
    }
    tpt_lower_result(L, out);
}

/* The list of pairs as a table with zeros on the diagonal. */
static tpt_val_t as_table(tpt_ir_t *ir, tpt_val_t list, int64_t n) {
    list = tpt_ir_pad(ir, list, tpt_ir_like(ir, list, 0.0), (const int64_t[]){0}, (const int64_t[]){1}, NULL);
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = 2, .slice_sizes = {1}};
    return tpt_ir_gather(ir, list, pair_places(ir, n, false, n * (n - 1) / 2), &g);
}

void tpt_ops_pdist_backward(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath(ir, tpt_lower_tensor(L, "self"));
    int64_t n = tpt_ir_dim(ir, x, 0);
    tpt_val_t grad = as_table(ir, opmath(ir, tpt_lower_tensor(L, "grad")), n);
    tpt_val_t dist = as_table(ir, opmath(ir, tpt_lower_tensor(L, "pdist")), n);
    tpt_lower_result(L, pair_gradient(ir, x, x, grad, dist, tpt_lower_static(L, "p", 2.0)));
}
