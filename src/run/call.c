/* call.c - the way of one op call: key, plan, record, cut. */
#include <string.h>

#include "run_internal.h"

static _Thread_local int defer_depth;
static _Thread_local int thread_mode = -1; /* -1: this thread never chose */
static atomic_int common_mode = -1;        /* of the thread that chose and called last; autograd's threads follow it */

tpt_mode_t tpt_mode_get(void) {
    if (thread_mode >= 0) return (tpt_mode_t)thread_mode;
    int mode = atomic_load_explicit(&common_mode, memory_order_relaxed);
    if (mode < 0) {
        mode = tpt_env_flag(TPT_ENV_DEFER_AND_FUSE) ? TPT_MODE_FUSED : tpt_env_flag(TPT_ENV_BLOCKING) ? TPT_MODE_DEBUG : TPT_MODE_STRICT;
        atomic_store_explicit(&common_mode, mode, memory_order_relaxed);
    }
    return (tpt_mode_t)mode;
}

void tpt_mode_set(tpt_mode_t mode) {
    thread_mode = (int)mode;
    atomic_store_explicit(&common_mode, (int)mode, memory_order_relaxed);
}
bool tpt_mode_defers(void) { return defer_depth > 0 || tpt_mode_get() == TPT_MODE_FUSED; }
void tpt_defer_push(void) { defer_depth++; }

tpt_status_t *tpt_defer_pop(int device) {
    if (defer_depth > 0) defer_depth--;
    return tpt_mode_defers() || !tpt_runtime_is_open() ? NULL : tpt_graph_cut(device, TPT_CUT_COMPOSITE);
}

tpt_status_t *tpt_graph_cut(int device, tpt_cut_reason_t why) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(device, &dev));
    tpt_mutex_lock(&dev->lock);
    tpt_status_t *status = tpt_graph_run(dev, why);
    tpt_mutex_unlock(&dev->lock);
    return status;
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

static tpt_status_t *check_numbers(const tpt_op_t *op, const tpt_arg_t *args) {
    for (int i = 0; i < op->nrefusals; i++) {
        int with = op->refusals[i].with, when = op->refusals[i].when;
        TPT_TRY(tpt_refusal_check(op->refusals[i].rule, &args[op->refusals[i].arg], with < 0 ? NULL : &args[with],
                                  when < 0 ? NULL : &args[when]));
    }
    return NULL;
}

tpt_status_t *tpt_call_begin(tpt_call_t *c, const tpt_op_t *op, const tpt_arg_t *args, int nargs, int device) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(device, &dev));
    if (nargs != op->nparams) return tpt_status_make(TPT_INTERNAL, "%s: %d arguments, the schema has %d", op->schema_name, nargs, op->nparams);
    if (op->nrefusals > 0) TPT_TRY(check_numbers(op, args));
    if (thread_mode >= 0) atomic_store_explicit(&common_mode, thread_mode, memory_order_relaxed);
    c->op = op;
    c->args = args;
    c->nargs = nargs;
    c->device = device;
    c->plan = NULL;
    c->nouts = 0;
    c->where = NULL;
    c->key = c->inline_key;
    c->key_words = 0;
    c->key_capacity = TPT_CALL_INLINE_KEY;
    c->numbers = c->inline_numbers;
    c->nnumbers = 0;
    c->numbers_capacity = TPT_CALL_INLINE_KEY;
    tpt_mutex_lock(&dev->lock); /* storages' types must not change meanwhile */
    tpt_status_t *status = tpt_key_make(c);
    tpt_mutex_unlock(&dev->lock);
    if (status) {
        tpt_call_end(c);
        return status;
    }
    c->plan = tpt_plan_find(c);
    if (c->plan) {
        c->nouts = c->plan->nouts;
        tpt_counter_add(TPT_COUNTER_plan_hits, 1);
    }
    return NULL;
}

tpt_status_t *tpt_call_plan(tpt_call_t *c, const tpt_spec_t *specs, int nspecs) {
    if (c->plan) return NULL;
    tpt_plan_t *plan;
    tpt_counter_add(TPT_COUNTER_plan_misses, 1);
    TPT_TRY(tpt_plan_make(c, specs, nspecs, &plan));
    TPT_TRY(tpt_plan_add(c, plan, &c->plan));
    c->nouts = c->plan->nouts;
    return NULL;
}

bool tpt_call_is_plain(const tpt_call_t *c) {
    return tpt_row_is_plain(c->op->row, c->nargs, c->args, c->op->names, c->op->fresh_outs);
}

const tpt_spec_t *tpt_call_spec(const tpt_call_t *c, int k) { return &c->plan->outs[k]; }

/* The one host read of an op whose output size depends on data. */
static tpt_status_t *read_count(tpt_call_t *c, tpt_storage_t *count) {
    int64_t n = 0;
    TPT_TRY(tpt_storage_to_host(count, 0, sizeof n, &n));
    for (int k = 0; k < 4 && k < c->nouts; k++) {
        int64_t room = c->plan->outs[k].rank > 0 ? c->plan->outs[k].sizes[0] : 0;
        /* A row's data marks outputs that keep their size (the inverse indices of unique). */
        bool fixed = c->op->row->data >> k & 1;
        c->dynamic_size[k] = n < room && !fixed ? n : room;
    }
    return NULL;
}

static void drop_outs(const tpt_call_t *c, tpt_storage_t **outs) {
    for (int k = 0; k < c->nouts; k++) {
        tpt_storage_release(outs[k]);
        outs[k] = NULL; /* the caller may release what it holds once more */
    }
}

/* Does the graph end with the node just recorded? */
static bool cuts_here(tpt_dev_t *dev, const tpt_call_t *c, tpt_cut_reason_t *out_why) {
    *out_why = c->plan->dynamic ? TPT_CUT_DYNAMIC : TPT_CUT_STRICT;
    if (c->plan->dynamic || !tpt_mode_defers()) return true;
    return defer_depth == 0 && tpt_fuse_watch(dev, out_why);
}

tpt_status_t *tpt_call_run(tpt_call_t *c, tpt_storage_t **outs) {
    if (!c->plan) return tpt_status_make(TPT_INTERNAL, "%s was run without a plan", c->op->schema_name);
    tpt_dev_t *dev = tpt_dev(c->device);
    tpt_storage_t *count = NULL;
    tpt_mutex_lock(&dev->lock);
    tpt_status_t *status = NULL;
    if (dev->graph.nnodes >= TPT_MAX_NODES) status = tpt_graph_run(dev, TPT_CUT_NODES);
    if (!status) status = tpt_graph_record(dev, c, outs, &count);
    bool recorded = !status;
    tpt_cut_reason_t why;
    if (!status && cuts_here(dev, c, &why)) status = tpt_graph_run(dev, why);
    tpt_mutex_unlock(&dev->lock);
    if (!status && count) status = read_count(c, count);
    if (count) tpt_storage_release(count);
    if (status && recorded) drop_outs(c, outs);
    return status;
}

void tpt_call_end(tpt_call_t *c) {
    if (c->key != c->inline_key) tpt_free(c->key);
    if (c->numbers != c->inline_numbers) tpt_free(c->numbers);
    c->key = c->inline_key;
    c->numbers = c->inline_numbers;
}

/* ---- text of one call ---------------------------------------------------------------------------------------------- */

tpt_status_t *tpt_call_text(tpt_call_t *c, char **out_text) {
    const tpt_plan_t *p = c->plan;
    if (!p) return tpt_status_make(TPT_FAILED_PRECONDITION, "%s has no plan yet", c->op->schema_name);
    size_t outputs = (size_t)(p->nouts + p->nwrites + p->dynamic), n = (size_t)p->ntensors + outputs;
    tpt_node_t node = {.plan = (tpt_plan_t *)p, .first_output = (uint32_t)p->ntensors};
    tpt_graph_t graph = {.nodes = &node, .nnodes = 1, .nvalues = n};
    tpt_value_t *values = tpt_calloc(n + 1, sizeof *values);
    int32_t *ids = tpt_calloc(2 * n + 1, sizeof *ids);
    tpt_status_t *status = values && ids ? NULL : tpt_status_oom(n * sizeof *values);
    tpt_prog_t *prog = NULL;
    if (!status) {
        for (size_t i = 0; i < n; i++) {
            ids[i] = (int32_t)i;
            ids[n + i] = -1;
            values[i].node = i < (size_t)p->ntensors ? -1 : 0;
            values[i].buffer = values[i].node < 0 ? (tpt_buffer_t *)(void *)values : NULL; /* only its presence counts here */
            values[i].type = i < (size_t)p->ntensors ? &p->tensors[i].base : NULL;
        }
        graph.values = values;
        graph.inputs = ids;
        tpt_cut_t cut = {.ninputs = p->ntensors, .nlive = (int)outputs, .inputs = ids, .live = ids + p->ntensors, .aliases = ids + n};
        status = tpt_prog_lower(&graph, &cut, &prog, out_text);
    }
    tpt_prog_free(prog);
    tpt_free(values);
    tpt_free(ids);
    return status;
}

void tpt_text_free(char *text) { tpt_free(text); }
