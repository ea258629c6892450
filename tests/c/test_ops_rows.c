/* test_ops_rows.c - the gathered table: sorted, without doubles, each row lowered in exactly one way. */
#include "ops/expr.h"
#include "test_support.h"

static void sorted_and_unique(void **state) {
    (void)state;
    assert_true(tpt_row_count() > 200);
    for (size_t i = 1; i < tpt_row_count(); i++) {
        const char *a = tpt_row_name(tpt_row_at(i - 1)), *b = tpt_row_name(tpt_row_at(i));
        if (strcmp(a, b) >= 0) fail_msg("'%s' is not before '%s'", a, b);
    }
    assert_null(tpt_row_at(tpt_row_count()));
}

static void found_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < tpt_row_count(); i++) assert_ptr_equal(tpt_row_find(tpt_row_name(tpt_row_at(i))), tpt_row_at(i));
    assert_null(tpt_row_find("add"));
    assert_null(tpt_row_find(""));
    assert_null(tpt_row_find("zzz.none"));
    assert_string_equal(tpt_row_name(tpt_row_find("add.Tensor")), "add.Tensor");
}

static void one_lowering_each(void **state) {
    (void)state;
    for (size_t i = 0; i < tpt_row_count(); i++) {
        const struct tpt_row *row = tpt_row_at(i);
        int ways = (row->expr != NULL) + (row->lower != NULL) + ((row->flags & TPT_ROW_HOST) != 0);
        if (ways != 1) fail_msg("row '%s' has %d lowerings", row->name, ways);
        if (row->writes_if != NULL && row->writes == NULL) fail_msg("row '%s' writes nothing on a condition", row->name);
        assert_int_equal(row->flags, tpt_row_flags(row));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_and_unique),
        cmocka_unit_test(found_by_name),
        cmocka_unit_test(one_lowering_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
