/* formula.h - elementwise formulas over float32 arrays, run step by step on blocks that stay in the nearest cache. Compiling such
 * loops takes longer than a training step of a small model; the steps are exact to the last bit, as compiled ones are. */
#ifndef TPT_BASE_FORMULA_H
#define TPT_BASE_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPT_FORMULA_STEPS 24 /* of one item at most; each makes a slot of its own number */

/* What a step makes of slots a, b, c. */
#define TPT_FORMULA_OPS(X) \
    X(LOAD)   /* array a */ \
    X(NUMBER) /* element b of array a, everywhere */ \
    X(CONST)  /* the float32 of bits a, everywhere */ \
    X(ADD) X(SUB) X(MUL) X(DIV) \
    X(MAX) X(MIN) /* NaN if a or b is */ \
    X(SQRT) X(NEG) X(ABS) \
    X(LT) X(LE) X(EQ) /* 1 or 0 */ \
    X(NOT)    /* 1 - a, of 1 or 0 */ \
    X(SELECT) /* a != 0 ? b : c */ \
    X(STORE)  /* a into result b */
typedef enum tpt_formula_op {
#define TPT_FORMULA_ENUM(name) TPT_FORMULA_##name,
    TPT_FORMULA_OPS(TPT_FORMULA_ENUM) TPT_FORMULA_COUNT
#undef TPT_FORMULA_ENUM
} tpt_formula_op_t;

typedef struct tpt_formula_step {
    int64_t op, a, b, c;
} tpt_formula_step_t;

/* One of several formulas: `steps` over `numel` elements; the first `once` of them are equal for all elements. */
typedef struct tpt_formula_item {
    int64_t numel, once, nsteps;
    const tpt_formula_step_t *steps;
} tpt_formula_item_t;

/* Is each step's number, slot, array and result there? */
bool tpt_formula_check(const tpt_formula_item_t *item, int64_t narrays, int64_t nresults);
/* Elements first .. last - 1; results may be the arrays that they are made of. Threads may do different elements at once. */
void tpt_formula_run(const tpt_formula_item_t *item, const float *const *arrays, float *const *results, int64_t first, int64_t last);

#endif
