/* The room on the fake plugin: every path, every injected failure, each allocation failing in turn. */
#include "test_support.h"

#include <pthread.h>

#include "pjrt/null/null.h"
#include "pjrt/pjrt.h"
#include "pjrt/pjrt_internal.h"

static const char add_text[] =
    "module @add {\n  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<2x3xf32>)"
    " -> (tensor<2x3xf32> {jax.result_info = \"a -> }{ (\"}, tensor<i1>, tensor<4xcomplex<f64>>) {\n"
    "    return %0, %1, %2 : tensor<2x3xf32>, tensor<i1>, tensor<4xcomplex<f64>>\n  }\n}\n";
static const int64_t dims[2] = {2, 3};
static const float values[6] = {1, 2, 3, 4, 5, 6};

static int reset(void **state) {
    (void)state;
    tpt_null_reset();
    return 0;
}

/* Nothing of the plugin may be alive after a test. */
static int check_nothing_alive(void **state) {
    (void)state;
    tpt_null_counts_t counts = tpt_null_counts();
    if (counts.clients != 0 || counts.buffers != 0 || counts.programs != 0 || counts.events != 0) {
        print_error("alive: %d clients, %d buffers, %d programs, %d events\n", (int)counts.clients, (int)counts.buffers,
                    (int)counts.programs, (int)counts.events);
        return 1;
    }
    int64_t peak = 0;
    for (int device = 0; device < 3; device++) {
        if (tpt_buffer_live_bytes(device, &peak) != 0) return 1;
        tpt_buffer_reset_peak(device);
    }
    return 0;
}

static tpt_client_t *open_null(int num_devices) {
    tpt_client_t *client = NULL;
    const tpt_client_options_t options = {.num_devices = num_devices};
    assert_ok(tpt_client_open("null", &options, &client));
    return client;
}

static tpt_program_t *compile(tpt_client_t *client, const char *text) {
    tpt_program_t *program = NULL;
    const tpt_compile_options_t options = {.device = 0};
    assert_ok(tpt_program_compile(client, text, strlen(text), &options, &program));
    return program;
}

static tpt_buffer_t *upload(tpt_client_t *client, int device) {
    tpt_buffer_t *buffer = NULL;
    assert_ok(tpt_buffer_from_host(client, device, TPT_F32, 2, dims, values, &buffer));
    return buffer;
}

static void test_pjrt_null__client(void **state) {
    (void)state;
    tpt_client_t *client = open_null(3);
    int major = -1, minor = -1;
    tpt_memory_stats_t stats;
    assert_int_equal(tpt_client_device_count(client), 3);
    assert_string_equal(tpt_client_platform(client), "null");
    assert_string_equal(tpt_client_platform_version(client), "null 1");
    assert_string_equal(tpt_client_device_kind(client, 2), "null");
    assert_string_equal(tpt_client_device_kind(client, 3), "");
    tpt_client_api_version(client, &major, &minor);
    assert_int_equal(major, 0);
    assert_true(minor >= 81);
    assert_true(tpt_client_host_memory(client));
    assert_true(tpt_client_portable(client));
    assert_fails(tpt_client_memory(client, 0, &stats), TPT_UNIMPLEMENTED, "memory statistics");
    tpt_client_close(client);
    tpt_client_close(NULL);
    client = open_null(0);
    assert_int_equal(tpt_client_device_count(client), 1);
    assert_false(tpt_client_portable(client));
    tpt_client_close(client);
    tpt_null_fail_next(TPT_NULL_CREATE, 13); /* the option is dropped and the second try works */
    client = open_null(2);
    assert_int_equal(tpt_client_device_count(client), 1);
    tpt_client_close(client);
    client = NULL;
    tpt_null_fail_next(TPT_NULL_CREATE, 14);
    assert_fails(tpt_client_open("null", NULL, &client), TPT_UNAVAILABLE, "making a client");
    setenv("TPT_NULL_FAIL", "create=7", 1);
    assert_fails(tpt_client_open("null", NULL, &client), TPT_PERMISSION_DENIED, "create was told to fail");
    unsetenv("TPT_NULL_FAIL");
}

static void check_round_trip(tpt_client_t *client) {
    tpt_buffer_t *buffer = upload(client, 0), *other = NULL, *same = NULL;
    float back[6] = {0};
    assert_int_equal(tpt_buffer_nbytes(buffer), 24);
    assert_int_equal(tpt_buffer_device(buffer), 0);
    assert_int_equal(tpt_buffer_refs(buffer), 1);
    assert_true(tpt_buffer_is_ready(buffer));
    assert_ok(tpt_buffer_to_host(buffer, 0, 24, back));
    assert_memory_equal(back, values, 24);
    assert_ok(tpt_buffer_to_host(buffer, 8, 8, back));
    assert_memory_equal(back, values + 2, 8);
    assert_ok(tpt_buffer_to_host(buffer, 24, 0, NULL));
    assert_fails(tpt_buffer_to_host(buffer, 20, 5, back), TPT_OUT_OF_RANGE,
                 "5 bytes from 20 on are not inside of a buffer of 24");
    assert_fails(tpt_buffer_to_host(buffer, -1, 1, back), TPT_OUT_OF_RANGE, "");
    assert_fails(tpt_buffer_to_host(buffer, 1, INT64_MAX, back), TPT_OUT_OF_RANGE, "");
    assert_ok(tpt_buffer_copy_to_device(buffer, 1, &other));
    assert_int_equal(tpt_buffer_device(other), 1);
    memset(back, 0, sizeof back);
    assert_ok(tpt_buffer_to_host(other, 0, 24, back));
    assert_memory_equal(back, values, 24);
    assert_ok(tpt_buffer_copy_to_device(buffer, 0, &same));
    assert_ptr_equal(same, buffer);
    assert_int_equal(tpt_buffer_refs(buffer), 2);
    assert_fails(tpt_buffer_copy_to_device(buffer, 2, &same), TPT_INVALID_ARGUMENT, "no device 2");
    int64_t peak = 0;
    assert_int_equal(tpt_buffer_live_bytes(1, &peak), 24);
    assert_int_equal(peak, 24);
    tpt_buffer_release(other);
    assert_int_equal(tpt_buffer_live_bytes(1, &peak), 0);
    assert_int_equal(peak, 24);
    tpt_buffer_reset_peak(1);
    (void)tpt_buffer_live_bytes(1, &peak);
    assert_int_equal(peak, 0);
    tpt_buffer_release(buffer);
    tpt_buffer_release(buffer);
    tpt_buffer_release(NULL);
}

static void test_pjrt_null__buffer_round_trip(void **state) {
    (void)state;
    tpt_client_t *client = open_null(2);
    check_round_trip(client);
    tpt_client_close(client);
    tpt_null_set_host_memory(false);
    client = open_null(2);
    assert_false(tpt_client_host_memory(client));
    check_round_trip(client);
    int64_t many = 100000, size = many * 4;
    float *big = calloc((size_t)many, 4), *back = calloc((size_t)many, 4);
    for (int64_t i = 0; i < many; i++) big[i] = (float)i;
    tpt_buffer_t *buffer = NULL;
    tpt_counters_reset();
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F32, 1, &many, big, &buffer)); /* waits for the transfer */
    assert_ok(tpt_buffer_to_host(buffer, 0, size, back));
    assert_memory_equal(big, back, (size_t)size);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_h2d_bytes), size);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_d2h_bytes), size);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_h2d_copies), 1);
    assert_int_equal(tpt_counter_get(TPT_COUNTER_d2h_copies), 1);
    tpt_buffer_release(buffer);
    free(big);
    free(back);
    tpt_client_close(client);
}

static void test_pjrt_null__buffer_bad_input(void **state) {
    (void)state;
    tpt_client_t *client = open_null(1);
    tpt_buffer_t *buffer = NULL;
    const int64_t huge[3] = {INT64_MAX / 2, 4, 4}, negative[1] = {-1}, large[1] = {INT64_MAX / 8};
    assert_fails(tpt_buffer_from_host(client, 1, TPT_F32, 2, dims, values, &buffer), TPT_INVALID_ARGUMENT, "no device 1");
    assert_fails(tpt_buffer_from_host(client, -1, TPT_F32, 2, dims, values, &buffer), TPT_INVALID_ARGUMENT, "no device -1");
    assert_fails(tpt_buffer_from_host(client, 0, TPT_DTYPE_NONE, 2, dims, values, &buffer), TPT_INVALID_ARGUMENT, "none");
    assert_fails(tpt_buffer_from_host(client, 0, TPT_F32, 3, huge, values, &buffer), TPT_RESOURCE_EXHAUSTED, "larger than");
    assert_fails(tpt_buffer_from_host(client, 0, TPT_F32, 1, large, values, &buffer), TPT_RESOURCE_EXHAUSTED, "out of memory");
    assert_fails(tpt_buffer_from_host(client, 0, TPT_F32, 1, negative, values, &buffer), TPT_INVALID_ARGUMENT, "negative");
    assert_fails(tpt_buffer_from_host(client, 0, TPT_F32, TPT_MAX_RANK + 1, huge, values, &buffer), TPT_INVALID_ARGUMENT,
                 "rank");
    tpt_null_fail_next(TPT_NULL_FROM_HOST, 8);
    assert_fails(tpt_buffer_from_host(client, 0, TPT_F32, 2, dims, values, &buffer), TPT_RESOURCE_EXHAUSTED, "told to fail");
    const int64_t none[2] = {0, 5};
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F64, 2, none, NULL, &buffer));
    assert_int_equal(tpt_buffer_nbytes(buffer), 0);
    assert_ok(tpt_buffer_to_host(buffer, 0, 0, NULL));
    tpt_buffer_release(buffer);
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F64, 0, NULL, &(double){2.5}, &buffer));
    double back = 0;
    assert_ok(tpt_buffer_to_host(buffer, 0, 8, &back));
    assert_true(back == 2.5);
    tpt_null_fail_next(TPT_NULL_TO_HOST, 15);
    assert_fails(tpt_buffer_to_host(buffer, 0, 8, &back), TPT_DATA_LOSS, "told to fail");
    tpt_buffer_release(buffer);
    tpt_client_close(client);
}

static void test_pjrt_null__execute_and_donate(void **state) {
    (void)state;
    tpt_client_t *client = open_null(1);
    tpt_program_t *program = compile(client, add_text);
    tpt_buffer_t *args[2] = {upload(client, 0), upload(client, 0)}, *outs[3] = {NULL};
    const int64_t keep[1] = {0}, bad_keep[2] = {1, 0};
    float back[6];
    assert_int_equal(tpt_program_nouts(program), 3);
    assert_ok(tpt_program_execute(program, 0, 2, args, 1, keep, 3, outs));
    assert_int_equal(tpt_buffer_nbytes(outs[0]), 24);
    assert_int_equal(tpt_buffer_nbytes(outs[1]), 1);
    assert_int_equal(tpt_buffer_nbytes(outs[2]), 64);
    assert_ok(tpt_buffer_to_host(args[0], 0, 24, back)); /* kept */
    assert_memory_equal(back, values, 24);
    assert_ok(tpt_buffer_to_host(outs[0], 0, 24, back));
    for (int i = 0; i < 6; i++) assert_true(back[i] == 0);
    for (int i = 0; i < 3; i++) tpt_buffer_release(outs[i]);

    tpt_null_reject_donation(true);
    assert_fails(tpt_program_execute(program, 0, 2, args, 0, NULL, 3, outs), TPT_INVALID_ARGUMENT, "donation of argument 0");
    tpt_null_reject_donation(false);
    assert_fails(tpt_program_execute(program, 0, 2, args, 2, bad_keep, 3, outs), TPT_INVALID_ARGUMENT, "not sorted");
    tpt_buffer_t *twice[2] = {args[0], args[0]};
    assert_fails(tpt_program_execute(program, 0, 2, twice, 0, NULL, 3, outs), TPT_INVALID_ARGUMENT, "also argument 1");
    assert_int_equal(tpt_null_counts().donations, 0);
    assert_ok(tpt_program_execute(program, 0, 2, args, 0, NULL, 3, outs));
    assert_int_equal(tpt_null_counts().donations, 1);
    for (int i = 0; i < 3; i++) tpt_buffer_release(outs[i]);
    assert_fails(tpt_buffer_to_host(args[0], 0, 24, back), TPT_INVALID_ARGUMENT, "deleted or donated");
    assert_fails(tpt_program_execute(program, 0, 2, args, 1, keep, 3, outs), TPT_INVALID_ARGUMENT, "deleted or donated");
    tpt_buffer_release(args[0]);
    tpt_buffer_release(args[1]);
    tpt_program_release(program);
    tpt_client_close(client);
}

/* Where destroying a given buffer's handle waits for the program that took it, handles are put away, a bounded number of them. */
static void test_pjrt_null__handles_of_given_buffers_are_put_away(void **state) {
    (void)state;
    const int64_t before = tpt_null_counts().buffers, live = tpt_buffer_live_bytes(0, NULL);
    tpt_client_t *client = open_null(1);
    tpt_program_t *program = compile(client, add_text);
    tpt_buffer_t *other = upload(client, 0);
    for (int n = 1; n <= TPT_PJRT_SHELLS + 5; n++) {
        tpt_buffer_t *args[2] = {upload(client, 0), other}, *outs[3] = {NULL};
        assert_ok(tpt_program_execute(program, 0, 2, args, 0, NULL, 3, outs));
        tpt_buffer_note_given(args[0]);
        tpt_buffer_release(args[0]);
        for (int i = 0; i < 3; i++) tpt_buffer_release(outs[i]);
        assert_int_equal(tpt_null_counts().buffers, before + 1 + (n < TPT_PJRT_SHELLS ? n : TPT_PJRT_SHELLS));
        assert_int_equal(tpt_buffer_live_bytes(0, NULL), live + 24); /* what was given away counts no more */
    }
    const int64_t now = tpt_null_counts().buffers;
    tpt_buffer_note_given(other); /* to a program that failed */
    tpt_buffer_release(other);
    assert_int_equal(tpt_null_counts().buffers, now - 1);
    tpt_program_release(program);
    tpt_client_close(client);
    assert_int_equal(tpt_null_counts().buffers, before);
}

static void test_pjrt_null__execute_bad_calls(void **state) {
    (void)state;
    tpt_client_t *client = open_null(2);
    tpt_program_t *program = compile(client, add_text);
    tpt_buffer_t *here = upload(client, 0), *there = upload(client, 1), *small = NULL, *outs[3] = {NULL};
    const int64_t keep[1] = {0}, two = 2;
    assert_ok(tpt_buffer_from_host(client, 0, TPT_F32, 1, &two, values, &small));
    tpt_buffer_t *mixed[2] = {here, there}, *wrong[2] = {here, small}, *missing[2] = {here, NULL}, *good[2] = {there, there};
    assert_fails(tpt_program_execute(program, 0, 2, mixed, 1, keep, 3, outs), TPT_INVALID_ARGUMENT,
                 "argument 1 is on device 1");
    assert_fails(tpt_program_execute(program, 0, 2, wrong, 1, keep, 3, outs), TPT_INVALID_ARGUMENT, "argument 1 has 8 bytes");
    assert_fails(tpt_program_execute(program, 0, 2, missing, 1, keep, 3, outs), TPT_INVALID_ARGUMENT,
                 "argument 1 has no buffer");
    assert_fails(tpt_program_execute(program, 0, 1, mixed, 1, keep, 3, outs), TPT_INVALID_ARGUMENT, "1 arguments for 2");
    assert_fails(tpt_program_execute(program, 0, 2, mixed, 1, keep, 2, outs), TPT_INVALID_ARGUMENT, "3 outputs");
    assert_fails(tpt_program_execute(program, 7, 2, mixed, 1, keep, 3, outs), TPT_INVALID_ARGUMENT, "no device 7");
    tpt_null_fail_next(TPT_NULL_EXECUTE, 13);
    assert_fails(tpt_program_execute(program, 1, 2, good, 1, keep, 3, outs), TPT_INTERNAL, "execute was told to fail");
    assert_ok(tpt_program_execute(program, 1, 2, good, 1, keep, 3, outs)); /* portable: on the second device */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tpt_buffer_device(outs[i]), 1);
        tpt_buffer_release(outs[i]);
    }
    tpt_buffer_release(here);
    tpt_buffer_release(there);
    tpt_buffer_release(small);
    tpt_program_release(program);
    tpt_client_close(client);
}

static void test_pjrt_null__late_results(void **state) {
    (void)state;
    static const char text[] = "func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> { return %a : tensor<2x3xf32> }";
    tpt_client_t *client = open_null(1);
    tpt_program_t *program = compile(client, text);
    tpt_buffer_t *in = upload(client, 0), *mid = NULL, *out = NULL;
    float back[6];
    tpt_null_set_delay(30 * 1000 * 1000);
    assert_ok(tpt_program_execute(program, 0, 1, &in, 0, NULL, 1, &mid));
    assert_false(tpt_buffer_is_ready(mid));
    tpt_null_set_delay(0);
    assert_ok(tpt_program_execute(program, 0, 1, &mid, 0, NULL, 1, &out));
    assert_false(tpt_buffer_is_ready(out)); /* made of a late value */
    assert_ok(tpt_buffer_to_host(out, 0, 24, back));
    assert_true(tpt_buffer_is_ready(mid));
    tpt_buffer_release(mid);
    tpt_buffer_release(out);

    tpt_null_fail_next(TPT_NULL_RESULT, 13);
    assert_ok(tpt_program_execute(program, 0, 1, &in, 0, NULL, 1, &mid));
    assert_ok(tpt_program_execute(program, 0, 1, &mid, 0, NULL, 1, &out));
    assert_fails(tpt_buffer_await(mid), TPT_INTERNAL, "result was told to fail");
    assert_fails(tpt_buffer_to_host(out, 0, 24, back), TPT_INTERNAL, "result was told to fail");
    assert_true(tpt_buffer_is_ready(out));
    tpt_buffer_release(mid);
    tpt_buffer_release(out);
    tpt_buffer_release(in);
    tpt_client_close(client); /* the program still holds it */
    assert_int_equal(tpt_null_counts().clients, 1);
    tpt_program_release(program);
}

static void test_pjrt_null__compile_and_load(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "func.func @other() { }",
        "func.func @main(%a: tensor<?xf32>) { }",
        "func.func @main(%a: tensor<2xf77>) { }",
        "func.func @main(%a) { }",
        "func.func @main(%a: tensor<2xf32>",
        "func.func @main(%a: tensor<2xf32> {x = \"",
        "func.func @main() -> (tensor<f32>",
        "func.func @main() -> tensor<f32>",
        "func.func @main() -> i32 { }",
        "func.func @main(%a: tensor<99999999999999999999xf32>) { }",
        "func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> tensor<2xf32> { }",
    };
    tpt_client_t *client = open_null(1);
    tpt_program_t *program = NULL, *loaded = NULL;
    const tpt_compile_options_t options = {.device = 0}, elsewhere = {.device = 4};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(tpt_program_compile(client, bad[i], strlen(bad[i]), &options, &program), TPT_INVALID_ARGUMENT,
                     "bad program");
    }
    assert_fails(tpt_program_compile(client, add_text, strlen(add_text), &elsewhere, &program), TPT_INVALID_ARGUMENT,
                 "no device 4");
    tpt_null_fail_next(TPT_NULL_COMPILE, 12);
    assert_fails(tpt_program_compile(client, add_text, strlen(add_text), &options, &program), TPT_UNIMPLEMENTED,
                 "told to fail");
    program = compile(client, add_text);
    assert_int_equal(tpt_null_counts().compiles, 1);
    void *data = NULL;
    size_t bytes = 0;
    tpt_null_fail_next(TPT_NULL_SERIALIZE, 12);
    assert_fails(tpt_program_serialize(program, &data, &bytes), TPT_UNIMPLEMENTED, "told to fail");
    assert_ok(tpt_program_serialize(program, &data, &bytes));
    assert_true(bytes > strlen(add_text));
    assert_fails(tpt_program_load(client, data, 5, &options, &loaded), TPT_INVALID_ARGUMENT, "not a serialized program");
    assert_fails(tpt_program_load(client, "garbage garbage", 15, &options, &loaded), TPT_INVALID_ARGUMENT, "not a serialized");
    assert_ok(tpt_program_load(client, data, bytes, &options, &loaded));
    tpt_free(data);
    assert_int_equal(tpt_program_nouts(loaded), 3);
    tpt_program_memory_t memory;
    assert_fails(tpt_program_memory(loaded, &memory), TPT_UNIMPLEMENTED, "memory");
    tpt_program_retain(loaded);
    tpt_program_release(loaded);
    tpt_program_release(loaded);
    tpt_program_release(program);
    tpt_program_release(NULL);
    static const char none[] = "func.func public @main() attributes {x} { return }";
    program = compile(client, none);
    assert_int_equal(tpt_program_nouts(program), 0);
    assert_ok(tpt_program_execute(program, 0, 0, NULL, 0, NULL, 0, NULL));
    tpt_program_release(program);
    tpt_client_close(client);
}

/* More arguments and outputs than fit on the stack. */
static void test_pjrt_null__execute_many(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static char text[COUNT * 64];
    size_t n = (size_t)sprintf(text, "func.func @main(");
    for (int i = 0; i < COUNT; i++) n += (size_t)sprintf(text + n, "%s%%a%d: tensor<2x3xf32>", i == 0 ? "" : ", ", i);
    n += (size_t)sprintf(text + n, ") -> (");
    for (int i = 0; i < COUNT; i++) n += (size_t)sprintf(text + n, "%stensor<%dxi8>", i == 0 ? "" : ", ", i);
    (void)sprintf(text + n, ") { }");
    tpt_client_t *client = open_null(1);
    tpt_program_t *program = compile(client, text);
    tpt_buffer_t *in = upload(client, 0), *args[COUNT], *outs[COUNT];
    for (int i = 0; i < COUNT; i++) args[i] = in;
    assert_ok(tpt_program_execute(program, 0, COUNT, args, 0, NULL, COUNT, outs));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(tpt_buffer_nbytes(outs[i]), i);
        tpt_buffer_release(outs[i]);
    }
    tpt_buffer_release(in);
    tpt_program_release(program);
    tpt_client_close(client);
}

static tpt_status_t *everything(void *user) {
    const tpt_client_options_t client_options = {.num_devices = 2};
    const tpt_compile_options_t options = {.device = 0};
    tpt_client_t *client = NULL;
    tpt_program_t *program = NULL, *loaded = NULL;
    tpt_buffer_t *in = NULL, *other = NULL, *outs[3] = {NULL};
    void *data = NULL;
    size_t bytes = 0;
    char back[8];
    (void)user;
    tpt_status_t *status = tpt_client_open("null", &client_options, &client);
    if (status == NULL) status = tpt_program_compile(client, add_text, strlen(add_text), &options, &program);
    if (status == NULL) status = tpt_program_serialize(program, &data, &bytes);
    if (status == NULL) status = tpt_program_load(client, data, bytes, &options, &loaded);
    if (status == NULL) status = tpt_buffer_from_host(client, 0, TPT_F32, 2, dims, values, &in);
    if (status == NULL) status = tpt_buffer_copy_to_device(in, 1, &other);
    if (status == NULL) {
        tpt_buffer_t *args[2] = {in, in};
        const int64_t keep[1] = {0};
        status = tpt_program_execute(loaded, 0, 2, args, 1, keep, 3, outs);
    }
    if (status == NULL) status = tpt_buffer_to_host(outs[0], 4, 8, back);
    for (int i = 0; i < 3; i++) tpt_buffer_release(outs[i]);
    tpt_buffer_release(in);
    tpt_buffer_release(other);
    tpt_program_release(program);
    tpt_program_release(loaded);
    tpt_client_close(client);
    tpt_free(data);
    return status;
}

static void test_pjrt_null__torture(void **state) {
    (void)state;
    torture(everything, NULL);
    tpt_null_set_host_memory(false);
    torture(everything, NULL);
}

typedef struct worker {
    tpt_program_t *program;
    tpt_buffer_t *shared;
    int failures;
} worker_t;

static void *work(void *user) {
    worker_t *worker = user;
    const int64_t keep[1] = {0};
    for (int i = 0; i < 300; i++) {
        tpt_buffer_t *args[2] = {worker->shared, worker->shared}, *outs[3] = {NULL};
        float back[6];
        tpt_buffer_retain(worker->shared);
        tpt_program_retain(worker->program);
        tpt_status_t *status = tpt_program_execute(worker->program, 0, 2, args, 1, keep, 3, outs);
        if (status == NULL) status = tpt_buffer_to_host(worker->shared, 0, 24, back);
        if (status != NULL || memcmp(back, values, 24) != 0) worker->failures++;
        tpt_status_free(status);
        for (int k = 0; k < 3; k++) tpt_buffer_release(outs[k]);
        tpt_buffer_release(worker->shared);
        tpt_program_release(worker->program);
    }
    return NULL;
}

static void test_pjrt_null__threads(void **state) {
    (void)state;
    tpt_client_t *client = open_null(2);
    tpt_program_t *program = compile(client, add_text);
    tpt_buffer_t *shared = upload(client, 0);
    pthread_t threads[4];
    worker_t workers[4];
    tpt_null_reset();
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker_t){.program = program, .shared = shared};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    assert_int_equal(tpt_null_counts().executes, 1200);
    assert_int_equal(tpt_buffer_refs(shared), 1);
    assert_int_equal(tpt_buffer_live_bytes(0, NULL), 24);
    tpt_buffer_release(shared);
    tpt_program_release(program);
    tpt_client_close(client);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(test_pjrt_null__##name, reset, check_nothing_alive)
    const struct CMUnitTest tests[] = {
        CASE(client),
        CASE(buffer_round_trip),
        CASE(buffer_bad_input),
        CASE(execute_and_donate),
        CASE(handles_of_given_buffers_are_put_away),
        CASE(execute_bad_calls),
        CASE(late_results),
        CASE(compile_and_load),
        CASE(execute_many),
        CASE(torture),
        CASE(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
