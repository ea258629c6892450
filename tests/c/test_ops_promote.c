/* test_ops_promote.c - type promotion against tables taken from PyTorch (torch.promote_types, torch.result_type). */
#include "test_ops_lower.h"

static const struct {
    const char *code;
    tpt_dtype_t dtype;
} codes[] = {{"b1", TPT_BOOL}, {"u1", TPT_U8},   {"i1", TPT_I8},  {"i2", TPT_I16}, {"i4", TPT_I32}, {"i8", TPT_I64},
             {"f2", TPT_F16},  {"bf", TPT_BF16}, {"f4", TPT_F32}, {"f8", TPT_F64}, {"c4", TPT_C64}, {"c8", TPT_C128}};
#define CODES (sizeof codes / sizeof codes[0])

static const char *const table[CODES] = {
    "b1 u1 i1 i2 i4 i8 f2 bf f4 f8 c4 c8", "u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c4 c8", "i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c4 c8",
    "i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c4 c8", "i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c4 c8", "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c4 c8",
    "f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c4 c8", "bf bf bf bf bf bf f4 bf f4 f8 c4 c8", "f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c4 c8",
    "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c8 c8", "c4 c4 c4 c4 c4 c4 c4 c4 c4 c8 c4 c8", "c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8",
};

static tpt_dtype_t decode(const char *code) {
    for (size_t i = 0; i < CODES; i++)
        if (memcmp(codes[i].code, code, 2) == 0) return codes[i].dtype;
    fail_msg("no dtype '%.2s'", code);
    return TPT_DTYPE_NONE;
}

static void pairs(void **state) {
    (void)state;
    for (size_t i = 0; i < CODES; i++)
        for (size_t j = 0; j < CODES; j++)
            assert_int_equal(tpt_promote_types(codes[i].dtype, codes[j].dtype), decode(table[i] + 3 * j));
    assert_int_equal(tpt_promote_types(TPT_U16, TPT_F16), TPT_F16);
    assert_int_equal(tpt_promote_types(TPT_U64, TPT_U64), TPT_U64);
    assert_int_equal(tpt_promote_types(TPT_U32, TPT_I64), TPT_DTYPE_NONE);
    assert_int_equal(tpt_promote_types(TPT_F8E5M2, TPT_F32), TPT_DTYPE_NONE);
    assert_int_equal(tpt_promote_types(TPT_F8E5M2, TPT_F8E5M2), TPT_F8E5M2);
}

/* Operands "x12": x is t (a tensor with dims), z (0-dim tensor), n (0-dim cpu tensor) or p (Python number). */
static void categories(void **state) {
    (void)state;
    static const struct {
        const char *operands[3], *want;
    } cases[] = {
        {{"ti4", "zi8"}, "i4"},        {{"ti4", "zf8"}, "f8"}, {{"tf4", "zf8"}, "f4"}, {{"tf2", "pf8"}, "f2"},
        {{"ti4", "pf8"}, "f4"},        {{"tb1", "pi8"}, "i8"}, {{"tu1", "pi8"}, "u1"}, {{"zi4", "pf8"}, "f4"},
        {{"zf2", "pf8"}, "f2"},        {{"tf8", "pc8"}, "c8"}, {{"ti4", "pc8"}, "c4"}, {{"tf4", "zc8"}, "c4"},
        {{"tb1", "zu1"}, "u1"},        {{"ti2", "nf8"}, "f8"}, {{"ti2", "ni8"}, "i2"}, {{"tf2", "tbf"}, "f4"},
        {{"ti4", "zf2", "pf8"}, "f2"}, {{"pi8", "pf8"}, "f4"}, {{"zb1", "pb1"}, "b1"}, {{"tbf", "nf4"}, "bf"},
    };
    const int64_t dims[1] = {3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char *const names[] = {"self", "other", "third"};
        test_call_t c;
        assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
        for (int k = 0; k < 3 && cases[i].operands[k] != NULL; k++) {
            const char *o = cases[i].operands[k];
            tpt_dtype_t d = decode(o + 1);
            if (o[0] == 't' || o[0] == 'z')
                test_call_tensor(&c, names[k], d, o[0] == 't', dims);
            else
                test_call_number(&c, names[k], d, o[0] == 'p', 1);
        }
        if (tpt_promote_args(&c.lower) != decode(cases[i].want))
            fail_msg("case %zu: %s, want %s", i, tpt_dtype_name(tpt_promote_args(&c.lower)), cases[i].want);
        test_call_free(&c);
    }
}

static void silent_arguments(void **state) {
    (void)state;
    const int64_t dims[1] = {3};
    test_call_t c;
    assert_ok(test_call_init(&c, "self", TPT_PROMOTE_SAME));
    test_call_tensor(&c, "condition", TPT_U8, 1, dims);
    test_call_tensor(&c, "self", TPT_I8, 1, dims);
    test_call_number(&c, "alpha", TPT_F64, true, 2.5);
    test_call_tensor(&c, "out", TPT_F64, 1, dims);
    assert_int_equal(tpt_promote_args(&c.lower), TPT_I8);
    test_call_number(&c, "weight", TPT_F64, true, 2.5);
    assert_int_equal(tpt_promote_args(&c.lower), TPT_F32);
    assert_int_equal(tpt_promote_tensors(&c.lower), TPT_I8);
    test_call_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),
        cmocka_unit_test(categories),
        cmocka_unit_test(silent_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
