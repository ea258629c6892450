// dtype.cpp - element types of PyTorch and of the core, one to one. What has no counterpart is refused, never mapped.
#include <c10/util/Exception.h>

#include "glue.h"

namespace tpt_glue {

tpt_dtype_t to_tpt(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return TPT_BOOL;
    case c10::ScalarType::Byte:
      return TPT_U8;
    case c10::ScalarType::Char:
      return TPT_I8;
    case c10::ScalarType::Short:
      return TPT_I16;
    case c10::ScalarType::Int:
      return TPT_I32;
    case c10::ScalarType::Long:
      return TPT_I64;
    case c10::ScalarType::UInt16:
      return TPT_U16;
    case c10::ScalarType::UInt32:
      return TPT_U32;
    case c10::ScalarType::UInt64:
      return TPT_U64;
    case c10::ScalarType::Half:
      return TPT_F16;
    case c10::ScalarType::BFloat16:
      return TPT_BF16;
    case c10::ScalarType::Float:
      return TPT_F32;
    case c10::ScalarType::Double:
      return TPT_F64;
    case c10::ScalarType::ComplexFloat:
      return TPT_C64;
    case c10::ScalarType::ComplexDouble:
      return TPT_C128;
    case c10::ScalarType::Float8_e4m3fn:
      return TPT_F8E4M3FN;
    case c10::ScalarType::Float8_e5m2:
      return TPT_F8E5M2;
    case c10::ScalarType::Float8_e4m3fnuz:
      return TPT_F8E4M3FNUZ;
    case c10::ScalarType::Float8_e5m2fnuz:
      return TPT_F8E5M2FNUZ;
    default:
      break;
  }
  TORCH_CHECK_TYPE(false, "The tpu device does not support the dtype ", c10::toString(type));
}

c10::ScalarType to_torch(tpt_dtype_t dtype) {
  switch (dtype) {
    case TPT_BOOL:
      return c10::ScalarType::Bool;
    case TPT_U8:
      return c10::ScalarType::Byte;
    case TPT_I8:
      return c10::ScalarType::Char;
    case TPT_I16:
      return c10::ScalarType::Short;
    case TPT_I32:
      return c10::ScalarType::Int;
    case TPT_I64:
      return c10::ScalarType::Long;
    case TPT_U16:
      return c10::ScalarType::UInt16;
    case TPT_U32:
      return c10::ScalarType::UInt32;
    case TPT_U64:
      return c10::ScalarType::UInt64;
    case TPT_F16:
      return c10::ScalarType::Half;
    case TPT_BF16:
      return c10::ScalarType::BFloat16;
    case TPT_F32:
      return c10::ScalarType::Float;
    case TPT_F64:
      return c10::ScalarType::Double;
    case TPT_C64:
      return c10::ScalarType::ComplexFloat;
    case TPT_C128:
      return c10::ScalarType::ComplexDouble;
    case TPT_F8E4M3FN:
      return c10::ScalarType::Float8_e4m3fn;
    case TPT_F8E5M2:
      return c10::ScalarType::Float8_e5m2;
    case TPT_F8E4M3FNUZ:
      return c10::ScalarType::Float8_e4m3fnuz;
    case TPT_F8E5M2FNUZ:
      return c10::ScalarType::Float8_e5m2fnuz;
    case TPT_DTYPE_NONE:
    case TPT_DTYPE_COUNT:
      break;
  }
  TORCH_CHECK(false, "the core gave an unknown dtype (", static_cast<int>(dtype), ")");
}

}  // namespace tpt_glue
