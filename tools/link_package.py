"""Makes the package in this folder importable in the environment that runs this, entry point included, without a copy.

What `pip install -e .` does, but in a moment and without building again: a path file and the package's metadata.
"""

import pathlib
import sysconfig
import tomllib

root = pathlib.Path(__file__).resolve().parent.parent
site = pathlib.Path(sysconfig.get_paths()["purelib"])
project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
info = site / f"{project['name']}-{project['version']}.dist-info"
info.mkdir(exist_ok=True)
(site / "torch_tpu_in_place.pth").write_text(f"{root}\n")
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
(info / "INSTALLER").write_text("make\n")
(info / "RECORD").write_text("torch_tpu_in_place.pth,,\n")
lines = []
for group, entries in project.get("entry-points", {}).items():
    lines.append(f"[{group}]")
    lines += [f"{name} = {target}" for name, target in entries.items()]
(info / "entry_points.txt").write_text("\n".join(lines) + "\n")
