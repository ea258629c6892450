// storage.h - c10 storages around core storages: how they are told apart and kept in step.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/DimVector.h>

#include "glue.h"

namespace tpt_glue {

// Bytes that nobody has given a dtype yet (made by the allocator for torch.UntypedStorage, say) are "raw": the first tensor
// that covers them tells the core the dtype and dims, so that no program has to bitcast them ever after.
enum class Origin { kTyped, kRaw };

c10::DataPtr make_data_ptr(tpt_storage_t *storage, Origin origin);  // takes the reference
tpt_storage_t *core_of(const c10::StorageImpl *storage);            // borrowed; raises when it is not one of ours
bool is_raw(const c10::StorageImpl *storage);
void mark_typed(c10::StorageImpl *storage);

// Dims of a dense window in memory order (largest stride first). Returns false when the window has holes or overlaps.
bool dims_in_memory(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t *out_dims);
c10::DimVector row_major(c10::IntArrayRef sizes);  // strides
// The window is dense, starts at 0 and is as large as its storage.
bool covers_storage(const at::TensorBase &tensor);

void resize_storage(c10::StorageImpl *storage, size_t nbytes);
// Tells the core which plugin to open, by asking the Python package, once and at first use. Takes the GIL.
void ensure_plugin();
// Raises unless `device` exists; index 0 is accepted without opening the plugin.
int check_device(c10::Device device);
// Raises in a child that was forked after the runtime was opened.
void check_fork();

bool is_forked();

// How many devices will be asked for, at most, without opening the plugin.
int expected_device_count() noexcept;

c10::Allocator *device_allocator();
c10::Allocator *pinned_allocator();
bool is_pinned(const void *pointer);

uint64_t blocks_for(int64_t elements);  // counter blocks that a random op of so many elements takes
void seed_all(uint64_t seed);  // all default generators, those not made yet included

}  // namespace tpt_glue
