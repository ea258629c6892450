"""Reads the cache's directory. Checking and pruning are the core's: they must agree with what it does at run time."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CacheError", "Entry", "Pruned", "directory", "entries", "find", "flush", "prune", "stats", "verify"]

FORMAT = "v1"
# As src/cache/entry.c lays it out: magic, format, header bytes, hash (low, high), bytes of context, text and program, time of
# writing, nanoseconds that the compiler took, the build that wrote it.
_HEADER = struct.Struct("<QIIQQQQQQQ16s")
_MAGIC = 0x0A1A457050546F54


class CacheError(Exception):
    """An entry that cannot be used; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One compiled program of the cache, as its header describes it."""

    path: Path
    key: str
    bytes: int
    created: int
    compile_seconds: float
    build: str
    context: str
    text: str
    used: float

    @property
    def name(self) -> str:
        """What was compiled: an op's name, or ``graph``."""
        found = re.match(r"module @([\w.]+)", self.text)
        return found.group(1) if found else "?"

    @property
    def ops(self) -> int:
        """Number of StableHLO operations."""
        return self.text.count("stablehlo.")

    @property
    def platform(self) -> str:
        """The platform it was compiled for."""
        found = re.search(r"^platform (.*)$", self.context, re.M)
        return found.group(1) if found else "?"


class _Pruned(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("removed", "removed_bytes", "kept", "kept_bytes")]


@dataclass(frozen=True)
class Pruned:
    """What a pruning removed and left."""

    removed: int
    removed_bytes: int
    kept: int
    kept_bytes: int


@functools.cache
def _core() -> ctypes.CDLL:
    """The core's library; it is loaded already, by the extension module."""
    core = ctypes.CDLL(str(Path(__file__).resolve().parent.parent / "libtpt.so"))
    core.tpt_cache_dir.restype = ctypes.c_char_p
    core.tpt_cache_check.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    core.tpt_cache_check.restype = ctypes.c_void_p
    core.tpt_cache_prune.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(_Pruned)]
    core.tpt_cache_prune.restype = ctypes.c_void_p
    core.tpt_status_message.argtypes = [ctypes.c_void_p]
    core.tpt_status_message.restype = ctypes.c_char_p
    core.tpt_status_free.argtypes = [ctypes.c_void_p]
    core.tpt_status_free.restype = None
    core.tpt_cache_flush.restype = None
    return core


def _failure(status: int | None) -> str | None:
    """The message of a status, which is freed; None if all is well."""
    if not status:
        return None
    text = _core().tpt_status_message(status).decode(errors="replace")
    _core().tpt_status_free(status)
    return text


def directory() -> Path | None:
    """The directory that the environment names now; None when the cache is off."""
    path = _core().tpt_cache_dir().decode()
    return Path(path) if path else None


def flush() -> None:
    """Waits until all that this process has compiled is written."""
    _core().tpt_cache_flush()


def check(data: bytes) -> str | None:
    """Why these bytes are no sound entry; None if they are one."""
    return _failure(_core().tpt_cache_check(data, len(data)))


def files(folder: Path) -> Iterator[Path]:
    """The files of all entries, in no order."""
    yield from (folder / FORMAT).glob("[0-9a-f][0-9a-f]/*.tpe")


def key_of(path: Path) -> str:
    """The 32 hexadecimal digits of an entry's key."""
    return path.parent.name + path.stem


def read(path: Path, whole: bool = False) -> Entry:
    """One entry; its header and key only, unless ``whole``: then its checksum is checked too."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise CacheError(f"only {len(head)} bytes long")
        magic, version, size, low, high, n_context, n_text, n_blob, created, compile_ns, build = _HEADER.unpack(head)
        if magic != _MAGIC or f"v{version}" != FORMAT or size != _HEADER.size:
            raise CacheError("not an entry of this cache's format")
        info = path.stat()
        if info.st_size != _HEADER.size + n_context + n_text + n_blob + 16:
            raise CacheError(f"{info.st_size} bytes long, its header says otherwise")
        context, text = file.read(n_context), file.read(n_text)
    if whole and (why := check(path.read_bytes())):
        raise CacheError(why)
    key = f"{high:016x}{low:016x}"
    if key != key_of(path):
        raise CacheError("its name is not that of its key")
    return Entry(
        path,
        key,
        info.st_size,
        created,
        compile_ns / 1e9,
        build.rstrip(b"\0").decode(errors="replace"),
        context.decode(errors="replace"),
        text.decode(errors="replace"),
        info.st_mtime,
    )


def entries(folder: Path) -> Iterator[Entry]:
    """All entries that can be read."""
    for path in files(folder):
        try:
            yield read(path)
        except (CacheError, OSError):
            continue


def find(folder: Path, prefix: str) -> Entry:
    """The one entry whose key begins so."""
    found = [path for path in files(folder) if key_of(path).startswith(prefix.lower())]
    if len(found) != 1:
        raise CacheError(f"{len(found)} entries have a key that begins with {prefix!r}")
    return read(found[0])


def verify(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Each entry's file with what is wrong with it, or None."""
    for path in files(folder):
        try:
            read(path, whole=True)
            yield path, None
        except (CacheError, OSError) as problem:
            yield path, str(problem)


def prune(folder: Path, most_bytes: int) -> Pruned:
    """Removes the longest unused entries until the rest fits."""
    result = _Pruned()
    why = _failure(_core().tpt_cache_prune(str(folder).encode(), most_bytes, ctypes.byref(result)))
    if why:
        raise CacheError(why)
    return Pruned(result.removed, result.removed_bytes, result.kept, result.kept_bytes)


def stats(folder: Path) -> dict[str, int | float]:
    """Number and bytes of the entries, the compile time that they save each process, their times of use."""
    count = total = 0
    seconds, oldest, newest = 0.0, 0.0, 0.0
    for entry in entries(folder):
        count += 1
        total += entry.bytes
        seconds += entry.compile_seconds
        oldest = min(oldest or entry.used, entry.used)
        newest = max(newest, entry.used)
    return {"entries": count, "bytes": total, "compile_seconds": seconds, "oldest_use": oldest, "newest_use": newest}
