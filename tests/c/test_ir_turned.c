/* Elementwise ops and reductions of turned values: where turns vanish, where they stay, and what the results' types are. */
#include "test_support.h"

#include "ir/ir_internal.h"

static const int64_t to_last[4] = {0, 2, 3, 1}, to_first[4] = {0, 3, 1, 2};

static tpt_ir_t *fresh(void) {
    tpt_ir_t *ir = NULL;
    assert_ok(tpt_ir_new(&ir));
    tpt_ir_set_has_kernels(ir, true);
    return ir;
}

/* An argument that lies features last, as the program sees it: [8, 16, 6, 5]. */
static tpt_val_t turned_arg(tpt_ir_t *ir) {
    const int64_t dims[4] = {8, 6, 5, 16};
    return tpt_ir_turn(ir, tpt_ir_arg(ir, tpt_type_make(TPT_F32, 4, dims)), to_first);
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) n++;
    return n;
}

/* So many turns and plain transpositions in the program that gives v. Frees it. */
static void assert_turns(int turns, int transposes, tpt_ir_t *ir, tpt_val_t v) {
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    tpt_ir_result(ir, v);
    if (tpt_ir_status(ir) != NULL) fail_msg("%s", tpt_status_message(tpt_ir_status(ir)));
    assert_ok(tpt_ir_verify(ir));
    assert_ok(tpt_ir_print(ir, "turned", &text));
    if (count(tpt_str_text(&text), "tpt_permute") != turns || count(tpt_str_text(&text), "stablehlo.transpose") != transposes)
        fail_msg("not %d turns and %d transpositions:\n%s", turns, transposes, tpt_str_text(&text));
    tpt_str_free(&text);
    tpt_ir_free(ir);
}

static tpt_val_t channels(tpt_ir_t *ir, tpt_val_t like) {
    const int64_t n[1] = {16}, map[1] = {1};
    tpt_val_t v = tpt_ir_arg(ir, tpt_type_make(TPT_F32, 1, n));
    return tpt_ir_broadcast_in_dim(ir, v, 4, tpt_ir_type(ir, like)->dims, map);
}

static void test_turned__turns_vanish_across_elementwise_ops(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = turned_arg(ir), y = turned_arg(ir);
    tpt_val_t z = tpt_ir_max(ir, tpt_ir_add(ir, tpt_ir_mul(ir, x, channels(ir, x)), y), tpt_ir_const_f(ir, TPT_F32, 0));
    tpt_val_t picked = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GT, z, y), z, tpt_ir_unary(ir, TPT_IR_EXP, x));
    assert_int_equal(tpt_ir_dim(ir, picked, 1), 16);
    assert_turns(0, 0, ir, tpt_ir_turn(ir, picked, to_last));
}

static void test_turned__the_result_is_turned_once_for_others(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = turned_arg(ir), y = turned_arg(ir);
    tpt_val_t z = tpt_ir_convert(ir, tpt_ir_add(ir, x, y), TPT_F64);
    const int64_t want[4] = {8, 16, 6, 5};
    for (int i = 0; i < 4; i++) assert_int_equal(tpt_ir_dim(ir, z, i), want[i]);
    assert_turns(1, 0, ir, z);
}

static void test_turned__what_lies_otherwise_stops_it(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_val_t x = turned_arg(ir);
    tpt_val_t plain = tpt_ir_arg(ir, *tpt_ir_type(ir, x));
    assert_turns(2, 0, ir, tpt_ir_turn(ir, tpt_ir_add(ir, x, plain), to_last));

    ir = fresh();
    const int64_t other[4] = {1, 0, 2, 3}, dims[4] = {16, 8, 6, 5};
    x = turned_arg(ir);
    tpt_val_t differently = tpt_ir_turn(ir, tpt_ir_arg(ir, tpt_type_make(TPT_F32, 4, dims)), other);
    assert_turns(2, 0, ir, tpt_ir_add(ir, x, differently));
}

static void test_turned__reductions(void **state) {
    (void)state;
    const int64_t all_but_channels[3] = {0, 2, 3}, channel[1] = {1}, height[1] = {2};
    const struct {
        int n;
        const int64_t *dims;
        int turns;
        int rank;
        int64_t first;
    } cases[] = {{3, all_but_channels, 0, 1, 16}, {1, channel, 0, 3, 8}, {1, height, 1, 3, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpt_ir_t *ir = fresh();
        tpt_val_t v = tpt_ir_reduce(ir, TPT_IR_RED_ADD, turned_arg(ir), cases[i].n, cases[i].dims);
        assert_int_equal(tpt_ir_rank(ir, v), cases[i].rank);
        assert_int_equal(tpt_ir_dim(ir, v, 0), cases[i].first);
        assert_turns(cases[i].turns, 0, ir, v);
    }
    tpt_ir_t *ir = fresh();
    const int64_t bad[1] = {7};
    (void)tpt_ir_reduce(ir, TPT_IR_RED_ADD, turned_arg(ir), 1, bad);
    assert_non_null(tpt_ir_status(ir));
    tpt_ir_free(ir);
}

static void test_turned__nothing_where_there_are_no_routines(void **state) {
    (void)state;
    tpt_ir_t *ir = fresh();
    tpt_ir_set_has_kernels(ir, false);
    tpt_val_t x = turned_arg(ir), y = turned_arg(ir);
    assert_turns(0, 2, ir, tpt_ir_add(ir, x, y));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turned__turns_vanish_across_elementwise_ops),
        cmocka_unit_test(test_turned__the_result_is_turned_once_for_others),
        cmocka_unit_test(test_turned__what_lies_otherwise_stops_it),
        cmocka_unit_test(test_turned__reductions),
        cmocka_unit_test(test_turned__nothing_where_there_are_no_routines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
