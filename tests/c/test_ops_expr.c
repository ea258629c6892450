/* test_ops_expr.c - the language of elementwise rows: what it builds, how operators bind, what it refuses. */
#include "ops/expr.h"

#include "test_ops_lower.h"

static const int64_t dims[2] = {2, 3}, row[1] = {3};

/* Lowers `expr` over self f32[2,3], other f32[3], count (int 4), mode (text "tanh"), number (run-time), fixed (static 2.5). */
static tpt_status_t *lower(const char *expr, tpt_promote_t promote, tpt_dtype_t dtype, char **out_text) {
    test_call_t c;
    *out_text = NULL;
    TPT_TRY(test_call_init(&c, expr, promote));
    c.row.statics = "fixed";
    test_call_tensor(&c, "self", dtype, 2, dims);
    test_call_tensor(&c, "other", dtype, 1, row);
    test_call_arg(&c, "count", TPT_ARG_INT)->u.i = 4;
    test_call_text(&c, "mode", "tanh");
    test_call_number(&c, "number", TPT_F64, true, 0);
    test_call_number(&c, "fixed", TPT_F64, true, 2.5);
    (void)test_call_arg(&c, "absent", TPT_ARG_NONE);
    tpt_row_lower(&c.lower);
    for (int i = 0; i < c.lower.nresults; i++) tpt_ir_result(c.lower.ir, c.lower.results[i]);
    tpt_status_t *status = tpt_ir_take_status(c.lower.ir);
    if (status == NULL) status = tpt_ir_verify(c.lower.ir);
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    if (status == NULL) status = tpt_ir_print(c.lower.ir, "t", &text);
    if (status == NULL && (*out_text = tpt_str_take(&text)) == NULL) status = tpt_status_oom(1);
    tpt_str_free(&text);
    test_call_free(&c);
    return status;
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* Expressions that must give the same program. */
static void same(const char *a, const char *b) {
    char *x, *y;
    assert_ok(lower(a, TPT_PROMOTE_SAME, TPT_F32, &x));
    assert_ok(lower(b, TPT_PROMOTE_SAME, TPT_F32, &y));
    if (strcmp(x, y) != 0) fail_msg("%s and %s differ:\n%s\n%s", a, b, x, y);
    free(x);
    free(y);
}

static void strength_of_operators(void **state) {
    (void)state;
    same("self + other * self", "self + (other * self)");
    same("self - other - self", "(self - other) - self");
    same("self / other * self", "(self / other) * self");
    same("-self * other", "(-self) * other");
    same("bool(self) | bool(other) & bool(self) == bool(other)", "(bool(self) | (bool(other) & bool(self))) == bool(other)");
    same("bool(self) ^ bool(other) & bool(self)", "bool(self) ^ (bool(other) & bool(self))");
    same("where(self < other && other < self || self == other, self, 0)",
         "where(((self < other) && (other < self)) || (self == other), self, 0)");
}

static void known_when_lowering(void **state) {
    (void)state;
    same("self * (2 * pi / 4 + 1 - 0.5)", "self * 2.0707963267948966");
    same("if(mode == 'tanh', self, other)", "self");
    same("if(mode != 'tanh', absent * 2, other)", "other");
    same("if(count > 3 && fixed < 3, self, fail('no'))", "self");
    same("if(has(absent) || !has(self), absent + 1, self)", "self");
    same("if(absent == 'tanh', 1 / absent, self)", "self");
    same("self * sqrt(16)", "self * 4");
    same("self * 1 + other", "self + other");
    same("self * fixed", "self * 2.5");
    same("let a = self * 2; let b = a + other; b * 3", "(self * 2 + other) * 3");
    same("if(isfloat(self) && !isint(self) && !iscomplex(self), other, 0)", "other");
    same("if(isknown(count) && !isknown(number), self, 0)", "if(isknown(number), 0, self)");
}

static void dtypes(void **state) {
    (void)state;
    char *text;
    /* Halves are computed in float32, but compared as they are. */
    assert_ok(lower("self * number", TPT_PROMOTE_SAME, TPT_BF16, &text));
    assert_int_equal(count_of(text, "stablehlo.convert"), 1);
    assert_non_null(strstr(text, "-> (tensor<2x3xf32>)"));
    free(text);
    assert_ok(lower("self < number", TPT_PROMOTE_EXACT, TPT_BF16, &text));
    assert_int_equal(count_of(text, "stablehlo.convert"), 0);
    assert_non_null(strstr(text, "tensor<bf16>"));
    free(text);
    assert_ok(lower("self + other", TPT_PROMOTE_NONE, TPT_I64, &text));
    assert_int_equal(count_of(text, "stablehlo.convert"), 0);
    free(text);
    assert_ok(lower("exp(self)", TPT_PROMOTE_FLOAT, TPT_I64, &text));
    assert_non_null(strstr(text, "-> (tensor<2x3xf32>)"));
    free(text);
    assert_ok(lower("raw(self) + raw(other)", TPT_PROMOTE_FLOAT, TPT_I64, &text));
    assert_non_null(strstr(text, "-> (tensor<2x3xi64>)"));
    free(text);
    assert_ok(lower("bool(self) & bool(other)", TPT_PROMOTE_FLOAT, TPT_I64, &text));
    assert_non_null(strstr(text, "-> (tensor<2x3xi1>)"));
    free(text);
}

static void results(void **state) {
    (void)state;
    char *text;
    assert_ok(lower("self + other, other", TPT_PROMOTE_SAME, TPT_F32, &text));
    assert_non_null(strstr(text, "-> (tensor<2x3xf32>, tensor<2x3xf32>)")); /* the second has the common shape too */
    free(text);
    assert_ok(lower("3", TPT_PROMOTE_SAME, TPT_F32, &text));
    assert_non_null(strstr(text, "-> (tensor<2x3xf32>)"));
    free(text);
}

static void library(void **state) {
    (void)state;
    static const char *const calls[] = {
        "erf(self)",
        "erfc(self)",
        "erfinv(self)",
        "lgamma(self)",
        "digamma(self)",
        "i0(self)",
        "i1e(self)",
        "ndtri(self)",
        "log_ndtr(self)",
        "floor_div(self, other)",
        "remainder(self, other)",
        "hypot(self, other)",
        "logaddexp(self, other)",
        "zeta(self, other)",
        "sinh(self)",
        "nextafter(self, other)",
        "copysign(self, other)",
        "trunc(self)",
    };
    static const tpt_dtype_t floats[] = {TPT_F32, TPT_F64};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (size_t k = 0; k < 2; k++) {
            char *text;
            assert_ok(lower(calls[i], TPT_PROMOTE_SAME, floats[k], &text));
            free(text);
        }
    }
}

static void refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"self +", "operand expected"},
        {"(self", "')' expected"},
        {"self other", "after the end"},
        {"nonsense", "unknown name"},
        {"nonsense(self)", "unknown function"},
        {"exp(self, other)", "too many operands"},
        {"max(self)", "too few operands"},
        {"if(self, 1, 2)", "not known when lowering"},
        {"let = 1; self", "a name expected"},
        {"mode + self", "a value is needed"},
        {"'open", "without an end"},
        {"poly('none', self)", "unknown polynomial"},
        {"absent * self", "a value is needed"},
        {"ten_to(self)", "not known when lowering"},
        {"let a 1; a", "another token"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *text;
        assert_fails(lower(wrong[i][0], TPT_PROMOTE_SAME, TPT_F32, &text), TPT_INTERNAL, wrong[i][1]);
        assert_null(text);
    }
    char *text;
    assert_fails(lower("fail('not this way')", TPT_PROMOTE_SAME, TPT_F32, &text), TPT_INVALID_ARGUMENT, "not this way");
    char deep[1024];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_fails(lower(deep, TPT_PROMOTE_SAME, TPT_F32, &text), TPT_INTERNAL, "nested too deeply");
}

static tpt_status_t *one_lowering(void *user) {
    char *text;
    tpt_status_t *status = lower(user, TPT_PROMOTE_SAME, TPT_F32, &text);
    free(text);
    return status;
}

static void out_of_memory(void **state) {
    (void)state;
    static char expr[] = "let a = lgamma(self); where(a > other, floor_div(a, other), number), a";
    for (size_t nth = 1; nth < 100000; nth++) {
        (void)tpt_fault_alloc_arm(nth);
        tpt_status_t *status = one_lowering(expr);
        (void)tpt_fault_alloc_arm(0);
        if (status == NULL) return;
        assert_int_equal(tpt_status_code(status), TPT_RESOURCE_EXHAUSTED);
        tpt_status_free(status);
    }
    fail_msg("never got through");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strength_of_operators),
        cmocka_unit_test(known_when_lowering),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(results),
        cmocka_unit_test(library),
        cmocka_unit_test(refused),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
