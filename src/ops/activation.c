/* activation.c - activations that are more than one elementwise formula. */
#include <string.h>

#include "ops/ops.h"

static tpt_val_t opmath_of(tpt_lower_t *L, const char *name) {
    tpt_val_t x = tpt_lower_tensor(L, name);
    return tpt_ir_convert(L->ir, x, tpt_dtype_opmath(tpt_ir_dtype(L->ir, x)));
}

/* (output, buffer): the buffer keeps exp(-|x|) on cpu and is empty elsewhere; we give what the meta kernel asks for. */
void tpt_lower_log_sigmoid(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath_of(L, "self");
    tpt_val_t z = tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_neg(ir, tpt_ir_unary(ir, TPT_IR_ABS, x)));
    tpt_val_t low = tpt_ir_min(ir, x, tpt_ir_like(ir, x, 0));
    tpt_lower_result(L, tpt_ir_sub(ir, low, tpt_ir_unary(ir, TPT_IR_LOG1P, z)));
    tpt_type_t want = *tpt_ir_type(ir, z);
    int i = tpt_lower_find(L, "buffer");
    if (L->nouts > 1)
        want = tpt_type_make((tpt_dtype_t)want.dtype, L->outs[1].rank, L->outs[1].sizes);
    else if (i >= 0)
        want = tpt_type_make((tpt_dtype_t)want.dtype, L->args[i].u.tensor.rank, L->args[i].u.tensor.sizes);
    if (!tpt_type_equal(&want, tpt_ir_type(ir, z))) z = tpt_ir_full_f(ir, want, 0);
    tpt_lower_result(L, z);
}

/* Both halves of x along the argument `dim`; false after an error. */
static bool halves(tpt_lower_t *L, tpt_val_t x, int *out_dim, tpt_val_t *out_a, tpt_val_t *out_b) {
    int dim = tpt_lower_dim(L, "dim", tpt_ir_rank(L->ir, x), -1);
    if (tpt_ir_status(L->ir) != NULL || tpt_ir_rank(L->ir, x) == 0) return false;
    int64_t size = tpt_ir_dim(L->ir, x, dim);
    *out_dim = dim;
    *out_a = tpt_ir_slice_dim(L->ir, x, dim, 0, size / 2);
    *out_b = tpt_ir_slice_dim(L->ir, x, dim, size / 2, size);
    return true;
}

void tpt_lower_glu(tpt_lower_t *L) {
    tpt_val_t a, b, x = opmath_of(L, "self");
    int dim;
    if (!halves(L, x, &dim, &a, &b)) return;
    tpt_lower_result(L, tpt_ir_mul(L->ir, a, tpt_ir_unary(L->ir, TPT_IR_LOGISTIC, b)));
}

void tpt_lower_glu_backward(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t part[2], a, b, x = opmath_of(L, "self"), grad = opmath_of(L, "grad_output");
    int dim;
    if (!halves(L, x, &dim, &a, &b)) return;
    tpt_val_t s = tpt_ir_unary(ir, TPT_IR_LOGISTIC, b);
    part[0] = tpt_ir_mul(ir, grad, s);
    part[1] = tpt_ir_mul(ir, tpt_ir_mul(ir, part[0], a), tpt_ir_sub(ir, tpt_ir_like(ir, s, 1), s));
    tpt_lower_result(L, tpt_ir_concat(ir, 2, part, dim));
}

/* Negative inputs are scaled by a random slope while training, which `noise` keeps for the gradient. */
void tpt_lower_rrelu(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = opmath_of(L, "self"), noise = tpt_lower_tensor(L, "noise"), out;
    double low = tpt_lower_static(L, "lower", 0.125), high = tpt_lower_static(L, "upper", 1.0 / 3);
    if (tpt_ir_status(ir) != NULL) return;
    tpt_type_t type = *tpt_ir_type(ir, x);
    if (tpt_lower_bool(L, "training", false)) {
        tpt_val_t r = tpt_ir_mul(ir, tpt_lower_uniform(L, type), tpt_ir_like(ir, x, high - low));
        r = tpt_ir_add(ir, r, tpt_ir_like(ir, x, low));
        tpt_val_t negative = tpt_ir_compare(ir, TPT_IR_LE, x, tpt_ir_like(ir, x, 0));
        noise = tpt_ir_select(ir, negative, r, tpt_ir_like(ir, x, 1));
        out = tpt_ir_mul(ir, x, noise);
    } else {
        tpt_val_t leak = tpt_ir_mul(ir, x, tpt_ir_like(ir, x, (low + high) / 2));
        out = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_LE, x, tpt_ir_like(ir, x, 0)), leak, x);
    }
    bool noise_first = tpt_lower_find(L, "out") >= 0; /* results go in the schema's order */
    tpt_lower_result(L, noise_first ? noise : out);
    tpt_lower_result(L, noise_first ? out : noise);
}
