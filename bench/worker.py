"""One engine in a process of its own. Reads one JSON order a line, answers with one JSON line; bench/run.py drives it.

{"do": "facts"}                                      versions and thread settings
{"do": "first", "work": W, "size": S}                seconds of the very first call with these shapes, synchronised
{"do": "steady", "work": W, "calls": N}              seconds a call over N calls, one synchronisation in the timing;
                                                         "cpu": the CPU time of all threads
{"do": "settle", "work": W, "seconds": S}            runs it for so long, so that engines that learn have learnt
{"do": "host", "work": W, "calls": N}                the same without the synchronisation: what a call costs its caller
"""

from __future__ import annotations

import json
import os
import sys
import time

WARM_SECONDS = 0.02


def main() -> None:
    engine, threads = sys.argv[1], int(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # one CPU a thread, for all engines alike
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not mix with the answers
    if engine == "peer":
        import boot_peer  # noqa: F401  (before torch)
    import torch
    from works import FUSED_WORKS, WORKS, Step

    torch.set_num_threads(threads)
    device = "cpu" if engine == "cpu" else "tpu"
    synchronize = (lambda: None) if engine == "cpu" else torch.accelerator.synchronize
    torch.zeros(1).to(device)  # the device is up; no op has run on it
    synchronize()
    steps = {}

    def facts(order: dict) -> dict:
        found = {"torch": torch.__version__, "torch_threads": torch.get_num_threads()}
        if engine == "ours":
            from torch_tpu import _C

            found |= _C.platform()
            found["plugin"] = os.path.basename(found["plugin"])
        return found

    def first(order: dict) -> dict:
        step = (FUSED_WORKS | WORKS)[order["work"]][1](device, order["size"])
        synchronize()
        start = time.perf_counter()
        last = step()
        synchronize()
        del last
        taken = time.perf_counter() - start
        if order["size"] == 0:
            steps[order["work"]] = step
        return {"seconds": taken}

    def warm(step: Step, calls: int) -> None:
        """Other processes have just had the processor: until its caches are this one's again it is no steady state."""
        if engine == "ours":
            import torch_tpu

            step()
            torch_tpu.metrics.counters()  # what is compiled in the background is done
        end = time.perf_counter() + WARM_SECONDS
        for _ in range(1 << 20):
            for _ in range(max(1, calls // 4)):
                last = step()
            synchronize()
            if time.perf_counter() > end:
                break
        del last

    def steady(order: dict) -> dict:
        step, calls = steps[order["work"]], order["calls"]
        warm(step, calls)
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            last = step()  # kept, so that the synchronisation has it to wait for
        synchronize()
        del last
        return {"seconds": (time.perf_counter() - start) / calls, "cpu": (time.process_time() - cpu) / calls}

    def settle(order: dict) -> dict:
        step, start = steps[order["work"]], time.perf_counter()
        while time.perf_counter() - start < order["seconds"]:
            step()
        synchronize()
        return {}

    def host(order: dict) -> dict:
        step, calls = steps[order["work"]], order["calls"]
        warm(step, calls)
        start = time.perf_counter()
        for _ in range(calls):
            last = step()
        taken = time.perf_counter() - start
        synchronize()
        del last
        return {"seconds": taken / calls}

    orders = {"facts": facts, "first": first, "settle": settle, "steady": steady, "host": host}
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = orders[order["do"]](order)
        except Exception as error:  # the driver reports it, the other works go on
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
