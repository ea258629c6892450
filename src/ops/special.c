/* special.c - parts of special functions that need C: the fitted polynomials, and loops over integers. */
#include "ops/special.h"

#include <math.h>
#include <string.h>

#include "ops/special_tables.h"

typedef struct table {
    const char *name;
    const double *c32, *c64;
    int n32, n64;
} table_t;

#define TABLE(name)                                                                                          \
    {#name, tpt_poly_##name##_32, tpt_poly_##name##_64, (int)(sizeof tpt_poly_##name##_32 / sizeof(double)), \
     (int)(sizeof tpt_poly_##name##_64 / sizeof(double))},
static const table_t tables[] = {TPT_POLY_TABLES(TABLE)};

bool tpt_special_poly(tpt_ir_t *ir, const char *name, size_t size, tpt_val_t t, tpt_val_t *out) {
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (strlen(tables[i].name) != size || memcmp(tables[i].name, name, size) != 0) continue;
        bool wide = tpt_ir_dtype(ir, t) == TPT_F64;
        const double *c = wide ? tables[i].c64 : tables[i].c32;
        int k = (wide ? tables[i].n64 : tables[i].n32) - 1;
        tpt_val_t sum = tpt_ir_like(ir, t, c[k]);
        while (k-- > 0) sum = tpt_ir_add(ir, tpt_ir_mul(ir, sum, t), tpt_ir_like(ir, t, c[k]));
        *out = sum;
        return true;
    }
    return false;
}

/* One step of Euclid where b is not yet zero. */
static tpt_region_t gcd_body(tpt_ir_t *ir, tpt_type_t type) {
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, type), b = tpt_ir_region_arg(ir, type);
    tpt_val_t zero = tpt_ir_full_i(ir, type, 0), one = tpt_ir_full_i(ir, type, 1);
    tpt_val_t done = tpt_ir_compare(ir, TPT_IR_EQ, b, zero);
    tpt_val_t rest = tpt_ir_binary(ir, TPT_IR_REM, a, tpt_ir_select(ir, done, one, b));
    tpt_val_t next[2] = {tpt_ir_select(ir, done, a, b), tpt_ir_select(ir, done, zero, rest)};
    return tpt_ir_region_end(ir, 2, next);
}

/* Ends the condition of a loop: whether some element is not yet zero. */
static tpt_region_t any_left(tpt_ir_t *ir, tpt_val_t x) {
    const tpt_type_t type = *tpt_ir_type(ir, x);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_NE, x, tpt_ir_full_i(ir, type, 0));
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = d;
    if (type.rank > 0) more = tpt_ir_reduce(ir, TPT_IR_RED_OR, more, type.rank, dims);
    return tpt_ir_region_end(ir, 1, &more);
}

static tpt_region_t gcd_cond(tpt_ir_t *ir, tpt_type_t type) {
    tpt_ir_region_begin(ir);
    (void)tpt_ir_region_arg(ir, type);
    return any_left(ir, tpt_ir_region_arg(ir, type));
}

tpt_val_t tpt_special_gcd(tpt_ir_t *ir, const tpt_val_t *x) {
    /* Adding a zero of the other operand gives both the common shape. */
    tpt_val_t zero = tpt_ir_like(ir, x[0], 0);
    tpt_val_t pair[2] = {tpt_ir_add(ir, x[0], tpt_ir_mul(ir, x[1], zero)), tpt_ir_add(ir, x[1], tpt_ir_mul(ir, x[0], zero))};
    if (tpt_dtype_is_signed(tpt_ir_dtype(ir, x[0])))
        for (int i = 0; i < 2; i++) pair[i] = tpt_ir_unary(ir, TPT_IR_ABS, pair[i]);
    tpt_type_t type = *tpt_ir_type(ir, pair[0]);
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    tpt_region_t cond = gcd_cond(ir, type), body = gcd_body(ir, type);
    tpt_val_t out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_while(ir, 2, pair, cond, body, out);
    return out[0];
}

/* ---- integer powers: XLA's own looks at the lowest six bits of an exponent only. */

static tpt_val_t low_power(tpt_ir_t *ir, tpt_val_t x, tpt_val_t y) {
    return tpt_ir_binary(ir, TPT_IR_POW, x, tpt_ir_and(ir, y, tpt_ir_like(ir, y, 63)));
}

tpt_val_t tpt_special_int_pow(tpt_ir_t *ir, const tpt_val_t *x) {
    /* State: the base, the exponent, the power. All get the common shape first. */
    const tpt_val_t zero = tpt_ir_like(ir, x[0], 0), common = tpt_ir_mul(ir, tpt_ir_mul(ir, x[1], zero), x[0]);
    const tpt_val_t base = tpt_ir_add(ir, x[0], common), exponent = tpt_ir_add(ir, x[1], common), six = tpt_ir_like(ir, exponent, 6);
    const tpt_val_t inits[3] = {base, tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, exponent, six), low_power(ir, base, exponent)};
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    const tpt_type_t type = *tpt_ir_type(ir, base);
    tpt_ir_region_begin(ir);
    (void)tpt_ir_region_arg(ir, type);
    tpt_val_t rest = tpt_ir_region_arg(ir, type);
    (void)tpt_ir_region_arg(ir, type);
    const tpt_region_t cond = any_left(ir, rest);
    tpt_ir_region_begin(ir);
    tpt_val_t b = tpt_ir_region_arg(ir, type);
    rest = tpt_ir_region_arg(ir, type);
    const tpt_val_t power = tpt_ir_region_arg(ir, type);
    for (int i = 0; i < 6; i++) b = tpt_ir_mul(ir, b, b);
    const tpt_val_t next[3] = {b, tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, rest, tpt_ir_full_i(ir, type, 6)),
                               tpt_ir_mul(ir, power, low_power(ir, b, rest))};
    const tpt_region_t body = tpt_ir_region_end(ir, 3, next);
    tpt_val_t out[3] = {TPT_VAL_NONE, TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_while(ir, 3, inits, cond, body, out);
    return out[2];
}

/* ---- Hurwitz zeta: Euler-Maclaurin summation (Abramowitz and Stegun 23.1.30) after q was raised to 9 or more. */

#define ZETA_FROM 9

static tpt_val_t power_minus(tpt_ir_t *ir, tpt_val_t q, tpt_val_t s) {
    return tpt_ir_binary(ir, TPT_IR_POW, q, tpt_ir_neg(ir, s));
}

/* While some q is below 9: add its term, and step it. State: q, s, sum. */
static void zeta_raise(tpt_ir_t *ir, tpt_type_t type, const tpt_val_t *inits, tpt_val_t *out) {
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = d;
    tpt_ir_region_begin(ir);
    tpt_val_t q = tpt_ir_region_arg(ir, type);
    (void)tpt_ir_region_arg(ir, type);
    (void)tpt_ir_region_arg(ir, type);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, q, tpt_ir_full_f(ir, type, ZETA_FROM));
    if (type.rank > 0) more = tpt_ir_reduce(ir, TPT_IR_RED_OR, more, type.rank, dims);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    q = tpt_ir_region_arg(ir, type);
    tpt_val_t s = tpt_ir_region_arg(ir, type), sum = tpt_ir_region_arg(ir, type);
    tpt_val_t low = tpt_ir_compare(ir, TPT_IR_LT, q, tpt_ir_full_f(ir, type, ZETA_FROM));
    tpt_val_t zero = tpt_ir_full_f(ir, type, 0), one = tpt_ir_full_f(ir, type, 1);
    tpt_val_t next[3] = {tpt_ir_add(ir, q, tpt_ir_select(ir, low, one, zero)), s,
                         tpt_ir_add(ir, sum, tpt_ir_select(ir, low, power_minus(ir, q, s), zero))};
    tpt_region_t body = tpt_ir_region_end(ir, 3, next);
    tpt_ir_while(ir, 3, inits, cond, body, out);
}

/* B_2k / (2k)!, k = 1, 2, ... */
static const double bernoulli[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
};

static tpt_val_t zeta_tail(tpt_ir_t *ir, tpt_val_t q, tpt_val_t s) {
    tpt_val_t one = tpt_ir_like(ir, q, 1), term = power_minus(ir, q, s), inverse = tpt_ir_div(ir, one, q);
    tpt_val_t sum = tpt_ir_add(ir, tpt_ir_div(ir, tpt_ir_mul(ir, term, q), tpt_ir_sub(ir, s, one)),
                               tpt_ir_mul(ir, term, tpt_ir_like(ir, q, 0.5)));
    tpt_val_t rising = tpt_ir_mul(ir, tpt_ir_mul(ir, term, inverse), s);
    for (int k = 0; k < (int)(sizeof bernoulli / sizeof bernoulli[0]); k++) {
        sum = tpt_ir_add(ir, sum, tpt_ir_mul(ir, rising, tpt_ir_like(ir, q, bernoulli[k])));
        for (int i = 1; i <= 2; i++) {
            tpt_val_t factor = tpt_ir_add(ir, s, tpt_ir_like(ir, s, 2 * k + i));
            rising = tpt_ir_mul(ir, tpt_ir_mul(ir, rising, factor), inverse);
        }
    }
    return sum;
}

tpt_val_t tpt_special_zeta(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_val_t zero = tpt_ir_like(ir, x[0], 0), one = tpt_ir_like(ir, x[0], 1);
    tpt_val_t nan = tpt_ir_like(ir, x[0], NAN), inf = tpt_ir_like(ir, x[0], INFINITY);
    tpt_val_t s = x[0], q = x[1];
    tpt_val_t whole = tpt_ir_compare(ir, TPT_IR_EQ, q, tpt_ir_unary(ir, TPT_IR_FLOOR, q));
    tpt_val_t left = tpt_ir_compare(ir, TPT_IR_LE, q, zero);
    tpt_val_t pole = tpt_ir_and(ir, left, whole);
    tpt_val_t broken = tpt_ir_compare(ir, TPT_IR_NE, s, tpt_ir_unary(ir, TPT_IR_FLOOR, s));
    broken = tpt_ir_and(ir, left, broken); /* a broken power of a negative number */
    /* Where the answer is fixed, a harmless q keeps the loop short (and finite for -inf). */
    tpt_val_t fixed = tpt_ir_or(ir, pole, broken);
    q = tpt_ir_select(ir, fixed, tpt_ir_like(ir, q, ZETA_FROM), q);
    tpt_type_t type = *tpt_ir_type(ir, q);
    s = tpt_ir_broadcast_to(ir, s, type.rank, type.dims);
    tpt_val_t inits[3] = {q, s, tpt_ir_full_f(ir, type, 0)}, raised[3];
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    zeta_raise(ir, type, inits, raised);
    tpt_val_t value = tpt_ir_add(ir, raised[2], zeta_tail(ir, raised[0], s));
    value = tpt_ir_select(ir, broken, nan, value);
    value = tpt_ir_select(ir, pole, inf, value);
    value = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_LT, s, one), nan, value);
    return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, s, one), inf, value);
}

/* ---- orthogonal polynomials of degree n (a value, truncated), by their three-term recurrences (Abramowitz and Stegun 22.7)
 * ---- */

typedef enum family { CHEBYSHEV, HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE } family_t;

/* From degrees j - 1 (p) and j (q) to j + 1. */
static tpt_val_t next_degree(tpt_ir_t *ir, family_t family, tpt_val_t x, tpt_val_t j, tpt_val_t p, tpt_val_t q) {
    tpt_val_t one = tpt_ir_full_f(ir, *tpt_ir_type(ir, x), 1), twice = tpt_ir_add(ir, x, x);
    tpt_val_t odd = tpt_ir_add(ir, tpt_ir_add(ir, j, j), one), above = tpt_ir_add(ir, j, one), back = tpt_ir_mul(ir, j, p);
    switch (family) {
        case CHEBYSHEV:
            return tpt_ir_sub(ir, tpt_ir_mul(ir, twice, q), p);
        case HERMITE_H:
            return tpt_ir_sub(ir, tpt_ir_mul(ir, twice, q), tpt_ir_add(ir, back, back));
        case HERMITE_HE:
            return tpt_ir_sub(ir, tpt_ir_mul(ir, x, q), back);
        case LAGUERRE:
            return tpt_ir_div(ir, tpt_ir_sub(ir, tpt_ir_mul(ir, tpt_ir_sub(ir, odd, x), q), back), above);
        default:
            return tpt_ir_div(ir, tpt_ir_sub(ir, tpt_ir_mul(ir, tpt_ir_mul(ir, odd, x), q), back), above);
    }
}

enum { STATE_X, STATE_N, STATE_J, STATE_P, STATE_Q, STATES };

static tpt_val_t orthogonal(tpt_ir_t *ir, family_t family, const tpt_val_t *operands) {
    /* Operands: x, n, the polynomial of degree 1; they are brought to one shape first. */
    tpt_val_t shape = tpt_ir_compare(ir, TPT_IR_LT, operands[0], operands[1]);
    tpt_type_t type = *tpt_ir_type(ir, shape);
    type.dtype = (uint8_t)tpt_ir_dtype(ir, operands[0]);
    tpt_val_t in[3], state[STATES], next[STATES], out[STATES];
    for (int i = 0; i < 3; i++) in[i] = tpt_ir_broadcast_to(ir, operands[i], type.rank, type.dims);
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    tpt_val_t one = tpt_ir_full_f(ir, type, 1);
    tpt_val_t inits[STATES] = {in[0], in[1], one, one, in[2]};
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = d;

    tpt_ir_region_begin(ir);
    for (int i = 0; i < STATES; i++) state[i] = tpt_ir_region_arg(ir, type);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_LT, state[STATE_J], state[STATE_N]);
    if (type.rank > 0) more = tpt_ir_reduce(ir, TPT_IR_RED_OR, more, type.rank, dims);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);

    tpt_ir_region_begin(ir);
    for (int i = 0; i < STATES; i++) state[i] = tpt_ir_region_arg(ir, type);
    tpt_val_t on = tpt_ir_compare(ir, TPT_IR_LT, state[STATE_J], state[STATE_N]);
    tpt_val_t r = next_degree(ir, family, state[STATE_X], state[STATE_J], state[STATE_P], state[STATE_Q]);
    memcpy(next, state, sizeof next);
    next[STATE_J] = tpt_ir_add(ir, state[STATE_J], tpt_ir_full_f(ir, type, 1));
    next[STATE_P] = tpt_ir_select(ir, on, state[STATE_Q], state[STATE_P]);
    next[STATE_Q] = tpt_ir_select(ir, on, r, state[STATE_Q]);
    tpt_region_t body = tpt_ir_region_end(ir, STATES, next);
    for (int i = 0; i < STATES; i++) out[i] = TPT_VAL_NONE;
    tpt_ir_while(ir, STATES, inits, cond, body, out);
    return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_LT, in[1], one), one, out[STATE_Q]); /* degree 0 */
}

tpt_val_t tpt_special_chebyshev(tpt_ir_t *ir, const tpt_val_t *x) { return orthogonal(ir, CHEBYSHEV, x); }

tpt_val_t tpt_special_hermite_h(tpt_ir_t *ir, const tpt_val_t *x) { return orthogonal(ir, HERMITE_H, x); }

tpt_val_t tpt_special_hermite_he(tpt_ir_t *ir, const tpt_val_t *x) { return orthogonal(ir, HERMITE_HE, x); }

tpt_val_t tpt_special_laguerre(tpt_ir_t *ir, const tpt_val_t *x) { return orthogonal(ir, LAGUERRE, x); }

tpt_val_t tpt_special_legendre(tpt_ir_t *ir, const tpt_val_t *x) { return orthogonal(ir, LEGENDRE, x); }
