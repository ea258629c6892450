/* formula.c - elementwise arithmetic over small arrays, given to the runtime's routine (base/formula.h) where the plugin can call it.
 * The compiler makes a loop for each size, 10 to 20 ms each: of the first step of a small model's training an optimizer's list ops
 * were half. Measured with 0.81, a call of 4,096 to 65,536 elements: 4 ms to make it in place of 18, as fast in a row, 4 to 9 us in
 * place of 4 to 29 alone, for it runs in the caller's thread. */
#include <string.h>

#include "base/formula.h"
#include "ir/ir_internal.h"

#define NUMEL_MOST 65536 /* elements of an array: of more the loop's own speed counts */
#define ALONE_LEAST 2049 /* elements of the only array: of fewer a loop is compiled cheaply, and costs less than a call */
#define ITEMS_MOST 512

typedef struct writing {
    tpt_ir_t *ir;
    int64_t *words; /* nitems, then of each: numel, once, nsteps, steps */
    size_t nwords;
    int64_t numel; /* of the item at hand */
    int narrays;
    tpt_val_t arrays[4 * ITEMS_MOST];
    int32_t reader[4 * ITEMS_MOST]; /* the one item that reads it; -1: several do */
    int32_t item;
    tpt_val_t values[TPT_FORMULA_STEPS]; /* that the item's steps so far make */
    tpt_formula_step_t steps[TPT_FORMULA_STEPS];
    bool once[TPT_FORMULA_STEPS];
    int nsteps;
    int nitems;
    int32_t results[ITEMS_MOST], aliases[ITEMS_MOST]; /* of each item: main's result, the array that it takes over */
    tpt_type_t types[ITEMS_MOST];
    tpt_val_t made[ITEMS_MOST];
} writing_t;

static int add_step(writing_t *w, tpt_val_t v, bool once, tpt_formula_op_t op, int64_t a, int64_t b, int64_t c) {
    if (w->nsteps == TPT_FORMULA_STEPS) return -1;
    w->steps[w->nsteps] = (tpt_formula_step_t){op, a, b, c};
    w->values[w->nsteps] = v;
    w->once[w->nsteps] = once;
    return w->nsteps++;
}

static int64_t array_of(writing_t *w, tpt_val_t v) {
    for (int i = 0; i < w->narrays; i++) {
        if (w->arrays[i] != v) continue;
        if (w->reader[i] != w->item) w->reader[i] = -1;
        return i;
    }
    if (w->narrays == (int)(sizeof w->arrays / sizeof *w->arrays)) return -1;
    w->arrays[w->narrays] = v;
    w->reader[w->narrays] = w->item;
    return w->narrays++;
}

static bool is_argument(const writing_t *w, tpt_val_t v) { return w->ir->values[v]->node < 0; }

static int write_value(writing_t *w, tpt_val_t v);

/* One number of a one-dimensional argument. */
static int write_number(writing_t *w, tpt_val_t v, const tpt_node_t *slice) {
    const int64_t array = is_argument(w, slice->in[0]) ? array_of(w, slice->in[0]) : -1;
    return array < 0 || tpt_in_type(w->ir, slice, 0)->rank != 1 ? -1 : add_step(w, v, true, TPT_FORMULA_NUMBER, array, slice->ints[0][0], 0);
}

static int write_const(writing_t *w, tpt_val_t v, const tpt_node_t *node) {
    const tpt_attr_const_t *c = node->attr;
    if (c->n != 1 || c->floats == NULL) return -1;
    return add_step(w, v, true, TPT_FORMULA_CONST, (int64_t)tpt_float_bits(TPT_F32, c->floats[0]), 0, 0);
}

static int write_op(writing_t *w, tpt_val_t v, const tpt_node_t *node, tpt_formula_op_t op, bool swapped) {
    int slots[3] = {0, 0, 0};
    bool once = true;
    for (int i = 0; i < node->nin; i++) {
        slots[i] = write_value(w, node->in[i]);
        if (slots[i] < 0) return -1;
        once = once && w->once[slots[i]];
    }
    return add_step(w, v, once, op, slots[swapped], slots[node->nin > 1 ? !swapped : 1], slots[2]);
}

static int write_unary(writing_t *w, tpt_val_t v, const tpt_node_t *node) {
    switch (node->sub) {
        case TPT_IR_SQRT: return write_op(w, v, node, TPT_FORMULA_SQRT, false);
        case TPT_IR_NEG: return write_op(w, v, node, TPT_FORMULA_NEG, false);
        case TPT_IR_ABS: return write_op(w, v, node, TPT_FORMULA_ABS, false);
        default: return -1;
    }
}

static int write_binary(writing_t *w, tpt_val_t v, const tpt_node_t *node) {
    switch (node->sub) {
        case TPT_IR_ADD: return write_op(w, v, node, TPT_FORMULA_ADD, false);
        case TPT_IR_SUB: return write_op(w, v, node, TPT_FORMULA_SUB, false);
        case TPT_IR_MUL: return write_op(w, v, node, TPT_FORMULA_MUL, false);
        case TPT_IR_DIV: return write_op(w, v, node, TPT_FORMULA_DIV, false);
        case TPT_IR_MAX: return write_op(w, v, node, TPT_FORMULA_MAX, false);
        case TPT_IR_MIN: return write_op(w, v, node, TPT_FORMULA_MIN, false);
        default: return -1;
    }
}

static int write_compare(writing_t *w, tpt_val_t v, const tpt_node_t *node) {
    int slot;
    switch (node->sub) {
        case TPT_IR_LT: return write_op(w, v, node, TPT_FORMULA_LT, false);
        case TPT_IR_LE: return write_op(w, v, node, TPT_FORMULA_LE, false);
        case TPT_IR_GT: return write_op(w, v, node, TPT_FORMULA_LT, true);
        case TPT_IR_GE: return write_op(w, v, node, TPT_FORMULA_LE, true);
        case TPT_IR_EQ: return write_op(w, v, node, TPT_FORMULA_EQ, false);
        case TPT_IR_NE:
            slot = write_op(w, TPT_VAL_NONE, node, TPT_FORMULA_EQ, false);
            return slot < 0 ? -1 : add_step(w, v, w->once[slot], TPT_FORMULA_NOT, slot, 0, 0);
        default: return -1;
    }
}

/* The slot that holds v; -1: this is no formula. Bools are only made by comparisons and read by selections. */
static int write_value(writing_t *w, tpt_val_t v) {
    for (int i = 0; i < w->nsteps; i++)
        if (w->values[i] == v) return i;
    const tpt_type_t *type = tpt_ir_type(w->ir, v);
    const int64_t numel = tpt_type_numel(type);
    if (type->dtype != TPT_F32 && type->dtype != TPT_BOOL) return -1;
    if (is_argument(w, v)) {
        const int64_t array = type->dtype == TPT_F32 && (numel == w->numel || numel == 1) ? array_of(w, v) : -1;
        if (array < 0) return -1;
        return numel == w->numel ? add_step(w, v, false, TPT_FORMULA_LOAD, array, 0, 0) : add_step(w, v, true, TPT_FORMULA_NUMBER, array, 0, 0);
    }
    if (numel != w->numel && numel != 1) return -1;
    const tpt_node_t *node = w->ir->nodes[w->ir->values[v]->node];
    switch (node->kind) {
        case TPT_KIND_CONST: return write_const(w, v, node);
        case TPT_KIND_SLICE: return numel == 1 ? write_number(w, v, node) : -1;
        case TPT_KIND_RESHAPE: return write_value(w, node->in[0]);
        case TPT_KIND_BROADCAST: return tpt_type_numel(tpt_in_type(w->ir, node, 0)) == 1 ? write_value(w, node->in[0]) : -1;
        case TPT_KIND_UNARY: return write_unary(w, v, node);
        case TPT_KIND_BINARY: return write_binary(w, v, node);
        case TPT_KIND_COMPARE: return tpt_in_type(w->ir, node, 0)->dtype == TPT_F32 ? write_compare(w, v, node) : -1;
        case TPT_KIND_SELECT: return write_op(w, v, node, TPT_FORMULA_SELECT, false);
        default: return -1;
    }
}

/* What is equal for all elements goes first. */
static void write_item(writing_t *w) {
    int64_t place[TPT_FORMULA_STEPS], n = 0, once = 0;
    for (int pass = 1; pass >= 0; pass--)
        for (int i = 0; i < w->nsteps; i++)
            if (w->once[i] == (pass == 1)) {
                place[i] = n++;
                once += pass;
            }
    int64_t *head = w->words + w->nwords;
    head[0] = w->numel;
    head[1] = once;
    head[2] = n;
    for (int i = 0; i < w->nsteps; i++) {
        const tpt_formula_step_t s = w->steps[i];
        const bool slots = s.op != TPT_FORMULA_LOAD && s.op != TPT_FORMULA_NUMBER && s.op != TPT_FORMULA_CONST;
        const bool stores = s.op == TPT_FORMULA_STORE;
        int64_t *to = head + 3 + 4 * place[i];
        to[0] = s.op;
        to[1] = slots ? place[s.a] : s.a;
        to[2] = slots && !stores ? place[s.b] : s.b;
        to[3] = slots && !stores ? place[s.c] : s.c;
    }
    w->nwords += 3 + 4 * (size_t)n;
}

/* False: this result is left to the compiler. */
static bool write_result(writing_t *w, int32_t k) {
    const tpt_val_t v = w->ir->blocks[0]->results[k];
    const tpt_type_t *type = tpt_ir_type(w->ir, v);
    const int narrays = w->narrays;
    w->numel = tpt_type_numel(type);
    w->nsteps = 0;
    w->item = w->nitems;
    const int64_t least = w->ir->blocks[0]->nresults == 1 ? ALONE_LEAST : 1;
    if (type->dtype != TPT_F32 || w->numel < least || w->numel > NUMEL_MOST || is_argument(w, v)) return false;
    const int slot = write_value(w, v);
    if (slot >= 0 && add_step(w, TPT_VAL_NONE, false, TPT_FORMULA_STORE, slot, w->nitems, 0) >= 0) return true;
    w->narrays = narrays;
    return false;
}

/* Is it worth a call: one array, or several sizes? */
static bool write_all(writing_t *w) {
    const tpt_block_t *main = w->ir->blocks[0];
    bool several = main->nresults == 1;
    w->nwords = 1;
    for (int32_t k = 0; k < main->nresults && w->nitems < ITEMS_MOST; k++) {
        if (!write_result(w, k)) continue;
        several = several || (w->nitems > 0 && w->numel != w->words[1]);
        write_item(w);
        w->results[w->nitems++] = k;
    }
    w->words[0] = w->nitems;
    return several;
}

static void replace_results(writing_t *w) {
    tpt_ir_t *ir = w->ir;
    tpt_block_t *main = ir->blocks[0];
    for (int k = 0; k < w->nitems; k++) {
        w->types[k] = *tpt_ir_type(ir, main->results[w->results[k]]);
        w->aliases[k] = -1;
        for (int i = 0; i < w->narrays; i++)
            if (main->aliases[ir->values[w->arrays[i]]->index] == w->results[k] && w->reader[i] == k) w->aliases[k] = i;
    }
    const tpt_ir_call_attr_t call = {.target = "tpt_formula", .words = w->words, .nwords = w->nwords, .aliases = w->aliases, .api_version = 4};
    tpt_ir_custom_call(ir, &call, w->narrays, w->arrays, w->nitems, w->types, w->made);
    for (int k = 0; k < w->nitems && !tpt_ir_dead(ir); k++) main->results[w->results[k]] = w->made[k];
}

void tpt_ir_as_formula(tpt_ir_t *ir) {
    const tpt_block_t *main = ir->blocks[0];
    if (tpt_ir_dead(ir) || !ir->has_kernels || main->nresults < 1) return;
    writing_t *w = tpt_arena_alloc(&ir->arena, sizeof *w);
    if (w != NULL) w->words = tpt_arena_alloc(&ir->arena, (1 + (size_t)main->nresults * (3 + 4 * TPT_FORMULA_STEPS)) * sizeof *w->words);
    if (w == NULL || w->words == NULL) return; /* the compiler does it */
    w->ir = ir;
    if (write_all(w)) replace_results(w);
}
