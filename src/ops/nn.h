/* nn.h - small helpers that the matmul, convolution, pooling, normalisation, loss and optimizer lowerings share. */
#ifndef TPT_OPS_NN_H
#define TPT_OPS_NN_H

#include "ops/ops.h"

/* The value in the dtype that PyTorch computes in: halves in float32. */
static inline tpt_val_t tpt_nn_opmath(tpt_ir_t *b, tpt_val_t v) {
    return tpt_ir_convert(b, v, tpt_dtype_opmath(tpt_ir_dtype(b, v)));
}
/* An optional tensor argument converted to `dtype`; TPT_VAL_NONE when absent. */
tpt_val_t tpt_nn_optional(tpt_lower_t *L, const char *name, tpt_dtype_t dtype);
tpt_val_t tpt_nn_tensor(tpt_lower_t *L, const char *name, tpt_dtype_t dtype);
/* A splat of `value` with v's dtype and shape. */
tpt_val_t tpt_nn_full_like(tpt_ir_t *b, tpt_val_t v, double value);
/* Sums over dims in two stages when there are many terms: a long running sum in float32 loses digits. */
tpt_val_t tpt_nn_sum(tpt_ir_t *b, tpt_val_t x, int ndims, const int64_t *dims);
tpt_val_t tpt_nn_sum_all(tpt_ir_t *b, tpt_val_t x);
tpt_val_t tpt_nn_mean_all(tpt_ir_t *b, tpt_val_t x);
/* Puts size-1 dims back: `x` was reduced over `dims` from `rank` dims. */
tpt_val_t tpt_nn_keepdims(tpt_ir_t *b, tpt_val_t x, int rank, int ndims, const int64_t *dims);
/* A rank-1 value broadcast along dim `dim` of the shape of `like`. */
tpt_val_t tpt_nn_along(tpt_ir_t *b, tpt_val_t v, tpt_val_t like, int dim);
/* reduction: 0 none, 1 mean, 2 sum; mean of nothing is NaN. */
tpt_val_t tpt_nn_reduction(tpt_lower_t *L, tpt_val_t x);
/* Broadcasts both to their common shape (numpy's rule). */
void tpt_nn_broadcast_pair(tpt_ir_t *b, tpt_val_t *x, tpt_val_t *y);
/* PyTorch's result_type of two operands; rank -1 marks a Python number. */
tpt_dtype_t tpt_nn_result_type(tpt_dtype_t a, int rank_a, tpt_dtype_t b, int rank_b);
/* The output mask's k-th flag; true when the argument is absent. */
bool tpt_nn_mask(tpt_lower_t *L, const char *name, int k);

#endif
