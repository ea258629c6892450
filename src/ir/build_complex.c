/* build_complex.c - complex arithmetic that XLA has, but that loses range or the side of a branch cut there. */
#include "ir_internal.h"

static tpt_val_t absolute(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_unary(ir, TPT_IR_ABS, x); }

/* Smith's division: by the larger part of the divisor first, so that no square overflows or vanishes. */
tpt_val_t tpt_ir_complex_divide(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y) {
    tpt_val_t a = tpt_ir_unary(ir, TPT_IR_REAL, x), b = tpt_ir_unary(ir, TPT_IR_IMAG, x);
    tpt_val_t c = tpt_ir_unary(ir, TPT_IR_REAL, y), d = tpt_ir_unary(ir, TPT_IR_IMAG, y), zero = tpt_ir_like(ir, c, 0);
    tpt_val_t real = tpt_ir_compare(ir, TPT_IR_GE, absolute(ir, c), absolute(ir, d));
    tpt_val_t large = tpt_ir_select(ir, real, c, d), small = tpt_ir_select(ir, real, d, c);
    tpt_val_t ratio = tpt_ir_div(ir, small, large);
    ratio = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, large, zero), zero, ratio); /* by 0: infinite, or 0 / 0 */
    tpt_val_t whole = tpt_ir_add(ir, large, tpt_ir_mul(ir, small, ratio));
    tpt_val_t ar = tpt_ir_mul(ir, a, ratio), br = tpt_ir_mul(ir, b, ratio);
    tpt_val_t re = tpt_ir_select(ir, real, tpt_ir_add(ir, a, br), tpt_ir_add(ir, ar, b));
    tpt_val_t im = tpt_ir_select(ir, real, tpt_ir_sub(ir, b, ar), tpt_ir_sub(ir, br, a));
    return tpt_ir_binary(ir, TPT_IR_COMPLEX, tpt_ir_div(ir, re, whole), tpt_ir_div(ir, im, whole));
}

/* The root with a real part >= 0, on the side of the cut that the sign of the imaginary zero says (XLA's has no sides). */
tpt_val_t tpt_ir_complex_sqrt(tpt_ir_t *ir, tpt_val_t x) {
    tpt_val_t a = tpt_ir_unary(ir, TPT_IR_REAL, x), b = tpt_ir_unary(ir, TPT_IR_IMAG, x);
    tpt_val_t zero = tpt_ir_like(ir, a, 0), one = tpt_ir_like(ir, a, 1), inf = tpt_ir_highest(ir, tpt_ir_dtype(ir, a));
    tpt_val_t abs_a = absolute(ir, a), abs_b = absolute(ir, b), size = tpt_ir_max(ir, abs_a, abs_b);
    tpt_val_t plain = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GT, size, zero), tpt_ir_unary(ir, TPT_IR_IS_FINITE, size));
    tpt_val_t unit = tpt_ir_select(ir, plain, size, one), u = tpt_ir_div(ir, abs_a, unit), v = tpt_ir_div(ir, abs_b, unit);
    tpt_val_t length = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_add(ir, tpt_ir_mul(ir, u, u), tpt_ir_mul(ir, v, v)));
    tpt_val_t half = tpt_ir_mul(ir, tpt_ir_add(ir, u, length), tpt_ir_like(ir, a, 0.5));
    tpt_val_t root = tpt_ir_mul(ir, tpt_ir_unary(ir, TPT_IR_SQRT, unit), tpt_ir_unary(ir, TPT_IR_SQRT, half));
    tpt_val_t safe = tpt_ir_select(ir, plain, root, one), other = tpt_ir_div(ir, tpt_ir_mul(ir, abs_b, tpt_ir_like(ir, a, 0.5)), safe);
    tpt_val_t right = tpt_ir_compare(ir, TPT_IR_GE, a, zero);
    tpt_val_t re = tpt_ir_select(ir, right, root, other), im = tpt_ir_select(ir, right, other, root);
    /* 0, infinities and NaN: inf + i b for an infinite b or a = inf, 0 + i inf for a = -inf. */
    tpt_val_t wide = tpt_ir_compare(ir, TPT_IR_EQ, abs_b, inf), left = tpt_ir_compare(ir, TPT_IR_EQ, abs_a, inf);
    tpt_val_t right_end = tpt_ir_and(ir, left, right), left_end = tpt_ir_and(ir, left, tpt_ir_not(ir, right));
    tpt_val_t far = tpt_ir_or(ir, wide, right_end), b_part = tpt_ir_select(ir, wide, abs_b, tpt_ir_sub(ir, b, b));
    tpt_val_t odd_re = tpt_ir_select(ir, far, inf, tpt_ir_select(ir, left_end, tpt_ir_sub(ir, b, b), tpt_ir_add(ir, a, b)));
    tpt_val_t odd_im = tpt_ir_select(ir, far, b_part, tpt_ir_select(ir, left_end, inf, absolute(ir, tpt_ir_add(ir, a, b))));
    tpt_val_t nothing = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_EQ, a, zero), tpt_ir_compare(ir, TPT_IR_EQ, b, zero));
    odd_re = tpt_ir_select(ir, nothing, zero, odd_re);
    odd_im = tpt_ir_select(ir, nothing, zero, odd_im);
    re = tpt_ir_select(ir, plain, re, odd_re);
    im = tpt_ir_select(ir, plain, im, odd_im);
    tpt_val_t sign = tpt_ir_bitcast(ir, b, tpt_ir_dtype(ir, b) == TPT_F64 ? TPT_I64 : TPT_I32);
    tpt_val_t below = tpt_ir_compare(ir, TPT_IR_LT, sign, tpt_ir_like(ir, sign, 0));
    return tpt_ir_binary(ir, TPT_IR_COMPLEX, re, tpt_ir_select(ir, below, tpt_ir_neg(ir, im), im));
}
