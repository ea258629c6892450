/* plain.c - calls that need no meta kernel: whose validity is plain to see and whose result the lowering itself types.
 *
 * PyTorch's meta kernels give error texts and strides, but the first Python one imports half of torch (a second), and each
 * costs more than a lowering. So the commonest rows skip them when nothing can be wrong and no stride can be special: all
 * tensors contiguous and of one dtype, shapes that broadcast. Any doubt sends the call to the meta kernel. */
#include <string.h>

#include "ops/ops.h"

/* Expression rows that take any real floating dtype. */
static const char *const float_rows[] = {
    "abs", "acos", "acosh", "add.Scalar", "add.Tensor", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "ceil",
    "clamp_max", "clamp_min", "cos", "cosh", "div.Scalar", "div.Tensor", "elu", "eq.Scalar", "eq.Tensor", "erf", "erfc", "exp",
    "exp2", "expm1", "floor", "ge.Scalar", "ge.Tensor", "gelu", "gelu_backward", "gt.Scalar", "gt.Tensor", "hardsigmoid", "hardswish",
    "isinf", "isnan", "le.Scalar", "le.Tensor", "leaky_relu", "lerp.Scalar", "log", "log10", "log1p", "log2", "lt.Scalar", "lt.Tensor",
    "masked_fill.Scalar", "maximum", "minimum", "mish", "mul.Scalar", "mul.Tensor", "ne.Scalar", "ne.Tensor", "neg", "pow.Scalar",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "reciprocal", "relu", "rsqrt", "rsub.Scalar", "sigmoid", "sigmoid_backward", "sign",
    "silu", "silu_backward", "sin", "sinh", "softplus", "sqrt", "sub.Scalar", "sub.Tensor", "tan", "tanh", "tanh_backward",
    "threshold_backward", "trunc", "where.self"};

/* Of these, the ones that take integers too and give integers or truth values. */
static const char *const int_rows[] = {"add.Scalar", "add.Tensor", "eq.Scalar", "eq.Tensor", "ge.Scalar", "ge.Tensor", "gt.Scalar",
                                       "gt.Tensor", "le.Scalar", "le.Tensor", "lt.Scalar", "lt.Tensor", "masked_fill.Scalar", "maximum",
                                       "minimum", "mul.Scalar", "mul.Tensor", "ne.Scalar", "ne.Tensor", "neg", "rsub.Scalar", "sub.Scalar",
                                       "sub.Tensor", "where.self"};

static bool among(const char *name, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}
#define AMONG(name, list) among(name, list, sizeof list / sizeof *list)

static bool is_contiguous(const tpt_tensor_t *t) {
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->strides[d] != stride || t->sizes[d] == 0) return false;
        stride *= t->sizes[d];
    }
    return !t->conj && !t->neg;
}

static bool is_mask(const char *name) { return strcmp(name, "condition") == 0 || strcmp(name, "mask") == 0; }

/* Joins a shape to the broadcast one so far; false if they do not fit. */
static bool join(tpt_type_t *all, const tpt_tensor_t *t) {
    int rank = t->rank > all->rank ? t->rank : all->rank;
    for (int d = 1; d <= rank; d++) { /* from the last dimension */
        int64_t a = d <= all->rank ? all->dims[all->rank - d] : 1, b = d <= t->rank ? t->sizes[t->rank - d] : 1;
        if (a != b && a != 1 && b != 1) return false;
    }
    tpt_type_t joined = {.rank = rank};
    for (int d = 1; d <= rank; d++) {
        int64_t a = d <= all->rank ? all->dims[all->rank - d] : 1, b = d <= t->rank ? t->sizes[t->rank - d] : 1;
        joined.dims[rank - d] = a != 1 ? a : b;
    }
    *all = joined;
    return true;
}

static bool number_fits(const tpt_number_t *n, bool ints) {
    tpt_dtype_t d = (tpt_dtype_t)n->dtype;
    return n->wrapped && (d == TPT_I64 || (d == TPT_F64 && !ints));
}

static bool plain_expression(const tpt_row_t *row, int nargs, const tpt_arg_t *args, const char *const *names, bool fresh) {
    if (!AMONG(row->name, float_rows)) return false;
    const bool ints = AMONG(row->name, int_rows);
    tpt_type_t all = {.rank = 0};
    tpt_dtype_t dtype = TPT_DTYPE_NONE;
    const tpt_tensor_t *first = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < nargs; i++) {
            const tpt_arg_t *a = &args[i];
            if (a->kind == TPT_ARG_NUMBER && pass == 1) {
                if (!number_fits(&a->u.number, tpt_dtype_is_int(dtype))) return false;
            } else if (a->kind == TPT_ARG_TENSORS || a->kind == TPT_ARG_RNG || strcmp(names[i], "out") == 0 || strcmp(names[i], "grad_input") == 0) {
                return false;
            } else if (a->kind == TPT_ARG_TENSOR && pass == 0) {
                const tpt_tensor_t *t = &a->u.tensor;
                if (!t->storage || !is_contiguous(t) || !join(&all, t)) return false;
                if (is_mask(names[i])) {
                    if (t->dtype != TPT_BOOL) return false;
                    continue;
                }
                if (dtype != TPT_DTYPE_NONE && t->dtype != dtype) return false;
                dtype = (tpt_dtype_t)t->dtype;
                if (!first) first = t;
            }
        }
    bool known = dtype == TPT_F32 || dtype == TPT_F64 || dtype == TPT_F16 || dtype == TPT_BF16 || (ints && (dtype == TPT_I64 || dtype == TPT_I32));
    if (!known || !first) return false;
    if (fresh) return true;
    /* In place: the result has to have the target's shape and dtype. */
    if (row->promote == TPT_PROMOTE_EXACT || args[0].kind != TPT_ARG_TENSOR || args[0].u.tensor.rank != all.rank) return false;
    return memcmp(args[0].u.tensor.sizes, all.dims, (size_t)all.rank * sizeof *all.dims) == 0;
}

static const tpt_arg_t *argument(int nargs, const tpt_arg_t *args, const char *const *names, const char *name) {
    for (int i = 0; i < nargs; i++)
        if (strcmp(names[i], name) == 0) return &args[i];
    return NULL;
}

/* None, or a contiguous tensor of that dtype and shape. */
static bool fits(const tpt_arg_t *a, tpt_dtype_t dtype, int rank, const int64_t *sizes, bool may_lack) {
    if (!a || a->kind == TPT_ARG_NONE) return may_lack;
    if (a->kind != TPT_ARG_TENSOR || !a->u.tensor.storage) return false;
    const tpt_tensor_t *t = &a->u.tensor;
    if (t->dtype != dtype || t->rank != rank || !is_contiguous(t)) return false;
    return rank == 0 || memcmp(t->sizes, sizes, (size_t)rank * sizeof *sizes) == 0;
}

/* native_layer_norm and its backward, in float32 or float64. */
static bool plain_layer_norm(int nargs, const tpt_arg_t *args, const char *const *names) {
    const tpt_arg_t *x = argument(nargs, args, names, "input"), *shape = argument(nargs, args, names, "normalized_shape");
    if (!x || x->kind != TPT_ARG_TENSOR || !shape || shape->kind != TPT_ARG_INTS) return false;
    const tpt_tensor_t *t = &x->u.tensor;
    const tpt_dtype_t dtype = (tpt_dtype_t)t->dtype;
    const int n = shape->count, lead = t->rank - n;
    if ((dtype != TPT_F32 && dtype != TPT_F64) || n < 1 || lead < 0 || !fits(x, dtype, t->rank, t->sizes, false)) return false;
    if (memcmp(t->sizes + lead, shape->u.ints, (size_t)n * sizeof *t->sizes) != 0) return false;
    if (!fits(argument(nargs, args, names, "weight"), dtype, n, shape->u.ints, true)) return false;
    if (!fits(argument(nargs, args, names, "bias"), dtype, n, shape->u.ints, true)) return false;
    const tpt_arg_t *grad = argument(nargs, args, names, "grad_out"), *mask = argument(nargs, args, names, "output_mask");
    if (!grad) return true;
    if (!mask || mask->kind != TPT_ARG_BOOLS || mask->count != 3 || !mask->u.ints[0] || !mask->u.ints[1] || !mask->u.ints[2]) return false;
    int64_t stats[TPT_MAX_RANK];
    for (int d = 0; d < t->rank; d++) stats[d] = d < lead ? t->sizes[d] : 1;
    return fits(grad, dtype, t->rank, t->sizes, false) && fits(argument(nargs, args, names, "mean"), dtype, t->rank, stats, false) &&
           fits(argument(nargs, args, names, "rstd"), dtype, t->rank, stats, false) &&
           fits(argument(nargs, args, names, "weight"), dtype, n, shape->u.ints, false) &&
           fits(argument(nargs, args, names, "bias"), dtype, n, shape->u.ints, false);
}

/* native_batch_norm of a training step and its backward, in float32 or float64. */
static bool plain_batch_norm(int nargs, const tpt_arg_t *args, const char *const *names) {
    static const char *const vectors[] = {"weight", "bias", "running_mean", "running_var", "save_mean", "save_invstd"};
    const tpt_arg_t *x = argument(nargs, args, names, "input"), *training = argument(nargs, args, names, "training");
    const tpt_arg_t *grad = argument(nargs, args, names, "grad_out"), *mask = argument(nargs, args, names, "output_mask");
    if (grad) training = argument(nargs, args, names, "train");
    if (!x || x->kind != TPT_ARG_TENSOR || !training || training->kind != TPT_ARG_BOOL || !training->u.i) return false;
    const tpt_tensor_t *t = &x->u.tensor;
    const tpt_dtype_t dtype = (tpt_dtype_t)t->dtype;
    if ((dtype != TPT_F32 && dtype != TPT_F64) || t->rank < 2 || !fits(x, dtype, t->rank, t->sizes, false)) return false;
    int64_t values = 1; /* of one channel: cpu refuses a single one */
    for (int d = 0; d < t->rank; d++) values *= d == 1 ? 1 : t->sizes[d];
    if (values < 2) return false;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (!fits(argument(nargs, args, names, vectors[i]), dtype, 1, &t->sizes[1], !(grad && i >= 4))) return false;
    if (!grad) return true;
    if (!mask || mask->kind != TPT_ARG_BOOLS || mask->count != 3 || !mask->u.ints[0] || !mask->u.ints[1] || !mask->u.ints[2]) return false;
    return fits(grad, dtype, t->rank, t->sizes, false) && fits(argument(nargs, args, names, "weight"), dtype, 1, &t->sizes[1], false);
}

static const tpt_tensor_t *real_tensor(const tpt_arg_t *a) {
    if (!a || a->kind != TPT_ARG_TENSOR || !a->u.tensor.storage || !is_contiguous(&a->u.tensor)) return NULL;
    return a->u.tensor.dtype == TPT_F32 || a->u.tensor.dtype == TPT_F64 ? &a->u.tensor : NULL;
}

static const int64_t *ints_of(int nargs, const tpt_arg_t *args, const char *const *names, const char *name, int count) {
    const tpt_arg_t *a = argument(nargs, args, names, name);
    return a && a->kind == TPT_ARG_INTS && a->count == count ? a->u.ints : NULL;
}

/* convolution and convolution_backward, not transposed. */
static bool plain_convolution(int nargs, const tpt_arg_t *args, const char *const *names) {
    const tpt_tensor_t *x = real_tensor(argument(nargs, args, names, "input")), *w = real_tensor(argument(nargs, args, names, "weight"));
    const tpt_arg_t *transposed = argument(nargs, args, names, "transposed"), *groups = argument(nargs, args, names, "groups");
    if (!x || !w || x->dtype != w->dtype || x->rank != w->rank || x->rank < 3 || x->rank > 5) return false;
    if (!transposed || transposed->kind != TPT_ARG_BOOL || transposed->u.i || !groups || groups->kind != TPT_ARG_INT) return false;
    const int n = x->rank - 2;
    const int64_t g = groups->u.i, *stride = ints_of(nargs, args, names, "stride", n), *pad = ints_of(nargs, args, names, "padding", n),
                  *dilation = ints_of(nargs, args, names, "dilation", n);
    if (!stride || !pad || !dilation || g < 1 || w->sizes[1] * g != x->sizes[1] || w->sizes[0] % g != 0) return false;
    int64_t out[TPT_MAX_RANK] = {x->sizes[0], w->sizes[0]};
    for (int d = 0; d < n; d++) {
        if (stride[d] < 1 || pad[d] < 0 || dilation[d] < 1) return false;
        int64_t room = x->sizes[d + 2] + 2 * pad[d] - dilation[d] * (w->sizes[d + 2] - 1) - 1;
        if (room < 0) return false;
        out[d + 2] = room / stride[d] + 1;
    }
    const tpt_arg_t *grad = argument(nargs, args, names, "grad_output"), *mask = argument(nargs, args, names, "output_mask");
    if (!grad) return fits(argument(nargs, args, names, "bias"), (tpt_dtype_t)x->dtype, 1, &w->sizes[0], true);
    const int64_t *bias = ints_of(nargs, args, names, "bias_sizes", 1);
    if (!bias || bias[0] != w->sizes[0] || !mask || mask->kind != TPT_ARG_BOOLS || mask->count != 3) return false;
    return mask->u.ints[0] && mask->u.ints[1] && mask->u.ints[2] && fits(grad, (tpt_dtype_t)x->dtype, x->rank, out, false);
}

static bool plain_embedding(int nargs, const tpt_arg_t *args, const char *const *names) {
    const tpt_tensor_t *w = real_tensor(argument(nargs, args, names, "weight"));
    const tpt_arg_t *i = argument(nargs, args, names, "indices");
    if (!w || w->rank != 2 || !i || i->kind != TPT_ARG_TENSOR || !i->u.tensor.storage || !is_contiguous(&i->u.tensor)) return false;
    return i->u.tensor.dtype == TPT_I64 || i->u.tensor.dtype == TPT_I32;
}

static bool plain_safe_softmax(int nargs, const tpt_arg_t *args, const char *const *names) {
    const tpt_tensor_t *t = real_tensor(argument(nargs, args, names, "self"));
    const tpt_arg_t *dim = argument(nargs, args, names, "dim"), *dtype = argument(nargs, args, names, "dtype");
    return t && dim && dim->kind == TPT_ARG_INT && dim->u.i >= -t->rank && dim->u.i < t->rank && (!dtype || dtype->kind == TPT_ARG_NONE);
}

static bool plain_dropout(int nargs, const tpt_arg_t *args, const char *const *names) {
    const tpt_arg_t *p = argument(nargs, args, names, "p"), *train = argument(nargs, args, names, "train");
    if (!real_tensor(argument(nargs, args, names, "input")) || !train || train->kind != TPT_ARG_BOOL || !train->u.i) return false;
    return p && p->kind == TPT_ARG_NUMBER && p->u.number.dtype == TPT_F64 && p->u.number.v.f[0] >= 0 && p->u.number.v.f[0] <= 1;
}

/* In-place list ops: lists of tensors of one dtype, equal from list to list; step counts are single numbers of float32. */
static bool plain_lists(int nargs, const tpt_arg_t *args) {
    const tpt_arg_t *first = &args[0];
    if (first->kind != TPT_ARG_TENSORS || first->count < 1 || !first->u.tensors[0].storage) return false;
    const uint8_t dtype = first->u.tensors[0].dtype;
    if (dtype != TPT_F32 && dtype != TPT_F64) return false;
    for (int i = 0; i < nargs; i++) {
        const tpt_arg_t *a = &args[i];
        if (a->kind == TPT_ARG_NUMBER && !number_fits(&a->u.number, false)) return false;
        if (a->kind == TPT_ARG_NUMBERS || a->kind == TPT_ARG_TENSOR) return false;
        if (a->kind != TPT_ARG_TENSORS || a->count == 0) continue;
        if (a->count != first->count) return false;
        for (int k = 0; k < a->count; k++) {
            const tpt_tensor_t *t = &a->u.tensors[k], *f = &first->u.tensors[k];
            if (!t->storage || !is_contiguous(t)) return false;
            if (t->rank == 0 && t->dtype == TPT_F32 && i > 0) continue;
            if (t->dtype != dtype || t->rank != f->rank) return false;
            if (t->rank && memcmp(t->sizes, f->sizes, (size_t)t->rank * sizeof *t->sizes) != 0) return false;
        }
    }
    return true;
}

bool tpt_row_is_plain(const tpt_row_t *row, int nargs, const tpt_arg_t *args, const char *const *names, bool fresh) {
    if (nargs < 2 || args[nargs - 1].kind != TPT_ARG_NONE) return false; /* an unusual default dtype */
    if (row->expr) return plain_expression(row, nargs - 1, args, names, fresh);
    if (fresh && (strcmp(row->name, "native_layer_norm") == 0 || strcmp(row->name, "native_layer_norm_backward") == 0))
        return plain_layer_norm(nargs - 1, args, names);
    if (fresh && (strcmp(row->name, "native_batch_norm") == 0 || strcmp(row->name, "native_batch_norm_backward") == 0))
        return plain_batch_norm(nargs - 1, args, names);
    if (fresh && (strcmp(row->name, "convolution") == 0 || strcmp(row->name, "convolution_backward") == 0))
        return plain_convolution(nargs - 1, args, names);
    if (fresh && strcmp(row->name, "_safe_softmax") == 0) return plain_safe_softmax(nargs - 1, args, names);
    if (fresh && strcmp(row->name, "native_dropout") == 0) return plain_dropout(nargs - 1, args, names);
    if (fresh && strcmp(row->name, "embedding") == 0) return plain_embedding(nargs - 1, args, names);
    if (!fresh && (strncmp(row->name, "_foreach_", 9) == 0 || strncmp(row->name, "_fused_", 7) == 0)) return plain_lists(nargs - 1, args);
    return false;
}
