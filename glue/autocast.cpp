// autocast.cpp - torch.autocast("tpu"): PyTorch's op lists, applied to this device; bfloat16 unless told otherwise.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace at::autocast {

namespace {

struct SetDefault {
  SetDefault() { set_autocast_dtype(c10::DeviceType::PrivateUse1, c10::kBFloat16); }
};
// The dtype is per thread in PyTorch; threads that autograd starts inherit it from the caller.
const SetDefault set_default;

}  // namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TPT_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define TPT_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define TPT_FP32_OPT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define TPT_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(TPT_LOWER)
  AT_FORALL_FP32(TPT_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TPT_FP32_OPT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(TPT_PROMOTE)
  KERNEL_PRIVATEUSEONE(binary_cross_entropy, fp32)
  KERNEL_PRIVATEUSEONE(stack, promote)
  KERNEL_PRIVATEUSEONE(cat, promote)
}

}  // namespace at::autocast
