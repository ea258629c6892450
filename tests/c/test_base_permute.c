/* Permutations in memory: every order of the dims of many shapes, element by element, in pieces and at once. */
#include "test_support.h"

#include "base/cores.h"
#include "base/permute.h"

/* Byte `b` of the element at `index`. */
static unsigned char byte_of(int64_t index, size_t b) { return (unsigned char)(index * 37 + (int64_t)b * 101 + index / 200); }

static void check(size_t size, int rank, const int64_t *dims, const int64_t *perm) {
    int64_t n = 1, strides[TPT_PERMUTE_RANK];
    for (int i = rank - 1; i >= 0; i--) strides[i] = n, n *= dims[i];
    unsigned char *in = malloc((size_t)n * size + 1), *out = malloc((size_t)n * size + 1);
    assert_true(in && out);
    for (int64_t i = 0; i < n; i++)
        for (size_t b = 0; b < size; b++) in[(size_t)i * size + b] = byte_of(i, b);
    out[(size_t)n * size] = 77; /* nothing is written behind the end */
    tpt_permute_t plan;
    assert_true(tpt_permute_plan(&plan, size, rank, dims, perm));
    const int64_t half = plan.pieces / 2;
    tpt_permute_run(&plan, out, in, half, plan.pieces);
    tpt_permute_run(&plan, out, in, 0, half);
    for (int64_t o = 0; o < n; o++) {
        int64_t rest = o, from = 0;
        for (int k = rank - 1; k >= 0; k--) {
            from += rest % dims[perm[k]] * strides[perm[k]];
            rest /= dims[perm[k]];
        }
        for (size_t b = 0; b < size; b++) assert_int_equal(out[(size_t)o * size + b], byte_of(from, b));
    }
    assert_int_equal(out[(size_t)n * size], 77);
    free(in);
    free(out);
}

/* All orders of `rank` dims, by Heap's algorithm. */
static void all_orders(size_t size, int rank, const int64_t *dims, int64_t *perm, int k) {
    if (k <= 1) {
        check(size, rank, dims, perm);
        return;
    }
    for (int i = 0; i < k; i++) {
        all_orders(size, rank, dims, perm, k - 1);
        const int a = k % 2 == 0 ? i : 0;
        const int64_t held = perm[a];
        perm[a] = perm[k - 1];
        perm[k - 1] = held;
    }
}

static void test_base_permute__all_orders(void **state) {
    (void)state;
    static const struct {
        int rank;
        int64_t dims[5];
    } shapes[] = {{0, {0}},          {1, {5}},           {1, {0}},           {2, {1, 1}},         {2, {16, 16}},
                  {2, {17, 33}},     {2, {3, 200}},      {2, {200, 3}},      {2, {0, 4}},         {3, {2, 1, 40}},
                  {3, {7, 18, 5}},   {4, {2, 3, 17, 4}}, {4, {1, 20, 1, 19}}, {5, {2, 3, 2, 5, 3}}};
    for (size_t size = 1; size <= 16; size *= 2)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            int64_t perm[5] = {0, 1, 2, 3, 4};
            all_orders(size, shapes[s].rank, shapes[s].dims, perm, shapes[s].rank);
        }
}

static void test_base_permute__refused(void **state) {
    (void)state;
    tpt_permute_t plan;
    const int64_t dims[TPT_PERMUTE_RANK + 1] = {1}, perm[TPT_PERMUTE_RANK + 1] = {0};
    assert_false(tpt_permute_plan(&plan, 3, 1, dims, perm));
    assert_false(tpt_permute_plan(&plan, 0, 1, dims, perm));
    assert_false(tpt_permute_plan(&plan, 32, 1, dims, perm));
    assert_false(tpt_permute_plan(&plan, 4, TPT_PERMUTE_RANK + 1, dims, perm));
}

static void test_base_cores__kept_and_given_back(void **state) {
    (void)state;
    const int before = tpt_cores_count();
    assert_true(before >= 1);
    tpt_cores_t cores;
    const bool kept = tpt_cores_keep_one(&cores);
    if (kept) {
        assert_int_equal(tpt_cores_count(), 1);
        tpt_cores_restore(&cores);
    } /* else there is one only, or the system forbids it */
    assert_int_equal(tpt_cores_count(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_permute__all_orders),
        cmocka_unit_test(test_base_permute__refused),
        cmocka_unit_test(test_base_cores__kept_and_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
