/* cut.c - the open graph becomes one program and runs. The device lock is held in all functions here.
 *
 * Only what a storage still owns leaves the program; values nobody can see any more never do. */
#include <string.h>

#include "run_internal.h"

#define SMALL_ARGS 48

/* ---- what goes in and out ------------------------------------------------------------------------------------------ */

/* Follows in-place updates back to the storage's value before this graph. */
static int32_t first_of(const tpt_graph_t *g, int32_t id) {
    while (g->values[id].replaces >= 0) id = g->values[id].replaces;
    return id;
}

typedef struct decided {
    tpt_cut_t cut;
    int32_t *inputs, *live, *aliases;
    int32_t room[3 * SMALL_ARGS];
    int32_t *heap;
} decided_t;

static tpt_status_t *decide(tpt_graph_t *g, decided_t *d) {
    size_t n = g->nvalues;
    d->heap = NULL;
    int32_t *room = d->room;
    if (n > SMALL_ARGS) {
        room = d->heap = tpt_malloc(3 * n * sizeof *room);
        if (!room) return tpt_status_oom(3 * n * sizeof *room);
    }
    d->inputs = room;
    d->live = room + n;
    d->aliases = room + 2 * n;
    int ninputs = 0, nlive = 0;
    for (size_t i = 0; i < n; i++) {
        tpt_value_t *v = &g->values[i];
        if (v->node < 0 && v->buffer) {
            d->aliases[ninputs] = -1;
            d->inputs[ninputs++] = (int32_t)i;
        } else if (v->node >= 0 && v->owner) {
            d->live[nlive++] = (int32_t)i;
        }
    }
    for (int k = 0; k < nlive; k++) { /* an updated storage's old buffer may become the new one */
        int32_t first = first_of(g, d->live[k]);
        if (first == d->live[k] || g->values[first].node >= 0 || !g->values[first].buffer) continue;
        if (!tpt_type_equal(g->values[first].type, g->values[d->live[k]].type)) continue;
        for (int i = 0; i < ninputs; i++)
            if (d->inputs[i] == first) d->aliases[i] = k;
    }
    d->cut = (tpt_cut_t){.ninputs = ninputs, .nlive = nlive, .inputs = d->inputs, .live = d->live, .aliases = d->aliases};
    return NULL;
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

/* Two graphs with equal words are the same program: plans, wiring, which inputs exist, what is live, what may be donated. */
static tpt_status_t *make_key(tpt_graph_t *g, const tpt_cut_t *cut, uint32_t *out_words) {
    size_t most = 1 + 2 * g->nnodes + g->ninputs + (size_t)cut->nlive + (size_t)cut->ninputs;
    TPT_TRY(tpt_vec_reserve(&g->key, &g->key_capacity, most, sizeof *g->key, (size_t)TPT_MAX_VALUES * 4));
    uint64_t *w = g->key;
    *w++ = (uint64_t)g->nnodes << 32 | (uint32_t)cut->nlive;
    for (size_t i = 0; i < g->nnodes; i++) {
        const tpt_node_t *node = &g->nodes[i];
        *w++ = node->plan->id;
        *w++ = node->first_output;
        for (int t = 0; t < node->plan->ntensors; t++) {
            int32_t id = g->inputs[node->first_input + (uint32_t)t];
            bool zeros = g->values[id].node < 0 && !g->values[id].buffer;
            *w++ = (uint64_t)(uint32_t)id | (uint64_t)zeros << 32;
        }
    }
    for (int k = 0; k < cut->nlive; k++) *w++ = (uint32_t)cut->live[k];
    for (int i = 0; i < cut->ninputs; i++) *w++ = (uint32_t)cut->inputs[i] | (uint64_t)(uint32_t)cut->aliases[i] << 32;
    *out_words = (uint32_t)(w - g->key);
    return NULL;
}

static tpt_status_t *make_prog(tpt_dev_t *dev, const tpt_cut_t *cut, tpt_prog_t **out_prog) {
    char *text = NULL;
    tpt_counter_add(TPT_COUNTER_program_misses, 1);
    TPT_TRY(tpt_prog_lower(&dev->graph, cut, out_prog, &text));
    tpt_log(TPT_LOG_DEBUG, "compiling\n%s", text);
    tpt_status_t *status = tpt_prog_compile(*out_prog, text, dev->index);
    tpt_free(text);
    if (status) tpt_prog_free(*out_prog);
    return status;
}

static tpt_status_t *find_prog(tpt_dev_t *dev, const tpt_cut_t *cut, tpt_prog_t **out_prog) {
    tpt_graph_t *g = &dev->graph;
    uint32_t words;
    TPT_TRY(make_key(g, cut, &words));
    tpt_plan_t *single = g->nnodes == 1 ? g->nodes[0].plan : NULL;
    for (int i = 0; single && i < 2; i++) {
        tpt_prog_t *last = single->last[i];
        if (last && last->key_words == words && memcmp(last->key, g->key, words * sizeof *g->key) == 0) {
            *out_prog = last;
            tpt_counter_add(TPT_COUNTER_program_hits, 1);
            return NULL;
        }
    }
    uint64_t hash = tpt_hash64(g->key, words * sizeof *g->key);
    *out_prog = tpt_prog_find(hash, g->key, words);
    if (*out_prog) {
        tpt_counter_add(TPT_COUNTER_program_hits, 1);
    } else {
        TPT_TRY(make_prog(dev, cut, out_prog));
        tpt_status_t *status = tpt_prog_add(hash, g->key, words, *out_prog);
        if (status) {
            tpt_prog_free(*out_prog);
            return status;
        }
    }
    if (single) {
        single->last[1] = single->last[0];
        single->last[0] = *out_prog;
    }
    return NULL;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

typedef struct run {
    int nargs, nkeep;
    tpt_buffer_t **args, **outs;
    int64_t *keep;
    tpt_buffer_t *room[2 * (SMALL_ARGS + TPT_PACK_COUNT + 1)];
    int64_t keep_room[SMALL_ARGS];
    void *heap;
} run_t;

static tpt_status_t *run_room(run_t *r, int nargs, int nouts, int ninputs) {
    r->nargs = r->nkeep = 0;
    r->heap = NULL;
    r->args = r->room;
    r->outs = r->room + SMALL_ARGS + TPT_PACK_COUNT + 1;
    r->keep = r->keep_room;
    if (nargs <= SMALL_ARGS + TPT_PACK_COUNT && nouts <= SMALL_ARGS + 1 && ninputs <= SMALL_ARGS) return NULL;
    size_t bytes = ((size_t)nargs + (size_t)nouts) * sizeof *r->args + (size_t)ninputs * sizeof *r->keep;
    r->heap = tpt_malloc(bytes);
    if (!r->heap) return tpt_status_oom(bytes);
    r->keep = r->heap;
    r->args = (tpt_buffer_t **)(void *)(r->keep + ninputs);
    r->outs = r->args + nargs;
    return NULL;
}

/* An old value is donated when this graph holds the only reference to it. */
static void gather_inputs(const tpt_graph_t *g, const tpt_cut_t *cut, bool donate, run_t *r) {
    for (int i = 0; i < cut->ninputs; i++) {
        tpt_buffer_t *b = g->values[cut->inputs[i]].buffer;
        r->args[r->nargs++] = b;
        if (cut->aliases[i] < 0) continue;
        if (donate && tpt_buffer_refs(b) == 1 && tpt_client_donation_pays(tpt_runtime_client(), tpt_buffer_nbytes(b))) tpt_counter_add(TPT_COUNTER_donations, 1);
        else r->keep[r->nkeep++] = i;
    }
}

static tpt_status_t *execute(tpt_dev_t *dev, tpt_prog_t *prog, const tpt_cut_t *cut, run_t *r) {
    tpt_graph_t *g = &dev->graph;
    int packs = 0;
    tpt_status_t *status = NULL;
    gather_inputs(g, cut, tpt_env_donate(), r);
    for (; !status && packs < prog->npacks; packs++) {
        int kind = prog->pack_order[packs];
        status = tpt_pack_buffer(dev, &prog->packs[kind], kind, g, &r->args[r->nargs]);
        if (!status) r->nargs++;
    }
    if (!status) {
        status = tpt_program_execute(prog->program, dev->index, r->nargs, r->args, r->nkeep, r->keep, prog->nresults, r->outs);
        tpt_counter_add(TPT_COUNTER_executes, 1);
    }
    for (int i = cut->ninputs; i < r->nargs; i++) tpt_buffer_release(r->args[i]);
    return status;
}

#define OWN_FLAG UINT64_MAX /* stands for the flag that this program is about to get */

/* What two values' flags become; whatever meets the program's own flag becomes that one's parent. */
static uint64_t join(tpt_dev_t *dev, uint64_t a, uint64_t b, uint64_t *parent) {
    if (a == OWN_FLAG || b == OWN_FLAG) {
        uint64_t other = a == OWN_FLAG ? b : a;
        if (other && other != OWN_FLAG) *parent = tpt_flag_join(dev, *parent, other);
        return OWN_FLAG;
    }
    return a == b ? a : tpt_flag_join(dev, a, b);
}

/* Gives each value of the graph the flag of what it was made from, so that a bad index spoils only what hangs on it. */
static void spread_flags(tpt_dev_t *dev, uint64_t *parent) {
    tpt_graph_t *g = &dev->graph;
    for (size_t i = 0; i < g->nnodes; i++) {
        const tpt_node_t *node = &g->nodes[i];
        uint64_t flag = node->plan->flagged ? OWN_FLAG : 0;
        for (int t = 0; t < node->plan->ntensors; t++) {
            uint64_t f = g->values[g->inputs[node->first_input + (uint32_t)t]].flag;
            if (f && !node->plan->tensors[t].unread) flag = join(dev, flag, f, parent);
        }
        for (uint32_t k = 0; k < node->noutputs; k++) g->values[node->first_output + k].flag = flag;
    }
}

static bool any_flag(const tpt_dev_t *dev, const tpt_cut_t *cut) {
    for (int i = 0; i < cut->ninputs; i++)
        if (dev->graph.values[cut->inputs[i]].flag) return true;
    return false;
}

static tpt_status_t *hand_out(tpt_dev_t *dev, const tpt_prog_t *prog, const tpt_cut_t *cut, run_t *r) {
    tpt_graph_t *g = &dev->graph;
    uint64_t parent = 0, own = 0;
    tpt_status_t *status = NULL;
    if (prog->flagged || any_flag(dev, cut)) spread_flags(dev, &parent);
    if (prog->flagged) status = tpt_flags_add(dev, prog, r->outs[cut->nlive], parent, &own);
    for (int k = 0; k < cut->nlive; k++) {
        tpt_storage_t *s = g->values[cut->live[k]].owner;
        s->buffer = r->outs[k];
        s->pending = false;
        uint64_t flag = g->values[cut->live[k]].flag;
        s->flag = flag == OWN_FLAG ? own : flag;
        tpt_status_free(s->error);
        s->error = NULL;
    }
    return status;
}

/* Nothing is lost: updated storages get back the value they had before the graph, new ones are poisoned. */
static void roll_back(tpt_graph_t *g, const tpt_cut_t *cut, const tpt_status_t *why) {
    for (int k = 0; k < cut->nlive; k++) {
        tpt_storage_t *s = g->values[cut->live[k]].owner;
        int32_t first = first_of(g, cut->live[k]);
        s->pending = false;
        if (g->values[first].node < 0) {
            s->buffer = g->values[first].buffer;
            if (s->buffer) tpt_buffer_retain(s->buffer);
        } else if (!s->error) {
            s->error = tpt_status_copy(why);
        }
    }
}

static tpt_status_t *await_all(const tpt_cut_t *cut, const run_t *r) {
    tpt_status_t *status = NULL;
    for (int k = 0; k < cut->nlive; k++) status = tpt_status_join(status, tpt_buffer_await(r->outs[k]));
    return status;
}

static tpt_status_t *run_cut(tpt_dev_t *dev, const tpt_cut_t *cut) {
    tpt_prog_t *prog = NULL;
    run_t r;
    tpt_status_t *status = find_prog(dev, cut, &prog);
    if (!status) status = run_room(&r, cut->ninputs + prog->npacks, prog->nresults, cut->ninputs);
    if (status) {
        roll_back(&dev->graph, cut, status);
        return status;
    }
    status = execute(dev, prog, cut, &r);
    if (status) roll_back(&dev->graph, cut, status);
    else status = hand_out(dev, prog, cut, &r);
    if (!status && tpt_mode_get() == TPT_MODE_DEBUG) status = await_all(cut, &r);
    tpt_free(r.heap);
    return status;
}

tpt_status_t *tpt_graph_run(tpt_dev_t *dev) {
    tpt_graph_t *g = &dev->graph;
    if (g->nnodes == 0) return NULL;
    decided_t d;
    tpt_status_t *status = decide(g, &d);
    if (!status) {
        bool flagged = false; /* a check of indices must happen even if its result is dropped */
        for (size_t i = 0; i < g->nnodes; i++) flagged = flagged || g->nodes[i].plan->flagged;
        if (d.cut.nlive > 0 || flagged) status = run_cut(dev, &d.cut);
        tpt_free(d.heap);
    }
    if (status) tpt_log(TPT_LOG_INFO, "a program of %zu ops failed: %s", g->nnodes, tpt_status_message(status));
    tpt_graph_reset(g);
    return status;
}
