/* expr.h - the language of elementwise rows, and the functions it can call.
 *
 *   row     = { "let" name "=" expr ";" } expr { "," expr }       one expression a result
 *   expr    = operators by rising strength: ||  &&  == != < <= > >=  |  ^  &  << >>  + -  * /  then unary - ! ~
 *   atom    = number | 'text' | name | name "(" expr, ... ")" | "(" expr ")"
 *
 * A name is a `let`, a constant (pi, e, inf, nan, finite_max, ...) or an argument of the schema. Tensors and numbers are read
 * in the row's compute dtype; ints, bools, texts and the row's static numbers are known when lowering, and so is what is
 * computed from them alone. Literals take the dtype of the other operand. `raw(x)` reads an argument in its own dtype; a bare
 * name as the first argument of `where` or `bool` is read raw too. `if(cond, a, b)` needs a condition known when lowering, and
 * only the branch taken is looked at. `has(x)` tells whether an optional argument was given, `truth(x)` whether it is of dtype
 * bool, `kind(x)` which dtype it has. `fail('text')` refuses the call. `poly('name', t)` is a fitted polynomial of special_tables.h. isfloat(x),
 * iscomplex(x), isint(x), isbool(x), isunsigned(x), isshort(x) (whole numbers that C computes with as int), isf64(x) ask for the
 * dtype of x. */
#ifndef TPT_OPS_EXPR_H
#define TPT_OPS_EXPR_H

#include "ops/ops.h"

/* A function of the language: operands share a dtype (shapes broadcast). */
#define TPT_EXPR_MAX_ARITY 4
typedef tpt_val_t (*tpt_expr_fn_t)(tpt_ir_t* ir, const tpt_val_t* x);
typedef struct tpt_expr_function {
  const char* name;
  int arity;
  tpt_expr_fn_t fn;          /* NULL: one op of the IR */
  int op;                    /* tpt_ir_unary_op_t or tpt_ir_binary_op_t when fn is NULL */
  double (*host)(double);    /* for operands known when lowering; NULL: none */
  const char *params, *body; /* of the library: names of the operands, and lets and an expression over them */
} tpt_expr_function_t;
/* NULL when unknown; `name` need not end after `size` bytes. */
const tpt_expr_function_t* tpt_expr_function_find(const char* name, size_t size);

/* Functions written in the language itself (expr_library.c). */
const tpt_expr_function_t* tpt_expr_library_find(const char* name, size_t size);

/* Operators on numbers known when lowering (expr_fold.c). False when a binary operator has no such form. */
bool tpt_expr_fold(int op, double x, double y, double *out);
bool tpt_expr_fold_compare(int op, double x, double y);
/* Whether a static number is as good as a double, which it is kept as. */
bool tpt_expr_is_exact(const tpt_arg_t* arg);

/* The dtype that a row's operands are read in. */
tpt_dtype_t tpt_expr_dtype(const tpt_lower_t* L);

#endif
