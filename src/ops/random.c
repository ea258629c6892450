/* random.c - uniform and normal numbers from Philox bits, and the distributions that are functions of them.
 *
 * The bits are the same on every plugin. Parameters are run-time numbers: another probability is no new program. */
#include <math.h>

#include "ops/reduce.h"

/* ---- uniform and normal -------------------------------------------------------------------------------------------- */

static tpt_val_t random_bits(tpt_lower_t *L, tpt_dtype_t dtype, const tpt_type_t *shape) {
    tpt_val_t state = tpt_lower_rng(L), next = TPT_VAL_NONE, bits = TPT_VAL_NONE;
    tpt_ir_rng_bits(L->ir, state, tpt_type_make(dtype, shape->rank, shape->dims), &next, &bits);
    return bits;
}

/* The top bits of a word, as many as the dtype holds exactly, so that rounding never gives 1. */
tpt_val_t tpt_lower_uniform(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    bool wide = d == TPT_F64;
    int digits = wide ? 53 : d == TPT_F16 ? 11 : d == TPT_BF16 ? 8 : 24;
    if (!wide && d != TPT_F32 && d != TPT_F16 && d != TPT_BF16)
        return tpt_lower_fail(L, TPT_UNIMPLEMENTED, "random numbers of dtype %s are not implemented", tpt_dtype_name(d));
    tpt_dtype_t word = wide ? TPT_U64 : TPT_U32;
    tpt_val_t bits = random_bits(L, word, &type);
    bits = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, bits, tpt_ir_const_i(ir, word, (wide ? 64 : 32) - digits));
    tpt_val_t whole = tpt_ir_convert(ir, bits, wide ? TPT_F64 : TPT_F32);
    return tpt_ir_convert(ir, tpt_ir_mul(ir, whole, tpt_ir_like(ir, whole, ldexp(1.0, -digits))), d);
}

/* (0, 1], with all bits of a word: close to 0 as fine as the dtype allows, for logarithms. F32 or F64. */
static tpt_val_t uniform_positive(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    bool wide = type.dtype == TPT_F64;
    tpt_val_t whole = tpt_ir_convert(ir, random_bits(L, wide ? TPT_U64 : TPT_U32, &type), (tpt_dtype_t)type.dtype);
    whole = tpt_ir_add(ir, whole, tpt_ir_like(ir, whole, 0.5));
    return tpt_ir_mul(ir, whole, tpt_ir_like(ir, whole, wide ? 0x1p-64 : 0x1p-32));
}

/* Box and Muller: one radius and one angle give two independent numbers. */
static tpt_val_t normal_real(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t acc = type.dtype == TPT_F64 ? TPT_F64 : TPT_F32;
    int64_t n = tpt_type_numel(&type), half = (n + 1) / 2;
    tpt_type_t part = tpt_type_make(acc, 1, &half);
    tpt_val_t radius = tpt_ir_unary(ir, TPT_IR_LOG, uniform_positive(L, part));
    radius = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_mul(ir, radius, tpt_ir_like(ir, radius, -2.0)));
    tpt_val_t angle = tpt_lower_uniform(L, part);
    angle = tpt_ir_mul(ir, angle, tpt_ir_like(ir, angle, 2.0 * M_PI));
    tpt_val_t pair[2] = {tpt_ir_mul(ir, radius, tpt_ir_unary(ir, TPT_IR_COS, angle)),
                         tpt_ir_mul(ir, radius, tpt_ir_unary(ir, TPT_IR_SIN, angle))};
    tpt_val_t all = tpt_ir_concat(ir, 2, pair, 0);
    if (2 * half != n) all = tpt_ir_slice_dim(ir, all, 0, 0, n);
    return tpt_ir_convert(ir, tpt_ir_reshape(ir, all, type.rank, type.dims), (tpt_dtype_t)type.dtype);
}

/* Complex numbers have variance 1 in all, half in each part. */
tpt_val_t tpt_lower_normal(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    if (tpt_dtype_is_complex(d)) {
        type.dtype = (uint8_t)tpt_dtype_real(d);
        tpt_val_t re = normal_real(L, type), im = normal_real(L, type), half = tpt_ir_like(ir, re, sqrt(0.5));
        re = tpt_ir_mul(ir, re, half);
        im = tpt_ir_mul(ir, im, half);
        return tpt_ir_binary(ir, TPT_IR_COMPLEX, re, im);
    }
    if (d != TPT_F16 && d != TPT_BF16 && d != TPT_F32 && d != TPT_F64)
        return tpt_lower_fail(L, TPT_UNIMPLEMENTED, "normal random numbers of dtype %s are not implemented", tpt_dtype_name(d));
    return normal_real(L, type);
}

/* ---- what the rows share ------------------------------------------------------------------------------------------- */

/* Shape of `name`, with the dtype to compute in: float64 stays, all else is float32. */
static tpt_type_t shape_of(tpt_lower_t *L, const char *name) {
    tpt_type_t type = *tpt_ir_type(L->ir, tpt_lower_tensor(L, name));
    type.dtype = type.dtype == TPT_F64 ? TPT_F64 : TPT_F32;
    return type;
}

static tpt_val_t number_or(tpt_lower_t *L, const char *name, double if_none, tpt_dtype_t dtype) {
    return tpt_lower_has(L, name) ? tpt_lower_number(L, name, dtype) : tpt_ir_const_f(L->ir, dtype, if_none);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

void tpt_ops_uniform(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = *tpt_ir_type(ir, tpt_lower_tensor(L, "self"));
    tpt_dtype_t acc = tpt_dtype_opmath((tpt_dtype_t)type.dtype);
    tpt_val_t u = tpt_ir_convert(ir, tpt_lower_uniform(L, type), acc);
    tpt_val_t from = number_or(L, "from", 0.0, acc), to = number_or(L, "to", 1.0, acc);
    tpt_val_t v = tpt_ir_add(ir, tpt_ir_mul(ir, u, tpt_ir_sub(ir, to, from)), from);
    /* Rounding may reach the open end: PyTorch's interval is half-open there. */
    tpt_val_t rounded = tpt_ir_convert(ir, v, (tpt_dtype_t)type.dtype), end = tpt_ir_convert(ir, to, (tpt_dtype_t)type.dtype);
    tpt_val_t start = tpt_ir_convert(ir, from, (tpt_dtype_t)type.dtype);
    tpt_lower_result(L, tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GE, rounded, end), start, rounded));
}

/* normal_, normal_functional and the overloads with tensors: "mean" and "std" are tensors or numbers. */
void tpt_ops_normal(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type;
    tpt_val_t mean, std;
    if (tpt_lower_has(L, "self")) {
        type = *tpt_ir_type(ir, tpt_lower_tensor(L, "self"));
        tpt_dtype_t acc = tpt_dtype_opmath((tpt_dtype_t)type.dtype);
        mean = number_or(L, "mean", 0.0, acc);
        std = number_or(L, "std", 1.0, acc);
    } else {
        tpt_dtype_t d = tpt_ir_dtype(ir, tpt_lower_tensor(L, tpt_lower_is_tensor(L, "mean") ? "mean" : "std"));
        tpt_dtype_t acc = tpt_dtype_opmath(d);
        bool tensors = tpt_lower_is_tensor(L, "mean");
        mean = tensors ? tpt_ir_convert(ir, tpt_lower_tensor(L, "mean"), acc) : number_or(L, "mean", 0.0, acc);
        tensors = tpt_lower_is_tensor(L, "std");
        std = tensors ? tpt_ir_convert(ir, tpt_lower_tensor(L, "std"), acc) : number_or(L, "std", 1.0, acc);
        type = *tpt_ir_type(ir, tpt_ir_add(ir, mean, std)); /* their common shape */
    }
    tpt_val_t z = tpt_lower_normal(L, type);
    z = tpt_ir_convert(ir, z, tpt_dtype_opmath(tpt_ir_dtype(ir, z)));
    tpt_lower_result(L, tpt_ir_add(ir, tpt_ir_mul(ir, z, std), mean));
}

void tpt_ops_log_normal(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = shape_of(L, "self");
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    tpt_val_t z = tpt_lower_normal(L, type), std = number_or(L, "std", 2.0, d);
    tpt_lower_result(L, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_add(ir, tpt_ir_mul(ir, z, std), number_or(L, "mean", 1.0, d))));
}

/* -log(u), never 0, so that a quotient by it is finite. */
static tpt_val_t exponential(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t e = tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_LOG, uniform_positive(L, type)));
    return tpt_ir_max(ir, e, tpt_ir_like(ir, e, type.dtype == TPT_F64 ? 0x1p-54 : 0x1p-25));
}

void tpt_ops_exponential(tpt_lower_t *L) {
    tpt_type_t type = shape_of(L, "self");
    tpt_val_t rate = number_or(L, "lambd", 1.0, (tpt_dtype_t)type.dtype);
    tpt_lower_result(L, tpt_ir_div(L->ir, exponential(L, type), rate));
}

/* Number of trials up to the first success, 1 at least. */
void tpt_ops_geometric(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = shape_of(L, "self");
    tpt_val_t p = tpt_lower_number(L, "p", (tpt_dtype_t)type.dtype);
    tpt_val_t rate = tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_neg(ir, p)));
    tpt_val_t trials = tpt_ir_unary(ir, TPT_IR_CEIL, tpt_ir_div(ir, exponential(L, type), rate));
    tpt_lower_result(L, tpt_ir_max(ir, trials, tpt_ir_like(ir, trials, 1.0)));
}

void tpt_ops_cauchy(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = shape_of(L, "self");
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    tpt_val_t u = uniform_positive(L, type);
    u = tpt_ir_mul(ir, tpt_ir_sub(ir, u, tpt_ir_like(ir, u, 0.5)), tpt_ir_like(ir, u, M_PI));
    tpt_val_t scaled = tpt_ir_mul(ir, tpt_ir_unary(ir, TPT_IR_TAN, u), number_or(L, "sigma", 1.0, d));
    tpt_lower_result(L, tpt_ir_add(ir, scaled, number_or(L, "median", 0.0, d)));
}

/* "p" is a number, a tensor that is broadcast to self, or absent: then self holds the probabilities. */
void tpt_ops_bernoulli(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t self = tpt_lower_tensor(L, "self"), p;
    tpt_type_t type = *tpt_ir_type(ir, self);
    tpt_dtype_t own = (tpt_dtype_t)type.dtype;
    bool tensor = tpt_lower_is_tensor(L, "p"), number = tpt_lower_has(L, "p");
    if (tensor) p = tpt_ir_broadcast_to(ir, tpt_lower_tensor(L, "p"), type.rank, type.dims);
    else if (number) p = tpt_lower_number(L, "p", TPT_F32);
    else p = self;
    type.dtype = tpt_ir_dtype(ir, p) == TPT_F64 ? TPT_F64 : TPT_F32;
    tpt_val_t hit = tpt_ir_compare(ir, TPT_IR_LT, tpt_lower_uniform(L, type), tpt_ir_convert(ir, p, (tpt_dtype_t)type.dtype));
    tpt_lower_result(L, tpt_ir_convert(ir, hit, own));
}

/* Output and mask. Without training nothing is dropped. */
void tpt_ops_native_dropout(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "input");
    tpt_type_t type = *tpt_ir_type(ir, x);
    if (!tpt_lower_bool(L, "train", true)) {
        tpt_lower_result(L, x);
        type.dtype = TPT_BOOL;
        tpt_lower_result(L, tpt_ir_full_i(ir, type, 1));
        return;
    }
    tpt_dtype_t acc = tpt_dtype_opmath((tpt_dtype_t)type.dtype);
    type.dtype = TPT_F32;
    tpt_val_t keep = tpt_lower_number_fn(L, "p", TPT_NUM_ONE_MINUS, TPT_F32);
    tpt_val_t scale = tpt_lower_number_fn(L, "p", TPT_NUM_RECIP_ONE_MINUS, acc);
    tpt_val_t mask = tpt_ir_compare(ir, TPT_IR_LT, tpt_lower_uniform(L, type), keep);
    tpt_val_t kept = tpt_ir_mul(ir, tpt_ir_convert(ir, x, acc), tpt_ir_convert(ir, mask, acc));
    tpt_lower_result(L, tpt_ir_mul(ir, kept, scale));
    tpt_lower_result(L, mask);
}

void tpt_ops_native_dropout_backward(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t grad = tpt_lower_tensor(L, "grad_output");
    tpt_dtype_t acc = tpt_dtype_opmath(tpt_ir_dtype(ir, grad));
    tpt_val_t kept = tpt_ir_mul(ir, tpt_ir_convert(ir, grad, acc), tpt_ir_convert(ir, tpt_lower_tensor(L, "mask"), acc));
    tpt_lower_result(L, tpt_ir_mul(ir, kept, tpt_lower_number(L, "scale", acc)));
}
