"""Fused mode beside strict mode, PyTorch on the CPU and TorchTPU 0.2.0 in both modes, all in one run: `make bench-fused`.

As bench/run.py: each engine is a process of its own, one works at a time, repeats are interleaved; ratios are of medians.
Prints Markdown, writes bench/results/fused.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys

import report
from engine import Engine
from works import FUSED_WORKS

from run import ROOT, peer_python, plugin_paths, say

FUSED = {"TORCH_TPU_DEFER_AND_FUSE": "1"}
# Work -> goals of fused mode against strict, PyTorch CPU, TorchTPU strict, TorchTPU fused; None: no goal.
GOALS = {
    "add": (None, 1.0, None, 0.15),
    "matmul": (None, 1.0, None, 0.15),
    "add_in_place": (None, 1.0, None, 0.15),
    "mlp_step": (1.0, None, None, None),
    "mlp_every_ten": (0.85, 0.9, None, None),
    "mlp_narrow": (0.7, None, 0.45, None),
    "elementwise": (0.5, None, None, None),
    "gpt_step": (0.9, None, None, None),
    "resnet_step": (0.9, None, None, None),
}
BIG = {"gpt_step", "resnet_step"}  # too slow for the peer, and for being cut within
OTHERS = ("strict", "PyTorch CPU", "TorchTPU strict", "TorchTPU fused")


def make_engines(args: argparse.Namespace) -> list[Engine]:
    ours = {"TORCH_TPU_PJRT_PLUGIN": plugin_paths()[0], "TORCH_TPU_CACHE": "0"}
    engines = [
        Engine("fused", "ours", sys.executable, ours | FUSED, args.threads),
        Engine("strict", "ours", sys.executable, ours, args.threads),
        Engine("PyTorch CPU", "cpu", sys.executable, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, args.threads),
    ]
    python = None if args.no_peer else peer_python(args.peer)
    if python:
        engines.append(Engine("TorchTPU strict", "peer", python, {}, args.threads, without=BIG))
        engines.append(Engine("TorchTPU fused", "peer", python, FUSED, args.threads, without=BIG))
    return engines


def measure(engines: list[Engine], works: list[str], repeats: int) -> None:
    for engine in engines:
        say(f"first runs, {engine.name}")
        engine.start()
        for work in works:
            engine.ask(work, "first", size=0)
            engine.ask(work, FUSED_WORKS[work][3], keep=False, calls=4)  # a graph is compiled when met again
            if FUSED_WORKS[work][3] == "steady" and work not in BIG:
                engine.ask(work, "settle", keep=False, seconds=8.0)
    for repeat in range(repeats):
        say(f"repeat {repeat + 1} of {repeats}")
        for work in works:
            for engine in engines * FUSED_WORKS[work][4]:
                engine.ask(work, FUSED_WORKS[work][3], column="steady", calls=FUSED_WORKS[work][2])


def markdown(result: dict) -> str:
    engines = result["engines"]
    median = {
        name: {
            work: statistics.median(columns["steady"]) for work, columns in engine["seconds"].items() if columns.get("steady")
        }
        for name, engine in engines.items()
    }
    head = ["work", *(name for name in ("fused", *OTHERS)), *(f"÷ {name}" for name in OTHERS)]
    lines = [
        f"Load average {result['load'][0]:.1f} before, {result['load'][1]:.1f} after; {result['threads']} threads; medians of "
        f"{result['repeats']} rounds; ratios are of fused mode.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
    ]
    for work, (text, *_) in FUSED_WORKS.items():
        ours = median["fused"].get(work)
        if ours is None:
            continue
        others = [median.get(name, {}).get(work) for name in OTHERS]
        ratios = [report.ratio(ours, other, goal) for other, goal in zip(others, GOALS[work], strict=True)]
        lines.append("| " + " | ".join([text, report.time_text(ours), *map(report.time_text, others), *ratios]) + " |")
    failures = [f"- {name}, {work}: {error}" for name, engine in engines.items() for work, error in engine["errors"].items()]
    return "\n".join(lines + (["", "Failed:", *failures] if failures else []))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", type=pathlib.Path, default=ROOT / "build" / "peer", help="environment of TorchTPU 0.2.0")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--works", default=",".join(FUSED_WORKS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench" / "results" / "fused.json")
    args = parser.parse_args()
    works = args.works.split(",")
    engines = make_engines(args)
    before = os.getloadavg()[0]
    try:
        measure(engines, works, args.repeats)
        result = {
            "threads": args.threads,
            "repeats": args.repeats,
            "load": [before, os.getloadavg()[0]],
            "engines": {engine.name: engine.result() for engine in engines},
        }
    finally:
        for engine in engines:
            engine.stop()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(markdown(result))


if __name__ == "__main__":
    main()
