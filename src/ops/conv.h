/* conv.h - what the files of convolutions share. */
#ifndef TPT_OPS_CONV_H
#define TPT_OPS_CONV_H

#include "ops/nn.h"

typedef struct tpt_conv_args {
    int spatial;
    int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
    bool transposed;
} tpt_conv_args_t;

/* Depthwise convolutions as sums over the kernel's taps, for processors (conv_depthwise.c). x [n, c, ..], w [c * m, 1, ..],
 * gy [n, c * m, ..]. */
bool tpt_conv_is_depthwise(const tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a);
tpt_val_t tpt_conv_depthwise(tpt_ir_t *b, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a);
tpt_val_t tpt_conv_depthwise_grad_input(tpt_ir_t *b, tpt_val_t gy, tpt_val_t x, tpt_val_t w, const tpt_conv_args_t *a);
tpt_val_t tpt_conv_depthwise_grad_kernel(tpt_ir_t *b, tpt_val_t x, tpt_val_t gy, tpt_val_t w, const tpt_conv_args_t *a);

#endif
