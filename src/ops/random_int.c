/* random_int.c - random whole numbers, permutations and choices. */
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/sort.h"

/* ---- random_ ------------------------------------------------------------------------------------------------------- */

/* Largest whole number that random_() may draw: of floats, up to which every integer is exact. */
static int64_t most_of(tpt_dtype_t d) {
    switch (d) {
        case TPT_BOOL:
            return 1;
        case TPT_U8:
            return UINT8_MAX;
        case TPT_I8:
            return INT8_MAX;
        case TPT_I16:
            return INT16_MAX;
        case TPT_U16:
            return UINT16_MAX;
        case TPT_I32:
            return INT32_MAX;
        case TPT_U32:
            return UINT32_MAX;
        case TPT_F16:
            return INT64_C(1) << 11;
        case TPT_BF16:
            return INT64_C(1) << 8;
        case TPT_F32:
            return INT64_C(1) << 24;
        case TPT_F64:
            return INT64_C(1) << 53;
        default:
            return INT64_MAX;
    }
}

/* Refuses bounds that an integer dtype can't hold, as cpu does. */
static bool check_bounds(tpt_lower_t *L, tpt_dtype_t d, int64_t from, int64_t last) {
    int64_t low = d == TPT_I8 ? INT8_MIN : d == TPT_I16 ? INT16_MIN : d == TPT_I32 ? INT32_MIN : d == TPT_I64 ? INT64_MIN : 0;
    if (d != TPT_BOOL && !tpt_dtype_is_int(d)) return true;
    bool bad_from = from < low || from > most_of(d);
    if (!bad_from && last <= most_of(d)) return true;
    static const char *const names[TPT_DTYPE_COUNT] = {
        [TPT_BOOL] = "bool",      [TPT_U8] = "unsigned char",   [TPT_I8] = "signed char", [TPT_I16] = "short int",
        [TPT_I32] = "int",        [TPT_I64] = "long int",       [TPT_U16] = "short unsigned int",
        [TPT_U32] = "unsigned int", [TPT_U64] = "long unsigned int"};
    (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s is out of bounds for %s", bad_from ? "from" : "to - 1", names[d]);
    return false;
}

/* random, random.to, random.from: [from, to), up to the dtype's largest inclusive when there is no `to`. */
void tpt_ops_random(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = *tpt_ir_type(ir, tpt_lower_tensor(L, "self"));
    tpt_dtype_t d = (tpt_dtype_t)type.dtype;
    int64_t from = tpt_lower_int(L, "from", 0);
    bool open = !tpt_lower_has(L, "to");
    int64_t last = open ? most_of(d) : tpt_lower_int(L, "to", 0) - 1;
    if (last < from) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                             "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)from,
                             (long long)last + 1);
        return;
    }
    if (!check_bounds(L, d, from, last)) return;
    uint64_t range = (uint64_t)last - (uint64_t)from + 1; /* 0: all 2^64 */
    tpt_val_t bits;
    if (range != 0 && range <= UINT32_MAX) { /* the high half of 32 bits times the range: no division */
        tpt_val_t words[2];
        tpt_random_words(L, &type, words);
        bits = tpt_ir_mul(ir, tpt_ir_convert(ir, words[0], TPT_U64), tpt_ir_const_i(ir, TPT_U64, (int64_t)range));
        bits = tpt_ir_binary(ir, TPT_IR_SHR_LOGIC, bits, tpt_ir_const_i(ir, TPT_U64, 32));
    } else {
        bits = tpt_random_u64(L, &type);
        if (range != 0) bits = tpt_ir_binary(ir, TPT_IR_REM, bits, tpt_ir_const_i(ir, TPT_U64, (int64_t)range));
    }
    tpt_val_t whole = tpt_ir_add(ir, tpt_ir_convert(ir, bits, TPT_I64), tpt_ir_const_i(ir, TPT_I64, from));
    tpt_lower_result(L, tpt_ir_convert(ir, whole, d));
}

/* ---- permutations and choices -------------------------------------------------------------------------------------- */

/* Sorts random keys. */
void tpt_ops_randperm(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    int64_t n = tpt_lower_int(L, "n", 0);
    if (n < 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "n must be non-negative, got %lld", (long long)n);
        return;
    }
    tpt_dtype_t d = L->nouts > 0 ? (tpt_dtype_t)L->outs[0].dtype : tpt_lower_dtype(L, "dtype", TPT_I64);
    tpt_type_t type = tpt_type_make(TPT_U32, 1, &n);
    tpt_val_t words[2], sorted, order;
    tpt_random_words(L, &type, words);
    tpt_sort_pairs(ir, words[0], 0, false, &sorted, &order);
    tpt_lower_result(L, tpt_ir_convert(ir, order, d));
}

/* Without replacement: the largest quotients of probability and exponential noise. [rows, n] -> [rows, k]. */
static tpt_val_t choose_distinct(tpt_lower_t *L, tpt_val_t p, int64_t k) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = *tpt_ir_type(ir, p);
    tpt_val_t score = tpt_ir_div(ir, p, tpt_random_exponential(L, type)), best, order;
    tpt_sort_top(ir, score, 1, k, true, &best, &order);
    return order;
}

/* With replacement: uniform numbers looked up in the running sums; never past the last element of some weight. */
static tpt_val_t choose_any(tpt_lower_t *L, tpt_val_t p, int64_t k) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t type = *tpt_ir_type(ir, p);
    int64_t rows = type.dims[0], n = type.dims[1];
    tpt_val_t sums = tpt_scan_sum(ir, p, 1);
    tpt_val_t total = tpt_ir_slice_dim(ir, sums, 1, n - 1, n);
    tpt_val_t u = tpt_lower_uniform(L, tpt_type_make((tpt_dtype_t)type.dtype, 2, (const int64_t[]){rows, k}));
    tpt_val_t place = tpt_sort_search(ir, sums, tpt_ir_mul(ir, u, total), true);
    tpt_val_t iota = tpt_reduce_iota(ir, p, 1), zero = tpt_ir_like(ir, p, 0.0);
    tpt_val_t weighty = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_GT, p, zero), iota, tpt_ir_like(ir, iota, 0.0));
    tpt_val_t last = tpt_ir_reduce(ir, TPT_IR_RED_MAX, weighty, 1, (const int64_t[]){1});
    return tpt_ir_min(ir, place, tpt_ir_convert(ir, tpt_ir_unsqueeze(ir, last, 1), TPT_I64));
}

/* Weights must be finite and not negative, and some of each row positive. */
static void refuse_weights(tpt_lower_t *L, tpt_val_t p) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t zero = tpt_ir_like(ir, p, 0.0);
    tpt_val_t fine = tpt_ir_and(ir, tpt_ir_unary(ir, TPT_IR_IS_FINITE, p), tpt_ir_compare(ir, TPT_IR_GE, p, zero));
    tpt_lower_flag(L, tpt_ir_not(ir, fine), -1);
    tpt_val_t some = tpt_ir_reduce(ir, TPT_IR_RED_OR, tpt_ir_compare(ir, TPT_IR_GT, p, zero), 1, (const int64_t[]){1});
    tpt_lower_refuse(L, tpt_ir_not(ir, some), "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or "
                                              "element < 0, or sum of probabilities <= 0");
}

void tpt_ops_multinomial(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t p = tpt_lower_tensor(L, "self");
    int rank = tpt_ir_rank(ir, p);
    int64_t k = tpt_lower_int(L, "num_samples", 1);
    if (tpt_ir_status(ir) == NULL && !tpt_dtype_is_float(tpt_ir_dtype(ir, p))) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "multinomial only supports floating-point dtypes for input, got: %s",
                             tpt_dtype_name(tpt_ir_dtype(ir, p)));
        return;
    }
    if (rank == 1) p = tpt_ir_unsqueeze(ir, p, 0);
    p = tpt_ir_convert(ir, p, tpt_ir_dtype(ir, p) == TPT_F64 ? TPT_F64 : TPT_F32);
    if (tpt_ir_status(ir) != NULL) return;
    bool replace = tpt_lower_bool(L, "replacement", false);
    int64_t n = tpt_ir_dim(ir, p, 1);
    if (n == 0 || k <= 0 || (!replace && k > n)) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT,
                             "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
        return;
    }
    if (n > INT64_C(1) << 24) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "number of categories cannot exceed 2^24");
        return;
    }
    refuse_weights(L, p);
    /* One sample is the same either way, and an argmax is cheaper than running sums. */
    tpt_val_t out = replace && k > 1 ? choose_any(L, p, k) : choose_distinct(L, p, k);
    out = tpt_ir_convert(ir, out, TPT_I64);
    tpt_lower_result(L, rank == 1 ? tpt_ir_reshape(ir, out, 1, &k) : out);
}
