// hooks.cpp - what PyTorch's generic accelerator code asks of this device.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "storage.h"

namespace tpt_glue {

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  // Never opens the plugin; torch.tpu.is_available() does.
  bool isAvailable() const override { return tpt_runtime_is_open() ? device_count() > 0 : !is_forked(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return tpt_runtime_is_open(); }
  void init() const override { check_fork(); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto old = static_cast<c10::DeviceIndex>(current_device());
    set_device(device);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? static_cast<c10::DeviceIndex>(current_device()) : exchangeDevice(device);
  }

  bool isPinnedPtr(const void *data) const override { return is_pinned(data); }
  c10::Allocator *getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Device getDeviceFromPtr(void *address) const override {
    const tpt_storage_t *storage = tpt_storage_find(address);
    TORCH_CHECK(storage != nullptr, "tpu: no storage begins at this address");
    return {kTpu, static_cast<c10::DeviceIndex>(tpt_storage_device(storage))};
  }

  const at::Generator &getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }

  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t nbytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool registered = [] {
  static auto *hooks = new Hooks;  // never destroyed
  at::RegisterPrivateUse1HooksInterface(hooks);
  return true;
}();

}  // namespace

}  // namespace tpt_glue
