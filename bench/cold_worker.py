"""One cold or warm start in a process of its own; bench/cold.py drives it. Prints one JSON line.

    cold_worker.py ENGINE digits|gpt    seconds from the first use of the device to the first finished training step
    cold_worker.py ENGINE calls         mean seconds of the first call of some hundred ops, each on shapes of its own

What torch.optim itself imports (torch._dynamo, a second) is loaded before the clock starts, for both engines alike.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial

if sys.argv[1] == "peer":
    import boot_peer  # noqa: F401  (before torch)
import torch
import torch._dynamo
from torch import nn

DEVICE = "tpu"


def digits() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The network of examples/digits.py and a batch of its shape."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    return model, (torch.rand(64, 1, 8, 8), torch.randint(0, 10, (64,)))


class Block(nn.Module):
    """One layer of a GPT: attention and an MLP, both after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, steps, width = x.shape
        parts = self.qkv(self.norm1(x)).view(rows, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, steps, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """A small GPT: 4 layers, width 128, 64 positions, 512 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(512, 128), nn.Embedding(64, 128)
        self.blocks = nn.Sequential(*(Block(128, 4) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 512, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def gpt() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The model and a batch of 8 rows."""
    return Gpt(), (torch.randint(0, 512, (8, 64)), torch.randint(0, 512, (512,)))


def first_step(make) -> dict:
    """One training step from nothing; the loss is read."""
    torch.manual_seed(0)
    model, (x, y) = make()
    start, cpu = time.perf_counter(), time.process_time()
    model = model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
    torch.accelerator.synchronize()
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "loss": value}


UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc exp exp2 expm1 floor frac isfinite isinf
isnan lgamma log log10 log1p log2 logical_not logit neg rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc
sinh sqrt square tan tanh trunc"""
BINARY = "add atan2 copysign div eq fmax fmin fmod ge gt hypot le logaddexp lt maximum minimum mul ne pow remainder sub"
REDUCTIONS = "all amax amin any argmax argmin max mean median min prod std sum var"


def common_calls() -> dict:
    """Name to a call of x, y (both 2-d)."""
    functional = nn.functional
    calls: dict = {}
    one, two, dim = (lambda op, x, y: op(x)), (lambda op, x, y: op(x, y)), (lambda op, x, y: op(x, 1))
    for names, takes in ((UNARY, one), (BINARY, two), (REDUCTIONS, dim)):
        for name in names.split():
            calls[name] = partial(takes, getattr(torch, name))
    calls |= {
        "matmul": lambda x, y: x @ y.t(),
        "softmax": lambda x, y: x.softmax(-1),
        "log_softmax": lambda x, y: x.log_softmax(-1),
        "gelu": lambda x, y: functional.gelu(x),
        "silu": lambda x, y: functional.silu(x),
        "layer_norm": lambda x, y: functional.layer_norm(x, x.shape[1:]),
        "mse_loss": lambda x, y: functional.mse_loss(x, y),
        "where": lambda x, y: torch.where(x > 0, x, y),
        "cat": lambda x, y: torch.cat([x, y]),
        "stack": lambda x, y: torch.stack([x, y]),
        "sort": lambda x, y: x.sort(1),
        "topk": lambda x, y: x.topk(2, 1),
        "gather": lambda x, y: x.gather(1, torch.zeros_like(x, dtype=torch.long)),
        "index_select": lambda x, y: x.index_select(0, torch.zeros(2, dtype=torch.long, device=x.device)),
        "tril": lambda x, y: x.tril(),
        "clamp": lambda x, y: x.clamp(-1, 1),
        "lerp": lambda x, y: x.lerp(y, 0.5),
        "add_": lambda x, y: x.add_(y),
        "contiguous": lambda x, y: x.t().contiguous(),
        "flip": lambda x, y: x.flip(0),
        "roll": lambda x, y: x.roll(1, 0),
    }
    return calls


def first_calls() -> dict:
    """Each op once; the mean over those that this engine has."""
    torch.ones(1).to(DEVICE)
    taken, failed = {}, []
    cpu = time.process_time()
    for number, (name, call) in enumerate(common_calls().items()):
        x, y = (torch.rand(3 + number % 7, 5 + number // 7).to(DEVICE) for _ in range(2))
        torch.accelerator.synchronize()
        start = time.perf_counter()
        try:
            call(x, y)
            torch.accelerator.synchronize()
        except Exception:  # not implemented
            failed.append(name)
            continue
        taken[name] = time.perf_counter() - start
    return {"calls": taken, "failed": failed, "cpu": time.process_time() - cpu}


def main() -> None:
    engine, work = sys.argv[1:3]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not mix with the answer
    answer = first_calls() if work == "calls" else first_step({"digits": digits, "gpt": gpt}[work])
    if engine == "ours":
        from torch_tpu import metrics

        answer["counters"] = metrics.counters()
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
