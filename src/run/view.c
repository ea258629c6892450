/* view.c - windows on a storage's value: what they look like, how they are read, how they are written.
 *
 * A window (sizes, strides, offset) is read by a chain of reshape, slice, pad, transpose and broadcast of the base; each link has
 * a simple inverse, so that writing runs the chain backwards. Only the offset is left out of the structure: it is decomposed
 * into one start a (merged or split) base dimension, and starts are run-time numbers, so x[t] and x[t+1] share a program. */
#include <string.h>

#include "run_internal.h"

/* ---- classification ------------------------------------------------------------------------------------------------ */

static int64_t product(int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return n;
}

static bool is_contiguous(const tpt_tensor_t *t) {
    int64_t want = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->sizes[i] == 1) continue;
        if (t->strides[i] != want) return false;
        want *= t->sizes[i];
    }
    return true;
}

/* The base as the window's dtype sees it: other dtypes see flat memory. */
static tpt_type_t seen_base(const tpt_type_t *base, tpt_dtype_t dtype) {
    if (base->dtype == dtype) return *base;
    int64_t bytes = tpt_type_numel(base) * (int64_t)tpt_dtype_size((tpt_dtype_t)base->dtype);
    int64_t n = bytes / (int64_t)tpt_dtype_size(dtype);
    return tpt_type_make(dtype, 1, &n);
}

typedef struct groups {
    int n;
    int64_t dims[TPT_MAX_RANK], strides[TPT_MAX_RANK];
} groups_t;

static void merge_group(groups_t *g, int outer) { /* outer and outer + 1 become one */
    g->dims[outer] *= g->dims[outer + 1];
    g->strides[outer] = g->strides[outer + 1];
    for (int i = outer + 1; i + 1 < g->n; i++) {
        g->dims[i] = g->dims[i + 1];
        g->strides[i] = g->strides[i + 1];
    }
    g->n--;
}

static int group_of(const groups_t *g, int64_t stride) {
    for (int i = 0; i < g->n; i++)
        if (g->strides[i] <= stride) return i;
    return g->n - 1;
}

/* Merges base dims until each window dim lies inside one group. False: it reaches past the end. */
static bool fit_groups(groups_t *g, const tpt_tensor_t *t) {
    for (;;) {
        int64_t extent[TPT_MAX_RANK];
        bool merged = false;
        for (int i = 0; i < g->n; i++) extent[i] = (t->offset / g->strides[i]) % g->dims[i] + 1;
        for (int d = 0; d < t->rank && !merged; d++) {
            if (t->sizes[d] == 1 || t->strides[d] == 0) continue;
            int k = group_of(g, t->strides[d]);
            if (t->strides[d] % g->strides[k] != 0) {
                merge_group(g, k); /* strides end in 1, so a finer group exists */
                merged = true;
            } else {
                extent[k] += (t->sizes[d] - 1) * (t->strides[d] / g->strides[k]);
            }
        }
        for (int i = 0; i < g->n && !merged; i++) {
            if (extent[i] <= g->dims[i]) continue;
            if (i == 0) return false;
            merge_group(g, i - 1);
            merged = true;
        }
        if (!merged) return true;
    }
}

/* Window dims of one group by falling stride; count in *out_n. */
static void dims_of_group(const tpt_view_t *v, int group, int *out_dims, int *out_n) {
    groups_t g = {.n = v->ngroups};
    memcpy(g.strides, v->group_strides, sizeof g.strides);
    int n = 0;
    for (int d = 0; d < v->rank; d++) {
        if (v->sizes[d] == 1 || v->strides[d] == 0 || group_of(&g, v->strides[d]) != group) continue;
        int at = n++;
        for (; at > 0 && v->strides[out_dims[at - 1]] < v->strides[d]; at--) out_dims[at] = out_dims[at - 1];
        out_dims[at] = d;
    }
    *out_n = n;
}

static int64_t span_of(const tpt_view_t *v, int group, const int *dims, int n, int from) {
    int64_t span = 1;
    for (int i = from; i < n; i++) span += (v->sizes[dims[i]] - 1) * (v->strides[dims[i]] / v->group_strides[group]);
    return span;
}

static bool overlaps(const tpt_view_t *v) {
    for (int k = 0; k < v->ngroups; k++) {
        int dims[TPT_MAX_RANK], n;
        dims_of_group(v, k, dims, &n);
        for (int i = 0; i + 1 < n; i++)
            if (v->strides[dims[i]] / v->group_strides[k] < span_of(v, k, dims, n, i + 1)) return true;
    }
    return false;
}

/* Splits groups where the window's outer dim steps over whole rows that the rest lies inside: a half of each head is then a
 * slice of the last dim, not of everything from the first head's begin to the last one's end. */
static void split_rows(tpt_view_t *v, int64_t offset) {
    for (int k = 0; k < v->ngroups && v->ngroups < TPT_MAX_RANK; k++) {
        int dims[TPT_MAX_RANK], n;
        dims_of_group(v, k, dims, &n);
        if (n < 2) continue;
        const int64_t unit = v->group_strides[k], row = v->strides[dims[0]] / unit, at = offset / unit % row;
        if (v->group_dims[k] % row != 0 || at + span_of(v, k, dims, n, 1) > row) continue;
        const size_t rest = (size_t)(v->ngroups - k) * sizeof *v->group_dims;
        memmove(&v->group_dims[k + 1], &v->group_dims[k], rest);
        memmove(&v->group_strides[k + 1], &v->group_strides[k], rest);
        v->group_dims[k] /= row;
        v->group_dims[k + 1] = row;
        v->group_strides[k] = unit * row;
        v->ngroups++;
    }
}

/* May a slice's start be a constant? Compilers see through fixed slices (a TPU moves data for others), but each start makes a
 * program. So it is where at most four starts are likely: aligned parts (chunk, split) and all but the first or last element;
 * never for single elements, through which loops step, and only where ops are fused. */
static bool is_part(int64_t dim, int64_t size, int64_t start) {
    if (!tpt_mode_defers() || size < 2) return false;
    return dim == size + 1 || (dim % size == 0 && dim / size <= 4 && start % size == 0);
}

static void set_starts(tpt_view_t *v, int64_t offset, int64_t *starts) {
    for (int k = 0; k < v->ngroups; k++) {
        int dims[TPT_MAX_RANK], n;
        dims_of_group(v, k, dims, &n);
        const int64_t size = span_of(v, k, dims, n, 0), start = offset / v->group_strides[k] % v->group_dims[k];
        v->fixed_starts[k] = start;
        if (size == v->group_dims[k] || is_part(v->group_dims[k], size, start)) v->fixed |= UINT32_C(1) << k;
        else starts[v->nstarts++] = start;
    }
}

static void base_groups(const tpt_type_t *base, groups_t *g) {
    int64_t stride = 1;
    g->n = 0;
    for (int i = 0; i < base->rank; i++)
        if (base->dims[i] != 1) g->dims[g->n++] = base->dims[i];
    if (g->n == 0) g->dims[g->n++] = 1;
    for (int i = g->n - 1; i >= 0; i--) {
        g->strides[i] = stride;
        stride *= g->dims[i];
    }
}

static tpt_status_t *classify_general(const tpt_type_t *seen, const tpt_tensor_t *t, tpt_view_t *v, int64_t *starts) {
    groups_t g;
    base_groups(seen, &g);
    int64_t numel = product(g.n, g.dims), last = t->offset;
    for (int d = 0; d < t->rank; d++) last += (t->sizes[d] - 1) * t->strides[d];
    if (t->offset < 0 || last >= numel)
        return tpt_status_make(TPT_INVALID_ARGUMENT,
                               "a tensor reaches element %lld of a storage of %lld elements", (long long)last, (long long)numel);
    bool fits = fit_groups(&g, t);
    v->code = TPT_VIEW_GENERAL;
    v->ngroups = g.n;
    memcpy(v->group_dims, g.dims, sizeof g.dims);
    memcpy(v->group_strides, g.strides, sizeof g.strides);
    if (!fits || overlaps(v)) {
        v->code = TPT_VIEW_GATHER;
        v->ngroups = 0;
        v->nstarts = 1;
        starts[0] = t->offset;
        return NULL;
    }
    split_rows(v, t->offset);
    set_starts(v, t->offset, starts);
    return NULL;
}

bool tpt_view_is_same(const tpt_type_t *base, const tpt_tensor_t *t) {
    if (t->offset != 0 || base->dtype != t->dtype || base->rank != t->rank) return false;
    int64_t want = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->sizes[i] != base->dims[i] || (t->strides[i] != want && t->sizes[i] != 1)) return false;
        want *= t->sizes[i];
    }
    return want != 0;
}

tpt_status_t *tpt_view_classify(const tpt_type_t *base, const tpt_tensor_t *t, tpt_view_t *v, int64_t *starts) {
    v->dtype = t->dtype;
    v->conj = t->conj;
    v->neg = t->neg;
    v->bitcast = base->dtype != t->dtype;
    v->rank = t->rank;
    v->ngroups = v->nstarts = 0;
    v->fixed = 0;
    memcpy(v->sizes, t->sizes, (size_t)t->rank * sizeof *t->sizes);
    memcpy(v->strides, t->strides, (size_t)t->rank * sizeof *t->strides);
    int64_t numel = product(t->rank, t->sizes);
    if (numel == 0) {
        v->code = TPT_VIEW_EMPTY;
        return NULL;
    }
    tpt_type_t seen = seen_base(base, (tpt_dtype_t)t->dtype);
    if (t->offset == 0 && numel == tpt_type_numel(&seen) && is_contiguous(t)) {
        bool same = seen.rank == t->rank && memcmp(seen.dims, t->sizes, (size_t)t->rank * sizeof *t->sizes) == 0;
        v->code = same ? TPT_VIEW_SAME : TPT_VIEW_RESHAPE;
        return NULL;
    }
    return classify_general(&seen, t, v, starts);
}

bool tpt_view_is_whole(const tpt_view_t *v) { return v->code == TPT_VIEW_SAME || v->code == TPT_VIEW_RESHAPE; }

/* ---- dtype and lazy bits ------------------------------------------------------------------------------------------- */

/* Bytes of `x` read as another dtype, flat. Complex numbers are pairs. */
static tpt_val_t recast(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t to) {
    tpt_dtype_t from = tpt_ir_dtype(ir, x);
    if (from == to) return x;
    if (tpt_dtype_is_complex(from)) {
        tpt_val_t flat = tpt_ir_flatten(ir, x);
        tpt_val_t parts[2] = {tpt_ir_unsqueeze(ir, tpt_ir_unary(ir, TPT_IR_REAL, flat), 1),
                              tpt_ir_unsqueeze(ir, tpt_ir_unary(ir, TPT_IR_IMAG, flat), 1)};
        return recast(ir, tpt_ir_flatten(ir, tpt_ir_concat(ir, 2, parts, 1)), to);
    }
    if (tpt_dtype_is_complex(to)) {
        tpt_val_t flat = recast(ir, tpt_ir_flatten(ir, x), tpt_dtype_real(to));
        int64_t n = tpt_ir_numel(ir, flat) / 2, pairs[2] = {n, 2}, one[1] = {n};
        flat = tpt_ir_reshape(ir, tpt_ir_flatten(ir, flat), 2, pairs);
        tpt_val_t re = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, flat, 1, 0, 1), 1, one);
        tpt_val_t im = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, flat, 1, 1, 2), 1, one);
        return tpt_ir_binary(ir, TPT_IR_COMPLEX, re, im);
    }
    if (from == TPT_BOOL) return recast(ir, tpt_ir_convert(ir, x, TPT_U8), to);
    if (to == TPT_BOOL) return tpt_ir_convert(ir, recast(ir, x, TPT_U8), TPT_BOOL);
    size_t a = tpt_dtype_size(from), b = tpt_dtype_size(to);
    x = tpt_ir_flatten(ir, x);
    if (a < b) { /* groups of small ones make a large one */
        int64_t dims[2] = {tpt_ir_numel(ir, x) / (int64_t)(b / a), (int64_t)(b / a)};
        x = tpt_ir_reshape(ir, x, 2, dims);
    }
    return tpt_ir_flatten(ir, tpt_ir_bitcast(ir, x, to));
}

/* conj and neg are their own inverses. */
static tpt_val_t lazy_bits(tpt_ir_t *ir, const tpt_view_t *v, tpt_val_t x) {
    if (v->conj && tpt_dtype_is_complex((tpt_dtype_t)v->dtype))
        x = tpt_ir_binary(ir, TPT_IR_COMPLEX, tpt_ir_unary(ir, TPT_IR_REAL, x),
                          tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_IMAG, x)));
    if (v->neg) x = tpt_ir_neg(ir, x);
    return x;
}

/* ---- links of the chain -------------------------------------------------------------------------------------------- */

typedef enum link_kind { LINK_RESHAPE, LINK_CUT, LINK_SLICE, LINK_STEP, LINK_PAD, LINK_TRANSPOSE, LINK_SPREAD } link_kind_t;
typedef struct link {
    link_kind_t kind;
    tpt_val_t before;              /* value that went in: writing needs it */
    int64_t a[TPT_MAX_RANK];       /* CUT: starts; STEP: steps; TRANSPOSE: perm; SPREAD: dim map */
    int dim;                       /* PAD */
} link_t;
#define MAX_LINKS (4 * TPT_MAX_RANK + 8)
typedef struct chain {
    tpt_ir_t *ir;
    const tpt_val_t *starts;
    bool turned;
    tpt_val_t at[TPT_MAX_RANK]; /* SLICE: starts of all groups */
    int n;
    tpt_val_t now;
    link_t links[MAX_LINKS];
} chain_t;

static link_t *push(chain_t *c, link_kind_t kind) {
    if (c->n >= MAX_LINKS) {
        c->now = tpt_ir_fail(c->ir, tpt_status_make(TPT_INTERNAL, "a window needs more than %d steps", MAX_LINKS));
        c->n = MAX_LINKS - 1;
    }
    link_t *l = &c->links[c->n++];
    memset(l, 0, sizeof *l);
    l->kind = kind;
    l->before = c->now;
    return l;
}

static void do_reshape(chain_t *c, int rank, const int64_t *dims) {
    const tpt_type_t *t = tpt_ir_type(c->ir, c->now);
    if (t->rank == rank && memcmp(t->dims, dims, (size_t)rank * sizeof *dims) == 0) return;
    push(c, LINK_RESHAPE);
    c->now = tpt_ir_reshape(c->ir, c->now, rank, dims);
}

static void do_slice_front(chain_t *c, int dim, int64_t size) {
    if (tpt_ir_dim(c->ir, c->now, dim) == size) return;
    push(c, LINK_CUT);
    c->now = tpt_ir_slice_dim(c->ir, c->now, dim, 0, size);
}

static void do_pad(chain_t *c, int dim, int64_t size) {
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0}, now = tpt_ir_dim(c->ir, c->now, dim);
    if (now >= size) return;
    push(c, LINK_PAD)->dim = dim;
    high[dim] = size - now;
    c->now = tpt_ir_pad(c->ir, c->now, tpt_ir_const_i(c->ir, tpt_ir_dtype(c->ir, c->now), 0), low, high, NULL);
}

static void do_step(chain_t *c, int dim, int64_t step) {
    int rank = tpt_ir_rank(c->ir, c->now);
    int64_t starts[TPT_MAX_RANK] = {0}, limits[TPT_MAX_RANK], steps[TPT_MAX_RANK];
    if (step == 1 || tpt_ir_dim(c->ir, c->now, dim) == 1) return;
    link_t *l = push(c, LINK_STEP);
    for (int i = 0; i < rank; i++) {
        limits[i] = tpt_ir_dim(c->ir, c->now, i);
        steps[i] = l->a[i] = i == dim ? step : 1;
    }
    c->now = tpt_ir_slice(c->ir, c->now, starts, limits, steps);
}

/* The window dims of one group, which lies at dimension *at of the value and has `span` elements there. */
static void split_group(chain_t *c, const tpt_view_t *v, int group, int *at) {
    int dims[TPT_MAX_RANK], n;
    dims_of_group(v, group, dims, &n);
    for (int i = 0; i < n; i++) {
        int64_t step = v->strides[dims[i]] / v->group_strides[group], size = v->sizes[dims[i]];
        if (i == n - 1) {
            do_step(c, *at, step);
            (*at)++;
            return;
        }
        int rank = tpt_ir_rank(c->ir, c->now);
        int64_t shape[TPT_MAX_RANK + 1];
        if (rank + 1 > TPT_MAX_RANK) {
            c->now = tpt_ir_fail(c->ir, tpt_status_make(TPT_UNIMPLEMENTED, "a window needs more than %d dimensions", TPT_MAX_RANK));
            return;
        }
        do_pad(c, *at, size * step);
        do_slice_front(c, *at, size * step);
        for (int d = 0, to = 0; d < rank; d++) {
            shape[to++] = d == *at ? size : tpt_ir_dim(c->ir, c->now, d);
            if (d == *at) shape[to++] = step;
        }
        do_reshape(c, rank + 1, shape);
        (*at)++;
        do_slice_front(c, *at, span_of(v, group, dims, n, i + 1));
    }
    (*at)++; /* an empty group: one element */
}

/* Fixed starts first: after them the compiler knows more. */
static void do_start_slice(chain_t *c, const tpt_view_t *v) {
    int64_t sizes[TPT_MAX_RANK], from[TPT_MAX_RANK], to[TPT_MAX_RANK];
    bool cut = false;
    for (int k = 0, next = 0; k < v->ngroups; k++) {
        int dims[TPT_MAX_RANK], n;
        const bool fixed = v->fixed >> k & 1;
        dims_of_group(v, k, dims, &n);
        sizes[k] = span_of(v, k, dims, n, 0);
        from[k] = fixed ? v->fixed_starts[k] : 0;
        to[k] = fixed ? from[k] + sizes[k] : v->group_dims[k];
        cut = cut || to[k] - from[k] != v->group_dims[k];
        if (v->nstarts > 0) c->at[k] = fixed ? tpt_ir_const_i(c->ir, tpt_ir_dtype(c->ir, c->starts[0]), 0) : c->starts[next++];
    }
    if (cut) {
        memcpy(push(c, LINK_CUT)->a, from, sizeof from);
        c->now = tpt_ir_slice(c->ir, c->now, from, to, NULL);
    }
    if (v->nstarts == 0) return;
    push(c, LINK_SLICE);
    c->now = tpt_ir_dynamic_slice(c->ir, c->now, c->at, sizes);
}

/* Memory order -> the window's order, then ones and repeats. */
static void arrange(chain_t *c, const tpt_view_t *v) {
    int order[TPT_MAX_RANK], n = 0; /* order: window dims as they lie in memory */
    for (int k = 0; k < v->ngroups; k++) {
        int dims[TPT_MAX_RANK], m;
        dims_of_group(v, k, dims, &m);
        for (int i = 0; i < m; i++) order[n++] = dims[i];
    }
    int64_t shape[TPT_MAX_RANK], perm[TPT_MAX_RANK], map[TPT_MAX_RANK];
    for (int i = 0; i < n; i++) shape[i] = v->sizes[order[i]];
    do_reshape(c, n, shape);
    bool sorted = true;
    int at = 0;
    for (int d = 0; d < v->rank; d++)
        for (int i = 0; i < n; i++)
            if (order[i] == d) {
                sorted = sorted && i == at;
                map[at] = d;
                perm[at++] = i;
            }
    if (!sorted) {
        memcpy(push(c, LINK_TRANSPOSE)->a, perm, sizeof perm);
        const bool strides = perm[n - 1] != n - 1; /* else rows stay together */
        c->now = c->turned && strides ? tpt_ir_turn(c->ir, c->now, perm) : tpt_ir_transpose(c->ir, c->now, perm);
    }
    if (n != v->rank) {
        memcpy(push(c, LINK_SPREAD)->a, map, sizeof map);
        c->now = tpt_ir_broadcast_in_dim(c->ir, c->now, v->rank, v->sizes, map);
    }
}

static void run_chain(chain_t *c, const tpt_view_t *v, tpt_val_t base) {
    c->now = base;
    do_reshape(c, v->ngroups, v->group_dims);
    do_start_slice(c, v);
    for (int k = 0, at = 0; k < v->ngroups; k++) split_group(c, v, k, &at);
    arrange(c, v);
}

/* ---- the inverse --------------------------------------------------------------------------------------------------- */

static tpt_val_t zero_like(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_const_i(ir, tpt_ir_dtype(ir, x), 0); }

/* Every `step`-th element of `before` becomes the next of `v`. */
static tpt_val_t undo_step(tpt_ir_t *ir, const link_t *l, tpt_val_t v) {
    const tpt_type_t type = *tpt_ir_type(ir, l->before);
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0}, inner[TPT_MAX_RANK] = {0};
    int dim = 0;
    for (int i = 0; i < type.rank; i++) {
        inner[i] = l->a[i] - 1;
        if (l->a[i] != 1) dim = i;
        int64_t n = tpt_ir_dim(ir, v, i), wide = n == 0 ? 0 : (n - 1) * l->a[i] + 1;
        high[i] = type.dims[i] - wide;
    }
    tpt_val_t wide = tpt_ir_pad(ir, v, zero_like(ir, v), low, high, inner);
    tpt_type_t line = tpt_type_make(TPT_I32, type.rank, type.dims);
    tpt_val_t at = tpt_ir_binary(ir, TPT_IR_REM, tpt_ir_iota(ir, line, dim), tpt_ir_const_i(ir, TPT_I32, l->a[dim]));
    return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, at, tpt_ir_const_i(ir, TPT_I32, 0)), wide, l->before);
}

static tpt_val_t undo_spread(tpt_ir_t *ir, const link_t *l, tpt_val_t v) {
    const tpt_type_t type = *tpt_ir_type(ir, l->before);
    for (int d = 0; d < tpt_ir_rank(ir, v); d++) {
        bool kept = false;
        for (int i = 0; i < type.rank; i++) kept = kept || l->a[i] == d;
        if (!kept && tpt_ir_dim(ir, v, d) > 1) v = tpt_ir_slice_dim(ir, v, d, 0, 1);
    }
    return tpt_ir_reshape(ir, v, type.rank, type.dims);
}

static tpt_val_t undo_cut(chain_t *c, const link_t *l, tpt_val_t v) {
    tpt_val_t at[TPT_MAX_RANK];
    for (int i = 0; i < tpt_ir_rank(c->ir, v); i++) at[i] = tpt_ir_const_i(c->ir, TPT_I32, l->a[i]);
    return tpt_ir_dynamic_update_slice(c->ir, l->before, v, at);
}

static tpt_val_t undo(chain_t *c, const link_t *l, tpt_val_t v) {
    tpt_ir_t *ir = c->ir;
    const tpt_type_t type = *tpt_ir_type(ir, l->before);
    switch (l->kind) {
        case LINK_RESHAPE: return tpt_ir_reshape(ir, v, type.rank, type.dims);
        case LINK_CUT: return undo_cut(c, l, v);
        case LINK_SLICE: return tpt_ir_dynamic_update_slice(ir, l->before, v, c->at);
        case LINK_PAD: return tpt_ir_slice_dim(ir, v, l->dim, 0, type.dims[l->dim]);
        case LINK_STEP: return undo_step(ir, l, v);
        case LINK_SPREAD: return undo_spread(ir, l, v);
        case LINK_TRANSPOSE: {
            int64_t inverse[TPT_MAX_RANK];
            for (int i = 0; i < type.rank; i++) inverse[l->a[i]] = i;
            const bool strides = l->a[type.rank - 1] != type.rank - 1;
            return c->turned && strides ? tpt_ir_turn(ir, v, inverse) : tpt_ir_transpose(ir, v, inverse);
        }
    }
    return TPT_VAL_NONE;
}

/* ---- windows that overlap themselves: flat indices ------------------------------------------------------------------ */

static tpt_val_t flat_indices(tpt_ir_t *ir, const tpt_view_t *v, const tpt_val_t *starts) {
    tpt_type_t line = tpt_type_make(TPT_I64, v->rank, v->sizes);
    tpt_val_t at = tpt_ir_broadcast_to(ir, tpt_ir_convert(ir, starts[0], TPT_I64), v->rank, v->sizes);
    for (int d = 0; d < v->rank; d++)
        if (v->sizes[d] > 1 && v->strides[d] != 0)
            at = tpt_ir_add(ir, at, tpt_ir_mul(ir, tpt_ir_iota(ir, line, d), tpt_ir_const_i(ir, TPT_I64, v->strides[d])));
    int64_t rows[2] = {tpt_type_numel(&line), 1};
    return tpt_ir_reshape(ir, at, 2, rows);
}

static tpt_val_t gather_flat(tpt_ir_t *ir, const tpt_view_t *v, tpt_val_t base, const tpt_val_t *starts) {
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = 1};
    g.slice_sizes[0] = 1;
    tpt_val_t flat = tpt_ir_gather(ir, tpt_ir_flatten(ir, base), flat_indices(ir, v, starts), &g);
    return tpt_ir_reshape(ir, flat, v->rank, v->sizes);
}

static tpt_val_t scatter_flat(tpt_ir_t *ir, const tpt_view_t *v, tpt_val_t base, tpt_val_t x, const tpt_val_t *starts) {
    tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1};
    const tpt_type_t type = *tpt_ir_type(ir, base);
    tpt_val_t flat = tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, tpt_ir_flatten(ir, base), flat_indices(ir, v, starts),
                                    tpt_ir_flatten(ir, x), &s);
    return tpt_ir_reshape(ir, flat, type.rank, type.dims);
}

/* ---- reading and writing ------------------------------------------------------------------------------------------- */

tpt_val_t tpt_view_read(tpt_ir_t *ir, const tpt_view_t *v, tpt_val_t base, const tpt_val_t *starts, bool turned) {
    if (v->code == TPT_VIEW_EMPTY) return tpt_ir_full_i(ir, tpt_type_make((tpt_dtype_t)v->dtype, v->rank, v->sizes), 0);
    tpt_val_t x = v->bitcast ? recast(ir, base, (tpt_dtype_t)v->dtype) : base;
    switch ((tpt_view_code_t)v->code) {
        case TPT_VIEW_SAME: break;
        case TPT_VIEW_RESHAPE: x = tpt_ir_reshape(ir, x, v->rank, v->sizes); break;
        case TPT_VIEW_GATHER: x = gather_flat(ir, v, x, starts); break;
        default: {
            chain_t c = {.ir = ir, .starts = starts, .turned = turned};
            run_chain(&c, v, x);
            x = c.now;
        }
    }
    return lazy_bits(ir, v, x);
}

tpt_val_t tpt_view_write(tpt_ir_t *ir, const tpt_view_t *v, tpt_val_t base, tpt_val_t x, const tpt_val_t *starts, bool turned) {
    if (v->code == TPT_VIEW_EMPTY) return base;
    const tpt_type_t type = *tpt_ir_type(ir, base);
    x = lazy_bits(ir, v, x);
    tpt_val_t seen = v->bitcast ? recast(ir, base, (tpt_dtype_t)v->dtype) : base;
    switch ((tpt_view_code_t)v->code) {
        case TPT_VIEW_SAME:
        case TPT_VIEW_RESHAPE: seen = x; break;
        case TPT_VIEW_GATHER: seen = scatter_flat(ir, v, seen, x, starts); break;
        default: {
            chain_t c = {.ir = ir, .starts = starts, .turned = turned};
            run_chain(&c, v, seen);
            for (int i = c.n - 1; i >= 0; i--) x = undo(&c, &c.links[i], x);
            seen = x;
        }
    }
    if (v->bitcast) seen = recast(ir, seen, (tpt_dtype_t)type.dtype);
    return tpt_ir_reshape(ir, seen, type.rank, type.dims);
}
