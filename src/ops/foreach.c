/* foreach.c - _foreach_* ops: one program for a whole list of tensors.
 *
 * An item is lowered by the row of the plain op ("add.Tensor" for _foreach_add.*): the arguments of the call that are lists are
 * seen through their i-th item, so promotion, numbers and special cases are those of the plain op. */
#include "ops/nn.h"
#include "ops/reduce.h"

#include <string.h>

#include "base/alloc.h"

enum { FOREACH_MAX_ARGS = 4 };

/* How an argument of the plain op is called in the list op: candidates separated by spaces. */
typedef struct foreach_arg {
    const char *name, *from;
} foreach_arg_t;
typedef struct foreach_base {
    const char *row; /* NULL: the list op's own name without "_foreach_" */
    foreach_arg_t args[FOREACH_MAX_ARGS];
} foreach_base_t;

/* The order is that of `data` in optim.def. */
static const foreach_base_t bases[] = {
    {NULL, {{"self", "self"}}},
    {"add.Tensor", {{"self", "self"}, {"other", "other scalar scalars"}, {"alpha", "alpha"}}},
    {"sub.Tensor", {{"self", "self"}, {"other", "other scalar scalars"}, {"alpha", "alpha"}}},
    {"mul.Tensor", {{"self", "self"}, {"other", "other scalar scalars"}}},
    {"div.Tensor", {{"self", "self"}, {"other", "other scalar scalars"}}},
    {"addcmul", {{"self", "self"}, {"tensor1", "tensor1"}, {"tensor2", "tensor2"}, {"value", "value scalars"}}},
    {"addcdiv", {{"self", "self"}, {"tensor1", "tensor1"}, {"tensor2", "tensor2"}, {"value", "value scalars"}}},
    {"lerp.Tensor", {{"self", "self"}, {"end", "tensors1"}, {"weight", "weights"}}},
    {"lerp.Scalar", {{"self", "self"}, {"end", "tensors1"}, {"weight", "weight"}}},
    {"maximum", {{"self", "self"}, {"other", "other scalar scalars"}}},
    {"minimum", {{"self", "self"}, {"other", "other scalar scalars"}}},
    {"pow.Tensor_Tensor", {{"self", "self"}, {"exponent", "exponent"}}},
    {"pow.Tensor_Scalar", {{"self", "self"}, {"exponent", "exponent"}}},
    {"pow.Scalar", {{"self", "self"}, {"exponent", "exponent"}}},
    {"mm", {{"self", "self"}, {"mat2", "mat2"}}},
};

/* The lowering state of one item, and where its arguments come from. */
typedef struct item {
    tpt_lower_t lower;
    tpt_lower_t *list;
    int index, nargs, source[FOREACH_MAX_ARGS];
    const char *names[FOREACH_MAX_ARGS];
    tpt_arg_t args[FOREACH_MAX_ARGS];
    tpt_val_t value[FOREACH_MAX_ARGS];
    const tpt_val_t *values[FOREACH_MAX_ARGS];
} item_t;

static tpt_val_t item_number(tpt_lower_t *L, int arg, int k, int fn, tpt_dtype_t dtype) {
    item_t *item = L->run;
    (void)k;
    const int source = item->source[arg];
    const bool is_list = item->list->args[source].kind == TPT_ARG_NUMBERS;
    return item->list->number(item->list, source, is_list ? item->index : 0, fn, dtype);
}

/* The first of the names in `from` that the call has; -1 if none. */
static int find_source(const tpt_lower_t *L, const char *from) {
    char name[32];
    while (*from != '\0') {
        const size_t n = strcspn(from, " ");
        if (n < sizeof name) {
            memcpy(name, from, n);
            name[n] = '\0';
            if (tpt_lower_has(L, name)) return tpt_lower_find(L, name);
        }
        from += n + strspn(from + n, " ");
    }
    return -1;
}

/* Views argument `source` of the list op through item `i`. False when that item is missing. */
static bool view_arg(item_t *item, const char *name, int source) {
    tpt_lower_t *L = item->list;
    const tpt_arg_t *arg = &L->args[source];
    const int k = item->nargs, i = item->index;
    tpt_arg_t view = *arg;
    if (arg->kind == TPT_ARG_TENSORS || arg->kind == TPT_ARG_NUMBERS) {
        if (i >= arg->count) return false;
        view.count = 0;
    }
    if (arg->kind == TPT_ARG_TENSORS) {
        view.kind = TPT_ARG_TENSOR;
        view.u.tensor = arg->u.tensors[i];
        item->value[k] = L->values[source][i];
    } else if (arg->kind == TPT_ARG_NUMBERS) {
        view.kind = TPT_ARG_NUMBER;
        view.u.number = arg->u.numbers[i];
    } else if (arg->kind == TPT_ARG_TENSOR) {
        item->value[k] = L->values[source][0];
    }
    item->names[k] = name;
    item->args[k] = view;
    item->values[k] = &item->value[k];
    item->source[k] = source;
    item->nargs++;
    return true;
}

static const tpt_row_t *base_row(tpt_lower_t *L, const foreach_base_t *base) {
    char name[64];
    const char *own = base->row;
    if (own == NULL) {
        own = L->row->name + strlen("_foreach_");
        const size_t n = strcspn(own, ".");
        if (n >= sizeof name) return NULL;
        memcpy(name, own, n);
        name[n] = '\0';
        own = name;
    }
    const tpt_row_t *row = tpt_row_find(own);
    if (row == NULL) tpt_lower_fail(L, TPT_UNIMPLEMENTED, "%s: the plain op '%s' has no row", L->row->name, own);
    return row;
}

static void lower_item(tpt_lower_t *L, const tpt_row_t *row, const foreach_base_t *base, int i) {
    item_t item = {.list = L, .index = i};
    for (int k = 0; k < FOREACH_MAX_ARGS && base->args[k].name != NULL; k++) {
        const int source = find_source(L, base->args[k].from);
        if (source < 0) { /* a factor that this overload lacks */
            item.names[item.nargs] = base->args[k].name;
            item.args[item.nargs] = (tpt_arg_t){.kind = TPT_ARG_INT, .u.i = 1};
            item.values[item.nargs] = &item.value[item.nargs];
            item.nargs++;
            continue;
        }
        if (!view_arg(&item, base->args[k].name, source)) {
            tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "Tensor lists must have the same number of tensors");
            return;
        }
    }
    item.lower = (tpt_lower_t){.ir = L->ir, .row = row, .schema_name = L->schema_name, .nargs = item.nargs, .names = item.names,
                               .args = item.args, .values = item.values, .count = TPT_VAL_NONE, .bad = TPT_VAL_NONE,
                               .run = &item, .number = item_number};
    if (L->outs != NULL && i < L->nouts) {
        item.lower.outs = &L->outs[i];
        item.lower.nouts = 1;
    }
    tpt_row_lower(&item.lower);
    if (item.lower.nresults == 1) tpt_lower_result(L, item.lower.results[0]);
    else tpt_lower_fail(L, TPT_INTERNAL, "row '%s' gave %d results for a list item", row->name, item.lower.nresults);
    tpt_free(item.lower.results);
}

/* The length of the list: `self`, or `exponent` when self is a number. */
static int list_count(tpt_lower_t *L) {
    const int n = tpt_lower_count(L, "self");
    return n > 0 ? n : tpt_lower_count(L, "exponent");
}

void tpt_ops_foreach(tpt_lower_t *L) {
    const foreach_base_t *base = &bases[L->row->data];
    const tpt_row_t *row = base_row(L, base);
    const int n = list_count(L);
    for (int i = 0; row != NULL && i < n; i++) lower_item(L, row, base, i);
}

/* _foreach_clone (data 0), _foreach_zero (1), _foreach_copy (2). */
void tpt_ops_foreach_fill(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const int n = tpt_lower_count(L, "self");
    for (int i = 0; i < n; i++) {
        tpt_val_t x = tpt_lower_item(L, "self", i);
        const tpt_type_t t = *tpt_ir_type(b, x);
        if (L->row->data == 1) x = tpt_ir_full_i(b, t, 0);
        if (L->row->data == 2) x = tpt_ir_broadcast_to(b, tpt_ir_convert(b, tpt_lower_item(L, "src", i), t.dtype), t.rank, t.dims);
        tpt_lower_result(L, x);
    }
}

/* _foreach_norm.Scalar (data 0), _foreach_powsum.Scalar (1), _foreach_max (2): each item to a 0-d tensor. */
void tpt_ops_foreach_reduce(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const int n = tpt_lower_count(L, "self");
    const double p = L->row->data == 2 ? 0 : tpt_lower_static(L, "ord", 2);
    for (int i = 0; i < n; i++) {
        tpt_val_t x = tpt_lower_item(L, "self", i);
        if (L->row->data != 2) x = tpt_nn_opmath(b, tpt_ir_convert(b, x, tpt_lower_dtype(L, "dtype", tpt_ir_dtype(b, x))));
        if (L->row->data == 1) {
            tpt_val_t a = tpt_ir_unary(b, TPT_IR_ABS, x);
            x = p == 2 ? tpt_ir_mul(b, a, a) : p == 1 ? a : tpt_ir_binary(b, TPT_IR_POW, a, tpt_ir_like(b, a, p));
            tpt_lower_result(L, tpt_nn_sum_all(b, x));
            continue;
        }
        const tpt_reduce_t r = tpt_reduce_all(b, x);
        tpt_lower_result(L, L->row->data == 0 ? tpt_reduce_norm(&r, p) : tpt_reduce_run(&r, TPT_IR_RED_MAX, r.x));
    }
}
