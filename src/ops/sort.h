/* sort.h - sorted order along a dim, and what is built on it. */
#ifndef TPT_OPS_SORT_H
#define TPT_OPS_SORT_H

#include "ops/ops.h"

/* Stable sort of x (rank >= 1) along dim; NaN is the largest value. Indices are I32 where they fit, else I64. */
void tpt_sort_pairs(tpt_ir_t* ir, tpt_val_t x, int dim, bool descending, tpt_val_t* out_values, tpt_val_t* out_indices);
/* The first k of the order that tpt_sort_pairs gives, largest or smallest first. */
void tpt_sort_top(tpt_ir_t* ir, tpt_val_t x, int dim, int64_t k, bool largest, tpt_val_t* out_values, tpt_val_t* out_indices);
/* Elements of a rank-1 value at integer places of any shape. */
tpt_val_t tpt_sort_take(tpt_ir_t* ir, tpt_val_t x, tpt_val_t at);
/* Elements along dim at the integer places `at`, which has x's shape but for the size of that dim. */
tpt_val_t tpt_sort_take_along(tpt_ir_t* ir, tpt_val_t x, tpt_val_t at, int dim);
/* For each of `values` ([rows, m]) its place in the sorted rows of `sorted` ([rows or 1, n]): I64 [rows, m]. With `right` the
 * place after equal elements. */
tpt_val_t tpt_sort_search(tpt_ir_t* ir, tpt_val_t sorted, tpt_val_t values, bool right);

/* The row's "self", at least of rank 1, and its dim; refuses complex numbers. */
tpt_val_t tpt_sort_input(tpt_lower_t* L, int* out_dim);
/* Values and I64 indices as results, back in rank 0 for a 0-d input. */
void tpt_sort_result(tpt_lower_t* L, tpt_val_t values, tpt_val_t indices);

#endif
