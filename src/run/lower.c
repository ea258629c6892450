/* lower.c - from a recorded graph to one StableHLO program: windows are decoded where they are used, rows lower themselves,
 * results go back into their storages' values, and run-time numbers become places in packs. */
#include <string.h>

#include "base/gemm.h"
#include "ops/refuse.h"
#include "run_internal.h"

#define TINY 2048    /* elements: below it a cheap compile beats a fast program */
#define SHORT 131072 /* elements: below it loops on one core beat loops on several, measured on two (in-place add: 17 and 29 us) */
#define PACK_BOUND (1 << 20) /* length of a pack while lowering; the true one is set at the end */

typedef struct lowering {
    tpt_ir_t *ir;
    const tpt_graph_t *graph;
    tpt_prog_t *prog;
    tpt_val_t *values; /* per graph value */
    tpt_val_t bad;     /* the program's out-of-range word so far */
    const char *bad_text; /* what the last node that can be refused says */
    int pack_arg[TPT_PACK_COUNT];
    uint32_t node; /* being lowered */
    uint32_t streams; /* random states that the node has asked for */
    tpt_arena_t scratch;
} lowering_t;

/* ---- run-time numbers ---------------------------------------------------------------------------------------------- */

static tpt_val_t pack_place(lowering_t *w, int kind, uint32_t slot, int fn, tpt_dtype_t source, uint32_t width) {
    tpt_pack_t *pack = &w->prog->packs[kind];
    int64_t bound = PACK_BOUND;
    if (pack->length == 0) {
        w->pack_arg[kind] = tpt_ir_nargs(w->ir);
        w->prog->pack_order[w->prog->npacks++] = (uint8_t)kind;
        pack->arg = tpt_ir_arg(w->ir, tpt_type_make(tpt_pack_dtype(kind), 1, &bound));
    }
    uint32_t place = pack->length;
    for (size_t i = pack->nentries, seen = 0; i > 0 && seen < 16; i--, seen++) { /* the same number is often asked for again */
        const tpt_pack_entry_t *e = &pack->entries[i - 1];
        if (e->node == w->node && e->slot == slot && e->fn == fn) return tpt_ir_slice_dim(w->ir, pack->arg, 0, e->place, e->place + width);
    }
    tpt_status_t *status = tpt_vec_reserve(&pack->entries, &pack->capacity, pack->nentries + 1, sizeof *pack->entries, PACK_BOUND / 2);
    if (status) return tpt_ir_fail(w->ir, status);
    pack->entries[pack->nentries++] =
        (tpt_pack_entry_t){.node = w->node, .slot = slot, .fn = (uint8_t)fn, .source = (uint8_t)source, .place = place};
    pack->length += width;
    return tpt_ir_slice_dim(w->ir, pack->arg, 0, place, place + width);
}

static tpt_val_t scalar(lowering_t *w, int kind, uint32_t slot, int fn, tpt_dtype_t source) {
    int64_t none[1] = {0};
    return tpt_ir_reshape(w->ir, pack_place(w, kind, slot, fn, source, 1), 0, none);
}

static int pack_of(tpt_dtype_t dtype) {
    switch (dtype) {
        case TPT_F64: return TPT_PACK_F64;
        case TPT_I64:
        case TPT_U64:
        case TPT_U32: return TPT_PACK_I64;
        case TPT_BOOL:
        case TPT_U8:
        case TPT_I8:
        case TPT_I16:
        case TPT_U16:
        case TPT_I32: return TPT_PACK_I32;
        default: return TPT_PACK_F32;
    }
}

/* A number with an imaginary part where a real dtype is wanted: true as a bool, else refused. */
static tpt_val_t real_of_twisted(tpt_lower_t *L, tpt_dtype_t dtype) {
    if (dtype == TPT_BOOL) return tpt_ir_const_i(L->ir, TPT_BOOL, 1);
    return tpt_ir_fail(L->ir, tpt_refuse_overflow(dtype));
}

static tpt_val_t fixed_number(lowering_t *w, const tpt_number_t *n, tpt_number_fn_t fn, tpt_dtype_t dtype) {
    if (fn != TPT_NUM_ID)
        return tpt_ir_fail(w->ir, tpt_status_make(TPT_INTERNAL, "a static number cannot be changed on its way"));
    if (tpt_dtype_is_complex((tpt_dtype_t)n->dtype)) {
        if (!tpt_dtype_is_complex(dtype)) return tpt_ir_const_f(w->ir, dtype, n->v.f[0]);
        tpt_dtype_t real = tpt_dtype_real(dtype);
        return tpt_ir_binary(w->ir, TPT_IR_COMPLEX, tpt_ir_const_f(w->ir, real, n->v.f[0]), tpt_ir_const_f(w->ir, real, n->v.f[1]));
    }
    const bool inexact = tpt_dtype_is_float(dtype) || tpt_dtype_is_complex(dtype);
    if (tpt_dtype_is_float((tpt_dtype_t)n->dtype) || (n->dtype == TPT_U64 && inexact))
        return tpt_ir_const_f(w->ir, dtype, tpt_number_value(n));
    return tpt_ir_const_i(w->ir, dtype, n->v.i);
}

static tpt_val_t lower_number(tpt_lower_t *L, int arg, int item, int fn, tpt_dtype_t dtype) {
    lowering_t *w = L->run;
    const tpt_plan_t *plan = w->graph->nodes[w->node].plan;
    const tpt_arg_t *a = &plan->args[arg];
    const tpt_number_t *n = a->kind == TPT_ARG_NUMBERS ? &a->u.numbers[item] : &a->u.number;
    if ((a->kind != TPT_ARG_NUMBER && a->kind != TPT_ARG_NUMBERS) || (a->kind == TPT_ARG_NUMBERS && item >= a->count))
        return tpt_lower_fail(L, TPT_INTERNAL, "%s: argument '%s' is not a number", L->schema_name, L->names[arg]);
    if (tpt_number_is_twisted(n) && !tpt_dtype_is_complex(dtype)) return real_of_twisted(L, dtype);
    if (tpt_op_number_is_static(plan->op, arg, n)) return fixed_number(w, n, (tpt_number_fn_t)fn, dtype);
    bool shared = arg < 64 && (plan->equal_numbers >> arg & 1);
    uint32_t slot = plan->arg_slot[arg] + (shared ? 0 : (uint32_t)item);
    tpt_dtype_t source = (tpt_dtype_t)n->dtype;
    if (tpt_dtype_is_complex(dtype)) {
        if (fn != TPT_NUM_ID && tpt_dtype_is_complex(source))
            return tpt_lower_fail(L, TPT_INTERNAL, "%s: complex number '%s' cannot be changed on its way", L->schema_name, L->names[arg]);
        int kind = dtype == TPT_C128 ? TPT_PACK_F64 : TPT_PACK_F32;
        tpt_val_t re = scalar(w, kind, slot, fn, source);
        tpt_val_t im = tpt_dtype_is_complex(source) ? scalar(w, kind, slot, TPT_NUM_IMAG, source)
                                                    : tpt_ir_const_f(w->ir, tpt_dtype_real(dtype), 0);
        return tpt_ir_binary(w->ir, TPT_IR_COMPLEX, re, im);
    }
    int kind = pack_of(dtype);
    if (dtype == TPT_BOOL && tpt_dtype_is_float(source)) kind = TPT_PACK_F64; /* 0.5 is true */
    return tpt_ir_convert(w->ir, scalar(w, kind, slot, fn, source), dtype);
}

static tpt_val_t lower_rng(tpt_lower_t *L, int arg) {
    lowering_t *w = L->run;
    const tpt_plan_t *plan = w->graph->nodes[w->node].plan;
    if (plan->args[arg].kind != TPT_ARG_RNG) return tpt_lower_fail(L, TPT_INTERNAL, "%s: no random state given", L->schema_name);
    tpt_val_t state = pack_place(w, TPT_PACK_U64, plan->arg_slot[arg], TPT_NUM_ID, TPT_U64, 2);
    if (w->streams++ == 0) return state;
    /* A further draw of the same call starts far away in the generator's counter. */
    tpt_val_t step = tpt_ir_const_ints(w->ir, TPT_U64, 2, (const int64_t[]){0, (int64_t)(w->streams - 1) << 56});
    return tpt_ir_add(w->ir, state, step);
}

/* ---- one node ------------------------------------------------------------------------------------------------------ */

static tpt_status_t *no_room(void) { return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "out of host memory while lowering"); }

static void starts_of(lowering_t *w, const tpt_plan_tensor_t *pt, tpt_val_t *out_starts) {
    int kind = tpt_type_numel(&pt->base) * 16 > INT32_MAX ? TPT_PACK_I64 : TPT_PACK_I32;
    for (int i = 0; i < pt->view.nstarts; i++) out_starts[i] = scalar(w, kind, pt->first_slot + (uint32_t)i, TPT_NUM_ID, TPT_I64);
}

/* Alone in a program, these would read a window in strides; the others turn their operands as they see fit. */
static bool reads_once(const tpt_row_t *row) { return row->expr != NULL || (row->flags & TPT_ROW_COPIES) != 0; }

static tpt_status_t *decode_args(lowering_t *w, const tpt_node_t *node, const tpt_val_t *const **out_values) {
    const tpt_plan_t *p = node->plan;
    const tpt_val_t **lists = tpt_arena_alloc(&w->scratch, ((size_t)p->nargs + 1) * sizeof *lists);
    const bool turned = w->graph->nnodes == 1 && reads_once(p->op->row);
    if (!lists) return no_room();
    for (int i = 0, t = 0; i < p->nargs; i++) {
        const tpt_arg_t *a = &p->args[i];
        int n = a->kind == TPT_ARG_TENSOR ? 1 : a->kind == TPT_ARG_TENSORS ? a->count : 0;
        tpt_val_t *list = tpt_arena_alloc(&w->scratch, ((size_t)n + 1) * sizeof *list);
        if (!list) return no_room();
        for (int k = 0; k < n; k++) list[k] = TPT_VAL_NONE;
        for (; t < p->ntensors && p->tensors[t].arg == i; t++) {
            tpt_val_t starts[TPT_MAX_RANK];
            starts_of(w, &p->tensors[t], starts);
            list[p->tensors[t].item] = tpt_view_read(w->ir, &p->tensors[t].view, w->values[w->graph->inputs[node->first_input + (uint32_t)t]], starts, turned);
        }
        lists[i] = list;
    }
    *out_values = lists;
    return NULL;
}

static tpt_status_t *check_shape(const tpt_lower_t *L, int k, tpt_val_t v, int rank, const int64_t *sizes) {
    const tpt_type_t *t = tpt_ir_type(L->ir, v);
    if (v != TPT_VAL_NONE && t->rank == rank && memcmp(t->dims, sizes, (size_t)rank * sizeof *sizes) == 0) return NULL;
    tpt_str_t text;
    tpt_str_init(&text, 4096);
    for (int i = 0; i < rank; i++) tpt_str_addf(&text, "%s%lld", i ? ", " : "", (long long)sizes[i]);
    tpt_str_add(&text, L->written ? "] doesn't match the broadcast shape [" : "], but was lowered with shape [");
    for (int i = 0; i < t->rank; i++) tpt_str_addf(&text, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    tpt_status_t *status = L->written ? tpt_status_make(TPT_INVALID_ARGUMENT, "output with shape [%s]", tpt_str_text(&text))
                                      : tpt_status_make(TPT_INTERNAL, "%s: result %d has shape [%s]", L->schema_name, k, tpt_str_text(&text));
    tpt_str_free(&text);
    return status;
}

static tpt_status_t *fresh_results(lowering_t *w, const tpt_node_t *node, const tpt_lower_t *L) {
    const tpt_plan_t *p = node->plan;
    for (int k = 0; k < p->nouts; k++) {
        const tpt_spec_t *spec = &p->outs[k];
        TPT_TRY(check_shape(L, k, L->results[k], spec->rank, spec->sizes));
        tpt_val_t v = tpt_ir_convert(w->ir, L->results[k], (tpt_dtype_t)spec->dtype);
        /* Into memory order: the storage's dims are a permutation of the tensor's. */
        tpt_tensor_t whole = {.sizes = spec->sizes, .strides = spec->strides, .rank = spec->rank, .dtype = spec->dtype};
        tpt_view_t view;
        int64_t starts[TPT_MAX_RANK];
        TPT_TRY(tpt_view_classify(&p->out_types[k], &whole, &view, starts));
        if (view.code == TPT_VIEW_GENERAL) {
            tpt_val_t zeros[TPT_MAX_RANK], base = tpt_ir_full_i(w->ir, p->out_types[k], 0);
            for (int i = 0; i < view.nstarts; i++) zeros[i] = tpt_ir_const_i(w->ir, TPT_I32, 0);
            v = tpt_view_write(w->ir, &view, base, v, zeros, w->graph->nnodes == 1);
        } else {
            v = tpt_ir_reshape(w->ir, v, p->out_types[k].rank, p->out_types[k].dims);
        }
        w->values[node->first_output + (uint32_t)k] = v;
    }
    return NULL;
}

/* cpu's words where integers would be given the fractions that an op computes of them. */
static tpt_status_t *check_cast(const tpt_lower_t *L, tpt_dtype_t result, tpt_dtype_t target) {
    bool whole = tpt_dtype_is_int(target) || target == TPT_BOOL;
    if (L->row->promote != TPT_PROMOTE_FLOAT || !whole || tpt_dtype_is_int(result) || result == TPT_BOOL) return NULL;
    static const char *const names[TPT_DTYPE_COUNT] = {
        [TPT_BOOL] = "Bool", [TPT_U8] = "Byte", [TPT_I8] = "Char", [TPT_I16] = "Short", [TPT_I32] = "Int", [TPT_I64] = "Long",
        [TPT_U16] = "UInt16", [TPT_U32] = "UInt32", [TPT_U64] = "UInt64", [TPT_F32] = "Float", [TPT_F64] = "Double",
        [TPT_C64] = "ComplexFloat", [TPT_C128] = "ComplexDouble"};
    return tpt_status_make(TPT_INVALID_ARGUMENT, "result type %s can't be cast to the desired output type %s",
                           names[result] ? names[result] : tpt_dtype_name(result), names[target]);
}

/* XLA updates a window of a buffer in the loop that computes the new elements. Where that loop also reads other places of the buffer
 * XLA does not always notice, and reads what it has just written (both CPU plugins: a diagonal less one of its own elements).
 * Elementwise ops read what they write, and no more. */
static bool reads_elsewhere(const lowering_t *w, const tpt_lower_t *L, const tpt_plan_t *p, int k, tpt_val_t before, tpt_val_t base) {
    if (p->tensors[p->writes[k]].view.code != TPT_VIEW_GENERAL) return false;
    if (!L->row->expr) return true;
    for (int t = 0; t < p->ntensors; t++) {
        const tpt_val_t v = L->values[p->tensors[t].arg][p->tensors[t].item];
        if (t == p->writes[k] || v == TPT_VAL_NONE) continue;
        if (tpt_ir_reaches(w->ir, 1, &v, before) || (base != before && tpt_ir_reaches(w->ir, 1, &v, base))) return true;
    }
    return false;
}

/* Such a window is no update: every element of the new buffer is chosen, from the old one or from the new elements spread out. A
 * barrier before the update would do too, but 0.81 takes barriers away before it fuses. */
static tpt_val_t write_apart(lowering_t *w, const tpt_view_t *view, tpt_val_t base, tpt_val_t v, const tpt_val_t *starts) {
    if (view->bitcast || !tpt_ir_host_code(w->ir)) {
        tpt_ir_barrier(w->ir, 1, &v, &v);
        return tpt_view_write(w->ir, view, base, v, starts, false);
    }
    const tpt_type_t type = *tpt_ir_type(w->ir, base), part = *tpt_ir_type(w->ir, v);
    tpt_val_t nothing = tpt_ir_full_i(w->ir, type, 0);
    tpt_val_t spread = tpt_view_write(w->ir, view, nothing, v, starts, false);
    tpt_val_t marks = tpt_view_write(w->ir, view, nothing, tpt_ir_full_i(w->ir, part, 1), starts, false);
    return tpt_ir_select(w->ir, tpt_ir_compare(w->ir, TPT_IR_NE, marks, nothing), spread, base);
}

static tpt_status_t *written_results(lowering_t *w, const tpt_node_t *node, const tpt_lower_t *L) {
    const tpt_plan_t *p = node->plan;
    for (int k = 0; k < p->nwrites; k++) {
        const tpt_plan_tensor_t *pt = &p->tensors[p->writes[k]];
        int32_t input = w->graph->inputs[node->first_input + (uint32_t)p->writes[k]];
        tpt_val_t base = w->values[input], starts[TPT_MAX_RANK], v = L->results[p->nouts + k];
        for (int j = 0; j < k; j++) /* two windows of one storage */
            if (w->graph->inputs[node->first_input + (uint32_t)p->writes[j]] == input)
                base = w->values[node->first_output + (uint32_t)(p->nouts + j)];
        TPT_TRY(check_shape(L, p->nouts + k, v, pt->view.rank, pt->view.sizes));
        starts_of(w, pt, starts);
        TPT_TRY(check_cast(L, tpt_ir_dtype(w->ir, v), (tpt_dtype_t)pt->view.dtype));
        v = tpt_ir_convert(w->ir, v, (tpt_dtype_t)pt->view.dtype);
        const bool apart = reads_elsewhere(w, L, p, k, w->values[input], base);
        w->values[node->first_output + (uint32_t)(p->nouts + k)] =
            apart ? write_apart(w, &pt->view, base, v, starts) : tpt_view_write(w->ir, &pt->view, base, v, starts, w->graph->nnodes == 1);
    }
    if (p->dynamic) w->values[node->first_output + (uint32_t)(p->nouts + p->nwrites)] = tpt_ir_convert(w->ir, L->count, TPT_I64);
    return NULL;
}

/* The word names the first node with a bad index; nodes are lowered in order, so an earlier one keeps its place. */
static void join_flag(lowering_t *w, const tpt_lower_t *L) {
    w->prog->bad_sizes[w->node] = L->bad_size;
    if (L->bad == TPT_VAL_NONE) return;
    w->prog->flagged = true;
    w->bad_text = L->bad_text;
    tpt_val_t mine = tpt_ir_select(w->ir, L->bad, tpt_ir_const_i(w->ir, TPT_I32, (int64_t)w->node + 1), tpt_ir_const_i(w->ir, TPT_I32, 0));
    if (w->bad == TPT_VAL_NONE) {
        w->bad = mine;
        return;
    }
    tpt_val_t clean = tpt_ir_compare(w->ir, TPT_IR_EQ, w->bad, tpt_ir_const_i(w->ir, TPT_I32, 0));
    w->bad = tpt_ir_select(w->ir, clean, mine, w->bad);
}

static tpt_status_t *run_row(lowering_t *w, const tpt_node_t *node, tpt_lower_t *L) {
    const tpt_plan_t *p = node->plan;
    *L = (tpt_lower_t){.ir = w->ir, .row = p->op->row, .schema_name = p->op->schema_name, .nargs = p->nargs, .names = p->op->names,
                       .args = p->args, .nouts = p->nouts, .outs = p->outs, .count = TPT_VAL_NONE, .bad = TPT_VAL_NONE,
                       .bad_size = -1, .run = w, .number = lower_number, .rng = lower_rng};
    tpt_spec_t *targets = NULL; /* in-place and out= calls: what the written tensors are */
    if (p->nouts == 0 && p->nwrites > 0) {
        targets = tpt_arena_alloc(&w->scratch, (size_t)p->nwrites * sizeof *targets);
        if (!targets) return no_room();
        for (int k = 0; k < p->nwrites; k++) {
            const tpt_view_t *v = &p->tensors[p->writes[k]].view;
            targets[k].dtype = v->dtype;
            targets[k].rank = v->rank;
            memcpy(targets[k].sizes, v->sizes, sizeof v->sizes);
            memcpy(targets[k].strides, v->strides, sizeof v->strides);
        }
        L->outs = targets;
        L->nouts = p->nwrites;
        L->written = true;
    }
    w->streams = 0;
    TPT_TRY(decode_args(w, node, &L->values));
    tpt_ir_set_precision(w->ir, p->precision);
    tpt_row_lower(L);
    return tpt_ir_take_status(w->ir);
}

static tpt_status_t *lower_node(lowering_t *w, uint32_t index) {
    const tpt_node_t *node = &w->graph->nodes[index];
    const tpt_plan_t *p = node->plan;
    tpt_lower_t L;
    w->node = index;
    tpt_status_t *status = run_row(w, node, &L);
    if (!status && L.nresults < p->nouts + p->nwrites)
        status = tpt_status_make(TPT_INTERNAL, "%s: lowered to %d results, expected %d", L.schema_name, L.nresults, p->nouts + p->nwrites);
    if (!status && p->dynamic && L.count == TPT_VAL_NONE) status = tpt_status_make(TPT_INTERNAL, "%s: lowered without a count", L.schema_name);
    if (!status) status = fresh_results(w, node, &L);
    if (!status) status = written_results(w, node, &L);
    if (!status) join_flag(w, &L);
    if (!status) status = tpt_ir_take_status(w->ir);
    tpt_free(L.results);
    /* Refusals are worded for the user, as PyTorch words them. */
    tpt_code_t code = tpt_status_code(status);
    bool refusal = code == TPT_OUT_OF_RANGE || code == TPT_INVALID_ARGUMENT;
    return refusal ? status : tpt_status_annotate(status, "lowering %s", p->op->schema_name);
}

/* ---- whole programs ------------------------------------------------------------------------------------------------ */

static tpt_status_t *start(lowering_t *w, const tpt_graph_t *graph) {
    *w = (lowering_t){.graph = graph, .bad = TPT_VAL_NONE};
    tpt_arena_init(&w->scratch, (size_t)1 << 28);
    w->prog = tpt_calloc(1, sizeof *w->prog);
    if (!w->prog) return no_room();
    w->prog->nnodes = (int)graph->nnodes;
    w->prog->bad_sizes = tpt_calloc(graph->nnodes + 1, sizeof *w->prog->bad_sizes);
    w->values = tpt_calloc(graph->nvalues + 1, sizeof *w->values);
    if (!w->prog->bad_sizes || !w->values) return no_room();
    for (size_t i = 0; i < graph->nvalues; i++) w->values[i] = TPT_VAL_NONE;
    TPT_TRY(tpt_ir_new(&w->ir));
    const tpt_client_t *client = tpt_runtime_client();
    tpt_ir_set_host_code(w->ir, client && tpt_client_host_code(client));
    tpt_ir_set_has_kernels(w->ir, client && tpt_client_has_kernels(client));
    tpt_ir_set_has_blas(w->ir, tpt_ir_has_kernels(w->ir) && tpt_blas() != NULL);
    tpt_ir_set_alone(w->ir, graph->nnodes == 1);
    tpt_ir_set_guarded_minmax(w->ir, client && !tpt_client_reduce_keeps_nan(client));
    return NULL;
}

static void finish(lowering_t *w) {
    tpt_ir_free(w->ir);
    tpt_free(w->values);
    tpt_arena_free(&w->scratch);
    tpt_prog_free(w->prog);
}

static void add_inputs(lowering_t *w, const tpt_cut_t *cut) {
    for (int i = 0; i < cut->ninputs; i++) {
        w->values[cut->inputs[i]] = tpt_ir_arg(w->ir, *w->graph->values[cut->inputs[i]].type);
        if (cut->aliases[i] >= 0) tpt_ir_arg_alias(w->ir, i, cut->aliases[i]);
    }
    for (size_t i = 0; i < w->graph->nvalues; i++) { /* storages that nobody has written yet */
        const tpt_value_t *v = &w->graph->values[i];
        if (v->node < 0 && !v->buffer) w->values[i] = tpt_ir_full_i(w->ir, *v->type, 0);
    }
}

static void close_packs(lowering_t *w) {
    for (int i = 0; i < w->prog->npacks; i++) {
        int kind = w->prog->pack_order[i];
        int64_t length = w->prog->packs[kind].length;
        tpt_ir_arg_retype(w->ir, w->pack_arg[kind], tpt_type_make(tpt_pack_dtype(kind), 1, &length));
    }
}

static int64_t bytes_of(const tpt_type_t *t) { return tpt_type_numel(t) * (int64_t)tpt_dtype_size((tpt_dtype_t)t->dtype); }

static tpt_status_t *measure_results(lowering_t *w, const tpt_cut_t *cut) {
    w->prog->result_bytes = tpt_calloc((size_t)w->prog->nresults + 1, sizeof *w->prog->result_bytes);
    if (!w->prog->result_bytes) return no_room();
    for (int i = 0; i < cut->nlive; i++) w->prog->result_bytes[i] = bytes_of(tpt_ir_type(w->ir, w->values[cut->live[i]]));
    if (w->prog->flagged) w->prog->result_bytes[cut->nlive] = bytes_of(tpt_ir_type(w->ir, w->bad));
    return NULL;
}

/* A view that is read on the way in is part of the loops, and not of what was measured. */
static bool has_plain_loops(const tpt_graph_t *g) {
    const tpt_plan_t *p = g->nodes[0].plan;
    bool plain = g->nnodes == 1 && (p->op->row->flags & TPT_ROW_PLAIN_LOOPS) != 0;
    for (int t = 0; plain && t < p->ntensors; t++) plain = p->tensors[t].view.code == TPT_VIEW_SAME && !p->tensors[t].view.bitcast;
    return plain;
}

static tpt_status_t *lower_all(lowering_t *w, const tpt_cut_t *cut, char **out_text) {
    add_inputs(w, cut);
    for (size_t i = 0; i < w->graph->nnodes; i++) TPT_TRY(lower_node(w, (uint32_t)i));
    for (int i = 0; i < cut->nlive; i++) tpt_ir_result(w->ir, w->values[cut->live[i]]);
    if (w->prog->flagged) tpt_ir_result(w->ir, w->bad);
    if (w->graph->nnodes == 1) tpt_ir_as_formula(w->ir);
    w->prog->nresults = cut->nlive + w->prog->flagged;
    TPT_TRY(measure_results(w, cut));
    close_packs(w);
    const int64_t largest = tpt_ir_largest(w->ir);
    w->prog->loops = (tpt_loops_t){.tiny = largest <= TINY, .plain = has_plain_loops(w->graph), .one_core = largest > TINY && largest <= SHORT};
    TPT_TRY(tpt_ir_take_status(w->ir));
    TPT_TRY_MSG(tpt_ir_verify(w->ir), "checking a program of %zu ops", w->graph->nnodes);
    tpt_str_t text;
    tpt_str_init(&text, (size_t)1 << 30);
    const char *name = w->graph->nnodes == 1 ? w->graph->nodes[0].plan->op->row->name : "graph";
    tpt_status_t *status = tpt_ir_print(w->ir, name, &text);
    *out_text = status ? NULL : tpt_str_take(&text);
    tpt_str_free(&text);
    return status ? status : *out_text ? NULL : no_room();
}

tpt_status_t *tpt_prog_lower(const tpt_graph_t *graph, const tpt_cut_t *cut, tpt_prog_t **out_prog, char **out_text) {
    lowering_t w;
    tpt_status_t *status = start(&w, graph);
    if (!status) status = lower_all(&w, cut, out_text);
    if (!status) {
        *out_prog = w.prog;
        w.prog = NULL;
    }
    finish(&w);
    return status;
}

/* ---- trying a plan -------------------------------------------------------------------------------------------------- */

static tpt_status_t *specs_from_results(lowering_t *w, tpt_plan_t *p, const tpt_lower_t *L) {
    int n = p->op->fresh_outs ? L->nresults - p->nwrites : 0;
    if (n <= 0) return NULL;
    tpt_spec_t *specs = tpt_arena_alloc(&w->scratch, (size_t)n * sizeof *specs);
    if (!specs) return no_room();
    for (int k = 0; k < n; k++) {
        const tpt_type_t *t = tpt_ir_type(w->ir, L->results[k]);
        int64_t stride = 1;
        /* Halves are computed in float32; the operands of such a plain call all have one dtype. */
        tpt_dtype_t own = TPT_DTYPE_NONE;
        for (int i = 0; p->op->row->expr && i < p->ntensors; i++)
            if (p->tensors[i].view.dtype != TPT_BOOL) own = (tpt_dtype_t)p->tensors[i].view.dtype;
        specs[k].dtype = own != TPT_DTYPE_NONE && t->dtype == tpt_dtype_opmath(own) ? own : t->dtype;
        specs[k].rank = t->rank;
        for (int d = t->rank - 1; d >= 0; d--) {
            specs[k].sizes[d] = t->dims[d];
            specs[k].strides[d] = stride;
            stride *= t->dims[d] > 1 ? t->dims[d] : 1;
        }
    }
    return tpt_plan_set_outs(p, specs, n);
}

static tpt_status_t *try_node(lowering_t *w, tpt_plan_t *p) {
    for (int t = 0; t < p->ntensors; t++) w->values[t] = tpt_ir_arg(w->ir, p->tensors[t].base);
    if (p->op->fresh_outs && !p->out_types) {
        tpt_lower_t L;
        tpt_status_t *status = run_row(w, &w->graph->nodes[0], &L);
        if (!status) status = specs_from_results(w, p, &L);
        p->flagged = L.bad != TPT_VAL_NONE;
        p->flag_text = L.bad_text;
        tpt_free(L.results);
        return status;
    }
    TPT_TRY(lower_node(w, 0));
    p->flagged = w->prog->flagged;
    p->flag_text = w->bad_text;
    for (int t = 0; t < p->ntensors; t++)
        p->tensors[t].unread = !tpt_ir_reaches(w->ir, p->nouts + p->nwrites + p->dynamic, &w->values[p->ntensors], w->values[t]);
    return NULL;
}

tpt_status_t *tpt_prog_try_plan(tpt_plan_t *p) {
    size_t values = (size_t)p->ntensors + (size_t)p->nouts + (size_t)p->nwrites + 1;
    tpt_node_t node = {.plan = p, .first_output = (uint32_t)p->ntensors};
    tpt_graph_t graph = {.nodes = &node, .nnodes = 1, .nvalues = values};
    graph.inputs = tpt_calloc(values, sizeof *graph.inputs);
    if (!graph.inputs) return no_room();
    for (int t = 0; t < p->ntensors; t++) graph.inputs[t] = t;
    lowering_t w;
    tpt_status_t *status = start(&w, &graph);
    if (!status) status = try_node(&w, p);
    finish(&w);
    tpt_free(graph.inputs);
    return status;
}
