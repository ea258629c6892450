/* deliver.c - what a program has made goes to the storages that own it, or they get back what they had. The device lock is
 * held in all functions here. */
#include "run_internal.h"

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
static void spread_flags(tpt_dev_t *dev, tpt_graph_t *g, uint64_t *parent) {
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

static bool any_flag(const tpt_graph_t *g, const tpt_cut_t *cut) {
    for (int i = 0; i < cut->ninputs; i++)
        if (g->values[cut->inputs[i]].flag) return true;
    return false;
}

tpt_status_t *tpt_deliver(tpt_dev_t *dev, tpt_graph_t *g, const tpt_prog_t *prog, const tpt_cut_t *cut, tpt_run_t *r) {
    uint64_t parent = 0, own = 0;
    tpt_status_t *status = NULL;
    if (prog->flagged || any_flag(g, cut)) spread_flags(dev, g, &parent);
    if (prog->flagged) status = tpt_flags_add(dev, g, prog, r->outs[cut->nlive], parent, &own);
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
void tpt_roll_back(tpt_graph_t *g, const tpt_cut_t *cut, const tpt_status_t *why) {
    for (int k = 0; k < cut->nlive; k++) {
        tpt_storage_t *s = g->values[cut->live[k]].owner;
        int32_t first = tpt_graph_first(g, cut->live[k]);
        s->pending = false;
        if (g->values[first].node < 0) {
            s->buffer = g->values[first].buffer;
            if (s->buffer) tpt_buffer_retain(s->buffer);
        } else if (!s->error) {
            s->error = tpt_status_copy(why);
        }
    }
}
