"""The cases of PyTorch's module and optimizer databases."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from outcome import Case
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_leaves
from transfer import Transfer

__all__ = ["KINDS", "dtypes", "names"]

_MODULES = {info.name: info for info in module_db}
_OPTIMIZERS = {info.name: info for info in optim_db}
_STEPS = 4


def names(kind: str) -> list[str]:
    return list(_MODULES if kind == "module" else _OPTIMIZERS)


def dtypes(kind: str, name: str) -> set[str]:
    if kind == "module":
        return {str(dtype)[6:] for dtype in _MODULES[name].supported_dtypes("cpu")}
    return {"float32", "float64"}


def module(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """A module's results and the gradients of its parameters and inputs, in training and in evaluation; its refusals."""
    info, element = _MODULES[name], getattr(torch, dtype)
    for training in (True, False):
        inputs = info.module_inputs_func(info, device="cpu", dtype=element, requires_grad=True, training=training)
        for given in inputs[: limit or None]:
            label = f"{'training' if training else 'evaluation'} {given.desc}".strip()
            yield Case(
                lambda device, given=given, training=training: _run_module(info, given, element, training, device), label
            )
    if info.module_error_inputs_func is None:
        return
    for error in info.module_error_inputs_func(info, device="cpu", dtype=element, requires_grad=False, training=True):
        if error.error_on == ModuleErrorEnum.FORWARD_ERROR:
            given = error.module_error_input
            label = f"expected {error.error_regex!r}"[:100]
            yield Case(lambda device, given=given: _run_module(info, given, element, True, device), label, refusal=True)


def _run_module(info: Any, given: Any, dtype: torch.dtype, training: bool, device: str) -> Any:
    args, kwargs = given.constructor_input.args, dict(given.constructor_input.kwargs)
    parameters = inspect.signature(info.module_cls).parameters
    kwargs.update({key: value for key, value in {"device": "cpu", "dtype": dtype}.items() if key in parameters})
    torch.manual_seed(0)
    made = info.module_cls(*args, **kwargs).to(dtype).train(training)
    made = copy.deepcopy(made).to(device)
    move = Transfer(device)
    out = made(*move(given.forward_input.args), **move(given.forward_input.kwargs))
    outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [*(p for p in made.parameters() if p.requires_grad), *move.leaves]
    grads: list[Any] = []
    if outs and leaves:
        generator = torch.Generator().manual_seed(7)
        cotangents = [torch.randn(t.shape, generator=generator, dtype=t.dtype).to(device) for t in outs]
        grads = list(torch.autograd.grad(outs, leaves, cotangents, allow_unused=True))
    return [out, grads, list(made.buffers())]


def optimizer(name: str, dtype: str, limit: int) -> Iterator[Case]:
    """Some steps of an optimizer in each of its implementations, against the host's plain loop."""
    info, element = _OPTIMIZERS[name], getattr(torch, dtype)
    # The device's list of configurations is that of accelerators: some are capturable or have tensors as numbers.
    for given in info.optim_inputs_func("cuda", element):
        plain = {key: value for key, value in given.kwargs.items() if key not in ("capturable", "foreach", "fused")}
        ways: dict[str, dict[str, Any]] = {"loop": {"foreach": False}}
        if "foreach" not in info.supported_impls:
            ways = {"loop": {}}
        else:
            ways["foreach"] = {"foreach": True}
        if "fused" in info.supported_impls and not any(isinstance(v, torch.Tensor) and v.dim() for v in tree_leaves(plain)):
            ways["fused"] = {"fused": True}
        for way, flags in ways.items():
            kwargs = {**given.kwargs, **flags}
            tensors = any(isinstance(v, torch.Tensor) for v in tree_leaves(plain))
            if way == "foreach" and tensors and not kwargs.get("capturable"):
                continue  # PyTorch refuses these
            if way == "fused":
                kwargs.pop("capturable", None)
            loop = {**plain, **ways["loop"]}
            yield Case(
                lambda device, kwargs=kwargs, loop=loop: _run_optimizer(
                    info, loop if device == "cpu" else kwargs, element, device
                ),
                f"{way} {given.desc}",
            )


def _run_optimizer(info: Any, kwargs: dict[str, Any], dtype: torch.dtype, device: str) -> Any:
    generator = torch.Generator().manual_seed(3)
    shapes = [(4, 3), (2, 5)] if info.name == "Muon" else [(4, 3), (5,), (1,), (2, 2, 2)]
    starts = [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]
    goals = [torch.randn(shape, generator=generator, dtype=dtype).to(device) for shape in shapes]
    parameters = [torch.nn.Parameter(start.to(device)) for start in starts]
    # Numbers that are tensors stay on the host unless the optimizer is capturable: so PyTorch wants it.
    given = Transfer(device)(kwargs) if kwargs.get("capturable") else Transfer("cpu")(kwargs)
    made = info.optim_cls(parameters, **given)

    def closure() -> torch.Tensor:
        made.zero_grad()
        loss = torch.stack([((p - g) ** 2).sum() for p, g in zip(parameters, goals, strict=True)]).sum()
        loss.backward()
        if info.only_supports_sparse_grads:
            for p in parameters:
                p.grad = p.grad.to_sparse()
        return loss.detach()

    losses = []
    for _ in range(_STEPS):
        if info.step_requires_closure:
            losses.append(made.step(closure))
        else:
            losses.append(closure())
            made.step()
    return [parameters, losses]


KINDS = {"module": module, "optimizer": optimizer}
