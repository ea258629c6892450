"""What there is to run: a job is (kind, name, dtype). Which of them, in which order, with how many samples."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["DTYPES", "KINDS", "Job", "all_jobs", "cases", "fast_jobs", "shard"]

KINDS = ["forward", "grad", "inplace", "out", "strided", "refusal", "module", "optimizer"]
DTYPES = [
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"),
    *("complex64", "complex128"),
]


@dataclass(frozen=True)
class Job:
    kind: str
    name: str
    dtype: str
    samples: int = 0
    """How many samples of the database; 0: all."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.name, self.dtype

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.dtype}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _of(kind: str) -> tuple[list[str], Callable[[str, str], set[str]]]:
    import operators
    import parts

    return (operators.names(), operators.dtypes) if kind in operators.KINDS else (parts.names(kind), parts.dtypes)


def all_jobs(kinds: list[str], wanted: list[str]) -> list[Job]:
    """All jobs of some kinds and dtypes, in a fixed shuffled order, so that a run cut short is a fair sample."""
    jobs = []
    for kind in kinds:
        names, dtypes = _of(kind)
        jobs += [Job(kind, name, d) for name in names for d in sorted(dtypes(kind, name)) if d in wanted or d == "-"]
    random.Random(0).shuffle(jobs)
    return jobs


def fast_jobs(rotation: int = 0, samples: int = 2) -> list[Job]:
    """Modules, optimizers, each op forward in float32, and in one more kind and dtype, which the rotation chooses."""
    jobs = []
    others: dict[str, list[Job]] = {}
    for job in all_jobs(KINDS, DTYPES):
        if job.dtype == "float32" and job.kind in ("forward", "module", "optimizer"):
            jobs.append(Job(*job.key, samples))
        elif job.kind not in ("module", "optimizer"):
            others.setdefault(job.name, []).append(job)
    for name, choice in others.items():
        pick = sorted(choice, key=str)[zlib.crc32(f"{name} {rotation}".encode()) % len(choice)]
        jobs.append(Job(*pick.key, samples))
    return jobs


def shard(jobs: list[Job], text: str) -> list[Job]:
    """Part i of n, written ``i/n``."""
    i, n = map(int, text.split("/"))
    if not 0 <= i < n:
        raise ValueError(f"--shard {text}: wanted i/n with 0 <= i < n")
    return jobs[i::n]


def cases(job: Job) -> Iterator[Any]:
    """The cases of a job."""
    import operators
    import parts

    return {**operators.KINDS, **parts.KINDS}[job.kind](job.name, job.dtype, job.samples)
