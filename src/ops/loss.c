/* loss.c - losses and their gradients. Elementwise ones share a reduction; negative log-likelihood picks its class by a compare
 * against the class index, which fuses with its neighbours and needs neither gather nor scatter. On processors it gathers. */
#include "ops/nn.h"
#include "ops/shape.h"

/* ---- elementwise losses ------------------------------------------------------------------------------------------------- */

enum { LOSS_MSE, LOSS_SMOOTH_L1, LOSS_HUBER, LOSS_BCE, LOSS_BCE_LOGITS, LOSS_SOFT_MARGIN };

/* self and target in the compute dtype, at their common shape. */
static void read_pair(tpt_lower_t *L, tpt_val_t *x, tpt_val_t *t) {
    tpt_ir_t *b = L->ir;
    *x = tpt_lower_tensor(L, "self");
    *t = tpt_lower_tensor(L, "target");
    const tpt_dtype_t dtype = tpt_dtype_opmath(tpt_promote_types(tpt_ir_dtype(b, *x), tpt_ir_dtype(b, *t)));
    *x = tpt_ir_convert(b, *x, dtype);
    *t = tpt_ir_convert(b, *t, dtype);
    tpt_nn_broadcast_pair(b, x, t);
}

static tpt_val_t square(tpt_ir_t *b, tpt_val_t x) {
    return tpt_ir_mul(b, x, x);
}

/* log(x), not below -100: PyTorch's guard against infinite losses. */
static tpt_val_t log_clamped(tpt_ir_t *b, tpt_val_t log_x) {
    return tpt_ir_max(b, log_x, tpt_ir_like(b, log_x, -100));
}

static tpt_val_t smooth_l1(tpt_lower_t *L, tpt_val_t d) {
    tpt_ir_t *b = L->ir;
    tpt_val_t z = tpt_ir_unary(b, TPT_IR_ABS, d), half = tpt_ir_like(b, z, 0.5), beta = tpt_lower_number(L, "beta", tpt_ir_dtype(b, z));
    tpt_val_t near = tpt_ir_div(b, tpt_ir_mul(b, half, square(b, z)), beta), far = tpt_ir_sub(b, z, tpt_ir_mul(b, half, beta));
    return tpt_ir_select(b, tpt_ir_compare(b, TPT_IR_LT, z, beta), near, far);
}

static tpt_val_t huber(tpt_lower_t *L, tpt_val_t d) {
    tpt_ir_t *b = L->ir;
    tpt_val_t z = tpt_ir_unary(b, TPT_IR_ABS, d), half = tpt_ir_like(b, z, 0.5), delta = tpt_lower_number(L, "delta", tpt_ir_dtype(b, z));
    tpt_val_t near = tpt_ir_mul(b, half, square(b, z)), far = tpt_ir_mul(b, delta, tpt_ir_sub(b, z, tpt_ir_mul(b, half, delta)));
    return tpt_ir_select(b, tpt_ir_compare(b, TPT_IR_LT, z, delta), near, far);
}

static void refuse_outside_unit(tpt_lower_t *L, tpt_val_t x, const char *text) {
    tpt_ir_t *b = L->ir;
    tpt_val_t low = tpt_ir_compare(b, TPT_IR_GE, x, tpt_ir_like(b, x, 0)), high = tpt_ir_compare(b, TPT_IR_LE, x, tpt_ir_like(b, x, 1));
    tpt_lower_refuse(L, tpt_ir_not(b, tpt_ir_and(b, low, high)), text); /* NaN too */
}

/* (t - 1) * log(1 - x) - t * log(x) */
static tpt_val_t bce(tpt_ir_t *b, tpt_val_t x, tpt_val_t t) {
    tpt_val_t log_rest = log_clamped(b, tpt_ir_unary(b, TPT_IR_LOG1P, tpt_ir_neg(b, x)));
    tpt_val_t log_x = log_clamped(b, tpt_ir_unary(b, TPT_IR_LOG, x));
    return tpt_ir_sub(b, tpt_ir_mul(b, tpt_ir_sub(b, t, tpt_ir_like(b, t, 1)), log_rest), tpt_ir_mul(b, t, log_x));
}

/* (1 - t) * x + w * softplus(-x), w = 1 + (pos_weight - 1) * t */
static tpt_val_t bce_logits(tpt_lower_t *L, tpt_val_t x, tpt_val_t t) {
    tpt_ir_t *b = L->ir;
    tpt_val_t one = tpt_ir_like(b, x, 1), zero = tpt_ir_like(b, x, 0), minus = tpt_ir_neg(b, x);
    tpt_val_t tail = tpt_ir_unary(b, TPT_IR_LOG1P, tpt_ir_unary(b, TPT_IR_EXP, tpt_ir_neg(b, tpt_ir_unary(b, TPT_IR_ABS, x))));
    tpt_val_t softplus = tpt_ir_add(b, tail, tpt_ir_max(b, minus, zero));
    tpt_val_t positive = tpt_nn_optional(L, "pos_weight", tpt_ir_dtype(b, x));
    if (positive != TPT_VAL_NONE)
        softplus = tpt_ir_mul(b, softplus, tpt_ir_add(b, one, tpt_ir_mul(b, tpt_ir_sub(b, positive, one), t)));
    return tpt_ir_add(b, tpt_ir_mul(b, tpt_ir_sub(b, one, t), x), softplus);
}

/* log(1 + exp(-t * x)) without overflow. */
static tpt_val_t soft_margin(tpt_ir_t *b, tpt_val_t x, tpt_val_t t) {
    tpt_val_t z = tpt_ir_neg(b, tpt_ir_mul(b, x, t));
    tpt_val_t tail = tpt_ir_unary(b, TPT_IR_LOG1P, tpt_ir_unary(b, TPT_IR_EXP, tpt_ir_neg(b, tpt_ir_unary(b, TPT_IR_ABS, z))));
    return tpt_ir_add(b, tail, tpt_ir_max(b, z, tpt_ir_like(b, z, 0)));
}

void tpt_ops_loss(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x, t, out;
    read_pair(L, &x, &t);
    switch (L->row->data) {
    case LOSS_MSE:
        out = square(b, tpt_ir_sub(b, x, t));
        break;
    case LOSS_SMOOTH_L1:
        out = smooth_l1(L, tpt_ir_sub(b, x, t));
        break;
    case LOSS_HUBER:
        out = huber(L, tpt_ir_sub(b, x, t));
        break;
    case LOSS_BCE:
        refuse_outside_unit(L, x, "all elements of input should be between 0 and 1");
        out = bce(b, x, t);
        break;
    case LOSS_BCE_LOGITS:
        out = bce_logits(L, x, t);
        break;
    default:
        out = soft_margin(b, x, t);
        break;
    }
    tpt_val_t weight = tpt_nn_optional(L, "weight", tpt_ir_dtype(b, x));
    if (weight != TPT_VAL_NONE) out = tpt_ir_mul(b, out, weight);
    tpt_lower_result(L, tpt_nn_reduction(L, out));
}

/* -1, 1 or between: the slope of |d| rounded off inside (-width, width), where it is d * inner. */
static tpt_val_t rounded_slope(tpt_ir_t *b, tpt_val_t d, tpt_val_t width, tpt_val_t inside, tpt_val_t outside) {
    tpt_val_t low = tpt_ir_compare(b, TPT_IR_LE, d, tpt_ir_neg(b, width)), high = tpt_ir_compare(b, TPT_IR_GE, d, width);
    return tpt_ir_select(b, low, tpt_ir_neg(b, outside), tpt_ir_select(b, high, outside, inside));
}

void tpt_ops_loss_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x, t, slope;
    read_pair(L, &x, &t);
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    tpt_val_t d = tpt_ir_sub(b, x, t), one = tpt_ir_like(b, x, 1), g = tpt_nn_tensor(L, "grad_output", dtype);
    switch (L->row->data) {
    case LOSS_MSE:
        slope = tpt_ir_mul(b, tpt_ir_like(b, d, 2), d);
        break;
    case LOSS_SMOOTH_L1: {
        tpt_val_t beta = tpt_lower_number(L, "beta", dtype);
        slope = rounded_slope(b, d, beta, tpt_ir_div(b, d, beta), one);
        break;
    }
    case LOSS_HUBER: {
        tpt_val_t delta = tpt_lower_number(L, "delta", dtype);
        slope = rounded_slope(b, d, delta, d, delta);
        break;
    }
    case LOSS_BCE: {
        tpt_val_t spread = tpt_ir_mul(b, tpt_ir_sub(b, one, x), x);
        slope = tpt_ir_div(b, d, tpt_ir_max(b, spread, tpt_ir_like(b, spread, 1e-12)));
        break;
    }
    default: {
        tpt_val_t z = tpt_ir_neg(b, tpt_ir_mul(b, x, t));
        slope = tpt_ir_neg(b, tpt_ir_mul(b, t, tpt_ir_unary(b, TPT_IR_LOGISTIC, z)));
        break;
    }
    }
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    if (weight != TPT_VAL_NONE) slope = tpt_ir_mul(b, slope, weight);
    slope = tpt_ir_mul(b, slope, g);
    if (tpt_lower_int(L, "reduction", 1) == 1) slope = tpt_ir_div(b, slope, tpt_ir_like(b, slope, (double)tpt_ir_numel(b, slope)));
    tpt_lower_result(L, slope);
}

/* ---- negative log-likelihood ------------------------------------------------------------------------------------------- */

typedef struct nll {
    int class_dim;
    tpt_type_t shape;         /* of self */
    tpt_val_t chosen;         /* int32, target's shape: the class, -1 if ignored */
    tpt_val_t hit;            /* bool, of shape: this is the target's class and it counts */
    tpt_val_t counts;         /* bool, target's shape: not ignored */
    tpt_val_t weight, picked; /* class weights along shape, or NONE; weight of each target (target's shape) */
} nll_t;

static tpt_val_t over_classes(tpt_ir_t *b, tpt_val_t x, int dim) {
    const int64_t dims[1] = {dim};
    return tpt_ir_reduce(b, TPT_IR_RED_ADD, x, 1, dims);
}

static nll_t read_nll(tpt_lower_t *L, tpt_val_t x) {
    tpt_ir_t *b = L->ir;
    nll_t n;
    n.shape = *tpt_ir_type(b, x);
    n.class_dim = n.shape.rank > 1 ? 1 : 0;
    const int64_t classes = n.shape.dims[n.class_dim];
    tpt_val_t target = tpt_nn_tensor(L, "target", TPT_I64);
    if (n.shape.rank == 1) target = tpt_ir_reshape(b, target, 0, NULL);
    n.counts = tpt_ir_compare(b, TPT_IR_NE, target, tpt_ir_const_i(b, TPT_I64, tpt_lower_int(L, "ignore_index", -100)));
    tpt_val_t low = tpt_ir_compare(b, TPT_IR_LT, target, tpt_ir_const_i(b, TPT_I64, 0));
    tpt_val_t high = tpt_ir_compare(b, TPT_IR_GE, target, tpt_ir_const_i(b, TPT_I64, classes));
    tpt_lower_flag(L, tpt_ir_and(b, n.counts, tpt_ir_or(b, low, high)), classes);
    /* An ignored target gets class -1, which no class index equals. */
    n.chosen = tpt_ir_convert(b, tpt_ir_select(b, n.counts, target, tpt_ir_const_i(b, TPT_I64, -1)), TPT_I32);
    tpt_type_t index = n.shape;
    index.dtype = TPT_I32;
    n.hit = tpt_ir_compare(b, TPT_IR_EQ, tpt_ir_iota(b, index, n.class_dim), tpt_ir_unsqueeze(b, n.chosen, n.class_dim));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    tpt_val_t weight = tpt_nn_optional(L, "weight", dtype);
    n.weight = weight == TPT_VAL_NONE ? weight : tpt_nn_along(b, weight, x, n.class_dim);
    n.picked = weight == TPT_VAL_NONE ? tpt_ir_convert(b, n.counts, dtype)
                                      : over_classes(b, tpt_ir_select(b, n.hit, n.weight, tpt_ir_like(b, x, 0)), n.class_dim);
    return n;
}

/* x at each target's class, times the class's weight; 0 where ignored. */
static tpt_val_t value_of_class(tpt_ir_t *b, tpt_val_t x, const nll_t *n) {
    const tpt_val_t zero = tpt_ir_like(b, x, 0);
    const int64_t classes = n->shape.dims[n->class_dim], numel = tpt_type_numel(&n->shape);
    const bool gathers = tpt_ir_host_code(b) && n->shape.rank == 2 && n->weight == TPT_VAL_NONE && numel > 0 && numel < INT32_MAX;
    if (!gathers || classes < 8 || tpt_ir_status(b) != NULL) {
        tpt_val_t all = n->weight == TPT_VAL_NONE ? x : tpt_ir_mul(b, x, n->weight);
        return over_classes(b, tpt_ir_select(b, n->hit, all, zero), n->class_dim);
    }
    tpt_val_t index = tpt_ir_max(b, n->chosen, tpt_ir_const_i(b, TPT_I32, 0));
    index = tpt_ir_min(b, index, tpt_ir_const_i(b, TPT_I32, classes - 1)); /* those beyond are flagged */
    tpt_val_t row = tpt_ir_iota(b, tpt_type_make(TPT_I32, 1, n->shape.dims), 0);
    index = tpt_ir_add(b, index, tpt_ir_mul(b, row, tpt_ir_const_i(b, TPT_I32, classes)));
    return tpt_ir_select(b, n->counts, tpt_index_take(b, tpt_ir_flatten(b, x), 0, index), zero);
}

/* nll_loss_forward, nll_loss2d_forward. */
void tpt_ops_nll(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "self")), zero = tpt_ir_like(b, x, 0);
    const nll_t n = read_nll(L, x);
    tpt_val_t loss = tpt_ir_neg(b, value_of_class(b, x, &n));
    const int64_t reduction = tpt_lower_int(L, "reduction", 1);
    if (reduction == 0) {
        tpt_lower_result(L, loss);
        tpt_lower_result(L, zero);
        return;
    }
    tpt_val_t sum = tpt_nn_sum_all(b, loss), total = tpt_nn_sum_all(b, n.picked);
    tpt_lower_result(L, reduction == 1 ? tpt_ir_div(b, sum, total) : sum);
    tpt_lower_result(L, total);
}

void tpt_ops_nll_backward(tpt_lower_t *L) {
    tpt_ir_t *b = L->ir;
    tpt_val_t x = tpt_nn_opmath(b, tpt_lower_tensor(L, "self"));
    const tpt_dtype_t dtype = tpt_ir_dtype(b, x);
    const nll_t n = read_nll(L, x);
    tpt_val_t g = tpt_ir_neg(b, tpt_nn_tensor(L, "grad_output", dtype));
    const int64_t reduction = tpt_lower_int(L, "reduction", 1);
    if (reduction == 1) g = tpt_ir_div(b, g, tpt_nn_tensor(L, "total_weight", dtype));
    if (reduction == 0 && n.shape.rank > 1) g = tpt_ir_unsqueeze(b, g, n.class_dim);
    if (n.weight != TPT_VAL_NONE) g = tpt_ir_mul(b, g, n.weight);
    tpt_lower_result(L, tpt_ir_select(b, n.hit, g, tpt_ir_like(b, x, 0)));
}
