/* random.h - random bits for the random rows. */
#ifndef TPT_OPS_RANDOM_H
#define TPT_OPS_RANDOM_H

#include "ops/ops.h"

/* Two independent U32 words for every element of `type`'s shape; each call in one lowering is a stream of its own. */
void tpt_random_words(tpt_lower_t *L, const tpt_type_t *type, tpt_val_t out_words[2]);
/* The same as one U64 word. */
tpt_val_t tpt_random_u64(tpt_lower_t *L, const tpt_type_t *type);
/* (0, 1] from a U32 (to F32) or U64 (to F64) word, with all of its bits: near 0 as fine as the dtype allows, for logarithms. */
tpt_val_t tpt_random_positive(tpt_ir_t *ir, tpt_val_t word);
/* -log of such a number, never 0, so that a quotient by it is finite. type: F32 or F64. */
tpt_val_t tpt_random_exponential(tpt_lower_t *L, tpt_type_t type);

#endif
