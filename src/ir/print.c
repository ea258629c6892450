/* print.c - a program as StableHLO text. Ops are written in MLIR's generic form, which does not change between versions. */
#include <string.h>

#include "base/alloc.h"
#include "ir_internal.h"

typedef struct tpt_printer {
    const tpt_ir_t *ir;
    tpt_str_t *out;
    bool *live;      /* per node: it is printed */
    int32_t *number; /* per value: its number in the text, for values of regions and nodes */
    int32_t next;
} tpt_printer_t;

/* ---- liveness --------------------------------------------------------------------------------------------------------- */

static void mark(const tpt_ir_t *ir, bool *live, int n, const tpt_val_t *values) {
    for (int i = 0; i < n; i++) {
        int32_t node = ir->values[values[i]]->node;
        if (node >= 0) live[node] = true;
    }
}

/* Operands and regions of a node come before it, so one walk from the end reaches everything. */
static void spread(const tpt_ir_t *ir, bool *live) {
    for (size_t i = ir->nnodes; i-- > 0;) {
        const tpt_node_t *node = ir->nodes[i];
        int32_t owner = ir->blocks[node->block]->owner;
        if (node->effect && (node->block == 0 || (owner >= 0 && live[owner]))) live[i] = true;
        if (!live[i]) continue;
        mark(ir, live, node->nin, node->in);
        for (int k = 0; k < node->nregions; k++) {
            const tpt_block_t *block = ir->blocks[node->regions[k]];
            mark(ir, live, block->nresults, block->results);
        }
    }
}

bool tpt_ir_reaches(const tpt_ir_t *ir, int nroots, const tpt_val_t *roots, tpt_val_t arg) {
    for (int i = 0; i < nroots; i++)
        if (roots[i] == TPT_VAL_NONE) return true; /* of a lowering that has failed */
    bool *live = tpt_calloc(ir->nnodes + 1, sizeof *live), found = live == NULL;
    if (live != NULL) {
        mark(ir, live, nroots, roots);
        spread(ir, live);
    }
    for (int i = 0; !found && i < nroots; i++) found = roots[i] == arg;
    for (size_t i = 0; live != NULL && !found && i < ir->nnodes; i++)
        for (int k = 0; live[i] && !found && k < ir->nodes[i]->nin; k++) found = ir->nodes[i]->in[k] == arg;
    tpt_free(live);
    return found;
}

/* ---- text ------------------------------------------------------------------------------------------------------------- */

void tpt_print_type(tpt_str_t *out, const tpt_type_t *type) {
    tpt_str_add(out, "tensor<");
    for (int i = 0; i < type->rank; i++) {
        tpt_str_int(out, type->dims[i]);
        tpt_str_add(out, "x");
    }
    tpt_str_add(out, tpt_dtype_mlir((tpt_dtype_t)type->dtype));
    tpt_str_add(out, ">");
}

static void print_value(tpt_printer_t *p, tpt_val_t v) {
    const tpt_value_t *value = p->ir->values[v];
    if (value->node < 0 && value->block == 0) {
        tpt_str_addf(p->out, "%%arg%d", value->index);
    } else if (value->node >= 0 && p->ir->nodes[value->node]->nout > 1) {
        tpt_str_addf(p->out, "%%%d#%d", p->number[v], value->index);
    } else {
        tpt_str_addf(p->out, "%%%d", p->number[v]);
    }
}

static void print_values(tpt_printer_t *p, int n, const tpt_val_t *values) {
    for (int i = 0; i < n; i++) {
        if (i > 0) tpt_str_add(p->out, ", ");
        print_value(p, values[i]);
    }
}

static void print_types(tpt_printer_t *p, int n, const tpt_val_t *values) {
    tpt_str_add(p->out, "(");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpt_str_add(p->out, ", ");
        tpt_print_type(p->out, &p->ir->values[values[i]]->type);
    }
    tpt_str_add(p->out, ")");
}

static void indent(tpt_printer_t *p, int depth) {
    for (int i = 0; i < depth; i++) tpt_str_add(p->out, "  ");
}

static void print_block(tpt_printer_t *p, const tpt_block_t *block, int depth);

static void print_region(tpt_printer_t *p, const tpt_block_t *block, int depth) {
    tpt_str_add(p->out, "{\n");
    if (block->nargs > 0) {
        indent(p, depth);
        tpt_str_add(p->out, "^bb0(");
        for (int i = 0; i < block->nargs; i++) {
            p->number[block->args[i]] = p->next++;
            if (i > 0) tpt_str_add(p->out, ", ");
            print_value(p, block->args[i]);
            tpt_str_add(p->out, ": ");
            tpt_print_type(p->out, &p->ir->values[block->args[i]]->type);
        }
        tpt_str_add(p->out, "):\n");
    }
    print_block(p, block, depth + 1);
    indent(p, depth + 1);
    tpt_str_add(p->out, "\"stablehlo.return\"(");
    print_values(p, block->nresults, block->results);
    tpt_str_add(p->out, ") : ");
    print_types(p, block->nresults, block->results);
    tpt_str_add(p->out, " -> ()\n");
    indent(p, depth);
    tpt_str_add(p->out, "}");
}

static void print_const_node(tpt_printer_t *p, const tpt_node_t *node) {
    const tpt_type_t *type = &p->ir->values[node->first]->type;
    tpt_str_add(p->out, "stablehlo.constant dense");
    tpt_print_const(p->out, type, node->attr);
    tpt_str_add(p->out, " : ");
    tpt_print_type(p->out, type);
}

static void print_node(tpt_printer_t *p, const tpt_node_t *node, int depth) {
    indent(p, depth);
    for (int i = 0; i < node->nout; i++) p->number[node->first + i] = p->next;
    if (node->nout > 0) tpt_str_addf(p->out, "%%%d", p->next++);
    if (node->nout > 1) tpt_str_addf(p->out, ":%d", node->nout);
    if (node->nout > 0) tpt_str_add(p->out, " = ");
    if (node->kind == TPT_KIND_CONST) {
        print_const_node(p, node);
        tpt_str_add(p->out, "\n");
        return;
    }
    tpt_str_addf(p->out, "\"stablehlo.%s\"(", tpt_ir_kind_name(node));
    print_values(p, node->nin, node->in);
    tpt_str_add(p->out, ")");
    tpt_print_attrs(p->out, p->ir, node);
    for (int k = 0; k < node->nregions; k++) {
        tpt_str_add(p->out, k == 0 ? " (" : ", ");
        print_region(p, p->ir->blocks[node->regions[k]], depth);
    }
    if (node->nregions > 0) tpt_str_add(p->out, ")");
    tpt_str_add(p->out, " : ");
    print_types(p, node->nin, node->in);
    tpt_str_add(p->out, " -> (");
    for (int i = 0; i < node->nout; i++) {
        if (i > 0) tpt_str_add(p->out, ", ");
        tpt_print_type(p->out, &p->ir->values[node->first + i]->type);
    }
    tpt_str_add(p->out, ")\n");
}

static void print_block(tpt_printer_t *p, const tpt_block_t *block, int depth) {
    for (int32_t n = block->first; n >= 0; n = p->ir->nodes[n]->next) {
        if (p->live[n]) print_node(p, p->ir->nodes[n], depth);
    }
}

/* A bare MLIR identifier. */
static void print_name(tpt_str_t *out, const char *name) {
    if (name == NULL || name[0] == '\0') name = "main";
    if (name[0] >= '0' && name[0] <= '9') tpt_str_add(out, "_");
    for (const char *c = name; *c != '\0'; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' || *c == '.';
        tpt_str_addn(out, plain ? c : "_", 1);
    }
}

static void print_module(tpt_printer_t *p, const char *name) {
    const tpt_block_t *main = p->ir->blocks[0];
    tpt_str_add(p->out, "module @");
    print_name(p->out, name);
    tpt_str_add(p->out, " {\n  func.func public @main(");
    for (int i = 0; i < main->nargs; i++) {
        if (i > 0) tpt_str_add(p->out, ", ");
        tpt_str_addf(p->out, "%%arg%d: ", i);
        tpt_print_type(p->out, &p->ir->values[main->args[i]]->type);
        if (main->aliases[i] >= 0) tpt_str_addf(p->out, " {tf.aliasing_output = %d : i32}", main->aliases[i]);
    }
    tpt_str_add(p->out, ") -> ");
    print_types(p, main->nresults, main->results);
    tpt_str_add(p->out, " {\n");
    print_block(p, main, 2);
    tpt_str_add(p->out, "    func.return ");
    print_values(p, main->nresults, main->results);
    tpt_str_add(p->out, " : ");
    for (int i = 0; i < main->nresults; i++) {
        if (i > 0) tpt_str_add(p->out, ", ");
        tpt_print_type(p->out, &p->ir->values[main->results[i]]->type);
    }
    tpt_str_add(p->out, "\n  }\n}\n");
}

tpt_status_t *tpt_ir_print(const tpt_ir_t *ir, const char *name, tpt_str_t *out) {
    if (ir->error != NULL) return tpt_status_annotate(tpt_status_copy(ir->error), "printing a program that was not built");
    if (ir->current != 0) return TPT_BAD("a region was not closed");
    tpt_printer_t p = {.ir = ir, .out = out};
    p.live = tpt_calloc(ir->nnodes + 1, sizeof *p.live);
    p.number = tpt_calloc(ir->nvalues + 1, sizeof *p.number);
    tpt_status_t *status = p.live == NULL || p.number == NULL ? tpt_status_oom((ir->nvalues + 1) * sizeof *p.number) : NULL;
    if (status == NULL) {
        mark(ir, p.live, ir->blocks[0]->nresults, ir->blocks[0]->results);
        spread(ir, p.live);
        print_module(&p, name);
        if (!tpt_str_ok(out)) status = tpt_status_make(TPT_RESOURCE_EXHAUSTED, "the text of a program does not fit");
    }
    tpt_free(p.live);
    tpt_free(p.number);
    return status;
}
