/* promise.c - programs that are still being compiled, and the values of runs that wait for them. A caller need not wait for a
 * compiler to go on: it gets buffers that are promises. Runs that cannot begin yet stand in one queue, which a thread works off
 * in order; as soon as a program and all arguments of a run are there it is run directly again, as values never change and no
 * order between runs is needed.
 *
 * A failed compile breaks the promises that hang on it: their readers get its error. A promise that updates another value knows
 * that one until it is kept: no run has touched it when a compile fails. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "pjrt/pjrt_internal.h"

#define MOST_WAITING 1024 /* runs; then the caller waits */

/* One lock for all promises: they are few and short-lived. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

typedef struct run {
    struct run *next;
    tpt_program_t *program;
    int device, nargs, nkeep, nouts;
    tpt_buffer_t **args, **outs;
    PJRT_Buffer **list; /* scratch: arguments, then results */
    int64_t *keep;
} run_t;

static run_t *first, **last = &first;
static int waiting; /* with the one in work */
static bool ending;
static bool running;
static pid_t owner;

/* ---- keeping and breaking -------------------------------------------------------------------------------------------- */

static void tell(void) {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

tpt_status_t *tpt_pjrt_buffer_settle(tpt_buffer_t *buffer) {
    if (atomic_load_explicit(&buffer->handle, memory_order_acquire) != NULL) return NULL;
    pthread_mutex_lock(&lock);
    while (atomic_load(&buffer->handle) == NULL && atomic_load(&buffer->broken) == NULL) pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    return tpt_status_copy(atomic_load(&buffer->broken));
}

static bool is_there(tpt_buffer_t *buffer) { return atomic_load_explicit(&buffer->handle, memory_order_acquire) != NULL; }

/* Lock held. What a broken promise updates may be broken too. */
static tpt_buffer_t *last_good(tpt_buffer_t *buffer) {
    while (buffer != NULL && !is_there(buffer) && atomic_load(&buffer->broken) != NULL) buffer = buffer->before;
    return buffer;
}

void tpt_buffer_set_before(tpt_buffer_t *buffer, tpt_buffer_t *before) {
    if (is_there(buffer)) return;
    pthread_mutex_lock(&lock);
    tpt_buffer_t *old = buffer->before;
    if (before != NULL) before = last_good(before);
    buffer->before = is_there(buffer) ? NULL : before;
    if (buffer->before != NULL) tpt_buffer_retain(before);
    pthread_mutex_unlock(&lock);
    tpt_buffer_release(old);
}

tpt_buffer_t *tpt_buffer_get_before(const tpt_buffer_t *buffer) {
    if (atomic_load(&buffer->broken) == NULL) return NULL;
    pthread_mutex_lock(&lock);
    tpt_buffer_t *before = last_good(buffer->before);
    if (before != NULL && !is_there(before)) before = NULL;
    if (before != NULL) tpt_buffer_retain(before);
    pthread_mutex_unlock(&lock);
    return before;
}

/* The promise is kept; or it is broken by a run, which may have taken over what was before. */
static void forget_before(tpt_buffer_t *buffer) {
    pthread_mutex_lock(&lock);
    tpt_buffer_t *old = buffer->before;
    buffer->before = NULL;
    pthread_mutex_unlock(&lock);
    tpt_buffer_release(old);
}

tpt_status_t *tpt_program_promise(tpt_client_t *client, int device, int nouts, const int64_t *out_nbytes, tpt_program_t **out_program) {
    TPT_TRY(tpt_pjrt_check_device(client, device));
    tpt_program_t *program = tpt_calloc(1, sizeof *program);
    int64_t *sizes = tpt_malloc(((size_t)nouts + 1) * sizeof *sizes);
    if (program == NULL || sizes == NULL) {
        tpt_free(program);
        tpt_free(sizes);
        return tpt_status_oom(sizeof *program);
    }
    if (nouts > 0) memcpy(sizes, out_nbytes, (size_t)nouts * sizeof *sizes);
    atomic_init(&program->refs, 1);
    atomic_init(&program->real, NULL);
    atomic_init(&program->broken, NULL);
    program->device = device;
    program->nouts = nouts;
    program->out_nbytes = sizes;
    program->client = client;
    tpt_pjrt_client_retain(client);
    *out_program = program;
    return NULL;
}

bool tpt_program_is_ready(const tpt_program_t *program) { return atomic_load_explicit(&program->real, memory_order_acquire) != NULL; }

void tpt_program_keep_promise(tpt_program_t *promise, tpt_program_t *real, tpt_status_t *status) {
    if (status == NULL && real->nouts != promise->nouts)
        status = tpt_status_make(TPT_INTERNAL, "a program of %d results was compiled to one of %d", promise->nouts, real->nouts);
    if (status != NULL) {
        tpt_program_release(real);
        atomic_store(&promise->broken, status);
    } else {
        atomic_store_explicit(&promise->real, real, memory_order_release);
    }
    tell();
}

tpt_status_t *tpt_pjrt_program_settle(tpt_program_t *program, tpt_program_t **out_real) {
    pthread_mutex_lock(&lock);
    while (atomic_load(&program->real) == NULL && atomic_load(&program->broken) == NULL && !ending) pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    *out_real = atomic_load(&program->real);
    if (*out_real != NULL) return NULL;
    tpt_status_t *why = atomic_load(&program->broken);
    return why != NULL ? tpt_status_copy(why) : tpt_status_make(TPT_CANCELLED, "the process ends");
}

/* ---- the queue -------------------------------------------------------------------------------------------------------- */

static void free_run(run_t *run) {
    for (int i = 0; i < run->nargs; i++) tpt_buffer_release(run->args[i]);
    for (int i = 0; i < run->nouts; i++) tpt_buffer_release(run->outs[i]);
    tpt_program_release(run->program);
    tpt_free(run);
}

static void work_off(run_t *run) {
    tpt_program_t *real = NULL;
    tpt_status_t *status = tpt_pjrt_program_settle(run->program, &real);
    for (int i = 0; status == NULL && i < run->nargs; i++) {
        status = tpt_pjrt_buffer_settle(run->args[i]);
        run->list[i] = atomic_load(&run->args[i]->handle);
    }
    PJRT_Buffer **made = run->list + run->nargs;
    const bool runs = status == NULL;
    if (runs) status = tpt_pjrt_execute(real, run->device, run->nargs, run->list, run->nkeep, run->keep, run->nouts, made);
    for (int i = 0; i < run->nouts; i++) {
        if (status == NULL) atomic_store(&run->outs[i]->handle, made[i]); /* before `dropped` is read: who drops does it the other way round */
        if (runs) forget_before(run->outs[i]);
        if (status != NULL) atomic_store(&run->outs[i]->broken, tpt_status_copy(status));
        else if (atomic_load(&run->outs[i]->dropped)) tpt_pjrt_note_dropped(run->outs[i]);
    }
    tpt_status_free(status);
    tell();
    tpt_client_t *client = run->program->client;
    const int device = run->device;
    tpt_pjrt_client_retain(client);
    free_run(run);
    tpt_pjrt_limit_dropped(client, device);
    tpt_pjrt_client_release(client);
}

static void *work(void *forever) {
    pthread_mutex_lock(&lock);
    while (forever == NULL) {
        while (first == NULL) pthread_cond_wait(&news, &lock);
        run_t *run = first;
        first = run->next;
        if (first == NULL) last = &first;
        pthread_mutex_unlock(&lock);
        work_off(run);
        pthread_mutex_lock(&lock);
        waiting--;
        pthread_cond_broadcast(&news);
    }
    return forever;
}

void tpt_programs_drain(void) {
    if (owner != getpid()) return;
    pthread_mutex_lock(&lock);
    while (waiting > 0) pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
}

/* Nobody will read what still waits; the thread must only be out of the plugin before the plugin's own end. */
void tpt_programs_end(void) {
    pthread_mutex_lock(&lock);
    ending = owner == getpid();
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
    tpt_programs_drain();
}

/* Lock held. */
static bool start(void) {
    static bool registered;
    sigset_t all, before;
    pthread_t thread;
    if (running && owner == getpid()) return true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    running = pthread_create(&thread, NULL, work, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!running) return false;
    (void)pthread_detach(thread);
    owner = getpid();
    if (!registered) registered = atexit(tpt_programs_end) == 0;
    return true;
}

static tpt_status_t *make_run(tpt_program_t *program, int device, int nargs, tpt_buffer_t *const *args, int nkeep, const int64_t *keep,
                              run_t **out_run) {
    size_t nouts = (size_t)program->nouts, n = (size_t)nargs;
    size_t bytes = sizeof(run_t) + (n + nouts) * (sizeof(tpt_buffer_t *) + sizeof(PJRT_Buffer *)) + (size_t)nkeep * sizeof *keep;
    run_t *run = tpt_calloc(1, bytes);
    if (run == NULL) return tpt_status_oom(bytes);
    run->keep = (int64_t *)(void *)(run + 1);
    run->args = (tpt_buffer_t **)(void *)(run->keep + nkeep);
    run->outs = run->args + n;
    run->list = (PJRT_Buffer **)(void *)(run->outs + nouts);
    run->program = program;
    run->device = device;
    run->nkeep = nkeep;
    if (nkeep > 0) memcpy(run->keep, keep, (size_t)nkeep * sizeof *keep);
    tpt_program_retain(program);
    for (; run->nargs < nargs; run->nargs++) tpt_buffer_retain(run->args[run->nargs] = args[run->nargs]);
    tpt_status_t *status = NULL;
    while (status == NULL && run->nouts < program->nouts) {
        status = tpt_pjrt_buffer_promise(program->client, device, program->out_nbytes[run->nouts], &run->outs[run->nouts]);
        if (status == NULL) run->nouts++;
    }
    if (status != NULL) free_run(run);
    else *out_run = run;
    return status;
}

tpt_status_t *tpt_pjrt_execute_late(tpt_program_t *program, int device, int nargs, tpt_buffer_t *const *args, int nkeep, const int64_t *keep,
                                    tpt_buffer_t **out_buffers) {
    run_t *run = NULL;
    if (atomic_load(&program->broken) != NULL) return tpt_status_copy(atomic_load(&program->broken));
    if (program->out_nbytes == NULL) { /* sizes are not known before it runs: wait for its arguments instead */
        for (int i = 0; i < nargs; i++) TPT_TRY(tpt_pjrt_buffer_settle(args[i]));
        return tpt_program_execute(program, device, nargs, args, nkeep, keep, program->nouts, out_buffers);
    }
    TPT_TRY(make_run(program, device, nargs, args, nkeep, keep, &run));
    for (int i = 0; i < run->nouts; i++) tpt_buffer_retain(out_buffers[i] = run->outs[i]);
    pthread_mutex_lock(&lock);
    bool taken = start();
    while (taken && waiting >= MOST_WAITING) pthread_cond_wait(&news, &lock);
    if (taken) {
        *last = run;
        last = &run->next;
        waiting++;
        pthread_cond_broadcast(&news);
    }
    pthread_mutex_unlock(&lock);
    if (!taken) work_off(run); /* no thread to be had: here and now */
    return NULL;
}
