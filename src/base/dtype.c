/* dtype.c - sizes and names of the element types. */
#include <assert.h>

#include "tpt/tpt.h"

static const struct {
    const char *name;
    size_t size;
} dtype_table[] = {
    [TPT_DTYPE_NONE] = {"none", 0},
    [TPT_BOOL] = {"bool", 1},
    [TPT_U8] = {"uint8", 1},
    [TPT_I8] = {"int8", 1},
    [TPT_I16] = {"int16", 2},
    [TPT_I32] = {"int32", 4},
    [TPT_I64] = {"int64", 8},
    [TPT_U16] = {"uint16", 2},
    [TPT_U32] = {"uint32", 4},
    [TPT_U64] = {"uint64", 8},
    [TPT_F16] = {"float16", 2},
    [TPT_BF16] = {"bfloat16", 2},
    [TPT_F32] = {"float32", 4},
    [TPT_F64] = {"float64", 8},
    [TPT_C64] = {"complex64", 8},
    [TPT_C128] = {"complex128", 16},
    [TPT_F8E4M3FN] = {"float8_e4m3fn", 1},
    [TPT_F8E5M2] = {"float8_e5m2", 1},
    [TPT_F8E4M3FNUZ] = {"float8_e4m3fnuz", 1},
    [TPT_F8E5M2FNUZ] = {"float8_e5m2fnuz", 1},
};
static_assert(sizeof dtype_table / sizeof *dtype_table == TPT_DTYPE_COUNT, "a row an element type");

size_t tpt_dtype_size(tpt_dtype_t dtype) { return (unsigned)dtype < TPT_DTYPE_COUNT ? dtype_table[dtype].size : 0; }

const char *tpt_dtype_name(tpt_dtype_t dtype) {
    return (unsigned)dtype < TPT_DTYPE_COUNT ? dtype_table[dtype].name : "unknown";
}
