/* attention.c - scaled dot product attention and its gradient, each as one program.
 *
 * Batch and heads are flattened into one batch dim of the dots: a TPU runs that 1.6 times faster than two. With fewer key heads
 * than query heads the queries of a group are rows of the same dot, so keys and values are never repeated. */
#include "ops/nn.h"

#include <math.h>

typedef struct attention {
    int64_t batch, heads, groups, rows, columns, width, value_width; /* heads: of keys; groups: query heads of one key head */
    tpt_dtype_t dtype;   /* of query */
    tpt_dtype_t compute; /* of scores */
    tpt_val_t q, k, v;   /* [batch * heads, groups * rows, width], [.., columns, width], [.., columns, value_width] */
    tpt_val_t scale;
} attention_t;

static int64_t leading(tpt_ir_t *b, tpt_val_t x, int from_end) {
    const int rank = tpt_ir_rank(b, x);
    return rank >= from_end ? tpt_ir_dim(b, x, -from_end) : 1;
}

static tpt_val_t reshape3(tpt_ir_t *b, tpt_val_t x, int64_t d0, int64_t d1, int64_t d2) {
    const int64_t dims[3] = {d0, d1, d2};
    return tpt_ir_reshape(b, x, 3, dims);
}

static attention_t read_attention(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t q = tpt_lower_tensor(L, "query"), k = tpt_lower_tensor(L, "key"), v = tpt_lower_tensor(L, "value");
    attention_t a = {0};
    a.batch = leading(b, q, 4);
    a.heads = leading(b, k, 3);
    a.rows = leading(b, q, 2);
    a.columns = leading(b, k, 2);
    a.width = leading(b, q, 1);
    a.value_width = leading(b, v, 1);
    a.dtype = tpt_ir_dtype(b, q);
    a.compute = tpt_dtype_opmath(a.dtype);
    const int64_t query_heads = leading(b, q, 3);
    if (a.heads < 1 || query_heads % a.heads != 0 || leading(b, k, 4) != a.batch || leading(b, v, 4) != a.batch ||
        leading(b, v, 3) != a.heads || leading(b, v, 2) != a.columns || leading(b, k, 1) != a.width) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "attention: query, key and value do not fit together");
        a.heads = 1;
    }
    a.groups = query_heads / a.heads;
    a.q = reshape3(b, q, a.batch * a.heads, a.groups * a.rows, a.width);
    a.k = reshape3(b, tpt_ir_convert(b, k, a.dtype), a.batch * a.heads, a.columns, a.width);
    a.v = reshape3(b, tpt_ir_convert(b, v, a.dtype), a.batch * a.heads, a.columns, a.value_width);
    a.scale = tpt_lower_has(L, "scale") ? tpt_lower_number(L, "scale", a.compute)
                                        : tpt_ir_const_f(b, a.compute, 1.0 / sqrt((double)a.width));
    return a;
}

/* Batched dot that contracts dim cx of x with dim cy of y, accumulated in the compute dtype and given as `out`. */
static tpt_val_t batched_as(tpt_ir_t *b, const attention_t *a, tpt_val_t x, int cx, tpt_val_t y, int cy, tpt_dtype_t out) {
    tpt_ir_dot_t d = {0};
    d.n_batch = d.n_contract = 1;
    d.lhs_contract[0] = cx;
    d.rhs_contract[0] = cy;
    const tpt_dtype_t as = tpt_ir_host_code(b) ? a->compute : out; /* as in matmul.c */
    y = tpt_ir_convert(b, y, tpt_ir_dtype(b, x));
    d.out_dtype = as == tpt_ir_dtype(b, x) ? TPT_DTYPE_NONE : as;
    return tpt_ir_dot(b, x, y, &d);
}

/* An operand of a dot. Matrix units want halves; a processor multiplies in the compute dtype anyway, so nothing is rounded. */
static tpt_val_t operand(tpt_ir_t *b, const attention_t *a, tpt_val_t x) {
    return tpt_ir_host_code(b) ? x : tpt_ir_convert(b, x, a->dtype);
}

static tpt_val_t batched(tpt_ir_t *b, const attention_t *a, tpt_val_t x, int cx, tpt_val_t y, int cy) {
    return batched_as(b, a, x, cx, y, cy, a->compute);
}

/* The five-dim view of the scores: [batch, heads, groups, rows, columns]. */
static tpt_type_t score_type(const attention_t *a, tpt_dtype_t dtype) {
    const int64_t dims[5] = {a->batch, a->heads, a->groups, a->rows, a->columns};
    return tpt_type_make(dtype, 5, dims);
}

/* attn_bias broadcast to query heads, as the five-dim view. */
static tpt_val_t bias_view(tpt_ir_t *b, const attention_t *a, tpt_val_t bias) {
    const int64_t full[4] = {a->batch, a->heads * a->groups, a->rows, a->columns};
    const tpt_type_t view = score_type(a, tpt_ir_dtype(b, bias));
    return tpt_ir_reshape(b, tpt_ir_broadcast_to(b, bias, 4, full), 5, view.dims);
}

/* Scaled scores with mask and bias applied, [batch * heads, groups * rows, columns]. */
static tpt_val_t scores(tpt_lower_t *L, const attention_t *a) {
    tpt_ir_t *b = L->ir;
    tpt_val_t s = tpt_ir_mul(b, batched(b, a, a->q, 2, a->k, 2), a->scale), low = tpt_ir_lowest(b, a->compute);
    const tpt_type_t view = score_type(a, a->compute);
    const bool causal = tpt_lower_bool(L, "is_causal", false), biased = tpt_lower_has(L, "attn_bias");
    if (!causal && !biased) return s;
    s = tpt_ir_reshape(b, s, 5, view.dims);
    if (biased) {
        tpt_val_t bias = bias_view(b, a, tpt_lower_tensor(L, "attn_bias"));
        s = tpt_ir_dtype(b, bias) == TPT_BOOL ? tpt_ir_select(b, bias, s, low) : tpt_ir_add(b, s, tpt_ir_convert(b, bias, a->compute));
    }
    if (causal) {
        const tpt_type_t index = score_type(a, TPT_I32);
        tpt_val_t seen = tpt_ir_compare(b, TPT_IR_LE, tpt_ir_iota(b, index, 4), tpt_ir_iota(b, index, 3));
        s = tpt_ir_select(b, seen, s, low);
    }
    return reshape3(b, s, a->batch * a->heads, a->groups * a->rows, a->columns);
}

static tpt_val_t row_reduce(tpt_ir_t *b, tpt_val_t x, tpt_ir_reducer_t op) {
    const int64_t dims[1] = {2};
    return tpt_ir_unsqueeze(b, op == TPT_IR_RED_ADD ? tpt_nn_sum(b, x, 1, dims) : tpt_ir_reduce(b, op, x, 1, dims), 2);
}

/* Softmax of the scores along their rows. Rows that see nothing give zeros, and a log-sum of the lowest number. */
typedef struct probabilities {
    tpt_val_t p, lse;
} probabilities_t;

static probabilities_t softmax_rows(tpt_ir_t *b, const attention_t *a, tpt_val_t s) {
    tpt_val_t top = row_reduce(b, s, TPT_IR_RED_MAX), low = tpt_ir_lowest(b, a->compute);
    tpt_val_t blind = tpt_ir_compare(b, TPT_IR_EQ, top, low), zero = tpt_ir_const_f(b, a->compute, 0);
    tpt_val_t shift = tpt_ir_select(b, blind, zero, top), e = tpt_ir_unary(b, TPT_IR_EXP, tpt_ir_sub(b, s, shift));
    tpt_val_t sum = row_reduce(b, e, TPT_IR_RED_ADD);
    tpt_val_t p = tpt_ir_div(b, e, tpt_ir_select(b, blind, tpt_ir_const_f(b, a->compute, 1), sum));
    return (probabilities_t){.p = p, .lse = tpt_ir_add(b, shift, tpt_ir_unary(b, TPT_IR_LOG, sum))};
}

void tpt_ops_attention(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const attention_t a = read_attention(L);
    const probabilities_t soft = softmax_rows(b, &a, scores(L, &a));
    tpt_val_t out = tpt_ir_convert(b, batched_as(b, &a, operand(b, &a, soft.p), 2, a.v, 1, a.dtype), a.dtype);
    tpt_type_t shape = *tpt_ir_type(b, tpt_lower_tensor(L, "query"));
    const int64_t lse_dims[3] = {a.batch, a.heads * a.groups, a.rows};
    shape.dims[shape.rank - 1] = a.value_width;
    tpt_lower_result(L, tpt_ir_reshape(b, out, shape.rank, shape.dims));
    tpt_lower_result(L, tpt_ir_reshape(b, soft.lse, 3, lse_dims));
}

/* Sums g (the five-dim view) down to the shape of the bias. */
static tpt_val_t reduce_to_bias(tpt_ir_t *b, const attention_t *a, tpt_val_t g, tpt_val_t bias) {
    const int64_t full[4] = {a->batch, a->heads * a->groups, a->rows, a->columns};
    const tpt_type_t t = *tpt_ir_type(b, bias);
    int64_t dims[4];
    int n = 0;
    for (int i = 0; i < 4; i++) {
        const int own = i - (4 - t.rank);
        if (own < 0 || (t.dims[own] == 1 && full[i] != 1)) dims[n++] = i;
    }
    g = tpt_ir_reshape(b, g, 4, full);
    if (n > 0) g = tpt_nn_sum(b, g, n, dims);
    return tpt_ir_reshape(b, g, t.rank, t.dims);
}

void tpt_ops_attention_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const attention_t a = read_attention(L);
    const int64_t n = a.batch * a.heads, rows = a.groups * a.rows;
    tpt_val_t gy = reshape3(b, tpt_nn_tensor(L, "grad_out", a.dtype), n, rows, a.value_width);
    tpt_val_t out = reshape3(b, tpt_nn_tensor(L, "out", a.compute), n, rows, a.value_width);
    /* Not from the log-sum: beside a large score the logarithm of the sum is lost. */
    tpt_val_t p = softmax_rows(b, &a, scores(L, &a)).p;
    tpt_val_t delta = row_reduce(b, tpt_ir_mul(b, tpt_ir_convert(b, gy, a.compute), out), TPT_IR_RED_ADD), held = TPT_VAL_NONE;
    tpt_ir_barrier(b, 1, &delta, &held);
    tpt_val_t gs = tpt_ir_mul(b, p, tpt_ir_sub(b, batched(b, &a, gy, 2, a.v, 2), held));
    tpt_val_t scaled = operand(b, &a, tpt_ir_mul(b, gs, a.scale));
    const char *const names[3] = {"query", "key", "value"};
    const tpt_val_t grads[3] = {batched_as(b, &a, scaled, 2, a.k, 1, a.dtype), batched_as(b, &a, scaled, 1, a.q, 1, a.dtype),
                                batched_as(b, &a, operand(b, &a, p), 1, gy, 1, a.dtype)};
    for (int i = 0; i < 3; i++) {
        const tpt_type_t t = *tpt_ir_type(b, tpt_lower_tensor(L, names[i]));
        tpt_lower_result(L, tpt_ir_reshape(b, tpt_ir_convert(b, grads[i], t.dtype), t.rank, t.dims));
    }
    if (!tpt_lower_bool(L, "want_bias", false)) return;
    tpt_val_t bias = tpt_lower_tensor(L, "attn_bias");
    tpt_lower_result(L, tpt_ir_convert(b, reduce_to_bias(b, &a, gs, bias), tpt_ir_dtype(b, bias)));
}
