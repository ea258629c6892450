/* build_float8.c - rounding to 8-bit floats, by bits. XLA's own conversion rounds twice on the way to e5m2, makes NaN of small
 * negative numbers in the formats without a negative zero, and overflows otherwise than PyTorch. */
#include "ir_internal.h"

typedef struct format8 {
    int mantissa, bias;     /* bits behind the point; of the exponent */
    int largest, over, nan; /* code of the largest finite number, of what is larger, of NaN */
    bool one_zero;          /* has no negative zero: its code is NaN's */
} format8_t;

static format8_t format_of(tpt_dtype_t d) {
    switch (d) {
        case TPT_F8E4M3FN:
            return (format8_t){3, 7, 0x7e, 0x7e, 0x7f, false};
        case TPT_F8E5M2:
            return (format8_t){2, 15, 0x7b, 0x7c, 0x7f, false};
        case TPT_F8E4M3FNUZ:
            return (format8_t){3, 8, 0x7f, 0x80, 0x80, true};
        default:
            return (format8_t){2, 16, 0x7f, 0x80, 0x80, true};
    }
}

static tpt_val_t word(tpt_ir_t *ir, int64_t v) { return tpt_ir_const_i(ir, TPT_U32, v); }

/* Codes of |x|, not yet looked at for overflow. Normal numbers are rounded as integers: a carry runs into the exponent, which is
 * right. Subnormal ones are rounded by the sum with a number whose last place is their unit. */
static tpt_val_t round_bits(tpt_ir_t *ir, tpt_val_t size, tpt_val_t bits, format8_t f) {
    const int drop = 23 - f.mantissa, least = 1 - f.bias;
    tpt_val_t odd = tpt_ir_and(ir, tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, bits, word(ir, drop)), word(ir, 1));
    tpt_val_t up = tpt_ir_add(ir, tpt_ir_add(ir, bits, word(ir, (1 << (drop - 1)) - 1)), odd);
    tpt_val_t normal = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, up, word(ir, drop));
    normal = tpt_ir_sub(ir, normal, word(ir, (int64_t)(127 - f.bias) << f.mantissa));
    const int64_t anchor = (int64_t)(least - f.mantissa + 23 + 127) << 23;
    tpt_val_t sum = tpt_ir_add(ir, size, tpt_ir_bitcast(ir, word(ir, anchor), TPT_F32));
    tpt_val_t small = tpt_ir_sub(ir, tpt_ir_bitcast(ir, sum, TPT_U32), word(ir, anchor));
    tpt_val_t is_small = tpt_ir_compare(ir, TPT_IR_LT, bits, word(ir, (int64_t)(least + 127) << 23));
    return tpt_ir_select(ir, is_small, small, normal);
}

tpt_val_t tpt_ir_to_float8(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype) {
    const format8_t f = format_of(dtype);
    tpt_val_t bits = tpt_ir_bitcast(ir, x, TPT_U32), sign = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, bits, word(ir, 31));
    bits = tpt_ir_and(ir, bits, word(ir, 0x7fffffff));
    tpt_val_t code = round_bits(ir, tpt_ir_bitcast(ir, bits, TPT_F32), bits, f);
    code = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GT, code, word(ir, f.largest)), word(ir, f.over), code);
    code = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GE, bits, word(ir, 0x7f800000)), word(ir, f.over), code);
    code = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GT, bits, word(ir, 0x7f800000)), word(ir, f.nan), code);
    sign = tpt_ir_binary(ir, TPT_IR_SHL, sign, word(ir, 7));
    if (f.one_zero) sign = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, code, word(ir, 0)), word(ir, 0), sign);
    code = tpt_ir_convert(ir, tpt_ir_or(ir, code, sign), TPT_U8);
    return tpt_ir_bitcast(ir, code, dtype);
}
