/* reduce_stat.c - variances, norms, distances, logsumexp, histograms. */
#include <math.h>

#include "ops/reduce.h"

static tpt_val_t opmath(tpt_ir_t *ir, tpt_val_t x) { return tpt_ir_convert(ir, x, tpt_dtype_opmath(tpt_ir_dtype(ir, x))); }

/* |x|^2 without the square root that a complex absolute value takes. */
static tpt_val_t square(tpt_ir_t *ir, tpt_val_t x) {
    if (!tpt_dtype_is_complex(tpt_ir_dtype(ir, x))) return tpt_ir_mul(ir, x, x);
    tpt_val_t re = tpt_ir_unary(ir, TPT_IR_REAL, x), im = tpt_ir_unary(ir, TPT_IR_IMAG, x);
    return tpt_ir_add(ir, tpt_ir_mul(ir, re, re), tpt_ir_mul(ir, im, im));
}

/* ---- variance ------------------------------------------------------------------------------------------------------ */

#define VAR_ROOT 1 /* data bits: the standard deviation; the mean as second output */
#define VAR_MEAN 2

/* Two passes: E[x^2] - E[x]^2 would cancel where the mean is large. */
void tpt_ops_var(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    r.x = opmath(ir, r.x);
    tpt_dtype_t acc = tpt_ir_dtype(ir, r.x), real = tpt_dtype_real(acc);
    tpt_val_t mean = tpt_ir_div(ir, tpt_reduce_run(&r, TPT_IR_RED_ADD, r.x), tpt_reduce_count(&r, acc));
    tpt_val_t off = tpt_ir_sub(ir, r.x, tpt_reduce_expand(&r, mean));
    tpt_val_t sum = tpt_reduce_run(&r, TPT_IR_RED_ADD, square(ir, off));
    tpt_val_t correction =
        tpt_lower_has(L, "correction") ? tpt_lower_number(L, "correction", real) : tpt_ir_const_f(ir, real, 1.0);
    tpt_val_t freedom = tpt_ir_sub(ir, tpt_reduce_count(&r, real), correction);
    freedom = tpt_ir_max(ir, freedom, tpt_ir_const_f(ir, real, 0.0));
    tpt_val_t var = tpt_ir_div(ir, sum, freedom);
    if (L->row->data & VAR_ROOT) var = tpt_ir_unary(ir, TPT_IR_SQRT, var);
    tpt_lower_result(L, tpt_reduce_finish(&r, var));
    if (L->row->data & VAR_MEAN) tpt_lower_result(L, tpt_reduce_finish(&r, mean));
}

/* ---- norms --------------------------------------------------------------------------------------------------------- */

tpt_val_t tpt_reduce_norm(const tpt_reduce_t *r, double p) {
    tpt_ir_t *ir = r->ir;
    if (p == 2.0) return tpt_ir_unary(ir, TPT_IR_SQRT, tpt_reduce_run(r, TPT_IR_RED_ADD, square(ir, r->x)));
    tpt_val_t size = tpt_ir_unary(ir, TPT_IR_ABS, r->x);
    if (isinf(p)) return tpt_reduce_run(r, p > 0 ? TPT_IR_RED_MAX : TPT_IR_RED_MIN, size);
    if (p == 1.0) return tpt_reduce_run(r, TPT_IR_RED_ADD, size);
    if (p == 0.0) {
        tpt_val_t one = tpt_ir_compare(ir, TPT_IR_NE, size, tpt_ir_like(ir, size, 0.0));
        return tpt_reduce_run(r, TPT_IR_RED_ADD, tpt_ir_convert(ir, one, tpt_ir_dtype(ir, size)));
    }
    tpt_val_t power = tpt_ir_binary(ir, TPT_IR_POW, size, tpt_ir_like(ir, size, p));
    tpt_val_t sum = tpt_reduce_run(r, TPT_IR_RED_ADD, power);
    return tpt_ir_binary(ir, TPT_IR_POW, sum, tpt_ir_like(ir, sum, 1.0 / p));
}

/* linalg_vector_norm ("ord") and the overloads of norm ("p"). */
void tpt_ops_norm(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_dtype_t d = tpt_lower_dtype(L, "dtype", tpt_ir_dtype(L->ir, r.x));
    r.x = opmath(L->ir, tpt_ir_convert(L->ir, r.x, d));
    double p = tpt_lower_static(L, tpt_lower_has(L, "ord") ? "ord" : "p", 2.0);
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_norm(&r, p)));
}

void tpt_ops_dist(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t d = tpt_dtype_opmath(tpt_promote_args(L));
    tpt_val_t x = tpt_ir_convert(ir, tpt_lower_tensor(L, "self"), d), y = tpt_ir_convert(ir, tpt_lower_tensor(L, "other"), d);
    tpt_reduce_t r = tpt_reduce_all(ir, tpt_ir_sub(ir, x, y));
    tpt_lower_result(L, tpt_reduce_norm(&r, tpt_lower_static(L, "p", 2.0)));
}

/* Every slice along dim whose norm exceeds maxnorm is scaled down to it. */
void tpt_ops_renorm(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    int keep = (int)r.dims[0];
    r.x = opmath(ir, r.x);
    r.ndims = 0;
    r.count = 1;
    for (int d = 0; d < r.rank; d++) {
        if (d == keep) continue;
        r.dims[r.ndims++] = d;
        r.count *= r.sizes[d];
    }
    tpt_val_t norm = tpt_reduce_norm(&r, tpt_lower_static(L, "p", 2.0));
    tpt_dtype_t real = tpt_ir_dtype(ir, norm);
    tpt_val_t most = tpt_lower_number(L, "maxnorm", real);
    tpt_val_t scale = tpt_ir_div(ir, most, tpt_ir_add(ir, norm, tpt_ir_const_f(ir, real, 1e-7)));
    scale = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GT, norm, most), scale, tpt_ir_const_f(ir, real, 1.0));
    scale = tpt_ir_convert(ir, tpt_reduce_expand(&r, scale), tpt_ir_dtype(ir, r.x));
    tpt_lower_result(L, tpt_ir_mul(ir, r.x, scale));
}

/* ---- logsumexp ----------------------------------------------------------------------------------------------------- */

void tpt_ops_logsumexp(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_dtype_t d = tpt_ir_dtype(ir, r.x);
    const bool is_complex = tpt_dtype_is_complex(d);
    if (!tpt_dtype_is_float(d) && !is_complex) d = L->nouts > 0 ? (tpt_dtype_t)L->outs[0].dtype : TPT_F32;
    r.x = tpt_ir_convert(ir, r.x, tpt_dtype_opmath(d));
    tpt_val_t most = tpt_reduce_run(&r, TPT_IR_RED_MAX, is_complex ? tpt_ir_unary(ir, TPT_IR_REAL, r.x) : r.x);
    /* An infinite maximum would give inf - inf. */
    tpt_val_t infinite = tpt_ir_compare(ir, TPT_IR_EQ, tpt_ir_unary(ir, TPT_IR_ABS, most), tpt_ir_like(ir, most, INFINITY));
    most = tpt_ir_select(ir, infinite, tpt_ir_like(ir, most, 0.0), most);
    most = tpt_ir_convert(ir, most, tpt_ir_dtype(ir, r.x));
    tpt_val_t power = tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, r.x, tpt_reduce_expand(&r, most)));
    tpt_val_t sum = tpt_ir_unary(ir, TPT_IR_LOG, tpt_reduce_run(&r, TPT_IR_RED_ADD, power));
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_ir_add(ir, sum, most)));
}

/* ---- histogram ----------------------------------------------------------------------------------------------------- */

static tpt_val_t is_finite(tpt_ir_t *ir, tpt_val_t x) {
    if (!tpt_dtype_is_float(tpt_ir_dtype(ir, x))) return tpt_ir_const_i(ir, TPT_BOOL, 1);
    return tpt_ir_unary(ir, TPT_IR_IS_FINITE, x);
}

void tpt_ops_histc(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t own = tpt_ir_flatten(ir, tpt_lower_tensor(L, "self")), x = opmath(ir, own);
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    int64_t n = tpt_ir_numel(ir, x), bins = tpt_lower_int(L, "bins", 100);
    if (bins <= 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "bins must be > 0, but got %lld for dimension 0", (long long)bins);
        return;
    }
    tpt_val_t low = tpt_lower_number(L, "min", d), high = tpt_lower_number(L, "max", d);
    if (n > 0) { /* equal bounds: take the data's */
        tpt_val_t same = tpt_ir_compare(ir, TPT_IR_EQ, low, high);
        tpt_val_t least = tpt_ir_reduce(ir, TPT_IR_RED_MIN, x, 1, (const int64_t[]){0});
        tpt_val_t most = tpt_ir_reduce(ir, TPT_IR_RED_MAX, x, 1, (const int64_t[]){0});
        low = tpt_ir_select(ir, same, least, low);
        high = tpt_ir_select(ir, same, most, high);
        tpt_val_t finite = tpt_ir_and(ir, is_finite(ir, low), is_finite(ir, high));
        tpt_lower_refuse(L, tpt_ir_not(ir, finite), "torch.histc: the range of the values is not finite");
    }
    tpt_val_t flat = tpt_ir_compare(ir, TPT_IR_EQ, low, high), one = tpt_ir_const_f(ir, d, 1.0);
    tpt_val_t low_1 = tpt_ir_sub(ir, low, one), high_1 = tpt_ir_add(ir, high, one);
    low = tpt_ir_select(ir, flat, low_1, low);
    high = tpt_ir_select(ir, flat, high_1, high);
    tpt_val_t count = tpt_ir_const_i(ir, d, bins);
    tpt_val_t place = tpt_ir_div(ir, tpt_ir_mul(ir, tpt_ir_sub(ir, x, low), count), tpt_ir_sub(ir, high, low));
    tpt_val_t inside = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GE, x, low), tpt_ir_compare(ir, TPT_IR_LE, x, high));
    place = tpt_ir_select(ir, inside, place, tpt_ir_const_f(ir, d, 0.0)); /* NaN and far values must not reach the conversion */
    tpt_val_t at = tpt_ir_min(ir, tpt_ir_convert(ir, place, TPT_I64), tpt_ir_const_i(ir, TPT_I64, bins - 1));
    tpt_ir_scatter_t s = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1};
    tpt_val_t sums = tpt_ir_full_i(ir, tpt_type_make(TPT_I64, 1, &bins), 0);
    sums = tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, sums, at, tpt_ir_convert(ir, inside, TPT_I64), &s);
    tpt_lower_result(L, tpt_ir_convert(ir, sums, tpt_ir_dtype(ir, own)));
}
