/* Formulas over arrays: each step against the C operator, in place, over block borders; and formulas that are wrong. */
#include "test_support.h"

#include <math.h>

#include "base/formula.h"

#define N 1300 /* more than two blocks */
#define OP(name) TPT_FORMULA_##name

static float x[N], y[N], out[N];

static void fill(void) {
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 37) - 18.0F;
        y[i] = (float)(i % 23) * 0.25F - 2.0F;
    }
    x[5] = NAN;
    y[700] = NAN;
    x[N - 1] = INFINITY;
}

static float expected(int64_t op, float a, float b) {
    switch (op) {
        case OP(ADD): return a + b;
        case OP(SUB): return a - b;
        case OP(MUL): return a * b;
        case OP(DIV): return a / b;
        case OP(MAX): return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
        case OP(MIN): return isnan(a) || isnan(b) ? NAN : fminf(a, b);
        case OP(SQRT): return sqrtf(a);
        case OP(NEG): return -a;
        case OP(ABS): return fabsf(a);
        case OP(LT): return a < b;
        case OP(LE): return a <= b;
        default: return a == b;
    }
}

static void same(float got, float want) {
    if (isnan(want)) assert_true(isnan(got));
    else assert_true(got == want && signbit(got) == signbit(want));
}

static void test_base_formula__each_step(void **state) {
    (void)state;
    const float *const arrays[2] = {x, y};
    float *const results[1] = {out};
    for (int64_t op = OP(ADD); op <= OP(EQ); op++) {
        fill();
        const tpt_formula_step_t steps[] = {{OP(LOAD), 0, 0, 0}, {OP(LOAD), 1, 0, 0}, {op, 0, 1, 0}, {OP(STORE), 2, 0, 0}};
        const tpt_formula_item_t item = {N, 0, 4, steps};
        assert_true(tpt_formula_check(&item, 2, 1));
        tpt_formula_run(&item, arrays, results, 600, N);
        tpt_formula_run(&item, arrays, results, 0, 600);
        for (int i = 0; i < N; i++) same(out[i], expected(op, x[i], y[i]));
    }
}

/* x = x < 2 ? x * number[1] : not(x < 2), where x is also the result. */
static void test_base_formula__in_place(void **state) {
    (void)state;
    const float numbers[2] = {7, 3};
    const float two = 2;
    uint32_t bits;
    memcpy(&bits, &two, sizeof bits);
    const float *const arrays[2] = {x, numbers};
    float *const results[1] = {x};
    const tpt_formula_step_t steps[] = {{OP(NUMBER), 1, 1, 0}, {OP(CONST), bits, 0, 0}, {OP(LOAD), 0, 0, 0}, {OP(MUL), 2, 0, 0},
                                        {OP(LT), 2, 1, 0},     {OP(NOT), 4, 0, 0},      {OP(SELECT), 4, 3, 5}, {OP(STORE), 6, 0, 0}};
    const tpt_formula_item_t item = {N, 2, 8, steps};
    fill();
    float before[N];
    memcpy(before, x, sizeof x);
    assert_true(tpt_formula_check(&item, 2, 1));
    tpt_formula_run(&item, arrays, results, 0, N);
    for (int i = 0; i < N; i++) same(x[i], before[i] < 2 ? before[i] * 3 : 1);
}

static void test_base_formula__wrong_ones_are_refused(void **state) {
    (void)state;
    const tpt_formula_step_t wrong[][2] = {
        {{OP(LOAD), 2, 0, 0}, {OP(STORE), 0, 0, 0}},    {{OP(LOAD), -1, 0, 0}, {OP(STORE), 0, 0, 0}},
        {{OP(LOAD), 0, 0, 0}, {OP(STORE), 1, 0, 0}},    {{OP(LOAD), 0, 0, 0}, {OP(STORE), 0, 1, 0}},
        {{OP(LOAD), 0, 0, 0}, {OP(ADD), 0, 1, 0}},      {{OP(LOAD), 0, 0, 0}, {TPT_FORMULA_COUNT, 0, 0, 0}},
        {{OP(NUMBER), 0, -1, 0}, {OP(STORE), 0, 0, 0}}, {{-1, 0, 0, 0}, {OP(STORE), 0, 0, 0}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const tpt_formula_item_t item = {4, 0, 2, wrong[i]};
        assert_false(tpt_formula_check(&item, 2, 1));
    }
    const tpt_formula_step_t good[] = {{OP(LOAD), 0, 0, 0}, {OP(STORE), 0, 0, 0}};
    assert_true(tpt_formula_check(&(tpt_formula_item_t){4, 0, 2, good}, 2, 1));
    assert_false(tpt_formula_check(&(tpt_formula_item_t){4, 1, 2, good}, 2, 1)); /* an element is not the same everywhere */
    assert_false(tpt_formula_check(&(tpt_formula_item_t){4, 3, 2, good}, 2, 1));
    assert_false(tpt_formula_check(&(tpt_formula_item_t){-4, 0, 2, good}, 2, 1));
    assert_false(tpt_formula_check(&(tpt_formula_item_t){4, 0, TPT_FORMULA_STEPS + 1, good}, 2, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_formula__each_step),
        cmocka_unit_test(test_base_formula__in_place),
        cmocka_unit_test(test_base_formula__wrong_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
