/* Environment, log, counters and element types. */
#include "test_support.h"

#include <pthread.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

static void test_base_env__default_and_set(void **state) {
    (void)state;
    unsetenv("TORCH_TPU_PJRT_PLUGIN");
    assert_string_equal(tpt_env_name(TPT_ENV_PLUGIN), "TORCH_TPU_PJRT_PLUGIN");
    assert_string_equal(tpt_env_get(TPT_ENV_PLUGIN), "");
    setenv("TORCH_TPU_PJRT_PLUGIN", "cpu", 1);
    assert_string_equal(tpt_env_get(TPT_ENV_PLUGIN), "cpu");
    unsetenv("TORCH_TPU_DONATE");
    assert_true(tpt_env_flag(TPT_ENV_DONATE));
    static const char *const off[] = {"", "0", "false", "OFF", "No"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        setenv("TORCH_TPU_DONATE", off[i], 1);
        assert_false(tpt_env_flag(TPT_ENV_DONATE));
    }
    setenv("TORCH_TPU_DONATE", "yes", 1);
    assert_true(tpt_env_flag(TPT_ENV_DONATE));
}

static void test_base_env__numbers(void **state) {
    (void)state;
    unsetenv("TORCH_TPU_NUM_DEVICES");
    assert_int_equal(tpt_env_int(TPT_ENV_NUM_DEVICES, 0, 64), 1);
    setenv("TORCH_TPU_NUM_DEVICES", "4", 1);
    assert_int_equal(tpt_env_int(TPT_ENV_NUM_DEVICES, 0, 64), 4);
    setenv("TORCH_TPU_NUM_DEVICES", "-3", 1);
    assert_int_equal(tpt_env_int(TPT_ENV_NUM_DEVICES, 0, 64), 0);
    setenv("TORCH_TPU_NUM_DEVICES", "99999999999999999999", 1);
    assert_int_equal(tpt_env_int(TPT_ENV_NUM_DEVICES, 0, 64), 1);
    setenv("TORCH_TPU_NUM_DEVICES", "4x", 1);
    assert_int_equal(tpt_env_int(TPT_ENV_NUM_DEVICES, 0, 64), 1);
}

static void test_base_log__level_and_cut(void **state) {
    (void)state;
    setenv("TORCH_TPU_LOG", "warn", 1); /* read once, here */
    assert_true(tpt_log_on(TPT_LOG_ERROR));
    assert_true(tpt_log_on(TPT_LOG_WARN));
    assert_false(tpt_log_on(TPT_LOG_INFO));
    assert_false(tpt_log_on(TPT_LOG_OFF));
    int ends[2], saved = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    tpt_log(TPT_LOG_INFO, "not shown");
    tpt_log(TPT_LOG_WARN, "n=%d", 3);
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    tpt_log(TPT_LOG_ERROR, "%s", long_text);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    char got[8192];
    ssize_t n = 0, part;
    while ((part = read(ends[0], got + n, sizeof got - 1 - (size_t)n)) > 0) n += part;
    close(ends[0]);
    got[n] = '\0';
    static const char first[] = "torch_tpu warn: n=3\ntorch_tpu error: xxx";
    assert_memory_equal(got, first, sizeof first - 1);
    assert_int_equal(got[n - 1], '\n');
    assert_true(n < 20 + 2048 + 1);
}

static void *count_thread(void *user) {
    for (int i = 0; i < 10000; i++) tpt_counter_add(TPT_COUNTER_executes, 1);
    return user;
}

static void test_base_counters__threads(void **state) {
    (void)state;
    pthread_t threads[4];
    tpt_counters_reset();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_thread, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_executes), 40000);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_compiles), 0);
    assert_string_equal(tpt_counter_name(TPT_COUNTER_executes), "executes");
    assert_string_equal(tpt_counter_name(TPT_COUNTER_COUNT), "");
    tpt_counter_add(TPT_COUNTER_COUNT, 1); /* ignored */
    tpt_counters_reset();
    assert_int_equal(tpt_counter_get(TPT_COUNTER_executes), 0);
}

static void test_base_dtype__sizes(void **state) {
    (void)state;
    assert_int_equal(tpt_dtype_size(TPT_DTYPE_NONE), 0);
    assert_int_equal(tpt_dtype_size(TPT_BOOL), 1);
    assert_int_equal(tpt_dtype_size(TPT_BF16), 2);
    assert_int_equal(tpt_dtype_size(TPT_C128), 16);
    assert_int_equal(tpt_dtype_size(TPT_DTYPE_COUNT), 0);
    assert_string_equal(tpt_dtype_name(TPT_F32), "float32");
    assert_string_equal(tpt_dtype_name(TPT_F8E5M2FNUZ), "float8_e5m2fnuz");
    for (int dtype = TPT_BOOL; dtype < TPT_DTYPE_COUNT; dtype++) {
        assert_true(tpt_dtype_size((tpt_dtype_t)dtype) > 0);
        assert_true(strlen(tpt_dtype_name((tpt_dtype_t)dtype)) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_log__level_and_cut), cmocka_unit_test(test_base_env__default_and_set),
        cmocka_unit_test(test_base_env__numbers),       cmocka_unit_test(test_base_counters__threads),
        cmocka_unit_test(test_base_dtype__sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
