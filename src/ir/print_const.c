/* print_const.c - numbers as MLIR text, exactly: decimal where that is sure to read back the same, bit patterns elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir_internal.h"

typedef struct tpt_float_format {
    int exponent_bits, mantissa_bits, bias;
    bool has_inf; /* IEEE's: the highest exponent is for infinity and NaN */
    bool fnuz;    /* no infinity, one NaN in the place of -0 */
} tpt_float_format_t;

static const tpt_float_format_t formats[TPT_DTYPE_COUNT] = {
    [TPT_F16] = {5, 10, 15, true, false},      [TPT_BF16] = {8, 7, 127, true, false},
    [TPT_F32] = {8, 23, 127, true, false},     [TPT_F64] = {11, 52, 1023, true, false},
    [TPT_F8E5M2] = {5, 2, 15, true, false},    [TPT_F8E4M3FN] = {4, 3, 7, false, false},
    [TPT_F8E4M3FNUZ] = {4, 3, 8, false, true}, [TPT_F8E5M2FNUZ] = {5, 2, 16, false, true},
};

void tpt_float_limits(tpt_dtype_t dtype, double *out_tiny, double *out_max) {
    const tpt_float_format_t *f = &formats[dtype];
    int top = (1 << f->exponent_bits) - 1 - f->bias - (f->has_inf ? 1 : 0);
    /* Without infinity the highest exponent holds numbers; E4M3FN gives its last mantissa to NaN. */
    double ulps = dtype == TPT_F8E4M3FN ? 2 : 1;
    *out_tiny = ldexp(1, 1 - f->bias);
    *out_max = ldexp(2 - ldexp(ulps, -f->mantissa_bits), top);
}

uint64_t tpt_float_bits(tpt_dtype_t dtype, double x) {
    const tpt_float_format_t *f = &formats[dtype];
    int width = 1 + f->exponent_bits + f->mantissa_bits;
    uint64_t sign = signbit(x) ? UINT64_C(1) << (width - 1) : 0;
    uint64_t ones = (UINT64_C(1) << f->exponent_bits) - 1, quiet = UINT64_C(1) << (f->mantissa_bits - 1);
    uint64_t nan = f->fnuz ? UINT64_C(1) << (width - 1) : ones << f->mantissa_bits | (f->has_inf ? quiet : 2 * quiet - 1);
    uint64_t inf = f->has_inf ? sign | ones << f->mantissa_bits : f->fnuz ? nan : sign | nan;
    double tiny, max, magnitude = fabs(x);
    tpt_float_limits(dtype, &tiny, &max);
    if (isnan(x)) return nan;
    if (isinf(x)) return inf;
    /* In units of the last place: at most 53 bits, rounded to even by nearbyint (the default rounding mode). */
    int e = magnitude < tiny ? 1 - f->bias : ilogb(magnitude);
    double units = nearbyint(ldexp(magnitude, f->mantissa_bits - e));
    if (ldexp(units, e - f->mantissa_bits) > max) return inf;
    /* A carry out of the mantissa raises the exponent by itself; below `tiny` the exponent field is zero. */
    uint64_t bits = (uint64_t)units;
    if (magnitude >= tiny) bits += (uint64_t)(e + f->bias - 1) << f->mantissa_bits;
    return bits == 0 && f->fnuz ? 0 : sign | bits;
}

static void print_float(tpt_str_t *out, tpt_dtype_t dtype, double x) {
    double tiny, max, magnitude = fabs(x);
    tpt_float_limits(dtype, &tiny, &max);
    bool plain = (x == 0 && !signbit(x)) || (magnitude >= tiny && magnitude <= max);
    if (!plain) {
        int digits = (int)tpt_dtype_size(dtype) * 2;
        tpt_str_addf(out, "0x%0*llX", digits, (unsigned long long)tpt_float_bits(dtype, x));
        return;
    }
    /* The fewest of three lengths that read back the same; MLIR rounds from double to the dtype, to nearest. */
    char text[64];
    double value = dtype == TPT_F32 ? (double)(float)x : x;
    for (int digits = 6; digits <= 17; digits = digits == 6 ? 9 : 17) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (back == value || (dtype == TPT_F32 && (float)back == (float)value) || digits == 17) break;
    }
    /* MLIR wants a point: 1e+10 is 1.0e+10. */
    char *exponent = strchr(text, 'e');
    size_t head = exponent != NULL ? (size_t)(exponent - text) : strlen(text);
    tpt_str_addn(out, text, head);
    if (memchr(text, '.', head) == NULL) tpt_str_add(out, ".0");
    if (exponent != NULL) tpt_str_add(out, exponent);
}

static void print_element(tpt_str_t *out, tpt_dtype_t dtype, const tpt_attr_const_t *attr, int i) {
    if (tpt_dtype_is_complex(dtype)) {
        tpt_str_add(out, "(");
        print_float(out, tpt_dtype_real(dtype), attr->floats[2 * i]);
        tpt_str_add(out, ", ");
        print_float(out, tpt_dtype_real(dtype), attr->floats[2 * i + 1]);
        tpt_str_add(out, ")");
    } else if (tpt_dtype_is_float(dtype)) {
        print_float(out, dtype, attr->floats[i]);
    } else if (dtype == TPT_BOOL) {
        tpt_str_add(out, attr->ints[i] ? "true" : "false");
    } else if (dtype == TPT_U64) {
        tpt_str_addf(out, "%llu", (unsigned long long)attr->ints[i]);
    } else {
        tpt_str_int(out, attr->ints[i]);
    }
}

void tpt_print_const(tpt_str_t *out, const tpt_type_t *type, const tpt_attr_const_t *attr) {
    tpt_dtype_t dtype = (tpt_dtype_t)type->dtype;
    bool brackets = type->rank > 0 && attr->n > 0;
    tpt_str_add(out, brackets ? "<[" : "<");
    for (int i = 0; i < attr->n; i++) {
        if (i > 0) tpt_str_add(out, ", ");
        print_element(out, dtype, attr, i);
    }
    tpt_str_add(out, brackets ? "]>" : ">");
}
