/* ahead.c - several compilers at once. A new program is a promise: the caller goes on to the next op, which brings the next new
 * program, while threads compile those before. The first value that is read waits for what it hangs on.
 *
 * A compile that fails is an asynchronous error like one of a run: its results carry it. Debug mode waits after each op. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_internal.h"

#define MOST_THREADS 32
#define MOST_JOBS 4096 /* then the caller compiles by itself */

typedef struct job {
    struct job *next;
    tpt_program_t *promise;
    char *text;
    int device, nnodes, nresults;
    tpt_loops_t loops;
} job_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static job_t *first, **last = &first;
static int njobs, nworking, nthreads; /* jobs that wait, jobs in work, threads */
static bool ending;
static pid_t owner;

static atomic_int wanted = -1; /* not yet read from the environment */
void tpt_ahead_forget(void) { atomic_store(&wanted, -1); }

static int wanted_threads(void) {
    int now = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (now >= 0) return now;
    now = (int)tpt_env_int(TPT_ENV_COMPILE_THREADS, -1, MOST_THREADS);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (now < 0) now = cores < 2 ? 0 : cores > 8 ? 8 : (int)cores;
    atomic_store(&wanted, now);
    return now;
}

bool tpt_ahead_on(void) { return tpt_mode_get() != TPT_MODE_DEBUG && wanted_threads() > 0; }

static void free_job(job_t *job) {
    tpt_program_release(job->promise);
    tpt_free(job->text);
    tpt_free(job);
}

static void work_off(job_t *job) {
    tpt_prog_t prog = {.nnodes = job->nnodes, .nresults = job->nresults, .loops = job->loops};
    tpt_status_t *status = tpt_prog_compile_now(&prog, job->text, job->device);
    if (status && prog.program) {
        tpt_program_release(prog.program);
        prog.program = NULL;
    }
    tpt_program_keep_promise(job->promise, prog.program, status);
    free_job(job);
}

static void *work(void *forever) {
    pthread_mutex_lock(&lock);
    while (!forever) {
        while (!first) pthread_cond_wait(&news, &lock);
        job_t *job = first;
        first = job->next;
        if (!first) last = &first;
        njobs--;
        nworking++;
        bool dropped = ending;
        pthread_mutex_unlock(&lock);
        if (dropped) {
            tpt_program_keep_promise(job->promise, NULL, tpt_status_make(TPT_CANCELLED, "the process ends"));
            free_job(job);
        } else {
            work_off(job);
        }
        pthread_mutex_lock(&lock);
        nworking--;
        pthread_cond_broadcast(&news);
    }
    return forever;
}

void tpt_ahead_drain(void) {
    if (owner != getpid()) return;
    pthread_mutex_lock(&lock);
    while (njobs + nworking > 0) pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
}

bool tpt_ahead_is_busy(void) {
    pthread_mutex_lock(&lock);
    const bool busy = owner == getpid() && njobs + nworking > 0;
    pthread_mutex_unlock(&lock);
    return busy;
}

void tpt_counters_settle(void) { tpt_ahead_drain(); }

void tpt_cache_flush(void) {
    tpt_ahead_drain();
    tpt_cache_write_all();
}

/* What nobody waits for is not compiled any more; what is being compiled is kept. */
void tpt_ahead_end(void) {
    if (owner != getpid()) return;
    pthread_mutex_lock(&lock);
    ending = true;
    pthread_mutex_unlock(&lock);
    tpt_cache_flush();
}

/* Lock held. One thread more if all are busy. */
static bool start(void) {
    static bool registered;
    if (owner != getpid()) nthreads = 0;
    if (nthreads > njobs + nworking || nthreads >= wanted_threads()) return true;
    sigset_t all, before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    bool made = pthread_create(&thread, NULL, work, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made) (void)pthread_detach(thread);
    nthreads += made;
    owner = getpid();
    if (!registered) registered = atexit(tpt_ahead_end) == 0;
    return nthreads > 0;
}

tpt_status_t *tpt_ahead_compile(tpt_prog_t *prog, const char *text, int device) {
    job_t *job = tpt_calloc(1, sizeof *job);
    char *copy = tpt_malloc(strlen(text) + 1);
    tpt_status_t *status = job && copy ? tpt_program_promise(tpt_runtime_client(), device, prog->nresults, prog->result_bytes, &prog->program)
                                       : tpt_status_oom(strlen(text));
    if (status) {
        tpt_free(job);
        tpt_free(copy);
        return status;
    }
    memcpy(copy, text, strlen(text) + 1);
    *job = (job_t){.promise = prog->program, .text = copy, .device = device, .nnodes = prog->nnodes, .nresults = prog->nresults,
                   .loops = prog->loops};
    tpt_program_retain(prog->program);
    pthread_mutex_lock(&lock);
    bool taken = njobs < MOST_JOBS && start();
    if (taken) {
        *last = job;
        last = &job->next;
        njobs++;
        pthread_cond_broadcast(&news); /* drainers wait here too */
    }
    pthread_mutex_unlock(&lock);
    if (!taken) work_off(job);
    return NULL;
}
