// dispatch.cpp - the one boxed kernel that serves every overload of every row.
#include <ATen/Context.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "convert.h"

namespace tpt_glue {

namespace {

// Output storages that no tensor owns yet.
struct Outputs {
  static constexpr int kInline = 8;
  tpt_storage_t* few[kInline] = {};
  std::unique_ptr<tpt_storage_t*[]> many;
  tpt_storage_t** all = few;
  int count;

  explicit Outputs(int n) : count(n) {
    if (n <= kInline) return;
    many.reset(new tpt_storage_t*[static_cast<size_t>(n)]());
    all = many.get();
  }
  ~Outputs() {
    for (int i = 0; i < count; i++) {
      if (all[i] != nullptr) tpt_storage_release(all[i]);
    }
  }
  void forget() { count = 0; }
  at::Tensor take(const Binding& binding, const tpt_call_t& call, int k) {
    tpt_storage_t* storage = all[k];
    all[k] = nullptr;
    if (C10_LIKELY(!(binding.flags & TPT_ROW_DYNAMIC))) return wrap(storage, *tpt_call_spec(&call, k), call.device);
    // The storage is padded; the tensor is a window on its valid rows.
    tpt_spec_t spec = *tpt_call_spec(&call, k);
    if (spec.rank > 0 && k < 4) spec.sizes[0] = call.dynamic_size[k];
    return wrap(storage, spec, call.device);
  }
};

// The kernel that PyTorch has for every device, for calls that are not this device's after all: `zeros_like(x, device="cpu")`
// comes here because x is a tpu tensor.
bool leaves_device(const Binding& binding, Args args, const Converted& converted) {
  if (binding.layout_slot >= 0) {
    const auto& layout = args[static_cast<size_t>(binding.layout_slot)];
    if (layout.isInt() && layout.toInt() != static_cast<int64_t>(c10::Layout::Strided)) return true;
  }
  if (binding.device_slot < 0 || !converted.has_tensor) return false;
  const auto& value = args[static_cast<size_t>(binding.device_slot)];
  if (!value.isDevice()) return false;
  const c10::Device device = value.toDevice();
  return device.type() != kTpu || (device.has_index() ? device.index() : current_device()) != converted.device;
}

// List ops whose lists mix devices (`_foreach_copy_` from cpu tensors): PyTorch's kernel takes them tensor by tensor.
bool mixes_devices(const Binding& binding, Args args) {
  if (C10_LIKELY(!binding.foreach)) return false;
  for (const auto& value : args) {
    if (!value.isTensorList()) continue;
    for (const auto& item : value.toListRef()) {
      if (item.toTensor().defined() && item.toTensor().device().type() != kTpu) return true;
    }
  }
  return false;
}

// Bytes of a storage that an item of a list takes up.
struct Span {
  const c10::StorageImpl* storage;
  int64_t first, last;
  size_t item;
  bool written;
};

std::vector<Span> spans_of(const Binding& binding, Args args) {
  std::vector<Span> spans;
  for (size_t i = 0; i < args.size(); i++) {
    if (!args[i].isTensorList()) continue;
    size_t item = 0;
    for (const auto& value : args[i].toListRef()) {
      const at::Tensor& t = value.toTensor();
      const size_t at = item++;
      if (!t.defined() || t.numel() == 0) continue;
      int64_t last = 0;
      for (int64_t d = 0; d < t.dim(); d++) last += (t.size(d) - 1) * t.stride(d);
      const int64_t size = static_cast<int64_t>(t.itemsize()), first = t.storage_offset() * size;
      spans.push_back({t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), first, first + (last + 1) * size, at,
                       binding.slots[i].write});
    }
  }
  return spans;
}

// Do different items of the lists use one storage? Seldom, so this is the quick question.
bool items_share(Args args) {
  size_t count = 0, room = 16;
  for (const auto& value : args) count += value.isTensorList() ? value.toListRef().size() : 0;
  while (room < 2 * count) room *= 2;
  std::vector<std::pair<const c10::StorageImpl*, size_t>> seen(room);
  for (const auto& value : args) {
    if (!value.isTensorList()) continue;
    size_t item = 0;
    for (const auto& entry : value.toListRef()) {
      const size_t me = item++;
      const at::Tensor& t = entry.toTensor();
      if (!t.defined()) continue;
      const c10::StorageImpl* storage = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      size_t at = (reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15u >> 20 & (room - 1);
      while (seen[at].first != nullptr && seen[at].first != storage) at = (at + 1) & (room - 1);
      if (seen[at].first == storage && seen[at].second != me) return true;
      seen[at] = {storage, me};
    }
  }
  return false;
}

// Does an item of an in-place list op meet what an earlier one wrote? PyTorch's kernel takes the items in their order.
bool items_depend(const Binding& binding, Args args) {
  if (C10_LIKELY(!binding.foreach || !binding.has_write || !items_share(args))) return false;
  std::vector<Span> spans = spans_of(binding, args);
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.storage != b.storage ? a.storage < b.storage : a.first < b.first;
  });
  for (size_t i = 0; i < spans.size(); i++) {
    for (size_t k = i + 1; k < spans.size() && spans[k].storage == spans[i].storage && spans[k].first < spans[i].last; k++) {
      const Span &a = spans[i], &b = spans[k];
      if (a.item != b.item && ((a.written && a.item < b.item) || (b.written && b.item < a.item))) return true;
    }
  }
  return false;
}

void call_composite(const Binding& binding, std::vector<c10::IValue>* stack) {
  constexpr auto key = c10::DispatchKey::CompositeExplicitAutograd;
  TORCH_CHECK_NOT_IMPLEMENTED(binding.handle.hasKernelForDispatchKey(key), binding.name,
                              " is not implemented for this layout or this mix of devices on tpu");
  binding.handle.callBoxedForDispatchKey(key, *stack);
}

// Gives our out= tensors the sizes that the meta kernel gave theirs, with a warning where that is due: ops without inputs give none.
// True if any changed.
bool resize_outs(const Binding& binding, Args args, const MetaResult& meta) {
  const bool keeps = (binding.flags & TPT_ROW_KEEPS_SHAPE) != 0;
  bool changed = false, fed = false;
  for (size_t i = 0; i < args.size(); i++) fed = fed || (!binding.slots[i].out && (args[i].isTensor() || args[i].isTensorList()));
  for (const auto& [slot, twin] : meta.outs) {
    const at::Tensor& out = args[static_cast<size_t>(slot)].toTensor();
    if (out.sizes() == twin.sizes() || (keeps && out.numel() == twin.numel())) continue;
    // Meta kernels forget that an input must keep its size.
    for (size_t i = 0; i < args.size(); i++) {
      TORCH_CHECK(binding.slots[i].out || !args[i].isTensor() || !args[i].toTensor().is_same(out), "output with shape ",
                  out.sizes(), " doesn't match the broadcast shape ", twin.sizes());
    }
    if (!meta.warned && fed) at::native::resize_output(out, twin.sizes());
    else out.resize_(twin.sizes());
    if (twin.is_non_overlapping_and_dense() && out.strides() != twin.strides()) {
      out.unsafeGetTensorImpl()->set_sizes_and_strides(twin.sizes(), twin.strides());
    }
    changed = true;
  }
  return changed;
}

// out= forms whose sizes no meta kernel can tell: the functional form, then a copy. Leaves the outs on the stack.
void call_functional(const Binding& binding, std::vector<c10::IValue>* stack) {
  const size_t base = stack->size() - binding.slots.size();
  const auto& wanted = binding.functional->schema().arguments();
  const auto& given = binding.handle.schema().arguments();
  std::vector<c10::IValue> inner, outs;
  for (const auto& arg : wanted) {
    c10::IValue value;
    for (size_t i = 0; i < given.size(); i++) {
      if (given[i].name() == arg.name()) value = (*stack)[base + i];
    }
    inner.push_back(std::move(value));
  }
  for (size_t i = 0; i < given.size(); i++) {
    if (given[i].is_out()) outs.push_back((*stack)[base + i]);
  }
  binding.functional->callBoxed(&inner);
  TORCH_CHECK(inner.size() == outs.size(), binding.name, ": the functional form gives ", inner.size(), " results");
  for (size_t i = 0; i < outs.size(); i++) {
    const c10::ScalarType from = inner[i].toTensor().scalar_type(), to = outs[i].toTensor().scalar_type();
    TORCH_CHECK(c10::canCast(from, to), "result type ", from, " can't be cast to the desired output type ", to);
    const at::Tensor& out = outs[i].toTensor();
    const bool resized = at::native::resize_output(out, inner[i].toTensor().sizes());
    // cpu writes one index after the other
    if (resized && binding.name == "aten::nonzero.out") out.as_strided_(out.sizes(), {1, out.size(0)});
    out.copy_(inner[i].toTensor());
  }
  stack->resize(base);
  for (auto& out : outs) stack->push_back(std::move(out));
}

enum class Miss { Planned, Functional };

// What the core wants the user to know: once each, and only when an op is new anyway.
void pass_notices() {
  char text[512];
  while (tpt_notice_take(text, sizeof text)) warn(std::string("tpu: ") + text);
}

// No plan yet: find the result types. `call` may be begun anew, when out= tensors had to be resized.
C10_NOINLINE Miss plan_call(const Binding& binding, Args args, Converted* converted, tpt_call_t* call, CallEnd* end) {
  pass_notices();
  check_dtypes(binding, args);
  if (binding.flags & TPT_ROW_NOMETA) {
    if (binding.has_out && binding.functional.has_value()) return Miss::Functional;
    check_plan(binding, args, tpt_call_plan(call, nullptr, 0));
    return Miss::Planned;
  }
  if (tpt_call_is_plain(call)) {
    check_plan(binding, args, tpt_call_plan(call, nullptr, 0));
    return Miss::Planned;
  }
  tpt_spec_t known[8];
  int count = 0;
  if (!binding.has_out && tpt_call_recall(call, known, 8, &count)) {
    check(tpt_call_plan(call, known, count));
    return Miss::Planned;
  }
  MetaResult meta;
  if (!run_meta(binding, args, &meta)) {
    if (binding.has_out && binding.functional.has_value()) return Miss::Functional;
    TORCH_CHECK_NOT_IMPLEMENTED(!binding.fresh && !binding.has_out, binding.name,
                                ": PyTorch has no meta kernel for this op, so its result cannot be typed on the tpu device");
    check_plan(binding, args, tpt_call_plan(call, nullptr, 0));  // in place: nothing to type
    return Miss::Planned;
  }
  if (resize_outs(binding, args, meta)) {
    const char* where = call->where;
    end->close();
    convert(binding, args, converted);
    check(tpt_call_begin(call, binding.op, converted->args, binding.nargs, converted->device));
    end->open = true;
    call->where = where;
    if (call->plan != nullptr) return Miss::Planned;
  }
  check_plan(binding, args, tpt_call_plan(call, meta.specs.data(), static_cast<int>(meta.specs.size())));
  if (!meta.simple) pattern_put(call->plan, std::move(meta.pattern));
  else if (!binding.has_out) tpt_call_remember(call, meta.specs.data(), static_cast<int>(meta.specs.size()));
  return Miss::Planned;
}

c10::IValue take_list(const Binding& binding, const tpt_call_t& call, Outputs* outputs, int first, int count) {
  c10::List<at::Tensor> list;
  list.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) list.push_back(outputs->take(binding, call, first + i));
  return list;
}

// Results with undefined tensors, lists or plain values among them.
C10_NOINLINE void push_pattern(const Binding& binding, const tpt_call_t& call, Outputs* outputs,
                               std::vector<c10::IValue>* stack, size_t base) {
  const auto pattern = pattern_get(call.plan);
  TORCH_CHECK(pattern != nullptr, binding.name, ": ", outputs->count, " results where ", binding.returns.size(), " are due");
  std::vector<c10::IValue> results;
  int next = 0;
  for (const auto& item : pattern->items) {
    switch (item.kind) {
      case Pattern::Item::Tensor:
        results.emplace_back(outputs->take(binding, call, next++));
        break;
      case Pattern::Item::Undefined:
        results.emplace_back(at::Tensor());
        break;
      case Pattern::Item::List:
        results.push_back(take_list(binding, call, outputs, next, item.count));
        next += item.count;
        break;
      case Pattern::Item::Alias:
        results.push_back((*stack)[base + static_cast<size_t>(item.arg)]);
        break;
      case Pattern::Item::Value:
        results.push_back(item.value);
        break;
    }
  }
  stack->resize(base);
  for (auto& result : results) stack->push_back(std::move(result));
}

void push_aliases(const Binding& binding, std::vector<c10::IValue>* stack, size_t base) {
  if (C10_LIKELY(binding.returns.size() == 1)) {
    c10::IValue self = std::move((*stack)[base + static_cast<size_t>(binding.returns[0].arg)]);
    stack->resize(base);
    stack->push_back(std::move(self));
    return;
  }
  std::vector<c10::IValue> results;
  for (const auto& ret : binding.returns) results.push_back((*stack)[base + static_cast<size_t>(ret.arg)]);
  stack->resize(base);
  for (auto& result : results) stack->push_back(std::move(result));
}

void push_results(const Binding& binding, const tpt_call_t& call, Outputs* outputs, std::vector<c10::IValue>* stack) {
  const size_t base = stack->size() - binding.slots.size();
  if (!binding.fresh) {
    push_aliases(binding, stack, base);
  } else if (C10_LIKELY(binding.plain && outputs->count == static_cast<int>(binding.returns.size()) &&
                        binding.returns[0].kind == Return::Fresh)) {
    at::Tensor first = outputs->take(binding, call, 0);
    stack->resize(base);
    stack->push_back(std::move(first));
    for (int k = 1; k < outputs->count; k++) stack->push_back(outputs->take(binding, call, k));
  } else if (binding.plain && binding.returns[0].kind == Return::FreshList) {
    c10::IValue list = take_list(binding, call, outputs, 0, outputs->count);
    stack->resize(base);
    stack->push_back(std::move(list));
  } else {
    push_pattern(binding, call, outputs, stack, base);
  }
}

// PyTorch counts writes to tensors of its own accord, but not to those in lists: there kernels are to do it.
void bump_versions(const Binding& binding, Args args) {
  for (size_t i = 0; i < args.size(); i++) {
    if (!binding.slots[i].write || !args[i].isTensorList()) continue;
    for (const auto& item : args[i].toListRef()) {
      if (item.toTensor().defined()) item.toTensor().unsafeGetTensorImpl()->bump_version();
    }
  }
}

class TableKernel final : public c10::OperatorKernel {
 public:
  explicit TableKernel(const Binding* binding) : binding_(binding) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const bool maybe_host = (binding_->flags & (TPT_ROW_HOST | TPT_ROW_HOST_CPU)) != 0;
    if (C10_UNLIKELY(maybe_host) && tpt_row_on_host(binding_->row)) return host_routine(op, stack);
    call_row(*binding_, stack);
  }

 private:
  const Binding* binding_;
};

// Registers what is called for one overload of an operator and dispatch key. Never taken back: it lives as long as the process.
void implement(const std::string& name, c10::DispatchKey key, torch::CppFunction kernel) {
  static auto* libraries = new std::unordered_map<std::string, torch::Library*>();
  const size_t colon = name.find("::");
  auto& library = (*libraries)[name.substr(0, colon) + c10::toString(key)];
  if (library == nullptr) library = new torch::Library(torch::Library::IMPL, name.substr(0, colon), key, __FILE__, __LINE__);
  library->impl(name.substr(colon + 2).c_str(), std::move(kernel));
}

// For tests and docs: "ok|schema|row" of what is registered, "skipped|name|reason" of what is not.
std::vector<std::string> row_report() {
  std::vector<std::string> lines;
  for (const Binding* binding : bindings()) lines.push_back("ok|" + binding->name + "|" + tpt_row_name(binding->row));
  for (const auto& skipped : skipped_rows()) lines.push_back("skipped|" + skipped.row + "|" + skipped.reason);
  return lines;
}

}  // namespace

void call_row(const Binding& binding, std::vector<c10::IValue>* stack) {
  if (C10_UNLIKELY(binding.before != Before::Nothing) && before_call(binding, stack)) return;
  const Args args(stack->data() + (stack->size() - binding.slots.size()), binding.slots.size());
  if (C10_UNLIKELY(mixes_devices(binding, args) || items_depend(binding, args))) return call_composite(binding, stack);
  Converted converted;
  convert(binding, args, &converted);
  if (C10_UNLIKELY((binding.device_slot >= 0 || binding.layout_slot >= 0) && leaves_device(binding, args, converted))) {
    return call_composite(binding, stack);
  }
  if (binding.rng_arg >= 0) convert_rng(binding, args, &converted);
  if (binding.has_write && !binding.foreach) check_overlap(binding, args);
  if (C10_UNLIKELY((binding.flags & TPT_ROW_DOT) && tpt_precision_matters())) note_precision();
  tpt_call_t call;
  check(tpt_call_begin(&call, binding.op, converted.args, binding.nargs, converted.device));
  CallEnd end{&call};
  call.where = note_caller(binding);
  if (C10_UNLIKELY(call.plan == nullptr) && plan_call(binding, args, &converted, &call, &end) == Miss::Functional) {
    end.close();
    return call_functional(binding, stack);
  }
  Outputs outputs(call.nouts);
  tpt_status_t* status = tpt_call_run(&call, outputs.all);
  if (C10_UNLIKELY(status != nullptr)) {
    outputs.forget();  // a failed call hands nothing over
    raise(status);
  }
  if (C10_UNLIKELY(binding.foreach && binding.has_write)) bump_versions(binding, args);
  push_results(binding, call, &outputs, stack);
}

void note_precision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGH:
      return tpt_precision_wish(TPT_PRECISION_HIGH);
    case at::Float32MatmulPrecision::MEDIUM:
      return tpt_precision_wish(TPT_PRECISION_DEFAULT);
    default:  // PyTorch's own default: nobody has asked
      return tpt_precision_wish(TPT_PRECISION_UNSET);
  }
}

void register_rows() {
  static const bool once = [] {
    bind_rows();
    for (const Binding* binding : bindings()) {
      if (binding->flags & TPT_ROW_GLUE) continue;
      auto direct = direct_kernel(*binding);
      if (!direct.has_value()) {
        implement(binding->name, kKey, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<TableKernel>(binding)));
        continue;
      }
      implement(binding->name, kKey, std::move(direct->device));
      if (binding->handle.hasKernelForDispatchKey(c10::DispatchKey::Autograd)) {
        implement(binding->name, c10::DispatchKey::AutogradPrivateUse1, std::move(direct->autograd));
      }
    }
    return true;
  }();
  (void)once;
}

void run_op(const tpt_op_t* op, const tpt_arg_t* args, int nargs, int device, const tpt_spec_t* specs, int nspecs,
            tpt_storage_t** out_storages) {
  tpt_call_t call;
  check(tpt_call_begin(&call, op, args, nargs, device));
  CallEnd end{&call};
  call.where = tpt_mode_get() == TPT_MODE_DEBUG ? python_where() : nullptr;
  if (call.plan == nullptr) check(tpt_call_plan(&call, specs, nspecs));
  check(tpt_call_run(&call, out_storages));
}

TORCH_LIBRARY_FRAGMENT(tpu, m) { m.def("_row_report() -> str[]", &row_report); }

}  // namespace tpt_glue
