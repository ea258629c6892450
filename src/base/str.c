/* str.c - a text that grows by doubling up to its maximum. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void tpt_str_init(tpt_str_t *str, size_t max_bytes) { *str = (tpt_str_t){.max = max_bytes}; }

/* Room for `n` more bytes and the NUL. */
static bool str_reserve(tpt_str_t *str, size_t n) {
    if (str->failed) return false;
    if (n > str->max || str->size > str->max - n) {
        str->failed = true;
        return false;
    }
    size_t need = str->size + n + 1;
    if (need <= str->capacity) return true;
    size_t capacity = str->capacity < 64 ? 64 : str->capacity * 2;
    if (capacity < need) capacity = need;
    char *data = tpt_realloc(str->data, capacity);
    if (data == NULL) {
        str->failed = true;
        return false;
    }
    str->data = data;
    str->capacity = capacity;
    return true;
}

void tpt_str_addn(tpt_str_t *str, const char *text, size_t n) {
    if (!str_reserve(str, n)) return;
    if (n != 0) memcpy(str->data + str->size, text, n);
    str->size += n;
    str->data[str->size] = '\0';
}

void tpt_str_add(tpt_str_t *str, const char *text) { tpt_str_addn(str, text, strlen(text)); }

void tpt_str_addf(tpt_str_t *str, const char *fmt, ...) {
    if (!str_reserve(str, 0)) return;
    va_list args;
    size_t room = str->capacity - str->size;
    va_start(args, fmt);
    int n = vsnprintf(str->data + str->size, room, fmt, args);
    va_end(args);
    if (n < 0) {
        str->failed = true;
    } else if ((size_t)n < room) { /* usual: it fitted at once */
        if (str_reserve(str, (size_t)n)) str->size += (size_t)n;
    } else if (str_reserve(str, (size_t)n)) {
        va_start(args, fmt);
        (void)vsnprintf(str->data + str->size, (size_t)n + 1, fmt, args);
        va_end(args);
        str->size += (size_t)n;
    }
    if (str->failed && str->data != NULL) str->data[str->size] = '\0';
}

void tpt_str_int(tpt_str_t *str, int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) digits[--at] = '-';
    tpt_str_addn(str, digits + at, sizeof digits - at);
}

bool tpt_str_ok(const tpt_str_t *str) { return !str->failed; }

const char *tpt_str_text(const tpt_str_t *str) { return str->data == NULL ? "" : str->data; }

char *tpt_str_take(tpt_str_t *str) {
    char *text = NULL;
    if (str_reserve(str, 0)) { /* an empty text is a text */
        text = str->data;
        text[str->size] = '\0';
        str->data = NULL;
    }
    tpt_str_free(str);
    return text;
}

void tpt_str_free(tpt_str_t *str) {
    tpt_free(str->data);
    tpt_str_init(str, str->max);
}
