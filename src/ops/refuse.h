/* refuse.h - calls that PyTorch refuses because of a number's value or of dtypes. Numbers are no part of a plan's key, so this is asked at
 * every call of the few ops that have such numbers. */
#ifndef TPT_OPS_REFUSE_H
#define TPT_OPS_REFUSE_H

#include "ops/ops.h"

typedef struct tpt_refusal tpt_refusal_t;

/* The row's rules; returns how many. */
int tpt_refusals_of(const tpt_row_t *row, const tpt_refusal_t **out_first);
const tpt_refusal_t *tpt_refusal_at(const tpt_refusal_t *first, int i);
bool tpt_refusal_is_of_numbers(const tpt_refusal_t *rule); /* or of dtypes, which are part of the key: asked once a plan */
const char *tpt_refusal_arg(const tpt_refusal_t *rule);  /* the number that is looked at */
const char *tpt_refusal_with(const tpt_refusal_t *rule); /* the argument that it is held against, or NULL */
const char *tpt_refusal_when(const tpt_refusal_t *rule); /* the argument that switches the rule on, or NULL */
/* An error when the rule refuses. An argument that the schema lacks is NULL. */
TPT_MUST_USE tpt_status_t *tpt_refusal_check(const tpt_refusal_t *rule, const tpt_arg_t *arg, const tpt_arg_t *with,
                                             const tpt_arg_t *when);

/* The error of a number that a dtype cannot hold, an imaginary part among what it holds not. */
TPT_MUST_USE tpt_status_t *tpt_refuse_overflow(tpt_dtype_t dtype);

/* Fails the lowering where tensors have dtypes that do not go together. */
void tpt_refuse_dtypes(tpt_lower_t *L);
/* For a row with such a rule: raises the flag where a tensor divides whole numbers by zero. */
void tpt_refuse_divisors(tpt_lower_t *L);

#endif
