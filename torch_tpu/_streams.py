"""Streams and events of ``torch.tpu``. Work of one device is in order, so streams only have names."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from ._device import DeviceLike, _get_device_index


class _StreamMeta(type):
    """Calls make plain streams of PyTorch; any stream of a tpu is an instance."""

    def __call__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> torch.Stream:
        if kwargs:
            return torch.Stream(priority=priority, **kwargs)
        return torch.Stream(torch.device("tpu", _get_device_index(device, optional=True)), priority=priority)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Stream) and instance.device.type == "tpu"


class Stream(metaclass=_StreamMeta):
    """A named stream of a device: ``Stream(device=None, priority=0)``."""


class _EventMeta(type):
    """Calls make plain events of PyTorch (it refuses subclasses in elapsed_time); any event of a tpu is an instance."""

    def __call__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "tpu"


class Event(metaclass=_EventMeta):
    """A point in the work of a device; ``elapsed_time`` between two of them is in milliseconds of the host's clock."""


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


class StreamContext(AbstractContextManager[None]):
    """Makes a stream current inside a ``with``; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *raised: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*raised)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager that makes a stream current; None changes nothing."""
    return StreamContext(stream)
