/* random_bits.c - Threefry-2x32 with 20 rounds, written out in elementwise integer ops.
 *
 * A plugin's rng_bit_generator gives its words in four long runs, which XLA's CPU compiler computes four times over and
 * cannot fuse into what uses them. Here an element's words depend on the seed and the element's number alone: the same bits on
 * every plugin, one loop together with their consumer, and only 32-bit adds, shifts and xors, which vectorise everywhere. */
#include "ops/random.h"

#include <math.h>

static tpt_val_t word(tpt_ir_t *ir, tpt_val_t state, int64_t at, int shift) {
    tpt_val_t w = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, state, 0, at, at + 1), 0, NULL);
    if (shift > 0) w = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, w, tpt_ir_const_i(ir, TPT_U64, shift));
    return tpt_ir_convert(ir, w, TPT_U32);
}

static tpt_val_t rotate(tpt_ir_t *ir, tpt_val_t x, int by) {
    tpt_val_t left = tpt_ir_binary(ir, TPT_IR_SHL, x, tpt_ir_const_i(ir, TPT_U32, by));
    tpt_val_t right = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, x, tpt_ir_const_i(ir, TPT_U32, 32 - by));
    return tpt_ir_or(ir, left, right);
}

/* x and key: two words each; rounds of add, rotate, xor with a key word added after every fourth. */
static void threefry(tpt_ir_t *ir, const tpt_val_t *key, tpt_val_t *x) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    tpt_val_t keys[3] = {key[0], key[1], tpt_ir_binary(ir, TPT_IR_XOR, key[0], key[1])};
    keys[2] = tpt_ir_binary(ir, TPT_IR_XOR, keys[2], tpt_ir_const_i(ir, TPT_U32, 0x1BD11BDA));
    x[0] = tpt_ir_add(ir, x[0], keys[0]);
    x[1] = tpt_ir_add(ir, x[1], keys[1]);
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x[0] = tpt_ir_add(ir, x[0], x[1]);
            x[1] = tpt_ir_binary(ir, TPT_IR_XOR, rotate(ir, x[1], turns[group % 2][i]), x[0]);
        }
        x[0] = tpt_ir_add(ir, x[0], keys[(group + 1) % 3]);
        tpt_val_t second = tpt_ir_add(ir, keys[(group + 2) % 3], tpt_ir_const_i(ir, TPT_U32, group + 1));
        x[1] = tpt_ir_add(ir, x[1], second);
    }
}

/* The key is the seed; the counter is the generator's offset plus the element's number. */
tpt_random_t tpt_random_open(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t state = tpt_lower_rng(L);
    return (tpt_random_t){
        .key = {word(ir, state, 0, 0), word(ir, state, 0, 32)}, .low = word(ir, state, 1, 0), .high = word(ir, state, 1, 32)};
}

void tpt_random_draw(tpt_ir_t *ir, const tpt_random_t *random, tpt_val_t round, const tpt_type_t *type,
                     tpt_val_t out_words[2]) {
    int64_t n = tpt_type_numel(type);
    if (n > UINT32_MAX) {
        tpt_status_t *status =
            tpt_status_make(TPT_UNIMPLEMENTED, "more than 2^32 random numbers in one call are not implemented");
        out_words[0] = out_words[1] = tpt_ir_fail(ir, status);
        return;
    }
    tpt_val_t at = tpt_ir_add(ir, tpt_ir_iota(ir, tpt_type_make(TPT_U32, 1, &n), 0), random->low);
    tpt_val_t carry = tpt_ir_convert(ir, tpt_ir_compare(ir, TPT_IR_LT, at, random->low), TPT_U32), high = random->high;
    /* Bits that the offset of a generator does not reach. */
    if (round != TPT_VAL_NONE)
        high = tpt_ir_add(ir, high, tpt_ir_binary(ir, TPT_IR_SHL, round, tpt_ir_const_i(ir, TPT_U32, 12)));
    tpt_val_t x[2] = {at, tpt_ir_add(ir, carry, high)};
    threefry(ir, random->key, x);
    for (int i = 0; i < 2; i++) out_words[i] = tpt_ir_reshape(ir, x[i], type->rank, type->dims);
}

void tpt_random_words(tpt_lower_t *L, const tpt_type_t *type, tpt_val_t out_words[2]) {
    tpt_random_t random = tpt_random_open(L);
    tpt_random_draw(L->ir, &random, TPT_VAL_NONE, type, out_words);
}

tpt_val_t tpt_random_u64(tpt_lower_t *L, const tpt_type_t *type) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t words[2];
    tpt_random_words(L, type, words);
    tpt_val_t high = tpt_ir_binary(ir, TPT_IR_SHL, tpt_ir_convert(ir, words[1], TPT_U64), tpt_ir_const_i(ir, TPT_U64, 32));
    return tpt_ir_or(ir, tpt_ir_convert(ir, words[0], TPT_U64), high);
}

tpt_val_t tpt_random_positive(tpt_ir_t *ir, tpt_val_t word) {
    bool wide = tpt_ir_dtype(ir, word) == TPT_U64;
    tpt_val_t whole = tpt_ir_convert(ir, word, wide ? TPT_F64 : TPT_F32);
    whole = tpt_ir_add(ir, whole, tpt_ir_like(ir, whole, 0.5));
    return tpt_ir_mul(ir, whole, tpt_ir_like(ir, whole, wide ? 0x1p-64 : 0x1p-32));
}

/* The top bits of a word as a whole number below 2^digits, scaled to [0, 1). */
static tpt_val_t fraction(tpt_ir_t *ir, tpt_val_t word, int digits) {
    tpt_dtype_t d = tpt_ir_dtype(ir, word);
    bool wide = d == TPT_U64;
    word = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, word, tpt_ir_const_i(ir, d, (wide ? 64 : 32) - digits));
    tpt_val_t whole = wide ? tpt_ir_convert(ir, word, TPT_F64) : tpt_ir_convert(ir, tpt_ir_convert(ir, word, TPT_I32), TPT_F32);
    return tpt_ir_mul(ir, whole, tpt_ir_like(ir, whole, ldexp(1.0, -digits)));
}

/* As many bits as the dtype holds exactly, so that rounding never gives 1. */
tpt_val_t tpt_lower_uniform(tpt_lower_t *L, tpt_type_t type) {
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    if (d == TPT_F64) return fraction(L->ir, tpt_random_u64(L, &type), 53);
    if (d != TPT_F32 && d != TPT_F16 && d != TPT_BF16)
        return tpt_lower_fail(L, TPT_UNIMPLEMENTED, "random numbers of dtype %s are not implemented", tpt_dtype_name(d));
    tpt_val_t words[2];
    tpt_random_words(L, &type, words);
    return tpt_ir_convert(L->ir, fraction(L->ir, words[0], d == TPT_F16 ? 11 : d == TPT_BF16 ? 8 : 24), d);
}

/* The cosine of a uniform angle. */
static tpt_val_t cosine_64(tpt_ir_t *ir, tpt_val_t word) {
    tpt_val_t turn = fraction(ir, word, 53);
    return tpt_ir_unary(ir, TPT_IR_COS, tpt_ir_mul(ir, turn, tpt_ir_like(ir, turn, 2.0 * M_PI)));
}

/* 1 - 2 sin^2(pi t) with t in [-1/2, 1/2]: a short series is exact to float32 there, and a general cosine takes four times as
 * long on the CPU plugins. */
static tpt_val_t cosine_32(tpt_ir_t *ir, tpt_val_t word) {
    static const double series[] = {-0.00737043094571435, 0.0821458866111282, -0.599264529320792,
                                    2.55016403987735,     -5.16771278004997,  M_PI};
    tpt_val_t turn = tpt_ir_convert(ir, tpt_ir_bitcast(ir, word, TPT_I32), TPT_F32);
    turn = tpt_ir_mul(ir, turn, tpt_ir_like(ir, turn, 0x1p-32));
    tpt_val_t square = tpt_ir_mul(ir, turn, turn), sum = tpt_ir_like(ir, turn, series[0]);
    for (int i = 1; i < 6; i++) sum = tpt_ir_add(ir, tpt_ir_mul(ir, sum, square), tpt_ir_like(ir, turn, series[i]));
    tpt_val_t sine = tpt_ir_mul(ir, sum, turn);
    tpt_val_t twice = tpt_ir_mul(ir, tpt_ir_mul(ir, sine, sine), tpt_ir_like(ir, turn, 2.0));
    return tpt_ir_sub(ir, tpt_ir_like(ir, turn, 1.0), twice);
}

/* Box and Muller: a radius and an angle. An element takes the cosine alone: pairs would have to be put together again. */
static tpt_val_t normal_real(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t words[2];
    bool wide = type.dtype == TPT_F64;
    if (wide) {
        words[0] = tpt_random_u64(L, &type);
        words[1] = tpt_random_u64(L, &type);
    } else {
        tpt_random_words(L, &type, words);
    }
    tpt_val_t radius = tpt_ir_unary(ir, TPT_IR_LOG, tpt_random_positive(ir, words[0]));
    radius = tpt_ir_unary(ir, TPT_IR_SQRT, tpt_ir_mul(ir, radius, tpt_ir_like(ir, radius, -2.0)));
    tpt_val_t cosine = wide ? cosine_64(ir, words[1]) : cosine_32(ir, words[1]);
    return tpt_ir_convert(ir, tpt_ir_mul(ir, radius, cosine), (tpt_dtype_t)type.dtype);
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

tpt_val_t tpt_random_exponential(tpt_lower_t *L, tpt_type_t type) {
    tpt_ir_t *ir = L->ir;
    bool wide = type.dtype == TPT_F64;
    tpt_val_t words[2];
    if (wide)
        words[0] = tpt_random_u64(L, &type);
    else
        tpt_random_words(L, &type, words);
    tpt_val_t e = tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_LOG, tpt_random_positive(ir, words[0])));
    return tpt_ir_max(ir, e, tpt_ir_like(ir, e, wide ? 0x1p-54 : 0x1p-25));
}
