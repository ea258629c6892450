/* The room on real CPU plugins: TPT_TEST_PLUGINS holds their paths, colon-separated. Each gets a process of its own, as two
 * builds of XLA in one process would share symbols. Without the variable all cases say that they are skipped. */
#include "test_support.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrt/pjrt.h"

static const char *plugin;
static tpt_client_t *client;

static const tpt_compile_options_t plain = {.device = 0, .exact_minmax = true};

static int open_plugin(void **state) {
    (void)state;
    if (plugin == NULL) return 0;
    const tpt_client_options_t options = {.num_devices = 2};
    tpt_status_t *status = tpt_client_open(plugin, &options, &client);
    if (status != NULL) print_error("%s\n", tpt_status_message(status));
    return status != NULL;
}

static int close_plugin(void **state) {
    (void)state;
    tpt_client_close(client);
    return 0;
}

#define NEED_PLUGIN()               \
    do {                            \
        (void)state;                \
        if (plugin == NULL) skip(); \
    } while (0)

static tpt_program_t *compile(const char *text, const tpt_compile_options_t *options) {
    tpt_program_t *program = NULL;
    assert_ok(tpt_program_compile(client, text, strlen(text), options, &program));
    return program;
}

static tpt_buffer_t *upload(int device, int64_t n, const float *data) {
    tpt_buffer_t *buffer = NULL;
    assert_ok(tpt_buffer_from_host(client, device, TPT_F32, 1, &n, data, &buffer));
    return buffer;
}

static void read_back(tpt_buffer_t *buffer, void *out) {
    assert_ok(tpt_buffer_to_host(buffer, 0, tpt_buffer_nbytes(buffer), out));
}

static const char add_text[] =
    "module @add {\n  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>)"
    " -> tensor<4xf32> {\n    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}\n";
static const float ones[4] = {1, 2, 3, 4}, tens[4] = {10, 20, 30, 40}, sums[4] = {11, 22, 33, 44};

static void test_pjrt_real__client(void **state) {
    NEED_PLUGIN();
    int major = -1, minor = -1;
    tpt_client_api_version(client, &major, &minor);
    print_message("%s: API %d.%d, %s, %s\n", plugin, major, minor, tpt_client_platform_version(client),
                  tpt_client_device_kind(client, 0));
    assert_int_equal(tpt_client_device_count(client), 2);
    assert_string_equal(tpt_client_platform(client), "cpu");
    assert_true(strlen(tpt_client_device_kind(client, 0)) > 0);
    assert_true(tpt_client_host_memory(client));
    assert_true(tpt_client_portable(client));
    assert_int_equal(major, 0);
    tpt_memory_stats_t stats;
    assert_fails(tpt_client_memory(client, 0, &stats), TPT_UNIMPLEMENTED, "statistics");
}

static void test_pjrt_real__add_on_both_devices(void **state) {
    NEED_PLUGIN();
    tpt_program_t *program = compile(add_text, &plain);
    const int64_t keep[1] = {0};
    for (int device = 0; device < 2; device++) {
        tpt_buffer_t *args[2] = {upload(device, 4, ones), upload(device, 4, tens)}, *out = NULL;
        float back[4];
        assert_ok(tpt_program_execute(program, device, 2, args, 1, keep, 1, &out));
        assert_int_equal(tpt_buffer_nbytes(out), 16);
        assert_int_equal(tpt_buffer_device(out), device);
        read_back(out, back);
        assert_memory_equal(back, sums, sizeof sums);
        read_back(args[0], back); /* kept */
        assert_memory_equal(back, ones, sizeof ones);
        tpt_buffer_release(out);
        assert_ok(tpt_program_execute(program, device, 2, args, 0, NULL, 1, &out));
        read_back(out, back);
        assert_memory_equal(back, sums, sizeof sums);
        assert_fails(tpt_buffer_to_host(args[0], 0, 16, back), TPT_INVALID_ARGUMENT, "onat"); /* donated */
        read_back(args[1], back);
        assert_memory_equal(back, tens, sizeof tens);
        for (int i = 0; i < 2; i++) tpt_buffer_release(args[i]);
        tpt_buffer_release(out);
    }
    tpt_program_memory_t memory;
    tpt_status_t *status = tpt_program_memory(program, &memory);
    if (status == NULL) {
        assert_int_equal(memory.arguments, 32);
        assert_int_equal(memory.outputs, 16);
        assert_int_equal(memory.aliased, 16);
    } else {
        assert_int_equal(tpt_status_code(status), TPT_UNIMPLEMENTED);
        tpt_status_free(status);
    }
    tpt_program_release(program);
}

static void test_pjrt_real__serialize_and_load(void **state) {
    NEED_PLUGIN();
    tpt_program_t *program = compile(add_text, &plain), *loaded = NULL;
    void *data = NULL;
    size_t bytes = 0;
    assert_ok(tpt_program_serialize(program, &data, &bytes));
    tpt_program_release(program);
    assert_ok(tpt_program_load(client, data, bytes, &plain, &loaded));
    tpt_free(data);
    for (int device = 0; device < 2; device++) {
        tpt_buffer_t *args[2] = {upload(device, 4, ones), upload(device, 4, tens)}, *out = NULL;
        float back[4];
        assert_ok(tpt_program_execute(loaded, device, 2, args, 0, NULL, 1, &out));
        read_back(out, back);
        assert_memory_equal(back, sums, sizeof sums);
        for (int i = 0; i < 2; i++) tpt_buffer_release(args[i]);
        tpt_buffer_release(out);
    }
    tpt_program_release(loaded);
    tpt_status_t *status = tpt_program_load(client, "not a program at all", 20, &plain, &loaded);
    assert_non_null(status);
    tpt_status_free(status);
}

/* One device only: compiled with a device assignment instead of portable. */
static void test_pjrt_real__single_device_client(void **state) {
    NEED_PLUGIN();
    tpt_client_t *both = client;
    const tpt_client_options_t options = {.num_devices = 1};
    assert_ok(tpt_client_open(plugin, &options, &client));
    assert_int_equal(tpt_client_device_count(client), 1);
    assert_false(tpt_client_portable(client));
    tpt_program_t *program = compile(add_text, &plain), *loaded = NULL;
    void *data = NULL;
    size_t bytes = 0;
    assert_ok(tpt_program_serialize(program, &data, &bytes));
    assert_ok(tpt_program_load(client, data, bytes, &plain, &loaded));
    tpt_free(data);
    tpt_program_t *each[2] = {program, loaded};
    for (int i = 0; i < 2; i++) {
        tpt_buffer_t *args[2] = {upload(0, 4, ones), upload(0, 4, tens)}, *out = NULL;
        float back[4];
        assert_ok(tpt_program_execute(each[i], 0, 2, args, 0, NULL, 1, &out));
        read_back(out, back);
        assert_memory_equal(back, sums, sizeof sums);
        for (int k = 0; k < 2; k++) tpt_buffer_release(args[k]);
        tpt_buffer_release(out);
        tpt_program_release(each[i]);
    }
    tpt_client_close(client);
    client = both;
}

static void test_pjrt_real__minmax_keeps_nan(void **state) {
    NEED_PLUGIN();
    static const char text[] =
        "module @minmax {\n  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>)"
        " -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) {\n"
        "    %0 = stablehlo.maximum %arg0, %arg1 : tensor<4xf32>\n"
        "    %1 = stablehlo.minimum %arg0, %arg1 : tensor<4xf32>\n"
        "    %2 = stablehlo.clamp %arg1, %arg0, %arg1 : tensor<4xf32>\n"
        "    %3 = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "    %4 = stablehlo.reduce(%arg0 init: %3) applies stablehlo.maximum across dimensions = [0]"
        " : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
        "    return %0, %1, %2, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>\n  }\n}\n";
    const float a[4] = {NAN, 1, NAN, -2}, b[4] = {1, NAN, NAN, 5};
    tpt_program_t *program = compile(text, &plain);
    tpt_buffer_t *args[2] = {upload(0, 4, a), upload(0, 4, b)}, *outs[4];
    float back[4][4];
    assert_ok(tpt_program_execute(program, 0, 2, args, 0, NULL, 4, outs));
    for (int i = 0; i < 4; i++) {
        read_back(outs[i], back[i]);
        tpt_buffer_release(outs[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(back[0][i]));
        assert_true(isnan(back[1][i]));
    }
    assert_true(back[0][3] == 5);
    assert_true(back[1][3] == -2);
    assert_true(back[2][3] == 5);
    print_message("clamp(NaN, 1, 1) gives %f, of NaN bounds %f\n", (double)back[2][0], (double)back[2][1]);
    assert_true(isnan(back[3][0]));
    tpt_buffer_release(args[0]);
    tpt_buffer_release(args[1]);
    tpt_program_release(program);
}

static void test_pjrt_real__no_excess_precision(void **state) {
    NEED_PLUGIN();
    static const char text[] =
        "module @round {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
        "    %0 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xbf16>\n"
        "    %1 = stablehlo.convert %0 : (tensor<4xbf16>) -> tensor<4xf32>\n    return %1 : tensor<4xf32>\n  }\n}\n";
    const float in[4] = {1.001f, 3.14159f, -0.1f, 1e-3f}, want[4] = {1.0f, 3.140625f, -0.10009765625f, 0x1.06p-10f};
    tpt_compile_options_t options = plain;
    float back[4];
    for (int excess = 0; excess < 2; excess++) {
        options.excess_precision = excess != 0;
        tpt_program_t *program = compile(text, &options);
        tpt_buffer_t *arg = upload(0, 4, in), *out = NULL;
        assert_ok(tpt_program_execute(program, 0, 1, &arg, 0, NULL, 1, &out));
        read_back(out, back);
        if (excess == 0) {
            assert_memory_equal(back, want, sizeof want);
        } else { /* both are allowed, nothing else */
            assert_true(back[0] == in[0] || back[0] == want[0]);
        }
        tpt_buffer_release(arg);
        tpt_buffer_release(out);
        tpt_program_release(program);
    }
}

static void test_pjrt_real__every_type(void **state) {
    NEED_PLUGIN();
    unsigned char in[3 * 2 * 16], back[sizeof in];
    const int64_t dims[2] = {3, 2};
    for (int dtype = TPT_BOOL; dtype < TPT_DTYPE_COUNT; dtype++) {
        size_t bytes = 6 * tpt_dtype_size((tpt_dtype_t)dtype);
        for (size_t i = 0; i < bytes; i++) in[i] = (unsigned char)(dtype == TPT_BOOL ? i % 2 : i * 3 + 1);
        memset(back, 0, sizeof back);
        tpt_buffer_t *buffer = NULL, *other = NULL;
        assert_ok(tpt_buffer_from_host(client, 0, (tpt_dtype_t)dtype, 2, dims, in, &buffer));
        assert_int_equal(tpt_buffer_nbytes(buffer), bytes);
        read_back(buffer, back);
        assert_memory_equal(back, in, bytes);
        assert_ok(tpt_buffer_copy_to_device(buffer, 1, &other));
        memset(back, 0, sizeof back);
        read_back(other, back);
        assert_memory_equal(back, in, bytes);
        tpt_buffer_release(buffer);
        tpt_buffer_release(other);
    }
}

static void test_pjrt_real__large_and_empty(void **state) {
    NEED_PLUGIN();
    int64_t many = 1 << 20, zero = 0;
    float *data = malloc((size_t)many * 4), *back = malloc((size_t)many * 4);
    for (int64_t i = 0; i < many; i++) data[i] = (float)i;
    tpt_buffer_t *buffer = upload(0, many, data);
    memset(data, 0, (size_t)many * 4); /* it has been read */
    read_back(buffer, back);
    for (int64_t i = 0; i < many; i++) assert_true(back[i] == (float)i);
    assert_ok(tpt_buffer_to_host(buffer, 400, 8, back));
    assert_true(back[0] == 100 && back[1] == 101);
    tpt_buffer_release(buffer);
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F32, 1, &zero, NULL, &buffer));
    assert_int_equal(tpt_buffer_nbytes(buffer), 0);
    assert_ok(tpt_buffer_await(buffer));
    tpt_buffer_release(buffer);
    free(data);
    free(back);
}

static void test_pjrt_real__errors_are_statuses(void **state) {
    NEED_PLUGIN();
    static const char bad[] = "module { func.func public @main( { nonsense";
    tpt_program_t *program = NULL;
    tpt_status_t *status = tpt_program_compile(client, bad, strlen(bad), &plain, &program);
    assert_non_null(status);
    assert_true(strlen(tpt_status_message(status)) > 0);
    print_message("bad text: %d %.100s\n", (int)tpt_status_code(status), tpt_status_message(status));
    tpt_status_free(status);
    program = compile(add_text, &plain);
    tpt_buffer_t *args[2] = {upload(0, 4, ones), upload(0, 3, tens)}, *out = NULL;
    assert_fails(tpt_program_execute(program, 0, 2, args, 0, NULL, 1, &out), TPT_INVALID_ARGUMENT, "");
    assert_fails(tpt_program_execute(program, 0, 1, args, 0, NULL, 1, &out), TPT_INVALID_ARGUMENT, "");
    for (int i = 0; i < 2; i++) tpt_buffer_release(args[i]);
    tpt_program_release(program);
}

typedef struct worker {
    tpt_program_t *program;
    int failures, device;
} worker_t;

static void *work(void *user) {
    worker_t *worker = user;
    const int64_t keep[1] = {0}, n = 4;
    for (int i = 0; i < 500; i++) {
        tpt_buffer_t *args[2] = {NULL, NULL}, *out = NULL;
        float back[4] = {0};
        tpt_status_t *status = tpt_buffer_from_host(client, worker->device, TPT_F32, 1, &n, ones, &args[0]);
        if (status == NULL) status = tpt_buffer_from_host(client, worker->device, TPT_F32, 1, &n, tens, &args[1]);
        if (status == NULL) status = tpt_program_execute(worker->program, worker->device, 2, args, i % 2, keep, 1, &out);
        if (status == NULL) status = tpt_buffer_to_host(out, 0, 16, back);
        if (status != NULL || memcmp(back, sums, sizeof sums) != 0) worker->failures++;
        tpt_status_free(status);
        tpt_buffer_release(args[0]);
        tpt_buffer_release(args[1]);
        tpt_buffer_release(out);
    }
    return NULL;
}

static void test_pjrt_real__threads(void **state) {
    NEED_PLUGIN();
    tpt_program_t *program = compile(add_text, &plain);
    pthread_t threads[4];
    worker_t workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker_t){.program = program, .device = i % 2};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    tpt_program_release(program);
    for (int device = 0; device < 2; device++) assert_int_equal(tpt_buffer_live_bytes(device, NULL), 0);
}

/* Runs this program once more for each plugin of the list. */
static int run_each(const char *self, char *list) {
    int failures = 0;
    for (char *rest = list, *one; (one = strtok_r(rest, ":", &rest)) != NULL;) {
        pid_t child = fork();
        if (child == 0) {
            execl(self, self, one, (char *)NULL);
            _exit(127);
        }
        int result = -1;
        if (child < 0 || waitpid(child, &result, 0) != child || result != 0) failures++;
    }
    return failures;
}

int main(int argc, char **argv) {
    char *list = getenv("TPT_TEST_PLUGINS");
    if (argc < 2 && list != NULL && *list != '\0') {
        char *copy = strdup(list);
        int failures = run_each("/proc/self/exe", copy);
        free(copy);
        return failures;
    }
    plugin = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pjrt_real__client),
        cmocka_unit_test(test_pjrt_real__add_on_both_devices),
        cmocka_unit_test(test_pjrt_real__serialize_and_load),
        cmocka_unit_test(test_pjrt_real__single_device_client),
        cmocka_unit_test(test_pjrt_real__minmax_keeps_nan),
        cmocka_unit_test(test_pjrt_real__no_excess_precision),
        cmocka_unit_test(test_pjrt_real__every_type),
        cmocka_unit_test(test_pjrt_real__large_and_empty),
        cmocka_unit_test(test_pjrt_real__errors_are_statuses),
        cmocka_unit_test(test_pjrt_real__threads),
    };
    return cmocka_run_group_tests(tests, open_plugin, close_plugin);
}
