"""Memory of ``torch.tpu``, as the plugin counts it, or as our own live buffers where it does not."""

from __future__ import annotations

from typing import Any

import torch

from . import _C
from ._device import DeviceLike, _get_device_index, _total_memory


def _stats(device: DeviceLike) -> dict[str, int]:
    index = _get_device_index(device, optional=True)
    if not _C.is_open():
        return {"in_use": 0, "peak": 0, "limit": 0, "allocations": 0, "largest_free": 0}
    return _C.memory_stats(index)


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes in use."""
    return _stats(device)["in_use"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Highest number of bytes in use since the start or the last reset."""
    return _stats(device)["peak"]


def memory_reserved(device: DeviceLike = None) -> int:
    """The same as memory_allocated: nothing is kept in reserve."""
    return memory_allocated(device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The same as max_memory_allocated."""
    return max_memory_allocated(device)


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """The figures under the names that torch.accelerator.memory_stats gives them."""
    return torch.accelerator.memory_stats(_get_device_index(device, optional=True))


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The figures as text."""
    stats = _stats(device)
    index = _get_device_index(device, optional=True)
    return f"tpu:{index}: {stats['in_use']} bytes in use, peak {stats['peak']}, limit {stats['limit'] or 'unknown'}"


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Starts the peak anew from the bytes in use now."""
    if _C.is_open():
        _C.memory_reset_peak(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """The same as reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """There are no accumulated figures; for compatibility."""


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes."""
    index = _get_device_index(device, optional=True)
    in_use = _C.memory_stats(index)["in_use"]
    total = _total_memory(index, _C.platform()["name"])
    return max(total - in_use, 0), total


def empty_cache() -> None:
    """Gives memory that is kept for tensors to come back to the system: on CPU plugins, whose buffers come from the C heap."""
    _C.empty_cache()


def ipc_collect() -> None:
    """Device memory is not shared between processes; for compatibility."""
