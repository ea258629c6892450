/* recall.c - what meta kernels said of a call, kept across processes. Many of PyTorch's meta kernels are Python whose first call
 * imports a second's worth of modules; a process that finds its programs in the cache need not ask them again.
 *
 * Only answers are kept, never refusals: a call that PyTorch refuses is asked anew each time. */
#include <stdio.h>
#include <string.h>

#include "cache/fingerprint.h"
#include "run_internal.h"

#define NAME_WORDS 32
#define MOST_SPECS 64

static char owner[256]; /* PyTorch's version and ours; empty: nothing is kept */

void tpt_recall_open(const char *framework) {
    int n = snprintf(owner, sizeof owner, "%s %s", framework, TPT_FINGERPRINT);
    if (n < 0 || (size_t)n >= sizeof owner) owner[0] = '\0';
}

/* The call's key with the op's name in place of its number in this process. */
static uint64_t *stable_key(const tpt_call_t *c, uint32_t *out_words) {
    size_t name = strlen(c->op->schema_name);
    uint32_t words = (uint32_t)(name + 7) / 8;
    if (owner[0] == '\0' || words > NAME_WORDS) return NULL;
    uint64_t *key = tpt_calloc(words + c->key_words + 1, sizeof *key);
    if (!key) return NULL;
    key[0] = (uint64_t)words << 32;
    memcpy(key + 1, c->op->schema_name, name);
    memcpy(key + 1 + words, c->key, c->key_words * sizeof *key);
    key[1 + words] &= ~(uint64_t)UINT32_MAX;
    *out_words = 1 + words + c->key_words;
    return key;
}

/* A spec is its dtype and rank, sizes and strides. */
bool tpt_call_recall(const tpt_call_t *c, tpt_spec_t *specs, int room, int *out_count) {
    int64_t data[MOST_SPECS * (1 + 2 * TPT_MAX_RANK)];
    size_t bytes = 0;
    uint32_t words = 0;
    uint64_t *key = stable_key(c, &words);
    bool found = key && tpt_cache_fact_get(owner, key, words, data, sizeof data, &bytes);
    tpt_free(key);
    const int64_t *at = data, *end = data + bytes / sizeof *data;
    int n = 0;
    for (; found && at < end; n++) {
        int32_t rank = (int32_t)(*at >> 8);
        uint8_t dtype = (uint8_t)(*at++ & 255);
        found = n < room && dtype < TPT_DTYPE_COUNT && rank >= 0 && rank <= TPT_MAX_RANK && end - at >= 2 * rank;
        if (!found) break;
        specs[n] = (tpt_spec_t){.dtype = dtype, .rank = rank};
        memcpy(specs[n].sizes, at, (size_t)rank * sizeof *at);
        memcpy(specs[n].strides, at + rank, (size_t)rank * sizeof *at);
        at += 2 * rank;
    }
    *out_count = n;
    return found;
}

void tpt_call_remember(const tpt_call_t *c, const tpt_spec_t *specs, int count) {
    int64_t data[MOST_SPECS * (1 + 2 * TPT_MAX_RANK)], *at = data;
    uint32_t words = 0;
    if (count > MOST_SPECS) return;
    uint64_t *key = stable_key(c, &words);
    if (!key) return;
    for (int i = 0; i < count; i++) {
        size_t rank = (size_t)specs[i].rank;
        *at++ = (int64_t)rank << 8 | specs[i].dtype;
        memcpy(at, specs[i].sizes, rank * sizeof *at);
        memcpy(at + rank, specs[i].strides, rank * sizeof *at);
        at += 2 * rank;
    }
    tpt_cache_fact_put(owner, key, words, data, (size_t)(at - data) * sizeof *data);
    tpt_free(key);
}
