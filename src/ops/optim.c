/* optim.c - fused optimizers and gradient scaling: one program for all parameters of a step.
 *
 * Learning rates, decays and step counts are run-time operands. Bias corrections 1 - beta^step are taken as
 * -expm1(step * log1p(-(1 - beta))), with 1 - beta from the host: float32 is then exact enough at the first steps too. */
#include "ops/nn.h"

typedef struct fused {
    tpt_lower_t *L;
    tpt_ir_t *ir;
    tpt_val_t scale, skip; /* grad_scale (float32) and "an infinity was found" (bool); TPT_VAL_NONE when absent */
    bool maximize;
} fused_t;

/* A rank-0 operand from a number or a one-element tensor. */
static tpt_val_t scalar(tpt_lower_t *L, const char *name, tpt_dtype_t dtype) {
    if (!tpt_lower_is_tensor(L, name)) return tpt_lower_number(L, name, dtype);
    return tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, tpt_lower_tensor(L, name), dtype), 0, NULL);
}

static fused_t fused_begin(tpt_lower_t *L) {
    fused_t f = {L, L->ir, TPT_VAL_NONE, TPT_VAL_NONE, tpt_lower_bool(L, "maximize", false)};
    if (tpt_lower_has(L, "grad_scale")) f.scale = scalar(L, "grad_scale", TPT_F32);
    if (tpt_lower_has(L, "found_inf")) {
        tpt_val_t found = scalar(L, "found_inf", TPT_F32);
        f.skip = tpt_ir_compare(f.ir, TPT_IR_EQ, found, tpt_ir_like(f.ir, found, 1));
    }
    return f;
}

static tpt_val_t item(const fused_t *f, const char *list, int i, tpt_dtype_t dtype) {
    return tpt_ir_convert(f->ir, tpt_lower_item(f->L, list, i), dtype);
}

/* The gradient without its scale; that is also what is written back. */
static tpt_val_t unscaled(const fused_t *f, int i, tpt_dtype_t dtype) {
    tpt_val_t g = item(f, "grads", i, dtype);
    return f->scale == TPT_VAL_NONE ? g : tpt_ir_div(f->ir, g, tpt_ir_convert(f->ir, f->scale, dtype));
}

/* The new value, or the old one when the step is skipped. */
static tpt_val_t keep(const fused_t *f, const char *list, int i, tpt_val_t fresh) {
    if (f->skip == TPT_VAL_NONE) return fresh;
    return tpt_ir_select(f->ir, f->skip, item(f, list, i, tpt_ir_dtype(f->ir, fresh)), fresh);
}

/* Results come list by list, so new values are kept aside until all items are done. */
static tpt_val_t *columns(const fused_t *f, int n, int lists) {
    tpt_val_t *v = tpt_arena_alloc(tpt_ir_arena(f->ir), (size_t)(n > 0 ? n : 1) * (size_t)lists * sizeof *v);
    if (v == NULL) (void)tpt_ir_fail(f->ir, tpt_status_oom((size_t)n * (size_t)lists * sizeof *v));
    return v;
}

/* Pushes the first `count` items of column `list`. */
static void push(tpt_lower_t *L, const tpt_val_t *v, int n, int list, int count) {
    for (int i = 0; i < count; i++) tpt_lower_result(L, v[list * n + i]);
}

/* 1 - beta^step */
static tpt_val_t bias_correction(const fused_t *f, const char *beta, tpt_val_t step, tpt_dtype_t dtype) {
    tpt_ir_t *b = f->ir;
    tpt_val_t rest = tpt_lower_number_fn(f->L, beta, TPT_NUM_ONE_MINUS, dtype);
    tpt_val_t log_beta = tpt_ir_unary(b, TPT_IR_LOG1P, tpt_ir_neg(b, rest));
    return tpt_ir_neg(b, tpt_ir_unary(b, TPT_IR_EXPM1, tpt_ir_mul(b, step, log_beta)));
}

enum { ADAM_PARAM, ADAM_GRAD, ADAM_AVG, ADAM_SQ, ADAM_MAX, ADAM_LISTS };

static void adam_item(const fused_t *f, bool decoupled, bool amsgrad, int i, int n, tpt_val_t *out) {
    tpt_ir_t *b = f->ir;
    const tpt_dtype_t dtype = tpt_dtype_opmath(tpt_ir_dtype(b, tpt_lower_item(f->L, "self", i)));
    tpt_val_t p = item(f, "self", i, dtype), raw = unscaled(f, i, dtype), g = f->maximize ? tpt_ir_neg(b, raw) : raw;
    tpt_val_t avg = item(f, "exp_avgs", i, dtype), sq = item(f, "exp_avg_sqs", i, dtype);
    tpt_val_t lr = scalar(f->L, "lr", dtype), decay = tpt_lower_number(f->L, "weight_decay", dtype);
    if (decoupled) p = tpt_ir_sub(b, p, tpt_ir_mul(b, tpt_ir_mul(b, lr, decay), p));
    else g = tpt_ir_add(b, g, tpt_ir_mul(b, decay, p));
    tpt_val_t rest1 = tpt_lower_number_fn(f->L, "beta1", TPT_NUM_ONE_MINUS, dtype);
    tpt_val_t rest2 = tpt_lower_number_fn(f->L, "beta2", TPT_NUM_ONE_MINUS, dtype);
    avg = tpt_ir_add(b, avg, tpt_ir_mul(b, rest1, tpt_ir_sub(b, g, avg)));
    sq = tpt_ir_add(b, tpt_ir_mul(b, tpt_lower_number(f->L, "beta2", dtype), sq), tpt_ir_mul(b, rest2, tpt_ir_mul(b, g, g)));
    tpt_val_t step = tpt_ir_reshape(b, item(f, "state_steps", i, dtype), 0, NULL), top = sq;
    if (amsgrad) {
        top = tpt_ir_max(b, item(f, "max_exp_avg_sqs", i, dtype), sq);
        out[ADAM_MAX * n + i] = keep(f, "max_exp_avg_sqs", i, top);
    }
    tpt_val_t size = tpt_ir_div(b, lr, bias_correction(f, "beta1", step, dtype));
    tpt_val_t root = tpt_ir_unary(b, TPT_IR_SQRT, bias_correction(f, "beta2", step, dtype));
    tpt_val_t denom = tpt_ir_div(b, tpt_ir_unary(b, TPT_IR_SQRT, top), root);
    denom = tpt_ir_add(b, denom, tpt_lower_number(f->L, "eps", dtype));
    p = tpt_ir_sub(b, p, tpt_ir_mul(b, size, tpt_ir_div(b, avg, denom)));
    out[ADAM_PARAM * n + i] = keep(f, "self", i, p);
    out[ADAM_GRAD * n + i] = keep(f, "grads", i, raw);
    out[ADAM_AVG * n + i] = keep(f, "exp_avgs", i, avg);
    out[ADAM_SQ * n + i] = keep(f, "exp_avg_sqs", i, sq);
}

/* _fused_adam (data 0), _fused_adamw (1). */
void tpt_ops_fused_adam(tpt_lower_t *L) {
    const fused_t f = fused_begin(L);
    const int n = tpt_lower_count(L, "self"), nmax = tpt_lower_count(L, "max_exp_avg_sqs");
    const bool amsgrad = tpt_lower_bool(L, "amsgrad", false);
    tpt_val_t *out = columns(&f, n, ADAM_LISTS);
    if (out == NULL) return;
    for (int i = 0; i < n; i++) adam_item(&f, L->row->data == 1, amsgrad, i, n, out);
    for (int list = 0; list < ADAM_MAX; list++) push(L, out, n, list, n);
    for (int i = 0; i < nmax; i++) tpt_lower_result(L, amsgrad ? out[ADAM_MAX * n + i] : tpt_lower_item(L, "max_exp_avg_sqs", i));
}

enum { SGD_PARAM, SGD_GRAD, SGD_BUFFER, SGD_LISTS };

void tpt_ops_fused_sgd(tpt_lower_t *L) {
    const fused_t f = fused_begin(L);
    tpt_ir_t *b = L->ir;
    const int n = tpt_lower_count(L, "self"), nbuffers = tpt_lower_count(L, "momentum_buffer_list");
    const bool first = tpt_lower_bool(L, "is_first_step", false), nesterov = tpt_lower_bool(L, "nesterov", false);
    tpt_val_t *out = columns(&f, n, SGD_LISTS);
    if (out == NULL) return;
    for (int i = 0; i < n; i++) {
        const tpt_dtype_t dtype = tpt_dtype_opmath(tpt_ir_dtype(b, tpt_lower_item(L, "self", i)));
        tpt_val_t p = item(&f, "self", i, dtype), raw = unscaled(&f, i, dtype), g = f.maximize ? tpt_ir_neg(b, raw) : raw;
        g = tpt_ir_add(b, g, tpt_ir_mul(b, tpt_lower_number(L, "weight_decay", dtype), p));
        if (i < nbuffers) {
            tpt_val_t momentum = tpt_lower_number(L, "momentum", dtype), buffer = g;
            if (!first) {
                tpt_val_t rest = tpt_lower_number_fn(L, "dampening", TPT_NUM_ONE_MINUS, dtype);
                buffer = tpt_ir_mul(b, momentum, item(&f, "momentum_buffer_list", i, dtype));
                buffer = tpt_ir_add(b, buffer, tpt_ir_mul(b, rest, g));
            }
            out[SGD_BUFFER * n + i] = keep(&f, "momentum_buffer_list", i, buffer);
            g = nesterov ? tpt_ir_add(b, g, tpt_ir_mul(b, momentum, buffer)) : buffer;
        }
        p = tpt_ir_sub(b, p, tpt_ir_mul(b, scalar(L, "lr", dtype), g));
        out[SGD_PARAM * n + i] = keep(&f, "self", i, p);
        out[SGD_GRAD * n + i] = keep(&f, "grads", i, raw);
    }
    push(L, out, n, SGD_PARAM, n);
    push(L, out, n, SGD_GRAD, n);
    push(L, out, n, SGD_BUFFER, nbuffers < n ? nbuffers : n);
}

enum { ADAGRAD_PARAM, ADAGRAD_GRAD, ADAGRAD_SUM, ADAGRAD_LISTS };

/* `data` 1: the schema also lists state_steps as written; they keep their value. */
void tpt_ops_fused_adagrad(tpt_lower_t *L) {
    const fused_t f = fused_begin(L);
    tpt_ir_t *b = L->ir;
    const int n = tpt_lower_count(L, "self");
    tpt_val_t *out = columns(&f, n, ADAGRAD_LISTS);
    if (out == NULL) return;
    for (int i = 0; i < n; i++) {
        const tpt_dtype_t dtype = tpt_dtype_opmath(tpt_ir_dtype(b, tpt_lower_item(L, "self", i)));
        tpt_val_t p = item(&f, "self", i, dtype), raw = unscaled(&f, i, dtype), g = f.maximize ? tpt_ir_neg(b, raw) : raw;
        g = tpt_ir_add(b, g, tpt_ir_mul(b, tpt_lower_number(L, "weight_decay", dtype), p));
        tpt_val_t sum = tpt_ir_add(b, item(&f, "state_sums", i, dtype), tpt_ir_mul(b, g, g));
        tpt_val_t step = tpt_ir_reshape(b, item(&f, "state_steps", i, dtype), 0, NULL), one = tpt_ir_like(b, step, 1);
        tpt_val_t slow = tpt_ir_add(b, one, tpt_ir_mul(b, tpt_ir_sub(b, step, one), tpt_lower_number(L, "lr_decay", dtype)));
        tpt_val_t rate = tpt_ir_div(b, scalar(L, "lr", dtype), slow);
        tpt_val_t denom = tpt_ir_add(b, tpt_ir_unary(b, TPT_IR_SQRT, sum), tpt_lower_number(L, "eps", dtype));
        p = tpt_ir_sub(b, p, tpt_ir_mul(b, rate, tpt_ir_div(b, g, denom)));
        out[ADAGRAD_PARAM * n + i] = keep(&f, "self", i, p);
        out[ADAGRAD_GRAD * n + i] = keep(&f, "grads", i, raw);
        out[ADAGRAD_SUM * n + i] = keep(&f, "state_sums", i, sum);
    }
    for (int list = 0; list < ADAGRAD_LISTS; list++) push(L, out, n, list, n);
    if (L->row->data == 1)
        for (int i = 0; i < n; i++) tpt_lower_result(L, tpt_lower_item(L, "state_steps", i));
}

/* ---- gradient scaling ---------------------------------------------------------------------------------------------------- */

void tpt_ops_amp_unscale(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const int n = tpt_lower_count(L, "self");
    tpt_val_t inverse = scalar(L, "inv_scale", TPT_F32), found = tpt_nn_tensor(L, "found_inf", TPT_F32), bad = TPT_VAL_NONE;
    for (int i = 0; i < n; i++) {
        tpt_val_t g = tpt_nn_opmath(b, tpt_lower_item(L, "self", i));
        const int rank = tpt_ir_rank(b, g);
        int64_t dims[TPT_MAX_RANK];
        for (int d = 0; d < rank; d++) dims[d] = d;
        tpt_val_t wrong = tpt_ir_not(b, tpt_ir_unary(b, TPT_IR_IS_FINITE, g));
        if (rank > 0) wrong = tpt_ir_reduce(b, TPT_IR_RED_OR, wrong, rank, dims);
        bad = bad == TPT_VAL_NONE ? wrong : tpt_ir_or(b, bad, wrong);
        tpt_lower_result(L, tpt_ir_mul(b, g, tpt_ir_convert(b, inverse, tpt_ir_dtype(b, g))));
    }
    if (bad != TPT_VAL_NONE) found = tpt_ir_select(b, bad, tpt_ir_like(b, found, 1), found);
    tpt_lower_result(L, found);
}

void tpt_ops_amp_update_scale(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t scale = tpt_nn_tensor(L, "self", TPT_F32), tracker = tpt_nn_tensor(L, "growth_tracker", TPT_I32);
    tpt_val_t found = scalar(L, "found_inf", TPT_F32), zero = tpt_ir_like(b, tracker, 0);
    found = tpt_ir_compare(b, TPT_IR_NE, found, tpt_ir_like(b, found, 0));
    tpt_val_t good = tpt_ir_add(b, tracker, tpt_ir_like(b, tracker, 1));
    tpt_val_t grows = tpt_ir_compare(b, TPT_IR_EQ, good, tpt_ir_const_i(b, TPT_I32, tpt_lower_int(L, "growth_interval", 1)));
    tpt_val_t grown = tpt_ir_mul(b, scale, tpt_lower_number(L, "scale_growth_factor", TPT_F32));
    grown = tpt_ir_select(b, tpt_ir_and(b, grows, tpt_ir_unary(b, TPT_IR_IS_FINITE, grown)), grown, scale);
    tpt_val_t shrunk = tpt_ir_mul(b, scale, tpt_lower_number(L, "scale_backoff_factor", TPT_F32));
    tpt_lower_result(L, tpt_ir_select(b, found, shrunk, grown));
    tpt_lower_result(L, tpt_ir_select(b, tpt_ir_or(b, found, grows), zero, good));
}
