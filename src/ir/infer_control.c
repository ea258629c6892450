/* infer_control.c - rules of sorting, loops, conditions, random bits and the odd ones. */
#include <stdlib.h>

#include "base/alloc.h"
#include "ir_internal.h"

static const tpt_type_t truth = {.dtype = TPT_BOOL};

static tpt_status_t *infer_sort(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    int n = node->nin;
    if (n < 1 || n != node->nout) return TPT_BAD("%d operands, %d results", n, node->nout);
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    if (node->num >> 1 < 0 || node->num >> 1 >= x->rank) return TPT_BAD("no dimension %lld", (long long)(node->num >> 1));
    tpt_type_t *scalars = tpt_malloc(sizeof *scalars * 2 * (size_t)n);
    if (scalars == NULL) return tpt_status_oom(sizeof *scalars * 2 * (size_t)n);
    tpt_status_t *status = NULL;
    for (int i = 0; i < n && status == NULL; i++) {
        types[i] = *tpt_in_type(ir, node, i);
        scalars[2 * i] = scalars[2 * i + 1] = tpt_type_make((tpt_dtype_t)types[i].dtype, 0, NULL);
        tpt_type_t shape = types[i];
        shape.dtype = x->dtype;
        if (!tpt_type_equal(&shape, x)) status = TPT_BAD("operands of different shapes");
    }
    if (status == NULL) status = tpt_ir_check_region(ir, node, 0, 2 * n, scalars, 1, &truth);
    tpt_free(scalars);
    return status;
}

static tpt_status_t *infer_while(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    int n = node->nin;
    if (n < 1 || n != node->nout || node->nregions != 2) return TPT_BAD("%d operands, %d results", n, node->nout);
    for (int i = 0; i < n; i++) types[i] = *tpt_in_type(ir, node, i);
    TPT_TRY_MSG(tpt_ir_check_region(ir, node, 0, n, types, 1, &truth), "checking its condition");
    TPT_TRY_MSG(tpt_ir_check_region(ir, node, 1, n, types, n, types), "checking its body");
    return NULL;
}

static tpt_status_t *infer_if(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nin != 1 || node->nregions != 2 || node->nout < 1) return TPT_BAD("%d operands", node->nin);
    if (!tpt_type_equal(tpt_in_type(ir, node, 0), &truth)) return TPT_BAD("its condition is no bool scalar");
    TPT_TRY(tpt_ir_check_region(ir, node, 0, 0, NULL, node->nout, NULL));
    const tpt_block_t *then = ir->blocks[node->regions[0]];
    for (int i = 0; i < node->nout; i++) types[i] = ir->values[then->results[i]]->type;
    return tpt_ir_check_region(ir, node, 1, 0, NULL, node->nout, types);
}

static tpt_status_t *infer_rng(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    const tpt_type_t state = {.dtype = TPT_U64, .rank = 1, .dims = {2}};
    if (node->nin != 1 || node->nout != 2) return TPT_BAD("%d operands", node->nin);
    if (!tpt_type_equal(tpt_in_type(ir, node, 0), &state)) return TPT_BAD("the state must be uint64[2]");
    if (types[1].dtype != TPT_U32 && types[1].dtype != TPT_U64) return TPT_BAD("random bits are uint32 or uint64");
    types[0] = state;
    return NULL;
}

static tpt_status_t *infer_set_size(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    const tpt_type_t size = {.dtype = TPT_I32};
    if (node->nin != 2 || node->nout != 1) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    if (!tpt_type_equal(tpt_in_type(ir, node, 1), &size)) return TPT_BAD("the size must be an int32 scalar");
    if (node->num < 0 || node->num >= x->rank) return TPT_BAD("no dimension %lld", (long long)node->num);
    types[0] = *x;
    return NULL;
}

tpt_status_t *tpt_infer_control(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    const tpt_ir_call_attr_t *call = node->attr;
    switch (node->kind) {
        case TPT_KIND_SORT:
            return infer_sort(ir, node, types);
        case TPT_KIND_WHILE:
            return infer_while(ir, node, types);
        case TPT_KIND_IF:
            return infer_if(ir, node, types);
        case TPT_KIND_RNG:
            return infer_rng(ir, node, types);
        case TPT_KIND_SET_SIZE:
            return infer_set_size(ir, node, types);
        case TPT_KIND_BARRIER:
            if (node->nin < 1 || node->nin != node->nout) return TPT_BAD("%d operands", node->nin);
            for (int i = 0; i < node->nin; i++) types[i] = *tpt_in_type(ir, node, i);
            return NULL;
        default:
            break;
    }
    if (call == NULL || call->target == NULL || call->target[0] == '\0') return TPT_BAD("it has no target");
    if (call->api_version < 1 || call->api_version > 4) return TPT_BAD("API version %d", call->api_version);
    if (call->api_version == 4 && call->backend_config != NULL && call->backend_config[0] != '{') {
        return TPT_BAD("a typed call's configuration must be a dictionary");
    }
    return NULL; /* the types are the caller's */
}
