/* test_ops_args.c - arguments by name, wrapped dims, the out-of-range flag. */
#include "test_ops_lower.h"

static const int64_t dims[2] = {2, 3};

static void by_name(void **state) {
    (void)state;
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    test_call_tensor(&c, "self", TPT_F32, 2, dims);
    test_call_text(&c, "mode", "floor");
    (void)test_call_arg(&c, "none", TPT_ARG_NONE);
    test_call_number(&c, "p", TPT_F64, true, 1.5);
    const int64_t list[3] = {4, -5, 6};
    tpt_arg_t *ints = test_call_arg(&c, "ints", TPT_ARG_INTS);
    ints->count = 3;
    ints->u.ints = list;
    c.row.statics = "q p r=1";
    tpt_lower_t *L = &c.lower;
    assert_true(tpt_lower_has(L, "self") && !tpt_lower_has(L, "none") && !tpt_lower_has(L, "elf"));
    assert_true(tpt_lower_text_is(L, "mode", "floor") && !tpt_lower_text_is(L, "mode", "floo") &&
                !tpt_lower_text_is(L, "none", ""));
    assert_int_equal(tpt_lower_int(L, "none", 7), 7);
    assert_true(tpt_lower_bool(L, "missing", true));
    assert_true(tpt_lower_static(L, "p", 0) == 1.5);
    assert_true(tpt_lower_static(L, "q", 2) == 2);
    assert_true(tpt_lower_is_static(L, "q") && !tpt_lower_is_static(L, "r") && !tpt_lower_is_static(L, "q p"));
    assert_int_equal(tpt_lower_number_dtype(L, "p"), TPT_F64);
    assert_int_equal(tpt_lower_optional(L, "none"), TPT_VAL_NONE);
    int64_t got[2] = {0, 0};
    assert_int_equal(tpt_lower_ints(L, "ints", got, 2), 2);
    assert_true(got[0] == 4 && got[1] == -5);
    assert_int_equal(tpt_lower_count(L, "ints"), 3);
    assert_null(tpt_ir_status(L->ir));
    test_call_free(&c);
}

static void ones(void **state) {
    (void)state;
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    c.row.statics = "alpha=1";
    test_call_number(&c, "alpha", TPT_I64, true, 1);
    assert_true(tpt_lower_is_one(&c.lower, "alpha") && !tpt_lower_is_static(&c.lower, "alpha"));
    c.args[0].u.number.v.i = 2;
    assert_false(tpt_lower_is_one(&c.lower, "alpha"));
    c.args[0].u.number = (tpt_number_t){.dtype = TPT_F64, .v.f = {1, 0}};
    assert_true(tpt_lower_is_one(&c.lower, "alpha"));
    c.row.statics = "alpha=11 beta=1";
    assert_false(tpt_lower_is_one(&c.lower, "alpha"));
    test_call_free(&c);
}

static void dims_are_wrapped(void **state) {
    (void)state;
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    const int64_t list[2] = {-1, 0};
    tpt_arg_t *arg = test_call_arg(&c, "dim", TPT_ARG_INTS);
    arg->count = 2;
    arg->u.ints = list;
    test_call_arg(&c, "one", TPT_ARG_INT)->u.i = -2;
    int64_t got[TPT_MAX_RANK];
    assert_int_equal(tpt_lower_dims(&c.lower, "dim", 3, got), 2);
    assert_true(got[0] == 0 && got[1] == 2);
    assert_int_equal(tpt_lower_dims(&c.lower, "missing", 3, got), 3);
    assert_int_equal(tpt_lower_dim(&c.lower, "one", 3, 0), 1);
    assert_null(tpt_ir_status(c.lower.ir));
    (void)tpt_lower_dim(&c.lower, "one", 1, 0);
    assert_fails(tpt_ir_take_status(c.lower.ir), TPT_OUT_OF_RANGE, "expected to be in range of [-1, 0], but got -2");
    test_call_free(&c);
}

static void wrong_kinds(void **state) {
    (void)state;
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    test_call_text(&c, "text", "x");
    assert_int_equal(tpt_lower_tensor(&c.lower, "text"), TPT_VAL_NONE);
    assert_fails(tpt_ir_take_status(c.lower.ir), TPT_INTERNAL, "'text' is not a tensor");
    assert_int_equal(tpt_lower_tensor(&c.lower, "gone"), TPT_VAL_NONE);
    assert_fails(tpt_ir_take_status(c.lower.ir), TPT_INVALID_ARGUMENT, "'gone' must not be None");
    assert_int_equal(tpt_lower_int(&c.lower, "text", 3), 3);
    assert_fails(tpt_ir_take_status(c.lower.ir), TPT_INTERNAL, "not an int");
    test_call_number(&c, "p", TPT_F64, true, 1.5);
    (void)tpt_lower_static(&c.lower, "p", 0);
    assert_fails(tpt_ir_take_status(c.lower.ir), TPT_INTERNAL, "not among the row's statics");
    test_call_free(&c);
}

static void flags(void **state) {
    (void)state;
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    test_call_tensor(&c, "index", TPT_I64, 2, dims);
    tpt_val_t index = tpt_lower_tensor(&c.lower, "index");
    tpt_val_t wrapped = tpt_lower_index(&c.lower, index, 5);
    assert_int_equal(tpt_ir_dtype(c.lower.ir, wrapped), TPT_I64);
    assert_int_equal(tpt_ir_rank(c.lower.ir, wrapped), 2);
    assert_int_equal(c.lower.bad_size, 5);
    assert_int_equal(tpt_ir_dtype(c.lower.ir, c.lower.bad), TPT_BOOL);
    assert_int_equal(tpt_ir_rank(c.lower.ir, c.lower.bad), 0);
    (void)tpt_lower_index(&c.lower, index, 6);
    assert_int_equal(c.lower.bad_size, -1); /* two sizes: neither can be named */
    tpt_lower_result(&c.lower, wrapped);
    assert_int_equal(c.lower.nresults, 1);
    tpt_ir_result(c.lower.ir, wrapped);
    tpt_ir_result(c.lower.ir, c.lower.bad);
    assert_ok(tpt_ir_verify(c.lower.ir));
    test_call_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name),     cmocka_unit_test(ones),  cmocka_unit_test(dims_are_wrapped),
        cmocka_unit_test(wrong_kinds), cmocka_unit_test(flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
