/* promote.c - PyTorch's type promotion: c10::promoteTypes and the three categories of result_type. */
#include <string.h>

#include "ops/ops.h"

/* Default dtypes of Python's float and complex. A user's other default dtype shows in the outputs' specs (expr.c). */
#define TPT_DEFAULT_FLOAT TPT_F32
#define TPT_DEFAULT_COMPLEX TPT_C64

static bool is_fp8(tpt_dtype_t d) { return d == TPT_F8E4M3FN || d == TPT_F8E5M2 || d == TPT_F8E4M3FNUZ || d == TPT_F8E5M2FNUZ; }

static bool is_unsigned(tpt_dtype_t d) { return d == TPT_U8 || d == TPT_U16 || d == TPT_U32 || d == TPT_U64; }

static tpt_dtype_t promote_ints(tpt_dtype_t a, tpt_dtype_t b) {
    size_t size_a = tpt_dtype_size(a), size_b = tpt_dtype_size(b);
    if (is_unsigned(a) == is_unsigned(b)) return size_a >= size_b ? a : b;
    tpt_dtype_t u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
    /* A signed type holds every value of a narrower unsigned one; of equal width the next wider is taken. */
    if (u == TPT_U8) return s == TPT_I8 ? TPT_I16 : s;
    return TPT_DTYPE_NONE; /* uint16 and wider with signed: PyTorch refuses */
}

static tpt_dtype_t promote_floats(tpt_dtype_t a, tpt_dtype_t b) {
    if (is_fp8(a) || is_fp8(b)) return TPT_DTYPE_NONE; /* two different types, one of them float8: PyTorch refuses */
    if (a == TPT_F64 || b == TPT_F64) return TPT_F64;
    return TPT_F32; /* float16 with bfloat16, or either with float32 */
}

/* TPT_DTYPE_NONE stands for "undefined" as an operand (the other wins) and for "no promotion" as a result. */
tpt_dtype_t tpt_promote_types(tpt_dtype_t a, tpt_dtype_t b) {
    if (a == b || b == TPT_DTYPE_NONE) return a;
    if (a == TPT_DTYPE_NONE) return b;
    if (tpt_dtype_is_complex(a) || tpt_dtype_is_complex(b)) {
        bool wide = a == TPT_C128 || b == TPT_C128 || a == TPT_F64 || b == TPT_F64;
        return wide ? TPT_C128 : TPT_C64;
    }
    bool float_a = tpt_dtype_is_float(a), float_b = tpt_dtype_is_float(b);
    if (float_a && float_b) return promote_floats(a, b);
    if (float_a) return a;
    if (float_b) return b;
    if (a == TPT_BOOL) return b;
    if (b == TPT_BOOL) return a;
    return promote_ints(a, b);
}

/* A category of higher priority decides, unless the lower one is of a higher kind (bool < int < float < complex). */
static tpt_dtype_t combine(tpt_dtype_t higher, tpt_dtype_t lower) {
    if (tpt_dtype_is_complex(higher)) return higher;
    if (tpt_dtype_is_float(higher)) return tpt_dtype_is_complex(lower) ? tpt_dtype_complex(higher) : higher;
    if (higher == TPT_BOOL || tpt_dtype_is_float(lower) || tpt_dtype_is_complex(lower)) return tpt_promote_types(higher, lower);
    return higher != TPT_DTYPE_NONE ? higher : lower;
}

/* Numbers that scale or fill, masks, and outputs have no say in the result's type. */
static bool takes_part(const char *name) {
    static const char *const silent[] = {"alpha", "beta", "value", "eps", "condition", "mask", "out", "grad_input"};
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        if (strcmp(name, silent[i]) == 0) return false;
    return true;
}

static tpt_dtype_t wrapped_dtype(tpt_dtype_t d) {
    if (tpt_dtype_is_complex(d)) return TPT_DEFAULT_COMPLEX;
    if (d == TPT_U64) return TPT_I64; /* an integer from 2^63 on has no say of its own */
    return tpt_dtype_is_float(d) ? TPT_DEFAULT_FLOAT : d;
}

static tpt_dtype_t promote(const tpt_lower_t *L, bool numbers) {
    tpt_dtype_t dims = TPT_DTYPE_NONE, zero = TPT_DTYPE_NONE, wrapped = TPT_DTYPE_NONE;
    for (int i = 0; i < L->nargs; i++) {
        const tpt_arg_t *arg = &L->args[i];
        if (!takes_part(L->names[i])) continue;
        if (arg->kind == TPT_ARG_TENSOR) {
            tpt_dtype_t d = (tpt_dtype_t)arg->u.tensor.dtype;
            if (arg->u.tensor.rank > 0)
                dims = tpt_promote_types(dims, d);
            else
                zero = tpt_promote_types(zero, d);
        } else if (arg->kind == TPT_ARG_NUMBER && (numbers || !arg->u.number.wrapped)) {
            tpt_dtype_t d = (tpt_dtype_t)arg->u.number.dtype;
            if (arg->u.number.wrapped)
                wrapped = tpt_promote_types(wrapped, wrapped_dtype(d));
            else
                zero = tpt_promote_types(zero, d);
        }
    }
    return combine(dims, combine(zero, wrapped));
}

tpt_dtype_t tpt_promote_args(const tpt_lower_t *L) { return promote(L, true); }

tpt_dtype_t tpt_promote_tensors(const tpt_lower_t *L) { return promote(L, false); }
