/* softmax.c - softmax and log-softmax along one dim, and their gradients; computed in float32 for halves. */
#include "ops/nn.h"

/* Sum and maximum over `dim` with the dim kept as size 1. */
static tpt_val_t sum_dim(tpt_ir_t *b, tpt_val_t x, int dim) {
    const int64_t dims[1] = {dim};
    return tpt_nn_keepdims(b, tpt_nn_sum(b, x, 1, dims), tpt_ir_rank(b, x), 1, dims);
}

static tpt_val_t max_dim(tpt_ir_t *b, tpt_val_t x, int dim) {
    const int64_t dims[1] = {dim};
    return tpt_nn_keepdims(b, tpt_ir_reduce(b, TPT_IR_RED_MAX, x, 1, dims), tpt_ir_rank(b, x), 1, dims);
}

/* A rank-0 operand counts as one element. */
static tpt_val_t at_least_1d(tpt_ir_t *b, tpt_val_t x) {
    const int64_t one[1] = {1};
    return tpt_ir_rank(b, x) == 0 ? tpt_ir_reshape(b, x, 1, one) : x;
}

static void finish(tpt_lower_t *L, tpt_val_t v, const char *like) {
    const int arg = tpt_lower_find(L, like);
    const bool scalar = arg >= 0 && L->args[arg].kind == TPT_ARG_TENSOR && L->args[arg].u.tensor.rank == 0;
    tpt_lower_result(L, scalar ? tpt_ir_reshape(L->ir, v, 0, NULL) : v);
}

/* _softmax (data 0), _log_softmax (1), _safe_softmax (2: rows that are all -inf give zeros). The meta kernel says whether halves
 * come out as float32. */
void tpt_ops_softmax(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self");
    x = at_least_1d(b, tpt_nn_opmath(b, tpt_ir_convert(b, x, tpt_lower_dtype(L, "dtype", tpt_ir_dtype(b, x)))));
    if (!tpt_dtype_is_float(tpt_ir_dtype(b, x))) {
        tpt_lower_fail(L, TPT_UNIMPLEMENTED, "softmax is not implemented for %s", tpt_dtype_name(tpt_ir_dtype(b, x)));
        return;
    }
    const int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(b, x), 0);
    tpt_val_t top = max_dim(b, x, dim), centred = tpt_ir_sub(b, x, top), e = tpt_ir_unary(b, TPT_IR_EXP, centred);
    tpt_val_t sum = sum_dim(b, e, dim), out;
    if (L->row->data == 1) {
        out = tpt_ir_sub(b, centred, tpt_ir_unary(b, TPT_IR_LOG, sum));
    } else {
        out = tpt_ir_div(b, e, sum);
    }
    if (L->row->data == 2) {
        tpt_val_t empty = tpt_ir_compare(b, TPT_IR_EQ, top, tpt_ir_lowest(b, tpt_ir_dtype(b, x)));
        out = tpt_ir_select(b, empty, tpt_ir_like(b, out, 0), out);
    }
    finish(L, out, "self");
}

/* _softmax_backward_data (data 0): y * (g - sum(g * y)); _log_softmax_backward_data (1): g - exp(y) * sum(g).
 * The barrier keeps a TPU compiler from turning "reduce, then broadcast" into windows over the whole score matrix. */
void tpt_ops_softmax_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t g = at_least_1d(b, tpt_nn_opmath(b, tpt_lower_tensor(L, "grad_output")));
    tpt_val_t y = at_least_1d(b, tpt_nn_tensor(L, "output", tpt_ir_dtype(b, g)));
    const int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(b, g), 0);
    const bool is_log = L->row->data == 1;
    tpt_val_t sum = sum_dim(b, is_log ? g : tpt_ir_mul(b, g, y), dim), held = TPT_VAL_NONE;
    tpt_ir_barrier(b, 1, &sum, &held);
    tpt_val_t out = is_log ? tpt_ir_sub(b, g, tpt_ir_mul(b, tpt_ir_unary(b, TPT_IR_EXP, y), held))
                           : tpt_ir_mul(b, y, tpt_ir_sub(b, g, held));
    finish(L, out, "grad_output");
}
