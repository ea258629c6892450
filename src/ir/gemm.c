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

/* A value as a window on the elements of another one. */
typedef struct window {
    tpt_val_t base;
    int64_t at;
    int rank;
    int64_t dims[TPT_MAX_RANK], strides[TPT_MAX_RANK];
} window_t;

static void whole(const tpt_ir_t *ir, tpt_val_t v, window_t *out) {
    const tpt_type_t *type = tpt_ir_type(ir, v);
    *out = (window_t){.base = v, .rank = type->rank};
    int64_t stride = 1;
    for (int i = type->rank - 1; i >= 0; i--) {
        out->dims[i] = type->dims[i];
        out->strides[i] = stride;
        stride *= type->dims[i];
    }
}

static void see_transpose(window_t *w, const int64_t *perm) {
    const window_t in = *w;
    for (int i = 0; i < w->rank; i++) {
        w->dims[i] = in.dims[perm[i]];
        w->strides[i] = in.strides[perm[i]];
    }
}

static bool see_slice(const tpt_ir_t *ir, window_t *w, const tpt_node_t *node, const tpt_type_t *type) {
    const bool argument = ir->values[w->base]->node < 0;
    int64_t part = 1;
    for (int i = 0; i < w->rank; i++) {
        part *= type->dims[i] > 0 ? w->dims[i] / type->dims[i] : 1;
        w->at += node->ints[0][i] * w->strides[i];
        w->strides[i] *= node->ints[2][i];
        w->dims[i] = type->dims[i];
    }
    return argument || part <= SLICED_MOST;
}

static void see_broadcast(window_t *w, const int64_t *map, const tpt_type_t *type) {
    const window_t in = *w;
    w->rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        w->dims[i] = type->dims[i];
        w->strides[i] = 0;
    }
    for (int i = 0; i < in.rank; i++) w->strides[map[i]] = in.dims[i] == 1 ? 0 : in.strides[i];
}

/* The same elements in dims of other sizes, if strides can say it: as many dims as hold equally many elements at a time. */
static bool see_reshape(window_t *w, const tpt_type_t *type) {
    const window_t in = *w;
    int from = 0, to = 0;
    w->rank = type->rank;
    while (from < in.rank || to < type->rank) {
        int64_t have = 1, want = 1;
        const int from0 = from, to0 = to;
        do {
            if (from < in.rank && (have <= want || to == type->rank)) have *= in.dims[from++];
            else want *= type->dims[to++];
        } while (have != want && (from < in.rank || to < type->rank));
        if (have != want || have == 0) return false;
        int64_t stride = 0, reach = 0; /* of the dims taken, from the last on: one run? */
        for (int i = from - 1; i >= from0; i--) {
            if (in.dims[i] == 1) continue;
            if (reach != 0 && in.strides[i] != reach) return false;
            if (reach == 0) stride = in.strides[i];
            reach = in.strides[i] * in.dims[i];
            if (reach == 0) return false;
        }
        for (int i = to - 1; i >= to0; i--) {
            w->dims[i] = type->dims[i];
            w->strides[i] = stride;
            stride *= type->dims[i];
        }
    }
    return true;
}

static void window_of(const tpt_ir_t *ir, tpt_val_t v, int depth, window_t *out) {
    const tpt_node_t *node = ir->values[v]->node >= 0 ? ir->nodes[ir->values[v]->node] : NULL;
    bool seen = false;
    if (node != NULL && depth < DEEPEST) {
        const tpt_kind_t kind = (tpt_kind_t)node->kind;
        const bool view = kind == TPT_KIND_TRANSPOSE || kind == TPT_KIND_SLICE || kind == TPT_KIND_RESHAPE || kind == TPT_KIND_BROADCAST;
        if (view) window_of(ir, node->in[0], depth + 1, out);
        if (kind == TPT_KIND_TRANSPOSE) see_transpose(out, node->ints[0]);
        if (kind == TPT_KIND_BROADCAST) see_broadcast(out, node->ints[0], tpt_ir_type(ir, v));
        seen = kind == TPT_KIND_SLICE ? see_slice(ir, out, node, tpt_ir_type(ir, v)) : kind == TPT_KIND_RESHAPE ? see_reshape(out, tpt_ir_type(ir, v)) : view;
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
    run_t runs[TPT_MAX_RANK];
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

static void free_runs(const window_t *w, const tpt_ir_dot_t *d, const int64_t *batch, const int64_t *contract, int64_t stride, runs_t *out) {
    *out = (runs_t){0};
    int64_t places[TPT_MAX_RANK];
    for (int i = w->rank - 1; i >= 0; i--) {
        places[i] = stride;
        if (!among(d->n_batch, batch, i) && !among(d->n_contract, contract, i)) stride *= w->dims[i];
    }
    for (int i = 0; i < w->rank; i++)
        if (!among(d->n_batch, batch, i) && !among(d->n_contract, contract, i)) append(out, w->dims[i], w->strides[i], places[i]);
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

static bool fill(tpt_gemm_t *g, const window_t *x, const window_t *y, const tpt_ir_dot_t *d) {
    runs_t rows, columns, inner = {0};
    free_runs(y, d, d->rhs_batch, d->rhs_contract, 1, &columns);
    free_runs(x, d, d->lhs_batch, d->lhs_contract, volume(&columns), &rows);
    for (int i = 0; i < d->n_contract; i++) append(&inner, x->dims[d->lhs_contract[i]], x->strides[d->lhs_contract[i]], y->strides[d->rhs_contract[i]]);
    if (inner.n > 1 || rows.n < 1 || columns.n < 1) return false;
    const run_t m = rows.runs[rows.n - 1], n = columns.runs[columns.n - 1], k = inner.n == 1 ? inner.runs[0] : (run_t){1, 1, 1};
    *g = (tpt_gemm_t){.m = m.size, .n = n.size, .k = k.size, .ldc = m.other, .a_at = x->at, .b_at = y->at};
    int64_t c = volume(&columns) * volume(&rows);
    int64_t places[TPT_MAX_RANK];
    for (int i = d->n_batch - 1; i >= 0; i--) {
        places[i] = c;
        c *= x->dims[d->lhs_batch[i]];
    }
    for (int i = 0; i < d->n_batch; i++) {
        const int64_t a = x->strides[d->lhs_batch[i]], size = x->dims[d->lhs_batch[i]];
        if (size != 1 && !add_loop(g, size, a, y->strides[d->rhs_batch[i]], places[i])) return false;
    }
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

/* The product of x and y, each seen through its views if that can be; false: it is none of this kind. */
static bool see(const tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d, tpt_gemm_t *out, tpt_val_t *in) {
    window_t a[2], b[2];
    window_of(ir, x, 0, &a[0]);
    window_of(ir, y, 0, &b[0]);
    whole(ir, x, &a[1]);
    whole(ir, y, &b[1]);
    for (int i = 0; i < 4; i++) {
        in[TPT_GEMM_A] = a[i & 1].base;
        in[TPT_GEMM_B] = b[i >> 1].base;
        if (fill(out, &a[i & 1], &b[i >> 1], d)) return true;
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

static tpt_val_t call(tpt_ir_t *ir, const tpt_gemm_t *g, const tpt_val_t *in, const tpt_type_t *type) {
    const size_t nwords = offsetof(tpt_gemm_t, loops) / sizeof(int64_t) + 4 * (size_t)g->nloops;
    const tpt_ir_call_attr_t attr = {.target = "tpt_gemm", .words = (const int64_t *)(const void *)g, .nwords = nwords, .api_version = 4};
    const tpt_val_t beside = weight(ir, g, in);
    tpt_val_t out, operands[TPT_GEMM_ARRAYS];
    int n = g->adds != 0 ? TPT_GEMM_C : TPT_GEMM_D;
    memcpy(operands, in, (size_t)n * sizeof *in);
    if (beside != TPT_VAL_NONE) operands[n++] = beside;
    tpt_ir_custom_call(ir, &attr, n, operands, 1, type, &out);
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
    window_of(ir, tpt_ir_broadcast_to(ir, self, 2, type.dims), 0, &added);
    window_of(ir, alpha, 0, &a);
    window_of(ir, beta, 0, &b);
    g.adds = 1;
    g.d_row = added.strides[0];
    g.d_column = added.strides[1];
    g.d_at = added.at;
    g.alpha_at = a.at;
    g.beta_at = b.at;
    in[TPT_GEMM_D] = added.base;
    in[TPT_GEMM_ALPHA] = a.base;
    in[TPT_GEMM_BETA] = b.base;
    return call(ir, &g, in, &type);
}
