/* build_linalg.c - dots, convolutions, factorisations and Fourier transforms. */
#include "ir_internal.h"

tpt_val_t tpt_ir_dot(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y, const tpt_ir_dot_t *d) {
    tpt_val_t in[2] = {x, y};
    tpt_attr_dot_t attr = {*d, ir->precision};
    const tpt_val_t out = tpt_ir_emit1(
        ir, &(tpt_emit_t){.kind = TPT_KIND_DOT, .nin = 2, .in = in, .nout = 1, .attr = &attr, .attr_bytes = sizeof attr});
    const tpt_val_t routine = tpt_ir_dead(ir) ? TPT_VAL_NONE : tpt_ir_gemm(ir, x, y, d, *tpt_ir_type(ir, out));
    return routine != TPT_VAL_NONE ? routine : out; /* what nothing uses is not printed */
}

tpt_val_t tpt_ir_matmul(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y) {
    if (!tpt_ir_good(ir, x) || !tpt_ir_good(ir, y)) return TPT_VAL_NONE;
    int rank = tpt_ir_rank(ir, x);
    if (rank < 2 || tpt_ir_rank(ir, y) != rank) {
        return tpt_ir_error(ir, "a matrix product of %d and %d dimensions", rank, tpt_ir_rank(ir, y));
    }
    tpt_ir_dot_t d = {.n_batch = rank - 2, .n_contract = 1, .lhs_contract = {rank - 1}, .rhs_contract = {rank - 2}};
    for (int i = 0; i < rank - 2; i++) d.lhs_batch[i] = d.rhs_batch[i] = i;
    return tpt_ir_dot(ir, x, y, &d);
}

tpt_val_t tpt_ir_untransposed(const tpt_ir_t *ir, tpt_val_t x) {
    if (ir->error || x < 0 || (size_t)x >= ir->nvalues || ir->values[x]->node < 0) return TPT_VAL_NONE;
    const tpt_node_t *node = ir->nodes[ir->values[x]->node];
    const int rank = ir->values[x]->type.rank;
    if (node->kind != TPT_KIND_TRANSPOSE || rank < 2) return TPT_VAL_NONE;
    for (int i = 0; i < rank; i++) {
        int from = i < rank - 2 ? i : 2 * rank - 3 - i;
        if (node->ints[0][i] != from) return TPT_VAL_NONE;
    }
    return node->in[0];
}

tpt_ir_conv_t tpt_ir_conv_nchw(int spatial) {
    tpt_ir_conv_t c = {.spatial = spatial,
                       .feature_groups = 1,
                       .batch_groups = 1,
                       .in_batch = 0,
                       .in_feature = 1,
                       .k_out_feature = 0,
                       .k_in_feature = 1,
                       .out_batch = 0,
                       .out_feature = 1};
    for (int i = 0; i < 3; i++) {
        c.stride[i] = c.lhs_dilation[i] = c.rhs_dilation[i] = 1;
        c.in_spatial[i] = c.k_spatial[i] = c.out_spatial[i] = 2 + i;
    }
    return c;
}

tpt_val_t tpt_ir_convolution(tpt_ir_t *ir, tpt_val_t x, tpt_val_t kernel, const tpt_ir_conv_t *c) {
    tpt_val_t in[2] = {x, kernel};
    tpt_attr_conv_t attr = {*c, ir->precision};
    return tpt_ir_emit1(
        ir, &(tpt_emit_t){.kind = TPT_KIND_CONV, .nin = 2, .in = in, .nout = 1, .attr = &attr, .attr_bytes = sizeof attr});
}

tpt_val_t tpt_ir_cholesky(tpt_ir_t *ir, tpt_val_t x, bool lower) {
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_CHOLESKY, .nin = 1, .in = &x, .nout = 1, .num = lower});
}

tpt_val_t tpt_ir_triangular_solve(tpt_ir_t *ir, tpt_val_t a, tpt_val_t b, bool left, bool lower, bool unit_diagonal,
                                  int transpose) {
    tpt_val_t in[2] = {a, b};
    if (transpose < 0 || transpose > 2) return tpt_ir_error(ir, "no transposition %d", transpose);
    int64_t num = (left ? TPT_TRI_LEFT : 0) | (lower ? TPT_TRI_LOWER : 0) | (unit_diagonal ? TPT_TRI_UNIT : 0) |
                  transpose << TPT_TRI_TRANSPOSE_SHIFT;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_TRIANGULAR, .nin = 2, .in = in, .nout = 1, .num = num});
}

tpt_val_t tpt_ir_fft(tpt_ir_t *ir, tpt_val_t x, tpt_ir_fft_kind_t kind, int n, const int64_t *lengths) {
    if (n < 1 || n > 3) return tpt_ir_error(ir, "a Fourier transform over %d dimensions", n);
    return tpt_ir_emit1(
        ir,
        &(tpt_emit_t){.kind = TPT_KIND_FFT, .sub = (int)kind, .nin = 1, .in = &x, .nout = 1, .nints = n, .ints = {lengths}});
}
