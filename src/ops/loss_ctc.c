/* loss_ctc.c - connectionist temporal classification: forward-backward over the targets with blanks between them.
 *
 * Lengths come as tensors, so that other lengths are no other program (torch_tpu/_composed.py makes tensors of lists). Places
 * past a target's end hold anything: nothing that is read depends on them. */
#include <math.h>

#include "ops/nn.h"
#include "ops/shape.h"

typedef struct ctc {
    tpt_lower_t *L;
    int64_t steps, batch, classes, places; /* T, N, C, 2 S + 1 */
    tpt_dtype_t dtype;
    tpt_val_t log_probs;                    /* [T, N, C] */
    tpt_val_t label;                        /* I64 [N, places]: target or blank, valid classes */
    tpt_val_t emit;                         /* [T, N, places]: log_probs at the labels */
    tpt_val_t input_length, target_length;  /* I64 [N, 1] */
    tpt_val_t place;                        /* I64 [N, places] */
    tpt_val_t skips;                        /* bool [N, places]: may follow the place two before it */
} ctc_t;

static tpt_val_t int_of(const ctc_t *c, int64_t v) { return tpt_ir_const_i(c->L->ir, TPT_I64, v); }

static tpt_val_t nothing(const ctc_t *c) { return tpt_ir_const_f(c->L->ir, c->dtype, -INFINITY); }

static tpt_val_t lengths(tpt_lower_t *L, const char *name, int64_t batch) {
    tpt_val_t v = tpt_ir_convert(L->ir, tpt_lower_tensor(L, name), TPT_I64);
    return tpt_ir_reshape(L->ir, v, 2, (const int64_t[]){batch, 1});
}

/* Labels of the targets as [N, S]: rows of a matrix, or one list of all targets that is cut by their lengths. */
static tpt_val_t target_rows(const ctc_t *c, tpt_val_t targets) {
    tpt_ir_t *ir = c->L->ir;
    const int64_t size = (c->places - 1) / 2;
    targets = tpt_ir_convert(ir, targets, TPT_I64);
    if (tpt_ir_rank(ir, targets) == 2 || size == 0) return targets;
    /* Where each row begins: the lengths of the rows before it. A batch is short, so all pairs will do. */
    const int64_t square[2] = {c->batch, c->batch};
    tpt_type_t pair = tpt_type_make(TPT_I64, 2, square);
    tpt_val_t before = tpt_ir_compare(ir, TPT_IR_LT, tpt_ir_iota(ir, pair, 0), tpt_ir_iota(ir, pair, 1));
    tpt_val_t spread = tpt_ir_select(ir, before, tpt_ir_broadcast_to(ir, c->target_length, 2, square), int_of(c, 0));
    tpt_val_t start = tpt_ir_reduce(ir, TPT_IR_RED_ADD, spread, 1, (const int64_t[]){0});
    start = tpt_ir_reshape(ir, start, 2, (const int64_t[]){c->batch, 1});
    tpt_val_t along = tpt_ir_iota(ir, tpt_type_make(TPT_I64, 2, (const int64_t[]){c->batch, size}), 1);
    tpt_val_t at = tpt_ir_min(ir, tpt_ir_add(ir, along, start), int_of(c, size - 1));
    return tpt_index_take(ir, targets, 0, at);
}

/* Blanks between, before and behind the targets. */
static tpt_val_t with_blanks(const ctc_t *c, tpt_val_t targets, tpt_val_t blank) {
    if (c->places == 1) {
        const int64_t one[2] = {c->batch, 1};
        return tpt_ir_broadcast_to(c->L->ir, blank, 2, one);
    }
    return tpt_ir_pad(c->L->ir, targets, blank, (const int64_t[]){0, 1}, (const int64_t[]){0, 1}, (const int64_t[]){0, 1});
}

/* x moved along the places: place s gets what s - by had. */
static tpt_val_t moved(const ctc_t *c, tpt_val_t x, int64_t by) {
    int64_t low[2] = {0, by}, high[2] = {0, -by};
    tpt_val_t fill = tpt_ir_dtype(c->L->ir, x) == TPT_I64 ? int_of(c, -1) : nothing(c);
    return tpt_ir_pad(c->L->ir, x, fill, low, high, NULL);
}

static bool read_ctc(tpt_lower_t *L, ctc_t *c) {
    tpt_ir_t *ir = L->ir;
    tpt_val_t x = tpt_lower_tensor(L, "log_probs"), targets = tpt_lower_tensor(L, "targets");
    if (tpt_ir_status(ir) != NULL) return false;
    if (tpt_ir_rank(ir, x) != 3 || tpt_ir_rank(ir, targets) < 1 || tpt_ir_rank(ir, targets) > 2 || tpt_ir_numel(ir, x) == 0) {
        (void)tpt_lower_fail(L, TPT_INVALID_ARGUMENT, "log_probs tensor must not be empty");
        return false;
    }
    const int64_t size = tpt_ir_dim(ir, targets, -1);
    *c = (ctc_t){.L = L, .steps = tpt_ir_dim(ir, x, 0), .batch = tpt_ir_dim(ir, x, 1), .classes = tpt_ir_dim(ir, x, 2),
                 .places = 2 * size + 1, .dtype = tpt_ir_dtype(ir, x), .log_probs = x};
    c->input_length = lengths(L, "input_lengths", c->batch);
    c->target_length = lengths(L, "target_lengths", c->batch);
    tpt_val_t blank = int_of(c, tpt_lower_int(L, "blank", 0));
    c->label = with_blanks(c, target_rows(c, targets), blank);
    c->label = tpt_ir_max(ir, tpt_ir_min(ir, c->label, int_of(c, c->classes - 1)), int_of(c, 0));
    c->place = tpt_ir_iota(ir, *tpt_ir_type(ir, c->label), 1);
    c->skips = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_NE, c->label, moved(c, c->label, 2)),
                          tpt_ir_compare(ir, TPT_IR_GE, c->place, int_of(c, 2)));
    /* emit[t, n, s] = log_probs[t, n, label[n, s]] */
    tpt_ir_gather_t g = {.n_offset = 1, .n_collapsed = 1, .n_batch = 1, .n_start = 1, .offset_dims = {2},
                         .collapsed_slice_dims = {2}, .operand_batching_dims = {1}, .start_indices_batching_dims = {0},
                         .start_index_map = {2}, .index_vector_dim = 2, .slice_sizes = {c->steps, 1, 1}};
    c->emit = tpt_ir_gather(ir, x, c->label, &g); /* [N, places, T] */
    c->emit = tpt_ir_transpose(ir, c->emit, (const int64_t[]){2, 0, 1});
    return tpt_ir_status(ir) == NULL;
}

/* log(exp(a) + exp(b) + exp(c)) */
static tpt_val_t log_sum(const ctc_t *c, tpt_val_t x, tpt_val_t y, tpt_val_t z) {
    tpt_ir_t *ir = c->L->ir;
    tpt_val_t most = tpt_ir_max(ir, tpt_ir_max(ir, x, y), z);
    most = tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, most, nothing(c)), tpt_ir_const_f(ir, c->dtype, 0), most);
    tpt_val_t sum = tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, x, most));
    sum = tpt_ir_add(ir, sum, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, y, most)));
    sum = tpt_ir_add(ir, sum, tpt_ir_unary(ir, TPT_IR_EXP, tpt_ir_sub(ir, z, most)));
    return tpt_ir_add(ir, tpt_ir_unary(ir, TPT_IR_LOG, sum), most);
}

/* One step of either walk: from the places' log probabilities at the step before (or behind) to those at step t. */
static tpt_val_t forward_step(const ctc_t *c, tpt_val_t t, tpt_val_t before, tpt_val_t emit) {
    tpt_ir_t *ir = c->L->ir;
    tpt_val_t two = tpt_ir_select(ir, c->skips, moved(c, before, 2), nothing(c));
    tpt_val_t walked = log_sum(c, before, moved(c, before, 1), two);
    tpt_val_t first = tpt_ir_compare(ir, TPT_IR_LT, c->place, int_of(c, 2));
    first = tpt_ir_select(ir, first, tpt_ir_const_f(ir, c->dtype, 0), nothing(c));
    return tpt_ir_add(ir, tpt_ir_select(ir, tpt_ir_compare(ir, TPT_IR_EQ, t, int_of(c, 0)), first, walked), emit);
}

static tpt_val_t backward_step(const ctc_t *c, tpt_val_t t, tpt_val_t behind, tpt_val_t emit) {
    tpt_ir_t *ir = c->L->ir;
    tpt_val_t two = tpt_ir_select(ir, c->skips, behind, nothing(c));
    tpt_val_t walked = log_sum(c, behind, moved(c, behind, -1), moved(c, two, -2));
    tpt_val_t end = tpt_ir_mul(ir, c->target_length, int_of(c, 2));
    tpt_val_t last = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_LE, c->place, end),
                                tpt_ir_compare(ir, TPT_IR_GE, c->place, tpt_ir_sub(ir, end, int_of(c, 1))));
    last = tpt_ir_select(ir, last, tpt_ir_const_f(ir, c->dtype, 0), nothing(c));
    tpt_val_t ends = tpt_ir_compare(ir, TPT_IR_EQ, tpt_ir_add(ir, t, int_of(c, 1)), c->input_length);
    tpt_val_t at_end = tpt_ir_broadcast_to(ir, ends, 2, (const int64_t[]){c->batch, c->places});
    return tpt_ir_add(ir, tpt_ir_select(ir, at_end, last, walked), emit);
}

/* All steps: [T, N, places]. */
static tpt_val_t walk(const ctc_t *c, bool forward) {
    tpt_ir_t *ir = c->L->ir;
    const int64_t one_step[3] = {1, c->batch, c->places}, plane[2] = {c->batch, c->places};
    tpt_type_t type = tpt_type_make(c->dtype, 2, plane);
    tpt_val_t inits[3] = {int_of(c, forward ? 0 : c->steps - 1), tpt_ir_full_f(ir, type, -INFINITY), c->emit}, args[3], out[3];
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    tpt_val_t more = tpt_ir_compare(ir, forward ? TPT_IR_LT : TPT_IR_GE, args[0], int_of(c, forward ? c->steps : 0));
    tpt_region_t cond = tpt_ir_region_end(ir, 1, &more);
    tpt_ir_region_begin(ir);
    for (int i = 0; i < 3; i++) args[i] = tpt_ir_region_arg(ir, *tpt_ir_type(ir, inits[i]));
    /* The result grows over the emissions that have been used. */
    tpt_val_t starts[3] = {args[0], int_of(c, 0), int_of(c, 0)};
    tpt_val_t emit = tpt_ir_reshape(ir, tpt_ir_dynamic_slice(ir, args[2], starts, one_step), 2, plane);
    tpt_val_t here = forward ? forward_step(c, args[0], args[1], emit) : backward_step(c, args[0], args[1], emit);
    tpt_val_t next[3] = {tpt_ir_add(ir, args[0], int_of(c, forward ? 1 : -1)), here,
                         tpt_ir_dynamic_update_slice(ir, args[2], tpt_ir_reshape(ir, here, 3, one_step), starts)};
    tpt_region_t body = tpt_ir_region_end(ir, 3, next);
    tpt_ir_while(ir, 3, inits, cond, body, out);
    return out[2];
}

/* Loss of each sample [N] and the forward walk [N, T, places], which the gradient needs. */
void tpt_ops_ctc_loss(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    ctc_t c;
    if (!read_ctc(L, &c)) return;
    tpt_val_t alpha = walk(&c, true);
    /* The last step's last two places. Picked by a mask: one element each, so a maximum picks it. */
    const int64_t cube[3] = {c.steps, c.batch, c.places};
    tpt_val_t step = tpt_ir_iota(ir, tpt_type_make(TPT_I64, 3, cube), 0);
    tpt_val_t ended = tpt_ir_compare(ir, TPT_IR_EQ, tpt_ir_add(ir, step, int_of(&c, 1)),
                                     tpt_ir_reshape(ir, c.input_length, 3, (const int64_t[]){1, c.batch, 1}));
    tpt_val_t last = tpt_ir_select(ir, ended, alpha, nothing(&c));
    last = tpt_ir_reduce(ir, TPT_IR_RED_MAX, last, 1, (const int64_t[]){0});
    tpt_val_t end = tpt_ir_mul(ir, c.target_length, int_of(&c, 2)), lost = nothing(&c), ends[2];
    for (int i = 0; i < 2; i++) {
        tpt_val_t there = tpt_ir_compare(ir, TPT_IR_EQ, c.place, tpt_ir_sub(ir, end, int_of(&c, i)));
        ends[i] = tpt_ir_select(ir, there, last, lost);
        ends[i] = tpt_ir_reduce(ir, TPT_IR_RED_MAX, ends[i], 1, (const int64_t[]){1});
    }
    tpt_val_t loss = tpt_ir_neg(ir, log_sum(&c, ends[0], ends[1], lost));
    /* No input: certain if there is no target either. */
    tpt_val_t empty = tpt_ir_and(ir, tpt_ir_compare(ir, TPT_IR_EQ, c.input_length, int_of(&c, 0)),
                                 tpt_ir_compare(ir, TPT_IR_EQ, c.target_length, int_of(&c, 0)));
    empty = tpt_ir_reshape(ir, empty, 1, &c.batch);
    tpt_lower_result(L, tpt_ir_select(ir, empty, tpt_ir_const_f(ir, c.dtype, 0), loss));
    tpt_lower_result(L, tpt_ir_transpose(ir, alpha, (const int64_t[]){1, 0, 2}));
}

void tpt_ops_ctc_loss_backward(tpt_lower_t *L) {
    tpt_ir_t *ir = L->ir;
    ctc_t c;
    if (!read_ctc(L, &c)) return;
    tpt_val_t alpha = tpt_ir_transpose(ir, tpt_lower_tensor(L, "log_alpha"), (const int64_t[]){1, 0, 2});
    tpt_val_t beta = walk(&c, false), lost = nothing(&c), zero = tpt_ir_const_f(ir, c.dtype, 0);
    const int64_t over[3] = {1, c.batch, 1};
    tpt_val_t loss = tpt_ir_reshape(ir, tpt_lower_tensor(L, "neg_log_likelihood"), 3, over);
    tpt_val_t grad = tpt_ir_reshape(ir, tpt_lower_tensor(L, "grad"), 3, over);
    /* Probability of being at a place, given the target; the emission is in both walks. */
    tpt_val_t both = tpt_ir_add(ir, alpha, beta);
    tpt_val_t posterior = tpt_ir_add(ir, tpt_ir_sub(ir, both, c.emit), loss);
    tpt_val_t never = tpt_ir_compare(ir, TPT_IR_EQ, both, lost);
    tpt_val_t inside = tpt_ir_compare(ir, TPT_IR_LE, c.place, tpt_ir_mul(ir, c.target_length, int_of(&c, 2)));
    inside = tpt_ir_reshape(ir, inside, 3, (const int64_t[]){1, c.batch, c.places});
    posterior = tpt_ir_select(ir, tpt_ir_or(ir, never, tpt_ir_not(ir, inside)), zero, tpt_ir_unary(ir, TPT_IR_EXP, posterior));
    tpt_type_t type = *tpt_ir_type(ir, c.log_probs);
    const int64_t cube[3] = {c.steps, c.batch, c.places};
    tpt_val_t label = tpt_ir_reshape(ir, c.label, 3, (const int64_t[]){1, c.batch, c.places});
    tpt_val_t sums = tpt_index_scatter_elements(ir, TPT_IR_SCATTER_ADD, tpt_shape_zeros_type(ir, type), 2,
                                                tpt_ir_broadcast_to(ir, label, 3, cube), posterior);
    /* An impossible class, or an impossible target, has no gradient to speak of. */
    tpt_val_t impossible = tpt_ir_compare(ir, TPT_IR_EQ, loss, tpt_ir_const_f(ir, c.dtype, INFINITY));
    tpt_val_t bad = tpt_ir_or(ir, tpt_ir_compare(ir, TPT_IR_EQ, c.log_probs, lost), impossible);
    sums = tpt_ir_select(ir, bad, tpt_ir_const_f(ir, c.dtype, NAN), sums);
    tpt_val_t out = tpt_ir_mul(ir, tpt_ir_sub(ir, tpt_ir_unary(ir, TPT_IR_EXP, c.log_probs), sums), grad);
    tpt_val_t step = tpt_ir_iota(ir, tpt_type_make(TPT_I64, 3, type.dims), 0);
    tpt_val_t past = tpt_ir_compare(ir, TPT_IR_GE, step, tpt_ir_reshape(ir, c.input_length, 3, over));
    if (tpt_lower_bool(L, "zero_infinity", false)) past = tpt_ir_or(ir, past, impossible);
    tpt_lower_result(L, tpt_ir_select(ir, past, zero, out));
}
