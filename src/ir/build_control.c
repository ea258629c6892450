/* build_control.c - sorting, loops, conditions, random bits and the odd ones. */
#include <string.h>

#include "ir_internal.h"

void tpt_ir_sort(tpt_ir_t *ir, int n, const tpt_val_t *xs, int dim, bool stable, tpt_region_t comparator, tpt_val_t *out) {
    if (dim < 0 && n > 0) dim += tpt_ir_rank(ir, xs[0]);
    tpt_ir_emit(ir,
                &(tpt_emit_t){.kind = TPT_KIND_SORT,
                              .nin = n,
                              .in = xs,
                              .nout = n,
                              .num = (int64_t)dim * 2 + stable,
                              .nregions = 1,
                              .regions = {comparator}},
                out);
}

void tpt_ir_while(tpt_ir_t *ir, int n, const tpt_val_t *inits, tpt_region_t cond, tpt_region_t body, tpt_val_t *out) {
    tpt_ir_emit(ir,
                &(tpt_emit_t){.kind = TPT_KIND_WHILE, .nin = n, .in = inits, .nout = n, .nregions = 2, .regions = {cond, body}},
                out);
}

void tpt_ir_if(tpt_ir_t *ir, tpt_val_t pred, tpt_region_t then, tpt_region_t otherwise, int n, tpt_val_t *out) {
    tpt_ir_emit(
        ir, &(tpt_emit_t){.kind = TPT_KIND_IF, .nin = 1, .in = &pred, .nout = n, .nregions = 2, .regions = {then, otherwise}},
        out);
}

void tpt_ir_rng_bits(tpt_ir_t *ir, tpt_val_t state, tpt_type_t type, tpt_val_t *out_state, tpt_val_t *out_bits) {
    tpt_type_t want[2] = {{0}, type};
    tpt_val_t out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_emit(ir, &(tpt_emit_t){.kind = TPT_KIND_RNG, .nin = 1, .in = &state, .nout = 2, .want = want}, out);
    *out_state = out[0];
    *out_bits = out[1];
}

void tpt_ir_barrier(tpt_ir_t *ir, int n, const tpt_val_t *xs, tpt_val_t *out) {
    if (n == 0) return;
    tpt_ir_emit(ir, &(tpt_emit_t){.kind = TPT_KIND_BARRIER, .nin = n, .in = xs, .nout = n}, out);
}

tpt_val_t tpt_ir_set_dimension_size(tpt_ir_t *ir, tpt_val_t x, tpt_val_t size, int dim) {
    tpt_val_t in[2] = {x, size};
    if (dim < 0) dim += tpt_ir_rank(ir, x);
    return tpt_ir_emit1(ir, &(tpt_emit_t){.kind = TPT_KIND_SET_SIZE, .nin = 2, .in = in, .nout = 1, .num = dim});
}

void tpt_ir_custom_call(tpt_ir_t *ir, const tpt_ir_call_attr_t *attr, int n, const tpt_val_t *xs, int nout,
                        const tpt_type_t *types, tpt_val_t *out) {
    for (int i = 0; i < nout; i++) out[i] = TPT_VAL_NONE;
    if (tpt_ir_dead(ir)) return;
    tpt_ir_call_attr_t copy = *attr;
    copy.target = attr->target != NULL ? tpt_arena_text(&ir->arena, attr->target) : NULL;
    copy.backend_config = attr->backend_config != NULL ? tpt_arena_text(&ir->arena, attr->backend_config) : NULL;
    if ((attr->target != NULL && copy.target == NULL) || (attr->backend_config != NULL && copy.backend_config == NULL)) {
        tpt_ir_fail(ir, tpt_status_oom(attr->target != NULL ? strlen(attr->target) : 0));
        return;
    }
    if (attr->words != NULL) copy.words = tpt_arena_copy(&ir->arena, attr->words, attr->nwords * sizeof *attr->words);
    if (attr->aliases != NULL) copy.aliases = tpt_arena_copy(&ir->arena, attr->aliases, (size_t)nout * sizeof *attr->aliases);
    if ((attr->words != NULL && copy.words == NULL) || (attr->aliases != NULL && copy.aliases == NULL)) {
        tpt_ir_fail(ir, tpt_status_oom(attr->nwords * sizeof *attr->words));
        return;
    }
    tpt_ir_emit(ir,
                &(tpt_emit_t){.kind = TPT_KIND_CUSTOM_CALL,
                              .nin = n,
                              .in = xs,
                              .nout = nout,
                              .want = types,
                              .attr = &copy,
                              .attr_bytes = sizeof copy,
                              .effect = attr->has_side_effect},
                out);
}
