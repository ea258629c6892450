/* shape.h - small helpers shared by the shape, fill, pad, index, scatter and window families. */
#ifndef TPT_OPS_SHAPE_H
#define TPT_OPS_SHAPE_H

#include "ops/ops.h"

/* Type of the first result: the fresh output's, else that of the written `out` (or `grad_input`), else self's. */
tpt_type_t tpt_shape_out(tpt_lower_t *L);
/* Logical type of a tensor argument without reading its value; rank 0 of NONE when it is no tensor. */
tpt_type_t tpt_shape_arg(const tpt_lower_t *L, const char *name);
/* A tensor or number argument as a value of `dtype`. */
tpt_val_t tpt_shape_value(tpt_lower_t *L, const char *name, tpt_dtype_t dtype);
int tpt_shape_wrap(int64_t dim, int rank);
tpt_val_t tpt_shape_zeros(tpt_ir_t *ir, tpt_dtype_t dtype, int rank, const int64_t *dims);
tpt_val_t tpt_shape_zeros_type(tpt_ir_t *ir, tpt_type_t type);
/* Pads one dim with zeros; `step` > 1 spreads the elements. */
tpt_val_t tpt_shape_pad_dim(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t low, int64_t high, int64_t step);
/* x[..., start : limit : step, ...] along dim. */
tpt_val_t tpt_shape_slice(tpt_ir_t *ir, tpt_val_t x, int dim, int64_t start, int64_t limit, int64_t step);
/* Moves dim `from` to position `to`; the others keep their order. */
tpt_val_t tpt_shape_move(tpt_ir_t *ir, tpt_val_t x, int from, int to);
/* A rank-1 value along `dim` of a shape, with ones elsewhere, so that it broadcasts. */
tpt_val_t tpt_shape_along(tpt_ir_t *ir, tpt_val_t vector, int rank, int dim);

/* ---- index.c */
/* x[..., index, ...]: the dims of `index` (any rank, valid values) replace `dim`. */
tpt_val_t tpt_index_take(tpt_ir_t *ir, tpt_val_t x, int dim, tpt_val_t index);
/* Flags values outside [0, size): no negative ones, as gather, scatter and embedding have it. */
tpt_val_t tpt_index_strict(tpt_lower_t *L, tpt_val_t index, int64_t size);
/* Adds (or sets) slices of `updates` along dim at a rank-1 index; indices outside are dropped. */
tpt_val_t tpt_index_scatter_rows(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, int dim, tpt_val_t index,
                                 tpt_val_t updates);
/* The same per element: index and updates have x's rank, and may be smaller than x. */
tpt_val_t tpt_index_scatter_elements(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, int dim, tpt_val_t index,
                                     tpt_val_t updates);
/* For each position in [0, n) the segment it lies in; segment k begins at starts[k] (ascending, starts[0] = 0). */
tpt_val_t tpt_index_segments(tpt_ir_t *ir, tpt_val_t starts, int64_t n);

#endif
