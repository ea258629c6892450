/* fill.c - tensors made of numbers: constants, ranges, identity. */
#include "ops/shape.h"

static tpt_val_t spread(tpt_lower_t *L, tpt_val_t scalar, const tpt_type_t *type) {
    /* fill.Tensor takes a tensor of one element of any rank. */
    if (tpt_ir_rank(L->ir, scalar) > 0) scalar = tpt_ir_reshape(L->ir, scalar, 0, NULL);
    return tpt_ir_broadcast_to(L->ir, scalar, type->rank, type->dims);
}

/* fill.Scalar, fill.Tensor. A tensor's imaginary part may be dropped, a number's not: also of one that is on the cpu. */
void tpt_fill_value(tpt_lower_t *L) {
    tpt_type_t type = tpt_shape_arg(L, "self");
    const int at = tpt_lower_find(L, "value");
    const tpt_number_t *n = at >= 0 && L->args[at].kind == TPT_ARG_NUMBER ? &L->args[at].u.number : NULL;
    const bool dropped = n != NULL && !n->wrapped && tpt_number_is_twisted(n) && type.dtype != TPT_BOOL;
    tpt_val_t value = tpt_shape_value(L, "value", (tpt_dtype_t)(dropped ? n->dtype : type.dtype));
    tpt_lower_result(L, spread(L, tpt_ir_convert(L->ir, value, (tpt_dtype_t)type.dtype), &type));
}

/* zero, zeros, ones: data is the number. */
void tpt_fill_constant(tpt_lower_t *L) { tpt_lower_result(L, tpt_ir_full_i(L->ir, tpt_shape_out(L), L->row->data)); }

void tpt_fill_full(tpt_lower_t *L) {
    tpt_type_t type = tpt_shape_out(L);
    tpt_lower_result(L, spread(L, tpt_shape_value(L, "fill_value", (tpt_dtype_t)type.dtype), &type));
}

void tpt_fill_scalar(tpt_lower_t *L) {
    tpt_type_t type = tpt_shape_out(L);
    tpt_lower_result(L, spread(L, tpt_lower_number(L, "s", (tpt_dtype_t)type.dtype), &type));
}

/* A static number, exact for integers beyond 2^53. */
static tpt_val_t known_number(tpt_lower_t *L, const char *name, tpt_dtype_t work, int64_t if_none) {
    int i = tpt_lower_find(L, name);
    if (work == TPT_I64 && i >= 0 && L->args[i].kind == TPT_ARG_NUMBER && L->args[i].u.number.dtype == TPT_I64)
        return tpt_ir_const_i(L->ir, work, L->args[i].u.number.v.i);
    double value = tpt_lower_static(L, name, (double)if_none);
    return work == TPT_I64 ? tpt_ir_const_i(L->ir, work, (int64_t)value) : tpt_ir_const_f(L->ir, work, value);
}

/* start + i * step. The size depends on the numbers, so they are static and arrive by value. */
void tpt_fill_arange(tpt_lower_t *L) {
    tpt_type_t out = tpt_shape_out(L);
    tpt_dtype_t dtype = (tpt_dtype_t)out.dtype;
    int64_t n = tpt_type_numel(&out);
    tpt_dtype_t work = tpt_dtype_is_int(dtype) ? TPT_I64 : TPT_F64;
    tpt_val_t x = tpt_ir_mul(L->ir, tpt_ir_iota(L->ir, tpt_type_make(work, 1, &n), 0), known_number(L, "step", work, 1));
    x = tpt_ir_add(L->ir, x, known_number(L, "start", work, 0));
    /* out= keeps its own shape when the number of elements agrees. */
    tpt_lower_result(L, tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, x, dtype), out.rank, out.dims));
}

/* From both ends towards the middle, as PyTorch does, so that the last element is exactly `end`. */
static tpt_val_t linspace(tpt_lower_t *L, tpt_type_t out, tpt_dtype_t work) {
    int64_t n = tpt_type_numel(&out);
    tpt_dtype_t dtype = (tpt_dtype_t)out.dtype;
    tpt_val_t start = tpt_ir_convert(L->ir, tpt_shape_value(L, "start", dtype), work);
    tpt_val_t end = tpt_ir_convert(L->ir, tpt_shape_value(L, "end", dtype), work);
    start = tpt_ir_reshape(L->ir, start, 0, NULL);
    end = tpt_ir_reshape(L->ir, end, 0, NULL);
    if (n <= 1) return tpt_ir_broadcast_to(L->ir, start, 1, &n);
    tpt_val_t step = tpt_ir_div(L->ir, tpt_ir_sub(L->ir, end, start), tpt_ir_const_i(L->ir, work, n - 1));
    tpt_val_t i = tpt_ir_iota(L->ir, tpt_type_make(TPT_I64, 1, &n), 0);
    tpt_val_t back = tpt_ir_sub(L->ir, tpt_ir_const_i(L->ir, TPT_I64, n - 1), i);
    tpt_val_t first = tpt_ir_add(L->ir, start, tpt_ir_mul(L->ir, tpt_ir_convert(L->ir, i, work), step));
    tpt_val_t second = tpt_ir_sub(L->ir, end, tpt_ir_mul(L->ir, tpt_ir_convert(L->ir, back, work), step));
    tpt_val_t low = tpt_ir_compare(L->ir, TPT_IR_LT, i, tpt_ir_const_i(L->ir, TPT_I64, n / 2));
    return tpt_ir_select(L->ir, low, first, second);
}

static tpt_dtype_t range_work(tpt_dtype_t dtype) {
    return tpt_dtype_is_int(dtype) || dtype == TPT_BOOL ? TPT_F64 : tpt_dtype_opmath(dtype);
}

void tpt_fill_linspace(tpt_lower_t *L) {
    tpt_type_t out = tpt_shape_out(L);
    tpt_val_t x = tpt_ir_convert(L->ir, linspace(L, out, range_work((tpt_dtype_t)out.dtype)), (tpt_dtype_t)out.dtype);
    tpt_lower_result(L, tpt_ir_reshape(L->ir, x, out.rank, out.dims));
}

void tpt_fill_logspace(tpt_lower_t *L) {
    tpt_type_t out = tpt_shape_out(L);
    tpt_dtype_t dtype = (tpt_dtype_t)out.dtype, work = range_work(dtype);
    tpt_val_t x = linspace(L, out, work);
    tpt_val_t base = tpt_lower_has(L, "base") ? tpt_lower_number(L, "base", work) : tpt_ir_const_f(L->ir, work, 10);
    x = tpt_ir_binary(L->ir, TPT_IR_POW, base, x);
    if (tpt_dtype_is_int(dtype)) {
        /* A power that misses a whole number by rounding must not be cut to the one below. */
        tpt_val_t whole = tpt_ir_unary(L->ir, TPT_IR_ROUND, x);
        tpt_val_t gap = tpt_ir_unary(L->ir, TPT_IR_ABS, tpt_ir_sub(L->ir, x, whole));
        tpt_val_t tiny = tpt_ir_mul(L->ir, tpt_ir_unary(L->ir, TPT_IR_ABS, x), tpt_ir_const_f(L->ir, work, 1e-12));
        x = tpt_ir_select(L->ir, tpt_ir_compare(L->ir, TPT_IR_LE, gap, tiny), whole, x);
    }
    tpt_lower_result(L, tpt_ir_reshape(L->ir, tpt_ir_convert(L->ir, x, dtype), out.rank, out.dims));
}

void tpt_fill_eye(tpt_lower_t *L) {
    tpt_type_t out = tpt_shape_out(L);
    tpt_type_t plane = tpt_type_make(TPT_I64, out.rank, out.dims);
    if (out.rank != 2) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "eye: the output must have 2 dimensions");
        return;
    }
    tpt_val_t same = tpt_ir_compare(L->ir, TPT_IR_EQ, tpt_ir_iota(L->ir, plane, 0), tpt_ir_iota(L->ir, plane, 1));
    tpt_lower_result(L, tpt_ir_convert(L->ir, same, (tpt_dtype_t)out.dtype));
}

/* Row and column of each kept element of a [row, col] plane, row by row. data: 0 = tril, 1 = triu. The rows' lengths are known
 * here; which row an element lies in is found on the device, so that the program stays small. */
void tpt_fill_tri_indices(tpt_lower_t *L) {
    tpt_type_t out = tpt_shape_out(L);
    int64_t rows = tpt_lower_int(L, "row", 0), cols = tpt_lower_int(L, "col", 0), offset = tpt_lower_int(L, "offset", 0);
    int64_t total = 0;
    if (rows <= 0 || cols <= 0 || out.rank != 2 || out.dims[1] == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(L->ir, out));
        return;
    }
    int64_t *starts = tpt_arena_alloc(tpt_ir_arena(L->ir), (size_t)rows * 2 * sizeof *starts);
    if (starts == NULL) {
        (void)tpt_ir_fail(L->ir, tpt_status_oom((size_t)rows * 2 * sizeof *starts));
        return;
    }
    int64_t *shifts = starts + rows; /* column = position + shift of the row */
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = L->row->data ? r + offset : 0, limit = L->row->data ? cols : r + offset + 1;
        first = first < 0 ? 0 : first > cols ? cols : first;
        limit = limit < first ? first : limit > cols ? cols : limit;
        starts[r] = total;
        shifts[r] = first - total;
        total += limit - first;
    }
    tpt_val_t row = tpt_index_segments(L->ir, tpt_ir_const_ints(L->ir, TPT_I64, (int)rows, starts), total);
    tpt_val_t shift = tpt_index_take(L->ir, tpt_ir_const_ints(L->ir, TPT_I64, (int)rows, shifts), 0, row);
    tpt_val_t at = tpt_ir_iota(L->ir, tpt_type_make(TPT_I64, 1, &total), 0);
    tpt_val_t parts[2] = {tpt_ir_unsqueeze(L->ir, row, 0), tpt_ir_unsqueeze(L->ir, tpt_ir_add(L->ir, at, shift), 0)};
    tpt_lower_result(L, tpt_ir_convert(L->ir, tpt_ir_concat(L->ir, 2, parts, 0), (tpt_dtype_t)out.dtype));
}
