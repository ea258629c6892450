"""The compile cache as seen from Python: where it is, what is in it, archives of it, and its remote place.

The cache itself is in the C core. ``python -m torch_tpu cache`` is the command line.
"""

from __future__ import annotations

from .archive import export_archive, import_archive
from .store import CacheError, Entry, directory, entries, find, flush, prune, stats, verify

__all__ = [
    "CacheError",
    "Entry",
    "directory",
    "entries",
    "export_archive",
    "find",
    "flush",
    "import_archive",
    "prune",
    "stats",
    "verify",
]
