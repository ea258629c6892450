/* crew.c - jobs stand in slots for all to see. A caller's job lives on its stack: it takes it out of its slot and then waits
 * for the last of those who looked at it. Until then the slot is nobody else's: those who look at another job may be busy for
 * long, or be waiting for this one themselves. */
#include "base/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/env.h"
#include "base/thread.h"

#define SLOTS 8
#define MEMBERS_MOST 15
#define AWAKE_NS 200000 /* after the last piece; waking up takes a quarter of that */

typedef struct active {
    const tpt_crew_job_t *job;
    atomic_int_fast64_t next, done; /* pieces handed out and finished */
} active_t;

static active_t over; /* stands for a job that is done, whose slot is not free yet */

static struct {
    _Atomic(active_t *) job; /* NULL: it is free */
    atomic_int readers;
} slots[SLOTS];

static tpt_mutex_t lock = TPT_MUTEX_INIT; /* of the members' list and their sleep */
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static pthread_t members[MEMBERS_MOST];
static atomic_int nmembers, sleepers;
static atomic_bool ending;

static pthread_once_t asked = PTHREAD_ONCE_INIT;
static int most; /* threads that the user grants XLA's own pool, and so this one */

static void ask(void) {
    const int64_t wanted = tpt_env_int(TPT_ENV_NPROC, 0, INT32_MAX);
    most = wanted > 0 && wanted <= MEMBERS_MOST ? (int)wanted : MEMBERS_MOST + 1;
}

int tpt_crew_size(void) {
    const int cores = tpt_cores_count();
    (void)pthread_once(&asked, ask);
    return cores > most ? most : cores;
}

static bool work_on(active_t *a) {
    const tpt_crew_job_t *job = a->job;
    bool any = false;
    for (;; any = true) {
        const int64_t first = atomic_fetch_add(&a->next, job->at_once);
        if (first >= job->pieces) return any;
        const int64_t last = first + job->at_once < job->pieces ? first + job->at_once : job->pieces;
        job->run(job->work, first, last);
        atomic_fetch_add(&a->done, last - first);
    }
}

static bool stands(const active_t *a) { return a != NULL && a != &over; }

bool tpt_crew_help(void) {
    bool any = false;
    for (int i = 0; i < SLOTS; i++) {
        if (!stands(atomic_load_explicit(&slots[i].job, memory_order_relaxed))) continue;
        atomic_fetch_add(&slots[i].readers, 1);
        active_t *a = atomic_load(&slots[i].job);
        if (stands(a)) any = work_on(a) || any;
        atomic_fetch_sub(&slots[i].readers, 1);
    }
    return any;
}

static bool any_job(void) {
    for (int i = 0; i < SLOTS; i++)
        if (stands(atomic_load(&slots[i].job))) return true;
    return false;
}

static void sleep_until_called(void) {
    tpt_mutex_lock(&lock);
    atomic_fetch_add(&sleepers, 1);
    if (!any_job() && !atomic_load(&ending)) (void)pthread_cond_wait(&called, &lock);
    atomic_fetch_sub(&sleepers, 1);
    tpt_mutex_unlock(&lock);
}

static void *member(void *unused) {
    int64_t last = tpt_now_ns();
    while (!atomic_load_explicit(&ending, memory_order_relaxed)) {
        if (tpt_crew_help()) {
            last = tpt_now_ns();
        } else if (tpt_now_ns() - last < AWAKE_NS) {
            tpt_cores_pause();
        } else {
            sleep_until_called();
            last = tpt_now_ns();
        }
    }
    return unused;
}

/* Members take no signals: those are the process' own threads' business. */
static void start_members(int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
    tpt_mutex_lock(&lock);
    for (int n = atomic_load(&nmembers); n < wanted; n++) {
        if (pthread_create(&members[n], NULL, member, NULL) != 0) break;
        atomic_store(&nmembers, n + 1);
    }
    tpt_mutex_unlock(&lock);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void call_members(int64_t wanted) {
    if (atomic_load(&sleepers) == 0) return;
    tpt_mutex_lock(&lock);
    for (int64_t i = 0; i < wanted; i++) (void)pthread_cond_signal(&called);
    tpt_mutex_unlock(&lock);
}

void tpt_crew_run(const tpt_crew_job_t *job) {
    active_t a = {.job = job};
    const int others = tpt_crew_size() - 1;
    int slot = SLOTS;
    if (job->pieces > job->at_once && others > 0) {
        if (atomic_load_explicit(&nmembers, memory_order_relaxed) < others) start_members(others);
        for (slot = 0; slot < SLOTS; slot++) {
            active_t *none = NULL;
            if (atomic_compare_exchange_strong(&slots[slot].job, &none, &a)) break;
        }
    }
    if (slot < SLOTS) call_members(job->pieces / job->at_once < others ? job->pieces / job->at_once : others);
    (void)work_on(&a);
    if (slot == SLOTS) return;
    while (atomic_load(&a.done) < job->pieces) tpt_cores_pause();
    atomic_store(&slots[slot].job, &over);
    while (atomic_load(&slots[slot].readers) > 0) tpt_cores_pause();
    atomic_store(&slots[slot].job, NULL);
}

void tpt_crew_end(void) {
    tpt_mutex_lock(&lock);
    atomic_store(&ending, true);
    (void)pthread_cond_broadcast(&called);
    const int n = atomic_exchange(&nmembers, 0);
    tpt_mutex_unlock(&lock);
    for (int i = 0; i < n; i++) (void)pthread_join(members[i], NULL);
    atomic_store(&ending, false);
}
