"""The cases of PyTorch's operator database (OpInfo), by kind of job."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import targets
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
# With some `out=` the host's kernel of these writes past its memory (2.13): nothing to compare with.
_HOST_CORRUPTS = {"linalg.lu", "lu_unpack", "tril", "triu"}
_UNORDERED = {"argsort", "kthvalue", "mode", "msort", "sort", "topk"}
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
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
        return forward if op.supports_out and name not in _HOST_CORRUPTS else set()
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
    """A sample of halves in float32, of float32 in float64; None for other dtypes."""
    narrow = getattr(torch, dtype)
    if narrow not in _WIDER:
        return None
    wider = _WIDER[narrow]

    def wide(x: Any) -> Any:
        if isinstance(x, torch.dtype):
            return wider if x is narrow else x
        return x.to(wider).requires_grad_(x.requires_grad) if x.dtype == narrow else x

    return sample.transform(wide)


def _call(op: Any, sample: Any, device: str, requires_grad: bool = False, function: Any = None, **more: Any) -> tuple:
    """The op's result on copies of the sample's arguments, the first of these copies, and the Transfer that made them."""
    copy = Transfer(device, requires_grad)
    rest = "cpu" if op.name in _HOST_ARGUMENTS else device
    first = copy(sample.input)
    args, kwargs = copy(sample.args, rest), copy(sample.kwargs, rest)
    return (function or op)(first, *args, **kwargs, **more), first, copy


def _settled(op: Any, sample: Any, out: Any) -> Any:
    """Nobody promises an order of equal elements: indices of them are compared by the values that they point at."""
    if op.name not in _UNORDERED or sample.kwargs.get("stable") or sample.input.dim() == 0:
        return out
    if op.name == "msort":
        return out
    index = out if isinstance(out, torch.Tensor) else out[-1]
    at = 1 if op.name in ("topk", "kthvalue") else 0
    dim = sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    if index.dtype != torch.int64 or isinstance(dim, bool):
        return out
    wide = index if index.dim() == sample.input.dim() else index.unsqueeze(dim)
    pointed = sample.input.detach().gather(dim, wide.detach().cpu())
    return [index.shape, pointed, *([] if index is out else list(out)[:-1])]


def _gradients(op: Any, out: Any, copy: Transfer, device: str) -> list[Any]:
    """First-order gradients of all results by all leaves, with fixed random cotangents; equal ones of equal elements."""
    outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = copy.leaves
    if not outs or not leaves:
        return []
    generator = torch.Generator().manual_seed(7)
    if op.name in _UNORDERED:
        cotangents = [t.detach().cpu().double().sin().to(t.dtype).to(device) for t in outs]
    else:
        cotangents = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(device) for t in outs]
    return list(torch.autograd.grad(outs, leaves, cotangents, allow_unused=True))


def _case(run: Callable[[Any, str], Any], sample: Any, dtype: str, **more: Any) -> Case:
    wide = _widened(sample, dtype)
    widened = (lambda: run(wide, "cpu")) if wide is not None else None
    return Case(lambda device: run(sample, device), widened=widened, **more)


def forward(name: str, dtype: str, limit: int) -> Iterator[Case]:
    op = _OPS[name]

    def run(sample: Any, device: str) -> Any:
        return _settled(op, sample, sample.output_process_fn_grad(_call(op, sample, device)[0]))

    for sample in _samples(op, dtype, limit):
        yield _case(run, sample, dtype, values=not _UNDEFINED.match(op.name))


def gradient(name: str, dtype: str, limit: int) -> Iterator[Case]:
    op = _OPS[name]

    def run(sample: Any, device: str) -> Any:
        out, _, copy = _call(op, sample, device, requires_grad=True)
        return _gradients(op, sample.output_process_fn_grad(out), copy, device)

    for sample in _samples(op, dtype, limit, requires_grad=True):
        yield _case(run, sample, dtype)


def strided(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """Arguments with gaps between their elements: results and gradients."""
    op = _OPS[name]
    differentiable = op.supports_autograd and dtype in dtypes("grad", name)

    def run(sample: Any, device: str) -> Any:
        out, _, copy = _call(op, sample, device, requires_grad=differentiable)
        out = sample.output_process_fn_grad(out)
        return [_settled(op, sample, out), _gradients(op, out, copy, device) if differentiable else []]

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


def out(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """``out=``: what is written, returned, resized and refused."""
    op = _OPS[name]
    for sample in _samples(op, dtype, limit):
        try:
            expected = _call(op, sample, "cpu")[0]
        except Exception:
            continue
        if not targets.can_be_written(expected):
            continue
        wide = _widened(sample, dtype)
        for target in targets.TARGETS:

            def run(device: str, sample: Any = sample, target: Any = target, expected: Any = expected) -> Any:
                outs, *rest = target.result(lambda **out: _call(op, sample, device, **out)[0], device, expected)
                return [_settled(op, sample, outs if len(outs) > 1 else outs[0]), *rest]

            if target.elsewhere and not any(isinstance(leaf, torch.Tensor) for leaf in _leaves(sample)):
                continue  # without arguments on a device the target decides where the op runs
            yield Case(
                run,
                target.label,
                values=not _UNDEFINED.match(op.name),
                refusal=target.must_refuse(expected),
                widened=wide and (lambda run=run, op=op, wide=wide: run("cpu", wide, expected=_call(op, wide, "cpu")[0])),
            )


def _leaves(sample: Any) -> list[Any]:
    return tree_leaves([sample.input, sample.args, sample.kwargs])


KINDS = {"forward": forward, "grad": gradient, "inplace": inplace, "out": out, "strided": strided, "refusal": refusal}
