"""Losses against PyTorch's cpu kernels, with gradients."""

import pytest
import torch
import torch.nn.functional as F
from test_matmul import check, rand, same

import torch_tpu  # noqa: F401

REDUCTIONS = ["none", "mean", "sum"]


def classes(*shape, n, seed=0):
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_elementwise(reduction, dtype):
    x, t = rand(4, 5, dtype=dtype), rand(4, 5, dtype=dtype, seed=1)
    for fn in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        check(lambda x, t, fn=fn: fn(x, t, reduction=reduction), x, t)
    for width in (0.3, 2.0):
        check(lambda x, t, width=width: F.smooth_l1_loss(x, t, reduction=reduction, beta=width), x, t)
        check(lambda x, t, width=width: F.huber_loss(x, t, reduction=reduction, delta=width), x, t)
    check(lambda x, t: F.smooth_l1_loss(x, t, reduction=reduction, beta=0.0), x, t)
    sign = torch.where(t > 0, 1.0, -1.0).to(dtype)
    check(lambda x: F.soft_margin_loss(x, sign.to(x.device), reduction=reduction), x)
    check(lambda x: F.hinge_embedding_loss(x, sign.to(x.device), reduction=reduction), x)
    p = t.softmax(1)
    check(lambda x: F.kl_div(x.log_softmax(1), p.to(x.device), reduction=reduction), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves(dtype):
    x, t = rand(64, 5, dtype=dtype), rand(64, 5, dtype=dtype, seed=1)
    for fn in (F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        check(fn, x, t, tolerance=3e-2)
    same(F.cross_entropy(x.to("tpu"), classes(64, n=5).to("tpu")), F.cross_entropy(x, classes(64, n=5)), 3e-2)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary(reduction):
    p, t, w = rand(4, 5).sigmoid(), rand(4, 5, seed=1).sigmoid(), rand(4, 5, seed=2).abs()
    check(lambda p: F.binary_cross_entropy(p, t.to(p.device), reduction=reduction), p)
    check(lambda p: F.binary_cross_entropy(p, t.to(p.device), w.to(p.device), reduction=reduction), p, tolerance=3e-5)
    check(lambda p: F.binary_cross_entropy(p, t.round().to(p.device), reduction=reduction), p.round())
    x, pos = rand(4, 5) * 20, rand(5, seed=3).abs()
    check(lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction=reduction), x, t)

    def weighted(x, t):
        return F.binary_cross_entropy_with_logits(x, t, w.to(x.device), reduction=reduction, pos_weight=pos.to(x.device))

    check(weighted, x, t, tolerance=3e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll(reduction, weighted):
    w = rand(7).abs() if weighted else None

    def run(t, ignore=-100):
        return lambda x: F.nll_loss(
            x, t.to(x.device), None if w is None else w.to(x.device), ignore_index=ignore, reduction=reduction
        )

    t = classes(6, n=7)
    check(run(t), rand(6, 7))
    t[2] = -100
    check(run(t), rand(6, 7))
    check(run(classes(6, n=7), ignore=3), rand(6, 7))
    check(run(torch.tensor(4)), rand(7))
    check(run(classes(2, 4, 5, n=7), ignore=1), rand(2, 7, 4, 5))
    check(run(classes(2, 4, n=7)), rand(2, 7, 4))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy(reduction):
    x = rand(6, 7) * 5
    check(lambda x: F.cross_entropy(x, classes(6, n=7).to(x.device), reduction=reduction), x)
    check(lambda x: F.cross_entropy(x, classes(6, n=7).to(x.device), reduction=reduction, label_smoothing=0.1), x)
    check(lambda x, p: F.cross_entropy(x, p, reduction=reduction), x, rand(6, 7, seed=1).softmax(1))
    check(lambda x: F.cross_entropy(x, torch.full((6,), -100, device=x.device), reduction="sum"), x)


def test_all_ignored_mean_is_nan():
    x, t = rand(3, 4), torch.full((3,), -100)
    same(F.nll_loss(x.to("tpu"), t.to("tpu")), F.nll_loss(x, t))


@pytest.mark.parametrize("target", [7, -1, 100000])
def test_target_out_of_range(target):
    x = rand(3, 7).to("tpu")
    with pytest.raises(IndexError, match=r"out of range|out of bounds"):
        F.nll_loss(x, torch.tensor([0, target, 1]).to("tpu")).item()
    same(F.nll_loss(x, torch.tensor([0, 3, 1]).to("tpu")), F.nll_loss(x.cpu(), torch.tensor([0, 3, 1])))


def test_other_losses():
    x, y, t = rand(6, 5), rand(6, 5, seed=1), torch.tensor([1, -1, 1, 1, -1, -1])
    check(lambda x, y: F.cosine_embedding_loss(x, y, t.to(x.device), margin=0.1), x, y)
    check(lambda x, y: F.triplet_margin_loss(x, y, x * 0.5), x, y)
    check(lambda x, y: F.margin_ranking_loss(x[:, 0], y[:, 0], t.to(x.device)), x, y)
    check(lambda x, y: F.poisson_nll_loss(x, y.abs()), x, y)
    check(lambda x, y: F.gaussian_nll_loss(x, y, (x * x + 1)), x, y)
    check(lambda x: F.multilabel_soft_margin_loss(x, (y > 0).float().to(x.device)), x)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_of_many_classes(reduction):
    """Processors gather the target's class: ignored rows count nothing, whatever they hold."""
    x, t = torch.randn(50, 70, generator=torch.Generator().manual_seed(0)), torch.arange(50)
    x[3], t[3], t[5] = float("nan"), -100, 69
    check(lambda x: F.nll_loss(x, t.to(x.device), reduction=reduction), x)
    t[5] = 70
    with pytest.raises(IndexError):
        F.nll_loss(x.to("tpu"), t.to("tpu"), reduction=reduction).cpu()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(), (10,), (3, 10)])
def test_multilabel_margin_loss_keeps_cpus_shape(shape, reduction):
    torch.manual_seed(0)
    x = torch.randn(shape)
    target = torch.randint(-1, max(x.numel() and x.shape[-1] if x.dim() else 1, 1), shape)
    found = []
    for device in ("cpu", "tpu"):
        a = x.clone().to(device).requires_grad_()
        y = torch.nn.functional.multilabel_margin_loss(a, target.to(device), reduction=reduction)
        y.sum().backward()
        found.append((y.detach().cpu(), a.grad.cpu()))
    torch.testing.assert_close(found[1], found[0])
