/* key.c - the key of a call: op, types and attributes as 64-bit words, and apart from it the call's run-time numbers.
 *
 * What is in the key makes a new plan when it changes; what is in a slot never does: numbers, offsets of windows, random state. */
#include <string.h>

#include "run_internal.h"

static tpt_status_t *grow(uint64_t **words, uint32_t *capacity, uint32_t need, uint64_t *inline_words) {
    if (need <= *capacity) return NULL;
    size_t room = (size_t)*capacity * 2;
    while (room < need) room *= 2;
    if (room > TPT_MAX_SLOTS * 2) return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "a call has too many arguments");
    uint64_t *fresh = tpt_malloc(room * sizeof **words);
    if (!fresh) return tpt_status_oom(room * sizeof **words);
    memcpy(fresh, *words, *capacity * sizeof **words);
    if (*words != inline_words) tpt_free(*words);
    *words = fresh;
    *capacity = (uint32_t)room;
    return NULL;
}

static inline tpt_status_t *room_for(tpt_call_t *c, uint32_t key_words, uint32_t slots) {
    if (c->key_words + key_words > c->key_capacity)
        TPT_TRY(grow(&c->key, &c->key_capacity, c->key_words + key_words, c->inline_key));
    if (2 * (c->nnumbers + slots) > c->numbers_capacity)
        TPT_TRY(grow(&c->numbers, &c->numbers_capacity, 2 * (c->nnumbers + slots), c->inline_numbers));
    return NULL;
}

static inline void put(tpt_call_t *c, uint64_t word) { c->key[c->key_words++] = word; }
static inline void put_dims(tpt_call_t *c, int n, const int64_t *dims) {
    memcpy(c->key + c->key_words, dims, (size_t)n * sizeof *dims);
    c->key_words += (uint32_t)n;
}
static inline void put_slot(tpt_call_t *c, uint64_t a, uint64_t b) {
    c->numbers[2 * c->nnumbers] = a;
    c->numbers[2 * c->nnumbers + 1] = b;
    c->nnumbers++;
}

static tpt_status_t *key_tensor(tpt_call_t *c, const tpt_tensor_t *t) {
    if (!t->storage) {
        TPT_TRY(room_for(c, 1, 0));
        put(c, UINT64_MAX);
        return NULL;
    }
    if (t->rank > TPT_MAX_RANK)
        return tpt_status_make(TPT_UNIMPLEMENTED, "tensors of more than %d dimensions are not supported on tpu (got %d)",
                               TPT_MAX_RANK, t->rank);
    TPT_TRY(room_for(c, 2 + 5 * TPT_MAX_RANK, TPT_MAX_RANK));
    const tpt_type_t *base = &t->storage->type;
    if (tpt_view_is_same(base, t)) { /* the commonest: a whole, contiguous storage */
        put(c, (uint64_t)TPT_VIEW_SAME | (uint64_t)t->dtype << 8 | (uint64_t)t->conj << 16 | (uint64_t)t->neg << 17 |
                   (uint64_t)t->rank << 24 | (uint64_t)base->dtype << 32 | (uint64_t)base->rank << 40);
        put_dims(c, base->rank, base->dims);
        return NULL;
    }
    tpt_view_t view;
    int64_t starts[TPT_MAX_RANK];
    TPT_TRY(tpt_view_classify(base, t, &view, starts));
    put(c, (uint64_t)view.code | (uint64_t)t->dtype << 8 | (uint64_t)t->conj << 16 | (uint64_t)t->neg << 17 |
               (uint64_t)t->rank << 24 | (uint64_t)base->dtype << 32 | (uint64_t)base->rank << 40 |
               (uint64_t)view.ngroups << 48);
    put_dims(c, base->rank, base->dims);
    if (view.code != TPT_VIEW_SAME || view.bitcast) put_dims(c, t->rank, t->sizes);
    if (view.code == TPT_VIEW_GENERAL || view.code == TPT_VIEW_GATHER) {
        put_dims(c, t->rank, t->strides);
        put_dims(c, view.ngroups, view.group_dims);
        put(c, view.fixed);
        for (int k = 0; k < view.ngroups; k++)
            if (view.fixed >> k & 1) put(c, (uint64_t)view.fixed_starts[k]);
    }
    for (int i = 0; i < view.nstarts; i++) put_slot(c, (uint64_t)starts[i], 0);
    return NULL;
}

static void number_words(const tpt_number_t *n, uint64_t *a, uint64_t *b) {
    *a = (uint64_t)n->v.i;
    *b = 0;
    if (tpt_dtype_is_float((tpt_dtype_t)n->dtype) || tpt_dtype_is_complex((tpt_dtype_t)n->dtype)) {
        memcpy(a, &n->v.f[0], sizeof *a);
        if (tpt_dtype_is_complex((tpt_dtype_t)n->dtype)) memcpy(b, &n->v.f[1], sizeof *b);
    }
}

static tpt_status_t *key_number(tpt_call_t *c, const tpt_number_t *n, bool is_static) {
    TPT_TRY(room_for(c, 3, 1));
    uint64_t a, b;
    number_words(n, &a, &b);
    put(c, (uint64_t)n->dtype | (uint64_t)n->wrapped << 8 | (uint64_t)is_static << 9 | (uint64_t)tpt_number_is_twisted(n) << 10);
    if (is_static) {
        put(c, a);
        put(c, b);
    } else {
        put_slot(c, a, b);
    }
    return NULL;
}

/* Lists of equal numbers (the step sizes of an optimizer whose parameters are all at the same step) travel as one: then the
 * loops over items of one shape are the same code, which XLA compiles once. */
bool tpt_key_numbers_equal(const tpt_op_t *op, int i, const tpt_arg_t *arg) {
    if (arg->kind != TPT_ARG_NUMBERS || i >= 64 || (op->statics >> i & 1)) return false;
    const tpt_number_t *first = arg->u.numbers;
    uint64_t a, b, x, y;
    for (int k = 0; k < arg->count; k++) {
        number_words(&first[0], &a, &b);
        number_words(&first[k], &x, &y);
        if (first[k].dtype != first[0].dtype || first[k].wrapped != first[0].wrapped || x != a || y != b) return false;
    }
    return arg->count > 1;
}

static tpt_status_t *key_numbers(tpt_call_t *c, int i, bool is_static) {
    const tpt_arg_t *arg = &c->args[i];
    const bool equal = tpt_key_numbers_equal(c->op, i, arg);
    c->key[c->key_words - 1] |= (uint64_t)equal << 40;
    for (int k = 0; k < (equal ? 1 : arg->count); k++) TPT_TRY(key_number(c, &arg->u.numbers[k], is_static));
    return NULL;
}

static tpt_status_t *key_arg(tpt_call_t *c, int i) {
    const tpt_arg_t *arg = &c->args[i];
    bool is_static = i < 64 && (c->op->statics >> i & 1);
    TPT_TRY(room_for(c, 2, 1));
    put(c, (uint64_t)arg->kind | (uint64_t)(uint32_t)arg->count << 8);
    switch ((tpt_arg_kind_t)arg->kind) {
        case TPT_ARG_NONE: return NULL;
        case TPT_ARG_TENSOR: return key_tensor(c, &arg->u.tensor);
        case TPT_ARG_TENSORS:
            for (int k = 0; k < arg->count; k++) TPT_TRY(key_tensor(c, &arg->u.tensors[k]));
            return NULL;
        case TPT_ARG_NUMBER: return key_number(c, &arg->u.number, tpt_op_number_is_static(c->op, i, &arg->u.number));
        case TPT_ARG_NUMBERS: return key_numbers(c, i, is_static);
        case TPT_ARG_INT:
        case TPT_ARG_BOOL:
        case TPT_ARG_DTYPE: put(c, (uint64_t)arg->u.i); return NULL;
        case TPT_ARG_INTS:
        case TPT_ARG_BOOLS:
            TPT_TRY(room_for(c, (uint32_t)arg->count, 0));
            put_dims(c, arg->count, arg->u.ints);
            return NULL;
        case TPT_ARG_STRING: {
            uint32_t words = ((uint32_t)arg->count + 7) / 8;
            TPT_TRY(room_for(c, words, 0));
            memset(c->key + c->key_words, 0, words * sizeof *c->key);
            memcpy(c->key + c->key_words, arg->u.string.text, (size_t)arg->count);
            c->key_words += words;
            return NULL;
        }
        case TPT_ARG_RNG: put_slot(c, arg->u.rng.seed, arg->u.rng.offset); return NULL;
    }
    return tpt_status_make(TPT_INTERNAL, "unknown argument kind %d", arg->kind);
}

tpt_status_t *tpt_key_make(tpt_call_t *c) {
    put(c, c->op->id | (uint64_t)c->nargs << 32 | (uint64_t)tpt_precision_get() << 48 |
               (uint64_t)tpt_index_checks_on() << 52);
    for (int i = 0; i < c->nargs; i++) TPT_TRY(key_arg(c, i));
    c->hash = tpt_hash64(c->key, c->key_words * sizeof *c->key);
    return NULL;
}
