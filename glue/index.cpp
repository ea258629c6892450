// index.cpp - what some calls need before their row runs: masks become indices (one host read), cpu indices come to the device,
// other dims come to the front, a size is read.
#include <ATen/Dispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>

#include "convert.h"

namespace tpt_glue {

namespace {

bool is_mask(const at::Tensor& tensor) { return tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte; }

bool needs_work(const c10::IValue& indices, c10::Device device) {
  for (const auto& item : indices.toListRef()) {
    if (!item.isTensor() || !item.toTensor().defined()) continue;
    const at::Tensor& index = item.toTensor();
    if (is_mask(index) || index.device() != device) return true;
  }
  return false;
}

c10::List<std::optional<at::Tensor>> expand(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  c10::List<std::optional<at::Tensor>> moved;
  int64_t dims = 0;
  for (const std::optional<at::Tensor>& index : indices) {
    const bool defined = index.has_value() && index->defined();
    moved.push_back(defined ? std::optional<at::Tensor>(index->device() == self.device() ? *index : index->to(self.device()))
                            : std::nullopt);
    dims += defined && is_mask(*index) ? index->dim() : 1;
  }
  TORCH_CHECK_INDEX(dims <= self.dim(), "too many indices for tensor of dimension ", self.dim(), " (got ", dims, ")");
  c10::List<std::optional<at::Tensor>> out;
  for (const at::Tensor& index : at::native::expandTensors(self, moved)) {
    out.push_back(index.defined() ? std::optional<at::Tensor>(index) : std::nullopt);
  }
  return out;
}

// `x[mask] = one value` needs no indices, so no host read either. Only for masks and a value of the tensor's own dtype.
bool put_by_mask(const Binding& binding, const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                 const at::Tensor& values, std::vector<c10::IValue>* stack, size_t base) {
  if (binding.has_out || values.numel() != 1) return false;
  // PyTorch's own test wants a cpu value; where ours lives does not matter.
  static const at::Tensor any_value = at::zeros({}, at::kFloat);
  const auto [possible, mask] = at::native::canDispatchToMaskedFill(self, indices, any_value);
  if (!possible) return false;
  const at::Tensor value = values.reshape({});
  if (binding.has_write) {
    self.masked_fill_(mask, value);
    stack->resize(base + 1);
  } else {
    at::Tensor filled = self.masked_fill(mask, value);
    stack->resize(base);
    stack->emplace_back(std::move(filled));
  }
  return true;
}

bool is_signed_or_byte(at::ScalarType dtype) {
  return dtype == at::kByte || dtype == at::kChar || dtype == at::kShort || dtype == at::kInt || dtype == at::kLong;
}

// fill_ and zero_ may be given expanded tensors, since all places get the same value: each place is written once.
bool fill(const Binding& binding, std::vector<c10::IValue>* stack, size_t base) {
  const at::Tensor self = (*stack)[base].toTensor();
  const bool has_value = binding.slots.size() > 1;
  if (has_value && (*stack)[base + 1].isScalar() && is_signed_or_byte(self.scalar_type())) {
    AT_DISPATCH_INTEGRAL_TYPES(self.scalar_type(), "fill", [&] { (void)(*stack)[base + 1].toScalar().to<scalar_t>(); });
  }
  if (at::has_internal_overlap(self) != at::MemOverlap::Yes) return false;
  c10::DimVector sizes(self.sizes());
  for (int64_t d = 0; d < self.dim(); d++) {
    if (self.stride(d) == 0 && sizes[d] > 1) sizes[d] = 1;
  }
  const at::Tensor once = self.as_strided(sizes, self.strides(), self.storage_offset());
  if (!has_value) {
    once.zero_();
  } else if ((*stack)[base + 1].isTensor()) {
    once.fill_((*stack)[base + 1].toTensor());
  } else {
    once.fill_((*stack)[base + 1].toScalar());
  }
  stack->resize(base + 1);
  return true;
}

// Rows of another dim than the first: the row finds those of the first one, since only there a size can come from data.
bool unique_along(const Binding& binding, std::vector<c10::IValue>* stack, size_t base, size_t slot) {
  const at::Tensor self = (*stack)[base].toTensor();
  if ((*stack)[base + slot].isNone() || self.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim((*stack)[base + slot].toInt(), self.dim());
  if (dim == 0) return false;
  (*stack)[base] = self.movedim(dim, 0).contiguous();
  (*stack)[base + slot] = 0;
  binding.handle.callBoxed(stack);
  (*stack)[base] = (*stack)[base].toTensor().movedim(0, dim).contiguous();
  return true;
}

// repeat_interleave(repeats): the size of the result is their sum, which the host reads where the caller does not give it.
void size_repeats(std::vector<c10::IValue>* stack, size_t base) {
  const at::Tensor repeats = (*stack)[base].toTensor();
  c10::IValue& size = (*stack)[base + 1];
  if (!size.isNone() || repeats.dim() != 1 || (repeats.scalar_type() != at::kLong && repeats.scalar_type() != at::kInt)) return;
  if (repeats.numel() == 0) {
    size = static_cast<int64_t>(0);
    return;
  }
  const at::Tensor read = at::stack({repeats.sum(), repeats.min().to(at::kLong)}).cpu();
  TORCH_CHECK(read.const_data_ptr<int64_t>()[1] >= 0, "repeats can not be negative");
  size = read.const_data_ptr<int64_t>()[0];
}

}  // namespace

// PyTorch materialises tensors of zeros that take no memory, but for some ops, which are to see to it themselves.
bool fill_zeros(std::vector<c10::IValue>* stack, size_t base) {
  for (size_t i = base; i < base + 2; i++) {
    const at::Tensor given = (*stack)[i].toTensor();
    if (given.defined() && given._is_zerotensor()) (*stack)[i] = at::zeros(given.sizes(), given.options());
  }
  return false;
}

bool before_call(const Binding& binding, std::vector<c10::IValue>* stack) {
  const size_t base = stack->size() - binding.slots.size();
  if (binding.before == Before::Fill) return fill(binding, stack, base);
  if (binding.before == Before::Dot) return fill_zeros(stack, base);
  if (binding.before == Before::UniqueDim) return unique_along(binding, stack, base, 1);
  if (binding.before == Before::Unique) return unique_along(binding, stack, base, 3);
  if (binding.before == Before::Repeat) {
    size_repeats(stack, base);
    return false;
  }
  const at::Tensor self = (*stack)[base].toTensor();
  for (const auto& item : (*stack)[base + 1].toListRef()) {
    if (!item.isTensor() || !item.toTensor().defined()) continue;
    const c10::Device found = item.toTensor().device();
    TORCH_CHECK(self.device().type() == kTpu || found.is_cpu(), "indices should be either on cpu or on the same device as the ",
                "indexed tensor (", self.device(), ")");
  }
  at::native::checkIndexTensorTypes((*stack)[base + 1].toOptionalTensorList(), /*allow_int=*/true);
  const bool put = binding.before == Before::IndexPut;
  if (put) {
    const at::ScalarType given = (*stack)[base + 2].toTensor().scalar_type();
    TORCH_CHECK(self.scalar_type() == given, "Index put requires the source and destination dtypes match, got ",
                self.scalar_type(), " for the destination and ", given, " for the source.");
  }
  if (needs_work((*stack)[base + 1], self.device())) {
    const auto indices = (*stack)[base + 1].toOptionalTensorList();
    const bool accumulate = put && (*stack)[base + 3].isBool() && (*stack)[base + 3].toBool();
    if (put && !accumulate && put_by_mask(binding, self, indices, (*stack)[base + 2].toTensor(), stack, base)) return true;
    (*stack)[base + 1] = expand(self, indices);
  }
  return false;
}

}  // namespace tpt_glue
