"""``python -m torch_tpu``: the command line."""

from __future__ import annotations

import argparse
import sys

from .cache import command


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torch_tpu", description="Tools of the tpu device.")
    commands = parser.add_subparsers(dest="command", required=True)
    command.add_to(commands)
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
