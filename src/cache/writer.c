/* writer.c - one thread serializes what was compiled and writes it, so that no step waits for a disk. The key's lock goes
 * with the job: whoever waits for the key finds the entry when it gets the lock. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/notice.h"
#include "cache/cache_internal.h"

#define MAX_JOBS 4096
#define MAX_QUEUED ((size_t)512 << 20)     /* bytes of texts that wait */
#define AT_EXIT INT64_C(20000000000)       /* longest wait when the process ends */
#define REST_AFTER_ERROR INT64_C(30000000000) /* a full disk is not asked each time */

typedef struct job {
    struct job *next;
    tpt_hash128_t hash;
    char *key; /* context, text */
    size_t context_bytes, text_bytes;
    void *program;
    int64_t compile_ns;
    int lock;
    bool replace;
    tpt_cache_hooks_t hooks;
} job_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static job_t *first, **last = &first;
static size_t njobs, nbytes; /* with the one in work */
static bool running;
static pid_t owner; /* the process that has the thread: a forked child has none */
static atomic_int_fast64_t rest_until;

static void free_job(job_t *job) {
    job->hooks.release(job->program);
    tpt_lock_release(job->lock);
    tpt_free(job->key);
    tpt_free(job);
}

static void write_job(job_t *job) {
    void *blob = NULL, *data = NULL;
    size_t blob_bytes = 0, bytes = 0;
    if (tpt_now_ns() < atomic_load(&rest_until)) return;
    tpt_status_t *status = job->hooks.serialize(job->program, &blob, &blob_bytes);
    if (status != NULL) { /* a plugin that cannot serialize, or a program that cannot be */
        tpt_status_free(status);
        return;
    }
    tpt_entry_t entry = {.hash = job->hash, .created = (uint64_t)time(NULL), .compile_ns = (uint64_t)job->compile_ns, .context = job->key,
                         .context_bytes = job->context_bytes, .text = job->key + job->context_bytes, .text_bytes = job->text_bytes,
                         .blob = blob, .blob_bytes = blob_bytes};
    status = tpt_entry_write(&entry, &data, &bytes);
    tpt_free(blob);
    if (status == NULL) status = tpt_disk_write(job->hash, data, bytes);
    tpt_free(data);
    if (status == NULL) {
        tpt_counter_add(TPT_COUNTER_cache_writes, 1);
        tpt_lock_release(job->lock); /* nobody need wait for the eviction */
        job->lock = -1;
        tpt_remote_put(job->hash, job->replace);
        tpt_evict_after(bytes);
        return;
    }
    atomic_store(&rest_until, tpt_now_ns() + REST_AFTER_ERROR);
    tpt_notice(TPT_NOTICE_CACHE_WRITE, "an entry of the compile cache in %s is not kept: %s; work goes on without", tpt_disk_root(), tpt_status_message(status));
    tpt_status_free(status);
}

static void *run(void *forever) {
    pthread_mutex_lock(&lock);
    while (forever == NULL) {
        while (first == NULL) pthread_cond_wait(&work, &lock);
        job_t *job = first;
        first = job->next;
        if (first == NULL) last = &first;
        size_t bytes = job->context_bytes + job->text_bytes;
        pthread_mutex_unlock(&lock);
        write_job(job);
        free_job(job);
        pthread_mutex_lock(&lock);
        njobs--;
        nbytes -= bytes;
        if (njobs == 0) pthread_cond_broadcast(&idle);
    }
    return forever;
}

static void at_exit(void) { tpt_writer_drain(AT_EXIT); }

/* Lock held. The thread takes no signals: they belong to the program's own threads. */
static bool start(void) {
    static bool registered;
    if (running && owner == getpid()) return true;
    sigset_t all, before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    running = pthread_create(&thread, NULL, run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!running) return false;
    (void)pthread_detach(thread);
    owner = getpid();
    if (!registered) registered = atexit(at_exit) == 0;
    return true;
}

void tpt_writer_add(const tpt_cache_key_t *key, void *program, int64_t compile_ns, const tpt_cache_find_t *find, const tpt_cache_hooks_t *hooks) {
    size_t bytes = key->context_bytes + key->text_bytes;
    job_t *job = tpt_malloc(sizeof *job);
    char *copy = tpt_malloc(bytes + 1);
    if (job == NULL || copy == NULL) { /* not kept, that is all */
        tpt_free(job);
        tpt_free(copy);
        tpt_lock_release(find->lock);
        return;
    }
    memcpy(copy, key->context, key->context_bytes);
    memcpy(copy + key->context_bytes, key->text, key->text_bytes);
    hooks->retain(program);
    *job = (job_t){.hash = key->hash, .key = copy, .context_bytes = key->context_bytes, .text_bytes = key->text_bytes, .program = program,
                   .compile_ns = compile_ns, .lock = find->lock, .replace = find->replace, .hooks = *hooks};
    pthread_mutex_lock(&lock);
    bool taken = njobs < MAX_JOBS && nbytes + bytes <= MAX_QUEUED && start();
    if (taken) {
        *last = job;
        last = &job->next;
        njobs++;
        nbytes += bytes;
        pthread_cond_signal(&work);
    }
    pthread_mutex_unlock(&lock);
    if (!taken) free_job(job);
}

void tpt_writer_drain(int64_t limit_ns) {
    struct timespec until;
    if (owner != getpid()) return;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(limit_ns / 1000000000);
    pthread_mutex_lock(&lock);
    while (running && njobs > 0)
        if (pthread_cond_timedwait(&idle, &lock, &until) == ETIMEDOUT) break;
    pthread_mutex_unlock(&lock);
}

void tpt_writer_forgive(void) { atomic_store(&rest_until, 0); }

void tpt_cache_write_all(void) { tpt_writer_drain(INT64_C(600000000000)); }
