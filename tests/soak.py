"""Two million ops in fused mode, recorded by training steps and long chains, with a host read every fifty steps: memory must
stay flat, and nothing may be compiled after the start. `make soak`; takes about a minute."""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

from torch_tpu import metrics

OPS, CHAIN, ROOM_MB = 2_000_000, 40, 16


def resident_mb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4 // 1024


def main() -> int:
    torch.tpu.set_eager_mode(torch.tpu.EagerMode.DEFER_AND_FUSE)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).tpu()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    start, right = torch.randn(8, 16).tpu(), torch.randn(8, 4).tpu()
    plan_lookups = ("plan_hits", "plan_misses")
    begin, steps, done, settled = time.monotonic(), 0, 0, (0, 0)
    while done < OPS:
        optimizer.zero_grad()
        loss = (model(start) - right).square().mean()
        loss.backward()
        optimizer.step()
        z = start
        for _ in range(CHAIN):
            z = (z * 1.01 + 0.5)[:, :].clamp(-5, 5)
        start = start * 0.999 + z * 1e-3
        steps += 1
        if steps % 50:
            continue
        loss.item()
        counters = metrics.counters()
        done = sum(counters[name] for name in plan_lookups)
        if done > OPS // 2 and not settled[0]:
            settled = resident_mb(), counters["compiles"]
    now, compiled = resident_mb(), metrics.counters()["compiles"]
    print(f"{done} ops in {time.monotonic() - begin:.0f} s; resident {settled[0]} MB half way, {now} MB at the end")
    if now - settled[0] > ROOM_MB or compiled != settled[1]:
        print(f"memory grew, or {compiled - settled[1]} programs were compiled late", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
