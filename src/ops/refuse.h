/* refuse.h - calls that PyTorch refuses because of a number's value. Numbers are no part of a plan's key, so this is asked at
 * every call of the few ops that have such numbers. */
#ifndef TPT_OPS_REFUSE_H
#define TPT_OPS_REFUSE_H

#include "ops/ops.h"

typedef struct tpt_refusal tpt_refusal_t;

/* The row's rules; returns how many. */
int tpt_refusals_of(const tpt_row_t *row, const tpt_refusal_t **out_first);
const tpt_refusal_t *tpt_refusal_at(const tpt_refusal_t *first, int i);
const char *tpt_refusal_arg(const tpt_refusal_t *rule);  /* the number that is looked at */
const char *tpt_refusal_with(const tpt_refusal_t *rule); /* the argument that it is held against, or NULL */
/* An error when the rule refuses. `with` is NULL where the schema lacks that argument. */
TPT_MUST_USE tpt_status_t *tpt_refusal_check(const tpt_refusal_t *rule, const tpt_arg_t *arg, const tpt_arg_t *with);

#endif
