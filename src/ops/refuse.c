/* refuse.c - numbers and dtypes that PyTorch refuses. A line of refuse.def is one of
 *
 *   TPT_RANGE(row, number, low, high, ends, when, text)   the number must lie between two others; if `when` names a bool
 *                                                         argument, only where that is true. `%s` in the text is the number
 *   TPT_ORDER(row, number, other, text)                   it must not be above another number
 *   TPT_FITS(row, number, with, how)                      it must fit the dtype of a tensor or dtype argument
 *   TPT_DIVISOR(row, divisor, with, when)                 it must not be zero where all is whole numbers, unless an argument
 *                                                         named `when` is None. Also for tensors, found out on the device
 *
 *   TPT_SAME(row, tensor, with, text)                     two tensors must have one dtype; `%s` in the text are the two
 *   TPT_MASK(row, tensor, text)                           a tensor must be of bool; `%s` in the text is its dtype
 *   TPT_PARAM(row, parameter, input)                      a parameter must have the input's dtype, or be float32 beside halves
 *
 * Lines of one row stand together. */
#include "ops/refuse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum tpt_refuse_kind { RANGE, ORDER, FITS, DIVISOR, SAME, MASK, PARAM } tpt_refuse_kind_t;
typedef enum tpt_ends { CLOSED, OPEN_LOW, OPEN } tpt_ends_t;
/* How a number meets a dtype: it is written to it, or both are promoted first, so that only one of the same kind must fit. */
typedef enum tpt_meeting { WRITTEN, PROMOTED } tpt_meeting_t;

struct tpt_refusal {
    const char *row, *arg, *with, *when;
    uint8_t kind, ends, meeting;
    double low, high;
    const char *text;
};

#define TPT_RANGE(row, arg, low, high, ends, when, text) {row, arg, NULL, when, RANGE, ends, 0, low, high, text},
#define TPT_ORDER(row, arg, other, text) {row, arg, other, NULL, ORDER, CLOSED, 0, 0, 0, text},
#define TPT_FITS(row, arg, with, how) {row, arg, with, NULL, FITS, CLOSED, how, 0, 0, NULL},
#define TPT_DIVISOR(row, arg, with, when) {row, arg, with, when, DIVISOR, CLOSED, 0, 0, 0, NULL},
#define TPT_SAME(row, arg, with, text) {row, arg, with, NULL, SAME, CLOSED, 0, 0, 0, text},
#define TPT_MASK(row, arg, text) {row, arg, NULL, NULL, MASK, CLOSED, 0, 0, 0, text},
#define TPT_PARAM(row, arg, with) {row, arg, with, NULL, PARAM, CLOSED, 0, 0, 0, NULL},
static const tpt_refusal_t rules[] = {
#include "ops/refuse.def"
};
#define RULES ((int)(sizeof rules / sizeof rules[0]))

int tpt_refusals_of(const tpt_row_t *row, const tpt_refusal_t **out_first) {
    int first = 0, count = 0;
    while (first < RULES && strcmp(rules[first].row, row->name) != 0) first++;
    while (first + count < RULES && strcmp(rules[first + count].row, row->name) == 0) count++;
    *out_first = count > 0 ? &rules[first] : NULL;
    return count;
}

const tpt_refusal_t *tpt_refusal_at(const tpt_refusal_t *first, int i) { return first + i; }
bool tpt_refusal_is_of_numbers(const tpt_refusal_t *rule) { return rule->kind < SAME; }
const char *tpt_refusal_arg(const tpt_refusal_t *rule) { return rule->arg; }
const char *tpt_refusal_with(const tpt_refusal_t *rule) { return rule->with; }
const char *tpt_refusal_when(const tpt_refusal_t *rule) { return rule->when; }

static bool in_range(const tpt_refusal_t *rule, double v) {
    if (rule->ends == CLOSED) return v >= rule->low && v <= rule->high;
    return v > rule->low && (rule->ends == OPEN ? v < rule->high : v <= rule->high);
}

/* Puts numbers, printed as PyTorch prints them, in the place of the text's two `%s`. */
static tpt_status_t *refused(const char *text, double a, double b) {
    char first[32], message[512];
    const char *at = strstr(text, "%s"), *next = at ? strstr(at + 2, "%s") : NULL;
    if (!at) return tpt_status_make(TPT_INVALID_ARGUMENT, "%s", text);
    (void)snprintf(first, sizeof first, "%g", a);
    (void)snprintf(message, sizeof message, "%.*s%s", (int)(at - text), text, first);
    if (!next) return tpt_status_make(TPT_INVALID_ARGUMENT, "%s%s", message, at + 2);
    return tpt_status_make(TPT_INVALID_ARGUMENT, "%s%.*s%g%s", message, (int)(next - at - 2), at + 2, b, next + 2);
}

/* ---- does a number fit a dtype? ------------------------------------------------------------------------------------- */

typedef struct limits {
    const char *name; /* as C++ calls it */
    double low, high;
} limits_t;

static bool limits_of(tpt_dtype_t d, limits_t *out) {
    switch (d) {
        /* PyTorch lets small negative numbers wrap around into unsigned ones. */
        case TPT_U8: *out = (limits_t){"uint8_t", -255, 255}; return true;
        case TPT_I8: *out = (limits_t){"int8_t", INT8_MIN, INT8_MAX}; return true;
        case TPT_I16: *out = (limits_t){"int16_t", INT16_MIN, INT16_MAX}; return true;
        case TPT_I32: *out = (limits_t){"int", INT32_MIN, INT32_MAX}; return true;
        case TPT_I64: *out = (limits_t){"int64_t", -0x1p63, 0x1p63}; return true;
        case TPT_F16: *out = (limits_t){"c10::Half", -65504, 65504}; return true;
        case TPT_BF16: *out = (limits_t){"c10::BFloat16", -0x1.fep127, 0x1.fep127}; return true;
        case TPT_F64: *out = (limits_t){"double", -INFINITY, INFINITY}; return true;
        case TPT_F32: *out = (limits_t){"float", -0x1.fffffep127, 0x1.fffffep127}; return true;
        default: return false;
    }
}

static bool is_whole(tpt_dtype_t d) { return d == TPT_BOOL || tpt_dtype_is_int(d); }

tpt_status_t *tpt_refuse_overflow(tpt_dtype_t d) {
    limits_t limits;
    return tpt_status_make(TPT_INVALID_ARGUMENT, "value cannot be converted to type %s without overflow",
                           limits_of(d, &limits) ? limits.name : tpt_dtype_name(d));
}

static tpt_status_t *check_fits(const tpt_refusal_t *rule, const tpt_number_t *n, tpt_dtype_t d) {
    limits_t limits;
    double v = tpt_number_value(n);
    tpt_dtype_t own = (tpt_dtype_t)n->dtype;
    if (!limits_of(d, &limits) || tpt_number_is_twisted(n)) return NULL; /* imaginary parts: once a plan (lower.c) */
    if (rule->meeting == PROMOTED && is_whole(d) && !is_whole(own)) return NULL;
    if (!is_whole(d) && (isinf(v) || isnan(v))) return NULL;
    /* The last double below 2^63 is far from it, so that the bound itself is already too large for an int64. */
    bool fits = v >= limits.low && (d == TPT_I64 && (!is_whole(own) || own == TPT_U64) ? v < limits.high : v <= limits.high);
    return fits ? NULL : tpt_refuse_overflow(d);
}

static tpt_dtype_t dtype_of(const tpt_arg_t *arg) {
    if (!arg) return TPT_DTYPE_NONE;
    if (arg->kind == TPT_ARG_TENSOR) return (tpt_dtype_t)arg->u.tensor.dtype;
    if (arg->kind == TPT_ARG_NUMBER) return (tpt_dtype_t)arg->u.number.dtype;
    return arg->kind == TPT_ARG_DTYPE ? (tpt_dtype_t)arg->u.i : TPT_DTYPE_NONE;
}

/* ---- the rules ------------------------------------------------------------------------------------------------------ */

static bool is_off(const tpt_arg_t *when) {
    return when && (when->kind == TPT_ARG_NONE || (when->kind == TPT_ARG_BOOL && !when->u.i));
}

tpt_status_t *tpt_refusal_check(const tpt_refusal_t *rule, const tpt_arg_t *arg, const tpt_arg_t *with, const tpt_arg_t *when) {
    if (!arg || arg->kind != TPT_ARG_NUMBER || is_off(when)) return NULL;
    const tpt_number_t *n = &arg->u.number;
    double v = tpt_number_value(n);
    switch ((tpt_refuse_kind_t)rule->kind) {
        case RANGE:
            return in_range(rule, v) ? NULL : refused(rule->text, v, 0);
        case ORDER: {
            if (!with || with->kind != TPT_ARG_NUMBER) return NULL;
            double other = tpt_number_value(&with->u.number);
            return v <= other ? NULL : refused(rule->text, v, other);
        }
        case FITS: return check_fits(rule, n, dtype_of(with));
        case DIVISOR: /* tensors: tpt_refuse_divisors */
            if (n->v.i != 0 || !is_whole((tpt_dtype_t)n->dtype) || !is_whole(dtype_of(with))) return NULL;
            return tpt_status_make(TPT_INVALID_ARGUMENT, "ZeroDivisionError");
        case SAME:
        case MASK:
        case PARAM: break;
    }
    return NULL;
}

static void check_dtypes(tpt_lower_t *L, const tpt_refusal_t *rule) {
    const int arg = tpt_lower_find(L, rule->arg), with = rule->with ? tpt_lower_find(L, rule->with) : arg;
    if (arg < 0 || with < 0 || L->args[arg].kind != TPT_ARG_TENSOR || L->args[with].kind != TPT_ARG_TENSOR) return;
    const tpt_dtype_t a = dtype_of(&L->args[arg]), b = dtype_of(&L->args[with]);
    if (rule->kind == MASK && a != TPT_BOOL) (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, rule->text, tpt_dtype_name(a));
    if (a == b) return;
    if (rule->kind == SAME) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, rule->text, tpt_dtype_name(a), tpt_dtype_name(b));
        return;
    }
    if ((b == TPT_F16 || b == TPT_BF16) && a == TPT_F32) return;
    (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "mixed dtype: expect parameter '%s' to have the dtype of the input, or float32 beside halves, "
                         "but got %s with an input of %s", rule->arg, tpt_dtype_name(a), tpt_dtype_name(b));
}

void tpt_refuse_dtypes(tpt_lower_t *L) {
    const tpt_refusal_t *rule;
    const int count = tpt_refusals_of(L->row, &rule);
    for (int i = 0; i < count; i++)
        if (!tpt_refusal_is_of_numbers(&rule[i])) check_dtypes(L, &rule[i]);
}

void tpt_refuse_divisors(tpt_lower_t *L) {
    const tpt_refusal_t *rule;
    if (tpt_refusals_of(L->row, &rule) != 1 || rule->kind != DIVISOR || tpt_ir_status(L->ir) != NULL) return;
    int arg = tpt_lower_find(L, rule->arg), with = tpt_lower_find(L, rule->with);
    if (arg < 0 || with < 0 || L->args[arg].kind != TPT_ARG_TENSOR) return;
    if (!is_whole(dtype_of(&L->args[arg])) || !is_whole(dtype_of(&L->args[with]))) return;
    if (rule->when && !tpt_lower_has(L, rule->when)) return;
    tpt_val_t divisor = tpt_lower_tensor(L, rule->arg);
    const bool empty = L->args[with].kind == TPT_ARG_TENSOR && tpt_ir_numel(L->ir, tpt_lower_tensor(L, rule->with)) == 0;
    if (empty || tpt_ir_numel(L->ir, divisor) == 0) return; /* nothing is divided */
    tpt_lower_refuse(L, tpt_ir_compare(L->ir, TPT_IR_EQ, divisor, tpt_ir_like(L->ir, divisor, 0)), "ZeroDivisionError");
}
