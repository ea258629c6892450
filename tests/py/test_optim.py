"""Optimizers, gradient clipping and scaling against cpu: foreach and fused paths, and the list ops themselves."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from test_matmul import INF, NAN, rand, same, to_tpu

import torch_tpu

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log "
    "log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
SHAPES = [(3,), (2, 4), (), (5, 1, 2)]


def tensors(dtype=torch.float32, seed=0):
    return [rand(*s, dtype=dtype, seed=seed) for s in SHAPES]


def compare(name, *args, tolerance=None):
    """The functional and the in-place form of one list op."""
    fn = getattr(torch, name)
    want = fn(*args)
    same(fn(*[to_tpu(a) for a in args]), want, tolerance)
    if not hasattr(torch, name + "_") or not isinstance(args[0], list):
        return
    host, device = [t.clone() for t in args[0]], to_tpu(args[0])
    if any(t.dtype != w.dtype for t, w in zip(host, want, strict=True)):
        return
    getattr(torch, name + "_")(host, *args[1:])
    getattr(torch, name + "_")(device, *[to_tpu(a) for a in args[1:]])
    same(device, host, tolerance)


@pytest.mark.parametrize("name", UNARY.split())
def test_foreach_unary(name):
    x = [t.abs() * 0.3 + 0.1 for t in tensors()]
    compare("_foreach_" + name, x, tolerance=1e-5)
    if name in ("abs", "neg", "sign", "sqrt", "exp"):
        compare("_foreach_" + name, tensors(torch.int32) if name != "sqrt" else [t.abs() for t in tensors(torch.int32)])
        compare("_foreach_" + name, [t.to(torch.bfloat16) for t in x])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"])
def test_foreach_binary(name, dtype):
    x, y = tensors(dtype), [t.abs() + 1 for t in tensors(dtype, seed=1)]
    op = "_foreach_" + name
    compare(op, x, y)
    compare(op, x, 3)
    compare(op, x, [1, 2, 3, 4])
    if dtype.is_floating_point or name in ("add", "sub", "mul", "div"):
        compare(op, x, 1.5)
        compare(op, x, [1.5, 2.5, 3.5, 4.5])
    if name in ("add", "mul", "div"):
        scalar = torch.tensor(2, dtype=dtype)
        same(getattr(torch, op)(to_tpu(x), scalar.to("tpu")), getattr(torch, op)(x, scalar))
    if name in ("add", "sub"):
        same(getattr(torch, op)(to_tpu(x), to_tpu(y), alpha=2), getattr(torch, op)(x, y, alpha=2))


def test_foreach_ternary():
    x, y, z = tensors(), tensors(seed=1), [t.abs() + 1 for t in tensors(seed=2)]
    for name in ("_foreach_addcmul", "_foreach_addcdiv"):
        compare(name, x, y, z)
        compare(name, x, y, z, [0.5, 2.0, -1.0, 3.0])
        same(getattr(torch, name)(to_tpu(x), to_tpu(y), to_tpu(z), value=-0.3), getattr(torch, name)(x, y, z, value=-0.3))
        numbers = torch.tensor([0.5, 2.0, -1.0, 3.0])
        same(getattr(torch, name)(to_tpu(x), to_tpu(y), to_tpu(z), numbers), getattr(torch, name)(x, y, z, numbers))
    compare("_foreach_lerp", x, y, z)
    compare("_foreach_lerp", x, y, 0.3)
    compare("_foreach_lerp", x, y, 0.8)


def test_foreach_pow():
    x, y = [t.abs() + 0.1 for t in tensors()], tensors(seed=1)
    compare("_foreach_pow", x, y)
    compare("_foreach_pow", x, 2)
    compare("_foreach_pow", x, 0.5)
    compare("_foreach_pow", x, [1.0, 2.0, 0.5, -1.0])
    compare("_foreach_pow", 0.9, y)


@pytest.mark.parametrize("p", [0, 1, 2, 3, INF, -INF, 0.5])
def test_foreach_norm(p):
    compare("_foreach_norm", tensors(), p)
    same(
        torch._foreach_norm(to_tpu(tensors(torch.bfloat16)), p, dtype=torch.float32),
        torch._foreach_norm(tensors(torch.bfloat16), p, dtype=torch.float32),
    )


def test_foreach_rest():
    x = tensors()
    x[1][0, 0] = NAN
    compare("_foreach_max", x)
    host, device = tensors(), to_tpu(tensors())
    torch._foreach_zero_(device)
    same(device, [torch.zeros_like(t) for t in host])
    torch._foreach_copy_(device, to_tpu(tensors(torch.float64, seed=3)))
    same(device, [t.float() for t in tensors(torch.float64, seed=3)])
    torch._foreach_copy_(device, host)
    same(device, host)


def test_foreach_numbers_make_no_new_program():
    x = to_tpu(tensors())
    torch._foreach_mul_(x, 0.5)
    torch._foreach_add_(x, x, alpha=0.25)
    torch.tpu.synchronize()
    before = torch_tpu.metrics.counters()["compiles"]
    for k in range(1, 4):
        torch._foreach_mul_(x, 0.5 + k)
        torch._foreach_add_(x, x, alpha=0.1 * k)
    torch.tpu.synchronize()
    assert torch_tpu.metrics.counters()["compiles"] == before


def test_lists_of_equal_numbers_are_one_number_of_the_program():
    inf, nan = float("inf"), float("nan")
    lists = [
        [2.0] * 3,
        [3, 3, 3],
        [2.0, 2.0, 3.0],
        [1.0, 2.0, 2.0],
        [2, 2.0, 2],
        [0.0, -0.0, 0.0],
        [-0.0] * 3,
        [inf] * 3,
        [nan] * 3,
    ]
    host = [torch.full((4,), 3.0), torch.full((2, 2), -1.0), torch.full((4,), 7.0)]
    for numbers in lists:
        for name in ("div", "mul", "add"):
            op = getattr(torch, f"_foreach_{name}")
            for one, other in zip(op(to_tpu(host), numbers), op(host, numbers), strict=True):
                assert (
                    (one.cpu().view(torch.int32) == other.view(torch.int32)).logical_or(one.cpu().isnan() & other.isnan()).all()
                )
    device = to_tpu([torch.ones(19), torch.ones(19)])
    torch._foreach_div(device, [2.0, 2.0])
    torch.tpu.synchronize()
    before = torch_tpu.metrics.counters()
    same(torch._foreach_div(device, [4.0, 4.0]), [torch.full((19,), 0.25)] * 2)
    assert torch_tpu.metrics.counters()["compiles"] == before["compiles"]
    same(torch._foreach_div(device, [4.0, 5.0]), [torch.full((19,), 0.25), torch.full((19,), 0.2)])
    same(torch._foreach_div(device, [4.0, 4.0]), [torch.full((19,), 0.25)] * 2)
    assert torch_tpu.metrics.counters()["compiles"] == before["compiles"] + 1


def test_equal_steps_of_adam_travel_as_one_number(tmp_path):
    code = """
import os, torch
params = [torch.ones(4000, device="tpu", requires_grad=True) for _ in range(5)]
optimizer = torch.optim.Adam(params)
for p in params:
    p.grad = torch.ones_like(p)
optimizer.step()
torch.tpu.synchronize()
"""
    environment = {**os.environ, "TORCH_TPU_DUMP": str(tmp_path), "TORCH_TPU_CACHE": "0"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    lists = [text for text in texts if "@_foreach_addcdiv.ScalarList" in text]
    assert len(lists) == 1 and "tensor<5xf32>" not in lists[0]


def train(make, device, steps=4, model=None, schedule=True):
    net = copy.deepcopy(model).to(device)
    optimizer = make(net.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7) if schedule else None
    for k in range(steps):
        x = rand(8, 6, seed=k).to(device)
        optimizer.zero_grad(set_to_none=k % 2 == 0)
        net(x).square().mean().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
    return [p.detach() for p in net.parameters()]


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.AdamW, {"lr": 0.01, "maximize": True, "amsgrad": True}),
    (torch.optim.Adagrad, {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.01}),
]
FOREACH_ONLY = [
    (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
    (torch.optim.Adadelta, {"lr": 0.5}),
    (torch.optim.Adamax, {"lr": 0.01}),
    (torch.optim.NAdam, {"lr": 0.01}),
    (torch.optim.RAdam, {"lr": 0.01}),
    (torch.optim.Rprop, {"lr": 0.01}),
    (torch.optim.ASGD, {"lr": 0.01}),
]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))


@pytest.mark.parametrize("kind,options", OPTIMIZERS + FOREACH_ONLY, ids=lambda v: v.__name__ if isinstance(v, type) else str(v))
@pytest.mark.parametrize("foreach", [False, True])
def test_optimizer(model, kind, options, foreach):
    want = train(lambda p: kind(p, foreach=False, **options), "cpu", model=model)
    same(train(lambda p: kind(p, foreach=foreach, **options), "tpu", model=model), want, 2e-5)


@pytest.mark.parametrize("kind,options", OPTIMIZERS, ids=lambda v: v.__name__ if isinstance(v, type) else str(v))
@pytest.mark.parametrize("tensor_lr", [False, True])
def test_fused_optimizer(model, kind, options, tensor_lr):
    def make(p):
        p = list(p)
        lr = torch.tensor(options["lr"], device=p[0].device) if tensor_lr else options["lr"]
        return kind(p, fused=p[0].device.type == "tpu", **{**options, "lr": lr})

    want = train(make, "cpu", model=model, schedule=not tensor_lr)
    same(train(make, "tpu", model=model, schedule=not tensor_lr), want, 2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("foreach", [False, True])
def test_clip_grad_norm(dtype, foreach):
    host = [t.clone().requires_grad_() for t in tensors(dtype)]
    for i, t in enumerate(host):
        t.grad = rand(*t.shape, dtype=dtype, seed=9 + i) * 3
    device = to_tpu(host)
    for d, h in zip(device, host, strict=True):
        d.grad = h.grad.to("tpu")
    want = torch.nn.utils.clip_grad_norm_(host, 1.0)
    same(torch.nn.utils.clip_grad_norm_(device, 1.0, foreach=foreach), want)
    same([d.grad for d in device], [h.grad for h in host])
    torch.nn.utils.clip_grad_value_(host, 0.01)
    torch.nn.utils.clip_grad_value_(device, 0.01, foreach=foreach)
    same([d.grad for d in device], [h.grad for h in host])


@pytest.mark.parametrize("poison", [None, INF, NAN])
def test_unscale(poison):
    host = tensors()
    if poison is not None:
        host[1][1, 2] = poison
    device = to_tpu(host)
    found, mine = torch.zeros(1), torch.zeros(1, device="tpu")
    torch._amp_foreach_non_finite_check_and_unscale_(host, found, torch.tensor([0.25]))
    torch._amp_foreach_non_finite_check_and_unscale_(device, mine, torch.tensor([0.25], device="tpu"))
    same(mine, found)
    assert mine.item() == (0 if poison is None else 1)
    same(device, host)


def test_update_scale():
    for found in (0.0, 1.0):
        for tracker in (0, 1):
            for scale in (4.0, 3e38):
                args = [torch.tensor([scale]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([found])]
                mine = to_tpu(args)
                torch._amp_update_scale_(*args, 2.0, 0.5, 2)
                torch._amp_update_scale_(*mine, 2.0, 0.5, 2)
                same(mine, args)


def test_fused_adam_skips_on_inf():
    def state(device):
        p, g, m, v = ([rand(3, seed=k).abs().to(device)] for k in range(4))
        return p, g, m, v, [], [torch.tensor(2.0, device=device)]

    for found in (0.0, 1.0):
        results = []
        for device in ("cpu", "tpu"):
            lists = state(device)
            torch._fused_adam_(
                *lists, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False,
                grad_scale=torch.tensor(4.0, device=device), found_inf=torch.tensor(found, device=device),
            )  # fmt: skip
            results.append([t for part in lists[:4] for t in part])
        same(results[1], results[0], 1e-5)
