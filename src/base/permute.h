/* permute.h - a dense array with its dimensions in another order, in memory. */
#ifndef TPT_BASE_PERMUTE_H
#define TPT_BASE_PERMUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPT_PERMUTE_RANK 16

/* How out[i0, i1, ...] = in[...] is done, with neighbouring dims joined where they stay together. */
typedef struct tpt_permute {
    size_t size;                     /* bytes of an element: 1, 2, 4, 8 or 16 */
    int rank;                        /* of out, after joining */
    int64_t dims[TPT_PERMUTE_RANK];  /* of out */
    int64_t from[TPT_PERMUTE_RANK];  /* elements between neighbours in the input */
    int64_t to[TPT_PERMUTE_RANK];    /* the same in the output */
    int across;                      /* the dim of out along which the input is dense; the last one: rows are copied */
    int64_t pieces;                  /* that can be done apart */
} tpt_permute_t;

/* out's dim k is the input's dim perm[k]. False: an element of another size, or too many dims. */
bool tpt_permute_plan(tpt_permute_t *plan, size_t size, int rank, const int64_t *in_dims, const int64_t *perm);
/* Pieces first .. last - 1. Threads may do different pieces at once. */
void tpt_permute_run(const tpt_permute_t *plan, void *out, const void *in, int64_t first, int64_t last);

#endif
