"""What our programs would cost on a TPU, by the TPU compiler's own estimates, as ratios to given programs.

    python bench/tpu.py --tool FOLDER [--python PYTHON] [--topology v5e:1x1,v6e:1x1] [--works NAMES]

FOLDER holds `tpu_cost.py`, which compiles StableHLO ahead of time and prints what the compiler says of it, and `anchors/*.mlir`
to compare with; PYTHON is an interpreter that has libtpu (default: this one). No TPU is needed: the models are recorded on the
fake plugin. A compile takes minutes, so figures are kept in build/tpu. Without libtpu only the programs are made.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "tpu"


@dataclasses.dataclass(frozen=True)
class Work:
    """A model of `tpu_models.py`, how it is run, and what it is compared with: an anchor's file, or another work."""

    what: str
    model: tuple[str, dict[str, bool]]
    against: str
    fused: bool = True


_JAX = "jax_blockflat_fwdbwd.mlir"
WORKS = {
    "block": Work("Llama block, forward + backward", ("llama_block", {"backward": True}), _JAX),
    "block_forward": Work("Llama block, forward", ("llama_block", {"backward": False}), "jax_blockflat_fwd.mlir"),
    "block_linear": Work("the block, weights of nn.Linear", ("llama_block", {"backward": True, "linear": True}), _JAX),
    "block_formula": Work("the block, norms as formulas", ("llama_block", {"backward": True, "formula": True}), _JAX),
    "block_sdpa": Work("the block, F.scaled_dot_product_attention", ("llama_block", {"backward": True, "plain": False}), _JAX),
    "stack_strict": Work("LayerNorm, GELU, residual: strict", ("elementwise_stack", {"backward": True}), "", fused=False),
    "stack": Work("LayerNorm, GELU, residual: fused", ("elementwise_stack", {"backward": True}), "stack_strict"),
}


def build(names: list[str]) -> dict[str, dict[str, int]]:
    """Records the works on the fake plugin: {work: {program's file: how often it runs in a step}}."""
    import torch
    import tpu_models

    import torch_tpu

    made = {}
    for name in names:
        work = WORKS[name]
        step = getattr(tpu_models, work.model[0])(**work.model[1])
        mode = torch.tpu.EagerMode.DEFER_AND_FUSE if work.fused else torch.tpu.EagerMode.DEFER_NEVER
        torch.tpu.synchronize()
        with torch.tpu.set_eager_mode(mode):
            step()  # plans are made, once
            torch.tpu.synchronize()
            with torch_tpu.explain() as told:
                kept = step()
            del kept
        runs: dict[str, int] = {}
        for cut in told.cuts:
            if cut.way != "dropped":
                runs[f"{cut.program:016x}.mlir"] = runs.get(f"{cut.program:016x}.mlir", 0) + 1
        made[name] = runs
    return made


def build_apart(names: list[str]) -> dict[str, dict[str, int]]:
    """`build` in a process with the settings that it needs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    settings = {
        "TORCH_TPU_PJRT_PLUGIN": "null",
        "TORCH_TPU_CACHE": "0",
        "TORCH_TPU_DUMP": str(FOLDER),
        "TORCH_TPU_FUSE_LAZY": "0",
        "TORCH_TPU_FUSE_MAX_BYTES": str(8 << 30),  # half of a v5e's memory
    }
    command = [sys.executable, __file__, "--build", ",".join(names)]
    done = subprocess.run(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def costs(files: list[pathlib.Path], args: argparse.Namespace, topology: str) -> dict[pathlib.Path, dict]:
    """What the tool says of each file, from earlier runs where they are the same. Empty without libtpu."""
    ask = "import importlib.metadata as m; print(m.version('libtpu'))"
    version = subprocess.run([args.python, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    if not version or not args.tool:
        return {}
    kept_at = FOLDER / "costs.json"
    kept = json.loads(kept_at.read_text()) if kept_at.exists() else {}
    found = {}
    for number, file in enumerate(files):
        key = f"{version} {topology} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        if key not in kept:
            print(f"compiling {number + 1} of {len(files)} for {topology}: {file.name}", file=sys.stderr, flush=True)
            command = [args.python, str(args.tool / "tpu_cost.py"), "--brief", "-t", topology, str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = done.stdout.splitlines()
            kept[key] = json.loads(lines[-1]) if lines else {"ok": False, "error": done.stderr[-500:]}
            if kept[key]["ok"]:
                kept_at.write_text(json.dumps(kept, indent=1))
        if not kept[key]["ok"]:
            sys.exit(f"{file.name}: {kept[key]['error']}")
        found[file] = kept[key]
    return found


def totals(runs: dict[pathlib.Path, int], found: dict[pathlib.Path, dict]) -> tuple[float, float, float]:
    """Milliseconds by cycles and by roofline, summed over a step's programs, and the largest one's temporaries in GiB."""
    cycles = sum(found[file]["cycles_s"] * times for file, times in runs.items()) * 1e3
    roofline = sum(found[file]["optimal_s"] * times for file, times in runs.items()) * 1e3
    return cycles, roofline, max(found[file]["temp_bytes"] for file in runs) / 2**30


def table(names: list[str], made: dict[str, dict[str, int]], args: argparse.Namespace, topology: str) -> None:
    """Prints Markdown: ours, what it is compared with, ratios."""
    sides: dict[str, dict[pathlib.Path, int]] = {
        n: {FOLDER / f: times for f, times in runs.items()} for n, runs in made.items()
    }
    for name in names:
        if WORKS[name].against.endswith(".mlir"):
            sides[WORKS[name].against] = {args.tool / "anchors" / WORKS[name].against: 1}
    found = costs(sorted({file for side in sides.values() for file in side}), args, topology)
    if not found:
        print("libtpu or the tool is not there: nothing was costed", file=sys.stderr)
        return
    print(f"\n{topology}, ms by cycles / by roofline; GiB of temporaries\n")
    print("| program | executions | ours | against | ratio by cycles | by roofline | by temporaries |\n" + "| --- " * 7 + "|")
    for name in names:
        if not WORKS[name].against:
            continue
        ours, other = totals(sides[name], found), totals(sides[WORKS[name].against], found)
        ratios = " | ".join(f"{a / b:.3f}" for a, b in zip(ours[:2], other, strict=False))
        ratios += f" | {ours[2] / other[2]:.3f}" if len(sides[WORKS[name].against]) == 1 else " | -"  # single ops have none
        both = (f"{side[0]:.2f} / {side[1]:.2f}; {side[2]:.2f}" for side in (ours, other))
        print(f"| {WORKS[name].what} | {sum(sides[name].values())} | {' | '.join(both)} | {ratios} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", type=pathlib.Path, help="folder with tpu_cost.py and anchors/")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has libtpu")
    parser.add_argument("--topology", default="v5e:1x1", help="some, with commas between")
    parser.add_argument("--works", default="block,stack_strict,stack", help=f"some of {','.join(WORKS)}")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        print(json.dumps(build(args.build.split(","))))
        return
    names = args.works.split(",")
    unknown = set(names) - set(WORKS)
    if unknown:
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    names += [WORKS[n].against for n in names if WORKS[n].against in WORKS and WORKS[n].against not in names]
    made = build_apart(names)
    for name, runs in made.items():
        print(f"{name}: {sum(runs.values())} executions of {len(runs)} programs: {' '.join(sorted(runs)[:3])}", file=sys.stderr)
    if not args.tool:
        print(f"programs are in {FOLDER}; --tool says with what to cost them", file=sys.stderr)
        return
    for topology in args.topology.split(","):
        table(names, made, args, topology)


if __name__ == "__main__":
    main()
