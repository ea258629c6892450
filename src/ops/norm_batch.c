/* norm_batch.c - batch normalisation: statistics of each channel (dim 1) over all other dims. */
#include "ops/nn.h"

typedef struct channels {
    int ndims;
    int64_t dims[TPT_MAX_RANK]; /* all but the channel's */
    double count;
} channels_t;

static channels_t read_channels(tpt_lower_t *L, tpt_val_t x) {
    channels_t c = {0, {0}, 1};
    const int rank = tpt_ir_rank(L->ir, x);
    if (rank < 2) tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "batch_norm: the input needs at least 2 dims, got %d", rank);
    for (int i = 0; i < rank; i++) {
        if (i == 1) continue;
        c.dims[c.ndims++] = i;
        c.count *= (double)tpt_ir_dim(L->ir, x, i);
    }
    return c;
}

/* Mean over each channel, rank 1. */
static tpt_val_t channel_mean(tpt_ir_t *b, tpt_val_t x, const channels_t *c) {
    tpt_val_t sum = tpt_nn_sum(b, x, c->ndims, c->dims);
    return tpt_ir_div(b, sum, tpt_ir_like(b, sum, c->count));
}

static tpt_val_t rstd_of(tpt_lower_t *L, tpt_val_t var) {
    tpt_ir_t *b = L->ir;
    return tpt_ir_unary(b, TPT_IR_RSQRT, tpt_ir_add(b, var, tpt_lower_number(L, "eps", tpt_ir_dtype(b, var))));
}

/* The k-th fresh output when it holds no elements (statistics that are not saved); else `v`. */
static tpt_val_t or_empty(tpt_lower_t *L, int k, tpt_val_t v) {
    if (L->outs == NULL || k >= L->nouts) return v;
    const tpt_type_t t = tpt_type_make(L->outs[k].dtype, L->outs[k].rank, L->outs[k].sizes);
    return tpt_type_numel(&t) == 0 ? tpt_ir_full_f(L->ir, t, 0) : v;
}

/* (1 - momentum) * old + momentum * fresh. */
static void update_running(tpt_lower_t *L, const char *name, tpt_val_t fresh) {
    tpt_ir_t *b = L->ir;
    if (!tpt_lower_has(L, name)) return;
    const tpt_dtype_t dtype = tpt_ir_dtype(b, fresh);
    tpt_val_t old = tpt_nn_tensor(L, name, dtype);
    old = tpt_ir_mul(b, old, tpt_lower_number_fn(L, "momentum", TPT_NUM_ONE_MINUS, dtype));
    tpt_lower_result(L, tpt_ir_add(b, old, tpt_ir_mul(b, fresh, tpt_lower_number(L, "momentum", dtype))));
}

enum {
    BN_LEGIT = 1,     /* running statistics are written params of the schema: always results */
    BN_TRAINING = 2,  /* no `training` argument: it is */
    BN_RESERVE = 4    /* a fourth output, empty, follows */
};

/* native_batch_norm and its variants, told apart by the flags above in `data`. */
void tpt_ops_batch_norm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const channels_t c = read_channels(L, x);
    const bool training = tpt_lower_bool(L, "training", (L->row->data & BN_TRAINING) != 0);
    tpt_val_t mean, rstd, var = TPT_VAL_NONE, centred;
    if (training) {
        mean = channel_mean(b, x, &c);
        centred = tpt_ir_sub(b, x, tpt_nn_along(b, mean, x, 1));
        var = channel_mean(b, tpt_ir_mul(b, centred, centred), &c);
    } else {
        mean = tpt_nn_tensor(L, "running_mean", dtype);
        centred = tpt_ir_sub(b, x, tpt_nn_along(b, mean, x, 1));
        var = tpt_nn_tensor(L, "running_var", dtype);
    }
    rstd = rstd_of(L, var);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype), bias = tpt_nn_optional(L, "bias", dtype);
    tpt_val_t scale = weight == TPT_VAL_NONE ? rstd : tpt_ir_mul(b, rstd, weight);
    tpt_val_t out = tpt_ir_mul(b, centred, tpt_nn_along(b, scale, x, 1));
    if (bias != TPT_VAL_NONE) out = tpt_ir_add(b, out, tpt_nn_along(b, bias, x, 1));
    tpt_lower_result(L, out);
    tpt_lower_result(L, or_empty(L, 1, mean));
    tpt_lower_result(L, or_empty(L, 2, rstd));
    if ((L->row->data & BN_RESERVE) != 0) {
        const int64_t none[1] = {0};
        tpt_lower_result(L, tpt_ir_full_i(b, tpt_type_make(TPT_U8, 1, none), 0));
    }
    if (training) {
        /* The running variance is the unbiased one. */
        update_running(L, "running_mean", mean);
        update_running(L, "running_var", tpt_ir_mul(b, var, tpt_ir_like(b, var, c.count / (c.count - 1))));
    } else if ((L->row->data & BN_LEGIT) != 0) {
        if (tpt_lower_has(L, "running_mean")) tpt_lower_result(L, mean);
        if (tpt_lower_has(L, "running_var")) tpt_lower_result(L, var);
    }
}

/* native_batch_norm_backward ("train") and batch_norm_backward ("update"; the saved second statistic is named save_var). */
void tpt_ops_batch_norm_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const channels_t c = read_channels(L, x);
    const bool train = tpt_lower_bool(L, "train", false) || tpt_lower_bool(L, "update", false);
    tpt_val_t g = tpt_nn_tensor(L, "grad_out", dtype), mean, rstd;
    if (train) {
        mean = tpt_nn_tensor(L, "save_mean", dtype);
        rstd = tpt_nn_tensor(L, L->row->data == 0 ? "save_invstd" : "save_var", dtype);
    } else {
        mean = tpt_nn_tensor(L, "running_mean", dtype);
        rstd = rstd_of(L, tpt_nn_tensor(L, "running_var", dtype));
    }
    tpt_val_t xhat = tpt_ir_mul(b, tpt_ir_sub(b, x, tpt_nn_along(b, mean, x, 1)), tpt_nn_along(b, rstd, x, 1));
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    tpt_val_t sums[2] = {tpt_nn_sum(b, g, c.ndims, c.dims), tpt_nn_sum(b, tpt_ir_mul(b, g, xhat), c.ndims, c.dims)};
    if (tpt_nn_mask(L, "output_mask", 0)) {
        tpt_val_t inner = g, scale = weight == TPT_VAL_NONE ? rstd : tpt_ir_mul(b, rstd, weight);
        if (train) {
            tpt_val_t n = tpt_ir_like(b, sums[0], c.count);
            tpt_val_t means[2] = {tpt_ir_div(b, sums[0], n), tpt_ir_div(b, sums[1], n)}, held[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
            tpt_ir_barrier(b, 2, means, held);
            inner = tpt_ir_sub(b, g, tpt_nn_along(b, held[0], x, 1));
            inner = tpt_ir_sub(b, inner, tpt_ir_mul(b, xhat, tpt_nn_along(b, held[1], x, 1)));
        }
        tpt_lower_result(L, tpt_ir_mul(b, inner, tpt_nn_along(b, scale, x, 1)));
    }
    if (tpt_nn_mask(L, "output_mask", 1)) tpt_lower_result(L, sums[1]);
    if (tpt_nn_mask(L, "output_mask", 2)) tpt_lower_result(L, sums[0]);
}
