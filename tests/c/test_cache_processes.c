/* src/cache among processes: one compiles, the others wait; holders that die or hang; eviction while others read and write. */
#include "test_cache_support.h"

#include <signal.h>
#include <sys/mman.h>

#define PROCESSES 16
#define PROGRAMS 24

/* Counts that all processes see. */
typedef struct shared {
    atomic_int compiles[PROGRAMS], ready, wrong;
} shared_t;
static shared_t *shared;

static void nap(int ms) { (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L}, NULL); }

static int processes_start(void **state) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cache_start(state);
}

static int processes_end(void **state) {
    (void)munmap(shared, sizeof *shared);
    return cache_end(state);
}

/* As use(), with a compile of some length that is counted. */
static tpt_cache_level_t slow_use(int number, int ms) {
    char text[64];
    (void)snprintf(text, sizeof text, "program %d", number);
    tpt_cache_key_t key = key_of(text);
    tpt_cache_find_t find;
    tpt_cache_find(&key, &find);
    if (find.level == TPT_CACHE_MISS) {
        atomic_fetch_add(&shared->compiles[number], 1);
        nap(ms);
    } else if (find.data != NULL && (find.bytes != strlen(text) || memcmp(find.data, text, find.bytes) != 0)) {
        atomic_fetch_add(&shared->wrong, 1);
    }
    fake_t *program = find.program != NULL ? find.program : fake_new(text);
    tpt_cache_keep(&key, &find, program, 1000000);
    fake_release(program);
    tpt_cache_done(&find);
    tpt_cache_key_free(&key);
    return find.level;
}

/* A process of its own: the child opens the cache anew, as no thread of ours lives in it. */
static pid_t child(void (*work)(int), int argument) {
    tpt_cache_close();
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cache_open();
        work(argument);
        tpt_cache_close();
        _exit(0);
    }
    return pid;
}

static void expect_exit(pid_t pid, int signal) {
    int state = 0;
    assert_int_equal(waitpid(pid, &state, 0), pid);
    if (signal != 0) assert_true(WIFSIGNALED(state) && WTERMSIG(state) == signal);
    else assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

static void use_all(int order) {
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->ready) < PROCESSES) nap(1);
    for (int i = 0; i < PROGRAMS; i++) (void)slow_use(order % 2 == 0 ? i : PROGRAMS - 1 - i, 5);
}

static void test_processes__sixteen_at_once_compile_each_program_once(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) pids[i] = child(use_all, i);
    for (int i = 0; i < PROCESSES; i++) expect_exit(pids[i], 0);
    for (int i = 0; i < PROGRAMS; i++) assert_int_equal(atomic_load(&shared->compiles[i]), 1);
    assert_int_equal(atomic_load(&shared->wrong), 0);
}

static void hold_for_ever(int number) {
    char text[64];
    (void)snprintf(text, sizeof text, "program %d", number);
    tpt_cache_key_t key = key_of(text);
    tpt_cache_find_t find;
    tpt_cache_find(&key, &find);
    atomic_store(&shared->ready, 1);
    for (;;) nap(1000);
}

static pid_t start_holder(void) {
    atomic_store(&shared->ready, 0);
    pid_t holder = child(hold_for_ever, 0);
    while (atomic_load(&shared->ready) == 0) nap(1);
    return holder;
}

static void use_first(int ms) { (void)slow_use(0, ms); }

/* The waiter gets the lock when its holder dies in the middle of a compile. */
static void test_processes__killed_holder_is_replaced(void **state) {
    (void)state;
    pid_t holder = start_holder(), waiter = child(use_first, 0);
    nap(100);
    assert_int_equal(waitpid(waiter, NULL, WNOHANG), 0);
    assert_int_equal(atomic_load(&shared->compiles[0]), 0);
    (void)kill(holder, SIGKILL);
    expect_exit(holder, SIGKILL);
    expect_exit(waiter, 0);
    assert_int_equal(atomic_load(&shared->compiles[0]), 1);
    cache_open();
    assert_int_equal(slow_use(0, 0), TPT_CACHE_DISK);
}

/* A holder that hangs is waited for until the time limit; then the work is done twice, and the user hears of it. */
static void test_processes__hanging_holder_costs_the_time_limit(void **state) {
    (void)state;
    char text[600];
    (void)setenv("TORCH_TPU_CACHE_WAIT", "1", 1);
    pid_t holder = start_holder();
    (void)kill(holder, SIGSTOP);
    cache_open();
    assert_int_equal(slow_use(0, 0), TPT_CACHE_MISS);
    assert_true(tpt_notice_take(text, sizeof text));
    assert_non_null(strstr(text, "another process"));
    cache_again(); /* its result was kept all the same */
    assert_int_equal(slow_use(0, 0), TPT_CACHE_DISK);
    (void)kill(holder, SIGKILL);
    expect_exit(holder, SIGKILL);
}

/* A child that was forked while a lock was held must not keep it alive after its parent's death. */
static void fork_and_hold(int number) {
    char text[64];
    (void)snprintf(text, sizeof text, "program %d", number);
    tpt_cache_key_t key = key_of(text);
    tpt_cache_find_t find;
    tpt_cache_find(&key, &find);
    pid_t mine = fork();
    if (mine == 0) {
        atomic_store(&shared->wrong, (int)getpid()); /* the test ends it */
        for (;;) nap(1000);
    }
    while (atomic_load(&shared->wrong) == 0) nap(1);
    atomic_store(&shared->ready, 1);
    for (;;) nap(1000);
}

static void test_processes__forked_children_hold_nothing(void **state) {
    (void)state;
    pid_t holder = child(fork_and_hold, 0);
    while (atomic_load(&shared->ready) == 0) nap(1);
    (void)kill(holder, SIGKILL);
    expect_exit(holder, SIGKILL);
    cache_open();
    int64_t before = tpt_now_ns();
    assert_int_equal(slow_use(0, 0), TPT_CACHE_MISS);
    assert_true(tpt_now_ns() - before < INT64_C(10000000000)); /* half of the time limit */
    (void)kill(atomic_load(&shared->wrong), SIGKILL);
}

/* Writers that are killed at any moment leave whole entries or none. */
static void write_for_ever(int seed) {
    for (int i = 0;; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "entry %d of %d, with some text to make it longer", i, seed);
        (void)use(text);
    }
}

static void test_processes__killed_writers_leave_no_half_entries(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        pid_t writer = child(write_for_ever, round);
        nap(15 + 3 * round);
        (void)kill(writer, SIGKILL);
        expect_exit(writer, SIGKILL);
        cache_open();
        for (int i = 0; i < 40; i++) {
            char text[200];
            (void)snprintf(text, sizeof text, "entry %d of %d, with some text to make it longer", i, round);
            (void)use(text);
        }
    }
    assert_int_equal(count(TPT_COUNTER_cache_bad_entries), 0);
}

/* ---- size ------------------------------------------------------------------------------------------------------------- */

static void set_used(const char *text, int64_t when) {
    char path[TPT_PATH_MAX];
    path_of(text, path);
    const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(const char *text) {
    char path[TPT_PATH_MAX];
    path_of(text, path);
    return access(path, F_OK) == 0;
}

static void test_processes__least_recently_used_goes_first(void **state) {
    (void)state;
    int64_t now = (int64_t)time(NULL);
    char text[32];
    for (int i = 0; i < 8; i++) {
        (void)snprintf(text, sizeof text, "program %d", i);
        assert_int_equal(use(text), TPT_CACHE_MISS);
    }
    tpt_cache_write_all();
    for (int i = 0; i < 8; i++) {
        (void)snprintf(text, sizeof text, "program %d", i);
        set_used(text, now - 1000 + i);
    }
    set_used("program 0", now + 100000000); /* a clock that ran ahead: of unknown age */
    cache_again();
    assert_int_equal(use("program 1"), TPT_CACHE_DISK); /* used now */
    tpt_cache_pruned_t out;
    assert_ok(tpt_cache_prune(the_dir, INT64_MAX, &out));
    assert_int_equal(out.kept, 8);
    assert_int_equal(out.removed, 0);
    assert_ok(tpt_cache_prune(the_dir, out.kept_bytes * 3 / 8, &out));
    assert_int_equal(out.kept, 3);
    assert_int_equal(out.removed, 5);
    assert_false(exists("program 0"));
    assert_true(exists("program 1") && exists("program 7") && exists("program 6"));
    assert_ok(tpt_cache_prune(the_dir, 0, &out));
    assert_int_equal(out.kept, 0);
    assert_ok(tpt_cache_prune("/nowhere/at/all", 0, &out));
    assert_int_equal(use("program 7"), TPT_CACHE_MISS);
}

static void test_processes__bound_holds_while_many_write(void **state) {
    (void)state;
    (void)setenv("TORCH_TPU_CACHE_MAX_BYTES", "200000", 1); /* some fifty entries of a block each */
    pid_t pids[4];
    for (int i = 0; i < 4; i++) pids[i] = child(write_for_ever, 100 + i);
    nap(700);
    for (int i = 0; i < 4; i++) {
        (void)kill(pids[i], SIGKILL);
        expect_exit(pids[i], SIGKILL);
    }
    cache_open();
    for (int i = 0; i < 100; i++) { /* whatever was torn off is cleaned up by whoever writes next */
        char text[64];
        (void)snprintf(text, sizeof text, "last %d", i);
        assert_int_equal(use(text), TPT_CACHE_MISS);
    }
    tpt_cache_write_all();
    tpt_cache_pruned_t out;
    assert_ok(tpt_cache_prune(the_dir, INT64_MAX, &out));
    assert_in_range(out.kept_bytes, 1, 250000);
    assert_true(count(TPT_COUNTER_cache_evictions) > 0);
    assert_int_equal(count(TPT_COUNTER_cache_bad_entries), 0);
}

static void test_processes__leftovers_of_the_dead_are_removed(void **state) {
    (void)state;
    char old[400], young[400];
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    tpt_cache_write_all();
    (void)snprintf(old, sizeof old, "%s/tmp/1-1-1", tpt_disk_root());
    (void)snprintf(young, sizeof young, "%s/tmp/1-1-2", tpt_disk_root());
    assert_true(close(open(old, O_CREAT | O_WRONLY, 0600)) == 0 && close(open(young, O_CREAT | O_WRONLY, 0600)) == 0);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    tpt_cache_pruned_t out;
    assert_ok(tpt_cache_prune(the_dir, INT64_MAX, &out));
    assert_int_equal(access(old, F_OK), -1);
    assert_int_equal(access(young, F_OK), 0);
    /* A process that finds all it needs writes nothing, and prunes nothing: it looks when it opens the directory. */
    assert_int_equal(utimensat(AT_FDCWD, young, times, 0), 0);
    assert_true(close(open(old, O_CREAT | O_WRONLY, 0600)) == 0);
    tpt_cache_close();
    cache_open();
    assert_int_equal(access(young, F_OK), -1);
    assert_int_equal(access(old, F_OK), 0); /* made just now */
    assert_int_equal(use("a"), TPT_CACHE_DISK);
}

/* ---- facts ------------------------------------------------------------------------------------------------------------ */

static bool knows(uint64_t number) {
    const uint64_t key[2] = {number, 7};
    uint64_t value = 0;
    size_t bytes = 0;
    bool found = tpt_cache_fact_get("tests", key, 2, &value, sizeof value, &bytes);
    if (found) assert_true(bytes == sizeof value && value == number * 3);
    return found;
}

static void learn(uint64_t number) {
    const uint64_t key[2] = {number, 7}, value = number * 3;
    tpt_cache_fact_put("tests", key, 2, &value, sizeof value);
}

static void learn_many(int first) {
    for (int i = 0; i < 200; i++) learn((uint64_t)(first + i));
}

static void test_processes__facts_are_shared(void **state) {
    (void)state;
    pid_t pids[4];
    for (int i = 0; i < 4; i++) pids[i] = child(learn_many, 100 * i); /* half of them are learnt twice */
    for (int i = 0; i < 4; i++) expect_exit(pids[i], 0);
    cache_open();
    for (uint64_t i = 0; i < 500; i++) assert_true(knows(i));
    assert_false(knows(1000));
    assert_int_equal(count(TPT_COUNTER_cache_bad_entries), 0);
}

static void test_processes__damaged_facts_are_begun_anew(void **state) {
    (void)state;
    char path[TPT_PATH_MAX];
    learn_many(0);
    (void)snprintf(path, sizeof path, "%s/facts-%016llx", tpt_disk_root(), (unsigned long long)tpt_hash64("tests", 5));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 5), 0); /* torn at its end */
    cache_again();
    assert_true(knows(0) && knows(198));
    assert_false(knows(199));
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, info.st_size / 2), 1); /* and damaged in the middle */
    close(fd);
    cache_again();
    assert_true(knows(0));
    assert_false(knows(150));
    learn(150); /* begins a sound file */
    cache_again();
    assert_true(knows(150));
    assert_false(knows(0));
    learn(0);
    cache_again();
    assert_true(knows(150) && knows(0));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, processes_start, processes_end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_processes__sixteen_at_once_compile_each_program_once),
        TEST(test_processes__killed_holder_is_replaced),
        TEST(test_processes__hanging_holder_costs_the_time_limit),
        TEST(test_processes__forked_children_hold_nothing),
        TEST(test_processes__killed_writers_leave_no_half_entries),
        TEST(test_processes__least_recently_used_goes_first),
        TEST(test_processes__bound_holds_while_many_write),
        TEST(test_processes__leftovers_of_the_dead_are_removed),
        TEST(test_processes__facts_are_shared),
        TEST(test_processes__damaged_facts_are_begun_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
