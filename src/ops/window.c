/* window.c - resampling along the spatial dims: nearest, linear, cubic, with and without antialiasing, and their gradients.
 *
 * Each output position of one dim is a weighted sum of a few input positions, its taps. They follow from the sizes, so they are
 * worked out here, with the arithmetic (float32 or float64) that PyTorch's cpu kernels use. A few taps are read by gathers;
 * many, and all gradients, become a product with the [out, in] matrix of weights, which the program makes from the taps. */
#include <math.h>

#include "ops/shape.h"
#include "ops/window.h"

typedef struct taps {
    int64_t in, out;
    int count;      /* taps of each output position */
    int64_t *index; /* [count][out] */
    double *weight; /* [count][out] */
} taps_t;

static bool taps_alloc(tpt_lower_t *L, taps_t *t, int count) {
    size_t n = (size_t)count * (size_t)t->out;
    t->count = count;
    t->index = tpt_arena_alloc(tpt_ir_arena(L->ir), (n + 1) * sizeof *t->index);
    t->weight = tpt_arena_alloc(tpt_ir_arena(L->ir), (n + 1) * sizeof *t->weight);
    if (t->index != NULL && t->weight != NULL) return true;
    (void)tpt_ir_fail(L->ir, tpt_status_oom(n * sizeof *t->weight));
    return false;
}

/* Rounds to float32 unless the data is float64: the cpu kernels compute positions in the data's own arithmetic. */
static double rounded(double x, bool wide) { return wide ? x : (double)(float)x; }

static double scale_of(const taps_t *t, bool align, double given, bool wide) {
    if (align) return t->out > 1 ? rounded((double)(t->in - 1) / (double)(t->out - 1), wide) : 0;
    return rounded(given > 0 ? 1.0 / given : (double)t->in / (double)t->out, wide);
}

static double source_of(double scale, int64_t o, bool align, bool wide) {
    if (align) return rounded(scale * (double)o, wide);
    return rounded(rounded(scale * ((double)o + 0.5), wide) - 0.5, wide);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* ---- taps of each mode --------------------------------------------------------------------------------------------- */

static bool taps_nearest(tpt_lower_t *L, taps_t *t, double given, bool exact) {
    if (!taps_alloc(L, t, 1)) return false;
    float scale = given > 0 ? (float)(1.0 / given) : (float)t->in / (float)t->out;
    for (int64_t o = 0; o < t->out; o++) {
        float at = exact ? ((float)o + 0.5f) * scale : (float)o * scale;
        int64_t i = (int64_t)floorf(at);
        if (!exact && t->out == t->in) i = o;
        if (!exact && t->out == 2 * t->in) i = o / 2;
        t->index[o] = clamp(i, 0, t->in - 1);
        t->weight[o] = 1;
    }
    return true;
}

static bool taps_linear(tpt_lower_t *L, taps_t *t, double given, bool align, bool wide) {
    if (!taps_alloc(L, t, 2)) return false;
    double scale = scale_of(t, align, given, wide);
    for (int64_t o = 0; o < t->out; o++) {
        double at = t->in == t->out ? (double)o : source_of(scale, o, align, wide);
        if (at < 0) at = 0;
        int64_t low = clamp((int64_t)floor(at), 0, t->in - 1);
        double part = rounded(at - (double)low, wide);
        part = part < 0 ? 0 : part > 1 ? 1 : part;
        t->index[o] = low;
        t->index[t->out + o] = low < t->in - 1 ? low + 1 : low;
        t->weight[o] = rounded(1 - part, wide);
        t->weight[t->out + o] = part;
    }
    return true;
}

/* Cubic convolution; `a` is -0.75, or -0.5 with antialiasing. */
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static bool taps_cubic(tpt_lower_t *L, taps_t *t, double given, bool align, bool wide) {
    if (!taps_alloc(L, t, 4)) return false;
    double scale = scale_of(t, align, given, wide);
    for (int64_t o = 0; o < t->out; o++) {
        double at = source_of(scale, o, align, wide), low = floor(at), part = rounded(at - low, wide);
        for (int k = 0; k < 4; k++) {
            t->index[k * t->out + o] = clamp((int64_t)low - 1 + k, 0, t->in - 1);
            t->weight[k * t->out + o] = cubic(part + 1 - k, -0.75);
        }
    }
    return true;
}

/* Antialiasing widens the filter by the scale when shrinking; weights are made to sum to one. */
static bool taps_smooth(tpt_lower_t *L, taps_t *t, double given, bool align, bool wide, bool is_cubic) {
    double scale = scale_of(t, align, given, wide), reach = (is_cubic ? 2.0 : 1.0) * (scale >= 1 ? scale : 1);
    double shrink = scale >= 1 ? 1 / scale : 1;
    int count = (int)ceil(reach) * 2 + 1;
    if (!taps_alloc(L, t, count)) return false;
    for (int64_t o = 0; o < t->out; o++) {
        double center = scale * ((double)o + 0.5), total = 0;
        int64_t first = (int64_t)(center - reach + 0.5), limit = (int64_t)(center + reach + 0.5);
        first = first < 0 ? 0 : first;
        limit = limit > t->in ? t->in : limit;
        for (int k = 0; k < count; k++) {
            double x = ((double)(first + k) - center + 0.5) * shrink;
            double w = is_cubic ? cubic(x, -0.5) : fabs(x) < 1 ? 1 - fabs(x) : 0;
            bool inside = first + k < limit;
            t->index[k * t->out + o] = inside ? first + k : t->in - 1;
            t->weight[k * t->out + o] = inside ? w : 0;
            total += inside ? w : 0;
        }
        for (int k = 0; total != 0 && k < count; k++) t->weight[k * t->out + o] /= total;
    }
    return true;
}

static bool taps_of(tpt_lower_t *L, taps_t *t, tpt_window_mode_t mode, double given, bool align, bool wide) {
    switch (mode) {
        case TPT_WINDOW_NEAREST:
            return taps_nearest(L, t, given, false);
        case TPT_WINDOW_NEAREST_EXACT:
            return taps_nearest(L, t, given, true);
        case TPT_WINDOW_LINEAR:
            return taps_linear(L, t, given, align, wide);
        case TPT_WINDOW_CUBIC:
            return taps_cubic(L, t, given, align, wide);
        case TPT_WINDOW_LINEAR_AA:
            return taps_smooth(L, t, given, align, wide, false);
        case TPT_WINDOW_CUBIC_AA:
            return taps_smooth(L, t, given, align, wide, true);
    }
    (void)tpt_lower_fail(L, TPT_INTERNAL, "%s: unknown resampling mode", L->schema_name);
    return false;
}

/* ---- applying them ------------------------------------------------------------------------------------------------- */

static bool is_identity(const taps_t *t) {
    if (t->in != t->out) return false;
    for (int k = 0; k < t->count; k++)
        for (int64_t o = 0; o < t->out; o++)
            if (t->weight[k * t->out + o] != (t->index[k * t->out + o] == o ? 1 : 0)) return false;
    return true;
}

/* Whole repeats of each element: `factor`, or 0. */
static int64_t repeats(const taps_t *t) {
    if (t->count != 1 || t->in == 0 || t->out % t->in != 0) return 0;
    int64_t factor = t->out / t->in;
    for (int64_t o = 0; o < t->out; o++)
        if (t->index[o] != o / factor) return 0;
    return factor;
}

static tpt_val_t tap_index(tpt_ir_t *ir, const taps_t *t, int k) {
    return tpt_ir_const_ints(ir, TPT_I64, (int)t->out, t->index + (int64_t)k * t->out);
}

static tpt_val_t tap_weight(tpt_ir_t *ir, const taps_t *t, int k, tpt_dtype_t dtype) {
    if (dtype == TPT_I32) /* whole weights (quantise) */
        return tpt_ir_convert(ir, tpt_ir_const_floats(ir, TPT_F64, (int)t->out, t->weight + (int64_t)k * t->out), TPT_I32);
    return tpt_ir_const_floats(ir, dtype, (int)t->out, t->weight + (int64_t)k * t->out);
}

/* [out, in] */
static tpt_val_t matrix(tpt_ir_t *ir, const taps_t *t, tpt_dtype_t dtype) {
    int64_t dims[2] = {t->out, t->in};
    tpt_val_t column = tpt_ir_iota(ir, tpt_type_make(TPT_I64, 2, dims), 1), sum = TPT_VAL_NONE;
    for (int k = 0; k < t->count; k++) {
        tpt_val_t here = tpt_ir_compare(ir, TPT_IR_EQ, column, tpt_ir_unsqueeze(ir, tap_index(ir, t, k), 1));
        tpt_val_t part = tpt_ir_unsqueeze(ir, tap_weight(ir, t, k, dtype), 1);
        part = tpt_ir_select(ir, here, part, tpt_ir_const_i(ir, dtype, 0));
        sum = k == 0 ? part : tpt_ir_add(ir, sum, part);
    }
    return sum;
}

/* Contracts dim `dim` of x with dim `side` of the matrix. */
static tpt_val_t multiply(tpt_ir_t *ir, tpt_val_t x, int dim, tpt_val_t m, int side) {
    tpt_ir_dot_t dot = {.n_contract = 1};
    dot.lhs_contract[0] = dim;
    dot.rhs_contract[0] = side;
    tpt_precision_t before = tpt_ir_precision(ir);
    tpt_ir_set_precision(ir, TPT_PRECISION_HIGHEST); /* the weights are positions: never round them */
    x = tpt_ir_dot(ir, x, m, &dot);
    tpt_ir_set_precision(ir, before);
    return tpt_shape_move(ir, x, tpt_ir_rank(ir, x) - 1, dim);
}

static tpt_val_t apply(tpt_ir_t *ir, const taps_t *t, tpt_val_t x, int dim) {
    if (is_identity(t)) return x;
    tpt_type_t type = *tpt_ir_type(ir, x);
    int64_t factor = repeats(t);
    if (factor > 0) {
        tpt_type_t wide = type;
        int64_t map[TPT_MAX_RANK];
        for (int d = type.rank; d > dim + 1; d--) wide.dims[d] = wide.dims[d - 1];
        wide.dims[dim + 1] = factor;
        wide.rank++;
        for (int d = 0; d < type.rank; d++) map[d] = d <= dim ? d : d + 1;
        type.dims[dim] = t->out;
        return tpt_ir_reshape(ir, tpt_ir_broadcast_in_dim(ir, x, wide.rank, wide.dims, map), type.rank, type.dims);
    }
    if (t->count > 4) return multiply(ir, x, dim, matrix(ir, t, (tpt_dtype_t)type.dtype), 1);
    tpt_val_t sum = TPT_VAL_NONE;
    for (int k = 0; k < t->count; k++) {
        tpt_val_t part = tpt_index_take(ir, x, dim, tap_index(ir, t, k));
        if (t->count > 1)
            part = tpt_ir_mul(ir, part, tpt_shape_along(ir, tap_weight(ir, t, k, (tpt_dtype_t)type.dtype), type.rank, dim));
        sum = k == 0 ? part : tpt_ir_add(ir, sum, part);
    }
    return sum;
}

/* Images of bytes: cpu blends them with whole weights of a common power of two, along the width first, and rounds to bytes after
 * each dim. Taps on one element are one tap to it. Returns the power. */
static int quantise(taps_t *t) {
    double most = 0;
    for (int64_t o = 0; o < t->out; o++) {
        for (int k = 1; k < t->count; k++) {
            int64_t at = k * t->out + o;
            for (int j = 0; j < k; j++) {
                if (t->index[j * t->out + o] != t->index[at]) continue;
                t->weight[j * t->out + o] += t->weight[at];
                t->weight[at] = 0;
                break;
            }
        }
        for (int k = 0; k < t->count; k++) most = fmax(most, t->weight[k * t->out + o]);
    }
    int power = 0;
    while (power < 22 && (int)(0.5 + most * (double)(1 << (power + 1))) < 1 << 15) power++;
    for (int64_t i = 0; i < t->count * t->out; i++) t->weight[i] = round(t->weight[i] * (double)(1 << power));
    return power;
}

/* x: bytes as I32. */
static tpt_val_t apply_to_bytes(tpt_ir_t *ir, taps_t *t, tpt_val_t x, int dim) {
    if (is_identity(t)) return x;
    int power = quantise(t);
    x = tpt_ir_add(ir, apply(ir, t, x, dim), tpt_ir_const_i(ir, TPT_I32, power > 0 ? 1 << (power - 1) : 0));
    x = tpt_ir_binary(ir, TPT_IR_SHR_ARITH, x, tpt_ir_const_i(ir, TPT_I32, power));
    return tpt_ir_min(ir, tpt_ir_max(ir, x, tpt_ir_const_i(ir, TPT_I32, 0)), tpt_ir_const_i(ir, TPT_I32, 255));
}

static tpt_val_t apply_back(tpt_ir_t *ir, const taps_t *t, tpt_val_t g, int dim) {
    if (is_identity(t)) return g;
    tpt_type_t type = *tpt_ir_type(ir, g);
    int64_t factor = repeats(t), inner = dim + 1;
    if (factor > 0) {
        for (int d = type.rank; d > dim + 1; d--) type.dims[d] = type.dims[d - 1];
        type.dims[dim] = t->in;
        type.dims[dim + 1] = factor;
        type.rank++;
        return tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_reshape(ir, g, type.rank, type.dims), 1, &inner);
    }
    return multiply(ir, g, dim, matrix(ir, t, (tpt_dtype_t)type.dtype), 0);
}

/* The scale that the caller gave for spatial dim i of n, or 0. */
static double given_scale(tpt_lower_t *L, int i, int n) {
    static const char *const names[] = {"scales_d", "scales_h", "scales_w"};
    return tpt_lower_static(L, n == 1 ? "scales" : names[3 - n + i], 0);
}

/* data: tpt_window_mode_t, plus TPT_WINDOW_BACKWARD. */
void tpt_window_resample(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    bool back = (L->row->data & TPT_WINDOW_BACKWARD) != 0, align = tpt_lower_bool(L, "align_corners", false);
    tpt_window_mode_t mode = (tpt_window_mode_t)(L->row->data & ~(int64_t)TPT_WINDOW_BACKWARD);
    tpt_val_t x = tpt_lower_tensor(L, back ? "grad_output" : "self");
    tpt_dtype_t dtype = tpt_ir_dtype(ir, x);
    bool blend = mode != TPT_WINDOW_NEAREST && mode != TPT_WINDOW_NEAREST_EXACT;
    tpt_dtype_t work = tpt_dtype_opmath(dtype);
    int64_t size[3], input[TPT_MAX_RANK];
    int n = tpt_lower_ints(L, "output_size", size, 3), rank = tpt_ir_rank(ir, x);
    tpt_type_t out = tpt_shape_out(L);
    if (tpt_ir_status(ir) != NULL) return;
    if (back) {
        if (tpt_lower_ints(L, "input_size", input, TPT_MAX_RANK) != rank) n = -1;
    } else {
        for (int d = 0; d < rank; d++) input[d] = tpt_ir_dim(ir, x, d);
    }
    if (n < 1 || rank != n + 2) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s: expected %d spatial sizes for a tensor of %d dimensions",
                             L->schema_name, rank - 2, rank);
        return;
    }
    if (tpt_type_numel(&out) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(ir, out));
        return;
    }
    const bool bytes = blend && dtype == TPT_U8 && n == 2 && !back;
    if (blend && !tpt_dtype_is_float(dtype)) work = bytes ? TPT_I32 : TPT_F32;
    if (blend || back) x = tpt_ir_convert(ir, x, work);
    for (int i = n - 1; bytes && i >= 0; i--) {
        taps_t t = {.in = input[2 + i], .out = size[i]};
        if (!taps_of(L, &t, mode, given_scale(L, i, n), align, true)) return;
        x = apply_to_bytes(ir, &t, x, 2 + i);
    }
    for (int i = 0; !bytes && i < n; i++) {
        taps_t t = {.in = input[2 + i], .out = size[i]};
        if (!taps_of(L, &t, mode, given_scale(L, i, n), align, dtype == TPT_F64)) return;
        x = back ? apply_back(ir, &t, x, 2 + i) : apply(ir, &t, x, 2 + i);
    }
    if (blend && !tpt_dtype_is_float(dtype) && !bytes) {
        tpt_val_t low = tpt_ir_const_f(ir, work, 0), high = tpt_ir_const_f(ir, work, 255);
        x = tpt_ir_min(ir, tpt_ir_max(ir, tpt_ir_unary(ir, TPT_IR_ROUND, x), low), high); /* uint8 images */
    }
    tpt_lower_result(L, tpt_ir_convert(ir, x, dtype));
}
