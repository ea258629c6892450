"""Sparse and nested tensors on the device: a fallback for each of their dispatch keys, loaded at the first such tensor."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import torch

_MODULES = {"SparsePrivateUse1": "_sparse", "SparseCsrPrivateUse1": "_sparse", "NestedTensorPrivateUse1": "_nested"}
_libraries: list[torch.library.Library] = []


# What makes a sparse COO tensor of dense ones, or of none. A fallback walks all of PyTorch's ops, some milliseconds: these
# stand in until the first such tensor.
_COO_MAKERS = ("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "empty.memory_format", "zeros.out")

# Compressed tensors are made without asking anyone. PyTorch's composite ops would come before their fallback: these stand
# in until the first of them, then `_sparse` has kernels for them.
_CSR_WORDS = (
    "_conj_physical deg2rad sum row_indices isinf sparse_dim crow_indices deg2rad.out rad2deg ccol_indices deg2rad_ copy_ "
    "mul.Scalar conj_physical_ dense_dim col_indices empty_like values clone mul_.Scalar abs select.int rad2deg.out abs_ "
    "rad2deg_ add.Tensor add_.Tensor addmm addmm_ addmv addmv_ asin asin_ asinh asinh_ atan atan_ atanh atanh_ ceil ceil_ "
    "erf erf_ erfinv erfinv_ expm1 expm1_ floor floor_ frac frac_ isneginf isposinf log1p log1p_ mm mul.Tensor mul_.Tensor "
    "neg neg_ round round_ select_copy.int sgn sgn_ sign sign_ signbit sin sin_ sinh sinh_ sqrt sqrt_ sum.dim_IntList tan "
    "tan_ tanh tanh_ threshold_backward trunc trunc_"
)
CSR_COMPOSITES = tuple(_CSR_WORDS.split())


def _fallback(key: str) -> Any:
    def run(op: Any, *args: Any, **kwargs: Any) -> Any:
        if key != "NestedTensorPrivateUse1":
            open_sparse()
        return importlib.import_module(f".{_MODULES[key]}", __package__).call(key, op, *args, **kwargs)

    return run


_stand_ins: list[torch.library.Library] = []
_lock = threading.Lock()


def open_sparse() -> None:
    """Puts the kernels of sparse tensors where stand-ins are. Once a process, at the first op of such a tensor."""
    if not _stand_ins:
        return
    with _lock:
        if _stand_ins:
            for library in _stand_ins:
                library._destroy()
            _libraries[0].fallback(_fallback("SparsePrivateUse1"), "SparsePrivateUse1")
            importlib.import_module("._sparse", __package__).register()
            _stand_ins.clear()


def _first(name: str) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        open_sparse()
        base, _, overload = name.partition(".")
        return getattr(getattr(torch.ops.aten, base), overload or "default")(*args, **kwargs)

    return run


def register() -> None:
    """Once a process, when the package is imported."""
    library = torch.library.Library("_", "IMPL")
    _libraries.append(library)
    for key in ("SparseCsrPrivateUse1", "NestedTensorPrivateUse1"):
        library.fallback(_fallback(key), key)
    for key, names in (("SparsePrivateUse1", _COO_MAKERS), ("SparseCsrPrivateUse1", CSR_COMPOSITES)):
        stand_in = torch.library.Library("aten", "IMPL", key)
        _stand_ins.append(stand_in)
        for name in names:
            stand_in.impl(name, _first(name))
