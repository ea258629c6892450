// where.cpp - the user's Python line of the running call, for errors that surface late.
#include <Python.h>
#include <frameobject.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "convert.h"

namespace tpt_glue {

namespace {

// PyTorch's and our own Python files are not what a user wants to see.
bool is_library_file(const char* file) {
  return std::strstr(file, "/torch/") != nullptr || std::strstr(file, "/torch_tpu/") != nullptr ||
         std::strncmp(file, "<frozen", 7) == 0;
}

// Writes "file:line" of the innermost frame outside libraries, or of the innermost one; false when there is none.
bool format_frame(char* text, size_t size) {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return false;
  Py_INCREF(frame);
  bool written = false;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const bool library = file == nullptr || is_library_file(file);
    if (file != nullptr && (!written || !library)) {
      std::snprintf(text, size, "%s:%d", file, PyFrame_GetLineNumber(frame));
      written = true;
    }
    Py_DECREF(code);
    if (!library) break;
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return written;
}

}  // namespace

const char* note_caller(const Binding& binding) {
  const tpt_mode_t mode = tpt_mode_get();
  if (C10_UNLIKELY(mode == TPT_MODE_FUSED)) keep_backward_here();
  return C10_UNLIKELY((binding.flags & TPT_ROW_INDEX) != 0 || mode == TPT_MODE_DEBUG) ? python_where() : nullptr;
}

// PyTorch's bindings let go of the GIL before they dispatch, so it is taken here for the look. A thread that Python has never
// seen (a C++ worker) has no frame, and none is made for it.
const char* python_where() {
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr) return nullptr;
  static thread_local char text[512];
  const PyGILState_STATE gil = PyGILState_Ensure();
  const bool found = format_frame(text, sizeof text);
  PyGILState_Release(gil);
  return found ? text : nullptr;
}

}  // namespace tpt_glue
