/* Arena, vector and text: growth, maxima, and each allocation failing in turn. */
#include "test_support.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

static void test_base_arena__aligned_zeroed_distinct(void **state) {
    (void)state;
    tpt_arena_t arena;
    tpt_arena_init(&arena, 1 << 24);
    unsigned char *last = NULL;
    for (size_t n = 0; n < 3000; n++) {
        unsigned char *at = tpt_arena_alloc(&arena, n);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % 16, 0);
        assert_ptr_not_equal(at, last);
        for (size_t i = 0; i < n; i++) assert_int_equal(at[i], 0);
        memset(at, 0xff, n); /* a later reset must not show this */
        last = at;
    }
    tpt_arena_reset(&arena);
    assert_int_equal(arena.used, 0);
    unsigned char *again = tpt_arena_alloc(&arena, 4096);
    for (size_t i = 0; i < 4096; i++) assert_int_equal(again[i], 0);
    assert_string_equal(tpt_arena_text(&arena, "hello"), "hello");
    assert_non_null(tpt_arena_copy(&arena, NULL, 0));
    tpt_arena_free(&arena);
    assert_null(arena.head);
}

static void test_base_arena__maximum(void **state) {
    (void)state;
    tpt_arena_t arena;
    tpt_arena_init(&arena, 64);
    assert_null(tpt_arena_alloc(&arena, 65));
    assert_null(tpt_arena_alloc(&arena, SIZE_MAX));
    assert_null(tpt_arena_alloc(&arena, SIZE_MAX - 8));
    assert_non_null(tpt_arena_alloc(&arena, 60));
    assert_null(tpt_arena_alloc(&arena, 1));
    tpt_arena_reset(&arena);
    assert_non_null(tpt_arena_alloc(&arena, 1));
    tpt_arena_free(&arena);
}

static tpt_status_t *arena_step(void *user) {
    (void)user;
    tpt_arena_t arena;
    tpt_status_t *status = NULL;
    tpt_arena_init(&arena, 1 << 24);
    for (int i = 0; i < 40 && status == NULL; i++) {
        char *at = tpt_arena_copy(&arena, "0123456789", 11);
        if (at == NULL || tpt_arena_alloc(&arena, 1000) == NULL) status = tpt_status_oom(1000);
        if (status == NULL && strcmp(at, "0123456789") != 0) status = tpt_status_make(TPT_INTERNAL, "torn");
    }
    tpt_arena_free(&arena);
    return status;
}

static tpt_status_t *vec_step(void *user) {
    (void)user;
    int32_t *items = NULL;
    size_t capacity = 0;
    tpt_status_t *status = NULL;
    for (size_t i = 0; i < 100 && status == NULL; i++) {
        int32_t *before = items;
        size_t was = capacity;
        status = tpt_vec_reserve(&items, &capacity, i + 1, sizeof *items, 1000);
        if (status != NULL && (items != before || capacity != was)) abort(); /* nothing may change on failure */
        if (status == NULL && items[i] != 0) abort();
        if (status == NULL) items[i] = (int32_t)i + 1;
    }
    for (size_t i = 0; i < 100 && status == NULL; i++) assert_int_equal(items[i], i + 1);
    tpt_free(items);
    return status;
}

static void test_base_vec__maximum(void **state) {
    (void)state;
    double *items = NULL;
    size_t capacity = 0;
    assert_ok(tpt_vec_reserve(&items, &capacity, 10, sizeof *items, 10));
    assert_int_equal(capacity, 10); /* never above the maximum */
    assert_fails(tpt_vec_reserve(&items, &capacity, 11, sizeof *items, 10), TPT_RESOURCE_EXHAUSTED, "maximum of 10");
    assert_int_equal(capacity, 10);
    assert_fails(tpt_vec_reserve(&items, &capacity, SIZE_MAX / 4, sizeof *items, SIZE_MAX), TPT_RESOURCE_EXHAUSTED, "memory");
    tpt_free(items);
}

static void test_base_str__adds(void **state) {
    (void)state;
    tpt_str_t str;
    tpt_str_init(&str, 100000);
    assert_string_equal(tpt_str_text(&str), "");
    tpt_str_add(&str, "a");
    tpt_str_addn(&str, "bcd", 2);
    tpt_str_int(&str, INT64_MIN);
    tpt_str_add(&str, " ");
    tpt_str_int(&str, INT64_MAX);
    tpt_str_int(&str, 0);
    tpt_str_addf(&str, "|%s=%d", "x", 5);
    assert_string_equal(tpt_str_text(&str), "abc-9223372036854775808 92233720368547758070|x=5");
    for (int i = 0; i < 2000; i++) tpt_str_addf(&str, "%08d", i);
    assert_true(tpt_str_ok(&str));
    assert_int_equal(str.size, 48 + 16000);
    assert_string_equal(tpt_str_text(&str) + str.size - 8, "00001999");
    char *text = tpt_str_take(&str);
    assert_int_equal(strlen(text), 48 + 16000);
    assert_int_equal(str.size, 0);
    free(text);
    text = tpt_str_take(&str);
    assert_string_equal(text, "");
    free(text);
}

static void test_base_str__maximum_is_sticky(void **state) {
    (void)state;
    tpt_str_t str;
    tpt_str_init(&str, 5);
    tpt_str_add(&str, "12345");
    assert_true(tpt_str_ok(&str));
    tpt_str_addf(&str, "%d", 6);
    assert_false(tpt_str_ok(&str));
    assert_string_equal(tpt_str_text(&str), "12345");
    tpt_str_add(&str, "");
    assert_false(tpt_str_ok(&str));
    assert_null(tpt_str_take(&str));
    tpt_str_add(&str, "new"); /* empty and usable again */
    assert_true(tpt_str_ok(&str));
    assert_string_equal(tpt_str_text(&str), "new");
    tpt_str_free(&str);
}

static tpt_status_t *str_step(void *user) {
    (void)user;
    tpt_str_t str;
    tpt_str_init(&str, 100000);
    for (int i = 0; i < 1000; i++) tpt_str_addf(&str, "%d,", i);
    char *text = tpt_str_take(&str);
    if (text == NULL) return tpt_status_oom(1);
    size_t size = strlen(text);
    free(text);
    return size == 3890 ? NULL : tpt_status_make(TPT_INTERNAL, "%zu bytes", size);
}

static void test_base_memory__torture(void **state) {
    (void)state;
    torture(arena_step, NULL);
    torture(vec_step, NULL);
    torture(str_step, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_arena__aligned_zeroed_distinct),
        cmocka_unit_test(test_base_arena__maximum),
        cmocka_unit_test(test_base_vec__maximum),
        cmocka_unit_test(test_base_str__adds),
        cmocka_unit_test(test_base_str__maximum_is_sticky),
        cmocka_unit_test(test_base_memory__torture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
