// fallback.cpp - ops without a row: a decomposition of PyTorch's, recorded as one program; else the host, if the user asked for
// it; else an error that says what to do.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/record_function.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/tensor_memoryformats.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "convert.h"

namespace tpt_glue {

namespace {

using Stack = torch::jit::Stack;

// Decompositions found so far by op; nullptr = none. Python objects live to the end of the process.
std::mutex found_mutex;
std::unordered_map<c10::OperatorName, PyObject*>& found_table() {
  static auto* table = new std::unordered_map<c10::OperatorName, PyObject*>();
  return *table;
}

[[noreturn]] void rethrow(pybind11::error_already_set& error) {
  error.restore();
  python_error raised;
  raised.persist();
  throw raised;
}

PyObject* find_decomposition(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  {
    const std::lock_guard<std::mutex> lock(found_mutex);
    const auto entry = found_table().find(name);
    if (entry != found_table().end()) return entry->second;
  }
  if (!Py_IsInitialized()) return nullptr;
  PyObject* callable = nullptr;
  {
    pybind11::gil_scoped_acquire gil;
    try {
      pybind11::object found = pybind11::module_::import("torch_tpu._decompose").attr("find")(name.name, name.overload_name);
      if (!found.is_none()) callable = found.release().ptr();
    } catch (pybind11::error_already_set& error) {
      rethrow(error);
    }
  }
  const std::lock_guard<std::mutex> lock(found_mutex);
  return found_table().emplace(name, callable).first->second;
}

// Dtypes, layouts and memory formats are plain ints on the stack; Python wants the objects.
pybind11::object to_python(const c10::Argument& arg, const c10::IValue& value) {
  auto type = arg.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  if (value.isInt()) {
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return pybind11::reinterpret_borrow<pybind11::object>(
            reinterpret_cast<PyObject*>(torch::getTHPDtype(value.toScalarType())));
      case c10::TypeKind::LayoutType:
        return pybind11::reinterpret_borrow<pybind11::object>(
            reinterpret_cast<PyObject*>(torch::getTHPLayout(value.toLayout())));
      case c10::TypeKind::MemoryFormatType:
        return pybind11::reinterpret_borrow<pybind11::object>(torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
      default:
        break;
    }
  }
  return torch::jit::toPyObject(value);
}

bool is_default(const c10::Argument& arg, const c10::IValue& value) {
  if (!arg.default_value().has_value()) return false;
  const c10::IValue& usual = *arg.default_value();
  if (usual.isNone() || value.isNone()) return usual.isNone() && value.isNone();
  return usual == value;
}

// Calls the Python function as a user would: trailing defaults are left out, for decompositions seldom name them all.
pybind11::object call_python(PyObject* callable, const c10::FunctionSchema& schema, const Stack& stack, size_t base) {
  const auto& args = schema.arguments();
  size_t positional = args.size();
  for (size_t i = 0; i < args.size(); i++) {
    if (args[i].kwarg_only()) {
      positional = i;
      break;
    }
  }
  size_t last = positional;
  while (last > 0 && is_default(args[last - 1], stack[base + last - 1])) last--;
  pybind11::tuple python_args(last);
  for (size_t i = 0; i < last; i++) python_args[i] = to_python(args[i], stack[base + i]);
  pybind11::dict keywords;
  for (size_t i = positional; i < args.size(); i++) {
    if (!is_default(args[i], stack[base + i])) keywords[args[i].name().c_str()] = to_python(args[i], stack[base + i]);
  }
  return pybind11::reinterpret_borrow<pybind11::object>(callable)(*python_args, **keywords);
}

Stack results_of(const c10::FunctionSchema& schema, const pybind11::object& result) {
  const auto& returns = schema.returns();
  Stack out;
  const auto add = [&](const pybind11::handle& item, const c10::Argument& ret) {
    const bool undefined = item.is_none() && ret.real_type()->kind() == c10::TypeKind::TensorType;
    out.push_back(undefined ? c10::IValue(at::Tensor()) : torch::jit::toIValue(item, ret.real_type()));
  };
  if (returns.size() == 1) {
    add(result, returns[0]);
  } else if (returns.size() > 1) {
    const auto items = pybind11::cast<pybind11::sequence>(result);
    TORCH_CHECK(items.size() == returns.size(), schema.name(), ": the decomposition gives ", items.size(), " results, not ",
                returns.size());
    for (size_t i = 0; i < returns.size(); i++) add(items[i], returns[i]);
  }
  return out;
}

template <class F>
void each_tensor(const Stack& stack, size_t base, F&& visit) {
  for (size_t i = base; i < stack.size(); i++) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) visit(stack[i].toTensor());
    if (!stack[i].isList()) continue;
    for (const c10::IValue& item : stack[i].toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
    }
  }
}

// First tpu device among the arguments, or the current one.
int device_of(const Stack& stack, size_t base) {
  int device = -1;
  each_tensor(stack, base, [&](const at::Tensor& tensor) {
    if (device < 0 && tensor.device().type() == kTpu) device = tensor.device().index();
  });
  return device < 0 ? current_device() : device;
}

// Records the parts of a decomposition into one program.
class Deferred {
 public:
  explicit Deferred(int device) : device_(device) { tpt_defer_push(); }
  ~Deferred() {
    if (open_) tpt_status_free(tpt_defer_pop(device_));  // another exception is on its way
  }
  void finish() {
    open_ = false;
    check(tpt_defer_pop(device_));
  }

 private:
  int device_;
  bool open_ = true;
};

// Ops whose decomposition is running on this thread. One that comes back to itself has none in truth.
thread_local std::vector<const void*> running;
struct Running {
  explicit Running(const c10::FunctionSchema& schema) { running.push_back(&schema); }
  ~Running() { running.pop_back(); }
};

void decompose(const c10::OperatorHandle& op, PyObject* callable, Stack* stack) {
  const auto& schema = op.schema();
  const size_t base = stack->size() - schema.arguments().size();
  Stack results;
  Deferred deferred(device_of(*stack, base));
  {
    const Running guard(schema);
    pybind11::gil_scoped_acquire gil;
    try {
      results = results_of(schema, call_python(callable, schema, *stack, base));
    } catch (pybind11::error_already_set& error) {
      rethrow(error);
    }
  }
  deferred.finish();
  tpt_counter_add(TPT_COUNTER_decompositions, 1);
  stack->resize(base);
  for (auto& result : results) stack->push_back(std::move(result));
}

void describe(std::ostringstream& text, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    text << "None";
    return;
  }
  text << tensor.device() << " " << c10::toString(tensor.scalar_type()) << tensor.sizes();
}

std::string describe_inputs(const c10::OperatorHandle& op, const Stack& stack) {
  std::ostringstream text;
  const auto& args = op.schema().arguments();
  const size_t base = stack.size() - args.size();
  const char* separator = "";
  for (size_t i = 0; i < args.size(); i++) {
    const c10::IValue& value = stack[base + i];
    if (value.isTensor()) {
      text << separator << args[i].name() << ": ";
      describe(text, value.toTensor());
    } else if (value.isTensorList()) {
      text << separator << args[i].name() << ": [";
      const auto items = value.toListRef();
      for (size_t k = 0; k < items.size() && k < 4; k++) {
        text << (k > 0 ? ", " : "");
        describe(text, items[k].toTensor());
      }
      text << (items.size() > 4 ? ", ...]" : "]");
    } else {
      continue;
    }
    separator = ", ";
  }
  return text.str();
}

bool cpu_fallback_asked() {
  const char* text = std::getenv("TORCH_TPU_CPU_FALLBACK");
  if (text == nullptr) return false;
  for (const char* no : {"", "0", "false", "off", "no"}) {
    if (std::strcmp(text, no) == 0) return false;
  }
  return true;
}

void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  static std::mutex mutex;
  static auto* warned = new std::unordered_set<c10::OperatorName>();
  bool first;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    first = warned->insert(op.operator_name()).second;
  }
  if (first)
    warn(c10::str(op.operator_name(), " is not implemented on the tpu device and runs on the host (TORCH_TPU_CPU_FALLBACK=1)"));
  tpt_counter_add(TPT_COUNTER_fallbacks, 1);
  at::native::cpu_fallback(op, stack);
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  // Some ops come here with autograd still on (those that have no formula); their parts must not be recorded.
  at::AutoDispatchBelowADInplaceOrView below;
  const bool again = std::find(running.begin(), running.end(), &op.schema()) != running.end();
  if (!again && running.size() < 32) {
    if (PyObject* callable = find_decomposition(op)) return decompose(op, callable, stack);
  }
  if (cpu_fallback_asked()) return run_on_host(op, stack);
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(),
                              " is not implemented on the tpu device (inputs: ", describe_inputs(op, *stack),
                              "). Set TORCH_TPU_CPU_FALLBACK=1 to run such ops on the host, which copies there and back, or "
                              "report the op.");
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

}  // namespace

// TORCH_WARN becomes a Python warning only below PyTorch's own bindings; ops called through torch.ops are not.
void warn(const std::string& text) {
  if (!Py_IsInitialized()) {
    TORCH_WARN(text);
    return;
  }
  pybind11::gil_scoped_acquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) == 0) return;
  python_error raised;  // the user made warnings errors
  raised.persist();
  throw raised;
}

namespace {

// A copy keeps dense strides but not gaps. Some kernels choose by them (det takes the transposed LU of a contiguous matrix) and
// their backward looks at the original: so inputs with gaps go to the host as they lie.
void lay_out_inputs(const c10::OperatorHandle& op, Stack* stack, size_t base) {
  const auto& args = op.schema().arguments();
  for (size_t i = 0; i < args.size(); i++) {
    const auto& value = (*stack)[base + i];
    if (args[i].alias_info() != nullptr || !value.isTensor() || !value.toTensor().defined()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (tensor.device().type() != kTpu || tensor.layout() != c10::kStrided || tensor.is_non_overlapping_and_dense()) continue;
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) continue;
    at::Tensor twin = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU));
    (*stack)[base + i] = twin.copy_(tensor);
  }
}

void bring_back(Stack* stack, size_t base, c10::Device device) {
  for (size_t i = base; i < stack->size(); i++) {
    const auto& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu()) (*stack)[i] = value.toTensor().to(device);
  }
}

}  // namespace

void host_routine(const c10::OperatorHandle& op, Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const c10::Device device(kTpu, static_cast<c10::DeviceIndex>(device_of(*stack, base)));
  const auto check_place = [&](const at::Tensor& tensor, bool written) {
    TORCH_CHECK(tensor.device() == device || (tensor.is_cpu() && tensor.dim() == 0 && !written),
                "Expected all tensors to be on the same device, but found at least two devices, ", device, " and ",
                tensor.device(), "!");
  };
  each_tensor(*stack, base, [&](const at::Tensor& tensor) { check_place(tensor, false); });
  const auto& args = op.schema().arguments();
  for (size_t i = 0; i < args.size(); i++) {
    const auto& value = (*stack)[base + i];
    if (args[i].is_out() && value.isTensor() && value.toTensor().defined()) check_place(value.toTensor(), true);
  }
  at::AutoDispatchBelowADInplaceOrView below;  // the copies belong to the op: no gradient of their own
  RECORD_FUNCTION("host routine", std::vector<c10::IValue>());
  tpt_counter_add(TPT_COUNTER_host_routines, 1);
  lay_out_inputs(op, stack, base);
  at::native::cpu_fallback(op, stack);
  bring_back(stack, base, device);
}

}  // namespace tpt_glue
