"""The figures of a run as Markdown. Stored runs can be printed again."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics

from works import WORKS

# What must be reached: ratio to TorchTPU on xla-cpu-pjrt, ratio to PyTorch CPU on the default plugin; None: no goal.
GOALS = {
    "add": (0.30, 2.7),
    "matmul": (0.35, 2.7),
    "times_number": (0.20, 1.3),
    "add_in_place": (0.20, 2.7),
    "view_slice_add": (0.20, 2.7),
    "sum_item": (0.30, None),
    "mlp_step": (0.50, 1.0),
    "decode": (None, 1.0),
}


def time_text(seconds: float | None) -> str:
    """Three digits and a fitting unit."""
    if seconds is None:
        return "-"
    unit, scale = next((u for u in (("s", 1.0), ("ms", 1e-3)) if seconds >= u[1]), ("µs", 1e-6))
    value = seconds / scale
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


MARKS = ("<!-- bench: table -->", "<!-- bench: end -->")
MEASURES = {"median": "median steady times", "least": "least steady times", "cpu": "median CPU times (all threads)"}


def figure(engine: dict, work: str, column: str) -> float | None:
    """Median seconds, or None where nothing was measured."""
    samples = engine["seconds"].get(work, {}).get(column)
    return statistics.median(samples) if samples else None


def compared(engine: dict, work: str, by: str) -> float | None:
    """The figure that ratios are made of."""
    if by == "cpu":
        return figure(engine, work, "cpu")
    samples = engine["seconds"].get(work, {}).get("steady")
    return (min if by == "least" else statistics.median)(samples) if samples else None


def steady_text(engine: dict, work: str) -> str:
    """Median of the steady state; of decoding its tokens/s."""
    middle = figure(engine, work, "steady")
    return time_text(middle) + (f" ({1 / middle:.1f} tokens/s)" if work == "decode" and middle else "")


def ratio(ours: float | None, other: float | None, goal: float | None = None) -> str:
    """ours / other; with a goal, whether it is reached."""
    if ours is None or other is None:
        return "-"
    value = ours / other
    mark = "" if goal is None else f" ({'≤' if value <= goal else 'misses'} {goal:g})"
    return f"{value:.2f}{mark}"


def rows_of(result: dict, work: str, by: str) -> list[str]:
    """One row an engine."""
    engines = result["engines"]
    of_kind = {engine["kind"]: engine for engine in engines.values()}
    rows = []
    for name, engine in engines.items():
        if not engine["seconds"].get(work):
            continue
        against = ["", ""]
        if engine["kind"] == "ours":
            default = name.endswith("xla-cpu-pjrt")  # TorchTPU runs on this plugin alone
            goals = GOALS[work] if default else (None, None)
            for place, kind in enumerate(("peer", "cpu")):
                fair = kind in of_kind and (default or kind == "cpu")
                other = compared(of_kind[kind], work, by) if fair else None
                against[place] = ratio(compared(engine, work, by), other, goals[place])
        first, cpu, change = (time_text(figure(engine, work, column)) for column in ("first", "cpu", "change"))
        cells = [WORKS[work][0], name, first, steady_text(engine, work), change, cpu, *against]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def markdown(result: dict, by: str = "median") -> str:
    """The table, with what it was measured on and how."""
    machine, threads = result["machine"], result["threads"]
    lines = [
        f"{machine['processor']}, {machine['cores']} cores. Every engine may use {threads} (OMP_NUM_THREADS={threads}, "
        f"torch.set_num_threads({threads}), affinity). Medians over {result['repeats']} interleaved rounds; ratios are of the "
        f"{MEASURES[by]}. Load average {result['load'][0]:.1f} before, {result['load'][1]:.1f} after"
        + (" (**not a quiet machine**)" if max(result["load"]) > 3 else "")
        + (". Quick run: the figures say little" if result["quick"] else "")
        + ".",
        "",
        "| work | engine | first run | steady state | change of shape | CPU time, steady | ÷ TorchTPU | ÷ PyTorch CPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    works = [work for work in WORKS if any(work in engine["seconds"] for engine in result["engines"].values())]
    for work in works:
        lines += rows_of(result, work, by)
    failures = [
        f"- {name}, {WORKS[work][0] if work in WORKS else work}: {error}"
        for name, engine in result["engines"].items()
        for work, error in engine["errors"].items()
    ]
    return "\n".join([*lines, *(["", "Failed:", ""] if failures else []), *failures])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=pathlib.Path, help="what bench/run.py wrote")
    parser.add_argument("--into", type=pathlib.Path, help="write it into this page (README.md), between its bench marks")
    parser.add_argument("--by", choices=MEASURES, default="median", help="what the ratios are of, if the machine was not quiet")
    args = parser.parse_args()
    table = markdown(json.loads(args.file.read_text()), args.by)
    if args.into is None:
        print(table)
        return
    before, rest = args.into.read_text().split(MARKS[0])
    args.into.write_text(before + MARKS[0] + "\n" + table + "\n" + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main()
