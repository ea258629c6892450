"""The pieces of work that are timed. The same code runs on every engine; `size` changes the shapes, 0 is the usual one."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import torch
from torch import nn

Step = Callable[[], object]


def add(device: str, size: int) -> Step:
    x, y = (torch.rand(4 + size, 4).to(device) for _ in range(2))
    return lambda: x + y


def matmul(device: str, size: int) -> Step:
    x, y = torch.rand(4 + size, 4).to(device), torch.rand(4, 4).to(device)
    return lambda: x @ y


def times_number(device: str, size: int) -> Step:
    x = torch.rand(4 + size, 4).to(device)
    return lambda: x * 1.5


def add_in_place(device: str, size: int) -> Step:
    x, y = (torch.rand(4 + size, 4).to(device) for _ in range(2))
    return lambda: x.add_(y)


def view_slice_add(device: str, size: int) -> Step:
    x, y = torch.rand(4, 4 + size).to(device), torch.rand(2, 4 + size).to(device)
    return lambda: x.view(2, 8 + 2 * size)[:, 2 : 6 + size] + y


def sum_item(device: str, size: int) -> Step:
    x = torch.rand(4 + size, 4).to(device)
    return lambda: x.sum().item()


def mlp_step(device: str, size: int) -> Step:
    """One training step of an MLP 256 -> 512 -> 10 on 64 rows; its loss is read."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(64 + 8 * size, 256).to(device), torch.randint(0, 10, (64 + 8 * size,)).to(device)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


_language_models: dict[str, object] = {}


def decode(device: str, size: int) -> Step:
    """One greedy token of SmolLM2-135M (real weights, float32) with a key/value cache of fixed size; the token is read."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
    import smollm2
    import transformers

    if device not in _language_models:
        model, _ = smollm2.load()
        _language_models[device] = model.to(device)
    model = _language_models[device]
    slots = 256 + 64 * size
    state = {"cache": None, "at": slots, "token": None}

    @torch.inference_mode()
    def step() -> int:
        if state["at"] >= slots - 1:  # the cache is full: begin again
            state.update(cache=transformers.StaticCache(config=model.config, max_cache_len=slots), at=0)
            state["token"] = torch.ones(1, 1, dtype=torch.long).to(device)
        logits = model(input_ids=state["token"], cache=state["cache"], use_cache=True).logits
        state["token"] = logits[:, -1:].argmax(-1)
        if state["at"] == 0:  # a cache under another name would be ignored without a word
            assert int(state["cache"].get_seq_length()) == 1, "the model did not use its cache"
        state["at"] += 1
        return int(state["token"])

    return step


# name -> (what the table calls it, the maker, calls a repeat, calls a repeat with --quick, samples a round). Cheap works are
# sampled more often: a repeat of a millisecond is easily hit by something else on the machine.
WORKS = {
    "add": ("add 4x4", add, 400, 100, 5),
    "matmul": ("matmul 4x4", matmul, 400, 100, 5),
    "times_number": ("multiply by a Python number", times_number, 400, 100, 5),
    "add_in_place": ("in-place add", add_in_place, 400, 100, 5),
    "view_slice_add": ("view + slice + add", view_slice_add, 400, 100, 5),
    "sum_item": ("`sum().item()`", sum_item, 400, 100, 5),
    "mlp_step": ("MLP training step", mlp_step, 200, 20, 1),
    "decode": ("SmolLM2 decoding, a token", decode, 16, 4, 1),
}
