/* special_gamma.c - the two sums of the incomplete gamma function (Abramowitz and Stegun 6.5.29 and 6.5.31). */
#include <string.h>

#include "ops/special.h"

#define MAX_STEPS 2000
#define STATES 6

/* State of either sum: a, x, number of steps, sum (or fraction), and two of the method's own. */
enum { S_A, S_X, S_K, S_SUM, S_C, S_D };

typedef tpt_val_t (*step_t)(tpt_ir_t *ir, const tpt_val_t *state, tpt_val_t *next); /* returns "has not converged" */

static tpt_val_t all_of(tpt_ir_t *ir, tpt_type_t type, double value) { return tpt_ir_full_f(ir, type, value); }

static double epsilon(tpt_type_t type) { return type.dtype == TPT_F64 ? 0x1p-53 : 0x1p-24; }

/* term *= x / (a + k); the sum has converged when the term no longer counts. */
static tpt_val_t series_step(tpt_ir_t *ir, const tpt_val_t *s, tpt_val_t *next) {
    tpt_type_t type = *tpt_ir_type(ir, s[S_A]);
    next[S_C] = tpt_ir_mul(ir, s[S_C], tpt_ir_div(ir, s[S_X], tpt_ir_add(ir, s[S_A], s[S_K])));
    next[S_SUM] = tpt_ir_add(ir, s[S_SUM], next[S_C]);
    return tpt_ir_compare(ir, TPT_IR_GT, next[S_C], tpt_ir_mul(ir, next[S_SUM], all_of(ir, type, epsilon(type))));
}

/* b_k = x + 1 - a + 2k, a_k = -k (k - a): d = 1 / (a_k d + b_k), c = b_k + a_k / c, fraction *= c d. */
static tpt_val_t fraction_step(tpt_ir_t *ir, const tpt_val_t *s, tpt_val_t *next) {
    tpt_type_t type = *tpt_ir_type(ir, s[S_A]);
    tpt_val_t one = all_of(ir, type, 1), tiny = all_of(ir, type, 1e-30);
    tpt_val_t an = tpt_ir_mul(ir, s[S_K], tpt_ir_sub(ir, s[S_A], s[S_K]));
    tpt_val_t b = tpt_ir_add(ir, tpt_ir_sub(ir, tpt_ir_add(ir, s[S_X], one), s[S_A]), tpt_ir_add(ir, s[S_K], s[S_K]));
    tpt_val_t d = tpt_ir_add(ir, tpt_ir_mul(ir, an, s[S_D]), b), c = tpt_ir_add(ir, b, tpt_ir_div(ir, an, s[S_C]));
    tpt_val_t zero = all_of(ir, type, 0);
    d = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, d, zero), tiny, d);
    c = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, c, zero), tiny, c);
    next[S_D] = tpt_ir_div(ir, one, d);
    next[S_C] = c;
    tpt_val_t factor = tpt_ir_mul(ir, next[S_D], c);
    next[S_SUM] = tpt_ir_mul(ir, s[S_SUM], factor);
    tpt_val_t off = tpt_ir_unary(ir, TPT_IR_ABS, tpt_ir_sub(ir, factor, one));
    return tpt_ir_compare(ir, TPT_IR_GT, off, all_of(ir, type, 2 * epsilon(type)));
}

/* Steps until all elements have converged. The flag travels as a float 0 or 1, so that the states are of one type. */
static tpt_val_t iterate(tpt_ir_t *ir, step_t step, const tpt_val_t *start) {
    tpt_type_t type = *tpt_ir_type(ir, start[S_A]);
    tpt_val_t inits[STATES + 1], state[STATES + 1], next[STATES + 1], out[STATES + 1];
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = d;
    memcpy(inits, start, STATES * sizeof *inits);
    inits[STATES] = all_of(ir, type, 1);
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;

    tpt_ir_region_begin(ir);
    for (int i = 0; i <= STATES; i++) state[i] = tpt_ir_region_arg(ir, type);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_GT, state[STATES], all_of(ir, type, 0));
    tpt_val_t left = tpt_ir_compare(ir, TPT_IR_LT, state[S_K], all_of(ir, type, MAX_STEPS));
    more = tpt_ir_and(ir, more, left);
    if (type.rank > 0) more = tpt_ir_reduce(ir, TPT_IR_RED_OR, more, type.rank, dims);
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);

    tpt_ir_region_begin(ir);
    for (int i = 0; i <= STATES; i++) state[i] = tpt_ir_region_arg(ir, type);
    memcpy(next, state, sizeof next);
    tpt_val_t on = tpt_ir_compare(ir, TPT_IR_GT, state[STATES], all_of(ir, type, 0)), stepped[STATES + 1];
    memcpy(stepped, state, sizeof stepped);
    tpt_val_t open = step(ir, state, stepped);
    stepped[STATES] = tpt_ir_convert(ir, open, (tpt_dtype_t)type.dtype);
    for (int i = S_SUM; i <= STATES; i++) next[i] = tpt_ir_select(ir, on, stepped[i], state[i]);
    next[S_K] = tpt_ir_add(ir, state[S_K], all_of(ir, type, 1));
    tpt_region_t body = tpt_ir_region_end(ir, STATES + 1, next);
    for (int i = 0; i <= STATES; i++) out[i] = TPT_VAL_NONE;
    tpt_ir_while(ir, STATES + 1, inits, cond, body, out);
    return out[S_SUM];
}

/* Both operands in their common shape; false after an error. */
static bool common(tpt_ir_t *ir, const tpt_val_t *x, tpt_val_t *out) {
    tpt_type_t type = *tpt_ir_type(ir, tpt_ir_compare(ir, TPT_IR_LT, x[0], x[1]));
    for (int i = 0; i < 2; i++) out[i] = tpt_ir_broadcast_to(ir, x[i], type.rank, type.dims);
    return tpt_ir_status(ir) == NULL;
}

tpt_val_t tpt_special_gamma_series(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_val_t in[2];
    if (!common(ir, x, in)) return TPT_VAL_NONE;
    tpt_val_t one = all_of(ir, *tpt_ir_type(ir, in[0]), 1);
    tpt_val_t start[STATES] = {in[0], in[1], one, one, one, one};
    return iterate(ir, series_step, start);
}

tpt_val_t tpt_special_gamma_fraction(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_val_t in[2];
    if (!common(ir, x, in)) return TPT_VAL_NONE;
    tpt_type_t type = *tpt_ir_type(ir, in[0]);
    tpt_val_t one = all_of(ir, type, 1), b = tpt_ir_sub(ir, tpt_ir_add(ir, in[1], one), in[0]);
    tpt_val_t d = tpt_ir_div(ir, one, b);
    tpt_val_t start[STATES] = {in[0], in[1], one, d, all_of(ir, type, 1e30), d};
    return iterate(ir, fraction_step, start);
}
