"""Copies of a nest of arguments on a device, with the same strides, sharing and leaves."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Transfer"]


class Transfer:
    """Copies arguments to one device. A tensor met twice is copied once; each copy is a leaf."""

    def __init__(self, device: str, requires_grad: bool = True) -> None:
        self.device, self.requires_grad = device, requires_grad
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, nest: Any, device: str | None = None) -> Any:
        device = device or self.device
        if isinstance(nest, torch.Tensor):
            return self._tensor(nest, device)
        if isinstance(nest, str | torch.device) and str(nest) in ("cpu", "cpu:0"):
            return type(nest)(device)
        if isinstance(nest, dict):
            return {key: self(value, device) for key, value in nest.items()}
        if type(nest) in (list, tuple):
            return type(nest)(self(value, device) for value in nest)
        return nest

    @property
    def leaves(self) -> list[torch.Tensor]:
        """The copies that gradients are wanted of."""
        return [copy for _, copy in self._copies.values() if copy.requires_grad]

    def _tensor(self, tensor: torch.Tensor, device: str) -> torch.Tensor:
        if id(tensor) not in self._copies:  # the original is kept, so that its id stays its own
            copy = _moved(tensor.detach(), device).requires_grad_(self.requires_grad and tensor.requires_grad)
            self._copies[id(tensor)] = tensor, copy
        return self._copies[id(tensor)][1]


def _moved(tensor: torch.Tensor, device: str) -> torch.Tensor:
    plain = tensor.layout == torch.strided and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    if tensor.is_nested or not plain or tensor.is_contiguous() or tensor.numel() == 0:
        return tensor.clone().to(device)
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).clone().to(device)
    return storage.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
