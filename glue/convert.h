// convert.h - how one bound schema is called: what bind.cpp finds out once at load, and what convert.cpp makes of a call's
// stack.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <torch/library.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "glue.h"

namespace tpt_glue {

// What an argument of a schema becomes.
enum class Kind : uint8_t {
  Tensor,
  TensorList,
  Number,  // Scalar and float
  NumberList,
  Int,
  IntList,
  Bool,
  BoolList,
  String,
  DType,
  Format,  // MemoryFormat and Layout: plain ints of the plan's key, since they change the result's strides
  Device,
  Generator,
  Ignored  // pin_memory
};

struct Slot {
  Kind kind;
  bool write = false;
  bool out = false;
  bool sizes = false;  // a list that gives the size of the result (for the count of random blocks)
};

// What a return of a schema is.
struct Return {
  enum Kind : uint8_t { Fresh, FreshList, Alias, Value } kind;
  int arg = -1;  // of Alias
};

// What must be done to a call's stack before it is converted (index.cpp).
enum class Before : uint8_t { Nothing, Index, IndexPut, Fill, Repeat, Unique, UniqueDim, Dot };

// A row seen through one schema, made once at load and never freed.
struct Binding {
  std::string name;  // "aten::add_.Tensor"
  c10::OperatorHandle handle;
  const tpt_row_t* row;
  tpt_op_t* op = nullptr;
  uint32_t flags = 0;
  std::vector<Slot> slots;
  std::vector<Return> returns;
  int nargs = 0;            // arguments of the bound op: the schema's and the appended ones
  int rng_arg = -1;         // which of them is the random state (TPT_ROW_RNG rows)
  int generator_slot = -1;  // the schema's generator argument
  int device_slot = -1, layout_slot = -1;
  bool fresh = false;      // returns new tensors
  bool has_out = false;    // out= form
  bool has_write = false;  // in-place or out=
  bool plain = false;      // every return is a fresh tensor, or there is one and it is a fresh list
  bool apart = false;      // what is written may be none of the inputs
  bool foreach = false;    // lists of tensors: no overlap checks
  Before before = Before::Nothing;
  // Set for out= forms that no meta kernel can size: they run the functional form and copy.
  std::optional<c10::OperatorHandle> functional;

  explicit Binding(c10::OperatorHandle op_handle, const tpt_row_t* table_row) : handle(op_handle), row(table_row) {}
};

// Memory of one call: a block on the C stack, and the heap when that is full.
class Scratch {
 public:
  template <class T>
  T* take(size_t count) {
    const size_t bytes =
        (count * sizeof(T) + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
    if (C10_LIKELY(used_ + bytes <= sizeof block_)) {
      void* place = block_ + used_;
      used_ += bytes;
      return static_cast<T*>(place);
    }
    heap_.emplace_back(new std::max_align_t[bytes / sizeof(std::max_align_t) + 1]);
    return reinterpret_cast<T*>(heap_.back().get());
  }

 private:
  alignas(std::max_align_t) unsigned char block_[3072];
  size_t used_ = 0;
  std::vector<std::unique_ptr<std::max_align_t[]>> heap_;
};

// A converted call. It borrows from the stack that it was made of.
struct Converted {
  Scratch scratch;
  tpt_arg_t* args = nullptr;
  int device = -1;
  bool has_tensor = false;  // some argument lives on a tpu device
};

// Ends a begun call, once.
struct CallEnd {
  tpt_call_t* call;
  bool open = true;
  ~CallEnd() { close(); }
  void close() {
    if (open) tpt_call_end(call);
    open = false;
  }
};

using Args = c10::ArrayRef<c10::IValue>;

// ---- convert.cpp
void convert(const Binding& binding, Args args, Converted* out);
// Draws the random state of the call and writes its argument. Done once a call, even if it is converted twice.
void convert_rng(const Binding& binding, Args args, Converted* out);
tpt_number_t number_of_scalar(const c10::Scalar& scalar);
tpt_number_t number_of_tensor(const at::Tensor& tensor);  // 0-d, on cpu
// The last argument of every bound op: the default dtype when it is not the usual one, since it decides results.
void put_default_dtype(tpt_arg_t* last);
// Raises as cpu does for writes to expanded tensors and to tensors that partly overlap an input.
void check_overlap(const Binding& binding, Args args);

// ---- bind.cpp
// Finds the schemas of a row and gives them to `sink`; fills the lists that `row_report` shows.
void bind_rows();
std::vector<Binding*>& bindings();
struct Skipped {
  std::string row, reason;
};
std::vector<Skipped>& skipped_rows();

// ---- structured.cpp
const c10::KernelFunction* structured_meta(const std::string& name);  // PyTorch's C++ meta kernel, or nullptr

// ---- meta.cpp
// What a call returns when it is not simply its fresh outputs in order (undefined tensors, lists, plain values).
struct Pattern {
  struct Item {
    enum Kind : uint8_t { Tensor, Undefined, List, Alias, Value } kind;
    int count = 0;  // of List
    int arg = -1;   // of Alias
    c10::IValue value;
  };
  std::vector<Item> items;
};
struct MetaResult {
  std::vector<tpt_spec_t> specs;
  Pattern pattern;
  bool simple = true;                            // the pattern says nothing new
  bool warned = false;                           // the meta kernel saw the targets' own sizes, and has warned of what it resized
  std::vector<std::pair<int, at::Tensor>> outs;  // written out= tensors as meta tensors, by slot
};
// Runs the schema's meta kernel on the call's shapes. Its exceptions are the user's. False: the op has no meta kernel.
bool run_meta(const Binding& binding, Args args, MetaResult* out);
// Passes a refused plan on in the words that PyTorch has for the same call on cpu, if it refuses it too.
void check_plan(const Binding& binding, Args args, tpt_status_t* status);
// Refuses integers, truth values and complex numbers where PyTorch does so on cpu. Its meta kernels do not know (dtypes are
// looked at by the kernels themselves), and an integer's SiLU would be a number like any other.
void check_dtypes(const Binding& binding, Args args);
void pattern_put(const tpt_plan_t* plan, Pattern pattern);
std::shared_ptr<const Pattern> pattern_get(const tpt_plan_t* plan);

// ---- index.cpp
// Turns masks into indices and brings cpu indices to the device. True: the call is finished, its result is on the stack.
bool before_call(const Binding& binding, std::vector<c10::IValue>* stack);

// ---- dispatch.cpp
// Runs one call: takes its arguments off the stack, leaves its results there.
void call_row(const Binding& binding, std::vector<c10::IValue>* stack);

// ---- direct.cpp
// Typed kernels that save the stack, for the commonest signatures: the device's own and autograd's.
struct DirectKernels {
  torch::CppFunction device, autograd;
};
std::optional<DirectKernels> direct_kernel(const Binding& binding);

// ---- fallback.cpp
// A row of kind TPT_ROW_HOST: PyTorch's cpu kernel on copies of the arguments, its results put on their device.
void host_routine(const c10::OperatorHandle& op, std::vector<c10::IValue>* stack);

// ---- mode.cpp
// Sets this thread's eager mode.
void set_mode(tpt_mode_t mode);
// In fused mode a backward pass runs in the thread that asked for it, once for each thread: PyTorch's switch for that, thrown here.
void keep_backward_here();

// ---- where.cpp
void warn(const std::string& text);  // a Python warning, wherever it is called from
// Of each call: its Python line where errors of it surface late (borrowed, or nullptr), and in fused mode keep_backward_here().
const char* note_caller(const Binding& binding);
const char* python_where();  // "file:line" in a buffer of this thread, or nullptr

}  // namespace tpt_glue
