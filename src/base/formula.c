/* formula.c - elementwise formulas, step by step on blocks. */
#include "base/formula.h"

#include <math.h>
#include <string.h>

#define BLOCK 512 /* elements: 24 slots of it are 48 KB */

/* Slots that a step reads. */
static int operands(int64_t op) {
    switch (op) {
        case TPT_FORMULA_LOAD: case TPT_FORMULA_NUMBER: case TPT_FORMULA_CONST: return 0;
        case TPT_FORMULA_SQRT: case TPT_FORMULA_NEG: case TPT_FORMULA_ABS: case TPT_FORMULA_NOT: case TPT_FORMULA_STORE: return 1;
        case TPT_FORMULA_SELECT: return 3;
        default: return 2;
    }
}

bool tpt_formula_check(const tpt_formula_item_t *item, int64_t narrays, int64_t nresults) {
    if (item->numel < 0 || item->nsteps < 0 || item->nsteps > TPT_FORMULA_STEPS || item->once < 0 || item->once > item->nsteps) return false;
    for (int64_t i = 0; i < item->nsteps; i++) {
        const tpt_formula_step_t *s = &item->steps[i];
        const int64_t slots[3] = {s->a, s->b, s->c};
        if (s->op < 0 || s->op >= TPT_FORMULA_COUNT) return false;
        for (int k = 0; k < operands(s->op); k++)
            if (slots[k] < 0 || slots[k] >= i || (i < item->once && slots[k] >= item->once)) return false;
        const bool reads = s->op == TPT_FORMULA_LOAD || s->op == TPT_FORMULA_NUMBER;
        if (reads && (s->a < 0 || s->a >= narrays || s->b < 0)) return false;
        if (s->op == TPT_FORMULA_STORE && (s->b < 0 || s->b >= nresults)) return false;
        if (i < item->once && (s->op == TPT_FORMULA_LOAD || s->op == TPT_FORMULA_STORE)) return false;
    }
    return true;
}

/* The widest vectors that the processor has; single operations, so that nothing is fused to other bits. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define WIDE
#endif

/* d may be a, b or c, element by element. */
#define EACH(expr) \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) d[i] = (expr)

WIDE static void step(int64_t op, int64_t n, float *d, const float *a, const float *b, const float *c) {
    switch (op) {
        case TPT_FORMULA_ADD: EACH(a[i] + b[i]); break;
        case TPT_FORMULA_SUB: EACH(a[i] - b[i]); break;
        case TPT_FORMULA_MUL: EACH(a[i] * b[i]); break;
        case TPT_FORMULA_DIV: EACH(a[i] / b[i]); break;
        case TPT_FORMULA_MAX: EACH(a[i] > b[i] || isnan(a[i]) ? a[i] : b[i]); break;
        case TPT_FORMULA_MIN: EACH(a[i] < b[i] || isnan(a[i]) ? a[i] : b[i]); break;
        case TPT_FORMULA_SQRT: EACH(sqrtf(a[i])); break;
        case TPT_FORMULA_NEG: EACH(-a[i]); break;
        case TPT_FORMULA_ABS: EACH(fabsf(a[i])); break;
        case TPT_FORMULA_LT: EACH(a[i] < b[i] ? 1.0F : 0.0F); break;
        case TPT_FORMULA_LE: EACH(a[i] <= b[i] ? 1.0F : 0.0F); break;
        case TPT_FORMULA_EQ: EACH(a[i] == b[i] ? 1.0F : 0.0F); break;
        case TPT_FORMULA_NOT: EACH(1.0F - a[i]); break;
        case TPT_FORMULA_SELECT: EACH(a[i] != 0.0F ? b[i] : c[i]); break;
        default: break;
    }
}

/* Steps from .. to - 1 on elements at .. at + n - 1. `slots`: where each step's values lie. */
static void run_steps(const tpt_formula_item_t *item, int64_t from, int64_t to, const float *const *arrays, float *const *results,
                      float (*room)[BLOCK], const float **slots, int64_t at, int64_t n) {
    for (int64_t i = from; i < to; i++) {
        const tpt_formula_step_t *s = &item->steps[i];
        const bool stored = i + 1 < to && s[1].op == TPT_FORMULA_STORE && s[1].a == i && operands(s->op) > 0;
        float *d = stored ? results[s[1].b] + at : room[i];
        slots[i] = d;
        switch (s->op) {
            case TPT_FORMULA_LOAD: slots[i] = arrays[s->a] + at; break;
            case TPT_FORMULA_NUMBER: for (int64_t k = 0; k < n; k++) d[k] = arrays[s->a][s->b]; break;
            case TPT_FORMULA_CONST: {
                const uint32_t bits = (uint32_t)s->a;
                float value;
                memcpy(&value, &bits, sizeof value);
                for (int64_t k = 0; k < n; k++) d[k] = value;
                break;
            }
            case TPT_FORMULA_STORE: if (slots[s->a] != results[s->b] + at) memmove(results[s->b] + at, slots[s->a], (size_t)n * sizeof(float)); break;
            default: {
                const int count = operands(s->op);
                step(s->op, n, d, slots[s->a], count > 1 ? slots[s->b] : NULL, count > 2 ? slots[s->c] : NULL);
            }
        }
    }
}

void tpt_formula_run(const tpt_formula_item_t *item, const float *const *arrays, float *const *results, int64_t first, int64_t last) {
    float room[TPT_FORMULA_STEPS][BLOCK];
    const float *slots[TPT_FORMULA_STEPS];
    run_steps(item, 0, item->once, arrays, results, room, slots, 0, BLOCK);
    for (int64_t at = first; at < last; at += BLOCK) {
        const int64_t n = last - at < BLOCK ? last - at : BLOCK;
        run_steps(item, item->once, item->nsteps, arrays, results, room, slots, at, n);
    }
}
