/* pool.c - average and maximum pooling over the last two or three dims.
 *
 * Maximum pooling walks over the positions of the kernel, one dim after the other, each a strided slice of the padded input:
 * flat elementwise code, in the order of PyTorch's own loop, so that ties and NaN give the same indices. Adaptive pooling with windows of
 * unequal size first repeats rows by a gather, which makes the windows equal. */
#include "ops/nn.h"

#include "base/alloc.h"

enum { POOL_FLAT_LIMIT = 128 }; /* largest kernel whose positions backward walks over; larger ones scatter */

typedef struct pool {
    int spatial, lead; /* lead: dims before the spatial ones */
    int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
} pool_t;

static void read_ints(tpt_lower_t *L, const char *name, int spatial, int64_t if_none, int64_t *out) {
    const int n = tpt_lower_ints(L, name, out, 3);
    for (int i = n; i < spatial; i++) out[i] = n > 0 ? out[n - 1] : if_none;
}

static int64_t pooled_size(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil_mode) {
    int64_t n = in + 2 * p - d * (k - 1) - 1 + (ceil_mode ? s - 1 : 0);
    int64_t out = (n >= 0 ? n / s : -((-n + s - 1) / s)) + 1;
    if (ceil_mode && (out - 1) * s >= in + p) out--; /* the last window must start inside */
    return out;
}

static pool_t read_pool(tpt_lower_t *L, tpt_val_t x, int spatial) {
    pool_t p = {0};
    p.spatial = spatial;
    p.lead = tpt_ir_rank(L->ir, x) - spatial;
    if (p.lead < 0) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "pooling: the input has too few dims");
        p.lead = 0;
    }
    read_ints(L, "kernel_size", spatial, 1, p.kernel);
    if (tpt_lower_ints(L, "stride", p.stride, 3) == 0) {
        for (int i = 0; i < spatial; i++) p.stride[i] = p.kernel[i];
    } else {
        read_ints(L, "stride", spatial, 1, p.stride);
    }
    read_ints(L, "padding", spatial, 0, p.padding);
    read_ints(L, "dilation", spatial, 1, p.dilation);
    const bool ceil_mode = tpt_lower_bool(L, "ceil_mode", false);
    for (int i = 0; i < spatial; i++) {
        p.in[i] = tpt_ir_dim(L->ir, x, p.lead + i);
        p.out[i] = pooled_size(p.in[i], p.kernel[i], p.stride[i], p.padding[i], p.dilation[i], ceil_mode);
    }
    return p;
}

static int64_t kernel_numel(const pool_t *p) {
    int64_t n = 1;
    for (int i = 0; i < p->spatial; i++) n *= p->kernel[i];
    return n;
}

/* The next kernel position in row-major order. */
static void advance(const pool_t *p, int64_t *at) {
    for (int i = p->spatial - 1; i >= 0; i--) {
        if (++at[i] < p->kernel[i]) return;
        at[i] = 0;
    }
}

/* Pads so that the windows tile the result exactly; ceil mode and rows that no window reaches are covered too. */
static tpt_val_t pad_input(tpt_ir_t *b, tpt_val_t x, const pool_t *p, tpt_val_t value) {
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0};
    for (int i = 0; i < p->spatial; i++) {
        low[p->lead + i] = p->padding[i];
        high[p->lead + i] = (p->out[i] - 1) * p->stride[i] + p->dilation[i] * (p->kernel[i] - 1) + 1 - p->in[i] - p->padding[i];
    }
    return tpt_ir_pad(b, x, value, low, high, NULL);
}

/* The slice of the padded input that offset k of each window sees along one dim. */
static tpt_val_t window_slice(tpt_ir_t *b, tpt_val_t x, const pool_t *p, int dim, int64_t k) {
    const tpt_type_t t = *tpt_ir_type(b, x);
    int64_t starts[TPT_MAX_RANK] = {0}, limits[TPT_MAX_RANK], strides[TPT_MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        limits[i] = t.dims[i];
        strides[i] = 1;
    }
    const int d = p->lead + dim;
    starts[d] = k * p->dilation[dim];
    limits[d] = starts[d] + (p->out[dim] - 1) * p->stride[dim] + 1;
    strides[d] = p->stride[dim];
    return tpt_ir_slice(b, x, starts, limits, strides);
}

/* ---- tables: for each dim, one int per output position, computed on the host ------------------------------------------ */

typedef int64_t (*position_fn)(const pool_t *p, int dim, int64_t o, int64_t k);

/* Row of the input that kernel offset k of window o looks at. */
static int64_t position_window(const pool_t *p, int dim, int64_t o, int64_t k) {
    return o * p->stride[dim] - p->padding[dim] + k * p->dilation[dim];
}
/* First row inside the input of window o. */
static int64_t position_first(const pool_t *p, int dim, int64_t o, int64_t k) {
    (void)k;
    int64_t at = o * p->stride[dim] - p->padding[dim];
    while (at < 0) at += p->dilation[dim];
    return at;
}
static int64_t adaptive_start(int64_t o, int64_t in, int64_t out) {
    return o * in / out;
}
static int64_t adaptive_end(int64_t o, int64_t in, int64_t out) {
    return ((o + 1) * in + out - 1) / out;
}
/* The same for adaptive windows; offsets behind the end repeat the last row. */
static int64_t position_adaptive(const pool_t *p, int dim, int64_t o, int64_t k) {
    const int64_t at = adaptive_start(o, p->in[dim], p->out[dim]) + k, end = adaptive_end(o, p->in[dim], p->out[dim]);
    return at < end ? at : end - 1;
}

/* One table, times `scale`, as i32 along its dim of the shape [out...] (to be broadcast over the lead). */
static tpt_val_t table_index(tpt_lower_t *L, const pool_t *p, position_fn fn, int dim, int64_t k, int64_t scale) {
    tpt_ir_t *b = L->ir;
    const size_t bytes = (size_t)(p->out[dim] > 0 ? p->out[dim] : 1) * sizeof(int64_t);
    int64_t *table = tpt_malloc(bytes), dims[3] = {1, 1, 1};
    if (table == NULL) return tpt_ir_fail(b, tpt_status_oom(bytes));
    for (int64_t o = 0; o < p->out[dim]; o++) table[o] = fn(p, dim, o, k) * scale;
    tpt_val_t row = tpt_ir_const_ints(b, TPT_I32, (int)p->out[dim], table);
    tpt_free(table);
    dims[dim] = p->out[dim];
    return tpt_ir_reshape(b, row, p->spatial, dims);
}

/* Flat index in the input's spatial dims of kernel position `at`; dims before `from` count as zero. */
static tpt_val_t flat_index(tpt_lower_t *L, const pool_t *p, position_fn fn, const int64_t *at, int from) {
    tpt_val_t sum = TPT_VAL_NONE;
    int64_t scale = 1;
    for (int i = p->spatial - 1; i >= from; i--) {
        tpt_val_t part = table_index(L, p, fn, i, at[i], scale);
        sum = sum == TPT_VAL_NONE ? part : tpt_ir_add(L->ir, sum, part);
        scale *= p->in[i];
    }
    return sum;
}

/* x with dim `dim` replaced by the rows that `table` names. */
static tpt_val_t take_rows(tpt_ir_t *b, tpt_val_t x, int dim, int64_t n, const int64_t *table) {
    const tpt_type_t t = *tpt_ir_type(b, x);
    tpt_ir_gather_t g = {0};
    const int64_t dims[2] = {n, 1};
    for (int i = 0; i < t.rank; i++) {
        if (i != dim) g.offset_dims[g.n_offset++] = i;
        g.slice_sizes[i] = i == dim ? 1 : t.dims[i];
    }
    g.n_collapsed = g.n_start = 1;
    g.collapsed_slice_dims[0] = g.start_index_map[0] = dim;
    g.index_vector_dim = 1;
    return tpt_ir_gather(b, x, tpt_ir_reshape(b, tpt_ir_const_ints(b, TPT_I32, (int)n, table), 2, dims), &g);
}

/* Turns adaptive windows into equal ones: kernel = stride = the longest window. With `zero_fill`, places behind a window's end
 * hold zero, else they repeat its last row. */
static tpt_val_t equalize(tpt_lower_t *L, tpt_val_t x, pool_t *p, bool zero_fill) {
    tpt_ir_t *b = L->ir;
    for (int i = 0; i < p->spatial; i++) {
        p->padding[i] = 0;
        p->dilation[i] = 1;
        p->kernel[i] = 1;
        for (int64_t o = 0; o < p->out[i]; o++) {
            const int64_t n = adaptive_end(o, p->in[i], p->out[i]) - adaptive_start(o, p->in[i], p->out[i]);
            if (n > p->kernel[i]) p->kernel[i] = n;
        }
        p->stride[i] = p->kernel[i];
        if (p->in[i] == p->out[i] * p->kernel[i]) continue;
        const int64_t n = p->out[i] * p->kernel[i];
        int64_t *table = tpt_malloc((size_t)(n > 0 ? n : 1) * 2 * sizeof *table);
        if (table == NULL) return tpt_ir_fail(b, tpt_status_oom((size_t)n * 2 * sizeof *table));
        int64_t *inside = table + n;
        for (int64_t o = 0; o < p->out[i]; o++) {
            for (int64_t k = 0; k < p->kernel[i]; k++) {
                table[o * p->kernel[i] + k] = position_adaptive(p, i, o, k);
                inside[o * p->kernel[i] + k] =
                    adaptive_start(o, p->in[i], p->out[i]) + k < adaptive_end(o, p->in[i], p->out[i]);
            }
        }
        x = take_rows(b, x, p->lead + i, n, table);
        if (zero_fill) {
            tpt_val_t mask = tpt_ir_convert(b, tpt_ir_const_ints(b, TPT_I32, (int)n, inside), TPT_BOOL);
            x = tpt_ir_select(b, tpt_nn_along(b, mask, x, p->lead + i), x, tpt_ir_like(b, x, 0));
        }
        tpt_free(table);
    }
    return x;
}

/* ---- maximum ------------------------------------------------------------------------------------------------------- */

/* The largest element along one spatial dim, innermost dims first: a window of k x k costs 2k slices. `value` is padded so that
 * windows tile it, `index` the flat index carried so far over the inner dims (TPT_VAL_NONE at first). */
static void max_along(tpt_lower_t *L, const pool_t *p, int dim, position_fn first, position_fn position, int64_t scale,
                      tpt_val_t *value, tpt_val_t *index) {
    tpt_ir_t *b = L->ir;
    const tpt_type_t t = *tpt_ir_type(b, *value);
    const int64_t zero[3] = {0};
    tpt_type_t out = t;
    out.dims[p->lead + dim] = p->out[dim];
    tpt_val_t best = tpt_ir_broadcast_to(b, tpt_ir_lowest(b, t.dtype), out.rank, out.dims);
    tpt_val_t best_index = tpt_ir_broadcast_to(b, flat_index(L, p, first, zero, dim), out.rank, out.dims);
    for (int64_t k = 0; k < p->kernel[dim]; k++) {
        tpt_val_t here = window_slice(b, *value, p, dim, k), wins = tpt_ir_compare(b, TPT_IR_GT, here, best);
        tpt_val_t at = table_index(L, p, position, dim, k, scale);
        if (tpt_dtype_is_float(t.dtype)) wins = tpt_ir_or(b, wins, tpt_ir_compare(b, TPT_IR_NE, here, here));
        if (*index != TPT_VAL_NONE) at = tpt_ir_add(b, at, window_slice(b, *index, p, dim, k));
        best_index = tpt_ir_select(b, wins, at, best_index);
        best = tpt_ir_select(b, wins, here, best);
    }
    *value = best;
    *index = best_index;
}

static void max_windows(tpt_lower_t *L, tpt_val_t x, const pool_t *p, position_fn first, position_fn position) {
    tpt_val_t index = TPT_VAL_NONE;
    int64_t scale = 1;
    for (int i = p->spatial - 1; i >= 0; i--) {
        max_along(L, p, i, first, position, scale, &x, &index);
        scale *= p->in[i];
    }
    tpt_lower_result(L, x);
    tpt_lower_result(L, tpt_ir_convert(L->ir, index, TPT_I64));
}

/* max_pool2d_with_indices, max_pool3d_with_indices: `data` is the number of spatial dims. */
void tpt_ops_max_pool(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const pool_t p = read_pool(L, x, (int)L->row->data);
    max_windows(L, pad_input(L->ir, x, &p, tpt_ir_lowest(L->ir, tpt_ir_dtype(L->ir, x))), &p, position_first, position_window);
}

static pool_t read_adaptive(tpt_lower_t *L, tpt_val_t x, int spatial, const int64_t *out) {
    pool_t p = {0};
    p.spatial = spatial;
    p.lead = tpt_ir_rank(L->ir, x) - spatial;
    if (p.lead < 0) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "adaptive pooling: the input has too few dims");
        p.lead = 0;
    }
    for (int i = 0; i < spatial; i++) {
        p.in[i] = tpt_ir_dim(L->ir, x, p.lead + i);
        p.out[i] = out[i];
    }
    return p;
}

void tpt_ops_adaptive_max_pool(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    int64_t out[3];
    const int spatial = (int)L->row->data;
    read_ints(L, "output_size", spatial, 1, out);
    pool_t p = read_adaptive(L, x, spatial, out);
    x = equalize(L, x, &p, false);
    max_windows(L, x, &p, position_adaptive, position_adaptive);
}

/* Adds each gradient at the flat index that forward chose. */
static tpt_val_t scatter_windows(tpt_ir_t *b, tpt_val_t gy, tpt_val_t index, const pool_t *p, int64_t lead_numel) {
    int64_t in = 1, out = 1;
    for (int i = 0; i < p->spatial; i++) {
        in *= p->in[i];
        out *= p->out[i];
    }
    const int64_t flat[2] = {lead_numel, out}, column[2] = {lead_numel * out, 1}, total[1] = {lead_numel * in};
    tpt_val_t row = tpt_ir_iota(b, tpt_type_make(TPT_I64, 2, flat), 0);
    row = tpt_ir_mul(b, row, tpt_ir_const_i(b, TPT_I64, in));
    index = tpt_ir_add(b, tpt_ir_reshape(b, tpt_ir_convert(b, index, TPT_I64), 2, flat), row);
    tpt_ir_scatter_t s = {0};
    s.n_inserted = s.n_scatter = 1;
    s.index_vector_dim = 1;
    tpt_val_t zeros = tpt_ir_full_f(b, tpt_type_make(tpt_ir_dtype(b, gy), 1, total), 0);
    return tpt_ir_scatter(b, TPT_IR_SCATTER_ADD, zeros, tpt_ir_reshape(b, index, 2, column), tpt_ir_flatten(b, gy), &s);
}

/* Spreads gy over one kernel position: interior padding puts window o at row o * stride + offset. */
static tpt_val_t spread(tpt_ir_t *b, tpt_val_t gy, const pool_t *p, const int64_t *at) {
    int64_t low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0}, interior[TPT_MAX_RANK] = {0};
    for (int i = 0; i < p->spatial; i++) {
        const int d = p->lead + i;
        low[d] = at[i] * p->dilation[i] - p->padding[i];
        interior[d] = p->stride[i] - 1;
        high[d] = p->in[i] - low[d] - ((p->out[i] - 1) * p->stride[i] + 1);
    }
    return tpt_ir_pad(b, gy, tpt_ir_like(b, gy, 0), low, high, interior);
}

/* Windows side by side: each input place belongs to one window at most. */
static bool is_tiling(const pool_t *p) {
    for (int i = 0; i < p->spatial; i++)
        if (p->kernel[i] != p->stride[i] || p->padding[i] != 0 || p->dilation[i] != 1 || p->in[i] < p->out[i] * p->kernel[i]) return false;
    return true;
}

/* Repeats each window's value over its places: [.., out, ..] -> [.., out * kernel, ..]. */
static tpt_val_t repeat_windows(tpt_ir_t *b, tpt_val_t v, const pool_t *p) {
    int64_t wide[TPT_MAX_RANK], flat[TPT_MAX_RANK], map[TPT_MAX_RANK];
    int rank = p->lead;
    for (int i = 0; i < p->lead; i++) {
        wide[i] = flat[i] = tpt_ir_dim(b, v, i);
        map[i] = i;
    }
    for (int i = 0; i < p->spatial; i++) {
        map[p->lead + i] = rank;
        wide[rank++] = p->out[i];
        wide[rank++] = p->kernel[i];
        flat[p->lead + i] = p->out[i] * p->kernel[i];
    }
    return tpt_ir_reshape(b, tpt_ir_broadcast_in_dim(b, v, rank, wide, map), p->lead + p->spatial, flat);
}

static tpt_val_t max_backward_tiles(tpt_ir_t *b, tpt_val_t gy, tpt_val_t index, const pool_t *p) {
    int64_t dims[3], low[TPT_MAX_RANK] = {0}, high[TPT_MAX_RANK] = {0}, scale = 1;
    for (int i = 0; i < p->spatial; i++) {
        dims[i] = p->out[i] * p->kernel[i];
        high[p->lead + i] = p->in[i] - dims[i];
    }
    const tpt_type_t place = tpt_type_make(TPT_I32, p->spatial, dims);
    tpt_val_t own = tpt_ir_full_i(b, place, 0);
    for (int i = p->spatial - 1; i >= 0; i--) {
        own = tpt_ir_add(b, own, tpt_ir_mul(b, tpt_ir_iota(b, place, i), tpt_ir_const_i(b, TPT_I32, scale)));
        scale *= p->in[i];
    }
    tpt_val_t mine = tpt_ir_compare(b, TPT_IR_EQ, repeat_windows(b, index, p), own), zero = tpt_ir_like(b, gy, 0);
    return tpt_ir_pad(b, tpt_ir_select(b, mine, repeat_windows(b, gy, p), zero), zero, low, high, NULL);
}

static tpt_val_t max_backward(tpt_lower_t *L, tpt_val_t x, tpt_val_t gy, tpt_val_t index, const pool_t *p, bool equal) {
    tpt_ir_t *b = L->ir;
    const tpt_type_t t = *tpt_ir_type(b, x);
    if (equal && is_tiling(p)) return max_backward_tiles(b, gy, tpt_ir_convert(b, index, TPT_I32), p);
    if (!equal || kernel_numel(p) > POOL_FLAT_LIMIT || tpt_ir_host_code(b)) { /* on processors a scatter beats spreading */
        int64_t lead = 1;
        for (int i = 0; i < p->lead; i++) lead *= t.dims[i];
        return tpt_ir_reshape(b, scatter_windows(b, gy, index, p, lead), t.rank, t.dims);
    }
    index = tpt_ir_convert(b, index, TPT_I32);
    int64_t at[3] = {0};
    tpt_val_t sum = TPT_VAL_NONE;
    for (int64_t n = kernel_numel(p); n > 0; n--, advance(p, at)) {
        tpt_val_t mine = tpt_ir_compare(b, TPT_IR_EQ, index, flat_index(L, p, position_window, at, 0));
        tpt_val_t part = spread(b, tpt_ir_select(b, mine, gy, tpt_ir_like(b, gy, 0)), p, at);
        sum = sum == TPT_VAL_NONE ? part : tpt_ir_add(b, sum, part);
    }
    return sum;
}

void tpt_ops_max_pool_backward(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), gy = tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "grad_output"));
    const pool_t p = read_pool(L, x, (int)L->row->data);
    tpt_lower_result(L, max_backward(L, x, gy, tpt_lower_tensor(L, "indices"), &p, true));
}

void tpt_ops_adaptive_max_pool_backward(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), gy = tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "grad_output"));
    const int spatial = (int)L->row->data;
    int64_t out[3] = {1, 1, 1};
    for (int i = 0; i < spatial; i++) out[i] = tpt_ir_dim(L->ir, gy, tpt_ir_rank(L->ir, gy) - spatial + i);
    pool_t p = read_adaptive(L, x, spatial, out);
    bool equal = true;
    for (int i = 0; i < spatial; i++) {
        equal = equal && out[i] > 0 && p.in[i] % out[i] == 0;
        p.dilation[i] = 1;
        p.kernel[i] = p.stride[i] = out[i] > 0 ? p.in[i] / out[i] : 1;
    }
    tpt_lower_result(L, max_backward(L, x, gy, tpt_lower_tensor(L, "indices"), &p, equal));
}

/* ---- average ------------------------------------------------------------------------------------------------------- */

/* Divisors of shape [out...]: products of one factor per dim. */
static tpt_val_t divisors(tpt_lower_t *L, const pool_t *p, tpt_dtype_t dtype, bool include_pad, bool adaptive) {
    tpt_ir_t *b = L->ir;
    tpt_val_t product = TPT_VAL_NONE;
    for (int i = 0; i < p->spatial; i++) {
        double *table = tpt_malloc((size_t)(p->out[i] > 0 ? p->out[i] : 1) * sizeof *table);
        if (table == NULL) return tpt_ir_fail(b, tpt_status_oom((size_t)p->out[i] * sizeof *table));
        for (int64_t o = 0; o < p->out[i]; o++) {
            int64_t start = o * p->stride[i] - p->padding[i], end = start + p->kernel[i];
            const int64_t limit = p->in[i] + (include_pad ? p->padding[i] : 0);
            if (end > limit) end = limit;
            if (!include_pad && start < 0) start = 0;
            if (adaptive) {
                start = adaptive_start(o, p->in[i], p->out[i]);
                end = adaptive_end(o, p->in[i], p->out[i]);
            }
            table[o] = (double)(end - start);
        }
        const int64_t map[1] = {i};
        tpt_val_t part = tpt_ir_const_floats(b, dtype, (int)p->out[i], table);
        tpt_free(table);
        part = tpt_ir_broadcast_in_dim(b, part, p->spatial, p->out, map);
        product = product == TPT_VAL_NONE ? part : tpt_ir_mul(b, product, part);
    }
    return product;
}

static tpt_val_t divide_windows(tpt_lower_t *L, tpt_val_t x, const pool_t *p) {
    tpt_ir_t *b = L->ir;
    if (tpt_lower_has(L, "divisor_override"))
        return tpt_ir_div(b, x, tpt_ir_like(b, x, (double)tpt_lower_int(L, "divisor_override", 1)));
    return tpt_ir_div(b, x, divisors(L, p, tpt_ir_dtype(b, x), tpt_lower_bool(L, "count_include_pad", true), false));
}

static tpt_val_t sum_windows(tpt_ir_t *b, tpt_val_t x, const pool_t *p) {
    tpt_ir_window_t w = tpt_ir_window_ones(p->lead + p->spatial);
    for (int i = 0; i < p->spatial; i++) {
        w.size[p->lead + i] = p->kernel[i];
        w.stride[p->lead + i] = p->stride[i];
    }
    return tpt_ir_reduce_window(b, TPT_IR_RED_ADD, x, &w);
}

void tpt_ops_avg_pool(tpt_lower_t *L) {
    tpt_val_t x = tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "self"));
    const pool_t p = read_pool(L, x, (int)L->row->data);
    x = sum_windows(L->ir, pad_input(L->ir, x, &p, tpt_ir_like(L->ir, x, 0)), &p);
    tpt_lower_result(L, divide_windows(L, x, &p));
}

/* Each input row sums the windows that hold it: a window over the gradient with stride - 1 zeros between its rows. */
void tpt_ops_avg_pool_backward(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self");
    const pool_t p = read_pool(L, x, (int)L->row->data);
    tpt_val_t gy = divide_windows(L, tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "grad_output")), &p);
    tpt_ir_window_t w = tpt_ir_window_ones(p.lead + p.spatial);
    for (int i = 0; i < p.spatial; i++) {
        const int d = p.lead + i;
        w.size[d] = p.kernel[i];
        w.base_dilation[d] = p.stride[i];
        w.pad_low[d] = p.kernel[i] - 1 - p.padding[i];
        w.pad_high[d] = p.in[i] - 1 + p.padding[i] - (p.out[i] - 1) * p.stride[i];
    }
    tpt_lower_result(L, tpt_ir_reduce_window(L->ir, TPT_IR_RED_ADD, gy, &w));
}

static tpt_val_t adaptive_sum(tpt_lower_t *L, tpt_val_t x, pool_t *p) {
    bool all = true;
    int64_t dims[3];
    for (int i = 0; i < p->spatial; i++) {
        all = all && p->out[i] == 1;
        dims[i] = p->lead + i;
    }
    if (all) return tpt_nn_keepdims(L->ir, tpt_nn_sum(L->ir, x, p->spatial, dims), p->lead + p->spatial, p->spatial, dims);
    x = equalize(L, x, p, true);
    return sum_windows(L->ir, x, p);
}

void tpt_ops_adaptive_avg_pool(tpt_lower_t *L) {
    tpt_val_t x = tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "self"));
    int64_t out[3];
    const int spatial = (int)L->row->data;
    read_ints(L, "output_size", spatial, 1, out);
    pool_t p = read_adaptive(L, x, spatial, out);
    const pool_t plain = p;
    x = adaptive_sum(L, x, &p);
    tpt_lower_result(L, tpt_ir_div(L->ir, x, divisors(L, &plain, tpt_ir_dtype(L->ir, x), true, true)));
}

/* The windows that hold row i of the input are an adaptive window of the output: the same sum with the sizes exchanged. */
void tpt_ops_adaptive_avg_pool_backward(tpt_lower_t *L) {
    tpt_val_t x = tpt_lower_tensor(L, "self"), gy = tpt_nn_opmath(L->ir, tpt_lower_tensor(L, "grad_output"));
    const int spatial = (int)L->row->data;
    int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    for (int i = 0; i < spatial; i++) {
        in[i] = tpt_ir_dim(L->ir, x, tpt_ir_rank(L->ir, x) - spatial + i);
        out[i] = tpt_ir_dim(L->ir, gy, tpt_ir_rank(L->ir, gy) - spatial + i);
    }
    const pool_t forward = read_adaptive(L, x, spatial, out);
    gy = tpt_ir_div(L->ir, gy, divisors(L, &forward, tpt_ir_dtype(L->ir, gy), true, true));
    pool_t p = read_adaptive(L, gy, spatial, in);
    tpt_lower_result(L, adaptive_sum(L, gy, &p));
}
