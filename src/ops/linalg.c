/* linalg.c - products of vectors and matrices that are no dots. */
#include "ops/ops.h"

/* x with its three slices along `dim` moved by `by` places: (x0, x1, x2) becomes (x1, x2, x0) for 1. */
static tpt_val_t turned(tpt_ir_t *ir, tpt_val_t x, int dim, int by) {
    const tpt_val_t parts[2] = {tpt_ir_slice_dim(ir, x, dim, by, 3), tpt_ir_slice_dim(ir, x, dim, 0, by)};
    return tpt_ir_concat(ir, 2, parts, dim);
}

void tpt_ops_cross(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "self"), y = tpt_lower_tensor(L, "other");
    if (x == TPT_VAL_NONE || y == TPT_VAL_NONE) return;
    const tpt_type_t a = *tpt_ir_type(ir, x), b = *tpt_ir_type(ir, y);
    tpt_type_t out = a;
    for (int i = 0; i < a.rank && i < b.rank; i++) out.dims[i] = a.dims[i] == 1 ? b.dims[i] : a.dims[i];
    const int dim = tpt_lower_dim(L, "dim", out.rank, -1);
    x = tpt_ir_broadcast_to(ir, x, out.rank, out.dims);
    y = tpt_ir_broadcast_to(ir, y, out.rank, out.dims);
    tpt_val_t ahead = tpt_ir_mul(ir, turned(ir, x, dim, 1), turned(ir, y, dim, 2));
    tpt_lower_result(L, tpt_ir_sub(ir, ahead, tpt_ir_mul(ir, turned(ir, x, dim, 2), turned(ir, y, dim, 1))));
}
