"""What a piece of work came to on a device, and whether two devices came to the same."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy
import torch
from torch.utils._pytree import tree_leaves

__all__ = ["ANYTHING", "Case", "HostFaultError", "MismatchError", "Verdict", "brief", "judge"]

# torch.testing.assert_close's own tolerances (rtol, atol); below, what passes: in float32 that of PyTorch's test_compare_cpu.
_CLOSE = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}
_PASS = {torch.float64: 1e-6, torch.complex128: 1e-6, torch.float32: 1e-3, torch.complex64: 1e-3}
_PASS_HALF = 1.6e-2
ANYTHING = "anything"
"""As a result of the host: the device may give what it likes."""
# The host says itself that it has no kernel: nothing to compare with, whatever the device does.
_HOST_LACKS = ("not implemented for", "not implemented on", "Could not run", "not supported on CPU")


class MismatchError(Exception):
    """A device result that differs from the host's."""


class HostFaultError(Exception):
    """The host itself gives a wrong result."""


@dataclass
class Case:
    """One piece of work. ``run(device)`` gives a nest of results."""

    run: Callable[[str], Any]
    label: str = ""
    values: bool = True
    """Are values defined? (not those of ``empty``)"""
    refusal: bool = False
    """Is an exception an answer, to be compared like a result? If not, a case that the host refuses counts for nothing."""
    widened: Callable[[], Any] | None = None
    """The same work on the host in a wider dtype: being as near to that as the host is will do."""


@dataclass
class Verdict:
    """What became of a case."""

    status: str
    reason: str = ""
    strict: bool = True


@dataclass
class _Outcome:
    result: Any = None
    error: Exception | None = None


def brief(error: BaseException) -> str:
    """Type and first line of an exception."""
    return f"{type(error).__name__}: {next((ln.strip() for ln in str(error).splitlines() if ln.strip()), '')}"[:240]


def _attempt(run: Callable[[], Any], seed: int = 0) -> _Outcome:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Outcome(result=run())
    except Exception as error:
        return _Outcome(error=error)


def judge(case: Case, device: str) -> Verdict:
    """Runs a case on the host and on the device and compares what they came to."""
    right = _attempt(lambda: case.run("cpu"))
    if right.error is not None and (not case.refusal or _is_host_fault(right.error)):
        return Verdict("skip", "the host raised " + brief(right.error))

    def work() -> Any:
        result = case.run(device)
        if device != "cpu":
            torch.get_device_module(device).synchronize()
        return _fetched(result)

    got = _attempt(work)
    try:
        if right.error is not None:
            return _judge_refusal(case, right.error, got)
        if got.error is not None:
            lacks = isinstance(got.error, NotImplementedError)
            return Verdict("unsupported" if lacks else "error", _label(case) + brief(got.error))
        return Verdict("pass", strict=_judge_result(case, right.result, got.result))
    except MismatchError as mismatch:
        return Verdict("wrong", _label(case) + str(mismatch))


def _is_host_fault(error: Exception) -> bool:
    return isinstance(error, HostFaultError) or any(text in str(error) for text in _HOST_LACKS)


def _label(case: Case) -> str:
    return f"{case.label}: " if case.label else ""


def _judge_refusal(case: Case, right: Exception, got: _Outcome) -> Verdict:
    if got.error is None:
        return Verdict("wrong", f"{_label(case)}not refused; the host raises {brief(right)}")
    if type(got.error) is not type(right):
        return Verdict("wrong", f"{_label(case)}raises {brief(got.error)}; the host raises {brief(right)}")
    return Verdict("pass")


def _judge_result(case: Case, right: Any, got: Any) -> bool:
    try:
        return _compare(right, got, case.values)
    except MismatchError as mismatch:
        if not case.values or not str(mismatch).startswith("value"):
            raise
        if _is_random(case, right):
            return _compare(right, got, values=False)
        if case.widened is None:
            raise
        exact = _attempt(case.widened)
        if exact.error is not None:
            raise
        return _compare(right, got, case.values, exact.result)


def _is_random(case: Case, right: Any) -> bool:
    """Does the host disagree with itself from seed to seed? (seeds that the database fixes are overridden)"""
    original = torch.manual_seed
    for seed in range(1, 9):
        with mock.patch("torch.manual_seed", lambda _, seed=seed: original(seed)):
            again = _attempt(lambda: case.run("cpu"), seed)
        try:
            _compare(right, again.result, values=True)
        except MismatchError:
            return again.error is None or isinstance(again.error, HostFaultError)
    return False


def _fetched(nest: Any) -> Any:
    """The nest with its tensors on the host, so that late errors surface here. Their strides and places stay known."""
    return [_on_host(leaf) for leaf in tree_leaves(nest)]


def _on_host(leaf: Any) -> Any:
    return leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf


def _compare(right: Any, got: Any, values: bool, exact: Any = None) -> bool:
    """Raises MismatchError, or says whether all was within assert_close's own tolerances."""
    rights, gots = tree_leaves(right), tree_leaves(got)
    exacts = tree_leaves(exact) if exact is not None else rights
    if not len(rights) == len(gots) == len(exacts):
        raise MismatchError(f"structure: {len(gots)} results, expected {len(rights)}")
    strict = True
    for i, (r, g, e) in enumerate(zip(rights, gots, exacts, strict=True)):
        if isinstance(r, torch.Tensor) != isinstance(g, torch.Tensor):
            raise MismatchError(f"structure: got {type(g).__name__}, expected {type(r).__name__}")
        if isinstance(r, torch.Tensor):
            if r.dtype != g.dtype:
                raise MismatchError(f"dtype: got {g.dtype}, expected {r.dtype}")
            if r.shape != g.shape:
                raise MismatchError(f"shape: got {tuple(g.shape)}, expected {tuple(r.shape)}")
            if r.layout != g.layout:
                raise MismatchError(f"layout: got {g.layout}, expected {r.layout}")
            strict &= not values or _compare_values(i, r, g, e)
        elif isinstance(r, bool | int | float | complex):
            strict &= not values or _compare_values(i, *map(torch.tensor, (r, g, e)))
        elif isinstance(r, str | torch.dtype | torch.Size) and r not in (g, ANYTHING):
            raise MismatchError(f"value: got {g!r}, expected {r!r}")
    return strict


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    elif tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.detach().resolve_conj().resolve_neg()


def _usual_error(right: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the host's errors: some of its values are near the exact ones by luck."""
    error = (right - exact).abs()
    error = error[error.isfinite()]
    return error.square().mean().sqrt().item() if error.numel() else 0.0


def _compare_values(i: int, right: torch.Tensor, got: torch.Tensor, exact: torch.Tensor) -> bool:
    if right.is_nested:
        pairs = zip(right.unbind(), got.unbind(), exact.unbind(), strict=True)
        return min([_compare_values(i, r, g, e) for r, g, e in pairs], default=True)
    right, got, exact = _dense(right), _dense(got), _dense(exact)
    dtype = right.dtype
    if not (right.is_floating_point() or right.is_complex()):
        if right.shape != got.shape or (right != got).any():
            raise MismatchError(f"values: {int((right != got).sum())} of {right.numel()} integers differ in result {i}")
        return True
    wide = torch.complex128 if right.is_complex() else torch.float64
    right, got, exact = right.to(wide), got.to(wide), exact.to(wide)
    limit = _PASS.get(dtype, _PASS_HALF)
    close = torch.isclose(got, right, rtol=limit, atol=limit, equal_nan=True)
    close |= (got - exact).abs() <= (right - exact).abs() + _usual_error(right, exact) + limit * (1 + exact.abs())
    if not close.all():
        apart = (got - right).abs()
        finite = apart[~close & apart.isfinite()]
        worst = f"by up to {finite.max().item():.3g}" if finite.numel() else "in NaN or infinity"
        raise MismatchError(f"values: {int((~close).sum())} of {right.numel()} differ in result {i}, {worst}")
    rtol, atol = _CLOSE.get(dtype, (_PASS_HALF, _PASS_HALF))
    return bool(torch.isclose(got, right, rtol=rtol, atol=atol, equal_nan=True).all())
