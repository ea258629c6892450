/* gemm.h - products of matrices in memory by the host's BLAS, which is whoever's tpt_blas_use named (tpt/tpt.h): PyTorch's own. */
#ifndef TPT_BASE_GEMM_H
#define TPT_BASE_GEMM_H

#include <tpt/tpt.h>

#define TPT_GEMM_LOOPS 8

/* C[i..][m, n] = A[i..][m, k] B[i..][k, n], one product for each step of the loops; or, without loops,
 * C = alpha A B + beta D. Strides and offsets count elements. */
typedef struct tpt_gemm {
    int64_t m, n, k;
    int64_t a_turned, b_turned; /* 1: it is dense along its first dim, not along its last one */
    int64_t lda, ldb, ldc;      /* from one row to the next, or column where turned; C is dense along n */
    int64_t a_at, b_at;         /* the first element */
    int64_t adds;               /* 1: D, alpha and beta are there */
    int64_t d_row, d_column, d_at, alpha_at, beta_at; /* D's strides may be 0 */
    int64_t nloops;
    struct {
        int64_t size, a, b, c; /* steps, and how far each of them moves */
    } loops[TPT_GEMM_LOOPS];
} tpt_gemm_t;

/* How it is shared: products, and parts of one product along m or n. */
typedef struct tpt_gemm_plan {
    tpt_gemm_t gemm;
    size_t size;                 /* bytes of an element: 4 or 8 */
    int64_t products, parts, at_once, pieces; /* parts of each product; products a piece; pieces that can be done apart */
    bool along_n;
} tpt_gemm_plan_t;

/* The arrays of a call, and in this order their elements: A, B, and where gemm.adds D, alpha and beta; last of all C. */
enum { TPT_GEMM_A, TPT_GEMM_B, TPT_GEMM_D, TPT_GEMM_ALPHA, TPT_GEMM_BETA, TPT_GEMM_C, TPT_GEMM_ARRAYS };

/* `pieces` are many enough for `threads` of them. False: it reaches past one of the arrays (of so many elements), or past 32-bit
 * sizes. */
bool tpt_gemm_plan(tpt_gemm_plan_t *plan, const tpt_gemm_t *gemm, size_t size, const int64_t numels[TPT_GEMM_ARRAYS], int threads);
/* Pieces first .. last - 1. Threads may do different pieces at once. There must be a BLAS. */
void tpt_gemm_run(const tpt_gemm_plan_t *plan, void *const arrays[TPT_GEMM_ARRAYS], int64_t first, int64_t last);

/* What tpt_blas_use was given; NULL: nothing. */
const tpt_blas_t *tpt_blas(void);

#endif
