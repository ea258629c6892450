"""Eager modes and precision of ``torch.tpu``."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from . import _C


class EagerMode(enum.Enum):
    """When recorded ops are run."""

    DEFER_NEVER = 0
    """After every op, asynchronously (strict, the default)."""
    DEFER_NEVER_AND_LAUNCH_BLOCKING = 1
    """After every op, waiting for it: errors are raised at the op that made them."""
    DEFER_AND_FUSE = 2
    """When a value is needed: ops are fused into larger programs."""


class Precision(enum.Enum):
    """Precision of float32 dots and convolutions, as StableHLO names them."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


_PRECISIONS = {
    "default": Precision.DEFAULT,
    "medium": Precision.DEFAULT,
    "high": Precision.HIGH,
    "highest": Precision.HIGHEST,
}


def get_eager_mode() -> EagerMode:
    """This thread's eager mode."""
    return EagerMode(_C.mode_get())


class _Restore:
    """Undoes a change of mode when used as a context manager."""

    def __init__(self, previous: EagerMode) -> None:
        self.previous = previous

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        set_eager_mode(self.previous)


def set_eager_mode(mode: EagerMode) -> _Restore:
    """Sets this thread's eager mode; as a context manager it puts the old one back at the end."""
    previous = get_eager_mode()
    if mode is not previous and previous is EagerMode.DEFER_AND_FUSE and _C.is_open():
        for index in range(_C.device_count()):
            _C.graph_cut(index)
    _C.mode_set(EagerMode(mode).value)
    return _Restore(previous)


def _to_precision(mode: Precision | str) -> Precision:
    if isinstance(mode, Precision):
        return mode
    try:
        return _PRECISIONS[mode.lower()]
    except (KeyError, AttributeError):
        raise ValueError(f"unknown precision {mode!r}: one of {', '.join(_PRECISIONS)}") from None


def get_precision() -> Precision:
    """The precision of float32 dots and convolutions."""
    return Precision(_C.precision_get())


def set_precision(mode: Precision | str) -> None:
    """Sets the precision of float32 dots and convolutions for the process.

    It goes before ``torch.set_float32_matmul_precision``, which counts where this was never called. Without either it is full
    float32, on TPUs products of bfloat16 numbers with float32 sums.
    """
    _C.precision_set(_to_precision(mode).value)


@contextmanager
def precision(mode: Precision | str) -> Iterator[None]:
    """Context manager: ``with torch.tpu.precision("highest"): ...``."""
    previous = _C.precision_chosen()
    set_precision(mode)
    try:
        yield
    finally:
        _C.precision_set(previous)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("tpu")`` may cast to; the first is its default."""
    return [torch.bfloat16, torch.float16]
