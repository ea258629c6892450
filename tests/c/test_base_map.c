#include "test_support.h"

#include "base/hash.h"
#include "base/map.h"

#define KEYS 3000

/* Keys of 0 to 4 words; `weak` puts all of them into few hashes, so that probing and comparing are at work. */
static uint32_t make_key(int i, bool weak, uint64_t key[4], uint64_t *out_hash) {
    uint32_t words = i == 0 ? 0 : (uint32_t)(1 + i % 4);
    for (uint32_t k = 0; k < words; k++) key[k] = (uint64_t)i * 2654435761u + k;
    *out_hash = weak ? (uint64_t)(i % 7) : tpt_hash64(key, words * sizeof *key);
    return words;
}

static int numbers[KEYS];

/* Random puts and removes against a plain array. */
static void check_against_array(bool weak, int keys) {
    tpt_map_t map;
    bool present[KEYS] = {false};
    size_t count = 0;
    uint64_t seed = 12345, key[4], hash;
    tpt_map_init(&map, KEYS);
    for (int round = 0; round < keys * 8; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int i = (int)((seed >> 33) % (uint64_t)keys);
        uint32_t words = make_key(i, weak, key, &hash);
        if ((seed >> 20) % 3 != 0) {
            assert_ok(tpt_map_put(&map, hash, key, words, &numbers[i]));
            count += present[i] ? 0 : 1;
            present[i] = true;
        } else {
            void *value = tpt_map_remove(&map, hash, key, words);
            assert_ptr_equal(value, present[i] ? &numbers[i] : NULL);
            count -= present[i] ? 1 : 0;
            present[i] = false;
        }
        assert_int_equal(map.count, count);
    }
    for (int i = 0; i < keys; i++) {
        uint32_t words = make_key(i, weak, key, &hash);
        assert_ptr_equal(tpt_map_get(&map, hash, key, words), present[i] ? &numbers[i] : NULL);
    }
    tpt_map_free(&map);
}

static void test_base_map__against_array(void **state) {
    (void)state;
    check_against_array(false, KEYS);
    check_against_array(true, 200);
}

static void test_base_map__same_hash_other_key(void **state) {
    (void)state;
    tpt_map_t map;
    const uint64_t a[2] = {1, 2}, b[2] = {1, 3};
    tpt_map_init(&map, 10);
    assert_null(tpt_map_get(&map, 5, a, 2));
    assert_null(tpt_map_remove(&map, 5, a, 2));
    assert_ok(tpt_map_put(&map, 5, a, 2, &numbers[1]));
    assert_null(tpt_map_get(&map, 5, b, 2));
    assert_null(tpt_map_get(&map, 5, a, 1));
    assert_ok(tpt_map_put(&map, 5, a, 2, &numbers[2]));
    assert_ptr_equal(tpt_map_get(&map, 5, a, 2), &numbers[2]);
    assert_int_equal(map.count, 1);
    tpt_map_clear(&map);
    assert_null(tpt_map_get(&map, 5, a, 2));
    tpt_map_free(&map);
}

static void count_entry(void *user, const tpt_map_entry_t *entry) { *(int64_t *)user += *(int *)entry->value; }

static void test_base_map__maximum_and_each(void **state) {
    (void)state;
    tpt_map_t map;
    tpt_map_init(&map, 100);
    for (int i = 0; i < KEYS; i++) numbers[i] = i;
    uint64_t key[4], hash;
    for (int i = 0; i < 100; i++) {
        uint32_t words = make_key(i, false, key, &hash);
        assert_ok(tpt_map_put(&map, hash, key, words, &numbers[i]));
    }
    uint32_t words = make_key(100, false, key, &hash);
    assert_fails(tpt_map_put(&map, hash, key, words, &numbers[100]), TPT_RESOURCE_EXHAUSTED, "maximum of 100");
    assert_int_equal(map.count, 100);
    int64_t sum = 0;
    tpt_map_each(&map, count_entry, &sum);
    assert_int_equal(sum, 4950);
    tpt_map_free(&map);
}

static tpt_status_t *map_step(void *user) {
    (void)user;
    tpt_map_t map;
    tpt_status_t *status = NULL;
    uint64_t key[4], hash;
    int done = 0;
    tpt_map_init(&map, KEYS);
    for (; done < 60 && status == NULL; done++) {
        uint32_t words = make_key(done, false, key, &hash);
        status = tpt_map_put(&map, hash, key, words, &numbers[done]);
    }
    int kept = status == NULL ? done : done - 1; /* the map is unchanged by the failing put */
    assert_int_equal(map.count, kept);
    for (int i = 0; i < kept; i++) {
        uint32_t words = make_key(i, false, key, &hash);
        assert_ptr_equal(tpt_map_get(&map, hash, key, words), &numbers[i]);
    }
    tpt_map_free(&map);
    return status;
}

static void test_base_map__torture(void **state) {
    (void)state;
    torture(map_step, NULL);
}

static void test_base_hash__known_values(void **state) {
    (void)state;
    /* XXH3 of no bytes with seed 0: the published values. */
    assert_true(tpt_hash64("", 0) == 0x2d06800538d394c2u);
    tpt_hash128_t hash = tpt_hash128("", 0);
    assert_true(hash.lo == 0x6001c324468d497fu && hash.hi == 0x99aa06d3014798d8u);
    assert_true(tpt_hash64("a", 1) != tpt_hash64("b", 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_map__against_array),    cmocka_unit_test(test_base_map__same_hash_other_key),
        cmocka_unit_test(test_base_map__maximum_and_each), cmocka_unit_test(test_base_map__torture),
        cmocka_unit_test(test_base_hash__known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
