/* infer_reduce.c - rules of reductions and their windowed kin. */
#include "ir_internal.h"

#define MAX_OPERANDS 64

/* n operands of one shape, then n scalars of their dtypes; the body maps 2n scalars to n. */
static tpt_status_t *check_reducer(const tpt_ir_t *ir, const tpt_node_t *node) {
    int n = node->nout;
    if (n < 1 || n > MAX_OPERANDS || node->nin != 2 * n || node->nregions != 1) return TPT_BAD("%d operands", node->nin);
    tpt_type_t scalars[2 * MAX_OPERANDS];
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    for (int i = 0; i < n; i++) {
        tpt_type_t y = *tpt_in_type(ir, node, i);
        scalars[i] = scalars[n + i] = tpt_type_make((tpt_dtype_t)y.dtype, 0, NULL);
        if (!tpt_type_equal(tpt_in_type(ir, node, n + i), &scalars[i])) return TPT_BAD("initial value %d has another type", i);
        y.dtype = x->dtype;
        if (!tpt_type_equal(&y, x)) return TPT_BAD("operands of different shapes");
    }
    return tpt_ir_check_region(ir, node, 0, 2 * n, scalars, n, scalars);
}

tpt_status_t *tpt_infer_reduce(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    TPT_TRY(check_reducer(ir, node));
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    TPT_TRY(tpt_ir_check_dims("dimensions", node->nints, node->ints[0], x->rank));
    bool gone[TPT_MAX_RANK] = {false};
    for (int i = 0; i < node->nints; i++) gone[node->ints[0][i]] = true;
    for (int i = 0; i < node->nout; i++) {
        types[i] = tpt_type_make((tpt_dtype_t)tpt_in_type(ir, node, i)->dtype, 0, NULL);
        for (int d = 0; d < x->rank; d++) {
            if (!gone[d]) types[i].dims[types[i].rank++] = x->dims[d];
        }
    }
    return NULL;
}

static tpt_status_t *window_dims(const tpt_ir_window_t *w, const tpt_type_t *x, tpt_type_t *type) {
    if (w == NULL || w->rank != x->rank) return TPT_BAD("a window of another rank than the operand");
    if (x->rank < 1) return TPT_BAD("a window over a scalar"); /* aborts XLA */
    for (int d = 0; d < x->rank; d++) {
        int64_t size = tpt_ir_window_dim(x->dims[d], w->size[d], w->stride[d], w->base_dilation[d], w->window_dilation[d],
                                         w->pad_low[d], w->pad_high[d]);
        if (size < 0) return TPT_BAD("a malformed window in dimension %d", d);
        type->dims[d] = size;
    }
    return NULL;
}

tpt_status_t *tpt_infer_reduce_window(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    TPT_TRY(check_reducer(ir, node));
    for (int i = 0; i < node->nout; i++) {
        types[i] = *tpt_in_type(ir, node, i);
        TPT_TRY(window_dims(node->attr, tpt_in_type(ir, node, i), &types[i]));
    }
    return NULL;
}

tpt_status_t *tpt_infer_select_scatter(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    if (node->nin != 3 || node->nout != 1 || node->nregions != 2) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *x = tpt_in_type(ir, node, 0), *source = tpt_in_type(ir, node, 1);
    const tpt_ir_window_t *w = node->attr;
    tpt_type_t want = *x, scalar = tpt_type_make((tpt_dtype_t)x->dtype, 0, NULL), truth = tpt_type_make(TPT_BOOL, 0, NULL);
    TPT_TRY(window_dims(w, x, &want));
    for (int d = 0; d < x->rank; d++) {
        if (w->base_dilation[d] != 1 || w->window_dilation[d] != 1) return TPT_BAD("dilated windows are not supported");
    }
    if (!tpt_type_equal(source, &want)) {
        return TPT_BAD("a source of %s, not %s", tpt_type_text(source, a), tpt_type_text(&want, b));
    }
    if (!tpt_type_equal(tpt_in_type(ir, node, 2), &scalar)) return TPT_BAD("the initial value has another type");
    tpt_type_t pair[2] = {scalar, scalar};
    TPT_TRY(tpt_ir_check_region(ir, node, 0, 2, pair, 1, &truth));
    TPT_TRY(tpt_ir_check_region(ir, node, 1, 2, pair, 1, &scalar));
    types[0] = *x;
    return NULL;
}
