/* special.c - parts of special functions that need C: the fitted polynomials, and Euclid's loop. */
#include "ops/special.h"

#include <string.h>

#include "ops/special_tables.h"

typedef struct table {
    const char *name;
    const double *c32, *c64;
    int n32, n64;
} table_t;

#define TABLE(name)                                                                                                 \
    {#name, tpt_poly_##name##_32, tpt_poly_##name##_64, (int)(sizeof tpt_poly_##name##_32 / sizeof(double)),       \
     (int)(sizeof tpt_poly_##name##_64 / sizeof(double))},
static const table_t tables[] = {TPT_POLY_TABLES(TABLE)};

bool tpt_special_poly(tpt_ir_t *ir, const char *name, size_t size, tpt_val_t t, tpt_val_t *out) {
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (strlen(tables[i].name) != size || memcmp(tables[i].name, name, size) != 0) continue;
        bool wide = tpt_ir_dtype(ir, t) == TPT_F64;
        const double *c = wide ? tables[i].c64 : tables[i].c32;
        int k = (wide ? tables[i].n64 : tables[i].n32) - 1;
        tpt_val_t sum = tpt_ir_like(ir, t, c[k]);
        while (k-- > 0) sum = tpt_ir_add(ir, tpt_ir_mul(ir, sum, t), tpt_ir_like(ir, t, c[k]));
        *out = sum;
        return true;
    }
    return false;
}

/* One step of Euclid where b is not yet zero. */
static tpt_region_t gcd_body(tpt_ir_t *ir, tpt_type_t type) {
    tpt_ir_region_begin(ir);
    tpt_val_t a = tpt_ir_region_arg(ir, type), b = tpt_ir_region_arg(ir, type);
    tpt_val_t zero = tpt_ir_full_i(ir, type, 0), one = tpt_ir_full_i(ir, type, 1);
    tpt_val_t done = tpt_ir_compare(ir, TPT_IR_EQ, b, zero);
    tpt_val_t rest = tpt_ir_binary(ir, TPT_IR_REM, a, tpt_ir_select(ir, done, one, b));
    tpt_val_t next[2] = {tpt_ir_select(ir, done, a, b), tpt_ir_select(ir, done, zero, rest)};
    return tpt_ir_region_end(ir, 2, next);
}

static tpt_region_t gcd_cond(tpt_ir_t *ir, tpt_type_t type) {
    tpt_ir_region_begin(ir);
    (void)tpt_ir_region_arg(ir, type);
    tpt_val_t b = tpt_ir_region_arg(ir, type);
    tpt_val_t more = tpt_ir_compare(ir, TPT_IR_NE, b, tpt_ir_full_i(ir, type, 0));
    int64_t dims[TPT_MAX_RANK];
    for (int d = 0; d < type.rank; d++) dims[d] = d;
    if (type.rank > 0) more = tpt_ir_reduce(ir, TPT_IR_RED_OR, more, type.rank, dims);
    return tpt_ir_region_end(ir, 1, &more);
}

tpt_val_t tpt_special_gcd(tpt_ir_t *ir, const tpt_val_t *x) {
    /* Adding a zero of the other operand gives both the common shape. */
    tpt_val_t zero = tpt_ir_like(ir, x[0], 0);
    tpt_val_t pair[2] = {tpt_ir_add(ir, x[0], tpt_ir_mul(ir, x[1], zero)), tpt_ir_add(ir, x[1], tpt_ir_mul(ir, x[0], zero))};
    if (tpt_dtype_is_signed(tpt_ir_dtype(ir, x[0])))
        for (int i = 0; i < 2; i++) pair[i] = tpt_ir_unary(ir, TPT_IR_ABS, pair[i]);
    tpt_type_t type = *tpt_ir_type(ir, pair[0]);
    if (tpt_ir_status(ir) != NULL) return TPT_VAL_NONE;
    tpt_region_t cond = gcd_cond(ir, type), body = gcd_body(ir, type);
    tpt_val_t out[2] = {TPT_VAL_NONE, TPT_VAL_NONE};
    tpt_ir_while(ir, 2, pair, cond, body, out);
    return out[0];
}
