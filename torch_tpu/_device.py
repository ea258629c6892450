"""Devices of ``torch.tpu``: which there are, which one is current, and what they are."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import torch

from . import _C

DeviceLike = int | str | torch.device | None


def _get_device_index(device: DeviceLike | torch.Tensor, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that ``device`` means; None means the current device if ``optional`` (-1 for cpu if ``allow_cpu``)."""
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {device}")
        if device.index is not None:
            return device.index
        return _C.current_device()
    if device is None and optional:
        return _C.current_device()
    raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device!r}")


def is_available() -> bool:
    """Is there a device? Opens the plugin."""
    return _C.device_count() > 0


def is_built() -> bool:
    """Is this PyTorch able to use device tpu at all? Always true here."""
    return True


def device_count() -> int:
    """Number of devices; 0 when no plugin can be opened. Opens the plugin."""
    return _C.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Selects this thread's current device. A negative index does nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(device: int) -> int:
    """Selects a device and gives the one before; a negative index changes nothing."""
    previous = _C.current_device()
    if device >= 0:
        _C.set_device(device)
    return previous


_maybe_exchange_device = _exchange_device


class device:  # noqa: N801 - the name that every device module of PyTorch has
    """Context manager that selects a device: ``with torch.tpu.device(1): ...``."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = _exchange_device(self.idx)
        return self

    def __exit__(self, *exc: object) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager that selects the device of a tensor or storage; does nothing for one that is not on a tpu."""

    def __init__(self, obj: Any) -> None:
        where = obj.device
        super().__init__(where.index if where.type == "tpu" else -1)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work given to the device is done, and raises the errors that are still to be reported."""
    _C.synchronize(_get_device_index(device, optional=True))


def init() -> None:
    """Opens the plugin now instead of at first use, or raises the reason why it cannot be opened."""
    _C.open()


def is_initialized() -> bool:
    """Has the plugin been opened?"""
    return _C.is_open()


def _is_in_bad_fork() -> bool:
    """Is this a child process, forked after the plugin was opened?"""
    return _C.is_forked()


def _lazy_init() -> None:
    """Called by PyTorch before it makes a tensor on the device."""
    if _C.is_forked():
        raise RuntimeError(
            "Cannot use device tpu in a forked subprocess: its runtime was opened before the fork. "
            "To use tpu with multiprocessing, use the 'spawn' start method"
        )


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 is a native type of every plugin."""
    return True


@dataclass(frozen=True)
class DeviceProperties:
    """What is known of one device."""

    name: str
    index: int
    platform: str
    platform_version: str
    plugin: str
    pjrt_api: tuple[int, int]
    total_memory: int
    major: int
    minor: int


def get_device_name(device: DeviceLike = None) -> str:
    """What the plugin calls the device: ``TPU v5 lite``, ``cpu``, ..."""
    return _C.device_kind(_get_device_index(device, optional=True))


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Generation of a TPU as (major, minor), (0, 0) for other devices."""
    found = re.search(r"TPU\s*v(\d+)", get_device_name(device), re.IGNORECASE)
    return (int(found.group(1)), 0) if found else (0, 0)


def _total_memory(index: int, platform: str) -> int:
    limit = _C.memory_stats(index)["limit"]
    if limit == 0 and platform == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return limit


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, platform, plugin and memory of a device."""
    index = _get_device_index(device, optional=True)
    name = _C.device_kind(index)
    about = _C.platform()
    major, minor = get_device_capability(index)
    return DeviceProperties(
        name=name,
        index=index,
        platform=about["name"],
        platform_version=about["version"],
        plugin=about["plugin"],
        pjrt_api=(about["api_major"], about["api_minor"]),
        total_memory=_total_memory(index, about["name"]),
        major=major,
        minor=minor,
    )


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Devices of one client can all copy to one another."""
    count = device_count()
    return all(0 <= _get_device_index(one) < count for one in (device, peer_device))
