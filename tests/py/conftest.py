"""What all Python tests share. PyTorch's cpu side runs on one thread: on a busy machine its barriers spin."""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_TPU_NUM_DEVICES", "4")
if "TORCH_TPU_CACHE_DIR" not in os.environ:  # one compile cache for all workers of this run, never the user's own
    os.environ["TORCH_TPU_CACHE_DIR"] = tempfile.mkdtemp(prefix="torch_tpu_tests_")
    atexit.register(shutil.rmtree, os.environ["TORCH_TPU_CACHE_DIR"], ignore_errors=True)

import pytest
import torch

import torch_tpu

torch.set_num_threads(1)


@pytest.fixture
def counters():
    """A callable that gives the counters since the test began."""
    torch.tpu.synchronize()
    torch_tpu.metrics.reset()
    return torch_tpu.metrics.counters


@pytest.fixture(autouse=True)
def _device_zero():
    """Each test starts and ends on device 0."""
    torch.tpu.set_device(0)
    yield
    torch.tpu.set_device(0)
