/* infer_index.c - rules of gather and scatter. */
#include "ir_internal.h"

static bool sorted(int n, const int64_t *dims) {
    for (int i = 1; i < n; i++) {
        if (dims[i] <= dims[i - 1]) return false;
    }
    return true;
}

static bool has(int n, const int64_t *dims, int64_t d) {
    for (int i = 0; i < n; i++) {
        if (dims[i] == d) return true;
    }
    return false;
}

static tpt_status_t *check_sorted(const char *what, int n, const int64_t *dims, int limit) {
    TPT_TRY(tpt_ir_check_dims(what, n, dims, limit));
    return sorted(n, dims) ? NULL : TPT_BAD("%s must be sorted", what);
}

/* What gather and scatter have in common: how index vectors name places of the operand. */
typedef struct tpt_index_rule {
    const tpt_type_t *x, *indices;
    int n_removed, n_batch, n_map;
    const int64_t *removed, *batch, *indices_batch, *map; /* collapsed or inserted, operand batching, ..., start_index_map */
    int64_t vector_dim;
} tpt_index_rule_t;

static tpt_status_t *check_index_rule(const tpt_index_rule_t *r) {
    const tpt_type_t *x = r->x, *indices = r->indices;
    if (!tpt_dtype_is_int((tpt_dtype_t)indices->dtype)) return TPT_BAD("indices must be integers");
    if (r->vector_dim < 0 || r->vector_dim > indices->rank) return TPT_BAD("index_vector_dim %lld", (long long)r->vector_dim);
    TPT_TRY(check_sorted("collapsed or inserted dimensions", r->n_removed, r->removed, x->rank));
    TPT_TRY(check_sorted("operand batching dimensions", r->n_batch, r->batch, x->rank));
    TPT_TRY(tpt_ir_check_dims("indices batching dimensions", r->n_batch, r->indices_batch, indices->rank));
    TPT_TRY(tpt_ir_check_dims("start_index_map", r->n_map, r->map, x->rank));
    int64_t vector = r->vector_dim < indices->rank ? indices->dims[r->vector_dim] : 1;
    if (vector != r->n_map) return TPT_BAD("index vectors of %lld for %d dimensions", (long long)vector, r->n_map);
    for (int i = 0; i < r->n_batch; i++) {
        int64_t d = r->batch[i], e = r->indices_batch[i];
        if (has(r->n_removed, r->removed, d) || has(r->n_map, r->map, d)) return TPT_BAD("a batching dimension is used twice");
        if (e == r->vector_dim) return TPT_BAD("index_vector_dim is a batching dimension");
        if (x->dims[d] != indices->dims[e]) return TPT_BAD("batching dimensions of different sizes");
    }
    return NULL;
}

/* Lays out a result: `window` sizes at the places `at`, the indices' own dims elsewhere. */
static tpt_status_t *lay_out(const tpt_index_rule_t *r, int n, const int64_t *at, const int64_t *window, tpt_type_t *type) {
    int rank = n + r->indices->rank - (r->vector_dim < r->indices->rank ? 1 : 0);
    if (rank > TPT_MAX_RANK) return TPT_BAD("too many dimensions");
    TPT_TRY(check_sorted("offset or window dimensions", n, at, rank));
    int k = 0, e = 0;
    type->rank = rank;
    for (int d = 0; d < rank; d++) {
        if (k < n && at[k] == d) {
            type->dims[d] = window[k++];
            continue;
        }
        if (e == r->vector_dim) e++;
        type->dims[d] = r->indices->dims[e++];
    }
    return NULL;
}

static bool count_ok(int n) { return n >= 0 && n <= TPT_MAX_RANK; }

tpt_status_t *tpt_infer_gather(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    const tpt_ir_gather_t *g = node->attr;
    if (node->nin != 2 || node->nout != 1 || g == NULL) return TPT_BAD("%d operands", node->nin);
    if (!count_ok(g->n_offset) || !count_ok(g->n_collapsed) || !count_ok(g->n_batch) || !count_ok(g->n_start)) {
        return TPT_BAD("too many dimensions");
    }
    tpt_index_rule_t r = {tpt_in_type(ir, node, 0),
                          tpt_in_type(ir, node, 1),
                          g->n_collapsed,
                          g->n_batch,
                          g->n_start,
                          g->collapsed_slice_dims,
                          g->operand_batching_dims,
                          g->start_indices_batching_dims,
                          g->start_index_map,
                          g->index_vector_dim};
    TPT_TRY(check_index_rule(&r));
    if (r.x->rank != g->n_offset + g->n_collapsed + g->n_batch) return TPT_BAD("offset dimensions do not add up to the rank");
    int64_t window[TPT_MAX_RANK];
    int n = 0;
    for (int d = 0; d < r.x->rank; d++) {
        int64_t size = g->slice_sizes[d];
        bool removed = has(g->n_collapsed, g->collapsed_slice_dims, d) || has(g->n_batch, g->operand_batching_dims, d);
        if (size < 0 || size > r.x->dims[d]) return TPT_BAD("%lld of %lld elements", (long long)size, (long long)r.x->dims[d]);
        if (removed && size > 1) return TPT_BAD("a removed dimension has slices of %lld", (long long)size);
        if (!removed) window[n++] = size;
    }
    types[0].dtype = r.x->dtype;
    return lay_out(&r, g->n_offset, g->offset_dims, window, &types[0]);
}

tpt_status_t *tpt_infer_scatter(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    const tpt_ir_scatter_t *s = node->attr;
    if (node->nin != 3 || node->nout != 1 || node->nregions != 1 || s == NULL) return TPT_BAD("%d operands", node->nin);
    if (!count_ok(s->n_window) || !count_ok(s->n_inserted) || !count_ok(s->n_batch) || !count_ok(s->n_scatter)) {
        return TPT_BAD("too many dimensions");
    }
    tpt_index_rule_t r = {tpt_in_type(ir, node, 0),
                          tpt_in_type(ir, node, 1),
                          s->n_inserted,
                          s->n_batch,
                          s->n_scatter,
                          s->inserted_window_dims,
                          s->input_batching_dims,
                          s->scatter_indices_batching_dims,
                          s->scatter_dims_to_operand_dims,
                          s->index_vector_dim};
    const tpt_type_t *updates = tpt_in_type(ir, node, 2);
    TPT_TRY(check_index_rule(&r));
    if (r.x->rank != s->n_window + s->n_inserted + s->n_batch) return TPT_BAD("window dimensions do not add up to the rank");
    TPT_TRY(check_sorted("update window dimensions", s->n_window, s->update_window_dims, updates->rank));
    int64_t window[TPT_MAX_RANK];
    int n = 0;
    for (int d = 0; d < r.x->rank; d++) {
        if (has(s->n_inserted, s->inserted_window_dims, d) || has(s->n_batch, s->input_batching_dims, d)) continue;
        int64_t size = updates->dims[s->update_window_dims[n]];
        if (size > r.x->dims[d]) return TPT_BAD("%lld of %lld elements", (long long)size, (long long)r.x->dims[d]);
        window[n++] = size;
    }
    tpt_type_t want = {.dtype = r.x->dtype};
    TPT_TRY(lay_out(&r, s->n_window, s->update_window_dims, window, &want));
    if (!tpt_type_equal(updates, &want)) {
        return TPT_BAD("updates of %s, not %s", tpt_type_text(updates, a), tpt_type_text(&want, b));
    }
    tpt_type_t scalar = tpt_type_make((tpt_dtype_t)r.x->dtype, 0, NULL), pair[2] = {scalar, scalar};
    TPT_TRY(tpt_ir_check_region(ir, node, 0, 2, pair, 1, &scalar));
    types[0] = *r.x;
    return NULL;
}
