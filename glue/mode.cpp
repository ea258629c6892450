// mode.cpp - eager modes of threads, and the thread that a backward pass runs in.
#include <c10/core/AutogradState.h>
#include <c10/core/InferenceMode.h>

#include "convert.h"

namespace tpt_glue {

namespace {

enum class Backward : uint8_t { Unasked, Elsewhere, Moved };

// Moved: PyTorch's switch was on and is off now. It stays as the user leaves it, if he turns it on again.
thread_local Backward backward = Backward::Unasked;

}  // namespace

// A thread of autograd's own for each device is two handovers a backward pass, each as long as recording some fifty ops, and then
// two threads record one graph. PyTorch lets a thread keep its backward passes (torch.autograd.set_multithreading_enabled).
void keep_backward_here() {
  if (C10_LIKELY(backward != Backward::Unasked)) return;
  if (c10::InferenceMode::is_enabled()) return;  // puts the switch back at its end
  c10::AutogradState& state = c10::AutogradState::get_tls_state();
  backward = state.get_multithreading_enabled() ? Backward::Moved : Backward::Elsewhere;
  state.set_multithreading_enabled(false);
}

void set_mode(tpt_mode_t mode) {
  tpt_mode_set(mode);
  if (mode == TPT_MODE_FUSED) return keep_backward_here();
  if (backward == Backward::Moved) c10::AutogradState::get_tls_state().set_multithreading_enabled(true);
  backward = Backward::Unasked;
}

}  // namespace tpt_glue
