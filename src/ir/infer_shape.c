/* infer_shape.c - rules of the ops that move elements. */
#include "ir_internal.h"

static tpt_status_t *infer_broadcast(const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    TPT_TRY(tpt_ir_check_type(&types[0]));
    if (types[0].dtype != x->dtype || node->nints != x->rank)
        return TPT_BAD("a dimension map of %d for %d", node->nints, x->rank);
    TPT_TRY(tpt_ir_check_dims("dimension map", node->nints, node->ints[0], types[0].rank));
    for (int i = 0; i < x->rank; i++) {
        int64_t to = types[0].dims[node->ints[0][i]];
        if (x->dims[i] != 1 && x->dims[i] != to) {
            return TPT_BAD("size %lld cannot become %lld", (long long)x->dims[i], (long long)to);
        }
    }
    return NULL;
}

static tpt_status_t *infer_reshape(const tpt_type_t *x, const tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    TPT_TRY(tpt_ir_check_type(&types[0]));
    if (types[0].dtype == x->dtype && tpt_type_numel(x) == tpt_type_numel(&types[0])) return NULL;
    return TPT_BAD("%s cannot become %s", tpt_type_text(x, a), tpt_type_text(&types[0], b));
}

static tpt_status_t *infer_transpose(const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    if (node->nints != x->rank) return TPT_BAD("a permutation of %d for %d dimensions", node->nints, x->rank);
    TPT_TRY(tpt_ir_check_dims("permutation", node->nints, node->ints[0], x->rank));
    types[0] = *x;
    for (int i = 0; i < x->rank; i++) types[0].dims[i] = x->dims[node->ints[0][i]];
    return NULL;
}

static tpt_status_t *infer_slice(const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    if (node->nints != x->rank) return TPT_BAD("bounds for %d of %d dimensions", node->nints, x->rank);
    types[0] = *x;
    for (int i = 0; i < x->rank; i++) {
        int64_t start = node->ints[0][i], limit = node->ints[1][i], stride = node->ints[2][i];
        if (start < 0 || limit < start || limit > x->dims[i] || stride < 1) {
            return TPT_BAD("[%lld:%lld:%lld] of size %lld in dimension %d", (long long)start, (long long)limit,
                           (long long)stride, (long long)x->dims[i], i);
        }
        types[0].dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
    }
    return NULL;
}

static tpt_status_t *check_starts(const tpt_ir_t *ir, const tpt_node_t *node, int first, int rank) {
    if (node->nin != first + rank) return TPT_BAD("%d operands", node->nin);
    for (int i = 0; i < rank; i++) {
        const tpt_type_t *start = tpt_in_type(ir, node, first + i);
        if (start->rank != 0 || !tpt_dtype_is_int((tpt_dtype_t)start->dtype))
            return TPT_BAD("start %d is no integer scalar", i);
        if (start->dtype != tpt_in_type(ir, node, first)->dtype) return TPT_BAD("starts of different types");
    }
    return NULL;
}

static tpt_status_t *infer_dynamic_slice(const tpt_ir_t *ir, const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    if (node->nints != x->rank) return TPT_BAD("sizes for %d of %d dimensions", node->nints, x->rank);
    TPT_TRY(check_starts(ir, node, 1, x->rank));
    types[0] = *x;
    for (int i = 0; i < x->rank; i++) {
        int64_t size = node->ints[0][i];
        if (size < 0 || size > x->dims[i]) return TPT_BAD("%lld of %lld elements", (long long)size, (long long)x->dims[i]);
        types[0].dims[i] = size;
    }
    return NULL;
}

static tpt_status_t *infer_dynamic_update(const tpt_ir_t *ir, const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    TPT_TRY(check_starts(ir, node, 2, x->rank));
    const tpt_type_t *u = tpt_in_type(ir, node, 1);
    bool fits = u->dtype == x->dtype && u->rank == x->rank;
    for (int i = 0; i < x->rank && fits; i++) fits = u->dims[i] <= x->dims[i];
    if (!fits) return TPT_BAD("an update of %s for %s", tpt_type_text(u, a), tpt_type_text(x, b));
    types[0] = *x;
    return NULL;
}

static tpt_status_t *infer_pad(const tpt_ir_t *ir, const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    const int64_t big = INT64_C(1) << 40;
    if (node->nin != 2 || node->nints != x->rank) return TPT_BAD("padding for %d of %d dimensions", node->nints, x->rank);
    const tpt_type_t *value = tpt_in_type(ir, node, 1);
    if (value->rank != 0 || value->dtype != x->dtype) return TPT_BAD("the padding value has another type");
    types[0] = *x;
    for (int i = 0; i < x->rank; i++) {
        int64_t low = node->ints[0][i], high = node->ints[1][i], inner = node->ints[2][i], gaps = 0;
        if (inner < 0 || inner > big || low > big || low < -big || high > big || high < -big) return TPT_BAD("bad padding");
        if (x->dims[i] > 1 && __builtin_mul_overflow(inner, x->dims[i] - 1, &gaps)) return TPT_BAD("the result is too large");
        if (gaps > INT64_MAX / 4 || x->dims[i] > INT64_MAX / 4) return TPT_BAD("the result is too large");
        types[0].dims[i] = x->dims[i] + gaps + low + high;
        if (types[0].dims[i] < 0) return TPT_BAD("more is cropped than there is in dimension %d", i);
    }
    return NULL;
}

static tpt_status_t *infer_concat(const tpt_ir_t *ir, const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    if (node->num < 0 || node->num >= x->rank) return TPT_BAD("no dimension %lld", (long long)node->num);
    types[0] = *x;
    for (int k = 1; k < node->nin; k++) {
        tpt_type_t y = *tpt_in_type(ir, node, k);
        int64_t size = y.rank == x->rank ? y.dims[node->num] : 0;
        if (y.rank == x->rank) y.dims[node->num] = x->dims[node->num];
        if (!tpt_type_equal(&y, x)) return TPT_BAD("%s beside %s", tpt_type_text(&y, a), tpt_type_text(x, b));
        if (__builtin_add_overflow(types[0].dims[node->num], size, &types[0].dims[node->num])) return TPT_BAD("too large");
    }
    return NULL;
}

tpt_status_t *tpt_infer_shape(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nin < 1 || node->nout != 1) return TPT_BAD("%d operands, %d results", node->nin, node->nout);
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    switch (node->kind) {
        case TPT_KIND_DYNAMIC_SLICE:
            return infer_dynamic_slice(ir, node, x, types);
        case TPT_KIND_DYNAMIC_UPDATE:
            return infer_dynamic_update(ir, node, x, types);
        case TPT_KIND_PAD:
            return infer_pad(ir, node, x, types);
        case TPT_KIND_CONCAT:
            return infer_concat(ir, node, x, types);
        default:
            break;
    }
    if (node->nin != 1) return TPT_BAD("%d operands", node->nin);
    switch (node->kind) {
        case TPT_KIND_BROADCAST:
            return infer_broadcast(node, x, types);
        case TPT_KIND_RESHAPE:
            return infer_reshape(x, types);
        case TPT_KIND_TRANSPOSE:
            return infer_transpose(node, x, types);
        case TPT_KIND_SLICE:
            return infer_slice(node, x, types);
        default:
            break;
    }
    TPT_TRY(tpt_ir_check_dims("dimensions", node->nints, node->ints[0], x->rank)); /* reverse */
    types[0] = *x;
    return NULL;
}
