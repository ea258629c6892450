/* expr_fold.c - what operators of expressions give for numbers that are known when lowering. */
#include "expr.h"

#include <float.h>

bool tpt_expr_fold_compare(int op, double x, double y) {
    switch (op) {
        case TPT_IR_EQ:
            return x == y;
        case TPT_IR_NE:
            return x != y;
        case TPT_IR_LT:
            return x < y;
        case TPT_IR_LE:
            return x <= y;
        case TPT_IR_GT:
            return x > y;
        default:
            return x >= y;
    }
}

bool tpt_expr_fold(int op, double x, double y, double *out) {
    switch (op) {
        case TPT_IR_ADD:
            *out = x + y;
            return true;
        case TPT_IR_SUB:
            *out = x - y;
            return true;
        case TPT_IR_MUL:
            *out = x * y;
            return true;
        case TPT_IR_DIV:
            *out = x / y;
            return true;
        default:
            return false;
    }
}

bool tpt_expr_is_exact(const tpt_arg_t *arg) {
    const int64_t most = INT64_C(1) << DBL_MANT_DIG, i = arg->u.number.v.i;
    return tpt_dtype_is_float((tpt_dtype_t)arg->u.number.dtype) || (arg->u.number.dtype != TPT_U64 && -most <= i && i <= most);
}
