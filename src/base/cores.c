/* cores.c - the processors that the calling thread may run on; Linux's own calls. */
#include "base/cores.h"

#include <sched.h>
#if defined(__linux__)
#include <string.h>

_Static_assert(sizeof(cpu_set_t) == sizeof(tpt_cores_t), "a set of processors");

bool tpt_cores_keep_one(tpt_cores_t *out_before) {
    cpu_set_t set;
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2) return false;
    memcpy(out_before, &set, sizeof set);
    CPU_ZERO(&set);
    CPU_SET(here, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

void tpt_cores_restore(const tpt_cores_t *before) {
    cpu_set_t set;
    memcpy(&set, before, sizeof set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

int tpt_cores_count(void) {
    cpu_set_t set;
    const int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}
#else
bool tpt_cores_keep_one(tpt_cores_t *out_before) {
    (void)out_before;
    return false;
}

void tpt_cores_restore(const tpt_cores_t *before) { (void)before; }

int tpt_cores_count(void) { return 1; }
#endif

void tpt_cores_pause(void) { sched_yield(); }
