"""Finds the PJRT plugin to open. Nothing is imported and nothing is loaded here: only paths are looked up."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

__all__ = ["resolve"]

_GOOGLE_PCI_VENDOR = "0x1ae0"

# What the names of TORCH_TPU_PJRT_PLUGIN stand for: (package, path of the library in it), in order of preference.
_PACKAGES = {
    "cpu": [("xla_plugins", "xla_cpu_pjrt/xla_cpu_pjrt.so")],
    "tpu": [("libtpu", "libtpu.so")],
    "cuda": [
        ("jax_plugins", "xla_cuda13/xla_cuda_plugin.so"),
        ("jax_plugins", "xla_cuda12/xla_cuda_plugin.so"),
    ],
}
_INSTALL = {"cpu": "xla-cpu-pjrt", "tpu": "libtpu", "cuda": "jax-cuda13-pjrt"}


def _find(name: str) -> str | None:
    """The path of a named plugin that is installed, or None."""
    for package, relative in _PACKAGES[name]:
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or []) if spec else []:
            path = Path(folder, relative)
            if path.is_file():
                return str(path)
    return None


def _has_tpu(bus: str = "/sys/bus/pci/devices") -> bool:
    """Is there a Google TPU on the PCI bus?"""
    for vendor in Path(bus).glob("*/vendor"):
        try:
            if vendor.read_text().strip() == _GOOGLE_PCI_VENDOR:
                return True
        except OSError:
            continue
    return False


def _name_transport() -> None:
    """Tells the core what program speaks with the remote compile cache, where there is one."""
    if os.environ.get("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT") and "TORCH_TPU_CACHE_TRANSPORT" not in os.environ:
        script = Path(__file__).resolve().parent / "cache" / "transport.py"
        os.environ["TORCH_TPU_CACHE_TRANSPORT"] = f"{sys.executable}:{script}"


def resolve() -> str:
    """The path of the plugin: the environment's, else libtpu where there is a TPU, else the embedded CPU plugin."""
    _name_transport()
    wanted = os.environ.get("TORCH_TPU_PJRT_PLUGIN", "").strip()
    if wanted in _PACKAGES:
        path = _find(wanted)
        if path is None:
            raise RuntimeError(
                f"TORCH_TPU_PJRT_PLUGIN={wanted}, but that plugin is not installed: pip install {_INSTALL[wanted]}"
            )
        return path
    if wanted:
        return wanted
    library = os.environ.get("TPU_LIBRARY_PATH", "").strip()
    if library:
        return library
    if _has_tpu():
        path = _find("tpu")
        if path is not None:
            return path
    path = _find("cpu")
    if path is None:
        raise RuntimeError("no PJRT plugin found: pip install xla-cpu-pjrt, or set TORCH_TPU_PJRT_PLUGIN to the path of one")
    return path
