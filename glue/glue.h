// glue.h - what the files of glue/ share: conversions between PyTorch's classes and the flat structs of tpt.h.
// This room is C++ only because PyTorch offers these points only in C++; decisions are taken in the C core.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/TensorBase.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "tpt/tpt.h"

namespace tpt_glue {

constexpr c10::DeviceType kTpu = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;

// ---- error.cpp: a failed status becomes the Python exception of its code; NULL returns.
void raise(tpt_status_t *status);  // takes ownership
inline void check(tpt_status_t *status) {
  if (C10_UNLIKELY(status != nullptr)) raise(status);
}

// ---- dtype.cpp. Dtypes without a counterpart raise TypeError; they are never mapped to another.
tpt_dtype_t to_tpt(c10::ScalarType type);
c10::ScalarType to_torch(tpt_dtype_t dtype);

// ---- tensor.cpp
tpt_storage_t *storage_of(const at::TensorBase &tensor);  // borrowed; tensor must be a tpu tensor
// Fills the borrowed struct; `tensor` must outlive it. Rank over TPT_MAX_RANK raises.
tpt_tensor_t borrow(const at::TensorBase &tensor);
// A tensor that owns `storage` (the reference moves in), with the sizes and strides of the spec.
at::Tensor wrap(tpt_storage_t *storage, const tpt_spec_t &spec, int device);
// A c10 storage around a core storage, and an uninitialised tensor (what at::empty_strided gives).
c10::Storage make_storage(tpt_storage_t *storage);
at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype, int device);

// ---- generator.cpp
const at::Generator &default_generator(int device);
at::Generator make_generator(int device);
// Takes `blocks` counter blocks of the generator (its lock is taken inside) and gives the state to use.
void rng_take(const std::optional<at::Generator> &generator, int device, uint64_t blocks, uint64_t *seed, uint64_t *offset);

// ---- guard.cpp
int current_device();
void set_device(int device);
int device_count();  // 0 when no plugin can be opened; never throws

// ---- dispatch.cpp
void note_precision();  // tells the core of torch.set_float32_matmul_precision
void register_rows();  // one boxed kernel a schema of every row; called once from the library's static init
// Runs a bound op outside the dispatcher (copies, casts, views). Outputs are typed by `specs` on a miss.
void run_op(const tpt_op_t *op, const tpt_arg_t *args, int nargs, int device, const tpt_spec_t *specs, int nspecs,
            tpt_storage_t **out_storages);

// ---- copy.cpp
at::Tensor to_host(const at::Tensor &tensor);  // a cpu tensor of equal dtype and sizes (waits)
void copy_device(const at::Tensor &dst, const at::Tensor &src);  // same device: row "copy" in place (casts, broadcasts, views)

}  // namespace tpt_glue
