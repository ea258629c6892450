/* test_ir_text.c - the text of small programs, what is printed of them, and the sticky error. */
#include <math.h>
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

static tpt_type_t vector(tpt_dtype_t dtype, int64_t n) { return tpt_type_make(dtype, 1, &n); }
static tpt_type_t scalar(tpt_dtype_t dtype) { return tpt_type_make(dtype, 0, NULL); }

/* Frees the program. */
static void assert_text(tpt_ir_t *ir, const char *name, const char *want) {
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    if (tpt_ir_status(ir) != NULL) fail_msg("%s", tpt_status_message(tpt_ir_status(ir)));
    assert_null(tpt_ir_verify(ir));
    assert_null(tpt_ir_print(ir, name, &text));
    assert_string_equal(tpt_str_text(&text), want);
    tpt_str_free(&text);
    tpt_ir_free(ir);
}

static void test_aliases_and_broadcasting(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, vector(TPT_F32, 3)), s = tpt_ir_arg(ir, scalar(TPT_F32));
    tpt_ir_unary(ir, TPT_IR_EXP, x); /* dead: not printed */
    tpt_ir_result(ir, tpt_ir_mul(ir, x, s));
    tpt_ir_arg_alias(ir, 0, 0);
    assert_text(ir, "mul.Tensor 3",
                "module @mul.Tensor_3 {\n"
                "  func.func public @main(%arg0: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<f32>) -> "
                "(tensor<3xf32>) {\n"
                "    %0 = \"stablehlo.broadcast_in_dim\"(%arg1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> "
                "(tensor<3xf32>)\n"
                "    %1 = \"stablehlo.multiply\"(%arg0, %0) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)\n"
                "    func.return %1 : tensor<3xf32>\n"
                "  }\n"
                "}\n");
}

static void test_region_text(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, vector(TPT_BOOL, 4));
    tpt_ir_result(ir, tpt_ir_reduce(ir, TPT_IR_RED_AND, x, 1, (int64_t[]){0}));
    assert_text(ir, "all",
                "module @all {\n"
                "  func.func public @main(%arg0: tensor<4xi1>) -> (tensor<i1>) {\n"
                "    %0 = stablehlo.constant dense<true> : tensor<i1>\n"
                "    %1 = \"stablehlo.reduce\"(%arg0, %0) <{dimensions = array<i64: 0>}> ({\n"
                "    ^bb0(%2: tensor<i1>, %3: tensor<i1>):\n"
                "      %4 = \"stablehlo.and\"(%2, %3) : (tensor<i1>, tensor<i1>) -> (tensor<i1>)\n"
                "      \"stablehlo.return\"(%4) : (tensor<i1>) -> ()\n"
                "    }) : (tensor<4xi1>, tensor<i1>) -> (tensor<i1>)\n"
                "    func.return %1 : tensor<i1>\n"
                "  }\n"
                "}\n");
}

static void test_two_results_and_effects(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t s = tpt_ir_arg(ir, vector(TPT_U64, 2)), next, bits;
    tpt_ir_rng_bits(ir, s, vector(TPT_U32, 2), &next, &bits);
    tpt_ir_call_attr_t call = {.target = "tell", .backend_config = "a\"b", .has_side_effect = true, .api_version = 2};
    tpt_ir_custom_call(ir, &call, 1, &bits, 0, NULL, NULL);
    tpt_ir_result(ir, next);
    assert_text(
        ir, NULL,
        "module @main {\n"
        "  func.func public @main(%arg0: tensor<2xui64>) -> (tensor<2xui64>) {\n"
        "    %0:2 = \"stablehlo.rng_bit_generator\"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : "
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)\n"
        "    \"stablehlo.custom_call\"(%0#1) <{call_target_name = \"tell\", has_side_effect = true, api_version = 2 : i32, "
        "backend_config = \"a\\22b\"}> : (tensor<2xui32>) -> ()\n"
        "    func.return %0#0 : tensor<2xui64>\n"
        "  }\n"
        "}\n");
}

/* One constant's text. */
static void assert_const(tpt_dtype_t dtype, double value, const char *want) {
    tpt_ir_t *ir = fresh();
    tpt_val_t v = tpt_ir_const_f(ir, dtype, value);
    tpt_str_t text;
    tpt_str_init(&text, 1 << 12);
    tpt_print_const(&text, tpt_ir_type(ir, v), ir->nodes[0]->attr);
    assert_string_equal(tpt_str_text(&text), want);
    tpt_str_free(&text);
    tpt_ir_free(ir);
}

static void test_numbers(void **state) {
    (void)state;
    assert_const(TPT_F32, 0, "<0.0>");
    assert_const(TPT_F32, -0.0, "<0x80000000>");
    assert_const(TPT_F32, 0.1, "<0.1>");
    assert_const(TPT_F32, 1.0 / 3, "<0.333333343>");
    assert_const(TPT_F32, 1e30, "<1.0e+30>");
    assert_const(TPT_F32, 1e-45, "<0x00000001>");
    assert_const(TPT_F32, 1e39, "<0x7F800000>");
    assert_const(TPT_F32, INFINITY, "<0x7F800000>");
    assert_const(TPT_F32, NAN, "<0x7FC00000>");
    assert_const(TPT_F64, 1.0 / 3, "<0.33333333333333331>");
    assert_const(TPT_F64, -INFINITY, "<0xFFF0000000000000>");
    assert_const(TPT_F16, 1e6, "<0x7C00>");
    assert_const(TPT_BF16, -INFINITY, "<0xFF80>");
    assert_const(TPT_F8E4M3FN, NAN, "<0x7F>");
    assert_const(TPT_F8E5M2FNUZ, NAN, "<0x80>");
    assert_const(TPT_C64, NAN, "<(0x7FC00000, 0.0)>");
    assert_const(TPT_BOOL, 0.5, "<true>");
    assert_const(TPT_U8, 300, "<255>");
    assert_const(TPT_U64, 1e30, "<18446744073709551615>");
    assert_const(TPT_I64, -1e30, "<-9223372036854775808>");
}

/* Every finite pattern of a small dtype encodes to itself. */
static void test_float_bits(void **state) {
    (void)state;
    const tpt_dtype_t dtypes[] = {TPT_F16, TPT_BF16, TPT_F8E4M3FN, TPT_F8E5M2, TPT_F8E4M3FNUZ, TPT_F8E5M2FNUZ};
    const int mantissas[] = {10, 7, 3, 2, 3, 2}, biases[] = {15, 127, 7, 15, 8, 16};
    for (size_t k = 0; k < 6; k++) {
        int width = 8 * (int)tpt_dtype_size(dtypes[k]);
        double tiny, max;
        tpt_float_limits(dtypes[k], &tiny, &max);
        for (uint64_t bits = 0; bits < UINT64_C(1) << (width - 1); bits++) {
            int e = (int)(bits >> mantissas[k]);
            double m = (double)(bits & ((UINT64_C(1) << mantissas[k]) - 1));
            double v = e == 0 ? ldexp(m, 1 - biases[k] - mantissas[k])
                              : ldexp(m + ldexp(1, mantissas[k]), e - biases[k] - mantissas[k]);
            if (v > max) break; /* infinity and NaN */
            assert_int_equal(tpt_float_bits(dtypes[k], v), bits);
            if (bits != 0) assert_int_equal(tpt_float_bits(dtypes[k], -v), bits | UINT64_C(1) << (width - 1));
        }
    }
    assert_int_equal(tpt_float_bits(TPT_F32, 1.0000000596046448), 0x3F800000); /* a tie goes to even */
    assert_int_equal(tpt_float_bits(TPT_F32, 1.0000000596046450), 0x3F800001);
    assert_int_equal(tpt_float_bits(TPT_F16, 65519.99), 0x7BFF);
    assert_int_equal(tpt_float_bits(TPT_F16, 65520), 0x7C00);
    assert_int_equal(tpt_float_bits(TPT_F8E4M3FN, 465), 0x7F); /* no infinity: NaN */
    assert_int_equal(tpt_float_bits(TPT_F8E4M3FNUZ, -1e-9), 0);
}

static void test_nothing_is_made_of_no_ops(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, vector(TPT_F32, 3)), p = tpt_ir_arg(ir, scalar(TPT_F32));
    const int64_t zero = 0, three = 3;
    assert_int_equal(tpt_ir_convert(ir, x, TPT_F32), x);
    assert_int_equal(tpt_ir_bitcast(ir, x, TPT_F32), x);
    assert_int_equal(tpt_ir_broadcast_to(ir, x, 1, &three), x);
    assert_int_equal(tpt_ir_reshape(ir, x, 1, &three), x);
    assert_int_equal(tpt_ir_transpose(ir, x, &zero), x);
    assert_int_equal(tpt_ir_slice(ir, x, &zero, &three, NULL), x);
    assert_int_equal(tpt_ir_pad(ir, x, p, &zero, &zero, NULL), x);
    assert_int_equal(tpt_ir_concat(ir, 1, &x, 0), x);
    assert_int_equal(tpt_ir_reverse(ir, x, 0, NULL), x);
    assert_int_equal(tpt_ir_reduce(ir, TPT_IR_RED_ADD, x, 0, NULL), x);
    assert_int_equal(ir->nnodes, 0);
    tpt_ir_free(ir);
}

static void test_the_first_error_sticks(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = tpt_ir_arg(ir, vector(TPT_F32, 3)), y = tpt_ir_arg(ir, vector(TPT_I32, 3)), out[2] = {7, 7};
    const tpt_type_t *type = tpt_ir_type(ir, x);
    assert_int_equal(tpt_ir_add(ir, x, y), TPT_VAL_NONE);
    assert_string_equal(tpt_status_message(tpt_ir_status(ir)),
                        "operands of different types: float32[3] and int32[3]; while making add");
    assert_int_equal(tpt_status_code(tpt_ir_status(ir)), TPT_INTERNAL);
    size_t nodes = ir->nnodes;
    assert_int_equal(tpt_ir_neg(ir, x), TPT_VAL_NONE);
    assert_int_equal(tpt_ir_arg(ir, *type), TPT_VAL_NONE);
    tpt_ir_result(ir, x);
    tpt_ir_region_begin(ir);
    assert_int_equal(tpt_ir_region_end(ir, 1, &x), TPT_VAL_NONE);
    tpt_ir_barrier(ir, 2, (tpt_val_t[]){x, y}, out);
    assert_int_equal(out[0], TPT_VAL_NONE);
    assert_int_equal(out[1], TPT_VAL_NONE);
    assert_int_equal(tpt_ir_fail(ir, tpt_status_make(TPT_INTERNAL, "later")), TPT_VAL_NONE);
    assert_int_equal(ir->nnodes, nodes);
    assert_int_equal(tpt_ir_nresults(ir), 0);
    tpt_str_t text;
    tpt_str_init(&text, 100);
    tpt_status_t *refused = tpt_ir_print(ir, "x", &text), *unverified = tpt_ir_verify(ir);
    assert_non_null(refused);
    assert_non_null(unverified);
    tpt_status_free(refused);
    tpt_status_free(unverified);
    tpt_status_t *status = tpt_ir_take_status(ir);
    assert_non_null(strstr(tpt_status_message(status), "float32[3] and int32[3]"));
    tpt_status_free(status);
    assert_null(tpt_ir_status(ir));
    assert_int_not_equal(tpt_ir_neg(ir, x), TPT_VAL_NONE);
    assert_ptr_equal(type, tpt_ir_type(ir, x)); /* types stay where they are */
    tpt_ir_free(ir);
}

static void test_arguments_of_late_length(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t pack = tpt_ir_arg(ir, vector(TPT_F32, 1000));
    tpt_ir_result(ir, tpt_ir_slice_dim(ir, pack, 0, 1, 2));
    assert_int_equal(tpt_ir_largest(ir), 1000);
    tpt_ir_arg_retype(ir, 0, vector(TPT_F32, 1));
    tpt_status_t *status = tpt_ir_verify(ir); /* now the slice is out of range */
    assert_int_equal(tpt_status_code(status), TPT_INTERNAL);
    tpt_status_free(status);
    tpt_ir_arg_retype(ir, 0, vector(TPT_F32, 2));
    assert_int_equal(tpt_ir_largest(ir), 2);
    assert_text(ir, "late",
                "module @late {\n"
                "  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<1xf32>) {\n"
                "    %0 = \"stablehlo.slice\"(%arg0) <{start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = "
                "array<i64: 1>}> "
                ": (tensor<2xf32>) -> (tensor<1xf32>)\n"
                "    func.return %0 : tensor<1xf32>\n"
                "  }\n"
                "}\n");
}

static void test_text_that_does_not_fit(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_ir_result(ir, tpt_ir_arg(ir, scalar(TPT_F32)));
    tpt_str_t text;
    tpt_str_init(&text, 20);
    tpt_status_t *status = tpt_ir_print(ir, "x", &text);
    assert_int_equal(tpt_status_code(status), TPT_RESOURCE_EXHAUSTED);
    tpt_status_free(status);
    tpt_str_free(&text);
    tpt_ir_free(ir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aliases_and_broadcasting),
        cmocka_unit_test(test_region_text),
        cmocka_unit_test(test_two_results_and_effects),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_float_bits),
        cmocka_unit_test(test_nothing_is_made_of_no_ops),
        cmocka_unit_test(test_the_first_error_sticks),
        cmocka_unit_test(test_text_that_does_not_fit),
        cmocka_unit_test(test_arguments_of_late_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
