"""The module ``torch.tpu``. PyTorch's generic code looks up most of these names."""

from __future__ import annotations

import sys
from types import ModuleType

from torch import OutOfMemoryError

from . import _C, _utils, amp
from . import _memory as memory
from . import _random as random
from ._device import (
    DeviceProperties,
    _exchange_device,
    _get_device_index,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_built,
    is_initialized,
    set_device,
    synchronize,
)
from ._memory import (
    empty_cache,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from ._modes import (
    EagerMode,
    Precision,
    get_amp_supported_dtype,
    get_eager_mode,
    get_precision,
    precision,
    set_eager_mode,
    set_precision,
)
from ._random import (
    _get_generator,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "DeviceProperties",
    "EagerMode",
    "Event",
    "OutOfMemoryError",
    "Precision",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_precision",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_built",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "precision",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_precision",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

# Looked up by PyTorch's generic code.
_hooks = (_exchange_device, _get_device_index, _get_generator, _is_in_bad_fork, _lazy_init, _maybe_exchange_device, _utils)


class _TpuModule(ModuleType):
    """Attributes that are asked anew each time."""

    @property
    def _initialized(self) -> bool:
        """Checkpointing stashes the random state of a device only if this says that it is in use."""
        return _C.is_open()

    @property
    def eager_mode(self) -> EagerMode:
        """This thread's eager mode."""
        return get_eager_mode()

    @eager_mode.setter
    def eager_mode(self, mode: EagerMode) -> None:
        set_eager_mode(mode)


sys.modules[__name__].__class__ = _TpuModule
