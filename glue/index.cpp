// index.cpp - what indexing needs before its row runs: masks become indices (one host read), cpu indices come to the device.
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

}  // namespace

bool before_call(const Binding& binding, std::vector<c10::IValue>* stack) {
  const size_t base = stack->size() - binding.slots.size();
  const at::Tensor self = (*stack)[base].toTensor();
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
