"""The cases of PyTorch's operator database (OpInfo), by kind of job."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from outcome import Case
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves
from transfer import Transfer

__all__ = ["KINDS", "dtypes", "names"]

_OPS = {op.full_name: op for op in op_db}
# Their values are whatever the memory held.
_UNDEFINED = re.compile(r"^(new_)?empty(_like|_strided|_permuted)?$|^resize_(as_)?$")
# PyTorch wants the tensor arguments of these (not the first) on the host.
_HOST_ARGUMENTS = {"tensor_split"}
_MOST_SAMPLES = 64


def names() -> list[str]:
    return list(_OPS)


def dtypes(kind: str, name: str) -> set[str]:
    """The dtypes that a kind of job has for an op; ``-`` where it has none of its own."""
    op = _OPS[name]
    forward = {str(dtype)[6:] for dtype in op.dtypes}
    if kind == "grad":
        return {str(dtype)[6:] for dtype in op.supported_backward_dtypes("cpu")} if op.supports_autograd else set()
    if kind == "inplace":
        return forward if op.get_inplace() is not None else set()
    if kind == "out":
        return forward if op.supports_out else set()
    if kind == "refusal":
        return {"-"} if op.error_inputs_func is not None else set()
    return forward


def _spread(samples: Any, limit: int) -> list[Any]:
    """``limit`` samples spread evenly (first and last among them); 0: all."""
    got = list(itertools.islice(samples, _MOST_SAMPLES))
    if limit <= 0 or len(got) <= limit:
        return got
    return [got[round(i * (len(got) - 1) / max(limit - 1, 1))] for i in range(limit)]


def _samples(op: Any, dtype: str, limit: int, requires_grad: bool = False) -> list[Any]:
    return _spread(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=requires_grad), limit)


def _widened(sample: Any, dtype: str) -> Any:
    """A sample of halves in float32; None for other dtypes."""
    narrow = getattr(torch, dtype)
    if narrow not in (torch.float16, torch.bfloat16):
        return None

    def wide(x: Any) -> Any:
        if isinstance(x, torch.dtype):
            return torch.float32 if x is narrow else x
        return x.float().requires_grad_(x.requires_grad) if x.dtype == narrow else x

    return sample.transform(wide)


def _call(op: Any, sample: Any, device: str, requires_grad: bool = False, function: Any = None, **more: Any) -> tuple:
    """The op's result on copies of the sample's arguments, the first of these copies, and the Transfer that made them."""
    copy = Transfer(device, requires_grad)
    rest = "cpu" if op.name in _HOST_ARGUMENTS else device
    first = copy(sample.input)
    args, kwargs = copy(sample.args, rest), copy(sample.kwargs, rest)
    return (function or op)(first, *args, **kwargs, **more), first, copy


def _gradients(out: Any, copy: Transfer, device: str) -> list[Any]:
    """First-order gradients of all results by all leaves, with fixed random cotangents."""
    outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = copy.leaves
    if not outs or not leaves:
        return []
    generator = torch.Generator().manual_seed(7)
    cotangents = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(device) for t in outs]
    return list(torch.autograd.grad(outs, leaves, cotangents, allow_unused=True))


def _case(run: Callable[[Any, str], Any], sample: Any, dtype: str, **more: Any) -> Case:
    wide = _widened(sample, dtype)
    widened = (lambda: run(wide, "cpu")) if wide is not None else None
    return Case(lambda device: run(sample, device), widened=widened, **more)


def forward(name: str, dtype: str, limit: int) -> Iterator[Case]:
    op = _OPS[name]

    def run(sample: Any, device: str) -> Any:
        return sample.output_process_fn_grad(_call(op, sample, device)[0])

    for sample in _samples(op, dtype, limit):
        yield _case(run, sample, dtype, values=not _UNDEFINED.match(op.name))


def gradient(name: str, dtype: str, limit: int) -> Iterator[Case]:
    op = _OPS[name]

    def run(sample: Any, device: str) -> Any:
        out, _, copy = _call(op, sample, device, requires_grad=True)
        return _gradients(sample.output_process_fn_grad(out), copy, device)

    for sample in _samples(op, dtype, limit, requires_grad=True):
        yield _case(run, sample, dtype)


def strided(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """Arguments with gaps between their elements: results and gradients."""
    op = _OPS[name]
    differentiable = op.supports_autograd and dtype in dtypes("grad", name)

    def run(sample: Any, device: str) -> Any:
        out, _, copy = _call(op, sample, device, requires_grad=differentiable)
        out = sample.output_process_fn_grad(out)
        return [out, _gradients(out, copy, device) if differentiable else []]

    for sample in _samples(op, dtype, limit, requires_grad=differentiable):
        yield _case(run, sample.noncontiguous(), dtype, values=not _UNDEFINED.match(op.name))


def inplace(name: str, dtype: str, limit: int) -> Iterator[Case]:
    op = _OPS[name]

    def run(sample: Any, device: str) -> Any:
        result, first, _ = _call(op, sample, device, function=op.get_inplace())
        return [result, first, result is first]

    for sample in _samples(op, dtype, limit):
        yield _case(run, sample, dtype, values=not _UNDEFINED.match(op.name), refusal=True)


def refusal(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """Wrong arguments: the exception must be of the host's type."""
    op = _OPS[name]
    for error in op.error_inputs("cpu"):
        sample = error.sample_input
        label = f"expected {error.error_regex!r}"[:100]
        yield Case(lambda device, sample=sample: _call(op, sample, device)[0], label, refusal=True)


def _garbage(shape: Any, like: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor whose values no op would give, so that one which isn't written shows."""
    dtype = dtype or like.dtype
    value = float("nan") if dtype.is_floating_point or dtype.is_complex else 1 if dtype == torch.bool else 113
    return torch.full(shape, value, dtype=dtype)


def _grown(tensor: torch.Tensor) -> torch.Tensor:
    return _garbage((*tensor.shape[:-1], tensor.shape[-1] + 1) if tensor.dim() else (2,), tensor)


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    return _garbage(tensor.shape[::-1], tensor).permute(*reversed(range(tensor.dim())))


def _other_dtype(tensor: torch.Tensor) -> torch.Tensor:
    inexact = tensor.is_floating_point() or tensor.is_complex()
    other = torch.int64 if inexact else torch.uint8 if tensor.dtype == torch.bool else torch.float64
    return _garbage(tensor.shape, tensor, other)


def _must_refuse(label: str, expected: Any) -> bool:
    """Must the device refuse what the host refuses? Not where the result would fit: there some kernels are lenient."""
    exact = not any(t.is_floating_point() or t.is_complex() for t in tree_leaves(expected))
    return not ("wider dtype" in label or ("another dtype" in label and exact))


def _wider_dtype(tensor: torch.Tensor) -> torch.Tensor:
    wider = torch.complex128 if tensor.is_complex() else torch.float64 if tensor.is_floating_point() else torch.int64
    return _garbage(tensor.shape, tensor, wider)


_TARGETS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "fresh out": lambda t: _garbage(t.shape, t),
    "transposed out": _turned,
    "empty out": lambda t: _garbage((0,), t),
    "out of a wrong size": _grown,
    "out of another dtype": _other_dtype,
    "out of a wider dtype": _wider_dtype,
}


def out(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """``out=``: what is written, returned, resized and refused; and a target on another device."""
    op = _OPS[name]

    def run(sample: Any, device: str, make: Callable[[torch.Tensor], torch.Tensor], expected: Any, target: str) -> Any:
        single = isinstance(expected, torch.Tensor)
        outs = [Transfer(target)(make(t)) for t in ((expected,) if single else expected)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = _call(op, sample, device, out=outs[0] if single else outs if isinstance(expected, list) else tuple(outs))[
                0
            ]
        results = [result] if single else list(result)
        warned = any("was resized" in str(w.message) for w in caught)
        same = all(r is o for r, o in zip(results, outs, strict=True))
        return [outs, [tuple(o.stride()) for o in outs], same, "warned" if warned else "silent"]

    for sample in _samples(op, dtype, limit):
        try:
            expected = _call(op, sample, "cpu")[0]
        except Exception:
            continue
        single = isinstance(expected, torch.Tensor)
        if not single and not (isinstance(expected, list | tuple) and all(isinstance(t, torch.Tensor) for t in expected)):
            continue
        if not all(t.layout == torch.strided for t in ((expected,) if single else expected)):
            continue
        wide = _widened(sample, dtype)
        for label, make in _TARGETS.items():
            yield Case(
                lambda device, sample=sample, make=make, expected=expected: run(sample, device, make, expected, device),
                label,
                values=not _UNDEFINED.match(op.name),
                refusal=_must_refuse(label, expected),
                widened=wide and (lambda wide=wide, make=make, expected=expected: run(wide, "cpu", make, expected, "cpu")),
            )
        yield Case(
            lambda device, sample=sample, expected=expected: (
                _refused() if device == "cpu" else run(sample, device, _TARGETS["fresh out"], expected, "cpu")
            ),
            "out on another device",
            refusal=True,
            reference=_refused,
        )


def _refused() -> None:
    raise RuntimeError("tensors on two devices")


KINDS = {"forward": forward, "grad": gradient, "inplace": inplace, "out": out, "strided": strided, "refusal": refusal}
