/* conv_depthwise.c - convolutions with one input channel a group, as sums over the taps of the kernel: elementwise work that
 * fuses and vectorises. XLA's CPU compiler runs them as naive loops instead, 100 times slower. */
#include "ops/conv.h"

#define TAPS_MOST 128 /* 11 x 11; each is a term of the program */

/* What one sum over taps reads: x padded, and per spatial dim how taps and outputs move over it. */
typedef struct taps {
    int spatial;
    int64_t kernel[3], stride[3], dilation[3], out[3];
    int64_t count;
    tpt_val_t x; /* padded, in the dtype of the sum */
} taps_t;

bool tpt_conv_is_depthwise(const tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    if (!tpt_ir_host_code(b) || x == TPT_VAL_NONE || w == TPT_VAL_NONE || a->transposed || a->groups < 2) return false;
    int64_t count = 1;
    for (int i = 0; i < a->spatial; i++) count *= tpt_ir_dim(b, w, i + 2);
    return tpt_ir_dim(b, x, 1) == a->groups && tpt_ir_dim(b, w, 1) == 1 && count <= TAPS_MOST && tpt_ir_numel(b, x) > 0;
}

/* Each channel m times: [n, c, ..] becomes [n, c * m, ..]. */
static tpt_val_t repeat_channels(tpt_ir_t *b, tpt_val_t x, int64_t m) {
    if (m == 1) return x;
    tpt_type_t t = *tpt_ir_type(b, x);
    int64_t wide[TPT_MAX_RANK], map[TPT_MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        map[i] = i < 2 ? i : i + 1;
        wide[map[i]] = t.dims[i];
    }
    wide[2] = m;
    t.dims[1] *= m;
    return tpt_ir_reshape(b, tpt_ir_broadcast_in_dim(b, x, t.rank + 1, wide, map), t.rank, t.dims);
}

/* x with spatial padding, made once: fused into each tap it would be a test an element. */
static tpt_val_t padded(tpt_ir_t *b, tpt_val_t x, int spatial, const int64_t *low, const int64_t *high,
                        const int64_t *between) {
    int64_t lows[5] = {0}, highs[5] = {0}, interior[5] = {0};
    for (int i = 0; i < spatial; i++) {
        lows[i + 2] = low[i];
        highs[i + 2] = high[i];
        interior[i + 2] = between == NULL ? 0 : between[i];
    }
    x = tpt_ir_pad(b, x, tpt_ir_like(b, x, 0), lows, highs, interior);
    tpt_ir_barrier(b, 1, &x, &x);
    return x;
}

/* The elements of x under tap `k` of the kernel: one an output. `at` gets the tap's place. */
static tpt_val_t under_tap(tpt_ir_t *b, const taps_t *t, int64_t k, int64_t *at) {
    int64_t starts[5] = {0}, limits[5], strides[5] = {1, 1, 1, 1, 1};
    for (int i = t->spatial - 1; i >= 0; i--) {
        at[i] = k % t->kernel[i];
        k /= t->kernel[i];
        starts[i + 2] = at[i] * t->dilation[i];
        strides[i + 2] = t->stride[i];
        limits[i + 2] = starts[i + 2] + (t->out[i] - 1) * t->stride[i] + 1;
    }
    for (int i = 0; i < 2; i++) limits[i] = tpt_ir_dim(b, t->x, i);
    return tpt_ir_slice(b, t->x, starts, limits, strides);
}

/* w[:, 0, at...] along the channels of `like`. */
static tpt_val_t tap_weight(tpt_ir_t *b, tpt_val_t w, const int64_t *at, tpt_val_t like) {
    int64_t starts[5] = {0}, limits[5] = {tpt_ir_dim(b, w, 0), 1};
    const int spatial = tpt_ir_rank(b, w) - 2;
    for (int i = 0; i < spatial; i++) {
        starts[i + 2] = at[i];
        limits[i + 2] = at[i] + 1;
    }
    tpt_val_t one = tpt_ir_slice(b, w, starts, limits, NULL);
    return tpt_nn_along(b, tpt_ir_reshape(b, one, 1, limits), like, 1);
}

static taps_t taps_of(tpt_ir_t *b, tpt_val_t w, const tpt_conv_args_t *a) {
    taps_t t = {.spatial = a->spatial, .count = 1};
    for (int i = 0; i < a->spatial; i++) {
        t.kernel[i] = tpt_ir_dim(b, w, i + 2);
        t.dilation[i] = a->dilation[i];
        t.stride[i] = a->stride[i];
        t.count *= t.kernel[i];
    }
    return t;
}

/* Sum over taps of x under the tap times the tap's weight; `turned`: the kernel is reversed. */
static tpt_val_t sum_taps(tpt_ir_t *b, const taps_t *t, tpt_val_t w, bool turned) {
    tpt_val_t sum = TPT_VAL_NONE;
    for (int64_t k = 0; k < t->count; k++) {
        int64_t at[3];
        tpt_val_t part = under_tap(b, t, k, at);
        for (int i = 0; i < t->spatial && turned; i++) at[i] = t->kernel[i] - 1 - at[i];
        part = tpt_ir_mul(b, part, tap_weight(b, w, at, part));
        sum = k == 0 ? part : tpt_ir_add(b, sum, part);
    }
    return sum;
}

/* Sets t->x and the output sizes for what conv_forward does. */
static void read_forward(tpt_ir_t *b, taps_t *t, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    x = repeat_channels(b, tpt_nn_opmath(b, x), tpt_ir_dim(b, w, 0) / a->groups);
    for (int i = 0; i < a->spatial; i++) {
        const int64_t reach = a->dilation[i] * (t->kernel[i] - 1) + 1;
        t->out[i] = (tpt_ir_dim(b, x, i + 2) + 2 * a->padding[i] - reach) / a->stride[i] + 1;
    }
    t->x = padded(b, x, a->spatial, a->padding, a->padding, NULL);
}

tpt_val_t tpt_conv_depthwise(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    taps_t t = taps_of(b, w, a);
    read_forward(b, &t, x, w, a);
    return sum_taps(b, &t, tpt_nn_opmath(b, w), false);
}

/* The outputs' gradients, spread by the stride, under the reversed kernel; then the m outputs of a channel are summed. */
tpt_val_t tpt_conv_depthwise_grad_input(tpt_ir_t *b, tpt_val_t gy, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a) {
    taps_t t = taps_of(b, w, a);
    const int64_t m = tpt_ir_dim(b, w, 0) / a->groups;
    int64_t low[3], high[3], between[3];
    for (int i = 0; i < a->spatial; i++) {
        const int64_t reach = a->dilation[i] * (t.kernel[i] - 1), n = tpt_ir_dim(b, gy, i + 2);
        t.out[i] = tpt_ir_dim(b, x, i + 2);
        t.stride[i] = 1;
        between[i] = a->stride[i] - 1;
        low[i] = reach - a->padding[i];
        high[i] = t.out[i] + reach - low[i] - ((n - 1) * a->stride[i] + 1);
    }
    t.x = padded(b, tpt_nn_opmath(b, gy), a->spatial, low, high, between);
    tpt_val_t sum = sum_taps(b, &t, tpt_nn_opmath(b, w), true);
    if (m == 1 || sum == TPT_VAL_NONE) return sum;
    const tpt_type_t type = *tpt_ir_type(b, sum);
    int64_t split[TPT_MAX_RANK] = {type.dims[0], a->groups, m};
    for (int i = 2; i < type.rank; i++) split[i + 1] = type.dims[i];
    return tpt_ir_reduce(b, TPT_IR_RED_ADD, tpt_ir_reshape(b, sum, type.rank + 1, split), 1, (const int64_t[]){2});
}

tpt_val_t tpt_conv_depthwise_grad_kernel(tpt_ir_t *b, tpt_val_t x, tpt_val_t gy, tpt_val_t w, const tpt_conv_args_t *a) {
    static const int64_t dims[4] = {0, 2, 3, 4};
    taps_t t = taps_of(b, w, a);
    read_forward(b, &t, x, w, a);
    gy = tpt_nn_opmath(b, gy);
    tpt_val_t sums[TAPS_MOST];
    for (int64_t k = 0; k < t.count; k++) {
        int64_t at[3];
        tpt_val_t part = tpt_ir_mul(b, under_tap(b, &t, k, at), gy);
        sums[k] = tpt_ir_unsqueeze(b, tpt_nn_sum(b, part, a->spatial + 1, dims), 1);
    }
    return tpt_ir_reshape(b, tpt_ir_concat(b, (int)t.count, sums, 1), tpt_ir_rank(b, w), tpt_ir_type(b, w)->dims);
}
