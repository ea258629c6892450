"""Brings up device `tpu` of Google's TorchTPU 0.2.0 on the XLA CPU plugin. Import it before torch, in the peer's environment.

TorchTPU has no official CPU mode, so the private initialiser of its loader is called with a plugin path where it expects
libtpu. Float32 dots are set to full precision, as PyTorch's are on cpu; its attention is a TPU kernel, so the plain form is
used.
"""

import importlib.util
import os
import pathlib
import sys
import warnings


def plugin_path() -> str:
    """The library of xla-cpu-pjrt in this environment."""
    spec = importlib.util.find_spec("xla_plugins")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = pathlib.Path(folder, "xla_cpu_pjrt", "xla_cpu_pjrt.so")
        if path.is_file():
            return str(path)
    raise SystemExit("xla-cpu-pjrt is not installed here")


def boot() -> None:
    """Environment first, then torch (which loads the peer by its entry point), then the device."""
    assert "torch" not in sys.modules, "boot_peer must come before torch"
    warnings.filterwarnings("ignore")
    settings = {
        "TPU_LIBRARY_PATH": plugin_path(),
        "TPU_SKIP_MDS_QUERY": "1",  # else a metadata server is asked for minutes
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    }
    os.environ.update(settings)
    import torch
    import torch_tpu._loader

    torch_tpu._loader._init_device_impl("tpu")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)


boot()
