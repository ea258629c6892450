"""Writes docs/ops.md and docs/environment.md from the tables they describe; with --check says whether they are stale.

The rows and the forms that are registered come from the built library, what kind a row is from the *.def files, the environment
variables from src/base/env.h.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = {
    1: "types itself",
    2: "random",
    4: "size from data",
    8: "checks indices",
    32: "copies to the host and back",
    64: "host routine on CPU plugins",
}


OPS_INTRO = """\
# Ops with a row of their own

Made by `make docs` from the tables in `src/ops/*.def`; do not edit.

{rows} rows serve {overloads} overloads. An op that is not here is recorded from PyTorch's decomposition of it where there is
one (`torch_tpu/_decompose.py`), and else raises `NotImplementedError`. Views (`view`, `permute`, `select`, ...), copies and
factories without a value have kernels in `glue/` and no row.

- *kind*: an elementwise expression over the op's arguments, a lowering function in C, or a host routine: PyTorch's cpu kernel
  (LAPACK) between two copies, for what XLA has no op for. The counter `host_routines` counts those calls.
- *forms*: functional, in-place (`add_`), out (`out=`).
- *types itself*: the lowering gives the outputs' dtypes and sizes, PyTorch's meta kernel is not asked.
- *random*: takes the device's random state. *size from data*: one host read tells the size of the result.
- *checks indices*: an index out of range raises `IndexError`.
"""


def kinds() -> dict[str, tuple[str, str]]:
    """For each row: the file of its table, and what kind it is. Tables have macros of their own: cc expands them."""
    found = {}
    for path in sorted((ROOT / "src" / "ops").glob("*.def")):
        if path.stem == "all":
            continue
        command = [os.environ.get("CC", "cc"), "-E", "-P", "-x", "c", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for kind, strings in re.findall(r'TPT_(EXPR|FUNC|HOST)\w*\(\s*((?:"[^"]*"\s*)+)[,)]', text):
            name = "".join(re.findall(r'"([^"]*)"', strings))
            found[name] = (path.stem, {"EXPR": "expression", "FUNC": "function", "HOST": "host routine"}[kind])
    return found


def form_of(name: str, schema) -> str:
    """Functional, in-place or out=, of "aten::add_.Tensor"."""
    if any(argument.is_out for argument in schema.arguments):
        return "out"
    base = name.partition("::")[2].split(".")[0]
    return "in-place" if base.startswith("__i") or (base.endswith("_") and not base.endswith("__")) else "functional"


def ops_page() -> str:
    """The support table."""
    import torch

    from torch_tpu import _C

    flags, kind = _C.rows(), kinds()
    forms: dict[str, set[str]] = {name: set() for name in flags}
    elsewhere, overloads = [], 0
    for line in torch.ops.tpu._row_report():
        state, name, detail = line.split("|")
        if state == "ok":
            base, _, overload = name.partition(".")
            forms[detail].add(form_of(name, torch._C._get_schema(base, overload)))
            overloads += 1
        else:
            elsewhere.append((name.removeprefix("aten::"), detail))
    lines = [OPS_INTRO.format(rows=len(flags), overloads=overloads).rstrip()]
    for table in sorted({kind[name][0] for name in flags if name in kind}):
        lines += ["", f"## {table}", "", "| op | kind | forms | notes |", "| --- | --- | --- | --- |"]
        for name in sorted(name for name in flags if name in kind and kind[name][0] == table):
            notes = ", ".join(text for bit, text in FLAGS.items() if flags[name] & bit)
            shown = ", ".join(form for form in ("functional", "in-place", "out") if form in forms[name])
            lines.append(f"| `{name}` | {kind[name][1]} | {shown or '-'} | {notes} |")
    missing = sorted(set(flags) - set(kind))
    if missing:
        raise SystemExit(f"rows that no .def file names: {', '.join(missing)}")
    lines += ["", "## Not through the table", "", "| op | why |", "| --- | --- |"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(elsewhere)]
    return "\n".join(lines) + "\n"


def environment_page() -> str:
    """The table of environment variables."""
    text = (ROOT / "src" / "base" / "env.h").read_text()
    string = r'("(?:[^"\\]|\\.)*")'
    rows = re.findall(rf"X\(\s*\w+\s*,\s*{string}\s*,\s*{string}\s*,\s*{string}\s*\)", text.replace("\\\n", "\n"))
    if not rows:
        raise SystemExit("src/base/env.h: no table found")
    lines = [
        "# Environment variables",
        "",
        "Made by `make docs` from `src/base/env.h`; do not edit. Flags: empty, `0`, `false`, `off` and `no` mean no.",
        "",
        "| variable | default | what |",
        "| --- | --- | --- |",
    ]
    for row in rows:
        name, default, what = (ast.literal_eval(cell) for cell in row)
        lines.append(f"| `{name}` | {f'`{default}`' if default else ''} | {what} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    args = parser.parse_args()
    stale = []
    for name, page in (("ops.md", ops_page()), ("environment.md", environment_page())):
        path = ROOT / "docs" / name
        if path.exists() and path.read_text() == page:
            continue
        stale.append(f"docs/{name}")
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(page)
    if args.check and stale:
        sys.exit(f"stale: {', '.join(stale)} (make docs)")
    print(f"docs: {'written: ' + ', '.join(stale) if stale else 'up to date'}")


if __name__ == "__main__":
    main()
