"""Counters since the start of the process: what was compiled, executed and copied."""

from __future__ import annotations

from . import _C

__all__ = ["counters", "reset"]


def counters() -> dict[str, int]:
    """All counters by name: ``compiles``, ``executes``, ``plan_hits``, ``h2d_bytes``, ``host_waits`` and so on."""
    return _C.counters()


def reset() -> None:
    """Sets all counters to zero."""
    _C.counters_reset()
