/* test_support.h - cmocka and the few helpers that all C tests share. */
#ifndef TPT_TEST_SUPPORT_H
#define TPT_TEST_SUPPORT_H

/* clang-format off: cmocka.h needs the others before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
/* clang-format on */

#include "base/alloc.h"
#include "base/status.h"

/* Fails with the status' own words. */
#define assert_ok(expr)                                                                                                        \
    do {                                                                                                                       \
        tpt_status_t *test_status_ = (expr);                                                                                   \
        if (test_status_ != NULL) fail_msg("%s: %s", #expr, tpt_status_message(test_status_));                                 \
    } while (0)

/* The call must fail with this code, and its message must hold `part`. */
#define assert_fails(expr, want, part)                                                                                         \
    do {                                                                                                                       \
        tpt_status_t *test_status_ = (expr);                                                                                   \
        if (test_status_ == NULL) fail_msg("%s: did not fail", #expr);                                                         \
        if (tpt_status_code(test_status_) != (want) || strstr(tpt_status_message(test_status_), part) == NULL) {               \
            fail_msg("%s: code %d, %s", #expr, (int)tpt_status_code(test_status_), tpt_status_message(test_status_));          \
        }                                                                                                                      \
        tpt_status_free(test_status_);                                                                                         \
    } while (0)

/* Runs `step` with its 1st, 2nd, ... allocation failing until it gets through; it must fail cleanly each time before.
 * `step` returns a status; it frees what it made. */
static inline void torture(tpt_status_t *(*step)(void *user), void *user) {
    for (size_t nth = 1; nth < 10000; nth++) {
        (void)tpt_fault_alloc_arm(nth);
        tpt_status_t *status = step(user);
        size_t seen = tpt_fault_alloc_arm(0);
        if (seen < nth) {
            if (status != NULL) fail_msg("failed with no fault: %s", tpt_status_message(status));
            assert_true(nth > 1); /* else it allocates nothing and proves nothing */
            return;
        }
        if (status != NULL) assert_int_equal(tpt_status_code(status), TPT_RESOURCE_EXHAUSTED);
        tpt_status_free(status);
    }
    fail_msg("never got through");
}

#endif
