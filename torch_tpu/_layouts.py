"""Sparse and nested tensors on the device: a fallback for each of their dispatch keys, loaded at the first such tensor."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import torch

_MODULES = {"SparsePrivateUse1": "_sparse", "SparseCsrPrivateUse1": "_sparse", "NestedTensorPrivateUse1": "_nested"}
_libraries: list[torch.library.Library] = []


def _fallback(key: str) -> Any:
    def run(op: Any, *args: Any, **kwargs: Any) -> Any:
        return importlib.import_module(f".{_MODULES[key]}", __package__).call(key, op, *args, **kwargs)

    return run


# What makes a sparse COO tensor of dense ones, or of none. A fallback walks all of PyTorch's ops, some milliseconds: these
# stand in until the first such tensor. Compressed and nested tensors are made without asking anyone.
_COO_MAKERS = ("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "empty.memory_format", "zeros.out")


def _first(op: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _lock:
            if _makers:
                _libraries[0].fallback(_fallback("SparsePrivateUse1"), "SparsePrivateUse1")
                _makers.pop()._destroy()
        return op(*args, **kwargs)

    return run


_makers: list[torch.library.Library] = []
_lock = threading.Lock()


def register() -> None:
    """Once a process, when the package is imported."""
    library = torch.library.Library("_", "IMPL")
    _libraries.append(library)
    for key in ("SparseCsrPrivateUse1", "NestedTensorPrivateUse1"):
        library.fallback(_fallback(key), key)
    makers = torch.library.Library("aten", "IMPL", "SparsePrivateUse1")
    _makers.append(makers)
    for name in _COO_MAKERS:
        base, _, overload = name.partition(".")
        makers.impl(name, _first(getattr(getattr(torch.ops.aten, base), overload or "default")))
