// tensor.cpp - tensors and storages of PyTorch around storages of the core.
#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBody.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <array>

#include "storage.h"

namespace tpt_glue {

namespace {

constexpr c10::DispatchKeySet kKeys(kKey);

// Two deleters that do the same: the address of a DataPtr's deleter is the only room for the origin.
void release_typed(void *storage) { tpt_storage_release(static_cast<tpt_storage_t *>(storage)); }
void release_raw(void *storage) {
  auto *core = static_cast<tpt_storage_t *>(storage);
  if (core != nullptr) tpt_storage_release(core);
}

bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace

c10::DataPtr make_data_ptr(tpt_storage_t *storage, Origin origin) {
  const c10::Device device(kTpu, static_cast<c10::DeviceIndex>(tpt_storage_device(storage)));
  return {tpt_storage_address(storage), storage, origin == Origin::kRaw ? &release_raw : &release_typed, device};
}

tpt_storage_t *core_of(const c10::StorageImpl *storage) {
  TORCH_CHECK(storage != nullptr, "tpu: the tensor has no storage");
  const c10::DataPtr &data = storage->data_ptr();
  const auto deleter = data.get_deleter();
  if (C10_LIKELY(deleter == &release_typed || deleter == &release_raw)) return static_cast<tpt_storage_t *>(data.get_context());
  // Saving in the legacy format makes a tensor of nothing but the address.
  tpt_storage_t *found = tpt_storage_find(data.get());
  TORCH_CHECK(found != nullptr, "tpu: the storage does not belong to device tpu");
  return found;
}

bool is_raw(const c10::StorageImpl *storage) { return storage->data_ptr().get_deleter() == &release_raw; }

void mark_typed(c10::StorageImpl *storage) {
  (void)storage->_mutable_data_ptr_no_checks().compare_exchange_deleter(&release_raw, &release_typed);
}

bool dims_in_memory(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t *out_dims) {
  const size_t rank = sizes.size();
  if (rank > TPT_MAX_RANK) return false;
  if (is_row_major(sizes, strides)) {
    std::copy(sizes.begin(), sizes.end(), out_dims);
    return true;
  }
  std::array<size_t, TPT_MAX_RANK> order{};
  for (size_t i = 0; i < rank; i++) order[i] = i;
  std::stable_sort(order.begin(), order.begin() + rank, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  int64_t expected = 1;
  for (size_t k = rank; k-- > 0;) {
    const size_t i = order[k];
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
    out_dims[k] = sizes[i];
  }
  return true;
}

c10::DimVector row_major(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size(), 1);
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

bool covers_storage(const at::TensorBase &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (impl->storage_offset() != 0) return false;
  if (static_cast<size_t>(impl->numel()) * impl->itemsize() != impl->unsafe_storage().nbytes()) return false;
  return impl->is_contiguous() || impl->is_non_overlapping_and_dense();
}

tpt_storage_t *storage_of(const at::TensorBase &tensor) {
  TORCH_CHECK(tensor.defined(), "tpu: expected a tensor");
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  TORCH_CHECK(impl->device_type() == kTpu, "Expected all tensors to be on the same device, but found at least two devices, ",
              tensor.device(), " and tpu");
  return core_of(impl->unsafe_storage().unsafeGetStorageImpl());
}

tpt_tensor_t borrow(const at::TensorBase &tensor) {
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  tpt_tensor_t out;
  out.storage = storage_of(tensor);
  const c10::IntArrayRef sizes = impl->sizes();
  TORCH_CHECK(sizes.size() <= TPT_MAX_RANK, "tpu: a tensor of ", sizes.size(), " dimensions; at most ", TPT_MAX_RANK,
              " are supported");
  out.sizes = sizes.data();
  out.strides = impl->strides().data();
  out.offset = impl->storage_offset();
  out.rank = static_cast<int32_t>(sizes.size());
  out.dtype = static_cast<uint8_t>(to_tpt(tensor.scalar_type()));
  const c10::DispatchKeySet keys = impl->key_set();
  out.conj = keys.has(c10::DispatchKey::Conjugate);
  out.neg = keys.has(c10::DispatchKey::Negative);
  return out;
}

c10::Storage make_storage(tpt_storage_t *storage) {
  const auto nbytes = static_cast<size_t>(tpt_storage_nbytes(storage));
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                                            make_data_ptr(storage, Origin::kTyped), device_allocator(),
                                                            /*resizable=*/true));
}

at::Tensor wrap(tpt_storage_t *storage, const tpt_spec_t &spec, int) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(make_storage(storage), kKeys,
                                                         c10::scalarTypeToTypeMeta(to_torch(static_cast<tpt_dtype_t>(spec.dtype))));
  const c10::IntArrayRef sizes(spec.sizes, spec.rank);
  const c10::IntArrayRef strides(spec.strides, spec.rank);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (is_row_major(sizes, strides)) {
    if (spec.rank != 1 || spec.sizes[0] != 0) impl->set_sizes_contiguous(sizes);
  } else {
    impl->set_sizes_and_strides(sizes, strides);
  }
  return tensor;
}

int check_device(c10::Device device) {
  check_fork();
  ensure_plugin();
  const int index = device.has_index() ? device.index() : current_device();
  if (C10_UNLIKELY(index != 0)) {
    const int count = device_count();
    TORCH_CHECK(index > 0 && index < count, "tpu: invalid device index ", index, ": this process has ", count,
                count == 1 ? " device" : " devices", " (TORCH_TPU_NUM_DEVICES asks a CPU plugin for more)");
  }
  return index;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, int device) {
  at::detail::check_size_nonnegative(sizes);
  const caffe2::TypeMeta meta = c10::scalarTypeToTypeMeta(dtype);
  const size_t nbytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  std::array<int64_t, TPT_MAX_RANK> dims;
  int rank = static_cast<int>(sizes.size());
  if (!dims_in_memory(sizes, strides, dims.data())) {
    rank = 1;
    dims[0] = static_cast<int64_t>(nbytes / meta.itemsize());
  }
  tpt_storage_t *storage = nullptr;
  check(tpt_storage_new(device, to_tpt(dtype), rank, dims.data(), &storage));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(make_storage(storage), kKeys, meta);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (sizes.size() != 1 || sizes[0] != 0) impl->set_sizes_and_strides(sizes, strides);
  return tensor;
}

void resize_storage(c10::StorageImpl *storage, size_t nbytes) {
  tpt_storage_t *core = core_of(storage);
  check(tpt_storage_resize(core, static_cast<int64_t>(nbytes)));
  tpt_storage_retain(core);  // its address has changed; the old DataPtr gives its reference back
  storage->set_data_ptr_noswap(make_data_ptr(core, is_raw(storage) ? Origin::kRaw : Origin::kTyped));
  storage->set_nbytes(nbytes);
}

}  // namespace tpt_glue
