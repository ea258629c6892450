// factory.cpp - tensors without a value, and changes of a tensor's size or storage. No device work.
#include <ATen/MemoryOverlap.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/set.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "storage.h"

namespace tpt_glue {

namespace {

using OptDtype = std::optional<c10::ScalarType>;
using OptLayout = std::optional<c10::Layout>;
using OptDevice = std::optional<c10::Device>;
using OptFormat = std::optional<c10::MemoryFormat>;

int device_of(const OptLayout &layout, const OptDevice &device, const std::optional<bool> &pin_memory) {
  TORCH_CHECK(!layout.has_value() || *layout == c10::kStrided, "tpu: only strided tensors are supported, not layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return check_device(device.value_or(c10::Device(kTpu)));
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, OptDtype dtype, OptLayout layout, OptDevice device,
                               std::optional<bool> pin_memory, OptFormat format) {
  const int index = device_of(layout, device, pin_memory);
  const c10::ScalarType type = c10::dtype_or_default(dtype);
  at::detail::check_size_nonnegative(sizes);
  const c10::MemoryFormat wanted = format.value_or(c10::MemoryFormat::Contiguous);
  if (wanted == c10::MemoryFormat::ChannelsLast) {
    TORCH_CHECK(sizes.size() == 4, "required rank 4 tensor to use channels_last format");
    return empty_strided(sizes, c10::get_channels_last_strides_2d(sizes), type, index);
  }
  if (wanted == c10::MemoryFormat::ChannelsLast3d) {
    TORCH_CHECK(sizes.size() == 5, "required rank 5 tensor to use channels_last_3d format");
    return empty_strided(sizes, c10::get_channels_last_strides_3d(sizes), type, index);
  }
  TORCH_CHECK(wanted == c10::MemoryFormat::Contiguous, "unsupported memory format ", wanted);
  return empty_strided(sizes, row_major(sizes), type, index);
}

at::Tensor empty_strided_op(c10::IntArrayRef sizes, c10::IntArrayRef strides, OptDtype dtype, OptLayout layout,
                            OptDevice device, std::optional<bool> pin_memory) {
  return empty_strided(sizes, strides, c10::dtype_or_default(dtype), device_of(layout, device, pin_memory));
}

// A tensor of zeros that takes no memory; PyTorch's own ZeroTensor fallback materialises it where it is read.
at::Tensor efficient_zero(c10::IntArrayRef sizes, OptDtype dtype, OptLayout layout, OptDevice device,
                          std::optional<bool> pin_memory) {
  const int index = device_of(layout, device, pin_memory);
  at::native::ZeroTensorAllocator allocator(c10::Device(kTpu, static_cast<c10::DeviceIndex>(index)));
  return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(kKey) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

void grow(c10::TensorImpl *impl, size_t nbytes) {
  c10::StorageImpl *storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (impl->numel() > 0 && nbytes > storage->nbytes()) resize_storage(storage, nbytes);
}

const at::Tensor &resize_op(const at::Tensor &self, c10::IntArrayRef sizes, OptFormat format) {
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  at::detail::check_size_nonnegative(sizes);
  if (self.sizes() != sizes) {
    const size_t nbytes = at::detail::computeStorageNbytesContiguous(sizes, impl->itemsize(), impl->storage_offset());
    impl->set_sizes_contiguous(sizes);
    grow(impl, nbytes);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

// A raw storage gets its dtype and dims by one trip through the host, once, instead of a bitcast in every later program.
void give_type(const at::Tensor &self) {
  c10::StorageImpl *storage = self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  int64_t dims[TPT_MAX_RANK];
  if (!is_raw(storage) || storage->nbytes() == 0 || self.scalar_type() == c10::kByte || !covers_storage(self) ||
      !dims_in_memory(self.sizes(), self.strides(), dims)) {
    return;
  }
  const tpt_dtype_t dtype = to_tpt(self.scalar_type());
  const c10::DataPtr bytes = c10::GetCPUAllocator()->allocate(storage->nbytes());
  tpt_storage_t *core = core_of(storage);
  check(tpt_storage_to_host(core, 0, static_cast<int64_t>(storage->nbytes()), bytes.get()));
  check(tpt_storage_from_host(core, dtype, static_cast<int>(self.dim()), dims, bytes.get()));
  mark_typed(storage);
}

at::Tensor &set_storage_offset(at::Tensor &self, at::Storage source, int64_t offset, c10::IntArrayRef sizes,
                               c10::IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  c10::TensorImpl *impl = self.unsafeGetTensorImpl();
  c10::DimVector contiguous;
  if (strides.data() == nullptr) {
    contiguous = row_major(sizes);
    strides = contiguous;
  }
  const size_t nbytes = at::detail::computeStorageNbytes(sizes, strides, impl->itemsize(), offset);
  impl->set_sizes_and_strides(sizes, strides, offset);
  grow(impl, nbytes);
  give_type(self);
  return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(source), 0, {count}, {});
}

at::Tensor &set_tensor(at::Tensor &self, const at::Tensor &source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor &set_nothing(at::Tensor &self) {
  const at::Tensor empty = empty_strided({0}, {1}, self.scalar_type(), static_cast<int>(self.device().index()));
  return set_storage_offset(self, empty.storage(), 0, {0}, {1});
}

tpt_arg_t number_arg(const c10::Scalar &scalar) {
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_NUMBER;
  arg.u.number.wrapped = true;
  if (scalar.isFloatingPoint()) {
    arg.u.number.dtype = TPT_F64;
    arg.u.number.v.f[0] = scalar.toDouble();
  } else {
    arg.u.number.dtype = TPT_I64;
    arg.u.number.v.i = scalar.to<int64_t>();
  }
  return arg;
}

// The number of elements, as PyTorch computes it on cpu, with the same errors.
int64_t arange_size(const c10::Scalar &start, const c10::Scalar &end, const c10::Scalar &step, c10::ScalarType dtype) {
  const double first = start.to<double>(), last = end.to<double>(), by = step.to<double>();
  TORCH_CHECK(by > 0 || by < 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(first) && std::isfinite(last), "unsupported range: ", first, " -> ", last);
  TORCH_CHECK((by > 0 && last >= first) || (by < 0 && last <= first), "upper bound and lower bound inconsistent with step sign");
  double size = std::ceil((last - first) / by);
  if (dtype == c10::kLong) {  // counted in whole numbers; other integers by the fractions given
    const auto from = start.to<int64_t>(), to = end.to<int64_t>(), jump = step.to<int64_t>();
    TORCH_CHECK_VALUE(jump != 0, "step must be nonzero");
    size = static_cast<double>((to - from + jump - (jump > 0 ? 1 : -1)) / jump);
  }
  TORCH_CHECK(size >= 0 && size <= static_cast<double>(std::numeric_limits<int64_t>::max()),
              "invalid size, possible overflow? (size = ", size, ")");
  return static_cast<int64_t>(size);
}

// PyTorch's meta kernel of this one is written in Python and loads its compiler (seconds); so it is sized here.
at::Tensor &arange_out(const c10::Scalar &start, const c10::Scalar &end, const c10::Scalar &step, at::Tensor &out) {
  static const tpt_op_t *const op = [] {
    const tpt_param_t params[] = {{"start", false}, {"end", false}, {"step", false}, {"out", true}};
    const tpt_row_t *row = tpt_row_find("arange.start_step");
    TORCH_CHECK(row != nullptr, "tpu: the table of ops has no row \"arange.start_step\"");
    tpt_op_t *bound = nullptr;
    check(tpt_op_bind(row, "aten::arange.start_out", 4, params, /*fresh_outs=*/false, &bound));
    return bound;
  }();
  const int64_t size = arange_size(start, end, step, out.scalar_type());
  if (out.numel() == size) at::assert_no_internal_overlap(out);
  if (out.numel() != size) at::native::resize_output(out, {size});
  if (size == 0) return out;
  tpt_arg_t args[4] = {number_arg(start), number_arg(end), number_arg(step), {}};
  args[3].kind = TPT_ARG_TENSOR;
  args[3].u.tensor = borrow(out);
  run_op(op, args, 4, static_cast<int>(out.device().index()), nullptr, 0, nullptr);
  return out;
}

at::Tensor arange(const c10::Scalar &start, const c10::Scalar &end, const c10::Scalar &step, OptDtype dtype, OptLayout layout,
                  OptDevice device, std::optional<bool> pin_memory) {
  const bool integral = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const c10::ScalarType type = dtype.value_or(integral ? c10::kLong : c10::get_default_dtype_as_scalartype());
  const int64_t size = arange_size(start, end, step, type);
  at::Tensor out = empty_strided({size}, {1}, type, device_of(layout, device, pin_memory));
  return arange_out(start, end, step, out);
}

bool is_set_to(const at::Tensor &self, const at::Tensor &other) {
  return self.has_storage() && other.has_storage() &&
         self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() && self.strides() == other.strides();
}

// Work on a device is in order and buffers are counted, so there is nothing to delay.
void record_stream(at::Tensor &, c10::Stream) {}

// PyTorch asks before `tensor.data = other` across devices. Saying yes keeps parameters the same objects in Module.to, so
// tied weights stay tied.
bool shallow_copy_type(const at::Tensor &self, const at::Tensor &from) {
  constexpr c10::DispatchKeySet dense({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  const auto is_dense = [&](const at::Tensor &t) {
    return t.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && t.key_set().has_any(dense);
  };
  return self.key_set() == from.key_set() || (is_dense(self) && is_dense(from));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty_memory_format));
  m.impl("empty_strided", TORCH_FN(empty_strided_op));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero));
  m.impl("arange.start_step", TORCH_FN(arange));
  m.impl("arange.start_out", TORCH_FN(arange_out));
  m.impl("resize_", TORCH_FN(resize_op));
  m.impl("_resize_output_", TORCH_FN(at::native::_resize_output_));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(shallow_copy_type));
}

}  // namespace tpt_glue
