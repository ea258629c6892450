/* expr.c - parses a row's expression and evaluates it straight into the program. Runs on plan misses only. */
#include "ops/expr.h"
#include "ops/special.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LETS 160
#define MAX_DEPTH 200

typedef enum item_kind {
    ITEM_NONE = 0, /* skipped, failed, or an absent argument */
    ITEM_STATIC,   /* a number known when lowering */
    ITEM_TEXT,
    ITEM_VALUE
} item_kind_t;

typedef struct item {
    item_kind_t kind;
    double number;
    const char *text;
    size_t size;
    tpt_val_t value;
} item_t;

typedef struct let {
    const char *name;
    size_t size;
    item_t item;
} let_t;

typedef struct parser {
    tpt_lower_t *L;
    tpt_ir_t *ir;
    const char *at;
    tpt_dtype_t dtype; /* compute dtype */
    int skip;          /* > 0: inside a branch that is not taken; nothing is built, nothing can fail but the syntax */
    int depth;
    bool failed;
    int nlets, scope; /* inside a library function only lets from `scope` on are seen, and no arguments */
    let_t lets[MAX_LETS];
    uint64_t used; /* bit i: argument i was read, so its shape counts */
} parser_t;

static item_t parse_expr(parser_t *p, int min_strength);
static void parse_lets(parser_t *p);

static const item_t none = {ITEM_NONE, 0, NULL, 0, TPT_VAL_NONE};

static item_t fail(parser_t *p, const char *message) {
    if (!p->failed) (void)tpt_lower_fail(p->L, TPT_INTERNAL, "row '%s': %s at \"%.24s\"", p->L->row->name, message, p->at);
    p->failed = true;
    return none;
}

static item_t make_static(double number) { return (item_t){ITEM_STATIC, number, NULL, 0, TPT_VAL_NONE}; }

static item_t make_value(tpt_val_t value) { return (item_t){ITEM_VALUE, 0, NULL, 0, value}; }

/* ---- words ---- */

static void skip_space(parser_t *p) {
    while (*p->at == ' ' || *p->at == '\n') p->at++;
}

static bool take(parser_t *p, const char *token) {
    skip_space(p);
    size_t size = strlen(token);
    if (strncmp(p->at, token, size) != 0) return false;
    p->at += size;
    return true;
}

static void expect(parser_t *p, const char *token) {
    if (!p->failed && !take(p, token)) (void)fail(p, token[0] == ')' ? "')' expected" : "another token expected");
}

static size_t word_size(const char *at) {
    if (!isalpha((unsigned char)*at) && *at != '_') return 0;
    size_t n = 1;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

static bool word_is(const char *word, size_t size, const char *text) { return strlen(text) == size && memcmp(word, text, size) == 0; }

/* ---- dtypes ---- */
/* The dtype that PyTorch gives the first result, where it is known. That of an `out=` tensor says nothing of it: the result is
 * computed in its own dtype first (an int8 sum wraps around before it is written to a float64). */
static tpt_dtype_t out_dtype(const tpt_lower_t *L) {
    if (L->nouts > 0 && L->outs != NULL && !L->written) return (tpt_dtype_t)L->outs[0].dtype;
    return tpt_lower_dtype((tpt_lower_t *)(uintptr_t)L, "__default_dtype", TPT_DTYPE_NONE);
}

static tpt_dtype_t common_dtype(const tpt_lower_t *L) {
    tpt_promote_t promote = (tpt_promote_t)L->row->promote;
    tpt_dtype_t common = promote == TPT_PROMOTE_NONE ? tpt_promote_tensors(L) : tpt_promote_args(L);
    if (promote == TPT_PROMOTE_EXACT) return common;
    /* A quotient that is not rounded is a float. */
    if (tpt_lower_find(L, "rounding_mode") >= 0 && !tpt_lower_has(L, "rounding_mode")) promote = TPT_PROMOTE_FLOAT;
    tpt_dtype_t out = out_dtype(L);
    bool broad = tpt_dtype_is_float(out) || tpt_dtype_is_complex(out);
    if (common == TPT_BOOL || tpt_dtype_is_int(common)) {
        if (broad && (promote == TPT_PROMOTE_FLOAT || !L->written))
            common = out;
        else if (promote == TPT_PROMOTE_FLOAT)
            common = TPT_F32;
    } else if (common == TPT_F32 && out == TPT_F64) {
        common = out; /* integers with a Python float, while float64 is the default dtype */
    } else if (common == TPT_C64 && out == TPT_C128) {
        common = out;
    }
    return common;
}

tpt_dtype_t tpt_expr_dtype(const tpt_lower_t *L) {
    const tpt_dtype_t common = common_dtype(L);
    return L->row->promote == TPT_PROMOTE_EXACT ? common : tpt_dtype_opmath(common);
}

/* Largest finite number of the first operand's own dtype (not of the wider one it is computed in). */
static double finite_max(const parser_t *p, double sign) {
    const tpt_arg_t *arg = &p->L->args[0];
    switch (tpt_dtype_real((tpt_dtype_t)(arg->kind == TPT_ARG_TENSOR ? arg->u.tensor.dtype : p->dtype))) {
        case TPT_F16: return sign * 65504.0;
        case TPT_BF16: return sign * 0x1.fep127;
        case TPT_F64: return sign * 0x1.fffffffffffffp1023;
        default: return sign * 0x1.fffffep127;
    }
}

/* 2^k + 1 where k digits of float32 are too many for the result_type, if that is a half; 0 otherwise. */
static double half_split(const parser_t *p) {
    tpt_dtype_t d = tpt_promote_args(p->L);
    return d == TPT_F16 ? 0x1p13 + 1 : d == TPT_BF16 ? 0x1p16 + 1 : 0;
}

static tpt_val_t constant(parser_t *p, tpt_dtype_t dtype, double number) {
    if (dtype == TPT_BOOL) return tpt_ir_const_i(p->ir, dtype, number != 0);
    if (tpt_dtype_is_int(dtype) && isfinite(number)) return tpt_ir_const_i(p->ir, dtype, (int64_t)number);
    return tpt_ir_const_f(p->ir, dtype, number);
}

/* The item as a value; literals become constants of `dtype`. */
static tpt_val_t value_of(parser_t *p, item_t item, tpt_dtype_t dtype) {
    if (p->skip > 0 || p->failed) return TPT_VAL_NONE;
    if (item.kind == ITEM_VALUE) return item.value;
    if (item.kind == ITEM_STATIC) return constant(p, dtype, item.number);
    (void)fail(p, "a value is needed before this place");
    return TPT_VAL_NONE;
}

/* Brings n items to one dtype: what the values promote to. */
static void unify(parser_t *p, int n, const item_t *items, tpt_val_t *out) {
    tpt_dtype_t common = TPT_DTYPE_NONE;
    for (int i = 0; i < n; i++)
        if (items[i].kind == ITEM_VALUE) common = tpt_promote_types(common, tpt_ir_dtype(p->ir, items[i].value));
    if (common == TPT_DTYPE_NONE) common = p->dtype;
    for (int i = 0; i < n; i++) {
        out[i] = value_of(p, items[i], common);
        if (items[i].kind == ITEM_VALUE) out[i] = tpt_ir_convert(p->ir, out[i], common);
    }
}

static tpt_val_t to_bool(parser_t *p, item_t item) { return tpt_ir_convert(p->ir, value_of(p, item, TPT_BOOL), TPT_BOOL); }

/* ---- names ---- */

/* An operand in the compute dtype. XLA turns `convert(bool) * y` into a choice, which loses 0 * inf; not so with a select. */
static tpt_val_t operand(parser_t *p, tpt_val_t v) {
    if (tpt_ir_dtype(p->ir, v) != TPT_BOOL || !tpt_dtype_is_float(p->dtype)) return tpt_ir_convert(p->ir, v, p->dtype);
    return tpt_ir_select(p->ir, v, tpt_ir_const_f(p->ir, p->dtype, 1), tpt_ir_const_f(p->ir, p->dtype, 0));
}

static item_t argument(parser_t *p, int i, bool raw) {
    tpt_lower_t *L = p->L;
    const tpt_arg_t *arg = &L->args[i];
    const char *name = L->names[i];
    switch (arg->kind) {
        case TPT_ARG_NONE:
            return none;
        case TPT_ARG_INT:
        case TPT_ARG_BOOL:
            return make_static((double)arg->u.i);
        case TPT_ARG_STRING:
            return (item_t){ITEM_TEXT, 0, arg->u.string.text, (size_t)arg->count, TPT_VAL_NONE};
        case TPT_ARG_TENSOR: {
            if (i < 64) p->used |= UINT64_C(1) << i;
            tpt_val_t v = tpt_lower_tensor(L, name);
            return make_value(raw ? v : operand(p, v));
        }
        case TPT_ARG_NUMBER: {
            if (tpt_lower_is_one(L, name)) return make_static(1);
            bool is_complex = tpt_dtype_is_complex((tpt_dtype_t)arg->u.number.dtype);
            if (!is_complex && tpt_lower_is_static(L, name) && tpt_expr_is_exact(arg)) return make_static(tpt_lower_static(L, name, 0));
            return make_value(tpt_lower_number(L, name, raw ? tpt_lower_number_dtype(L, name) : p->dtype));
        }
        default:
            return fail(p, "an argument of a kind that expressions lack");
    }
}

static item_t name_item(parser_t *p, const char *word, size_t size, bool raw) {
    for (int i = p->nlets - 1; i >= p->scope; i--)
        if (p->lets[i].size == size && memcmp(p->lets[i].name, word, size) == 0) return p->lets[i].item;
    for (int i = 0; i < p->L->nargs && p->scope == 0; i++)
        if (word_is(word, size, p->L->names[i])) return p->skip > 0 ? none : argument(p, i, raw);
    if (word_is(word, size, "pi")) return make_static(3.14159265358979323846);
    if (word_is(word, size, "inf")) return make_static(INFINITY);
    if (word_is(word, size, "nan")) return make_static(NAN);
    if (word_is(word, size, "true")) return make_static(1);
    if (word_is(word, size, "false")) return make_static(0);
    if (word_is(word, size, "finite_max")) return make_static(finite_max(p, 1));
    if (word_is(word, size, "finite_min")) return make_static(finite_max(p, -1));
    if (word_is(word, size, "half_split")) return make_static(half_split(p));
    if (p->skip > 0) return none;
    if (word_is(word, size, "lowest")) return make_value(tpt_ir_lowest(p->ir, p->dtype));
    if (word_is(word, size, "highest")) return make_value(tpt_ir_highest(p->ir, p->dtype));
    return fail(p, "unknown name before this place");
}

/* The next argument of a call if it is a bare name, else an expression. */
static item_t parse_raw(parser_t *p) {
    skip_space(p);
    size_t size = word_size(p->at);
    const char *after = p->at + size;
    while (*after == ' ') after++;
    if (size == 0 || (*after != ',' && *after != ')')) return parse_expr(p, 0);
    const char *word = p->at;
    p->at += size;
    return name_item(p, word, size, true);
}

/* ---- calls ---- */

static item_t call_if(parser_t *p) {
    item_t cond = parse_expr(p, 0);
    if (p->skip == 0 && !p->failed && cond.kind != ITEM_STATIC)
        return fail(p, "the condition of 'if' is not known when lowering");
    expect(p, ",");
    bool taken = cond.number != 0;
    int outer = p->skip;
    p->skip = outer + (taken ? 0 : 1);
    item_t yes = parse_expr(p, 0);
    expect(p, ",");
    p->skip = outer + (taken ? 1 : 0);
    item_t no = parse_expr(p, 0);
    p->skip = outer;
    expect(p, ")");
    return taken ? yes : no;
}

static item_t call_where(parser_t *p) {
    item_t cond = parse_raw(p), branch[2] = {none, none};
    expect(p, ",");
    branch[0] = parse_expr(p, 0);
    expect(p, ",");
    branch[1] = parse_expr(p, 0);
    expect(p, ")");
    if (p->skip > 0 || p->failed) return none;
    tpt_val_t v[2];
    unify(p, 2, branch, v);
    return make_value(tpt_ir_select(p->ir, to_bool(p, cond), v[0], v[1]));
}

/* has(x), truth(x), kind(x): is an argument given, is it of dtype bool, which dtype has it? It is looked at without reading it. */
static item_t call_has(parser_t *p, char what) {
    skip_space(p);
    size_t size = word_size(p->at);
    const char *word = p->at;
    p->at += size;
    expect(p, ")");
    for (int i = 0; i < p->L->nargs; i++) {
        const tpt_arg_t *arg = &p->L->args[i];
        if (!word_is(word, size, p->L->names[i])) continue;
        int d = arg->kind == TPT_ARG_TENSOR ? arg->u.tensor.dtype : arg->kind == TPT_ARG_NUMBER ? arg->u.number.dtype : 0;
        return make_static(what == 'h' ? arg->kind != TPT_ARG_NONE : what == 't' ? d == TPT_BOOL : d);
    }
    return make_static(0);
}

static const struct {
    const char *name;
    tpt_dtype_t dtype;
} casts[] = {{"bool", TPT_BOOL}, {"u8", TPT_U8},   {"i32", TPT_I32}, {"i64", TPT_I64},
             {"u32", TPT_U32},   {"u64", TPT_U64}, {"f32", TPT_F32}, {"f64", TPT_F64}};

/* Questions about a value's dtype, answered when lowering: isfloat(x) and the like. */
static int dtype_question(const char *word, size_t size, tpt_dtype_t d) {
    if (word_is(word, size, "isfloat")) return tpt_dtype_is_float(d);
    if (word_is(word, size, "iscomplex")) return tpt_dtype_is_complex(d);
    if (word_is(word, size, "isint")) return tpt_dtype_is_int(d);
    if (word_is(word, size, "isbool")) return d == TPT_BOOL;
    if (word_is(word, size, "isf64")) return d == TPT_F64;
    if (word_is(word, size, "isshort")) return d == TPT_I8 || d == TPT_I16 || d == TPT_U8 || d == TPT_U16;
    if (word_is(word, size, "isunsigned")) return d == TPT_BOOL || (tpt_dtype_is_int(d) && !tpt_dtype_is_signed(d));
    return -1;
}

/* Runs a function of the library: its text, with its operands as lets. */
static item_t call_library(parser_t *p, const tpt_expr_function_t *f, const tpt_val_t *operands) {
    const char *outer_at = p->at;
    tpt_dtype_t outer_dtype = p->dtype;
    int outer_lets = p->nlets, outer_scope = p->scope;
    const char *param = f->params;
    for (int i = 0; i < f->arity; i++) {
        if (p->nlets == MAX_LETS) return fail(p, "too many lets");
        size_t size = word_size(param);
        p->lets[p->nlets++] = (let_t){param, size, make_value(operands[i])};
        param += size + (param[size] == ' ');
    }
    p->scope = outer_lets;
    p->dtype = tpt_ir_dtype(p->ir, operands[0]);
    p->at = f->body;
    parse_lets(p);
    item_t item = parse_expr(p, 0);
    skip_space(p);
    if (!p->failed && *p->at != '\0') return fail(p, "something after the end");
    if (item.kind == ITEM_STATIC) item = make_value(value_of(p, item, p->dtype));
    p->at = outer_at;
    p->dtype = outer_dtype;
    p->nlets = outer_lets;
    p->scope = outer_scope;
    return item;
}

/* poly('name', t) */
static item_t call_poly(parser_t *p) {
    item_t name = parse_expr(p, 0);
    expect(p, ",");
    item_t t = parse_expr(p, 0);
    expect(p, ")");
    if (p->skip > 0 || p->failed) return none;
    tpt_val_t out;
    if (name.kind != ITEM_TEXT || !tpt_special_poly(p->ir, name.text, name.size, value_of(p, t, p->dtype), &out))
        return fail(p, "unknown polynomial before this place");
    return make_value(out);
}

/* fail('message'): for operands that PyTorch refuses but its meta kernel lets pass. */
static item_t call_fail(parser_t *p) {
    item_t message = parse_expr(p, 0);
    expect(p, ")");
    if (p->skip > 0 || p->failed) return none;
    (void)tpt_lower_fail(p->L, TPT_INVALID_ARGUMENT, "%.*s", (int)message.size, message.text);
    p->failed = true;
    return none;
}

static item_t call_function(parser_t *p, const tpt_expr_function_t *f) {
    item_t args[TPT_EXPR_MAX_ARITY];
    int n = 0, statics = 0;
    do {
        if (n == f->arity) return fail(p, "too many operands");
        args[n] = parse_expr(p, 0);
        statics += args[n++].kind == ITEM_STATIC;
    } while (!p->failed && take(p, ","));
    expect(p, ")");
    if (p->skip > 0 || p->failed) return none;
    if (n != f->arity) return fail(p, "too few operands");
    if (n == 1 && statics == 1 && f->host != NULL) return make_static(f->host(args[0].number));
    if (f->fn == NULL && f->body == NULL && f->op < 0) return fail(p, "an operand that is not known when lowering");
    tpt_val_t v[TPT_EXPR_MAX_ARITY];
    unify(p, n, args, v);
    if (p->failed || tpt_ir_status(p->ir) != NULL) return none;
    if (f->body != NULL) return call_library(p, f, v);
    if (f->fn != NULL) return make_value(f->fn(p->ir, v));
    return make_value(n == 1 ? tpt_ir_unary(p->ir, (tpt_ir_unary_op_t)f->op, v[0])
                             : tpt_ir_binary(p->ir, (tpt_ir_binary_op_t)f->op, v[0], v[1]));
}

static item_t parse_call(parser_t *p, const char *word, size_t size) {
    if (word_is(word, size, "if")) return call_if(p);
    if (word_is(word, size, "where")) return call_where(p);
    if (word_is(word, size, "has")) return call_has(p, 'h');
    if (word_is(word, size, "truth")) return call_has(p, 't');
    if (word_is(word, size, "kind")) return call_has(p, 'k');
    if (word_is(word, size, "poly")) return call_poly(p);
    if (word_is(word, size, "fail")) return call_fail(p);
    if (word_is(word, size, "raw")) {
        item_t item = parse_raw(p);
        expect(p, ")");
        return item;
    }
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++) {
        if (!word_is(word, size, casts[i].name)) continue;
        item_t item = parse_raw(p);
        expect(p, ")");
        if (p->skip > 0 || p->failed) return none;
        return make_value(tpt_ir_convert(p->ir, value_of(p, item, casts[i].dtype), casts[i].dtype));
    }
    if (word_is(word, size, "isknown")) {
        item_t item = parse_expr(p, 0);
        expect(p, ")");
        return make_static(item.kind == ITEM_STATIC);
    }
    if (dtype_question(word, size, TPT_F32) >= 0) {
        item_t item = parse_expr(p, 0);
        expect(p, ")");
        tpt_dtype_t d = item.kind == ITEM_VALUE ? tpt_ir_dtype(p->ir, item.value) : p->dtype;
        return make_static(dtype_question(word, size, d));
    }
    const tpt_expr_function_t *f = tpt_expr_function_find(word, size);
    return f == NULL ? fail(p, "unknown function before this place") : call_function(p, f);
}

/* ---- operators ---- */

static item_t parse_text(parser_t *p) {
    const char *start = p->at, *end = strchr(start, '\'');
    if (end == NULL) return fail(p, "a text without an end");
    p->at = end + 1;
    return (item_t){ITEM_TEXT, 0, start, (size_t)(end - start), TPT_VAL_NONE};
}

static item_t parse_atom(parser_t *p) {
    skip_space(p);
    if (take(p, "(")) {
        item_t item = parse_expr(p, 0);
        expect(p, ")");
        return item;
    }
    if (take(p, "'")) return parse_text(p);
    if (isdigit((unsigned char)*p->at)) {
        char *end;
        double number = strtod(p->at, &end);
        p->at = end;
        return make_static(number);
    }
    size_t size = word_size(p->at);
    if (size == 0) return fail(p, "an operand expected");
    const char *word = p->at;
    p->at += size;
    if (*p->at == '(') {
        p->at++;
        return parse_call(p, word, size);
    }
    return name_item(p, word, size, false);
}

static item_t parse_unary(parser_t *p) {
    skip_space(p);
    char op = *p->at;
    if ((op != '-' && op != '!' && op != '~') || (op == '!' && p->at[1] == '=')) return parse_atom(p);
    p->at++;
    item_t x = parse_unary(p);
    if (p->skip > 0 || p->failed) return none;
    if (x.kind == ITEM_STATIC && op != '~') return make_static(op == '-' ? -x.number : x.number == 0);
    if (op == '-') return make_value(tpt_ir_neg(p->ir, value_of(p, x, p->dtype)));
    return make_value(tpt_ir_not(p->ir, op == '!' ? to_bool(p, x) : value_of(p, x, p->dtype)));
}

typedef enum op_kind { OP_LOGIC, OP_COMPARE, OP_BINARY, OP_SHIFT } op_kind_t;
static const struct operator_row {
    const char *token;
    int strength;
    op_kind_t kind;
    int op;
} operators[] = {
    /* Longer tokens first. */
    {"||", 1, OP_LOGIC, TPT_IR_OR},   {"&&", 2, OP_LOGIC, TPT_IR_AND},       {"==", 3, OP_COMPARE, TPT_IR_EQ},
    {"!=", 3, OP_COMPARE, TPT_IR_NE}, {"<=", 3, OP_COMPARE, TPT_IR_LE},      {">=", 3, OP_COMPARE, TPT_IR_GE},
    {"<<", 7, OP_SHIFT, TPT_IR_SHL},  {">>", 7, OP_SHIFT, TPT_IR_SHR_ARITH}, {"<", 3, OP_COMPARE, TPT_IR_LT},
    {">", 3, OP_COMPARE, TPT_IR_GT},  {"|", 4, OP_BINARY, TPT_IR_OR},        {"^", 5, OP_BINARY, TPT_IR_XOR},
    {"&", 6, OP_BINARY, TPT_IR_AND},  {"+", 8, OP_BINARY, TPT_IR_ADD},       {"-", 8, OP_BINARY, TPT_IR_SUB},
    {"*", 9, OP_BINARY, TPT_IR_MUL},  {"/", 9, OP_BINARY, TPT_IR_DIV},
};

static item_t fold_compare(parser_t *p, int op, item_t a, item_t b) {
    if (a.kind == ITEM_TEXT && b.kind == ITEM_TEXT) {
        bool same = a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
        if (op == TPT_IR_EQ || op == TPT_IR_NE) return make_static(same == (op == TPT_IR_EQ));
        return fail(p, "texts have no order");
    }
    return make_static(tpt_expr_fold_compare(op, a.number, b.number));
}

static item_t apply_logic(parser_t *p, int op, item_t a, item_t b) {
    if (a.kind == ITEM_STATIC || b.kind == ITEM_STATIC) {
        item_t known = a.kind == ITEM_STATIC ? a : b, other = a.kind == ITEM_STATIC ? b : a;
        bool decides = (known.number != 0) == (op == TPT_IR_OR);
        if (decides) return make_static(op == TPT_IR_OR);
        return other.kind == ITEM_STATIC ? make_static(other.number != 0) : make_value(to_bool(p, other));
    }
    return make_value(tpt_ir_binary(p->ir, (tpt_ir_binary_op_t)op, to_bool(p, a), to_bool(p, b)));
}

static item_t apply(parser_t *p, const struct operator_row *o, item_t a, item_t b) {
    if (p->skip > 0 || p->failed) return none;
    if (o->kind == OP_LOGIC) return apply_logic(p, o->op, a, b);
    bool known = a.kind == ITEM_STATIC && b.kind == ITEM_STATIC;
    if (o->kind == OP_COMPARE && (known || a.kind == ITEM_TEXT || b.kind == ITEM_TEXT)) {
        if (a.kind != b.kind) return make_static(o->op == TPT_IR_NE); /* an absent text equals none */
        return fold_compare(p, o->op, a, b);
    }
    double number;
    if (known && o->kind == OP_BINARY && tpt_expr_fold(o->op, a.number, b.number, &number)) return make_static(number);
    if (o->kind == OP_BINARY && o->op == TPT_IR_MUL) { /* not only cheaper: (1 + 0i) * inf has a nan in it */
        if (a.kind == ITEM_STATIC && a.number == 1) return b;
        if (b.kind == ITEM_STATIC && b.number == 1) return a;
    }
    item_t items[2] = {a, b};
    tpt_val_t v[2];
    unify(p, 2, items, v);
    if (p->failed) return none;
    if (o->kind == OP_COMPARE) return make_value(tpt_ir_compare(p->ir, (tpt_ir_cmp_t)o->op, v[0], v[1]));
    int op = o->op;
    if (op == TPT_IR_SHR_ARITH && !tpt_dtype_is_signed(tpt_ir_dtype(p->ir, v[0]))) op = TPT_IR_SHR_LOGIC;
    return make_value(tpt_ir_binary(p->ir, (tpt_ir_binary_op_t)op, v[0], v[1]));
}

static const struct operator_row *peek_operator(parser_t *p) {
    skip_space(p);
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strncmp(p->at, operators[i].token, strlen(operators[i].token)) == 0) return &operators[i];
    return NULL;
}

/* Precedence climbing; operators of equal strength group to the left. */
static item_t parse_expr(parser_t *p, int min_strength) {
    if (p->failed || ++p->depth > MAX_DEPTH) return fail(p, "nested too deeply");
    item_t left = parse_unary(p);
    for (const struct operator_row *o; !p->failed && (o = peek_operator(p)) != NULL && o->strength > min_strength;) {
        p->at += strlen(o->token);
        item_t right = parse_expr(p, o->strength);
        left = apply(p, o, left, right);
    }
    p->depth--;
    return left;
}

/* ---- rows ---- */

static void parse_let(parser_t *p) {
    skip_space(p);
    size_t size = word_size(p->at);
    if (size == 0 || p->nlets == MAX_LETS) {
        (void)fail(p, size == 0 ? "a name expected" : "too many lets");
        return;
    }
    let_t let = {p->at, size, none};
    p->at += size;
    expect(p, "=");
    let.item = parse_expr(p, 0);
    expect(p, ";");
    p->lets[p->nlets++] = let;
}

static void parse_lets(parser_t *p) {
    for (;;) {
        skip_space(p);
        if (p->failed || word_size(p->at) != 3 || memcmp(p->at, "let", 3) != 0) return;
        p->at += 3;
        parse_let(p);
    }
}

/* A result has the shape of all operands together, even of those that its formula left out. */
static tpt_val_t full_shape(parser_t *p, tpt_val_t v, int k) {
    const tpt_lower_t *L = p->L;
    /* One that is too large for what it is written to is refused as it is. */
    if (k < L->nouts && L->outs != NULL && (!L->written || tpt_lower_fits(L, k, v))) return tpt_ir_broadcast_to(p->ir, v, L->outs[k].rank, L->outs[k].sizes);
    int64_t dims[TPT_MAX_RANK];
    int rank = tpt_ir_rank(p->ir, v);
    for (int i = 0; i < L->nargs && i < 64; i++)
        if ((p->used >> i & 1) != 0 && L->args[i].u.tensor.rank > rank) rank = L->args[i].u.tensor.rank;
    for (int d = 0; d < rank; d++) { /* d counts from the last dimension */
        dims[rank - 1 - d] = d < tpt_ir_rank(p->ir, v) ? tpt_ir_dim(p->ir, v, -1 - d) : 1;
        for (int i = 0; i < L->nargs && i < 64; i++) {
            if ((p->used >> i & 1) == 0 || L->args[i].u.tensor.rank <= d) continue;
            int64_t size = L->args[i].u.tensor.sizes[L->args[i].u.tensor.rank - 1 - d];
            if (size != 1) dims[rank - 1 - d] = size;
        }
    }
    return tpt_ir_broadcast_to(p->ir, v, rank, dims);
}

void tpt_expr_lower(tpt_lower_t *L) {
    /* let 0 is nameless: scope 0 is the row */
    parser_t p = {.L = L, .ir = L->ir, .at = L->row->expr, .dtype = tpt_expr_dtype(L), .nlets = 1};
    const tpt_dtype_t own = L->written ? common_dtype(L) : p.dtype; /* halves are rounded before they go into a wider tensor */
    if (p.dtype == TPT_DTYPE_NONE) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "no promotion is defined for the dtypes of the operands");
        return;
    }
    parse_lets(&p);
    int k = 0, self = tpt_lower_find(L, "self");
    if (self >= 0 && L->args[self].kind == TPT_ARG_TENSOR) p.used |= UINT64_C(1) << self;
    do {
        item_t item = parse_expr(&p, 0);
        if (p.failed || tpt_ir_status(L->ir) != NULL) return;
        tpt_val_t v = value_of(&p, item, p.dtype);
        if (tpt_ir_dtype(L->ir, v) == p.dtype) v = tpt_ir_convert(L->ir, v, own);
        tpt_lower_result(L, full_shape(&p, v, k++));
    } while (take(&p, ","));
    skip_space(&p);
    if (*p.at != '\0' && !p.failed) (void)fail(&p, "something after the end");
}
