"""What users do wrong, and what the device must survive."""

import os
import subprocess
import sys
import threading

import pytest
import torch

MODES = {"strict": torch.tpu.EagerMode.DEFER_NEVER, "fused": torch.tpu.EagerMode.DEFER_AND_FUSE}


@pytest.fixture(params=MODES)
def mode(request):
    with torch.tpu.set_eager_mode(MODES[request.param]):
        yield request.param


def count(n=10):
    return torch.arange(float(n)).to("tpu")


def bad_index():
    return torch.tensor([99], device="tpu")


def run(code, **env):
    env = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)


# ---- bad indices


def test_a_bad_index_spoils_only_what_hangs_on_it(mode):
    a = count()
    before = a + 1
    with pytest.raises(IndexError, match="index out of range"):
        bad = a[bad_index()]  # raised here where the program ends at once, else at the first read
        (bad + 1).cpu()
    assert before.tolist() == [x + 1.0 for x in range(10)]
    assert (before * 2).tolist() == [2 * x + 2.0 for x in range(10)]
    assert a.sum().item() == 45


def test_a_result_of_a_bad_index_is_never_read():
    with torch.tpu.set_eager_mode(MODES["fused"]):
        a = count()
        bad, good = a[bad_index()] + 1, a + 1
        with pytest.raises(IndexError):
            good.cpu()  # reported at the first read, whatever is read
        for _ in range(2):
            with pytest.raises(IndexError, match="reported before"):
                bad.cpu()
        assert good.sum().item() == 55


@pytest.mark.parametrize("renew", [lambda x: x.zero_(), lambda x: x.fill_(0), lambda x: x.copy_(torch.zeros(10, device="tpu"))])
def test_a_spoilt_tensor_is_good_again_when_it_is_overwritten(mode, renew):
    a = count()
    with pytest.raises(IndexError):
        a.index_add_(0, bad_index(), torch.ones(1, device="tpu"))
        a.cpu()
    with pytest.raises(IndexError):
        a.cpu()
    renew(a)
    assert a.tolist() == [0.0] * 10
    assert (a + 1).sum().item() == 10


# ---- memory


def test_out_of_memory_is_its_own_error_and_the_process_lives_on():
    for call in (
        lambda: torch.zeros(10**13, device="tpu").sum().item(),
        lambda: torch.ones(3, device="tpu").resize_(10**14),
        lambda: torch.ones(1, device="tpu").expand(10**13).clone().sum().item(),
    ):
        with pytest.raises(torch.OutOfMemoryError):
            call()
    assert (count() + 1).sum().item() == 55


def test_out_of_memory_inside_a_program():
    far = torch.ones(10**6, device="tpu")[:, None] + torch.ones(10**7, device="tpu")
    with pytest.raises(torch.OutOfMemoryError):
        far[0, 0].item()
    assert (count() + 1).sum().item() == 55


def test_many_ops_keep_host_memory_flat():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def loop(n):
        x = count()
        for i in range(n):
            x = (x + i).view(2, 5).t().reshape(10).mul(0.5)
        return x.cpu()

    loop(3000)
    before = resident()
    loop(10000)
    assert resident() - before < 24 << 20


# ---- autograd sees list ops


def test_list_ops_count_as_writes_for_autograd():
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = x * 1
    z = (y * y).sum()
    torch._foreach_add_([y], 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


# ---- windows that overlap


@pytest.mark.parametrize("fill", [lambda x: x.fill_(3), lambda x: x.zero_()])
def test_expanded_tensors_may_be_filled(mode, fill):
    results = []
    for device in ("cpu", "tpu"):
        base = torch.arange(6.0).view(2, 3).to(device)
        fill(base[1].expand(4, 3))
        results.append(base.cpu())
    assert torch.equal(*results)


def test_numbers_that_do_not_fit_are_refused():
    for dtype, value in ((torch.uint8, 300), (torch.int8, -1000), (torch.int16, 1 << 20)):
        texts = []
        for device in ("cpu", "tpu"):
            with pytest.raises(RuntimeError) as error:
                torch.zeros(2, dtype=dtype, device=device).fill_(value)
            texts.append(str(error.value))
        assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.ones(2, device=d) & torch.ones(2, device=d),
        lambda d: torch.ones(2, dtype=torch.complex64, device=d) < 1,
        lambda d: torch.ones(2, dtype=torch.complex64, device=d).max(),
    ],
)
def test_dtypes_an_op_does_not_take_are_not_implemented(call):
    for device in ("cpu", "tpu"):
        with pytest.raises(NotImplementedError):
            call(device)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.ones(3, device=d).add_(1j),
        lambda d: torch.ones(3, device=d).mul_(torch.ones(3, dtype=torch.complex64, device=d)),
        lambda d: torch.sub(torch.ones(3, device=d), 1j, out=torch.ones(3, device=d)),
    ],
)
def test_complex_values_are_not_written_to_real_tensors(call):
    texts = []
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="can't be cast") as error:
            call(device)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_a_complex_copy_to_a_real_tensor_keeps_the_real_part():
    x = torch.ones(3, device="tpu").copy_(torch.full((3,), 2 + 1j, device="tpu"))
    assert x.tolist() == [2, 2, 2]


def test_a_cpu_tensor_is_not_indexed_from_the_device():
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device as the indexed tensor"):
        torch.ones(10)[torch.tensor([1], device="tpu")]


# ---- storages


def test_a_tensor_past_its_storage_is_refused():
    x = count(4)
    x.untyped_storage().resize_(0)
    for call in (lambda: x + 1, lambda: x.fill_(2), lambda: x.cpu()):
        with pytest.raises(RuntimeError, match="storage of 0"):
            call()
    x.untyped_storage().resize_(16)
    assert x.fill_(3).tolist() == [3.0] * 4


# ---- threads and processes


def test_eight_threads_run_ops_and_backward(mode):
    errors = []

    def work(k):
        try:
            torch.tpu.set_eager_mode(MODES[mode])
            for i in range(10):
                x = torch.full((4, k + 1), float(i), device="tpu", requires_grad=True)
                ((x * x).sum(0) + k).sum().backward()
                assert x.grad.tolist() == [[2.0 * i] * (k + 1)] * 4
                assert torch.ones(3, device="tpu:1").add_(k).tolist() == [1.0 + k] * 3
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("path", ["/nowhere.so", "/tmp", "/etc/hostname", "bogus"])
def test_a_wrong_plugin_is_one_sentence(path):
    done = run("import torch\ntry: torch.ones(2, device='tpu')\nexcept RuntimeError as e: print(e)", TORCH_TPU_PJRT_PLUGIN=path)
    assert done.returncode == 0
    assert path in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1


def test_a_wrong_plugin_can_be_mended():
    code = """
import os, torch
os.environ["TORCH_TPU_PJRT_PLUGIN"] = "/nowhere.so"
for _ in range(2):
    try:
        torch.ones(2, device="tpu")
        raise SystemExit("opened")
    except RuntimeError:
        pass
del os.environ["TORCH_TPU_PJRT_PLUGIN"]
print((torch.ones(2, device="tpu") + 1).tolist())
"""
    done = run(code, TORCH_TPU_PJRT_PLUGIN="")
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


@pytest.mark.parametrize("fused", ["0", "1"])
def test_a_process_ends_well_with_work_pending(fused):
    code = """
import sys, torch
class Last:
    def __del__(self): self.t.add_(1)
last = Last(); last.t = torch.ones(3, device="tpu"); last.me = last
pending = torch.ones(200, 200, device="tpu")
for i in range(20): pending = pending @ pending * 0.01
leaf = torch.ones(3, device="tpu", requires_grad=True); loss = (leaf * leaf).sum()
import torch_tpu; del sys.modules["torch_tpu"], torch_tpu
import torch_tpu
print("end")
"""
    done = run(code, TORCH_TPU_DEFER_AND_FUSE=fused)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")


def test_programs_loaded_are_bounded():
    """XLA's CPU programs take mappings of the process, which are few: the eldest programs go, and results stay right."""
    code = """
import threading, torch, torch_tpu
def work(device, found):
    x = torch.arange(64.0, device=device)
    keep = torch.ones(3, device=device)
    for again in range(2):
        for n in range(1, 60):
            y = x[:n] + 1
            z = (x[:n] * 2).sum()
            keep.add_(1)
            assert y.cpu().equal(torch.arange(64.0)[:n] + 1) and z.item() == n * (n - 1)
    found.append(keep.cpu().tolist())
found = []
threads = [threading.Thread(target=work, args=(f"tpu:{i}", found)) for i in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
counters = torch_tpu.metrics.counters()
print(found, counters["program_drops"] > 100, counters["compiles"] > 118)
"""
    env = {"TORCH_TPU_MAX_PROGRAMS": "20", "TORCH_TPU_NUM_DEVICES": "2", "TORCH_TPU_CACHE": "0"}
    done = run(code, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[119.0, 119.0, 119.0], [119.0, 119.0, 119.0]] True True"


def test_a_process_may_end_in_the_midst_of_compiling():
    code = """
import torch
x = torch.arange(100000.0, device="tpu")
for n in range(1, 120):
    y = x[: n * 7] + 1
"""
    for _ in range(3):
        done = run(code, TORCH_TPU_CACHE="0", TORCH_TPU_COMPILE_THREADS="3")
        assert (done.returncode, done.stderr) == (0, "")


def test_functions_at_exit_may_use_tensors():
    code = """
import atexit, torch
x = torch.arange(1000.0, device="tpu")
atexit.register(lambda: print((x[:77] * 3).sum().item()))
for n in range(1, 60):
    y = x[:n] + 1
"""
    done = run(code, TORCH_TPU_CACHE="0")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "8778.0", "")
