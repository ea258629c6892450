/* flag.c - "no silent clamping": each program with user-given indices yields one word, read at the next host read or earlier. */
#include <stdio.h>
#include <string.h>

#include "run_internal.h"

#define MAX_FLAGS 4096
#define MAX_FAILED 4096
#define SWEEP_AT 32 /* open flags before the finished ones are read and dropped */

static void message_of(tpt_flag_message_t *message, const tpt_node_t *node, int64_t size) {
    char *to = message->text;
    const char *text = node->plan->flag_text;
    bool runtime = text || (tpt_row_flags(node->plan->op->row) & TPT_ROW_INDEX_RUNTIME);
    message->code = runtime ? TPT_INVALID_ARGUMENT : TPT_OUT_OF_RANGE;
    int n = text      ? snprintf(to, TPT_FLAG_TEXT, "%s", text)
            : size >= 0 ? snprintf(to, TPT_FLAG_TEXT, "index out of range in %s: a dimension has size %lld", node->plan->op->schema_name,
                                 (long long)size)
                      : snprintf(to, TPT_FLAG_TEXT, "index out of range in %s", node->plan->op->schema_name);
    if (node->where[0] && n > 0 && n < TPT_FLAG_TEXT) snprintf(to + n, (size_t)(TPT_FLAG_TEXT - n), " (at %s)", node->where);
}

static tpt_status_t *take_messages(const tpt_graph_t *g, const tpt_prog_t *prog, tpt_flag_t *f) {
    f->nmessages = prog->nnodes;
    f->messages = tpt_calloc((size_t)prog->nnodes, sizeof *f->messages);
    if (!f->messages) return tpt_status_oom((size_t)prog->nnodes * sizeof *f->messages);
    for (int i = 0; i < prog->nnodes; i++)
        if (g->nodes[i].plan->flagged) message_of(&f->messages[i], &g->nodes[i], prog->bad_sizes[i]);
    return NULL;
}

tpt_status_t *tpt_flags_add(tpt_dev_t *dev, const tpt_graph_t *g, const tpt_prog_t *prog, tpt_buffer_t *word, uint64_t parent, uint64_t *out_number) {
    tpt_flag_t f = {.parent = parent, .word = word};
    tpt_status_t *status = tpt_vec_reserve(&dev->flags, &dev->flags_capacity, dev->nflags + 1, sizeof f, MAX_FLAGS);
    if (!status) status = take_messages(g, prog, &f);
    if (status) {
        tpt_buffer_release(word);
        return status;
    }
    f.number = *out_number = ++dev->next_flag;
    dev->flags[dev->nflags++] = f;
    /* Where the program has already run (small ones on CPU plugins have) the error is raised by the op itself. */
    if (dev->nflags >= SWEEP_AT || tpt_buffer_is_ready(word)) return tpt_flags_check(dev, dev->nflags >= MAX_FLAGS / 2);
    return NULL;
}

static void forget(tpt_flag_t *f) {
    tpt_buffer_release(f->word);
    tpt_free(f->messages);
}

static void remember_failed(tpt_dev_t *dev, uint64_t number, tpt_code_t code) {
    tpt_failed_t failed = {.number = number, .code = code};
    tpt_status_t *full = tpt_vec_reserve(&dev->failed, &dev->failed_capacity, dev->nfailed + 1, sizeof failed, MAX_FAILED);
    if (full) { /* the oldest are forgotten */
        tpt_status_free(full);
        if (dev->nfailed == 0) return;
        memmove(dev->failed, dev->failed + 1, --dev->nfailed * sizeof failed);
    }
    dev->failed[dev->nfailed++] = failed;
}

static const tpt_failed_t *find_failed(const tpt_dev_t *dev, uint64_t number) {
    for (size_t i = dev->nfailed; number && i > 0; i--)
        if (dev->failed[i - 1].number == number) return &dev->failed[i - 1];
    return NULL;
}

bool tpt_flag_failed(tpt_dev_t *dev, uint64_t number) { return find_failed(dev, number) != NULL; }

tpt_status_t *tpt_flag_refuse(tpt_dev_t *dev, uint64_t number) {
    const tpt_failed_t *failed = find_failed(dev, number);
    if (!failed) return NULL;
    if (failed->code == TPT_OUT_OF_RANGE)
        return tpt_status_make(failed->code, "this value depends on an op with an index out of range, which was reported before");
    return tpt_status_make(failed->code, "this value depends on an op that refused its values, which was reported before");
}

bool tpt_flag_open(const tpt_dev_t *dev, uint64_t number) {
    for (size_t i = dev->nflags; number && i > 0; i--)
        if (dev->flags[i - 1].number == number) return true;
    return false;
}

uint64_t tpt_flag_join(tpt_dev_t *dev, uint64_t a, uint64_t b) {
    if (tpt_flag_failed(dev, a)) return a;
    if (tpt_flag_failed(dev, b)) return b;
    uint64_t newer = a > b ? a : b, older = a > b ? b : a;
    if (tpt_flag_open(dev, newer)) return newer;
    return tpt_flag_open(dev, older) ? older : 0;
}

static tpt_status_t *read_flag(tpt_dev_t *dev, tpt_flag_t *f) {
    int32_t word = 0;
    TPT_TRY(tpt_buffer_to_host(f->word, 0, sizeof word, &word));
    const tpt_failed_t *parent = find_failed(dev, f->parent);
    if (word == 0 && !parent) return NULL;
    int at = word >= 1 && word <= f->nmessages ? word - 1 : 0;
    remember_failed(dev, f->number, word == 0 ? parent->code : f->messages[at].code);
    if (word == 0) return NULL; /* its parent was reported */
    return tpt_status_make(f->messages[at].code, "%s", f->messages[at].text);
}

tpt_status_t *tpt_flags_check(tpt_dev_t *dev, bool wait) {
    tpt_status_t *status = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < dev->nflags; i++) {
        if (wait || tpt_buffer_is_ready(dev->flags[i].word)) {
            status = tpt_status_join(status, read_flag(dev, &dev->flags[i]));
            forget(&dev->flags[i]);
        } else {
            dev->flags[kept++] = dev->flags[i];
        }
    }
    dev->nflags = kept;
    return status;
}

void tpt_flags_clear(tpt_dev_t *dev) {
    for (size_t i = 0; i < dev->nflags; i++) forget(&dev->flags[i]);
    tpt_free(dev->flags);
    tpt_free(dev->failed);
    dev->flags = NULL;
    dev->failed = NULL;
    dev->nflags = dev->flags_capacity = dev->nfailed = dev->failed_capacity = 0;
}
