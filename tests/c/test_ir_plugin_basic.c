/* test_ir_plugin_basic.c - leaves, elementwise and shape ops: accepted by real plugins, with the right numbers. */
#include <complex.h>

#include "test_ir_run.h"

static const tpt_dtype_t all_dtypes[] = {TPT_BOOL, TPT_U8,       TPT_I8,     TPT_I16,        TPT_I32,       TPT_I64, TPT_U16,
                                         TPT_U32,  TPT_U64,      TPT_F16,    TPT_BF16,       TPT_F32,       TPT_F64, TPT_C64,
                                         TPT_C128, TPT_F8E4M3FN, TPT_F8E5M2, TPT_F8E4M3FNUZ, TPT_F8E5M2FNUZ};
#define NDTYPES (sizeof all_dtypes / sizeof all_dtypes[0])

static bool is_f8(tpt_dtype_t d) { return tpt_dtype_is_float(d) && tpt_dtype_size(d) == 1; }

PLUGIN_TEST(constants) {
    tpt_ir_t *ir = r->ir;
    EXPECT(tpt_ir_const_f(ir, TPT_F32, 0.1), (double)0.1f);
    EXPECT(tpt_ir_const_f(ir, TPT_F64, 0.1), 0.1);
    EXPECT(tpt_ir_const_f(ir, TPT_F64, 1e300), 1e300);
    EXPECT(tpt_ir_const_f(ir, TPT_F64, 5e-324), 5e-324);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, 1e10), 1e10);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, 1e39), INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, 3.4028234663852886e38), 3.4028234663852886e38);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, INFINITY), INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, -INFINITY), -INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F32, NAN), NAN);
    EXPECT(tpt_ir_div(ir, tpt_ir_const_f(ir, TPT_F32, 1), tpt_ir_const_f(ir, TPT_F32, -0.0)), -INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F16, 65504), 65504);
    EXPECT(tpt_ir_const_f(ir, TPT_F16, 65520), INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F16, 0.1), 0.0999755859375);
    EXPECT(tpt_ir_const_f(ir, TPT_F16, 6e-8), 5.960464477539063e-08);
    EXPECT(tpt_ir_const_f(ir, TPT_BF16, 0.1), 0.10009765625);
    EXPECT(tpt_ir_const_f(ir, TPT_BF16, NAN), NAN);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E4M3FN, 448), 448);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E4M3FN, 0.3), 0.3125);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E4M3FN, NAN), NAN);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E5M2, -0.3), -0.3125);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E5M2, INFINITY), INFINITY);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E4M3FNUZ, 240), 240);
    EXPECT(tpt_ir_const_f(ir, TPT_F8E5M2FNUZ, NAN), NAN);
    EXPECT(tpt_ir_const_f(ir, TPT_C64, 1.5), 1.5, 0);
    EXPECT(tpt_ir_const_f(ir, TPT_I32, -2.7), -2);
    EXPECT(tpt_ir_const_f(ir, TPT_I32, 1e20), INT32_MAX);
    EXPECT(tpt_ir_const_f(ir, TPT_BOOL, NAN), 1);
    EXPECT(tpt_ir_const_i(ir, TPT_U8, -1), 255);
    EXPECT(tpt_ir_const_i(ir, TPT_U64, -1), 18446744073709551615.0);
    EXPECT(tpt_ir_const_i(ir, TPT_I64, INT64_MIN), -9223372036854775808.0);
    EXPECT(tpt_ir_const_ints(ir, TPT_I16, 3, DIMS(1, -2, 70000)), 1, -2, 4464);
    EXPECT(tpt_ir_const_ints(ir, TPT_BOOL, 2, DIMS(0, 5)), 0, 1);
    EXPECT(tpt_ir_const_floats(ir, TPT_F32, 3, V(1, NAN, -2.5)), 1, NAN, -2.5);
    EXPECT(tpt_ir_const_floats(ir, TPT_C128, 2, V(1, -2.5)), 1, 0, -2.5, 0);
    EXPECT_EMPTY(tpt_ir_const_ints(ir, TPT_I64, 0, NULL));
    EXPECT_EMPTY(tpt_ir_full_f(ir, shape(TPT_F32, 2, 0, 3), 1));
    EXPECT(tpt_ir_full_f(ir, shape(TPT_F64, 2, 1, 3), 2.5), 2.5, 2.5, 2.5);
    EXPECT(tpt_ir_full_i(ir, shape(TPT_BOOL, 1, 2), 7), 1, 1);
}

PLUGIN_TEST(iota_and_extremes) {
    for (size_t i = 0; i < NDTYPES; i++) {
        tpt_dtype_t d = all_dtypes[i];
        tpt_val_t v = tpt_ir_iota(r->ir, shape(d, 2, 2, 3), 1);
        if (d == TPT_BOOL)
            EXPECT(v, 0, 1, 1, 0, 1, 1);
        else if (tpt_dtype_is_complex(d))
            EXPECT(v, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2, 0);
        else
            EXPECT(v, 0, 1, 2, 0, 1, 2);
    }
    EXPECT(tpt_ir_lowest(r->ir, TPT_F32), -INFINITY);
    EXPECT(tpt_ir_highest(r->ir, TPT_BF16), INFINITY);
    EXPECT(tpt_ir_lowest(r->ir, TPT_F8E4M3FN), -448);
    EXPECT(tpt_ir_highest(r->ir, TPT_F8E4M3FNUZ), 240);
    EXPECT(tpt_ir_highest(r->ir, TPT_F8E5M2FNUZ), 57344);
    EXPECT(tpt_ir_lowest(r->ir, TPT_I8), -128);
    EXPECT(tpt_ir_highest(r->ir, TPT_U16), 65535);
    EXPECT(tpt_ir_highest(r->ir, TPT_U64), 18446744073709551615.0);
    EXPECT(tpt_ir_highest(r->ir, TPT_BOOL), 1);
}

PLUGIN_TEST(unary_floats) {
    const struct {
        tpt_ir_unary_op_t op;
        double want[2];
    } cases[] = {
        {TPT_IR_ABS, {0.5, 0.75}},
        {TPT_IR_CBRT, {cbrt(0.5), cbrt(-0.75)}},
        {TPT_IR_CEIL, {1, 0}},
        {TPT_IR_COS, {cos(0.5), cos(0.75)}},
        {TPT_IR_EXP, {exp(0.5), exp(-0.75)}},
        {TPT_IR_EXPM1, {expm1(0.5), expm1(-0.75)}},
        {TPT_IR_FLOOR, {0, -1}},
        {TPT_IR_IMAG, {0, 0}},
        {TPT_IR_IS_FINITE, {1, 1}},
        {TPT_IR_LOG, {log(0.5), NAN}},
        {TPT_IR_LOG1P, {log1p(0.5), log1p(-0.75)}},
        {TPT_IR_LOGISTIC, {1 / (1 + exp(-0.5)), 1 / (1 + exp(0.75))}},
        {TPT_IR_NEG, {-0.5, 0.75}},
        {TPT_IR_REAL, {0.5, -0.75}},
        {TPT_IR_ROUND, {1, -1}},
        {TPT_IR_ROUND_EVEN, {0, -1}},
        {TPT_IR_RSQRT, {1 / sqrt(0.5), NAN}},
        {TPT_IR_SIGN, {1, -1}},
        {TPT_IR_SIN, {sin(0.5), sin(-0.75)}},
        {TPT_IR_SQRT, {sqrt(0.5), NAN}},
        {TPT_IR_TAN, {tan(0.5), tan(-0.75)}},
        {TPT_IR_TANH, {tanh(0.5), tanh(-0.75)}},
    };
    const struct {
        tpt_dtype_t dtype;
        double tolerance;
    } dtypes[] = {{TPT_F16, 2e-3},  {TPT_BF16, 1e-2},   {TPT_F32, 1e-6},
                  {TPT_F64, 1e-13}, {TPT_F8E5M2, 0.15}, {TPT_F8E4M3FN, 0.07}};
    for (size_t k = 0; k < sizeof dtypes / sizeof dtypes[0]; k++) {
        tpt_val_t x = arg(r, shape(dtypes[k].dtype, 1, 2), V(0.5, -0.75));
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            EXPECT_NEAR(tpt_ir_unary(r->ir, cases[i].op, x), dtypes[k].tolerance, cases[i].want[0], cases[i].want[1]);
        }
    }
}

PLUGIN_TEST(unary_complex) {
    tpt_ir_t *ir = r->ir;
    for (int k = 0; k < 2; k++) {
        tpt_val_t z = arg(r, shape(k ? TPT_C128 : TPT_C64, 1, 1), V(3, 4));
        double tol = k ? 1e-12 : 1e-5;
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_ABS, z), tol, 5);
        EXPECT(tpt_ir_unary(ir, TPT_IR_REAL, z), 3);
        EXPECT(tpt_ir_unary(ir, TPT_IR_IMAG, z), 4);
        EXPECT(tpt_ir_neg(ir, z), -3, -4);
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_SIGN, z), tol, 0.6, 0.8);
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_SQRT, z), tol, 2, 1);
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_RSQRT, z), tol, 0.4, -0.2);
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_LOG, z), tol, log(5), atan2(4, 3));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_LOG1P, z), tol, 0.5 * log(32), atan2(4, 4));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_EXP, z), tol, exp(3) * cos(4), exp(3) * sin(4));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_EXPM1, z), tol, exp(3) * cos(4) - 1, exp(3) * sin(4));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_COS, z), tol, cos(3) * cosh(4), -sin(3) * sinh(4));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_SIN, z), tol, sin(3) * cosh(4), cos(3) * sinh(4));
        double complex sigmoid = 1 / (1 + cexp(-3 - 4 * I)), tangent = ctan(3 + 4 * I), hyperbolic = ctanh(3 + 4 * I);
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_LOGISTIC, z), tol, creal(sigmoid), cimag(sigmoid));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_TAN, z), tol, creal(tangent), cimag(tangent));
        EXPECT_NEAR(tpt_ir_unary(ir, TPT_IR_TANH, z), tol, creal(hyperbolic), cimag(hyperbolic));
    }
}

PLUGIN_TEST(unary_integers) {
    tpt_ir_t *ir = r->ir;
    for (size_t i = 0; i < NDTYPES; i++) {
        tpt_dtype_t d = all_dtypes[i];
        if (!tpt_dtype_is_int(d)) continue;
        bool is_signed = tpt_dtype_is_signed(d);
        double top = ldexp(1, 8 * (int)tpt_dtype_size(d));
        tpt_val_t x = arg(r, shape(d, 1, 2), V(5, is_signed ? -5 : 0));
        EXPECT(tpt_ir_unary(ir, TPT_IR_ABS, x), 5, is_signed ? 5 : 0);
        EXPECT(tpt_ir_unary(ir, TPT_IR_SIGN, x), 1, is_signed ? -1 : 0);
        EXPECT(tpt_ir_neg(ir, x), is_signed ? -5 : top - 5, is_signed ? 5 : 0);
        EXPECT(tpt_ir_not(ir, x), is_signed ? -6 : top - 6, is_signed ? 4 : top - 1);
        EXPECT(tpt_ir_unary(ir, TPT_IR_POPCNT, x), 2, is_signed ? 8 * (double)tpt_dtype_size(d) - 1 : 0);
        EXPECT(tpt_ir_unary(ir, TPT_IR_CLZ, x), 8 * (double)tpt_dtype_size(d) - 3,
               is_signed ? 0 : 8 * (double)tpt_dtype_size(d));
    }
    EXPECT(tpt_ir_not(ir, tpt_ir_const_ints(ir, TPT_BOOL, 2, DIMS(0, 1))), 1, 0);
}

PLUGIN_TEST(binary_all_dtypes) {
    tpt_ir_t *ir = r->ir;
    for (size_t i = 0; i < NDTYPES; i++) {
        tpt_dtype_t d = all_dtypes[i];
        if (d == TPT_BOOL || tpt_dtype_is_complex(d)) continue;
        tpt_val_t x = arg(r, shape(d, 1, 2), V(6, 7)), y = tpt_ir_const_i(ir, d, 2);
        /* Two mantissa bits: ties to even. */
        EXPECT(tpt_ir_add(ir, x, y), 8, d == TPT_F8E5M2 || d == TPT_F8E5M2FNUZ ? 8 : 9);
        EXPECT(tpt_ir_sub(ir, x, y), 4, 5);
        EXPECT(tpt_ir_mul(ir, x, y), 12, 14);
        EXPECT(tpt_ir_div(ir, x, y), 3, tpt_dtype_is_float(d) ? 3.5 : 3);
        EXPECT(tpt_ir_binary(ir, TPT_IR_REM, x, y), 0, 1);
        EXPECT_NEAR(tpt_ir_binary(ir, TPT_IR_POW, x, y), is_f8(d) ? 0.15 : 1e-2, 36, 49);
        EXPECT(tpt_ir_max(ir, x, tpt_ir_const_i(ir, d, 6)), 6, 7);
        EXPECT(tpt_ir_min(ir, x, tpt_ir_const_i(ir, d, 6)), 6, 6);
        if (tpt_dtype_is_float(d)) {
            tpt_val_t nan = tpt_ir_const_f(ir, d, NAN);
            EXPECT_NEAR(tpt_ir_binary(ir, TPT_IR_ATAN2, x, y), is_f8(d) ? 0.15 : 1e-2, atan2(6, 2), atan2(7, 2));
            EXPECT(tpt_ir_max(ir, x, nan), NAN, NAN);
            EXPECT(tpt_ir_min(ir, nan, x), NAN, NAN);
        } else {
            EXPECT(tpt_ir_and(ir, x, y), 2, 2);
            EXPECT(tpt_ir_or(ir, x, y), 6, 7);
            EXPECT(tpt_ir_binary(ir, TPT_IR_XOR, x, y), 4, 5);
            EXPECT(tpt_ir_binary(ir, TPT_IR_SHL, x, y), 24, 28);
            EXPECT(tpt_ir_binary(ir, TPT_IR_SHR_ARITH, x, y), 1, 1);
            EXPECT(tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, x, y), 1, 1);
        }
    }
}

PLUGIN_TEST(binary_bool_and_complex) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t p = arg(r, shape(TPT_BOOL, 1, 4), V(0, 0, 1, 1)), q = arg(r, shape(TPT_BOOL, 1, 4), V(0, 1, 0, 1));
    EXPECT(tpt_ir_add(ir, p, q), 0, 1, 1, 1);
    EXPECT(tpt_ir_mul(ir, p, q), 0, 0, 0, 1);
    EXPECT(tpt_ir_and(ir, p, q), 0, 0, 0, 1);
    EXPECT(tpt_ir_or(ir, p, q), 0, 1, 1, 1);
    EXPECT(tpt_ir_binary(ir, TPT_IR_XOR, p, q), 0, 1, 1, 0);
    EXPECT(tpt_ir_max(ir, p, q), 0, 1, 1, 1);
    EXPECT(tpt_ir_min(ir, p, q), 0, 0, 0, 1);
    EXPECT(tpt_ir_compare(ir, TPT_IR_LT, p, q), 0, 1, 0, 0);
    EXPECT(tpt_ir_select(ir, p, q, tpt_ir_const_i(ir, TPT_BOOL, 1)), 1, 1, 0, 1);
    tpt_val_t x = arg(r, shape(TPT_F64, 0), V(3)), y = arg(r, shape(TPT_F64, 0), V(4));
    tpt_val_t z = tpt_ir_binary(ir, TPT_IR_COMPLEX, x, y);
    EXPECT(z, 3, 4);
    EXPECT(tpt_ir_add(ir, z, z), 6, 8);
    EXPECT(tpt_ir_sub(ir, z, z), 0, 0);
    EXPECT_NEAR(tpt_ir_mul(ir, z, z), 1e-12, -7, 24);
    EXPECT_NEAR(tpt_ir_div(ir, z, z), 1e-12, 1, 0);
    EXPECT_NEAR(tpt_ir_binary(ir, TPT_IR_POW, z, tpt_ir_const_f(ir, TPT_C128, 2)), 1e-12, -7, 24);
    EXPECT(tpt_ir_compare(ir, TPT_IR_EQ, z, z), 1);
    EXPECT(tpt_ir_compare(ir, TPT_IR_NE, z, tpt_ir_const_f(ir, TPT_C128, 3)), 1);
    EXPECT(tpt_ir_select(ir, tpt_ir_const_i(ir, TPT_BOOL, 0), z, tpt_ir_const_f(ir, TPT_C128, 3)), 3, 0);
}

PLUGIN_TEST(comparisons) {
    tpt_ir_t *ir = r->ir;
    const double want[6][2] = {{0, 0}, {1, 1}, {1, 0}, {1, 0}, {0, 1}, {0, 1}};
    for (size_t i = 0; i < NDTYPES; i++) {
        tpt_dtype_t d = all_dtypes[i];
        if (tpt_dtype_is_complex(d) || d == TPT_BOOL) continue;
        bool is_signed = tpt_dtype_is_signed(d);
        tpt_val_t x = arg(r, shape(d, 1, 2), V(is_signed ? -1 : 1, 100)), y = tpt_ir_const_i(ir, d, 2);
        for (int c = 0; c < 6; c++) EXPECT(tpt_ir_compare(ir, (tpt_ir_cmp_t)c, x, y), want[c][0], want[c][1]);
        if (!tpt_dtype_is_float(d)) continue;
        tpt_val_t nan = tpt_ir_const_f(ir, d, NAN);
        for (int c = 0; c < 6; c++) EXPECT(tpt_ir_compare(ir, (tpt_ir_cmp_t)c, nan, nan), c == TPT_IR_NE);
    }
}

PLUGIN_TEST(conversions) {
    tpt_ir_t *ir = r->ir;
    for (size_t i = 0; i < NDTYPES; i++) {
        tpt_dtype_t from = all_dtypes[i];
        bool complex_from = tpt_dtype_is_complex(from);
        tpt_val_t x = arg(r, shape(from, 1, 2), complex_from ? V(3, 1, 0, 0) : V(from == TPT_BOOL ? 1 : 3, 0));
        double v = from == TPT_BOOL ? 1 : 3;
        for (size_t k = 0; k < NDTYPES; k++) {
            tpt_dtype_t to = all_dtypes[k];
            tpt_val_t y = tpt_ir_convert(ir, x, to);
            assert_int_equal(tpt_ir_dtype(ir, y), to);
            if (tpt_dtype_is_complex(to))
                EXPECT(y, v, complex_from ? 1 : 0, 0, 0);
            else if (to == TPT_BOOL)
                EXPECT(y, 1, 0);
            else
                EXPECT(y, v, 0);
        }
    }
    tpt_val_t f = arg(r, shape(TPT_F32, 1, 7), V(-1.7, 1.7, 0.3, NAN, 1e20, -1e20, -0.0));
    EXPECT(tpt_ir_convert(ir, f, TPT_I32), -1, 1, 0, 0, INT32_MAX, INT32_MIN, 0);
    EXPECT(tpt_ir_convert(ir, f, TPT_BOOL), 1, 1, 1, 1, 1, 1, 0);
    EXPECT(tpt_ir_convert(ir, arg(r, shape(TPT_I32, 1, 3), V(-1, 300, 65536)), TPT_U8), 255, 44, 0);
    EXPECT(tpt_ir_convert(ir, arg(r, shape(TPT_C64, 1, 2), V(0, 2, 0, 0)), TPT_BOOL), 1, 0);
}

PLUGIN_TEST(bitcasts) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 1, 2), V(1, -2));
    EXPECT(tpt_ir_bitcast(ir, x, TPT_U32), 0x3F800000, 0xC0000000);
    EXPECT(tpt_ir_bitcast(ir, x, TPT_U8), 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0);
    EXPECT(tpt_ir_bitcast(ir, x, TPT_I64), (double)(int64_t)0xC00000003F800000);
    EXPECT(tpt_ir_bitcast(ir, x, TPT_C64), 1, -2);
    EXPECT(tpt_ir_bitcast(ir, x, TPT_BOOL), 0, 0, 1, 1, 0, 0, 0, 1);
    EXPECT(tpt_ir_bitcast(ir, tpt_ir_bitcast(ir, x, TPT_U8), TPT_F32), 1, -2);
    EXPECT(tpt_ir_bitcast(ir, tpt_ir_bitcast(ir, x, TPT_BF16), TPT_F32), 1, -2);
    EXPECT(tpt_ir_bitcast(ir, arg(r, shape(TPT_BOOL, 1, 4), V(1, 0, 1, 0)), TPT_I32), 0x10001);
    tpt_val_t z = arg(r, shape(TPT_C64, 2, 1, 2), V(1, 2, 3, 4));
    tpt_val_t d = tpt_ir_bitcast(ir, z, TPT_C128);
    EXPECT(tpt_ir_bitcast(ir, z, TPT_F32), 1, 2, 3, 4);
    EXPECT(tpt_ir_bitcast(ir, d, TPT_C64), 1, 2, 3, 4);
    EXPECT(tpt_ir_bitcast(ir, tpt_ir_bitcast(ir, z, TPT_F64), TPT_C64), 1, 2, 3, 4);
    EXPECT(tpt_ir_bitcast(ir, tpt_ir_bitcast(ir, z, TPT_I16), TPT_C64), 1, 2, 3, 4);
    tpt_val_t bytes = tpt_ir_reshape(ir, tpt_ir_bitcast(ir, d, TPT_U8), 2, DIMS(2, 8));
    EXPECT(tpt_ir_bitcast(ir, bytes, TPT_F64), decode(TPT_F64, (const unsigned char *)(const float[]){1, 2}),
           decode(TPT_F64, (const unsigned char *)(const float[]){3, 4}));
}

PLUGIN_TEST(shapes) {
    tpt_ir_t *ir = r->ir;
    tpt_val_t x = arg(r, shape(TPT_F32, 2, 2, 3), V(1, 2, 3, 4, 5, 6));
    tpt_val_t one = arg(r, shape(TPT_I32, 0), V(1)), zero = arg(r, shape(TPT_I32, 0), V(0));
    EXPECT(tpt_ir_broadcast_to(ir, tpt_ir_slice_dim(ir, x, -1, 1, 2), 3, DIMS(1, 2, 2)), 2, 2, 5, 5);
    EXPECT(tpt_ir_broadcast_in_dim(ir, tpt_ir_const_ints(ir, TPT_I32, 2, DIMS(7, 8)), 2, DIMS(2, 2), DIMS(0)), 7, 7, 8, 8);
    EXPECT(tpt_ir_reshape(ir, x, 2, DIMS(3, 2)), 1, 2, 3, 4, 5, 6);
    EXPECT(tpt_ir_transpose(ir, x, DIMS(1, 0)), 1, 4, 2, 5, 3, 6);
    EXPECT(tpt_ir_slice(ir, x, DIMS(0, 0), DIMS(2, 3), DIMS(1, 2)), 1, 3, 4, 6);
    EXPECT_EMPTY(tpt_ir_slice(ir, x, DIMS(1, 0), DIMS(1, 3), NULL));
    EXPECT(tpt_ir_dynamic_slice(ir, x, (tpt_val_t[]){zero, one}, DIMS(2, 2)), 2, 3, 5, 6);
    EXPECT(tpt_ir_dynamic_update_slice(ir, x, tpt_ir_full_f(ir, shape(TPT_F32, 2, 1, 2), 9), (tpt_val_t[]){one, one}), 1, 2, 3,
           4, 9, 9);
    EXPECT(tpt_ir_pad(ir, x, tpt_ir_const_f(ir, TPT_F32, 0), DIMS(0, 1), DIMS(0, -1), DIMS(0, 1)), 0, 1, 0, 2, 0, 0, 4, 0, 5,
           0);
    EXPECT(tpt_ir_concat(ir, 3, (tpt_val_t[]){x, x, x}, 1), 1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 4, 5, 6);
    EXPECT(tpt_ir_concat(ir, 2, (tpt_val_t[]){x, tpt_ir_full_f(ir, shape(TPT_F32, 2, 0, 3), 9)}, 0), 1, 2, 3, 4, 5, 6);
    EXPECT(tpt_ir_reverse(ir, x, 2, DIMS(0, 1)), 6, 5, 4, 3, 2, 1);
    EXPECT(tpt_ir_squeeze(ir, tpt_ir_unsqueeze(ir, x, -1), 2), 1, 2, 3, 4, 5, 6);
    EXPECT(tpt_ir_flatten(ir, x), 1, 2, 3, 4, 5, 6);
    EXPECT(tpt_ir_add(ir, x, tpt_ir_const_floats(ir, TPT_F32, 3, V(10, 20, 30))), 11, 22, 33, 14, 25, 36);
    EXPECT(tpt_ir_select(ir, tpt_ir_const_ints(ir, TPT_BOOL, 3, DIMS(1, 0, 1)), x, tpt_ir_const_f(ir, TPT_F32, 0)), 1, 0, 3, 4,
           0, 6);
    EXPECT_EMPTY(tpt_ir_add(ir, tpt_ir_slice_dim(ir, x, 0, 0, 0), tpt_ir_slice_dim(ir, x, 0, 0, 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),      cmocka_unit_test(test_iota_and_extremes),
        cmocka_unit_test(test_unary_floats),   cmocka_unit_test(test_unary_complex),
        cmocka_unit_test(test_unary_integers), cmocka_unit_test(test_binary_all_dtypes),
        cmocka_unit_test(test_comparisons),    cmocka_unit_test(test_binary_bool_and_complex),
        cmocka_unit_test(test_conversions),    cmocka_unit_test(test_bitcasts),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
