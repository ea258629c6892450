/* Sums of padded values: where they become parts one behind the other, and where they stay sums. */
#include "test_support.h"

#include "ir/ir_internal.h"

#define DIMS(...) (const int64_t[]){__VA_ARGS__}

static tpt_ir_t *fresh(void) {
    tpt_ir_t *ir = NULL;
    assert_ok(tpt_ir_new(&ir));
    return ir;
}

/* [4, n] padded by these many zeros along its last dim. */
static tpt_val_t part(tpt_ir_t *ir, int64_t n, int64_t low, int64_t high) {
    const tpt_val_t x = tpt_ir_arg(ir, tpt_type_make(TPT_F32, 2, DIMS(4, n)));
    return tpt_ir_pad(ir, x, tpt_ir_const_f(ir, TPT_F32, 0), DIMS(0, low), DIMS(0, high), NULL);
}

/* The program that gives v holds `with` and not `without`. Frees it. */
static void assert_text(tpt_ir_t *ir, tpt_val_t v, const char *with, const char *without) {
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    tpt_ir_result(ir, v);
    if (tpt_ir_status(ir) != NULL) fail_msg("%s", tpt_status_message(tpt_ir_status(ir)));
    assert_ok(tpt_ir_verify(ir));
    assert_ok(tpt_ir_print(ir, "padded", &text));
    if (strstr(tpt_str_text(&text), with) == NULL) fail_msg("no %s in\n%s", with, tpt_str_text(&text));
    if (strstr(tpt_str_text(&text), without) != NULL) fail_msg("%s in\n%s", without, tpt_str_text(&text));
    tpt_str_free(&text);
    tpt_ir_free(ir);
}

static void test_padded__parts_that_fill_all(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t v = part(ir, 3, 7, 0), k = part(ir, 5, 2, 3), q = part(ir, 2, 0, 8);
    v = tpt_ir_add(ir, tpt_ir_add(ir, v, k), q); /* from the last on, as gradients come */
    assert_int_equal(tpt_ir_dim(ir, v, 1), 10);
    assert_text(ir, v, "\"stablehlo.concatenate\"(%arg2, %", "stablehlo.pad");
}

static void test_padded__parts_with_zeros_left(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    assert_text(ir, tpt_ir_add(ir, part(ir, 3, 1, 6), part(ir, 5, 4, 1)), "edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 0, 1>",
                "stablehlo.add");
}

static void test_padded__what_stays_a_sum(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh(); /* a gap */
    assert_text(ir, tpt_ir_add(ir, part(ir, 3, 0, 6), part(ir, 5, 4, 0)), "stablehlo.add", "concatenate");
    ir = fresh(); /* they overlap */
    assert_text(ir, tpt_ir_add(ir, part(ir, 5, 0, 4), part(ir, 5, 4, 0)), "stablehlo.add", "concatenate");
    ir = fresh(); /* padded by something else */
    tpt_val_t x = tpt_ir_arg(ir, tpt_type_make(TPT_F32, 2, DIMS(4, 4)));
    x = tpt_ir_pad(ir, x, tpt_ir_const_f(ir, TPT_F32, 1), DIMS(0, 0), DIMS(0, 5), NULL);
    assert_text(ir, tpt_ir_add(ir, x, part(ir, 5, 4, 0)), "stablehlo.add", "concatenate");
    ir = fresh(); /* by zeros between */
    x = tpt_ir_arg(ir, tpt_type_make(TPT_F32, 2, DIMS(4, 2)));
    x = tpt_ir_pad(ir, x, tpt_ir_const_f(ir, TPT_F32, 0), DIMS(0, 0), DIMS(0, 6), DIMS(0, 1));
    assert_text(ir, tpt_ir_add(ir, x, part(ir, 6, 3, 0)), "stablehlo.add", "concatenate");
    ir = fresh(); /* along other dims */
    x = tpt_ir_arg(ir, tpt_type_make(TPT_F32, 2, DIMS(2, 9)));
    x = tpt_ir_pad(ir, x, tpt_ir_const_f(ir, TPT_F32, 0), DIMS(0, 0), DIMS(2, 0), NULL);
    assert_text(ir, tpt_ir_add(ir, x, part(ir, 5, 4, 0)), "stablehlo.add", "concatenate");
    ir = fresh(); /* no sum */
    assert_text(ir, tpt_ir_mul(ir, part(ir, 4, 0, 5), part(ir, 5, 4, 0)), "stablehlo.multiply", "concatenate");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padded__parts_that_fill_all),
        cmocka_unit_test(test_padded__parts_with_zeros_left),
        cmocka_unit_test(test_padded__what_stays_a_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
