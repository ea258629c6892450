/* random.h - random bits for the random rows. */
#ifndef TPT_OPS_RANDOM_H
#define TPT_OPS_RANDOM_H

#include "ops/ops.h"

/* A stream of its own for each call of tpt_random_open in one lowering: the seed and the place in the generator's counter. */
typedef struct tpt_random {
  tpt_val_t key[2], low, high;
} tpt_random_t;
tpt_random_t tpt_random_open(tpt_lower_t* L);
/* Two independent U32 words for every element of `type`'s shape. `round` (rank-0 U32, or TPT_VAL_NONE) tells the draws of a
 * loop apart. */
void tpt_random_draw(tpt_ir_t* ir, const tpt_random_t* random, tpt_val_t round, const tpt_type_t* type, tpt_val_t out_words[2]);
/* Open and draw: two independent U32 words for every element of `type`'s shape. */
void tpt_random_words(tpt_lower_t* L, const tpt_type_t* type, tpt_val_t out_words[2]);
/* The same as one U64 word. */
tpt_val_t tpt_random_u64(tpt_lower_t* L, const tpt_type_t* type);
/* (0, 1] from a U32 (to F32) or U64 (to F64) word, with all of its bits: near 0 as fine as the dtype allows, for logarithms. */
tpt_val_t tpt_random_positive(tpt_ir_t* ir, tpt_val_t word);
/* -log of such a number, never 0, so that a quotient by it is finite. type: F32 or F64. */
tpt_val_t tpt_random_exponential(tpt_lower_t* L, tpt_type_t type);

#endif
