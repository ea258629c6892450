// guard.cpp - the current device, streams and events, as PyTorch's generic code sees them.
// Work on one device is in order and buffers carry their own dependencies between devices, so streams only have names;
// events remember when they were recorded and wait for the device.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "glue.h"
#include "storage.h"

namespace tpt_glue {

namespace {

using Clock = std::chrono::steady_clock;

constexpr c10::StreamId kPoolStreams = 32;
thread_local c10::DeviceIndex current = 0;
thread_local std::vector<c10::StreamId> current_streams;  // per device; missing means the default stream

std::atomic<int> known_count{-1};  // -1: never asked
std::atomic<bool> forked{false};

void after_fork() {
  if (tpt_runtime_is_open()) forked.store(true);
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, &after_fork);

struct Event {
  int device;
  Clock::time_point time;
  bool done;
};

void wait(Event *event) {
  if (event == nullptr || event->done) return;
  check(tpt_device_synchronize(event->device));
  event->done = true;
}

int index_of(c10::Device device) { return device.has_index() ? device.index() : current; }

c10::StreamId &stream_slot(int device) {
  if (current_streams.size() <= static_cast<size_t>(device)) current_streams.resize(static_cast<size_t>(device) + 1, 0);
  return current_streams[static_cast<size_t>(device)];
}

c10::Stream stream_of(int device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kTpu, static_cast<c10::DeviceIndex>(device)), id);
}

c10::Stream next_stream(c10::Device device) {
  static std::atomic<c10::StreamId> next{0};
  return stream_of(index_of(device), 1 + next.fetch_add(1) % kPoolStreams);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTpu; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    if (device.index() != old.index()) setDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {kTpu, current}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.type() == kTpu, "tpu: cannot select device ", device);
    set_device(index_of(device));
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }

  c10::Stream getStream(c10::Device device) const override { return stream_of(index_of(device), stream_slot(index_of(device))); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(index_of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return next_stream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return next_stream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::StreamId &slot = stream_slot(stream.device_index());
    const c10::Stream old = stream_of(stream.device_index(), slot);
    slot = stream.id();
    return old;
  }
  void *getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(stream.id()));
  }
  bool queryStream(const c10::Stream &stream) const override {
    synchronizeStream(stream);  // PJRT cannot be asked whether a device is idle
    return true;
  }
  void synchronizeStream(const c10::Stream &stream) const override { synchronizeDevice(stream.device_index()); }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check_fork();
    if (tpt_runtime_is_open()) check(tpt_device_synchronize(device));
  }

  // PJRT has no marks in a device's work. An event for timing therefore waits at once, so that its time is true; others only
  // see to it that the work before them has been handed to the device (fused mode keeps it back).
  void record(void **event, const c10::Stream &stream, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    const int device = stream.device_index();
    const bool timing = flag == c10::EventFlag::BACKEND_DEFAULT;
    check_fork();
    if (tpt_runtime_is_open()) check(timing ? tpt_device_synchronize(device) : tpt_graph_cut(device, TPT_CUT_EVENT));
    if (*event == nullptr) *event = new Event{};
    *static_cast<Event *>(*event) = {device, Clock::now(), timing};
  }
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *event) const override {
    wait(static_cast<Event *>(event));
    return true;
  }
  void synchronizeEvent(void *event) const override { wait(static_cast<Event *>(event)); }
  void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event *>(event); }
  double elapsedTime(void *first, void *second, const c10::DeviceIndex) const override {
    const auto *start = static_cast<Event *>(first), *end = static_cast<Event *>(second);
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    return std::chrono::duration<double, std::milli>(end->time - start->time).count();
  }

  // Autograd asks once, at its first backward pass of any device, how many worker threads to start: no plugin is opened for
  // that. Before the plugin is open the answer is what will be asked of it.
  c10::DeviceIndex deviceCount() const noexcept override {
    if (tpt_runtime_is_open() || known_count.load() == 0) return static_cast<c10::DeviceIndex>(device_count());
    return static_cast<c10::DeviceIndex>(expected_device_count());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto &has = capability.capability_data.supported_scalar_types;
    has.has_Byte = has.has_Char = has.has_Short = has.has_Int = has.has_Long = has.has_Half = has.has_Float = has.has_Double = 1;
    has.has_Bool = has.has_BFloat16 = has.has_ComplexFloat = has.has_ComplexDouble = 1;
    has.has_Float8_e5m2 = has.has_Float8_e4m3fn = has.has_Float8_e5m2fnuz = has.has_Float8_e4m3fnuz = 1;
    has.has_UInt16 = has.has_UInt32 = has.has_UInt64 = 1;
    return capability;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

int current_device() { return current; }

void set_device(int device) {
  if (device == current) return;
  // Autograd's workers select every device that may exist; that must not open the plugin. First use checks the index.
  const bool later = !tpt_runtime_is_open() && !forked.load() && device >= 0 && device < expected_device_count();
  if (!later) check_device(c10::Device(kTpu, static_cast<c10::DeviceIndex>(device)));
  current = static_cast<c10::DeviceIndex>(device);
}

int device_count() {
  if (forked.load()) return std::max(known_count.load(), 0);
  int count = 0;
  try {
    ensure_plugin();
    check(tpt_device_count(&count));
  } catch (const std::exception &) {
    count = 0;  // the reason is given where a device is really used
  }
  known_count.store(count);
  return count;
}

namespace {

bool is_set(const char *name) {
  const char *text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

// TPU chips on the PCI bus (vendor 0x1ae0 is Google).
int chips_on_bus() noexcept {
  int chips = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/sys/bus/pci/devices", error), end; !error && it != end; it.increment(error)) {
    std::string vendor;
    std::ifstream(it->path() / "vendor") >> vendor;
    chips += vendor == "0x1ae0";
  }
  return chips;
}

}  // namespace

// Too many is harmless (idle worker threads), too few is not: an unknown plugin counts as sixteen devices.
int expected_device_count() noexcept {
  const char *text = std::getenv("TORCH_TPU_NUM_DEVICES");
  const long asked = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  const int cpu = asked >= 1 && asked <= 64 ? static_cast<int>(asked) : 1;
  const bool unknown = is_set("TORCH_TPU_PJRT_PLUGIN") || is_set("TPU_LIBRARY_PATH");
  static const int chips = chips_on_bus();
  return std::max({cpu, 2 * chips, unknown ? 16 : 1});
}

bool is_forked() { return forked.load(); }

void check_fork() {
  TORCH_CHECK(!forked.load(std::memory_order_relaxed),
              "Cannot use device tpu in a forked subprocess: its runtime was opened before the fork. To use tpu with "
              "multiprocessing, use the 'spawn' start method");
}

}  // namespace tpt_glue
