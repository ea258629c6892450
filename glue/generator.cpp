// generator.cpp - random state of a device: a Philox seed and a position counted in 128-bit blocks.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GeneratorImpl.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>

#include "storage.h"

namespace tpt_glue {

namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);  // seed, offset

struct TpuGenerator final : c10::GeneratorImpl {
  explicit TpuGenerator(int device, uint64_t seed)
      : c10::GeneratorImpl(c10::Device(kTpu, static_cast<c10::DeviceIndex>(device)), c10::DispatchKeySet(kKey)), seed_(seed) {}

  static c10::DeviceType device_type() { return kTpu; }

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  void set_state(const c10::TensorImpl &state) override {
    TORCH_CHECK(state.device_type() == c10::kCPU && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_contiguous() &&
                    state.numel() == static_cast<int64_t>(kStateBytes),
                "RNG state of device tpu must be a contiguous torch.ByteTensor of ", kStateBytes, " bytes on cpu");
    const auto *bytes = static_cast<const unsigned char *>(state.data());
    std::memcpy(&seed_, bytes, sizeof(seed_));
    std::memcpy(&offset_, bytes + sizeof(seed_), sizeof(offset_));
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions().dtype(c10::kByte).device(c10::kCPU));
    auto *bytes = static_cast<unsigned char *>(state.mutable_data_ptr());
    std::memcpy(bytes, &seed_, sizeof(seed_));
    std::memcpy(bytes + sizeof(seed_), &offset_, sizeof(offset_));
    return state.getIntrusivePtr();
  }

  // mutex_ is held by the caller.
  void take(uint64_t blocks, uint64_t *seed, uint64_t *offset) {
    *seed = seed_;
    *offset = offset_;
    offset_ += blocks;
  }

 private:
  TpuGenerator *clone_impl() const override {
    auto *copy = new TpuGenerator(device().index(), seed_);
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_, offset_ = 0;
};

// Default generators are made when a device is first asked for; a seed set before that is remembered for them.
struct Defaults {
  std::mutex mutex;
  std::deque<at::Generator> list;  // a deque: references stay valid while it grows
  uint64_t seed = c10::default_rng_seed_val;
};

Defaults &defaults() {
  static auto *all = new Defaults;  // never destroyed: Python objects may outlive static destruction
  return *all;
}

tpt_arg_t number_arg(double value) {
  tpt_arg_t arg{};
  arg.kind = TPT_ARG_NUMBER;
  arg.u.number.dtype = TPT_F64;
  arg.u.number.wrapped = true;
  arg.u.number.v.f[0] = value;
  return arg;
}

// PyTorch's meta kernel of this one is written in Python and loads its compiler (seconds) only to say that self is returned.
at::Tensor &normal_(at::Tensor &self, double mean, double std, std::optional<at::Generator> generator) {
  static const tpt_op_t *const op = [] {
    const tpt_param_t params[] = {{"self", true}, {"mean", false}, {"std", false}, {"generator", false}};
    const tpt_row_t *row = tpt_row_find("normal_");
    TORCH_CHECK(row != nullptr, "tpu: the table of ops has no row \"normal_\"");
    tpt_op_t *bound = nullptr;
    check(tpt_op_bind(row, "aten::normal_", 4, params, /*fresh_outs=*/false, &bound));
    return bound;
  }();
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  if (self.numel() == 0) return self;
  at::assert_no_internal_overlap(self);
  const auto device = static_cast<int>(self.device().index());
  tpt_arg_t args[4] = {{}, number_arg(mean), number_arg(std), {}};
  args[0].kind = TPT_ARG_TENSOR;
  args[0].u.tensor = borrow(self);
  args[3].kind = TPT_ARG_RNG;
  rng_take(generator, device, blocks_for(self.numel()), &args[3].u.rng.seed, &args[3].u.rng.offset);
  run_op(op, args, 4, device, nullptr, 0, nullptr);
  return self;
}

// As cpu does: a target of any dtype, resized without a word.
at::Tensor &bernoulli_out(const at::Tensor &self, std::optional<at::Generator> generator, at::Tensor &out) {
  return out.resize_(self.sizes()).bernoulli_(self, generator);
}

}  // namespace

// Room for two blocks an element: more than any way of drawing numbers takes.
uint64_t blocks_for(int64_t elements) { return 2 * static_cast<uint64_t>(elements) + 16; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("bernoulli.out", TORCH_FN(bernoulli_out));
}

const at::Generator &default_generator(int device) {
  const int index = device < 0 ? current_device() : device;
  TORCH_CHECK(index < 128, "tpu: invalid device index ", index);
  Defaults &all = defaults();
  const std::lock_guard<std::mutex> lock(all.mutex);
  while (all.list.size() <= static_cast<size_t>(index)) {
    all.list.push_back(at::make_generator<TpuGenerator>(static_cast<int>(all.list.size()), all.seed));
  }
  return all.list[static_cast<size_t>(index)];
}

at::Generator make_generator(int device) {
  return at::make_generator<TpuGenerator>(device < 0 ? current_device() : device, c10::default_rng_seed_val);
}

void seed_all(uint64_t seed) {
  Defaults &all = defaults();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.seed = seed;
  for (at::Generator &generator : all.list) {
    const std::lock_guard<std::mutex> inner(generator.mutex());
    generator.set_current_seed(seed);
  }
}

void rng_take(const std::optional<at::Generator> &generator, int device, uint64_t blocks, uint64_t *seed, uint64_t *offset) {
  const at::Generator &used = generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(used.device().type() == kTpu, "Expected a 'tpu' device type for generator but found '", used.device().type(), "'");
  TORCH_CHECK(used.device().index() == device, "Expected a generator of device tpu:", device, " but found one of ", used.device());
  auto *impl = static_cast<TpuGenerator *>(used.unsafeGetGeneratorImpl());
  const std::lock_guard<std::mutex> lock(impl->mutex_);
  impl->take(blocks, seed, offset);
}

}  // namespace tpt_glue
