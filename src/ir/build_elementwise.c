/* build_elementwise.c - elementwise ops, with operands broadcast to their common shape, and PyTorch's casts. */
#include "ir_internal.h"

/* Broadcasts n <= 3 values, in place, to the shape that numpy's rule gives them. */
static bool to_common_shape(tpt_ir_t *ir, int n, tpt_val_t *xs) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    tpt_type_t shape = {0};
    for (int k = 0; k < n; k++) {
        if (!tpt_ir_good(ir, xs[k])) return false;
        if (tpt_ir_rank(ir, xs[k]) > shape.rank) shape.rank = tpt_ir_rank(ir, xs[k]);
    }
    for (int d = 0; d < shape.rank; d++) {
        int64_t size = 1;
        for (int k = 0; k < n; k++) {
            const tpt_type_t *x = tpt_ir_type(ir, xs[k]);
            int i = d - (shape.rank - x->rank);
            if (i < 0 || x->dims[i] == 1 || x->dims[i] == size) continue;
            if (size != 1) {
                tpt_ir_error(ir, "%s and %s do not broadcast", tpt_type_text(tpt_ir_type(ir, xs[0]), a), tpt_type_text(x, b));
                return false;
            }
            size = x->dims[i];
        }
        shape.dims[d] = size;
    }
    for (int k = 0; k < n; k++) xs[k] = tpt_ir_broadcast_to(ir, xs[k], shape.rank, shape.dims);
    return !tpt_ir_dead(ir);
}

tpt_val_t tpt_ir_unary(tpt_ir_t *ir, tpt_ir_unary_op_t op, tpt_val_t x) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    bool is_unsigned = tpt_dtype_is_int(d) && !tpt_dtype_is_signed(d);
    /* StableHLO defines these for signed numbers, or for complex ones, only; elsewhere they are trivial. */
    if (op == TPT_IR_ABS && is_unsigned) return x;
    if (op == TPT_IR_SIGN && is_unsigned) return tpt_ir_min(ir, x, tpt_ir_const_i(ir, d, 1));
    if (op == TPT_IR_REAL && !tpt_dtype_is_complex(d)) return x;
    if (op == TPT_IR_IMAG && !tpt_dtype_is_complex(d))
        return tpt_ir_broadcast_to(ir, tpt_ir_const_i(ir, d, 0), tpt_ir_rank(ir, x), tpt_ir_type(ir, x)->dims);
    if (op == TPT_IR_SQRT && tpt_dtype_is_complex(d)) return tpt_ir_complex_sqrt(ir, x);
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_UNARY, .sub = (int)op, .nin = 1, .in = &x, .nout = 1});
}

static tpt_val_t emit_two(tpt_ir_t *ir, tpt_kind_t kind, int sub, tpt_val_t x, tpt_val_t y) {
    tpt_val_t xs[2] = {x, y};
    if (!to_common_shape(ir, 2, xs)) return TPT_VAL_NONE;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = kind, .sub = sub, .nin = 2, .in = xs, .nout = 1});
}

tpt_val_t tpt_ir_binary(tpt_ir_t *ir, tpt_ir_binary_op_t op, tpt_val_t x, tpt_val_t y) {
    if (op == TPT_IR_DIV && tpt_ir_good(ir, x) && tpt_ir_good(ir, y) && tpt_dtype_is_complex(tpt_ir_dtype(ir, x)) &&
        tpt_ir_dtype(ir, x) == tpt_ir_dtype(ir, y))
        return tpt_ir_complex_divide(ir, x, y);
    return emit_two(ir, TPT_KIND_BINARY, (int)op, x, y);
}

tpt_val_t tpt_ir_compare(tpt_ir_t *ir, tpt_ir_cmp_t cmp, tpt_val_t x, tpt_val_t y) {
    return emit_two(ir, TPT_KIND_COMPARE, (int)cmp, x, y);
}

tpt_val_t tpt_ir_select(tpt_ir_t *ir, tpt_val_t cond, tpt_val_t on_true, tpt_val_t on_false) {
    tpt_val_t xs[3] = {cond, on_true, on_false};
    if (!to_common_shape(ir, 3, xs)) return TPT_VAL_NONE;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_SELECT, .nin = 3, .in = xs, .nout = 1});
}

static tpt_val_t emit_as(tpt_ir_t *ir, tpt_kind_t kind, tpt_val_t x, tpt_dtype_t dtype) {
    tpt_type_t want = {.dtype = (uint8_t)dtype};
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = kind, .nin = 1, .in = &x, .nout = 1, .want = &want});
}

static bool is_f8(tpt_dtype_t d) { return tpt_dtype_is_float(d) && tpt_dtype_size(d) == 1; }

tpt_val_t tpt_ir_convert(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_dtype_t from = tpt_ir_dtype(ir, x);
    if (from == dtype) return x;
    if (dtype == TPT_BOOL) return tpt_ir_compare(ir, TPT_IR_NE, x, tpt_ir_const_i(ir, from, 0));
    if (tpt_dtype_is_complex(dtype)) {
        tpt_dtype_t part = tpt_dtype_real(dtype);
        tpt_val_t re = tpt_ir_convert(ir, tpt_ir_unary(ir, TPT_IR_REAL, x), part);
        tpt_val_t im = tpt_dtype_is_complex(from) ? tpt_ir_convert(ir, tpt_ir_unary(ir, TPT_IR_IMAG, x), part)
                                                  : tpt_ir_const_f(ir, part, 0);
        return tpt_ir_binary(ir, TPT_IR_COMPLEX, re, im);
    }
    if (tpt_dtype_is_complex(from)) return tpt_ir_convert(ir, tpt_ir_unary(ir, TPT_IR_REAL, x), dtype);
    /* PyTorch's 8-bit floats convert by way of float32. */
    if ((is_f8(from) || is_f8(dtype)) && from != TPT_F32 && dtype != TPT_F32) {
        x = tpt_ir_convert(ir, x, TPT_F32);
    }
    if (is_f8(dtype)) return tpt_ir_to_float8(ir, tpt_ir_convert(ir, x, TPT_F32), dtype);
    /* -1.0 becomes 255, as PyTorch has it, which goes by way of a wider signed integer; XLA's own conversion stops at 0. */
    if ((dtype == TPT_U8 || dtype == TPT_U16) && tpt_dtype_is_float(from)) x = emit_as(ir, TPT_KIND_CONVERT, x, TPT_I32);
    return emit_as(ir, TPT_KIND_CONVERT, x, dtype);
}

/* XLA's simplifier joins two reinterpretations in a row and gets the shape wrong when the sizes differ on the way ([2]xf32 ->
 * f64 -> [8]xui8 is refused as [2x4]): so they are joined here. Row-major bytes stay the same, so a reshape does the rest. */
static tpt_val_t source_of_bits(const tpt_ir_t *ir, tpt_val_t x) {
    tpt_val_t source = x;
    for (int32_t n = ir->values[x]->node; n >= 0; n = ir->values[x]->node) {
        const tpt_node_t *node = ir->nodes[n];
        if (node->kind != TPT_KIND_BITCAST && node->kind != TPT_KIND_RESHAPE) break;
        x = node->in[0];
        if (node->kind == TPT_KIND_BITCAST) source = x;
    }
    return source;
}

static tpt_val_t reinterpret(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype) {
    tpt_val_t direct = emit_as(ir, TPT_KIND_BITCAST, x, dtype); /* checks the shape; not printed if unused */
    if (tpt_ir_dead(ir)) return direct;
    tpt_val_t source = source_of_bits(ir, x);
    tpt_type_t want = *tpt_ir_type(ir, direct);
    size_t a = tpt_dtype_size(tpt_ir_dtype(ir, source)), b = tpt_dtype_size(dtype);
    if (source == x || (a < b && want.rank >= TPT_MAX_RANK)) return direct;
    if (tpt_ir_dtype(ir, source) == dtype) return tpt_ir_reshape(ir, source, want.rank, want.dims);
    if (a >= b) return tpt_ir_reshape(ir, emit_as(ir, TPT_KIND_BITCAST, source, dtype), want.rank, want.dims);
    want.dims[want.rank] = (int64_t)(b / a);
    return emit_as(ir, TPT_KIND_BITCAST, tpt_ir_reshape(ir, source, want.rank + 1, want.dims), dtype);
}

/* XLA reinterprets neither bool nor complex: a complex number is two reals along a new last dim. */
static tpt_val_t parts_of_complex(tpt_ir_t *ir, tpt_val_t x) {
    tpt_val_t parts[2] = {tpt_ir_unsqueeze(ir, tpt_ir_unary(ir, TPT_IR_REAL, x), -1),
                          tpt_ir_unsqueeze(ir, tpt_ir_unary(ir, TPT_IR_IMAG, x), -1)};
    return tpt_ir_concat(ir, 2, parts, -1);
}

static tpt_val_t complex_of_parts(tpt_ir_t *ir, tpt_val_t x) {
    if (tpt_ir_rank(ir, x) < 1 || tpt_ir_dim(ir, x, -1) != 2) return tpt_ir_error(ir, "no pairs to make complex numbers of");
    int last = tpt_ir_rank(ir, x) - 1;
    tpt_val_t re = tpt_ir_squeeze(ir, tpt_ir_slice_dim(ir, x, last, 0, 1), last);
    tpt_val_t im = tpt_ir_squeeze(ir, tpt_ir_slice_dim(ir, x, last, 1, 2), last);
    return tpt_ir_binary(ir, TPT_IR_COMPLEX, re, im);
}

tpt_val_t tpt_ir_bitcast(tpt_ir_t *ir, tpt_val_t x, tpt_dtype_t dtype) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_dtype_t from = tpt_ir_dtype(ir, x);
    if (from == dtype) return x;
    if (from == TPT_BOOL) return tpt_ir_bitcast(ir, tpt_ir_convert(ir, x, TPT_U8), dtype);
    if (dtype == TPT_BOOL) return tpt_ir_convert(ir, tpt_ir_bitcast(ir, x, TPT_U8), TPT_BOOL);
    size_t a = tpt_dtype_size(from), b = tpt_dtype_size(dtype);
    if (!tpt_dtype_is_complex(from) && !tpt_dtype_is_complex(dtype)) return reinterpret(ir, x, dtype);
    if (tpt_dtype_is_complex(from)) {
        tpt_val_t parts = parts_of_complex(ir, x); /* [..., 2] of size a / 2 */
        tpt_dtype_t part = tpt_dtype_real(from);
        if (dtype == part || tpt_ir_dead(ir)) return parts;
        /* The simplifier sees through the pairing: keep it from the trap above. */
        if (b != tpt_dtype_size(part)) tpt_ir_barrier(ir, 1, &parts, &parts);
        if (tpt_dtype_is_complex(dtype)) { /* C64 [..., 2] <-> C128 [...] */
            return complex_of_parts(ir, tpt_ir_bitcast(ir, parts, tpt_dtype_real(dtype)));
        }
        if (b >= a / 2) return tpt_ir_bitcast(ir, parts, dtype); /* the pair joins, or stays a pair */
        tpt_val_t bits = tpt_ir_bitcast(ir, parts, dtype);       /* [..., 2, a / 2 / b] */
        int rank = tpt_ir_rank(ir, bits);
        tpt_type_t flat = *tpt_ir_type(ir, bits);
        if (rank >= 2) flat.dims[rank - 2] *= flat.dims[rank - 1];
        return tpt_ir_reshape(ir, bits, rank - 1, flat.dims);
    }
    /* Real to complex: gather enough bytes for each half, then pair the halves. */
    if (a == b || a == b / 2) return complex_of_parts(ir, tpt_ir_bitcast(ir, x, tpt_dtype_real(dtype)));
    int rank = tpt_ir_rank(ir, x);
    int64_t last = rank > 0 ? tpt_ir_dim(ir, x, -1) : 0;
    if (a > b || last != (int64_t)(b / a)) return tpt_ir_error(ir, "the last dimension does not fit the element size");
    tpt_type_t split = *tpt_ir_type(ir, x);
    if (rank >= TPT_MAX_RANK) return tpt_ir_error(ir, "too many dimensions");
    split.dims[rank - 1] = 2;
    split.dims[rank] = last / 2;
    tpt_val_t halves = tpt_ir_bitcast(ir, tpt_ir_reshape(ir, x, rank + 1, split.dims), tpt_dtype_real(dtype));
    return complex_of_parts(ir, halves);
}
