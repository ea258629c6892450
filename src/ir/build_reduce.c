/* build_reduce.c - reductions, with bodies and neutral elements made here for the simple ones. */
#include "ir_internal.h"

static const tpt_ir_binary_op_t combine_ops[] = {
    [TPT_IR_RED_ADD] = TPT_IR_ADD, [TPT_IR_RED_MUL] = TPT_IR_MUL, [TPT_IR_RED_MAX] = TPT_IR_MAX, [TPT_IR_RED_MIN] = TPT_IR_MIN,
    [TPT_IR_RED_AND] = TPT_IR_AND, [TPT_IR_RED_OR] = TPT_IR_OR,   [TPT_IR_RED_XOR] = TPT_IR_XOR};

static tpt_val_t neutral(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_dtype_t dtype) {
    switch (op) {
        case TPT_IR_RED_MUL:
            return tpt_ir_const_i(ir, dtype, 1);
        case TPT_IR_RED_MAX:
            return tpt_ir_lowest(ir, dtype);
        case TPT_IR_RED_MIN:
            return tpt_ir_highest(ir, dtype);
        case TPT_IR_RED_AND:
            return tpt_ir_const_i(ir, dtype, -1); /* all bits; true */
        default:
            return tpt_ir_const_i(ir, dtype, 0);
    }
}

/* A region of two scalars that gives `op` of them. */
static tpt_region_t binary_region(tpt_ir_t *ir, tpt_ir_binary_op_t op, tpt_dtype_t dtype) {
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t b = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t c = tpt_ir_binary(ir, op, a, b);
    if (ir->guarded_minmax && (op == TPT_IR_MAX || op == TPT_IR_MIN) && tpt_dtype_is_float(dtype)) {
        c = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_NE, b, b), b, c);
        c = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_NE, a, a), a, c);
    }
    return tpt_ir_region_end(ir, 1, &c);
}

static void emit_reducer(tpt_ir_t *ir, tpt_emit_t *emit, int n, const tpt_val_t *xs, const tpt_val_t *inits, tpt_val_t *out) {
    for (int i = 0; i < n; i++) out[i] = TPT_VAL_NONE;
    if (tpt_ir_dead(ir)) return;
    size_t bytes = sizeof(tpt_val_t) * 2 * (size_t)(n > 0 ? n : 1);
    tpt_val_t *in = tpt_arena_alloc(&ir->arena, bytes);
    if (in == NULL) {
        tpt_ir_fail(ir, tpt_status_oom(bytes));
        return;
    }
    for (int i = 0; i < n; i++) {
        in[i] = xs[i];
        in[n + i] = inits[i];
    }
    emit->in = in;
    emit->nin = 2 * n;
    emit->nout = n;
    tpt_ir_emit(ir, emit, out);
}

void tpt_ir_reduce_n(tpt_ir_t *ir, int n, const tpt_val_t *xs, const tpt_val_t *inits, int ndims, const int64_t *dims,
                     tpt_region_t body, tpt_val_t *out) {
    if (ndims < 0 || ndims > TPT_MAX_RANK) tpt_ir_error(ir, "%d dimensions to reduce", ndims);
    tpt_emit_t emit = {.kind = TPT_KIND_REDUCE, .nints = ndims, .ints = {dims}, .nregions = 1, .regions = {body}};
    emit_reducer(ir, &emit, n, xs, inits, out);
}

tpt_val_t tpt_ir_reduce(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int ndims, const int64_t *dims) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    if (ndims == 0) return x;
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_val_t init = neutral(ir, op, d), out = TPT_VAL_NONE;
    tpt_ir_reduce_n(ir, 1, &x, &init, ndims, dims, binary_region(ir, combine_ops[op], d), &out);
    return out;
}

tpt_ir_window_t tpt_ir_window_ones(int rank) {
    tpt_ir_window_t w = {.rank = rank};
    for (int i = 0; i < TPT_MAX_RANK; i++) w.size[i] = w.stride[i] = w.base_dilation[i] = w.window_dilation[i] = 1;
    return w;
}

void tpt_ir_reduce_window_n(tpt_ir_t *ir, int n, const tpt_val_t *xs, const tpt_val_t *inits, const tpt_ir_window_t *w,
                            tpt_region_t body, tpt_val_t *out) {
    tpt_emit_t emit = {.kind = TPT_KIND_REDUCE_WINDOW, .attr = w, .attr_bytes = sizeof *w, .nregions = 1, .regions = {body}};
    emit_reducer(ir, &emit, n, xs, inits, out);
}

tpt_val_t tpt_ir_reduce_window(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, const tpt_ir_window_t *w) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_val_t init = neutral(ir, op, d), out = TPT_VAL_NONE;
    tpt_ir_reduce_window_n(ir, 1, &x, &init, w, binary_region(ir, combine_ops[op], d), &out);
    return out;
}

tpt_val_t tpt_ir_select_and_scatter_add(tpt_ir_t *ir, tpt_val_t x, tpt_val_t source, tpt_ir_cmp_t select,
                                        const tpt_ir_window_t *w) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_val_t in[3] = {x, source, tpt_ir_const_i(ir, d, 0)};
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, tpt_type_make(d, 0, NULL));
    tpt_val_t b = tpt_ir_region_arg(ir, tpt_type_make(d, 0, NULL));
    tpt_val_t c = tpt_ir_compare(ir, select, a, b);
    tpt_region_t choose = tpt_ir_region_end(ir, 1, &c);
    tpt_region_t add = binary_region(ir, TPT_IR_ADD, d);
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_SELECT_SCATTER,
                                          .nin = 3,
                                          .in = in,
                                          .nout = 1,
                                          .attr = w,
                                          .attr_bytes = sizeof *w,
                                          .nregions = 2,
                                          .regions = {choose, add}});
}
