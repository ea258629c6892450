/* test_ops_lower.h - a call as a lowering function sees it, without src/run: tensors are arguments of the program, and so are
 * run-time numbers. */
#ifndef TPT_TEST_OPS_LOWER_H
#define TPT_TEST_OPS_LOWER_H

#include "ops/ops.h"
#include "test_support.h"

#define TEST_MAX_ARGS 8

typedef struct test_call {
  struct tpt_row row;
  tpt_lower_t lower;
  const char* names[TEST_MAX_ARGS];
  tpt_arg_t args[TEST_MAX_ARGS];
  tpt_val_t value[TEST_MAX_ARGS];
  const tpt_val_t* values[TEST_MAX_ARGS];
  int64_t sizes[TEST_MAX_ARGS][TPT_MAX_RANK];
  tpt_spec_t out;
} test_call_t;

static inline tpt_val_t test_number(tpt_lower_t* L, int arg, int item, int fn, tpt_dtype_t dtype) {
  (void)arg, (void)item, (void)fn;
  return tpt_ir_arg(L->ir, tpt_type_make(dtype, 0, NULL));
}

static inline tpt_status_t* test_call_init(test_call_t* c, const char* expr, tpt_promote_t promote) {
  memset(c, 0, sizeof *c);
  c->row = (struct tpt_row){.name = "test", .promote = (uint8_t)promote, .expr = expr};
  c->lower = (tpt_lower_t){.row = &c->row,
                           .schema_name = "aten::test",
                           .names = c->names,
                           .args = c->args,
                           .values = c->values,
                           .bad = TPT_VAL_NONE,
                           .count = TPT_VAL_NONE,
                           .bad_size = -1,
                           .number = test_number};
  return tpt_ir_new(&c->lower.ir);
}

static inline tpt_arg_t* test_call_arg(test_call_t* c, const char* name, tpt_arg_kind_t kind) {
  int i = c->lower.nargs++;
  c->names[i] = name;
  c->args[i].kind = (uint8_t)kind;
  c->values[i] = &c->value[i];
  return &c->args[i];
}

static inline void test_call_tensor(test_call_t* c, const char* name, tpt_dtype_t dtype, int rank, const int64_t* dims) {
  int i = c->lower.nargs;
  tpt_arg_t* arg = test_call_arg(c, name, TPT_ARG_TENSOR);
  if (rank > 0) memcpy(c->sizes[i], dims, (size_t)rank * sizeof *dims);
  arg->u.tensor = (tpt_tensor_t){.dtype = (uint8_t)dtype, .rank = rank, .sizes = c->sizes[i]};
  c->value[i] = tpt_ir_arg(c->lower.ir, tpt_type_make(dtype, rank, dims));
}

static inline void test_call_number(test_call_t* c, const char* name, tpt_dtype_t dtype, bool wrapped, double number) {
  tpt_number_t* n = &test_call_arg(c, name, TPT_ARG_NUMBER)->u.number;
  n->dtype = (uint8_t)dtype;
  n->wrapped = wrapped;
  if (tpt_dtype_is_float(dtype) || tpt_dtype_is_complex(dtype))
    n->v.f[0] = number;
  else
    n->v.i = (int64_t)number;
}

static inline void test_call_text(test_call_t* c, const char* name, const char* text) {
  tpt_arg_t* arg = test_call_arg(c, name, TPT_ARG_STRING);
  arg->count = (int32_t)strlen(text);
  arg->u.string.text = text;
}

static inline void test_call_free(test_call_t* c) {
  tpt_ir_free(c->lower.ir);
  tpt_free(c->lower.results);
}

#endif
