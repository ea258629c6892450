"""One file with many entries, to ship with a container image or to carry to another machine: a plain tar archive."""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from . import store

__all__ = ["export_archive", "import_archive"]

Progress = Callable[[int, int], None]


def _quiet(done: int, total: int) -> None:
    pass


def export_archive(
    folder: Path, archive: Path, wanted: Callable[[store.Entry], bool] | None = None, progress: Progress = _quiet
) -> int:
    """Writes the sound entries (those that are ``wanted``) to an archive, whole or not at all; returns their number."""
    paths = sorted(store.files(folder))
    part = archive.with_name(archive.name + f".part{os.getpid()}")
    count = 0
    try:
        with tarfile.open(part, "w") as tar:
            for done, path in enumerate(paths, 1):
                try:
                    data = path.read_bytes()
                    keep = store.check(data) is None and (wanted is None or wanted(store.read(path)))
                except (store.CacheError, OSError):  # removed meanwhile, or not sound: not exported
                    keep = False
                if keep:
                    info = tarfile.TarInfo(f"{store.FORMAT}/{path.parent.name}/{path.name}")
                    info.size, info.mtime = len(data), int(path.stat().st_mtime)
                    tar.addfile(info, io.BytesIO(data))
                    count += 1
                progress(done, len(paths))
        os.replace(part, archive)
    finally:
        part.unlink(missing_ok=True)
    return count


def _target(folder: Path, name: str) -> Path | None:
    """Where a member belongs; None for a name that is not exactly an entry's, whatever it tries to say."""
    parts = name.split("/")
    if len(parts) != 3 or parts[0] != store.FORMAT or not parts[2].endswith(".tpe"):
        return None
    digits = parts[1] + parts[2].removesuffix(".tpe")
    if len(parts[1]) != 2 or len(digits) != 32 or not set(digits) <= set("0123456789abcdef"):
        return None
    return folder.joinpath(*parts)


def put(folder: Path, target: Path, data: bytes) -> None:
    """Writes an entry as the core does: beside, synced, renamed."""
    temp = folder / store.FORMAT / "tmp" / f"{os.getpid()}-{target.parent.name}{target.stem}"
    for path in (temp.parent, target.parent):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with temp.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp, target)
    finally:
        temp.unlink(missing_ok=True)


def import_archive(folder: Path, archive: Path, progress: Progress = _quiet) -> tuple[int, int]:
    """Adds an archive's sound entries; returns how many were added and how many were refused. What is there already stays."""
    added = refused = 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar.getmembers()
            for done, member in enumerate(members, 1):
                target = _target(folder, member.name) if member.isreg() else None
                file = tar.extractfile(member) if target else None
                data = file.read() if file else b""
                if not target or store.check(data) is not None:
                    refused += 1
                elif not target.exists():
                    put(folder, target, data)
                    added += 1
                progress(done, len(members))
    except (tarfile.ReadError, EOFError, zlib.error) as error:
        why = str(error).splitlines()[0].rstrip(":")
        raise store.CacheError(f"{archive} is no whole archive of `cache export`: {why}") from error
    return added, refused
