/* graph.c - a program's life: its tables, its sticky error, its arguments and results, and the making of nodes. */
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "ir_internal.h"

static tpt_status_t *block_new(tpt_ir_t *ir, int32_t parent, int32_t *out_block) {
    TPT_TRY(tpt_vec_reserve(&ir->blocks, &ir->blocks_capacity, ir->nblocks + 1, sizeof *ir->blocks, TPT_IR_MAX_VALUES));
    tpt_block_t *block = tpt_arena_alloc(&ir->arena, sizeof *block);
    if (block == NULL) return tpt_status_oom(sizeof *block);
    block->parent = parent;
    block->owner = block->first = block->last = -1;
    block->open = true;
    *out_block = (int32_t)ir->nblocks;
    ir->blocks[ir->nblocks++] = block;
    return NULL;
}

tpt_status_t *tpt_ir_new(tpt_ir_t **out_ir) {
    *out_ir = NULL;
    tpt_ir_t *ir = tpt_calloc(1, sizeof *ir);
    if (ir == NULL) return tpt_status_oom(sizeof *ir);
    tpt_arena_init(&ir->arena, TPT_IR_MAX_BYTES);
    ir->precision = TPT_PRECISION_HIGHEST;
    tpt_status_t *status = block_new(ir, -1, &ir->current);
    if (status != NULL) {
        tpt_ir_free(ir);
        return status;
    }
    *out_ir = ir;
    return NULL;
}

void tpt_ir_free(tpt_ir_t *ir) {
    if (ir == NULL) return;
    for (size_t i = 0; i < ir->nblocks; i++) {
        tpt_free(ir->blocks[i]->args);
        tpt_free(ir->blocks[i]->results);
        tpt_free(ir->blocks[i]->aliases);
    }
    tpt_free(ir->blocks);
    tpt_free(ir->nodes);
    tpt_free(ir->values);
    tpt_arena_free(&ir->arena);
    tpt_status_free(ir->error);
    tpt_free(ir);
}

tpt_arena_t *tpt_ir_arena(tpt_ir_t *ir) { return &ir->arena; }

void tpt_ir_set_precision(tpt_ir_t *ir, tpt_precision_t precision) { ir->precision = precision; }

tpt_precision_t tpt_ir_precision(const tpt_ir_t *ir) { return ir->precision; }
bool tpt_ir_host_code(const tpt_ir_t *ir) { return ir->host_code; }
void tpt_ir_set_host_code(tpt_ir_t *ir, bool host) { ir->host_code = host; }
bool tpt_ir_has_kernels(const tpt_ir_t *ir) { return ir->has_kernels; }
void tpt_ir_set_has_kernels(tpt_ir_t *ir, bool has) { ir->has_kernels = has; }
bool tpt_ir_has_blas(const tpt_ir_t *ir) { return ir->has_blas; }
void tpt_ir_set_has_blas(tpt_ir_t *ir, bool has) { ir->has_blas = has; }
void tpt_ir_set_alone(tpt_ir_t *ir, bool alone) { ir->alone = alone; }
void tpt_ir_set_guarded_minmax(tpt_ir_t *ir, bool guarded) { ir->guarded_minmax = guarded; }

/* ---- the sticky error ----------------------------------------------------------------------------------------------- */

const tpt_status_t *tpt_ir_status(const tpt_ir_t *ir) { return ir->error; }

tpt_val_t tpt_ir_fail(tpt_ir_t *ir, tpt_status_t *status) {
    ir->error = tpt_status_join(ir->error, status);
    return TPT_VAL_NONE;
}

tpt_status_t *tpt_ir_take_status(tpt_ir_t *ir) {
    tpt_status_t *status = ir->error;
    ir->error = NULL;
    return status;
}

tpt_val_t tpt_ir_error(tpt_ir_t *ir, const char *fmt, ...) {
    if (ir->error != NULL) return TPT_VAL_NONE;
    va_list args;
    va_start(args, fmt);
    ir->error = tpt_status_makev(TPT_INTERNAL, fmt, args);
    va_end(args);
    return TPT_VAL_NONE;
}

bool tpt_ir_dead(tpt_ir_t *ir) { return ir->error != NULL; }

bool tpt_ir_in_scope(const tpt_ir_t *ir, int32_t value_block, int32_t user_block) {
    for (int32_t b = user_block; b >= 0; b = ir->blocks[b]->parent) {
        if (b == value_block) return true;
    }
    return false;
}

bool tpt_ir_good(tpt_ir_t *ir, tpt_val_t v) {
    if (ir->error != NULL) return false;
    if (v < 0 || (size_t)v >= ir->nvalues) {
        tpt_ir_error(ir, "an op was given no value as operand");
        return false;
    }
    if (!tpt_ir_in_scope(ir, ir->values[v]->block, ir->current)) {
        tpt_ir_error(ir, "a value of a closed region is used outside of it");
        return false;
    }
    return true;
}

/* ---- looking at values ---------------------------------------------------------------------------------------------- */

const tpt_type_t *tpt_ir_type(const tpt_ir_t *ir, tpt_val_t v) {
    static const tpt_type_t none = {.dtype = TPT_DTYPE_NONE};
    return v < 0 || (size_t)v >= ir->nvalues ? &none : &ir->values[v]->type;
}

tpt_dtype_t tpt_ir_dtype(const tpt_ir_t *ir, tpt_val_t v) { return (tpt_dtype_t)tpt_ir_type(ir, v)->dtype; }

int tpt_ir_rank(const tpt_ir_t *ir, tpt_val_t v) { return tpt_ir_type(ir, v)->rank; }

int64_t tpt_ir_dim(const tpt_ir_t *ir, tpt_val_t v, int d) {
    const tpt_type_t *type = tpt_ir_type(ir, v);
    if (d < 0) d += type->rank;
    /* Out of range only after an error or by a mistake that the next builder call reports; 1 keeps arithmetic harmless. */
    return d >= 0 && d < type->rank ? type->dims[d] : 1;
}

int64_t tpt_ir_numel(const tpt_ir_t *ir, tpt_val_t v) { return tpt_type_numel(tpt_ir_type(ir, v)); }

/* ---- values, arguments, results --------------------------------------------------------------------------------------- */

static tpt_status_t *value_new(tpt_ir_t *ir, const tpt_type_t *type, int32_t node, int32_t block, int32_t index,
                               tpt_val_t *out_value) {
    TPT_TRY(tpt_ir_check_type(type));
    TPT_TRY(tpt_vec_reserve(&ir->values, &ir->values_capacity, ir->nvalues + 1, sizeof *ir->values, TPT_IR_MAX_VALUES));
    tpt_value_t *value = tpt_arena_alloc(&ir->arena, sizeof *value);
    if (value == NULL) return tpt_status_oom(sizeof *value);
    *value = (tpt_value_t){.type = *type, .node = node, .block = block, .index = index};
    *out_value = (tpt_val_t)ir->nvalues;
    ir->values[ir->nvalues++] = value;
    return NULL;
}

static tpt_status_t *arg_new(tpt_ir_t *ir, int32_t b, const tpt_type_t *type, tpt_val_t *out_value) {
    tpt_block_t *block = ir->blocks[b];
    size_t need = (size_t)block->nargs + 1;
    TPT_TRY(tpt_vec_reserve(&block->args, &block->args_capacity, need, sizeof *block->args, TPT_IR_MAX_VALUES));
    if (b == 0) {
        TPT_TRY(tpt_vec_reserve(&block->aliases, &block->aliases_capacity, need, sizeof *block->aliases, TPT_IR_MAX_VALUES));
        block->aliases[block->nargs] = -1;
    }
    TPT_TRY(value_new(ir, type, -1, b, block->nargs, out_value));
    block->args[block->nargs++] = *out_value;
    return NULL;
}

static tpt_status_t *result_new(tpt_block_t *block, tpt_val_t v) {
    size_t need = (size_t)block->nresults + 1;
    TPT_TRY(tpt_vec_reserve(&block->results, &block->results_capacity, need, sizeof *block->results, TPT_IR_MAX_VALUES));
    block->results[block->nresults++] = v;
    return NULL;
}

tpt_val_t tpt_ir_arg(tpt_ir_t *ir, tpt_type_t type) {
    if (ir->error != NULL) return TPT_VAL_NONE;
    tpt_val_t v = TPT_VAL_NONE;
    tpt_status_t *status = arg_new(ir, 0, &type, &v);
    return status != NULL ? tpt_ir_fail(ir, status) : v;
}

void tpt_ir_arg_retype(tpt_ir_t *ir, int arg, tpt_type_t type) {
    if (ir->error != NULL || arg < 0 || arg >= ir->blocks[0]->nargs) return;
    ir->values[ir->blocks[0]->args[arg]]->type = type;
}

void tpt_ir_arg_alias(tpt_ir_t *ir, int arg, int result) {
    if (ir->error != NULL) return;
    if (arg < 0 || arg >= ir->blocks[0]->nargs) {
        tpt_ir_error(ir, "no argument %d to alias", arg);
        return;
    }
    ir->blocks[0]->aliases[arg] = result < 0 ? -1 : result;
}

void tpt_ir_result(tpt_ir_t *ir, tpt_val_t v) {
    if (ir->error == NULL && ir->current != 0) tpt_ir_error(ir, "a result of main was given inside a region");
    if (!tpt_ir_good(ir, v)) return;
    tpt_status_t *status = result_new(ir->blocks[0], v);
    if (status != NULL) tpt_ir_fail(ir, status);
}

int64_t tpt_ir_largest(const tpt_ir_t *ir) {
    int64_t most = 0;
    for (size_t i = 0; i < ir->nvalues; i++) {
        int64_t n = tpt_type_numel(&ir->values[i]->type);
        if (n > most) most = n;
    }
    return most;
}

int tpt_ir_nargs(const tpt_ir_t *ir) { return ir->blocks[0]->nargs; }
int tpt_ir_nresults(const tpt_ir_t *ir) { return ir->blocks[0]->nresults; }

/* ---- regions ---------------------------------------------------------------------------------------------------------- */

void tpt_ir_region_begin(tpt_ir_t *ir) {
    if (ir->error != NULL) return;
    int32_t block = 0;
    tpt_status_t *status = block_new(ir, ir->current, &block);
    if (status != NULL) {
        tpt_ir_fail(ir, status);
        return;
    }
    ir->current = block;
}

tpt_val_t tpt_ir_region_arg(tpt_ir_t *ir, tpt_type_t type) {
    if (ir->error != NULL) return TPT_VAL_NONE;
    if (ir->current == 0) return tpt_ir_error(ir, "a region argument outside of a region");
    tpt_val_t v = TPT_VAL_NONE;
    tpt_status_t *status = arg_new(ir, ir->current, &type, &v);
    return status != NULL ? tpt_ir_fail(ir, status) : v;
}

tpt_region_t tpt_ir_region_end(tpt_ir_t *ir, int n, const tpt_val_t *results) {
    if (ir->error != NULL) return TPT_VAL_NONE;
    if (ir->current == 0) return tpt_ir_error(ir, "the end of a region that was not begun");
    tpt_region_t region = ir->current;
    tpt_block_t *block = ir->blocks[region];
    for (int i = 0; i < n; i++) {
        if (!tpt_ir_good(ir, results[i])) return TPT_VAL_NONE;
        tpt_status_t *status = result_new(block, results[i]);
        if (status != NULL) return tpt_ir_fail(ir, status);
    }
    block->open = false;
    ir->current = block->parent;
    return region;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

static tpt_status_t *take_regions(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_node_t *node, int32_t index) {
    for (int k = 0; k < emit->nregions; k++) {
        tpt_region_t r = emit->regions[k];
        if (r <= 0 || (size_t)r >= ir->nblocks) return TPT_BAD("an op was given no region");
        tpt_block_t *block = ir->blocks[r];
        if (block->open) return TPT_BAD("an op was given a region that is still open");
        if (block->owner >= 0) return TPT_BAD("a region was given to two ops");
        if (block->parent != ir->current) return TPT_BAD("a region was made in another block than its op");
        block->owner = index;
        node->regions[k] = r;
        node->effect |= block->effect;
    }
    node->nregions = emit->nregions;
    return NULL;
}

static tpt_status_t *copy_attributes(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_node_t *node) {
    node->nints = emit->nints;
    for (int k = 0; k < 3; k++) {
        if (emit->ints[k] == NULL) continue;
        size_t bytes = sizeof(int64_t) * (size_t)emit->nints;
        /* One element more, so that an empty list is still a list. */
        int64_t *copy = tpt_arena_alloc(&ir->arena, bytes + sizeof(int64_t));
        if (copy == NULL) return tpt_status_oom(bytes);
        if (bytes > 0) memcpy(copy, emit->ints[k], bytes);
        node->ints[k] = copy;
    }
    if (emit->attr != NULL) {
        node->attr = tpt_arena_copy(&ir->arena, emit->attr, emit->attr_bytes);
        if (node->attr == NULL) return tpt_status_oom(emit->attr_bytes);
    }
    return NULL;
}

static tpt_status_t *node_new(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_node_t **out_node) {
    TPT_TRY(tpt_vec_reserve(&ir->nodes, &ir->nodes_capacity, ir->nnodes + 1, sizeof *ir->nodes, TPT_IR_MAX_VALUES));
    tpt_node_t *node = tpt_arena_alloc(&ir->arena, sizeof *node);
    if (node == NULL) return tpt_status_oom(sizeof *node);
    *node = (tpt_node_t){.kind = (uint8_t)emit->kind,
                         .sub = (uint8_t)emit->sub,
                         .effect = emit->effect,
                         .block = ir->current,
                         .next = -1,
                         .nin = emit->nin,
                         .nout = emit->nout,
                         .num = emit->num};
    if (emit->nin > 0) {
        node->in = tpt_arena_copy(&ir->arena, emit->in, sizeof *emit->in * (size_t)emit->nin);
        if (node->in == NULL) return tpt_status_oom(sizeof *emit->in * (size_t)emit->nin);
    }
    TPT_TRY(copy_attributes(ir, emit, node));
    TPT_TRY(take_regions(ir, emit, node, (int32_t)ir->nnodes));
    *out_node = node;
    return NULL;
}

static void link_node(tpt_ir_t *ir, tpt_node_t *node) {
    int32_t index = (int32_t)ir->nnodes;
    tpt_block_t *block = ir->blocks[node->block];
    ir->nodes[ir->nnodes++] = node;
    if (block->last >= 0) ir->nodes[block->last]->next = index;
    if (block->first < 0) block->first = index;
    block->last = index;
    block->effect |= node->effect;
}

static tpt_status_t *emit_node(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out) {
    tpt_node_t *node = NULL;
    TPT_TRY(node_new(ir, emit, &node));
    tpt_type_t one = {0}, *types = &one;
    if (emit->nout > 1) {
        types = tpt_arena_alloc(&ir->arena, sizeof *types * (size_t)emit->nout);
        if (types == NULL) return tpt_status_oom(sizeof *types * (size_t)emit->nout);
    }
    for (int i = 0; i < emit->nout && emit->want != NULL; i++) types[i] = emit->want[i];
    TPT_TRY(tpt_ir_infer(ir, node, types));
    node->first = (tpt_val_t)ir->nvalues;
    for (int i = 0; i < emit->nout; i++) TPT_TRY(value_new(ir, &types[i], (int32_t)ir->nnodes, ir->current, i, &out[i]));
    link_node(ir, node);
    return NULL;
}

void tpt_ir_emit(tpt_ir_t *ir, const tpt_emit_t *emit, tpt_val_t *out) {
    bool good = ir->error == NULL;
    for (int i = 0; i < emit->nin && good; i++) good = tpt_ir_good(ir, emit->in[i]);
    if (good && (tpt_ir_emit_turned(ir, emit, out) || tpt_ir_emit_padded(ir, emit, out))) return;
    tpt_status_t *status = good ? emit_node(ir, emit, out) : NULL;
    if (status != NULL) tpt_ir_fail(ir, status);
    for (int i = 0; i < emit->nout && ir->error != NULL; i++) out[i] = TPT_VAL_NONE;
}

tpt_val_t tpt_ir_emit1(tpt_ir_t *ir, const tpt_emit_t *emit) {
    tpt_val_t out = TPT_VAL_NONE;
    tpt_ir_emit(ir, emit, &out);
    return out;
}
