"""A process that runs jobs, and the pipe to it. The process may crash or hang: its job gets that for a result."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jobs import Job

__all__ = ["Worker"]

# From best to worst; a job is as good as its worst case.
_ORDER = ["skip", "pass", "unsupported", "error", "wrong", "hang", "crash"]
# Compiled programs live as long as the process: past this it is replaced by a fresh one.
_MOST_MEMORY = 6 << 30


class Worker:
    """One process. ``ask`` always answers."""

    def __init__(self, device: str, patience: float) -> None:
        self.device, self.patience = device, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.NamedTemporaryFile(prefix="conformance-", suffix=".log")  # noqa: SIM115
        self._unread = b""

    def ask(self, job: Job) -> dict[str, Any]:
        """The result of a job: status, reason, how many cases there were and passed, seconds."""
        begin, done = time.monotonic(), 0
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(job.as_dict()).encode() + b"\n")
            self._process.stdin.flush()
        while True:
            message = self._read(self.patience)
            if message and "result" in message:
                if message["memory"] > _MOST_MEMORY:
                    self.stop()
                return message["result"]
            if message:
                done = message["case"]
                continue
            code = self.stop()
            status, reason = "hang", f"no answer to case {done} in {self.patience:.0f} s"
            if message is not None:
                how = signal.Signals(-code).name if code < 0 else f"exit {code}"
                status, reason = "crash", f"{how} in case {done}: {self._last_words()}"
            return {
                **{"status": status, "reason": reason, "cases": done + 1, "passed": 0},
                **{"strict": False, "seconds": round(time.monotonic() - begin, 2)},
            }

    def stop(self) -> int:
        """Ends the process, which is given a moment to die by itself. Its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()
        return process.wait()

    def _start(self) -> None:
        self._log.truncate(0)
        self._unread = b""
        command = [sys.executable, __file__, self.device]
        environment = {"OMP_NUM_THREADS": "1", **os.environ}  # the host side's barriers spin on busy cores
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log.file, env=environment)
        if not self._read(300):
            self.stop()
            raise SystemExit(f"a worker did not come up:\n{self._last_words(2000)}")

    def _read(self, patience: float) -> dict[str, Any] | None:
        """The next message; None when time is up, {} when the process is gone."""
        assert self._process is not None and self._process.stdout is not None
        source, end = self._process.stdout.fileno(), time.monotonic() + patience
        while b"\n" not in self._unread:
            if not select.select([source], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            data = os.read(source, 1 << 16)
            if not data:
                return {}
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return json.loads(line)

    def _last_words(self, most: int = 200) -> str:
        lines = [line.strip() for line in Path(self._log.name).read_text(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("F") or "terminate called" in line or "what()" in line]
        return " ".join((fatal or lines)[-1:])[:most] if most < 1000 else "\n".join(lines)[-most:]


def _run(job: Job, device: str, say: Any) -> dict[str, Any]:
    """Runs one job in this process."""
    from jobs import cases
    from outcome import brief, judge

    begin = time.monotonic()
    result: dict[str, Any] = {"status": "skip", "reason": "", "cases": 0, "passed": 0, "strict": True}
    source = cases(job)
    for i in range(1 << 20):
        try:
            case = next(source)
        except StopIteration:
            break
        except Exception as error:  # the database itself has no such samples
            result["reason"] = result["reason"] or "no samples: " + brief(error)
            break
        say({"case": i})
        verdict = judge(case, device)
        result["cases"] += verdict.status != "skip"
        result["passed"] += verdict.status == "pass"
        result["strict"] &= verdict.strict
        if _ORDER.index(verdict.status) > _ORDER.index(result["status"]):
            result.update(status=verdict.status, reason=verdict.reason)
    return {**result, "seconds": round(time.monotonic() - begin, 2)}


def _serve(device: str) -> None:
    """Reads jobs from standard input and answers on what was standard output; all that is printed goes to the log."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    torch.set_warn_always(True)
    import operators  # noqa: F401  (the database takes seconds to import)

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")

    say({"case": 0})
    for line in sys.stdin:
        result = _run(Job(**json.loads(line)), device, say)
        say({"result": result, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10})


if __name__ == "__main__":
    _serve(sys.argv[1])
