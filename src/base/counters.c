/* counters.c - process-wide counts, relaxed atomics. */
#include <stdatomic.h>

#include "tpt/tpt.h"

static _Atomic int64_t counters[TPT_COUNTER_COUNT];

static const char *const counter_names[] = {
#define COUNTER_NAME(name) #name,
    TPT_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
};

const char *tpt_counter_name(tpt_counter_t counter) {
    return (unsigned)counter < TPT_COUNTER_COUNT ? counter_names[counter] : "";
}

int64_t tpt_counter_get(tpt_counter_t counter) {
    if ((unsigned)counter >= TPT_COUNTER_COUNT) return 0;
    return atomic_load_explicit(&counters[counter], memory_order_relaxed);
}

void tpt_counter_add(tpt_counter_t counter, int64_t n) {
    if ((unsigned)counter < TPT_COUNTER_COUNT) (void)atomic_fetch_add_explicit(&counters[counter], n, memory_order_relaxed);
}

void tpt_counters_reset(void) {
    for (int i = 0; i < TPT_COUNTER_COUNT; i++) atomic_store_explicit(&counters[i], 0, memory_order_relaxed);
}
