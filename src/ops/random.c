/* random.c - rows that fill a tensor from a distribution. Parameters are run-time numbers: another one is no new program. */
#include "ops/random.h"

#include <math.h>

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

static tpt_val_t first_word(tpt_lower_t *L, const tpt_type_t *type) {
    tpt_val_t words[2];
    tpt_random_words(L, type, words);
    return words[0];
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static tpt_val_t uniform(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t acc = tpt_dtype_opmath((tpt_dtype_t)type.dtype);
    tpt_val_t u = tpt_ir_convert(ir, tpt_lower_uniform(L, type), acc);
    tpt_val_t from = number_or(L, "from", 0.0, acc), to = number_or(L, "to", 1.0, acc);
    tpt_val_t v = tpt_ir_add(ir, tpt_ir_mul(ir, u, tpt_ir_sub(ir, to, from)), from);
    /* Rounding may reach the open end: PyTorch's interval is half-open there. */
    tpt_val_t rounded = tpt_ir_convert(ir, v, (tpt_dtype_t)type.dtype), end = tpt_ir_convert(ir, to, (tpt_dtype_t)type.dtype);
    tpt_val_t start = tpt_ir_convert(ir, from, (tpt_dtype_t)type.dtype);
    return tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GE, rounded, end), start, rounded);
}

/* Real and imaginary part of a complex number are drawn alike. */
void tpt_ops_uniform(tpt_lower_t *L) {
    tpt_type_t type = *tpt_ir_type(L->ir, tpt_lower_tensor(L, "self"));
    const bool is_complex = tpt_dtype_is_complex((tpt_dtype_t)type.dtype);
    type.dtype = (uint8_t)tpt_dtype_real((tpt_dtype_t)type.dtype);
    tpt_val_t v = uniform(L, type);
    tpt_lower_result(L, is_complex ? tpt_ir_binary(L->ir, TPT_IR_COMPLEX, v, uniform(L, type)) : v);
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
        if (tensors && tpt_ir_numel(ir, std) > 0)
            tpt_lower_refuse(L, tpt_ir_compare(ir, TPT_IR_LT, std, tpt_ir_like(ir, std, 0)), "normal expects all elements of std >= 0.0");
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

void tpt_ops_exponential(tpt_lower_t *L) {
    tpt_type_t type = shape_of(L, "self");
    tpt_val_t rate = number_or(L, "lambd", 1.0, (tpt_dtype_t)type.dtype);
    tpt_lower_result(L, tpt_ir_div(L->ir, tpt_random_exponential(L, type), rate));
}

/* Number of trials up to the first success, 1 at least. */
void tpt_ops_geometric(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = shape_of(L, "self");
    tpt_val_t p = tpt_lower_number(L, "p", (tpt_dtype_t)type.dtype);
    tpt_val_t rate = tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_LOG1P, tpt_ir_neg(ir, p)));
    tpt_val_t trials = tpt_ir_unary(ir, TPT_IR_CEIL, tpt_ir_div(ir, tpt_random_exponential(L, type), rate));
    tpt_lower_result(L, tpt_ir_max(ir, trials, tpt_ir_like(ir, trials, 1.0)));
}

void tpt_ops_cauchy(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = shape_of(L, "self");
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    tpt_val_t u = tpt_random_positive(ir, d == TPT_F64 ? tpt_random_u64(L, &type) : first_word(L, &type));
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
    if (tensor && L->written && !tpt_lower_fits(L, 0, tpt_lower_tensor(L, "p"))) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "bernoulli_: the probabilities do not expand to the shape of the tensor");
        return;
    }
    if (tensor)
        p = tpt_ir_broadcast_to(ir, tpt_lower_tensor(L, "p"), type.rank, type.dims);
    else if (number)
        p = tpt_lower_number(L, "p", TPT_F32);
    else
        p = self;
    type.dtype = tpt_ir_dtype(ir, p) == TPT_F64 ? TPT_F64 : TPT_F32;
    if (tensor || !number) {
        p = tpt_ir_convert(ir, p, (tpt_dtype_t)type.dtype);
        tpt_val_t low = tpt_ir_compare(ir, TPT_IR_GE, p, tpt_ir_like(ir, p, 0)), high = tpt_ir_compare(ir, TPT_IR_LE, p, tpt_ir_like(ir, p, 1));
        tpt_lower_refuse(L, tpt_ir_not(ir, tpt_ir_and(ir, low, high)), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    }
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
    tpt_dtype_t own = tpt_ir_dtype(ir, grad);
    tpt_dtype_t acc = tpt_dtype_is_float(own) || tpt_dtype_is_complex(own) ? tpt_dtype_opmath(own) : TPT_F32;
    tpt_val_t kept = tpt_ir_mul(ir, tpt_ir_convert(ir, grad, acc), tpt_ir_convert(ir, tpt_lower_tensor(L, "mask"), acc));
    tpt_lower_result(L, tpt_ir_mul(ir, kept, tpt_lower_number(L, "scale", acc)));
}
