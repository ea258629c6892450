"""``torch_tpu.explain``: which programs a piece of code became, where it was cut and why."""

from __future__ import annotations

import dataclasses
import html
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import _C

__all__ = ["Cut", "Explanation", "explain"]

_WAYS = ("dropped", "op by op", "hit", "compiled", "failed, then op by op", "op by op, compiling")


@dataclasses.dataclass(frozen=True)
class Cut:
    """One cut: the recorded ops that were run together, or dropped because nobody could see their results any more."""

    reason: str
    """Why it was cut here: "host read", "loop body", "synchronize", ..."""
    way: str
    """"hit" and "compiled": as one program; "op by op": a graph met for the first time, or
    whose program is being compiled; "dropped": nothing was run."""
    when_ns: int
    taken_ns: int
    """Host time of the cut: look-up, compiling if any, the execute call. In nanoseconds, as `when_ns`."""
    execute_ns: int
    """Of it the plugin's execute call."""
    result_bytes: int
    """Of the values that left the program."""
    temporary_bytes: int
    """That the compiled program needs while it runs, beside its inputs and results; -1 where nobody tells."""
    program: int
    """Equal for equal programs: in hexadecimal, its file's name in the folder that ``TORCH_TPU_DUMP`` names."""
    device: int
    nodes: int
    """Recorded ops."""
    inputs: int
    results: int
    donated: int
    """Inputs whose memory a result took over."""
    gathers: int
    """Views that could only be read by gathering, element by element."""
    views: int
    """Views that were decoded inside the program."""
    first: str
    last: str


class Explanation:
    """What was cut while the code ran. ``print`` it for a table; ``svg()`` draws it."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.counters: dict[str, int] = {}
        self.value: Any = None
        """What the function returned."""

    @property
    def programs(self) -> int:
        """Different programs that were run as a whole."""
        return len({cut.program for cut in self.cuts if cut.way in ("hit", "compiled")})

    @property
    def ops(self) -> int:
        """Ops that were recorded."""
        return sum(cut.nodes for cut in self.cuts)

    def reasons(self) -> dict[str, int]:
        """How often each reason led to a cut, the commonest first."""
        return dict(Counter(cut.reason for cut in self.cuts).most_common())

    def _groups(self) -> list[tuple[Cut, list[Cut]]]:
        """Cuts of equal programs with equal reasons, in the order of their first appearance."""
        groups: dict[tuple[object, ...], list[Cut]] = {}
        for cut in self.cuts:
            groups.setdefault((cut.program, cut.reason, cut.way, cut.nodes, cut.first, cut.last), []).append(cut)
        return [(cuts[0], cuts) for cuts in groups.values()]

    def advice(self) -> list[str]:
        """Sentences on what costs time here, if anything does."""
        texts = []
        fresh = [cut for cut in self.cuts if cut.way == "op by op"]
        if len(fresh) > 3 and len(fresh) > len(self.cuts) // 2:
            texts.append(
                f"{len(fresh)} of {len(self.cuts)} graphs were met for the first time and ran op by op: "
                "nothing repeats. Keep shapes and the order of ops equal from step to step."
            )
        reads = sum(cut.reason == "host read" for cut in self.cuts)
        if reads > 1:
            texts.append(f"{reads} cuts are host reads (item, print, cpu, a size from data): read less often, or later.")
        gathers = sum(cut.gathers for cut in self.cuts)
        if gathers:
            texts.append(f"{gathers} overlapping views were read by gathering element by element.")
        return texts

    def __str__(self) -> str:
        heads = ("ops", "from ... to", "times", "why cut", "how", "in", "out", "donated", "views", "MB out", "MB inside")
        rows = [(*heads, "host ms")]
        for cut, cuts in self._groups():
            span = cut.first if cut.nodes == 1 else f"{cut.first} ... {cut.last}"
            rows.append(
                (
                    str(cut.nodes),
                    span,
                    str(len(cuts)),
                    cut.reason,
                    cut.way,
                    str(cut.inputs),
                    str(cut.results),
                    str(cut.donated),
                    str(cut.views),
                    f"{cut.result_bytes / 1e6:.2f}",
                    f"{cut.temporary_bytes / 1e6:.2f}" if cut.temporary_bytes >= 0 else "-",
                    f"{sum(c.taken_ns for c in cuts) / len(cuts) / 1e6:.2f}",
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        executes, compiles = self.counters.get("executes", 0), self.counters.get("compiles", 0)
        lines.append(
            f"{self.ops} ops in {len(self.cuts)} cuts: {executes} executions, {self.programs} different programs, "
            f"{compiles} compiled, {self.counters.get('donations', 0)} buffers donated."
        )
        return "\n".join(lines + self.advice())

    def svg(self) -> str:
        """The cuts as boxes from left to right, as wide as they have ops, coloured by how they ran."""
        colours = {"hit": "#8fc98f", "compiled": "#f2c879", "op by op": "#9db8e0", "op by op, compiling": "#c9d8f0"}
        colours["dropped"] = "#dddddd"
        shown, x, boxes = self.cuts[:500], 10, []
        for cut in shown:
            width = 14 + min(cut.nodes, 60) * 2
            label = html.escape(
                f"{cut.nodes} ops, {cut.first} to {cut.last}; cut by {cut.reason}; {cut.way}; "
                f"{cut.inputs} in, {cut.results} out, {cut.donated} donated; {cut.taken_ns / 1e6:.2f} ms"
            )
            boxes.append(
                f'<g><title>{label}</title><rect x="{x}" y="20" width="{width}" height="40" rx="4" '
                f'fill="{colours.get(cut.way, "#e09d9d")}" stroke="#555"/><text x="{x + width / 2}" y="45" '
                f'font-size="11" text-anchor="middle" font-family="sans-serif">{cut.nodes}</text></g>'
            )
            x += width + 6
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="{x + 10}" height="80">{"".join(boxes)}</svg>'

    def __enter__(self) -> Explanation:
        self._before = _C.counters()
        _C.explain_start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if kind is None and _C.is_open():  # what is still recorded belongs to it
            for device in range(_C.device_count()):
                _C.synchronize(device)
        after = _C.counters()
        self.counters = {name: after[name] - self._before.get(name, 0) for name in after}
        self.cuts = [Cut(note[0], _WAYS[note[1]], *note[2:]) for note in _C.explain_stop()]


def explain(fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Explanation:
    """Tells which programs ``fn(*args, **kwargs)`` became, where it was cut and why.

    ``print(torch_tpu.explain(step))`` prints a table. Without a function it is a context manager::

        with torch_tpu.explain() as told:
            step()
        print(told)

    The code is synchronised at its end. Ops of all threads and devices are counted. At most the last 65,536 cuts are kept.
    """
    told = Explanation()
    if fn is None:
        return told
    with told:
        told.value = fn(*args, **kwargs)
    return told
