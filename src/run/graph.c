/* graph.c - recording: an op call becomes a node of the device's open graph. The device lock is held in all functions here. */
#include <string.h>

#include "run_internal.h"

/* ---- values -------------------------------------------------------------------------------------------------------- */

static bool is_current(const tpt_graph_t *g, const tpt_storage_t *s) { return s->epoch == g->epoch; }

/* The id of the storage's value in this graph; its buffer becomes an input at first use. Room was reserved. */
static int32_t value_of(tpt_graph_t *g, tpt_storage_t *s, const tpt_type_t *type) {
    if (is_current(g, s)) return s->value;
    int32_t id = (int32_t)g->nvalues++;
    tpt_value_t *v = &g->values[id];
    *v = (tpt_value_t){.owner = s, .node = -1, .replaces = -1, .buffer = s->buffer, .type = type, .flag = s->flag};
    if (s->buffer) tpt_buffer_retain(s->buffer);
    s->epoch = g->epoch;
    s->value = id;
    return id;
}

static void disown(tpt_graph_t *g, tpt_value_t *v) {
    if (v->node >= 0) {
        g->nowned--;
        g->bytes -= v->owner->nbytes;
    }
    v->owner = NULL;
}

static void set_output(tpt_graph_t *g, tpt_storage_t *s, const tpt_type_t *type, int32_t id, int node, int output, int32_t replaces) {
    tpt_value_t *v = &g->values[id];
    *v = (tpt_value_t){.owner = s, .node = node, .output = output, .replaces = replaces, .type = type};
    if (replaces >= 0 && g->values[replaces].owner == s) disown(g, &g->values[replaces]);
    g->nowned++;
    g->bytes += s->nbytes;
    tpt_buffer_release(s->buffer); /* the graph keeps its own reference of an input */
    s->buffer = NULL;
    s->epoch = g->epoch;
    s->value = id;
    s->pending = true;
}

/* Follows in-place updates back to the storage's value before this graph. */
int32_t tpt_graph_first(const tpt_graph_t *g, int32_t id) {
    while (g->values[id].replaces >= 0) id = g->values[id].replaces;
    return id;
}

void tpt_graph_forget(tpt_graph_t *g, tpt_storage_t *s) {
    if (!is_current(g, s)) return;
    if (g->values[s->value].owner == s) disown(g, &g->values[s->value]);
    s->epoch = 0;
    s->pending = false;
}

void tpt_graph_reset(tpt_graph_t *g) {
    for (size_t i = 0; i < g->nvalues; i++) tpt_buffer_release(g->values[i].buffer);
    g->nnodes = g->nvalues = g->ninputs = g->nslots = g->nowned = 0;
    g->bytes = 0;
    g->epoch++;
}

void tpt_graph_free(tpt_graph_t *g) {
    tpt_free(g->nodes);
    tpt_free(g->values);
    tpt_free(g->inputs);
    tpt_free(g->slots);
    tpt_free(g->key);
    memset(g, 0, sizeof *g);
}

/* Of a row whose output size depends on data: one number. */
static const tpt_type_t count_type = {.dtype = TPT_I64};

/* ---- recording ----------------------------------------------------------------------------------------------------- */

static tpt_status_t *reserve(tpt_graph_t *g, const tpt_plan_t *p, uint32_t noutputs) {
    size_t values = g->nvalues + (size_t)p->ntensors + noutputs;
    TPT_TRY(tpt_vec_reserve(&g->nodes, &g->nodes_capacity, g->nnodes + 1, sizeof *g->nodes, TPT_MAX_NODES + 1));
    TPT_TRY(tpt_vec_reserve(&g->values, &g->values_capacity, values, sizeof *g->values, TPT_MAX_VALUES));
    TPT_TRY(tpt_vec_reserve(&g->inputs, &g->inputs_capacity, g->ninputs + (size_t)p->ntensors, sizeof *g->inputs, TPT_MAX_VALUES));
    return tpt_vec_reserve(&g->slots, &g->slots_capacity, g->nslots + p->nslots, 2 * sizeof *g->slots, TPT_MAX_SLOTS);
}

static const tpt_tensor_t *tensor_at(const tpt_call_t *c, const tpt_plan_tensor_t *pt) {
    const tpt_arg_t *a = &c->args[pt->arg];
    return a->kind == TPT_ARG_TENSOR ? &a->u.tensor : &a->u.tensors[pt->item];
}

static tpt_status_t *check_inputs(const tpt_dev_t *dev, const tpt_call_t *c) {
    const tpt_plan_t *p = c->plan;
    for (int t = 0; t < p->ntensors; t++) {
        const tpt_storage_t *s = tensor_at(c, &p->tensors[t])->storage;
        if (s->device != dev->index)
            return tpt_status_make(TPT_INVALID_ARGUMENT,
                                   "Expected all tensors to be on the same device, but found at least two devices, tpu:%d and tpu:%d!",
                                   dev->index, s->device);
        if (s->error) return tpt_status_annotate(tpt_status_copy(s->error), "%s reads a value that could not be made", c->op->schema_name);
        if (!tpt_type_equal(&s->type, &p->tensors[t].base)) /* resized between key and run: another thread */
            return tpt_status_make(TPT_ABORTED, "%s: a tensor was resized by another thread during the call", c->op->schema_name);
    }
    return NULL;
}

static tpt_status_t *make_outputs(tpt_dev_t *dev, const tpt_plan_t *p, tpt_storage_t **outs, tpt_storage_t **out_count) {
    int made = 0;
    tpt_status_t *status = NULL;
    for (; !status && made < p->nouts; made++) status = tpt_storage_make(dev, &p->out_types[made], &outs[made]);
    if (status) made--;
    if (!status && p->dynamic) {
        status = tpt_storage_make(dev, &count_type, out_count);
    }
    if (status)
        for (int k = 0; k < made; k++) tpt_storage_drop(dev, outs[k]);
    return status;
}

tpt_status_t *tpt_graph_record(tpt_dev_t *dev, tpt_call_t *c, tpt_storage_t **outs, tpt_storage_t **out_count) {
    tpt_graph_t *g = &dev->graph;
    tpt_plan_t *p = c->plan;
    uint32_t noutputs = (uint32_t)(p->nouts + p->nwrites + p->dynamic);
    TPT_TRY(check_inputs(dev, c));
    TPT_TRY(reserve(g, p, noutputs));
    TPT_TRY(make_outputs(dev, p, outs, out_count));
    int index = (int)g->nnodes++;
    tpt_node_t *node = &g->nodes[index];
    node->plan = p;
    node->first_input = (uint32_t)g->ninputs;
    node->first_slot = (uint32_t)g->nslots;
    node->noutputs = noutputs;
    node->where[0] = '\0';
    if (c->where) {
        size_t n = strlen(c->where);
        if (n >= sizeof node->where) n = sizeof node->where - 1;
        memcpy(node->where, c->where, n);
        node->where[n] = '\0';
    }
    for (int t = 0; t < p->ntensors; t++) g->inputs[g->ninputs++] = value_of(g, tensor_at(c, &p->tensors[t])->storage, &p->tensors[t].base);
    if (p->nslots) memcpy(g->slots + 2 * g->nslots, c->numbers, 2 * (size_t)p->nslots * sizeof *g->slots);
    g->nslots += p->nslots;
    node->first_output = (uint32_t)g->nvalues;
    g->nvalues += noutputs;
    int32_t id = (int32_t)node->first_output;
    for (int k = 0; k < p->nouts; k++, id++) set_output(g, outs[k], &p->out_types[k], id, index, k, -1);
    for (int k = 0; k < p->nwrites; k++, id++) {
        tpt_storage_t *s = tensor_at(c, &p->tensors[p->writes[k]])->storage;
        set_output(g, s, &p->tensors[p->writes[k]].base, id, index, p->nouts + k, s->value);
    }
    if (p->dynamic) set_output(g, *out_count, &count_type, id, index, p->nouts + p->nwrites, -1);
    return NULL;
}
