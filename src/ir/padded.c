/* padded.c - sums of values that are zero but for a part each, where the parts lie side by side: gradients of q, k and v that were
 * read out of one array, for example. Those are the parts, one behind the other; nothing is padded and nothing added. (A negative
 * zero stays one, where the sum would have made it positive.) */
#include "ir_internal.h"

/* A value that is zero but for places [from, to) along dim, where it is `part`. */
typedef struct padded {
    tpt_val_t part;
    int dim;
    int64_t from, to;
} padded_t;

static bool is_zero(const tpt_ir_t *ir, tpt_val_t v) {
    const tpt_node_t *node = tpt_maker(ir, v);
    const tpt_attr_const_t *c = node != NULL && node->kind == TPT_KIND_CONST ? node->attr : NULL;
    return c != NULL && c->n == 1 && (c->ints != NULL ? c->ints[0] == 0 : c->floats[0] == 0);
}

static bool is_padded(const tpt_ir_t *ir, tpt_val_t v, padded_t *out) {
    const tpt_node_t *node = tpt_maker(ir, v);
    if (node == NULL || node->kind != TPT_KIND_PAD || !is_zero(ir, node->in[1])) return false;
    *out = (padded_t){.part = node->in[0], .dim = -1};
    for (int i = 0; i < node->nints; i++) {
        const int64_t low = node->ints[0][i], high = node->ints[1][i];
        if (low == 0 && high == 0 && node->ints[2][i] == 0) continue;
        if (out->dim >= 0 || low < 0 || high < 0 || node->ints[2][i] != 0) return false;
        out->dim = i;
        out->from = low;
        out->to = low + tpt_ir_dim(ir, node->in[0], i);
    }
    return out->dim >= 0;
}

bool tpt_ir_emit_padded(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out) {
    padded_t a, b;
    if (emit->kind != TPT_KIND_BINARY || emit->sub != TPT_IR_ADD) return false;
    if (!is_padded(ir, emit->in[0], &a) || !is_padded(ir, emit->in[1], &b) || a.dim != b.dim) return false;
    if (a.to != b.from && b.to != a.from) return false;
    const padded_t first = a.to == b.from ? a : b, last = a.to == b.from ? b : a;
    const tpt_type_t type = *tpt_ir_type(ir, emit->in[0]);
    const tpt_val_t parts[2] = {first.part, last.part};
    if (!tpt_type_equal(&type, tpt_ir_type(ir, emit->in[1]))) return false;
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
    low[a.dim] = first.from;
    high[a.dim] = type.dims[a.dim] - last.to;
    const tpt_val_t both = tpt_ir_concat(ir, 2, parts, a.dim);
    *out = tpt_ir_pad(ir, both, tpt_maker(ir, emit->in[0])->in[1], low, high, NULL);
    return true;
}
