/* rows.c - gathers the rows of all *.def files into one array, and finds them by name.
 *
 * A line of a .def file is one of
 *   TPT_EXPR("add.Tensor", SAME, "self + alpha * other")        elementwise; SAME, EXACT, FLOAT or NONE: tpt_promote_t
 *   TPT_EXPR_STATIC(name, promote, expr, "exponent")             some numbers are part of the plan's key
 *   TPT_FUNC("sum", TPT flags or 0, lower_fn, data)              a lowering function `void lower_fn(tpt_lower_t *L)`
 *   TPT_FUNC_STATIC(name, flags, lower_fn, data, statics)
 *   TPT_FUNC_WRITES(name, flags, lower_fn, data, writes, writes_if)
 *   TPT_HOST("linalg_eig")                                       a host routine: PyTorch's cpu kernel between two copies
 * without a comma or semicolon behind it. Prototypes of the functions are made from the same lines. */
#include "ops/ops.h"
#include "ops/refuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

#define TPT_EXPR(name, promote, expr)
#define TPT_EXPR_STATIC(name, promote, expr, statics)
#define TPT_FUNC(name, flags, fn, data) void fn(tpt_lower_t *L);
#define TPT_FUNC_STATIC(name, flags, fn, data, statics) void fn(tpt_lower_t *L);
#define TPT_FUNC_WRITES(name, flags, fn, data, writes, writes_if) void fn(tpt_lower_t *L);
#define TPT_HOST(name)
#include "all.def"
#undef TPT_EXPR
#undef TPT_EXPR_STATIC
#undef TPT_FUNC
#undef TPT_FUNC_STATIC
#undef TPT_FUNC_WRITES
#undef TPT_HOST
#undef TPT_NO_BOOL
#undef TPT_ORTHOGONAL

#define TPT_EXPR(name, promote, expr) {name, 0, TPT_PROMOTE_##promote, expr, NULL, 0, NULL, NULL, NULL},
#define TPT_EXPR_STATIC(name, promote, expr, statics) {name, 0, TPT_PROMOTE_##promote, expr, NULL, 0, statics, NULL, NULL},
#define TPT_FUNC(name, flags, fn, data) {name, flags, TPT_PROMOTE_NONE, NULL, fn, data, NULL, NULL, NULL},
#define TPT_FUNC_STATIC(name, flags, fn, data, statics) {name, flags, TPT_PROMOTE_NONE, NULL, fn, data, statics, NULL, NULL},
#define TPT_FUNC_WRITES(name, flags, fn, data, writes, writes_if) \
    {name, flags, TPT_PROMOTE_NONE, NULL, fn, data, NULL, writes, writes_if},
#define TPT_HOST(name) {name, TPT_ROW_HOST, TPT_PROMOTE_NONE, NULL, NULL, 0, NULL, NULL, NULL},
static const struct tpt_row tpt_rows[] = {
#include "all.def"
};
#define TPT_ROWS (sizeof tpt_rows / sizeof tpt_rows[0])

/* Order by name, made once: the tables themselves stay in the order that reads best. */
static uint16_t tpt_rows_sorted[TPT_ROWS];
static pthread_once_t tpt_rows_once = PTHREAD_ONCE_INIT;

static int tpt_rows_by_name(const void *a, const void *b) {
    return strcmp(tpt_rows[*(const uint16_t *)a].name, tpt_rows[*(const uint16_t *)b].name);
}

static void tpt_rows_sort(void) {
    for (size_t i = 0; i < TPT_ROWS; i++) tpt_rows_sorted[i] = (uint16_t)i;
    qsort(tpt_rows_sorted, TPT_ROWS, sizeof tpt_rows_sorted[0], tpt_rows_by_name);
}

size_t tpt_row_count(void) { return TPT_ROWS; }

const tpt_row_t *tpt_row_at(size_t i) {
    (void)pthread_once(&tpt_rows_once, tpt_rows_sort);
    return i < TPT_ROWS ? &tpt_rows[tpt_rows_sorted[i]] : NULL;
}

const tpt_row_t *tpt_row_find(const char *name) {
    (void)pthread_once(&tpt_rows_once, tpt_rows_sort);
    size_t low = 0, high = TPT_ROWS;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, tpt_rows[tpt_rows_sorted[mid]].name);
        if (order == 0) return &tpt_rows[tpt_rows_sorted[mid]];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const char *tpt_row_name(const tpt_row_t *row) { return row->name; }

uint32_t tpt_row_flags(const tpt_row_t *row) { return row->flags; }

void tpt_row_lower(tpt_lower_t *L) {
    tpt_refuse_dtypes(L);
    if (tpt_ir_status(L->ir) != NULL) return;
    if (L->row->expr == NULL) {
        L->row->lower(L);
        return;
    }
    tpt_expr_lower(L);
    tpt_refuse_divisors(L);
}
