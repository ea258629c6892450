"""Helpers that PyTorch looks for under ``torch.tpu._utils``."""

from __future__ import annotations

from ._device import _get_device_index

__all__ = ["_get_device_index"]
