/* status.h - errors as values. The public part (codes, message, free) is in tpt.h. */
#ifndef TPT_BASE_STATUS_H
#define TPT_BASE_STATUS_H

#include <stdarg.h>

#include "tpt/tpt.h"

/* A new status; never NULL for code != TPT_OK (falls back to a static out-of-memory status). */
TPT_MUST_USE tpt_status_t *tpt_status_make(tpt_code_t code, const char *fmt, ...) TPT_PRINTF(2, 3);
TPT_MUST_USE tpt_status_t *tpt_status_makev(tpt_code_t code, const char *fmt, va_list args);
/* Appends "; while " and the text to a failed status and returns it; NULL stays NULL. */
TPT_MUST_USE tpt_status_t *tpt_status_annotate(tpt_status_t *status, const char *fmt, ...) TPT_PRINTF(2, 3);
/* Keeps the first of two: returns `first` and frees `second`, or `second` when `first` is NULL. */
TPT_MUST_USE tpt_status_t *tpt_status_join(tpt_status_t *first, tpt_status_t *second);
tpt_status_t *tpt_status_copy(const tpt_status_t *status);
tpt_status_t *tpt_status_oom(size_t bytes); /* host memory exhausted */

/* Returns from the caller when `expr` fails. TPT_TRY_MSG annotates on the way up. */
#define TPT_TRY(expr)                                    \
    do {                                                 \
        tpt_status_t *tpt_try_status_ = (expr);          \
        if (tpt_try_status_ != NULL) return tpt_try_status_; \
    } while (0)
#define TPT_TRY_MSG(expr, ...)                                                                            \
    do {                                                                                                  \
        tpt_status_t *tpt_try_status_ = (expr);                                                           \
        if (tpt_try_status_ != NULL) return tpt_status_annotate(tpt_try_status_, __VA_ARGS__);            \
    } while (0)

#endif
