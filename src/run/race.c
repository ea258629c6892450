/* race.c - a local compile against a read from the remote cache. The compiler cannot be stopped: when it loses, its thread goes
 * on, and what it makes is kept for nobody. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run_internal.h"

#define POLL 2000000 /* ns */

typedef struct job {
    pthread_mutex_t lock;
    pthread_cond_t end;
    int users;
    bool done;
    tpt_client_t *client;
    tpt_compile_options_t options;
    char *text;
    size_t bytes;
    int64_t taken;
    tpt_program_t *program;
    tpt_status_t *status;
} job_t;

/* Compilers that have lost and still run. The process must not end under them. */
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t count_zero = PTHREAD_COND_INITIALIZER;
static int running;

static void leave(job_t *job) {
    pthread_mutex_lock(&job->lock);
    bool last = --job->users == 0;
    pthread_mutex_unlock(&job->lock);
    if (!last) return;
    tpt_program_release(job->program);
    tpt_status_free(job->status);
    (void)pthread_mutex_destroy(&job->lock);
    (void)pthread_cond_destroy(&job->end);
    tpt_free(job->text);
    tpt_free(job);
}

static void *compile(void *user) {
    job_t *job = user;
    int64_t before = tpt_now_ns();
    tpt_program_t *program = NULL;
    tpt_status_t *status = tpt_program_compile(job->client, job->text, job->bytes, &job->options, &program);
    pthread_mutex_lock(&job->lock);
    job->taken = tpt_now_ns() - before;
    job->program = program;
    job->status = status;
    job->done = true;
    pthread_cond_signal(&job->end);
    pthread_mutex_unlock(&job->lock);
    leave(job);
    pthread_mutex_lock(&count_lock);
    if (--running == 0) pthread_cond_broadcast(&count_zero);
    pthread_mutex_unlock(&count_lock);
    return NULL;
}

void tpt_race_drain(void) {
    pthread_mutex_lock(&count_lock);
    while (running > 0) pthread_cond_wait(&count_zero, &count_lock);
    pthread_mutex_unlock(&count_lock);
}

static job_t *start(const tpt_cache_key_t *key, const tpt_compile_options_t *options) {
    static bool registered;
    job_t *job = tpt_calloc(1, sizeof *job);
    char *text = tpt_malloc(key->text_bytes + 1);
    pthread_t thread;
    if (!job || !text) {
        tpt_free(job);
        tpt_free(text);
        return NULL;
    }
    memcpy(text, key->text, key->text_bytes);
    text[key->text_bytes] = '\0';
    *job = (job_t){.users = 2, .client = tpt_runtime_client(), .options = *options, .text = text, .bytes = key->text_bytes};
    (void)pthread_mutex_init(&job->lock, NULL);
    (void)pthread_cond_init(&job->end, NULL);
    pthread_mutex_lock(&count_lock);
    if (!registered) registered = atexit(tpt_race_drain) == 0;
    running++;
    bool started = pthread_create(&thread, NULL, compile, job) == 0;
    if (!started) running--;
    pthread_mutex_unlock(&count_lock);
    if (started) {
        (void)pthread_detach(thread);
        return job;
    }
    job->users = 1;
    leave(job);
    return NULL;
}

/* Waits a little for the compiler. */
static bool is_done(job_t *job, bool for_ever) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&job->lock);
    if (!for_ever && !job->done) (void)pthread_cond_timedwait(&job->end, &job->lock, &until);
    while (for_ever && !job->done) (void)pthread_cond_wait(&job->end, &job->lock);
    bool done = job->done;
    pthread_mutex_unlock(&job->lock);
    return done;
}

tpt_status_t *tpt_prog_race(tpt_prog_t *prog, const tpt_cache_key_t *key, const tpt_compile_options_t *options, tpt_cache_find_t *find) {
    job_t *job = start(key, options);
    if (!job) return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "no memory or thread to compile a program of %d ops", prog->nnodes);
    bool won = false;
    while (!won && !is_done(job, find->remote == NULL)) won = tpt_cache_remote(key, find, 0) && tpt_prog_load(prog, key, options, find);
    tpt_status_t *status = NULL;
    if (!won) {
        status = tpt_status_annotate(job->status, "compiling a program of %d ops", prog->nnodes);
        prog->program = job->program;
        job->status = NULL;
        job->program = NULL;
        if (!status) status = tpt_prog_compiled(prog, key, find, job->taken);
    }
    leave(job);
    return status;
}
