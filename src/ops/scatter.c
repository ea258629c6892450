/* scatter.c - scatter and its reductions, and the index_* family, which scatters whole slices. */
#include "ops/shape.h"

/* Where updates go: at single elements (`index` has self's rank) or as slices along dim (`index` has rank 1). */
typedef struct target {
    bool rows;
    int dim;
    tpt_val_t index;
} target_t;

static tpt_val_t put(tpt_ir_t *ir, const target_t *t, tpt_ir_scatter_op_t op, tpt_val_t x, tpt_val_t updates) {
    return t->rows ? tpt_index_scatter_rows(ir, op, x, t->dim, t->index, updates)
                   : tpt_index_scatter_elements(ir, op, x, t->dim, t->index, updates);
}

/* ---- reductions ---------------------------------------------------------------------------------------------------- */

typedef enum reduction { RED_SET, RED_SUM, RED_PROD, RED_MEAN, RED_MAX, RED_MIN, RED_UNKNOWN } reduction_t;

static reduction_t reduction_of(tpt_lower_t *L) {
    static const struct {
        const char *text;
        reduction_t reduction;
    } names[] = {{"add", RED_SUM},   {"sum", RED_SUM},  {"multiply", RED_PROD}, {"prod", RED_PROD},
                 {"mean", RED_MEAN}, {"amax", RED_MAX}, {"amin", RED_MIN}};
    if (!tpt_lower_has(L, "reduce")) return RED_SET;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tpt_lower_text_is(L, "reduce", names[i].text)) return names[i].reduction;
    (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s: unknown reduction", L->schema_name);
    return RED_UNKNOWN;
}

static tpt_val_t neutral(tpt_ir_t *ir, reduction_t reduction, tpt_dtype_t dtype) {
    switch (reduction) {
        case RED_PROD:
            return tpt_ir_const_i(ir, dtype, 1);
        case RED_MAX:
            return tpt_ir_lowest(ir, dtype);
        case RED_MIN:
            return tpt_ir_highest(ir, dtype);
        default:
            return tpt_ir_const_i(ir, dtype, 0);
    }
}

/* A mean of integers is rounded down. */
static tpt_val_t divide(tpt_ir_t *ir, tpt_val_t x, tpt_val_t count) {
    tpt_val_t q = tpt_ir_div(ir, x, count);
    if (!tpt_dtype_is_int(tpt_ir_dtype(ir, x))) return q;
    tpt_val_t rest = tpt_ir_compare(ir, TPT_IR_NE, tpt_ir_mul(ir, q, count), x);
    tpt_val_t below = tpt_ir_compare(ir, TPT_IR_LT, x, tpt_ir_like(ir, x, 0));
    return tpt_ir_sub(ir, q, tpt_ir_convert(ir, tpt_ir_and(ir, rest, below), tpt_ir_dtype(ir, q)));
}

/* self (of `work` dtype) with src reduced into it. */
static tpt_val_t reduce_into(tpt_ir_t *ir, const target_t *t, reduction_t reduction, tpt_val_t x, tpt_val_t src,
                             bool include_self) {
    static const tpt_ir_scatter_op_t ops[] = {TPT_IR_SCATTER_SET, TPT_IR_SCATTER_ADD, TPT_IR_SCATTER_MUL,
                                              TPT_IR_SCATTER_ADD, TPT_IR_SCATTER_MAX, TPT_IR_SCATTER_MIN};
    const tpt_type_t type = *tpt_ir_type(ir, x), st = *tpt_ir_type(ir, src);
    tpt_dtype_t dtype = (tpt_dtype_t)type.dtype;
    tpt_val_t base = x, touched = TPT_VAL_NONE;
    if (!include_self && reduction != RED_SET) {
        tpt_type_t flags = tpt_type_make(TPT_BOOL, type.rank, type.dims);
        touched = put(ir, t, TPT_IR_SCATTER_SET, tpt_shape_zeros_type(ir, flags),
                      tpt_ir_full_i(ir, tpt_type_make(TPT_BOOL, st.rank, st.dims), 1));
        base = tpt_ir_select(ir, touched, neutral(ir, reduction, dtype), x);
    }
    tpt_val_t out = put(ir, t, ops[reduction], base, src);
    if (reduction != RED_MEAN) return out;
    tpt_val_t count = tpt_ir_full_i(ir, type, 1); /* self counts as one */
    count = put(ir, t, TPT_IR_SCATTER_ADD, count, tpt_ir_full_i(ir, tpt_type_make(dtype, st.rank, st.dims), 1));
    if (touched != TPT_VAL_NONE) count = tpt_ir_sub(ir, count, tpt_ir_convert(ir, touched, dtype));
    return divide(ir, out, count);
}

/* Sums, products and means in half precision are taken in float32 and rounded once. */
static tpt_dtype_t work_dtype(reduction_t reduction, tpt_dtype_t dtype) {
    return reduction == RED_SUM || reduction == RED_PROD || reduction == RED_MEAN ? tpt_dtype_opmath(dtype) : dtype;
}

static void finish(tpt_lower_t *L, tpt_val_t x, const tpt_type_t *type) {
    x = tpt_ir_convert(L->ir, x, (tpt_dtype_t)type->dtype);
    tpt_lower_result(L, type->rank == 0 ? tpt_ir_reshape(L->ir, x, 0, NULL) : x);
}

static tpt_val_t at_least_1d(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_rank(ir, x) == 0 ? tpt_ir_flatten(ir, x) : x; }

/* ---- scatter ------------------------------------------------------------------------------------------------------- */

/* scatter.src, .value, .reduce, .value_reduce, scatter_add (data 1), scatter_reduce.two */
void tpt_scatter(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    reduction_t reduction = L->row->data == 1 ? RED_SUM : reduction_of(L);
    tpt_dtype_t work = work_dtype(reduction, (tpt_dtype_t)type.dtype);
    if (tpt_ir_status(L->ir) != NULL) return;
    x = tpt_ir_convert(L->ir, at_least_1d(L->ir, x), work);
    tpt_val_t index = at_least_1d(L->ir, tpt_lower_tensor(L, "index")), src;
    const tpt_type_t it = *tpt_ir_type(L->ir, index);
    if (tpt_type_numel(&it) == 0) { /* of any rank */
        finish(L, x, &type);
        return;
    }
    target_t t = {.rows = false, .dim = tpt_lower_dim(L, "dim", type.rank, 0)};
    t.index = tpt_index_strict(L, index, tpt_ir_dim(L->ir, x, t.dim));
    if (tpt_lower_has(L, "src")) {
        int64_t starts[TPT_MAX_RANK] = {0};
        src = at_least_1d(L->ir, tpt_ir_convert(L->ir, tpt_lower_tensor(L, "src"), work));
        src = tpt_ir_slice(L->ir, src, starts, it.dims, NULL); /* it may be larger than the index */
    } else {
        src = tpt_ir_broadcast_to(L->ir, tpt_shape_value(L, "value", work), it.rank, it.dims);
    }
    finish(L, reduce_into(L->ir, &t, reduction, x, src, tpt_lower_bool(L, "include_self", true)), &type);
}

/* ---- index_add, index_copy, index_reduce, index_fill --------------------------------------------------------------- */

/* index_copy: data 0, index_add: data 1, index_reduce: data 2. */
void tpt_scatter_index(tpt_lower_t *L) {
    enum { COPY, ADD, REDUCE } kind = (int)L->row->data;
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    reduction_t reduction = kind == COPY ? RED_SET : kind == ADD ? RED_SUM : reduction_of(L);
    tpt_dtype_t work = work_dtype(reduction, (tpt_dtype_t)type.dtype);
    if (tpt_ir_status(L->ir) != NULL) return;
    if (tpt_type_numel(&type) == 0) { /* as on cpu: there is no place that an index could miss */
        tpt_lower_result(L, x);
        return;
    }
    x = tpt_ir_convert(L->ir, at_least_1d(L->ir, x), work);
    target_t t = {.rows = true, .dim = tpt_lower_dim(L, "dim", type.rank, 0)};
    t.index = tpt_index_strict(L, tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "index")), tpt_ir_dim(L->ir, x, t.dim));
    tpt_val_t src = tpt_ir_convert(L->ir, tpt_lower_tensor(L, "source"), work);
    /* A scalar source goes with one index, and an element of self of rank 0 or 1. */
    if (tpt_ir_rank(L->ir, src) == 0) src = tpt_ir_flatten(L->ir, src);
    if (kind == ADD && tpt_lower_has(L, "alpha")) src = tpt_ir_mul(L->ir, src, tpt_lower_number(L, "alpha", work));
    finish(L, reduce_into(L->ir, &t, reduction, x, src, tpt_lower_bool(L, "include_self", true)), &type);
}

/* Which positions of the dim are named, then a select: no data goes through the scatter. Negative indices count from the end.
 */
void tpt_scatter_index_fill(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), index = tpt_ir_flatten(L->ir, tpt_lower_tensor(L, "index"));
    const tpt_type_t type = *tpt_ir_type(L->ir, x);
    x = at_least_1d(L->ir, x);
    int dim = tpt_lower_dim(L, "dim", type.rank, 0);
    int64_t n = tpt_ir_dim(L->ir, x, dim), count = tpt_ir_dim(L->ir, index, 0);
    index = tpt_lower_index(L, tpt_ir_convert(L->ir, index, TPT_I64), n);
    tpt_val_t named = tpt_index_scatter_rows(L->ir, TPT_IR_SCATTER_SET, tpt_shape_zeros(L->ir, TPT_BOOL, 1, &n), 0, index,
                                             tpt_ir_full_i(L->ir, tpt_type_make(TPT_BOOL, 1, &count), 1));
    tpt_val_t value = tpt_shape_value(L, "value", (tpt_dtype_t)type.dtype);
    if (tpt_ir_rank(L->ir, value) > 0) value = tpt_ir_reshape(L->ir, value, 0, NULL);
    named = tpt_shape_along(L->ir, named, tpt_ir_rank(L->ir, x), dim);
    finish(L, tpt_ir_select(L->ir, named, value, x), &type);
}
