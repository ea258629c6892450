// copy.cpp - copies between host and device, within a device and between devices; reading single numbers.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/eq.h>
#include <torch/library.h>

#include <cstring>

#include "storage.h"

namespace tpt_glue {

namespace {

// Reading a strided window takes its whole span when that is cheap; else the device makes it dense first.
constexpr int64_t kSmallSpan = 1 << 20;
constexpr int64_t kMaxWaste = 4;

bool on_tpu(const at::Tensor &tensor) { return tensor.device().type() == kTpu; }
int index_of(const at::Tensor &tensor) { return static_cast<int>(tensor.device().index()); }
c10::StorageImpl *storage_impl(const at::Tensor &tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}
bool has_bits(const at::Tensor &tensor) { return tensor.is_conj() || tensor.is_neg(); }

const tpt_op_t *copy_op() {
  static const tpt_op_t *const op = [] {
    const tpt_row_t *row = tpt_row_find("copy");
    TORCH_CHECK(row != nullptr, "tpu: the table of ops has no row \"copy\"");
    const tpt_param_t params[] = {{"self", true}, {"src", false}, {"non_blocking", false}};
    tpt_op_t *bound = nullptr;
    check(tpt_op_bind(row, "aten::copy_", 3, params, /*fresh_outs=*/false, &bound));
    return bound;
  }();
  return op;
}

// Elements between the first and the last one of the window, both included.
int64_t span_of(const at::Tensor &tensor) {
  int64_t span = 1;
  for (int64_t i = 0; i < tensor.dim(); i++) span += (tensor.size(i) - 1) * tensor.stride(i);
  return span;
}

void read_bytes(const at::Tensor &tensor, int64_t elements, void *out) {
  const auto item = static_cast<int64_t>(tensor.itemsize());
  check(tpt_storage_to_host(storage_of(tensor), tensor.storage_offset() * item, elements * item, out));
}

at::Tensor physical(const at::Tensor &tensor) { return tensor.resolve_conj().resolve_neg(); }

// Bytes copied as bytes (torch.load does so) say nothing of the dtype.
void note_type(const at::Tensor &target) {
  if (target.scalar_type() != c10::kByte) mark_typed(storage_impl(target));
}

// Puts a dense host tensor into the storage that `target` covers. Both have the same sizes, strides and dtype.
void upload(const at::Tensor &target, const at::Tensor &host) {
  int64_t dims[TPT_MAX_RANK];
  int rank = static_cast<int>(target.dim());
  if (!dims_in_memory(target.sizes(), target.strides(), dims)) {
    rank = 1;
    dims[0] = target.numel();
  }
  check(tpt_storage_from_host(storage_of(target), to_tpt(target.scalar_type()), rank, dims, host.const_data_ptr()));
  note_type(target);
}

at::Tensor host_like(const at::Tensor &target, const at::Tensor &src) {
  const at::Tensor plain = physical(src);
  if (plain.scalar_type() == target.scalar_type() && plain.sizes() == target.sizes() && plain.strides() == target.strides()) {
    return plain;
  }
  at::Tensor host = at::empty_strided(target.sizes(), target.strides(), plain.options().dtype(target.scalar_type()).pinned_memory(false));
  host.copy_(plain);
  return host;
}

at::Tensor empty_like_on(int device, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return empty_strided(sizes, row_major(sizes), dtype, device);
}

void host_to_device(const at::Tensor &dst, const at::Tensor &src) {
  if (covers_storage(dst) && !has_bits(dst)) {
    upload(dst, host_like(dst, src));
    return;
  }
  if (src.numel() == 1) {
    at::Tensor target = dst;
    target.fill_(src.item());
    return;
  }
  // Only the elements that the source has are sent; the device broadcasts.
  const at::Tensor staged = empty_like_on(index_of(dst), src.sizes(), dst.scalar_type());
  upload(staged, host_like(staged, src));
  copy_device(dst, staged);
}

void device_to_host(const at::Tensor &dst, const at::Tensor &src) {
  if (dst.scalar_type() == src.scalar_type() && dst.sizes() == src.sizes() && dst.strides() == src.strides() && !has_bits(src) &&
      !has_bits(dst) && dst.is_non_overlapping_and_dense()) {
    read_bytes(src, src.numel(), dst.mutable_data_ptr());
    return;
  }
  at::Tensor target = dst;
  target.copy_(to_host(src));
}

// Same values in the same memory order, both whole storages: the value is shared until one of them changes.
bool is_whole_copy(const at::Tensor &dst, const at::Tensor &src) {
  return dst.scalar_type() == src.scalar_type() && dst.sizes() == src.sizes() && dst.strides() == src.strides() &&
         dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg() && covers_storage(dst) && covers_storage(src);
}

void share_value(const at::Tensor &dst, const at::Tensor &src) {
  check(tpt_storage_copy(storage_of(dst), storage_of(src)));
  if (!is_raw(storage_impl(src))) mark_typed(storage_impl(dst));
}

void across_devices(const at::Tensor &dst, const at::Tensor &src) {
  if (is_whole_copy(dst, src)) {
    share_value(dst, src);
    return;
  }
  at::Tensor dense = src;
  if (has_bits(src) || src.scalar_type() != dst.scalar_type() || !src.is_contiguous() || !covers_storage(src)) {
    dense = empty_like_on(index_of(src), src.sizes(), dst.scalar_type());
    copy_device(dense, src);
  }
  if (is_whole_copy(dst, dense)) {
    share_value(dst, dense);
    return;
  }
  const at::Tensor arrived = empty_like_on(index_of(dst), dense.sizes(), dense.scalar_type());
  share_value(arrived, dense);
  copy_device(dst, arrived);
}

void check_shapes(const at::Tensor &dst, const at::Tensor &src) {
  if (dst.sizes() == src.sizes()) return;
  const auto common = at::infer_size_dimvector(dst.sizes(), src.sizes());
  TORCH_CHECK(dst.sizes() == c10::IntArrayRef(common), "output with shape ", dst.sizes(), " doesn't match the broadcast shape ",
              c10::IntArrayRef(common));
}

at::Tensor &copy_(at::Tensor &self, const at::Tensor &src, bool) {
  TORCH_CHECK(self.defined(), "self is undefined");
  TORCH_CHECK(src.defined(), "src is undefined");
  if (self.is_same(src)) return self;
  check_fork();
  check_shapes(self, src);
  if (src._is_zerotensor()) return self.zero_();
  if (self.numel() == 0) return self;
  at::assert_no_internal_overlap(self);
  const bool to_tpu = on_tpu(self), from_tpu = on_tpu(src);
  TORCH_CHECK(to_tpu || self.is_cpu(), "tpu: cannot copy to device ", self.device());
  TORCH_CHECK(from_tpu || src.is_cpu(), "tpu: cannot copy from device ", src.device());
  if (!from_tpu) {
    host_to_device(self, src);
  } else if (!to_tpu) {
    device_to_host(self, src);
  } else if (self.device() != src.device()) {
    across_devices(self, src);
  } else {
    if (self.unsafeGetTensorImpl()->unsafe_storage().is_alias_of(src.unsafeGetTensorImpl()->unsafe_storage())) {
      at::assert_no_partial_overlap(self, src);
    } else if (!tpt_mode_defers() && is_whole_copy(self, src)) {
      share_value(self, src);
      return self;
    }
    copy_device(self, src);
  }
  return self;
}

// A dense copy costs nothing: both share the value until one is written. Where ops are held back it is recorded like any op.
at::Tensor clone(const at::Tensor &self, std::optional<c10::MemoryFormat> format) {
  const c10::MemoryFormat wanted = format.value_or(c10::MemoryFormat::Preserve);
  const bool same_strides = wanted == c10::MemoryFormat::Preserve || self.is_contiguous(wanted);
  const bool odd = has_bits(self) || self._is_zerotensor();
  if (!same_strides || odd || tpt_mode_defers() || !covers_storage(self)) return at::native::clone(self, format);
  check_fork();
  const at::Tensor copy = empty_strided(self.sizes(), self.strides(), self.scalar_type(), index_of(self));
  if (self.numel() > 0) share_value(copy, self);
  return copy;
}

at::Tensor copy_from(const at::Tensor &self, const at::Tensor &dst, bool non_blocking) {
  at::Tensor target = dst;
  return copy_(target, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor &self, const at::Tensor &dst) {
  at::Tensor target = dst;
  if (target.sizes() != self.sizes()) {
    // As the host kernel left it: lstsq's solution is the upper part of a taller matrix.
    const bool apart = self.numel() > 0 && at::has_internal_overlap(self) != at::MemOverlap::Yes;
    target.resize_(apart ? c10::IntArrayRef({span_of(self)}) : self.sizes());
    if (apart) target.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(), self.strides());
  }
  return copy_(target, self, false);
}

template <typename T>
T load(const unsigned char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

c10::Scalar scalar_of(c10::ScalarType type, const unsigned char *bytes) {
  switch (type) {
#define TPT_SCALAR(ctype, name) \
  case c10::ScalarType::name:   \
    return c10::Scalar(load<ctype>(bytes));
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TPT_SCALAR)
#undef TPT_SCALAR
#define TPT_WIDE(ctype, name) \
  case c10::ScalarType::name: \
    return c10::Scalar(static_cast<uint64_t>(load<ctype>(bytes)));
    TPT_WIDE(uint16_t, UInt16)
    TPT_WIDE(uint32_t, UInt32)
    TPT_WIDE(uint64_t, UInt64)
#undef TPT_WIDE
    default:
      TORCH_CHECK_TYPE(false, "tpu: cannot read a number of dtype ", type);
  }
}

c10::Scalar local_scalar_dense(const at::Tensor &self) {
  check_fork();
  unsigned char bytes[16] = {0};
  read_bytes(self, 1, bytes);
  c10::Scalar value = scalar_of(self.scalar_type(), bytes);
  if (self.is_conj()) value = value.conj();
  return self.is_neg() ? -value : value;
}

bool equal(const at::Tensor &self, const at::Tensor &other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", other.device(), "!");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.dtype(), " but got data type ",
              other.dtype(), " for argument 'other'");
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

}  // namespace

at::Tensor to_host(const at::Tensor &tensor) {
  const auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(c10::kCPU);
  if (tensor.numel() == 0) return at::empty(tensor.sizes(), options);
  const int64_t span = span_of(tensor);
  if (span * static_cast<int64_t>(tensor.itemsize()) > kSmallSpan && span > kMaxWaste * tensor.numel()) {
    const at::Tensor dense = empty_like_on(index_of(tensor), tensor.sizes(), tensor.scalar_type());
    copy_device(dense, tensor);
    return to_host(dense);
  }
  at::Tensor host = at::empty({span}, options);
  read_bytes(tensor, span, host.mutable_data_ptr());
  host = host.as_strided(tensor.sizes(), tensor.strides(), 0);
  if (tensor.is_conj()) host = host.conj();
  if (tensor.is_neg()) host = host._neg_view();
  return physical(host);
}

void copy_device(const at::Tensor &dst, const at::Tensor &src) {
  if (dst.is_conj()) return copy_device(dst.conj(), src.conj());
  if (dst.is_neg()) return copy_device(dst._neg_view(), src._neg_view());
  const at::Tensor shaped = src.sizes() == dst.sizes() ? src : src.expand(dst.sizes());
  tpt_arg_t args[3] = {};
  args[0].kind = TPT_ARG_TENSOR;
  args[0].u.tensor = borrow(dst);
  args[1].kind = TPT_ARG_TENSOR;
  args[1].u.tensor = borrow(shaped);
  args[2].kind = TPT_ARG_BOOL;
  args[2].u.i = 0;
  run_op(copy_op(), args, 3, index_of(dst), nullptr, 0, nullptr);
  note_type(dst);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("clone", TORCH_FN(clone));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("equal", TORCH_FN(equal));
}

}  // namespace tpt_glue
