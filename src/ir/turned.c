/* turned.c - elementwise ops and reductions of turned values (tpt_ir_turn: what a convolution gives, for example, whose features
 * the processor's compiler wants last). They are computed on what was turned, and their result is turned in its place. Where
 * that goes into the next convolution, which turns it back, both turns vanish; where nothing else reads it, none is left. */
#include <string.h>

#include "ir_internal.h"

static const tpt_node_t *turn_of(const tpt_ir_t *ir, tpt_val_t v) {
    const tpt_node_t *node = tpt_maker(ir, v);
    return node != NULL && node->kind == TPT_KIND_TRANSPOSE && node->sub != 0 ? node : NULL;
}

/* Turned in the same way, or spread out from less, which can be spread in any order. */
static bool goes_along(const tpt_ir_t *ir, tpt_val_t v, const tpt_node_t *turn) {
    const tpt_node_t *node = tpt_maker(ir, v);
    if (node == NULL) return false;
    if (node->kind == TPT_KIND_BROADCAST) return tpt_type_numel(tpt_in_type(ir, node, 0)) < tpt_ir_numel(ir, v);
    return turn_of(ir, v) != NULL && node->nints == turn->nints &&
           memcmp(node->ints[0], turn->ints[0], sizeof *node->ints[0] * (size_t)node->nints) == 0;
}

/* The operand as it was before the turn. */
static tpt_val_t before_turn(tpt_ir_t *ir, tpt_val_t v, const tpt_node_t *turn) {
    const tpt_node_t *node = tpt_maker(ir, v);
    if (node->kind == TPT_KIND_TRANSPOSE) return node->in[0];
    const int64_t *perm = turn->ints[0];
    const tpt_type_t type = *tpt_ir_type(ir, v);
    int64_t dims[TPT_MAX_RANK], map[TPT_MAX_RANK];
    for (int i = 0; i < type.rank; i++) dims[perm[i]] = type.dims[i];
    for (int i = 0; i < node->nints; i++) map[i] = perm[node->ints[0][i]];
    return tpt_ir_broadcast_in_dim(ir, node->in[0], type.rank, dims, map);
}

bool tpt_ir_emit_turned(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out) {
    const bool elementwise = emit->kind == TPT_KIND_UNARY || emit->kind == TPT_KIND_BINARY || emit->kind == TPT_KIND_COMPARE ||
                             emit->kind == TPT_KIND_SELECT || emit->kind == TPT_KIND_CONVERT;
    const tpt_node_t *turn = NULL;
    if (!elementwise || !ir->has_kernels) return false;
    for (int i = 0; i < emit->nin && turn == NULL; i++) turn = turn_of(ir, emit->in[i]);
    for (int i = 0; i < emit->nin && turn != NULL; i++)
        if (!goes_along(ir, emit->in[i], turn)) return false;
    if (turn == NULL) return false;
    tpt_val_t in[3] = {TPT_VAL_NONE, TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_emit_t inner = *emit;
    for (int i = 0; i < emit->nin; i++) in[i] = before_turn(ir, emit->in[i], turn);
    inner.in = in;
    *out = tpt_ir_turn(ir, tpt_ir_emit1(ir, &inner), turn->ints[0]);
    return true;
}

tpt_val_t tpt_ir_before_reduce(const tpt_ir_t *ir, tpt_val_t x, int ndims, const int64_t *dims, int64_t *out_dims) {
    const tpt_node_t *turn = x != TPT_VAL_NONE ? turn_of(ir, x) : NULL;
    bool reduced[TPT_MAX_RANK] = {false};
    int64_t before = -1;
    for (int i = 0; i < ndims; i++) out_dims[i] = dims[i];
    for (int i = 0; i < ndims && turn != NULL; i++) {
        if (dims[i] < 0 || dims[i] >= turn->nints) return x; /* refused where it is emitted */
        reduced[dims[i]] = true;
    }
    if (turn == NULL) return x;
    for (int i = 0; i < turn->nints; i++) { /* what is left must come in the same order */
        if (reduced[i]) continue;
        if (turn->ints[0][i] < before) return x;
        before = turn->ints[0][i];
    }
    bool at[TPT_MAX_RANK] = {false};
    for (int i = 0; i < ndims; i++) at[turn->ints[0][dims[i]]] = true;
    for (int i = 0, n = 0; i < turn->nints; i++)
        if (at[i]) out_dims[n++] = i;
    return turn->in[0];
}
