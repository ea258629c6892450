/* args.c - what a lowering function reads (arguments by name) and writes (results, the out-of-range flag). */
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "ops/ops.h"

#define TPT_MAX_RESULTS 4096

tpt_val_t tpt_lower_fail(tpt_lower_t *L, tpt_code_t code, const char *fmt, ...) {
    if (tpt_ir_status(L->ir) != NULL) return TPT_VAL_NONE;
    va_list args;
    va_start(args, fmt);
    tpt_status_t *status = tpt_status_makev(code, fmt, args);
    va_end(args);
    return tpt_ir_fail(L->ir, status);
}

static tpt_val_t wrong_kind(tpt_lower_t *L, const char *name, const char *want) {
    return tpt_lower_fail(L, TPT_INTERNAL, "argument '%s' is not %s", name, want);
}

int tpt_lower_find(const tpt_lower_t *L, const char *name) {
    for (int i = 0; i < L->nargs; i++)
        if (strcmp(L->names[i], name) == 0) return i;
    return -1;
}

/* The argument, or NULL when it is absent or None. */
static const tpt_arg_t *present(const tpt_lower_t *L, const char *name) {
    int i = tpt_lower_find(L, name);
    return i < 0 || L->args[i].kind == TPT_ARG_NONE ? NULL : &L->args[i];
}

bool tpt_lower_has(const tpt_lower_t *L, const char *name) { return present(L, name) != NULL; }

bool tpt_lower_is_tensor(const tpt_lower_t *L, const char *name) {
    const tpt_arg_t *arg = present(L, name);
    return arg != NULL && arg->kind == TPT_ARG_TENSOR;
}

tpt_val_t tpt_lower_tensor(tpt_lower_t *L, const char *name) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "argument '%s' must not be None", name);
    int i = (int)(arg - L->args);
    if (arg->kind == TPT_ARG_TENSOR) return L->values[i][0];
    if (arg->kind != TPT_ARG_NUMBER) return wrong_kind(L, name, "a tensor");
    return tpt_lower_number(L, name, (tpt_dtype_t)arg->u.number.dtype);
}

tpt_val_t tpt_lower_optional(tpt_lower_t *L, const char *name) {
    return tpt_lower_has(L, name) ? tpt_lower_tensor(L, name) : TPT_VAL_NONE;
}

int tpt_lower_count(const tpt_lower_t *L, const char *name) {
    const tpt_arg_t *arg = present(L, name);
    return arg == NULL ? 0 : arg->count;
}

tpt_val_t tpt_lower_item(tpt_lower_t *L, const char *name, int i) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL || arg->kind != TPT_ARG_TENSORS) return wrong_kind(L, name, "a list of tensors");
    if (i < 0 || i >= arg->count)
        return tpt_lower_fail(L, TPT_INTERNAL, "item %d of list '%s' of %d", i, name, (int)arg->count);
    return L->values[arg - L->args][i];
}

int64_t tpt_lower_int(tpt_lower_t *L, const char *name, int64_t if_none) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return if_none;
    if (arg->kind == TPT_ARG_INT || arg->kind == TPT_ARG_BOOL) return arg->u.i;
    (void)wrong_kind(L, name, "an int");
    return if_none;
}

bool tpt_lower_bool(tpt_lower_t *L, const char *name, bool if_none) { return tpt_lower_int(L, name, if_none) != 0; }

int tpt_lower_ints(tpt_lower_t *L, const char *name, int64_t *out, int max) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return 0;
    if (arg->kind == TPT_ARG_INT && max > 0) { /* an int where a list is wanted */
        out[0] = arg->u.i;
        return 1;
    }
    if (arg->kind != TPT_ARG_INTS && arg->kind != TPT_ARG_BOOLS) {
        /* An empty list has no element to tell its kind from. */
        if (arg->count == 0 && arg->kind != TPT_ARG_INT) return 0;
        (void)wrong_kind(L, name, "a list of ints");
        return 0;
    }
    int n = arg->count < max ? arg->count : max;
    if (n > 0) memcpy(out, arg->u.ints, (size_t)n * sizeof *out);
    return n;
}

bool tpt_lower_text_is(const tpt_lower_t *L, const char *name, const char *text) {
    const tpt_arg_t *arg = present(L, name);
    size_t size = strlen(text);
    return arg != NULL && arg->kind == TPT_ARG_STRING && (size_t)arg->count == size &&
           (size == 0 || memcmp(arg->u.string.text, text, size) == 0);
}

tpt_dtype_t tpt_lower_dtype(tpt_lower_t *L, const char *name, tpt_dtype_t if_none) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return if_none;
    if (arg->kind == TPT_ARG_DTYPE) return (tpt_dtype_t)arg->u.i;
    (void)wrong_kind(L, name, "a dtype");
    return if_none;
}

/* A scalar counts as one dimension, as PyTorch has it. */
static int wrap_dim(tpt_lower_t *L, int64_t dim, int rank) {
    int n = rank > 0 ? rank : 1;
    if (dim < -n || dim >= n) {
        (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                             -n, n - 1, (long long)dim);
        return 0;
    }
    return (int)(dim < 0 ? dim + n : dim);
}

int tpt_lower_dim(tpt_lower_t *L, const char *name, int rank, int64_t if_none) {
    return wrap_dim(L, tpt_lower_int(L, name, if_none), rank);
}

int tpt_lower_dims(tpt_lower_t *L, const char *name, int rank, int64_t *out) {
    int64_t given[TPT_MAX_RANK];
    int n = tpt_lower_ints(L, name, given, TPT_MAX_RANK);
    bool picked[TPT_MAX_RANK] = {false};
    for (int i = 0; i < n; i++) picked[wrap_dim(L, given[i], rank)] = true;
    int count = 0;
    for (int d = 0; d < rank; d++)
        if (n == 0 || picked[d]) out[count++] = d;
    return count;
}

/* Is `name` followed by `mark` a word of the row's statics? */
static bool listed(const tpt_lower_t *L, const char *name, const char *mark) {
    size_t size = strlen(name), mark_size = strlen(mark);
    for (const char *at = L->row->statics; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, " ");
        if (word == size + mark_size && memcmp(at, name, size) == 0 && memcmp(at + size, mark, mark_size) == 0) return true;
        at += word + strspn(at + word, " ");
    }
    return false;
}

/* The value of a number that is part of the key is a constant of the program. */
bool tpt_lower_is_static(const tpt_lower_t *L, const char *name) { return listed(L, name, ""); }

/* Other values than 1 are not in the plan, so what is read here is 1 or nothing. */
bool tpt_lower_is_one(const tpt_lower_t *L, const char *name) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL || arg->kind != TPT_ARG_NUMBER || !listed(L, name, "=1")) return false;
    tpt_dtype_t d = (tpt_dtype_t)arg->u.number.dtype;
    if (tpt_dtype_is_complex(d)) return false;
    return tpt_dtype_is_float(d) ? arg->u.number.v.f[0] == 1 : arg->u.number.v.i == 1;
}

tpt_val_t tpt_lower_number_fn(tpt_lower_t *L, const char *name, tpt_number_fn_t fn, tpt_dtype_t dtype) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "argument '%s' must not be None", name);
    if (tpt_ir_status(L->ir) != NULL) return TPT_VAL_NONE;
    if (arg->kind == TPT_ARG_NUMBER) return L->number(L, (int)(arg - L->args), 0, (int)fn, dtype);
    if (fn == TPT_NUM_ID && (arg->kind == TPT_ARG_INT || arg->kind == TPT_ARG_BOOL))
        return tpt_ir_const_i(L->ir, dtype, arg->u.i);
    return wrong_kind(L, name, "a number");
}

tpt_val_t tpt_lower_number(tpt_lower_t *L, const char *name, tpt_dtype_t dtype) {
    return tpt_lower_number_fn(L, name, TPT_NUM_ID, dtype);
}

tpt_val_t tpt_lower_number_item(tpt_lower_t *L, const char *name, int i, tpt_number_fn_t fn, tpt_dtype_t dtype) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL || arg->kind != TPT_ARG_NUMBERS) return wrong_kind(L, name, "a list of numbers");
    if (i < 0 || i >= arg->count)
        return tpt_lower_fail(L, TPT_INTERNAL, "item %d of list '%s' of %d", i, name, (int)arg->count);
    if (tpt_ir_status(L->ir) != NULL) return TPT_VAL_NONE;
    return L->number(L, (int)(arg - L->args), i, (int)fn, dtype);
}

double tpt_lower_static(tpt_lower_t *L, const char *name, double if_none) {
    const tpt_arg_t *arg = present(L, name);
    if (arg == NULL) return if_none;
    if (arg->kind == TPT_ARG_INT || arg->kind == TPT_ARG_BOOL) return (double)arg->u.i;
    if (arg->kind != TPT_ARG_NUMBER) {
        (void)wrong_kind(L, name, "a number");
        return if_none;
    }
    if (!tpt_lower_is_static(L, name)) {
        (void)tpt_lower_fail(L, TPT_INTERNAL, "number '%s' is not among the row's statics", name);
        return if_none;
    }
    return tpt_number_value(&arg->u.number);
}

tpt_dtype_t tpt_lower_number_dtype(const tpt_lower_t *L, const char *name) {
    const tpt_arg_t *arg = present(L, name);
    return arg != NULL && arg->kind == TPT_ARG_NUMBER ? (tpt_dtype_t)arg->u.number.dtype : TPT_DTYPE_NONE;
}

tpt_val_t tpt_lower_rng(tpt_lower_t *L) {
    int i = tpt_lower_find(L, "generator");
    if (i < 0 || L->args[i].kind != TPT_ARG_RNG) return wrong_kind(L, "generator", "a random state");
    if (tpt_ir_status(L->ir) != NULL) return TPT_VAL_NONE;
    return L->rng(L, i);
}

void tpt_lower_result(tpt_lower_t *L, tpt_val_t v) {
    if (tpt_ir_status(L->ir) != NULL) return;
    size_t capacity = (size_t)L->results_capacity;
    tpt_status_t *status =
        tpt_vec_reserve(&L->results, &capacity, (size_t)L->nresults + 1, sizeof *L->results, TPT_MAX_RESULTS);
    if (status != NULL) {
        (void)tpt_ir_fail(L->ir, status);
        return;
    }
    L->results_capacity = (int)capacity;
    L->results[L->nresults++] = v;
}

bool tpt_lower_fits(const tpt_lower_t *L, int k, tpt_val_t v) {
    const tpt_type_t *type = tpt_ir_type(L->ir, v);
    const tpt_spec_t *out = &L->outs[k];
    if (type->rank > out->rank) return false;
    for (int d = 1; d <= type->rank; d++) {
        const int64_t size = type->dims[type->rank - d];
        if (size != 1 && size != out->sizes[out->rank - d]) return false;
    }
    return true;
}

void tpt_lower_flag(tpt_lower_t *L, tpt_val_t bad, int64_t size) {
    int rank = tpt_ir_rank(L->ir, bad);
    if (rank > 0) {
        int64_t dims[TPT_MAX_RANK];
        for (int d = 0; d < rank; d++) dims[d] = d;
        bad = tpt_ir_reduce(L->ir, TPT_IR_RED_OR, bad, rank, dims);
    }
    bool first = L->bad == TPT_VAL_NONE;
    L->bad = first ? bad : tpt_ir_or(L->ir, L->bad, bad);
    L->bad_size = first || L->bad_size == size ? size : -1;
}

void tpt_lower_refuse(tpt_lower_t *L, tpt_val_t bad, const char *text) {
    tpt_lower_flag(L, bad, -1);
    L->bad_text = text;
}

tpt_val_t tpt_lower_index(tpt_lower_t *L, tpt_val_t index, int64_t size) {
    tpt_ir_t *ir = L->ir;
    tpt_dtype_t dtype = tpt_ir_dtype(ir, index);
    /* Narrow types may not hold the size (an int8 index into 1000 rows). */
    tpt_val_t wide = dtype == TPT_I64 ? index : tpt_ir_convert(ir, index, TPT_I64);
    tpt_val_t n = tpt_ir_const_i(ir, TPT_I64, size), zero = tpt_ir_const_i(ir, TPT_I64, 0);
    tpt_val_t negative = tpt_ir_compare(ir, TPT_IR_LT, wide, zero);
    tpt_val_t low = tpt_ir_compare(ir, TPT_IR_LT, wide, tpt_ir_const_i(ir, TPT_I64, -size));
    tpt_val_t high = tpt_ir_compare(ir, TPT_IR_GE, wide, n);
    tpt_lower_flag(L, tpt_ir_or(ir, low, high), size);
    tpt_val_t wrapped = tpt_ir_select(ir, negative, tpt_ir_add(ir, wide, n), wide);
    return tpt_ir_convert(ir, wrapped, dtype);
}
