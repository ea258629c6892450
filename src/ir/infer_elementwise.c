/* infer_elementwise.c - rules of leaves and elementwise ops. Shapes were made equal by the builder. */
#include "ir_internal.h"

enum { FLOATS = 1, COMPLEXES = 2, INTS = 4, UNSIGNED = 8, BOOLS = 16, NUMBERS = FLOATS | COMPLEXES | INTS | UNSIGNED };

static unsigned class_of(tpt_dtype_t d) {
    if (tpt_dtype_is_float(d)) return FLOATS;
    if (tpt_dtype_is_complex(d)) return COMPLEXES;
    if (d == TPT_BOOL) return BOOLS;
    return tpt_dtype_is_signed(d) ? INTS : UNSIGNED;
}

static unsigned unary_classes(int op) {
    switch (op) {
        case TPT_IR_ABS:
        case TPT_IR_SIGN:
            return FLOATS | COMPLEXES | INTS;
        case TPT_IR_NEG:
            return NUMBERS;
        case TPT_IR_NOT:
            return INTS | UNSIGNED | BOOLS;
        case TPT_IR_CLZ:
        case TPT_IR_POPCNT:
            return INTS | UNSIGNED;
        case TPT_IR_CBRT:
        case TPT_IR_CEIL:
        case TPT_IR_FLOOR:
        case TPT_IR_ROUND:
        case TPT_IR_ROUND_EVEN:
        case TPT_IR_IS_FINITE:
            return FLOATS;
        default:
            return FLOATS | COMPLEXES;
    }
}

static unsigned binary_classes(int op) {
    switch (op) {
        case TPT_IR_ADD:
        case TPT_IR_MUL:
            return NUMBERS | BOOLS;
        case TPT_IR_AND:
        case TPT_IR_OR:
        case TPT_IR_XOR:
            return INTS | UNSIGNED | BOOLS;
        case TPT_IR_SHL:
        case TPT_IR_SHR_ARITH:
        case TPT_IR_SHR_LOGIC:
            return INTS | UNSIGNED;
        case TPT_IR_ATAN2:
            return FLOATS;
        case TPT_IR_MAX:
        case TPT_IR_MIN:
            return FLOATS | INTS | UNSIGNED | BOOLS;
        case TPT_IR_REM:
            return FLOATS | INTS | UNSIGNED;
        default:
            return NUMBERS;
    }
}

static tpt_status_t *same(const tpt_type_t *a, const tpt_type_t *b) {
    char x[TPT_TYPE_TEXT], y[TPT_TYPE_TEXT];
    if (tpt_type_equal(a, b)) return NULL;
    return TPT_BAD("operands of different types: %s and %s", tpt_type_text(a, x), tpt_type_text(b, y));
}

static tpt_status_t *refuse(const tpt_type_t *type) {
    return tpt_status_make(TPT_UNIMPLEMENTED, "not defined for %s", tpt_dtype_name((tpt_dtype_t)type->dtype));
}

static tpt_status_t *infer_unary(const tpt_node_t *node, const tpt_type_t *x, tpt_type_t *types) {
    if (node->sub >= TPT_IR_UNARY_COUNT) return TPT_BAD("unknown unary op");
    if (!(class_of((tpt_dtype_t)x->dtype) & unary_classes(node->sub))) return refuse(x);
    types[0] = *x;
    if (node->sub == TPT_IR_ABS || node->sub == TPT_IR_REAL || node->sub == TPT_IR_IMAG) {
        types[0].dtype = (uint8_t)tpt_dtype_real((tpt_dtype_t)x->dtype);
    }
    if (node->sub == TPT_IR_IS_FINITE) types[0].dtype = TPT_BOOL;
    return NULL;
}

static tpt_status_t *infer_binary(const tpt_node_t *node, const tpt_type_t *x, const tpt_type_t *y, tpt_type_t *types) {
    if (node->sub >= TPT_IR_BINARY_COUNT) return TPT_BAD("unknown binary op");
    TPT_TRY(same(x, y));
    types[0] = *x;
    if (node->sub == TPT_IR_COMPLEX) {
        if (x->dtype != TPT_F32 && x->dtype != TPT_F64) return refuse(x);
        types[0].dtype = (uint8_t)tpt_dtype_complex((tpt_dtype_t)x->dtype);
        return NULL;
    }
    return class_of((tpt_dtype_t)x->dtype) & binary_classes(node->sub) ? NULL : refuse(x);
}

static tpt_status_t *infer_compare(const tpt_node_t *node, const tpt_type_t *x, const tpt_type_t *y, tpt_type_t *types) {
    if (node->sub > TPT_IR_GE) return TPT_BAD("unknown comparison");
    TPT_TRY(same(x, y));
    if (tpt_dtype_is_complex((tpt_dtype_t)x->dtype) && node->sub != TPT_IR_EQ && node->sub != TPT_IR_NE) return refuse(x);
    types[0] = *x;
    types[0].dtype = TPT_BOOL;
    return NULL;
}

static tpt_status_t *infer_bitcast(const tpt_type_t *x, tpt_type_t *types) {
    tpt_dtype_t from = (tpt_dtype_t)x->dtype, to = (tpt_dtype_t)types[0].dtype;
    if (from == TPT_BOOL || to == TPT_BOOL || tpt_dtype_is_complex(from) || tpt_dtype_is_complex(to)) return refuse(x);
    int64_t a = (int64_t)tpt_dtype_size(from), b = (int64_t)tpt_dtype_size(to);
    types[0] = *x;
    types[0].dtype = (uint8_t)to;
    if (a > b) {
        if (x->rank >= TPT_MAX_RANK) return TPT_BAD("too many dimensions");
        types[0].dims[types[0].rank++] = a / b;
    } else if (a < b) {
        if (x->rank < 1 || x->dims[x->rank - 1] != b / a) return TPT_BAD("the last dimension must be %lld", (long long)(b / a));
        types[0].dims[--types[0].rank] = 0;
    }
    return NULL;
}

static tpt_status_t *infer_select(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nin != 3) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *c = tpt_in_type(ir, node, 0), *x = tpt_in_type(ir, node, 1);
    TPT_TRY(same(x, tpt_in_type(ir, node, 2)));
    tpt_type_t want = *x;
    want.dtype = TPT_BOOL;
    TPT_TRY(same(c, &want));
    types[0] = *x;
    return NULL;
}

tpt_status_t *tpt_infer_elementwise(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nout != 1) return TPT_BAD("%d results", node->nout);
    if (node->kind == TPT_KIND_SELECT) return infer_select(ir, node, types);
    bool two = node->kind == TPT_KIND_BINARY || node->kind == TPT_KIND_COMPARE;
    if (node->nin != (two ? 2 : 1)) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    tpt_dtype_t to = (tpt_dtype_t)types[0].dtype;
    switch (node->kind) {
        case TPT_KIND_UNARY:
            return infer_unary(node, x, types);
        case TPT_KIND_BINARY:
            return infer_binary(node, x, tpt_in_type(ir, node, 1), types);
        case TPT_KIND_COMPARE:
            return infer_compare(node, x, tpt_in_type(ir, node, 1), types);
        case TPT_KIND_BITCAST:
            return infer_bitcast(x, types);
        default:
            break;
    }
    /* Conversions to bool and between complex and real numbers are made of other ops. */
    if (to == TPT_BOOL || tpt_dtype_is_complex((tpt_dtype_t)x->dtype) != tpt_dtype_is_complex(to)) return refuse(x);
    types[0] = *x;
    types[0].dtype = (uint8_t)to;
    return NULL;
}

tpt_status_t *tpt_infer_leaf(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    (void)ir;
    if (node->nin != 0 || node->nout != 1) return TPT_BAD("%d operands, %d results", node->nin, node->nout);
    TPT_TRY(tpt_ir_check_type(&types[0]));
    if (node->kind == TPT_KIND_CONST) {
        const tpt_attr_const_t *c = node->attr;
        bool exact = !tpt_dtype_is_float((tpt_dtype_t)types[0].dtype) && !tpt_dtype_is_complex((tpt_dtype_t)types[0].dtype);
        if (c == NULL || types[0].rank > 1 || tpt_type_numel(&types[0]) != c->n)
            return TPT_BAD("values that do not fit its type");
        return (exact ? c->ints != NULL : c->floats != NULL) || c->n == 0 ? NULL : TPT_BAD("values of the wrong kind");
    }
    if (types[0].dtype == TPT_BOOL) return refuse(&types[0]);
    if (node->num < 0 || node->num >= types[0].rank) return TPT_BAD("no dimension %lld", (long long)node->num);
    return NULL;
}
