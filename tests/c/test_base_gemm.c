/* Products by a BLAS that this test gives: turned operands, loops, what is added, pieces in any order; and what is refused. */
#include "test_support.h"

#include <math.h>

#include "base/gemm.h"

#define ARRAYS TPT_GEMM_ARRAYS
#define UNTOUCHED 12345

/* ---- the BLAS: Fortran's convention, columns first ------------------------------------------------------------------- */

static int threads_now = 3, calls;
static char *c_start;
static int *covered; /* how often each element of C was given */

static int threads_here(int threads) {
    const int before = threads_now;
    threads_now = threads;
    return before;
}

#define PRODUCT(name, type)                                                                                               \
    static void name(const char *transa, const char *transb, const int *m, const int *n, const int *k, const type *alpha, \
                     const type *a, const int *lda, const type *b, const int *ldb, const type *beta, type *c,             \
                     const int *ldc) {                                                                                    \
        const bool ta = *transa == 'T', tb = *transb == 'T';                                                              \
        assert_int_equal(threads_now, 1);                                                                                 \
        assert_true(*m >= 1 && *n >= 1 && *k >= 1);                                                                       \
        assert_true(*lda >= (ta ? *k : *m) && *ldb >= (tb ? *n : *k) && *ldc >= *m);                                      \
        calls++;                                                                                                          \
        for (int j = 0; j < *n; j++)                                                                                      \
            for (int i = 0; i < *m; i++) {                                                                                \
                type sum = 0, *to = c + i + (ptrdiff_t)j * *ldc;                                                          \
                for (int l = 0; l < *k; l++) {                                                                            \
                    const ptrdiff_t at_a = ta ? l + (ptrdiff_t)i * *lda : i + (ptrdiff_t)l * *lda;                        \
                    const ptrdiff_t at_b = tb ? j + (ptrdiff_t)l * *ldb : l + (ptrdiff_t)j * *ldb;                        \
                    sum += a[at_a] * b[at_b];                                                                             \
                }                                                                                                         \
                *to = *beta == 0 ? *alpha * sum : *alpha * sum + *beta * *to;                                             \
                covered[to - (type *)(void *)c_start]++;                                                                  \
            }                                                                                                             \
    }

PRODUCT(reference_sgemm, float)
PRODUCT(reference_dgemm, double)

/* ---- the check against plain loops ------------------------------------------------------------------------------------ */

static double get(const void *array, size_t size, int64_t i) {
    return size == sizeof(float) ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static void put(void *array, size_t size, int64_t i, double v) {
    if (size == sizeof(float))
        ((float *)array)[i] = (float)v;
    else
        ((double *)array)[i] = v;
}

/* Small whole numbers: every sum is exact. */
static double value_of(int which, int64_t i) { return (double)((i * 7 + i / 5 + which * 3) % 9 - 4); }

/* The strides of A[m, k] and B[k, n], as the words say them. */
static int64_t at_of(const tpt_gemm_t *g, int which, int64_t row, int64_t column) {
    const bool turned = (which == TPT_GEMM_A ? g->a_turned : g->b_turned) != 0;
    const int64_t ld = which == TPT_GEMM_A ? g->lda : g->ldb;
    return turned ? column * ld + row : row * ld + column;
}

/* Elements that each array must have. */
static void numels_of(const tpt_gemm_t *g, int64_t *numels) {
    numels[TPT_GEMM_A] = g->a_at + at_of(g, TPT_GEMM_A, g->m - 1, g->k - 1) + 1;
    numels[TPT_GEMM_B] = g->b_at + at_of(g, TPT_GEMM_B, g->k - 1, g->n - 1) + 1;
    numels[TPT_GEMM_C] = (g->m - 1) * g->ldc + g->n;
    for (int64_t i = 0; i < g->nloops; i++) {
        numels[TPT_GEMM_A] += (g->loops[i].size - 1) * g->loops[i].a;
        numels[TPT_GEMM_B] += (g->loops[i].size - 1) * g->loops[i].b;
        numels[TPT_GEMM_C] += (g->loops[i].size - 1) * g->loops[i].c;
    }
    numels[TPT_GEMM_D] = g->adds != 0 ? g->d_at + (g->m - 1) * g->d_row + (g->n - 1) * g->d_column + 1 : 0;
    numels[TPT_GEMM_ALPHA] = g->adds != 0 ? g->alpha_at + 1 : 0;
    numels[TPT_GEMM_BETA] = g->adds != 0 ? g->beta_at + 1 : 0;
}

/* Product number `product` into `want`, whose elements that it covers are counted. */
static void plain(const tpt_gemm_t *g, size_t size, void *const *arrays, int64_t product, double *want, int *counts) {
    int64_t at[3] = {g->a_at, g->b_at, 0};
    for (int64_t i = g->nloops - 1, rest = product; i >= 0; rest /= g->loops[i--].size) {
        at[0] += rest % g->loops[i].size * g->loops[i].a;
        at[1] += rest % g->loops[i].size * g->loops[i].b;
        at[2] += rest % g->loops[i].size * g->loops[i].c;
    }
    const double alpha = g->adds != 0 ? get(arrays[TPT_GEMM_ALPHA], size, g->alpha_at) : 1;
    const double beta = g->adds != 0 ? get(arrays[TPT_GEMM_BETA], size, g->beta_at) : 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < g->k; l++)
                sum += get(arrays[TPT_GEMM_A], size, at[0] + at_of(g, TPT_GEMM_A, i, l)) *
                       get(arrays[TPT_GEMM_B], size, at[1] + at_of(g, TPT_GEMM_B, l, j));
            sum *= alpha;
            if (beta != 0) sum += beta * get(arrays[TPT_GEMM_D], size, g->d_at + i * g->d_row + j * g->d_column);
            want[at[2] + i * g->ldc + j] = sum;
            counts[at[2] + i * g->ldc + j]++;
        }
}

/* Each piece alone, in an order that jumps about. */
static void run_pieces(const tpt_gemm_plan_t *plan, void *const *arrays) {
    int64_t step = plan->pieces / 2 + 1;
    for (;; step++) { /* no divisor in common, so each comes once */
        int64_t a = step, b = plan->pieces;
        while (b != 0) {
            const int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
    }
    for (int64_t i = 0, piece = plan->pieces - 1; i < plan->pieces; i++, piece = (piece + step) % plan->pieces)
        tpt_gemm_run(plan, arrays, piece, piece + 1);
}

static void compare(const tpt_gemm_t *g, size_t size, void *const *arrays, int64_t numel) {
    double *want = malloc((size_t)numel * sizeof *want);
    int *counts = calloc((size_t)numel, sizeof *counts);
    assert_true(want && counts);
    for (int64_t i = 0; i < numel; i++) want[i] = UNTOUCHED;
    int64_t products = 1;
    for (int64_t i = 0; i < g->nloops; i++) products *= g->loops[i].size;
    for (int64_t i = 0; i < products; i++) plain(g, size, arrays, i, want, counts);
    for (int64_t i = 0; i < numel; i++) {
        const double got = get(arrays[TPT_GEMM_C], size, i);
        if (got != want[i] || covered[i] != counts[i])
            fail_msg("element %lld: %g, not %g, given %d times", (long long)i, got, want[i], covered[i]);
    }
    free(want);
    free(counts);
}

static double the_alpha = 0.5, the_beta = -2;

/* The plan's pieces, by `threads`. One element fewer in any of the arrays is refused. */
static int64_t check_parts(const tpt_gemm_t *g, size_t size, int threads, int64_t *out_parts) {
    int64_t numels[ARRAYS], pieces = 0;
    void *arrays[ARRAYS];
    numels_of(g, numels);
    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = malloc((size_t)numels[i] * size); /* no more: what reads past it is caught */
        assert_true(numels[i] == 0 || arrays[i] != NULL);
        for (int64_t j = 0; j < numels[i]; j++) put(arrays[i], size, j, i == TPT_GEMM_C ? UNTOUCHED : value_of(i, j));
    }
    if (g->adds != 0) {
        put(arrays[TPT_GEMM_ALPHA], size, g->alpha_at, the_alpha);
        put(arrays[TPT_GEMM_BETA], size, g->beta_at, the_beta);
        if (the_beta == 0)
            for (int64_t j = 0; j < numels[TPT_GEMM_D]; j++) put(arrays[TPT_GEMM_D], size, j, (double)NAN);
    }
    covered = calloc((size_t)numels[TPT_GEMM_C], sizeof *covered);
    assert_non_null(covered);
    c_start = arrays[TPT_GEMM_C];
    tpt_gemm_plan_t plan;
    for (int i = 0; i < ARRAYS; i++) {
        if (numels[i] == 0) continue;
        numels[i]--;
        assert_false(tpt_gemm_plan(&plan, g, size, numels, threads));
        numels[i]++;
    }
    assert_true(tpt_gemm_plan(&plan, g, size, numels, threads));
    assert_true(plan.pieces >= 1);
    calls = 0;
    run_pieces(&plan, arrays);
    assert_int_equal(threads_now, 3);                    /* given back */
    assert_true(calls >= plan.pieces || plan.parts > 1); /* the last parts may be empty */
    compare(g, size, arrays, numels[TPT_GEMM_C]);
    for (int i = 0; i < ARRAYS; i++) free(arrays[i]);
    free(covered);
    pieces = plan.pieces;
    *out_parts = plan.parts;
    return pieces;
}

static int64_t check(const tpt_gemm_t *g, size_t size, int threads) {
    int64_t parts;
    return check_parts(g, size, threads, &parts);
}

/* Dense operands, turned or not. */
static tpt_gemm_t dense(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    return (tpt_gemm_t){.m = m, .n = n, .k = k, .a_turned = ta, .b_turned = tb, .lda = ta ? m : k, .ldb = tb ? k : n, .ldc = n};
}

static const size_t sizes[] = {sizeof(float), sizeof(double)};

/* ---- the tests --------------------------------------------------------------------------------------------------------- */

static void test_base_gemm__turned_and_odd_sizes(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 5, 3},   {5, 1, 3},   {3, 5, 1},
                                        {2, 2, 2}, {7, 13, 11}, {17, 33, 5}, {64, 3, 65}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int turned = 0; turned < 4; turned++)
            for (int which = 0; which < 2; which++) {
                tpt_gemm_t g = dense(shapes[s][0], shapes[s][1], shapes[s][2], turned & 1, turned & 2);
                assert_int_equal(check(&g, sizes[which], 4), 1);
                g.lda += 3; /* windows on larger arrays */
                g.ldb += 1;
                g.ldc += 2;
                g.a_at = 5;
                g.b_at = 8;
                check(&g, sizes[which], 1);
            }
}

static void test_base_gemm__loops(void **state) {
    (void)state;
    for (int turned = 0; turned < 4; turned++)
        for (int which = 0; which < 2; which++) {
            tpt_gemm_t g = dense(5, 7, 3, turned & 1, turned & 2);
            g.nloops = 1; /* a batch */
            g.loops[0].size = 4, g.loops[0].a = 15, g.loops[0].b = 21, g.loops[0].c = 35;
            check(&g, sizes[which], 2);
            g.loops[0].b = 0; /* the same B for all */
            check(&g, sizes[which], 2);
            g.loops[0].a = 0, g.loops[0].b = 21;
            check(&g, sizes[which], 2);
            g.nloops = 3; /* of several dims, one of them with gaps, one in the other order */
            g.loops[0].size = 2, g.loops[0].a = 200, g.loops[0].b = 21, g.loops[0].c = 35;
            g.loops[1].size = 3, g.loops[1].a = 20, g.loops[1].b = 42, g.loops[1].c = 70;
            g.loops[2].size = 1, g.loops[2].a = 9, g.loops[2].b = 9, g.loops[2].c = 9;
            check(&g, sizes[which], 3);
        }
    /* As many as there may be; and heads between rows: [b, s, h, d] by [b, s, h, d] into [b, h, s, s]. */
    tpt_gemm_t g = dense(2, 2, 2, false, false);
    g.nloops = TPT_GEMM_LOOPS;
    for (int i = 0; i < TPT_GEMM_LOOPS; i++)
        g.loops[i].size = 2, g.loops[i].a = 4 << i, g.loops[i].b = i % 2 * 4, g.loops[i].c = 4 << i;
    check(&g, sizeof(float), 4);
    g = (tpt_gemm_t){.m = 6, .n = 6, .k = 8, .b_turned = 1, .lda = 24, .ldb = 24, .ldc = 6, .nloops = 2};
    g.loops[0].size = 2, g.loops[0].a = g.loops[0].b = 144, g.loops[0].c = 108;
    g.loops[1].size = 3, g.loops[1].a = g.loops[1].b = 8, g.loops[1].c = 36;
    check(&g, sizeof(float), 4);
}

static void test_base_gemm__added(void **state) {
    (void)state;
    static const struct {
        int64_t row, column, at;
    } added[] = {{0, 1, 0}, {1, 0, 2}, {0, 0, 3}, {7, 1, 0}, {9, 1, 4}, {1, 5, 0}, {14, 2, 1}};
    static const double alphas[] = {0.5, 1, 0, -3}, betas[] = {-2, 1, 0.25, 0};
    for (size_t s = 0; s < sizeof added / sizeof *added; s++)
        for (size_t c = 0; c < sizeof alphas / sizeof *alphas * 4; c++)
            for (int which = 0; which < 2; which++) {
                the_alpha = alphas[c / 4];
                the_beta = betas[c % 4]; /* with 0 D is all NaN, and nothing of it is seen */
                tpt_gemm_t g = dense(5, 7, 3, c & 1, c & 2);
                g.adds = 1;
                g.d_row = added[s].row, g.d_column = added[s].column, g.d_at = added[s].at;
                g.alpha_at = 2, g.beta_at = 1;
                check(&g, sizes[which], 4);
            }
    the_alpha = 0.5;
    the_beta = -2;
}

/* Pieces in parts along m and along n, with what is added; several products a piece. */
static void test_base_gemm__pieces(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
    } large[] = {{33, 1000, 80}, {1000, 33, 80}, {20, 20, 6000}, {17, 16, 9000}};
    static const int threads[] = {1, 2, 16};
    int64_t parts;
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            tpt_gemm_t g = dense(large[s].m, large[s].n, large[s].k, t & 1, s & 1);
            g.adds = t >= 1;
            g.d_row = t == 2 && s % 2 == 0 ? 1 : g.n + 1; /* turned, and as it is; or one row for all */
            g.d_column = t == 1 ? 1 : s % 2 == 0 ? g.m : 0;
            g.ldc += (int64_t)t;
            const int64_t pieces = check_parts(&g, sizes[t & 1], threads[t], &parts);
            assert_int_equal(pieces, parts);
            assert_int_equal(pieces > 1, threads[t] > 1);
        }
    for (int64_t products = 2; products <= 47; products = products * 3 - 1) /* 2, 5, 14, 41 */
        for (int t = 1; t <= 16; t *= 4) {
            tpt_gemm_t g = dense(40, 50, 60, products & 1, t & 4);
            g.nloops = 1;
            g.loops[0].size = products, g.loops[0].a = 40 * 60, g.loops[0].c = 40 * 50;
            const int64_t pieces = check_parts(&g, sizeof(float), t, &parts);
            assert_true(t > 1 ? pieces >= 1 && pieces <= products * parts : pieces == 1);
        }
    tpt_gemm_t g = dense(100, 110, 150, false, true); /* parts of several products */
    g.nloops = 1;
    g.loops[0].size = 2, g.loops[0].b = 110 * 150, g.loops[0].c = 100 * 110;
    const int64_t pieces = check_parts(&g, sizeof(float), 2, &parts);
    assert_int_equal(parts, 2);
    assert_int_equal(pieces, 2 * parts);
}

/* One change makes a good call a bad one. */
#define REFUSED(...)                                            \
    do {                                                        \
        tpt_gemm_t g = good;                                    \
        int64_t numels[ARRAYS];                                 \
        for (int i = 0; i < ARRAYS; i++) numels[i] = INT64_MAX; \
        tpt_gemm_plan_t plan;                                   \
        assert_true(tpt_gemm_plan(&plan, &g, 4, numels, 4));    \
        __VA_ARGS__;                                            \
        assert_false(tpt_gemm_plan(&plan, &g, 4, numels, 4));   \
    } while (0)

static void test_base_gemm__refused(void **state) {
    (void)state;
    const int64_t too_large = (int64_t)INT32_MAX + 1;
    tpt_gemm_t good = dense(6, 7, 5, false, true);
    good.nloops = 2;
    good.loops[0].size = 2, good.loops[0].a = 30, good.loops[0].b = 35, good.loops[0].c = 42;
    good.loops[1].size = 3, good.loops[1].a = 60, good.loops[1].b = 70, good.loops[1].c = 84;
    REFUSED(g.m = 0);
    REFUSED(g.n = 0);
    REFUSED(g.k = 0);
    REFUSED(g.m = -6);
    REFUSED(g.m = too_large);
    REFUSED((g.n = g.ldc = too_large));
    REFUSED((g.k = g.lda = g.ldb = too_large));
    REFUSED(g.lda = 4);
    REFUSED(g.ldb = 4);
    REFUSED(g.ldc = 6);
    REFUSED((g.a_turned = 1)); /* it has 6 columns then */
    REFUSED((g.b_turned = 0));
    REFUSED(g.lda = too_large);
    REFUSED(g.ldb = too_large);
    REFUSED(g.ldc = too_large);
    REFUSED(g.lda = -5);
    REFUSED(g.a_at = -1);
    REFUSED(g.b_at = -1);
    REFUSED(g.a_at = INT64_MAX);
    REFUSED(g.b_at = INT64_MAX - 30);
    REFUSED(g.nloops = -1);
    REFUSED(g.nloops = TPT_GEMM_LOOPS + 1);
    REFUSED(g.nloops = INT64_MAX);
    REFUSED(g.loops[0].size = 0);
    REFUSED(g.loops[0].size = -2);
    REFUSED(g.loops[1].size = too_large);
    REFUSED(g.loops[1].a = -1);
    REFUSED(g.loops[0].b = -1);
    REFUSED(g.loops[0].c = -1);
    REFUSED(g.loops[0].a = INT64_MAX);
    REFUSED(g.loops[1].b = INT64_MAX / 2 + 1);
    REFUSED(g.loops[1].c = INT64_MAX / 2);
    REFUSED((g.adds = 1)); /* with loops */
    /* As many products as cannot be counted. */
    REFUSED({
        g.nloops = 3;
        for (int i = 0; i < 3; i++) g.loops[i].size = INT32_MAX, g.loops[i].a = g.loops[i].b = g.loops[i].c = 0;
    });
    tpt_gemm_plan_t plan;
    const int64_t numels[ARRAYS] = {1000, 1000, 0, 0, 0, 1000};
    assert_true(tpt_gemm_plan(&plan, &good, 4, numels, 4));
    assert_true(tpt_gemm_plan(&plan, &good, 8, numels, 4));
    assert_false(tpt_gemm_plan(&plan, &good, 2, numels, 4));
    assert_false(tpt_gemm_plan(&plan, &good, 16, numels, 4));
    assert_false(tpt_gemm_plan(&plan, &good, 0, numels, 4));

    good = dense(6, 7, 5, false, false);
    good.adds = 1;
    good.d_row = 7;
    good.d_column = 1;
    REFUSED(g.d_row = -1);
    REFUSED(g.d_column = -1);
    REFUSED(g.d_at = -1);
    REFUSED(g.d_at = INT64_MAX - 10);
    REFUSED(g.d_row = INT64_MAX);
    REFUSED(g.d_column = INT64_MAX / 2);
    REFUSED(g.alpha_at = -1);
    REFUSED(g.beta_at = -1);
    REFUSED(g.alpha_at = INT64_MAX);
    REFUSED(g.beta_at = INT64_MAX);
}

static int no_threads(int threads) { return threads; }

static void test_base_gemm__the_first_whole_blas_stays(void **state) {
    (void)state;
    const tpt_blas_t part = {reference_sgemm, NULL, threads_here}, whole = {reference_sgemm, reference_dgemm, threads_here};
    assert_null(tpt_blas());
    tpt_blas_use(&part);
    assert_null(tpt_blas());
    tpt_blas_use(&whole);
    assert_non_null(tpt_blas());
    const tpt_blas_t other = {reference_sgemm, reference_dgemm, no_threads};
    tpt_blas_use(&other);
    assert_true(tpt_blas()->threads_here == threads_here);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_gemm__the_first_whole_blas_stays), /* the others need it */
        cmocka_unit_test(test_base_gemm__turned_and_odd_sizes),
        cmocka_unit_test(test_base_gemm__loops),
        cmocka_unit_test(test_base_gemm__added),
        cmocka_unit_test(test_base_gemm__pieces),
        cmocka_unit_test(test_base_gemm__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
