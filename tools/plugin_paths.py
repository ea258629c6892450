"""Prints the paths of the CPU plugins that are installed, separated by colons."""

import importlib.util
import pathlib


def plugin_paths() -> list[str]:
    """Absolute paths of xla-cpu-pjrt's and lammps-jax-pjrt-cpu's libraries, as far as installed."""
    found = []
    for module, name in (("xla_plugins", "xla_cpu_pjrt/xla_cpu_pjrt.so"), ("lammps_jax_pjrt_cpu", "pjrt_c_api_cpu_plugin.so")):
        spec = importlib.util.find_spec(module)
        for place in (spec.submodule_search_locations or []) if spec else []:
            path = pathlib.Path(place, name)
            if path.exists():
                found.append(str(path))
    return found


if __name__ == "__main__":
    print(":".join(plugin_paths()))
