/* shape.c - copies, joins and rearrangements of whole tensors. */
#include "ops/scan.h"
#include "ops/shape.h"

/* ---- helpers ------------------------------------------------------------------------------------------------------- */

tpt_type_t tpt_shape_arg(const tpt_lower_t *L, const char *name) {
    int i = tpt_lower_find(L, name);
    if (i < 0 || L->args[i].kind != TPT_ARG_TENSOR) return tpt_type_make(TPT_DTYPE_NONE, 0, NULL);
    const tpt_tensor_t *t = &L->args[i].u.tensor;
    return tpt_type_make((tpt_dtype_t)t->dtype, t->rank, t->sizes);
}

tpt_type_t tpt_shape_out(tpt_lower_t *L) {
    if (L->nouts > 0 && L->outs != NULL) return tpt_type_make((tpt_dtype_t)L->outs[0].dtype, L->outs[0].rank, L->outs[0].sizes);
    static const char *const written[] = {"out", "grad_input", "out0", "self"};
    for (size_t k = 0; k < sizeof written / sizeof *written; k++) {
        tpt_type_t type = tpt_shape_arg(L, written[k]);
        if (type.dtype != TPT_DTYPE_NONE) return type;
    }
    (void)tpt_lower_fail(L, TPT_INTERNAL, "%s: no output to take the type from", L->schema_name);
    return tpt_type_make(TPT_DTYPE_NONE, 0, NULL);
}

tpt_val_t tpt_shape_value(tpt_lower_t *L, const char *name, tpt_dtype_t dtype) {
    if (tpt_lower_is_tensor(L, name)) return tpt_ir_convert(L->ir, tpt_lower_tensor(L, name), dtype);
    return tpt_lower_number(L, name, dtype);
}

int tpt_shape_wrap(int64_t dim, int rank) {
    int64_t n = rank > 0 ? rank : 1;
    return (int)(dim < 0 ? dim + n : dim);
}

tpt_val_t tpt_shape_zeros(tpt_ir_t *ir, tpt_dtype_t dtype, int rank, const int64_t *dims) {
    return tpt_ir_full_i(ir, tpt_type_make(dtype, rank, dims), 0);
}

tpt_val_t tpt_shape_zeros_type(tpt_ir_t *ir, tpt_type_t type) { return tpt_ir_full_i(ir, type, 0); }

tpt_val_t tpt_shape_pad_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t low, int64_t high, int64_t step) {
    if (low == 0 && high == 0 && step <= 1) return x;
    int64_t lows[TPT_MAX_RANK] = {0}, highs[TPT_MAX_RANK] = {0}, interior[TPT_MAX_RANK] = {0};
    lows[dim] = low;
    highs[dim] = high;
    interior[dim] = step > 1 ? step - 1 : 0;
    return tpt_ir_pad(ir, x, tpt_ir_const_i(ir, tpt_ir_dtype(ir, x), 0), lows, highs, interior);
}

tpt_val_t tpt_shape_slice(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t start, int64_t limit, int64_t step) {
    const tpt_type_t type = *tpt_ir_type(ir, x);
    int64_t starts[TPT_MAX_RANK] = {0}, limits[TPT_MAX_RANK], strides[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) {
        limits[d] = type.dims[d];
        strides[d] = 1;
    }
    starts[dim] = start;
    limits[dim] = limit;
    strides[dim] = step;
    return tpt_ir_slice(ir, x, starts, limits, strides);
}

tpt_val_t tpt_shape_move(tpt_ir_t *ir, tpt_val_t x, int from, int to) {
    if (from == to) return x;
    int rank = tpt_ir_rank(ir, x), k = 0;
    int64_t perm[TPT_MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) {
        if (d == to) {
            perm[d] = from;
            continue;
        }
        if (k == from) k++;
        perm[d] = k++;
    }
    return tpt_ir_transpose(ir, x, perm);
}

tpt_val_t tpt_shape_along(tpt_ir_t *ir, tpt_val_t vector, int rank, int dim) {
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = 1;
    dims[dim] = tpt_ir_dim(ir, vector, 0);
    return tpt_ir_reshape(ir, vector, rank, dims);
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */

void tpt_shape_copy(tpt_lower_t *L) {
    tpt_type_t to = tpt_shape_arg(L, "self");
    tpt_val_t x = tpt_shape_value(L, "src", (tpt_dtype_t)to.dtype);
    tpt_lower_result(L, tpt_ir_broadcast_to(L->ir, x, to.rank, to.dims));
}

void tpt_shape_clone(tpt_lower_t *L) { tpt_lower_result(L, tpt_lower_tensor(L, "self")); }

/* ---- joins --------------------------------------------------------------------------------------------------------- */

/* data: 0 = cat, 1 = stack. PyTorch's cat skips tensors of shape (0,) whatever the rank of the others. */
void tpt_shape_cat(tpt_lower_t *L) {
    bool stack = L->row->data != 0;
    int count = tpt_lower_count(L, "tensors"), n = 0, rank = 0;
    tpt_type_t out = tpt_shape_out(L);
    tpt_val_t *parts = tpt_arena_alloc(tpt_ir_arena(L->ir), (size_t)(count + 1) * sizeof *parts);
    if (parts == NULL) {
        (void)tpt_ir_fail(L->ir, tpt_status_oom((size_t)count * sizeof *parts));
        return;
    }
    for (int i = 0; i < count; i++) {
        tpt_val_t x = tpt_lower_item(L, "tensors", i);
        if (!stack && tpt_ir_rank(L->ir, x) == 1 && tpt_ir_dim(L->ir, x, 0) == 0) continue;
        rank = tpt_ir_rank(L->ir, x);
        parts[n++] = tpt_ir_convert(L->ir, x, (tpt_dtype_t)out.dtype);
    }
    if (n == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, out));
        return;
    }
    int dim = tpt_lower_dim(L, "dim", stack ? rank + 1 : rank, 0);
    for (int i = 0; stack && i < n; i++) parts[i] = tpt_ir_unsqueeze(L->ir, parts[i], dim);
    tpt_lower_result(L, n == 1 ? parts[0] : tpt_ir_concat(L->ir, n, parts, dim));
}

/* ---- rearrangements ------------------------------------------------------------------------------------------------ */

void tpt_shape_flip(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(L->ir, x);
    int64_t dims[TPT_MAX_RANK];
    int n = tpt_lower_ints(L, "dims", dims, TPT_MAX_RANK);
    for (int i = 0; i < n; i++) dims[i] = tpt_shape_wrap(dims[i], rank);
    tpt_lower_result(L, n == 0 || rank == 0 ? x : tpt_ir_reverse(L->ir, x, n, dims));
}

static tpt_val_t roll_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t shift) {
    int64_t n = tpt_ir_dim(ir, x, dim);
    if (n == 0) return x;
    int64_t s = ((shift % n) + n) % n;
    if (s == 0) return x;
    tpt_val_t parts[2] = {tpt_ir_slice_dim(ir, x, dim, n - s, n), tpt_ir_slice_dim(ir, x, dim, 0, n - s)};
    return tpt_ir_concat(ir, 2, parts, dim);
}

void tpt_shape_roll(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    int64_t shifts[TPT_MAX_RANK], dims[TPT_MAX_RANK];
    int nshifts = tpt_lower_ints(L, "shifts", shifts, TPT_MAX_RANK), ndims = tpt_lower_ints(L, "dims", dims, TPT_MAX_RANK);
    if (ndims == 0 && nshifts == 1) {
        x = roll_dim(L->ir, tpt_ir_flatten(L->ir, x), 0, shifts[0]);
        tpt_lower_result(L, tpt_ir_reshape(L->ir, x, type.rank, type.dims));
        return;
    }
    for (int i = 0; i < ndims && i < nshifts; i++) {
        if (type.rank > 0) x = roll_dim(L->ir, x, tpt_shape_wrap(dims[i], type.rank), shifts[i]);
    }
    tpt_lower_result(L, x);
}

/* Tiles one dim: seen as [before, after], broadcast to [before, times, after]. Rank stays small whatever the tensor's. */
static tpt_val_t tile_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t times) {
    tpt_type_t type = *tpt_ir_type(ir, x);
    int64_t before = 1, after = 1;
    for (int d = 0; d < type.rank; d++) *(d < dim ? &before : &after) *= type.dims[d];
    int64_t flat[2] = {before, after}, wide[3] = {before, times, after}, map[2] = {0, 2};
    x = tpt_ir_broadcast_in_dim(ir, tpt_ir_reshape(ir, x, 2, flat), 3, wide, map);
    type.dims[dim] *= times;
    return tpt_ir_reshape(ir, x, type.rank, type.dims);
}

void tpt_shape_repeat(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int64_t repeats[TPT_MAX_RANK];
    int n = tpt_lower_ints(L, "repeats", repeats, TPT_MAX_RANK);
    while (tpt_ir_rank(L->ir, x) < n && tpt_ir_status(L->ir) == NULL) x = tpt_ir_unsqueeze(L->ir, x, 0);
    for (int d = 0; d < n; d++) {
        if (repeats[d] != 1) x = tile_dim(L->ir, x, d, repeats[d]);
    }
    tpt_lower_result(L, x);
}

/* i repeated repeats[i] times. The total must be known: PyTorch's output_size, which the caller reads from the host. */
void tpt_shape_repeat_interleave(tpt_lower_t *L) {
    tpt_val_t repeats = tpt_lower_tensor(L, "repeats");
    if (!tpt_lower_has(L, "output_size")) {
        (void)tpt_lower_fail(L, TPT_UNIMPLEMENTED, "repeat_interleave on a device tensor needs output_size");
        return;
    }
    int64_t n = tpt_lower_int(L, "output_size", 0);
    tpt_dtype_t dtype = tpt_ir_dtype(L->ir, repeats);
    tpt_val_t counts = tpt_ir_convert(L->ir, repeats, TPT_I64);
    tpt_val_t starts = tpt_ir_sub(L->ir, tpt_scan_sum(L->ir, counts, 0), counts);
    tpt_lower_flag(L, tpt_ir_compare(L->ir, TPT_IR_LT, counts, tpt_ir_const_i(L->ir, TPT_I64, 0)), -1);
    tpt_val_t index =
        tpt_ir_dim(L->ir, repeats, 0) == 0 ? tpt_shape_zeros(L->ir, TPT_I64, 1, &n) : tpt_index_segments(L->ir, starts, n);
    tpt_lower_result(L, tpt_ir_convert(L->ir, index, dtype));
}

/* data: 0 = tril, 1 = triu. */
void tpt_shape_tri(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    if (type.rank < 2) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s: input tensor must have at least 2 dimensions", L->schema_name);
        return;
    }
    tpt_type_t plane = tpt_type_make(TPT_I64, 2, type.dims + type.rank - 2);
    tpt_val_t row = tpt_ir_iota(L->ir, plane, 0), col = tpt_ir_iota(L->ir, plane, 1);
    tpt_val_t limit = tpt_ir_add(L->ir, row, tpt_ir_const_i(L->ir, TPT_I64, tpt_lower_int(L, "diagonal", 0)));
    tpt_val_t keep = tpt_ir_compare(L->ir, L->row->data ? TPT_IR_GE : TPT_IR_LE, col, limit);
    tpt_lower_result(L, tpt_ir_select(L->ir, keep, x, tpt_ir_const_i(L->ir, (tpt_dtype_t)type.dtype, 0)));
}

/* [*, C r r, H, W] <-> [*, C, H r, W r]. data: 0 = shuffle, 1 = unshuffle. */
void tpt_shape_pixel(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    tpt_type_t out = tpt_shape_out(L);
    const tpt_type_t in = *tpt_ir_type(L->ir, x);
    if (in.rank < 3) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s expects an input of at least 3 dimensions", L->schema_name);
        return;
    }
    bool back = L->row->data != 0;
    int64_t r = tpt_lower_int(L, back ? "downscale_factor" : "upscale_factor", 1), batch = 1;
    for (int d = 0; d < in.rank - 3; d++) batch *= in.dims[d];
    int64_t c = in.dims[in.rank - 3], h = in.dims[in.rank - 2], w = in.dims[in.rank - 1];
    if (back) {
        int64_t dims[6] = {batch, c, h / r, r, w / r, r}, perm[6] = {0, 1, 3, 5, 2, 4};
        x = tpt_ir_transpose(L->ir, tpt_ir_reshape(L->ir, x, 6, dims), perm);
    } else {
        int64_t dims[6] = {batch, c / (r * r), r, r, h, w}, perm[6] = {0, 1, 4, 2, 5, 3};
        x = tpt_ir_transpose(L->ir, tpt_ir_reshape(L->ir, x, 6, dims), perm);
    }
    tpt_lower_result(L, tpt_ir_reshape(L->ir, x, out.rank, out.dims));
}

void tpt_shape_channel_shuffle(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    int64_t groups = tpt_lower_int(L, "groups", 1), rest = 1;
    if (type.rank < 3 || groups <= 0 || type.dims[1] % groups != 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "channel_shuffle: channels must be divisible by groups (%lld)",
                             (long long)groups);
        return;
    }
    for (int d = 2; d < type.rank; d++) rest *= type.dims[d];
    int64_t dims[4] = {type.dims[0], groups, type.dims[1] / groups, rest}, perm[4] = {0, 2, 1, 3};
    x = tpt_ir_transpose(L->ir, tpt_ir_reshape(L->ir, x, 4, dims), perm);
    tpt_lower_result(L, tpt_ir_reshape(L->ir, x, type.rank, type.dims));
}
