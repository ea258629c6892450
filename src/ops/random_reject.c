/* random_reject.c - distributions that are drawn by loops: gamma, Dirichlet, Poisson, binomial.
 *
 * All elements try at once, in float64, until the last one has been accepted; an element keeps its first accepted value. */
#include <math.h>

#include "ops/random.h"
#include "ops/reduce.h"

/* ---- a loop of attempts -------------------------------------------------------------------------------------------- */

/* One attempt: from the element's parameters and two uniform numbers in (0, 1], a value and whether it is accepted. */
typedef void (*attempt_t)(tpt_ir_t *ir, const tpt_val_t *params, tpt_val_t u, tpt_val_t v, tpt_val_t *out_value,
                          tpt_val_t *out_ok);

static tpt_val_t constant(tpt_ir_t *ir, double value) { return tpt_ir_const_f(ir, TPT_F64, value); }

/* params[0] has the result's shape (F64). `skip` marks elements that need no attempt. */
static tpt_val_t attempts(tpt_lower_t *L, const tpt_val_t *params, tpt_val_t skip, attempt_t attempt) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = *tpt_ir_type(ir, params[0]);
    if (tpt_ir_status(ir) != NULL || tpt_type_numel(&type) == 0) return params[0];
    tpt_random_t random = tpt_random_open(L);
    tpt_val_t inits[3] = {tpt_ir_const_i(ir, TPT_U32, 0), skip, tpt_ir_full_f(ir, type, 0.0)}, args[3], out[3];
    tpt_reduce_t all;
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    all = tpt_reduce_all(ir, args[1]);
    tpt_val_t open = tpt_ir_not(ir, tpt_reduce_run(&all, TPT_IR_RED_AND, args[1]));
    tpt_val_t more = tpt_ir_and(ir, open, tpt_ir_compare(ir, TPT_IR_LT, args[0], tpt_ir_const_i(ir, TPT_U32, 4000)));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    tpt_val_t words[2], value, ok;
    tpt_random_draw(ir, &random, args[0], &type, words);
    for (int i = 0; i < 2; i++) {
        words[i] = tpt_ir_add(ir, tpt_ir_convert(ir, words[i], TPT_F64), constant(ir, 0.5));
        words[i] = tpt_ir_mul(ir, words[i], constant(ir, 0x1p-32));
    }
    attempt(ir, params, words[0], words[1], &value, &ok);
    tpt_val_t next[3] = {tpt_ir_add(ir, args[0], tpt_ir_const_i(ir, TPT_U32, 1)), tpt_ir_or(ir, args[1], ok),
                         tpt_ir_select(ir, args[1], args[2], value)};
    tpt_region_t body = tpt_ir_region_end(ir, 3, next);
    tpt_ir_while(ir, 3, inits, cond, body, out);
    return out[2];
}

/* Log of the gamma function, x >= 1: Stirling's series seven places further up. */
static tpt_val_t lgamma_above_1(tpt_ir_t *ir, tpt_val_t x) {
    tpt_val_t product = x;
    for (int i = 1; i < 7; i++) product = tpt_ir_mul(ir, product, tpt_ir_add(ir, x, constant(ir, i)));
    tpt_val_t y = tpt_ir_add(ir, x, constant(ir, 7.0)), r = tpt_ir_div(ir, constant(ir, 1.0), y), r2 = tpt_ir_mul(ir, r, r);
    tpt_val_t series = tpt_ir_add(ir, tpt_ir_mul(ir, r2, constant(ir, 1.0 / 1260)), constant(ir, -1.0 / 360));
    series = tpt_ir_mul(ir, tpt_ir_add(ir, tpt_ir_mul(ir, r2, series), constant(ir, 1.0 / 12)), r);
    tpt_val_t main = tpt_ir_mul(ir, tpt_ir_sub(ir, y, constant(ir, 0.5)), tpt_ir_unary(ir, TPT_IR_LOG, y));
    main = tpt_ir_add(ir, tpt_ir_sub(ir, main, y), constant(ir, 0.91893853320467274178));
    return tpt_ir_sub(ir, tpt_ir_add(ir, main, series), tpt_ir_unary(ir, TPT_IR_LOG, product));
}

/* ---- gamma --------------------------------------------------------------------------------------------------------- */

/* Marsaglia and Tsang; params: the shape, 1 at least. */
static void attempt_gamma(tpt_ir_t *ir, const tpt_val_t *params, tpt_val_t u, tpt_val_t v, tpt_val_t *out_value,
                          tpt_val_t *out_ok) {
    tpt_val_t one = constant(ir, 1.0), d = tpt_ir_sub(ir, params[0], constant(ir, 1.0 / 3.0));
    tpt_val_t c = tpt_ir_unary(ir, TPT_IR_RSQRT, tpt_ir_mul(ir, d, constant(ir, 9.0)));
    /* One word makes the normal number's radius and half of the other one its angle; the other half decides. */
    tpt_val_t turn = tpt_ir_mul(ir, v, constant(ir, 65536.0)), whole = tpt_ir_unary(ir, TPT_IR_FLOOR, turn);
    tpt_val_t decide = tpt_ir_sub(ir, turn, whole);
    tpt_val_t angle = tpt_ir_mul(ir, whole, constant(ir, 2.0 * M_PI / 65536.0));
    tpt_val_t radius = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_mul(ir, tpt_ir_unary(ir, TPT_IR_LOG, u), constant(ir, -2.0)));
    tpt_val_t x = tpt_ir_mul(ir, radius, tpt_ir_unary(ir, TPT_IR_COS, angle));
    tpt_val_t t = tpt_ir_add(ir, one, tpt_ir_mul(ir, c, x)), cube = tpt_ir_mul(ir, tpt_ir_mul(ir, t, t), t);
    tpt_val_t positive = tpt_ir_compare(ir, TPT_IR_GT, cube, constant(ir, 0.0)), safe = tpt_ir_select(ir, positive, cube, one);
    tpt_val_t bound = tpt_ir_add(ir, tpt_ir_sub(ir, one, safe), tpt_ir_unary(ir, TPT_IR_LOG, safe));
    bound = tpt_ir_add(ir, tpt_ir_mul(ir, tpt_ir_mul(ir, x, x), constant(ir, 0.5)), tpt_ir_mul(ir, d, bound));
    *out_ok = tpt_ir_and(ir, positive, tpt_ir_compare(ir, TPT_IR_LE, tpt_ir_unary(ir, TPT_IR_LOG, decide), bound));
    *out_value = tpt_ir_mul(ir, d, cube);
}

/* A shape below 1 is drawn one higher and scaled by a power of a uniform number. F64. */
static tpt_val_t gamma_of(tpt_lower_t *L, tpt_val_t shape) {
    tpt_ir_t *ir = L->ir;
    shape = tpt_ir_convert(ir, shape, TPT_F64);
    tpt_val_t one = constant(ir, 1.0), small = tpt_ir_compare(ir, TPT_IR_LT, shape, one);
    tpt_val_t raised = tpt_ir_select(ir, small, tpt_ir_add(ir, shape, one), shape);
    tpt_val_t bad = tpt_ir_not(ir, tpt_ir_compare(ir, TPT_IR_GT, shape, constant(ir, 0.0)));
    tpt_val_t drawn = attempts(L, &raised, bad, attempt_gamma);
    tpt_type_t type = *tpt_ir_type(ir, shape);
    tpt_val_t u = tpt_random_positive(ir, tpt_random_u64(L, &type));
    tpt_val_t scale = tpt_ir_binary(ir, TPT_IR_POW, u, tpt_ir_div(ir, one, shape));
    return tpt_ir_mul(ir, drawn, tpt_ir_select(ir, small, scale, one));
}

/* The smallest normal number of a dtype: gamma numbers are positive. */
static tpt_val_t at_least_tiny(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t d) {
    double tiny = d == TPT_F64 ? 0x1p-1022 : d == TPT_F16 ? 0x1p-14 : 0x1p-126;
    return tpt_ir_convert(ir, tpt_ir_max(ir, x, constant(ir, tiny)), d);
}

void tpt_ops_standard_gamma(tpt_lower_t *L) {
    tpt_val_t shape = tpt_lower_tensor(L, "self");
    tpt_lower_result(L, at_least_tiny(L->ir, gamma_of(L, shape), tpt_ir_dtype(L->ir, shape)));
}

void tpt_ops_sample_dirichlet(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t shape = tpt_lower_tensor(L, "self"), x = gamma_of(L, shape);
    tpt_reduce_t r = tpt_reduce_all(ir, x);
    if (r.rank == 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "_sample_dirichlet: expected a tensor of at least one dimension");
        return;
    }
    r.dims[0] = r.rank - 1;
    r.ndims = 1;
    x = tpt_ir_div(ir, x, tpt_reduce_expand(&r, tpt_reduce_run(&r, TPT_IR_RED_ADD, x)));
    tpt_lower_result(L, at_least_tiny(ir, x, tpt_ir_dtype(ir, shape)));
}

/* ---- Poisson ------------------------------------------------------------------------------------------------------- */

#define FEW 10.0 /* means below are counted up from 0 */

/* Hoermann's transformed rejection; params: the mean, its logarithm. */
static void attempt_poisson(tpt_ir_t *ir, const tpt_val_t *params, tpt_val_t u, tpt_val_t v, tpt_val_t *out_value,
                            tpt_val_t *out_ok) {
    tpt_val_t mean = params[0], half = constant(ir, 0.5), root = tpt_ir_unary(ir, TPT_IR_SQRT, mean);
    tpt_val_t b = tpt_ir_add(ir, tpt_ir_mul(ir, root, constant(ir, 2.53)), constant(ir, 0.931));
    tpt_val_t a = tpt_ir_sub(ir, tpt_ir_mul(ir, b, constant(ir, 0.02483)), constant(ir, 0.059));
    tpt_val_t inverse =
        tpt_ir_add(ir, constant(ir, 1.1239), tpt_ir_div(ir, constant(ir, 1.1328), tpt_ir_sub(ir, b, constant(ir, 3.4))));
    tpt_val_t quick =
        tpt_ir_sub(ir, constant(ir, 0.9277), tpt_ir_div(ir, constant(ir, 3.6224), tpt_ir_sub(ir, b, constant(ir, 2.0))));
    u = tpt_ir_sub(ir, u, half);
    tpt_val_t us = tpt_ir_sub(ir, half, tpt_ir_unary(ir, TPT_IR_ABS, u));
    us = tpt_ir_max(ir, us, constant(ir, 1e-12));
    tpt_val_t slope = tpt_ir_add(ir, tpt_ir_div(ir, tpt_ir_mul(ir, a, constant(ir, 2.0)), us), b);
    tpt_val_t k = tpt_ir_add(ir, tpt_ir_add(ir, tpt_ir_mul(ir, slope, u), mean), constant(ir, 0.43));
    k = tpt_ir_unary(ir, TPT_IR_FLOOR, k);
    tpt_val_t at_once =
        tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GE, us, constant(ir, 0.07)), tpt_ir_compare(ir, TPT_IR_LE, v, quick));
    tpt_val_t negative = tpt_ir_compare(ir, TPT_IR_LT, k, constant(ir, 0.0));
    tpt_val_t never =
        tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_LT, us, constant(ir, 0.013)), tpt_ir_compare(ir, TPT_IR_GT, v, us));
    tpt_val_t safe = tpt_ir_select(ir, negative, constant(ir, 0.0), k);
    tpt_val_t scale = tpt_ir_add(ir, tpt_ir_div(ir, a, tpt_ir_mul(ir, us, us)), b);
    tpt_val_t left = tpt_ir_unary(ir, TPT_IR_LOG, tpt_ir_div(ir, tpt_ir_mul(ir, v, inverse), scale));
    tpt_val_t right = tpt_ir_sub(ir, tpt_ir_mul(ir, safe, params[1]), mean);
    right = tpt_ir_sub(ir, right, lgamma_above_1(ir, tpt_ir_add(ir, safe, constant(ir, 1.0))));
    tpt_val_t ok = tpt_ir_and(ir, tpt_ir_not(ir, tpt_ir_or(ir, negative, never)), tpt_ir_compare(ir, TPT_IR_LE, left, right));
    *out_ok = tpt_ir_or(ir, at_once, ok);
    *out_value = k;
}

/* The number of terms of a distribution on 0, 1, ... whose sum stays below u. `first` is the first term; each next one is the
 * last times `step(k)` = (slope - k * fall) / k; a few hundred terms at most. F64. */
static tpt_val_t count_up(tpt_ir_t *ir, tpt_val_t u, tpt_val_t first, tpt_val_t slope, tpt_val_t fall) {
    tpt_type_t type = *tpt_ir_type(ir, u);
    if (tpt_ir_status(ir) != NULL || tpt_type_numel(&type) == 0) return u;
    tpt_val_t inits[4] = {tpt_ir_const_f(ir, TPT_F64, 0.0), first, first, tpt_ir_full_f(ir, type, 0.0)}, args[4], out[4];
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 4; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    tpt_val_t above = tpt_ir_compare(ir, TPT_IR_GT, u, args[2]);
    tpt_reduce_t all = tpt_reduce_all(ir, above);
    tpt_val_t few = tpt_ir_compare(ir, TPT_IR_LT, args[0], constant(ir, 400.0));
    tpt_val_t more = tpt_ir_and(ir, tpt_reduce_run(&all, TPT_IR_RED_OR, above), few);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 4; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    above = tpt_ir_compare(ir, TPT_IR_GT, u, args[2]);
    tpt_val_t k = tpt_ir_add(ir, args[0], constant(ir, 1.0));
    tpt_val_t step = tpt_ir_div(ir, tpt_ir_sub(ir, slope, tpt_ir_mul(ir, k, fall)), k);
    tpt_val_t term = tpt_ir_max(ir, tpt_ir_mul(ir, args[1], step), constant(ir, 0.0));
    tpt_val_t counted = tpt_ir_select(ir, above, tpt_ir_add(ir, args[3], constant(ir, 1.0)), args[3]);
    tpt_val_t next[4] = {k, term, tpt_ir_add(ir, args[2], term), counted};
    tpt_region_t body = tpt_ir_region_end(ir, 4, next);
    tpt_ir_while(ir, 4, inits, cond, body, out);
    return out[3];
}

void tpt_ops_poisson(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t own = tpt_lower_tensor(L, "self"), mean = tpt_ir_convert(ir, own, TPT_F64);
    tpt_type_t type = *tpt_ir_type(ir, mean);
    tpt_lower_refuse(L, tpt_ir_not(ir, tpt_ir_compare(ir, TPT_IR_GE, mean, constant(ir, 0.0))),
                     "invalid Poisson rate, expected rate to be non-negative");
    tpt_val_t few = tpt_ir_not(ir, tpt_ir_compare(ir, TPT_IR_GE, mean, constant(ir, FEW)));
    tpt_val_t params[2] = {tpt_ir_select(ir, few, constant(ir, FEW), mean)};
    params[1] = tpt_ir_unary(ir, TPT_IR_LOG, params[0]);
    tpt_val_t many = attempts(L, params, few, attempt_poisson);
    tpt_val_t small = tpt_ir_select(ir, few, mean, constant(ir, 0.0));
    tpt_val_t u = tpt_random_positive(ir, tpt_random_u64(L, &type));
    tpt_val_t counted = count_up(ir, u, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_neg(ir, small)), small, constant(ir, 0.0));
    tpt_lower_result(L, tpt_ir_convert(ir, tpt_ir_select(ir, few, counted, many), tpt_ir_dtype(ir, own)));
}

/* ---- binomial ------------------------------------------------------------------------------------------------------ */

/* Hoermann's BTRS; params: trials, probability (at most one half), log of p / (1 - p). */
static void attempt_binomial(tpt_ir_t *ir, const tpt_val_t *params, tpt_val_t u, tpt_val_t v, tpt_val_t *out_value,
                             tpt_val_t *out_ok) {
    tpt_val_t n = params[0], p = params[1], half = constant(ir, 0.5), one = constant(ir, 1.0);
    tpt_val_t np = tpt_ir_mul(ir, n, p), spread = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_mul(ir, np, tpt_ir_sub(ir, one, p)));
    tpt_val_t b = tpt_ir_add(ir, tpt_ir_mul(ir, spread, constant(ir, 2.53)), constant(ir, 1.15));
    tpt_val_t a = tpt_ir_add(ir, tpt_ir_mul(ir, b, constant(ir, 0.0248)), tpt_ir_mul(ir, p, constant(ir, 0.01)));
    a = tpt_ir_sub(ir, a, constant(ir, 0.0873));
    tpt_val_t quick = tpt_ir_sub(ir, constant(ir, 0.92), tpt_ir_div(ir, constant(ir, 4.2), b));
    tpt_val_t alpha = tpt_ir_mul(ir, tpt_ir_add(ir, constant(ir, 2.83), tpt_ir_div(ir, constant(ir, 5.1), b)), spread);
    tpt_val_t mode = tpt_ir_unary(ir, TPT_IR_FLOOR, tpt_ir_add(ir, np, p));
    u = tpt_ir_sub(ir, u, half);
    tpt_val_t us = tpt_ir_max(ir, tpt_ir_sub(ir, half, tpt_ir_unary(ir, TPT_IR_ABS, u)), constant(ir, 1e-12));
    tpt_val_t slope = tpt_ir_add(ir, tpt_ir_div(ir, tpt_ir_mul(ir, a, constant(ir, 2.0)), us), b);
    tpt_val_t k = tpt_ir_unary(ir, TPT_IR_FLOOR, tpt_ir_add(ir, tpt_ir_add(ir, tpt_ir_mul(ir, slope, u), np), half));
    tpt_val_t inside = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GE, k, constant(ir, 0.0)), tpt_ir_compare(ir, TPT_IR_LE, k, n));
    tpt_val_t safe = tpt_ir_select(ir, inside, k, mode);
    tpt_val_t at_once =
        tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GE, us, constant(ir, 0.07)), tpt_ir_compare(ir, TPT_IR_LE, v, quick));
    tpt_val_t scale = tpt_ir_add(ir, tpt_ir_div(ir, a, tpt_ir_mul(ir, us, us)), b);
    tpt_val_t left = tpt_ir_unary(ir, TPT_IR_LOG, tpt_ir_div(ir, tpt_ir_mul(ir, v, alpha), scale));
    tpt_val_t right = tpt_ir_mul(ir, tpt_ir_sub(ir, safe, mode), params[2]);
    const tpt_val_t ways[4] = {mode, tpt_ir_sub(ir, n, mode), safe, tpt_ir_sub(ir, n, safe)};
    for (int i = 0; i < 4; i++) {
        tpt_val_t log_ways = lgamma_above_1(ir, tpt_ir_add(ir, ways[i], one));
        right = i < 2 ? tpt_ir_add(ir, right, log_ways) : tpt_ir_sub(ir, right, log_ways);
    }
    *out_ok = tpt_ir_and(ir, inside, tpt_ir_or(ir, at_once, tpt_ir_compare(ir, TPT_IR_LE, left, right)));
    *out_value = k;
}

void tpt_ops_binomial(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t own = tpt_lower_tensor(L, "count"), n = tpt_ir_convert(ir, own, TPT_F64);
    tpt_type_t type = *tpt_ir_type(ir, n);
    tpt_val_t p = tpt_ir_broadcast_to(ir, tpt_ir_convert(ir, tpt_lower_tensor(L, "prob"), TPT_F64), type.rank, type.dims);
    tpt_val_t one = constant(ir, 1.0), zero = constant(ir, 0.0), half = constant(ir, 0.5);
    tpt_val_t mirrored = tpt_ir_compare(ir, TPT_IR_GT, p, half);
    tpt_val_t low = tpt_ir_min(ir, tpt_ir_max(ir, tpt_ir_select(ir, mirrored, tpt_ir_sub(ir, one, p), p), zero), half);
    tpt_val_t few = tpt_ir_not(ir, tpt_ir_compare(ir, TPT_IR_GE, tpt_ir_mul(ir, n, low), constant(ir, FEW)));
    tpt_val_t params[3] = {tpt_ir_select(ir, few, constant(ir, 4.0 * FEW), n), tpt_ir_select(ir, few, half, low)};
    tpt_val_t odds = tpt_ir_div(ir, params[1], tpt_ir_sub(ir, one, params[1]));
    params[2] = tpt_ir_unary(ir, TPT_IR_LOG, odds);
    tpt_val_t many = attempts(L, params, few, attempt_binomial);
    /* Terms C(n, k) p^k q^(n - k): each is the last times (n + 1 - k) / k * p / q. */
    tpt_val_t trials = tpt_ir_select(ir, few, tpt_ir_max(ir, n, zero), zero),
              share = tpt_ir_div(ir, low, tpt_ir_sub(ir, one, low));
    tpt_val_t first = tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_mul(ir, trials, tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_neg(ir, low))));
    tpt_val_t u = tpt_random_positive(ir, tpt_random_u64(L, &type));
    tpt_val_t counted = count_up(ir, u, first, tpt_ir_mul(ir, tpt_ir_add(ir, trials, one), share), share);
    tpt_val_t k = tpt_ir_select(ir, few, tpt_ir_min(ir, counted, trials), many);
    k = tpt_ir_select(ir, mirrored, tpt_ir_sub(ir, n, k), k);
    tpt_lower_result(L, tpt_ir_convert(ir, k, tpt_ir_dtype(ir, own)));
}
