// error.cpp - a failed status of the core becomes the Python exception of its code.
#include <c10/util/Exception.h>

#include <string>

#include "glue.h"

namespace tpt_glue {

void raise(tpt_status_t* status) {
  if (status == nullptr) return;
  const tpt_code_t code = tpt_status_code(status);
  const std::string message = tpt_status_message(status);
  tpt_status_free(status);
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (code) {
    case TPT_OUT_OF_RANGE:
      throw c10::IndexError(here, message);
    case TPT_UNIMPLEMENTED:
      throw c10::NotImplementedError(here, message);
    case TPT_RESOURCE_EXHAUSTED:
      throw c10::OutOfMemoryError(here, message);
    default:
      throw c10::Error(here, message);
  }
}

}  // namespace tpt_glue
