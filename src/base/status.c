/* status.c - errors as values: a code and a message in one heap block. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Longest message kept; a plugin's error may carry a whole program. */
#define STATUS_MESSAGE_MAX ((size_t)1 << 16)

struct tpt_status {
    tpt_code_t code;
    size_t length;
    char message[];
};

/* Given out when there is no memory for an error of its own; never freed or changed. Laid out as struct tpt_status. */
static const struct {
    tpt_code_t code;
    size_t length;
    char message[40];
} status_oom = {TPT_RESOURCE_EXHAUSTED, sizeof "host memory exhausted" - 1, "host memory exhausted"};

static tpt_status_t *status_static_oom(void) { return (tpt_status_t *)(uintptr_t)&status_oom; }

static bool status_is_static(const tpt_status_t *status) { return (const void *)status == (const void *)&status_oom; }

tpt_code_t tpt_status_code(const tpt_status_t *status) { return status == NULL ? TPT_OK : status->code; }

const char *tpt_status_message(const tpt_status_t *status) { return status == NULL ? "" : status->message; }

void tpt_status_free(tpt_status_t *status) {
    if (status != NULL && !status_is_static(status)) tpt_free(status);
}

static size_t status_clip(int length) {
    size_t n = length < 0 ? 0 : (size_t)length;
    return n > STATUS_MESSAGE_MAX ? STATUS_MESSAGE_MAX : n;
}

tpt_status_t *tpt_status_makev(tpt_code_t code, const char *fmt, va_list args) {
    if (code == TPT_OK) return NULL;
    va_list again;
    va_copy(again, args);
    size_t length = status_clip(vsnprintf(NULL, 0, fmt, again));
    va_end(again);
    tpt_status_t *status = tpt_malloc(sizeof *status + length + 1);
    if (status == NULL) return status_static_oom();
    status->code = code;
    status->length = length;
    status->message[0] = '\0';
    (void)vsnprintf(status->message, length + 1, fmt, args);
    return status;
}

tpt_status_t *tpt_status_make(tpt_code_t code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tpt_status_t *status = tpt_status_makev(code, fmt, args);
    va_end(args);
    return status;
}

tpt_status_t *tpt_status_annotate(tpt_status_t *status, const char *fmt, ...) {
    static const char joint[] = "; while ";
    if (status == NULL || status_is_static(status)) return status;
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t extra = status_clip(vsnprintf(NULL, 0, fmt, again));
    va_end(again);
    size_t joint_size = sizeof joint - 1;
    if (status->length + joint_size + extra <= STATUS_MESSAGE_MAX) {
        tpt_status_t *grown = tpt_realloc(status, sizeof *status + status->length + joint_size + extra + 1);
        if (grown != NULL) { /* without memory the note is lost, the error is not */
            status = grown;
            memcpy(status->message + status->length, joint, joint_size);
            (void)vsnprintf(status->message + status->length + joint_size, extra + 1, fmt, args);
            status->length += joint_size + extra;
        }
    }
    va_end(args);
    return status;
}

tpt_status_t *tpt_status_join(tpt_status_t *first, tpt_status_t *second) {
    if (first == NULL) return second;
    tpt_status_free(second);
    return first;
}

tpt_status_t *tpt_status_copy(const tpt_status_t *status) {
    if (status == NULL) return NULL;
    if (status_is_static(status)) return status_static_oom();
    size_t bytes = sizeof *status + status->length + 1;
    tpt_status_t *copy = tpt_malloc(bytes);
    if (copy == NULL) return status_static_oom();
    memcpy(copy, status, bytes);
    return copy;
}

tpt_status_t *tpt_status_oom(size_t bytes) {
    return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "host memory exhausted: no room for %zu bytes", bytes);
}
