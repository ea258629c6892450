"""``python -m torch_tpu cache ...``: shows, prunes, checks, ships and fills the compile cache."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import sys
import time
from pathlib import Path

from . import archive, store

__all__ = ["add_to"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _size(text: str) -> int:
    """Bytes of "200M", "1.5G", "4096"."""
    found = re.fullmatch(r"([\d.]+)\s*([kmgt]?)i?b?", text.strip().lower())
    try:
        return int(float(found.group(1)) * _UNITS[found.group(2)])  # type: ignore[union-attr]
    except (AttributeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is no size (as 4096, 200M, 1.5G)") from None


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _age(moment: float) -> str:
    seconds = max(0.0, time.time() - moment)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Columns as wide as their widest cell; numbers are the caller's to word."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def _progress(what: str):
    """A line on a terminal that is written over; nothing elsewhere."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{what} {done}/{total}" + ("\n" if done == total else ""))
            sys.stderr.flush()

    return show


def _folder(options: argparse.Namespace) -> Path:
    folder = Path(options.dir) if options.dir else store.directory()
    if folder is None:
        raise store.CacheError("the cache is off (TORCH_TPU_CACHE=0), or there is no home directory to keep it in")
    return folder


# ---- the commands


def _stats(options: argparse.Namespace) -> int:
    folder = _folder(options)
    found = store.stats(folder)
    rows = [["directory", str(folder)], ["entries", str(found["entries"])], ["size", _bytes(found["bytes"])]]
    rows.append(["compile time kept", f"{found['compile_seconds']:.1f} s"])
    if found["entries"]:
        rows += [["last use", f"{_age(found['newest_use'])} ago"], ["longest unused", _age(found["oldest_use"])]]
    limit = os.environ.get("TORCH_TPU_CACHE_MAX_BYTES")
    rows.append(["limit", _bytes(int(limit)) if limit and limit.isdigit() else "8.0 GiB"])
    remote = os.environ.get("TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT")
    rows.append(["remote", remote or "none"])
    print(_table(["what", "value"], rows))
    return 0


def _list(options: argparse.Namespace) -> int:
    orders = {
        "used": lambda e: -e.used,
        "size": lambda e: -e.bytes,
        "time": lambda e: -e.compile_seconds,
        "name": lambda e: e.name,
    }
    found = sorted(store.entries(_folder(options)), key=orders[options.sort])
    shown = found if options.all else found[: options.limit]
    rows = []
    for e in shown:
        compiled = f"{e.compile_seconds * 1e3:.0f} ms"
        rows.append([e.key[:12], e.name, str(e.ops), e.platform, _bytes(e.bytes), compiled, _age(e.used)])
    print(_table(["key", "program", "ops", "platform", "size", "compiled in", "unused for"], rows))
    if len(shown) < len(found):
        print(f"... and {len(found) - len(shown)} more (--all)")
    return 0


def _show(options: argparse.Namespace) -> int:
    entry = store.find(_folder(options), options.key)
    print(f"key       {entry.key}\nfile      {entry.path}\nsize      {_bytes(entry.bytes)}")
    print(f"written   {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(entry.created))} by build {entry.build}")
    print(f"compiled  in {entry.compile_seconds * 1e3:.1f} ms\n\n{entry.context}\n{entry.text}")
    return 0


def _prune(options: argparse.Namespace) -> int:
    result = store.prune(_folder(options), 0 if options.all else options.to)
    print(
        f"removed {result.removed} entries ({_bytes(result.removed_bytes)}), "
        f"kept {result.kept} ({_bytes(result.kept_bytes)} on disk)"
    )
    return 0


def _verify(options: argparse.Namespace) -> int:
    folder = _folder(options)
    total, bad, show = sum(1 for _ in store.files(folder)), [], _progress("checked")
    for done, (path, why) in enumerate(store.verify(folder), 1):
        if why:
            bad.append(path)
            print(f"{path}: {why}")
            if options.remove:
                path.unlink(missing_ok=True)
        show(done, total)
    print(f"{total} entries, {len(bad)} bad" + (", removed" if bad and options.remove else ""))
    return 1 if bad and not options.remove else 0


def _export(options: argparse.Namespace) -> int:
    count = archive.export_archive(_folder(options), Path(options.file), progress=_progress("exported"))
    print(f"{count} entries in {options.file} ({_bytes(Path(options.file).stat().st_size)})")
    return 0


def _import(options: argparse.Namespace) -> int:
    added, refused = archive.import_archive(_folder(options), Path(options.file), _progress("imported"))
    print(f"{added} entries added, {refused} refused")
    return 1 if refused else 0


def _warm(options: argparse.Namespace) -> int:
    """Runs the script as `python script.py` would, but the device only compiles."""
    from .. import metrics

    if not Path(options.script).is_file():
        print(f"there is no script {options.script}", file=sys.stderr)
        return 2
    if not options.execute:
        os.environ["TORCH_TPU_COMPILE_ONLY"] = "1"
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, str(Path(options.script).resolve().parent))
    status, failed = 0, False
    try:
        runpy.run_path(options.script, run_name="__main__")
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(f"the script ended with: {end.code}", file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:  # values are not real: a script's own check of them may fail, what it compiled until then counts
        failed = True
        print(f"the script ended early: {type(error).__name__}: {error}", file=sys.stderr)
        status = 1 if options.execute else 0
    store.flush()
    found = metrics.counters()
    kept = found["cache_hits_disk"] + found["cache_hits_remote"]
    if failed and not found["compiles"] + kept:
        status = 1  # it ended before it used the device: nothing was warmed
    print(f"compiled {found['compiles']} programs, {kept} were in the cache", file=sys.stderr)
    return status


def add_to(commands: argparse._SubParsersAction) -> None:
    """Adds the command ``cache`` and what is below it."""
    parser = commands.add_parser("cache", help="the compile cache: show, prune, check, ship, fill")
    parser.add_argument("--dir", help="its directory, if not the one in use")
    below = parser.add_subparsers(dest="action", required=True)

    def add(name: str, run, text: str) -> argparse.ArgumentParser:
        part = below.add_parser(name, help=text, description=text)
        part.set_defaults(run=lambda options: _guarded(run, options))
        return part

    add("stats", _stats, "how many entries, how large, how much compile time they save")
    part = add("list", _list, "the entries")
    part.add_argument("--sort", choices=["used", "size", "time", "name"], default="used")
    part.add_argument("--limit", type=int, default=40, help="rows at most (default: 40)")
    part.add_argument("--all", action="store_true", help="all rows")
    add("show", _show, "one entry: what it depends on, its program").add_argument("key", help="the key, or how it begins")
    part = add("prune", _prune, "removes what was not used for longest")
    group = part.add_mutually_exclusive_group(required=True)
    group.add_argument("--to", type=_size, help="until the rest is no larger than this (as 200M)")
    group.add_argument("--all", action="store_true", help="everything")
    add("verify", _verify, "checks every entry").add_argument("--remove", action="store_true", help="removes the bad ones")
    add("export", _export, "one archive file of all sound entries").add_argument("file", help="the archive to make, a tar file")
    add("import", _import, "adds the entries of an archive").add_argument("file", help="what export made")
    part = add("warm", _warm, "fills the cache: runs a script on the device in compile-only fashion, its numbers are zeros")
    part.add_argument("--execute", action="store_true", help="compute as well, for scripts whose flow depends on values")
    part.add_argument("script")
    part.add_argument("arguments", nargs=argparse.REMAINDER)


def _guarded(run, options: argparse.Namespace) -> int:
    try:
        return run(options)
    except (store.CacheError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
