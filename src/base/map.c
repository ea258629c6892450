/* map.c - open addressing with linear probing; a removal shifts the run back, so there are no tombstones. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"

#define MAP_FIRST_CAPACITY 16u
#define NO_SLOT SIZE_MAX

void tpt_map_init(tpt_map_t *map, size_t max_entries) { *map = (tpt_map_t){.max = max_entries}; }

static bool map_same(const tpt_map_entry_t *entry, uint64_t hash, const uint64_t *key, uint32_t key_words) {
    return entry->hash == hash && entry->key_words == key_words &&
           (key_words == 0 || memcmp(entry->key, key, key_words * sizeof *key) == 0);
}

/* The entry's slot, or NO_SLOT; *out_free is the empty slot that ended the search. The table is never full. */
static size_t map_find(const tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words, size_t *out_free) {
    if (map->capacity == 0) return NO_SLOT;
    size_t mask = map->capacity - 1, at = (size_t)hash & mask;
    while (map->slots[at].key != NULL) {
        if (map_same(&map->slots[at], hash, key, key_words)) return at;
        at = (at + 1) & mask;
    }
    if (out_free != NULL) *out_free = at;
    return NO_SLOT;
}

void *tpt_map_get(const tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words) {
    size_t at = map_find(map, hash, key, key_words, NULL);
    return at == NO_SLOT ? NULL : map->slots[at].value;
}

/* Keeps at least a quarter of the slots empty. */
static tpt_status_t *map_grow(tpt_map_t *map) {
    if (map->capacity != 0 && (map->count + 1) * 4 <= map->capacity * 3) return NULL;
    size_t capacity = map->capacity == 0 ? MAP_FIRST_CAPACITY : map->capacity * 2;
    tpt_map_entry_t *slots = tpt_calloc(capacity, sizeof *slots);
    if (slots == NULL) return tpt_status_oom(capacity * sizeof *slots);
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key == NULL) continue;
        size_t at = (size_t)map->slots[i].hash & (capacity - 1);
        while (slots[at].key != NULL) at = (at + 1) & (capacity - 1);
        slots[at] = map->slots[i];
    }
    tpt_free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return NULL;
}

tpt_status_t *tpt_map_put(tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words, void *value) {
    size_t at = map_find(map, hash, key, key_words, NULL);
    if (at != NO_SLOT) {
        map->slots[at].value = value;
        return NULL;
    }
    if (map->count >= map->max) {
        return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "map is full: it holds its maximum of %zu entries", map->max);
    }
    TPT_TRY(map_grow(map));
    size_t bytes = key_words * sizeof *key;
    uint64_t *copy = tpt_malloc(bytes); /* never NULL for no bytes: a key marks a used slot */
    if (copy == NULL) return tpt_status_oom(bytes);
    if (bytes != 0) memcpy(copy, key, bytes);
    size_t empty = 0;
    (void)map_find(map, hash, key, key_words, &empty);
    map->slots[empty] = (tpt_map_entry_t){.hash = hash, .key_words = key_words, .key = copy, .value = value};
    map->count++;
    return NULL;
}

void *tpt_map_remove(tpt_map_t *map, uint64_t hash, const uint64_t *key, uint32_t key_words) {
    size_t hole = map_find(map, hash, key, key_words, NULL);
    if (hole == NO_SLOT) return NULL;
    void *value = map->slots[hole].value;
    tpt_free(map->slots[hole].key);
    size_t mask = map->capacity - 1;
    for (size_t at = (hole + 1) & mask; map->slots[at].key != NULL; at = (at + 1) & mask) {
        size_t home = (size_t)map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) { /* its probe run passes the hole */
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (tpt_map_entry_t){0};
    map->count--;
    return value;
}

void tpt_map_each(const tpt_map_t *map, void (*fn)(void *user, const tpt_map_entry_t *entry), void *user) {
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != NULL) fn(user, &map->slots[i]);
    }
}

void tpt_map_clear(tpt_map_t *map) {
    for (size_t i = 0; i < map->capacity; i++) {
        tpt_free(map->slots[i].key);
        map->slots[i] = (tpt_map_entry_t){0};
    }
    map->count = 0;
}

void tpt_map_free(tpt_map_t *map) {
    tpt_map_clear(map);
    tpt_free(map->slots);
    map->slots = NULL;
    map->capacity = 0;
}
