/* cores.h - the processors that the calling thread may run on. */
#ifndef TPT_BASE_CORES_H
#define TPT_BASE_CORES_H

#include <stdbool.h>

/* A set of processors, as the system keeps it. */
typedef struct tpt_cores {
    unsigned long bits[1024 / (8 * sizeof(unsigned long))];
} tpt_cores_t;

/* Keeps the calling thread on the processor that it is on, until tpt_cores_restore. False, and nothing changes, if it has one only
 * or the system does not let it. */
bool tpt_cores_keep_one(tpt_cores_t *out_before);
void tpt_cores_restore(const tpt_cores_t *before);
/* How many it may run on; at least 1. */
int tpt_cores_count(void);
/* A breath in a loop that waits for another thread's next few instructions. */
void tpt_cores_pause(void);

#endif
