"""PyTorch on TPUs, and on whatever else has a PJRT plugin, as device ``tpu``.

The package registers itself when PyTorch is imported (entry point group ``torch.backends``); ``import torch_tpu`` does the same
where that is switched off. Nothing is opened before a device is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["__version__", "cache", "explain", "metrics"]

# Loaded when first asked for.
_LAZY = {"cache", "metrics"}
_registered = False


def _register() -> None:
    """Makes device ``tpu``, the module ``torch.tpu`` and the methods ``.tpu()`` and ``.is_tpu``. Once a process."""
    global _registered
    # PyTorch may come first or we may: its import ends with a call of _autoload, while ours still waits in this line.
    import torch

    if _registered:
        return
    _registered = True
    torch.utils.rename_privateuse1_backend("tpu")
    if hasattr(torch, "tpu"):  # the package was dropped from sys.modules and is imported again
        return
    from . import _C, _layouts, _plugins, tpu

    _C.set_plugin_resolver(_plugins.resolve)
    _C.recall_open(f"{torch.__version__} {torch.version.git_version}")
    torch._register_device_module("tpu", tpu)
    _layouts.register()
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def _autoload() -> None:
    """Entry point of group ``torch.backends``: PyTorch calls it at the end of ``import torch``."""
    _register()


def __getattr__(name: str) -> Any:
    """What is loaded when first asked for."""
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    if name == "explain":
        return importlib.import_module("._explain", __name__).explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_register()
