/* test_ops_refuse.c - numbers and dtypes that PyTorch refuses: the table names rows that there are, and its rules say what they should. */
#include <math.h>

#include "ops/refuse.h"
#include "test_support.h"

#define TPT_RANGE(row, arg, low, high, ends, when, text) row,
#define TPT_ORDER(row, arg, other, text) row,
#define TPT_FITS(row, arg, with, how) row,
#define TPT_MASK(row, arg, text) row,
#define TPT_DIVISOR(row, arg, with, when) row,
#define TPT_SAME(row, arg, with, text) row,
#define TPT_PARAM(row, arg, with) row,
static const char *const named[] = {
#include "ops/refuse.def"
};
#define NAMED (sizeof named / sizeof named[0])

static tpt_arg_t real(double v) {
    tpt_arg_t arg = {.kind = TPT_ARG_NUMBER};
    arg.u.number.dtype = TPT_F64;
    arg.u.number.v.f[0] = v;
    return arg;
}

static tpt_arg_t whole(int64_t v) {
    tpt_arg_t arg = {.kind = TPT_ARG_NUMBER};
    arg.u.number.dtype = TPT_I64;
    arg.u.number.v.i = v;
    return arg;
}

static tpt_arg_t tensor(tpt_dtype_t dtype) {
    tpt_arg_t arg = {.kind = TPT_ARG_TENSOR};
    arg.u.tensor.dtype = (uint8_t)dtype;
    return arg;
}

static const tpt_refusal_t *rule_of(const char *row, const char *number) {
    const tpt_refusal_t *first;
    int count = tpt_refusals_of(tpt_row_find(row), &first);
    for (int i = 0; i < count; i++)
        if (strcmp(tpt_refusal_arg(tpt_refusal_at(first, i)), number) == 0) return tpt_refusal_at(first, i);
    fail_msg("%s has no rule for %s", row, number);
    return NULL;
}

static void named_rows_exist_and_stand_together(void **state) {
    (void)state;
    for (size_t i = 0; i < NAMED; i++) {
        if (tpt_row_find(named[i]) == NULL) fail_msg("no row '%s'", named[i]);
        for (size_t k = i + 2; k < NAMED; k++)
            if (strcmp(named[k], named[i]) == 0 && strcmp(named[k - 1], named[i]) != 0) fail_msg("'%s' stands in two places", named[i]);
    }
}

static void ranges(void **state) {
    (void)state;
    const tpt_refusal_t *open = rule_of("geometric", "p"), *closed = rule_of("bernoulli.p", "p"), *only = rule_of("native_dropout", "p");
    tpt_arg_t half = real(0.5), zero = real(0), one = whole(1), below = real(-1), nan = real(NAN);
    tpt_arg_t off = {.kind = TPT_ARG_BOOL}, on = {.kind = TPT_ARG_BOOL, .u.i = 1}, none = {.kind = TPT_ARG_NONE};
    assert_ok(tpt_refusal_check(open, &half, NULL, NULL));
    assert_fails(tpt_refusal_check(open, &zero, NULL, NULL), TPT_INVALID_ARGUMENT, "in (0, 1), but got p=0");
    assert_fails(tpt_refusal_check(open, &nan, NULL, NULL), TPT_INVALID_ARGUMENT, "nan");
    assert_ok(tpt_refusal_check(closed, &zero, NULL, NULL));
    assert_ok(tpt_refusal_check(closed, &one, NULL, NULL));
    assert_fails(tpt_refusal_check(closed, &below, NULL, NULL), TPT_INVALID_ARGUMENT, "but got p=-1");
    assert_fails(tpt_refusal_check(only, &below, NULL, &on), TPT_INVALID_ARGUMENT, "between 0 and 1");
    assert_ok(tpt_refusal_check(only, &below, NULL, &off));
    assert_ok(tpt_refusal_check(only, &none, NULL, &on));
}

static void order(void **state) {
    (void)state;
    tpt_arg_t low = real(-1), high = whole(3);
    assert_ok(tpt_refusal_check(rule_of("uniform", "from"), &low, &high, NULL));
    assert_fails(tpt_refusal_check(rule_of("uniform", "from"), &high, &low, NULL), TPT_INVALID_ARGUMENT, "found from=3 > to=-1");
}

static void fits(void **state) {
    (void)state;
    static const struct {
        tpt_dtype_t dtype;
        double value;
        bool is_whole, good;
    } cases[] = {
        {TPT_U8, 255, true, true},       {TPT_U8, 256, true, false},          {TPT_U8, -255, true, true},
        {TPT_U8, -256, true, false},     {TPT_I8, -128, true, true},          {TPT_I8, 128, true, false},
        {TPT_I64, 0x1p63, false, false}, {TPT_I64, -0x1p63, false, true},     {TPT_I32, NAN, false, false},
        {TPT_F16, 65504, false, true},   {TPT_F16, 65536, true, false},       {TPT_F16, INFINITY, false, true},
        {TPT_F32, 1e39, false, false},   {TPT_F32, NAN, false, true},         {TPT_F64, 1e300, false, true},
        {TPT_BOOL, 1e300, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tpt_arg_t number = cases[i].is_whole ? whole((int64_t)cases[i].value) : real(cases[i].value), with = tensor(cases[i].dtype);
        tpt_status_t *status = tpt_refusal_check(rule_of("masked_fill.Scalar", "value"), &number, &with, NULL);
        if ((status == NULL) != cases[i].good) fail_msg("%s and %g", tpt_dtype_name(cases[i].dtype), cases[i].value);
        tpt_status_free(status);
    }
    /* A floating bound makes a clamp of integers a floating one. */
    tpt_arg_t number = real(300), bytes = tensor(TPT_U8);
    assert_ok(tpt_refusal_check(rule_of("clamp", "max"), &number, &bytes, NULL));
}

static void divisors(void **state) {
    (void)state;
    const tpt_refusal_t *rule = rule_of("div.Tensor_mode", "other");
    tpt_arg_t zero = whole(0), two = whole(2), real_zero = real(0), ints = tensor(TPT_I32), floats = tensor(TPT_F32);
    tpt_arg_t none = {.kind = TPT_ARG_NONE}, mode = {.kind = TPT_ARG_STRING};
    assert_fails(tpt_refusal_check(rule, &zero, &ints, &mode), TPT_INVALID_ARGUMENT, "ZeroDivisionError");
    assert_ok(tpt_refusal_check(rule, &zero, &ints, &none));
    assert_ok(tpt_refusal_check(rule, &zero, &floats, &mode));
    assert_ok(tpt_refusal_check(rule, &real_zero, &ints, &mode));
    assert_ok(tpt_refusal_check(rule, &two, &ints, &mode));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_rows_exist_and_stand_together),
        cmocka_unit_test(ranges),
        cmocka_unit_test(order),
        cmocka_unit_test(fits),
        cmocka_unit_test(divisors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
