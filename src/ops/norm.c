/* norm.c - layer, group, RMS and weight normalisation and their gradients.
 *
 * Statistics are computed in float32 for halves, and the variance in two passes: E[x^2] - E[x]^2 loses everything when the mean
 * is large. */
#include "ops/nn.h"

typedef struct moments {
    tpt_val_t centred, mean, rstd; /* mean and rstd with the reduced dims kept as 1 */
} moments_t;

static double count_of(tpt_ir_t *b, tpt_val_t x, int ndims, const int64_t *dims) {
    double n = 1;
    for (int i = 0; i < ndims; i++) n *= (double)tpt_ir_dim(b, x, (int)dims[i]);
    return n;
}

static tpt_val_t mean_over(tpt_ir_t *b, tpt_val_t x, int ndims, const int64_t *dims) {
    tpt_val_t sum = tpt_nn_keepdims(b, tpt_nn_sum(b, x, ndims, dims), tpt_ir_rank(b, x), ndims, dims);
    return tpt_ir_div(b, sum, tpt_ir_like(b, sum, count_of(b, x, ndims, dims)));
}

static moments_t moments_over(tpt_lower_t *L, tpt_val_t x, int ndims, const int64_t *dims) {
    tpt_ir_t *b = L->ir;
    moments_t m;
    m.mean = mean_over(b, x, ndims, dims);
    m.centred = tpt_ir_sub(b, x, m.mean);
    tpt_val_t var = mean_over(b, tpt_ir_mul(b, m.centred, m.centred), ndims, dims);
    m.rstd = tpt_ir_unary(b, TPT_IR_RSQRT, tpt_ir_add(b, var, tpt_lower_number(L, "eps", tpt_ir_dtype(b, x))));
    return m;
}

/* Gradient of (x - mean) * rstd: rstd * (g - mean(g) - xhat * mean(g * xhat)). */
static tpt_val_t standardize_backward(tpt_ir_t *b, tpt_val_t g, tpt_val_t xhat, tpt_val_t rstd, int ndims, const int64_t *dims) {
    tpt_val_t means[2] = {mean_over(b, g, ndims, dims), mean_over(b, tpt_ir_mul(b, g, xhat), ndims, dims)}, held[2];
    held[0] = held[1] = TPT_VAL_NONE;
    tpt_ir_barrier(b, 2, means, held);
    tpt_val_t inner = tpt_ir_sub(b, tpt_ir_sub(b, g, held[0]), tpt_ir_mul(b, xhat, held[1]));
    return tpt_ir_mul(b, rstd, inner);
}

/* The last dims that normalized_shape names; `outer` gets the ones before them. */
static int inner_dims(tpt_lower_t *L, int rank, int64_t *inner, int64_t *outer) {
    int64_t shape[TPT_MAX_RANK];
    int n = tpt_lower_ints(L, "normalized_shape", shape, TPT_MAX_RANK);
    if (n < 1 || n > rank) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "normalized_shape has %d dims, the input %d", n, rank);
        n = n < 1 ? 0 : rank;
    }
    for (int i = 0; i < n; i++) inner[i] = rank - n + i;
    for (int i = 0; i < rank - n; i++) outer[i] = i;
    return n;
}

/* A sum over the leading dims that also works when there is none. */
static tpt_val_t sum_outer(tpt_ir_t *b, tpt_val_t x, int n, const int64_t *dims) {
    return n == 0 ? x : tpt_nn_sum(b, x, n, dims);
}

void tpt_ops_layer_norm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    int64_t inner[TPT_MAX_RANK], outer[TPT_MAX_RANK];
    const int n = inner_dims(L, tpt_ir_rank(b, x), inner, outer);
    const moments_t m = moments_over(L, x, n, inner);
    tpt_val_t out = tpt_ir_mul(b, m.centred, m.rstd);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype), bias = tpt_nn_optional(L, "bias", dtype);
    if (weight != TPT_VAL_NONE) out = tpt_ir_mul(b, out, weight);
    if (bias != TPT_VAL_NONE) out = tpt_ir_add(b, out, bias);
    tpt_lower_result(L, out);
    tpt_lower_result(L, m.mean);
    tpt_lower_result(L, m.rstd);
}

void tpt_ops_layer_norm_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const int rank = tpt_ir_rank(b, x);
    int64_t inner[TPT_MAX_RANK], outer[TPT_MAX_RANK];
    const int n = inner_dims(L, rank, inner, outer);
    tpt_val_t gy = tpt_nn_tensor(L, "grad_out", dtype), rstd = tpt_nn_tensor(L, "rstd", dtype);
    tpt_val_t xhat = tpt_ir_mul(b, tpt_ir_sub(b, x, tpt_nn_tensor(L, "mean", dtype)), rstd);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    if (tpt_nn_mask(L, "output_mask", 0)) {
        tpt_val_t g = weight == TPT_VAL_NONE ? gy : tpt_ir_mul(b, gy, weight);
        tpt_lower_result(L, standardize_backward(b, g, xhat, rstd, n, inner));
    }
    if (tpt_nn_mask(L, "output_mask", 1) && tpt_lower_has(L, "weight"))
        tpt_lower_result(L, sum_outer(b, tpt_ir_mul(b, gy, xhat), rank - n, outer));
    if (tpt_nn_mask(L, "output_mask", 2) && tpt_lower_has(L, "bias"))
        tpt_lower_result(L, sum_outer(b, gy, rank - n, outer));
}

void tpt_ops_rms_norm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "input");
    const tpt_dtype_t own = tpt_ir_dtype(b, x);
    x = tpt_nn_opmath(b, x);
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    int64_t inner[TPT_MAX_RANK], outer[TPT_MAX_RANK];
    const int n = inner_dims(L, tpt_ir_rank(b, x), inner, outer);
    /* The default eps is the input's epsilon of its compute dtype. */
    tpt_val_t eps = tpt_lower_has(L, "eps") ? tpt_lower_number(L, "eps", dtype)
                                            : tpt_ir_const_f(b, dtype, dtype == TPT_F64 ? 0x1p-52 : 0x1p-23);
    tpt_val_t square = mean_over(b, tpt_ir_mul(b, x, x), n, inner);
    tpt_val_t rstd = tpt_ir_unary(b, TPT_IR_RSQRT, tpt_ir_add(b, square, eps)), out = tpt_ir_mul(b, x, rstd);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    if (weight != TPT_VAL_NONE) out = tpt_ir_mul(b, out, weight);
    tpt_lower_result(L, tpt_ir_convert(b, out, own));
    tpt_lower_result(L, rstd);
}

void tpt_ops_rms_norm_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "input");
    x = tpt_nn_opmath(b, x);
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const int rank = tpt_ir_rank(b, x);
    int64_t inner[TPT_MAX_RANK], outer[TPT_MAX_RANK];
    const int n = inner_dims(L, rank, inner, outer);
    tpt_val_t gy = tpt_nn_tensor(L, "grad_out", dtype), rstd = tpt_nn_tensor(L, "rstd", dtype), xhat = tpt_ir_mul(b, x, rstd);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    if (tpt_nn_mask(L, "output_mask", 0)) {
        tpt_val_t g = weight == TPT_VAL_NONE ? gy : tpt_ir_mul(b, gy, weight);
        tpt_val_t mean = mean_over(b, tpt_ir_mul(b, g, xhat), n, inner), held = TPT_VAL_NONE;
        tpt_ir_barrier(b, 1, &mean, &held);
        tpt_lower_result(L, tpt_ir_mul(b, rstd, tpt_ir_sub(b, g, tpt_ir_mul(b, xhat, held))));
    }
    if (tpt_nn_mask(L, "output_mask", 1) && weight != TPT_VAL_NONE)
        tpt_lower_result(L, sum_outer(b, tpt_ir_mul(b, gy, xhat), rank - n, outer));
}

/* ---- groups: the input seen as [n, groups, channels of a group x positions] -------------------------------------------- */

typedef struct groups {
    int64_t n, channels, positions, groups;
    tpt_type_t shape; /* of the input */
} groups_t;

static groups_t read_groups(tpt_lower_t *L, tpt_val_t x) {
    groups_t g;
    g.n = tpt_lower_int(L, "N", 1);
    g.channels = tpt_lower_int(L, "C", 1);
    g.positions = tpt_lower_int(L, "HxW", 1);
    g.groups = tpt_lower_int(L, "group", 1);
    if (g.groups < 1 || g.channels % g.groups != 0) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "group_norm: %lld channels cannot be split into %lld groups", (long long)g.channels,
                       (long long)g.groups);
        g.groups = 1;
    }
    g.shape = *tpt_ir_type(L->ir, x);
    return g;
}

static tpt_val_t by_group(tpt_ir_t *b, tpt_val_t x, const groups_t *g) {
    const int64_t dims[3] = {g->n, g->groups, g->channels / g->groups * g->positions};
    return tpt_ir_reshape(b, x, 3, dims);
}

static tpt_val_t by_channel(tpt_ir_t *b, tpt_val_t x, const groups_t *g) {
    const int64_t dims[3] = {g->n, g->channels, g->positions};
    return tpt_ir_reshape(b, x, 3, dims);
}

void tpt_ops_group_norm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const groups_t g = read_groups(L, x);
    const int64_t dims[1] = {2}, stat[2] = {g.n, g.groups};
    const moments_t m = moments_over(L, by_group(b, x, &g), 1, dims);
    tpt_val_t out = by_channel(b, tpt_ir_mul(b, m.centred, m.rstd), &g);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype), bias = tpt_nn_optional(L, "bias", dtype);
    if (weight != TPT_VAL_NONE) out = tpt_ir_mul(b, out, tpt_nn_along(b, weight, out, 1));
    if (bias != TPT_VAL_NONE) out = tpt_ir_add(b, out, tpt_nn_along(b, bias, out, 1));
    tpt_lower_result(L, tpt_ir_reshape(b, out, g.shape.rank, g.shape.dims));
    tpt_lower_result(L, tpt_ir_reshape(b, m.mean, 2, stat));
    tpt_lower_result(L, tpt_ir_reshape(b, m.rstd, 2, stat));
}

void tpt_ops_group_norm_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "input"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const groups_t g = read_groups(L, x);
    const int64_t stat[3] = {g.n, g.groups, 1}, inner[1] = {2}, outer[2] = {0, 2};
    tpt_val_t mean = tpt_ir_reshape(b, tpt_nn_tensor(L, "mean", dtype), 3, stat);
    tpt_val_t rstd = tpt_ir_reshape(b, tpt_nn_tensor(L, "rstd", dtype), 3, stat);
    tpt_val_t gy = by_channel(b, tpt_nn_tensor(L, "grad_out", dtype), &g);
    tpt_val_t xhat = tpt_ir_mul(b, tpt_ir_sub(b, by_group(b, x, &g), mean), rstd);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    if (tpt_nn_mask(L, "output_mask", 0)) {
        tpt_val_t scaled = weight == TPT_VAL_NONE ? gy : tpt_ir_mul(b, gy, tpt_nn_along(b, weight, gy, 1));
        tpt_val_t gx = standardize_backward(b, by_group(b, scaled, &g), xhat, rstd, 1, inner);
        tpt_lower_result(L, tpt_ir_reshape(b, gx, g.shape.rank, g.shape.dims));
    }
    if (tpt_nn_mask(L, "output_mask", 1)) tpt_lower_result(L, tpt_nn_sum(b, tpt_ir_mul(b, gy, by_channel(b, xhat, &g)), 2, outer));
    if (tpt_nn_mask(L, "output_mask", 2)) tpt_lower_result(L, tpt_nn_sum(b, gy, 2, outer));
}

/* ---- weight normalisation: v * g / |v|, the norm over all dims but one --------------------------------------------------- */

static tpt_val_t sum_except(tpt_ir_t *b, tpt_val_t x, int dim) {
    int64_t dims[TPT_MAX_RANK];
    const int rank = tpt_ir_rank(b, x);
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (i != dim) dims[n++] = i;
    return n == 0 ? x : tpt_nn_keepdims(b, tpt_nn_sum(b, x, n, dims), rank, n, dims);
}

void tpt_ops_weight_norm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t v = tpt_nn_opmath(b, tpt_lower_tensor(L, "v")), g = tpt_nn_tensor(L, "g", tpt_ir_dtype(b, v));
    const int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(b, v), 0);
    tpt_val_t norm = tpt_ir_unary(b, TPT_IR_SQRT, sum_except(b, tpt_ir_mul(b, v, v), dim));
    tpt_lower_result(L, tpt_ir_mul(b, v, tpt_ir_div(b, g, norm)));
    tpt_lower_result(L, norm);
}

void tpt_ops_weight_norm_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t v = tpt_nn_opmath(b, tpt_lower_tensor(L, "saved_v"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, v);
    tpt_val_t g = tpt_nn_tensor(L, "saved_g", dtype), norm = tpt_nn_tensor(L, "saved_norms", dtype);
    tpt_val_t gw = tpt_nn_tensor(L, "grad_w", dtype);
    const int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(b, v), 0);
    tpt_val_t s = sum_except(b, tpt_ir_mul(b, gw, v), dim), along = tpt_ir_div(b, s, tpt_ir_mul(b, norm, norm));
    tpt_lower_result(L, tpt_ir_mul(b, tpt_ir_div(b, g, norm), tpt_ir_sub(b, gw, tpt_ir_mul(b, v, along))));
    tpt_lower_result(L, tpt_ir_div(b, s, norm));
}
