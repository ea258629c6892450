"""The models that `bench/tpu.py` builds programs of. Nothing is computed: the plugin is the fake one, which makes zeros."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

Step = Callable[[], object]

WIDTH, HEADS, LENGTH, BATCH, HIDDEN = 2048, 16, 2048, 4, 5632


def _filled(*sizes: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    # Written to, or it would be a constant of the program: nobody has given it a value.
    return torch.empty(*sizes, dtype=dtype, device="tpu").fill_(1).requires_grad_(grad)


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def _plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return scores.float().masked_fill(~seen, -math.inf).softmax(-1).to(q.dtype) @ v


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def llama_block(backward: bool, plain: bool = True, formula: bool = False, linear: bool = False) -> Step:
    """Forward, or forward and backward, of one block: RMSNorm, rotary attention, SwiGLU; mean of squares as loss. `plain`
    writes attention with matmul and softmax, `formula` the norm with mean and rsqrt; else each is one function of PyTorch's.
    `linear` keeps weights as `nn.Linear` does."""
    norm, attention = _rms if formula else _rms_norm, _plain_attention if plain else _sdpa
    shapes = [(WIDTH, WIDTH)] * 4 + [(WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH)]
    q, k, v, o, gate, up, down = (_filled(*(s[::-1] if linear else s), grad=backward) for s in shapes)
    first, second = _filled(WIDTH, grad=backward), _filled(WIDTH, grad=backward)
    x = _filled(BATCH, LENGTH, WIDTH, grad=backward)
    cos, sin = _filled(LENGTH, WIDTH // HEADS), _filled(LENGTH, WIDTH // HEADS)
    leaves = [first, second, gate, down, up, k, o, q, v, x]

    def times(y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(y, w) if linear else y @ w

    def heads(y: torch.Tensor) -> torch.Tensor:
        return y.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward() -> torch.Tensor:
        y = norm(x, first)
        query, key = (_turned(heads(times(y, w)), cos, sin) for w in (q, k))
        y = attention(query, key, heads(times(y, v))).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        y = x + times(y, o)
        z = norm(y, second)
        return y + times(F.silu(times(z, gate)) * times(z, up), down)

    def step() -> object:
        if not backward:
            return forward()
        loss = forward().float().pow(2).mean()
        return loss, torch.autograd.grad(loss, leaves)

    return step


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.norm(x)) * self.scale


def elementwise_stack(backward: bool) -> Step:
    """Eight residual blocks of LayerNorm, GELU and a scale on 8192 x 2048 bfloat16: no dots, bound by memory."""
    model = nn.Sequential(*(_Residual(WIDTH) for _ in range(8))).to(dtype=torch.bfloat16, device="tpu")
    x = _filled(BATCH * LENGTH, WIDTH)

    def step() -> object:
        if not backward:
            with torch.no_grad():
                return model(x)
        loss = model(x).float().pow(2).mean()
        return loss, torch.autograd.grad(loss, list(model.parameters()))

    return step
