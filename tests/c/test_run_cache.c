/* src/run with the compile cache and with several compilers at once, on the fake plugin. */
#include "test_run_support.h"

#include <ftw.h>
#include <unistd.h>

#include "base/notice.h"
#include "pjrt/null/null.h"

static const int64_t dims[2] = {2, 3};
static const float data[6] = {1, 2, 3, 4, 5, 6};
static char dir[64];

static void reopen(void) {
    tpt_runtime_close();
    tpt_counters_reset();
    assert_ok(tpt_plugin_select("null", 1));
    assert_ok(tpt_runtime_open());
}

static int start(void **state) {
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/tpt_run_cache_XXXXXX");
    if (mkdtemp(dir) == NULL) return 1;
    (void)setenv("TORCH_TPU_CACHE", "1", 1);
    (void)setenv("TORCH_TPU_CACHE_DIR", dir, 1);
    tpt_null_reset();
    tpt_notices_reset();
    tpt_mode_set(TPT_MODE_STRICT);
    reopen();
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static int end(void **state) {
    (void)state;
    tpt_runtime_close();
    (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    tpt_null_counts_t alive = tpt_null_counts();
    return alive.buffers || alive.programs || alive.clients;
}

static void add_once(tpt_op_t *op) {
    float read[6];
    tpt_storage_t *a = floats(2, dims, data), *b = floats(2, dims, data), *out = NULL;
    assert_ok(add(op, a, b, 2, dims, &out));
    assert_ok(tpt_storage_to_host(out, 0, sizeof read, read));
    tpt_storage_release(a);
    tpt_storage_release(b);
    tpt_storage_release(out);
}

static void test_run_cache__second_process_loads(void **state) {
    (void)state;
    add_once(bind_add(false));
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    reopen();
    int64_t loads = tpt_null_counts().loads;
    add_once(bind_add(false));
    assert_int_equal(count(TPT_COUNTER_compiles), 0);
    assert_int_equal(count(TPT_COUNTER_cache_hits_disk), 1);
    assert_int_equal(tpt_null_counts().loads, loads + 1);
}

/* What is kept is whole, but the plugin will not have it. */
static void test_run_cache__refused_program_is_compiled_anew(void **state) {
    (void)state;
    char text[600];
    add_once(bind_add(false));
    reopen();
    tpt_null_fail_next(TPT_NULL_LOAD, TPT_INVALID_ARGUMENT);
    add_once(bind_add(false));
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    assert_int_equal(count(TPT_COUNTER_cache_bad_entries), 1);
    assert_true(tpt_notice_take(text, sizeof text));
    reopen();
    add_once(bind_add(false));
    assert_int_equal(count(TPT_COUNTER_cache_hits_disk), 1);
}

static void test_run_cache__failed_serialization_is_no_failure(void **state) {
    (void)state;
    tpt_null_fail_next(TPT_NULL_SERIALIZE, TPT_UNIMPLEMENTED);
    add_once(bind_add(false));
    tpt_cache_flush();
    assert_int_equal(count(TPT_COUNTER_cache_writes), 0);
}

static void test_run_cache__two_ops_of_one_text_share_a_program(void **state) {
    (void)state;
    add_once(bind_add(false));
    add_once(bind_add(false)); /* another binding: other plans, the same program */
    assert_int_equal(count(TPT_COUNTER_compiles), 1);
    assert_int_equal(count(TPT_COUNTER_cache_hits_memory), 1);
}

static void test_run_cache__result_types_are_remembered(void **state) {
    (void)state;
    tpt_op_t *op = bind_add(false);
    const tpt_spec_t spec = spec_of(2, dims);
    tpt_storage_t *a = floats(2, dims, data);
    const tpt_arg_t args[3] = {tensor_arg(a, 2, dims, spec.strides, 0), tensor_arg(a, 2, dims, spec.strides, 0), number_arg(1)};
    tpt_call_t call;
    tpt_spec_t known[2];
    int n = -1;
    tpt_recall_open("tests");
    assert_ok(tpt_call_begin(&call, op, args, 3, 0));
    assert_false(tpt_call_recall(&call, known, 2, &n));
    tpt_call_remember(&call, &spec, 1);
    tpt_call_end(&call);
    tpt_storage_release(a);
    reopen();
    a = floats(2, dims, data);
    op = bind_add(false); /* another number in the key, the same name */
    const tpt_arg_t again[3] = {tensor_arg(a, 2, dims, spec.strides, 0), tensor_arg(a, 2, dims, spec.strides, 0), number_arg(1)};
    assert_ok(tpt_call_begin(&call, op, again, 3, 0));
    assert_true(tpt_call_recall(&call, known, 2, &n));
    assert_int_equal(n, 1);
    assert_true(known[0].dtype == TPT_F32 && known[0].rank == 2 && known[0].sizes[1] == 3 && known[0].strides[0] == 3);
    assert_false(tpt_call_recall(&call, known, 0, &n)); /* no room */
    tpt_call_end(&call);
    tpt_storage_release(a);
}

/* An update whose compile fails: told by the call or, where the caller goes on meanwhile, once by `told`. */
static tpt_storage_t *failed_update(tpt_status_t *(*told)(tpt_storage_t *)) {
    const int64_t half[1] = {3};
    tpt_storage_t *a = floats(2, dims, data), *b = floats(2, dims, data), *first = NULL;
    assert_ok(add(bind_add(false), a, b, 1, half, &first)); /* the first compile also finds out what the plugin can do */
    assert_ok(tpt_device_synchronize(0));
    tpt_storage_release(first);
    tpt_null_set_compile_time(30000000);
    tpt_null_fail_next(TPT_NULL_COMPILE, TPT_INTERNAL);
    tpt_status_t *status = add(bind_add(true), a, b, 2, dims, NULL);
    tpt_null_set_compile_time(0);
    assert_fails(status ? status : told(a), TPT_INTERNAL, "");
    tpt_storage_release(b);
    return a;
}

static tpt_status_t *read_it(tpt_storage_t *s) {
    float read[6];
    return tpt_storage_to_host(s, 0, sizeof read, read);
}

static tpt_status_t *synchronize_it(tpt_storage_t *s) {
    (void)s;
    return tpt_device_synchronize(0);
}

static tpt_status_t *update_it_and_read(tpt_storage_t *s) {
    tpt_storage_t *b = floats(2, dims, data);
    const int64_t half[1] = {3};
    tpt_status_t *status = add(bind_add(true), s, b, 1, half, NULL); /* another program, on the value that cannot be made */
    tpt_storage_release(b);
    assert_ok(status);
    return read_it(s);
}

static void test_run_cache__failed_compile_gives_the_old_value_back(void **state) {
    (void)state;
    tpt_status_t *(*const ways[])(tpt_storage_t *) = {read_it, synchronize_it, update_it_and_read};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float read[6];
        tpt_storage_t *a = failed_update(ways[i]);
        assert_ok(tpt_storage_to_host(a, 0, sizeof read, read));
        assert_memory_equal(read, data, sizeof read);
        assert_ok(tpt_device_synchronize(0));
        tpt_storage_release(a);
        reopen();
    }
}

/* What was copied from the update is not the storage's own old value, and no copy may pass for one. */
static tpt_status_t *copy_it_and_read(tpt_storage_t *s) {
    float read[6], other[6] = {0};
    tpt_storage_t *copy = floats(2, dims, other);
    assert_ok(tpt_storage_copy(copy, s));
    tpt_status_t *status = read_it(copy);
    assert_non_null(status);
    assert_fails(tpt_storage_to_host(copy, 0, sizeof read, read), TPT_INTERNAL, "");
    assert_fails(tpt_storage_to_host(s, 0, sizeof read, read), TPT_INTERNAL, "");
    tpt_storage_release(copy);
    return status;
}

static void test_run_cache__copies_of_a_failed_update_stay_failed(void **state) {
    (void)state;
    tpt_storage_release(failed_update(copy_it_and_read));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_run_cache__second_process_loads),
        TEST(test_run_cache__refused_program_is_compiled_anew),
        TEST(test_run_cache__failed_serialization_is_no_failure),
        TEST(test_run_cache__failed_compile_gives_the_old_value_back),
        TEST(test_run_cache__copies_of_a_failed_update_stay_failed),
        TEST(test_run_cache__two_ops_of_one_text_share_a_program),
        TEST(test_run_cache__result_types_are_remembered),
    };
    int failed = 0;
    static const char *const threads[] = {"0", "3"};
    for (int i = 0; i < 2; i++) {
        (void)setenv("TORCH_TPU_COMPILE_THREADS", threads[i], 1);
        tpt_ahead_forget();
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
