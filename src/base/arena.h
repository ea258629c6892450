/* arena.h - memory that dies together. Not thread-safe; one owner at a time. */
#ifndef TPT_BASE_ARENA_H
#define TPT_BASE_ARENA_H

#include <stddef.h>

typedef struct tpt_arena_block tpt_arena_block_t;
typedef struct tpt_arena {
    tpt_arena_block_t *head;
    size_t used, max; /* bytes handed out; hard maximum */
} tpt_arena_t;

void tpt_arena_init(tpt_arena_t *arena, size_t max_bytes);
/* 16-byte aligned, zeroed; NULL when out of memory or over the maximum. */
void *tpt_arena_alloc(tpt_arena_t *arena, size_t bytes);
void *tpt_arena_copy(tpt_arena_t *arena, const void *src, size_t bytes); /* src may be NULL if bytes == 0 */
char *tpt_arena_text(tpt_arena_t *arena, const char *text);
void tpt_arena_reset(tpt_arena_t *arena); /* keeps the first block for reuse */
void tpt_arena_free(tpt_arena_t *arena);

#endif
