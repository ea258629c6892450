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

static tpt_val_t combine(tpt_ir_t *ir, tpt_ir_binary_op_t op, tpt_val_t a, tpt_val_t b) {
    tpt_val_t c = tpt_ir_binary(ir, op, a, b);
    if (!ir->guarded_minmax || (op != TPT_IR_MAX && op != TPT_IR_MIN) || !tpt_dtype_is_float(tpt_ir_dtype(ir, c))) return c;
    c = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_NE, b, b), b, c);
    return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_NE, a, a), a, c);
}

/* A region of two scalars that gives `op` of them. */
static tpt_region_t binary_region(tpt_ir_t *ir, tpt_ir_binary_op_t op, tpt_dtype_t dtype) {
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t b = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t c = combine(ir, op, a, b);
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

static tpt_val_t reduce_plain(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int ndims, const int64_t *dims) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    tpt_val_t init = neutral(ir, op, d), out = TPT_VAL_NONE;
    tpt_ir_reduce_n(ir, 1, &x, &init, ndims, dims, binary_region(ir, combine_ops[op], d), &out);
    return out;
}

/* ---- rows on processors -----------------------------------------------------------------------------------------------
 * XLA's CPU compiler makes a reduction over the innermost dim one chain of scalar operations: 16 ms for the row maxima of
 * 2048 x 1000 floats on 0.81. What it vectorises are reductions over outer dims. So these come first; rows are cut into lanes,
 * [.., n] becomes [.., n / lanes, lanes], whose outer part is reduced; and the few lanes that are left are folded: 0.7 ms.
 * Softmax of these rows 12.6 -> 1.7 ms, row sums 350 -> 180 us. */

#define LANES 32        /* several vector registers: one would wait for itself; more make a longer program */
#define LANES_MOST 128  /* in long rows */
#define LANES_LEAST 16  /* worth a stage of their own */
#define ROWS_LEAST 8192 /* elements: below, a short compile is worth more */

/* How many lanes a row of n is cut into: a divisor of n near the wanted number, whole vectors if there is one; else that
 * number, with a rest. */
static int64_t lanes_of(int64_t n) {
    const int64_t want = n >= ROWS_LEAST ? LANES_MOST : LANES;
    for (int64_t step = 16; step > 0; step /= 2) {
        for (int64_t off = 0; off <= want; off += step) {
            if (n % (want + off) == 0) return want + off;
            if (want - off >= LANES_LEAST && n % (want - off) == 0) return want - off;
        }
    }
    return want;
}

/* A dim of few elements, combined by halves: no chain, and no reduction for the compiler to join to the one before. */
static tpt_val_t fold(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int dim) {
    const tpt_ir_binary_op_t with = combine_ops[op];
    tpt_val_t odd = TPT_VAL_NONE;
    for (int64_t n = tpt_ir_dim(ir, x, dim); n > 1; n /= 2) {
        if (n % 2 != 0) {
            tpt_val_t one = tpt_ir_slice_dim(ir, x, dim, n - 1, n);
            odd = odd == TPT_VAL_NONE ? one : combine(ir, with, odd, one);
        }
        x = combine(ir, with, tpt_ir_slice_dim(ir, x, dim, 0, n / 2), tpt_ir_slice_dim(ir, x, dim, n / 2, n / 2 * 2));
    }
    if (odd != TPT_VAL_NONE) x = combine(ir, with, x, odd);
    return tpt_ir_good(ir, x) ? tpt_ir_squeeze(ir, x, dim) : x;
}

/* Over the last dim alone. */
static tpt_val_t reduce_row(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x) {
    tpt_type_t type = *tpt_ir_type(ir, x);
    const int last = type.rank - 1;
    const int64_t n = type.dims[last], lanes = lanes_of(n), rest = n % lanes, dims[1] = {last};
    if (n < 2 * LANES) return fold(ir, op, x, last);
    tpt_val_t tail = TPT_VAL_NONE;
    if (rest > 0) {
        tail = fold(ir, op, tpt_ir_slice_dim(ir, x, last, n - rest, n), last);
        x = tpt_ir_slice_dim(ir, x, last, 0, n - rest);
    }
    type.dims[last] = n / lanes;
    type.dims[last + 1] = lanes;
    x = reduce_plain(ir, op, tpt_ir_reshape(ir, x, type.rank + 1, type.dims), 1, dims);
    x = fold(ir, op, x, last); /* the lanes, now that the rows are gone */
    return rest > 0 ? combine(ir, combine_ops[op], x, tail) : x;
}

/* Dims that are not the last, one by one: several at once do not vectorise, and the compiler joins reductions that follow each
 * other. So the longest is reduced and the others are folded, if they are short. */
static tpt_val_t reduce_outer(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int ndims, const int64_t *dims) {
    int longest = ndims - 1;
    for (int i = ndims - 2; i >= 0; i--)
        if (tpt_ir_dim(ir, x, (int)dims[i]) > tpt_ir_dim(ir, x, (int)dims[longest])) longest = i;
    for (int i = 0; i < ndims; i++) {
        const int64_t n = tpt_ir_dim(ir, x, (int)dims[i]);
        if (i != longest && (n < 1 || n > LANES_MOST)) return reduce_plain(ir, op, x, ndims, dims);
    }
    if (ndims > 0) x = reduce_plain(ir, op, x, 1, &dims[longest]);
    for (int i = ndims - 1; i >= 0; i--)
        if (i != longest && tpt_ir_good(ir, x)) x = fold(ir, op, x, (int)dims[i] - (i > longest ? 1 : 0));
    return x;
}

/* Is x what a reduction gave? A plain one of it would be joined to that by the compiler, and be slow as a whole. */
static bool is_reduced(const tpt_ir_t *ir, tpt_val_t x) {
    while (ir->values[x]->node >= 0) {
        const tpt_node_t *node = ir->nodes[ir->values[x]->node];
        if (node->kind == TPT_KIND_REDUCE) return true;
        if (node->kind != TPT_KIND_RESHAPE && node->kind != TPT_KIND_CONVERT && node->kind != TPT_KIND_BARRIER) return false;
        if (node->nin != 1) return false;
        x = node->in[0];
    }
    return false;
}

static bool ascending(int ndims, const int64_t *dims) {
    for (int i = 1; i < ndims; i++)
        if (dims[i] <= dims[i - 1]) return false;
    return true;
}

tpt_val_t tpt_ir_reduce(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t x, int ndims, const int64_t *dims) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    if (ndims == 0) return x;
    int64_t before[TPT_MAX_RANK];
    if (ndims > 0 && ndims <= tpt_ir_rank(ir, x)) {
        x = tpt_ir_before_reduce(ir, x, ndims, dims, before);
        dims = before;
    }
    const tpt_type_t type = *tpt_ir_type(ir, x);
    const int last = type.rank - 1;
    const bool odd = type.dtype == TPT_BOOL || type.rank >= TPT_MAX_RANK || ndims > type.rank || !ascending(ndims, dims);
    if (!ir->host_code || odd || (tpt_type_numel(&type) < ROWS_LEAST && !is_reduced(ir, x)))
        return reduce_plain(ir, op, x, ndims, dims);
    if (dims[ndims - 1] != last) return reduce_outer(ir, op, x, ndims, dims);
    /* The last dim is reduced too. */
    if (type.dims[last] < (ndims > 1 ? LANES_LEAST : 2 * LANES)) return reduce_plain(ir, op, x, ndims, dims);
    x = reduce_outer(ir, op, x, ndims - 1, dims);
    return tpt_ir_good(ir, x) ? reduce_row(ir, op, x) : x;
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
