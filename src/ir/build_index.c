/* build_index.c - gather and scatter. */
#include "ir_internal.h"

tpt_val_t tpt_ir_gather(tpt_ir_t *ir, tpt_val_t x, tpt_val_t indices, const tpt_ir_gather_t *g) {
    tpt_val_t in[2] = {x, indices};
    return tpt_ir_emit1(
        ir, &(tpt_emit_t){.kind = TPT_KIND_GATHER, .nin = 2, .in = in, .nout = 1, .attr = g, .attr_bytes = sizeof *g});
}

static tpt_region_t scatter_region(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_dtype_t dtype) {
    tpt_ir_region_begin(ir);
    tpt_val_t old = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t update = tpt_ir_region_arg(ir, tpt_type_make(dtype, 0, NULL));
    tpt_val_t v = update;
    switch (op) {
        case TPT_IR_SCATTER_ADD:
            v = tpt_ir_add(ir, old, update);
            break;
        case TPT_IR_SCATTER_MUL:
            v = tpt_ir_mul(ir, old, update);
            break;
        case TPT_IR_SCATTER_MAX:
            v = tpt_ir_max(ir, old, update);
            break;
        case TPT_IR_SCATTER_MIN:
            v = tpt_ir_min(ir, old, update);
            break;
        default:
            break;
    }
    return tpt_ir_region_end(ir, 1, &v);
}

tpt_val_t tpt_ir_scatter(tpt_ir_t *ir, tpt_ir_scatter_op_t op, tpt_val_t x, tpt_val_t indices, tpt_val_t updates,
                         const tpt_ir_scatter_t *s) {
    if (!tpt_ir_good(ir, x)) return TPT_VAL_NONE;
    tpt_val_t in[3] = {x, indices, updates};
    tpt_region_t body = scatter_region(ir, op, tpt_ir_dtype(ir, x));
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_SCATTER,
                                          .nin = 3,
                                          .in = in,
                                          .nout = 1,
                                          .attr = s,
                                          .attr_bytes = sizeof *s,
                                          .nregions = 1,
                                          .regions = {body}});
}
