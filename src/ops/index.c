/* index.c - reading and writing at user-given indices: index, index_put, index_select, take, put, gather. */
#include "ops/scan.h"
#include "ops/shape.h"

/* ---- helpers ------------------------------------------------------------------------------------------------------- */

/* 32-bit indices where they do: cheaper arithmetic, on TPUs above all. */
static tpt_val_t narrow(tpt_ir_t *ir, tpt_val_t index, int64_t size) {
    return size <= INT32_MAX ? tpt_ir_convert(ir, index, TPT_I32) : index;
}

tpt_val_t tpt_index_take(tpt_ir_t *ir, tpt_val_t x, int dim, tpt_val_t index) {
    const tpt_type_t xt = *tpt_ir_type(ir, x), it = *tpt_ir_type(ir, index);
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = it.rank};
    tpt_type_t out = {.dtype = xt.dtype, .rank = xt.rank - 1 + it.rank};
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    if (out.rank > TPT_MAX_RANK || it.rank >= TPT_MAX_RANK)
        return tpt_ir_fail(ir,
                           tpt_status_make(TPT_UNIMPLEMENTED, "an indexed result of more than %d dimensions", TPT_MAX_RANK));
    for (int d = 0; d < it.rank; d++) out.dims[dim + d] = it.dims[d];
    for (int d = 0; d < xt.rank; d++) {
        g.slice_sizes[d] = d == dim ? 1 : xt.dims[d];
        if (d == dim) continue;
        int at = d < dim ? d : d - 1 + it.rank;
        g.offset_dims[g.n_offset++] = at;
        out.dims[at] = xt.dims[d];
    }
    g.collapsed_slice_dims[0] = g.start_index_map[0] = dim;
    if (tpt_type_numel(&out) == 0 || xt.dims[dim] == 0) return tpt_shape_zeros_type(ir, out);
    return tpt_ir_gather(ir, x, tpt_ir_unsqueeze(ir, narrow(ir, index, xt.dims[dim]), it.rank), &g);
}

tpt_val_t tpt_index_strict(tpt_lower_t *L, tpt_val_t index, int64_t size) {
    tpt_val_t wide = tpt_ir_convert(L->ir, index, TPT_I64);
    tpt_val_t low = tpt_ir_compare(L->ir, TPT_IR_LT, wide, tpt_ir_const_i(L->ir, TPT_I64, 0));
    tpt_val_t high = tpt_ir_compare(L->ir, TPT_IR_GE, wide, tpt_ir_const_i(L->ir, TPT_I64, size));
    tpt_lower_flag(L, tpt_ir_or(L->ir, low, high), size);
    return wide;
}

tpt_val_t tpt_index_scatter_rows(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, int dim, tpt_val_t index,
                                 tpt_val_t updates) {
    const tpt_type_t xt = *tpt_ir_type(ir, x);
    tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1};
    if (tpt_ir_status(ir) != NULL || tpt_ir_numel(ir, updates) == 0 || tpt_type_numel(&xt) == 0) return x;
    for (int d = 0; d < xt.rank; d++)
        if (d != dim) s.update_window_dims[s.n_window++] = d;
    s.inserted_window_dims[0] = s.scatter_dims_to_operand_dims[0] = dim;
    return tpt_ir_scatter(ir, op, x, tpt_ir_unsqueeze(ir, narrow(ir, index, xt.dims[dim]), 1), updates, &s);
}

/* x without what lies past the index in the other dims: a batched gather or scatter wants equal sizes. */
static tpt_val_t crop(tpt_ir_t *ir, tpt_val_t x, int dim, const tpt_type_t *index) {
    for (int d = 0; d < index->rank; d++)
        if (d != dim && tpt_ir_dim(ir, x, d) != index->dims[d]) x = tpt_ir_slice_dim(ir, x, d, 0, index->dims[d]);
    return x;
}

tpt_val_t tpt_index_scatter_elements(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, int dim, tpt_val_t index,
                                     tpt_val_t updates) {
    const tpt_type_t xt = *tpt_ir_type(ir, x), it = *tpt_ir_type(ir, index);
    tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = it.rank};
    if (tpt_ir_status(ir) != NULL || tpt_type_numel(&it) == 0 || tpt_type_numel(&xt) == 0) return x;
    for (int d = 0; d < it.rank; d++) {
        if (d == dim) continue;
        s.input_batching_dims[s.n_batch] = d;
        s.scatter_indices_batching_dims[s.n_batch++] = d;
    }
    s.inserted_window_dims[0] = s.scatter_dims_to_operand_dims[0] = dim;
    tpt_val_t part = crop(ir, x, dim, &it);
    part = tpt_ir_scatter(ir, op, part, tpt_ir_unsqueeze(ir, narrow(ir, index, xt.dims[dim]), it.rank), updates, &s);
    if (tpt_type_equal(tpt_ir_type(ir, part), &xt)) return part;
    tpt_val_t starts[TPT_MAX_RANK];
    for (int d = 0; d < xt.rank; d++) starts[d] = tpt_ir_const_i(ir, TPT_I64, 0);
    return tpt_ir_dynamic_update_slice(ir, x, part, starts);
}

tpt_val_t tpt_index_segments(tpt_ir_t *ir, tpt_val_t starts, int64_t n) {
    int64_t m = tpt_ir_dim(ir, starts, 0), later = m - 1;
    tpt_val_t marks = tpt_shape_zeros(ir, TPT_I64, 1, &n);
    if (m <= 1 || n == 0) return marks;
    tpt_val_t ones = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &later), 1);
    starts = tpt_ir_slice_dim(ir, starts, 0, 1, m);
    marks = tpt_index_scatter_rows(ir, TPT_IR_SCATTER_ADD, marks, 0, starts, ones);
    return tpt_scan_sum(ir, marks, 0);
}

/* ---- index, index_put ---------------------------------------------------------------------------------------------- */

/* A list of optional index tensors against the dims of `self`, put into the form of a gather. */
typedef struct advanced {
    int n;                      /* dims with an index */
    int64_t dims[TPT_MAX_RANK]; /* those dims */
    tpt_type_t common;          /* shape that the indices broadcast to */
    tpt_type_t result;          /* shape of self[indices] */
    int nrest;
    int64_t rest[TPT_MAX_RANK]; /* places of the other dims in the result */
    tpt_val_t index;            /* [common..., n], wrapped */
} advanced_t;

static bool broadcast_common(tpt_lower_t *L, tpt_type_t *common, const tpt_type_t *add) {
    tpt_type_t out = {.dtype = TPT_I64, .rank = common->rank > add->rank ? common->rank : add->rank};
    for (int k = 1; k <= out.rank; k++) {
        int64_t a = k <= common->rank ? common->dims[common->rank - k] : 1, b = k <= add->rank ? add->dims[add->rank - k] : 1;
        if (a != b && a != 1 && b != 1) {
            (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "shape mismatch: indexing tensors could not be broadcast together");
            return false;
        }
        out.dims[out.rank - k] = a == 1 ? b : a;
    }
    *common = out;
    return true;
}

/* PyTorch's and numpy's rule: the indexed dims are replaced in place when they are adjacent, else put in front. */
static bool advanced_shape(tpt_lower_t *L, advanced_t *a, const tpt_type_t *self) {
    bool adjacent = a->n > 0 && a->dims[a->n - 1] - a->dims[0] == a->n - 1;
    int front = adjacent ? (int)a->dims[0] : 0, k = 0;
    a->result = (tpt_type_t){.dtype = self->dtype, .rank = self->rank - a->n + a->common.rank};
    if (a->result.rank > TPT_MAX_RANK || a->common.rank >= TPT_MAX_RANK) {
        (void)tpt_lower_fail(L, TPT_UNIMPLEMENTED, "an indexed result of more than %d dimensions", TPT_MAX_RANK);
        return false;
    }
    for (int d = 0; d < a->common.rank; d++) a->result.dims[front + d] = a->common.dims[d];
    for (int d = 0; d < self->rank; d++) {
        if (k < a->n && a->dims[k] == d) {
            k++;
            continue;
        }
        int at = a->nrest < front ? a->nrest : a->nrest + a->common.rank;
        a->rest[a->nrest++] = at;
        a->result.dims[at] = self->dims[d];
    }
    return true;
}

static bool advanced_of(tpt_lower_t *L, const tpt_type_t *self, advanced_t *a) {
    int count = tpt_lower_count(L, "indices");
    tpt_val_t parts[TPT_MAX_RANK];
    *a = (advanced_t){.common = {.dtype = TPT_I64, .rank = 0}, .index = TPT_VAL_NONE};
    if (count > self->rank) {
        (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "too many indices for tensor of dimension %d (got %d)", self->rank, count);
        return false;
    }
    for (int d = 0; d < count; d++) {
        tpt_val_t index = tpt_lower_item(L, "indices", d);
        if (index == TPT_VAL_NONE) continue;
        tpt_dtype_t dtype = tpt_ir_dtype(L->ir, index);
        if (!tpt_dtype_is_int(dtype)) {
            (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "tensors used as indices must be long, int, byte or bool tensors");
            return false;
        }
        index = tpt_lower_index(L, tpt_ir_convert(L->ir, index, TPT_I64), self->dims[d]);
        index = narrow(L->ir, index, tpt_type_numel(self)); /* all alike, to be joined */
        if (!broadcast_common(L, &a->common, tpt_ir_type(L->ir, index))) return false;
        a->dims[a->n] = d;
        parts[a->n++] = index;
    }
    if (!advanced_shape(L, a, self)) return false;
    if (a->n == 0) return true;
    for (int k = 0; k < a->n; k++) {
        parts[k] = tpt_ir_broadcast_to(L->ir, parts[k], a->common.rank, a->common.dims);
        parts[k] = tpt_ir_unsqueeze(L->ir, parts[k], a->common.rank);
    }
    a->index = a->n == 1 ? parts[0] : tpt_ir_concat(L->ir, a->n, parts, a->common.rank);
    return tpt_ir_status(L->ir) == NULL;
}

void tpt_index_get(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t xt = *tpt_ir_type(L->ir, x);
    advanced_t a;
    if (!advanced_of(L, &xt, &a)) return;
    if (a.n == 0) {
        tpt_lower_result(L, x);
        return;
    }
    if (tpt_type_numel(&a.result) == 0 || tpt_type_numel(&xt) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, a.result));
        return;
    }
    tpt_ir_gather_t g = {.n_offset = a.nrest, .n_collapsed = a.n, .n_start = a.n, .index_vector_dim = a.common.rank};
    for (int d = 0; d < xt.rank; d++) g.slice_sizes[d] = xt.dims[d];
    for (int k = 0; k < a.nrest; k++) g.offset_dims[k] = a.rest[k];
    for (int k = 0; k < a.n; k++) {
        g.slice_sizes[a.dims[k]] = 1;
        g.collapsed_slice_dims[k] = g.start_index_map[k] = a.dims[k];
    }
    tpt_lower_result(L, tpt_ir_gather(L->ir, x, a.index, &g));
}

/* Sums in half precision are taken in float32, and rounded once. */
void tpt_index_set(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t xt = *tpt_ir_type(L->ir, x);
    bool add = tpt_lower_bool(L, "accumulate", false);
    tpt_dtype_t work = add ? tpt_dtype_opmath((tpt_dtype_t)xt.dtype) : (tpt_dtype_t)xt.dtype;
    advanced_t a;
    if (!advanced_of(L, &xt, &a)) return;
    tpt_val_t values = tpt_ir_convert(L->ir, tpt_lower_tensor(L, "values"), work);
    values = tpt_ir_broadcast_to(L->ir, values, a.result.rank, a.result.dims);
    if (tpt_type_numel(&a.result) == 0 || tpt_type_numel(&xt) == 0) {
        tpt_lower_result(L, x);
        return;
    }
    x = tpt_ir_convert(L->ir, x, work);
    if (a.n == 0) {
        tpt_lower_result(L, tpt_ir_convert(L->ir, add ? tpt_ir_add(L->ir, x, values) : values, (tpt_dtype_t)xt.dtype));
        return;
    }
    tpt_ir_scatter_t s = {.n_window = a.nrest, .n_inserted = a.n, .n_scatter = a.n, .index_vector_dim = a.common.rank};
    for (int k = 0; k < a.nrest; k++) s.update_window_dims[k] = a.rest[k];
    for (int k = 0; k < a.n; k++) s.inserted_window_dims[k] = s.scatter_dims_to_operand_dims[k] = a.dims[k];
    x = tpt_ir_scatter(L->ir, add ? TPT_IR_SCATTER_ADD : TPT_IR_SCATTER_SET, x, a.index, values, &s);
    tpt_lower_result(L, tpt_ir_convert(L->ir, x, (tpt_dtype_t)xt.dtype));
}

/* ---- index_select, take, put, gather ------------------------------------------------------------------------------- */

void tpt_index_select_rows(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), index = tpt_lower_tensor(L, "index");
    int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(L->ir, x), 0);
    tpt_type_t out = tpt_shape_out(L);
    if (tpt_ir_rank(L->ir, x) == 0) x = tpt_ir_flatten(L->ir, x);
    index = tpt_index_strict(L, tpt_ir_flatten(L->ir, index), tpt_ir_dim(L->ir, x, dim));
    x = tpt_index_take(L->ir, x, dim, index);
    tpt_lower_result(L, out.rank == 0 ? tpt_ir_reshape(L->ir, x, 0, NULL) : x);
}

void tpt_index_take_flat(tpt_lower_t *L) {
    tpt_val_t x = tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "self"));
    tpt_val_t index = tpt_ir_convert(L->ir, tpt_lower_tensor(L, "index"), TPT_I64);
    index = tpt_lower_index(L, index, tpt_ir_numel(L->ir, x));
    tpt_lower_result(L, tpt_index_take(L->ir, x, 0, index));
}

void tpt_index_put_flat(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t xt = *tpt_ir_type(L->ir, x);
    bool add = tpt_lower_bool(L, "accumulate", false);
    tpt_dtype_t work = add ? tpt_dtype_opmath((tpt_dtype_t)xt.dtype) : (tpt_dtype_t)xt.dtype;
    tpt_val_t index = tpt_ir_flatten(L->ir, tpt_ir_convert(L->ir, tpt_lower_tensor(L, "index"), TPT_I64));
    index = tpt_lower_index(L, index, tpt_type_numel(&xt));
    tpt_val_t source = tpt_ir_flatten(L->ir, tpt_ir_convert(L->ir, tpt_lower_tensor(L, "source"), work));
    x = tpt_ir_convert(L->ir, tpt_ir_flatten(L->ir, x), work);
    x = tpt_index_scatter_rows(L->ir, add ? TPT_IR_SCATTER_ADD : TPT_IR_SCATTER_SET, x, 0, index, source);
    tpt_lower_result(L, tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, x, (tpt_dtype_t)xt.dtype), xt.rank, xt.dims));
}

void tpt_index_gather(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), index = tpt_lower_tensor(L, "index");
    const tpt_type_t shape = *tpt_ir_type(L->ir, index);
    int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(L->ir, x), 0);
    if (tpt_ir_rank(L->ir, x) == 0) x = tpt_ir_flatten(L->ir, x);
    if (shape.rank == 0) index = tpt_ir_flatten(L->ir, index);
    index = tpt_index_strict(L, index, tpt_ir_dim(L->ir, x, dim));
    const tpt_type_t it = *tpt_ir_type(L->ir, index);
    if (tpt_type_numel(&it) == 0 || tpt_ir_dim(L->ir, x, dim) == 0) {
        tpt_lower_result(L, tpt_shape_zeros(L->ir, tpt_ir_dtype(L->ir, x), shape.rank, shape.dims));
        return;
    }
    tpt_ir_gather_t g = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = it.rank};
    for (int d = 0; d < it.rank; d++) {
        g.slice_sizes[d] = 1;
        if (d == dim) continue;
        g.operand_batching_dims[g.n_batch] = d;
        g.start_indices_batching_dims[g.n_batch++] = d;
    }
    g.collapsed_slice_dims[0] = g.start_index_map[0] = dim;
    index = narrow(L->ir, index, tpt_ir_dim(L->ir, x, dim));
    x = tpt_ir_gather(L->ir, crop(L->ir, x, dim, &it), tpt_ir_unsqueeze(L->ir, index, it.rank), &g);
    tpt_lower_result(L, tpt_ir_reshape(L->ir, x, shape.rank, shape.dims));
}
