// structured.cpp - PyTorch's own C++ meta functions, called past the dispatcher. For these ops the dispatcher would take a
// Python one instead, and the first of those imports torch._dynamo and all that hangs on it: a second or two in each process.
#include <ATen/MetaFunctions.h>
#include <ATen/ScalarOps.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/boxing/KernelFunction.h>

#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "convert.h"

namespace tpt_glue {

namespace {

// Overloads that PyTorch itself writes in terms of a structured one.
at::Tensor wrapped(const at::Scalar& number) { return at::native::wrapped_scalar_tensor(number); }
at::Tensor add_number(const at::Tensor& x, const at::Scalar& y, const at::Scalar& alpha) { return at::meta::add(x, wrapped(y), alpha); }
at::Tensor sub_number(const at::Tensor& x, const at::Scalar& y, const at::Scalar& alpha) { return at::meta::sub(x, wrapped(y), alpha); }
at::Tensor rsub_number(const at::Tensor& x, const at::Scalar& y, const at::Scalar& alpha) { return at::meta::sub(wrapped(y), x, alpha); }
at::Tensor mul_number(const at::Tensor& x, const at::Scalar& y) { return at::meta::mul(x, wrapped(y)); }
at::Tensor div_number(const at::Tensor& x, const at::Scalar& y) { return at::meta::div(x, wrapped(y)); }
at::Tensor fmod_number(const at::Tensor& x, const at::Scalar& y) { return at::meta::fmod(x, wrapped(y)); }
at::Tensor remainder_number(const at::Tensor& x, const at::Scalar& y) { return at::meta::remainder(x, wrapped(y)); }
at::Tensor floor_divide(const at::Tensor& x, const at::Tensor& y) { return at::meta::div(x, y, "floor"); }
at::Tensor floor_divide_number(const at::Tensor& x, const at::Scalar& y) { return at::meta::div(x, wrapped(y), "floor"); }
at::Tensor relu(const at::Tensor& x) { return at::meta::clamp_min(x, 0); }
at::Tensor isnan(const at::Tensor& x) { return at::meta::ne(x, x); }
at::Tensor hardswish(const at::Tensor& x) { return at::meta::sigmoid(x); }
at::Tensor stack(at::TensorList list, int64_t dim) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : list) {
    TORCH_CHECK(part.sizes() == list[0].sizes(), "stack expects each tensor to be equal size, but got ", list[0].sizes(), " at entry 0 and ",
                part.sizes(), " at entry ", parts.size());
    parts.push_back(part.unsqueeze(dim));
  }
  TORCH_CHECK(!parts.empty(), "stack expects a non-empty TensorList");
  const at::ITensorListRef all(parts);
  return at::meta::cat(all, at::maybe_wrap_dim(dim, list[0].dim() + 1));
}
at::Tensor mean_of_all(const at::Tensor& x, std::optional<at::ScalarType> dtype) {
  return at::meta::mean(x, at::OptionalIntArrayRef(), false, dtype);
}
at::Tensor sum_of_all(const at::Tensor& x, std::optional<at::ScalarType> dtype) {
  return at::meta::sum(x, at::OptionalIntArrayRef(), false, dtype);
}

}  // namespace

const c10::KernelFunction* structured_meta(const std::string& name) {
  using Table = std::unordered_map<std::string, c10::KernelFunction>;
  using T = const at::Tensor&;
  using S = const at::Scalar&;
  static const Table* table = [] {
    auto* made = new Table();
#define STRUCTURED(op, fn) made->emplace("aten::" op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(&at::meta::fn))
#define BOTH(op, overload, fn) \
  STRUCTURED(op overload, fn); \
  STRUCTURED(op "_" overload, fn##_)
#define OVERLOAD(op, fn, ...) \
  made->emplace("aten::" op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(static_cast<std::add_pointer_t<__VA_ARGS__>>(&at::meta::fn)))
    // a function and its in-place form
    BOTH("acos", "", acos);
    BOTH("acosh", "", acosh);
    BOTH("add", ".Tensor", add);
    BOTH("addcdiv", "", addcdiv);
    BOTH("addcmul", "", addcmul);
    BOTH("addmv", "", addmv);
    BOTH("asin", "", asin);
    BOTH("asinh", "", asinh);
    BOTH("atan", "", atan);
    BOTH("atan2", "", atan2);
    BOTH("atanh", "", atanh);
    BOTH("bitwise_and", ".Tensor", bitwise_and);
    BOTH("bitwise_left_shift", ".Tensor", bitwise_left_shift);
    BOTH("bitwise_not", "", bitwise_not);
    BOTH("bitwise_or", ".Tensor", bitwise_or);
    BOTH("bitwise_right_shift", ".Tensor", bitwise_right_shift);
    BOTH("bitwise_xor", ".Tensor", bitwise_xor);
    BOTH("ceil", "", ceil);
    BOTH("copysign", ".Tensor", copysign);
    BOTH("cos", "", cos);
    BOTH("cosh", "", cosh);
    BOTH("digamma", "", digamma);
    BOTH("elu", "", elu);
    BOTH("erf", "", erf);
    BOTH("erfc", "", erfc);
    BOTH("erfinv", "", erfinv);
    BOTH("exp", "", exp);
    BOTH("exp2", "", exp2);
    BOTH("expm1", "", expm1);
    BOTH("floor", "", floor);
    BOTH("fmod", ".Tensor", fmod);
    BOTH("frac", "", frac);
    BOTH("gcd", "", gcd);
    BOTH("gelu", "", gelu);
    BOTH("hardsigmoid", "", hardsigmoid);
    BOTH("heaviside", "", heaviside);
    BOTH("hypot", "", hypot);
    BOTH("i0", "", i0);
    BOTH("igamma", "", igamma);
    BOTH("igammac", "", igammac);
    BOTH("lcm", "", lcm);
    BOTH("leaky_relu", "", leaky_relu);
    BOTH("lgamma", "", lgamma);
    BOTH("log", "", log);
    BOTH("log10", "", log10);
    BOTH("log1p", "", log1p);
    BOTH("log2", "", log2);
    BOTH("mish", "", mish);
    BOTH("mul", ".Tensor", mul);
    BOTH("neg", "", neg);
    BOTH("nextafter", "", nextafter);
    BOTH("reciprocal", "", reciprocal);
    BOTH("remainder", ".Tensor", remainder);
    BOTH("rsqrt", "", rsqrt);
    BOTH("sgn", "", sgn);
    BOTH("sigmoid", "", sigmoid);
    BOTH("sign", "", sign);
    BOTH("silu", "", silu);
    BOTH("sin", "", sin);
    BOTH("sinc", "", sinc);
    BOTH("sinh", "", sinh);
    BOTH("sqrt", "", sqrt);
    BOTH("sub", ".Tensor", sub);
    BOTH("tan", "", tan);
    BOTH("tanh", "", tanh);
    BOTH("threshold", "", threshold);
    BOTH("trunc", "", trunc);
    BOTH("xlogy", ".Tensor", xlogy);
    // the function alone
    STRUCTURED("_linalg_det", _linalg_det);
    STRUCTURED("_linalg_slogdet", _linalg_slogdet);
    STRUCTURED("_log_softmax", _log_softmax);
    STRUCTURED("_log_softmax_backward_data", _log_softmax_backward_data);
    STRUCTURED("_softmax", _softmax);
    STRUCTURED("_softmax_backward_data", _softmax_backward_data);
    STRUCTURED("adaptive_max_pool2d", adaptive_max_pool2d);
    STRUCTURED("addmm", addmm);
    STRUCTURED("amax", amax);
    STRUCTURED("amin", amin);
    STRUCTURED("aminmax", aminmax);
    STRUCTURED("argmax", argmax);
    STRUCTURED("argmin", argmin);
    STRUCTURED("avg_pool2d", avg_pool2d);
    STRUCTURED("avg_pool2d_backward", avg_pool2d_backward);
    STRUCTURED("avg_pool3d", avg_pool3d);
    STRUCTURED("baddbmm", baddbmm);
    STRUCTURED("bmm", bmm);
    STRUCTURED("cat", cat);
    STRUCTURED("cat.out", cat_outf);  // the Python one forgets channels_last when it resizes the target
    STRUCTURED("cumprod", cumprod);
    STRUCTURED("cumsum", cumsum);
    STRUCTURED("elu_backward", elu_backward);
    STRUCTURED("fmax", fmax);
    STRUCTURED("fmin", fmin);
    STRUCTURED("gather", gather);
    STRUCTURED("gelu_backward", gelu_backward);
    STRUCTURED("glu", glu);
    STRUCTURED("hardshrink", hardshrink);
    STRUCTURED("hardsigmoid_backward", hardsigmoid_backward);
    STRUCTURED("index.Tensor", index);
    STRUCTURED("index_copy", index_copy);
    STRUCTURED("isneginf", isneginf);
    STRUCTURED("isposinf", isposinf);
    STRUCTURED("leaky_relu_backward", leaky_relu_backward);
    STRUCTURED("linalg_cross", linalg_cross);
    STRUCTURED("linalg_vector_norm", linalg_vector_norm);
    STRUCTURED("logaddexp", logaddexp);
    STRUCTURED("logaddexp2", logaddexp2);
    STRUCTURED("lu_unpack", lu_unpack);
    STRUCTURED("max.dim", max);
    STRUCTURED("max_pool2d_with_indices", max_pool2d_with_indices);
    STRUCTURED("max_pool2d_with_indices_backward", max_pool2d_with_indices_backward);
    STRUCTURED("maximum", maximum);
    STRUCTURED("mean.dim", mean);
    STRUCTURED("min.dim", min);
    STRUCTURED("minimum", minimum);
    STRUCTURED("mm", mm);
    STRUCTURED("mse_loss", mse_loss);
    STRUCTURED("nll_loss_backward", nll_loss_backward);
    STRUCTURED("nll_loss_forward", nll_loss_forward);
    STRUCTURED("prod.dim_int", prod);
    STRUCTURED("reflection_pad1d", reflection_pad1d);
    STRUCTURED("renorm", renorm);
    STRUCTURED("replication_pad1d", replication_pad1d);
    STRUCTURED("replication_pad2d", replication_pad2d);
    STRUCTURED("scatter_add", scatter_add);
    STRUCTURED("scatter_reduce.two", scatter_reduce);
    STRUCTURED("sigmoid_backward", sigmoid_backward);
    STRUCTURED("signbit", signbit);
    STRUCTURED("silu_backward", silu_backward);
    STRUCTURED("smooth_l1_loss", smooth_l1_loss);
    STRUCTURED("softplus", softplus);
    STRUCTURED("softplus_backward", softplus_backward);
    STRUCTURED("softshrink", softshrink);
    STRUCTURED("sort.stable", sort);
    STRUCTURED("special_entr", special_entr);
    STRUCTURED("special_erfcx", special_erfcx);
    STRUCTURED("special_i0e", special_i0e);
    STRUCTURED("special_i1", special_i1);
    STRUCTURED("special_i1e", special_i1e);
    STRUCTURED("special_log_ndtr", special_log_ndtr);
    STRUCTURED("special_ndtri", special_ndtri);
    STRUCTURED("special_xlog1py", special_xlog1py);
    STRUCTURED("special_zeta", special_zeta);
    STRUCTURED("sum.dim_IntList", sum);
    STRUCTURED("tanh_backward", tanh_backward);
    STRUCTURED("threshold_backward", threshold_backward);
    STRUCTURED("topk", topk);
    STRUCTURED("tril", tril);
    STRUCTURED("triu", triu);
    STRUCTURED("upsample_bicubic2d", upsample_bicubic2d);
    STRUCTURED("upsample_bilinear2d", upsample_bilinear2d);
    STRUCTURED("upsample_linear1d", upsample_linear1d);
    STRUCTURED("upsample_nearest1d", upsample_nearest1d);
    STRUCTURED("upsample_nearest2d", upsample_nearest2d);
    STRUCTURED("upsample_nearest3d", upsample_nearest3d);
    STRUCTURED("upsample_trilinear3d", upsample_trilinear3d);
    // one of several overloads
    OVERLOAD("eq.Tensor", eq, at::Tensor(T, T));
    OVERLOAD("eq.Scalar", eq, at::Tensor(T, S));
    OVERLOAD("ge.Tensor", ge, at::Tensor(T, T));
    OVERLOAD("ge.Scalar", ge, at::Tensor(T, S));
    OVERLOAD("gt.Tensor", gt, at::Tensor(T, T));
    OVERLOAD("gt.Scalar", gt, at::Tensor(T, S));
    OVERLOAD("le.Tensor", le, at::Tensor(T, T));
    OVERLOAD("le.Scalar", le, at::Tensor(T, S));
    OVERLOAD("lt.Tensor", lt, at::Tensor(T, T));
    OVERLOAD("lt.Scalar", lt, at::Tensor(T, S));
    OVERLOAD("ne.Tensor", ne, at::Tensor(T, T));
    OVERLOAD("ne.Scalar", ne, at::Tensor(T, S));
    OVERLOAD("all", all, at::Tensor(T));
    OVERLOAD("all.dim", all, at::Tensor(T, int64_t, bool));
    OVERLOAD("any", any, at::Tensor(T));
    OVERLOAD("any.dim", any, at::Tensor(T, int64_t, bool));
    OVERLOAD("clamp", clamp, at::Tensor(T, const std::optional<at::Scalar>&, const std::optional<at::Scalar>&));
    OVERLOAD("clamp.Tensor", clamp, at::Tensor(T, const std::optional<at::Tensor>&, const std::optional<at::Tensor>&));
    OVERLOAD("clamp_max", clamp_max, at::Tensor(T, S));
    OVERLOAD("clamp_max.Tensor", clamp_max, at::Tensor(T, T));
    OVERLOAD("clamp_min", clamp_min, at::Tensor(T, S));
    OVERLOAD("clamp_min.Tensor", clamp_min, at::Tensor(T, T));
    OVERLOAD("div.Tensor", div, at::Tensor(T, T));
    OVERLOAD("div.Tensor_mode", div, at::Tensor(T, T, std::optional<std::string_view>));
    OVERLOAD("div_.Tensor", div_, at::Tensor&(at::Tensor&, T));
    OVERLOAD("lerp.Scalar", lerp, at::Tensor(T, T, S));
    OVERLOAD("lerp.Tensor", lerp, at::Tensor(T, T, T));
    OVERLOAD("lerp_.Scalar", lerp_, at::Tensor&(at::Tensor&, T, S));
    OVERLOAD("pow.Scalar", pow, at::Tensor(S, T));
    OVERLOAD("pow.Tensor_Scalar", pow, at::Tensor(T, S));
    OVERLOAD("pow.Tensor_Tensor", pow, at::Tensor(T, T));
    OVERLOAD("round", round, at::Tensor(T));
    OVERLOAD("scatter.src", scatter, at::Tensor(T, int64_t, T, T));
    OVERLOAD("scatter.value", scatter, at::Tensor(T, int64_t, T, S));
#define COMPOSED(op, fn) made->emplace("aten::" op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(&fn))
    COMPOSED("add.Scalar", add_number);
    COMPOSED("div.Scalar", div_number);
    COMPOSED("floor_divide", floor_divide);
    COMPOSED("floor_divide.Scalar", floor_divide_number);
    COMPOSED("fmod.Scalar", fmod_number);
    COMPOSED("hardswish", hardswish);
    COMPOSED("isnan", isnan);
    COMPOSED("mean", mean_of_all);
    COMPOSED("mul.Scalar", mul_number);
    COMPOSED("relu", relu);
    COMPOSED("remainder.Scalar", remainder_number);
    COMPOSED("rsub.Scalar", rsub_number);
    COMPOSED("stack", stack);
    COMPOSED("sub.Scalar", sub_number);
    COMPOSED("sum", sum_of_all);
#undef COMPOSED
#undef OVERLOAD
#undef BOTH
#undef STRUCTURED
    return made;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace tpt_glue
