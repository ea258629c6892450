/* notice.c - one text a kind, said once. */
#include "base/notice.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

#define TEXT 512

static tpt_mutex_t lock = TPT_MUTEX_INIT;
static bool said[TPT_NOTICE_COUNT], waiting[TPT_NOTICE_COUNT];
static char texts[TPT_NOTICE_COUNT][TEXT];
static atomic_bool any;

void tpt_notice(tpt_notice_kind_t kind, const char *fmt, ...) {
    char text[TEXT];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tpt_log(TPT_LOG_WARN, "%s", text);
    tpt_mutex_lock(&lock);
    if (!said[kind]) {
        said[kind] = waiting[kind] = true;
        memcpy(texts[kind], text, sizeof text);
        atomic_store(&any, true);
    }
    tpt_mutex_unlock(&lock);
}

bool tpt_notice_take(char *out, size_t room) {
    if (!atomic_load_explicit(&any, memory_order_relaxed)) return false;
    bool found = false;
    tpt_mutex_lock(&lock);
    for (int i = 0; i < TPT_NOTICE_COUNT && !found; i++) {
        found = waiting[i];
        if (!found) continue;
        waiting[i] = false;
        (void)snprintf(out, room, "%s", texts[i]);
    }
    if (!found) atomic_store(&any, false);
    tpt_mutex_unlock(&lock);
    return found;
}

void tpt_notices_reset(void) {
    tpt_mutex_lock(&lock);
    memset(said, 0, sizeof said);
    memset(waiting, 0, sizeof waiting);
    tpt_mutex_unlock(&lock);
}
