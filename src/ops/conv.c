/* conv.c - convolutions of one to three spatial dims and their gradients. */
#include "ops/conv.h"

/* A list of one int per spatial dim; a single int stands for all of them. */
static void read_ints(tpt_lower_t *L, const char *name, int spatial, int64_t if_none, int64_t *out) {
    const int n = tpt_lower_ints(L, name, out, 3);
    for (int i = n; i < spatial; i++) out[i] = n > 0 ? out[n - 1] : if_none;
}

static tpt_conv_args_t read_args(tpt_lower_t *L, tpt_val_t input) {
    tpt_conv_args_t a = {0};
    a.spatial = tpt_ir_rank(L->ir, input) - 2;
    if (a.spatial < 1 || a.spatial > 3) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "convolution: 1 to 3 spatial dims are supported, got an input of rank %d",
                       a.spatial + 2);
        a.spatial = 1;
    }
    read_ints(L, "stride", a.spatial, 1, a.stride);
    read_ints(L, "padding", a.spatial, 0, a.padding);
    read_ints(L, "dilation", a.spatial, 1, a.dilation);
    read_ints(L, "output_padding", a.spatial, 0, a.output_padding);
    for (int i = 0; i < a.spatial; i++)
        if (a.padding[i] < 0) (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "negative padding is not supported");
    a.groups = tpt_lower_int(L, "groups", 1);
    a.transposed = tpt_lower_bool(L, "transposed", false);
    return a;
}

/* XLA's CPU compiler wants the features last ("b01f_01io->b01f"). It would turn operands and result by itself, but fuse that with
 * what comes before and after: loops in strides, and what comes before done anew for each convolution that reads it. */
static tpt_val_t convolution(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_ir_conv_t *c) {
    if (!tpt_ir_has_kernels(b)) return tpt_ir_convolution(b, x, w, c);
    const int last = c->spatial + 1;
    tpt_ir_conv_t turned = *c;
    int64_t of_x[TPT_MAX_RANK] = {[0] = c->in_batch}, of_w[TPT_MAX_RANK], of_y[TPT_MAX_RANK];
    for (int i = 0; i < c->spatial; i++) {
        turned.in_spatial[i] = turned.out_spatial[i] = i + 1;
        turned.k_spatial[i] = i;
        of_x[i + 1] = c->in_spatial[i];
        of_w[i] = c->k_spatial[i];
        of_y[c->out_spatial[i]] = i + 1;
    }
    of_x[last] = c->in_feature;
    of_w[last - 1] = c->k_in_feature;
    of_w[last] = c->k_out_feature;
    of_y[c->out_batch] = 0;
    of_y[c->out_feature] = last;
    turned.in_batch = turned.out_batch = 0;
    turned.in_feature = turned.out_feature = turned.k_out_feature = last;
    turned.k_in_feature = last - 1;
    return tpt_ir_turn(b, tpt_ir_convolution(b, tpt_ir_turn(b, x, of_x), tpt_ir_turn(b, w, of_w), &turned), of_y);
}

#define GROUPS_MOST 128 /* each becomes a convolution of the program */

/* A convolution; on processors one a group, joined. XLA's CPU compiler runs grouped ones as naive loops, and their gradients
 * most of all: 1.9 s for 32 groups of 4 channels, 28 x 28, batch 4, where one convolution a group takes milliseconds. */
static tpt_val_t convolve(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_ir_conv_t *c) {
    const int64_t groups = c->feature_groups * c->batch_groups;
    if (!tpt_ir_host_code(b) || groups < 2 || groups > GROUPS_MOST || x == TPT_VAL_NONE || w == TPT_VAL_NONE) {
        return convolution(b, x, w, c);
    }
    const int dim_x = (int)(c->feature_groups > 1 ? c->in_feature : c->in_batch), dim_w = (int)c->k_out_feature;
    const int64_t nx = tpt_ir_dim(b, x, dim_x) / groups, nw = tpt_ir_dim(b, w, dim_w) / groups;
    tpt_ir_conv_t single = *c;
    single.feature_groups = single.batch_groups = 1;
    tpt_val_t parts[GROUPS_MOST];
    for (int64_t g = 0; g < groups; g++) {
        tpt_val_t xg = tpt_ir_slice_dim(b, x, dim_x, g * nx, (g + 1) * nx);
        parts[g] = convolution(b, xg, tpt_ir_slice_dim(b, w, dim_w, g * nw, (g + 1) * nw), &single);
    }
    return tpt_ir_concat(b, (int)groups, parts, (int)c->out_feature);
}

static tpt_val_t conv_forward(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    if (tpt_conv_is_depthwise(b, x, w, a)) return tpt_conv_depthwise(b, x, w, a);
    tpt_ir_conv_t c = tpt_ir_conv_nchw(a->spatial);
    c.feature_groups = a->groups;
    for (int i = 0; i < a->spatial; i++) {
        c.stride[i] = a->stride[i];
        c.pad_low[i] = c.pad_high[i] = a->padding[i];
        c.rhs_dilation[i] = a->dilation[i];
    }
    return convolve(b, x, w, &c);
}

/* [groups * i, o, ...] -> [i, groups * o, ...]: the kernel of a transposed convolution as StableHLO wants it. */
static tpt_val_t regroup(tpt_ir_t *b, tpt_val_t w, int64_t groups) {
    if (groups == 1) return w;
    const tpt_type_t t = *tpt_ir_type(b, w);
    int64_t split[TPT_MAX_RANK], perm[TPT_MAX_RANK], joined[TPT_MAX_RANK];
    split[0] = groups;
    split[1] = t.dims[0] / groups;
    perm[0] = 1;
    perm[1] = 0;
    for (int i = 1; i < t.rank; i++) {
        split[i + 1] = t.dims[i];
        perm[i + 1] = i + 1;
        joined[i] = t.dims[i];
    }
    joined[0] = split[1];
    joined[1] = groups * t.dims[1];
    return tpt_ir_reshape(b, tpt_ir_transpose(b, tpt_ir_reshape(b, w, t.rank + 1, split), perm), t.rank, joined);
}

/* x [n, groups * i, ...] against w [groups * i, o, ...]; `extra` is the output padding. The kernel is reversed by an op of its
 * own: plugins run that faster than a window with reversal. */
static tpt_val_t conv_transposed(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a, const int64_t *extra) {
    tpt_ir_conv_t c = tpt_ir_conv_nchw(a->spatial);
    int64_t dims[3];
    c.k_in_feature = 0;
    c.k_out_feature = 1;
    c.feature_groups = a->groups;
    for (int i = 0; i < a->spatial; i++) {
        const int64_t reach = a->dilation[i] * (tpt_ir_dim(b, w, i + 2) - 1);
        c.lhs_dilation[i] = a->stride[i];
        c.rhs_dilation[i] = a->dilation[i];
        c.pad_low[i] = reach - a->padding[i];
        c.pad_high[i] = reach - a->padding[i] + extra[i];
        dims[i] = i + 2;
    }
    return convolve(b, x, tpt_ir_reverse(b, regroup(b, w, a->groups), a->spatial, dims), &c);
}

/* Gradient of conv_forward for its kernel, of spatial size `size`: a convolution whose batch is the input's channels and whose
 * contracted feature is the batch. */
static tpt_val_t conv_grad_kernel(tpt_ir_t *b, tpt_val_t x, tpt_val_t gy, const tpt_conv_args_t *a, const int64_t *size) {
    tpt_ir_conv_t c = tpt_ir_conv_nchw(a->spatial);
    c.in_batch = 1;
    c.in_feature = 0;
    c.k_in_feature = 0;
    c.k_out_feature = 1;
    c.out_batch = 1;
    c.out_feature = 0;
    c.batch_groups = a->groups;
    for (int i = 0; i < a->spatial; i++) {
        const int64_t in = tpt_ir_dim(b, x, i + 2), out = tpt_ir_dim(b, gy, i + 2);
        c.stride[i] = a->dilation[i];
        c.rhs_dilation[i] = a->stride[i];
        c.pad_low[i] = a->padding[i];
        c.pad_high[i] = a->dilation[i] * (size[i] - 1) + a->stride[i] * (out - 1) + 1 - in - a->padding[i];
    }
    return convolve(b, x, gy, &c);
}

/* convolution, convolution_overrideable. */
void tpt_ops_convolution(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "input"), w = tpt_lower_tensor(L, "weight");
    const tpt_conv_args_t a = read_args(L, x);
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    w = tpt_ir_convert(b, w, dtype);
    tpt_val_t out = a.transposed ? conv_transposed(b, x, w, &a, a.output_padding) : conv_forward(b, x, w, &a);
    tpt_val_t bias = tpt_nn_optional(L, "bias", tpt_dtype_opmath(dtype));
    if (bias != TPT_VAL_NONE) {
        out = tpt_nn_opmath(b, out);
        out = tpt_ir_add(b, out, tpt_nn_along(b, bias, out, 1));
    }
    tpt_lower_result(L, tpt_ir_convert(b, out, dtype));
}

/* The gradient of a transposed convolution is a plain one. An output padding of a stride or more (dilation allows that) makes
 * rows that no input reached: they are cropped, so that the result has the input's size. */
static tpt_val_t grad_input_transposed(tpt_ir_t *b, tpt_val_t gy, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    tpt_ir_conv_t c = tpt_ir_conv_nchw(a->spatial);
    c.feature_groups = a->groups;
    for (int i = 0; i < a->spatial; i++) {
        const int64_t reach = a->dilation[i] * (tpt_ir_dim(b, w, i + 2) - 1);
        c.stride[i] = a->stride[i];
        c.rhs_dilation[i] = a->dilation[i];
        c.pad_low[i] = a->padding[i];
        c.pad_high[i] = (tpt_ir_dim(b, x, i + 2) - 1) * a->stride[i] + reach + 1 - tpt_ir_dim(b, gy, i + 2) - a->padding[i];
    }
    return convolve(b, gy, w, &c);
}

static tpt_val_t grad_input(tpt_ir_t *b, tpt_val_t gy, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    if (a->transposed) return grad_input_transposed(b, gy, x, w, a);
    if (tpt_conv_is_depthwise(b, x, w, a)) return tpt_conv_depthwise_grad_input(b, gy, x, w, a);
    int64_t extra[3];
    for (int i = 0; i < a->spatial; i++) {
        const int64_t reach = a->dilation[i] * (tpt_ir_dim(b, w, i + 2) - 1);
        extra[i] = tpt_ir_dim(b, x, i + 2) - ((tpt_ir_dim(b, gy, i + 2) - 1) * a->stride[i] - 2 * a->padding[i] + reach + 1);
    }
    return conv_transposed(b, gy, w, a, extra);
}

/* convolution_backward, convolution_backward_overrideable: only the gradients that output_mask asks for are results. */
void tpt_ops_convolution_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "input"), w = tpt_lower_tensor(L, "weight");
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    w = tpt_ir_convert(b, w, dtype);
    tpt_val_t gy = tpt_nn_tensor(L, "grad_output", dtype);
    const tpt_conv_args_t a = read_args(L, x);
    if (tpt_nn_mask(L, "output_mask", 0)) tpt_lower_result(L, grad_input(b, gy, x, w, &a));
    if (tpt_nn_mask(L, "output_mask", 1)) {
        int64_t size[3];
        for (int i = 0; i < a.spatial; i++) size[i] = tpt_ir_dim(b, w, i + 2);
        if (tpt_conv_is_depthwise(b, x, w, &a))
            tpt_lower_result(L, tpt_conv_depthwise_grad_kernel(b, x, gy, w, &a));
        else
            tpt_lower_result(L, a.transposed ? conv_grad_kernel(b, gy, x, &a, size) : conv_grad_kernel(b, x, gy, &a, size));
    }
    if (tpt_nn_mask(L, "output_mask", 2)) {
        const int64_t dims[4] = {0, 2, 3, 4};
        tpt_lower_result(L, tpt_ir_convert(b, tpt_nn_sum(b, tpt_nn_opmath(b, gy), a.spatial + 1, dims), dtype));
    }
}
