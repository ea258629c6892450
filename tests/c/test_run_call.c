/* Recording, cutting, plans, programs, donation and errors of src/run, on the fake plugin. */
#include "test_run_support.h"

#include <pthread.h>

#include "pjrt/null/null.h"

static const int64_t dims[2] = {2, 3};
static const float data[6] = {1, 2, 3, 4, 5, 6};

static int open_null(void **state) {
    (void)state;
    tpt_null_reset();
    tpt_counters_reset();
    tpt_mode_set(TPT_MODE_STRICT);
    tpt_status_t *status = tpt_plugin_select("null", 2);
    if (!status) status = tpt_runtime_open();
    tpt_status_free(status);
    return status != NULL;
}

static int close_null(void **state) {
    (void)state;
    tpt_runtime_close();
    tpt_null_counts_t alive = tpt_null_counts();
    if (alive.buffers || alive.programs || alive.clients) {
        print_error("alive: %d buffers, %d programs, %d clients\n", (int)alive.buffers, (int)alive.programs, (int)alive.clients);
        return 1;
    }
    return 0;
}

static void test_run_call__second_call_is_a_hit(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(2, dims, data), *b = floats(2, dims, data), *out = NULL;
    for (int i = 0; i < 3; i++) {
        assert_ok(add(op, a, b, 2, dims, &out));
        tpt_storage_release(out);
    }
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    assert_int_equal(count(TPT_COUNTER_executes), 3);
    assert_int_equal(count(TPT_COUNTER_plan_misses), 1);
    assert_int_equal(count(TPT_COUNTER_plan_hits), 2);
    tpt_storage_release(a);
    tpt_storage_release(b);
}

static void test_run_call__number_and_offset_do_not_compile(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    const int64_t base[2] = {8, 3}, size[1] = {3}, stride[1] = {1};
    tpt_storage_t *a = floats(2, base, NULL), *out = NULL;
    const tpt_spec_t spec = spec_of(1, size);
    for (int i = 0; i < 8; i++) {
        const tpt_arg_t args[3] = {tensor_arg(a, 1, size, stride, 3 * i), tensor_arg(a, 1, size, stride, 0), number_arg(0.5 * i + 2)};
        assert_ok(call_op(op, args, 3, &spec, &out));
        tpt_storage_release(out);
    }
    assert_int_equal(count(TPT_COUNTER_plan_misses), 1);
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    tpt_storage_release(a);
}

static void test_run_call__in_place_donates_only_what_nobody_else_holds(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(true);
    tpt_storage_t *a = floats(2, dims, data), *b = floats(2, dims, data), *twin = NULL;
    assert_ok(add(op, a, b, 2, dims, NULL));
    assert_int_equal(count(TPT_COUNTER_donations), 1);
    assert_ok(tpt_storage_new(0, TPT_F32, 2, dims, &twin));
    assert_ok(tpt_storage_copy(twin, a)); /* shares the buffer */
    assert_ok(add(op, a, b, 2, dims, NULL));
    assert_int_equal(count(TPT_COUNTER_donations), 1);
    assert_ok(add(op, a, b, 2, dims, NULL));
    assert_int_equal(count(TPT_COUNTER_donations), 2);
    tpt_storage_release(a);
    tpt_storage_release(b);
    tpt_storage_release(twin);
}

static void test_run_call__deferred_ops_are_one_program(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(2, dims, data), *x = NULL, *y = NULL, *dead = NULL;
    for (int i = 0; i < 2; i++) {
        tpt_defer_push();
        assert_ok(add(op, a, a, 2, dims, &x));
        assert_ok(add(op, x, a, 2, dims, &y));
        assert_ok(add(op, y, y, 2, dims, &dead));
        tpt_storage_release(dead);
        tpt_storage_release(x);
        assert_ok(tpt_defer_pop(0));
        assert_false(y->pending);
        tpt_storage_release(y);
    }
    assert_int_equal(count(TPT_COUNTER_executes), 2);
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    tpt_storage_release(a);
}

static void test_run_call__dropped_work_never_runs(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(2, dims, data), *x = NULL;
    tpt_defer_push();
    assert_ok(add(op, a, a, 2, dims, &x));
    tpt_storage_release(x);
    assert_ok(tpt_defer_pop(0));
    assert_int_equal(count(TPT_COUNTER_executes), 0);
    tpt_storage_release(a);
}

static void failed_step(tpt_null_step_t step, tpt_code_t code) {
    tpt_op_t *op = bind_add(true);
    tpt_storage_t *a = floats(2, dims, data), *b = floats(2, dims, data);
    const int64_t half[1] = {3};
    float back[6];
    tpt_storage_t *first = NULL; /* the first compile also finds out what the plugin can do */
    assert_ok(add(bind_add(false), a, b, 1, half, &first));
    tpt_storage_release(first);
    tpt_null_fail_next(step, code);
    assert_fails(add(op, a, b, 2, dims, NULL), code, "");
    assert_ok(tpt_storage_to_host(a, 0, sizeof back, back)); /* as before the failed update */
    assert_memory_equal(back, data, sizeof back);
    assert_ok(add(op, a, b, 2, dims, NULL)); /* and the device works on */
    tpt_storage_release(a);
    tpt_storage_release(b);
}

static void test_run_call__failed_compile_changes_nothing(void **state) {
    (void)state;
    failed_step(TPT_NULL_COMPILE, TPT_INTERNAL);
}

static void test_run_call__failed_execute_changes_nothing(void **state) {
    (void)state;
    failed_step(TPT_NULL_EXECUTE, TPT_RESOURCE_EXHAUSTED);
}

static void test_run_call__late_error_is_raised_at_the_read(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(2, dims, data), *x = NULL;
    float back[6];
    assert_ok(add(op, a, a, 2, dims, &x));
    tpt_storage_release(x);
    tpt_null_fail_next(TPT_NULL_RESULT, TPT_INTERNAL);
    assert_ok(add(op, a, a, 2, dims, &x));
    assert_fails(tpt_storage_to_host(x, 0, sizeof back, back), TPT_INTERNAL, "");
    assert_ok(tpt_storage_to_host(a, 0, sizeof back, back));
    assert_memory_equal(back, data, sizeof back);
    tpt_storage_release(x);
    tpt_storage_release(a);
}

static void test_run_call__dropped_errors_are_raised_by_synchronize(void **state) {
    (void)state;
    const int64_t wide[1] = {4096};
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(1, wide, NULL), *x = NULL;
    assert_ok(add(op, a, a, 1, wide, &x));
    tpt_storage_release(x);
    tpt_null_set_delay(20000000);
    tpt_null_fail_next(TPT_NULL_RESULT, TPT_INTERNAL);
    assert_ok(add(op, a, a, 1, wide, &x));
    tpt_storage_release(x); /* nobody can see the result any more */
    assert_fails(tpt_device_synchronize(0), TPT_INTERNAL, "");
    assert_ok(tpt_device_synchronize(0));
    tpt_storage_release(a);
}

static void test_run_call__other_device_is_refused(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    tpt_storage_t *a = floats(2, dims, data), *b = NULL, *out = NULL;
    assert_ok(tpt_storage_new(1, TPT_F32, 2, dims, &b));
    assert_fails(add(op, a, b, 2, dims, &out), TPT_INVALID_ARGUMENT, "tpu:0 and tpu:1");
    tpt_storage_release(a);
    tpt_storage_release(b);
}

static tpt_status_t *tortured(void *user) {
    tpt_op_t *op = user;
    tpt_storage_t *a = NULL, *out = NULL;
    tpt_status_t *status = tpt_storage_new(0, TPT_F32, 2, dims, &a);
    if (!status) status = tpt_storage_from_host(a, TPT_F32, 2, dims, data);
    if (!status) status = add(op, a, a, 2, dims, &out);
    tpt_storage_release(out);
    tpt_storage_release(a);
    return status;
}

static void test_run_call__every_allocation_may_fail(void **state) {
    (void)state;
    torture(tortured, bind_add(false));
}

typedef struct worker {
    tpt_op_t *op;
    tpt_storage_t *shared;
    bool ok;
} worker_t;

static void *work(void *user) {
    worker_t *w = user;
    tpt_storage_t *mine = NULL, *out = NULL;
    tpt_status_t *status = tpt_storage_new(0, TPT_F32, 2, dims, &mine);
    for (int i = 0; !status && i < 200; i++) {
        const int64_t size[1] = {1 + i % 6};
        status = add(w->op, w->shared, mine, 1, size, &out);
        if (!status) tpt_storage_release(out);
    }
    tpt_storage_release(mine);
    w->ok = status == NULL;
    tpt_status_free(status);
    return NULL;
}

static void test_run_call__threads_share_a_device(void **state) {
    (void)state;
    tpt_storage_t *shared = floats(2, dims, data);
    worker_t workers[4];
    pthread_t threads[4];
    tpt_op_t *op = bind_add(false);
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker_t){.op = op, .shared = shared};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(workers[i].ok);
    }
    assert_int_equal(count(TPT_COUNTER_compiles), 6); /* one a size, whoever came first */
    tpt_storage_release(shared);
}

int main(void) {
#define RUN(name) cmocka_unit_test_setup_teardown(name, open_null, close_null)
    const struct CMUnitTest tests[] = {
        RUN(test_run_call__second_call_is_a_hit),
        RUN(test_run_call__number_and_offset_do_not_compile),
        RUN(test_run_call__in_place_donates_only_what_nobody_else_holds),
        RUN(test_run_call__deferred_ops_are_one_program),
        RUN(test_run_call__dropped_work_never_runs),
        RUN(test_run_call__failed_compile_changes_nothing),
        RUN(test_run_call__failed_execute_changes_nothing),
        RUN(test_run_call__late_error_is_raised_at_the_read),
        RUN(test_run_call__dropped_errors_are_raised_by_synchronize),
        RUN(test_run_call__other_device_is_refused),
        RUN(test_run_call__every_allocation_may_fail),
        RUN(test_run_call__threads_share_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
