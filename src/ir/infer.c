/* infer.c - the rules' front door and what several rules share. */
#include "ir_internal.h"

static const struct {
    const char *name;
    tpt_infer_fn_t infer;
} kinds[TPT_KIND_COUNT] = {
    [TPT_KIND_CONST] = {"constant", tpt_infer_leaf},
    [TPT_KIND_IOTA] = {"iota", tpt_infer_leaf},
    [TPT_KIND_UNARY] = {"unary", tpt_infer_elementwise},
    [TPT_KIND_BINARY] = {"binary", tpt_infer_elementwise},
    [TPT_KIND_COMPARE] = {"compare", tpt_infer_elementwise},
    [TPT_KIND_SELECT] = {"select", tpt_infer_elementwise},
    [TPT_KIND_CONVERT] = {"convert", tpt_infer_elementwise},
    [TPT_KIND_BITCAST] = {"bitcast_convert", tpt_infer_elementwise},
    [TPT_KIND_BROADCAST] = {"broadcast_in_dim", tpt_infer_shape},
    [TPT_KIND_RESHAPE] = {"reshape", tpt_infer_shape},
    [TPT_KIND_TRANSPOSE] = {"transpose", tpt_infer_shape},
    [TPT_KIND_SLICE] = {"slice", tpt_infer_shape},
    [TPT_KIND_DYNAMIC_SLICE] = {"dynamic_slice", tpt_infer_shape},
    [TPT_KIND_DYNAMIC_UPDATE] = {"dynamic_update_slice", tpt_infer_shape},
    [TPT_KIND_PAD] = {"pad", tpt_infer_shape},
    [TPT_KIND_CONCAT] = {"concatenate", tpt_infer_shape},
    [TPT_KIND_REVERSE] = {"reverse", tpt_infer_shape},
    [TPT_KIND_REDUCE] = {"reduce", tpt_infer_reduce},
    [TPT_KIND_REDUCE_WINDOW] = {"reduce_window", tpt_infer_reduce_window},
    [TPT_KIND_SELECT_SCATTER] = {"select_and_scatter", tpt_infer_select_scatter},
    [TPT_KIND_GATHER] = {"gather", tpt_infer_gather},
    [TPT_KIND_SCATTER] = {"scatter", tpt_infer_scatter},
    [TPT_KIND_DOT] = {"dot_general", tpt_infer_dot},
    [TPT_KIND_CONV] = {"convolution", tpt_infer_conv},
    [TPT_KIND_CHOLESKY] = {"cholesky", tpt_infer_linalg},
    [TPT_KIND_TRIANGULAR] = {"triangular_solve", tpt_infer_linalg},
    [TPT_KIND_FFT] = {"fft", tpt_infer_linalg},
    [TPT_KIND_SORT] = {"sort", tpt_infer_control},
    [TPT_KIND_WHILE] = {"while", tpt_infer_control},
    [TPT_KIND_IF] = {"if", tpt_infer_control},
    [TPT_KIND_RNG] = {"rng_bit_generator", tpt_infer_control},
    [TPT_KIND_BARRIER] = {"optimization_barrier", tpt_infer_control},
    [TPT_KIND_SET_SIZE] = {"set_dimension_size", tpt_infer_control},
    [TPT_KIND_CUSTOM_CALL] = {"custom_call", tpt_infer_control},
};

const char *tpt_ir_kind_name(const tpt_node_t *node) {
#define TPT_IR_TEXT(id, text) text,
    static const char *const unary[] = {TPT_IR_UNARY_OPS(TPT_IR_TEXT)};
    static const char *const binary[] = {TPT_IR_BINARY_OPS(TPT_IR_TEXT)};
#undef TPT_IR_TEXT
    if (node->kind == TPT_KIND_TRANSPOSE && node->sub != 0) return "custom_call"; /* see tpt_ir_turn */
    if (node->kind == TPT_KIND_UNARY && node->sub < TPT_IR_UNARY_COUNT) return unary[node->sub];
    if (node->kind == TPT_KIND_BINARY && node->sub < TPT_IR_BINARY_COUNT) return binary[node->sub];
    return node->kind < TPT_KIND_COUNT ? kinds[node->kind].name : "unknown";
}

tpt_status_t *tpt_ir_infer(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->kind >= TPT_KIND_COUNT) return TPT_BAD("unknown kind of op %d", node->kind);
    TPT_TRY_MSG(kinds[node->kind].infer(ir, node, types), "making %s", tpt_ir_kind_name(node));
    for (int i = 0; i < node->nout; i++) TPT_TRY_MSG(tpt_ir_check_type(&types[i]), "making %s", tpt_ir_kind_name(node));
    return NULL;
}

tpt_status_t *tpt_ir_check_dims(const char *what, int n, const int64_t *dims, int limit) {
    if (n < 0 || n > limit) return TPT_BAD("%d %s for %d dimensions", n, what, limit);
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= limit) return TPT_BAD("%s: %lld is not in [0, %d)", what, (long long)dims[i], limit);
        for (int k = 0; k < i; k++) {
            if (dims[k] == dims[i]) return TPT_BAD("%s: %lld is given twice", what, (long long)dims[i]);
        }
    }
    return NULL;
}

int64_t tpt_ir_window_dim(int64_t size, int64_t window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                          int64_t pad_low, int64_t pad_high) {
    const int64_t big = INT64_C(1) << 40; /* keeps all the products and sums below from overflowing */
    if (window < 1 || stride < 1 || base_dilation < 1 || window_dilation < 1) return -1;
    if (window > big || stride > big || base_dilation > big || window_dilation > big || size > big) return -1;
    if (pad_low > big || pad_low < -big || pad_high > big || pad_high < -big) return -1;
    int64_t base = 0, span = 0;
    if (size > 0 && __builtin_mul_overflow(size - 1, base_dilation, &base)) return -1;
    if (__builtin_mul_overflow(window - 1, window_dilation, &span)) return -1;
    if (base > INT64_MAX / 4 || span > INT64_MAX / 4) return -1;
    base = (size > 0 ? base + 1 : 0) + pad_low + pad_high;
    return base <= span ? 0 : (base - span - 1) / stride + 1;
}

/* A value that a node of `block` reads: true if it comes from outside of `block` and its nested regions. */
static bool captures(const tpt_ir_t *ir, int32_t block, tpt_val_t v) {
    return !tpt_ir_in_scope(ir, block, ir->values[v]->block);
}

static bool block_captures(const tpt_ir_t *ir, int32_t root, int32_t b, int depth) {
    const tpt_block_t *block = ir->blocks[b];
    if (depth > 64) return true;
    for (int i = 0; i < block->nresults; i++) {
        if (captures(ir, root, block->results[i])) return true;
    }
    for (int32_t n = block->first; n >= 0; n = ir->nodes[n]->next) {
        const tpt_node_t *node = ir->nodes[n];
        for (int i = 0; i < node->nin; i++) {
            if (captures(ir, root, node->in[i])) return true;
        }
        for (int k = 0; k < node->nregions; k++) {
            if (block_captures(ir, root, node->regions[k], depth + 1)) return true;
        }
    }
    return false;
}

tpt_status_t *tpt_ir_check_region(const tpt_ir_t *ir, const tpt_node_t *node, int k, int nargs, const tpt_type_t *args,
                                  int nresults, const tpt_type_t *results) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    if (k >= node->nregions) return TPT_BAD("it has %d regions", node->nregions);
    const tpt_block_t *block = ir->blocks[node->regions[k]];
    if (block->nargs != nargs) return TPT_BAD("its region has %d arguments, not %d", block->nargs, nargs);
    if (block->nresults != nresults) return TPT_BAD("its region has %d results, not %d", block->nresults, nresults);
    for (int i = 0; i < nargs && args != NULL; i++) {
        const tpt_type_t *type = &ir->values[block->args[i]]->type;
        if (!tpt_type_equal(type, &args[i])) {
            return TPT_BAD("argument %d of its region is %s, not %s", i, tpt_type_text(type, a), tpt_type_text(&args[i], b));
        }
    }
    for (int i = 0; i < nresults && results != NULL; i++) {
        const tpt_type_t *type = &ir->values[block->results[i]]->type;
        if (!tpt_type_equal(type, &results[i])) {
            return TPT_BAD("result %d of its region is %s, not %s", i, tpt_type_text(type, a), tpt_type_text(&results[i], b));
        }
    }
    bool may_capture = node->kind == TPT_KIND_WHILE || node->kind == TPT_KIND_IF;
    if (!may_capture && block_captures(ir, node->regions[k], node->regions[k], 0)) {
        return TPT_BAD("its region uses a value from outside");
    }
    return NULL;
}
