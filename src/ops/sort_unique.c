/* sort_unique.c - unique values and rows: padded results and one run-time count.
 *
 * A row's data has bit k set when output k keeps its size; the others are cut to the count along dim 0. */
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/sort.h"

/* Equal neighbours among `rows` ([n, m], n >= 1) make a group. `order` ([n]) says where each row stood before sorting. */
typedef struct unique {
    tpt_val_t rows, order;
    tpt_val_t fresh; /* bool [n]: first of its group */
    tpt_val_t group; /* [n]: number of the group */
    int64_t n, m;
} unique_t;

static void find_groups(tpt_lower_t *L, unique_t *u) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t zero = tpt_ir_like(ir, u->rows, 0.0);
    tpt_val_t before = tpt_ir_pad(ir, u->rows, zero, (const int64_t[]){1, 0}, (const int64_t[]){-1, 0}, NULL);
    tpt_val_t differs = tpt_ir_compare(ir, TPT_IR_NE, u->rows, before);
    differs = tpt_ir_reduce(ir, TPT_IR_RED_OR, differs, 1, (const int64_t[]){1});
    tpt_val_t iota = tpt_reduce_iota(ir, differs, 0);
    u->fresh = tpt_ir_or(ir, differs, tpt_ir_compare(ir, TPT_IR_EQ, iota, tpt_ir_like(ir, iota, 0.0)));
    tpt_dtype_t d = tpt_ir_dtype(ir, iota);
    tpt_val_t seen = tpt_scan_sum(ir, tpt_ir_convert(ir, u->fresh, d), 0);
    u->group = tpt_ir_sub(ir, seen, tpt_ir_const_i(ir, d, 1));
    tpt_val_t last = tpt_ir_slice_dim(ir, seen, 0, u->n - 1, u->n);
    L->count = tpt_ir_convert(ir, tpt_ir_reshape(ir, last, 0, NULL), TPT_I64);
}

/* The first row of each group, in order; the rest of the n rows is padding. Places beyond the end are dropped by scatter. */
static tpt_val_t group_rows(tpt_ir_t *ir, const unique_t *u) {
    tpt_val_t at = tpt_ir_select(ir, u->fresh, u->group, tpt_ir_const_i(ir, tpt_ir_dtype(ir, u->group), u->n));
    tpt_ir_scatter_t s = {.n_window = 1, .n_inserted = 1, .n_scatter = 1, .update_window_dims = {1}, .index_vector_dim = 1};
    tpt_val_t out = tpt_ir_full_i(ir, *tpt_ir_type(ir, u->rows), 0);
    return tpt_ir_scatter(ir, TPT_IR_SCATTER_SET, out, at, u->rows, &s);
}

static tpt_val_t scatter_1d(tpt_ir_t *ir, tpt_ir_scatter_op_t op, int64_t n, tpt_val_t at, tpt_val_t updates) {
    tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1};
    tpt_val_t out = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &n), 0);
    return tpt_ir_scatter(ir, op, out, at, tpt_ir_convert(ir, updates, TPT_I64), &s);
}

/* Sorts rows of one column by value, rows of several column by column from the last, each sort stable. */
static void sort_rows(tpt_ir_t *ir, unique_t *u) {
    if (u->m == 1) {
        tpt_val_t flat = tpt_ir_flatten(ir, u->rows);
        tpt_sort_pairs(ir, flat, 0, false, &flat, &u->order);
        u->rows = tpt_ir_unsqueeze(ir, flat, 1);
        return;
    }
    tpt_val_t columns = tpt_ir_transpose(ir, u->rows, (const int64_t[]){1, 0});
    tpt_dtype_t d = tpt_ir_dtype(ir, u->order);
    tpt_val_t inits[2] = {tpt_ir_const_i(ir, d, u->m - 1), u->order}, out[2];
    tpt_type_t types[2] = {*tpt_ir_type(ir, inits[0]), *tpt_ir_type(ir, inits[1])};
    tpt_ir_region_begin(ir);
    tpt_val_t column = tpt_ir_region_arg(ir, types[0]);
    (void)tpt_ir_region_arg(ir, types[1]);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_GE, column, tpt_ir_const_i(ir, d, 0));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    column = tpt_ir_region_arg(ir, types[0]);
    tpt_val_t order = tpt_ir_region_arg(ir, types[1]), moved;
    tpt_val_t key =
        tpt_ir_dynamic_slice(ir, columns, (const tpt_val_t[]){column, tpt_ir_const_i(ir, d, 0)}, (const int64_t[]){1, u->n});
    key = tpt_sort_take(ir, tpt_ir_flatten(ir, key), order);
    tpt_sort_pairs(ir, key, 0, false, &key, &moved);
    tpt_val_t next[2] = {tpt_ir_sub(ir, column, tpt_ir_const_i(ir, d, 1)), tpt_sort_take(ir, order, moved)};
    tpt_region_t body = tpt_ir_region_end(ir, 2, next);
    tpt_ir_while(ir, 2, inits, cond, body, out);
    u->order = out[1];
    tpt_ir_gather_t g = {
        .n_offset = 1, .n_collapsed = 1, .n_start = 1, .offset_dims = {1}, .index_vector_dim = 1, .slice_sizes = {1, u->m}};
    u->rows = tpt_ir_gather(ir, u->rows, u->order, &g);
}

/* Nothing to look at: empty results. */
static void empty_results(tpt_lower_t *L, tpt_val_t values, int rank, const int64_t *inverse_dims, bool counts) {
    int64_t none = 0;
    tpt_type_t flat = tpt_type_make(TPT_I64, 1, &none);
    tpt_lower_result(L, values);
    tpt_lower_result(L, tpt_ir_full_i(L->ir, inverse_dims != NULL ? tpt_type_make(TPT_I64, rank, inverse_dims) : flat, 0));
    if (counts) tpt_lower_result(L, tpt_ir_full_i(L->ir, flat, 0));
    L->count = tpt_ir_const_i(L->ir, TPT_I64, 0);
}

#define UNIQUE_SORTS 1 /* what the row does, above the three bits of its outputs */
#define UNIQUE_NO_COUNTS 2

/* _unique, _unique2, unique_dim, unique_consecutive, unique_dim_consecutive. */
void tpt_ops_unique(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    int64_t what = L->row->data >> 3, none = 0;
    bool by_row = tpt_lower_has(L, "dim"), inverse = tpt_lower_bool(L, "return_inverse", false);
    bool counts = tpt_lower_bool(L, "return_counts", false);
    tpt_val_t x = tpt_lower_tensor(L, "self");
    tpt_type_t type = *tpt_ir_type(ir, x);
    if (tpt_ir_status(ir) != NULL) return;
    if (by_row && tpt_lower_dim(L, "dim", type.rank, 0) != 0) {
        (void)tpt_lower_fail(L, TPT_UNIMPLEMENTED,
                             "unique along a dim other than 0 is not implemented; move the dim to the front");
        return;
    }
    int64_t total = tpt_type_numel(&type), n = by_row && type.rank > 0 ? type.dims[0] : total;
    int64_t row_dims[TPT_MAX_RANK];
    int row_rank = by_row && type.rank > 0 ? type.rank : 1;
    for (int d = 0; d < row_rank; d++) row_dims[d] = d == 0 ? n : type.dims[d];
    int inverse_rank = by_row ? 1 : type.rank;
    const int64_t *inverse_dims = by_row ? &n : type.dims;
    if (total == 0) {
        if (n != 0)
            (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                                 "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
        empty_results(L, tpt_ir_reshape(ir, x, row_rank, row_dims), inverse_rank, inverse ? inverse_dims : NULL,
                      !(what & UNIQUE_NO_COUNTS));
        return;
    }
    unique_t u = {.n = n, .m = total / n};
    u.rows = tpt_ir_reshape(ir, x, 2, (const int64_t[]){u.n, u.m});
    u.order = tpt_reduce_iota(ir, tpt_ir_flatten(ir, tpt_ir_slice_dim(ir, u.rows, 1, 0, 1)), 0);
    if (what & UNIQUE_SORTS) sort_rows(ir, &u);
    find_groups(L, &u);
    tpt_lower_result(L, tpt_ir_reshape(ir, group_rows(ir, &u), row_rank, row_dims));
    tpt_val_t nothing = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &none), 0);
    tpt_val_t groups = inverse ? scatter_1d(ir, TPT_IR_SCATTER_SET, n, u.order, u.group) : nothing;
    tpt_lower_result(L, inverse ? tpt_ir_reshape(ir, groups, inverse_rank, inverse_dims) : groups);
    if (what & UNIQUE_NO_COUNTS) return;
    tpt_val_t ones = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &n), 1);
    tpt_lower_result(L, counts ? scatter_1d(ir, TPT_IR_SCATTER_ADD, n, u.group, ones) : nothing);
}
