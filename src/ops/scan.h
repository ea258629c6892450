/* scan.h - inclusive prefix scans along one dim, by any associative operation. */
#ifndef TPT_OPS_SCAN_H
#define TPT_OPS_SCAN_H

#include "ops/ops.h"

#define TPT_SCAN_MAX 2 /* operands that are scanned together */

/* out = a (earlier) combined with b (later); arrays of the operands of the scan. out may not alias a or b. */
typedef void (*tpt_scan_op_t)(tpt_ir_t* ir, const tpt_val_t* a, const tpt_val_t* b, tpt_val_t* out);

/* Replaces the n operands (of one shape, rank >= 1) by their scans. */
void tpt_scan_run(tpt_ir_t* ir, int n, tpt_val_t* xs, int dim, tpt_scan_op_t op);
/* Running sums and maxima of one operand. */
tpt_val_t tpt_scan_sum(tpt_ir_t* ir, tpt_val_t x, int dim);
tpt_val_t tpt_scan_max(tpt_ir_t* ir, tpt_val_t x, int dim);

#endif
