/* memory.c - this process' programs by full key. The run room's own table is asked first and is faster; this one shares
 * programs between graphs that came to the same text by different ways. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "cache/cache_internal.h"

#define MAX_ENTRIES (1 << 18)
#define MAX_BYTES ((size_t)256 << 20) /* of kept keys; what comes later is not kept */

typedef struct kept {
    void *program;
    size_t context_bytes, text_bytes;
    char key[]; /* context, text */
} kept_t;

static tpt_mutex_t lock = TPT_MUTEX_INIT;
static tpt_map_t table = {.max = MAX_ENTRIES};
static size_t bytes_kept;

static bool is(const kept_t *kept, const tpt_cache_key_t *key) {
    return kept->context_bytes == key->context_bytes && kept->text_bytes == key->text_bytes &&
           memcmp(kept->key, key->context, key->context_bytes) == 0 &&
           memcmp(kept->key + key->context_bytes, key->text, key->text_bytes) == 0;
}

void *tpt_memory_get(const tpt_cache_key_t *key, const tpt_cache_hooks_t *hooks) {
    const uint64_t words[2] = {key->hash.lo, key->hash.hi};
    tpt_mutex_lock(&lock);
    kept_t *kept = tpt_map_get(&table, words[0], words, 2);
    void *program = kept != NULL && is(kept, key) ? kept->program : NULL;
    if (program != NULL) hooks->retain(program);
    tpt_mutex_unlock(&lock);
    return program;
}

void tpt_memory_put(const tpt_cache_key_t *key, void *program, const tpt_cache_hooks_t *hooks) {
    const uint64_t words[2] = {key->hash.lo, key->hash.hi};
    size_t bytes = sizeof(kept_t) + key->context_bytes + key->text_bytes;
    kept_t *kept = tpt_malloc(bytes);
    if (kept == NULL) return; /* it is only a cache */
    *kept = (kept_t){.program = program, .context_bytes = key->context_bytes, .text_bytes = key->text_bytes};
    memcpy(kept->key, key->context, key->context_bytes);
    memcpy(kept->key + key->context_bytes, key->text, key->text_bytes);
    tpt_mutex_lock(&lock);
    bool room = bytes_kept + bytes <= MAX_BYTES && tpt_map_get(&table, words[0], words, 2) == NULL;
    tpt_status_t *status = room ? tpt_map_put(&table, words[0], words, 2, kept) : NULL;
    bool put = room && status == NULL;
    if (put) {
        bytes_kept += bytes;
        hooks->retain(program);
    }
    tpt_mutex_unlock(&lock);
    tpt_status_free(status);
    if (!put) tpt_free(kept);
}

static void drop(void *user, const tpt_map_entry_t *entry) {
    kept_t *kept = entry->value;
    ((const tpt_cache_hooks_t *)user)->release(kept->program);
    tpt_free(kept);
}

void tpt_memory_clear(const tpt_cache_hooks_t *hooks) {
    tpt_mutex_lock(&lock);
    tpt_map_each(&table, drop, (void *)(uintptr_t)hooks);
    tpt_map_free(&table);
    tpt_map_init(&table, MAX_ENTRIES);
    bytes_kept = 0;
    tpt_mutex_unlock(&lock);
}
