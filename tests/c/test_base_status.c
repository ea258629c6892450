#include "test_support.h"

static void test_base_status__null_is_fine(void **state) {
    (void)state;
    assert_int_equal(tpt_status_code(NULL), TPT_OK);
    assert_string_equal(tpt_status_message(NULL), "");
    tpt_status_free(NULL);
    assert_null(tpt_status_make(TPT_OK, "nothing"));
    assert_null(tpt_status_annotate(NULL, "while %d", 1));
    assert_null(tpt_status_copy(NULL));
    assert_null(tpt_status_join(NULL, NULL));
}

static void test_base_status__formats(void **state) {
    (void)state;
    tpt_status_t *status = tpt_status_make(TPT_OUT_OF_RANGE, "index %d of %s", 7, "x");
    assert_int_equal(tpt_status_code(status), TPT_OUT_OF_RANGE);
    assert_string_equal(tpt_status_message(status), "index 7 of x");
    status = tpt_status_annotate(status, "adding %d", 2);
    assert_string_equal(tpt_status_message(status), "index 7 of x; while adding 2");
    tpt_status_t *copy = tpt_status_copy(status);
    tpt_status_free(status);
    assert_int_equal(tpt_status_code(copy), TPT_OUT_OF_RANGE);
    assert_string_equal(tpt_status_message(copy), "index 7 of x; while adding 2");
    tpt_status_free(copy);
}

static void test_base_status__join_keeps_first(void **state) {
    (void)state;
    tpt_status_t *first = tpt_status_make(TPT_INTERNAL, "one");
    assert_ptr_equal(tpt_status_join(first, tpt_status_make(TPT_ABORTED, "two")), first);
    assert_ptr_equal(tpt_status_join(first, NULL), first);
    assert_ptr_equal(tpt_status_join(NULL, first), first);
    tpt_status_free(first);
}

static void test_base_status__without_memory(void **state) {
    (void)state;
    (void)tpt_fault_alloc_arm(1);
    tpt_status_t *status = tpt_status_make(TPT_INTERNAL, "lost");
    (void)tpt_fault_alloc_arm(0);
    assert_int_equal(tpt_status_code(status), TPT_RESOURCE_EXHAUSTED);
    assert_string_equal(tpt_status_message(status), "host memory exhausted");
    assert_ptr_equal(tpt_status_annotate(status, "more"), status);
    assert_ptr_equal(tpt_status_copy(status), status);
    tpt_status_free(status);
    tpt_status_free(status); /* static: freeing it does nothing */

    status = tpt_status_make(TPT_ABORTED, "kept");
    (void)tpt_fault_alloc_arm(1);
    status = tpt_status_annotate(status, "the note is lost");
    (void)tpt_fault_alloc_arm(0);
    assert_int_equal(tpt_status_code(status), TPT_ABORTED);
    assert_string_equal(tpt_status_message(status), "kept");
    tpt_status_free(status);
}

static tpt_status_t *fails_at(int at) { return at == 2 ? tpt_status_make(TPT_UNIMPLEMENTED, "at %d", at) : NULL; }

static tpt_status_t *tries(int upto) {
    for (int i = 0; i <= upto; i++) TPT_TRY_MSG(fails_at(i), "trying up to %d", upto);
    return NULL;
}

static void test_base_status__try(void **state) {
    (void)state;
    assert_ok(tries(1));
    assert_fails(tries(5), TPT_UNIMPLEMENTED, "at 2; while trying up to 5");
}

static void test_base_status__long_message_is_cut(void **state) {
    (void)state;
    size_t size = 1 << 20;
    char *text = malloc(size + 1);
    memset(text, 'a', size);
    text[size] = '\0';
    tpt_status_t *status = tpt_status_make(TPT_INTERNAL, "%s", text);
    assert_int_equal(strlen(tpt_status_message(status)), 1 << 16);
    tpt_status_free(status);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_status__null_is_fine),
        cmocka_unit_test(test_base_status__formats),
        cmocka_unit_test(test_base_status__join_keeps_first),
        cmocka_unit_test(test_base_status__without_memory),
        cmocka_unit_test(test_base_status__try),
        cmocka_unit_test(test_base_status__long_message_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
