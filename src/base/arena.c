/* arena.c - a chain of blocks, the newest first; the first block made is kept by a reset. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#define ARENA_ALIGN 16u
#define ARENA_BLOCK ((size_t)8192 - 64)

struct tpt_arena_block {
    _Alignas(ARENA_ALIGN) tpt_arena_block_t *next;
    size_t used, capacity;
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
};

void tpt_arena_init(tpt_arena_t *arena, size_t max_bytes) { *arena = (tpt_arena_t){.max = max_bytes}; }

static tpt_arena_block_t *arena_grow(tpt_arena_t *arena, size_t bytes) {
    /* Blocks double with what is in use, so that a large graph takes few of them. */
    size_t capacity = arena->used > ARENA_BLOCK ? arena->used : ARENA_BLOCK;
    if (capacity > ((size_t)1 << 20)) capacity = (size_t)1 << 20;
    if (capacity < bytes) capacity = bytes;
    if (capacity > SIZE_MAX - sizeof(tpt_arena_block_t)) return NULL;
    tpt_arena_block_t *block = tpt_malloc(sizeof *block + capacity);
    if (block == NULL) return NULL;
    block->next = arena->head;
    block->used = 0;
    block->capacity = capacity;
    arena->head = block;
    return block;
}

void *tpt_arena_alloc(tpt_arena_t *arena, size_t bytes) {
    if (bytes > arena->max) return NULL;
    size_t need = (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (need < bytes) return NULL;
    if (need == 0) need = ARENA_ALIGN; /* distinct pointers */
    if (need > arena->max || arena->used > arena->max - need) return NULL;
    tpt_arena_block_t *block = arena->head;
    if (block == NULL || block->capacity - block->used < need) {
        block = arena_grow(arena, need);
        if (block == NULL) return NULL;
    }
    void *at = block->bytes + block->used;
    block->used += need;
    arena->used += need;
    return memset(at, 0, need);
}

void *tpt_arena_copy(tpt_arena_t *arena, const void *src, size_t bytes) {
    void *at = tpt_arena_alloc(arena, bytes);
    if (at != NULL && bytes != 0) memcpy(at, src, bytes);
    return at;
}

char *tpt_arena_text(tpt_arena_t *arena, const char *text) { return tpt_arena_copy(arena, text, strlen(text) + 1); }

void tpt_arena_reset(tpt_arena_t *arena) {
    tpt_arena_block_t *block = arena->head;
    while (block != NULL && block->next != NULL) {
        tpt_arena_block_t *next = block->next;
        tpt_free(block);
        block = next;
    }
    if (block != NULL) block->used = 0;
    arena->head = block;
    arena->used = 0;
}

void tpt_arena_free(tpt_arena_t *arena) {
    tpt_arena_reset(arena);
    tpt_free(arena->head);
    arena->head = NULL;
}
