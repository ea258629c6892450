/* str.h - a text that grows, with a hard maximum. Failure is sticky: check tpt_str_ok once at the end. */
#ifndef TPT_BASE_STR_H
#define TPT_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tpt/tpt.h"

typedef struct tpt_str {
    char *data; /* always NUL-terminated once anything was added; NULL when empty */
    size_t size, capacity, max;
    bool failed;
} tpt_str_t;

void tpt_str_init(tpt_str_t *str, size_t max_bytes);
void tpt_str_add(tpt_str_t *str, const char *text);
void tpt_str_addn(tpt_str_t *str, const char *text, size_t n);
void tpt_str_addf(tpt_str_t *str, const char *fmt, ...) TPT_PRINTF(2, 3);
void tpt_str_int(tpt_str_t *str, int64_t value);
bool tpt_str_ok(const tpt_str_t *str);
const char *tpt_str_text(const tpt_str_t *str); /* "" when empty */
char *tpt_str_take(tpt_str_t *str);             /* caller frees with free(); NULL on failure; str is empty after */
void tpt_str_free(tpt_str_t *str);

#endif
