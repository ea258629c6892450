"""Normalisation, softmax and recurrent layers against PyTorch's cpu kernels, with gradients."""

import copy

import pytest
import torch
import torch.nn.functional as F
from test_matmul import HALVES, INF, check, rand, same, to_tpu

import torch_tpu  # noqa: F401

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def loose(dtype):
    return {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 0.1, torch.float16: 2e-2}[dtype]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape,inner", [((4, 6), (6,)), ((2, 3, 4, 5), (4, 5)), ((7,), (7,)), ((3, 300), (300,))], ids=str)
def test_layer_norm(dtype, shape, inner):
    x, w, b = rand(*shape, dtype=dtype), rand(*inner, dtype=dtype), rand(*inner, dtype=dtype, seed=1)
    check(lambda x, w, b: F.layer_norm(x, inner, w, b, 1e-4), x, w, b, tolerance=loose(dtype))
    check(lambda x: F.layer_norm(x, inner), x, tolerance=loose(dtype))


def test_large_mean():
    x = rand(4, 64) + 1e4
    want = F.layer_norm(x.double(), (64,)).float()
    same(F.layer_norm(x.to("tpu"), (64,)), want, 2e-3)
    want = F.batch_norm(x.double(), None, None, training=True).float()
    same(F.batch_norm(x.to("tpu"), None, None, training=True), want, 2e-3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_and_rms_norm(dtype):
    x, w, b = rand(2, 6, 4, 5, dtype=dtype), rand(6, dtype=dtype), rand(6, dtype=dtype, seed=1)
    check(lambda x, w, b: F.group_norm(x, 3, w, b), x, w, b, tolerance=loose(dtype))
    check(lambda x: F.group_norm(x, 2), x[:, :, 0, 0], tolerance=loose(dtype))
    check(lambda x, w: F.rms_norm(x, (5,), w), x, rand(5, dtype=dtype), tolerance=loose(dtype))
    check(lambda x: F.rms_norm(x, (4, 5), eps=0.1), x, tolerance=loose(dtype))
    check(lambda x: F.instance_norm(x), x, tolerance=loose(dtype))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (4, 3, 5, 6), (2, 3, 4, 3, 5)], ids=str)
def test_batch_norm(shape, affine, training):
    x = rand(*shape)
    mean, var = rand(3), rand(3).abs() + 0.5
    mine = mean.to("tpu"), var.to("tpu")
    rest = (rand(3, seed=2), rand(3, seed=3)) if affine else ()

    def run(stats):
        return lambda x, *rest: F.batch_norm(x, *stats[x.device.type], *(rest or (None, None)), training, 0.3, 1e-3)

    check(run({"cpu": (mean, var), "tpu": mine}), x, *rest, tolerance=3e-5)
    same(mine, (mean, var), 1e-5)
    check(lambda x: F.batch_norm(x, None, None, training=True), x, tolerance=3e-5)


def test_batch_norm_module():
    host = torch.nn.BatchNorm2d(3)
    device = copy.deepcopy(host).to("tpu")
    for k in range(3):
        x = rand(4, 3, 5, 5, seed=k)
        same(device(x.to("tpu")), host(x), 2e-5)
    same(device.running_mean, host.running_mean)
    same(device.running_var, host.running_var)
    assert device.num_batches_tracked.item() == 3
    same(device.eval()(x.to("tpu")), host.eval()(x), 2e-5)
    half = F.batch_norm(x.to("tpu", torch.bfloat16), device.running_mean, device.running_var, device.weight, device.bias)
    same(half, F.batch_norm(x.bfloat16(), host.running_mean, host.running_var, host.weight, host.bias), 3e-2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dtype, dim):
    x = rand(3, 4, 5, dtype=dtype) * 5
    check(lambda x: F.softmax(x, dim), x)
    check(lambda x: F.log_softmax(x, dim), x)
    check(lambda x: F.softmin(x, dim), x)
    if dtype in HALVES:
        check(lambda x: F.softmax(x, dim, dtype=torch.float32), x)
        check(lambda x: F.log_softmax(x, dim, dtype=torch.float32), x)


def test_softmax_edges():
    x = torch.tensor([[1.0, -INF, 2.0], [-INF, -INF, -INF], [1e30, 1.0, 1e30]])
    same(F.softmax(x.to("tpu"), 1), F.softmax(x, 1))
    same(F.log_softmax(x.to("tpu"), 1), F.log_softmax(x, 1))
    same(torch._safe_softmax(x.to("tpu"), 1), torch._safe_softmax(x, 1))
    check(lambda x: F.softmax(x, 0), torch.tensor(3.0))
    check(lambda x: F.softmax(x, 0), rand(0, 3))
    check(lambda x: F.softmax(x, 0), rand(5000))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_weight_norm(dim):
    check(lambda v, g: torch._weight_norm(v, g, dim), rand(4, 3, 5), rand(*[[4, 1, 1], [1, 3, 1], [1, 1, 5]][dim]))


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str
)
def test_recurrent(layer, options):
    torch.manual_seed(0)
    host = layer(5, 6, **options)
    device = copy.deepcopy(host).to("tpu")
    x = rand(4, 3, 5).requires_grad_()
    mine = to_tpu(x)
    want, got = host(x)[0], device(mine)[0]
    same(got, want, 2e-5)
    want.square().sum().backward()
    got.square().sum().backward()
    same(mine.grad, x.grad, 1e-4)
    for a, b in zip(device.parameters(), host.parameters(), strict=True):
        same(a.grad, b.grad, 1e-4)


@pytest.mark.parametrize("cell", [torch.nn.LSTMCell, torch.nn.GRUCell, torch.nn.RNNCell])
@pytest.mark.parametrize("bias", [False, True])
def test_cells(cell, bias):
    torch.manual_seed(0)
    host = cell(5, 6, bias=bias)
    device = copy.deepcopy(host).to("tpu")
    x = rand(3, 5).requires_grad_()
    mine = to_tpu(x)
    want, got = host(x), device(mine)
    same(got, want, 2e-5)
    (want[1] if isinstance(want, tuple) else want).square().sum().backward()
    (got[1] if isinstance(got, tuple) else got).square().sum().backward()
    same(mine.grad, x.grad, 1e-4)
    same(device.weight_hh.grad, host.weight_hh.grad, 1e-4)


# Rows whose programs are compiled without XLA's fusion emitters where they read whole storages, but with them for views.
PLAIN = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "max_pool": lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2])[0],
    "max_pool_indices": lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2])[1],
    "select_backward": lambda x: torch.ops.aten.select_backward(x, [*x.shape, 2], 4, 1),
    "zero": lambda x: x.clone().zero_(),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_loops_give_the_same_bits(name):
    x = torch.randn(2, 3, 32, 40)
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, -1e-40, 3e38, -3e38])
    x.view(-1)[::13] = special.repeat(x.numel())[: x.view(-1)[::13].numel()]
    x[0, 0] = torch.randn(32, 40)
    whole, view = PLAIN[name](x.to("tpu")).cpu(), PLAIN[name](torch.stack([x, x]).to("tpu")[1]).cpu()
    if whole.is_floating_point():
        assert torch.equal(whole.isnan(), view.isnan())
        whole, view = (t.nan_to_num(0, INF, -INF).view(torch.int32) for t in (whole, view))
    assert torch.equal(whole, view)
