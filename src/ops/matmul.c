/* matmul.c - matrix products. Halves accumulate in float32 and are rounded once: by the conversion of the result, or by the
 * matrix unit itself where that is all that happens to it. */
#include "ops/nn.h"

/* The dtype a product is accumulated in. */
static tpt_dtype_t accumulate_dtype(tpt_dtype_t d) {
    return d == TPT_BOOL ? TPT_I32 : tpt_dtype_opmath(d);
}

/* A dot of two operands of one dtype. Halves stay halves on the way in, so that matrix units can be used. Processors have none,
 * and XLA's own widening misses some dots of bfloat16 there, which then fail as they run. */
static tpt_val_t dot(tpt_ir_t *b, tpt_val_t x, tpt_val_t y, tpt_ir_dot_t d) {
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    if (dtype == TPT_BOOL || (dtype == TPT_BF16 && tpt_ir_host_code(b))) {
        x = tpt_ir_convert(b, x, accumulate_dtype(dtype));
        y = tpt_ir_convert(b, y, accumulate_dtype(dtype));
    }
    const tpt_dtype_t acc = d.out_dtype != TPT_DTYPE_NONE ? d.out_dtype : accumulate_dtype(dtype);
    d.out_dtype = acc == tpt_ir_dtype(b, x) ? TPT_DTYPE_NONE : acc;
    return tpt_ir_dot(b, x, y, &d);
}

/* The last two of `rank` dims exchanged. */
static void exchange(int rank, int64_t *perm) {
    for (int i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
}

/* x times the transpose of w ([n, k], a linear layer's weight), for few rows of x: as the transpose of w times x's. XLA's CPU
 * compiler lays out anew the second operand of a dot that contracts over its inner dim; this way it is the small one.
 * Measured with 0.81, us: 64x256x512 306 -> 150, 64x1024x1024 3416 -> 800, 8x576x1536 663 -> 215; no gain for one row. */
static tpt_val_t product_turned(tpt_ir_t *b, tpt_val_t x, tpt_val_t w) {
    const int rank = tpt_ir_rank(b, x);
    tpt_ir_dot_t d = {.n_batch = rank - 2, .n_contract = 1, .lhs_contract = {rank - 1}, .rhs_contract = {rank - 1}};
    int64_t perm[TPT_MAX_RANK];
    exchange(rank, perm);
    for (int i = 0; i < d.n_batch; i++) d.lhs_batch[i] = d.rhs_batch[i] = i;
    d.rhs_contract[0] = rank - 2;
    tpt_val_t turned = dot(b, w, tpt_ir_turn(b, x, perm), d);
    tpt_ir_barrier(b, 1, &turned, &turned); /* or the compiler turns it back */
    return tpt_ir_turn(b, turned, perm);
}

/* Is that less to lay out anew than w itself? */
static bool is_turned(const tpt_ir_t *b, int64_t rows, int64_t k, int64_t n) {
    return tpt_ir_has_kernels(b) ? rows * (k + n) <= k * n : rows < n && 4 * rows <= k;
}

/* An operand that is a transpose is laid out before the dot, which would read it in strides: 2048x384x1152 4.9 -> 4.4 ms. */
static tpt_val_t laid_out(tpt_ir_t *b, tpt_val_t x) {
    const tpt_val_t base = tpt_ir_has_kernels(b) ? tpt_ir_untransposed(b, x) : TPT_VAL_NONE;
    if (base == TPT_VAL_NONE) return x;
    const int rank = tpt_ir_rank(b, x);
    int64_t perm[TPT_MAX_RANK];
    exchange(rank, perm);
    return tpt_ir_turn(b, base, perm);
}

/* A handful of values on a processor: one loop of products and sums, where a dot is a call of its own. Measured with 0.81,
 * us an op: 4x4x4 5.8 -> 4.4, 6x6x6 5.9 -> 5.1, 8x8x8 alike; single rows are loops already. */
#define LOOP_PRODUCTS 256
static bool is_loop(const tpt_ir_t *b, tpt_val_t x, tpt_val_t y) {
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    if (!tpt_ir_host_code(b) || tpt_ir_rank(b, x) != 2 || (dtype != TPT_F32 && dtype != TPT_F64)) return false;
    const int64_t m = tpt_ir_dim(b, x, 0), k = tpt_ir_dim(b, x, 1), n = tpt_ir_dim(b, y, 1);
    return m > 1 && n > 1 && k > 0 && m <= LOOP_PRODUCTS && n <= LOOP_PRODUCTS && k <= LOOP_PRODUCTS && m * k * n <= LOOP_PRODUCTS;
}
static tpt_val_t product_loop(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) {
    const int64_t inner = 1;
    return tpt_nn_sum(b, tpt_ir_mul(b, tpt_ir_unsqueeze(b, x, 2), tpt_ir_unsqueeze(b, y, 0)), 1, &inner);
}

/* [m, k] x [k, n], or the same with one batch dim, as `out` or, with TPT_DTYPE_NONE, in the dtype it accumulates in. */
static tpt_val_t product_as(tpt_ir_t *b, tpt_val_t x, tpt_val_t y, tpt_dtype_t out) {
    tpt_ir_dot_t d = {.out_dtype = out};
    const int rank = tpt_ir_rank(b, x);
    const int64_t rows = tpt_ir_dim(b, x, -2);
    if (is_loop(b, x, y)) return product_loop(b, x, y);
    if (tpt_ir_host_code(b) && rows > 1 && !tpt_ir_has_blas(b)) {
        const tpt_val_t w = tpt_ir_untransposed(b, y);
        if (w != TPT_VAL_NONE && is_turned(b, rows, tpt_ir_dim(b, x, -1), tpt_ir_dim(b, y, -1))) return product_turned(b, x, w);
        x = laid_out(b, x);
        y = laid_out(b, y);
    }
    d.n_batch = rank - 2;
    for (int i = 0; i < d.n_batch; i++) d.lhs_batch[i] = d.rhs_batch[i] = i;
    d.n_contract = 1;
    d.lhs_contract[0] = rank - 1;
    d.rhs_contract[0] = rank - 2;
    return dot(b, x, y, d);
}

static tpt_val_t product(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) { return product_as(b, x, y, TPT_DTYPE_NONE); }

/* [m, k] x [k] and [k] x [k]. */
static tpt_val_t product_vec(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) {
    tpt_ir_dot_t d = {0};
    d.n_contract = 1;
    d.lhs_contract[0] = tpt_ir_rank(b, x) - 1;
    d.rhs_contract[0] = 0;
    return dot(b, x, y, d);
}

static tpt_val_t conjugate(tpt_ir_t *b, tpt_val_t x) {
    if (!tpt_dtype_is_complex(tpt_ir_dtype(b, x))) return x;
    tpt_val_t im = tpt_ir_neg(b, tpt_ir_unary(b, TPT_IR_IMAG, x));
    return tpt_ir_binary(b, TPT_IR_COMPLEX, tpt_ir_unary(b, TPT_IR_REAL, x), im);
}

/* beta * self + alpha * x. A beta of 0 drops self, whatever it holds. */
static tpt_val_t blend(tpt_lower_t *L, tpt_val_t x) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const tpt_type_t shape = *tpt_ir_type(b, x);
    if (tpt_lower_has(L, "alpha")) x = tpt_ir_mul(b, x, tpt_lower_number(L, "alpha", dtype));
    tpt_val_t self = tpt_nn_tensor(L, "self", dtype);
    self = tpt_ir_broadcast_to(b, self, shape.rank, shape.dims);
    if (tpt_lower_has(L, "beta")) {
        tpt_val_t beta = tpt_lower_number(L, "beta", dtype), zero = tpt_ir_like(b, beta, 0);
        self = tpt_ir_select(b, tpt_ir_compare(b, TPT_IR_EQ, beta, zero), zero, tpt_ir_mul(b, self, beta));
    }
    return tpt_ir_add(b, x, self);
}

/* The same with its product in one call, where the host's BLAS does both. */
static tpt_val_t blas_blend(tpt_lower_t *L, tpt_val_t x, tpt_val_t y) {
    const tpt_dtype_t dtype = tpt_ir_dtype(L->ir, x);
    if (!tpt_ir_has_blas(L->ir) || (dtype != TPT_F32 && dtype != TPT_F64)) return TPT_VAL_NONE;
    if (!tpt_lower_has(L, "alpha") || !tpt_lower_has(L, "beta")) return TPT_VAL_NONE;
    return tpt_ir_gemm_add(L->ir, x, y, tpt_nn_tensor(L, "self", dtype), tpt_lower_number(L, "alpha", dtype),
                           tpt_lower_number(L, "beta", dtype));
}

/* mm, bmm, _int_mm and the overloads with out_dtype. */
void tpt_ops_mm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self"), y = tpt_lower_tensor(L, "mat2");
    if (L->row->data == TPT_I32) {
        x = tpt_ir_convert(b, x, TPT_I32);
        y = tpt_ir_convert(b, y, TPT_I32);
    }
    /* A matrix unit hands halves out itself; a compiler that may keep excess precision would store the float32 otherwise, which
     * costs a TPU twice the traffic in all that reads it. Processors have no such unit. */
    const tpt_dtype_t own = tpt_ir_dtype(b, x);
    const bool direct = !tpt_ir_host_code(b) && (own == TPT_BF16 || own == TPT_F16) && L->nouts > 0 && L->outs[0].dtype == own;
    tpt_lower_result(L, product_as(b, x, y, direct ? own : TPT_DTYPE_NONE));
}

/* addmm, baddbmm, addmv: `data` tells which names the factors have. */
void tpt_ops_addmm(tpt_lower_t *L) {
    static const char *const names[][2] = {{"mat1", "mat2"}, {"batch1", "batch2"}, {"mat", "vec"}};
    tpt_val_t x = tpt_lower_tensor(L, names[L->row->data][0]), y = tpt_lower_tensor(L, names[L->row->data][1]);
    const tpt_val_t whole = L->row->data == 0 ? blas_blend(L, x, y) : TPT_VAL_NONE;
    if (whole != TPT_VAL_NONE) tpt_lower_result(L, whole);
    else tpt_lower_result(L, blend(L, L->row->data == 2 ? product_vec(L->ir, x, y) : product(L->ir, x, y)));
}

/* The batches are summed: one dot that contracts over batch and inner dims. */
void tpt_ops_addbmm(tpt_lower_t *L) {
    tpt_ir_dot_t d = {0};
    d.n_contract = 2;
    d.lhs_contract[0] = 0;
    d.lhs_contract[1] = 2;
    d.rhs_contract[0] = 0;
    d.rhs_contract[1] = 1;
    tpt_lower_result(L, blend(L, dot(L->ir, tpt_lower_tensor(L, "batch1"), tpt_lower_tensor(L, "batch2"), d)));
}

/* Vectors on processors, where XLA's dots of two vectors are one chain, and those with a transposed matrix stride through it:
 * 2.4 ms -> 0.3 ms for a million elements, 1.1 ms -> 0.1 ms for 1000 x 1000. TPT_VAL_NONE: the dot will do. */
static tpt_val_t product_vec_host(tpt_ir_t *b, tpt_val_t x, tpt_val_t y) {
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    if (!tpt_ir_host_code(b) || tpt_ir_dim(b, y, 0) < 64 || dtype != tpt_ir_dtype(b, y) || dtype == TPT_BOOL) return TPT_VAL_NONE;
    if (tpt_ir_rank(b, x) == 1) return tpt_nn_sum_all(b, tpt_ir_mul(b, tpt_nn_opmath(b, x), tpt_nn_opmath(b, y)));
    const tpt_val_t w = tpt_ir_untransposed(b, x);
    return w == TPT_VAL_NONE ? w : tpt_ir_squeeze(b, product(b, tpt_ir_unsqueeze(b, y, 0), w), 0);
}

/* mv, dot, vdot. */
void tpt_ops_dot(tpt_lower_t *L) {
    static const char *const names[] = {"vec", "tensor", "other"};
    tpt_val_t x = tpt_lower_tensor(L, "self"), y = tpt_lower_tensor(L, names[L->row->data]);
    if (L->row->data == 2) x = conjugate(L->ir, x);
    if (tpt_ir_status(L->ir) != NULL) return;
    tpt_val_t out = product_vec_host(L->ir, x, y);
    tpt_lower_result(L, out == TPT_VAL_NONE ? product_vec(L->ir, x, y) : out);
}

void tpt_ops_addr(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    const tpt_dtype_t own = tpt_promote_tensors(L), dtype = accumulate_dtype(own);
    tpt_val_t x = tpt_ir_unsqueeze(b, tpt_nn_tensor(L, "vec1", dtype), 1);
    tpt_val_t y = tpt_ir_unsqueeze(b, tpt_nn_tensor(L, "vec2", dtype), 0);
    const tpt_val_t out = blend(L, tpt_ir_mul(b, x, y));
    tpt_lower_result(L, own == TPT_BOOL ? tpt_ir_convert(b, out, own) : out); /* a target of a wider dtype gets 0 or 1 as well */
}

/* ---- grouped products --------------------------------------------------------------------------------------------- */

/* Where `position` (0..n along dim `dim` of a [.., n, ..] matrix) belongs to group g: start <= position < end. */
static tpt_val_t group_mask(tpt_ir_t *b, tpt_val_t start, tpt_val_t end, int rank, const int64_t *dims, int dim) {
    tpt_val_t position = tpt_ir_iota(b, tpt_type_make(TPT_I32, rank, dims), dim);
    return tpt_ir_and(b, tpt_ir_compare(b, TPT_IR_GE, position, start), tpt_ir_compare(b, TPT_IR_LT, position, end));
}

static tpt_val_t group_item(tpt_ir_t *b, tpt_val_t x, tpt_val_t g) {
    const tpt_type_t t = *tpt_ir_type(b, x);
    tpt_val_t starts[TPT_MAX_RANK];
    int64_t sizes[TPT_MAX_RANK];
    for (int i = 0; i < t.rank; i++) {
        starts[i] = i == 0 ? g : tpt_ir_const_i(b, TPT_I32, 0);
        sizes[i] = i == 0 ? 1 : t.dims[i];
    }
    return tpt_ir_reshape(b, tpt_ir_dynamic_slice(b, x, starts, sizes), t.rank - 1, t.dims + 1);
}

/* Ragged groups as dense dots, one a group in a loop: no memory beyond the result, on any plugin.
 * rows: [m, k] x [g, k, n], groups of rows; columns: [g, m, k] x [k, n], groups of columns; inner: [m, k] x [k, n], groups
 * of the contracted dim, result [g, m, n]. Places that belong to no group are zero. */
static tpt_val_t grouped(tpt_ir_t *b, tpt_val_t x, tpt_val_t y, tpt_val_t offs) {
    const bool inner = tpt_ir_rank(b, x) == 2 && tpt_ir_rank(b, y) == 2, rows = !inner && tpt_ir_rank(b, x) == 2;
    const int64_t groups = tpt_ir_dim(b, offs, 0), m = tpt_ir_dim(b, x, -2), n = tpt_ir_dim(b, y, -1), k = tpt_ir_dim(b, x, -1);
    const tpt_dtype_t acc = accumulate_dtype(tpt_ir_dtype(b, x));
    const int64_t out_dims[3] = {inner ? groups : m, inner ? m : n, n}, mn[2] = {m, n}, mk[2] = {m, k}, one[1] = {1}, none[1] = {0};
    const int out_rank = inner ? 3 : 2;
    tpt_type_t out_type = tpt_type_make(acc, out_rank, out_dims), scalar = tpt_type_make(TPT_I32, 0, NULL);
    offs = tpt_ir_convert(b, offs, TPT_I32);
    const tpt_val_t pad_low = tpt_ir_const_i(b, TPT_I32, 0);
    const tpt_val_t bounds = tpt_ir_pad(b, offs, pad_low, one, none, NULL); /* [0, offs...] */
    const tpt_val_t inits[2] = {tpt_ir_const_i(b, TPT_I32, 0), tpt_ir_full_f(b, out_type, 0)};

    tpt_ir_region_begin(b);
    tpt_val_t g = tpt_ir_region_arg(b, scalar);
    (void)tpt_ir_region_arg(b, out_type);
    tpt_val_t more = tpt_ir_compare(b, TPT_IR_LT, g, tpt_ir_const_i(b, TPT_I32, groups));
    const tpt_region_t cond = tpt_ir_region_end(b, 1, &more);

    tpt_ir_region_begin(b);
    g = tpt_ir_region_arg(b, scalar);
    tpt_val_t out = tpt_ir_region_arg(b, out_type), next = tpt_ir_add(b, g, tpt_ir_const_i(b, TPT_I32, 1));
    const tpt_val_t start = group_item(b, bounds, g), end = group_item(b, bounds, next);
    if (inner) {
        tpt_val_t mine = group_mask(b, start, end, 2, mk, 1);
        tpt_val_t part = product(b, tpt_ir_select(b, mine, x, tpt_ir_like(b, x, 0)), y);
        const tpt_val_t zero = tpt_ir_const_i(b, TPT_I32, 0), starts[3] = {g, zero, zero};
        out = tpt_ir_dynamic_update_slice(b, out, tpt_ir_unsqueeze(b, part, 0), starts);
    } else {
        tpt_val_t part = product(b, rows ? x : group_item(b, x, g), rows ? group_item(b, y, g) : y);
        out = tpt_ir_select(b, group_mask(b, start, end, 2, mn, rows ? 0 : 1), part, out);
    }
    const tpt_val_t yields[2] = {next, out};
    const tpt_region_t body = tpt_ir_region_end(b, 2, yields);
    tpt_val_t done[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_while(b, 2, inits, cond, body, done);
    return done[1];
}

void tpt_ops_grouped_mm(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self"), y = tpt_lower_tensor(L, "mat2");
    const int rx = tpt_ir_rank(b, x), ry = tpt_ir_rank(b, y);
    tpt_val_t out;
    if (rx == 3 && ry == 3) {
        out = product(b, x, y);
    } else if (!tpt_lower_has(L, "offs")) {
        tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "_grouped_mm: offs is needed when an operand is 2-d");
        return;
    } else {
        out = grouped(b, x, y, tpt_lower_tensor(L, "offs"));
    }
    tpt_val_t bias = tpt_nn_optional(L, "bias", tpt_ir_dtype(b, out));
    if (bias != TPT_VAL_NONE) out = tpt_ir_add(b, out, bias);
    tpt_lower_result(L, tpt_ir_convert(b, out, tpt_lower_dtype(L, "out_dtype", tpt_ir_dtype(b, x))));
}
