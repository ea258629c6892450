/* infer_linalg.c - rules of dots, convolutions, factorisations and Fourier transforms. */
#include "ir_internal.h"

static bool in_list(int n, const int64_t *dims, int64_t d) {
    for (int i = 0; i < n; i++) {
        if (dims[i] == d) return true;
    }
    return false;
}

/* Batch and contracting dims of one side are in range and distinct. */
static tpt_status_t *check_side(const tpt_ir_dot_t *d, const int64_t *batch, const int64_t *contract, int rank) {
    TPT_TRY(tpt_ir_check_dims("batch dimensions", d->n_batch, batch, rank));
    TPT_TRY(tpt_ir_check_dims("contracting dimensions", d->n_contract, contract, rank));
    for (int i = 0; i < d->n_batch; i++) {
        if (in_list(d->n_contract, contract, batch[i])) return TPT_BAD("a dimension is both batch and contracting");
    }
    return NULL;
}

static tpt_status_t *add_dim(tpt_type_t *type, int64_t size) {
    if (type->rank >= TPT_MAX_RANK) return TPT_BAD("too many dimensions");
    type->dims[type->rank++] = size;
    return NULL;
}

static tpt_status_t *add_free_dims(const tpt_ir_dot_t *d, const int64_t *batch, const int64_t *contract, const tpt_type_t *x,
                                   tpt_type_t *type) {
    for (int i = 0; i < x->rank; i++) {
        if (in_list(d->n_batch, batch, i) || in_list(d->n_contract, contract, i)) continue;
        TPT_TRY(add_dim(type, x->dims[i]));
    }
    return NULL;
}

/* Integers accumulate in wider integers, floats in wider floats. */
static bool dot_result_ok(tpt_dtype_t in, tpt_dtype_t out) {
    if (in == out) return true;
    if (tpt_dtype_is_float(in)) return tpt_dtype_is_float(out) && tpt_dtype_size(out) >= tpt_dtype_size(in);
    return tpt_dtype_is_int(in) && tpt_dtype_is_int(out) && tpt_dtype_size(out) >= tpt_dtype_size(in);
}

tpt_status_t *tpt_infer_dot(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    const tpt_attr_dot_t *attr = node->attr;
    if (node->nin != 2 || node->nout != 1 || attr == NULL) return TPT_BAD("%d operands", node->nin);
    const tpt_ir_dot_t *d = &attr->dot;
    const tpt_type_t *x = tpt_in_type(ir, node, 0), *y = tpt_in_type(ir, node, 1);
    tpt_dtype_t out = d->out_dtype == TPT_DTYPE_NONE ? (tpt_dtype_t)x->dtype : d->out_dtype;
    if (x->dtype != y->dtype || x->dtype == TPT_BOOL || !dot_result_ok((tpt_dtype_t)x->dtype, out)) {
        return TPT_BAD("%s by %s to %s", tpt_type_text(x, a), tpt_type_text(y, b), tpt_dtype_name(out));
    }
    TPT_TRY(check_side(d, d->lhs_batch, d->lhs_contract, x->rank));
    TPT_TRY(check_side(d, d->rhs_batch, d->rhs_contract, y->rank));
    bool fits = true;
    for (int i = 0; i < d->n_batch; i++) fits &= x->dims[d->lhs_batch[i]] == y->dims[d->rhs_batch[i]];
    for (int i = 0; i < d->n_contract; i++) fits &= x->dims[d->lhs_contract[i]] == y->dims[d->rhs_contract[i]];
    if (!fits) return TPT_BAD("sizes of %s and %s do not match", tpt_type_text(x, a), tpt_type_text(y, b));
    types[0] = (tpt_type_t){.dtype = (uint8_t)out};
    for (int i = 0; i < d->n_batch; i++) TPT_TRY(add_dim(&types[0], x->dims[d->lhs_batch[i]]));
    TPT_TRY(add_free_dims(d, d->lhs_batch, d->lhs_contract, x, &types[0]));
    return add_free_dims(d, d->rhs_batch, d->rhs_contract, y, &types[0]);
}

/* The three kinds of position of one tensor of a convolution are a permutation of its dims. */
static tpt_status_t *check_positions(const char *what, int64_t first, int64_t second, const int64_t *spatial, int n) {
    int64_t all[5] = {first, second, 0, 0, 0};
    for (int i = 0; i < n; i++) all[2 + i] = spatial[i];
    return tpt_ir_check_dims(what, n + 2, all, n + 2);
}

static tpt_status_t *check_groups(const tpt_ir_conv_t *c, const tpt_type_t *x, const tpt_type_t *k) {
    int64_t f = c->feature_groups, b = c->batch_groups, features = 0;
    if (f < 1 || b < 1 || (f > 1 && b > 1)) return TPT_BAD("%lld feature and %lld batch groups", (long long)f, (long long)b);
    if (__builtin_mul_overflow(k->dims[c->k_in_feature], f, &features) || features != x->dims[c->in_feature]) {
        return TPT_BAD("%lld input features, the kernel has %lld in %lld groups", (long long)x->dims[c->in_feature],
                       (long long)k->dims[c->k_in_feature], (long long)f);
    }
    int64_t out = k->dims[c->k_out_feature];
    if (out % f != 0 || out % b != 0 || x->dims[c->in_batch] % b != 0) return TPT_BAD("groups do not divide the features");
    return NULL;
}

tpt_status_t *tpt_infer_conv(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    const tpt_attr_conv_t *attr = node->attr;
    if (node->nin != 2 || node->nout != 1 || attr == NULL) return TPT_BAD("%d operands", node->nin);
    const tpt_ir_conv_t *c = &attr->conv;
    const tpt_type_t *x = tpt_in_type(ir, node, 0), *k = tpt_in_type(ir, node, 1);
    int n = c->spatial;
    if (n < 1 || n > 3) return TPT_BAD("%d spatial dimensions", n);
    if (x->dtype != k->dtype || x->dtype == TPT_BOOL || x->rank != n + 2 || k->rank != n + 2) {
        return TPT_BAD("%s with a kernel of %s", tpt_type_text(x, a), tpt_type_text(k, b));
    }
    TPT_TRY(check_positions("input positions", c->in_batch, c->in_feature, c->in_spatial, n));
    TPT_TRY(check_positions("kernel positions", c->k_in_feature, c->k_out_feature, c->k_spatial, n));
    TPT_TRY(check_positions("output positions", c->out_batch, c->out_feature, c->out_spatial, n));
    TPT_TRY(check_groups(c, x, k));
    types[0] = (tpt_type_t){.dtype = x->dtype, .rank = n + 2};
    types[0].dims[c->out_batch] = x->dims[c->in_batch] / c->batch_groups;
    types[0].dims[c->out_feature] = k->dims[c->k_out_feature];
    for (int i = 0; i < n; i++) {
        int64_t size = tpt_ir_window_dim(x->dims[c->in_spatial[i]], k->dims[c->k_spatial[i]], c->stride[i], c->lhs_dilation[i],
                                         c->rhs_dilation[i], c->pad_low[i], c->pad_high[i]);
        if (size < 0) return TPT_BAD("a malformed window in spatial dimension %d", i);
        types[0].dims[c->out_spatial[i]] = size;
    }
    return NULL;
}

/* A batch of square matrices of a dtype that the factorisations know. */
static tpt_status_t *check_square(const tpt_type_t *a) {
    char text[TPT_TYPE_TEXT];
    tpt_dtype_t d = (tpt_dtype_t)a->dtype;
    bool known = d == TPT_F32 || d == TPT_F64 || tpt_dtype_is_complex(d);
    if (known && a->rank >= 2 && a->dims[a->rank - 1] == a->dims[a->rank - 2]) return NULL;
    return TPT_BAD("%s is no batch of square matrices of float32, float64 or complex numbers", tpt_type_text(a, text));
}

static tpt_status_t *infer_triangular(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    char p[TPT_TYPE_TEXT], q[TPT_TYPE_TEXT];
    if (node->nin != 2) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *a = tpt_in_type(ir, node, 0), *b = tpt_in_type(ir, node, 1);
    TPT_TRY(check_square(a));
    bool fits = a->dtype == b->dtype && a->rank == b->rank && node->num >> TPT_TRI_TRANSPOSE_SHIFT <= 2;
    for (int i = 0; i < a->rank - 2 && fits; i++) fits = a->dims[i] == b->dims[i];
    int shared = node->num & TPT_TRI_LEFT ? a->rank - 2 : a->rank - 1;
    if (!fits || b->dims[shared] != a->dims[a->rank - 1]) {
        return TPT_BAD("%s and a right-hand side of %s", tpt_type_text(a, p), tpt_type_text(b, q));
    }
    types[0] = *b;
    return NULL;
}

static tpt_status_t *infer_fft(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nin != 1 || node->sub > TPT_IR_IRFFT) return TPT_BAD("%d operands", node->nin);
    const tpt_type_t *x = tpt_in_type(ir, node, 0);
    tpt_dtype_t d = (tpt_dtype_t)x->dtype;
    int n = node->nints;
    if (n < 1 || n > 3 || n > x->rank) return TPT_BAD("%d lengths for %d dimensions", n, x->rank);
    bool real_in = node->sub == TPT_IR_RFFT;
    if (real_in ? d != TPT_F32 && d != TPT_F64 : !tpt_dtype_is_complex(d))
        return tpt_status_make(TPT_UNIMPLEMENTED, "not defined for %s", tpt_dtype_name(d));
    types[0] = *x;
    for (int i = 0; i < n; i++) {
        int dim = x->rank - n + i;
        int64_t length = node->ints[0][i], want = length;
        if (length < 1) return TPT_BAD("a length of %lld", (long long)length);
        if (i == n - 1 && node->sub == TPT_IR_IRFFT) want = length / 2 + 1;
        if (x->dims[dim] != want) return TPT_BAD("a length of %lld for size %lld", (long long)length, (long long)x->dims[dim]);
    }
    if (real_in) types[0].dims[x->rank - 1] = node->ints[0][n - 1] / 2 + 1;
    if (node->sub == TPT_IR_IRFFT) types[0].dims[x->rank - 1] = node->ints[0][n - 1];
    if (real_in) types[0].dtype = (uint8_t)tpt_dtype_complex(d);
    if (node->sub == TPT_IR_IRFFT) types[0].dtype = (uint8_t)tpt_dtype_real(d);
    return NULL;
}

tpt_status_t *tpt_infer_linalg(const tpt_ir_t *ir, const tpt_node_t *node, tpt_type_t *types) {
    if (node->nout != 1) return TPT_BAD("%d results", node->nout);
    if (node->kind == TPT_KIND_TRIANGULAR) return infer_triangular(ir, node, types);
    if (node->kind == TPT_KIND_FFT) return infer_fft(ir, node, types);
    if (node->nin != 1) return TPT_BAD("%d operands", node->nin);
    TPT_TRY(check_square(tpt_in_type(ir, node, 0)));
    types[0] = *tpt_in_type(ir, node, 0);
    return NULL;
}
