/* The crew: each piece is done once, whoever runs jobs, however many and from where; it ends and starts anew. */
#include "test_support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/cores.h"
#include "base/crew.h"

#define PIECES_MOST 1000

/* ---- jobs that count ----------------------------------------------------------------------------------------------------- */

typedef struct counted {
    int64_t pieces, at_once;
    atomic_int *counts;
    atomic_int wrong; /* cmocka's own checks are the main thread's */
} counted_t;

static void count(const void *work, int64_t first, int64_t last) {
    counted_t *c = (counted_t *)(uintptr_t)work;
    if (first < 0 || last <= first || last > c->pieces || last - first > c->at_once)
        atomic_fetch_add(&c->wrong, 1);
    else
        for (int64_t i = first; i < last; i++) atomic_fetch_add(&c->counts[i], 1);
}

/* False: a piece was not done, or twice. All is seen as soon as the job is over. */
static bool run_counted(int64_t pieces, int64_t at_once) {
    atomic_int counts[PIECES_MOST];
    for (int64_t i = 0; i < pieces; i++) atomic_init(&counts[i], 0);
    counted_t c = {.pieces = pieces, .at_once = at_once, .counts = counts};
    tpt_crew_run(&(tpt_crew_job_t){.run = count, .work = &c, .pieces = pieces, .at_once = at_once});
    bool good = atomic_load(&c.wrong) == 0;
    for (int64_t i = 0; i < pieces; i++) good = good && atomic_load_explicit(&counts[i], memory_order_relaxed) == 1;
    return good;
}

static void test_base_crew__each_piece_once(void **state) {
    (void)state;
    static const int64_t pieces[] = {0, 1, 2, 3, 7, 64, PIECES_MOST}, at_once[] = {1, 2, 3, 8, 64, 999, PIECES_MOST, 5000};
    for (int round = 0; round < 20; round++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
            for (size_t a = 0; a < sizeof at_once / sizeof *at_once; a++) assert_true(run_counted(pieces[p], at_once[a]));
}

/* What the pieces wrote without atomics is there for the caller. */
static void fill(const void *work, int64_t first, int64_t last) {
    int *to = (int *)(uintptr_t)work;
    for (int64_t i = first; i < last; i++) to[i] = (int)i + 1;
}

static void test_base_crew__what_was_written_is_seen(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        int values[97] = {0};
        tpt_crew_run(&(tpt_crew_job_t){.run = fill, .work = values, .pieces = 97, .at_once = 1 + round % 5});
        for (int i = 0; i < 97; i++) assert_int_equal(values[i], i + 1);
    }
}

/* ---- one piece, and one processor ---------------------------------------------------------------------------------------- */

typedef struct told {
    pthread_t caller;
    atomic_int calls, elsewhere;
} told_t;

static void tell(const void *work, int64_t first, int64_t last) {
    (void)first, (void)last;
    told_t *t = (told_t *)(uintptr_t)work;
    atomic_fetch_add(&t->calls, 1);
    if (!pthread_equal(t->caller, pthread_self())) atomic_fetch_add(&t->elsewhere, 1);
}

static void test_base_crew__what_is_handed_out_whole_stays_here(void **state) {
    (void)state;
    told_t t = {.caller = pthread_self()};
    tpt_crew_end(); /* there are no members */
    tpt_crew_run(&(tpt_crew_job_t){.run = tell, .work = &t, .pieces = 1, .at_once = 1});
    assert_int_equal(atomic_load(&t.calls), 1);
    tpt_crew_run(&(tpt_crew_job_t){.run = tell, .work = &t, .pieces = 50, .at_once = 50});
    assert_int_equal(atomic_load(&t.calls), 2);
    tpt_crew_run(&(tpt_crew_job_t){.run = tell, .work = &t, .pieces = 0, .at_once = 1});
    tpt_crew_run(&(tpt_crew_job_t){.run = tell, .work = &t, .pieces = 0, .at_once = 0});
    assert_int_equal(atomic_load(&t.calls), 2);
    assert_int_equal(atomic_load(&t.elsewhere), 0);
}

static void test_base_crew__one_processor(void **state) {
    (void)state;
    const int before = tpt_crew_size();
    assert_true(before >= 1 && before <= 16 && before <= tpt_cores_count());
    tpt_cores_t cores;
    if (!tpt_cores_keep_one(&cores)) skip(); /* there is one only, or the system forbids it */
    told_t t = {.caller = pthread_self()};
    assert_int_equal(tpt_crew_size(), 1);
    tpt_crew_run(&(tpt_crew_job_t){.run = tell, .work = &t, .pieces = 10, .at_once = 1});
    assert_int_equal(atomic_load(&t.calls), 10);
    assert_int_equal(atomic_load(&t.elsewhere), 0);
    tpt_cores_restore(&cores);
    assert_int_equal(tpt_crew_size(), before);
}

/* ---- jobs of several threads ----------------------------------------------------------------------------------------------
 */

#define CALLERS 12 /* more than jobs that are shown to others at once */

static atomic_int wrong, entered;

static void *many_jobs(void *number) {
    const int mine = *(const int *)number;
    for (int i = 0; i < 150; i++)
        if (!run_counted(1 + (i * 13 + mine * 5) % 60, 1 + i % 4)) atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void on_threads(void *(*body)(void *)) {
    pthread_t threads[CALLERS];
    int numbers[CALLERS];
    atomic_store(&wrong, 0);
    for (int i = 0; i < CALLERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, body, &numbers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void test_base_crew__jobs_of_several_threads(void **state) {
    (void)state;
    on_threads(many_jobs);
}

/* All jobs have begun before any of them goes on: more than fit into what others look at. */
static void wait_for_all(const void *work, int64_t first, int64_t last) {
    (void)last;
    atomic_int *begun = (atomic_int *)(uintptr_t)work;
    if (atomic_exchange(begun, 1) == 0) atomic_fetch_add(&entered, 1);
    while (atomic_load(&entered) < CALLERS) sched_yield();
    atomic_fetch_add(&begun[1], (int)first + 1);
}

static void *waiting_job(void *unused) {
    (void)unused;
    atomic_int begun[2];
    atomic_init(&begun[0], 0);
    atomic_init(&begun[1], 0);
    tpt_crew_run(&(tpt_crew_job_t){.run = wait_for_all, .work = begun, .pieces = 4, .at_once = 1});
    if (atomic_load(&begun[1]) != 1 + 2 + 3 + 4) atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void test_base_crew__more_jobs_than_slots(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        atomic_store(&entered, 0);
        on_threads(waiting_job);
    }
}

/* Pieces that run jobs of their own. */
static void nested(const void *work, int64_t first, int64_t last) {
    const int depth = *(const int *)work, less = depth - 1;
    for (int64_t i = first; i < last; i++) {
        if (!run_counted(3 + i, 1)) atomic_fetch_add(&wrong, 1);
        if (depth > 0) tpt_crew_run(&(tpt_crew_job_t){.run = nested, .work = &less, .pieces = 3, .at_once = 1});
        if (depth == 0) atomic_fetch_add(&entered, 1);
    }
}

static void *nested_jobs(void *unused) {
    const int depth = 2;
    for (int i = 0; i < 15; i++) tpt_crew_run(&(tpt_crew_job_t){.run = nested, .work = &depth, .pieces = 3, .at_once = 1});
    return unused == NULL ? NULL : unused;
}

static void test_base_crew__jobs_in_jobs(void **state) {
    (void)state;
    atomic_store(&entered, 0);
    atomic_store(&wrong, 0);
    (void)nested_jobs(NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(atomic_load(&entered), 15 * 27);
    on_threads(nested_jobs);
    assert_int_equal(atomic_load(&entered), 15 * 27 * (1 + CALLERS));
}

/* ---- a thread that only waits helps -----------------------------------------------------------------------------------------
 */

typedef struct meeting {
    int64_t wanted;
    atomic_int there, over;
} meeting_t;

/* Every piece needs a thread of its own. */
static void meet(const void *work, int64_t first, int64_t last) {
    (void)first, (void)last;
    meeting_t *m = (meeting_t *)(uintptr_t)work;
    atomic_fetch_add(&m->there, 1);
    while (atomic_load(&m->there) < m->wanted) sched_yield();
}

static void *hold_meeting(void *data) {
    meeting_t *m = data;
    tpt_crew_run(&(tpt_crew_job_t){.run = meet, .work = m, .pieces = m->wanted, .at_once = 1});
    atomic_store(&m->over, 1);
    return NULL;
}

static void test_base_crew__a_waiting_thread_helps(void **state) {
    (void)state;
    if (tpt_crew_size() < 2) skip(); /* jobs are shown to nobody */
    assert_false(tpt_crew_help());
    for (int round = 0; round < 10; round++) {
        meeting_t m = {.wanted = tpt_crew_size() + 1}; /* the crew alone is too few */
        pthread_t thread;
        bool helped = false;
        assert_int_equal(pthread_create(&thread, NULL, hold_meeting, &m), 0);
        while (!atomic_load(&m.over)) {
            helped = tpt_crew_help() || helped;
            sched_yield();
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(helped);
        assert_int_equal(atomic_load(&m.there), m.wanted);
        assert_false(tpt_crew_help());
    }
}

static void *helper(void *stop) {
    while (!atomic_load((atomic_int *)stop)) (void)tpt_crew_help();
    return NULL;
}

static void test_base_crew__helpers_of_many_jobs(void **state) {
    (void)state;
    atomic_int stop;
    atomic_init(&stop, 0);
    pthread_t helpers[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&helpers[i], NULL, helper, &stop), 0);
    on_threads(many_jobs);
    on_threads(nested_jobs);
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(helpers[i], NULL), 0);
}

/* ---- its end
 * ------------------------------------------------------------------------------------------------------------------ */

static void test_base_crew__ends_and_starts_anew(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_true(run_counted(100, 1));
        tpt_crew_end();
        if (round % 3 == 0) tpt_crew_end();
        assert_false(tpt_crew_help());
        assert_true(run_counted(1, 1));
    }
    on_threads(many_jobs);
    tpt_crew_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_crew__each_piece_once),
        cmocka_unit_test(test_base_crew__what_was_written_is_seen),
        cmocka_unit_test(test_base_crew__what_is_handed_out_whole_stays_here),
        cmocka_unit_test(test_base_crew__one_processor),
        cmocka_unit_test(test_base_crew__jobs_of_several_threads),
        cmocka_unit_test(test_base_crew__more_jobs_than_slots),
        cmocka_unit_test(test_base_crew__jobs_in_jobs),
        cmocka_unit_test(test_base_crew__a_waiting_thread_helps),
        cmocka_unit_test(test_base_crew__helpers_of_many_jobs),
        cmocka_unit_test(test_base_crew__ends_and_starts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
