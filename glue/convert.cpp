// convert.cpp - a call's stack of IValues becomes the core's flat arguments, without a heap allocation in the common case.
#include "convert.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/Scalar.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "storage.h"

namespace tpt_glue {

tpt_number_t number_of_scalar(const c10::Scalar& scalar) {
  tpt_number_t number{};
  number.wrapped = true;
  if (scalar.isFloatingPoint()) {
    number.dtype = TPT_F64;
    number.v.f[0] = scalar.toDouble();
  } else if (scalar.isBoolean()) {
    number.dtype = TPT_BOOL;
    number.v.i = scalar.toBool() ? 1 : 0;
  } else if (scalar.isComplex()) {
    const auto value = scalar.toComplexDouble();
    number.dtype = TPT_C128;
    number.v.f[0] = value.real();
    number.v.f[1] = value.imag();
  } else {
    // Python's integers from 2^63 on: their bits, and a dtype of their own, for in floating dtypes they are their value.
    const bool huge = scalar.type() == c10::ScalarType::UInt64;
    number.dtype = huge ? TPT_U64 : TPT_I64;
    number.v.i = huge ? static_cast<int64_t>(scalar.toUInt64()) : scalar.toLong();
  }
  return number;
}

// A 0-d cpu tensor mixes with device tensors like a number, and keeps its dtype unless it stands for a Python number.
tpt_number_t number_of_tensor(const at::Tensor& tensor) {
  tpt_number_t number{};
  const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (wrapped && tensor.scalar_type() == c10::ScalarType::Double) {
    number.dtype = TPT_F64;
    number.v.f[0] = *static_cast<const double*>(tensor.const_data_ptr());
  } else if (wrapped && tensor.scalar_type() == c10::ScalarType::Long) {
    number.dtype = TPT_I64;
    number.v.i = *static_cast<const int64_t*>(tensor.const_data_ptr());
  } else {
    number = number_of_scalar(tensor.item());
    if (!wrapped) number.dtype = static_cast<uint8_t>(to_tpt(tensor.scalar_type()));
  }
  number.wrapped = wrapped;
  return number;
}

void put_default_dtype(tpt_arg_t* last) {
  const c10::ScalarType usual = c10::get_default_dtype_as_scalartype();
  last->count = 0;
  last->kind = TPT_ARG_NONE;
  if (C10_UNLIKELY(usual != c10::ScalarType::Float)) {
    last->kind = TPT_ARG_DTYPE;
    last->u.i = to_tpt(usual);
  }
}

namespace {

tpt_number_t number_of(const c10::IValue& value) {
  tpt_number_t number{};
  number.wrapped = true;
  if (value.isDouble()) {
    number.dtype = TPT_F64;
    number.v.f[0] = value.toDouble();
    return number;
  }
  if (value.isInt()) {
    number.dtype = TPT_I64;
    number.v.i = value.toInt();
    return number;
  }
  return number_of_scalar(value.toScalar());
}

int64_t int_of(const c10::IValue& value) {
  if (C10_LIKELY(value.isInt())) return value.toInt();
  if (value.isBool()) return value.toBool() ? 1 : 0;
  return value.toSymInt().guard_int(__FILE__, __LINE__);
}

// State of one conversion: a tensor on another device is an error only once all arguments are seen, for the text names both.
struct Stray {
  const at::Tensor* tensor = nullptr;
};

void note_stray(const at::Tensor& tensor, Stray* stray) {
  if (stray->tensor == nullptr) stray->tensor = &tensor;
}

void note_device(Converted* out, const at::Tensor& tensor, Stray* stray) {
  const int index = tensor.device().index();
  if (C10_UNLIKELY(out->has_tensor && index != out->device)) {
    note_stray(tensor, stray);
    return;
  }
  out->device = index;
  out->has_tensor = true;
}

[[noreturn]] void raise_devices(const Binding& binding, Args args, const Stray& stray, int device) {
  const auto is_it = [&](const c10::IValue& value) { return value.isTensor() && value.toTensor().is_same(*stray.tensor); };
  size_t at = 0;
  while (at + 1 < args.size() && !is_it(args[at]) &&
         !(args[at].isList() && std::any_of(args[at].toListRef().begin(), args[at].toListRef().end(), is_it))) {
    at++;
  }
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ",
              c10::Device(kTpu, static_cast<c10::DeviceIndex>(device)), " and ", stray.tensor->device(),
              "! (when checking argument for argument ", binding.handle.schema().arguments()[at].name(), " in method ", binding.name,
              ")");
}

void convert_tensor(const Slot& slot, const c10::IValue& value, tpt_arg_t* arg, Converted* out, Stray* stray) {
  if (C10_UNLIKELY(!value.isTensor())) return;  // None
  const at::Tensor& tensor = value.toTensor();
  if (C10_LIKELY(tensor.defined() && tensor.device().type() == kTpu)) {
    note_device(out, tensor, stray);
    arg->kind = TPT_ARG_TENSOR;
    arg->u.tensor = borrow(tensor);
  } else if (tensor.defined()) {
    if (tensor.device().is_cpu() && tensor.dim() == 0 && !slot.write) {
      arg->kind = TPT_ARG_NUMBER;
      arg->u.number = number_of_tensor(tensor);
    } else {
      note_stray(tensor, stray);
    }
  }
}

void convert_tensors(const c10::IValue& value, tpt_arg_t* arg, Converted* out, Stray* stray) {
  const auto items = value.toListRef();
  tpt_tensor_t* tensors = out->scratch.take<tpt_tensor_t>(items.size());
  for (size_t i = 0; i < items.size(); i++) {
    tensors[i] = tpt_tensor_t{};
    if (!items[i].isTensor()) continue;
    const at::Tensor& tensor = items[i].toTensor();
    if (!tensor.defined()) continue;
    if (C10_UNLIKELY(tensor.device().type() != kTpu)) {
      note_stray(tensor, stray);
      continue;
    }
    note_device(out, tensor, stray);
    tensors[i] = borrow(tensor);
  }
  arg->kind = TPT_ARG_TENSORS;
  arg->count = static_cast<int32_t>(items.size());
  arg->u.tensors = tensors;
}

void convert_numbers(const c10::IValue& value, tpt_arg_t* arg, Converted* out) {
  arg->kind = TPT_ARG_NUMBERS;
  if (value.isDoubleList()) {
    const auto items = value.toDoubleList();
    tpt_number_t* numbers = out->scratch.take<tpt_number_t>(items.size());
    for (size_t i = 0; i < items.size(); i++) numbers[i] = number_of(c10::IValue(items.get(i)));
    arg->count = static_cast<int32_t>(items.size());
    arg->u.numbers = numbers;
    return;
  }
  const auto items = value.toListRef();
  tpt_number_t* numbers = out->scratch.take<tpt_number_t>(items.size());
  for (size_t i = 0; i < items.size(); i++) numbers[i] = number_of(items[i]);
  arg->count = static_cast<int32_t>(items.size());
  arg->u.numbers = numbers;
}

void convert_ints(const c10::IValue& value, tpt_arg_kind_t kind, tpt_arg_t* arg, Converted* out) {
  arg->kind = static_cast<uint8_t>(kind);
  if (value.isInt() || value.isSymInt()) {  // `int[1] dim` may hold one int
    int64_t* one = out->scratch.take<int64_t>(1);
    one[0] = int_of(value);
    arg->count = 1;
    arg->u.ints = one;
    return;
  }
  const auto items = value.toListRef();
  int64_t* ints = out->scratch.take<int64_t>(items.size());
  for (size_t i = 0; i < items.size(); i++) ints[i] = int_of(items[i]);
  arg->count = static_cast<int32_t>(items.size());
  arg->u.ints = ints;
}

void convert_one(const Slot& slot, const c10::IValue& value, tpt_arg_t* arg, Converted* out, Stray* stray) {
  arg->kind = TPT_ARG_NONE;
  arg->count = 0;
  if (value.isNone()) return;
  switch (slot.kind) {
    case Kind::Tensor:
      convert_tensor(slot, value, arg, out, stray);
      break;
    case Kind::TensorList:
      convert_tensors(value, arg, out, stray);
      break;
    case Kind::Number:
      arg->kind = TPT_ARG_NUMBER;
      arg->u.number = number_of(value);
      break;
    case Kind::NumberList:
      convert_numbers(value, arg, out);
      break;
    case Kind::Int:
    case Kind::Format:
      arg->kind = TPT_ARG_INT;
      arg->u.i = int_of(value);
      break;
    case Kind::IntList:
      convert_ints(value, TPT_ARG_INTS, arg, out);
      break;
    case Kind::Bool:
      arg->kind = TPT_ARG_BOOL;
      arg->u.i = int_of(value);
      break;
    case Kind::BoolList:
      convert_ints(value, TPT_ARG_BOOLS, arg, out);
      break;
    case Kind::String: {
      const auto text = value.toStringView();
      arg->kind = TPT_ARG_STRING;
      arg->count = static_cast<int32_t>(text.size());
      arg->u.string.text = text.data();
      break;
    }
    case Kind::DType:
      arg->kind = TPT_ARG_DTYPE;
      arg->u.i = to_tpt(value.toScalarType());
      break;
    case Kind::Device:
    case Kind::Generator:
    case Kind::Ignored:
      break;
  }
}

int64_t product(Args items) {
  int64_t total = 1;
  for (const auto& item : items) {
    const int64_t size = int_of(item);
    if (size < 0 || (size > 0 && total > INT64_MAX / size)) return 0;  // the op will refuse it
    total *= size;
  }
  return total;
}

}  // namespace

void convert(const Binding& binding, Args args, Converted* out) {
  if (out->args == nullptr) out->args = out->scratch.take<tpt_arg_t>(static_cast<size_t>(binding.nargs));
  out->has_tensor = false;
  Stray stray;
  const size_t nslots = binding.slots.size();
  for (size_t i = 0; i < nslots; i++) {
    if (static_cast<int>(i) == binding.rng_arg) continue;  // written by convert_rng
    convert_one(binding.slots[i], args[i], &out->args[i], out, &stray);
  }
  if (C10_UNLIKELY(stray.tensor != nullptr && out->has_tensor)) {
    raise_devices(binding, args, stray, out->device);
  }
  TORCH_CHECK(stray.tensor == nullptr, binding.name, ": expected a tensor on a tpu device, but got one on ",
              stray.tensor->device());
  if (!out->has_tensor) {
    out->device = -1;
    if (binding.device_slot >= 0) {
      const auto& value = args[static_cast<size_t>(binding.device_slot)];
      if (value.isDevice() && value.toDevice().has_index()) out->device = value.toDevice().index();
    }
    out->device = check_device(c10::Device(kTpu, static_cast<c10::DeviceIndex>(out->device)));
  }
  put_default_dtype(&out->args[binding.nargs - 1]);
}

void convert_rng(const Binding& binding, Args args, Converted* out) {
  int64_t most = 1;
  for (size_t i = 0; i < binding.slots.size(); i++) {
    const Slot& slot = binding.slots[i];
    if (slot.kind == Kind::Tensor && args[i].isTensor() && args[i].toTensor().defined()) {
      most = std::max(most, args[i].toTensor().numel());
    } else if (slot.sizes && args[i].isList()) {
      most = std::max(most, product(args[i].toListRef()));
    }
  }
  std::optional<at::Generator> generator;
  if (binding.generator_slot >= 0 && args[static_cast<size_t>(binding.generator_slot)].isGenerator()) {
    generator = args[static_cast<size_t>(binding.generator_slot)].toGenerator();
  }
  tpt_arg_t* arg = &out->args[binding.rng_arg];
  arg->kind = TPT_ARG_RNG;
  arg->count = 0;
  rng_take(generator, out->device, blocks_for(most), &arg->u.rng.seed, &arg->u.rng.offset);
}

void check_overlap(const Binding& binding, Args args) {
  for (size_t i = 0; i < binding.slots.size(); i++) {
    if (!binding.slots[i].write || !args[i].isTensor()) continue;
    const at::Tensor& written = args[i].toTensor();
    if (!written.defined()) continue;
    at::assert_no_internal_overlap(written);
    const c10::StorageImpl* storage = written.storage().unsafeGetStorageImpl();
    for (size_t k = 0; k < binding.slots.size(); k++) {
      if (k != i && binding.apart && args[k].isTensorList()) {
        for (const auto& item : args[k].toListRef()) {
          if (item.isTensor() && item.toTensor().defined()) at::assert_no_overlap(written, item.toTensor());
        }
      }
      if (k == i || !args[k].isTensor()) continue;
      const at::Tensor& read = args[k].toTensor();
      if (!read.defined() || read.device().type() != kTpu || read.storage().unsafeGetStorageImpl() != storage) continue;
      if (binding.apart) at::assert_no_overlap(written, read);
      at::assert_no_partial_overlap(written, read);
    }
  }
}

}  // namespace tpt_glue
