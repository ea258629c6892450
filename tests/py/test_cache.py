"""The compile cache across processes, hosts and faults. Each test runs real processes on directories of its own."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from torch_tpu import cache

PREAMBLE = """
import json, os, sys, warnings
warnings.simplefilter("always")
seen = []
warnings.showwarning = lambda message, *rest, **more: seen.append(str(message))
import torch, torch_tpu
from torch_tpu import metrics
def report(**more):
    torch.tpu.synchronize()
    torch_tpu.cache.flush()
    (torch.ones(7, 11, 13).to("tpu") + 1).sum()  # a new op passes on what the core has to say
    print("REPORT " + json.dumps({**metrics.counters(), "warnings": seen, **more}), flush=True)
"""

STEP = """
torch.manual_seed(0)
x = torch.randn(6, 5).to("tpu")
w = torch.nn.Parameter(torch.randn(5, 4).to("tpu"))
loss = (x @ w).tanh().log_softmax(-1).square().sum()
loss.backward()
report(loss=loss.item(), grad=w.grad.sum().item(), sympy="sympy" in sys.modules)
"""


def start(code, folder, **settings):
    """A process with its cache in `folder`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_TPU_")}
    environment |= {"TORCH_TPU_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1", **settings}
    plugin = os.environ.get("TORCH_TPU_PJRT_PLUGIN")
    if plugin:
        environment.setdefault("TORCH_TPU_PJRT_PLUGIN", plugin)
    command = [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """What it reported."""
    out, err = process.communicate(timeout=240)
    lines = [line for line in out.splitlines() if line.startswith("REPORT ")]
    assert process.returncode == 0 and lines, err[-2000:]
    return json.loads(lines[-1].removeprefix("REPORT "))


def run(code, folder, **settings):
    return finish(start(code, folder, **settings))


def about_cache(result):
    return [text for text in result["warnings"] if "compile cache" in text]


@pytest.fixture(scope="module")
def expected():
    """Loss and gradient on cpu."""
    torch.manual_seed(0)
    x, w = torch.randn(6, 5), torch.nn.Parameter(torch.randn(5, 4))
    loss = (x @ w).tanh().log_softmax(-1).square().sum()
    loss.backward()
    return loss.item(), w.grad.sum().item()


def is_right(result, expected):
    return result["loss"] == pytest.approx(expected[0], rel=1e-5) and result["grad"] == pytest.approx(
        expected[1], rel=1e-4, abs=1e-5
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A directory that one process has filled, and what that process reported."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run(STEP, folder)


@pytest.fixture
def folder(filled, tmp_path):
    """A copy of the filled directory."""
    shutil.copytree(filled[0], tmp_path / "cache")
    return tmp_path / "cache"


# ---- processes


def test_second_process_compiles_nothing(filled, folder, expected):
    cold = filled[1]
    assert is_right(cold, expected) and cold["compiles"] > 0 and cold["cache_hits_disk"] == 0
    warm = run(STEP, folder)
    assert is_right(warm, expected)
    assert warm["compiles"] == 0
    assert warm["cache_hits_disk"] == cold["compiles"] and warm["cache_bad_entries"] == 0
    assert (warm["loss"], warm["grad"]) == (cold["loss"], cold["grad"])  # to the bit
    assert not about_cache(warm) and not about_cache(cold)


def test_second_process_asks_no_python_meta_kernel(folder):
    assert run(STEP, folder)["sympy"] is False


def test_modes_share_programs(folder, expected):
    debug = run(STEP, folder, TORCH_TPU_LAUNCH_BLOCKING="1")
    assert debug["compiles"] == 0 and is_right(debug, expected)


def test_fused_graphs_are_kept_too(tmp_path, expected):
    fused = {"TORCH_TPU_DEFER_AND_FUSE": "1"}
    cold = run(STEP, tmp_path, **fused)
    warm = run(STEP, tmp_path, **fused)
    assert cold["compiles"] > 0 and warm["compiles"] == 0
    assert is_right(cold, expected) and is_right(warm, expected)


def test_processes_at_once_compile_each_program_once(tmp_path, expected):
    results = [finish(process) for process in [start(STEP, tmp_path) for _ in range(4)]]
    assert all(is_right(result, expected) for result in results)
    distinct = sum(1 for _ in cache.entries(tmp_path))
    assert sum(result["compiles"] for result in results) == distinct
    assert not any(about_cache(result) for result in results)


def test_killed_process_holds_nobody_up(tmp_path, expected):
    code = (
        "x = torch.randn(6, 5).to('tpu')\nprint('up', flush=True)\nfor n in range(1, 500): (torch.ones(n).to('tpu') * 2).tanh()"
    )
    process = start(code, tmp_path)
    assert process.stdout.readline().strip() == "up"
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result = run(STEP, tmp_path)
    assert is_right(result, expected) and result["cache_bad_entries"] == 0
    assert all(why is None for _, why in cache.verify(tmp_path))


def test_other_compiler_flags_are_other_programs(folder, expected):
    result = run(STEP, folder, XLA_FLAGS="--xla_cpu_enable_fast_math=false")
    assert is_right(result, expected) and result["cache_hits_disk"] == 0


def test_off(tmp_path, expected):
    result = run(STEP, tmp_path / "none", TORCH_TPU_CACHE="0")
    assert is_right(result, expected) and not (tmp_path / "none").exists()


def test_names_of_torchtpu_are_honoured(tmp_path):
    result = run("torch.ones(3).to('tpu') + 1; report()", "", TORCH_TPU_TIER2_COMPILATION_CACHE=str(tmp_path / "tier2"))
    assert result["cache_writes"] > 0 and any(cache.entries(tmp_path / "tier2"))


# ---- files that are wrong, places that fail


@pytest.mark.parametrize("damage", ["flip", "foreign"])
def test_damaged_entries_are_replaced(folder, expected, damage):
    for path in (folder / "v1").glob("??/*.tpe"):
        data = bytearray(path.read_bytes())
        if damage == "flip":
            data[len(data) // 2] ^= 1
        else:
            data[8] = 77  # another format
        path.write_bytes(data)
    result = run(STEP, folder)
    assert is_right(result, expected)
    assert result["compiles"] > 0 and result["cache_hits_disk"] == 0
    assert len(about_cache(result)) == 1 and "ignored and replaced" in about_cache(result)[0]
    assert all(why is None for _, why in cache.verify(folder))
    assert run(STEP, folder)["compiles"] == 0


@contextlib.contextmanager
def mounted(path, options):
    """A small file system of its own."""
    path.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True).returncode != 0
    ):
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def test_full_disk(tmp_path, expected):
    with mounted(tmp_path / "small", "size=32k") as small:
        result = run(STEP, small)
        assert is_right(result, expected)
        assert len(about_cache(result)) == 1 and "No space left" in about_cache(result)[0]
        assert all(why is None for _, why in cache.verify(small))


def test_read_only_disk_serves_what_it_has(filled, tmp_path, expected):
    with mounted(tmp_path / "image", "size=8m") as image:
        shutil.copytree(filled[0], image, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", image], check=True)
        warm = run(STEP, image)
        assert warm["compiles"] <= 1 and is_right(warm, expected)  # the report's own op is new
        more = run("report(value=(torch.ones(3, 3).to('tpu').cosh()).sum().item())", image)
        assert more["compiles"] > 0 and more["value"] == pytest.approx(9 * 1.5430806, rel=1e-5)
        assert len(about_cache(more)) == 1 and "Read-only" in about_cache(more)[0]


def test_directory_that_cannot_be_made(tmp_path, expected):
    (tmp_path / "file").write_text("in the way")
    result = run(STEP, tmp_path / "file" / "cache")
    assert is_right(result, expected)
    assert len(about_cache(result)) == 1 and "cannot be made" in about_cache(result)[0]


def test_bound_is_kept(tmp_path):
    code = "for n in range(1, 40): (torch.ones(n).to('tpu') * 2)\nreport()"
    result = run(code, tmp_path, TORCH_TPU_CACHE_MAX_BYTES="100000")
    assert result["cache_evictions"] > 0
    assert cache.prune(tmp_path, 1 << 40).kept_bytes <= 110000


# ---- the remote place


def hosts(tmp_path, count):
    return [tmp_path / f"host{i}" for i in range(count)]


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)


def entries_at(place):
    return sum(1 for _ in cache.entries(place))


def test_second_host_reads_what_the_first_has_uploaded(tmp_path, expected):
    one, two = hosts(tmp_path, 2)
    remote = tmp_path / "remote"
    settings = {"TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": remote.as_uri(), "TORCH_TPU_CACHE_REMOTE_WAIT": "20000"}
    cold = run(STEP, one, **settings)
    assert is_right(cold, expected)
    wait_for(lambda: entries_at(remote) == entries_at(one))
    warm = run(STEP, two, **settings)
    assert is_right(warm, expected)
    assert warm["compiles"] == 0 and warm["cache_hits_remote"] == cold["compiles"]
    assert entries_at(two) == entries_at(one)


def test_hosts_that_start_cold_together(tmp_path, expected):
    remote = tmp_path / "remote"
    settings = {"TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": remote.as_uri(), "TORCH_TPU_CACHE_REMOTE_WAIT": "20000"}
    results = [finish(process) for process in [start(STEP, host, **settings) for host in hosts(tmp_path, 3)]]
    assert all(is_right(result, expected) for result in results)
    programs = max(result["compiles"] + result["cache_hits_remote"] for result in results)
    assert sum(result["compiles"] for result in results) <= programs + 2  # once or nearly so
    assert not any(about_cache(result) for result in results)


def test_bad_remote_entries_are_replaced(tmp_path, expected):
    one, two = hosts(tmp_path, 2)
    remote = tmp_path / "remote"
    settings = {"TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": remote.as_uri(), "TORCH_TPU_CACHE_REMOTE_WAIT": "20000"}
    run(STEP, one, **settings)
    wait_for(lambda: entries_at(remote) == entries_at(one))
    for path in (remote / "v1").glob("??/*.tpe"):
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes(data)
    result = run(STEP, two, **settings)
    assert is_right(result, expected) and result["cache_hits_remote"] == 0 and len(about_cache(result)) == 1
    wait_for(lambda: all(why is None for _, why in cache.verify(remote)))


@pytest.mark.parametrize("url", ["nonsense://somewhere", "file:///proc/no/such/place"])
def test_remote_that_cannot_be_reached(tmp_path, expected, url):
    result = run(STEP + "\nimport time; time.sleep(4); report(loss=loss.item(), grad=w.grad.sum().item())", tmp_path,
                 TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT=url)  # fmt: skip
    assert is_right(result, expected) and result["compiles"] > 0
    assert len(about_cache(result)) == 1 and url in about_cache(result)[0]
    assert run(STEP, tmp_path)["compiles"] == 0


def test_transport_that_hangs_delays_nothing_for_long(tmp_path, expected):
    script = tmp_path / "hang.py"
    script.write_text("import time\ntime.sleep(60)\n")
    settings = {
        "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": "memory://x",
        "TORCH_TPU_CACHE_TRANSPORT": f"{sys.executable}:{script}",
    }
    result = run(STEP, tmp_path / "cache", **settings)
    assert is_right(result, expected) and result["cache_hits_remote"] == 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.skipif(
    importlib.util.find_spec("moto") is None or importlib.util.find_spec("s3fs") is None,
    reason="moto[server] and s3fs are not installed",
)
def test_s3(tmp_path, expected):
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:

        def up():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for(up)
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        keys |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "FSSPEC_S3_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        make = "import s3fs; s3fs.S3FileSystem(skip_instance_cache=True).mkdir('programs')"
        subprocess.run([sys.executable, "-c", make], env=os.environ | keys, check=True, timeout=120)
        settings = keys | {
            "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": "s3://programs/cache",
            "TORCH_TPU_CACHE_REMOTE_WAIT": "30000",
        }
        one, two = hosts(tmp_path, 2)
        cold = run(STEP, one, **settings)
        count = "import s3fs; print(len(s3fs.S3FileSystem(skip_instance_cache=True).glob('programs/cache/v1/*/*.tpe')))"

        def uploaded():
            done = subprocess.run(
                [sys.executable, "-c", count], env=os.environ | keys, capture_output=True, text=True, timeout=120
            )
            return int(done.stdout or 0) == entries_at(one)

        wait_for(uploaded)
        warm = run(STEP, two, **settings)
        assert is_right(cold, expected) and is_right(warm, expected)
        assert warm["compiles"] == 0 and warm["cache_hits_remote"] == cold["compiles"]
        assert not about_cache(cold) and not about_cache(warm)
    finally:
        server.kill()
        server.wait()


# ---- the command line


def command(*arguments, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "torch_tpu", "cache", *map(str, arguments)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_command_line(folder, tmp_path, expected):
    number = entries_at(folder)
    shown = command("--dir", folder, "stats")
    assert str(folder) in shown and str(number) in shown
    listed = command("--dir", folder, "list", "--all").splitlines()
    assert len(listed) == number + 2 and any("tanh" in line for line in listed)
    key = next(line.split()[0] for line in listed if line.split()[1] == "tanh")
    text = command("--dir", folder, "show", key)
    assert "stablehlo.tanh" in text and "platform" in text
    archive = tmp_path / "programs.tar"
    assert str(number) in command("--dir", folder, "export", archive)
    assert f"{number} entries added, 0 refused" in command("--dir", tmp_path / "other", "import", archive)
    assert f"{number} entries, 0 bad" in command("--dir", tmp_path / "other", "verify")
    assert run(STEP, tmp_path / "other")["compiles"] == 0
    victim = next((tmp_path / "other" / "v1").glob("??/*.tpe"))
    victim.write_bytes(victim.read_bytes()[:-1])
    assert "1 bad" in command("--dir", tmp_path / "other", "verify", status=1)
    command("--dir", tmp_path / "other", "verify", "--remove")
    assert not victim.exists()
    command("--dir", tmp_path / "other", "prune", "--all")
    assert entries_at(tmp_path / "other") == 0
    assert (
        "no size"
        in subprocess.run(
            [sys.executable, "-m", "torch_tpu", "cache", "prune", "--to", "much"], capture_output=True, text=True
        ).stderr
    )


def test_import_takes_nothing_but_entries(tmp_path):
    import io
    import tarfile

    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        for name in ("../escape.tpe", "v1/../../escape", "/etc/escape", "v1/ab/" + "0" * 30 + ".tpe", "v1/ab/x.tpe"):
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"hello"))
    assert cache.import_archive(tmp_path / "cache", tmp_path / "bad.tar") == (0, 5)
    assert not list(tmp_path.rglob("*escape*")) and not list(tmp_path.rglob("*.tpe"))


def test_warm_fills_the_cache_without_computing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\nx = torch.ones(50, 50).to('tpu')\nprint(sys.argv[1], (x @ x).sum().item())\n")
    environment = os.environ | {"TORCH_TPU_CACHE_DIR": str(tmp_path / "cache")}
    warm = [sys.executable, "-m", "torch_tpu", "cache", "warm", str(script), "hello"]
    done = subprocess.run(warm, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stdout.strip() == "hello 0.0", done.stderr
    code = "x = torch.ones(50, 50).to('tpu')\nvalue = (x @ x).sum().item(); report(value=value, early=metrics.counters())"
    result = run(code, tmp_path / "cache", TORCH_TPU_NUM_DEVICES=os.environ.get("TORCH_TPU_NUM_DEVICES", "1"))
    assert result["value"] == 125000.0 and result["early"]["compiles"] == 0


def test_warming_with_no_script_or_a_broken_one_fails(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('no data here')\n")
    for script, code, text in ((tmp_path / "none.py", 2, "there is no script"), (broken, 1, "no data here")):
        command = [sys.executable, "-m", "torch_tpu", "cache", "--dir", str(tmp_path / "cache"), "warm", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr


FIRST_COMPILES = """
import threading, torch
barrier, errors = threading.Barrier(8), []
def work(i):
    try:
        barrier.wait()
        x = torch.arange(10.0 + i).to("tpu")
        assert (x * x + 1).cpu().equal(torch.arange(10.0 + i) ** 2 + 1)
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not errors, errors
"""


LIBRARIES = {"xla_plugins": "xla_cpu_pjrt/xla_cpu_pjrt.so", "lammps_jax_pjrt_cpu": "pjrt_c_api_cpu_plugin.so"}


@pytest.mark.parametrize("module, name", LIBRARIES.items())
def test_first_compiles_at_once(module, name):
    """A plugin may not know our compiler flags: each thread that meets that goes on without them."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        pytest.skip("this plugin is not installed")
    plugin = os.path.join(spec.submodule_search_locations[0], name)
    env = os.environ | {"TORCH_TPU_PJRT_PLUGIN": plugin, "TORCH_TPU_CACHE": "0"}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FIRST_COMPILES], check=True, env=env, timeout=300)


@pytest.mark.parametrize("content", [b"hello", b"", b"\x1f\x8b\x08\x00cut"])
def test_what_is_no_archive(tmp_path, content):
    (tmp_path / "a.tar").write_bytes(content)
    command = [sys.executable, "-m", "torch_tpu", "cache", "--dir", str(tmp_path / "c"), "import", str(tmp_path / "a.tar")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
