/* verify.c - the whole program against its rules, before it is handed to a plugin that would abort the process. */
#include "base/alloc.h"
#include "ir_internal.h"

/* `v` exists, was made before node number `before`, and is visible in `block`. */
static tpt_status_t *check_use(const tpt_ir_t *ir, tpt_val_t v, int32_t before, int32_t block) {
    if (v < 0 || (size_t)v >= ir->nvalues) return TPT_BAD("no value %d", v);
    const tpt_value_t *value = ir->values[v];
    if (value->node >= before) return TPT_BAD("value %d is used before it is made", v);
    if (value->block < 0 || (size_t)value->block >= ir->nblocks || !tpt_ir_in_scope(ir, value->block, block)) {
        return TPT_BAD("value %d leaks from its region", v);
    }
    return NULL;
}

static tpt_status_t *check_types(const tpt_ir_t *ir, const tpt_node_t *node) {
    char a[TPT_TYPE_TEXT], b[TPT_TYPE_TEXT];
    size_t bytes = sizeof(tpt_type_t) * ((size_t)node->nout + 1);
    tpt_type_t *types = tpt_malloc(bytes);
    if (types == NULL) return tpt_status_oom(bytes);
    for (int i = 0; i < node->nout; i++) types[i] = ir->values[node->first + i]->type;
    tpt_status_t *status = tpt_ir_infer(ir, node, types);
    for (int i = 0; i < node->nout && status == NULL; i++) {
        const tpt_type_t *stored = &ir->values[node->first + i]->type;
        if (!tpt_type_equal(&types[i], stored)) {
            status = TPT_BAD("result %d is %s, its rule says %s", i, tpt_type_text(stored, a), tpt_type_text(&types[i], b));
        }
    }
    tpt_free(types);
    return status;
}

static tpt_status_t *check_node(const tpt_ir_t *ir, int32_t index) {
    const tpt_node_t *node = ir->nodes[index];
    if (node->block < 0 || (size_t)node->block >= ir->nblocks) return TPT_BAD("no block %d", node->block);
    for (int i = 0; i < node->nin; i++) TPT_TRY(check_use(ir, node->in[i], index, node->block));
    for (int k = 0; k < node->nregions; k++) {
        tpt_region_t r = node->regions[k];
        if (r <= 0 || (size_t)r >= ir->nblocks) return TPT_BAD("no region %d", r);
        const tpt_block_t *block = ir->blocks[r];
        if (block->open || block->owner != index || block->parent != node->block) return TPT_BAD("region %d is not its own", r);
        for (int i = 0; i < block->nresults; i++) TPT_TRY(check_use(ir, block->results[i], index, r));
    }
    if (node->first < 0 || (size_t)node->first + (size_t)node->nout > ir->nvalues) return TPT_BAD("results out of the table");
    for (int i = 0; i < node->nout; i++) {
        if (ir->values[node->first + i]->node != index) return TPT_BAD("result %d belongs to another op", i);
    }
    return check_types(ir, node);
}

static tpt_status_t *check_aliases(const tpt_ir_t *ir) {
    const tpt_block_t *main = ir->blocks[0];
    for (int i = 0; i < main->nargs; i++) {
        int32_t r = main->aliases[i];
        if (r < 0) continue;
        if (r >= main->nresults) return TPT_BAD("argument %d may become result %d, which there is not", i, r);
        if (!tpt_type_equal(&ir->values[main->args[i]]->type, &ir->values[main->results[r]]->type)) {
            return TPT_BAD("argument %d may become result %d, but their types differ", i, r);
        }
        for (int k = 0; k < i; k++) {
            if (main->aliases[k] == r) return TPT_BAD("arguments %d and %d may both become result %d", k, i, r);
        }
    }
    return NULL;
}

tpt_status_t *tpt_ir_verify(const tpt_ir_t *ir) {
    if (ir->error != NULL) return tpt_status_annotate(tpt_status_copy(ir->error), "verifying a program that was not built");
    if (ir->current != 0) return TPT_BAD("a region was not closed");
    const tpt_block_t *main = ir->blocks[0];
    if (main->nresults < 1) return TPT_BAD("a program without results");
    for (size_t i = 0; i < ir->nvalues; i++) TPT_TRY(tpt_ir_check_type(&ir->values[i]->type));
    for (size_t i = 0; i < ir->nnodes; i++) {
        TPT_TRY_MSG(check_node(ir, (int32_t)i), "verifying op %zu (%s)", i, tpt_ir_kind_name(ir->nodes[i]));
    }
    for (int i = 0; i < main->nresults; i++) {
        TPT_TRY_MSG(check_use(ir, main->results[i], (int32_t)ir->nnodes, 0), "verifying result %d", i);
    }
    return check_aliases(ir);
}
