/* fft.c - the three transforms that torch.fft, stft and istft are made of.
 *
 * StableHLO transforms at most three innermost dims at once and divides an inverse transform by their length, so the dims are
 * moved to the end in groups, and the factor that PyTorch asked for is put right once, at the end. */
#include <math.h>

#include "ops/shape.h"

#define FFT_AT_ONCE 3

typedef struct fft {
    tpt_lower_t *L;
    int ndims;
    int64_t dims[TPT_MAX_RANK]; /* in the order given: the last one is the halved one of real transforms */
    double points;              /* product of their lengths, set by the row */
} fft_t;

static fft_t fft_begin(tpt_lower_t *L, int rank) {
    fft_t f = {.L = L, .points = 1};
    f.ndims = tpt_lower_ints(L, "dim", f.dims, TPT_MAX_RANK);
    for (int i = 0; i < f.ndims; i++) {
        if (f.dims[i] < -rank || f.dims[i] >= rank)
            (void)tpt_lower_fail(L, TPT_OUT_OF_RANGE,
                                 "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -rank, rank - 1,
                                 (long long)f.dims[i]);
        f.dims[i] = tpt_shape_wrap(f.dims[i], rank);
    }
    return f;
}

/* Moves the n dims to the end, in their order; perm is what was done. */
static tpt_val_t dims_last(tpt_ir_t *ir, tpt_val_t x, int n, const int64_t *dims, int64_t *perm) {
    const int rank = tpt_ir_rank(ir, x);
    bool moved[TPT_MAX_RANK] = {false};
    int at = 0;
    for (int i = 0; i < n; i++) moved[dims[i]] = true;
    for (int d = 0; d < rank; d++)
        if (!moved[d]) perm[at++] = d;
    for (int i = 0; i < n; i++) perm[at++] = dims[i];
    return tpt_ir_transpose(ir, x, perm);
}

static tpt_val_t dims_back(tpt_ir_t *ir, tpt_val_t x, const int64_t *perm) {
    int64_t back[TPT_MAX_RANK];
    for (int d = 0; d < tpt_ir_rank(ir, x); d++) back[perm[d]] = d;
    return tpt_ir_transpose(ir, x, back);
}

/* One group of at most three dims. `last`: the length of the last dim in the real domain. */
static tpt_val_t transform_group(tpt_ir_t *ir, tpt_val_t x, tpt_ir_fft_kind_t kind, int n, const int64_t *dims, int64_t last) {
    int64_t perm[TPT_MAX_RANK], lengths[FFT_AT_ONCE];
    for (int i = 0; i < n; i++) lengths[i] = tpt_ir_dim(ir, x, (int)dims[i]);
    if (last > 0) lengths[n - 1] = last;
    x = dims_last(ir, x, n, dims, perm);
    return dims_back(ir, tpt_ir_fft(ir, x, kind, n, lengths), perm);
}

static tpt_val_t transform_complex(tpt_ir_t *ir, tpt_val_t x, bool forward, int n, const int64_t *dims) {
    for (int at = 0; at < n; at += FFT_AT_ONCE) {
        int group = n - at < FFT_AT_ONCE ? n - at : FFT_AT_ONCE;
        x = transform_group(ir, x, forward ? TPT_IR_FFT : TPT_IR_IFFT, group, dims + at, 0);
    }
    return x;
}

/* normalization: 0 none, 1 by the root of the number of points, 2 by that number. Inverse transforms come divided already. */
static tpt_val_t scale(const fft_t *f, tpt_val_t x, bool divided) {
    tpt_ir_t *ir = f->L->ir;
    int64_t how = tpt_lower_int(f->L, "normalization", 0);
    double factor = how == 0 ? 1 : how == 1 ? 1 / sqrt(f->points) : 1 / f->points;
    if (divided) factor = how == 0 ? f->points : how == 1 ? sqrt(f->points) : 1;
    return factor == 1 ? x : tpt_ir_mul(ir, x, tpt_ir_like(ir, x, factor));
}

static bool check_points(fft_t *f, int64_t length) {
    f->points *= (double)length;
    if (length > 0) return true;
    (void)tpt_lower_fail(f->L, TPT_INVALID_ARGUMENT, "Invalid number of data points (%lld) specified", (long long)length);
    return false;
}

void tpt_ops_fft_c2c(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self");
    fft_t f = fft_begin(L, tpt_ir_rank(ir, x));
    bool forward = tpt_lower_bool(L, "forward", true);
    if (tpt_ir_status(ir) != NULL) return;
    if (tpt_ir_numel(ir, x) == 0 || f.ndims == 0) {
        tpt_lower_result(L, x);
        return;
    }
    for (int i = 0; i < f.ndims; i++)
        if (!check_points(&f, tpt_ir_dim(ir, x, (int)f.dims[i]))) return;
    tpt_lower_result(L, scale(&f, transform_complex(ir, x, forward, f.ndims, f.dims), !forward));
}

/* The other half of a real signal's spectrum: x[-i, -j, ..., -k] conjugated, where k runs over the halved dim. */
static tpt_val_t both_sides(const fft_t *f, tpt_val_t half, int64_t length) {
    tpt_ir_t *ir = f->L->ir;
    const int last = (int)f->dims[f->ndims - 1];
    const int64_t rest = length - tpt_ir_dim(ir, half, last);
    if (rest <= 0) return half;
    tpt_val_t other = tpt_ir_slice_dim(ir, half, last, 1, 1 + rest);
    other = tpt_ir_reverse(ir, other, 1, (const int64_t[]){last});
    for (int i = 0; i + 1 < f->ndims; i++) {
        const int d = (int)f->dims[i];
        const int64_t n = tpt_ir_dim(ir, other, d);
        if (n < 2) continue;
        tpt_val_t tail = tpt_ir_reverse(ir, tpt_ir_slice_dim(ir, other, d, 1, n), 1, (const int64_t[]){d});
        other = tpt_ir_concat(ir, 2, (const tpt_val_t[]){tpt_ir_slice_dim(ir, other, d, 0, 1), tail}, d);
    }
    tpt_val_t real = tpt_ir_unary(ir, TPT_IR_REAL, other), imag = tpt_ir_unary(ir, TPT_IR_IMAG, other);
    other = tpt_ir_binary(ir, TPT_IR_COMPLEX, real, tpt_ir_neg(ir, imag));
    return tpt_ir_concat(ir, 2, (const tpt_val_t[]){half, other}, last);
}

void tpt_ops_fft_r2c(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self");
    fft_t f = fft_begin(L, tpt_ir_rank(ir, x));
    if (tpt_ir_status(ir) != NULL) return;
    if (f.ndims == 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "a real Fourier transform needs a dim");
        return;
    }
    const int last = (int)f.dims[f.ndims - 1];
    const int64_t length = tpt_ir_dim(ir, x, last);
    for (int i = 0; i < f.ndims; i++)
        if (!check_points(&f, tpt_ir_dim(ir, x, (int)f.dims[i]))) return;
    const bool onesided = tpt_lower_bool(L, "onesided", true);
    if (tpt_ir_numel(ir, x) == 0) {
        tpt_type_t type = *tpt_ir_type(ir, x);
        type.dtype = (uint8_t)tpt_dtype_complex((tpt_dtype_t)type.dtype);
        if (onesided) type.dims[last] = length / 2 + 1;
        tpt_lower_result(L, tpt_shape_zeros_type(ir, type));
        return;
    }
    x = transform_group(ir, x, TPT_IR_RFFT, 1, f.dims + f.ndims - 1, length);
    x = scale(&f, transform_complex(ir, x, true, f.ndims - 1, f.dims), false);
    tpt_lower_result(L, onesided ? x : both_sides(&f, x, length));
}

void tpt_ops_fft_c2r(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self");
    fft_t f = fft_begin(L, tpt_ir_rank(ir, x));
    const int64_t length = tpt_lower_int(L, "last_dim_size", 0);
    if (tpt_ir_status(ir) != NULL) return;
    if (f.ndims == 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "a real Fourier transform needs a dim");
        return;
    }
    const int last = (int)f.dims[f.ndims - 1];
    for (int i = 0; i + 1 < f.ndims; i++)
        if (!check_points(&f, tpt_ir_dim(ir, x, (int)f.dims[i]))) return;
    if (!check_points(&f, length)) return;
    tpt_type_t type = *tpt_ir_type(ir, x);
    if (tpt_type_numel(&type) == 0) {
        type.dtype = (uint8_t)tpt_dtype_real((tpt_dtype_t)type.dtype);
        type.dims[last] = length;
        tpt_lower_result(L, tpt_shape_zeros_type(ir, type));
        return;
    }
    x = transform_complex(ir, x, false, f.ndims - 1, f.dims);
    /* What lies behind the half spectrum is not looked at; what lacks of it is zero. */
    const int64_t have = tpt_ir_dim(ir, x, last), want = length / 2 + 1;
    if (have > want) x = tpt_ir_slice_dim(ir, x, last, 0, want);
    if (have < want) x = tpt_shape_pad_dim(ir, x, last, 0, want - have, 1);
    x = transform_group(ir, x, TPT_IR_IRFFT, 1, f.dims + f.ndims - 1, length);
    tpt_lower_result(L, scale(&f, x, true));
}
