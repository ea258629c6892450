"""Arithmetic over small arrays, which the CPU plugins do not compile (src/ir/formula.c)."""

import pytest
import torch
from torch import nn

SIZES = [(3, 4), (5,), (), (7, 2, 2), (600,), (1,), (513, 3), (65, 40), (300, 300)]


def lists(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = [[torch.randn(s, generator=generator) for s in SIZES] for _ in range(count)]
    made[0][0][0, 0], made[0][1][0], made[-1][3][5] = float("nan"), float("inf"), float("nan")
    return made


LISTS = {
    "add_": (2, lambda a, b: torch._foreach_add_(a, b)),
    "add_alpha_": (2, lambda a, b: torch._foreach_add_(a, b, alpha=-0.3)),
    "add_itself_": (1, lambda a: torch._foreach_add_(a, a)),
    "add_number": (1, lambda a: torch._foreach_add(a, 1.5)),
    "add_tensor_": (1, lambda a: torch._foreach_add_(a, torch.tensor(2.5, device=a[0].device))),
    "sub_": (2, lambda a, b: torch._foreach_sub_(a, b, alpha=2)),
    "mul_": (1, lambda a: torch._foreach_mul_(a, -0.9)),
    "mul_list": (2, lambda a, b: torch._foreach_mul(a, b)),
    "div": (2, lambda a, b: torch._foreach_div(a, b)),
    "div_numbers_": (1, lambda a: torch._foreach_div_(a, [1.0 + i for i in range(len(a))])),
    "addcmul_": (3, lambda a, b, c: torch._foreach_addcmul_(a, b, c, 0.3)),
    "addcdiv_": (3, lambda a, b, c: torch._foreach_addcdiv_(a, b, c, [0.1 * i for i in range(len(a))])),
    "lerp_": (2, lambda a, b: torch._foreach_lerp_(a, b, 0.3)),
    "lerp_far_": (2, lambda a, b: torch._foreach_lerp_(a, b, 0.9)),
    "sqrt_abs": (1, lambda a: torch._foreach_sqrt(torch._foreach_abs(a))),
    "neg": (1, lambda a: torch._foreach_neg(a)),
    "maximum": (2, lambda a, b: torch._foreach_maximum(a, b)),
    "minimum": (2, lambda a, b: torch._foreach_minimum(a, b)),
    "clamp_min_": (1, lambda a: torch._foreach_clamp_min_(a, 0.0)),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_several_sizes(name):
    count, fn = LISTS[name]
    host, device = lists(count), [[x.to("tpu") for x in made] for made in lists(count)]
    wants, gots = fn(*host), fn(*device)
    for want, got in zip(wants or host[0], gots or device[0], strict=True):
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


SINGLE = {
    "add": lambda x, y: x + y,
    "number": lambda x, y: 1.5 - x * 2,
    "relu": lambda x, y: torch.relu(x),
    "relu_gradient": lambda x, y: torch.ops.aten.threshold_backward(x, y, 0),
    "leaky_relu": lambda x, y: nn.functional.leaky_relu(x, 0.2),
    "hardtanh": lambda x, y: nn.functional.hardtanh(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "where": lambda x, y: torch.where(x > y, x, y),
    "unequal": lambda x, y: torch.where(x != y, x, -y),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=-2),
    "lerp": lambda x, y: torch.lerp(x, y, 0.7),
    "maximum": lambda x, y: torch.maximum(x, y),
    "in_place": lambda x, y: x.mul_(2).sub_(y).div_(3),
    "same_twice": lambda x, y: x.add_(x),
    "zeros": lambda x, y: torch.zeros_like(x),
    "turned": lambda x, y: x.t().contiguous().t() + y,
    "bfloat16": lambda x, y: x.bfloat16() + y.bfloat16(),
}


@pytest.mark.parametrize("shape", [(64, 48), (255, 257)])
@pytest.mark.parametrize("name", SINGLE)
def test_single_arrays(name, shape):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    x[0, :3], y[1, :2] = torch.tensor([float("nan"), float("inf"), -0.0]), torch.tensor([float("nan"), 0.0])
    a, b = x.to("tpu"), y.to("tpu")
    want = SINGLE[name](x, y)
    torch.testing.assert_close(SINGLE[name](a, b).cpu(), want, equal_nan=True, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(a.cpu(), x, equal_nan=True, rtol=1e-6, atol=1e-6)


def test_items_that_share_operands():
    """An item's memory is no other's before that one is read."""

    def run(d):
        a, b = torch.arange(4.0, device=d), torch.arange(6.0, device=d) * 10
        torch._foreach_add_([a, b], [b[:4], torch.cat([a, a])[:6]])
        s, q = torch.tensor([2.0], device=d), torch.arange(5.0, device=d)
        torch._foreach_mul_([q, s], [s, s])
        c, e = torch.ones(4, device=d), torch.ones(4, device=d) * 3
        torch._foreach_add_([c, e], [e, c])  # in order: the second sees what the first did
        flat = torch.arange(12.0, device=d)
        torch._foreach_mul_([flat[:4], flat[2:8], flat[8:]], [2.0, 3.0, 4.0])
        torch._foreach_addcmul_([flat[4:6], flat[6:8]], [flat[:2], flat[4:6]], [flat[6:8], flat[:2]])
        return a, b, s, q, c, e, flat

    for want, got in zip(run("cpu"), run("tpu"), strict=True):
        torch.testing.assert_close(got.cpu(), want)
