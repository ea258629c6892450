"""What a start costs, cold and warm, beside TorchTPU 0.2.0 in one run: `make bench-cold`.

Every figure is of a fresh process. Cold: an empty compile cache (TorchTPU has none for one device). Warm: a second process
with the directory that the first has filled. Starts are interleaved; medians are compared. Prints Markdown, writes
bench/results/cold.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from report import time_text

import run as bench

HERE = pathlib.Path(__file__).resolve().parent
# What must be reached.
WARM_TO_COLD, COLD_TO_PEER, HIT_TO_LOAD = 0.15, 0.6, 2.0


def start(python: str, engine: str, work: str, folder: str | None, args: argparse.Namespace) -> dict:
    """One process; its answer, or {"error": ...}."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH_TPU_", "PYTHONPATH"))}
    environment |= {"OMP_NUM_THREADS": str(args.threads), "MKL_NUM_THREADS": str(args.threads)}
    if engine == "ours":
        environment |= {"TORCH_TPU_CACHE_DIR": folder, "PYTHONPATH": str(bench.ROOT)}
        if args.plugin:
            environment["TORCH_TPU_PJRT_PLUGIN"] = args.plugin
    log = None if os.environ.get("BENCH_SHOW_LOG") else subprocess.DEVNULL
    command = [python, str(HERE / "cold_worker.py"), engine, work]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, cwd=HERE, check=False)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": f"the process ended ({done.returncode})"}


def measure(work: str, peer: str | None, args: argparse.Namespace) -> dict[str, list[dict]]:
    """Rounds of peer, cold and warm."""
    found: dict[str, list[dict]] = {"peer": [], "cold": [], "warm": []}
    for number in range(args.rounds):
        bench.say(f"{work}, round {number + 1} of {args.rounds}")
        if peer:
            found["peer"].append(start(peer, "peer", work, None, args))
        folder = tempfile.mkdtemp(prefix="bench_cold_")
        try:
            found["cold"].append(start(sys.executable, "ours", work, folder, args))
            found["warm"].append(start(sys.executable, "ours", work, folder, args))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def middle(answers: list[dict], column: str) -> float | None:
    """The median, or None."""
    values = [answer[column] for answer in answers if column in answer]
    return statistics.median(values) if values else None


def share(value: float | None, other: float | None, goal: float | None = None) -> str:
    """value / other, and whether the goal is reached."""
    if value is None or other is None:
        return "-"
    text = f"{value / other:.2f}"
    return text if goal is None else f"{text} ({'reached' if value / other <= goal else 'NOT reached'}: {goal:.2f})"


def step_row(name: str, found: dict[str, list[dict]], column: str) -> list[str]:
    """One training step, by wall or CPU time."""
    peer, cold, warm = (middle(found[kind], column) for kind in ("peer", "cold", "warm"))
    compiled = max((answer["counters"]["compiles"] for answer in found["warm"] if "counters" in answer), default=-1)
    cells = [name, time_text(peer), time_text(cold), time_text(warm)]
    return [*cells, share(cold, peer, COLD_TO_PEER), share(warm, cold, WARM_TO_COLD), str(compiled)]


def call_row(found: dict[str, list[dict]]) -> list[str]:
    """The mean first call over the ops that both have."""
    names = set.intersection(*(set(answer["calls"]) for answers in found.values() for answer in answers if "calls" in answer))
    for answers in found.values():
        for answer in answers:
            if "calls" in answer:
                answer["seconds"] = statistics.mean(answer["calls"][name] for name in names)
    return step_row(f"first call, mean of {len(names)} ops", found, "seconds")


def hit_text(answers: list[dict]) -> str:
    """A hit of the directory beside the plugin's own deserialize-and-load of the same bytes."""
    counters = [answer["counters"] for answer in answers if answer.get("counters", {}).get("cache_hits_disk")]
    if not counters:
        return "no hit was measured"
    hits = statistics.median(c["cache_hit_ns"] / c["cache_hits_disk"] for c in counters) * 1e-9
    load = statistics.median(c["cache_load_ns"] / c["cache_hits_disk"] for c in counters) * 1e-9
    text = f"a hit of the directory takes {time_text(hits)}, the plugin's own load of it {time_text(load)}"
    return f"{text}: {share(hits, load, HIT_TO_LOAD)}"


def table(rows: list[list[str]]) -> str:
    """Markdown."""
    head = ["", "TorchTPU cold", "cold", "second process", "cold / TorchTPU", "second / cold", "compiles of the second"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--peer", type=pathlib.Path, default=bench.ROOT / "build" / "peer", help="environment of TorchTPU 0.2.0"
    )
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--plugin", help="path of a PJRT plugin; default: the embedded one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results" / "cold.json")
    args = parser.parse_args()
    peer = None if args.no_peer else bench.peer_python(args.peer)
    found = {work: measure(work, peer, args) for work in ("digits", "gpt", "calls")}
    rows = []
    for name, title in (("digits", "digits, first training step"), ("gpt", "GPT, first training step")):
        rows.append(step_row(title, found[name], "seconds"))
        rows.append(step_row(f"{title}, CPU time", found[name], "cpu"))
    rows.append(call_row(found["calls"]))
    print(f"Load {os.getloadavg()[0]:.1f}, {args.rounds} rounds, {args.threads} threads.\n\n{table(rows)}\n")
    print("On these programs " + hit_text([answer for work in found.values() for answer in work["warm"]]) + ".")
    missing = sorted({name for answer in found["calls"]["peer"] for name in answer.get("failed", [])})
    if missing:
        print(f"\nNot implemented by TorchTPU: {', '.join(missing)}.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"machine": bench.machine(), "load": os.getloadavg()[0], "found": found}
    args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
