/* replay.c - runs the open graph node by node, with the very programs that strict mode would have used. The device lock is held
 * in all functions here. */
#include <string.h>

#include "run_internal.h"

typedef struct replay {
    tpt_dev_t *dev;
    tpt_graph_t *g;
    tpt_buffer_t **made; /* per value: what a node has made of it so far; owned */
    tpt_status_t **errors; /* per value: why it could not be made; owned */
    int32_t *last_use;   /* per value: the last node that reads or updates it; INT32_MAX: a storage's value */
    int32_t *local;      /* per value: its id in the one-node graph, while that is built */
    tpt_status_t *reported; /* an index that was out of range: values bear its flag, nothing has failed to run */
} replay_t;

static tpt_status_t *start(replay_t *r, tpt_dev_t *dev) {
    tpt_graph_t *g = &dev->graph;
    const size_t n = g->nvalues + 1;
    *r = (replay_t){.dev = dev, .g = g};
    r->made = tpt_calloc(n, sizeof *r->made);
    r->errors = tpt_calloc(n, sizeof *r->errors);
    r->last_use = tpt_calloc(n, sizeof *r->last_use);
    r->local = tpt_calloc(n, sizeof *r->local);
    if (!r->made || !r->errors || !r->last_use || !r->local) return tpt_status_oom(n * sizeof *r->made);
    for (size_t i = 0; i < g->nvalues; i++) {
        r->local[i] = -1;
        r->last_use[i] = g->values[i].owner ? INT32_MAX : -1;
    }
    return NULL;
}

static void finish(replay_t *r) {
    for (size_t i = 0; r->made && i < r->g->nvalues; i++) tpt_buffer_release(r->made[i]);
    for (size_t i = 0; r->errors && i < r->g->nvalues; i++) tpt_status_free(r->errors[i]);
    tpt_free(r->made);
    tpt_free(r->errors);
    tpt_free(r->last_use);
    tpt_free(r->local);
}

static int32_t input(const tpt_graph_t *g, const tpt_node_t *node, int t) { return g->inputs[node->first_input + (uint32_t)t]; }

/* Backwards: which nodes matter. A check of indices always does. */
static void find_uses(replay_t *r) {
    for (size_t i = r->g->nnodes; i-- > 0;) {
        const tpt_node_t *node = &r->g->nodes[i];
        bool matters = node->plan->flagged;
        for (uint32_t k = 0; k < node->noutputs; k++) matters = matters || r->last_use[node->first_output + k] >= 0;
        if (!matters) continue;
        for (int t = 0; t < node->plan->ntensors; t++)
            if (r->last_use[input(r->g, node, t)] < 0) r->last_use[input(r->g, node, t)] = (int32_t)i;
    }
}

static bool matters(const replay_t *r, const tpt_node_t *node) {
    bool used = node->plan->flagged;
    for (uint32_t k = 0; k < node->noutputs; k++) used = used || r->last_use[node->first_output + k] >= 0;
    return used;
}

/* ---- one node ------------------------------------------------------------------------------------------------------- */

/* The node as a graph of its own, numbered as recording it alone would have numbered it. */
static tpt_status_t *isolate(replay_t *r, const tpt_node_t *node, tpt_graph_t *s) {
    const tpt_plan_t *p = node->plan;
    const size_t values = (size_t)p->ntensors + node->noutputs;
    static tpt_storage_t *const somebody = (tpt_storage_t *)(uintptr_t)64; /* owners are only compared with NULL here */
    TPT_TRY(tpt_vec_reserve(&s->nodes, &s->nodes_capacity, 1, sizeof *s->nodes, 1));
    TPT_TRY(tpt_vec_reserve(&s->values, &s->values_capacity, values, sizeof *s->values, TPT_MAX_VALUES));
    TPT_TRY(tpt_vec_reserve(&s->inputs, &s->inputs_capacity, (size_t)p->ntensors, sizeof *s->inputs, TPT_MAX_VALUES));
    s->nnodes = 1;
    s->nvalues = s->ninputs = 0;
    for (int t = 0; t < p->ntensors; t++) {
        int32_t id = input(r->g, node, t);
        if (r->local[id] < 0) {
            tpt_value_t *v = &s->values[r->local[id] = (int32_t)s->nvalues++];
            *v = r->g->values[id];
            if (v->node >= 0) v->buffer = r->made[id];
            v->node = v->replaces = -1;
            v->owner = somebody;
        }
        s->inputs[s->ninputs++] = r->local[id];
    }
    s->nodes[0] = *node;
    s->nodes[0].first_input = 0;
    s->nodes[0].first_output = (uint32_t)s->nvalues;
    s->slots = r->g->slots; /* borrowed; first_slot counts in it */
    for (uint32_t k = 0; k < node->noutputs; k++) {
        tpt_value_t *v = &s->values[s->nvalues++];
        *v = r->g->values[node->first_output + k];
        v->node = 0;
        v->output = (int32_t)k;
        v->owner = somebody;
        v->replaces = v->replaces >= 0 ? r->local[v->replaces] : -1;
    }
    for (int t = 0; t < p->ntensors; t++) r->local[input(r->g, node, t)] = -1;
    return NULL;
}

/* The value's flag, from those of what the node read; a program that checks indices adds its own. */
static tpt_status_t *flag_outputs(replay_t *r, const tpt_node_t *node, const tpt_graph_t *s, const tpt_found_t *found, tpt_buffer_t *word) {
    uint64_t flag = 0;
    tpt_status_t *status = NULL;
    for (int t = 0; t < node->plan->ntensors; t++) {
        uint64_t f = r->g->values[input(r->g, node, t)].flag;
        if (f && f != flag && !node->plan->tensors[t].unread) flag = flag ? tpt_flag_join(r->dev, flag, f) : f;
    }
    if (found->prog->flagged) status = tpt_flags_add(r->dev, s, found->prog, word, flag, &flag);
    for (uint32_t k = 0; k < node->noutputs; k++) r->g->values[node->first_output + k].flag = flag;
    return status;
}

static tpt_status_t *run_single(replay_t *r, const tpt_node_t *node, tpt_graph_t *s) {
    tpt_decided_t d;
    tpt_found_t found;
    tpt_run_t run = {.heap = NULL};
    TPT_TRY(isolate(r, node, s));
    TPT_TRY(tpt_cut_decide(s, &d));
    tpt_status_t *status = tpt_cut_find(s, &d.cut, &found);
    if (!status) status = tpt_cut_program(r->dev, s, &d.cut, &found, true);
    if (!status) status = tpt_cut_execute(r->dev, s, found.prog, &d.cut, &run);
    if (!status) {
        for (int k = 0; k < d.cut.nlive; k++) r->made[node->first_output + (uint32_t)k] = run.outs[k];
        r->reported = tpt_status_join(r->reported, flag_outputs(r, node, s, &found, run.outs[d.cut.nlive]));
    }
    tpt_free(run.heap);
    tpt_free(d.heap);
    return status;
}

/* The error of something that the node reads, or NULL. */
static const tpt_status_t *poison(const replay_t *r, const tpt_node_t *node) {
    for (int t = 0; t < node->plan->ntensors; t++)
        if (r->errors[input(r->g, node, t)] && !node->plan->tensors[t].unread) return r->errors[input(r->g, node, t)];
    return NULL;
}

static void let_go(replay_t *r, int32_t id) {
    tpt_buffer_release(r->made[id]);
    r->made[id] = NULL;
}

static tpt_status_t *run_node(replay_t *r, size_t i, tpt_graph_t *s) {
    const tpt_node_t *node = &r->g->nodes[i];
    const tpt_status_t *why = poison(r, node);
    tpt_status_t *status = why ? tpt_status_copy(why) : run_single(r, node, s);
    if (status)
        for (uint32_t k = 0; k < node->noutputs; k++) r->errors[node->first_output + k] = tpt_status_copy(status);
    if (why) { /* reported where it began */
        tpt_status_free(status);
        status = NULL;
    }
    for (int t = 0; t < node->plan->ntensors; t++) {
        int32_t id = input(r->g, node, t);
        bool kept_for_repair = status != NULL || why != NULL; /* an updated storage may need its last good value */
        if (r->last_use[id] == (int32_t)i && !kept_for_repair) let_go(r, id);
    }
    for (uint32_t k = 0; k < node->noutputs; k++)
        if (r->last_use[node->first_output + k] < 0) let_go(r, (int32_t)(node->first_output + k));
    return status;
}

/* ---- all ------------------------------------------------------------------------------------------------------------ */

/* A storage gets its value; after an error the last good one it had, or the error. */
static void hand_over(replay_t *r, int32_t id) {
    tpt_storage_t *s = r->g->values[id].owner;
    int32_t good = id;
    while (r->errors[good] && r->g->values[good].replaces >= 0) good = r->g->values[good].replaces;
    tpt_status_free(s->error);
    s->error = NULL;
    s->pending = false;
    if (r->errors[good]) {
        s->error = tpt_status_copy(r->errors[good]);
        return;
    }
    s->flag = r->g->values[good].flag;
    s->buffer = r->g->values[good].node < 0 ? r->g->values[good].buffer : r->made[good];
    if (s->buffer) tpt_buffer_retain(s->buffer);
}

tpt_status_t *tpt_replay(tpt_dev_t *dev, const tpt_cut_t *cut) {
    replay_t r;
    tpt_graph_t *single = &dev->single;
    tpt_status_t *status = start(&r, dev);
    if (status) {
        tpt_roll_back(&dev->graph, cut, status);
        finish(&r);
        return status;
    }
    find_uses(&r);
    for (size_t i = 0; i < r.g->nnodes; i++)
        if (matters(&r, &r.g->nodes[i])) status = tpt_status_join(status, run_node(&r, i, single));
    for (int k = 0; k < cut->nlive; k++) hand_over(&r, cut->live[k]);
    status = tpt_status_join(status, r.reported);
    finish(&r);
    single->slots = NULL;
    single->nnodes = single->nvalues = single->ninputs = 0;
    return status;
}
