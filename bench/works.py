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
    return mlp(device, size, 512, 1)


def mlp_narrow(device: str, size: int) -> Step:
    """The MLP with 8 hidden units: little but overhead. Its loss is read."""
    return mlp(device, size, 8, 1)


def mlp_every_ten(device: str, size: int) -> Step:
    """The MLP of `mlp_step`, its loss read every ten steps."""
    return mlp(device, size, 512, 10)


def mlp(device: str, size: int, width: int, every: int) -> Step:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(64 + 8 * size, 256).to(device), torch.randint(0, 10, (64 + 8 * size,)).to(device)

    def step() -> float:
        for _ in range(every):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step


def elementwise(device: str, size: int) -> Step:
    """Eight blocks of GELU, LayerNorm and residual on 512 rows of 384, forward; the mean is read."""
    torch.manual_seed(0)
    norms = nn.ModuleList(nn.LayerNorm(384) for _ in range(8)).to(device)
    x = torch.randn(512 + 8 * size, 384).to(device)

    @torch.no_grad()
    def step() -> float:
        y = x
        for norm in norms:
            y = y + nn.functional.gelu(norm(y)) * 0.5
        return y.mean().item()

    return step


class GPT(nn.Module):
    """A decoder of 6 layers, 384 wide, 6 heads, on 256 tokens."""

    def __init__(self, vocabulary: int = 512, width: int = 384, layers: int = 6, heads: int = 6, tokens: int = 256) -> None:
        super().__init__()
        self.heads = heads
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "norm2": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for b in self.blocks:
            qkv = b["qkv"](b["norm1"](x)).view(*ids.shape, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
            x = x + b["out"](y.transpose(1, 2).reshape(x.shape))
            x = x + b["down"](nn.functional.gelu(b["up"](b["norm2"](x))))
        return self.head(self.norm(x))


def gpt_step(device: str, size: int) -> Step:
    """A training step of the GPT on 8 sequences, AdamW; the loss is read."""
    torch.manual_seed(0)
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 512, (8 + size, 257)).to(device)

    def step() -> float:
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 512), ids[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


class Residual(nn.Module):
    """Two 3x3 convolutions with batch norms and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        plain = stride == 1 and inputs == outputs
        self.short = (
            nn.Identity()
            if plain
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu(self.norm1(self.conv1(x)))
        return nn.functional.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet_step(device: str, size: int) -> Step:
    """A training step of ResNet-18 on 64 images of 32x32, SGD with momentum; the loss is read."""
    torch.manual_seed(0)
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*stem, *(Residual(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)).to(
        device
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(64 + size, 3, 32, 32).to(device), torch.randint(0, 10, (64 + size,)).to(device)

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

# Of bench/fused.py: the same five; "host": timed without the synchronisation.
FUSED_WORKS = {
    "add": ("recording add 4x4", add, 200, "host", 5),
    "matmul": ("recording matmul 4x4", matmul, 200, "host", 5),
    "add_in_place": ("recording in-place add", add_in_place, 200, "host", 5),
    "mlp_step": ("MLP step, loss read each step", mlp_step, 200, "steady", 3),
    "mlp_every_ten": ("ten MLP steps, loss read once", mlp_every_ten, 20, "steady", 3),
    "mlp_narrow": ("MLP step, width 8", mlp_narrow, 200, "steady", 3),
    "elementwise": ("8 x (LayerNorm, GELU, residual), 512x384", elementwise, 50, "steady", 3),
    "gpt_step": ("GPT training step (6 layers, 384 wide, 8x256 tokens)", gpt_step, 2, "steady", 1),
    "resnet_step": ("ResNet-18 training step (64 images, 32x32)", resnet_step, 1, "steady", 1),
}
