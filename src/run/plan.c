/* plan.c - bound ops, and plans: all that stays the same in every call of one op with the same types. */
#include <stdio.h>
#include <string.h>

#include "run_internal.h"

#define MAX_PLANS (1 << 20)

static tpt_mutex_t plans_lock = TPT_MUTEX_INIT;
static tpt_map_t plans = {.max = MAX_PLANS};
static atomic_uint_fast64_t next_op = 1, next_plan = 1;
static tpt_op_t *all_ops; /* guarded by plans_lock */

/* ---- bound ops ----------------------------------------------------------------------------------------------------- */

static bool listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " ") == n && memcmp(p, name, n) == 0) return true;
    return false;
}

bool tpt_op_number_is_static(const struct tpt_op *op, int i, const tpt_number_t *n) {
    if (i >= 64) return false;
    if (op->statics >> i & 1) return true;
    if (!(op->ones >> i & 1) || tpt_dtype_is_complex((tpt_dtype_t)n->dtype)) return false;
    return tpt_dtype_is_float((tpt_dtype_t)n->dtype) ? n->v.f[0] == 1 : n->v.i == 1;
}

static void free_op(tpt_op_t *op) {
    if (!op) return;
    for (int i = 0; op->params && i < op->nparams; i++) tpt_free((char *)op->params[i].name);
    tpt_free(op->params);
    tpt_free(op->names);
    tpt_free(op->schema_name);
    tpt_free(op);
}

static char *copy_text(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = tpt_malloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

static int param_index(const tpt_op_t *op, const char *name) {
    for (int i = 0; name && i < op->nparams; i++)
        if (strcmp(op->names[i], name) == 0) return i;
    return -1;
}

static void bind_refusals(tpt_op_t *op) {
    const tpt_refusal_t *first;
    int count = tpt_refusals_of(op->row, &first);
    for (int i = 0; i < count && op->nrefusals < TPT_MAX_REFUSALS; i++) {
        const tpt_refusal_t *rule = tpt_refusal_at(first, i);
        int arg = param_index(op, tpt_refusal_arg(rule)), k = op->nrefusals;
        if (arg < 0 || !tpt_refusal_is_of_numbers(rule)) continue;
        op->refusals[k].rule = rule;
        op->refusals[k].arg = arg;
        op->refusals[k].with = param_index(op, tpt_refusal_with(rule));
        op->refusals[k].when = param_index(op, tpt_refusal_when(rule));
        op->nrefusals++;
    }
}

tpt_status_t *tpt_op_bind(const tpt_row_t *row, const char *schema_name, int nparams, const tpt_param_t *params,
                          bool fresh_outs, tpt_op_t **out_op) {
    if (nparams < 0 || nparams > 255) return tpt_status_make(TPT_INVALID_ARGUMENT, "%s has %d parameters", schema_name, nparams);
    tpt_op_t *op = tpt_calloc(1, sizeof *op);
    if (!op) return tpt_status_oom(sizeof *op);
    op->id = atomic_fetch_add(&next_op, 1);
    op->row = row;
    op->nparams = nparams;
    op->fresh_outs = fresh_outs;
    op->schema_name = copy_text(schema_name);
    op->params = tpt_calloc((size_t)nparams + 1, sizeof *op->params);
    op->names = tpt_calloc((size_t)nparams + 1, sizeof *op->names);
    bool ok = op->schema_name && op->params && op->names;
    for (int i = 0; ok && i < nparams; i++) {
        op->params[i].is_write = params[i].is_write;
        op->params[i].name = op->names[i] = copy_text(params[i].name);
        ok = op->names[i] != NULL;
        if (ok && i < 64 && listed(row->statics, params[i].name)) op->statics |= UINT64_C(1) << i;
        if (ok && i < 64 && row->statics && strstr(row->statics, "=1")) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s=1", params[i].name);
            if (listed(row->statics, name)) op->ones |= UINT64_C(1) << i;
        }
    }
    if (!ok) {
        free_op(op);
        return tpt_status_oom(sizeof *op);
    }
    bind_refusals(op);
    tpt_mutex_lock(&plans_lock);
    op->next = all_ops;
    all_ops = op;
    tpt_mutex_unlock(&plans_lock);
    *out_op = op;
    return NULL;
}

/* ---- making a plan ------------------------------------------------------------------------------------------------- */

static char some_storage; /* stands for "not None" in a plan's copies */

static tpt_status_t *no_room(void) { return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "out of host memory while planning an op"); }

static tpt_status_t *copy_tensor(tpt_plan_t *p, tpt_tensor_t *to, const tpt_tensor_t *from) {
    *to = *from;
    to->storage = from->storage ? (tpt_storage_t *)(void *)&some_storage : NULL;
    to->sizes = tpt_arena_copy(&p->arena, from->sizes, (size_t)from->rank * sizeof *from->sizes);
    to->strides = tpt_arena_copy(&p->arena, from->strides, (size_t)from->rank * sizeof *from->strides);
    to->offset = 0;
    if (from->storage && from->rank > 0 && (!to->sizes || !to->strides)) return no_room();
    return NULL;
}

static tpt_status_t *plan_tensor(tpt_plan_t *p, int arg, int item, const tpt_tensor_t *t) {
    if (!t->storage) return NULL;
    tpt_plan_tensor_t *pt = &p->tensors[p->ntensors++];
    int64_t starts[TPT_MAX_RANK];
    pt->arg = arg;
    pt->item = item;
    pt->base = t->storage->type;
    pt->first_slot = p->nslots;
    TPT_TRY(tpt_view_classify(&pt->base, t, &pt->view, starts));
    p->nslots += (uint32_t)pt->view.nstarts;
    return NULL;
}

static void forget_value(tpt_number_t *n) {
    const bool twisted = tpt_number_is_twisted(n);
    memset(&n->v, 0, sizeof n->v);
    if (twisted) n->v.f[1] = 1;
}

static tpt_status_t *copy_arg(tpt_plan_t *p, const tpt_call_t *c, int i) {
    const tpt_arg_t *from = &c->args[i];
    tpt_arg_t *to = &p->args[i];
    bool keep = i < 64 && (c->op->statics >> i & 1);
    size_t n = (size_t)(from->count > 0 ? from->count : 0);
    *to = *from;
    p->arg_slot[i] = p->nslots;
    p->arg_tensor[i] = p->ntensors;
    switch ((tpt_arg_kind_t)from->kind) {
        case TPT_ARG_TENSOR:
            TPT_TRY(copy_tensor(p, &to->u.tensor, &from->u.tensor));
            return plan_tensor(p, i, 0, &from->u.tensor);
        case TPT_ARG_TENSORS: {
            tpt_tensor_t *list = tpt_arena_alloc(&p->arena, (n + 1) * sizeof *list);
            if (!list) return no_room();
            to->u.tensors = list;
            for (size_t k = 0; k < n; k++) {
                TPT_TRY(copy_tensor(p, &list[k], &from->u.tensors[k]));
                TPT_TRY(plan_tensor(p, i, (int)k, &from->u.tensors[k]));
            }
            return NULL;
        }
        case TPT_ARG_NUMBER:
            if (!tpt_op_number_is_static(c->op, i, &from->u.number)) {
                forget_value(&to->u.number);
                p->nslots++;
            }
            return NULL;
        case TPT_ARG_NUMBERS: {
            tpt_number_t *list = tpt_arena_alloc(&p->arena, (n + 1) * sizeof *list);
            if (!list) return no_room();
            to->u.numbers = list;
            for (size_t k = 0; k < n; k++) {
                list[k] = from->u.numbers[k];
                if (!keep) forget_value(&list[k]);
            }
            bool equal = tpt_key_numbers_equal(c->op, i, from);
            if (equal) p->equal_numbers |= UINT64_C(1) << i;
            if (!keep) p->nslots += equal ? 1 : (uint32_t)n;
            return NULL;
        }
        case TPT_ARG_INTS:
        case TPT_ARG_BOOLS:
            to->u.ints = tpt_arena_copy(&p->arena, from->u.ints, n * sizeof *from->u.ints);
            return n && !to->u.ints ? no_room() : NULL;
        case TPT_ARG_STRING: {
            char *text = tpt_arena_alloc(&p->arena, n + 1);
            if (!text) return no_room();
            if (n) memcpy(text, from->u.string.text, n);
            to->u.string.text = text;
            return NULL;
        }
        case TPT_ARG_RNG: p->nslots++; return NULL;
        default: return NULL;
    }
}

static size_t count_tensors(const tpt_call_t *c) {
    size_t n = 0;
    for (int i = 0; i < c->nargs; i++)
        n += c->args[i].kind == TPT_ARG_TENSOR ? 1 : c->args[i].kind == TPT_ARG_TENSORS ? (size_t)c->args[i].count : 0;
    return n;
}

/* Dims of a dense permuted tensor as they lie in memory (ones first): false when there are holes or repeats. */
static bool dense_order(const tpt_spec_t *spec, int *order) {
    int n = 0, ones = 0;
    int64_t want = 1;
    for (int d = 0; d < spec->rank; d++) ones += spec->sizes[d] == 1;
    for (int d = 0, one = 0; d < spec->rank; d++) {
        if (spec->sizes[d] == 1) {
            order[one++] = d;
            continue;
        }
        int at = ones + n++;
        for (; at > ones && spec->strides[order[at - 1]] < spec->strides[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = spec->rank - 1; i >= ones; i--) {
        if (spec->strides[order[i]] != want) return false;
        want *= spec->sizes[order[i]];
    }
    return true;
}

/* The storage's dims. Tensors that are not dense are made contiguous. */
static void storage_order(tpt_spec_t *spec, tpt_type_t *type) {
    int order[TPT_MAX_RANK];
    int64_t dims[TPT_MAX_RANK], stride = 1;
    bool dense = dense_order(spec, order), sorted = true;
    for (int i = 0, last = -1; dense && i < spec->rank; i++) {
        if (spec->sizes[order[i]] == 1) continue;
        sorted = sorted && order[i] > last;
        last = order[i];
    }
    for (int i = spec->rank - 1; i >= 0; i--) {
        dims[i] = spec->sizes[dense && !sorted ? order[i] : i];
        if (!dense) spec->strides[i] = stride;
        stride *= spec->sizes[i] > 1 ? spec->sizes[i] : 1;
    }
    *type = tpt_type_make((tpt_dtype_t)spec->dtype, spec->rank, dims);
}

static tpt_status_t *plan_outs(tpt_plan_t *p, const tpt_spec_t *specs, int nspecs) {
    p->nouts = nspecs;
    p->outs = tpt_arena_copy(&p->arena, specs, (size_t)nspecs * sizeof *specs);
    p->out_types = tpt_arena_alloc(&p->arena, ((size_t)nspecs + 1) * sizeof *p->out_types);
    if ((nspecs && !p->outs) || !p->out_types) return no_room();
    for (int k = 0; k < nspecs; k++) storage_order(&p->outs[k], &p->out_types[k]);
    return NULL;
}

static bool extra_write(const tpt_plan_t *p, const char *name) {
    const tpt_row_t *row = p->op->row;
    if (!listed(row->writes, name)) return false;
    if (!row->writes_if) return true;
    for (int i = 0; i < p->nargs; i++)
        if (strcmp(p->op->names[i], row->writes_if) == 0) return p->args[i].kind == TPT_ARG_BOOL && p->args[i].u.i != 0;
    return false;
}

static tpt_status_t *plan_writes(tpt_plan_t *p) {
    p->writes = tpt_arena_alloc(&p->arena, ((size_t)p->ntensors + 1) * sizeof *p->writes);
    if (!p->writes) return no_room();
    for (int pass = 0; pass < 2; pass++) /* the schema's own first, then the row's extra ones */
        for (int t = 0; t < p->ntensors; t++) {
            const tpt_param_t *param = &p->op->params[p->tensors[t].arg];
            if (pass == 0 ? param->is_write : !param->is_write && extra_write(p, param->name)) p->writes[p->nwrites++] = t;
        }
    return NULL;
}

static tpt_status_t *fill_plan(tpt_plan_t *p, const tpt_call_t *c, const tpt_spec_t *specs, int nspecs) {
    size_t tensors = count_tensors(c), args = (size_t)c->nargs + 1;
    p->args = tpt_arena_alloc(&p->arena, args * sizeof *p->args);
    p->arg_slot = tpt_arena_alloc(&p->arena, args * sizeof *p->arg_slot);
    p->arg_tensor = tpt_arena_alloc(&p->arena, args * sizeof *p->arg_tensor);
    p->tensors = tpt_arena_alloc(&p->arena, (tensors + 1) * sizeof *p->tensors);
    if (!p->args || !p->arg_slot || !p->arg_tensor || !p->tensors) return no_room();
    for (int i = 0; i < c->nargs; i++) TPT_TRY(copy_arg(p, c, i));
    p->dynamic = p->op->row->flags & TPT_ROW_DYNAMIC;
    TPT_TRY(plan_writes(p));
    if (p->op->fresh_outs && specs) TPT_TRY(plan_outs(p, specs, nspecs));
    return tpt_prog_try_plan(p);
}

tpt_status_t *tpt_plan_make(tpt_call_t *c, const tpt_spec_t *specs, int nspecs, tpt_plan_t **out_plan) {
    tpt_plan_t *p = tpt_calloc(1, sizeof *p);
    if (!p) return tpt_status_oom(sizeof *p);
    tpt_arena_init(&p->arena, (size_t)1 << 28);
    p->id = atomic_fetch_add(&next_plan, 1);
    p->op = c->op;
    p->nargs = c->nargs;
    p->hash = c->hash;
    p->key_words = c->key_words;
    p->precision = tpt_precision_get();
    p->index_checks = tpt_index_checks_on();
    p->key = tpt_arena_copy(&p->arena, c->key, c->key_words * sizeof *c->key);
    tpt_status_t *status = p->key ? fill_plan(p, c, specs, nspecs) : no_room();
    if (status) {
        tpt_plan_free(p);
        return status;
    }
    *out_plan = p;
    return NULL;
}

/* Called by tpt_prog_try_plan for rows that type their own outputs. */
tpt_status_t *tpt_plan_set_outs(tpt_plan_t *p, const tpt_spec_t *specs, int nspecs) { return plan_outs(p, specs, nspecs); }

void tpt_plan_free(tpt_plan_t *plan) {
    if (!plan) return;
    tpt_arena_free(&plan->arena);
    tpt_free(plan);
}

/* ---- the table of plans -------------------------------------------------------------------------------------------- */

static bool is_plan_of(const tpt_plan_t *p, const tpt_call_t *c) {
    return p && p->hash == c->hash && p->key_words == c->key_words && memcmp(p->key, c->key, c->key_words * sizeof *c->key) == 0;
}

/* Another thread may overwrite a recent plan at any time; what was loaded stays valid. */
static void make_recent(tpt_op_t *op, tpt_plan_t *plan) {
    tpt_plan_t *newest = atomic_load_explicit(&op->recent[0], memory_order_relaxed);
    if (newest == plan) return;
    atomic_store_explicit(&op->recent[1], newest, memory_order_release);
    atomic_store_explicit(&op->recent[0], plan, memory_order_release);
}

tpt_plan_t *tpt_plan_find(const tpt_call_t *c) {
    tpt_op_t *op = (tpt_op_t *)c->op;
    for (int i = 0; i < 2; i++) {
        tpt_plan_t *recent = atomic_load_explicit(&op->recent[i], memory_order_acquire);
        if (is_plan_of(recent, c)) return recent;
    }
    tpt_mutex_lock(&plans_lock);
    tpt_plan_t *plan = tpt_map_get(&plans, c->hash, c->key, c->key_words);
    tpt_mutex_unlock(&plans_lock);
    if (plan) make_recent(op, plan);
    return plan;
}

tpt_status_t *tpt_plan_add(const tpt_call_t *c, tpt_plan_t *plan, tpt_plan_t **out_kept) {
    tpt_mutex_lock(&plans_lock);
    tpt_plan_t *before = tpt_map_get(&plans, c->hash, c->key, c->key_words);
    tpt_status_t *status = before ? NULL : tpt_map_put(&plans, c->hash, c->key, c->key_words, plan);
    tpt_mutex_unlock(&plans_lock);
    if (before || status) tpt_plan_free(plan);
    *out_kept = before ? before : plan; /* another thread was first */
    return status;
}

static void forget_progs(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_plan_t *plan = entry->value;
    plan->last[0] = plan->last[1] = NULL;
}

void tpt_plans_forget_progs(void) {
    tpt_mutex_lock(&plans_lock);
    tpt_map_each(&plans, forget_progs, NULL);
    tpt_mutex_unlock(&plans_lock);
}

static void drop_plan(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_plan_free(entry->value);
}

void tpt_plans_clear(void) {
    tpt_mutex_lock(&plans_lock);
    for (tpt_op_t *op = all_ops; op; op = op->next)
        for (int i = 0; i < 2; i++) atomic_store(&op->recent[i], NULL);
    tpt_map_each(&plans, drop_plan, NULL);
    tpt_map_free(&plans);
    tpt_map_init(&plans, MAX_PLANS);
    tpt_mutex_unlock(&plans_lock);
}
