/* crew.h - threads that share a job's pieces. They stay awake for a while after a job: on virtual machines, waking one takes as
 * long as the jobs of a small model's step. A thread that only waits for results may work with them. */
#ifndef TPT_BASE_CREW_H
#define TPT_BASE_CREW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tpt_crew_job {
    void (*run)(const void *work, int64_t first, int64_t last); /* pieces first .. last - 1; from several threads at once */
    const void *work;
    int64_t pieces, at_once; /* at_once: handed out together */
} tpt_crew_job_t;

/* Threads that may work at once, the caller included: processors, 16 at most, or fewer where NPROC says so, which XLA obeys too. */
int tpt_crew_size(void);
/* Returns when all pieces are done, this thread having worked too. From any thread; members start with the first job of several
 * pieces. Where no thread can be had, the caller does all. */
void tpt_crew_run(const tpt_crew_job_t *job);
/* Works on whatever is to be done; false: there was nothing. */
bool tpt_crew_help(void);
/* Members end; the next job starts them anew. No job may be running. */
void tpt_crew_end(void);

#endif
