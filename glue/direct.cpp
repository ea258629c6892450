// direct.cpp - typed kernels for the commonest signatures. They do what the boxed kernel does for a planned call, but read the
// C++ arguments where they lie: a stack of IValues takes references to tensors, and PyTorch takes and drops the GIL whenever a
// tensor that Python alone held gets a second owner. Whatever is not plain goes to the boxed kernel.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <unordered_map>

#include "convert.h"

namespace tpt_glue {
struct TableReader;
}  // namespace tpt_glue

// What is registered for an operator may be asked by friends alone, and friends are handles of any type.
template <>
class c10::TypedOperatorHandle<tpt_glue::TableReader> final {
 public:
  // What stands in the dispatch table for a key.
  static const c10::KernelFunction* standing(const c10::OperatorHandle& handle, c10::DispatchKey key) {
    return &handle.operatorDef_->op.lookup(c10::DispatchKeySet(key));
  }
  // What was registered last for a key, an alias among them.
  static const c10::KernelFunction& registered(const c10::OperatorHandle& handle, c10::DispatchKey key) {
    return handle.operatorDef_->op.kernelForDispatchKey(key);
  }
};

namespace tpt_glue {

namespace {

constexpr int kMaxArgs = 12;

// A call's arguments in the core's form. They borrow from the C++ arguments.
struct Flat {
  tpt_arg_t args[kMaxArgs];
  int count = 0, device = -1;
  const at::Tensor* written = nullptr;

  tpt_arg_t* next(tpt_arg_kind_t kind) {
    tpt_arg_t* arg = &args[count++];
    arg->kind = static_cast<uint8_t>(kind);
    arg->count = 0;
    return arg;
  }
};

// ---- put: one argument; false when it is nothing that the direct way takes.
bool put(Flat* flat, const at::Tensor& tensor) {
  if (C10_UNLIKELY(!tensor.defined())) {
    flat->next(TPT_ARG_NONE);
    return true;
  }
  const c10::Device device = tensor.device();
  if (C10_LIKELY(device.type() == kTpu)) {
    if (C10_UNLIKELY(flat->device >= 0 && flat->device != device.index())) return false;
    flat->device = device.index();
    flat->next(TPT_ARG_TENSOR)->u.tensor = borrow(tensor);
    return true;
  }
  if (!device.is_cpu() || tensor.dim() != 0) return false;
  flat->next(TPT_ARG_NUMBER)->u.number = number_of_tensor(tensor);
  return true;
}
bool put(Flat* flat, at::Tensor& tensor) {
  if (C10_UNLIKELY(!tensor.defined() || tensor.device().type() != kTpu || flat->written != nullptr)) return false;
  flat->written = &tensor;
  return put(flat, const_cast<const at::Tensor&>(tensor));
}
bool put(Flat* flat, const std::optional<at::Tensor>& tensor) {
  if (tensor.has_value()) return put(flat, *tensor);
  flat->next(TPT_ARG_NONE);
  return true;
}
bool put(Flat* flat, const at::Scalar& scalar) {
  if (C10_UNLIKELY(scalar.isSymbolic())) return false;
  flat->next(TPT_ARG_NUMBER)->u.number = number_of_scalar(scalar);
  return true;
}
bool put(Flat* flat, double value) { return put(flat, at::Scalar(value)); }
bool put(Flat* flat, int64_t value) {
  flat->next(TPT_ARG_INT)->u.i = value;
  return true;
}
bool put(Flat* flat, const c10::SymInt& value) {
  const auto plain = value.maybe_as_int();
  return plain.has_value() && put(flat, *plain);
}
bool put(Flat* flat, bool value) {
  flat->next(TPT_ARG_BOOL)->u.i = value ? 1 : 0;
  return true;
}
bool put(Flat* flat, std::optional<at::ScalarType> dtype) {
  if (dtype.has_value())
    flat->next(TPT_ARG_DTYPE)->u.i = to_tpt(*dtype);
  else
    flat->next(TPT_ARG_NONE);
  return true;
}
bool put(Flat* flat, at::ScalarType dtype) { return put(flat, std::optional<at::ScalarType>(dtype)); }
bool put(Flat* flat, at::IntArrayRef ints) {
  tpt_arg_t* arg = flat->next(TPT_ARG_INTS);
  arg->count = static_cast<int32_t>(ints.size());
  arg->u.ints = ints.data();
  return true;
}
bool put(Flat* flat, at::OptionalIntArrayRef ints) {
  if (ints.has_value()) return put(flat, *ints);
  flat->next(TPT_ARG_NONE);
  return true;
}
bool put(Flat* flat, c10::SymIntArrayRef ints) {
  const auto plain = c10::asIntArrayRefSlowOpt(ints);
  return plain.has_value() && put(flat, *plain);
}

// As cpu refuses them: writes to expanded tensors, and to tensors that partly overlap an input. Rare shapes of it are boxed's.
bool overlaps(const Flat& flat) { return at::has_internal_overlap(*flat.written) != at::MemOverlap::No; }
template <class... A>
bool shares(const at::Tensor& written, const A&... args) {
  const auto one = [&written](const auto& arg) {
    if constexpr (std::is_same_v<std::decay_t<decltype(arg)>, at::Tensor>) {
      return arg.defined() && arg.unsafeGetTensorImpl() != written.unsafeGetTensorImpl() && arg.device().type() == kTpu &&
             arg.storage().unsafeGetStorageImpl() == written.storage().unsafeGetStorageImpl();
    } else {
      return false;
    }
  };
  return (one(args) || ...);
}

// ---- take: the results of a finished call.
template <class R>
struct Take;
template <>
struct Take<at::Tensor> {
  static constexpr int kCount = 1;
  static at::Tensor from(tpt_storage_t** outs, const tpt_call_t& call) {
    return wrap(outs[0], *tpt_call_spec(&call, 0), call.device);
  }
};
template <>
struct Take<std::tuple<at::Tensor, at::Tensor>> {
  static constexpr int kCount = 2;
  static auto from(tpt_storage_t** outs, const tpt_call_t& call) {
    return std::make_tuple(wrap(outs[0], *tpt_call_spec(&call, 0), call.device),
                           wrap(outs[1], *tpt_call_spec(&call, 1), call.device));
  }
};
template <>
struct Take<std::tuple<at::Tensor, at::Tensor, at::Tensor>> {
  static constexpr int kCount = 3;
  static auto from(tpt_storage_t** outs, const tpt_call_t& call) {
    return std::make_tuple(wrap(outs[0], *tpt_call_spec(&call, 0), call.device),
                           wrap(outs[1], *tpt_call_spec(&call, 1), call.device),
                           wrap(outs[2], *tpt_call_spec(&call, 2), call.device));
  }
};
template <>
struct Take<at::Tensor&> {
  static constexpr int kCount = 0;
};

template <class R, class... A>
class DirectKernel final {
 public:
  explicit DirectKernel(const Binding* binding) : binding_(*binding) {}

  R operator()(A... args) const {
    Flat flat;
    if (C10_UNLIKELY(!(put(&flat, args) && ...) || flat.device < 0)) return boxed(args...);
    if (flat.written != nullptr && C10_UNLIKELY(overlaps(flat) || shares(*flat.written, args...))) return boxed(args...);
    put_default_dtype(&flat.args[flat.count]);
    if (C10_UNLIKELY((binding_.flags & TPT_ROW_DOT) && tpt_precision_matters())) note_precision();
    tpt_call_t call;
    check(tpt_call_begin(&call, binding_.op, flat.args, binding_.nargs, flat.device));
    CallEnd end{&call};
    if (C10_UNLIKELY(call.plan == nullptr || call.nouts != Take<R>::kCount)) return boxed(args...);
    call.where = note_caller(binding_);
    tpt_storage_t* outs[Take<R>::kCount + 1];
    check(tpt_call_run(&call, outs));
    if constexpr (std::is_same_v<R, at::Tensor&>)
      return const_cast<at::Tensor&>(*flat.written);
    else
      return Take<R>::from(outs, call);
  }

 private:
  C10_NOINLINE R boxed(A... args) const {
    const at::AutoDispatchBelowADInplaceOrView guard;  // autograd has had its turn, or passed it up
    torch::jit::Stack stack = c10::impl::boxArgs(args...);
    call_row(binding_, &stack);
    if constexpr (std::is_same_v<R, at::Tensor&>)
      return first_written(args...);
    else
      return c10::impl::PopResult<R>::call(stack);
  }
  template <class First, class... Rest>
  static at::Tensor& first_written(First& first, Rest&...) {
    return const_cast<at::Tensor&>(first);
  }
  const Binding& binding_;
};

// ---- autograd's turn of the same call ----------------------------------------------------------------------------------

// What a call's dispatch keys are where nothing stands between autograd and this device. Numbers come as tensors on the cpu.
bool only_ours(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kPlain({c10::DispatchKey::AutogradPrivateUse1, c10::DispatchKey::ADInplaceOrView, kKey,
                                        c10::DispatchKey::AutogradCPU, c10::DispatchKey::CPU});
  return (keys.raw_repr() & ~kPlain.raw_repr()) == 0;
}

// Would autograd note something of a call with this argument?
bool is_followed(const at::Tensor& tensor) {
  if (C10_LIKELY(tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr)) return false;
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(/*level=*/0).defined();
}
bool is_followed(const std::optional<at::Tensor>& tensor) { return tensor.has_value() && is_followed(*tensor); }
template <class T>
bool is_followed(const T&) {
  return false;
}

// What stands in an operator's dispatch table for a key: is it still what stood there first? Others may register kernels for all
// backends at any time (torch.library, "Autograd"), and their place in the table is then filled anew.
class Standing {
 public:
  Standing(const c10::OperatorHandle& handle, c10::DispatchKey key)
      : now_(c10::TypedOperatorHandle<TableReader>::standing(handle, key)), first_(*now_),
        theirs_(!first_.isValidUnboxed() && !first_.isFallthrough()) {}
  bool is_first() const { return C10_LIKELY(now_->_equalsBoxedAndUnboxed(first_)) && !theirs_; }

 private:
  const c10::KernelFunction* now_;
  c10::KernelFunction first_;
  bool theirs_;  // somebody was here before us: PyTorch's own are functions, Python's are not
};

// Where autograd has nothing to note, its turn is the device's kernel at once, without autograd's own and what watches views and
// versions: a twelfth of `x + y`. Everything else is for the kernel that is registered for the autograd of all backends: PyTorch's
// own, or another's.
template <class R, class... A>
class AutogradKernel final {
 public:
  explicit AutogradKernel(const Binding* binding)
      : handle_(binding->handle.typed<R(A...)>()), autograd_(binding->handle, c10::DispatchKey::AutogradOther),
        views_(binding->handle, c10::DispatchKey::ADInplaceOrView) {}

  R operator()(c10::DispatchKeySet keys, A... args) const {
    if (C10_UNLIKELY(!only_ours(keys) || !autograd_.is_first() || !views_.is_first() || (is_followed(args) || ...))) {
      const c10::KernelFunction& kernel = c10::TypedOperatorHandle<TableReader>::registered(handle_, c10::DispatchKey::Autograd);
      // The keys above autograd have had their turn, Python's dispatcher among them.
      constexpr c10::DispatchKeySet kFrom = c10::after_autograd_keyset.add(c10::DispatchKey::AutogradPrivateUse1);
      return kernel.template call<R, A...>(handle_, keys & kFrom, std::forward<A>(args)...);
    }
    // Through the dispatcher all the same: the device's kernel may be another's by now (torch.library).
    const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
    if constexpr (std::is_same_v<R, at::Tensor&>) {
      at::Tensor& written = handle_.redispatch(below, args...);
      written.unsafeGetTensorImpl()->bump_version();
      return written;
    } else {
      return handle_.redispatch(below, args...);
    }
  }

 private:
  c10::TypedOperatorHandle<R(A...)> handle_;
  const Standing autograd_, views_;
};

// ---- which signature is which kernel ------------------------------------------------------------------------------------

template <class T>
constexpr const char* type_name() {
  using D = std::decay_t<T>;
  if constexpr (std::is_same_v<T, at::Tensor&>)
    return "Tensor!";
  else if constexpr (std::is_same_v<D, at::Tensor>)
    return "Tensor";
  else if constexpr (std::is_same_v<D, std::optional<at::Tensor>>)
    return "Tensor?";
  else if constexpr (std::is_same_v<D, at::Scalar>)
    return "Scalar";
  else if constexpr (std::is_same_v<D, bool>)
    return "bool";
  else if constexpr (std::is_same_v<D, int64_t>)
    return "int";
  else if constexpr (std::is_same_v<D, c10::SymInt>)
    return "SymInt";
  else if constexpr (std::is_same_v<D, double>)
    return "float";
  else if constexpr (std::is_same_v<D, at::ScalarType>)
    return "ScalarType";
  else if constexpr (std::is_same_v<D, std::optional<at::ScalarType>>)
    return "ScalarType?";
  else if constexpr (std::is_same_v<D, at::OptionalIntArrayRef>)
    return "int[]?";
  else if constexpr (std::is_same_v<D, at::IntArrayRef>)
    return "int[]";
  else if constexpr (std::is_same_v<D, c10::SymIntArrayRef>)
    return "SymInt[]";
  else
    return "?";
}

using Make = DirectKernels (*)(const Binding*);
using Table = std::unordered_map<std::string, Make>;

template <class R, class... A>
void enter(Table* table, R (*)(A...)) {
  std::string key;
  for (const char* name : {type_name<A>()...}) key += std::string(name) + ",";
  key += ">" + std::to_string(Take<R>::kCount);
  (*table)[key] = [](const Binding* binding) {
    return DirectKernels{torch::CppFunction(DirectKernel<R, A...>(binding)), torch::CppFunction(AutogradKernel<R, A...>(binding))};
  };
}

template <class F>
void enter(Table* table) {
  enter(table, static_cast<F*>(nullptr));
}

const Table& table() {
  using T = const at::Tensor&;
  using W = at::Tensor&;
  using S = const at::Scalar&;
  using O = const std::optional<at::Tensor>&;
  using L = c10::SymIntArrayRef;
  using Pair = std::tuple<at::Tensor, at::Tensor>;
  using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  static const Table made = [] {
    Table t;
    enter<at::Tensor(T)>(&t);
    enter<at::Tensor(T, T)>(&t);
    enter<at::Tensor(T, S)>(&t);
    enter<at::Tensor(T, T, S)>(&t);
    enter<at::Tensor(T, S, S)>(&t);
    enter<at::Tensor(T, T, T)>(&t);
    enter<at::Tensor(T, T, T, S)>(&t);
    enter<at::Tensor(T, T, T, S, S)>(&t);
    enter<at::Tensor(T, int64_t, bool)>(&t);
    enter<at::Tensor(T, T, int64_t, at::ScalarType)>(&t);
    enter<at::Tensor(T, std::optional<at::ScalarType>)>(&t);
    enter<at::Tensor(T, at::OptionalIntArrayRef, bool, std::optional<at::ScalarType>)>(&t);
    enter<W(W)>(&t);
    enter<W(W, T)>(&t);
    enter<W(W, S)>(&t);
    enter<W(W, T, S)>(&t);
    enter<W(W, S, S)>(&t);
    enter<W(W, T, T, S)>(&t);
    enter<Pair(T, T, O, int64_t, c10::SymInt)>(&t);
    enter<Triple(T, L, O, O, double)>(&t);
    return t;
  }();
  return made;
}

std::string type_text(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return type_text(type->castRaw<c10::OptionalType>()->getElementType()) + "?";
    case c10::TypeKind::ListType:
      return type_text(type->castRaw<c10::ListType>()->getElementType()) + "[]";
    case c10::TypeKind::TensorType:
      return "Tensor";
    case c10::TypeKind::NumberType:
      return "Scalar";
    case c10::TypeKind::IntType:
      return "int";
    case c10::TypeKind::SymIntType:
      return "SymInt";
    case c10::TypeKind::BoolType:
      return "bool";
    case c10::TypeKind::FloatType:
      return "float";
    case c10::TypeKind::ScalarTypeType:
      return "ScalarType";
    default:
      return "other";
  }
}

std::string signature(const Binding& binding) {
  std::string key;
  for (const auto& arg : binding.handle.schema().arguments()) {
    const bool write = arg.alias_info() != nullptr && arg.alias_info()->isWrite();
    key += type_text(arg.real_type()) + (write ? "!," : ",");
  }
  return key + ">" + std::to_string(binding.fresh ? binding.returns.size() : 0);
}

}  // namespace

std::optional<DirectKernels> direct_kernel(const Binding& binding) {
  constexpr uint32_t kBoxed = TPT_ROW_DYNAMIC | TPT_ROW_HOST | TPT_ROW_HOST_CPU;
  const bool special = binding.before != Before::Nothing || binding.rng_arg >= 0 || binding.device_slot >= 0 ||
                       binding.layout_slot >= 0 || binding.foreach || binding.has_out || (binding.flags & kBoxed) != 0;
  if (special || binding.nargs > kMaxArgs || (binding.fresh && !binding.plain)) return std::nullopt;
  if (!binding.fresh &&
      (binding.returns.size() != 1 || binding.returns[0].kind != Return::Alias || binding.returns[0].arg != 0)) {
    return std::nullopt;
  }
  const auto found = table().find(signature(binding));
  if (found == table().end()) return std::nullopt;
  return found->second(&binding);
}

}  // namespace tpt_glue
