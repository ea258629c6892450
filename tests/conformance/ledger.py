"""The ledger: which jobs do not pass, and why. One line an op, kind and reason:

    kind  name  dtype,dtype,...  status: why

Lines are sorted; what follows the dtypes is free text, kept when the ledger is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["Ledger"]

_HEAD = """\
# What does not pass, and why: kind, name, dtypes, reason. `run.py --update` rewrites it from a run (docs: README.md beside it);
# reasons written by hand stay for as long as their job does not pass. A job that fails and is not here fails `make test`.
"""
_MOST_REASON = 160
# What the machine's reasons begin with; others are written by hand and stay.
_STATUSES = {"", "unsupported", "error", "wrong", "hang", "crash"}
Key = tuple[str, str, str]


class Ledger:
    """Jobs by key (kind, name, dtype), each with a reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reasons: dict[Key, str] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split(None, 3)
            if len(words) != 4:
                raise ValueError(f"{path}:{number}: wanted kind, name, dtypes, reason")
            kind, name, dtypes, reason = words
            for dtype in dtypes.split(","):
                self.reasons[kind, name, dtype] = reason

    def __contains__(self, key: Key) -> bool:
        return key in self.reasons

    def update(self, failed: dict[Key, str], passed: Iterable[Key]) -> None:
        """Takes in a run: new failures with their reasons, without those that pass now."""
        for key in passed:
            self.reasons.pop(key, None)
        for key, reason in failed.items():
            if self.reasons.get(key, "").partition(":")[0] in _STATUSES or key not in self.reasons:
                self.reasons[key] = " ".join(reason.split())[:_MOST_REASON]

    def write(self) -> None:
        lines: dict[tuple[str, str, str], list[str]] = {}
        for (kind, name, dtype), reason in self.reasons.items():
            lines.setdefault((kind, name, reason), []).append(dtype)
        rows = sorted((name, kind, ",".join(sorted(dtypes)), reason) for (kind, name, reason), dtypes in lines.items())
        text = "".join(f"{kind:9} {name:40} {dtypes}  {reason}\n" for name, kind, dtypes, reason in rows)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(_HEAD + text)
        temporary.replace(self.path)
