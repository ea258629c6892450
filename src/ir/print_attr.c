/* print_attr.c - attributes of each kind of op, as generic-form properties: ` <{a = ..., b = ...}>`. */
#include "ir_internal.h"

typedef struct tpt_attrs {
    tpt_str_t *out;
    bool any;
} tpt_attrs_t;

static void key(tpt_attrs_t *a, const char *name) {
    tpt_str_add(a->out, a->any ? ", " : " <{");
    a->any = true;
    tpt_str_add(a->out, name);
    tpt_str_add(a->out, " = ");
}

static void list(tpt_str_t *out, const char *open, int n, const int64_t *values, const char *close) {
    tpt_str_add(out, open);
    for (int i = 0; i < n; i++) {
        if (i > 0) tpt_str_add(out, ", ");
        tpt_str_int(out, values[i]);
    }
    tpt_str_add(out, close);
}

static void array(tpt_attrs_t *a, const char *name, int n, const int64_t *values) {
    key(a, name);
    list(a->out, n > 0 ? "array<i64: " : "array<i64", n, values, ">");
}

static void integer(tpt_attrs_t *a, const char *name, int64_t value) {
    key(a, name);
    tpt_str_int(a->out, value);
    tpt_str_add(a->out, " : i64");
}

static void boolean(tpt_attrs_t *a, const char *name, bool value) {
    key(a, name);
    tpt_str_add(a->out, value ? "true" : "false");
}

/* `kind` is both the attribute's and the enumeration's name, as in #stablehlo<precision HIGHEST>. */
static void choice(tpt_attrs_t *a, const char *name, const char *kind, const char *value) {
    key(a, name);
    tpt_str_addf(a->out, "#stablehlo<%s %s>", kind, value);
}

static void padding(tpt_attrs_t *a, int n, const int64_t *low, const int64_t *high) {
    key(a, "padding");
    tpt_str_add(a->out, n > 0 ? "dense<[" : "dense<");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpt_str_add(a->out, ", ");
        list(a->out, "[", 2, (const int64_t[2]){low[i], high[i]}, "]");
    }
    tpt_str_addf(a->out, n > 0 ? "]> : tensor<%dx2xi64>" : "> : tensor<%dx2xi64>", n);
}

static void print_compare(tpt_attrs_t *a, const tpt_ir_t *ir, const tpt_node_t *node) {
    static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    tpt_dtype_t d = (tpt_dtype_t)tpt_in_type(ir, node, 0)->dtype;
    bool is_float = tpt_dtype_is_float(d) || tpt_dtype_is_complex(d);
    choice(a, "comparison_direction", "comparison_direction", directions[node->sub]);
    choice(a, "compare_type", "comparison_type", is_float ? "FLOAT" : tpt_dtype_is_signed(d) ? "SIGNED" : "UNSIGNED");
}

static void print_window(tpt_attrs_t *a, const tpt_ir_window_t *w, bool dilations) {
    array(a, "window_dimensions", w->rank, w->size);
    array(a, "window_strides", w->rank, w->stride);
    if (dilations) {
        array(a, "base_dilations", w->rank, w->base_dilation);
        array(a, "window_dilations", w->rank, w->window_dilation);
    }
    padding(a, w->rank, w->pad_low, w->pad_high);
}

static void print_gather(tpt_attrs_t *a, const tpt_ir_gather_t *g, int rank) {
    key(a, "dimension_numbers");
    list(a->out, "#stablehlo.gather<offset_dims = [", g->n_offset, g->offset_dims, "]");
    list(a->out, ", collapsed_slice_dims = [", g->n_collapsed, g->collapsed_slice_dims, "]");
    list(a->out, ", operand_batching_dims = [", g->n_batch, g->operand_batching_dims, "]");
    list(a->out, ", start_indices_batching_dims = [", g->n_batch, g->start_indices_batching_dims, "]");
    list(a->out, ", start_index_map = [", g->n_start, g->start_index_map, "]");
    tpt_str_addf(a->out, ", index_vector_dim = %lld>", (long long)g->index_vector_dim);
    array(a, "slice_sizes", rank, g->slice_sizes);
    boolean(a, "indices_are_sorted", g->indices_are_sorted);
}

static void print_scatter(tpt_attrs_t *a, const tpt_ir_scatter_t *s) {
    key(a, "scatter_dimension_numbers");
    list(a->out, "#stablehlo.scatter<update_window_dims = [", s->n_window, s->update_window_dims, "]");
    list(a->out, ", inserted_window_dims = [", s->n_inserted, s->inserted_window_dims, "]");
    list(a->out, ", input_batching_dims = [", s->n_batch, s->input_batching_dims, "]");
    list(a->out, ", scatter_indices_batching_dims = [", s->n_batch, s->scatter_indices_batching_dims, "]");
    list(a->out, ", scatter_dims_to_operand_dims = [", s->n_scatter, s->scatter_dims_to_operand_dims, "]");
    tpt_str_addf(a->out, ", index_vector_dim = %lld>", (long long)s->index_vector_dim);
    boolean(a, "indices_are_sorted", s->indices_are_sorted);
    boolean(a, "unique_indices", s->unique_indices);
}

/* Only float32 (and complex of it) has passes to choose from; the default is not written. */
static void print_precision(tpt_attrs_t *a, tpt_precision_t precision, const tpt_type_t *x) {
    static const char *const names[] = {"DEFAULT", "HIGH", "HIGHEST"};
    if (precision == TPT_PRECISION_DEFAULT || tpt_dtype_real((tpt_dtype_t)x->dtype) != TPT_F32) return;
    key(a, "precision_config");
    tpt_str_addf(a->out, "[#stablehlo<precision %s>, #stablehlo<precision %s>]", names[precision], names[precision]);
}

static void print_dot(tpt_attrs_t *a, const tpt_ir_dot_t *d) {
    key(a, "dot_dimension_numbers");
    list(a->out, "#stablehlo.dot<lhs_batching_dimensions = [", d->n_batch, d->lhs_batch, "]");
    list(a->out, ", rhs_batching_dimensions = [", d->n_batch, d->rhs_batch, "]");
    list(a->out, ", lhs_contracting_dimensions = [", d->n_contract, d->lhs_contract, "]");
    list(a->out, ", rhs_contracting_dimensions = [", d->n_contract, d->rhs_contract, "]>");
}

/* [b, f, 0, 1]: what each dim of a tensor is. */
static void print_positions(tpt_str_t *out, int spatial, int64_t first, const char *first_name, int64_t second,
                            const char *second_name, const int64_t *places) {
    tpt_str_add(out, "[");
    for (int64_t d = 0; d < spatial + 2; d++) {
        if (d > 0) tpt_str_add(out, ", ");
        if (d == first) tpt_str_add(out, first_name);
        if (d == second) tpt_str_add(out, second_name);
        for (int i = 0; i < spatial; i++) {
            if (places[i] == d) tpt_str_int(out, i);
        }
    }
    tpt_str_add(out, "]");
}

static void print_conv(tpt_attrs_t *a, const tpt_ir_conv_t *c) {
    key(a, "dimension_numbers");
    tpt_str_add(a->out, "#stablehlo.conv<");
    print_positions(a->out, c->spatial, c->in_batch, "b", c->in_feature, "f", c->in_spatial);
    tpt_str_add(a->out, "x");
    print_positions(a->out, c->spatial, c->k_in_feature, "i", c->k_out_feature, "o", c->k_spatial);
    tpt_str_add(a->out, "->");
    print_positions(a->out, c->spatial, c->out_batch, "b", c->out_feature, "f", c->out_spatial);
    tpt_str_add(a->out, ">");
    array(a, "window_strides", c->spatial, c->stride);
    padding(a, c->spatial, c->pad_low, c->pad_high);
    array(a, "lhs_dilation", c->spatial, c->lhs_dilation);
    array(a, "rhs_dilation", c->spatial, c->rhs_dilation);
    if (c->reversal) {
        key(a, "window_reversal");
        tpt_str_add(a->out, "array<i1: true");
        for (int i = 1; i < c->spatial; i++) tpt_str_add(a->out, ", true");
        tpt_str_add(a->out, ">");
    }
    integer(a, "feature_group_count", c->feature_groups);
    integer(a, "batch_group_count", c->batch_groups);
}

static void print_triangular(tpt_attrs_t *a, int64_t num) {
    static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    boolean(a, "left_side", num & TPT_TRI_LEFT);
    boolean(a, "lower", num & TPT_TRI_LOWER);
    boolean(a, "unit_diagonal", num & TPT_TRI_UNIT);
    choice(a, "transpose_a", "transpose", transposes[num >> TPT_TRI_TRANSPOSE_SHIFT]);
}

static void print_quoted(tpt_str_t *out, const char *text) {
    tpt_str_add(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        unsigned char u = (unsigned char)*c;
        if (u == '"' || u == '\\' || u < 32 || u > 126)
            tpt_str_addf(out, "\\%02X", u);
        else
            tpt_str_addn(out, c, 1);
    }
    tpt_str_add(out, "\"");
}

static void dense_layout(tpt_str_t *out, int rank) {
    tpt_str_add(out, "dense<[");
    for (int k = rank - 1; k >= 0; k--) tpt_str_addf(out, k > 0 ? "%d, " : "%d", k);
    tpt_str_addf(out, "]> : tensor<%dxindex>", rank);
}

static void print_layouts(tpt_attrs_t *a, const char *name, int n, const tpt_ir_t *ir, const tpt_val_t *values, tpt_val_t first) {
    key(a, name);
    tpt_str_add(a->out, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) tpt_str_add(a->out, ", ");
        dense_layout(a->out, ir->values[values != NULL ? values[i] : first + i]->type.rank);
    }
    tpt_str_add(a->out, "]");
}

static void print_aliases(tpt_attrs_t *a, int n, const int32_t *aliases) {
    key(a, "output_operand_aliases");
    tpt_str_add(a->out, "[");
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (aliases[i] < 0) continue;
        tpt_str_add(a->out, any ? ", " : "");
        any = true;
        tpt_str_add(a->out, "#stablehlo.output_operand_alias<output_tuple_indices = [");
        if (n > 1) tpt_str_addf(a->out, "%d", i);
        tpt_str_addf(a->out, "], operand_index = %d, operand_tuple_indices = []>", (int)aliases[i]);
    }
    tpt_str_add(a->out, "]");
}

/* A call of one of the runtime's routines: numbers for it, and arrays that are dense, the last dimension innermost. */
static void print_words(tpt_attrs_t *a, const tpt_ir_t *ir, const tpt_node_t *node) {
    const tpt_ir_call_attr_t *call = node->attr;
    key(a, "backend_config");
    tpt_str_add(a->out, "{words = array<i64: ");
    for (size_t i = 0; i < call->nwords; i++) tpt_str_addf(a->out, i > 0 ? ", %lld" : "%lld", (long long)call->words[i]);
    tpt_str_add(a->out, ">}");
    print_layouts(a, "operand_layouts", node->nin, ir, node->in, 0);
    print_layouts(a, "result_layouts", node->nout, ir, NULL, node->first);
    if (call->aliases != NULL) print_aliases(a, node->nout, call->aliases);
}

static void print_call(tpt_attrs_t *a, const tpt_ir_t *ir, const tpt_node_t *node) {
    const tpt_ir_call_attr_t *call = node->attr;
    key(a, "call_target_name");
    print_quoted(a->out, call->target);
    boolean(a, "has_side_effect", call->has_side_effect);
    key(a, "api_version");
    tpt_str_addf(a->out, "%d : i32", call->api_version);
    if (call->words != NULL) print_words(a, ir, node);
    if (call->backend_config == NULL) return;
    key(a, "backend_config");
    /* A typed call's configuration is a dictionary of attributes, others' an opaque string. */
    if (call->api_version == 4)
        tpt_str_add(a->out, call->backend_config);
    else
        print_quoted(a->out, call->backend_config);
}

/* A transposition by the runtime's routine; without the layouts XLA may choose others. */
static void print_permute(tpt_attrs_t *a, int rank, const int64_t *perm) {
    key(a, "call_target_name");
    print_quoted(a->out, "tpt_permute");
    key(a, "api_version");
    tpt_str_add(a->out, "4 : i32");
    key(a, "backend_config");
    tpt_str_add(a->out, "{perm = array<i64: ");
    for (int i = 0; i < rank; i++) tpt_str_addf(a->out, i > 0 ? ", %d" : "%d", (int)perm[i]);
    tpt_str_add(a->out, ">}");
    static const char *const sides[2] = {"operand_layouts", "result_layouts"};
    for (int i = 0; i < 2; i++) {
        key(a, sides[i]);
        tpt_str_add(a->out, "[");
        dense_layout(a->out, rank);
        tpt_str_add(a->out, "]");
    }
}

static void print_shape_attrs(tpt_attrs_t *a, const tpt_node_t *node) {
    int n = node->nints;
    switch (node->kind) {
        case TPT_KIND_BROADCAST:
            array(a, "broadcast_dimensions", n, node->ints[0]);
            break;
        case TPT_KIND_TRANSPOSE:
            if (node->sub != 0) {
                print_permute(a, n, node->ints[0]);
                break;
            }
            array(a, "permutation", n, node->ints[0]);
            break;
        case TPT_KIND_SLICE:
            array(a, "start_indices", n, node->ints[0]);
            array(a, "limit_indices", n, node->ints[1]);
            array(a, "strides", n, node->ints[2]);
            break;
        case TPT_KIND_DYNAMIC_SLICE:
            array(a, "slice_sizes", n, node->ints[0]);
            break;
        case TPT_KIND_PAD:
            array(a, "edge_padding_low", n, node->ints[0]);
            array(a, "edge_padding_high", n, node->ints[1]);
            array(a, "interior_padding", n, node->ints[2]);
            break;
        case TPT_KIND_CONCAT:
            integer(a, "dimension", node->num);
            break;
        case TPT_KIND_REVERSE:
        case TPT_KIND_REDUCE:
            array(a, "dimensions", n, node->ints[0]);
            break;
        default:
            break;
    }
}

void tpt_print_attrs(tpt_str_t *out, const tpt_ir_t *ir, const tpt_node_t *node) {
    static const char *const ffts[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    tpt_attrs_t a = {.out = out};
    const tpt_attr_dot_t *dot = node->attr;
    const tpt_attr_conv_t *conv = node->attr;
    switch (node->kind) {
        case TPT_KIND_IOTA:
            integer(&a, "iota_dimension", node->num);
            break;
        case TPT_KIND_COMPARE:
            print_compare(&a, ir, node);
            break;
        case TPT_KIND_REDUCE_WINDOW:
            print_window(&a, node->attr, true);
            break;
        case TPT_KIND_SELECT_SCATTER:
            print_window(&a, node->attr, false);
            break;
        case TPT_KIND_GATHER:
            print_gather(&a, node->attr, tpt_in_type(ir, node, 0)->rank);
            break;
        case TPT_KIND_SCATTER:
            print_scatter(&a, node->attr);
            break;
        case TPT_KIND_DOT:
            print_dot(&a, &dot->dot);
            print_precision(&a, dot->precision, tpt_in_type(ir, node, 0));
            break;
        case TPT_KIND_CONV:
            print_conv(&a, &conv->conv);
            print_precision(&a, conv->precision, tpt_in_type(ir, node, 0));
            break;
        case TPT_KIND_CHOLESKY:
            boolean(&a, "lower", node->num != 0);
            break;
        case TPT_KIND_TRIANGULAR:
            print_triangular(&a, node->num);
            break;
        case TPT_KIND_FFT:
            choice(&a, "fft_type", "fft_type", ffts[node->sub]);
            array(&a, "fft_length", node->nints, node->ints[0]);
            break;
        case TPT_KIND_SORT:
            integer(&a, "dimension", node->num >> 1);
            boolean(&a, "is_stable", node->num & 1);
            break;
        case TPT_KIND_RNG:
            choice(&a, "rng_algorithm", "rng_algorithm", "PHILOX");
            break;
        case TPT_KIND_SET_SIZE:
            integer(&a, "dimension", node->num);
            break;
        case TPT_KIND_CUSTOM_CALL:
            print_call(&a, ir, node);
            break;
        default:
            print_shape_attrs(&a, node);
            break;
    }
    if (a.any) tpt_str_add(out, "}>");
}
