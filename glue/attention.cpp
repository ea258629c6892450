// attention.cpp - scaled dot product attention on its way from PyTorch: the choice of the fused rows, and their calls. PyTorch
// asks a device's choice function first and calls the overrideable op for it; autograd knows that op's gradient.
#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "convert.h"

namespace tpt_glue {

namespace {

bool takes_dtype(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
      return true;
    default:
      return false;
  }
}

bool fits(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool gqa) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (tensor->layout() != c10::kStrided || tensor->dim() != 4 || tensor->numel() == 0) return false;
    if (tensor->scalar_type() != query.scalar_type() || tensor->size(0) != query.size(0)) return false;
  }
  if (!takes_dtype(query) || key.size(3) != query.size(3) || value.size(2) != key.size(2) || value.size(1) != key.size(1)) return false;
  return gqa ? query.size(1) % key.size(1) == 0 : query.size(1) == key.size(1);
}

bool fits_mask(const std::optional<at::Tensor>& mask, const at::Tensor& query, const at::Tensor& key) {
  if (!mask.has_value() || !mask->defined()) return true;
  if (mask->layout() != c10::kStrided || mask->dim() < 2 || mask->dim() > 4 || mask->device().type() != kTpu) return false;
  const std::array<int64_t, 4> full = {query.size(0), query.size(1), query.size(2), key.size(2)};
  for (int64_t i = 1; i <= mask->dim(); i++) {
    const int64_t have = mask->size(-i);
    if (have != 1 && have != full[static_cast<size_t>(4 - i)]) return false;
  }
  return true;
}

// Under vmap, and under torch.func's own gradients, PyTorch's parts have rules that the fused op lacks.
bool is_transformed(const at::Tensor& tensor) {
  return tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                                       c10::DispatchKey::Batched}));
}

// Whoever allows any fused kernel of another device means: fused. Dropout has none here.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
               double dropout, bool, std::optional<double>, bool gqa) {
  const at::Context& context = at::globalContext();
  const bool fused = context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP();
  const bool masked = mask.has_value() && mask->defined();
  TORCH_CHECK(dropout >= 0 && dropout <= 1, "dropout probability has to be between 0 and 1, but got ", dropout);
  TORCH_CHECK_INDEX(!masked || query.dim() != 4 || mask->dim() >= 2, "Dimension out of range: an attention mask has two or more, got ",
                    masked ? mask->dim() : 0);
  // As on cpu a mask that learns takes the parts, which can be differentiated twice.
  const bool learns = masked && mask->requires_grad() && at::GradMode::is_enabled();
  const bool transformed = is_transformed(query) || is_transformed(key) || is_transformed(value) || (masked && is_transformed(*mask));
  const bool can = dropout == 0 && !learns && !transformed && fits(query, key, value, gqa) && fits_mask(mask, query, key);
  if (fused && can) return static_cast<int64_t>(at::SDPBackend::overrideable);
  if (context.userEnabledMathSDP()) return static_cast<int64_t>(at::SDPBackend::math);
  return static_cast<int64_t>(at::SDPBackend::error);
}

// ---- the calls ------------------------------------------------------------------------------------------------------------

tpt_arg_t none() {
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_NONE;
  return arg;
}
tpt_arg_t tensor_arg(const at::Tensor& tensor) {
  if (!tensor.defined()) return none();
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_TENSOR;
  arg.u.tensor = borrow(tensor);
  return arg;
}
tpt_arg_t number_arg(double value) {
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_NUMBER;
  arg.u.number = number_of_scalar(value);
  return arg;
}
tpt_arg_t number_arg(std::optional<double> value) { return value.has_value() ? number_arg(*value) : none(); }
tpt_arg_t bool_arg(bool value) {
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_BOOL;
  arg.u.i = value ? 1 : 0;
  return arg;
}

template <size_t N>
const tpt_op_t* bind(const char* name, const std::array<const char*, N>& names) {
  const tpt_row_t* row = tpt_row_find(name);
  TORCH_CHECK(row != nullptr, "tpu: the table of ops has no row \"", name, "\"");
  std::array<tpt_param_t, N> params{};
  for (size_t i = 0; i < N; i++) params[i].name = names[i];
  tpt_op_t* op = nullptr;
  check(tpt_op_bind(row, "aten::scaled_dot_product_attention", static_cast<int>(N), params.data(), /*fresh_outs=*/true, &op));
  return op;
}

// In memory heads come behind the positions if `behind`: as in a model's activations, so that what follows is a view, no copy.
tpt_spec_t spec_of(std::array<int64_t, 4> sizes, at::ScalarType dtype, bool behind) {
  tpt_spec_t spec{};
  spec.dtype = static_cast<uint8_t>(to_tpt(dtype));
  spec.rank = 4;
  const std::array<int, 4> order = behind ? std::array<int, 4>{3, 1, 2, 0} : std::array<int, 4>{3, 2, 1, 0};
  int64_t stride = 1;
  for (const int d : order) {
    spec.sizes[d] = sizes[static_cast<size_t>(d)];
    spec.strides[d] = stride;
    stride *= std::max<int64_t>(spec.sizes[d], 1);
  }
  return spec;
}
bool heads_behind(const at::Tensor& tensor) { return tensor.transpose(1, 2).is_contiguous() && !tensor.is_contiguous(); }
tpt_spec_t spec_like(const at::Tensor& like) {
  const bool behind = heads_behind(like);
  return spec_of({like.size(0), like.size(1), like.size(2), like.size(3)}, like.scalar_type(), behind);
}

void check_inputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& mask, double dropout) {
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    TORCH_CHECK(tensor->device() == query.device() && query.device().type() == kTpu,
                "Expected query, key and value on one tpu device, got ", query.device(), " and ", tensor->device());
  }
  const std::optional<at::Tensor> bias = mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt;
  TORCH_CHECK(fits(query, key, value, /*gqa=*/true) && fits_mask(bias, query, key), "fused attention takes floating tensors [batch, heads, ",
              "positions, width] of one dtype, and a mask that broadcasts to [batch, heads, queries, keys]; got query ", query.sizes(),
              ", key ", key.sizes(), ", value ", value.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0, "fused attention on tpu has no dropout; use the math backend");
}

using Forward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

Forward forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& attn_bias,
                double dropout_p, bool is_causal, bool, std::optional<double> scale) {
  static const tpt_op_t* const op = bind<6>("_scaled_dot_product_fused_attention_overrideable", {"query", "key", "value", "attn_bias", "is_causal", "scale"});
  const at::Tensor bias = attn_bias.value_or(at::Tensor());
  check_inputs(query, key, value, bias, dropout_p);
  const std::array<tpt_arg_t, 6> args = {tensor_arg(query), tensor_arg(key),     tensor_arg(value),
                                         tensor_arg(bias),  bool_arg(is_causal), number_arg(scale)};
  std::array<tpt_spec_t, 2> specs = {
      spec_of({query.size(0), query.size(1), query.size(2), value.size(3)}, query.scalar_type(), heads_behind(query)),
      tpt_spec_t{}};
  const std::array<int64_t, 3> rows = {query.size(0), query.size(1), query.size(2)};
  specs[1].dtype = static_cast<uint8_t>(query.scalar_type() == at::kDouble ? TPT_F64 : TPT_F32);
  specs[1].rank = 3;
  std::copy(rows.begin(), rows.end(), specs[1].sizes);
  specs[1].strides[2] = 1, specs[1].strides[1] = rows[2], specs[1].strides[0] = rows[1] * rows[2];
  const int device = query.device().index();
  note_precision();
  std::array<tpt_storage_t*, 2> outs{};
  run_op(op, args.data(), 6, device, specs.data(), 2, outs.data());
  return {wrap(outs[0], specs[0], device), wrap(outs[1], specs[1], device), at::Tensor(), at::Tensor(),
          query.sym_size(2), key.sym_size(2), at::Tensor(), at::Tensor(), at::Tensor()};
}

using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Backward backward(const at::Tensor& grad_out, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const at::Tensor& attn_bias, std::array<bool, 4> wanted, const at::Tensor& out, const at::Tensor& logsumexp,
                  const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt, double dropout_p, bool is_causal,
                  const at::Tensor&, const at::Tensor&, std::optional<double> scale) {
  static const tpt_op_t* const op = bind<10>("_scaled_dot_product_fused_attention_overrideable_backward", {"grad_out", "query", "key", "value", "attn_bias", "want_bias",
                                                                    "out", "logsumexp", "is_causal", "scale"});
  if (!grad_out.defined()) return {};  // autograd's zeros
  check_inputs(query, key, value, attn_bias, dropout_p);
  const bool bias = wanted[3] && attn_bias.defined() && attn_bias.is_floating_point();
  const std::array<tpt_arg_t, 10> args = {tensor_arg(grad_out),  tensor_arg(query),   tensor_arg(key),     tensor_arg(value),
                                          tensor_arg(attn_bias), bool_arg(bias),      tensor_arg(out),     tensor_arg(logsumexp),
                                          bool_arg(is_causal),   number_arg(scale)};
  std::array<tpt_spec_t, 4> specs = {spec_like(query), spec_like(key), spec_like(value), tpt_spec_t{}};
  if (bias) {
    specs[3].dtype = static_cast<uint8_t>(to_tpt(attn_bias.scalar_type()));
    specs[3].rank = static_cast<int32_t>(attn_bias.dim());
    int64_t stride = 1;
    for (int64_t d = attn_bias.dim() - 1; d >= 0; d--) {
      specs[3].sizes[d] = attn_bias.size(d);
      specs[3].strides[d] = stride;
      stride *= attn_bias.size(d);
    }
  }
  const int device = query.device().index(), count = bias ? 4 : 3;
  note_precision();
  std::array<tpt_storage_t*, 4> outs{};
  run_op(op, args.data(), 10, device, specs.data(), count, outs.data());
  return {wrap(outs[0], specs[0], device), wrap(outs[1], specs[1], device), wrap(outs[2], specs[2], device),
          bias ? wrap(outs[3], specs[3], device) : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
}

}  // namespace tpt_glue

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpt_glue::choose)
}  // namespace at::native
