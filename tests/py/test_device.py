"""torch.tpu, torch.accelerator, streams, events, errors of devices, start-up."""

import os
import pathlib
import platform
import subprocess
import sys
import textwrap

import pytest
import torch

import torch_tpu


def run(code, **env):
    """Runs code in a fresh process and gives its output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_silent_and_lazy():
    done = subprocess.run(
        [sys.executable, "-c", "import torch, torch_tpu; print(torch.tpu.is_initialized(), torch.tpu._initialized)"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout == "False False\n"
    assert done.stderr == ""


def test_cpu_training_opens_no_plugin():
    out = run("""
        import torch, torch_tpu
        import time
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
        time.sleep(0.5)  # autograd's workers start
        print(torch.tpu.is_initialized())
        x = torch.ones(2, device="tpu:3", requires_grad=True)
        (x * x).sum().backward()
        print(x.grad.tolist())
    """)
    assert out.split("\n")[:2] == ["False", "[2.0, 2.0]"]


def test_seed_before_first_use_counts():
    code = """
        import torch, torch_tpu
        torch.manual_seed(5)
        print(torch.tpu.is_initialized(), torch.rand(3, device="tpu").tolist())
    """
    assert run(code) == run(code)
    torch.manual_seed(5)
    assert run(code) == f"False {torch.rand(3, device='tpu').tolist()}\n"


def test_missing_plugin_says_so():
    out = run(
        """
        import torch, torch_tpu
        print(torch.tpu.is_available(), torch.tpu.device_count())
        try:
            torch.ones(2, device="tpu")
        except RuntimeError as error:
            print("/nowhere/plugin.so" in str(error))
        """,
        TORCH_TPU_PJRT_PLUGIN="/nowhere/plugin.so",
    )
    assert out == "False 0\nTrue\n"


def test_environment_after_import_counts():
    out = run("""
        import os, torch, torch_tpu
        os.environ["TORCH_TPU_PJRT_PLUGIN"] = "/nowhere/plugin.so"
        print(torch.tpu.is_available())
    """)
    assert out == "False\n"


def test_forked_child_is_refused():
    out = run("""
        import os, sys, torch, torch_tpu
        x = torch.ones(2, device="tpu")
        (x + 1).cpu()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            for use in (lambda: torch.ones(2, device="tpu"), lambda: x + 1, lambda: x.cpu(), torch.tpu.synchronize):
                try:
                    use()
                    print("no error")
                except RuntimeError as error:
                    print("spawn" in str(error))
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        print((x + 2).tolist())
    """)
    assert out == "True\nTrue\nTrue\nTrue\n[3.0, 3.0]\n"


def test_counts_and_current():
    assert torch.tpu.is_available()
    assert torch.tpu.device_count() == 4
    assert torch.tpu.current_device() == 0
    with torch.tpu.device(2):
        assert torch.tpu.current_device() == 2
        assert torch.ones(1, device="tpu").device == torch.device("tpu", 2)
        with torch.tpu.device_of(torch.ones(1)):
            assert torch.tpu.current_device() == 2
    assert torch.tpu.current_device() == 0
    torch.tpu.set_device("tpu:1")
    assert torch.empty(1, device="tpu").device.index == 1


def test_bad_index():
    with pytest.raises(RuntimeError, match="TORCH_TPU_NUM_DEVICES"):
        torch.ones(2, device="tpu:9")
    with pytest.raises(RuntimeError, match="4 devices"):
        torch.tpu.set_device(4)
    with pytest.raises(ValueError, match="Expected a tpu device"):
        torch.tpu.set_device("cpu")


def test_mixed_devices_raise_as_elsewhere():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device="tpu:0") + torch.ones(2, device="tpu:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, device="tpu:0") + torch.ones(2)


def test_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.device_count() == 4
    torch.accelerator.set_device_index(3)
    assert torch.accelerator.current_device_index() == 3
    assert torch.tpu.current_device() == 3
    torch.accelerator.synchronize()
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_memory():
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    x = torch.ones(1 << 20, device="tpu")
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() >= before + 4 * (1 << 20)
    assert torch.tpu.max_memory_allocated() >= torch.tpu.memory_allocated()
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated()
    del x
    assert torch.tpu.memory_allocated() < before + 4 * (1 << 20)
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() < before + 4 * (1 << 20)
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total


@pytest.mark.parametrize("known", [False, True])
def test_what_is_dropped_before_it_is_computed_takes_no_memory(known):
    """The host runs far ahead of a device; what it drops is freed when it is computed, and it waits where that is much."""
    size = (1 << 22) + known
    x = torch.ones(size, device="tpu")
    for _ in range(2 if known else 1):
        torch.tpu.synchronize()
        torch.tpu.reset_peak_memory_stats()
        before = torch.tpu.memory_allocated()
        for _ in range(60):
            y = (x * 2 + 1).exp()
        assert torch.tpu.memory_allocated() - before < 100 << 20
        del y
        assert torch.tpu.memory_allocated() - before < 70 << 20
        torch.tpu.synchronize()
        assert torch.tpu.memory_allocated() < before + 1000  # the numbers are kept
    assert torch.tpu.max_memory_allocated() - before < 150 << 20


def test_streams_and_events():
    stream = torch.tpu.Stream()
    assert isinstance(stream, torch.tpu.Stream)
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    first, last = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
    x = torch.ones(300, 300, device="tpu")
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        first.record()
        y = x @ x
        last.record()
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    last.synchronize()
    assert first.query() and last.query()
    assert 0 < first.elapsed_time(last) < 60_000
    stream.wait_event(last)
    stream.synchronize()
    assert y[0, 0].item() == 300


def test_properties():
    about = torch.tpu.get_device_properties("tpu:1")
    assert about.index == 1
    assert about.name == torch.tpu.get_device_name(1)
    assert about.total_memory > 0
    assert about.pjrt_api[0] == 0


def test_tensor_methods():
    x = torch.ones(2).tpu()
    assert x.is_tpu and not x.cpu().is_tpu
    assert torch.ones(2).tpu(2).device.index == 2
    assert torch.device("tpu", 1) == torch.device("tpu:1")
    module = torch.nn.Linear(2, 2).tpu(1)
    assert module.weight.device.index == 1


def test_pinned_memory():
    plain = torch.ones(4)
    pinned = plain.pin_memory()
    assert pinned.is_pinned() and not plain.is_pinned()
    assert pinned[1:].is_pinned()
    assert not plain.tpu().is_pinned()
    assert pinned.to("tpu", non_blocking=True).tolist() == [1, 1, 1, 1]
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    batches = [x for (x,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)]
    assert all(x.is_pinned() for x in batches)
    assert torch.cat([x.tpu() for x in batches]).tolist() == list(range(6))


def test_autocast_is_bfloat16():
    w = torch.ones(3, 3, device="tpu", requires_grad=True)
    with torch.autocast("tpu"):
        y = torch.mm(w, w)
        z = y.exp()
        assert torch.add(w, w).dtype is torch.float32
    assert y.dtype is torch.bfloat16
    assert z.dtype is torch.float32
    y.float().sum().backward()
    assert w.grad.dtype is torch.float32
    assert w.grad.tolist() == [[6.0] * 3] * 3


def test_precision_and_modes():
    before = torch.tpu.get_precision()
    with torch.tpu.precision("high"):
        assert torch.tpu.get_precision() is torch.tpu.Precision.HIGH
    assert torch.tpu.get_precision() is before
    with pytest.raises(ValueError, match="unknown precision"), torch.tpu.precision("low"):
        pass
    assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEFER_NEVER
    with torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING):
        assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    assert torch.tpu.eager_mode is torch.tpu.EagerMode.DEFER_NEVER


def test_counters(counters):
    x = torch.ones(5, 7, device="tpu")
    y = x * 3 + x
    y.cpu()
    first = counters()
    assert first["executes"] >= 2
    assert first["d2h_bytes"] == 5 * 7 * 4
    torch_tpu.metrics.reset()
    (x * 3 + x).cpu()
    again = counters()
    assert again["compiles"] == 0
    assert again["executes"] == 2
    assert set(again) == set(first)


@pytest.mark.parametrize("count", ["x", "0", "65", "1.5"])
def test_a_bad_number_of_devices_is_refused(count):
    out = run(
        """
        import torch
        try:
            torch.ones(1).tpu()
        except RuntimeError as error:
            print(error)
        """,
        TORCH_TPU_NUM_DEVICES=count,
    )
    assert out == f"TORCH_TPU_NUM_DEVICES must be a whole number from 1 to 64, not '{count}'\n"


def test_names_of_torch_cuda_that_scripts_use():
    assert torch.tpu.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.tpu.memory.memory_allocated() == torch.tpu.memory_allocated()
    torch.tpu.random.manual_seed(3)
    assert torch.tpu.random.initial_seed() == 3
    x = torch.randn(4, 4, device="tpu")
    with torch.tpu.amp.autocast():
        assert (x @ x).dtype == torch.bfloat16
    with torch.tpu.amp.autocast(enabled=False):
        assert (x @ x).dtype == torch.float32
    weight = x.clone().requires_grad_()
    optimizer, scaler = torch.optim.SGD([weight], 0.5), torch.tpu.amp.GradScaler(init_scale=8.0)
    scaler.scale((weight * x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(weight.detach().cpu(), x.cpu() * 0.5)
    side = torch.tpu.Stream()
    with torch.tpu.StreamContext(side):
        assert torch.tpu.current_stream() == side
    with torch.tpu.stream(None):
        assert torch.tpu.current_stream() == torch.tpu.default_stream()


def test_synchronize_waits_for_dropped_results_of_a_new_program() -> None:
    """The program is still being compiled when its results are dropped; afterwards nothing may be left to do."""
    code = """
        import time, torch
        x, y = torch.rand(2048, 384, device="tpu"), torch.rand(384, 384, device="tpu")
        torch.tpu.synchronize()
        start = time.process_time()
        for _ in range(20):
            x @ y
        torch.tpu.synchronize()
        done = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - done < (done - start) / 4, (start, done, time.process_time())
    """
    environment = {**os.environ, "TORCH_TPU_CACHE": "0"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment, timeout=120)


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_a_backward_pass_starts_no_threads_of_openmp() -> None:
    """A second team of OpenMP's threads makes every later op of PyTorch on the cpu slower: they no longer wait awake."""
    code = """
        import os, pathlib, torch
        names = lambda: [pathlib.Path(f"/proc/self/task/{t}/comm").read_text() for t in os.listdir("/proc/self/task")]
        torch.set_num_threads(4)
        x = torch.randn(64, 10, device="tpu", requires_grad=True)
        for _ in range(2):
            torch.nn.functional.cross_entropy(x, torch.randint(0, 10, (64,), device="tpu")).backward()
            torch.nn.functional.gelu(x).sum().backward()
        assert x.grad.isfinite().all()
        autograd = [name for name in names() if name.startswith("pt_autograd")]
        assert autograd and len(set(autograd)) == len(autograd), names()  # threads of a team have their maker's name
        assert torch.get_num_threads() == 4
    """
    environment = {**os.environ, "TORCH_TPU_CACHE": "0"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, env=environment, timeout=120)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries' heaps are left alone")
def test_freed_memory_goes_back_some_time() -> None:
    """What was used within the last second or so is kept for the next step; what was not is given back at a host read."""
    code = """
        import time, torch
        resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
        x = torch.ones(8, device="tpu")
        many = [torch.zeros(2 << 20, device="tpu") + i for i in range(64)]
        torch.tpu.synchronize()
        full = resident()
        del many
        for _ in range(5):
            time.sleep(0.6)
            x.sum().item()
        assert full - resident() > 300, (full, resident())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_a_process_that_ends_in_the_middle_of_its_work_ends_well() -> None:
    """XLA takes itself apart in the C library's exit handlers, whether its threads still compute or not."""
    code = """
        import torch
        x = torch.randn(32, 32, 48, 48, device="tpu")
        model = torch.nn.Sequential(*[torch.nn.Conv2d(32, 32, 3, padding=1) for _ in range(4)]).to("tpu")
        with torch.no_grad():
            model(x)
            torch.tpu.synchronize()
            for _ in range(12):
                y = model(x)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
