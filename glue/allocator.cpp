// allocator.cpp - the allocators that PyTorch asks for device bytes and for pinned host memory.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "storage.h"

namespace tpt_glue {

namespace {

struct DeviceAllocator final : c10::DeviceAllocator {
  // Bytes of the current device without a dtype (torch.UntypedStorage). Their address cannot be read.
  c10::DataPtr allocate(size_t nbytes) override {
    const int device = check_device(c10::Device(kTpu));
    const auto dim = static_cast<int64_t>(nbytes);
    tpt_storage_t *storage = nullptr;
    check(tpt_storage_new(device, TPT_U8, 1, &dim, &storage));
    return make_data_ptr(storage, Origin::kRaw);
  }
  void copy_data(void *, const void *, std::size_t) const override {
    TORCH_CHECK(false, "tpu: device memory has no host address; copy tensors instead");
  }

  bool initialized() override { return tpt_runtime_is_open(); }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr &, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    tpt_memory_stats_t now{};
    if (tpt_runtime_is_open()) check(tpt_device_memory(device, &now));
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (auto *array : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*array)[all].current = now.in_use;
      (*array)[all].peak = std::max(now.peak, now.in_use);
    }
    for (auto *array : {&stats.allocation, &stats.active}) {
      (*array)[all].current = now.allocations;
      (*array)[all].peak = now.allocations;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    if (tpt_runtime_is_open()) tpt_device_memory_reset_peak(device);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check_device(c10::Device(kTpu, device));
    tpt_memory_stats_t now{};
    check(tpt_device_memory(device, &now));
    // CPU plugins name no limit: theirs is the host's memory.
    const int64_t total = now.limit > 0 ? now.limit : static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    const int64_t free = std::max<int64_t>(total - now.in_use, 0);
    return {static_cast<size_t>(free), static_cast<size_t>(total)};
  }
};

// "Pinned" memory is plain aligned host memory, which a plugin reads as fast; only its ranges are remembered, so that
// Tensor.is_pinned() tells the truth.
struct HostAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t nbytes) override {
    void *bytes = nbytes == 0 ? nullptr : c10::GetCPUAllocator()->raw_allocate(nbytes);
    if (bytes != nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ranges_[bytes] = nbytes;
      in_use_ += static_cast<int64_t>(nbytes);
      peak_ = std::max(peak_, in_use_);
      made_++;
    }
    return {bytes, bytes, &deleter, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deleter; }
  void copy_data(void *dst, const void *src, std::size_t count) const override { default_copy_data(dst, src, count); }
  bool record_event(void *, void *, c10::Stream) override { return true; }  // copies end before they return
  void empty_cache() override {}

  at::HostStats get_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    at::HostStats stats;
    stats.active_requests.current = static_cast<int64_t>(ranges_.size());
    stats.active_bytes.current = stats.allocated_bytes.current = in_use_;
    stats.active_bytes.peak = stats.allocated_bytes.peak = peak_;
    stats.num_host_alloc = made_;
    return stats;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    made_ = 0;
  }
  void reset_peak_stats() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    peak_ = in_use_;
  }

  bool owns(const void *pointer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto next = ranges_.upper_bound(pointer);
    if (next == ranges_.begin()) return false;
    --next;
    return static_cast<const char *>(pointer) < static_cast<const char *>(next->first) + next->second;
  }

 private:
  static void deleter(void *bytes);

  std::mutex mutex_;
  std::map<const void *, size_t> ranges_;
  int64_t in_use_ = 0, peak_ = 0, made_ = 0;
};

// Neither is ever destroyed: tensors may be freed while static objects die.
DeviceAllocator &the_device_allocator() {
  static auto *allocator = new DeviceAllocator;
  return *allocator;
}
HostAllocator &the_host_allocator() {
  static auto *allocator = new HostAllocator;
  return *allocator;
}

void HostAllocator::deleter(void *bytes) {
  if (bytes == nullptr) return;
  HostAllocator &self = the_host_allocator();
  {
    const std::lock_guard<std::mutex> lock(self.mutex_);
    const auto range = self.ranges_.find(bytes);
    if (range != self.ranges_.end()) {
      self.in_use_ -= static_cast<int64_t>(range->second);
      self.ranges_.erase(range);
    }
  }
  c10::GetCPUAllocator()->raw_deallocate(bytes);
}

}  // namespace

c10::Allocator *device_allocator() { return &the_device_allocator(); }
c10::Allocator *pinned_allocator() { return &the_host_allocator(); }
bool is_pinned(const void *pointer) { return the_host_allocator().owns(pointer); }

REGISTER_ALLOCATOR(kTpu, &the_device_allocator())
REGISTER_HOST_ALLOCATOR(kTpu, &the_host_allocator())

}  // namespace tpt_glue
