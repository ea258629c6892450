/* build_shape.c - ops that move elements. Those that would change nothing are left out. */
#include "ir_internal.h"

static bool too_high(tpt_ir_t *ir, int rank) {
    if (rank >= 0 && rank <= TPT_MAX_RANK) return false;
    tpt_ir_error(ir, "tensors of %d dimensions are not supported (at most %d)", rank, TPT_MAX_RANK);
    return true;
}

tpt_val_t tpt_ir_broadcast_in_dim(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims, const int64_t *dim_map) {
    if (!tpt_ir_good(ir, x) || too_high(ir, rank)) return TPT_VAL_NONE;
    tpt_type_t want = tpt_type_make(tpt_ir_dtype(ir, x), rank, dims);
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_BROADCAST,
                                          .nin = 1,
                                          .in = &x,
                                          .nout = 1,
                                          .want = &want,
                                          .nints = tpt_ir_rank(ir, x),
                                          .ints = {dim_map}});
}

tpt_val_t tpt_ir_broadcast_to(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims) {
    if (!tpt_ir_good(ir, x) || too_high(ir, rank)) return TPT_VAL_NONE;
    tpt_type_t want = tpt_type_make(tpt_ir_dtype(ir, x), rank, dims);
    const tpt_type_t *type = tpt_ir_type(ir, x);
    if (tpt_type_equal(type, &want)) return x;
    if (rank < type->rank) return tpt_ir_error(ir, "a tensor of %d dimensions cannot be broadcast to %d", type->rank, rank);
    int64_t map[TPT_MAX_RANK];
    for (int i = 0; i < type->rank; i++) map[i] = rank - type->rank + i;
    return tpt_ir_broadcast_in_dim(ir, x, rank, dims, map);
}

tpt_val_t tpt_ir_reshape(tpt_ir_t *ir, tpt_val_t x, int rank, const int64_t *dims) {
    if (!tpt_ir_good(ir, x) || too_high(ir, rank)) return TPT_VAL_NONE;
    tpt_type_t want = tpt_type_make(tpt_ir_dtype(ir, x), rank, dims);
    if (tpt_type_equal(tpt_ir_type(ir, x), &want)) return x;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_RESHAPE, .nin = 1, .in = &x, .nout = 1, .want = &want});
}

/* Elements from which a call of the routine pays. */
#define TURN_LEAST 2048

/* A permutation of a permutation is one. */
static tpt_val_t permuted(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm, bool turned) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    const int rank = tpt_ir_rank(ir, x);
    const tpt_node_t *before = tpt_maker(ir, x);
    const bool twice = before != NULL && before->kind == TPT_KIND_TRANSPOSE;
    int64_t whole[TPT_MAX_RANK];
    bool same = true;
    for (int i = 0; i < rank; i++) {
        whole[i] = twice ? before->ints[0][perm[i]] : perm[i];
        same &= whole[i] == i;
    }
    if (twice) x = before->in[0];
    if (same) return x;
    if (twice) turned = turned || before->sub != 0;
    const bool routine = turned && ir->has_kernels && tpt_ir_numel(ir, x) >= TURN_LEAST;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_TRANSPOSE, .sub = routine, .nin = 1, .in = &x, .nout = 1,
                                          .nints = rank, .ints = {whole}});
}

tpt_val_t tpt_ir_transpose(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm) { return permuted(ir, x, perm, false); }

tpt_val_t tpt_ir_turn(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm) { return permuted(ir, x, perm, true); }

void tpt_ir_turn_made(tpt_ir_t *ir, tpt_val_t v) {
    const int32_t made = ir->values[v]->node;
    if (made < 0 || ir->nodes[made]->kind != TPT_KIND_TRANSPOSE) return;
    if (ir->has_kernels && tpt_ir_numel(ir, v) >= TURN_LEAST) ir->nodes[made]->sub = true;
}

tpt_val_t tpt_ir_slice(tpt_ir_t *ir, tpt_val_t x, const int64_t *starts, const int64_t *limits, const int64_t *strides) {
    static const int64_t ones[TPT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    if (strides == NULL) strides = ones;
    const tpt_type_t *type = tpt_ir_type(ir, x);
    bool whole = true;
    for (int i = 0; i < type->rank; i++) whole &= starts[i] == 0 && limits[i] == type->dims[i] && strides[i] == 1;
    if (whole) return x;
    return tpt_ir_emit1(
        ir, &(tpt_emit_t){
                .kind = TPT_KIND_SLICE, .nin = 1, .in = &x, .nout = 1, .nints = type->rank, .ints = {starts, limits, strides}});
}

/* Wraps a dim that may count from the end; -1 and a sticky error when there is none such. */
static int wrap_dim(tpt_ir_t *ir, int dim, int rank) {
    int d = dim < 0 ? dim + rank : dim;
    if (d >= 0 && d < rank) return d;
    tpt_ir_error(ir, "no dimension %d of %d", dim, rank);
    return -1;
}

tpt_val_t tpt_ir_slice_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t start, int64_t limit) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    const tpt_type_t *type = tpt_ir_type(ir, x);
    int64_t starts[TPT_MAX_RANK] = {0}, limits[TPT_MAX_RANK];
    if ((dim = wrap_dim(ir, dim, type->rank)) < 0) return TPT_VAL_NONE;
    for (int i = 0; i < type->rank; i++) limits[i] = type->dims[i];
    starts[dim] = start;
    limits[dim] = limit;
    return tpt_ir_slice(ir, x, starts, limits, NULL);
}

tpt_val_t tpt_ir_dynamic_slice(tpt_ir_t *ir, tpt_val_t x, const tpt_val_t *starts, const int64_t *sizes) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    int rank = tpt_ir_rank(ir, x);
    if (rank == 0) return x;
    tpt_val_t in[TPT_MAX_RANK + 1] = {x};
    for (int i = 0; i < rank; i++) in[1 + i] = starts[i];
    return tpt_ir_emit1(
        ir,
        &(tpt_emit_t){.kind = TPT_KIND_DYNAMIC_SLICE, .nin = 1 + rank, .in = in, .nout = 1, .nints = rank, .ints = {sizes}});
}

tpt_val_t tpt_ir_dynamic_update_slice(tpt_ir_t *ir, tpt_val_t x, tpt_val_t update, const tpt_val_t *starts) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    int rank = tpt_ir_rank(ir, x);
    tpt_val_t in[TPT_MAX_RANK + 2] = {x, update};
    for (int i = 0; i < rank; i++) in[2 + i] = starts[i];
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_DYNAMIC_UPDATE, .nin = 2 + rank, .in = in, .nout = 1});
}

tpt_val_t tpt_ir_pad(tpt_ir_t *ir, tpt_val_t x, tpt_val_t value, const int64_t *low, const int64_t *high,
                     const int64_t *interior) {
    static const int64_t zeros[TPT_MAX_RANK];
    if (!tpt_ir_good(ir, x) || !tpt_ir_good(ir, value)) return TPT_VAL_NONE;
    if (interior == NULL) interior = zeros;
    int rank = tpt_ir_rank(ir, x);
    bool nothing = true;
    for (int i = 0; i < rank; i++) nothing &= low[i] == 0 && high[i] == 0 && interior[i] == 0;
    if (nothing) return x;
    tpt_val_t in[2] = {x, value};
    return tpt_ir_emit1(
        ir, &(tpt_emit_t){.kind = TPT_KIND_PAD, .nin = 2, .in = in, .nout = 1, .nints = rank, .ints = {low, high, interior}});
}

tpt_val_t tpt_ir_concat(tpt_ir_t *ir, int n, const tpt_val_t *xs, int dim) {
    if (n < 1) return tpt_ir_error(ir, "a concatenation of nothing");
    if (!tpt_ir_good(ir, xs[0]) || (dim = wrap_dim(ir, dim, tpt_ir_rank(ir, xs[0]))) < 0) return TPT_VAL_NONE;
    if (n == 1) return xs[0];
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_CONCAT, .nin = n, .in = xs, .nout = 1, .num = dim});
}

tpt_val_t tpt_ir_reverse(tpt_ir_t *ir, tpt_val_t x, int ndims, const int64_t *dims) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    if (ndims == 0) return x;
    if (ndims < 0 || ndims > TPT_MAX_RANK) return tpt_ir_error(ir, "%d dimensions to reverse", ndims);
    return tpt_ir_emit1(ir,
                        &(tpt_emit_t){.kind = TPT_KIND_REVERSE, .nin = 1, .in = &x, .nout = 1, .nints = ndims, .ints = {dims}});
}

tpt_val_t tpt_ir_unsqueeze(tpt_ir_t *ir, tpt_val_t x, int dim) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    const tpt_type_t *type = tpt_ir_type(ir, x);
    int64_t dims[TPT_MAX_RANK + 1];
    if ((dim = wrap_dim(ir, dim, type->rank + 1)) < 0) return TPT_VAL_NONE;
    for (int i = 0; i <= type->rank; i++) dims[i] = i < dim ? type->dims[i] : i == dim ? 1 : type->dims[i - 1];
    return tpt_ir_reshape(ir, x, type->rank + 1, dims);
}

tpt_val_t tpt_ir_squeeze(tpt_ir_t *ir, tpt_val_t x, int dim) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    const tpt_type_t *type = tpt_ir_type(ir, x);
    int64_t dims[TPT_MAX_RANK];
    if ((dim = wrap_dim(ir, dim, type->rank)) < 0) return TPT_VAL_NONE;
    if (type->dims[dim] != 1) return tpt_ir_error(ir, "dimension %d of size %lld cannot go", dim, (long long)type->dims[dim]);
    for (int i = 0; i < type->rank - 1; i++) dims[i] = type->dims[i < dim ? i : i + 1];
    return tpt_ir_reshape(ir, x, type->rank - 1, dims);
}

tpt_val_t tpt_ir_flatten(tpt_ir_t *ir, tpt_val_t x) {
    int64_t size = tpt_ir_numel(ir, x);
    return tpt_ir_reshape(ir, x, 1, &size);
}
