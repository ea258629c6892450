/* test_ir_run.h - runs programs of src/ir on real plugins, which TPT_TEST_PLUGINS names (colon separated); else tests skip. */
#ifndef TEST_IR_RUN_H
#define TEST_IR_RUN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir_internal.h"
#include "pjrt/pjrt.h"

#define MAX_PLUGINS 4
#define MAX_CHECKS 512
#define MAX_ARGS 32

typedef struct run {
    tpt_ir_t *ir;
    tpt_client_t *client;
    int nargs, nchecks;
    tpt_buffer_t *args[MAX_ARGS];
    struct {
        tpt_type_t type;
        int64_t n; /* doubles: two an element for complex dtypes */
        double *want;
        double tolerance;
        int line;
    } checks[MAX_CHECKS];
} run_t;

static inline void must(tpt_status_t *status, int line) {
    if (status != NULL) fail_msg("line %d: %s", line, tpt_status_message(status));
}
#define MUST(expr) must((expr), __LINE__)

static inline tpt_type_t shape(tpt_dtype_t dtype, int rank, ...) {
    int64_t dims[TPT_MAX_RANK] = {0};
    va_list args;
    va_start(args, rank);
    for (int i = 0; i < rank; i++) dims[i] = va_arg(args, int);
    va_end(args);
    return tpt_type_make(dtype, rank, dims);
}

static inline void encode(tpt_dtype_t dtype, double v, unsigned char *out) {
    tpt_dtype_t d = tpt_dtype_real(dtype);
    uint64_t bits = tpt_dtype_is_float(d) ? tpt_float_bits(d, v) : d == TPT_U64 ? (uint64_t)v : (uint64_t)(int64_t)v;
    memcpy(out, &bits, tpt_dtype_size(d)); /* little-endian hosts only, as PJRT's CPU plugins are */
}

static inline double decode(tpt_dtype_t dtype, const unsigned char *in) {
    uint64_t u = 0;
    float f;
    double d;
    size_t size = tpt_dtype_size(tpt_dtype_real(dtype));
    memcpy(&u, in, size);
    memcpy(&f, in, size < 4 ? size : 4);
    memcpy(&d, in, size);
    switch (tpt_dtype_real(dtype)) {
        case TPT_F32: return (double)f;
        case TPT_F64: return d;
        case TPT_I8: return (int8_t)u;
        case TPT_I16: return (int16_t)u;
        case TPT_I32: return (int32_t)u;
        case TPT_I64: return (double)(int64_t)u;
        default: return (double)u;
    }
}

/* An argument of main with these values (pairs for complex dtypes). */
static inline tpt_val_t arg(run_t *r, tpt_type_t type, const double *values) {
    assert_true(r->nargs < MAX_ARGS);
    int64_t n = tpt_type_numel(&type);
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    int64_t parts = tpt_dtype_is_complex(d) ? 2 * n : n;
    size_t size = tpt_dtype_size(tpt_dtype_real(d));
    unsigned char *data = calloc((size_t)parts + 1, size);
    assert_non_null(data);
    for (int64_t i = 0; i < parts; i++) encode(d, values[i], data + (size_t)i * size);
    MUST(tpt_buffer_from_host(r->client, 0, d, type.rank, type.dims, data, &r->args[r->nargs++]));
    free(data);
    return tpt_ir_arg(r->ir, type);
}
#define V(...) ((const double[]){__VA_ARGS__})
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* v must come out as the n values; halves are read as float32. */
static inline void expect_values(run_t *r, tpt_val_t v, int64_t n, const double *want, double tolerance, int line) {
    if (tpt_ir_status(r->ir) != NULL) fail_msg("line %d: %s", line, tpt_status_message(tpt_ir_status(r->ir)));
    tpt_dtype_t d = tpt_ir_dtype(r->ir, v);
    if (tpt_dtype_is_float(d) && tpt_dtype_size(d) < 4) v = tpt_ir_convert(r->ir, v, TPT_F32);
    assert_true(r->nchecks < MAX_CHECKS);
    int k = r->nchecks++;
    r->checks[k].type = *tpt_ir_type(r->ir, v);
    int64_t parts = tpt_ir_numel(r->ir, v) * (tpt_dtype_is_complex(tpt_ir_dtype(r->ir, v)) ? 2 : 1);
    if (parts != n) fail_msg("line %d: %lld values, not %lld", line, (long long)parts, (long long)n);
    r->checks[k].n = n;
    r->checks[k].want = malloc(sizeof(double) * ((size_t)n + 1));
    assert_non_null(r->checks[k].want);
    if (n > 0) memcpy(r->checks[k].want, want, sizeof(double) * (size_t)n);
    r->checks[k].tolerance = tolerance;
    r->checks[k].line = line;
    tpt_ir_result(r->ir, v);
}
#define EXPECT_NEAR(v, tolerance, ...) \
    expect_values(r, (v), sizeof(V(__VA_ARGS__)) / sizeof(double), V(__VA_ARGS__), (tolerance), __LINE__)
#define EXPECT(v, ...) EXPECT_NEAR(v, 0, __VA_ARGS__)
#define EXPECT_EMPTY(v) expect_values(r, (v), 0, NULL, 0, __LINE__)

static inline void compare_result(run_t *r, int k, tpt_buffer_t *buffer, const char *text) {
    tpt_dtype_t d = (tpt_dtype_t)r->checks[k].type.dtype;
    size_t size = tpt_dtype_size(tpt_dtype_real(d)), bytes = size * (size_t)r->checks[k].n;
    assert_int_equal(tpt_buffer_nbytes(buffer), bytes);
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    MUST(tpt_buffer_to_host(buffer, 0, (int64_t)bytes, data));
    for (int64_t i = 0; i < r->checks[k].n; i++) {
        double got = decode(d, data + size * (size_t)i), want = r->checks[k].want[i];
        double slack = r->checks[k].tolerance * fmax(1, fabs(want));
        bool same = got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= slack;
        if (!same) {
            fail_msg("line %d, element %lld: %.17g, not %.17g, in\n%s", r->checks[k].line, (long long)i, got, want, text);
        }
    }
    free(data);
}

static inline void run_checks(run_t *r) {
    tpt_str_t text;
    tpt_program_t *program = NULL;
    tpt_compile_options_t options = {.exact_minmax = true};
    MUST(tpt_ir_verify(r->ir));
    tpt_str_init(&text, (size_t)1 << 24);
    MUST(tpt_ir_print(r->ir, "test", &text));
    if (getenv("TPT_TEST_SHOW") != NULL) fputs(tpt_str_text(&text), stderr);
    tpt_status_t *status = tpt_program_compile(r->client, tpt_str_text(&text), text.size, &options, &program);
    if (status != NULL) fail_msg("%s\n%s", tpt_status_message(status), tpt_str_text(&text));
    tpt_buffer_t *out[MAX_CHECKS];
    MUST(tpt_program_execute(program, 0, r->nargs, r->args, 0, NULL, r->nchecks, out));
    for (int k = 0; k < r->nchecks; k++) {
        compare_result(r, k, out[k], tpt_str_text(&text));
        tpt_buffer_release(out[k]);
        free(r->checks[k].want);
    }
    for (int i = 0; i < r->nargs; i++) tpt_buffer_release(r->args[i]);
    tpt_program_release(program);
    tpt_str_free(&text);
}

static inline int plugins(tpt_client_t **clients) {
    static tpt_client_t *opened[MAX_PLUGINS];
    static int count = -1;
    if (count < 0) {
        count = 0;
        char *paths = strdup(getenv("TPT_TEST_PLUGINS") != NULL ? getenv("TPT_TEST_PLUGINS") : ""), *rest = paths;
        assert_non_null(paths);
        for (char *path = strsep(&rest, ":"); path != NULL && count < MAX_PLUGINS; path = strsep(&rest, ":")) {
            tpt_client_options_t options = {.num_devices = 1};
            if (path[0] != '\0') MUST(tpt_client_open(path, &options, &opened[count++]));
        }
        free(paths);
    }
    memcpy(clients, opened, sizeof opened);
    return count;
}

static inline void on_each_plugin(void (*body)(run_t *r)) {
    tpt_client_t *clients[MAX_PLUGINS];
    int n = plugins(clients);
    if (n == 0) skip();
    for (int i = 0; i < n; i++) {
        run_t *r = calloc(1, sizeof *r);
        assert_non_null(r);
        r->client = clients[i];
        MUST(tpt_ir_new(&r->ir));
        body(r);
        run_checks(r);
        tpt_ir_free(r->ir);
        free(r);
    }
}

#define PLUGIN_TEST(name)                     \
    static void body_##name(run_t *r);        \
    static void test_##name(void **state) {   \
        (void)state;                          \
        on_each_plugin(body_##name);          \
    }                                         \
    static void body_##name(run_t *r)

#endif
