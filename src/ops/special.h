/* special.h - what the expression language takes from special.c. */
#ifndef TPT_OPS_SPECIAL_H
#define TPT_OPS_SPECIAL_H

#include "ops/ops.h"

/* Value of a fitted polynomial of special_tables.h at t, in t's dtype; false when `name` is unknown. */
bool tpt_special_poly(tpt_ir_t* ir, const char* name, size_t size, tpt_val_t t, tpt_val_t* out);
/* Greatest common divisor of two integer tensors, elementwise. */
tpt_val_t tpt_special_gcd(tpt_ir_t* ir, const tpt_val_t* x);
/* x[0] to the power of x[1] >= 0, integers, elementwise; it wraps around. */
tpt_val_t tpt_special_int_pow(tpt_ir_t* ir, const tpt_val_t* x);
/* Hurwitz zeta function of x[0] > 1 at x[1], in float32 or float64. */
tpt_val_t tpt_special_zeta(tpt_ir_t* ir, const tpt_val_t* x);

/* Orthogonal polynomials at x[0] of degree x[1] >= 0 (whole), where x[2] is the one of degree 1. */
tpt_val_t tpt_special_chebyshev(tpt_ir_t* ir, const tpt_val_t* x);
tpt_val_t tpt_special_hermite_h(tpt_ir_t* ir, const tpt_val_t* x);
tpt_val_t tpt_special_hermite_he(tpt_ir_t* ir, const tpt_val_t* x);
tpt_val_t tpt_special_laguerre(tpt_ir_t* ir, const tpt_val_t* x);
tpt_val_t tpt_special_legendre(tpt_ir_t* ir, const tpt_val_t* x);
/* Sums of the incomplete gamma function, until every element has converged. Operands: a, x, both positive.
 * tpt_special_gamma_series: sum of x^k / ((a + 1) ... (a + k)); tpt_special_gamma_fraction: Lentz's continued fraction. */
tpt_val_t tpt_special_gamma_series(tpt_ir_t* ir, const tpt_val_t* x);
tpt_val_t tpt_special_gamma_fraction(tpt_ir_t* ir, const tpt_val_t* x);

#endif
