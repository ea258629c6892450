"""PyTorch's operator, module and optimizer databases on a device, against the host. See README.md."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from jobs import DTYPES, KINDS, Job, all_jobs, fast_jobs, shard
from ledger import Ledger
from worker import Worker

_HERE = Path(__file__).parent
_BAD = ["unsupported", "error", "wrong", "hang", "crash"]


class Results:
    """Results of jobs, appended to a file as they come, so that a run that is killed can be resumed."""

    def __init__(self, path: Path, resume: bool) -> None:
        self.by_key: dict[tuple[str, str, str], dict[str, Any]] = {}
        if resume and path.exists():
            for line in path.read_text().splitlines():
                if line.endswith("}"):  # a torn last line is no result
                    self._keep(json.loads(line))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a" if resume else "w", buffering=1)
        self._lock = threading.Lock()

    def _keep(self, record: dict[str, Any]) -> None:
        self.by_key[record["kind"], record["name"], record["dtype"]] = record

    def add(self, job: Job, result: dict[str, Any]) -> None:
        with self._lock:
            record = {**job.as_dict(), **result}
            self._keep(record)
            self._file.write(json.dumps(record) + "\n")


class Progress:
    """One line that tells how far it is; rewritten on a terminal, else printed now and then."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.failed, self.begin, self._last = total, 0, 0, time.monotonic(), 0.0
        self._lock = threading.Lock()

    def step(self, job: Job, result: dict[str, Any], new: bool) -> None:
        with self._lock:
            self.done += 1
            terminal = sys.stderr.isatty()
            if new:
                self.failed += 1
                clear = "\r\033[K" if terminal else ""
                print(f"{clear}{job}: {result['status']}: {result['reason']}", file=sys.stderr)
            now = time.monotonic()
            if terminal or now - self._last > 15 or self.done == self.total:
                self._last = now
                left = (now - self.begin) / self.done * (self.total - self.done)
                text = f"{self.done}/{self.total} jobs, {self.failed} new failures, {left:.0f} s left; {job}"
                print(f"\r\033[K{text[:110]}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)


def sweep(jobs: list[Job], args: argparse.Namespace, results: Results, ledger: Ledger) -> None:
    """Runs the jobs that have no result yet in worker processes."""
    todo = collections.deque(job for job in jobs if job.key not in results.by_key)
    progress = Progress(len(todo))
    end = time.monotonic() + args.budget if args.budget else float("inf")
    stop = threading.Event()

    def serve() -> None:
        worker = Worker(args.device, args.patience)
        try:
            while not stop.is_set() and time.monotonic() < end:
                try:
                    job = todo.popleft()
                except IndexError:
                    break
                result = worker.ask(job)
                results.add(job, result)
                progress.step(job, result, result["status"] in _BAD and job.key not in ledger)
        finally:
            worker.stop()

    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        futures = [pool.submit(serve) for _ in range(args.workers)]
        try:
            for future in futures:
                future.result()
        finally:
            stop.set()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if todo:
        print(f"stopped with {len(todo)} jobs left: --resume goes on")


def report(records: list[dict[str, Any]]) -> None:
    """A table of pass rates by kind and dtype."""
    groups: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in records:
        count = groups[record["kind"], record["dtype"]]
        count[record["status"]] += 1
        count["strict"] += record["status"] == "pass" and record["strict"]
    print(
        f"{'kind':10}{'dtype':12}{'jobs':>6}{'pass':>6}" + "".join(f"{s:>12}" for s in _BAD) + f"{'pass %':>8}{'strict %':>9}"
    )
    order = {name: i for i, name in enumerate([*KINDS, *DTYPES])}
    for (kind, dtype), n in sorted(groups.items(), key=lambda g: (order[g[0][0]], order.get(g[0][1], -1))):
        jobs = n.total() - n["skip"] - n["strict"]
        if jobs:
            rates = f"{100 * n['pass'] / jobs:8.1f}{100 * n['strict'] / jobs:9.1f}"
            print(f"{kind:10}{dtype:12}{jobs:6}{n['pass']:6}" + "".join(f"{n[s]:12}" for s in _BAD) + rates)


def reasons(records: list[dict[str, Any]], most: int) -> None:
    """The commonest reasons of failing, with some of the jobs that have each."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for record in records:
        if record["status"] in _BAD:
            reason = re.sub(r"0x[0-9a-f]+|\b\d[\d.e+-]*\b", "N", record["reason"])[:110]
            groups[f"{record['status']}: {reason}"].append(f"{record['name']}/{record['kind']}/{record['dtype']}")
    for reason, jobs in sorted(groups.items(), key=lambda group: -len(group[1]))[:most]:
        print(f"{len(jobs):5}  {reason}\n       {' '.join(jobs[:4])}")


def verdict(records: list[dict[str, Any]], ledger: Ledger, complete: bool) -> int:
    """Says what the ledger does not know; the exit status."""
    new = [r for r in records if r["status"] in _BAD and (r["kind"], r["name"], r["dtype"]) not in ledger]
    if complete:
        for r in records:
            if r["status"] == "pass" and (r["kind"], r["name"], r["dtype"]) in ledger:
                print(f"passes now, take it off the ledger (--update): {r['kind']} {r['name']} {r['dtype']}")
    for r in sorted(new, key=lambda r: (r["name"], r["kind"], r["dtype"])):
        print(f"NOT IN THE LEDGER: {r['kind']} {r['name']} {r['dtype']}: {r['status']}: {r['reason']}")
    passed = sum(r["status"] == "pass" for r in records)
    print(f"{passed} jobs pass, {len(ledger.reasons)} lines' jobs are in the ledger, {len(new)} fail that are not")
    return 1 if new else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="the subset of `make test`")
    parser.add_argument("--rotation", type=int, default=0, help="which other kinds and dtypes the subset has")
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma separated: %(default)s")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma separated; all by default")
    parser.add_argument("--names", help="regular expression that names of ops, modules, optimizers must contain")
    parser.add_argument(
        "--samples", type=int, help="most samples a job; 0: all. Default: all in float32, 4 in others, 2 with --fast"
    )
    parser.add_argument("--device", default="tpu", help="default: tpu; cpu checks the suite itself")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--patience", type=float, default=120, help="seconds that a case may take")
    parser.add_argument("--budget", type=float, default=0, help="start no job after so many seconds")
    parser.add_argument("--shard", default="0/1", help="i/n: part i of n")
    parser.add_argument("--results", type=Path, default=Path("build/conformance/results.jsonl"), help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep the results there are and run the rest")
    parser.add_argument("--report", action="store_true", help="run nothing: show the results there are")
    parser.add_argument("--reasons", type=int, default=0, metavar="N", help="show the N commonest reasons of failing")
    parser.add_argument("--ledger", type=Path, default=_HERE / "ledger.txt", help="default: the one here")
    parser.add_argument("--update", action="store_true", help="write what failed into the ledger, take off what passed")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    ledger = Ledger(args.ledger)
    results = Results(args.results, args.resume or args.report)
    if args.report:
        records = list(results.by_key.values())
    else:
        if args.fast:
            jobs = fast_jobs(args.rotation, args.samples or 2)
        else:
            jobs = all_jobs(args.kinds.split(","), args.dtypes.split(","))
            jobs = [
                Job(*j.key, (0 if j.dtype in ("float32", "-") else 4) if args.samples is None else args.samples) for j in jobs
            ]
        jobs = shard([job for job in jobs if not args.names or re.search(args.names, job.name)], args.shard)
        sweep(jobs, args, results, ledger)
        records = [results.by_key[job.key] for job in jobs if job.key in results.by_key]
    report(records)
    reasons(records, args.reasons)
    if args.update:
        failed = {(r["kind"], r["name"], r["dtype"]): f"{r['status']}: {r['reason']}" for r in records if r["status"] in _BAD}
        ledger.update(failed, [(r["kind"], r["name"], r["dtype"]) for r in records if r["status"] == "pass"])
        ledger.write()
    return verdict(records, ledger, complete=not args.fast)


if __name__ == "__main__":
    sys.exit(main())
