/* rnn.c - the pointwise parts of LSTM and GRU cells, which PyTorch hands to the device as one op each. */
#include "ops/nn.h"

/* The k-th of `parts` equal blocks of the last dim. */
static tpt_val_t block(tpt_ir_t *b, tpt_val_t x, int k, int parts) {
    const int last = tpt_ir_rank(b, x) - 1;
    const int64_t n = tpt_ir_dim(b, x, last) / parts;
    return tpt_ir_slice_dim(b, x, last, k * n, (k + 1) * n);
}

static tpt_val_t sigmoid(tpt_ir_t *b, tpt_val_t x) {
    return tpt_ir_unary(b, TPT_IR_LOGISTIC, x);
}

static tpt_val_t one_minus(tpt_ir_t *b, tpt_val_t x) {
    return tpt_ir_sub(b, tpt_ir_like(b, x, 1), x);
}

/* g * y * (1 - y) and g * (1 - y * y) */
static tpt_val_t sigmoid_backward(tpt_ir_t *b, tpt_val_t g, tpt_val_t y) {
    return tpt_ir_mul(b, tpt_ir_mul(b, g, y), one_minus(b, y));
}
static tpt_val_t tanh_backward(tpt_ir_t *b, tpt_val_t g, tpt_val_t y) {
    return tpt_ir_mul(b, g, one_minus(b, tpt_ir_mul(b, y, y)));
}

static tpt_val_t gates(tpt_lower_t *L, const char *name, const char *bias_name, tpt_dtype_t dtype) {
    tpt_val_t x = tpt_nn_tensor(L, name, dtype), bias = tpt_nn_optional(L, bias_name, dtype);
    return bias == TPT_VAL_NONE ? x : tpt_ir_add(L->ir, x, bias);
}

static void results(tpt_lower_t *L, int n, const tpt_val_t *v, tpt_dtype_t dtype) {
    for (int i = 0; i < n; i++) tpt_lower_result(L, tpt_ir_convert(L->ir, v[i], dtype));
}

static tpt_val_t sum_rows(tpt_ir_t *b, tpt_val_t x) {
    const int64_t dims[1] = {0};
    return tpt_nn_sum(b, x, 1, dims);
}

/* hy, cy, and the activated gates for backward. Gates: input, forget, cell, output. */
void tpt_ops_lstm_cell(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t own = tpt_ir_dtype(b, tpt_lower_tensor(L, "input_gates")), dtype = tpt_dtype_opmath(own);
    tpt_val_t x = tpt_ir_add(b, gates(L, "input_gates", "input_bias", dtype), gates(L, "hidden_gates", "hidden_bias", dtype));
    tpt_val_t act[4];
    for (int i = 0; i < 4; i++) act[i] = i == 2 ? tpt_ir_unary(b, TPT_IR_TANH, block(b, x, i, 4)) : sigmoid(b, block(b, x, i, 4));
    tpt_val_t cy = tpt_ir_add(b, tpt_ir_mul(b, act[1], tpt_nn_tensor(L, "cx", dtype)), tpt_ir_mul(b, act[0], act[2]));
    tpt_val_t hy = tpt_ir_mul(b, act[3], tpt_ir_unary(b, TPT_IR_TANH, cy));
    const tpt_val_t out[3] = {hy, cy, tpt_ir_concat(b, 4, act, tpt_ir_rank(b, x) - 1)};
    results(L, 3, out, own);
}

void tpt_ops_lstm_cell_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t own = tpt_ir_dtype(b, tpt_lower_tensor(L, "workspace")), dtype = tpt_dtype_opmath(own);
    tpt_val_t work = tpt_nn_tensor(L, "workspace", dtype), cx = tpt_nn_tensor(L, "cx", dtype), act[4];
    for (int i = 0; i < 4; i++) act[i] = block(b, work, i, 4);
    tpt_val_t tanh_c = tpt_ir_unary(b, TPT_IR_TANH, tpt_nn_tensor(L, "cy", dtype));
    tpt_val_t gh = tpt_nn_optional(L, "grad_hy", dtype), gc = tpt_nn_optional(L, "grad_cy", dtype);
    if (gh == TPT_VAL_NONE && gc == TPT_VAL_NONE) return; /* all gradients are undefined */
    if (gh == TPT_VAL_NONE) gh = tpt_nn_full_like(b, cx, 0);
    tpt_val_t through = tanh_backward(b, tpt_ir_mul(b, gh, act[3]), tanh_c);
    gc = gc == TPT_VAL_NONE ? through : tpt_ir_add(b, gc, through);
    tpt_val_t g[4] = {sigmoid_backward(b, tpt_ir_mul(b, gc, act[2]), act[0]), sigmoid_backward(b, tpt_ir_mul(b, gc, cx), act[1]),
                      tanh_backward(b, tpt_ir_mul(b, gc, act[0]), act[2]), sigmoid_backward(b, tpt_ir_mul(b, gh, tanh_c), act[3])};
    tpt_val_t out[3] = {tpt_ir_concat(b, 4, g, tpt_ir_rank(b, work) - 1), tpt_ir_mul(b, gc, act[1]), TPT_VAL_NONE};
    const bool bias = tpt_lower_bool(L, "has_bias", false);
    if (bias) out[2] = sum_rows(b, out[0]);
    results(L, bias ? 3 : 2, out, own);
}

/* hy, and for backward the gates (reset, update, new), hx and the hidden part of the new gate. */
void tpt_ops_gru_cell(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t own = tpt_ir_dtype(b, tpt_lower_tensor(L, "input_gates")), dtype = tpt_dtype_opmath(own);
    tpt_val_t x = gates(L, "input_gates", "input_bias", dtype), h = gates(L, "hidden_gates", "hidden_bias", dtype);
    tpt_val_t hx = tpt_nn_tensor(L, "hx", dtype), hidden = block(b, h, 2, 3);
    tpt_val_t reset = sigmoid(b, tpt_ir_add(b, block(b, x, 0, 3), block(b, h, 0, 3)));
    tpt_val_t update = sigmoid(b, tpt_ir_add(b, block(b, x, 1, 3), block(b, h, 1, 3)));
    tpt_val_t fresh = tpt_ir_unary(b, TPT_IR_TANH, tpt_ir_add(b, block(b, x, 2, 3), tpt_ir_mul(b, reset, hidden)));
    tpt_val_t hy = tpt_ir_add(b, fresh, tpt_ir_mul(b, update, tpt_ir_sub(b, hx, fresh)));
    const tpt_val_t work[5] = {reset, update, fresh, hx, hidden};
    const tpt_val_t out[2] = {hy, tpt_ir_concat(b, 5, work, tpt_ir_rank(b, x) - 1)};
    results(L, 2, out, own);
}

void tpt_ops_gru_cell_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t own = tpt_ir_dtype(b, tpt_lower_tensor(L, "workspace")), dtype = tpt_dtype_opmath(own);
    tpt_val_t work = tpt_nn_tensor(L, "workspace", dtype), gy = tpt_nn_tensor(L, "grad_hy", dtype), w[5];
    const int last = tpt_ir_rank(b, work) - 1;
    for (int i = 0; i < 5; i++) w[i] = block(b, work, i, 5);
    tpt_val_t update = sigmoid_backward(b, tpt_ir_mul(b, gy, tpt_ir_sub(b, w[3], w[2])), w[1]);
    tpt_val_t fresh = tanh_backward(b, tpt_ir_mul(b, gy, one_minus(b, w[1])), w[2]);
    tpt_val_t reset = sigmoid_backward(b, tpt_ir_mul(b, fresh, w[4]), w[0]);
    const tpt_val_t input[3] = {reset, update, fresh}, hidden[3] = {reset, update, tpt_ir_mul(b, fresh, w[0])};
    tpt_val_t out[5] = {tpt_ir_concat(b, 3, input, last), tpt_ir_concat(b, 3, hidden, last), tpt_ir_mul(b, gy, w[1]),
                        TPT_VAL_NONE, TPT_VAL_NONE};
    /* No meta kernel tells which results are undefined: the bias gradients are always given, and unused without a bias. */
    out[3] = sum_rows(b, out[0]);
    out[4] = sum_rows(b, out[1]);
    results(L, 5, out, own);
}
