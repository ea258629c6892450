/* build_leaf.c - constants and iota. */
#include <math.h>

#include "ir_internal.h"

static bool is_exact(tpt_dtype_t d) { return !tpt_dtype_is_float(d) && !tpt_dtype_is_complex(d); }

/* Keeps the low bits of an integer, as a cast does; U64 is kept in the sign bit too. */
static int64_t wrap_int(tpt_dtype_t dtype, int64_t v) {
    switch (dtype) {
        case TPT_BOOL:
            return v != 0;
        case TPT_U8:
            return (uint8_t)v;
        case TPT_I8:
            return (int8_t)v;
        case TPT_U16:
            return (uint16_t)v;
        case TPT_I16:
            return (int16_t)v;
        case TPT_U32:
            return (uint32_t)v;
        case TPT_I32:
            return (int32_t)v;
        default:
            return v;
    }
}

static int64_t lowest_int(tpt_dtype_t d) {
    switch (d) {
        case TPT_I8:
            return INT8_MIN;
        case TPT_I16:
            return INT16_MIN;
        case TPT_I32:
            return INT32_MIN;
        case TPT_I64:
            return INT64_MIN;
        default:
            return 0;
    }
}

static int64_t highest_int(tpt_dtype_t d) {
    switch (d) {
        case TPT_BOOL:
            return 1;
        case TPT_U8:
            return UINT8_MAX;
        case TPT_I8:
            return INT8_MAX;
        case TPT_U16:
            return UINT16_MAX;
        case TPT_I16:
            return INT16_MAX;
        case TPT_U32:
            return UINT32_MAX;
        case TPT_I32:
            return INT32_MAX;
        case TPT_U64:
            return -1;
        default:
            return INT64_MAX;
    }
}

/* A double cast to an integer dtype: truncated, out of range clamped, NaN zero - as XLA converts. */
static int64_t int_of(tpt_dtype_t dtype, double v) {
    if (dtype == TPT_BOOL) return v != 0;
    if (isnan(v)) return 0;
    if (dtype == TPT_U64) {
        return v <= 0 ? 0 : v >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)v;
    }
    if (v <= (double)lowest_int(dtype)) return lowest_int(dtype);
    if (v >= (double)highest_int(dtype)) return highest_int(dtype);
    return (int64_t)v;
}

static tpt_val_t emit_const(tpt_ir_t *ir, tpt_type_t type, int n, const int64_t *ints, const double *floats) {
    tpt_attr_const_t attr = {n, ints, floats};
    return tpt_ir_emit1(
        ir, &(tpt_emit_t){.kind = TPT_KIND_CONST, .nout = 1, .want = &type, .attr = &attr, .attr_bytes = sizeof attr});
}

/* Exactly one of `ints` and `floats` is given; the other kind is made from it where the dtype asks for it. */
static tpt_val_t make_const(tpt_ir_t *ir, tpt_type_t type, int n, const int64_t *ints, const double *floats) {
    if (tpt_ir_dead(ir)) return TPT_VAL_NONE;
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    if (n < 0) return tpt_ir_error(ir, "a constant of %d elements", n);
    size_t bytes = 16 * ((size_t)n + 1);
    if (is_exact(d)) {
        int64_t *copy = tpt_arena_alloc(&ir->arena, bytes);
        if (copy == NULL) return tpt_ir_fail(ir, tpt_status_oom(bytes));
        for (int i = 0; i < n; i++) copy[i] = ints != NULL ? wrap_int(d, ints[i]) : int_of(d, floats[i]);
        return emit_const(ir, type, n, copy, NULL);
    }
    double *copy = tpt_arena_alloc(&ir->arena, bytes);
    if (copy == NULL) return tpt_ir_fail(ir, tpt_status_oom(bytes));
    int step = tpt_dtype_is_complex(d) ? 2 : 1; /* complex: re, im */
    for (int i = 0; i < n; i++) {
        double v = floats != NULL ? floats[i] : (double)ints[i];
        /* One rounding, not two: an int64 may not fit a double. */
        if (ints != NULL && tpt_dtype_real(d) == TPT_F32) v = (double)(float)ints[i];
        copy[step * i] = v;
    }
    return emit_const(ir, type, n, NULL, copy);
}

tpt_val_t tpt_ir_const_f(tpt_ir_t *ir, tpt_dtype_t dtype, double value) {
    return make_const(ir, tpt_type_make(dtype, 0, NULL), 1, NULL, &value);
}

tpt_val_t tpt_ir_const_i(tpt_ir_t *ir, tpt_dtype_t dtype, int64_t value) {
    return make_const(ir, tpt_type_make(dtype, 0, NULL), 1, &value, NULL);
}

/* A splat is a broadcast scalar: plugins then never hold the whole constant. */
tpt_val_t tpt_ir_full_f(tpt_ir_t *ir, tpt_type_t type, double value) {
    return tpt_ir_broadcast_to(ir, tpt_ir_const_f(ir, (tpt_dtype_t)type.dtype, value), type.rank, type.dims);
}

tpt_val_t tpt_ir_full_i(tpt_ir_t *ir, tpt_type_t type, int64_t value) {
    return tpt_ir_broadcast_to(ir, tpt_ir_const_i(ir, (tpt_dtype_t)type.dtype, value), type.rank, type.dims);
}

tpt_val_t tpt_ir_const_ints(tpt_ir_t *ir, tpt_dtype_t dtype, int n, const int64_t *values) {
    static const int64_t none;
    int64_t size = n;
    return make_const(ir, tpt_type_make(dtype, 1, &size), n, n > 0 ? values : &none, NULL);
}

tpt_val_t tpt_ir_const_floats(tpt_ir_t *ir, tpt_dtype_t dtype, int n, const double *values) {
    static const double none;
    int64_t size = n;
    return make_const(ir, tpt_type_make(dtype, 1, &size), n, NULL, n > 0 ? values : &none);
}

tpt_val_t tpt_ir_iota(tpt_ir_t *ir, tpt_type_t type, int dim) {
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    if (dim < 0) dim += type.rank;
    /* Counting happens in a dtype that every plugin counts in. */
    tpt_type_t counted = type;
    if (d == TPT_BOOL || (!is_exact(d) && d != TPT_F64 && d != TPT_C128)) counted.dtype = d == TPT_BOOL ? TPT_I32 : TPT_F32;
    if (d == TPT_C128) counted.dtype = TPT_F64;
    tpt_val_t v = tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_IOTA, .nout = 1, .want = &counted, .num = dim});
    return tpt_ir_convert(ir, v, d);
}

static tpt_val_t extreme(tpt_ir_t *ir, tpt_dtype_t dtype, bool high) {
    if (tpt_ir_dead(ir)) return TPT_VAL_NONE;
    if (tpt_dtype_is_complex(dtype)) return tpt_ir_fail(ir, tpt_status_make(TPT_UNIMPLEMENTED, "%s has no order", tpt_dtype_name(dtype)));
    if (is_exact(dtype)) return tpt_ir_const_i(ir, dtype, high ? highest_int(dtype) : lowest_int(dtype));
    double tiny = 0, most = INFINITY;
    /* Three of the 8-bit kinds have no infinity: their largest number stands for it. */
    if (dtype == TPT_F8E4M3FN || dtype == TPT_F8E4M3FNUZ || dtype == TPT_F8E5M2FNUZ) tpt_float_limits(dtype, &tiny, &most);
    return tpt_ir_const_f(ir, dtype, high ? most : -most);
}

tpt_val_t tpt_ir_lowest(tpt_ir_t *ir, tpt_dtype_t dtype) { return extreme(ir, dtype, false); }
tpt_val_t tpt_ir_highest(tpt_ir_t *ir, tpt_dtype_t dtype) { return extreme(ir, dtype, true); }
