/* expr.h - the language of elementwise rows. Filled in expr.c; see README.md. */
#ifndef TPT_OPS_EXPR_H
#define TPT_OPS_EXPR_H

#include "ops/ops.h"

#endif
