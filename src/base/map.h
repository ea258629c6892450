/* map.h - hash map from a key of 64-bit words (compared whole, so collisions cannot lie) to a pointer. Not thread-safe. */
#ifndef TPT_BASE_MAP_H
#define TPT_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct tpt_map_entry {
    uint64_t hash;
    uint32_t key_words;
    uint64_t *key; /* owned copy */
    void *value;   /* not owned */
} tpt_map_entry_t;

typedef struct tpt_map {
    tpt_map_entry_t *slots; /* open addressing, power of two */
    size_t count, capacity, max;
} tpt_map_t;

void tpt_map_init(tpt_map_t *map, size_t max_entries);
/* Value, or NULL. */
void *tpt_map_get(const tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words);
/* Adds or replaces. TPT_RESOURCE_EXHAUSTED when full or out of memory; the map is unchanged then. */
TPT_MUST_USE tpt_status_t *tpt_map_put(tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words, void *value);
void *tpt_map_remove(tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words);
/* Calls fn for each entry; fn must not change the map. */
void tpt_map_each(const tpt_map_t *map, void (*fn)(void *user, const tpt_map_entry_t *entry), void *user);
void tpt_map_clear(tpt_map_t *map);
void tpt_map_free(tpt_map_t *map);

#endif
