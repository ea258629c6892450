/* type.c - types of values and what can be asked of an element type. */
#include <stdio.h>
#include <string.h>

#include "ir_internal.h"

tpt_type_t tpt_type_make(tpt_dtype_t dtype, int rank, const int64_t *dims) {
    tpt_type_t type = {.dtype = (uint8_t)dtype, .rank = rank};
    /* Too high a rank is kept as it is, so that the builder can refuse it, but its dims cannot be. */
    for (int i = 0; i < rank && i < TPT_MAX_RANK; i++) type.dims[i] = dims[i];
    return type;
}

int64_t tpt_type_numel(const tpt_type_t *type) {
    int64_t n = 1;
    for (int i = 0; i < type->rank && i < TPT_MAX_RANK; i++) {
        if (type->dims[i] == 0) return 0;
        if (__builtin_mul_overflow(n, type->dims[i], &n)) return INT64_MAX;
    }
    return n;
}

bool tpt_type_equal(const tpt_type_t *a, const tpt_type_t *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    int n = a->rank < TPT_MAX_RANK ? a->rank : TPT_MAX_RANK;
    for (int i = 0; i < n; i++) {
        if (a->dims[i] != b->dims[i]) return false;
    }
    return true;
}

bool tpt_dtype_is_float(tpt_dtype_t d) {
    switch (d) {
        case TPT_F16:
        case TPT_BF16:
        case TPT_F32:
        case TPT_F64:
        case TPT_F8E4M3FN:
        case TPT_F8E5M2:
        case TPT_F8E4M3FNUZ:
        case TPT_F8E5M2FNUZ:
            return true;
        default:
            return false;
    }
}

bool tpt_dtype_is_complex(tpt_dtype_t d) { return d == TPT_C64 || d == TPT_C128; }

bool tpt_dtype_is_int(tpt_dtype_t d) { return d >= TPT_U8 && d <= TPT_U64; }

bool tpt_dtype_is_signed(tpt_dtype_t d) {
    return (d >= TPT_I8 && d <= TPT_I64) || tpt_dtype_is_float(d) || tpt_dtype_is_complex(d);
}

tpt_dtype_t tpt_dtype_real(tpt_dtype_t d) { return d == TPT_C64 ? TPT_F32 : d == TPT_C128 ? TPT_F64 : d; }

tpt_dtype_t tpt_dtype_complex(tpt_dtype_t d) {
    if (tpt_dtype_is_complex(d)) return d;
    return d == TPT_F64 ? TPT_C128 : TPT_C64;
}

tpt_dtype_t tpt_dtype_opmath(tpt_dtype_t d) { return tpt_dtype_is_float(d) && d != TPT_F64 ? TPT_F32 : d; }

const char *tpt_dtype_mlir(tpt_dtype_t dtype) {
    static const char *const names[TPT_DTYPE_COUNT] = {
        [TPT_BOOL] = "i1",
        [TPT_U8] = "ui8",
        [TPT_I8] = "i8",
        [TPT_I16] = "i16",
        [TPT_I32] = "i32",
        [TPT_I64] = "i64",
        [TPT_U16] = "ui16",
        [TPT_U32] = "ui32",
        [TPT_U64] = "ui64",
        [TPT_F16] = "f16",
        [TPT_BF16] = "bf16",
        [TPT_F32] = "f32",
        [TPT_F64] = "f64",
        [TPT_C64] = "complex<f32>",
        [TPT_C128] = "complex<f64>",
        [TPT_F8E4M3FN] = "f8E4M3FN",
        [TPT_F8E5M2] = "f8E5M2",
        [TPT_F8E4M3FNUZ] = "f8E4M3FNUZ",
        [TPT_F8E5M2FNUZ] = "f8E5M2FNUZ",
    };
    const char *name = (unsigned)dtype < TPT_DTYPE_COUNT ? names[dtype] : NULL;
    return name != NULL ? name : "none";
}

const char *tpt_type_text(const tpt_type_t *type, char text[TPT_TYPE_TEXT]) {
    size_t n = (size_t)snprintf(text, TPT_TYPE_TEXT, "%s[", tpt_dtype_name((tpt_dtype_t)type->dtype));
    for (int i = 0; i < type->rank && i < TPT_MAX_RANK && n < TPT_TYPE_TEXT; i++) {
        n += (size_t)snprintf(text + n, TPT_TYPE_TEXT - n, i ? ", %lld" : "%lld", (long long)type->dims[i]);
    }
    if (n < TPT_TYPE_TEXT) snprintf(text + n, TPT_TYPE_TEXT - n, "]");
    return text;
}

tpt_status_t *tpt_ir_check_type(const tpt_type_t *type) {
    char text[TPT_TYPE_TEXT];
    if (type->dtype == TPT_DTYPE_NONE || type->dtype >= TPT_DTYPE_COUNT) return TPT_BAD("a value needs an element type");
    if (type->rank < 0 || type->rank > TPT_MAX_RANK) {
        return TPT_BAD("tensors of %d dimensions are not supported (at most %d)", (int)type->rank, TPT_MAX_RANK);
    }
    int64_t bytes = (int64_t)tpt_dtype_size((tpt_dtype_t)type->dtype);
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] < 0) return TPT_BAD("negative dimension in %s", tpt_type_text(type, text));
        int64_t factor = type->dims[i] > 0 ? type->dims[i] : 1;
        if (__builtin_mul_overflow(bytes, factor, &bytes)) return TPT_BAD("%s is too large", tpt_type_text(type, text));
    }
    return NULL;
}
