/* shape_scatter.c - writing a part of a tensor (slice, select, diagonal, sliding windows), and the gradients of reading one. */
#include "ops/shape.h"

/* ---- slices -------------------------------------------------------------------------------------------------------- */

/* Puts `src` at start, start + step, ... of a dim of size n; elsewhere `base`, or zero when base is NONE. */
static tpt_val_t place(tpt_ir_t *ir, tpt_val_t base, tpt_val_t src, int dim, int64_t start, int64_t step, int64_t n) {
    int64_t m = tpt_ir_dim(ir, src, dim);
    if (m == 0) {
        if (base != TPT_VAL_NONE) return base;
        tpt_type_t type = *tpt_ir_type(ir, src);
        type.dims[dim] = n;
        return tpt_shape_zeros_type(ir, type);
    }
    int64_t high = n - start - ((m - 1) * step + 1);
    if (base == TPT_VAL_NONE) return tpt_shape_pad_dim(ir, src, dim, start, high, step);
    if (step == 1 && !tpt_ir_reaches(ir, 1, &src, base)) { /* else: see write_apart in src/run/lower.c */
        tpt_val_t starts[TPT_MAX_RANK];
        for (int d = 0; d < tpt_ir_rank(ir, src); d++) starts[d] = tpt_ir_const_i(ir, TPT_I64, d == dim ? start : 0);
        return tpt_ir_dynamic_update_slice(ir, base, src, starts);
    }
    tpt_val_t ones = tpt_ir_full_i(ir, tpt_type_make(TPT_BOOL, 1, &m), 1);
    tpt_val_t mask = tpt_shape_along(ir, tpt_shape_pad_dim(ir, ones, 0, start, high, step), tpt_ir_rank(ir, src), dim);
    return tpt_ir_select(ir, mask, tpt_shape_pad_dim(ir, src, dim, start, high, step), base);
}

static int64_t clamp_slice(int64_t at, int64_t n, int64_t low) {
    if (at < 0) at += n;
    return at < low ? low : at > n ? n : at;
}

void tpt_shape_slice_scatter(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), src = tpt_lower_tensor(L, "src");
    int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(L->ir, x), 0);
    int64_t n = tpt_ir_dim(L->ir, x, dim), start = clamp_slice(tpt_lower_int(L, "start", 0), n, 0);
    src = tpt_ir_convert(L->ir, src, tpt_ir_dtype(L->ir, x));
    tpt_lower_result(L, place(L->ir, x, src, dim, start, tpt_lower_int(L, "step", 1), n));
}

void tpt_shape_slice_back(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "grad_output");
    int64_t sizes[TPT_MAX_RANK];
    int rank = tpt_lower_ints(L, "input_sizes", sizes, TPT_MAX_RANK), dim = tpt_lower_dim(L, "dim", rank, 0);
    int64_t start = clamp_slice(tpt_lower_int(L, "start", 0), sizes[dim], 0);
    tpt_lower_result(L, place(L->ir, TPT_VAL_NONE, g, dim, start, tpt_lower_int(L, "step", 1), sizes[dim]));
}

static int64_t select_at(tpt_lower_t *L, int64_t n) {
    int64_t at = tpt_lower_int(L, "index", 0);
    if (at < -n || at >= n) {
        (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "select(): index %lld out of range for a dimension of size %lld",
                             (long long)at, (long long)n);
        return 0;
    }
    return at < 0 ? at + n : at;
}

void tpt_shape_select_scatter(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), src = tpt_lower_tensor(L, "src");
    int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(L->ir, x), 0);
    int64_t n = tpt_ir_dim(L->ir, x, dim), at = select_at(L, n);
    src = tpt_ir_unsqueeze(L->ir, tpt_ir_convert(L->ir, src, tpt_ir_dtype(L->ir, x)), dim);
    tpt_lower_result(L, place(L->ir, x, src, dim, at, 1, n));
}

void tpt_shape_select_back(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "grad_output");
    int64_t sizes[TPT_MAX_RANK];
    int rank = tpt_lower_ints(L, "input_sizes", sizes, TPT_MAX_RANK), dim = tpt_lower_dim(L, "dim", rank, 0);
    int64_t at = select_at(L, sizes[dim]);
    tpt_lower_result(L, place(L->ir, TPT_VAL_NONE, tpt_ir_unsqueeze(L->ir, g, dim), dim, at, 1, sizes[dim]));
}

/* ---- diagonals ----------------------------------------------------------------------------------------------------- */

/* `g` is [rest..., length of the diagonal]; the result has dim1 and dim2 back in place, with `base` (or zero) off the
 * diagonal. */
static tpt_val_t put_diagonal(tpt_lower_t *L, tpt_val_t base, tpt_val_t g, tpt_type_t out, int dim1, int dim2, int64_t offset) {
    tpt_ir_t *ir = L->ir;
    int last = out.rank - 2;
    int64_t n1 = out.dims[dim1], n2 = out.dims[dim2], row = offset < 0 ? -offset : 0;
    int64_t length = tpt_ir_dim(ir, g, -1);
    if (length == 0) return base != TPT_VAL_NONE ? base : tpt_shape_zeros_type(ir, out);
    g = tpt_shape_pad_dim(ir, g, last, row, n1 - row - length, 1);
    /* [rest..., n1] spread over the columns, then only col - row == offset is kept. */
    tpt_type_t wide = *tpt_ir_type(ir, g);
    int64_t map[TPT_MAX_RANK];
    for (int d = 0; d <= last; d++) map[d] = d;
    wide.dims[wide.rank++] = n2;
    g = tpt_ir_broadcast_in_dim(ir, g, wide.rank, wide.dims, map);
    /* Result dims in order of `out`: the rest keep their order, dim1 and dim2 are the last two of g. */
    int64_t perm[TPT_MAX_RANK];
    int rest = 0;
    for (int d = 0; d < out.rank; d++) perm[d] = d == dim1 ? last : d == dim2 ? last + 1 : rest++;
    g = tpt_ir_transpose(ir, g, perm);
    tpt_type_t at = tpt_type_make(TPT_I64, out.rank, out.dims);
    for (int d = 0; d < out.rank; d++)
        if (d != dim1 && d != dim2) at.dims[d] = 1;
    tpt_val_t gap = tpt_ir_sub(ir, tpt_ir_iota(ir, at, dim2), tpt_ir_iota(ir, at, dim1));
    tpt_val_t mask = tpt_ir_compare(ir, TPT_IR_EQ, gap, tpt_ir_const_i(ir, TPT_I64, offset));
    return tpt_ir_select(ir, mask, g, base != TPT_VAL_NONE ? base : tpt_ir_const_i(ir, tpt_ir_dtype(ir, g), 0));
}

static bool diagonal_dims(tpt_lower_t *L, int rank, int64_t default1, int64_t default2, int *out_dim1, int *out_dim2) {
    *out_dim1 = tpt_lower_dim(L, "dim1", rank, default1);
    *out_dim2 = tpt_lower_dim(L, "dim2", rank, default2);
    if (rank < 2 || *out_dim1 == *out_dim2) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "diagonal dimensions cannot be identical %d, %d", *out_dim1, *out_dim2);
        return false;
    }
    return true;
}

/* diagonal_scatter, diagonal_backward, diag_embed: data 0, 1, 2. */
void tpt_shape_diagonal(tpt_lower_t *L) {
    enum { SCATTER, BACKWARD, EMBED } kind = (int)L->row->data;
    tpt_val_t base = TPT_VAL_NONE, g;
    tpt_type_t out;
    int dim1, dim2;
    if (kind == SCATTER) {
        base = tpt_lower_tensor(L, "self");
        out = *tpt_ir_type(L->ir, base);
        g = tpt_ir_convert(L->ir, tpt_lower_tensor(L, "src"), (tpt_dtype_t)out.dtype);
    } else if (kind == BACKWARD) {
        int64_t sizes[TPT_MAX_RANK];
        int rank = tpt_lower_ints(L, "input_sizes", sizes, TPT_MAX_RANK);
        g = tpt_lower_tensor(L, "grad_output");
        out = tpt_type_make(tpt_ir_dtype(L->ir, g), rank, sizes);
    } else {
        g = tpt_lower_tensor(L, "self");
        out = tpt_shape_out(L);
    }
    if (!diagonal_dims(L, out.rank, kind == EMBED ? -2 : 0, kind == EMBED ? -1 : 1, &dim1, &dim2)) return;
    tpt_lower_result(L, put_diagonal(L, base, g, out, dim1, dim2, tpt_lower_int(L, "offset", 0)));
}

/* ---- sliding windows ----------------------------------------------------------------------------------------------- */

/* Above this many taps a scatter makes the smaller program. */
#define MAX_TAPS 64

/* Dim `dim` of x becomes [taps, count]: tap t of window w is x[w * stride + t * dilation]. */
static tpt_val_t windows(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t taps, int64_t count, int64_t stride, int64_t dilation) {
    if (taps > MAX_TAPS) {
        int64_t dims[2] = {taps, count};
        tpt_type_t plane = tpt_type_make(TPT_I64, 2, dims);
        tpt_val_t t = tpt_ir_mul(ir, tpt_ir_iota(ir, plane, 0), tpt_ir_const_i(ir, TPT_I64, dilation));
        tpt_val_t w = tpt_ir_mul(ir, tpt_ir_iota(ir, plane, 1), tpt_ir_const_i(ir, TPT_I64, stride));
        return tpt_index_take(ir, x, dim, tpt_ir_add(ir, t, w));
    }
    tpt_val_t parts[MAX_TAPS];
    for (int64_t t = 0; t < taps; t++) {
        int64_t start = t * dilation;
        parts[t] = tpt_ir_unsqueeze(ir, tpt_shape_slice(ir, x, dim, start, start + (count - 1) * stride + 1, stride), dim);
    }
    return taps == 1 ? parts[0] : tpt_ir_concat(ir, (int)taps, parts, dim);
}

/* The transpose: [taps, count] at dim of g are summed into n elements. */
static tpt_val_t unwindows(tpt_ir_t *ir, tpt_val_t g, int dim, int64_t n, int64_t stride, int64_t dilation) {
    int64_t taps = tpt_ir_dim(ir, g, dim), count = tpt_ir_dim(ir, g, dim + 1);
    tpt_type_t type = *tpt_ir_type(ir, g);
    for (int d = dim + 1; d < type.rank - 1; d++) type.dims[d] = type.dims[d + 1];
    type.rank--;
    if (taps > MAX_TAPS) {
        int64_t dims[2] = {taps, count};
        tpt_type_t plane = tpt_type_make(TPT_I64, 2, dims);
        tpt_val_t t = tpt_ir_mul(ir, tpt_ir_iota(ir, plane, 0), tpt_ir_const_i(ir, TPT_I64, dilation));
        tpt_val_t w = tpt_ir_mul(ir, tpt_ir_iota(ir, plane, 1), tpt_ir_const_i(ir, TPT_I64, stride));
        tpt_val_t index = tpt_ir_flatten(ir, tpt_ir_add(ir, t, w));
        type.dims[dim] = taps * count;
        g = tpt_ir_reshape(ir, g, type.rank, type.dims);
        type.dims[dim] = n;
        return tpt_index_scatter_rows(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros_type(ir, type), dim, index, g);
    }
    tpt_val_t sum = TPT_VAL_NONE;
    for (int64_t t = 0; t < taps; t++) {
        tpt_val_t part = tpt_ir_squeeze(ir, tpt_ir_slice_dim(ir, g, dim, t, t + 1), dim);
        int64_t low = t * dilation;
        part = tpt_shape_pad_dim(ir, part, dim, low, n - low - ((count - 1) * stride + 1), stride);
        sum = t == 0 ? part : tpt_ir_add(ir, sum, part);
    }
    return sum;
}

/* Gradient of Tensor.unfold: grad_in is [..., windows, ..., size]. */
void tpt_shape_unfold_back(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "grad_in");
    int64_t sizes[TPT_MAX_RANK], step = tpt_lower_int(L, "step", 1);
    int rank = tpt_lower_ints(L, "input_sizes", sizes, TPT_MAX_RANK), dim = tpt_lower_dim(L, "dim", rank, 0);
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, g);
    if (tpt_ir_numel(L->ir, g) == 0) {
        tpt_lower_result(L, tpt_shape_zeros(L->ir, dtype, rank, sizes));
        return;
    }
    g = tpt_ir_convert(L->ir, g, tpt_dtype_opmath(dtype));
    if (rank == 0) { /* a scalar has one window of one element */
        tpt_lower_result(L, tpt_ir_convert(L->ir, tpt_ir_reshape(L->ir, g, 0, NULL), dtype));
        return;
    }
    g = tpt_shape_move(L->ir, g, rank, dim);
    tpt_lower_result(L, tpt_ir_convert(L->ir, unwindows(L->ir, g, dim, sizes[dim], step, 1), dtype));
}

typedef struct patches {
    int64_t kernel[2], dilation[2], padding[2], stride[2], size[2], count[2];
} patches_t;

static void two_ints(tpt_lower_t *L, const char *name, int64_t *out) {
    if (tpt_lower_ints(L, name, out, 2) == 1) out[1] = out[0];
}

static bool patches_of(tpt_lower_t *L, patches_t *p, int64_t height, int64_t width) {
    two_ints(L, "kernel_size", p->kernel);
    two_ints(L, "dilation", p->dilation);
    two_ints(L, "padding", p->padding);
    two_ints(L, "stride", p->stride);
    p->size[0] = height;
    p->size[1] = width;
    if (tpt_ir_status(L->ir) != NULL) return false;
    for (int i = 0; i < 2; i++) {
        int64_t span = p->size[i] + 2 * p->padding[i] - p->dilation[i] * (p->kernel[i] - 1) - 1;
        p->count[i] = p->stride[i] > 0 && span >= 0 ? span / p->stride[i] + 1 : 0;
        if (p->count[i] <= 0) {
            (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s: the array of sliding blocks is empty", L->schema_name);
            return false;
        }
    }
    return true;
}

/* [N, C, H, W] -> [N, C kh kw, blocks]; the batch may be absent. */
void tpt_shape_im2col(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    tpt_type_t out = tpt_shape_out(L);
    patches_t p = {0};
    if (tpt_ir_rank(L->ir, x) == 3) x = tpt_ir_unsqueeze(L->ir, x, 0);
    if (!patches_of(L, &p, tpt_ir_dim(L->ir, x, 2), tpt_ir_dim(L->ir, x, 3))) return;
    if (tpt_type_numel(&out) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, out));
        return;
    }
    for (int i = 0; i < 2; i++) x = tpt_shape_pad_dim(L->ir, x, 2 + i, p.padding[i], p.padding[i], 1);
    x = windows(L->ir, x, 3, p.kernel[1], p.count[1], p.stride[1], p.dilation[1]);
    x = windows(L->ir, x, 2, p.kernel[0], p.count[0], p.stride[0], p.dilation[0]);
    /* [N, C, kh, oh, kw, ow] */
    int64_t perm[6] = {0, 1, 2, 4, 3, 5};
    tpt_lower_result(L, tpt_ir_reshape(L->ir, tpt_ir_transpose(L->ir, x, perm), out.rank, out.dims));
}

void tpt_shape_col2im(tpt_lower_t *L) {
    tpt_val_t g = tpt_lower_tensor(L, "self");
    tpt_type_t out = tpt_shape_out(L);
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, g);
    int64_t size[2] = {1, 1};
    patches_t p = {0};
    two_ints(L, "output_size", size);
    if (!patches_of(L, &p, size[0], size[1])) return;
    if (tpt_type_numel(&out) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, out));
        return;
    }
    int64_t batch = out.rank == 4 ? out.dims[0] : 1, perm[6] = {0, 1, 2, 4, 3, 5};
    int64_t dims[6] = {batch, out.dims[out.rank - 3], p.kernel[0], p.kernel[1], p.count[0], p.count[1]};
    g = tpt_ir_convert(L->ir, tpt_ir_reshape(L->ir, g, 6, dims), tpt_dtype_opmath(dtype));
    g = tpt_ir_transpose(L->ir, g, perm); /* [N, C, kh, oh, kw, ow] */
    g = unwindows(L->ir, g, 2, size[0] + 2 * p.padding[0], p.stride[0], p.dilation[0]);
    g = unwindows(L->ir, g, 3, size[1] + 2 * p.padding[1], p.stride[1], p.dilation[1]);
    for (int i = 0; i < 2; i++) g = tpt_ir_slice_dim(L->ir, g, 2 + i, p.padding[i], p.padding[i] + size[i]);
    tpt_lower_result(L, tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, g, dtype), out.rank, out.dims));
}
