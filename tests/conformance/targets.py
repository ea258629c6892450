"""The targets that ``out=`` is tried with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from outcome import ANYTHING, HostFaultError
from transfer import Transfer

__all__ = ["TARGETS", "Target", "can_be_written"]


def _tensors(expected: Any) -> list[torch.Tensor]:
    return [expected] if isinstance(expected, torch.Tensor) else list(expected)


def can_be_written(expected: Any) -> bool:
    """Is a result one that ``out=`` can take: a strided tensor, or a list or tuple of such?"""
    if not isinstance(expected, torch.Tensor | list | tuple):
        return False
    return all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in _tensors(expected))


def _inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


@dataclass(frozen=True)
class Target:
    """A way to make the tensors that are to be written."""

    label: str
    make: Callable[[torch.Tensor], torch.Tensor]
    narrows: bool = False
    """Its dtype can't hold a floating result: what the host refuses must be refused. Elsewhere some kernels are lenient."""
    widens: bool = False
    """Results are compared in their own dtype."""
    turned: bool = False
    """Some kernels of the host write these wrongly (2.13: gelu, avg_pool3d): then there is nothing to compare with."""
    elsewhere: bool = False
    """It lies on the host while the arguments lie on the device, which must be refused."""

    def must_refuse(self, expected: Any) -> bool:
        return self.elsewhere or (self.narrows and any(_inexact(t) for t in _tensors(expected)))

    def result(self, call: Callable[..., Any], device: str, expected: Any) -> Any:
        """What is written, with which strides, whether the targets were returned, and whether a resize was warned of."""
        outs = [Transfer("cpu" if self.elsewhere else device)(self.make(t)) for t in _tensors(expected)]
        given = outs[0] if isinstance(expected, torch.Tensor) else outs if isinstance(expected, list) else tuple(outs)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = call(out=given)  # what is refused for another reason is refused with that one's exception
        if self.elsewhere and device == "cpu":
            raise RuntimeError("tensors on two devices")
        same = all(r is o for r, o in zip(_tensors(result), outs, strict=True))
        warned = any("was resized" in str(w.message) for w in caught)
        if self.turned and device == "cpu" and not all(map(_equal, outs, _tensors(expected))):
            raise HostFaultError("the host writes this target wrongly")
        strides = [tuple(o.stride()) if o.numel() else ANYTHING for o in outs]
        if self.widens:
            outs = [o.to(t.dtype) for o, t in zip(outs, _tensors(expected), strict=True)]
        return [outs, strides, same, "warned" if warned else ANYTHING]


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, equal_nan=_inexact(a))


def _garbage(shape: Any, like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor whose values no op would give, so that one which isn't written shows."""
    dtype = dtype or like.dtype
    value = float("nan") if dtype.is_floating_point or dtype.is_complex else 1 if dtype == torch.bool else 113
    return torch.full(shape, value, dtype=dtype)


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    return _garbage(tensor.shape[::-1], tensor).permute(*reversed(range(tensor.dim())))


def _grown(tensor: torch.Tensor) -> torch.Tensor:
    return _garbage((*tensor.shape[:-1], tensor.shape[-1] + 1) if tensor.dim() else (2,), tensor)


def _narrow(tensor: torch.Tensor) -> torch.Tensor:
    return _garbage(tensor.shape, tensor, torch.int64 if _inexact(tensor) else torch.float64)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    wide = torch.complex128 if tensor.is_complex() else torch.float64 if tensor.is_floating_point() else torch.int64
    return _garbage(tensor.shape, tensor, wide)


TARGETS = [
    Target("fresh out", lambda t: _garbage(t.shape, t)),
    Target("transposed out", _turned, turned=True),
    Target("empty out", lambda t: _garbage((0,), t)),
    Target("out of a wrong size", _grown),
    Target("out of another dtype", _narrow, narrows=True),
    Target("out of a wider dtype", _wide, widens=True),
    Target("out on another device", lambda t: _garbage(t.shape, t), elsewhere=True),
]
