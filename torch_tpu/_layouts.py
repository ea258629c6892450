"""Sparse and nested tensors on the device: a fallback for each of their dispatch keys, loaded at the first such tensor."""

from __future__ import annotations

import importlib
from typing import Any

import torch

_MODULES = {"SparsePrivateUse1": "_sparse", "SparseCsrPrivateUse1": "_sparse", "NestedTensorPrivateUse1": "_nested"}
_libraries: list[torch.library.Library] = []


def _fallback(key: str) -> Any:
    def run(op: Any, *args: Any, **kwargs: Any) -> Any:
        return importlib.import_module(f".{_MODULES[key]}", __package__).call(key, op, *args, **kwargs)

    return run


def register() -> None:
    """Once a process, when the package is imported."""
    library = torch.library.Library("_", "IMPL")
    _libraries.append(library)
    for key in _MODULES:
        library.fallback(_fallback(key), key)
