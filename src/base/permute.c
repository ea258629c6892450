/* permute.c - a dense array with its dimensions in another order. XLA's CPU compiler writes this as a plain loop, one element a
 * nanosecond; here a block of rows is read along lines of the cache and turned in registers. */
#include "base/permute.h"

#include <string.h>

#define BLOCK 16 /* rows of a piece: those whose elements share a line of the cache on the way in */

bool tpt_permute_plan(tpt_permute_t *plan, size_t size, int rank, const int64_t *in_dims, const int64_t *perm) {
    if (rank > TPT_PERMUTE_RANK || size == 0 || size > 16 || (size & (size - 1)) != 0) return false;
    int64_t strides[TPT_PERMUTE_RANK], stride = 1;
    for (int i = rank - 1; i >= 0; i--) strides[i] = stride, stride *= in_dims[i];
    *plan = (tpt_permute_t){.size = size, .pieces = stride > 0};
    for (int k = 0; k < rank; k++) {
        const int64_t dim = in_dims[perm[k]], from = strides[perm[k]];
        const int last = plan->rank - 1;
        if (dim == 1) continue;
        if (last >= 0 && plan->from[last] == dim * from) {
            plan->dims[last] *= dim;
            plan->from[last] = from;
        } else {
            plan->dims[plan->rank] = dim;
            plan->from[plan->rank++] = from;
        }
    }
    if (plan->rank == 0) plan->dims[0] = plan->from[0] = plan->rank = 1;
    stride = 1;
    for (int k = plan->rank - 1; k >= 0; k--) {
        plan->to[k] = stride;
        stride *= plan->dims[k];
        if (plan->from[k] == 1) plan->across = k;
    }
    for (int k = 0; k < plan->rank - 1; k++)
        plan->pieces *= k == plan->across ? (plan->dims[k] + BLOCK - 1) / BLOCK : plan->dims[k];
    return true;
}

/* ---- a block of rows by all columns: out[r, c] = in[c, r]; strides in elements ------------------------------------------- */

#define TURN_ONE(type, out, in, r, c) (out)[(r) * to + (c)] = (in)[(c) * from + (r)]

#define DEFINE_TURN(name, type)                                                                                     \
    static void name(type *restrict out, const type *restrict in, int64_t rows, int64_t cols, int64_t to, int64_t from) { \
        for (int64_t c0 = 0; c0 < cols; c0 += BLOCK) {                                                              \
            const int64_t end = c0 + BLOCK < cols ? c0 + BLOCK : cols;                                              \
            for (int64_t r = 0; r < rows; r++)                                                                      \
                for (int64_t c = c0; c < end; c++) TURN_ONE(type, out, in, r, c);                                   \
        }                                                                                                           \
    }
typedef struct sixteen {
    uint64_t half[2];
} sixteen_t;
DEFINE_TURN(turn_1, uint8_t)
DEFINE_TURN(turn_2, uint16_t)
DEFINE_TURN(turn_8, uint64_t)
DEFINE_TURN(turn_16, sixteen_t)

typedef uint32_t four_t __attribute__((vector_size(16)));

static four_t load(const uint32_t *at) {
    four_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void store(uint32_t *at, four_t value) { memcpy(at, &value, sizeof value); }

/* Four by four in registers. */
static void turn_square(uint32_t *restrict out, const uint32_t *restrict in, int64_t to, int64_t from) {
    const four_t a = load(in), b = load(in + from), c = load(in + 2 * from), d = load(in + 3 * from);
    const four_t ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four_t ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(out, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store(out + to, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store(out + 2 * to, __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5));
    store(out + 3 * to, __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7));
}

static void turn_4(uint32_t *restrict out, const uint32_t *restrict in, int64_t rows, int64_t cols, int64_t to, int64_t from) {
    const int64_t whole_rows = rows & ~(int64_t)3, whole_cols = cols & ~(int64_t)3;
    for (int64_t c = 0; c < whole_cols; c += 4) {
        for (int64_t r = 0; r < whole_rows; r += 4) turn_square(out + r * to + c, in + c * from + r, to, from);
        for (int64_t r = whole_rows; r < rows; r++)
            for (int64_t i = c; i < c + 4; i++) TURN_ONE(uint32_t, out, in, r, i);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = whole_cols; c < cols; c++) TURN_ONE(uint32_t, out, in, r, c);
}

static void turn(size_t size, void *out, const void *in, int64_t rows, int64_t cols, int64_t to, int64_t from) {
    switch (size) {
        case 1: turn_1(out, in, rows, cols, to, from); break;
        case 2: turn_2(out, in, rows, cols, to, from); break;
        case 4: turn_4(out, in, rows, cols, to, from); break;
        case 8: turn_8(out, in, rows, cols, to, from); break;
        default: turn_16(out, in, rows, cols, to, from); break;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------------------------------- */

void tpt_permute_run(const tpt_permute_t *plan, void *out, const void *in, int64_t first, int64_t last) {
    const int end = plan->rank - 1;
    const int64_t size = (int64_t)plan->size, cols = plan->dims[end];
    for (int64_t piece = first; piece < last; piece++) {
        int64_t rest = piece, to = 0, from = 0, rows = 1;
        for (int k = end - 1; k >= 0; k--) {
            const bool blocks = k == plan->across;
            const int64_t count = blocks ? (plan->dims[k] + BLOCK - 1) / BLOCK : plan->dims[k];
            const int64_t at = rest % count * (blocks ? BLOCK : 1);
            rest /= count;
            to += at * plan->to[k];
            from += at * plan->from[k];
            if (blocks) rows = plan->dims[k] - at < BLOCK ? plan->dims[k] - at : BLOCK;
        }
        char *o = (char *)out + to * size;
        const char *i = (const char *)in + from * size;
        if (plan->across == end) memcpy(o, i, (size_t)(cols * size));
        else turn(plan->size, o, i, rows, cols, plan->to[plan->across], plan->from[end]);
    }
}
