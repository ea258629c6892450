/* test_run_support.h - op calls without PyTorch: bind a row, call it on fresh storages. */
#ifndef TPT_TEST_RUN_SUPPORT_H
#define TPT_TEST_RUN_SUPPORT_H

#include "test_support.h"

#include "run/run_internal.h"

static inline tpt_op_t *bind(const char *row, const char *schema, int n, const tpt_param_t *params, bool fresh) {
    tpt_op_t *op = NULL;
    const tpt_row_t *r = tpt_row_find(row);
    assert_non_null(r);
    assert_ok(tpt_op_bind(r, schema, n, params, fresh, &op));
    return op;
}

static inline tpt_op_t *bind_add(bool in_place) {
    const tpt_param_t params[3] = {{"self", in_place}, {"other", false}, {"alpha", false}};
    return bind("add.Tensor", in_place ? "aten::add_.Tensor" : "aten::add.Tensor", 3, params, !in_place);
}

/* A contiguous window on a whole storage, or any other: the arrays are the caller's. */
static inline tpt_arg_t tensor_arg(tpt_storage_t *s, int rank, const int64_t *sizes, const int64_t *strides, int64_t offset) {
    tpt_arg_t arg = {.kind = TPT_ARG_TENSOR};
    arg.u.tensor = (tpt_tensor_t){.storage = s, .sizes = sizes, .strides = strides, .offset = offset, .rank = rank, .dtype = TPT_F32};
    return arg;
}

static inline tpt_arg_t number_arg(double value) {
    tpt_arg_t arg = {.kind = TPT_ARG_NUMBER};
    arg.u.number.dtype = TPT_F64;
    arg.u.number.wrapped = true;
    arg.u.number.v.f[0] = value;
    return arg;
}

static inline tpt_storage_t *floats(int rank, const int64_t *dims, const float *data) {
    tpt_storage_t *s = NULL;
    assert_ok(tpt_storage_new(0, TPT_F32, rank, dims, &s));
    if (data) assert_ok(tpt_storage_from_host(s, TPT_F32, rank, dims, data));
    return s;
}

static inline tpt_spec_t spec_of(int rank, const int64_t *sizes) {
    tpt_spec_t spec = {.dtype = TPT_F32, .rank = rank};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        spec.sizes[d] = sizes[d];
        spec.strides[d] = stride;
        stride *= sizes[d];
    }
    return spec;
}

/* One call; `out` (one fresh output of the spec) may be NULL for in-place ops. */
static inline tpt_status_t *call_op(tpt_op_t *op, const tpt_arg_t *args, int n, const tpt_spec_t *spec, tpt_storage_t **out) {
    tpt_call_t call;
    tpt_storage_t *outs[4] = {NULL};
    TPT_TRY(tpt_call_begin(&call, op, args, n, 0));
    tpt_status_t *status = call.plan ? NULL : tpt_call_plan(&call, spec, spec ? 1 : 0);
    if (!status) status = tpt_call_run(&call, outs);
    tpt_call_end(&call);
    if (!status && out) *out = outs[0];
    return status;
}

static inline tpt_status_t *add(tpt_op_t *op, tpt_storage_t *a, tpt_storage_t *b, int rank, const int64_t *sizes, tpt_storage_t **out) {
    const tpt_spec_t spec = spec_of(rank, sizes);
    const tpt_arg_t args[3] = {tensor_arg(a, rank, sizes, spec.strides, 0), tensor_arg(b, rank, sizes, spec.strides, 0), number_arg(1)};
    return call_op(op, args, 3, &spec, out);
}

static inline int64_t count(tpt_counter_t counter) { return tpt_counter_get(counter); }

#endif
