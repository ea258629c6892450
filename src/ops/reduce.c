/* reduce.c - the shared part of reductions, and sums, products, means, extremes and truth values. */
#include "ops/reduce.h"

#include <string.h>

/* ---- shared part --------------------------------------------------------------------------------------------------- */

static void fill_sizes(tpt_reduce_t *r) {
    r->count = 1;
    for (int d = 0; d < r->rank; d++) r->sizes[d] = tpt_ir_dim(r->ir, r->x, d);
    for (int i = 0; i < r->ndims; i++) r->count *= r->sizes[r->dims[i]];
}

tpt_reduce_t tpt_reduce_begin(tpt_lower_t *L, const char *name) {
    tpt_reduce_t r = {.ir = L->ir, .x = tpt_lower_tensor(L, name), .keep = tpt_lower_bool(L, "keepdim", false)};
    r.rank = tpt_ir_rank(r.ir, r.x);
    int at = tpt_lower_find(L, "dim");
    uint8_t kind = at < 0 ? (uint8_t)TPT_ARG_NONE : L->args[at].kind;
    if (r.rank == 0) {
        r.x = tpt_ir_reshape(r.ir, r.x, 1, (const int64_t[]){1});
        r.scalar = true;
        r.rank = r.ndims = 1;
        r.dims[0] = 0;
    } else if (kind == TPT_ARG_INT) {
        r.dims[0] = tpt_lower_dim(L, "dim", r.rank, -1);
        r.ndims = 1;
    } else {
        r.ndims = tpt_lower_dims(L, "dim", r.rank, r.dims);
    }
    fill_sizes(&r);
    return r;
}

tpt_reduce_t tpt_reduce_all(tpt_ir_t *ir, tpt_val_t x) {
    tpt_reduce_t r = {.ir = ir, .x = x, .rank = tpt_ir_rank(ir, x)};
    r.ndims = r.rank;
    for (int d = 0; d < r.rank; d++) r.dims[d] = d;
    fill_sizes(&r);
    return r;
}

static bool is_reduced(const tpt_reduce_t *r, int d) {
    for (int i = 0; i < r->ndims; i++)
        if (r->dims[i] == d) return true;
    return false;
}

tpt_val_t tpt_reduce_finish(const tpt_reduce_t *r, tpt_val_t v) {
    if (!r->keep || r->scalar) return v;
    int64_t sizes[TPT_MAX_RANK];
    for (int d = 0; d < r->rank; d++) sizes[d] = is_reduced(r, d) ? 1 : r->sizes[d];
    return tpt_ir_reshape(r->ir, v, r->rank, sizes);
}

tpt_val_t tpt_reduce_expand(const tpt_reduce_t *r, tpt_val_t v) {
    int64_t map[TPT_MAX_RANK];
    int kept = 0;
    for (int d = 0; d < r->rank; d++)
        if (!is_reduced(r, d)) map[kept++] = d;
    return tpt_ir_broadcast_in_dim(r->ir, v, r->rank, r->sizes, map);
}

tpt_val_t tpt_reduce_count(const tpt_reduce_t *r, tpt_dtype_t dtype) { return tpt_ir_const_i(r->ir, dtype, r->count); }

tpt_val_t tpt_reduce_isnan(tpt_ir_t *ir, tpt_val_t x) {
    tpt_dtype_t d = tpt_ir_dtype(ir, x);
    if (!tpt_dtype_is_float(d) && !tpt_dtype_is_complex(d)) return tpt_ir_const_i(ir, TPT_BOOL, 0);
    return tpt_ir_compare(ir, TPT_IR_NE, x, x);
}

tpt_val_t tpt_reduce_splat(tpt_ir_t *ir, tpt_val_t scalar, tpt_val_t x) {
    const tpt_type_t *type = tpt_ir_type(ir, x);
    return tpt_ir_broadcast_in_dim(ir, scalar, type->rank, type->dims, NULL);
}

tpt_val_t tpt_reduce_iota(tpt_ir_t *ir, tpt_val_t x, int dim) {
    tpt_type_t type = *tpt_ir_type(ir, x);
    type.dtype = tpt_ir_dim(ir, x, dim) < INT32_MAX ? TPT_I32 : TPT_I64;
    return tpt_ir_iota(ir, type, dim);
}

/* ---- stages -------------------------------------------------------------------------------------------------------- */

#define STAGE_ROW 1024 /* longest run that one accumulator takes */

/* The length of the rows that `n` elements are cut into: a divisor near the square root where there is one. */
static int64_t stage_row(int64_t n) {
    int64_t want = 32;
    while (want < STAGE_ROW && want * want < n) want *= 2;
    for (int64_t step = 0; step <= want / 2; step++) {
        if (n % (want + step) == 0) return want + step;
        if (n % (want - step) == 0) return want - step;
    }
    return want;
}

/* One accumulator over a long float32 sum loses digits, and is one chain of dependent additions: cut the longest reduced dim
 * into rows, reduce those, then the rest. Adjacent reduced dims are merged first, which moves no data. */
static tpt_val_t staged(tpt_ir_t *ir, tpt_ir_reducer_t op, tpt_val_t v, int ndims, const int64_t *dims) {
    int rank = tpt_ir_rank(ir, v), merged_rank = 0, longest = -1, nreduced = 0;
    int64_t merged[TPT_MAX_RANK + 1], reduced[TPT_MAX_RANK + 1];
    bool last_reduced = false;
    for (int d = 0, i = 0; d < rank; d++) {
        bool now = i < ndims && dims[i] == d;
        if (now) i++;
        if (now && last_reduced) {
            merged[merged_rank - 1] *= tpt_ir_dim(ir, v, d);
        } else {
            if (now) reduced[nreduced++] = merged_rank;
            merged[merged_rank++] = tpt_ir_dim(ir, v, d);
        }
        last_reduced = now;
    }
    for (int i = 0; i < nreduced; i++)
        if (longest < 0 || merged[reduced[i]] > merged[reduced[longest]]) longest = i;
    if (tpt_ir_status(ir) != NULL || longest < 0) return tpt_ir_reduce(ir, op, v, ndims, dims);
    int at = (int)reduced[longest];
    int64_t n = merged[at];
    if (n <= STAGE_ROW || merged_rank >= TPT_MAX_RANK) return tpt_ir_reduce(ir, op, v, ndims, dims);
    v = tpt_ir_reshape(ir, v, merged_rank, merged);
    int64_t row = stage_row(n), rows = (n + row - 1) / row;
    if (rows * row != n) {
        int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
        high[at] = rows * row - n;
        v = tpt_ir_pad(ir, v, tpt_ir_like(ir, v, op == TPT_IR_RED_MUL ? 1.0 : 0.0), low, high, NULL);
    }
    memmove(&merged[at + 2], &merged[at + 1], (size_t)(merged_rank - at - 1) * sizeof merged[0]);
    merged[at] = rows;
    merged[at + 1] = row;
    v = tpt_ir_reshape(ir, v, merged_rank + 1, merged);
    bool lanes = at + 1 == merged_rank && tpt_ir_host_code(ir); /* reduce the outer part: the inner one vectorises */
    v = tpt_ir_reduce(ir, op, v, 1, (const int64_t[]){lanes ? at : at + 1});
    return staged(ir, op, v, nreduced, reduced);
}

tpt_val_t tpt_reduce_run(const tpt_reduce_t *r, tpt_ir_reducer_t op, tpt_val_t v) {
    tpt_dtype_t d = tpt_ir_dtype(r->ir, v);
    bool rounds = tpt_dtype_is_float(d) || tpt_dtype_is_complex(d);
    bool sums = op == TPT_IR_RED_ADD || op == TPT_IR_RED_MUL;
    /* Other devices sum in many accumulators anyway, and cutting rows would move their data. */
    if (rounds && sums && r->count > STAGE_ROW && tpt_ir_host_code(r->ir)) return staged(r->ir, op, v, r->ndims, r->dims);
    return tpt_ir_reduce(r->ir, op, v, r->ndims, r->dims);
}

/* ---- sums, products, means ----------------------------------------------------------------------------------------- */

/* The dtype in which a sum or product is rounded: the one asked for, or int64 for integers. */
static tpt_dtype_t sum_dtype(tpt_lower_t *L, tpt_dtype_t own) {
    bool whole = own == TPT_BOOL || tpt_dtype_is_int(own);
    return tpt_lower_dtype(L, "dtype", whole ? TPT_I64 : own);
}

static tpt_val_t to_sum(tpt_lower_t *L, tpt_val_t x) {
    tpt_dtype_t d = sum_dtype(L, tpt_ir_dtype(L->ir, x));
    return tpt_ir_convert(L->ir, tpt_ir_convert(L->ir, x, d), tpt_dtype_opmath(d));
}

/* data: the reducer. */
void tpt_ops_sum(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    r.x = to_sum(L, r.x);
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, (tpt_ir_reducer_t)L->row->data, r.x)));
}

void tpt_ops_nansum(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_val_t x = to_sum(L, r.x);
    tpt_val_t kept = tpt_ir_select(L->ir, tpt_reduce_isnan(L->ir, r.x), tpt_ir_like(L->ir, x, 0.0), x);
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, TPT_IR_RED_ADD, kept)));
}

void tpt_ops_mean(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_dtype_t d = tpt_lower_dtype(L, "dtype", L->nouts > 0 ? (tpt_dtype_t)L->outs[0].dtype : tpt_ir_dtype(L->ir, r.x));
    tpt_dtype_t acc = tpt_dtype_opmath(d);
    r.x = tpt_ir_convert(L->ir, tpt_ir_convert(L->ir, r.x, d), acc);
    tpt_val_t sum = tpt_reduce_run(&r, TPT_IR_RED_ADD, r.x);
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_ir_div(L->ir, sum, tpt_reduce_count(&r, acc))));
}

void tpt_ops_trace(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = to_sum(L, tpt_lower_tensor(L, "self"));
    tpt_val_t on_diagonal = tpt_ir_compare(ir, TPT_IR_EQ, tpt_reduce_iota(ir, x, 0), tpt_reduce_iota(ir, x, 1));
    x = tpt_ir_select(ir, on_diagonal, x, tpt_ir_like(ir, x, 0.0));
    tpt_reduce_t r = tpt_reduce_all(ir, x);
    tpt_lower_result(L, tpt_reduce_run(&r, TPT_IR_RED_ADD, x));
}

void tpt_ops_count_nonzero(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    r.x = tpt_ir_convert(L->ir, tpt_ir_convert(L->ir, r.x, TPT_BOOL), TPT_I64);
    tpt_lower_result(L, tpt_reduce_run(&r, TPT_IR_RED_ADD, r.x));
}

/* ---- truth --------------------------------------------------------------------------------------------------------- */

/* data: AND or OR. For the overload with a list an empty list reduces nothing (None reduces all). */
void tpt_ops_truth(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    r.x = tpt_ir_convert(L->ir, r.x, TPT_BOOL);
    bool none =
        tpt_lower_has(L, "dim") && L->args[tpt_lower_find(L, "dim")].kind != TPT_ARG_INT && tpt_lower_count(L, "dim") == 0;
    if (none) {
        tpt_lower_result(L, r.scalar ? tpt_ir_reshape(L->ir, r.x, 0, NULL) : r.x);
        return;
    }
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, (tpt_ir_reducer_t)L->row->data, r.x)));
}

/* All bits of the elements as 64-bit words, floating ones as float64, xor-ed. */
void tpt_ops_hash_tensor(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    bool whole = tpt_dtype_is_int(tpt_ir_dtype(L->ir, r.x)) || tpt_ir_dtype(L->ir, r.x) == TPT_BOOL;
    r.x = tpt_ir_bitcast(L->ir, tpt_ir_convert(L->ir, r.x, whole ? TPT_I64 : TPT_F64), TPT_U64);
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, TPT_IR_RED_XOR, r.x)));
}

/* ---- extremes ------------------------------------------------------------------------------------------------------ */

/* Two plain reductions vectorise; one with a compound comparator would not. If there is a NaN, `extreme` is NaN, equals
 * nothing, and only the NaNs themselves are candidates. */
tpt_val_t tpt_reduce_index(tpt_ir_t *ir, tpt_val_t x, tpt_val_t extreme, int dim) {
    tpt_reduce_t r = {.ir = ir, .x = x, .rank = tpt_ir_rank(ir, x), .ndims = 1, .dims = {dim}};
    fill_sizes(&r);
    tpt_val_t hit = tpt_ir_compare(ir, TPT_IR_EQ, x, tpt_reduce_expand(&r, extreme));
    if (tpt_dtype_is_float(tpt_ir_dtype(ir, x))) hit = tpt_ir_or(ir, hit, tpt_reduce_isnan(ir, x));
    tpt_val_t iota = tpt_reduce_iota(ir, x, dim);
    tpt_val_t none = tpt_ir_const_i(ir, tpt_ir_dtype(ir, iota), r.sizes[dim]);
    tpt_val_t index = tpt_ir_select(ir, hit, iota, none);
    return tpt_ir_convert(ir, tpt_reduce_run(&r, TPT_IR_RED_MIN, index), TPT_I64);
}

void tpt_reduce_extreme(tpt_ir_t *ir, tpt_val_t x, int dim, bool largest, tpt_val_t *out_value, tpt_val_t *out_index) {
    *out_value = *out_index = TPT_VAL_NONE;
    if (tpt_ir_rank(ir, x) > 0 && tpt_ir_dim(ir, x, dim) == 0) {
        (void)tpt_ir_fail(ir, tpt_status_make(TPT_OUT_OF_RANGE, "%s(): Expected reduction dim %d to have non-zero size.",
                                              largest ? "max" : "min", dim));
        return;
    }
    *out_value = tpt_ir_reduce(ir, largest ? TPT_IR_RED_MAX : TPT_IR_RED_MIN, x, 1, (const int64_t[]){dim});
    *out_index = tpt_reduce_index(ir, x, *out_value, dim);
}

/* amax, amin, max, min without indices; data: the reducer. */
void tpt_ops_amax(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    if (r.count == 0 && !tpt_lower_has(L, "dim")) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                             "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                             "reduction dim with the 'dim' argument.",
                             L->row->name);
        return;
    }
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, (tpt_ir_reducer_t)L->row->data, r.x)));
}

void tpt_ops_aminmax(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, TPT_IR_RED_MIN, r.x)));
    tpt_lower_result(L, tpt_reduce_finish(&r, tpt_reduce_run(&r, TPT_IR_RED_MAX, r.x)));
}

/* max.dim, min.dim: values and indices; data: 1 = the largest. */
void tpt_ops_max_dim(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    tpt_val_t value, index;
    tpt_reduce_extreme(L->ir, r.x, (int)r.dims[0], L->row->data != 0, &value, &index);
    tpt_lower_result(L, tpt_reduce_finish(&r, value));
    tpt_lower_result(L, tpt_reduce_finish(&r, index));
}

/* argmax, argmin; without a dim the index is into the flattened tensor. data: 1 = the largest. */
void tpt_ops_argmax(tpt_lower_t *L) {
    tpt_reduce_t r = tpt_reduce_begin(L, "self");
    bool flat = !tpt_lower_has(L, "dim");
    tpt_val_t x = flat ? tpt_ir_flatten(L->ir, r.x) : r.x, value, index;
    tpt_reduce_extreme(L->ir, x, flat ? 0 : (int)r.dims[0], L->row->data != 0, &value, &index);
    tpt_lower_result(L, tpt_reduce_finish(&r, index));
}
