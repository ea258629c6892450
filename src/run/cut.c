/* cut.c - a graph becomes one program and runs. The device lock is held in all functions here.
 *
 * Only what a storage still owns leaves the program; values nobody can see any more never do. */
#include <string.h>

#include "run_internal.h"

/* ---- what goes in and out ------------------------------------------------------------------------------------------ */

/* Inputs whose storage has died may become any result of their type. */
static void donate_dead(const tpt_graph_t *g, tpt_decided_t *d, int ninputs, int nlive) {
    int next = 0; /* results before it are taken */
    for (int i = 0; i < ninputs; i++) {
        const tpt_value_t *in = &g->values[d->inputs[i]];
        if (d->aliases[i] >= 0 || in->owner || !in->buffer) continue;
        for (int k = next; k < nlive; k++) {
            bool taken = false;
            for (int j = 0; j < ninputs && !taken; j++) taken = d->aliases[j] == k;
            if (taken || !tpt_type_equal(in->type, g->values[d->live[k]].type)) continue;
            d->aliases[i] = k;
            next = k + 1;
            break;
        }
    }
}

tpt_status_t *tpt_cut_decide(tpt_graph_t *g, tpt_decided_t *d) {
    size_t n = g->nvalues;
    d->heap = NULL;
    int32_t *room = d->room;
    if (n > TPT_SMALL_ARGS) {
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
        int32_t first = tpt_graph_first(g, d->live[k]);
        if (first == d->live[k] || g->values[first].node >= 0 || !g->values[first].buffer) continue;
        if (!tpt_type_equal(g->values[first].type, g->values[d->live[k]].type)) continue;
        for (int i = 0; i < ninputs; i++)
            if (d->inputs[i] == first) d->aliases[i] = k;
    }
    donate_dead(g, d, ninputs, nlive);
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

/* So few values that a processor's plugin runs the program at once, in the caller's thread. XLA: 1,000 operations. */
#define BRIEF_VALUES 256
static bool is_brief(const tpt_graph_t *g, const tpt_cut_t *cut) {
    int64_t values = 0;
    for (int i = 0; i < cut->ninputs && values <= BRIEF_VALUES; i++) values += tpt_type_numel(g->values[cut->inputs[i]].type);
    for (int k = 0; k < cut->nlive && values <= BRIEF_VALUES; k++) values += tpt_type_numel(g->values[cut->live[k]].type);
    return values <= BRIEF_VALUES;
}

static tpt_status_t *make_prog(tpt_dev_t *dev, const tpt_graph_t *g, const tpt_cut_t *cut, bool later, tpt_prog_t **out_prog) {
    char *text = NULL;
    tpt_counter_add(TPT_COUNTER_program_misses, 1);
    TPT_TRY(tpt_prog_lower(g, cut, out_prog, &text));
    tpt_log(TPT_LOG_DEBUG, "compiling\n%s", text);
    (*out_prog)->lingers = tpt_client_donation_waits(tpt_runtime_client()) && !is_brief(g, cut);
    (*out_prog)->name = tpt_hash64(text, strlen(text)); /* here: the compile may happen elsewhere, on a copy */
    tpt_status_t *status = tpt_prog_compile(*out_prog, text, dev->index, later);
    tpt_free(text);
    if (status) tpt_prog_free(*out_prog);
    return status;
}

tpt_status_t *tpt_cut_find(tpt_graph_t *g, const tpt_cut_t *cut, tpt_found_t *out_found) {
    out_found->prog = NULL;
    out_found->hash = 0;
    TPT_TRY(make_key(g, cut, &out_found->words));
    tpt_plan_t *single = g->nnodes == 1 ? g->nodes[0].plan : NULL;
    for (int i = 0; single && i < 2; i++) {
        tpt_prog_t *last = single->last[i];
        if (last && last->key_words == out_found->words && memcmp(last->key, g->key, out_found->words * sizeof *g->key) == 0) {
            out_found->prog = last;
            return NULL;
        }
    }
    out_found->hash = tpt_hash64(g->key, out_found->words * sizeof *g->key);
    out_found->prog = tpt_prog_find(out_found->hash, g->key, out_found->words);
    return NULL;
}

tpt_status_t *tpt_cut_program(tpt_dev_t *dev, tpt_graph_t *g, const tpt_cut_t *cut, tpt_found_t *found, bool later) {
    tpt_plan_t *single = g->nnodes == 1 ? g->nodes[0].plan : NULL;
    if (found->prog) {
        tpt_counter_add(TPT_COUNTER_program_hits, 1);
        tpt_prog_note_use(found->prog);
    } else {
        tpt_progs_bound(dev);
        TPT_TRY(make_prog(dev, g, cut, later, &found->prog));
        tpt_status_t *status = tpt_prog_add(found->hash, g->key, found->words, found->prog);
        if (status) {
            tpt_prog_free(found->prog);
            return status;
        }
    }
    if (single && single->last[0] != found->prog && single->last[1] != found->prog) {
        single->last[1] = single->last[0];
        single->last[0] = found->prog;
    }
    return NULL;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static tpt_status_t *run_room(tpt_run_t *r, int nargs, int nouts, int ninputs) {
    r->nargs = r->nkeep = r->ndonated = 0;
    r->execute_ns = 0;
    r->heap = NULL;
    r->args = r->room;
    r->outs = r->room + TPT_SMALL_ARGS + TPT_PACK_COUNT + 1;
    r->keep = r->keep_room;
    if (nargs <= TPT_SMALL_ARGS + TPT_PACK_COUNT && nouts <= TPT_SMALL_ARGS + 1 && ninputs <= TPT_SMALL_ARGS) return NULL;
    size_t bytes = ((size_t)nargs + (size_t)nouts) * sizeof *r->args + (size_t)ninputs * sizeof *r->keep;
    r->heap = tpt_malloc(bytes);
    if (!r->heap) return tpt_status_oom(bytes);
    r->keep = r->heap;
    r->args = (tpt_buffer_t **)(void *)(r->keep + ninputs);
    r->outs = r->args + nargs;
    return NULL;
}

/* Is taking over this buffer worth it? Where that waits for the buffer's other users, some 20 us and more, only if they are gone,
 * or if a fresh buffer costs more still. In-place multiply on the CPU plugin of 0.81, us with and without donation right after
 * another one: 4 to 128 KB 26 and 6; 512 KB 50 and 29; 1 MB 56 and 62; 4 MB 96 and 930. */
static bool donation_pays(const tpt_dev_t *dev, const tpt_buffer_t *b) {
    const uint64_t used = tpt_buffer_last_use(b); /* 0 wherever nothing waits: no program notes its uses there */
    return used == 0 || used < atomic_load_explicit(&dev->clock, memory_order_relaxed) || tpt_buffer_nbytes(b) >= 1 << 20;
}

/* An old value is donated when this graph holds the only reference to it. */
static void gather_inputs(const tpt_dev_t *dev, const tpt_graph_t *g, const tpt_cut_t *cut, bool donate, tpt_run_t *r) {
    for (int i = 0; i < cut->ninputs; i++) {
        tpt_buffer_t *b = g->values[cut->inputs[i]].buffer;
        r->args[r->nargs++] = b;
        if (cut->aliases[i] < 0) continue;
        bool gives = donate && tpt_buffer_refs(b) == 1 && donation_pays(dev, b);
        if (gives) r->ndonated++;
        else r->keep[r->nkeep++] = i;
    }
}

/* While such a program runs, what it reads is in use, and what it took over has its handle left. */
static void note_uses(const tpt_dev_t *dev, const tpt_cut_t *cut, const tpt_run_t *r) {
    const uint64_t now = atomic_load_explicit(&dev->clock, memory_order_relaxed);
    for (int i = 0, kept = 0; i < cut->ninputs; i++) {
        const bool keeps = kept < r->nkeep && r->keep[kept] == i;
        kept += keeps;
        if (cut->aliases[i] >= 0 && !keeps) tpt_buffer_note_given(r->args[i]);
        else tpt_buffer_note_use(r->args[i], now);
    }
}

/* If the program turns out not to compile, updated storages get back the values that they have now. */
static void note_updates(const tpt_graph_t *g, const tpt_cut_t *cut, tpt_run_t *r) {
    for (int k = 0; k < cut->nlive; k++) {
        const tpt_value_t *first = &g->values[tpt_graph_first(g, cut->live[k])];
        if (first->node < 0 && first->buffer && !first->flag) tpt_buffer_set_before(r->outs[k], first->buffer);
    }
}

tpt_status_t *tpt_cut_execute(tpt_dev_t *dev, const tpt_graph_t *g, tpt_prog_t *prog, const tpt_cut_t *cut, tpt_run_t *r) {
    int packs = 0;
    tpt_status_t *status = run_room(r, cut->ninputs + prog->npacks, prog->nresults, cut->ninputs);
    if (status) return status;
    gather_inputs(dev, g, cut, tpt_env_donate(), r);
    for (; !status && packs < prog->npacks; packs++) {
        int kind = prog->pack_order[packs];
        status = tpt_pack_buffer(dev, &prog->packs[kind], kind, g, &r->args[r->nargs]);
        if (!status) r->nargs++;
    }
    if (!status && tpt_dry_on()) {
        status = tpt_dry_outputs(dev, g, cut, prog, r->outs);
    } else if (!status) {
        const int64_t start = tpt_explain_is_on() ? tpt_now_ns() : 0;
        status = tpt_program_execute(prog->program, dev->index, r->nargs, r->args, r->nkeep, r->keep, prog->nresults, r->outs);
        if (start) r->execute_ns = tpt_now_ns() - start;
        tpt_counter_add(TPT_COUNTER_executes, 1);
        if (!status) note_updates(g, cut, r);
        if (!status && prog->lingers) note_uses(dev, cut, r);
        if (r->ndonated) tpt_counter_add(TPT_COUNTER_donations, r->ndonated);
    }
    for (int i = cut->ninputs; i < r->nargs; i++) tpt_buffer_release(r->args[i]);
    return status;
}
