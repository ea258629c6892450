/* Programs that are promised, the runs that wait for them, and broken promises, on the fake plugin. */
#include "test_support.h"

#include <pthread.h>
#include <time.h>

#include "pjrt/null/null.h"
#include "pjrt/pjrt.h"

static const char text[] =
    "module @f {\n  func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2xf32>) {\n"
    "    return %0 : tensor<2xf32>\n  }\n}\n";
static const int64_t dims[1] = {2}, bytes[1] = {8};
static const float values[2] = {1, 2};

static tpt_client_t *client;
static int64_t executes; /* before the test */

static int start(void **state) {
    (void)state;
    tpt_null_reset();
    const tpt_client_options_t options = {.num_devices = 2};
    tpt_status_t *status = tpt_client_open("null", &options, &client);
    if (status == NULL) (void)tpt_client_portable(client); /* runs a program of its own */
    executes = tpt_null_counts().executes;
    tpt_status_free(status);
    return status != NULL;
}

static int end(void **state) {
    (void)state;
    tpt_programs_drain();
    tpt_client_close(client);
    int64_t peak;
    for (int tries = 0; tries < 1000 && tpt_null_counts().clients != 0; tries++) (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    tpt_null_counts_t counts = tpt_null_counts();
    return counts.clients != 0 || counts.buffers != 0 || counts.programs != 0 || tpt_buffer_live_bytes(0, &peak) != 0;
}

static tpt_program_t *compile(void) {
    tpt_program_t *program = NULL;
    const tpt_compile_options_t options = {.device = 0};
    assert_ok(tpt_program_compile(client, text, strlen(text), &options, &program));
    return program;
}

static tpt_program_t *promise(void) {
    tpt_program_t *program = NULL;
    assert_ok(tpt_program_promise(client, 0, 1, bytes, &program));
    assert_int_equal(tpt_program_nouts(program), 1);
    return program;
}

static tpt_buffer_t *upload(void) {
    tpt_buffer_t *buffer = NULL;
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F32, 1, dims, values, &buffer));
    return buffer;
}

static tpt_buffer_t *run(tpt_program_t *program, tpt_buffer_t *in, bool donate) {
    tpt_buffer_t *out = NULL;
    const int64_t keep[1] = {0};
    assert_ok(tpt_program_execute(program, 0, 1, &in, donate ? 0 : 1, keep, 1, &out));
    return out;
}

static void expect_zeros(tpt_buffer_t *buffer) {
    float read[2] = {7, 7};
    assert_ok(tpt_buffer_to_host(buffer, 0, sizeof read, read));
    assert_true(read[0] == 0 && read[1] == 0);
}

static void test_promise__runs_wait_for_the_compiler(void **state) {
    (void)state;
    tpt_program_t *late = promise();
    tpt_buffer_t *in = upload(), *a = run(late, in, false), *b = run(late, a, false);
    assert_false(tpt_buffer_is_ready(a));
    assert_false(tpt_buffer_is_ready(b));
    assert_int_equal(tpt_buffer_nbytes(b), 8);
    assert_int_equal(tpt_null_counts().executes - executes, 0);
    tpt_program_t *ready = compile(); /* one that is there, run on a value that is not */
    tpt_buffer_t *c = run(ready, b, false);
    assert_false(tpt_buffer_is_ready(c));
    tpt_program_keep_promise(late, compile(), NULL);
    expect_zeros(c);
    expect_zeros(a);
    assert_int_equal(tpt_null_counts().executes - executes, 3);
    tpt_programs_drain();
    tpt_buffer_t *d = run(late, c, false); /* directly again */
    assert_int_equal(tpt_null_counts().executes - executes, 4);
    expect_zeros(d);
    tpt_buffer_t *all[] = {in, a, b, c, d};
    for (int i = 0; i < 5; i++) tpt_buffer_release(all[i]);
    tpt_program_release(late);
    tpt_program_release(ready);
}

static void test_promise__donated_and_dropped_arguments_live_until_the_run(void **state) {
    (void)state;
    tpt_program_t *late = promise();
    tpt_buffer_t *in = upload(), *out = run(late, in, true);
    assert_int_equal(tpt_buffer_refs(in), 2); /* ours and the queue's: nobody else donates it meanwhile */
    tpt_buffer_release(in);
    tpt_program_keep_promise(late, compile(), NULL);
    tpt_program_release(late);
    expect_zeros(out);
    assert_int_equal(tpt_null_counts().donations, 1);
    tpt_buffer_release(out);
}

static void test_promise__results_that_nobody_wants(void **state) {
    (void)state;
    tpt_program_t *late = promise();
    tpt_buffer_t *in = upload();
    tpt_buffer_release(run(late, in, false));
    tpt_buffer_release(in);
    tpt_program_keep_promise(late, compile(), NULL);
    tpt_program_release(late);
}

/* What is dropped while it is computed holds no memory of ours; who waits for the device waits for it. */
static void test_promise__results_dropped_before_they_are_computed(void **state) {
    (void)state;
    const int64_t large[1] = {8192};
    tpt_program_t *late = NULL;
    assert_ok(tpt_program_promise(client, 0, 1, large, &late));
    tpt_buffer_t *in = upload();
    const int64_t before = tpt_buffer_live_bytes(0, NULL);
    for (int i = 0; i < 200; i++) {
        tpt_buffer_t *out = run(late, in, false);
        assert_int_equal(tpt_buffer_live_bytes(0, NULL), before + 8192);
        tpt_buffer_drop(out);
        assert_int_equal(tpt_buffer_live_bytes(0, NULL), before);
    }
    assert_ok(tpt_client_await_dropped(client, 0)); /* none was started */
    assert_int_equal(tpt_null_counts().executes - executes, 0);
    tpt_null_set_delay(2000000);
    tpt_program_keep_promise(late, compile(), NULL);
    tpt_programs_drain();
    assert_int_equal(tpt_null_counts().executes - executes, 200);
    tpt_buffer_t *last = run(late, in, false);
    tpt_buffer_retain(last);
    tpt_buffer_drop(last); /* somebody else has it */
    assert_ok(tpt_client_await_dropped(client, 0));
    expect_zeros(last);
    tpt_null_set_delay(0);
    tpt_buffer_drop(last);
    tpt_buffer_drop(NULL);
    tpt_buffer_release(in);
    tpt_program_release(late);
}

static void test_promise__failed_compile_is_everybodys_error(void **state) {
    (void)state;
    tpt_program_t *late = promise(), *ready = compile();
    tpt_buffer_t *in = upload(), *a = run(late, in, false), *b = run(ready, a, false);
    tpt_program_keep_promise(late, NULL, tpt_status_make(TPT_RESOURCE_EXHAUSTED, "no room for this program"));
    assert_fails(tpt_buffer_await(b), TPT_RESOURCE_EXHAUSTED, "no room");
    assert_fails(tpt_buffer_await(b), TPT_RESOURCE_EXHAUSTED, "no room"); /* again and again */
    float read[2];
    assert_fails(tpt_buffer_to_host(a, 0, 8, read), TPT_RESOURCE_EXHAUSTED, "no room");
    assert_true(tpt_buffer_is_ready(a));
    tpt_buffer_t *out = NULL;
    assert_fails(tpt_program_execute(late, 0, 1, &in, 0, NULL, 1, &out), TPT_RESOURCE_EXHAUSTED, "no room");
    tpt_buffer_t *copy = NULL;
    assert_fails(tpt_buffer_copy_to_device(a, 1, &copy), TPT_RESOURCE_EXHAUSTED, "no room");
    void *data;
    size_t size;
    assert_fails(tpt_program_serialize(late, &data, &size), TPT_RESOURCE_EXHAUSTED, "no room");
    tpt_buffer_t *fine = run(ready, in, false); /* does not hang on it */
    expect_zeros(fine);
    tpt_buffer_release(fine);
    tpt_buffer_release(in);
    tpt_buffer_release(a);
    tpt_buffer_release(b);
    tpt_program_release(late);
    tpt_program_release(ready);
}

static void test_promise__wrong_number_of_results_breaks_it(void **state) {
    (void)state;
    static const int64_t two[2] = {8, 8};
    tpt_program_t *late = NULL;
    assert_ok(tpt_program_promise(client, 0, 2, two, &late));
    tpt_program_keep_promise(late, compile(), NULL);
    tpt_buffer_t *in = upload(), *outs[2];
    assert_fails(tpt_program_execute(late, 0, 1, &in, 0, NULL, 2, outs), TPT_INTERNAL, "2 results");
    tpt_buffer_release(in);
    tpt_program_release(late);
}

static void test_promise__failed_run_is_its_results_error(void **state) {
    (void)state;
    tpt_program_t *late = promise();
    tpt_buffer_t *in = upload(), *a = run(late, in, false);
    tpt_null_fail_next(TPT_NULL_EXECUTE, TPT_UNAVAILABLE);
    tpt_program_keep_promise(late, compile(), NULL);
    assert_fails(tpt_buffer_await(a), TPT_UNAVAILABLE, "");
    tpt_buffer_release(a);
    a = run(late, in, false);
    expect_zeros(a);
    tpt_buffer_release(a);
    tpt_buffer_release(in);
    tpt_program_release(late);
}

static void *keep_later(void *program) {
    (void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    tpt_program_keep_promise(program, compile(), NULL);
    return NULL;
}

/* More runs than the queue holds: the caller waits instead of piling them up. */
static void test_promise__queue_is_bounded(void **state) {
    (void)state;
    tpt_program_t *late = promise();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_later, late), 0);
    tpt_buffer_t *value = upload();
    for (int i = 0; i < 5000; i++) {
        tpt_buffer_t *next = run(late, value, false);
        tpt_buffer_release(value);
        value = next;
    }
    expect_zeros(value);
    tpt_buffer_release(value);
    (void)pthread_join(thread, NULL);
    tpt_program_release(late);
}

static tpt_status_t *step(void *user) {
    (void)user;
    tpt_program_t *late = NULL;
    tpt_buffer_t *in = NULL, *out = NULL;
    tpt_status_t *status = tpt_program_promise(client, 0, 1, bytes, &late);
    if (!status) status = tpt_buffer_from_host(client, 0, TPT_F32, 1, dims, values, &in);
    if (!status) status = tpt_program_execute(late, 0, 1, &in, 0, NULL, 1, &out);
    tpt_program_t *real = NULL;
    const tpt_compile_options_t options = {.device = 0};
    tpt_status_t *why = late ? tpt_program_compile(client, text, strlen(text), &options, &real) : NULL;
    if (late) tpt_program_keep_promise(late, real, why);
    if (!status) status = tpt_buffer_await(out);
    tpt_programs_drain();
    tpt_buffer_release(in);
    tpt_buffer_release(out);
    tpt_program_release(late);
    return status;
}

static void test_promise__every_failing_allocation(void **state) {
    (void)state;
    torture(step, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_promise__runs_wait_for_the_compiler),
        TEST(test_promise__donated_and_dropped_arguments_live_until_the_run),
        TEST(test_promise__results_that_nobody_wants),
        TEST(test_promise__results_dropped_before_they_are_computed),
        TEST(test_promise__failed_compile_is_everybodys_error),
        TEST(test_promise__wrong_number_of_results_breaks_it),
        TEST(test_promise__failed_run_is_its_results_error),
        TEST(test_promise__queue_is_bounded),
        TEST(test_promise__every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
