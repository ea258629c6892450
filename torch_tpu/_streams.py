"""Streams and events of ``torch.tpu``. Work of one device is in order, so streams only have names."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ._device import DeviceLike, _get_device_index


class Stream(torch.Stream):
    """A named stream of a device."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device("tpu", _get_device_index(device, optional=True)), priority=priority)


class Event(torch.Event):
    """A point in the work of a device; ``elapsed_time`` between two of them is in milliseconds of the host's clock."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(cls, "tpu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """This thread's current stream of a device."""
    return torch.accelerator.current_stream(_get_device_index(device, optional=True))


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """The stream that is current unless another was chosen."""
    index = _get_device_index(device, optional=True)
    return torch.Stream(stream_id=0, device_index=index, device_type=int(torch._C._autograd.DeviceType.PrivateUse1))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream this thread's current one; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    """Context manager that makes a stream current; None changes nothing."""
    return nullcontext() if stream is None else stream
