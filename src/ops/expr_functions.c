/* expr_functions.c - functions of the expression language that are one op of the IR, or need C (bits, loops, tables). */
#include <math.h>
#include <string.h>

#include "ops/expr.h"
#include "ops/special.h"

static tpt_dtype_t bits_dtype(tpt_dtype_t d) {
    switch (tpt_dtype_size(d)) {
        case 1:
            return TPT_I8;
        case 2:
            return TPT_I16;
        case 4:
            return TPT_I32;
        default:
            return TPT_I64;
    }
}

static tpt_val_t zero_like(tpt_ir_t *ir, tpt_val_t v) { return tpt_ir_like(ir, v, 0); }

static tpt_val_t fn_signbit(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]);
    if (!tpt_dtype_is_float(d)) return tpt_ir_compare(ir, TPT_IR_LT, x[0], zero_like(ir, x[0]));
    tpt_val_t bits = tpt_ir_bitcast(ir, x[0], bits_dtype(d));
    return tpt_ir_compare(ir, TPT_IR_LT, bits, zero_like(ir, bits));
}

static tpt_val_t fn_isnan(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]);
    if (tpt_dtype_is_complex(d)) {
        tpt_val_t re = tpt_ir_unary(ir, TPT_IR_REAL, x[0]), im = tpt_ir_unary(ir, TPT_IR_IMAG, x[0]);
        return tpt_ir_or(ir, tpt_ir_compare(ir, TPT_IR_NE, re, re), tpt_ir_compare(ir, TPT_IR_NE, im, im));
    }
    return tpt_ir_compare(ir, TPT_IR_NE, x[0], x[0]);
}

static tpt_val_t is_infinite(tpt_ir_t *ir, tpt_val_t x) {
    return tpt_ir_compare(ir, TPT_IR_EQ, tpt_ir_unary(ir, TPT_IR_ABS, x), tpt_ir_like(ir, x, INFINITY));
}

static tpt_val_t fn_isinf(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]);
    if (tpt_dtype_is_complex(d))
        return tpt_ir_or(ir, is_infinite(ir, tpt_ir_unary(ir, TPT_IR_REAL, x[0])),
                         is_infinite(ir, tpt_ir_unary(ir, TPT_IR_IMAG, x[0])));
    if (tpt_dtype_is_float(d)) return is_infinite(ir, x[0]);
    return tpt_ir_compare(ir, TPT_IR_NE, x[0], x[0]); /* no integer is infinite */
}

static tpt_val_t fn_isfinite(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]);
    if (tpt_dtype_is_complex(d))
        return tpt_ir_and(ir, tpt_ir_unary(ir, TPT_IR_IS_FINITE, tpt_ir_unary(ir, TPT_IR_REAL, x[0])),
                          tpt_ir_unary(ir, TPT_IR_IS_FINITE, tpt_ir_unary(ir, TPT_IR_IMAG, x[0])));
    if (tpt_dtype_is_float(d)) return tpt_ir_unary(ir, TPT_IR_IS_FINITE, x[0]);
    return tpt_ir_compare(ir, TPT_IR_EQ, x[0], x[0]);
}

static tpt_val_t fn_trunc(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_val_t up = tpt_ir_unary(ir, TPT_IR_CEIL, x[0]), down = tpt_ir_unary(ir, TPT_IR_FLOOR, x[0]);
    return tpt_ir_select(ir, fn_signbit(ir, x), up, down);
}

/* The upper half of a float's significand: its square is exact. */
static tpt_val_t fn_high_part(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]), b = bits_dtype(d);
    if (d != TPT_F32 && d != TPT_F64) return x[0];
    int64_t mask = d == TPT_F64 ? -(INT64_C(1) << 27) : -(INT64_C(1) << 12);
    tpt_val_t bits = tpt_ir_and(ir, tpt_ir_bitcast(ir, x[0], b), tpt_ir_const_i(ir, b, mask));
    return tpt_ir_bitcast(ir, bits, d);
}

static tpt_val_t fn_nextafter(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]), b = bits_dtype(d);
    tpt_val_t from = x[0], to = x[1], zero = zero_like(ir, from);
    tpt_val_t one = tpt_ir_const_i(ir, b, 1), minus = tpt_ir_const_i(ir, b, -1);
    tpt_val_t bits = tpt_ir_bitcast(ir, from, b);
    /* Away from zero the bits grow. */
    tpt_val_t up = tpt_ir_compare(ir, TPT_IR_LT, from, to), positive = tpt_ir_compare(ir, TPT_IR_GT, from, zero);
    tpt_val_t away = tpt_ir_not(ir, tpt_ir_binary(ir, TPT_IR_XOR, up, positive));
    tpt_val_t stepped = tpt_ir_bitcast(ir, tpt_ir_add(ir, bits, tpt_ir_select(ir, away, one, minus)), d);
    int64_t sign = tpt_dtype_size(d) == 8 ? INT64_MIN : -(INT64_C(1) << (8 * tpt_dtype_size(d) - 1));
    tpt_val_t tiny = tpt_ir_bitcast(ir, tpt_ir_select(ir, up, one, tpt_ir_const_i(ir, b, sign + 1)), d);
    tpt_val_t moved = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, from, zero), tiny, stepped);
    tpt_val_t result = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, from, to), to, moved);
    tpt_val_t nan = tpt_ir_or(ir, fn_isnan(ir, &from), fn_isnan(ir, &to));
    return tpt_ir_select(ir, nan, tpt_ir_add(ir, from, to), result);
}

/* Exponent e of x = m 2^e with 0.5 <= |m| < 1, as a value of x's dtype; 0 for 0, inf and nan. float32 and float64. */
static tpt_val_t fn_frexp_exponent(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]), b = bits_dtype(d);
    int shift = d == TPT_F64 ? 52 : 23, mask = d == TPT_F64 ? 2047 : 255, bias = d == TPT_F64 ? 1022 : 126;
    tpt_val_t bits = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, tpt_ir_bitcast(ir, x[0], b), tpt_ir_const_i(ir, b, shift));
    bits = tpt_ir_and(ir, bits, tpt_ir_const_i(ir, b, mask));
    tpt_val_t plain = tpt_ir_compare(ir, TPT_IR_NE, x[0], zero_like(ir, x[0]));
    plain = tpt_ir_and(ir, plain, tpt_ir_unary(ir, TPT_IR_IS_FINITE, x[0]));
    tpt_val_t e = tpt_ir_convert(ir, tpt_ir_sub(ir, bits, tpt_ir_const_i(ir, b, bias)), d);
    return tpt_ir_select(ir, plain, e, zero_like(ir, e));
}

/* x 2^e for a whole e of moderate size, exactly: in two steps, because 2^e alone may overflow. */
static tpt_val_t fn_scale(tpt_ir_t *ir, const tpt_val_t *x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x[0]), b = bits_dtype(d);
    int64_t shift = d == TPT_F64 ? 52 : 23, bias = d == TPT_F64 ? 1023 : 127;
    tpt_val_t half = tpt_ir_unary(ir, TPT_IR_FLOOR, tpt_ir_mul(ir, x[1], tpt_ir_like(ir, x[1], 0.5)));
    tpt_val_t parts[2] = {half, tpt_ir_sub(ir, x[1], half)}, result = x[0];
    for (int i = 0; i < 2; i++) {
        tpt_val_t e = tpt_ir_add(ir, tpt_ir_convert(ir, parts[i], b), tpt_ir_const_i(ir, b, bias));
        tpt_val_t power = tpt_ir_bitcast(ir, tpt_ir_binary(ir, TPT_IR_SHL, e, tpt_ir_const_i(ir, b, shift)), d);
        result = tpt_ir_mul(ir, result, power);
    }
    return result;
}

static tpt_val_t fn_shr(tpt_ir_t *ir, const tpt_val_t *x) {
    bool arithmetic = tpt_dtype_is_signed(tpt_ir_dtype(ir, x[0]));
    return tpt_ir_binary(ir, arithmetic ? TPT_IR_SHR_ARITH : TPT_IR_SHR_LOGIC, x[0], x[1]);
}

static double host_ten_to(double x) { return pow(10, x); }

static double host_factorial(double x) { return tgamma(x + 1); }

static double host_odd(double x) { return fmod(fabs(x), 2) == 1; }

#define UNARY(name, op, host) {name, 1, NULL, TPT_IR_##op, host, NULL, NULL}
#define BINARY(name, op) {name, 2, NULL, TPT_IR_##op, NULL, NULL, NULL}
#define HOST(name, host) {name, 1, NULL, -1, host, NULL, NULL}
#define IN_C(name, arity, fn) {name, arity, fn, 0, NULL, NULL, NULL}
static const tpt_expr_function_t functions[] = {
    UNARY("abs", ABS, fabs),
    UNARY("cbrt", CBRT, NULL),
    UNARY("ceil", CEIL, ceil),
    UNARY("cos", COS, cos),
    UNARY("exp", EXP, exp),
    UNARY("expm1", EXPM1, expm1),
    UNARY("floor", FLOOR, floor),
    UNARY("imag", IMAG, NULL),
    UNARY("log", LOG, log),
    UNARY("log1p", LOG1P, log1p),
    UNARY("real", REAL, NULL),
    UNARY("round_even", ROUND_EVEN, NULL),
    UNARY("rsqrt", RSQRT, NULL),
    UNARY("sigmoid", LOGISTIC, NULL),
    UNARY("sign", SIGN, NULL),
    UNARY("sin", SIN, sin),
    UNARY("sqrt", SQRT, sqrt),
    UNARY("tan", TAN, tan),
    UNARY("tanh", TANH, tanh),
    BINARY("atan2", ATAN2),
    BINARY("complex", COMPLEX),
    BINARY("max", MAX),
    BINARY("min", MIN),
    BINARY("pow", POW),
    BINARY("rem", REM),
    BINARY("shl", SHL),
    IN_C("shr", 2, fn_shr),
    IN_C("signbit", 1, fn_signbit),
    IN_C("isnan", 1, fn_isnan),
    IN_C("isinf", 1, fn_isinf),
    IN_C("isfinite", 1, fn_isfinite),
    IN_C("trunc", 1, fn_trunc),
    IN_C("high_part", 1, fn_high_part),
    IN_C("nextafter", 2, fn_nextafter),
    HOST("ten_to", host_ten_to),
    HOST("factorial", host_factorial),
    HOST("odd", host_odd),
    IN_C("zeta", 2, tpt_special_zeta),
    IN_C("chebyshev", 3, tpt_special_chebyshev),
    IN_C("hermite_h", 3, tpt_special_hermite_h),
    IN_C("hermite_he", 3, tpt_special_hermite_he),
    IN_C("laguerre", 3, tpt_special_laguerre),
    IN_C("legendre", 3, tpt_special_legendre),
    IN_C("gamma_series", 2, tpt_special_gamma_series),
    IN_C("gamma_fraction", 2, tpt_special_gamma_fraction),
    IN_C("frexp_exponent", 1, fn_frexp_exponent),
    IN_C("scale_by_two_to", 2, fn_scale),
    IN_C("gcd", 2, tpt_special_gcd),
    IN_C("whole_power", 2, tpt_special_int_pow),
};

const tpt_expr_function_t *tpt_expr_function_find(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0) return &functions[i];
    return tpt_expr_library_find(name, size);
}
