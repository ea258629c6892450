"""``torch.tpu.amp``: the classes of ``torch.amp`` with device tpu filled in, as ``torch.cuda.amp`` has them for cuda."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["GradScaler", "autocast"]


class autocast(torch.amp.autocast):  # noqa: N801 (PyTorch's name)
    """``torch.amp.autocast("tpu", ...)``. ``dtype`` is bfloat16 unless given; the other arguments are those of PyTorch's."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__("tpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("tpu", ...)``: for float16; bfloat16 needs no scaling."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("tpu", *args, **kwargs)
