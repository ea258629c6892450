/* random_grad.c - how a gamma or beta distributed number moves with its shape parameter, at a fixed quantile.
 *
 * With F the distribution function and f its density this is -(dF/da) / f(x). Of the integral dF/da = integral of
 * f(t) (log t - c) dt over t < x (c = digamma(a), or digamma(a) - digamma(a + b)) or, since the whole vanishes, of minus that
 * over t > x, the tail is taken on whose side f falls; t is written as x e^-v (its odds for beta), so that the integrand is
 * smooth and decays, and summed by the double exponential rule v = scale e^(u - e^-u) in float64. */
#include <math.h>

#include "ops/reduce.h"

#define STEP 0.1
#define FIRST (-4.0)
#define NODES 131

/* The integrand at v and one factor of it, from the parameters; both tails, where the sign of `side` picks the lower one. */
typedef tpt_val_t (*integrand_t)(tpt_ir_t *ir, const tpt_val_t *params, tpt_val_t v);

static tpt_val_t num(tpt_ir_t *ir, double value) { return tpt_ir_const_f(ir, TPT_F64, value); }
static tpt_val_t exp_of(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_unary(ir, TPT_IR_EXP, x); }

/* Euler's series eight places further up, x > 0. */
static tpt_val_t digamma(tpt_ir_t *ir, tpt_val_t x) {
    static const double series[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
    tpt_val_t shift = tpt_ir_div(ir, num(ir, 1), x);
    for (int k = 1; k < 8; k++) shift = tpt_ir_add(ir, shift, tpt_ir_div(ir, num(ir, 1), tpt_ir_add(ir, x, num(ir, k))));
    tpt_val_t y = tpt_ir_add(ir, x, num(ir, 8)), r = tpt_ir_div(ir, num(ir, 1), y), r2 = tpt_ir_mul(ir, r, r), sum = num(ir, 0);
    for (int k = 6; k >= 0; k--) sum = tpt_ir_mul(ir, tpt_ir_add(ir, sum, num(ir, series[k])), r2);
    tpt_val_t main = tpt_ir_sub(ir, tpt_ir_unary(ir, TPT_IR_LOG, y), tpt_ir_mul(ir, r, num(ir, 0.5)));
    return tpt_ir_sub(ir, tpt_ir_sub(ir, main, sum), shift);
}

/* Sum of the rule; params[0] is its scale, at most four of them, all of one shape. */
static tpt_val_t integrate(tpt_ir_t *ir, int n, const tpt_val_t *params, integrand_t f) {
    double place[NODES], weight[NODES];
    for (int i = 0; i < NODES; i++) {
        const double u = FIRST + STEP * i;
        place[i] = exp(u - exp(-u));
        weight[i] = STEP * place[i] * (1 + exp(-u));
    }
    tpt_type_t type = *tpt_ir_type(ir, params[0]);
    if (tpt_ir_status(ir) != NULL || tpt_type_numel(&type) == 0) return params[0];
    tpt_val_t inits[8] = {tpt_ir_const_i(ir, TPT_I64, 0), tpt_ir_full_f(ir, type, 0), tpt_ir_const_floats(ir, TPT_F64, NODES, place),
                          tpt_ir_const_floats(ir, TPT_F64, NODES, weight)};
    tpt_val_t args[8], out[8];
    for (int i = 0; i < n; i++) inits[4 + i] = params[i];
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 4 + n; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, args[0], tpt_ir_const_i(ir, TPT_I64, NODES));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 4 + n; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    const int64_t one = 1;
    tpt_val_t v = tpt_ir_reshape(ir, tpt_ir_dynamic_slice(ir, args[2], args, &one), 0, NULL);
    tpt_val_t w = tpt_ir_reshape(ir, tpt_ir_dynamic_slice(ir, args[3], args, &one), 0, NULL);
    v = tpt_ir_mul(ir, args[4], v);
    w = tpt_ir_mul(ir, args[4], w);
    tpt_val_t next[8] = {tpt_ir_add(ir, args[0], tpt_ir_const_i(ir, TPT_I64, 1)),
                         tpt_ir_add(ir, args[1], tpt_ir_mul(ir, f(ir, args + 4, v), w)), args[2], args[3]};
    for (int i = 0; i < n; i++) next[4 + i] = args[4 + i];
    tpt_region_t body = tpt_ir_region_end(ir, 4 + n, next);
    tpt_ir_while(ir, 4 + n, inits, cond, body, out);
    return out[1];
}

/* params: scale, a, x, c - log x. With s = 1 for the lower tail and -1 for the upper: (s c' + v) exp(-s a v - x (e^(-s v) - 1)) */
static tpt_val_t gamma_tail(tpt_ir_t *ir, const tpt_val_t *p, tpt_val_t v) {
    tpt_val_t side = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_LT, p[2], p[1]), num(ir, 1), num(ir, -1));
    tpt_val_t moved = tpt_ir_mul(ir, side, v);
    tpt_val_t grown = tpt_ir_unary(ir, TPT_IR_EXPM1, tpt_ir_neg(ir, moved));
    tpt_val_t power = tpt_ir_add(ir, tpt_ir_mul(ir, p[1], moved), tpt_ir_mul(ir, p[2], grown));
    return tpt_ir_mul(ir, tpt_ir_add(ir, tpt_ir_mul(ir, side, p[3]), v), exp_of(ir, tpt_ir_neg(ir, power)));
}

void tpt_ops_standard_gamma_grad(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t a = tpt_ir_convert(ir, tpt_lower_tensor(L, "self"), TPT_F64), x = tpt_lower_tensor(L, "output");
    const tpt_dtype_t own = tpt_ir_dtype(ir, x);
    x = tpt_ir_convert(ir, x, TPT_F64);
    tpt_val_t off = tpt_ir_unary(ir, TPT_IR_ABS, tpt_ir_sub(ir, a, x));
    tpt_val_t scale = tpt_ir_div(ir, num(ir, 1), tpt_ir_add(ir, off, tpt_ir_unary(ir, TPT_IR_SQRT, x)));
    tpt_val_t params[4] = {scale, a, x, tpt_ir_sub(ir, digamma(ir, a), tpt_ir_unary(ir, TPT_IR_LOG, x))};
    tpt_val_t slope = tpt_ir_mul(ir, x, integrate(ir, 4, params, gamma_tail));
    tpt_val_t nothing = tpt_ir_compare(ir, TPT_IR_EQ, x, num(ir, 0));
    tpt_lower_result(L, tpt_ir_convert(ir, tpt_ir_select(ir, nothing, num(ir, 0), slope), own));
}

/* params: scale, a, b, x. The odds of t are those of x times e^-v or e^v. */
static tpt_val_t beta_tail(tpt_ir_t *ir, const tpt_val_t *p, tpt_val_t v) {
    tpt_val_t a = p[1], b = p[2], x = p[3], rest = tpt_ir_sub(ir, num(ir, 1), x);
    tpt_val_t lower = tpt_ir_compare(ir, TPT_IR_LT, tpt_ir_mul(ir, b, x), tpt_ir_mul(ir, a, rest));
    tpt_val_t fall = tpt_ir_unary(ir, TPT_IR_EXPM1, tpt_ir_neg(ir, v));
    tpt_val_t z = tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_mul(ir, tpt_ir_select(ir, lower, x, rest), fall));
    /* log(t / x) and log((1 - t) / (1 - x)): one is -z, the other -z - v */
    tpt_val_t near = tpt_ir_neg(ir, z), far = tpt_ir_sub(ir, near, v);
    tpt_val_t up = tpt_ir_select(ir, lower, far, near), down = tpt_ir_select(ir, lower, near, far);
    tpt_val_t c = tpt_ir_sub(ir, digamma(ir, a), digamma(ir, tpt_ir_add(ir, a, b)));
    tpt_val_t value = tpt_ir_sub(ir, tpt_ir_sub(ir, c, tpt_ir_unary(ir, TPT_IR_LOG, x)), up);
    value = tpt_ir_select(ir, lower, value, tpt_ir_neg(ir, value));
    return tpt_ir_mul(ir, value, exp_of(ir, tpt_ir_add(ir, tpt_ir_mul(ir, a, up), tpt_ir_mul(ir, b, down))));
}

/* The slope of a beta(alpha, total - alpha) distributed x over 1 - x. */
void tpt_ops_dirichlet_grad(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "x"), a = tpt_ir_convert(ir, tpt_lower_tensor(L, "alpha"), TPT_F64);
    const tpt_dtype_t own = tpt_ir_dtype(ir, x);
    x = tpt_ir_convert(ir, x, TPT_F64);
    tpt_val_t total = tpt_ir_convert(ir, tpt_lower_tensor(L, "total"), TPT_F64), b = tpt_ir_sub(ir, total, a);
    tpt_val_t rest = tpt_ir_sub(ir, num(ir, 1), x), spread = tpt_ir_mul(ir, total, tpt_ir_mul(ir, x, rest));
    tpt_val_t off = tpt_ir_unary(ir, TPT_IR_ABS, tpt_ir_sub(ir, a, tpt_ir_mul(ir, total, x)));
    tpt_val_t scale = tpt_ir_div(ir, num(ir, 1), tpt_ir_add(ir, off, tpt_ir_unary(ir, TPT_IR_SQRT, spread)));
    tpt_val_t params[4] = {scale, a, b, x};
    tpt_val_t slope = tpt_ir_mul(ir, x, integrate(ir, 4, params, beta_tail));
    tpt_val_t nothing = tpt_ir_compare(ir, TPT_IR_EQ, x, num(ir, 0));
    tpt_lower_result(L, tpt_ir_convert(ir, tpt_ir_select(ir, nothing, num(ir, 0), slope), own));
}
