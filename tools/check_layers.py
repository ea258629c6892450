"""Checks the shape of the tree: includes go down only, files stay under 600 lines, C++ lives in glue/ alone."""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
# What each room may include besides itself.
MAY = {"base": set(), "ir": {"base"}, "ops": {"ir", "base"}, "pjrt": {"base"}, "cache": {"base"}}
MAY["run"] = {"ops", "ir", "pjrt", "cache", "base"}
LIMIT = 600


def faults() -> list[str]:
    """One line a fault."""
    found = []
    files = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.split()
    for name in files:
        path = root / name
        if path.suffix not in {".c", ".h", ".cpp", ".py", ".def"} or not path.exists():
            continue
        text = path.read_text()
        lines = text.count("\n")
        if lines > LIMIT:
            found.append(f"{name}: {lines} lines, more than {LIMIT}: two nouns?")
        if path.suffix == ".cpp" and path.parts[len(root.parts)] != "glue":
            found.append(f"{name}: C++ outside glue/")
        room = path.parts[len(root.parts) + 1] if name.startswith("src/") else None
        for include in re.findall(r'#include "([^"]+)"', text) if room else []:
            top = include.split("/")[0]
            if top in MAY and top != room and top not in MAY[room]:
                found.append(f"{name}: {room} may not include {include}")
            if "pjrt_c_api" in include and room != "pjrt":
                found.append(f"{name}: only pjrt sees the PJRT header")
        if name.startswith("glue/"):
            for include in re.findall(r'#include "([^"]+)"', text):
                if "/" in include and not include.startswith("tpt/"):
                    found.append(f"{name}: glue sees the core through tpt/tpt.h alone, not {include}")
    return found


if __name__ == "__main__":
    bad = faults()
    print("\n".join(bad) if bad else "layers: fine")
    sys.exit(bool(bad))
