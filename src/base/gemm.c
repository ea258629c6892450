/* gemm.c - products of matrices by the host's BLAS, piece by piece, each on one thread: the threads are the caller's. */
#include "base/gemm.h"

#include <stdatomic.h>
#include <string.h>

#define PIECE_LEAST (1 << 20) /* multiplications that are worth a thread's attention */
#define PIECES_A_THREAD 2
#define PRODUCTS_MOST (INT64_C(1) << 48) /* more would take years */
#define PART_MULTIPLE 16 /* rows or columns: whole vectors */

static tpt_blas_t the_blas;
static atomic_bool has_blas;

void tpt_blas_use(const tpt_blas_t *blas) {
    if (blas->sgemm == NULL || blas->dgemm == NULL || blas->threads_here == NULL || atomic_load(&has_blas)) return;
    the_blas = *blas;
    atomic_store_explicit(&has_blas, true, memory_order_release);
}

const tpt_blas_t *tpt_blas(void) { return atomic_load_explicit(&has_blas, memory_order_acquire) ? &the_blas : NULL; }

static bool small(int64_t x) { return x >= 1 && x <= INT32_MAX; }

/* The element behind the last one of a matrix of `rows` by `columns`, and of all that the loops reach. */
static bool reaches(const tpt_gemm_t *g, int64_t at, int64_t rows, int64_t columns, int64_t ld, int which, int64_t numel) {
    int64_t last = at;
    if (at < 0 || ld < columns || !small(ld) || __builtin_mul_overflow(rows - 1, ld, &rows) ||
        __builtin_add_overflow(last, rows, &last) || __builtin_add_overflow(last, columns - 1, &last))
        return false;
    for (int64_t i = 0; i < g->nloops; i++) {
        int64_t step = which == 0 ? g->loops[i].a : which == 1 ? g->loops[i].b : g->loops[i].c;
        if (step < 0 || __builtin_mul_overflow(g->loops[i].size - 1, step, &step) || __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < numel;
}

static bool reaches_added(const tpt_gemm_t *g, const int64_t *numels) {
    int64_t rows, columns;
    if (g->adds == 0) return true;
    if (g->nloops != 0 || g->d_at < 0 || g->d_row < 0 || g->d_column < 0 || __builtin_mul_overflow(g->m - 1, g->d_row, &rows) ||
        __builtin_mul_overflow(g->n - 1, g->d_column, &columns) || __builtin_add_overflow(rows, columns, &rows) ||
        __builtin_add_overflow(rows, g->d_at, &rows))
        return false;
    return rows < numels[TPT_GEMM_D] && g->alpha_at >= 0 && g->alpha_at < numels[TPT_GEMM_ALPHA] && g->beta_at >= 0 &&
           g->beta_at < numels[TPT_GEMM_BETA];
}

static bool fits(const tpt_gemm_t *g, const int64_t *numels) {
    if (!small(g->m) || !small(g->n) || !small(g->k) || g->nloops < 0 || g->nloops > TPT_GEMM_LOOPS) return false;
    int64_t products = 1;
    for (int64_t i = 0; i < g->nloops; i++)
        if (!small(g->loops[i].size) || __builtin_mul_overflow(products, g->loops[i].size, &products)) return false;
    if (products > PRODUCTS_MOST) return false;
    const bool ta = g->a_turned != 0, tb = g->b_turned != 0;
    return reaches(g, g->a_at, ta ? g->k : g->m, ta ? g->m : g->k, g->lda, 0, numels[TPT_GEMM_A]) &&
           reaches(g, g->b_at, tb ? g->n : g->k, tb ? g->k : g->n, g->ldb, 1, numels[TPT_GEMM_B]) &&
           reaches(g, 0, g->m, g->n, g->ldc, 2, numels[TPT_GEMM_C]) && reaches_added(g, numels);
}

bool tpt_gemm_plan(tpt_gemm_plan_t *plan, const tpt_gemm_t *gemm, size_t size, const int64_t numels[TPT_GEMM_ARRAYS], int threads) {
    if (!fits(gemm, numels) || (size != sizeof(float) && size != sizeof(double))) return false;
    *plan = (tpt_gemm_plan_t){.gemm = *gemm, .size = size, .products = 1, .parts = 1, .along_n = gemm->n > gemm->m};
    for (int64_t i = 0; i < gemm->nloops; i++) plan->products *= gemm->loops[i].size;
    const double work = (double)gemm->m * (double)gemm->n * (double)gemm->k * (double)plan->products / PIECE_LEAST;
    int64_t wanted = threads > 1 ? (int64_t)threads * PIECES_A_THREAD : 1;
    if (work < (double)wanted) wanted = work < 1 ? 1 : (int64_t)work;
    const int64_t long_side = plan->along_n ? gemm->n : gemm->m, most = (long_side + PART_MULTIPLE - 1) / PART_MULTIPLE;
    if (plan->products < wanted) plan->parts = (wanted + plan->products - 1) / plan->products;
    if (plan->parts > most) plan->parts = most;
    plan->at_once = plan->parts > 1 ? 1 : (plan->products + wanted - 1) / wanted;
    plan->pieces = plan->parts > 1 ? plan->products * plan->parts : (plan->products + plan->at_once - 1) / plan->at_once;
    return true;
}

/* Rows or columns [*out_from, *out_to) of part number `part`. */
static void part_of(const tpt_gemm_plan_t *plan, int64_t part, int64_t *out_from, int64_t *out_to) {
    const int64_t all = plan->along_n ? plan->gemm.n : plan->gemm.m;
    int64_t each = (all + plan->parts - 1) / plan->parts;
    each = (each + PART_MULTIPLE - 1) / PART_MULTIPLE * PART_MULTIPLE;
    *out_from = part * each < all ? part * each : all;
    *out_to = *out_from + each < all ? *out_from + each : all;
}

/* Where a piece of one product lies in its arrays, rows by columns. */
typedef struct place {
    const char *a, *b, *d;
    char *c;
    int rows, columns;
} place_t;

/* BLAS counts by columns: C' = alpha B' A' + beta C'. */
static void multiply_floats(const tpt_gemm_t *g, const place_t *at, float alpha, float beta) {
    const char ta = g->a_turned ? 'T' : 'N', tb = g->b_turned ? 'T' : 'N';
    const int k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    the_blas.sgemm(&tb, &ta, &at->columns, &at->rows, &k, &alpha, (const void *)at->b, &ldb, (const void *)at->a, &lda, &beta, (void *)at->c, &ldc);
}

static void multiply_doubles(const tpt_gemm_t *g, const place_t *at, double alpha, double beta) {
    const char ta = g->a_turned ? 'T' : 'N', tb = g->b_turned ? 'T' : 'N';
    const int k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
    the_blas.dgemm(&tb, &ta, &at->columns, &at->rows, &k, &alpha, (const void *)at->b, &ldb, (const void *)at->a, &lda, &beta, (void *)at->c, &ldc);
}

/* C starts as D. */
static void copy_added(const tpt_gemm_plan_t *plan, const place_t *at) {
    const tpt_gemm_t *g = &plan->gemm;
    const size_t size = plan->size, row = (size_t)g->d_row * size, column = (size_t)g->d_column * size;
    for (int i = 0; i < at->rows; i++) {
        const char *from = at->d + (size_t)i * row;
        char *to = at->c + (size_t)i * (size_t)g->ldc * size;
        if (column == size) memcpy(to, from, (size_t)at->columns * size);
        else for (int j = 0; j < at->columns; j++) memcpy(to + (size_t)j * size, from + (size_t)j * column, size);
    }
}

static void multiply(const tpt_gemm_plan_t *plan, const place_t *at, void *const *arrays) {
    const tpt_gemm_t *g = &plan->gemm;
    double alpha = 1, beta = 0;
    if (g->adds != 0 && plan->size == sizeof(float)) {
        alpha = (double)((const float *)arrays[TPT_GEMM_ALPHA])[g->alpha_at];
        beta = (double)((const float *)arrays[TPT_GEMM_BETA])[g->beta_at];
    } else if (g->adds != 0) {
        alpha = ((const double *)arrays[TPT_GEMM_ALPHA])[g->alpha_at];
        beta = ((const double *)arrays[TPT_GEMM_BETA])[g->beta_at];
    }
    if (beta != 0) copy_added(plan, at); /* a beta of 0 drops D, whatever it holds */
    if (plan->size == sizeof(float)) multiply_floats(g, at, (float)alpha, (float)beta);
    else multiply_doubles(g, at, alpha, beta);
}

static void product(const tpt_gemm_plan_t *plan, void *const *arrays, int64_t product, int64_t part) {
    const tpt_gemm_t *g = &plan->gemm;
    int64_t at_a = g->a_at, at_b = g->b_at, at_c = 0, at_d = g->d_at, from = 0, to = plan->along_n ? g->n : g->m;
    for (int64_t i = g->nloops - 1; i >= 0; i--) {
        const int64_t step = product % g->loops[i].size;
        product /= g->loops[i].size;
        at_a += step * g->loops[i].a;
        at_b += step * g->loops[i].b;
        at_c += step * g->loops[i].c;
    }
    if (plan->parts > 1) part_of(plan, part, &from, &to);
    if (from >= to) return;
    if (plan->along_n) at_b += from * (g->b_turned ? g->ldb : 1);
    else at_a += from * (g->a_turned ? 1 : g->lda);
    at_c += plan->along_n ? from : from * g->ldc;
    at_d += from * (plan->along_n ? g->d_column : g->d_row);
    const int64_t size = (int64_t)plan->size;
    const place_t at = {.a = (const char *)arrays[TPT_GEMM_A] + at_a * size, .b = (const char *)arrays[TPT_GEMM_B] + at_b * size,
                        .c = (char *)arrays[TPT_GEMM_C] + at_c * size, .d = g->adds != 0 ? (const char *)arrays[TPT_GEMM_D] + at_d * size : NULL,
                        .rows = (int)(plan->along_n ? g->m : to - from), .columns = (int)(plan->along_n ? to - from : g->n)};
    multiply(plan, &at, arrays);
}

void tpt_gemm_run(const tpt_gemm_plan_t *plan, void *const arrays[TPT_GEMM_ARRAYS], int64_t first, int64_t last) {
    const int before = the_blas.threads_here(1);
    for (int64_t piece = first; piece < last; piece++) {
        if (plan->parts > 1) {
            product(plan, arrays, piece / plan->parts, piece % plan->parts);
            continue;
        }
        const int64_t end = (piece + 1) * plan->at_once < plan->products ? (piece + 1) * plan->at_once : plan->products;
        for (int64_t i = piece * plan->at_once; i < end; i++) product(plan, arrays, i, 0);
    }
    (void)the_blas.threads_here(before);
}
