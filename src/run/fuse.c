/* fuse.c - when fused mode cuts, and what a cut does: run a known program, compile one, or run op by op. The device lock is held
 * in all functions here.
 *
 * A graph is compiled when it is met the second time, in the background. Until that is done it runs op by op, as strict mode would
 * have run it: a script whose graphs never repeat never pays for compiling them, and no step stands still for one. */
#include <string.h>
#include <time.h>

#include "run_internal.h"

#define MAX_SEEN 4096
#define LEAST_HELD ((int64_t)2 << 30)  /* of results may be held back on any device */
#define AGE_NS INT64_C(10000000000)    /* the device waits no longer than that for a first op */
#define LOOP_NODES 512                 /* that many nodes must repeat what came before: less may be a model's equal layers */
#define LOOP_UNIT 64                   /* short bodies are cut several at a time */

/* ---- loops ---------------------------------------------------------------------------------------------------------- */

#define AT(ring, count) (ring)[(count) & (TPT_LOOP_HISTORY - 1)]

static bool loop_room(tpt_loop_t *l) {
    if (!l->plans) l->plans = tpt_calloc(TPT_LOOP_HISTORY, sizeof *l->plans);
    if (!l->owned) l->owned = tpt_calloc(TPT_LOOP_HISTORY, sizeof *l->owned);
    return l->plans && l->owned; /* without memory there is no loop detection */
}

/* Where in the last body the fewest values are alive: what crosses a cut has to leave the program. */
static uint64_t best_place(const tpt_loop_t *l) {
    uint64_t best = l->count;
    for (uint64_t k = l->count; k > l->count - l->period; k--)
        if (AT(l->owned, k) < AT(l->owned, best)) best = k;
    return best;
}

/* A stream of plans repeats when each node equals the one `period` before it, compared by content. The candidate is the
 * distance to the last node of the same plan, taken anew whenever a node does not fit. True: a body ends here. */
static bool loop_ends(tpt_dev_t *dev) {
    tpt_loop_t *l = &dev->loop;
    if (!loop_room(l)) return false;
    tpt_plan_t *plan = dev->graph.nodes[dev->graph.nnodes - 1].plan;
    const uint64_t tag = (uint64_t)(dev->index + 1) << 56;
    uint64_t now = ++l->count, seen = atomic_exchange_explicit(&plan->last_seen, tag | now, memory_order_relaxed);
    uint64_t before = (seen & (UINT64_C(255) << 56)) == tag ? seen & ~(UINT64_C(255) << 56) : 0;
    AT(l->plans, now) = plan->id;
    AT(l->owned, now) = dev->graph.nowned;
    if (l->period && AT(l->plans, now - l->period) == plan->id) {
        l->matched++;
    } else {
        l->period = before > l->start && now - before <= TPT_LOOP_HISTORY / 2 ? now - before : 0;
        l->matched = l->period ? 1 : 0;
        l->next_cut = 0;
    }
    if (!l->period || l->matched < LOOP_NODES || l->matched < l->period) return false;
    uint64_t unit = (LOOP_UNIT + l->period - 1) / l->period * l->period;
    if (!l->next_cut) l->next_cut = best_place(l) + unit;
    if (now < l->next_cut) return false;
    l->next_cut = now + unit;
    return true;
}

/* What a forward pass keeps for its gradient stays alive in any mode: a cut in its midst saves no memory and costs the
 * program its fusions. So the bound is near what the device can hold at all. */
static int64_t most_held(tpt_dev_t *dev) {
    if (dev->most_held) return dev->most_held;
    tpt_memory_stats_t stats = {0};
    dev->most_held = tpt_env_int(TPT_ENV_FUSE_BYTES, 0, INT64_MAX);
    if (!dev->most_held) {
        tpt_status_free(tpt_client_memory(tpt_runtime_client(), dev->index, &stats));
        dev->most_held = stats.limit / 2 > LEAST_HELD ? stats.limit / 2 : LEAST_HELD;
    }
    return dev->most_held;
}

bool tpt_fuse_watch(tpt_dev_t *dev, tpt_cut_reason_t *out_why) {
    tpt_graph_t *g = &dev->graph;
    if (g->nnodes == 1) g->since = tpt_now_ns();
    const bool ends = loop_ends(dev);
    if (tpt_pace_watch(dev, g->nodes[g->nnodes - 1].plan)) {
        *out_why = TPT_CUT_OVERLAP;
        return true;
    }
    if (ends && !tpt_pace_leads(dev)) {
        *out_why = TPT_CUT_LOOP;
        return true;
    }
    if (g->bytes > most_held(dev)) {
        *out_why = TPT_CUT_BYTES;
        return true;
    }
    *out_why = TPT_CUT_AGE;
    return g->nnodes % 16 == 0 && tpt_now_ns() - g->since > AGE_NS;
}

void tpt_fuse_clear(tpt_dev_t *dev) {
    tpt_free(dev->loop.plans);
    tpt_free(dev->loop.owned);
    memset(&dev->loop, 0, sizeof dev->loop);
    tpt_pace_clear(dev);
    tpt_map_free(&dev->seen);
}

/* ---- cutting -------------------------------------------------------------------------------------------------------- */

/* Is this graph met for the second time? */
static bool seen_before(tpt_dev_t *dev, const tpt_found_t *found) {
    const uint64_t *key = dev->graph.key;
    if (tpt_map_get(&dev->seen, found->hash, key, found->words)) return true;
    if (dev->seen.count >= MAX_SEEN) tpt_map_clear(&dev->seen);
    dev->seen.max = MAX_SEEN;
    tpt_status_free(tpt_map_put(&dev->seen, found->hash, key, found->words, dev)); /* only a memory */
    return false;
}

/* Must the graph run as one program, whatever that takes? */
static bool only_whole(const tpt_dev_t *dev, tpt_cut_reason_t why) {
    return dev->graph.nnodes == 1 || why == TPT_CUT_STRICT || why == TPT_CUT_COMPOSITE || !tpt_env_flag(TPT_ENV_FUSE_LAZY);
}

/* Is there a program to run? If not, it may be on its way. */
static tpt_status_t *look_for_program(tpt_dev_t *dev, const tpt_cut_t *cut, tpt_found_t *found, tpt_cut_note_t *note, bool *out_ready) {
    *out_ready = false;
    note->way = TPT_CUT_BY_NODE;
    if (!found->prog && !seen_before(dev, found)) return NULL;
    note->way = found->prog ? TPT_CUT_HIT : TPT_CUT_COMPILED;
    if (!found->prog) TPT_TRY(tpt_cut_program(dev, &dev->graph, cut, found, true));
    *out_ready = tpt_program_is_ready(found->prog->program);
    if (!*out_ready) note->way = TPT_CUT_COMPILING;
    return NULL;
}

static tpt_status_t *await_all(const tpt_cut_t *cut, const tpt_run_t *r) {
    tpt_status_t *status = NULL;
    for (int k = 0; k < cut->nlive; k++) status = tpt_status_join(status, tpt_buffer_await(r->outs[k]));
    return status;
}

/* Asked once: the plugin takes 50 us to tell. */
static int64_t temporary_bytes(tpt_prog_t *prog) {
    if (prog->temporary_bytes == 0) {
        tpt_program_memory_t memory;
        tpt_status_t *status = tpt_program_memory(prog->program, &memory);
        prog->temporary_bytes = status ? -1 : memory.temporary > 0 ? memory.temporary : INT64_MIN;
        tpt_status_free(status);
    }
    return prog->temporary_bytes == INT64_MIN ? 0 : prog->temporary_bytes;
}

/* As one program. On failure nothing was delivered. */
static tpt_status_t *run_program(tpt_dev_t *dev, const tpt_cut_t *cut, tpt_found_t *found, tpt_cut_note_t *note, bool *out_delivered) {
    tpt_graph_t *g = &dev->graph;
    tpt_run_t r;
    *out_delivered = false;
    TPT_TRY(tpt_cut_program(dev, g, cut, found, g->nnodes == 1));
    note->program = found->prog->name;
    if (tpt_explain_is_on()) note->temporary_bytes = temporary_bytes(found->prog);
    tpt_status_t *status = tpt_cut_execute(dev, g, found->prog, cut, &r);
    if (!status) {
        *out_delivered = true;
        note->donated = r.ndonated;
        note->execute_ns = r.execute_ns;
        status = tpt_deliver(dev, g, found->prog, cut, &r);
        if (!status && tpt_mode_get() == TPT_MODE_DEBUG) status = await_all(cut, &r);
    }
    tpt_free(r.heap);
    return status;
}

static tpt_status_t *run_cut(tpt_dev_t *dev, const tpt_cut_t *cut, tpt_cut_reason_t why, tpt_cut_note_t *note) {
    tpt_found_t found;
    bool delivered = false;
    tpt_status_t *status = tpt_cut_find(&dev->graph, cut, &found);
    bool ready = true;
    note->program = found.hash;
    note->way = found.prog ? TPT_CUT_HIT : TPT_CUT_COMPILED;
    if (!status && !only_whole(dev, why)) status = look_for_program(dev, cut, &found, note, &ready);
    if (!status && !ready) return tpt_replay(dev, cut);
    if (!status) status = run_program(dev, cut, &found, note, &delivered);
    if (!status || delivered) return status;
    note->way = TPT_CUT_FAILED;
    if (dev->graph.nnodes > 1 && why != TPT_CUT_COMPOSITE) { /* so that only what hangs on the fault is lost */
        tpt_log(TPT_LOG_INFO, "a program of %zu ops failed and is run op by op: %s", dev->graph.nnodes, tpt_status_message(status));
        tpt_status_free(status);
        return tpt_replay(dev, cut);
    }
    tpt_roll_back(&dev->graph, cut, status);
    return status;
}

static void fill_note(const tpt_dev_t *dev, const tpt_cut_t *cut, tpt_cut_note_t *note) {
    const tpt_graph_t *g = &dev->graph;
    note->device = dev->index;
    note->nodes = (int32_t)g->nnodes;
    note->inputs = cut->ninputs;
    note->results = cut->nlive;
    for (int k = 0; k < cut->nlive; k++) {
        const tpt_type_t *t = g->values[cut->live[k]].type;
        note->result_bytes += tpt_type_numel(t) * (int64_t)tpt_dtype_size((tpt_dtype_t)t->dtype);
    }
    for (size_t i = 0; i < g->nnodes; i++)
        for (int t = 0; t < g->nodes[i].plan->ntensors; t++) {
            uint8_t code = g->nodes[i].plan->tensors[t].view.code;
            note->views += code != TPT_VIEW_SAME;
            note->gathers += code == TPT_VIEW_GATHER;
        }
    strncpy(note->first, g->nodes[0].plan->op->row->name, sizeof note->first - 1);
    strncpy(note->last, g->nodes[g->nnodes - 1].plan->op->row->name, sizeof note->last - 1);
}

tpt_status_t *tpt_graph_run(tpt_dev_t *dev, tpt_cut_reason_t why) {
    tpt_graph_t *g = &dev->graph;
    if (g->nnodes == 0) return NULL;
    tpt_decided_t d;
    tpt_cut_note_t note = {.why = (uint8_t)why, .way = TPT_CUT_DROPPED};
    const bool noted = tpt_explain_is_on();
    const int64_t start = noted ? tpt_now_ns() : 0;
    tpt_status_t *status = tpt_cut_decide(g, &d);
    if (!status) {
        bool flagged = false; /* a check of indices must happen even if its result is dropped */
        for (size_t i = 0; i < g->nnodes; i++) flagged = flagged || g->nodes[i].plan->flagged;
        if (noted) fill_note(dev, &d.cut, &note);
        if (d.cut.nlive > 0 || flagged) status = run_cut(dev, &d.cut, why, &note);
        tpt_free(d.heap);
    }
    if (noted) {
        note.when_ns = tpt_now_ns();
        note.taken_ns = note.when_ns - start;
        tpt_explain_note(&note);
    }
    if (status) tpt_log(TPT_LOG_INFO, "a program of %zu ops failed: %s", g->nnodes, tpt_status_message(status));
    if (note.way != TPT_CUT_HIT && note.way != TPT_CUT_DROPPED) tpt_pace_unclean(dev);
    if (why != TPT_CUT_LOOP && why != TPT_CUT_OVERLAP) { /* a loop is looked for from here on */
        tpt_pace_end(dev);
        dev->loop.period = dev->loop.matched = dev->loop.next_cut = 0;
        dev->loop.start = dev->loop.count;
    }
    tpt_graph_reset(g);
    return status;
}
