/* log.c - one line a message to stderr, written at once. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/env.h"

static const char *const log_names[] = {"off", "error", "warn", "info", "debug"};

/* Read once: messages sit on hot paths. -1: not read yet. */
static atomic_int log_level = -1;

static int log_read_level(void) {
    const char *text = tpt_env_get(TPT_ENV_LOG);
    int level = TPT_LOG_OFF;
    for (int i = 0; i < (int)(sizeof log_names / sizeof *log_names); i++) {
        if (strcasecmp(text, log_names[i]) == 0) level = i;
    }
    atomic_store_explicit(&log_level, level, memory_order_relaxed);
    return level;
}

bool tpt_log_on(tpt_log_level_t level) {
    int now = atomic_load_explicit(&log_level, memory_order_relaxed);
    if (now < 0) now = log_read_level();
    return level != TPT_LOG_OFF && (int)level <= now;
}

void tpt_log(tpt_log_level_t level, const char *fmt, ...) {
    if (!tpt_log_on(level)) return;
    char line[2048];
    int head = snprintf(line, sizeof line, "torch_tpu %s: ", log_names[level]);
    va_list args;
    va_start(args, fmt);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, fmt, args);
    va_end(args);
    if (body < 0) return;
    size_t size = (size_t)head + (size_t)body;
    if (size > sizeof line - 2) size = sizeof line - 2; /* a longer message is cut */
    line[size++] = '\n';
    if (write(STDERR_FILENO, line, size) < 0) return; /* nowhere to complain */
}
