/* nn.c - helpers shared by the neural-network lowerings. */
#include "ops/nn.h"

#include <math.h>

tpt_val_t tpt_nn_optional(tpt_lower_t *L, const char *name, tpt_dtype_t dtype) {
    if (!tpt_lower_has(L, name)) return TPT_VAL_NONE;
    return tpt_ir_convert(L->ir, tpt_lower_tensor(L, name), dtype);
}

tpt_val_t tpt_nn_tensor(tpt_lower_t *L, const char *name, tpt_dtype_t dtype) {
    return tpt_ir_convert(L->ir, tpt_lower_tensor(L, name), dtype);
}

tpt_val_t tpt_nn_full_like(tpt_ir_t *b, tpt_val_t v, double value) {
    return tpt_ir_full_f(b, *tpt_ir_type(b, v), value);
}

/* Splits dim `dim` of size n into [ceil(n / inner), inner], padding with zeros. */
static tpt_val_t split_dim(tpt_ir_t *b, tpt_val_t x, int dim, int64_t inner) {
    const tpt_type_t t = *tpt_ir_type(b, x);
    const int64_t n = t.dims[dim], outer = (n + inner - 1) / inner;
    if (outer * inner != n) {
        int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
        high[dim] = outer * inner - n;
        x = tpt_ir_pad(b, x, tpt_ir_const_f(b, t.dtype, 0), low, high, NULL);
    }
    int64_t dims[TPT_MAX_RANK];
    int k = 0;
    for (int i = 0; i < t.rank; i++) {
        if (i == dim) dims[k++] = outer;
        dims[k++] = i == dim ? inner : t.dims[i];
    }
    return tpt_ir_reshape(b, x, t.rank + 1, dims);
}

/* On processors in two stages, which loses fewer digits: the first reduces the outermost dims, as those vectorise, up to about
 * the square root of the number of terms, the second the rest. The barrier keeps XLA from merging the two again. */
tpt_val_t tpt_nn_sum(tpt_ir_t *b, tpt_val_t x, int ndims, const int64_t *dims_of_x) {
    int64_t dims[TPT_MAX_RANK];
    x = tpt_ir_before_reduce(b, x, ndims, dims_of_x, dims);
    tpt_type_t t = *tpt_ir_type(b, x);
    bool reduced[TPT_MAX_RANK] = {false};
    int64_t total = 1, biggest = 0;
    int big_dim = 0;
    for (int i = 0; i < ndims; i++) {
        reduced[dims[i]] = true;
        total *= t.dims[dims[i]];
        if (t.dims[dims[i]] > biggest) {
            biggest = t.dims[dims[i]];
            big_dim = (int)dims[i];
        }
    }
    if (total <= 4096 || t.rank >= TPT_MAX_RANK || !tpt_dtype_is_float(t.dtype) || !tpt_ir_host_code(b)) return tpt_ir_reduce(b, TPT_IR_RED_ADD, x, ndims, dims);
    const int64_t root = (int64_t)sqrt((double)total);
    if (biggest > 8 * root) {
        int64_t inner = 1;
        while (inner < root) inner *= 2;
        x = split_dim(b, x, big_dim, inner);
        t = *tpt_ir_type(b, x);
        for (int i = TPT_MAX_RANK - 1; i > big_dim; i--) reduced[i] = reduced[i - 1];
    }
    int64_t first[TPT_MAX_RANK], second[TPT_MAX_RANK], terms = 1;
    int nfirst = 0, nsecond = 0;
    bool in_first[TPT_MAX_RANK] = {false};
    for (int i = 0; i < t.rank; i++) {
        if (!reduced[i]) continue;
        if (nfirst > 0 && terms * t.dims[i] > 4 * root) break;
        in_first[i] = true;
        nfirst++;
        terms *= t.dims[i];
    }
    nfirst = 0;
    for (int i = 0, kept = 0; i < t.rank; i++) {
        if (in_first[i]) {
            first[nfirst++] = i;
            continue;
        }
        if (reduced[i]) second[nsecond++] = kept;
        kept++;
    }
    tpt_val_t part = tpt_ir_reduce(b, TPT_IR_RED_ADD, x, nfirst, first);
    if (nsecond == 0) return part;
    tpt_val_t held = TPT_VAL_NONE;
    tpt_ir_barrier(b, 1, &part, &held);
    return tpt_ir_reduce(b, TPT_IR_RED_ADD, held, nsecond, second);
}

tpt_val_t tpt_nn_sum_all(tpt_ir_t *b, tpt_val_t x) {
    int64_t dims[TPT_MAX_RANK];
    const int rank = tpt_ir_rank(b, x);
    for (int i = 0; i < rank; i++) dims[i] = i;
    return rank == 0 ? x : tpt_nn_sum(b, x, rank, dims);
}

tpt_val_t tpt_nn_mean_all(tpt_ir_t *b, tpt_val_t x) {
    const double n = (double)tpt_ir_numel(b, x);
    return tpt_ir_div(b, tpt_nn_sum_all(b, x), tpt_ir_like(b, x, n));
}

tpt_val_t tpt_nn_keepdims(tpt_ir_t *b, tpt_val_t x, int rank, int ndims, const int64_t *dims) {
    int64_t shape[TPT_MAX_RANK];
    for (int i = 0, k = 0; i < rank && i < TPT_MAX_RANK; i++) {
        bool gone = false;
        for (int j = 0; j < ndims; j++) gone = gone || dims[j] == i;
        shape[i] = gone ? 1 : tpt_ir_dim(b, x, k++);
    }
    return tpt_ir_reshape(b, x, rank, shape);
}

tpt_val_t tpt_nn_along(tpt_ir_t *b, tpt_val_t v, tpt_val_t like, int dim) {
    const tpt_type_t t = *tpt_ir_type(b, like);
    const int64_t map[1] = {dim};
    return tpt_ir_broadcast_in_dim(b, v, t.rank, t.dims, map);
}

tpt_val_t tpt_nn_reduction(tpt_lower_t *L, tpt_val_t x) {
    switch (tpt_lower_int(L, "reduction", 1)) {
    case 0:
        return x;
    case 1:
        return tpt_nn_mean_all(L->ir, x);
    case 2:
        return tpt_nn_sum_all(L->ir, x);
    default:
        return tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "reduction must be 0 (none), 1 (mean) or 2 (sum)");
    }
}

void tpt_nn_broadcast_pair(tpt_ir_t *b, tpt_val_t *x, tpt_val_t *y) {
    const tpt_type_t tx = *tpt_ir_type(b, *x), ty = *tpt_ir_type(b, *y);
    const int rank = tx.rank > ty.rank ? tx.rank : ty.rank;
    int64_t dims[TPT_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        const int ix = i - (rank - tx.rank), iy = i - (rank - ty.rank);
        const int64_t dx = ix < 0 ? 1 : tx.dims[ix], dy = iy < 0 ? 1 : ty.dims[iy];
        dims[i] = dx == 1 ? dy : dx;
    }
    *x = tpt_ir_broadcast_to(b, *x, rank, dims);
    *y = tpt_ir_broadcast_to(b, *y, rank, dims);
}

static int category(tpt_dtype_t d) {
    if (d == TPT_BOOL) return 0;
    if (tpt_dtype_is_int(d)) return 1;
    return tpt_dtype_is_complex(d) ? 3 : 2;
}

/* Tensors with dims outrank 0-dim ones, which outrank numbers, unless the lesser one is of a higher category. */
tpt_dtype_t tpt_nn_result_type(tpt_dtype_t a, int rank_a, tpt_dtype_t b, int rank_b) {
    const int pa = rank_a > 0 ? 2 : rank_a == 0 ? 1 : 0, pb = rank_b > 0 ? 2 : rank_b == 0 ? 1 : 0;
    if (pa < pb) return tpt_nn_result_type(b, rank_b, a, rank_a);
    if (pa == 0) return tpt_promote_types(a, b);
    if (pb == 0 && b == TPT_F64) b = TPT_F32;
    if (pb == 0 && b == TPT_C128) b = tpt_dtype_complex(tpt_dtype_is_float(a) ? a : TPT_F32);
    if (pa == pb) return tpt_promote_types(a, b);
    if (category(a) >= category(b)) return a;
    return category(b) == 3 && tpt_dtype_is_float(a) ? tpt_promote_types(a, b) : b;
}

bool tpt_nn_mask(tpt_lower_t *L, const char *name, int k) {
    int64_t mask[8];
    const int n = tpt_lower_ints(L, name, mask, 8);
    return n == 0 || (k < n && mask[k] != 0);
}
