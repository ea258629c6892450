/* pad.c - constant, reflection and replication padding, and their gradients. */
#include "ops/shape.h"

/* PyTorch lists pads from the last dim backwards: (left, right) of the last dim first. */
void tpt_pad_constant(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(L->ir, x);
    int64_t pad[2 * TPT_MAX_RANK], low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
    int n = tpt_lower_ints(L, "pad", pad, 2 * TPT_MAX_RANK) / 2;
    if (n > rank) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                             "Length of pad should be no more than twice the number of dimensions of the "
                             "input. Pad length is %d while the input has %d dimensions.",
                             2 * n, rank);
        return;
    }
    for (int i = 0; i < n; i++) {
        low[rank - 1 - i] = pad[2 * i];
        high[rank - 1 - i] = pad[2 * i + 1];
    }
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, x);
    tpt_val_t value = tpt_lower_has(L, "value") ? tpt_lower_number(L, "value", dtype) : tpt_ir_const_i(L->ir, dtype, 0);
    tpt_lower_result(L, n == 0 ? x : tpt_ir_pad(L->ir, x, value, low, high, NULL));
}

typedef enum pad_mode { PAD_REFLECT = 0, PAD_REPLICATE = 1 } pad_mode_t;

static tpt_val_t reversed(tpt_ir_t *ir, tpt_val_t x, int dim) {
    int64_t d = dim;
    return tpt_ir_reverse(ir, x, 1, &d);
}

/* `count` copies of the slice at `at`. */
static tpt_val_t edge(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t at, int64_t count) {
    tpt_type_t type = *tpt_ir_type(ir, x);
    type.dims[dim] = count;
    return tpt_ir_broadcast_to(ir, tpt_ir_slice_dim(ir, x, dim, at, at + 1), type.rank, type.dims);
}

/* Negative pads crop, after the positive ones were taken from the whole input. */
static tpt_val_t pad_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t left, int64_t right, pad_mode_t mode) {
    int64_t n = tpt_ir_dim(ir, x, dim), l = left > 0 ? left : 0, r = right > 0 ? right : 0;
    tpt_val_t parts[3];
    int k = 0;
    if (l > 0)
        parts[k++] = mode == PAD_REFLECT ? reversed(ir, tpt_ir_slice_dim(ir, x, dim, 1, 1 + l), dim) : edge(ir, x, dim, 0, l);
    parts[k++] = x;
    if (r > 0)
        parts[k++] = mode == PAD_REFLECT ? reversed(ir, tpt_ir_slice_dim(ir, x, dim, n - 1 - r, n - 1), dim)
                                         : edge(ir, x, dim, n - 1, r);
    if (k > 1) x = tpt_ir_concat(ir, k, parts, dim);
    if (left < 0 || right < 0) x = tpt_ir_slice_dim(ir, x, dim, left < 0 ? -left : 0, l + n + r - (right < 0 ? -right : 0));
    return x;
}

/* The transpose of pad_dim: what was cropped gets zero, what was copied is summed into its source. */
static tpt_val_t pad_dim_back(tpt_ir_t *ir, tpt_val_t g, int dim, int64_t n, int64_t left, int64_t right, pad_mode_t mode) {
    int64_t l = left > 0 ? left : 0, r = right > 0 ? right : 0;
    g = tpt_shape_pad_dim(ir, g, dim, left < 0 ? -left : 0, right < 0 ? -right : 0, 1);
    tpt_val_t x = tpt_ir_slice_dim(ir, g, dim, l, l + n);
    int64_t d = dim;
    if (l > 0) {
        tpt_val_t part = tpt_ir_slice_dim(ir, g, dim, 0, l);
        part = mode == PAD_REFLECT
                   ? tpt_shape_pad_dim(ir, reversed(ir, part, dim), dim, 1, n - 1 - l, 1)
                   : tpt_shape_pad_dim(ir, tpt_ir_unsqueeze(ir, tpt_ir_reduce(ir, TPT_IR_RED_ADD, part, 1, &d), dim), dim, 0,
                                       n - 1, 1);
        x = tpt_ir_add(ir, x, part);
    }
    if (r > 0) {
        tpt_val_t part = tpt_ir_slice_dim(ir, g, dim, l + n, l + n + r);
        part = mode == PAD_REFLECT
                   ? tpt_shape_pad_dim(ir, reversed(ir, part, dim), dim, n - 1 - r, 1, 1)
                   : tpt_shape_pad_dim(ir, tpt_ir_unsqueeze(ir, tpt_ir_reduce(ir, TPT_IR_RED_ADD, part, 1, &d), dim), dim,
                                       n - 1, 0, 1);
        x = tpt_ir_add(ir, x, part);
    }
    return x;
}

static bool pads_fit(tpt_lower_t *L, const tpt_type_t *in, const int64_t *pad, int n, pad_mode_t mode) {
    for (int i = 0; i < n; i++) {
        int64_t size = i < in->rank ? in->dims[in->rank - 1 - i] : 0;
        bool wide =
            mode == PAD_REFLECT && (pad[2 * i] >= size || pad[2 * i + 1] >= size) && (pad[2 * i] > 0 || pad[2 * i + 1] > 0);
        if (i >= in->rank || wide) {
            (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                                 "%s: padding size should be less than the corresponding input dimension", L->schema_name);
            return false;
        }
    }
    return true;
}

/* data: pad_mode. */
void tpt_pad_border(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t in = *tpt_ir_type(L->ir, x);
    pad_mode_t mode = (pad_mode_t)L->row->data;
    int64_t pad[6];
    int n = tpt_lower_ints(L, "padding", pad, 6) / 2;
    tpt_type_t out = tpt_shape_out(L);
    if (!pads_fit(L, &in, pad, n, mode)) return;
    if (tpt_type_numel(&out) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, out));
        return;
    }
    for (int i = 0; i < n; i++) x = pad_dim(L->ir, x, in.rank - 1 - i, pad[2 * i], pad[2 * i + 1], mode);
    tpt_lower_result(L, x);
}

void tpt_pad_border_back(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "grad_output");
    tpt_type_t in = tpt_shape_arg(L, "self");
    pad_mode_t mode = (pad_mode_t)L->row->data;
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, g);
    int64_t pad[6];
    int n = tpt_lower_ints(L, "padding", pad, 6) / 2;
    if (!pads_fit(L, &in, pad, n, mode)) return;
    if (tpt_ir_numel(L->ir, g) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, in));
        return;
    }
    g = tpt_ir_convert(L->ir, g, tpt_dtype_opmath(dtype));
    for (int i = 0; i < n; i++) {
        int dim = in.rank - 1 - i;
        g = pad_dim_back(L->ir, g, dim, in.dims[dim], pad[2 * i], pad[2 * i + 1], mode);
    }
    tpt_lower_result(L, tpt_ir_convert(L->ir, g, dtype));
}
