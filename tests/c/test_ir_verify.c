/* test_ir_verify.c - what the builder refuses, what the verifier finds in a spoilt program, and running out of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ir/ir_internal.h"

static tpt_ir_t *fresh(void) {
    tpt_ir_t *ir = NULL;
    assert_null(tpt_ir_new(&ir));
    return ir;
}

static tpt_type_t type2(tpt_dtype_t dtype, int64_t a, int64_t b) { return tpt_type_make(dtype, 2, (int64_t[]){a, b}); }
static tpt_type_t scalar(tpt_dtype_t dtype) { return tpt_type_make(dtype, 0, NULL); }

/* The call must set the sticky error, with `part` in its message; the error is then cleared. */
static void refused(tpt_ir_t *ir, const char *part, int line) {
    tpt_status_t *status = tpt_ir_take_status(ir);
    if (status == NULL) fail_msg("line %d: not refused", line);
    if (strstr(tpt_status_message(status), part) == NULL) fail_msg("line %d: %s", line, tpt_status_message(status));
    tpt_status_free(status);
}
#define REFUSED(expr, part)            \
    do {                               \
        (void)(expr);                  \
        refused(ir, (part), __LINE__); \
    } while (0)
#define D(...) ((const int64_t[]){__VA_ARGS__})

static void test_elementwise_is_checked(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, type2(TPT_F32, 2, 3)), i = tpt_ir_arg(ir, type2(TPT_I32, 2, 3));
    tpt_val_t p = tpt_ir_arg(ir, type2(TPT_BOOL, 2, 3)), z = tpt_ir_arg(ir, type2(TPT_C64, 2, 3));
    tpt_val_t y = tpt_ir_arg(ir, type2(TPT_F32, 2, 4));
    REFUSED(tpt_ir_add(ir, x, y), "do not broadcast");
    REFUSED(tpt_ir_add(ir, x, i), "different types");
    REFUSED(tpt_ir_add(ir, x, TPT_VAL_NONE), "no value");
    REFUSED(tpt_ir_add(ir, x, 999), "no value");
    REFUSED(tpt_ir_neg(ir, p), "not defined for bool");
    REFUSED(tpt_ir_sub(ir, p, p), "not defined for bool");
    REFUSED(tpt_ir_unary(ir, TPT_IR_EXP, i), "not defined for int32");
    REFUSED(tpt_ir_unary(ir, TPT_IR_CEIL, z), "not defined for complex64");
    REFUSED(tpt_ir_not(ir, x), "not defined for float32");
    REFUSED(tpt_ir_and(ir, x, x), "not defined for float32");
    REFUSED(tpt_ir_max(ir, z, z), "not defined for complex64");
    REFUSED(tpt_ir_compare(ir, TPT_IR_LT, z, z), "not defined for complex64");
    REFUSED(tpt_ir_binary(ir, TPT_IR_SHL, p, p), "not defined for bool");
    REFUSED(tpt_ir_binary(ir, TPT_IR_COMPLEX, i, i), "not defined for int32");
    REFUSED(tpt_ir_select(ir, x, x, x), "different types");
    REFUSED(tpt_ir_select(ir, p, x, i), "different types");
    REFUSED(tpt_ir_bitcast(ir, x, TPT_F64), "last dimension");
    REFUSED(tpt_ir_bitcast(ir, x, TPT_C64), "pairs");
    REFUSED(tpt_ir_convert(ir, x, TPT_DTYPE_NONE), "element type");
    REFUSED(tpt_ir_lowest(ir, TPT_C64), "no order");
    REFUSED(tpt_ir_iota(ir, type2(TPT_F32, 2, 3), 2), "no dimension");
    tpt_ir_free(ir);
}

static void test_shapes_are_checked(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, type2(TPT_F32, 2, 3)), f = tpt_ir_arg(ir, scalar(TPT_F32)),
              n = tpt_ir_arg(ir, scalar(TPT_I64));
    tpt_val_t m = tpt_ir_arg(ir, scalar(TPT_I32));
    int64_t many[TPT_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    tpt_val_t high = tpt_ir_arg(ir, tpt_type_make(TPT_F32, TPT_MAX_RANK, many));
    REFUSED(tpt_ir_arg(ir, type2(TPT_F32, 2, -1)), "negative dimension");
    REFUSED(tpt_ir_arg(ir, type2(TPT_F32, INT64_MAX / 2, 4)), "too large");
    REFUSED(tpt_ir_arg(ir, tpt_type_make(TPT_F32, TPT_MAX_RANK + 1, many)), "13 dimensions");
    REFUSED(tpt_ir_unsqueeze(ir, high, 0), "13 dimensions");
    REFUSED(tpt_ir_broadcast_to(ir, x, 2, D(2, 4)), "cannot become");
    REFUSED(tpt_ir_broadcast_to(ir, x, 1, D(3)), "cannot be broadcast");
    REFUSED(tpt_ir_broadcast_in_dim(ir, x, 2, D(2, 3), D(0, 0)), "twice");
    REFUSED(tpt_ir_broadcast_in_dim(ir, x, 2, D(2, 3), D(0, 2)), "not in [0, 2)");
    REFUSED(tpt_ir_reshape(ir, x, 1, D(5)), "cannot become");
    REFUSED(tpt_ir_reshape(ir, x, 2, D(-1, -6)), "negative");
    REFUSED(tpt_ir_transpose(ir, x, D(1, 1)), "twice");
    REFUSED(tpt_ir_transpose(ir, x, D(1, -1)), "not in");
    REFUSED(tpt_ir_slice(ir, x, D(0, 0), D(2, 4), NULL), "of size 3");
    REFUSED(tpt_ir_slice(ir, x, D(0, 2), D(2, 1), NULL), "of size 3");
    REFUSED(tpt_ir_slice(ir, x, D(0, 0), D(2, 2), D(1, 0)), "of size 3");
    REFUSED(tpt_ir_slice_dim(ir, x, 2, 0, 1), "no dimension 2");
    REFUSED(tpt_ir_dynamic_slice(ir, x, (tpt_val_t[]){n, m}, D(1, 1)), "different types");
    REFUSED(tpt_ir_dynamic_slice(ir, x, (tpt_val_t[]){n, f}, D(1, 1)), "integer scalar");
    REFUSED(tpt_ir_dynamic_slice(ir, x, (tpt_val_t[]){n, n}, D(1, 4)), "4 of 3");
    REFUSED(tpt_ir_dynamic_update_slice(ir, x, tpt_ir_full_f(ir, type2(TPT_F32, 3, 3), 0), (tpt_val_t[]){n, n}), "update");
    REFUSED(tpt_ir_pad(ir, x, n, D(1, 1), D(0, 0), NULL), "another type");
    REFUSED(tpt_ir_pad(ir, x, f, D(-1, 0), D(-2, 0), NULL), "cropped");
    REFUSED(tpt_ir_pad(ir, x, f, D(0, 0), D(0, 0), D(0, -1)), "bad padding");
    REFUSED(tpt_ir_concat(ir, 2, (tpt_val_t[]){x, tpt_ir_full_f(ir, type2(TPT_F32, 3, 3), 0)}, 1), "beside");
    REFUSED(tpt_ir_concat(ir, 0, NULL, 0), "nothing");
    REFUSED(tpt_ir_concat(ir, 1, &f, 0), "no dimension");
    REFUSED(tpt_ir_reverse(ir, x, 2, D(0, 0)), "twice");
    REFUSED(tpt_ir_squeeze(ir, x, 0), "cannot go");
    tpt_ir_free(ir);
}

static void test_the_rest_is_checked(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, type2(TPT_F32, 2, 3)), i = tpt_ir_arg(ir, type2(TPT_I32, 2, 1)), out[4];
    tpt_val_t h = tpt_ir_arg(ir, type2(TPT_BF16, 3, 3)), z = tpt_ir_arg(ir, type2(TPT_C64, 3, 3));
    REFUSED(tpt_ir_reduce(ir, TPT_IR_RED_ADD, x, 1, D(2)), "not in");
    REFUSED(tpt_ir_reduce(ir, TPT_IR_RED_MAX, z, 1, D(0)), "no order");
    tpt_ir_window_t w = tpt_ir_window_ones(1);
    REFUSED(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), "another rank");
    w = tpt_ir_window_ones(2);
    w.stride[0] = 0;
    REFUSED(tpt_ir_reduce_window(ir, TPT_IR_RED_ADD, x, &w), "malformed window");
    w = tpt_ir_window_ones(2);
    w.size[1] = 2;
    REFUSED(tpt_ir_select_and_scatter_add(ir, x, x, TPT_IR_GE, &w), "a source of float32[2, 3], not float32[2, 2]");
    tpt_ir_gather_t g = {
        .n_offset = 1, .n_collapsed = 1, .n_start = 1, .offset_dims = {1}, .index_vector_dim = 1, .slice_sizes = {1, 3}};
    assert_int_not_equal(tpt_ir_gather(ir, x, i, &g), TPT_VAL_NONE);
    REFUSED(tpt_ir_gather(ir, x, x, &g), "must be integers");
    g.slice_sizes[1] = 4;
    REFUSED(tpt_ir_gather(ir, x, i, &g), "4 of 3");
    g.slice_sizes[1] = 3, g.slice_sizes[0] = 2;
    REFUSED(tpt_ir_gather(ir, x, i, &g), "slices of 2");
    g.slice_sizes[0] = 1, g.offset_dims[0] = 2;
    REFUSED(tpt_ir_gather(ir, x, i, &g), "not in [0, 2)");
    g.offset_dims[0] = 1, g.index_vector_dim = 3;
    REFUSED(tpt_ir_gather(ir, x, i, &g), "index_vector_dim");
    g.index_vector_dim = 1, g.n_start = 2;
    REFUSED(tpt_ir_gather(ir, x, i, &g), "twice");
    tpt_ir_scatter_t s = {.n_window = 1, .n_inserted = 1, .n_scatter = 1, .update_window_dims = {1}, .index_vector_dim = 1};
    REFUSED(tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, x, i, h, &s), "updates of bfloat16[3, 3], not float32[2, 3]");
    s.n_inserted = 0;
    REFUSED(tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, x, i, x, &s), "add up");
    REFUSED(tpt_ir_matmul(ir, x, x), "do not match");
    REFUSED(tpt_ir_matmul(ir, x, h), "float32[2, 3] by bfloat16[3, 3]");
    tpt_ir_dot_t d = {.n_contract = 1, .out_dtype = TPT_BF16};
    REFUSED(tpt_ir_dot(ir, x, x, &d), "to bfloat16");
    d = (tpt_ir_dot_t){.n_contract = 1, .n_batch = 1};
    REFUSED(tpt_ir_dot(ir, x, x, &d), "both batch and contracting");
    tpt_ir_conv_t c = tpt_ir_conv_nchw(1);
    REFUSED(tpt_ir_convolution(ir, x, x, &c), "with a kernel of");
    tpt_val_t image = tpt_ir_full_f(ir, tpt_type_make(TPT_F32, 3, D(1, 4, 5)), 0),
              k = tpt_ir_full_f(ir, tpt_type_make(TPT_F32, 3, D(3, 2, 2)), 0);
    REFUSED(tpt_ir_convolution(ir, image, k, &c), "input features");
    c.feature_groups = 2;
    REFUSED(tpt_ir_convolution(ir, image, k, &c), "do not divide");
    c.in_feature = 0;
    REFUSED(tpt_ir_convolution(ir, image, k, &c), "twice");
    REFUSED(tpt_ir_cholesky(ir, x, true), "no batch of square matrices");
    REFUSED(tpt_ir_cholesky(ir, h, true), "no batch of square matrices");
    REFUSED(tpt_ir_triangular_solve(ir, z, x, true, true, false, 0), "right-hand side");
    REFUSED(tpt_ir_triangular_solve(ir, z, z, true, true, false, 3), "transposition");
    REFUSED(tpt_ir_fft(ir, x, TPT_IR_FFT, 1, D(3)), "not defined for float32");
    REFUSED(tpt_ir_fft(ir, z, TPT_IR_FFT, 1, D(4)), "a length of 4 for size 3");
    REFUSED(tpt_ir_rng_bits(ir, i, scalar(TPT_U32), &out[0], &out[1]), "uint64[2]");
    REFUSED(tpt_ir_set_dimension_size(ir, x, i, 0), "int32 scalar");
    tpt_ir_call_attr_t call = {.target = "", .api_version = 4};
    REFUSED(tpt_ir_custom_call(ir, &call, 0, NULL, 0, NULL, NULL), "no target");
    call = (tpt_ir_call_attr_t){.target = "t", .api_version = 4, .backend_config = "plain"};
    REFUSED(tpt_ir_custom_call(ir, &call, 0, NULL, 0, NULL, NULL), "dictionary");
    tpt_ir_free(ir);
}

static tpt_region_t region_of(tpt_ir_t *ir, tpt_dtype_t dtype, int nargs, bool truth) {
    tpt_val_t last = TPT_VAL_NONE;
    tpt_ir_region_begin(ir);
    for (int i = 0; i < nargs; i++) last = tpt_ir_region_arg(ir, scalar(dtype));
    if (truth) last = tpt_ir_compare(ir, TPT_IR_EQ, last, last);
    return tpt_ir_region_end(ir, 1, &last);
}

static void test_regions_are_checked(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, type2(TPT_F32, 2, 3)), f = tpt_ir_arg(ir, scalar(TPT_F32)), out[2], inner;
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), region_of(ir, TPT_F32, 1, false), out), "1 arguments, not 2");
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), region_of(ir, TPT_I32, 2, false), out), "is int32[], not float32[]");
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), region_of(ir, TPT_F32, 2, true), out), "is bool[], not float32[]");
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &x, 1, D(0), region_of(ir, TPT_F32, 2, false), out), "initial value");
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), TPT_VAL_NONE, out), "no region");
    tpt_region_t once = region_of(ir, TPT_F32, 2, false);
    tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), once, out);
    assert_null(tpt_ir_status(ir));
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), once, out), "two ops");
    /* A reducer that closes over a value. */
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, scalar(TPT_F32));
    tpt_ir_region_arg(ir, scalar(TPT_F32));
    inner = tpt_ir_add(ir, a, f);
    tpt_region_t closure = tpt_ir_region_end(ir, 1, &inner);
    REFUSED(tpt_ir_reduce_n(ir, 1, &x, &f, 1, D(0), closure, out), "from outside");
    REFUSED(tpt_ir_neg(ir, inner), "closed region");
    REFUSED(tpt_ir_neg(ir, a), "closed region");
    REFUSED(tpt_ir_sort(ir, 1, &x, 0, true, region_of(ir, TPT_F32, 2, false), out), "is float32[], not bool[]");
    REFUSED(tpt_ir_sort(ir, 1, &x, 5, true, region_of(ir, TPT_F32, 2, true), out), "no dimension");
    REFUSED(tpt_ir_while(ir, 1, &f, region_of(ir, TPT_F32, 1, false), region_of(ir, TPT_F32, 1, false), out), "condition");
    REFUSED(tpt_ir_while(ir, 1, &f, region_of(ir, TPT_F32, 1, true), region_of(ir, TPT_I32, 1, false), out), "body");
    REFUSED(tpt_ir_if(ir, f, region_of(ir, TPT_F32, 1, false), region_of(ir, TPT_F32, 1, false), 1, out), "no bool scalar");
    REFUSED(tpt_ir_region_end(ir, 1, &x), "not begun");
    REFUSED(tpt_ir_region_arg(ir, scalar(TPT_F32)), "outside of a region");
    tpt_ir_region_begin(ir);
    REFUSED(tpt_ir_result(ir, x), "inside a region");
    tpt_status_t *status = tpt_ir_verify(ir);
    assert_non_null(strstr(tpt_status_message(status), "not closed"));
    tpt_status_free(status);
    tpt_ir_free(ir);
}

/* A program of several kinds of op; what it is given may have failed already. */
static tpt_ir_t *build(tpt_status_t **out_status) {
    tpt_ir_t *ir = NULL;
    *out_status = tpt_ir_new(&ir);
    if (*out_status != NULL) return NULL;
    tpt_val_t x = tpt_ir_arg(ir, type2(TPT_F32, 2, 3)), n = tpt_ir_arg(ir, scalar(TPT_I32)), out[1];
    tpt_val_t y = tpt_ir_transpose(ir, tpt_ir_add(ir, x, tpt_ir_like(ir, x, 0.5)), D(1, 0));
    tpt_val_t s = tpt_ir_reduce(ir, TPT_IR_RED_ADD, y, 1, D(0));
    tpt_ir_region_begin(ir);
    tpt_val_t i = tpt_ir_region_arg(ir, scalar(TPT_I32)), more = tpt_ir_compare(ir, TPT_IR_LT, i, n);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    i = tpt_ir_region_arg(ir, scalar(TPT_I32));
    tpt_val_t next = tpt_ir_add(ir, i, tpt_ir_const_i(ir, TPT_I32, 1));
    tpt_region_t body = tpt_ir_region_end(ir, 1, &next);
    tpt_ir_while(ir, 1, &n, cond, body, out);
    tpt_ir_call_attr_t call = {.target = "t", .backend_config = "{}", .api_version = 4};
    tpt_type_t type = scalar(TPT_F32);
    tpt_val_t called = TPT_VAL_NONE;
    tpt_ir_custom_call(ir, &call, 1, &s, 1, &type, &called);
    tpt_ir_result(ir, tpt_ir_bitcast(ir, y, TPT_U8));
    tpt_ir_result(ir, tpt_ir_matmul(ir, x, y));
    tpt_ir_result(ir, out[0]);
    tpt_ir_result(ir, called);
    tpt_ir_arg_alias(ir, 1, 2);
    *out_status = tpt_ir_take_status(ir);
    return ir;
}

static tpt_ir_t *built(void) {
    tpt_status_t *status = NULL;
    tpt_ir_t *ir = build(&status);
    if (status != NULL) fail_msg("%s", tpt_status_message(status));
    assert_null(tpt_ir_verify(ir));
    return ir;
}

static tpt_node_t *node_of(tpt_ir_t *ir, tpt_kind_t kind) {
    for (size_t i = 0; i < ir->nnodes; i++) {
        if (ir->nodes[i]->kind == kind) return ir->nodes[i];
    }
    fail_msg("no such node");
    return NULL;
}

/* The verifier must find what was spoilt; frees the program. */
static void spoilt(tpt_ir_t *ir, const char *part, int line) {
    tpt_status_t *status = tpt_ir_verify(ir);
    if (status == NULL) fail_msg("line %d: not found", line);
    if (strstr(tpt_status_message(status), part) == NULL) fail_msg("line %d: %s", line, tpt_status_message(status));
    tpt_status_free(status);
    tpt_ir_free(ir);
}
#define SPOILT(spoil, part)           \
    do {                              \
        tpt_ir_t *ir = built();       \
        spoil;                        \
        spoilt(ir, (part), __LINE__); \
    } while (0)

static void test_the_verifier_finds_what_is_spoilt(void **state) {
    (void)state;
    SPOILT(ir->values[node_of(ir, TPT_KIND_BINARY)->first]->type.dims[0] = 7, "its rule says float32[2, 3]");
    SPOILT(ir->values[node_of(ir, TPT_KIND_REDUCE)->first]->type.dtype = TPT_I32, "its rule says float32[2]");
    SPOILT(ir->values[ir->blocks[0]->args[0]]->type.dims[0] = -1, "negative dimension");
    SPOILT(ir->values[ir->blocks[0]->args[0]]->type.dtype = 77, "element type");
    SPOILT(node_of(ir, TPT_KIND_BINARY)->in[0] = (tpt_val_t)ir->nvalues, "no value");
    SPOILT(node_of(ir, TPT_KIND_BINARY)->in[0] = -1, "no value");
    SPOILT(node_of(ir, TPT_KIND_BINARY)->in[0] = node_of(ir, TPT_KIND_TRANSPOSE)->first, "before it is made");
    SPOILT(node_of(ir, TPT_KIND_DOT)->in[0] = ir->blocks[1]->args[0], "leaks from its region");
    SPOILT(ir->blocks[0]->results[0] = ir->blocks[1]->args[0], "leaks from its region");
    SPOILT(ir->blocks[0]->results[0] = 9999, "no value");
    SPOILT(ir->blocks[1]->results[0] = node_of(ir, TPT_KIND_WHILE)->first, "before it is made");
    SPOILT(ir->blocks[1]->owner = -1, "not its own");
    SPOILT(ir->blocks[1]->nargs = 1, "1 arguments, not 2");
    SPOILT(node_of(ir, TPT_KIND_REDUCE)->regions[0] = 99, "no region");
    SPOILT(node_of(ir, TPT_KIND_TRANSPOSE)->ints[0] = D(0, 0), "twice");
    SPOILT(node_of(ir, TPT_KIND_REDUCE)->ints[0] = D(2), "not in");
    SPOILT(node_of(ir, TPT_KIND_BINARY)->sub = 200, "unknown binary op");
    SPOILT(node_of(ir, TPT_KIND_BINARY)->kind = 200, "unknown kind");
    SPOILT(node_of(ir, TPT_KIND_DOT)->attr = NULL, "operands");
    SPOILT(ir->blocks[0]->aliases[1] = 9, "which there is not");
    SPOILT(ir->blocks[0]->aliases[1] = 0, "types differ");
    SPOILT(ir->blocks[0]->nresults = 0, "without results");
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    tpt_fault_alloc_arm(0);
    tpt_free(tpt_malloc(1));
    if (tpt_fault_alloc_arm(0) == 0) skip(); /* a build without fault injection */
    for (size_t nth = 1;; nth++) {
        tpt_status_t *status = NULL;
        tpt_str_t text;
        tpt_str_init(&text, 1 << 20);
        tpt_fault_alloc_arm(nth);
        tpt_ir_t *ir = build(&status);
        if (status == NULL) status = tpt_ir_verify(ir);
        if (status == NULL) status = tpt_ir_print(ir, "torture", &text);
        size_t allocations = tpt_fault_alloc_arm(0);
        assert_int_equal(status == NULL, allocations < nth);
        if (status != NULL) assert_int_equal(tpt_status_code(status), TPT_RESOURCE_EXHAUSTED);
        bool done = status == NULL;
        tpt_status_free(status);
        tpt_str_free(&text);
        tpt_ir_free(ir);
        if (done) break;
        assert_true(nth < 100000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise_is_checked),    cmocka_unit_test(test_shapes_are_checked),
        cmocka_unit_test(test_the_rest_is_checked),       cmocka_unit_test(test_regions_are_checked),
        cmocka_unit_test(test_every_allocation_may_fail), cmocka_unit_test(test_the_verifier_finds_what_is_spoilt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
