"""What an op costs beside TorchTPU 0.2.0 and PyTorch on the CPU, all in one run: `make bench`.

Each engine is a process of its own and only one of them works at a time. Repeats are interleaved, so that a change of the
machine's load meets all alike. Three columns: the first call of a fresh process, the steady state (median of repeats of
a few hundred calls, the synchronisation inside the timing), and the first call with shapes not seen before.
Prints Markdown, writes bench/results/latest.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

import report
from engine import Engine

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from plugin_paths import plugin_paths  # noqa: E402

PLUGIN_NAMES = {"xla_cpu_pjrt.so": "xla-cpu-pjrt", "pjrt_c_api_cpu_plugin.so": "lammps-jax-pjrt-cpu"}
NOT_BY_PEER = {"decode"}  # its environment has no transformers
NEW_SHAPES = 3


def peer_python(folder: pathlib.Path) -> str | None:
    """The interpreter of TorchTPU's environment, made if need be; None if that can't be had."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder} with TorchTPU 0.2.0 (once; it is big) ...", file=sys.stderr, flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(["sh", str(ROOT / "bench" / "make_peer.sh"), str(folder), sys.executable], check=False)
        if made.returncode:
            print("TorchTPU could not be installed: its columns stay empty", file=sys.stderr)
            return None
    return str(python)


def make_engines(args: argparse.Namespace) -> list[Engine]:
    """PyTorch on cpu, TorchTPU, and ours on each installed CPU plugin."""
    engines = [Engine("PyTorch CPU", "cpu", sys.executable, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, args.threads)]
    python = None if args.no_peer else peer_python(args.peer)
    if python:
        engines.append(Engine("TorchTPU 0.2.0", "peer", python, {}, args.threads, without=NOT_BY_PEER))
    for path in plugin_paths():
        name = PLUGIN_NAMES.get(os.path.basename(path), os.path.basename(path))
        engines.append(
            Engine(
                f"torch_tpu, {name}",
                "ours",
                sys.executable,
                {"TORCH_TPU_PJRT_PLUGIN": path, "TORCH_TPU_CACHE": "0"},
                args.threads,
            )
        )
    return engines


def say(text: str) -> None:
    print(f"[{datetime.datetime.now():%H:%M:%S}, load {os.getloadavg()[0]:.1f}] {text}", file=sys.stderr, flush=True)


def measure(engines: list[Engine], works: list[str], starts: int, args: argparse.Namespace) -> None:
    """Fills each engine's `samples`: {work: {"first": [...], "steady": [...], "change": [...]}}."""
    from works import WORKS

    for start in range(starts):
        for engine in engines:
            say(f"first runs, {engine.name}, process {start + 1} of {starts}")
            engine.start()
            for work in works:
                engine.ask(work, "first", size=0)
            if start < starts - 1:
                engine.stop()
    calls = {work: WORKS[work][3 if args.quick else 2] for work in works}
    for engine in engines:
        for work in works:
            engine.ask(work, "steady", keep=False, calls=max(2, calls[work] // 4))  # warm
    for repeat in range(args.repeats):
        say(f"steady state, repeat {repeat + 1} of {args.repeats}")
        for work in works:
            for engine in engines * WORKS[work][4]:
                engine.ask(work, "steady", calls=calls[work])
    say("changes of shape")
    for work in works:
        for size in range(1, 1 + (1 if work == "decode" else NEW_SHAPES)):
            for engine in engines:
                engine.ask(work, "first", column="change", size=size)
    for engine in engines:
        engine.stop()


def machine() -> dict:
    """What ran: processor, cores, Python."""
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []:
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    cores = len(os.sched_getaffinity(0))
    return {"processor": model or platform.processor(), "cores": cores, "python": platform.python_version()}


def main() -> None:
    from works import WORKS

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", type=pathlib.Path, default=ROOT / "build" / "peer", help="environment of TorchTPU 0.2.0")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="CPUs and PyTorch threads of each engine (default: all)")
    parser.add_argument("--repeats", type=int, default=0, help="of the steady state (default 11; 3 with --quick)")
    parser.add_argument("--starts", type=int, default=0, help="processes for the first column (default 3; 1 with --quick)")
    parser.add_argument("--works", default=",".join(WORKS), help=f"some of {','.join(WORKS)}")
    parser.add_argument("--quick", action="store_true", help="few repeats of few calls: does it run, not how fast is it")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "results" / "latest.json")
    args = parser.parse_args()
    args.threads = args.threads or len(os.sched_getaffinity(0))
    args.repeats = args.repeats or (3 if args.quick else 11)
    args.starts = args.starts or (1 if args.quick else 3)
    works = args.works.split(",")
    unknown = set(works) - set(WORKS)
    if unknown:
        parser.error(f"no such work: {', '.join(sorted(unknown))}")

    engines = make_engines(args)
    before = os.getloadavg()[0]
    try:
        # The language model in processes of its own: it takes long to load, so one start is enough, and with it and its
        # libraries in memory single ops of every engine but PyTorch's take some 10 % longer.
        for group, starts in ([w for w in works if w != "decode"], args.starts), ([w for w in works if w == "decode"], 1):
            if group:
                measure(engines, group, starts, args)
        result = {
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "threads": args.threads,
            "repeats": args.repeats,
            "quick": args.quick,
            "load": [before, os.getloadavg()[0]],
            "engines": {engine.name: engine.result() for engine in engines},
        }
    finally:
        for engine in engines:
            engine.stop()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(report.markdown(result))
    print(f"raw figures: {args.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
