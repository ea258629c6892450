/* window_grid.c - grid_sampler_2d and _3d: reading an image at positions that a tensor gives, and its gradients.
 *
 * Along each spatial dim a position has a few taps (1 nearest, 2 linear, 4 cubic): a whole coordinate, a weight, and the
 * weight's derivative by the position. A sample is the sum over all combinations of taps. */
#include "ops/shape.h"

enum { MODE_LINEAR = 0, MODE_NEAREST = 1, MODE_CUBIC = 2 };
enum { PAD_ZEROS = 0, PAD_BORDER = 1, PAD_REFLECTION = 2 };

/* All values are [N, P], P = number of sampled positions. */
typedef struct axis {
    int64_t size;
    int count;
    tpt_val_t at[4], weight[4], slope[4]; /* whole coordinate (floating), weight, derivative */
    tpt_val_t factor;                     /* d(position) / d(grid value) */
} axis_t;

typedef struct grid {
    int n; /* spatial dims */
    int mode, padding;
    bool align;
    int64_t batch, channels, points, space; /* space: product of the input's spatial sizes */
    tpt_dtype_t dtype, work;
    tpt_val_t input; /* [N, C, space] */
    axis_t axes[3];  /* in the input's order: (d,) h, w */
} grid_t;

static tpt_val_t num(const grid_t *g, tpt_ir_t *ir, double value) { return tpt_ir_const_f(ir, g->work, value); }

/* ---- positions ----------------------------------------------------------------------------------------------------- */

/* Each of these multiplies *factor by its derivative. */
static tpt_val_t clip(const grid_t *g, tpt_ir_t *ir, tpt_val_t x, int64_t size, tpt_val_t *factor) {
    tpt_val_t low = num(g, ir, 0), high = num(g, ir, (double)(size - 1));
    tpt_val_t inside = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GT, x, low), tpt_ir_compare(ir, TPT_IR_LT, x, high));
    if (factor != NULL) *factor = tpt_ir_select(ir, inside, *factor, num(g, ir, 0));
    return tpt_ir_min(ir, tpt_ir_max(ir, x, low), high);
}

/* Reflects at low2 / 2 and high2 / 2. */
static tpt_val_t reflect(const grid_t *g, tpt_ir_t *ir, tpt_val_t x, int64_t low2, int64_t high2, tpt_val_t *factor) {
    if (low2 == high2) {
        if (factor != NULL) *factor = tpt_ir_mul(ir, *factor, num(g, ir, 0));
        return tpt_ir_mul(ir, x, num(g, ir, 0));
    }
    tpt_val_t low = num(g, ir, (double)low2 / 2), span = num(g, ir, (double)(high2 - low2) / 2), two = num(g, ir, 2);
    tpt_val_t from = tpt_ir_sub(ir, x, low), away = tpt_ir_unary(ir, TPT_IR_ABS, from);
    tpt_val_t extra = tpt_ir_binary(ir, TPT_IR_REM, away, span);
    tpt_val_t flips = tpt_ir_unary(ir, TPT_IR_FLOOR, tpt_ir_div(ir, away, span));
    tpt_val_t odd = tpt_ir_compare(ir, TPT_IR_NE, tpt_ir_binary(ir, TPT_IR_REM, flips, two), num(g, ir, 0));
    if (factor != NULL) {
        tpt_val_t below = tpt_ir_compare(ir, TPT_IR_LT, from, num(g, ir, 0));
        tpt_val_t turned = tpt_ir_compare(ir, TPT_IR_NE, below, odd);
        *factor = tpt_ir_select(ir, turned, tpt_ir_neg(ir, *factor), *factor);
    }
    return tpt_ir_add(ir, tpt_ir_select(ir, odd, tpt_ir_sub(ir, span, extra), extra), low);
}

static tpt_val_t pad_position(const grid_t *g, tpt_ir_t *ir, tpt_val_t x, int64_t size, tpt_val_t *factor) {
    if (g->padding == PAD_ZEROS) return x;
    if (g->padding == PAD_REFLECTION)
        x = g->align ? reflect(g, ir, x, 0, 2 * (size - 1), factor) : reflect(g, ir, x, -1, 2 * size - 1, factor);
    return clip(g, ir, x, size, factor);
}

/* From [-1, 1] to elements. */
static tpt_val_t unnormalize(const grid_t *g, tpt_ir_t *ir, tpt_val_t x, int64_t size, tpt_val_t *out_factor) {
    double scale = (double)(g->align ? size - 1 : size) / 2;
    *out_factor = tpt_ir_broadcast_to(ir, num(g, ir, scale), 2, tpt_ir_type(ir, x)->dims);
    x = tpt_ir_add(ir, x, num(g, ir, 1));
    if (g->align) return tpt_ir_mul(ir, x, num(g, ir, scale));
    x = tpt_ir_sub(ir, tpt_ir_mul(ir, x, num(g, ir, (double)size)), num(g, ir, 1));
    return tpt_ir_div(ir, x, num(g, ir, 2));
}

/* c0 + c1 t + c2 t^2 + c3 t^3 and its derivative. */
static void polynomial(const grid_t *g, tpt_ir_t *ir, tpt_val_t t, const double *c, tpt_val_t *out, tpt_val_t *out_slope) {
    tpt_val_t v = num(g, ir, c[3]), s = num(g, ir, 3 * c[3]);
    for (int k = 2; k >= 0; k--) v = tpt_ir_add(ir, tpt_ir_mul(ir, v, t), num(g, ir, c[k]));
    for (int k = 2; k >= 1; k--) s = tpt_ir_add(ir, tpt_ir_mul(ir, s, t), num(g, ir, k * c[k]));
    *out = v;
    *out_slope = s;
}

static void make_axis(const grid_t *g, tpt_ir_t *ir, tpt_val_t grid, axis_t *a) {
    tpt_val_t x = unnormalize(g, ir, grid, a->size, &a->factor);
    if (g->mode != MODE_CUBIC) x = pad_position(g, ir, x, a->size, &a->factor);
    if (g->mode == MODE_NEAREST) {
        a->count = 1;
        a->at[0] = tpt_ir_unary(ir, TPT_IR_ROUND_EVEN, x);
        a->weight[0] = num(g, ir, 1);
        a->slope[0] = num(g, ir, 0);
        return;
    }
    tpt_val_t low = tpt_ir_unary(ir, TPT_IR_FLOOR, x), t = tpt_ir_sub(ir, x, low);
    if (g->mode == MODE_LINEAR) {
        a->count = 2;
        a->at[0] = low;
        a->at[1] = tpt_ir_add(ir, low, num(g, ir, 1));
        a->weight[0] = tpt_ir_sub(ir, num(g, ir, 1), t);
        a->weight[1] = t;
        a->slope[0] = num(g, ir, -1);
        a->slope[1] = num(g, ir, 1);
        return;
    }
    /* Cubic convolution with a = -3/4, written out by powers of t for the taps at -1, 0, 1, 2. */
    static const double c[4][4] = {{0, -0.75, 1.5, -0.75}, {1, 0, -2.25, 1.25}, {0, 0.75, 1.5, -1.25}, {0, 0, -0.75, 0.75}};
    a->count = 4;
    for (int k = 0; k < 4; k++) {
        a->at[k] = pad_position(g, ir, tpt_ir_add(ir, low, num(g, ir, k - 1)), a->size, NULL);
        polynomial(g, ir, t, c[k], &a->weight[k], &a->slope[k]);
    }
}

static bool make_grid(tpt_lower_t *L, grid_t *g) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t input = tpt_lower_tensor(L, "input"), grid = tpt_lower_tensor(L, "grid");
    const tpt_type_t it = *tpt_ir_type(ir, input), gt = *tpt_ir_type(ir, grid);
    *g = (grid_t){.n = it.rank - 2, .batch = it.dims[0], .channels = it.dims[1], .points = 1, .space = 1};
    if (tpt_ir_status(ir) != NULL) return false;
    if (g->n < 2 || g->n > 3 || gt.rank != it.rank || gt.dims[gt.rank - 1] != g->n || gt.dims[0] != it.dims[0]) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "%s: input and grid do not fit together", L->schema_name);
        return false;
    }
    g->mode = (int)tpt_lower_int(L, "interpolation_mode", MODE_LINEAR);
    g->padding = (int)tpt_lower_int(L, "padding_mode", PAD_ZEROS);
    g->align = tpt_lower_bool(L, "align_corners", false);
    g->dtype = (tpt_dtype_t)it.dtype;
    g->work = tpt_dtype_opmath(g->dtype);
    for (int d = 0; d < g->n; d++) {
        g->points *= gt.dims[1 + d];
        g->space *= it.dims[2 + d];
    }
    int64_t flat[3] = {g->batch, g->channels, g->space}, flat_grid[3] = {g->batch, g->points, g->n};
    int64_t plane[2] = {g->batch, g->points};
    g->input = tpt_ir_convert(ir, tpt_ir_reshape(ir, input, 3, flat), g->work);
    grid = tpt_ir_convert(ir, tpt_ir_reshape(ir, grid, 3, flat_grid), g->work);
    for (int d = 0; d < g->n; d++) { /* the grid lists x first: the last dim */
        int k = g->n - 1 - d;
        tpt_val_t column = tpt_ir_reshape(ir, tpt_ir_slice_dim(ir, grid, 2, k, k + 1), 2, plane);
        g->axes[d].size = it.dims[2 + d];
        make_axis(g, ir, column, &g->axes[d]);
    }
    return tpt_ir_status(ir) == NULL;
}

/* ---- samples ------------------------------------------------------------------------------------------------------- */

/* One combination of taps: `pick[d]` is the tap of axis d. */
typedef struct corner {
    tpt_val_t index;  /* [N, P] int64 position in the space */
    tpt_val_t inside; /* [N, P] bool */
} corner_t;

static corner_t make_corner(const grid_t *g, tpt_ir_t *ir, const int *pick) {
    corner_t c = {TPT_VAL_NONE, TPT_VAL_NONE};
    for (int d = 0; d < g->n; d++) {
        const axis_t *a = &g->axes[d];
        tpt_val_t at = a->at[pick[d]], low = num(g, ir, 0), high = num(g, ir, (double)(a->size - 1));
        tpt_val_t inside = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_GE, at, low), tpt_ir_compare(ir, TPT_IR_LE, at, high));
        tpt_val_t whole = tpt_ir_convert(ir, tpt_ir_select(ir, inside, at, low), TPT_I64);
        c.inside = d == 0 ? inside : tpt_ir_and(ir, c.inside, inside);
        c.index = d == 0 ? whole : tpt_ir_add(ir, tpt_ir_mul(ir, c.index, tpt_ir_const_i(ir, TPT_I64, a->size)), whole);
    }
    return c;
}

/* Product of the weights, with the slope instead along `slope_axis` (-1: none); zero outside. */
static tpt_val_t corner_weight(const grid_t *g, tpt_ir_t *ir, const corner_t *c, const int *pick, int slope_axis) {
    tpt_val_t w = TPT_VAL_NONE;
    for (int d = 0; d < g->n; d++) {
        const axis_t *a = &g->axes[d];
        tpt_val_t part = d == slope_axis ? a->slope[pick[d]] : a->weight[pick[d]];
        w = d == 0 ? part : tpt_ir_mul(ir, w, part);
    }
    return tpt_ir_select(ir, c->inside, w, num(g, ir, 0));
}

static bool next_pick(const grid_t *g, int *pick) {
    for (int d = g->n - 1; d >= 0; d--) {
        if (++pick[d] < g->axes[d].count) return true;
        pick[d] = 0;
    }
    return false;
}

/* [N, C, space] at [N, P] -> [N, C, P] */
static tpt_val_t read_corner(const grid_t *g, tpt_ir_t *ir, const corner_t *c) {
    tpt_ir_gather_t spec = {.n_offset = 1, .n_collapsed = 1, .n_batch = 1, .n_start = 1, .index_vector_dim = 2};
    spec.offset_dims[0] = 1;
    spec.collapsed_slice_dims[0] = spec.start_index_map[0] = 2;
    spec.slice_sizes[0] = spec.slice_sizes[2] = 1;
    spec.slice_sizes[1] = g->channels;
    return tpt_ir_gather(ir, g->input, tpt_ir_unsqueeze(ir, c->index, 2), &spec);
}

static tpt_val_t add_corner(const corner_t *c, tpt_ir_t *ir, tpt_val_t sum, tpt_val_t updates) {
    tpt_ir_scatter_t spec = {.n_window = 1, .n_inserted = 1, .n_scatter = 1, .n_batch = 1, .index_vector_dim = 2};
    spec.update_window_dims[0] = 1;
    spec.inserted_window_dims[0] = spec.scatter_dims_to_operand_dims[0] = 2;
    return tpt_ir_scatter(ir, TPT_IR_SCATTER_ADD, sum, tpt_ir_unsqueeze(ir, c->index, 2), updates, &spec);
}

void tpt_window_grid(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    tpt_type_t out = tpt_shape_out(L);
    grid_t g;
    if (tpt_type_numel(&out) == 0) {
        tpt_lower_result(L, tpt_shape_zeros_type(ir, out));
        return;
    }
    if (!make_grid(L, &g)) return;
    int pick[3] = {0};
    tpt_val_t sum = TPT_VAL_NONE;
    do {
        corner_t c = make_corner(&g, ir, pick);
        tpt_val_t weight = tpt_ir_unsqueeze(ir, corner_weight(&g, ir, &c, pick, -1), 1);
        tpt_val_t part = tpt_ir_mul(ir, read_corner(&g, ir, &c), weight);
        sum = sum == TPT_VAL_NONE ? part : tpt_ir_add(ir, sum, part);
    } while (next_pick(&g, pick));
    tpt_lower_result(L, tpt_ir_reshape(ir, tpt_ir_convert(ir, sum, g.dtype), out.rank, out.dims));
}

/* Results: gradient of the input (when asked for), gradient of the grid. */
void tpt_window_grid_back(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    grid_t g;
    int64_t mask[2] = {1, 1}, channel = 1;
    const tpt_type_t it = tpt_shape_arg(L, "input"), gt = tpt_shape_arg(L, "grid");
    (void)tpt_lower_ints(L, "output_mask", mask, 2);
    if (tpt_type_numel(&it) == 0 || tpt_type_numel(&gt) == 0) {
        if (mask[0]) tpt_lower_result(L, tpt_shape_zeros_type(ir, it));
        tpt_lower_result(L, tpt_shape_zeros_type(ir, gt));
        return;
    }
    if (!make_grid(L, &g)) return;
    int64_t flat[3] = {g.batch, g.channels, g.points}, space[3] = {g.batch, g.channels, g.space};
    tpt_val_t grad = tpt_ir_convert(ir, tpt_ir_reshape(ir, tpt_lower_tensor(L, "grad_output"), 3, flat), g.work);
    tpt_val_t to_input = tpt_shape_zeros(ir, g.work, 3, space), to_axis[3] = {TPT_VAL_NONE, TPT_VAL_NONE, TPT_VAL_NONE};
    int pick[3] = {0};
    do {
        corner_t c = make_corner(&g, ir, pick);
        tpt_val_t weight = tpt_ir_unsqueeze(ir, corner_weight(&g, ir, &c, pick, -1), 1);
        if (mask[0]) to_input = add_corner(&c, ir, to_input, tpt_ir_mul(ir, grad, weight));
        tpt_val_t match = tpt_ir_reduce(ir, TPT_IR_RED_ADD, tpt_ir_mul(ir, grad, read_corner(&g, ir, &c)), 1, &channel);
        for (int d = 0; d < g.n; d++) {
            tpt_val_t part = tpt_ir_mul(ir, match, corner_weight(&g, ir, &c, pick, d));
            to_axis[d] = to_axis[d] == TPT_VAL_NONE ? part : tpt_ir_add(ir, to_axis[d], part);
        }
    } while (next_pick(&g, pick));
    tpt_val_t columns[3];
    for (int d = 0; d < g.n; d++) columns[g.n - 1 - d] = tpt_ir_unsqueeze(ir, tpt_ir_mul(ir, to_axis[d], g.axes[d].factor), 2);
    tpt_val_t to_grid = tpt_ir_convert(ir, tpt_ir_concat(ir, g.n, columns, 2), g.dtype);
    if (mask[0]) tpt_lower_result(L, tpt_ir_reshape(ir, tpt_ir_convert(ir, to_input, g.dtype), it.rank, it.dims));
    tpt_lower_result(L, tpt_ir_reshape(ir, to_grid, gt.rank, gt.dims));
}
