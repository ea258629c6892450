/* gemm.c - dots as products by the host's BLAS (base/gemm.h), where programs can call the runtime's routine. It reads operands where
 * they lie: transpositions, slices, reshapes and broadcasts that only change strides are never made. XLA's own dots on CPUs run on
 * one thread up to some size, and copy what is not laid out as they like it. Measured with 0.81 on 2 cores, us, XLA's and ours:
 * 64x256 by 256x512 180 and 110, its weight gradient 240 and 110, 48 times 256x256 by 256x64 3,400 and 2,500. */
#include <string.h>

#include "base/gemm.h"
#include "ir/ir_internal.h"

#define LEAST_PRODUCTS (1 << 15) /* multiplications: fewer are faster as XLA's loops */
#define WAITED_FOR (1 << 20)     /* multiplications: fewer take no longer than to hand them over */
#define WEIGHT 1024
#define DEEPEST 16               /* views of views that are seen through */
#define SLICED_MOST 8            /* a slice that is less than one part in so many is made: what it is cut from may never be */

#define PIECES (2 * TPT_MAX_RANK)

/* A run of places along a dim. */
typedef struct piece {
    int dim;
    int64_t size, stride;
} piece_t;

/* A value as a window on the elements of another one. The places along each of its dims are those of its pieces, the outermost
 * first: a reshape that merges dims which do not lie behind one another makes one dim of several pieces. */
typedef struct window {
    tpt_val_t base;
    int64_t at;
    int rank, n;
    piece_t pieces[PIECES];
} window_t;

static void whole(const tpt_ir_t *ir, tpt_val_t v, window_t *out) {
    const tpt_type_t *type = tpt_ir_type(ir, v);
    *out = (window_t){.base = v, .rank = type->rank, .n = type->rank};
    int64_t stride = 1;
    for (int i = type->rank - 1; i >= 0; i--) {
        out->pieces[i] = (piece_t){i, type->dims[i], stride};
        stride *= type->dims[i];
    }
}

/* How many pieces dim d has, the first of them at *out_first. */
static int pieces_of(const window_t *w, int d, int *out_first) {
    int n = 0;
    for (int i = 0; i < w->n; i++)
        if (w->pieces[i].dim == d && n++ == 0) *out_first = i;
    return n;
}

static void see_transpose(window_t *w, const int64_t *perm) {
    const window_t in = *w;
    w->n = 0;
    for (int i = 0; i < w->rank; i++)
        for (int k = 0; k < in.n; k++)
            if (in.pieces[k].dim == perm[i]) w->pieces[w->n++] = (piece_t){i, in.pieces[k].size, in.pieces[k].stride};
}

static bool see_slice(const tpt_ir_t *ir, window_t *w, const tpt_node_t *node, const tpt_type_t *type) {
    const tpt_type_t *whole_type = tpt_in_type(ir, node, 0);
    const bool argument = ir->values[w->base]->node < 0;
    int64_t part = 1;
    for (int i = 0; i < w->rank; i++) {
        int at = 0;
        part *= type->dims[i] > 0 ? whole_type->dims[i] / type->dims[i] : 1;
        if (type->dims[i] == whole_type->dims[i]) continue;
        if (pieces_of(w, i, &at) != 1) return false;
        w->at += node->ints[0][i] * w->pieces[at].stride;
        w->pieces[at].stride *= node->ints[2][i];
        w->pieces[at].size = type->dims[i];
    }
    return argument || part <= SLICED_MOST;
}

static bool see_broadcast(window_t *w, const int64_t *map, const tpt_type_t *type) {
    const window_t in = *w;
    w->rank = type->rank;
    w->n = 0;
    for (int i = 0; i < type->rank; i++) {
        int from = -1, at = 0;
        for (int k = 0; k < in.rank; k++)
            if (map[k] == i) from = k;
        const int n = from < 0 ? 0 : pieces_of(&in, from, &at);
        const bool spread = n == 0 || (n == 1 && in.pieces[at].size == 1);
        if (w->n + n + 1 > PIECES) return false;
        if (spread) w->pieces[w->n++] = (piece_t){i, type->dims[i], 0};
        for (int k = 0; k < n && !spread; k++) w->pieces[w->n++] = (piece_t){i, in.pieces[at + k].size, in.pieces[at + k].stride};
    }
    return true;
}

/* Behind the pieces of the same dim before it, or one run with the last of them. */
static bool add_piece(window_t *w, int dim, int64_t size, int64_t stride) {
    piece_t *last = w->n > 0 && w->pieces[w->n - 1].dim == dim ? &w->pieces[w->n - 1] : NULL;
    if (last != NULL && size == 1) return true;
    if (last != NULL && (last->size == 1 || last->stride == size * stride)) {
        *last = (piece_t){dim, last->size * size, stride};
        return true;
    }
    if (w->n == PIECES) return false;
    w->pieces[w->n++] = (piece_t){dim, size, stride};
    return true;
}

/* The same elements in dims of other sizes: dims take pieces, or parts of them. */
static bool see_reshape(window_t *w, const tpt_type_t *type, bool in_pieces) {
    const window_t in = *w;
    int64_t left = in.n > 0 ? in.pieces[0].size : 1; /* of piece `from` */
    int from = 0;
    w->rank = type->rank;
    w->n = 0;
    if (tpt_type_numel(type) == 0) return false;
    for (int i = 0; i < type->rank; i++) {
        int64_t wanted = type->dims[i];
        if (wanted == 1 && !add_piece(w, i, 1, 1)) return false;
        while (wanted > 1) {
            for (; left == 1 && from + 1 < in.n; left = in.pieces[from].size) from++;
            const int64_t size = left < wanted ? left : wanted;
            if (size == 1 || left % size != 0 || wanted % size != 0) return false;
            left /= size;
            wanted /= size;
            if (!add_piece(w, i, size, in.pieces[from].stride * left)) return false;
        }
    }
    return in_pieces || w->n == w->rank;
}

/* v through as many views as can be; `in_pieces`: also those that make dims of several pieces. */
static void window_of(const tpt_ir_t *ir, tpt_val_t v, int depth, bool in_pieces, window_t *out) {
    const tpt_node_t *node = tpt_maker(ir, v);
    bool seen = false;
    if (node != NULL && depth < DEEPEST) {
        const tpt_kind_t kind = (tpt_kind_t)node->kind;
        const bool view = kind == TPT_KIND_TRANSPOSE || kind == TPT_KIND_SLICE || kind == TPT_KIND_RESHAPE || kind == TPT_KIND_BROADCAST;
        if (view) window_of(ir, node->in[0], depth + 1, in_pieces, out);
        if (kind == TPT_KIND_TRANSPOSE) see_transpose(out, node->ints[0]);
        seen = view;
        if (kind == TPT_KIND_BROADCAST) seen = see_broadcast(out, node->ints[0], tpt_ir_type(ir, v));
        if (kind == TPT_KIND_SLICE) seen = see_slice(ir, out, node, tpt_ir_type(ir, v));
        if (kind == TPT_KIND_RESHAPE) seen = see_reshape(out, tpt_ir_type(ir, v), in_pieces);
    }
    if (!seen) whole(ir, v, out);
}

/* ---- groups of dims ------------------------------------------------------------------------------------------------- */

/* Dims that go together: how far one of them moves in two arrays. */
typedef struct run {
    int64_t size, one, other;
} run_t;

typedef struct runs {
    int n;
    run_t runs[2 * PIECES];
} runs_t;

/* Behind all others: further in. */
static void append(runs_t *r, int64_t size, int64_t one, int64_t other) {
    if (size == 1) return;
    run_t *last = r->n > 0 ? &r->runs[r->n - 1] : NULL;
    if (last != NULL && last->one == one * size && last->other == other * size) *last = (run_t){last->size * size, one, other};
    else r->runs[r->n++] = (run_t){size, one, other};
}

static bool among(int n, const int64_t *dims, int d) {
    for (int i = 0; i < n; i++)
        if (dims[i] == d) return true;
    return false;
}

/* Of the dims that are neither batch nor contracted; how far they move in the result, whose dims behind them take `stride`. */
static void free_runs(const window_t *w, const tpt_ir_dot_t *d, const int64_t *batch, const int64_t *contract, int64_t stride, runs_t *out) {
    *out = (runs_t){0};
    int64_t places[PIECES];
    for (int i = w->n - 1; i >= 0; i--) {
        places[i] = stride;
        if (!among(d->n_batch, batch, w->pieces[i].dim) && !among(d->n_contract, contract, w->pieces[i].dim)) stride *= w->pieces[i].size;
    }
    for (int i = 0; i < w->n; i++)
        if (!among(d->n_batch, batch, w->pieces[i].dim) && !among(d->n_contract, contract, w->pieces[i].dim))
            append(out, w->pieces[i].size, w->pieces[i].stride, places[i]);
}

/* A dim of x and one of y of the same size, in runs that are one piece in both; false: their pieces do not fit together. */
static bool shared_runs(const window_t *x, int dx, const window_t *y, int dy, runs_t *out) {
    int i = 0, k = 0;
    const int ni = pieces_of(x, dx, &i), nk = pieces_of(y, dy, &k), endi = i + ni, endk = k + nk;
    int64_t a = ni > 0 ? x->pieces[i].size : 1, b = nk > 0 ? y->pieces[k].size : 1;
    for (;;) {
        for (; a == 1 && i + 1 < endi; a = x->pieces[i].size) i++;
        for (; b == 1 && k + 1 < endk; b = y->pieces[k].size) k++;
        if (a == 1 || b == 1) return a == b;
        const int64_t size = a < b ? a : b;
        if (a % size != 0 || b % size != 0) return false;
        a /= size;
        b /= size;
        append(out, size, x->pieces[i].stride * a, y->pieces[k].stride * b);
    }
}

static int64_t volume(const runs_t *r) {
    int64_t n = 1;
    for (int i = 0; i < r->n; i++) n *= r->runs[i].size;
    return n;
}

/* ---- the call ------------------------------------------------------------------------------------------------------- */

static bool add_loop(tpt_gemm_t *g, int64_t size, int64_t a, int64_t b, int64_t c) {
    if (g->nloops == TPT_GEMM_LOOPS) return false;
    g->loops[g->nloops].size = size;
    g->loops[g->nloops].a = a;
    g->loops[g->nloops].b = b;
    g->loops[g->nloops++].c = c;
    return true;
}

/* An operand of `rows` by `columns`, with these strides; false: along neither is it dense, or BLAS cannot count so far. */
static bool place(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *out_turned, int64_t *out_ld) {
    *out_turned = column != 1 && columns > 1;
    *out_ld = *out_turned ? column : row;
    if (rows > INT32_MAX || columns > INT32_MAX || *out_ld > INT32_MAX) return false;
    return *out_turned ? row == 1 && column >= rows : row >= columns;
}

/* One product for each place along the batch dims. */
static bool add_batches(tpt_gemm_t *g, const window_t *x, const window_t *y, const tpt_ir_dot_t *d, int64_t volume_of_one) {
    runs_t runs = {0};
    int64_t places[2 * PIECES], c = volume_of_one;
    for (int i = 0; i < d->n_batch; i++)
        if (!shared_runs(x, (int)d->lhs_batch[i], y, (int)d->rhs_batch[i], &runs)) return false;
    for (int i = runs.n - 1; i >= 0; i--) {
        places[i] = c;
        c *= runs.runs[i].size;
    }
    for (int i = 0; i < runs.n; i++)
        if (!add_loop(g, runs.runs[i].size, runs.runs[i].one, runs.runs[i].other, places[i])) return false;
    return true;
}

static bool fill(tpt_gemm_t *g, const window_t *x, const window_t *y, const tpt_ir_dot_t *d) {
    runs_t rows, columns, inner = {0};
    free_runs(y, d, d->rhs_batch, d->rhs_contract, 1, &columns);
    free_runs(x, d, d->lhs_batch, d->lhs_contract, volume(&columns), &rows);
    for (int i = 0; i < d->n_contract; i++)
        if (!shared_runs(x, (int)d->lhs_contract[i], y, (int)d->rhs_contract[i], &inner)) return false;
    if (inner.n > 1 || rows.n < 1 || columns.n < 1) return false;
    const run_t m = rows.runs[rows.n - 1], n = columns.runs[columns.n - 1], k = inner.n == 1 ? inner.runs[0] : (run_t){1, 1, 1};
    *g = (tpt_gemm_t){.m = m.size, .n = n.size, .k = k.size, .ldc = m.other, .a_at = x->at, .b_at = y->at};
    if (!add_batches(g, x, y, d, volume(&columns) * volume(&rows))) return false;
    for (int i = 0; i + 1 < rows.n; i++)
        if (!add_loop(g, rows.runs[i].size, rows.runs[i].one, 0, rows.runs[i].other)) return false;
    for (int i = 0; i + 1 < columns.n; i++)
        if (!add_loop(g, columns.runs[i].size, 0, columns.runs[i].one, columns.runs[i].other)) return false;
    return n.other == 1 && g->ldc <= INT32_MAX && place(g->m, g->k, m.one, k.one, &g->a_turned, &g->lda) &&
           place(g->k, g->n, k.other, n.one, &g->b_turned, &g->ldb);
}

static bool worth(const tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d) {
    const tpt_dtype_t dtype = tpt_ir_dtype(ir, x);
    if (!ir->has_blas || dtype != tpt_ir_dtype(ir, y) || (dtype != TPT_F32 && dtype != TPT_F64)) return false;
    if (d->out_dtype != TPT_DTYPE_NONE && d->out_dtype != dtype) return false;
    double products = (double)tpt_ir_numel(ir, x);
    for (int i = 0; i < tpt_ir_rank(ir, y); i++)
        if (!among(d->n_batch, d->rhs_batch, i) && !among(d->n_contract, d->rhs_contract, i)) products *= (double)tpt_ir_dim(ir, y, i);
    return products >= LEAST_PRODUCTS;
}

/* An operand that has to be made, as a transposition with its dims merged: by the runtime's routine, and once for all that read
 * it. XLA makes it anew in each reader, 1 ns an element. */
static void turn_operand(tpt_ir_t *ir, tpt_val_t v) {
    const tpt_node_t *node = tpt_maker(ir, v);
    if (node != NULL && node->kind == TPT_KIND_RESHAPE) tpt_ir_turn_made(ir, node->in[0]);
}

/* The product of x and y, each seen through its views if that can be; false: it is none of this kind. */
static bool see(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d, tpt_gemm_t *out, tpt_val_t *in) {
    window_t a[3], b[3];
    for (int i = 0; i < 2; i++) {
        window_of(ir, x, 0, i == 0, &a[i]);
        window_of(ir, y, 0, i == 0, &b[i]);
    }
    whole(ir, x, &a[2]);
    whole(ir, y, &b[2]);
    for (int i = 0; i < 9; i++) {
        in[TPT_GEMM_A] = a[i % 3].base;
        in[TPT_GEMM_B] = b[i / 3].base;
        if (!fill(out, &a[i % 3], &b[i / 3], d)) continue;
        turn_operand(ir, in[TPT_GEMM_A]);
        turn_operand(ir, in[TPT_GEMM_B]);
        return true;
    }
    return false;
}

/* XLA's CPU client runs a program of fewer than 1,000 operations in the caller's thread, which then stands still, and counts none
 * for a call. So a single op's program gets some, as one more operand of the call: a training step took 1.1 ms, and takes 0.75. */
static tpt_val_t weight(tpt_ir_t *ir, const tpt_gemm_t *g, const tpt_val_t *in) {
    const double products = (double)g->m * (double)g->n * (double)g->k;
    if (!ir->alone || (g->nloops == 0 && products < WAITED_FOR)) return TPT_VAL_NONE;
    for (int i = TPT_GEMM_A; i <= TPT_GEMM_B; i++) {
        const int64_t n = tpt_ir_numel(ir, in[i]), none = 0, some = WEIGHT;
        if (ir->values[in[i]]->node >= 0 || n < WEIGHT) continue;
        const tpt_val_t part = tpt_ir_slice(ir, tpt_ir_reshape(ir, in[i], 1, &n), &none, &some, NULL);
        return tpt_ir_mul(ir, part, part);
    }
    return TPT_VAL_NONE;
}

/* The value that v is a reshape of, or v. */
static tpt_val_t unshaped(const tpt_ir_t *ir, tpt_val_t v) {
    const tpt_node_t *node;
    while ((node = tpt_maker(ir, v)) != NULL && node->kind == TPT_KIND_RESHAPE) v = node->in[0];
    return v;
}

/* The product made last, if it reads one of these operands and an argument of the program. A gradient of a layer's input reads the
 * weights, which are updated in place once their own gradient is known: as an operand that nobody looks at, the former keeps the
 * latter waiting. Otherwise XLA copies all weights, for fear that they change first. */
static tpt_val_t before_it(const tpt_ir_t *ir, const tpt_val_t *in) {
    if (ir->alone || ir->last_gemm <= 0 || ir->values[ir->last_gemm]->block != ir->current) return TPT_VAL_NONE;
    const tpt_val_t a = unshaped(ir, in[TPT_GEMM_A]), b = unshaped(ir, in[TPT_GEMM_B]);
    const tpt_node_t *node = tpt_maker(ir, ir->last_gemm);
    bool shared = false, argument = false;
    for (int i = TPT_GEMM_A; i <= TPT_GEMM_B; i++) {
        const tpt_val_t of = unshaped(ir, node->in[i]);
        shared = shared || of == a || of == b;
        argument = argument || tpt_maker(ir, of) == NULL;
    }
    return shared && argument ? ir->last_gemm : TPT_VAL_NONE;
}

static tpt_val_t call(tpt_ir_t *ir, const tpt_gemm_t *g, const tpt_val_t *in, const tpt_type_t *type) {
    const size_t nwords = offsetof(tpt_gemm_t, loops) / sizeof(int64_t) + 4 * (size_t)g->nloops;
    const tpt_ir_call_attr_t attr = {.target = "tpt_gemm", .words = (const int64_t *)(const void *)g, .nwords = nwords, .api_version = 4};
    const tpt_val_t before = before_it(ir, in), beside = before != TPT_VAL_NONE ? before : weight(ir, g, in);
    tpt_val_t out, operands[TPT_GEMM_ARRAYS];
    int n = g->adds != 0 ? TPT_GEMM_C : TPT_GEMM_D;
    memcpy(operands, in, (size_t)n * sizeof *in);
    if (beside != TPT_VAL_NONE) operands[n++] = beside;
    tpt_ir_custom_call(ir, &attr, n, operands, 1, type, &out);
    ir->last_gemm = out;
    return out;
}

tpt_val_t tpt_ir_gemm(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d, tpt_type_t type) {
    tpt_gemm_t g;
    tpt_val_t in[TPT_GEMM_C];
    return worth(ir, x, y, d) && see(ir, x, y, d, &g, in) ? call(ir, &g, in, &type) : TPT_VAL_NONE;
}

tpt_val_t tpt_ir_gemm_add(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, tpt_val_t self, tpt_val_t alpha, tpt_val_t beta) {
    const tpt_ir_dot_t d = {.n_contract = 1, .lhs_contract = {1}, .rhs_contract = {0}};
    const tpt_val_t vals[] = {x, y, self, alpha, beta};
    tpt_gemm_t g;
    tpt_val_t in[TPT_GEMM_C];
    for (size_t i = 0; i < sizeof vals / sizeof *vals; i++)
        if (!tpt_ir_good(ir, vals[i]) || tpt_ir_dtype(ir, vals[i]) != tpt_ir_dtype(ir, x)) return TPT_VAL_NONE;
    if (tpt_ir_rank(ir, x) != 2 || tpt_ir_rank(ir, y) != 2 || tpt_ir_dim(ir, x, 1) != tpt_ir_dim(ir, y, 0)) return TPT_VAL_NONE;
    if (!worth(ir, x, y, &d) || !see(ir, x, y, &d, &g, in)) return TPT_VAL_NONE;
    const tpt_type_t type = tpt_type_make(tpt_ir_dtype(ir, x), 2, (int64_t[]){tpt_ir_dim(ir, x, 0), tpt_ir_dim(ir, y, 1)});
    window_t added, a, b;
    self = tpt_ir_broadcast_to(ir, self, 2, type.dims);
    window_of(ir, self, 0, false, &added);
    window_of(ir, alpha, 0, false, &a);
    window_of(ir, beta, 0, false, &b);
    g.adds = 1;
    g.d_row = added.pieces[0].stride;
    g.d_column = added.pieces[1].stride;
    g.d_at = added.at;
    g.alpha_at = a.at;
    g.beta_at = b.at;
    in[TPT_GEMM_D] = added.base;
    in[TPT_GEMM_ALPHA] = a.base;
    in[TPT_GEMM_BETA] = b.base;
    return call(ir, &g, in, &type);
}
