/* reduce.h - what the reductions, scans, sorts and random rows share. */
#ifndef TPT_OPS_REDUCE_H
#define TPT_OPS_REDUCE_H

#include "ops/ops.h"

/* A reduction of one tensor over the dims that the call names. A 0-d input is treated as one of shape [1]. */
typedef struct tpt_reduce {
  tpt_ir_t* ir;
  tpt_val_t x;
  int rank, ndims;
  int64_t dims[TPT_MAX_RANK]; /* sorted, unique */
  int64_t sizes[TPT_MAX_RANK];
  int64_t count;     /* elements behind one result */
  bool keep, scalar; /* scalar: the input was 0-d */
} tpt_reduce_t;

/* Reads `name`, "dim" (absent, None, an int or a list; an empty list is all) and "keepdim". */
tpt_reduce_t tpt_reduce_begin(tpt_lower_t* L, const char* name);
/* Over every dim of `x`, nothing kept. */
tpt_reduce_t tpt_reduce_all(tpt_ir_t* ir, tpt_val_t x);
/* A value of r's shape without the reduced dims -> with ones in their place if keepdim says so. */
tpt_val_t tpt_reduce_finish(const tpt_reduce_t* r, tpt_val_t v);
/* The same value broadcast back over r's whole shape. */
tpt_val_t tpt_reduce_expand(const tpt_reduce_t* r, tpt_val_t v);
/* Reduces v (of r's shape) over r's dims; long floating sums and products go in stages. */
tpt_val_t tpt_reduce_run(const tpt_reduce_t* r, tpt_ir_reducer_t op, tpt_val_t v);
/* The number of elements as a rank-0 constant. */
tpt_val_t tpt_reduce_count(const tpt_reduce_t* r, tpt_dtype_t dtype);

/* First index of the largest (smallest) element along `dim`, which is removed; NaN counts as the most extreme one. I64.
 * `extreme` is the result of the max (min) reduction along that dim. */
tpt_val_t tpt_reduce_index(tpt_ir_t* ir, tpt_val_t x, tpt_val_t extreme, int dim);
/* The max or min along one dim, and its index. */
void tpt_reduce_extreme(tpt_ir_t* ir, tpt_val_t x, int dim, bool largest, tpt_val_t* out_value, tpt_val_t* out_index);

/* A p-norm of r.x (floating or complex) over r's dims; real result, dims removed. */
tpt_val_t tpt_reduce_norm(const tpt_reduce_t* r, double p);

/* x != x for floating and complex dtypes; a rank-0 false for others. */
tpt_val_t tpt_reduce_isnan(tpt_ir_t* ir, tpt_val_t x);
/* A rank-0 value broadcast to x's shape. */
tpt_val_t tpt_reduce_splat(tpt_ir_t* ir, tpt_val_t scalar, tpt_val_t x);
/* Index along `dim` for every element of x's shape; I32 where it fits, else I64. */
tpt_val_t tpt_reduce_iota(tpt_ir_t* ir, tpt_val_t x, int dim);

#endif
