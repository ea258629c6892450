// structured.cpp - PyTorch's own C++ meta functions, called past the dispatcher. For these ops the dispatcher would take a
// Python one instead, and the first of those imports torch._dynamo and all that hangs on it: a second in each process.
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/_log_softmax_backward_data_meta_dispatch.h>
#include <ATen/ops/_log_softmax_meta_dispatch.h>
#include <ATen/ops/_softmax_backward_data_meta_dispatch.h>
#include <ATen/ops/_softmax_meta_dispatch.h>
#include <ATen/ops/addmm_meta_dispatch.h>
#include <ATen/ops/amax_meta_dispatch.h>
#include <ATen/ops/argmax_meta_dispatch.h>
#include <ATen/ops/avg_pool2d_backward_meta_dispatch.h>
#include <ATen/ops/avg_pool2d_meta_dispatch.h>
#include <ATen/ops/baddbmm_meta_dispatch.h>
#include <ATen/ops/bmm_meta_dispatch.h>
#include <ATen/ops/cat_meta_dispatch.h>
#include <ATen/ops/cumsum_meta_dispatch.h>
#include <ATen/ops/gather_meta_dispatch.h>
#include <ATen/ops/glu_meta_dispatch.h>
#include <ATen/ops/index_meta_dispatch.h>
#include <ATen/ops/linalg_vector_norm_meta_dispatch.h>
#include <ATen/ops/max_pool2d_with_indices_backward_meta_dispatch.h>
#include <ATen/ops/max_pool2d_with_indices_meta_dispatch.h>
#include <ATen/ops/mean_meta_dispatch.h>
#include <ATen/ops/mm_meta_dispatch.h>
#include <ATen/ops/mse_loss_meta_dispatch.h>
#include <ATen/ops/nll_loss_backward_meta_dispatch.h>
#include <ATen/ops/nll_loss_forward_meta_dispatch.h>
#include <ATen/ops/scatter_add_meta_dispatch.h>
#include <ATen/ops/sort_meta_dispatch.h>
#include <ATen/ops/sum_meta_dispatch.h>
#include <ATen/ops/topk_meta_dispatch.h>
#include <ATen/ops/tril_meta_dispatch.h>
#include <ATen/ops/triu_meta_dispatch.h>
#include <ATen/ops/upsample_bilinear2d_meta_dispatch.h>
#include <ATen/ops/upsample_nearest2d_meta_dispatch.h>

#include <unordered_map>

#include "convert.h"

namespace tpt_glue {

const c10::KernelFunction* structured_meta(const std::string& name) {
  using Table = std::unordered_map<std::string, c10::KernelFunction>;
  static const Table* table = [] {
    auto* made = new Table();
#define STRUCTURED(op, fn) made->emplace("aten::" op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(&at::meta::fn))
    STRUCTURED("_log_softmax", _log_softmax);
    STRUCTURED("_log_softmax_backward_data", _log_softmax_backward_data);
    STRUCTURED("_softmax", _softmax);
    STRUCTURED("_softmax_backward_data", _softmax_backward_data);
    STRUCTURED("addmm", addmm);
    STRUCTURED("amax", amax);
    STRUCTURED("argmax", argmax);
    STRUCTURED("avg_pool2d", avg_pool2d);
    STRUCTURED("avg_pool2d_backward", avg_pool2d_backward);
    STRUCTURED("baddbmm", baddbmm);
    STRUCTURED("bmm", bmm);
    STRUCTURED("cat", cat);
    STRUCTURED("cumsum", cumsum);
    STRUCTURED("gather", gather);
    STRUCTURED("glu", glu);
    STRUCTURED("index.Tensor", index);
    STRUCTURED("linalg_vector_norm", linalg_vector_norm);
    STRUCTURED("max_pool2d_with_indices", max_pool2d_with_indices);
    STRUCTURED("max_pool2d_with_indices_backward", max_pool2d_with_indices_backward);
    STRUCTURED("mean.dim", mean);
    STRUCTURED("mm", mm);
    STRUCTURED("mse_loss", mse_loss);
    STRUCTURED("nll_loss_backward", nll_loss_backward);
    STRUCTURED("nll_loss_forward", nll_loss_forward);
    STRUCTURED("scatter_add", scatter_add);
    STRUCTURED("sort.stable", sort);
    STRUCTURED("sum.dim_IntList", sum);
    STRUCTURED("topk", topk);
    STRUCTURED("tril", tril);
    STRUCTURED("triu", triu);
    STRUCTURED("upsample_bilinear2d", upsample_bilinear2d);
    STRUCTURED("upsample_nearest2d", upsample_nearest2d);
#undef STRUCTURED
    return made;
  }();
  const auto found = table->find(name);
  return found == table->end() ? nullptr : &found->second;
}

}  // namespace tpt_glue
