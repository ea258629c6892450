"""Carries entries between the cache's directory and a remote place. The core starts it as a process (src/cache/remote.c).

It is run by its path and imports nothing of the package, so that it starts fast. Orders come as lines on standard input,
answers go as lines to standard output. When the input ends it finishes its uploads and ends too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

LINGER = 60.0  # seconds that uploads may take after the process that ordered them has ended
CLAIM_LIFE = 30.0  # seconds after which a claim that was seen all the time belongs to a host that died
CLAIM_POLL = 0.1


class Remote:
    """One place. Fails with whatever its file system raises."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.files, root = fsspec.core.url_to_fs(url)
        self.root = root.rstrip("/")
        self.local = "file" in (self.files.protocol if isinstance(self.files.protocol, tuple) else (self.files.protocol,))
        self.me = f"{os.uname().nodename}-{os.getpid()}-{random.getrandbits(64):x}".encode()

    def path(self, key: str, ending: str = "tpe") -> str:
        """Where an entry is."""
        return f"{self.root}/v1/{key[:2]}/{key[2:]}.{ending}"

    def get(self, key: str) -> bytes | None:
        """An entry's bytes, unchecked; None if there is none."""
        try:
            return self.files.cat_file(self.path(key))
        except FileNotFoundError:
            return None

    def _write(self, path: str, data: bytes) -> None:
        """Whole or not at all: object stores do so by themselves."""
        if not self.local:
            self.files.pipe_file(path, data)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{self.me.decode()}"
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)

    def put(self, key: str, data: bytes, replace: bool) -> None:
        """Uploads an entry and ends the claim on it."""
        path = self.path(key)
        if replace or not self.files.exists(path):
            self._write(path, data)
        self.unclaim(key)

    def claim(self, key: str) -> bool:
        """True: nobody else is at work on the key. Not exact on places that cannot create a file exclusively."""
        path = self.path(key, "claim")
        if self.local:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                with open(path, "xb") as file:
                    file.write(self.me)
                return True
            except FileExistsError:
                return False
        self.files.invalidate_cache()
        if self.files.exists(path):
            return False
        self.files.pipe_file(path, self.me)
        return self.files.cat_file(path) == self.me

    def unclaim(self, key: str) -> None:
        """Takes a claim away, ours or one whose host died."""
        with contextlib.suppress(Exception):  # gone already, or to be ignored when it has grown old
            self.files.rm_file(self.path(key, "claim"))


class Transport:
    """Takes orders until the input ends."""

    def __init__(self, url: str, folder: str) -> None:
        self.url, self.folder = url, folder
        self.remote: Remote | None = None
        self.opening = threading.Lock()
        self.output = threading.Lock()
        self.readers = ThreadPoolExecutor(8)
        self.made: set[str] = set()  # compiled here
        self.uploads: queue.Queue[tuple[str, bool] | None] = queue.Queue(4096)

    def say(self, *words: str) -> None:
        """One line to whoever ordered."""
        line = " ".join(words).replace("\n", " ")[:1000] + "\n"
        with self.output, contextlib.suppress(OSError):  # perhaps nobody listens any more
            os.write(1, line.encode())

    def place(self) -> Remote:
        """The remote place, opened at first use."""
        with self.opening:
            if self.remote is None:
                self.remote = Remote(self.url)
            return self.remote

    def file(self, key: str) -> str:
        """The entry in the directory."""
        return os.path.join(self.folder, key[:2], key[2:] + ".tpe")

    def keep(self, key: str, data: bytes) -> None:
        """Into the directory, whole or not at all."""
        temp = os.path.join(self.folder, "tmp", f"{os.getpid()}-{key}")
        path = self.file(key)
        for folder in (os.path.dirname(temp), os.path.dirname(path)):
            os.makedirs(folder, 0o700, exist_ok=True)
        try:
            with open(temp, "wb") as file:
                file.write(data)
            os.replace(temp, path)
        except BaseException:
            if os.path.exists(temp):
                os.unlink(temp)
            raise

    def get(self, key: str) -> None:
        """Answers hit, miss (ours to compile), or claimed and later hit or miss."""
        try:
            place = self.place()
            data = place.get(key)
            claimed = False
            end = time.monotonic() + CLAIM_LIFE
            while data is None and key not in self.made and not place.claim(key):
                if not claimed:
                    self.say("claimed", key)
                claimed = True
                time.sleep(CLAIM_POLL * random.uniform(0.5, 1.5))
                data = place.get(key)
                if data is None and time.monotonic() > end:
                    place.unclaim(key)
                    end = time.monotonic() + CLAIM_LIFE
            if data is not None:
                self.keep(key, data)
            elif key in self.made:  # the compiler was faster than this answer, and perhaps than the claim
                place.unclaim(key)
            self.say("miss" if data is None else "hit", key)
        except Exception as error:
            self.say("error", f"{type(error).__name__}: {error}")
            self.say("miss", key)

    def upload(self) -> None:
        """The one thread that uploads."""
        while (order := self.uploads.get()) is not None:
            key, replace = order
            try:
                with open(self.file(key), "rb") as file:
                    data = file.read()
                self.place().put(key, data, replace)
                self.say("put", key)
            except Exception as error:
                self.say("error", f"{type(error).__name__}: {error}")

    def order(self, word: str, key: str) -> None:
        """One order."""
        if len(key) != 32 or not set(key) <= set("0123456789abcdef"):
            return
        if word == "get":
            self.readers.submit(self.get, key)
        elif word in ("put", "replace") and not self.uploads.full():
            self.made.add(key)
            self.uploads.put((key, word == "replace"))

    def run(self) -> None:
        """Until the input ends, and then until the uploads are done."""
        uploader = threading.Thread(target=self.upload, daemon=True)
        uploader.start()
        try:
            for line in sys.stdin:
                self.order(*line.strip().partition(" ")[::2])
        except OSError:  # whoever ordered has ended without reading all answers
            pass
        self.uploads.put(None)
        uploader.join(LINGER)
        os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Transport(sys.argv[1], sys.argv[2]).run()
