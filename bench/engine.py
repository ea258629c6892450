"""A worker process, seen from the driver: started, asked with a time limit, stopped; keeps what was measured."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 600  # seconds for one answer: a language model's first step on a busy machine

# Settings of the user's that would change what one engine does and another does not.
CLEARED = ("PYTHONPATH", "TORCH_TPU_PJRT_PLUGIN", "TPU_LIBRARY_PATH", "TORCH_TPU_DEFER_AND_FUSE", "TORCH_TPU_LAUNCH_BLOCKING")


class Engine:
    """One of those compared."""

    def __init__(
        self, name: str, kind: str, python: str, settings: dict[str, str], threads: int, without: set[str] | None = None
    ) -> None:
        self.name, self.kind, self.python, self.threads = name, kind, python, threads
        self.without = without or set()
        self.settings = settings | {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")}
        self.process: subprocess.Popen | None = None
        self.facts: dict = {}
        self.samples: dict[str, dict[str, list[float]]] = {}
        self.errors: dict[str, str] = {}

    def start(self) -> None:
        """A fresh process with its device open."""
        environment = {name: value for name, value in os.environ.items() if name not in CLEARED} | self.settings
        log = None if os.environ.get("BENCH_SHOW_LOG") else subprocess.DEVNULL
        command = [self.python, str(HERE / "worker.py"), self.kind, str(self.threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True, cwd=HERE
        )
        answer = self._answer()
        if "error" in answer:
            print(f"{self.name} does not start: {answer['error']} (BENCH_SHOW_LOG=1 shows why)", file=sys.stderr)
            self.errors["start"] = answer["error"]
            self.stop()
            return
        self.facts = self._order({"do": "facts"})

    def _answer(self) -> dict:
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.process.kill()
        return {"error": f"no answer in {LIMIT} s" if not ready else f"the process ended ({self.process.wait()})", "dead": True}

    def _order(self, order: dict) -> dict:
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the process has ended", "dead": True}
        return self._answer()

    def ask(self, work: str, do: str, column: str | None = None, keep: bool = True, **more: int) -> None:
        """One measurement; a work that failed once is not tried again."""
        if self.process is None or work in self.without or work in self.errors:
            return
        answer = self._order({"do": do, "work": work, **more})
        if "error" in answer:
            self.errors[work] = answer["error"]
            print(f"{self.name}: {work}: {answer['error']}", file=sys.stderr, flush=True)
            if answer.get("dead"):
                self.stop()
        elif keep:
            columns = self.samples.setdefault(work, {})
            columns.setdefault(column or do, []).append(answer["seconds"])
            if "cpu" in answer:
                columns.setdefault("cpu", []).append(answer["cpu"])

    def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self.process = self.process, None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def result(self) -> dict:
        """For the JSON file."""
        return {"kind": self.kind, "facts": self.facts, "seconds": self.samples, "errors": self.errors}
