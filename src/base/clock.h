/* clock.h - time that only goes forward. */
#ifndef TPT_BASE_CLOCK_H
#define TPT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some fixed moment of this boot. */
static inline int64_t tpt_now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
