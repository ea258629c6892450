"""Convolutions and pooling against PyTorch's cpu kernels, with gradients."""

import pytest
import torch
import torch.nn.functional as F
from test_matmul import INF, NAN, check, rand, same

import torch_tpu

CONVS = [F.conv1d, F.conv2d, F.conv3d]
TRANSPOSED = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
SIZES = [9, 8, 7]


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"padding": 2, "dilation": 2},
        {"stride": 3, "padding": 1, "dilation": 2},
        {"groups": 2, "padding": 1},
        {"groups": 4, "stride": 2},
        {"padding": "same"},
    ],
    ids=str,
)
def test_conv(spatial, options):
    groups = options.get("groups", 1)
    x, w = rand(2, 4, *SIZES[:spatial]), rand(8, 4 // groups, *[3, 2, 3][:spatial])
    check(lambda x, w, b: CONVS[spatial - 1](x, w, b, **options), x, w, rand(8), tolerance=3e-5)
    check(lambda x, w: CONVS[spatial - 1](x, w, **options), x[0], w, tolerance=3e-5)


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"stride": 3, "padding": 1, "output_padding": 2},
        {"stride": 2, "padding": 1, "dilation": 2, "output_padding": 1},
        {"dilation": 3, "output_padding": 2},
        {"groups": 2},
        {"groups": 4, "stride": 2, "padding": 1},
    ],
    ids=str,
)
def test_conv_transpose(spatial, options):
    groups = options.get("groups", 1)
    x, w = rand(2, 4, *SIZES[:spatial]), rand(4, 8 // groups, *[3, 2, 3][:spatial])
    check(lambda x, w, b: TRANSPOSED[spatial - 1](x, w, b, **options), x, w, rand(8), tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_conv_dtypes(dtype):
    x, w, b = rand(2, 3, 8, 8, dtype=dtype), rand(4, 3, 3, 3, dtype=dtype), rand(4, dtype=dtype)
    check(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, w, b, tolerance=1e-10 if dtype == torch.float64 else 0.1)


def test_conv_channels_last():
    x = rand(2, 4, 8, 8).to(memory_format=torch.channels_last)
    check(lambda x, w: F.conv2d(x, w, padding=1), x, rand(6, 4, 3, 3), tolerance=3e-5)


def test_conv_needs_only_some_gradients():
    x, w = rand(2, 3, 8, 8).to("tpu"), rand(4, 3, 3, 3).to("tpu").requires_grad_()
    F.conv2d(x, w).sum().backward()
    want = torch.nn.grad.conv2d_weight(x.cpu(), (4, 3, 3, 3), torch.ones(2, 4, 6, 6))
    same(w.grad, want, 3e-5)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    "kernel,stride,padding,dilation",
    [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), ((3, 2), (1, 2), (1, 0), 1), (7, 7, 0, 1), (3, 2, 0, 1), (13, 1, 6, 1)],
    ids=str,
)
def test_max_pool2d(kernel, stride, padding, dilation, ceil_mode):
    x = rand(2, 3, 13, 14)
    check(lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True), x)
    check(lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True), x[0])


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pool_other_ranks(ceil_mode):
    check(lambda x: F.max_pool1d(x, 3, 2, 1, 1, ceil_mode, return_indices=True), rand(2, 3, 12))
    check(lambda x: F.max_pool3d(x, 3, 2, 1, 1, ceil_mode, return_indices=True), rand(2, 3, 7, 8, 9))
    check(lambda x: F.max_pool3d(x, 2, 2, 0, 1, ceil_mode, return_indices=True), rand(3, 7, 8, 9))


def test_max_pool_ties_and_nan():
    x = torch.zeros(1, 1, 4, 6)
    x[0, 0, 1, 1] = x[0, 0, 0, 0] = NAN
    x[0, 0, :, 4:] = -INF
    for stride in (1, 2):
        same(F.max_pool2d(x.to("tpu"), 2, stride, return_indices=True), F.max_pool2d(x, 2, stride, return_indices=True))
    low = torch.full((1, 4, 4), -INF)
    same(F.max_pool2d(low.to("tpu"), 3, 2, 1, return_indices=True), F.max_pool2d(low, 3, 2, 1, return_indices=True))
    ints = rand(2, 8, 8, dtype=torch.int32)
    same(F.max_pool2d(ints.to("tpu"), 2), F.max_pool2d(ints, 2))


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("kernel,stride,padding", [(2, 2, 0), (3, 2, 1), ((3, 2), (1, 3), (1, 0)), (5, 3, 2)], ids=str)
def test_avg_pool2d(kernel, stride, padding, include, ceil_mode):
    x = rand(2, 3, 10, 11)
    check(lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil_mode, include), x)
    check(lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil_mode, include, divisor_override=3), x[0])


def test_avg_pool_other_ranks():
    check(lambda x: F.avg_pool1d(x, 3, 2, 1), rand(2, 3, 12))
    check(lambda x: F.avg_pool1d(x, 3, 2, 1), rand(2, 3, 12, dtype=torch.bfloat16))
    check(lambda x: F.avg_pool3d(x, 3, 2, 1, True, False), rand(2, 3, 7, 8, 9))


@pytest.mark.parametrize("out", [1, 2, 3, 4, 7, 12, (3, 8), (None, 5)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 8, 12), (3, 7, 9)], ids=str)
def test_adaptive2d(out, shape):
    check(lambda x: F.adaptive_avg_pool2d(x, out), rand(*shape))
    check(lambda x: F.adaptive_max_pool2d(x, out, return_indices=True), rand(*shape))


def test_adaptive_other_ranks():
    check(lambda x: F.adaptive_avg_pool1d(x, 5), rand(2, 3, 12))
    check(lambda x: F.adaptive_avg_pool3d(x, (2, 3, 5)), rand(2, 3, 6, 7, 8))
    check(lambda x: F.adaptive_max_pool1d(x, 5, return_indices=True), rand(2, 3, 12))
    check(lambda x: F.adaptive_max_pool3d(x, (2, 3, 5), return_indices=True), rand(2, 3, 6, 7, 8))


def test_bad_arguments():
    with pytest.raises(RuntimeError):
        F.conv2d(rand(2, 3, 8, 8).to("tpu"), rand(4, 2, 3, 3).to("tpu"))
    with pytest.raises(RuntimeError):
        F.max_pool2d(rand(2, 3, 8, 8).to("tpu"), 3, padding=2)


@pytest.mark.parametrize(
    "spatial,kernel,options,multiple",
    [
        (1, 3, {"padding": 1}, 1),
        (2, 3, {"padding": 1}, 1),
        (2, 3, {"stride": 2, "padding": 1}, 1),
        (2, 3, {"padding": 2, "dilation": 2}, 2),
        (2, 5, {"stride": 3}, 3),
        (3, 2, {"stride": 2}, 1),
        (2, 12, {"padding": 6}, 1),
    ],
    ids=str,
)
def test_depthwise(spatial, kernel, options, multiple):
    x, w = rand(2, 6, *(11, 14, 9)[:spatial]), rand(6 * multiple, 1, *[kernel] * spatial)
    check(lambda x, w, b: CONVS[spatial - 1](x, w, b, groups=6, **options), x, w, rand(6 * multiple), tolerance=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_depthwise_dtypes(dtype):
    x, w = rand(2, 4, 8, 8, dtype=dtype), rand(4, 1, 3, 3, dtype=dtype)
    check(lambda x, w: F.conv2d(x, w, padding=1, groups=4), x, w, tolerance=1e-10 if dtype == torch.float64 else 0.1)


def test_many_groups():
    x, w = rand(2, 260, 5, 5), rand(260, 2, 3, 3)
    check(lambda x, w: F.conv2d(x, w, groups=130), x, w, tolerance=1e-4)
    check(lambda x, w: F.conv2d(x[:, :64], w[:64], groups=32, stride=2), x, w, tolerance=1e-4)


@pytest.mark.parametrize("which", ["input", "weight", "both", "none"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spatial", [2, 3])
def test_channels_last_is_kept(which, transposed, spatial):
    last = torch.channels_last if spatial == 2 else torch.channels_last_3d
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, *([5] * spatial)), torch.randn(4, 4, *([3] * spatial))
    x = x.to(memory_format=last) if which in ("input", "both") else x
    w = w.to(memory_format=last) if which in ("weight", "both") else w
    conv = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{spatial}d")
    found = []
    for device in ("cpu", "tpu"):
        a, b = (t.clone().to(device).requires_grad_() for t in (x, w))
        y = conv(a, b, padding=1)
        y.square().sum().backward()
        found.append([t.detach().cpu() for t in (y, a.grad, b.grad)])
        assert y.is_contiguous(memory_format=last) == (which != "none")
    for right, got in zip(*found, strict=True):
        torch.testing.assert_close(got, right, atol=1e-4, rtol=1e-4)


def residual(x, w, v, scale):
    """What stands around convolutions: batch norm, relu, a shortcut, pools, softmax over the features, means of all kinds."""
    y = F.conv2d(x, w, padding=1)
    y = F.relu(F.batch_norm(y, None, None, scale, scale, training=True))
    z = F.conv2d(y, v, padding=1) + y * 0.5
    z = torch.where(z > 0, z, z.double().mul(0.1).float()) + scale.view(1, -1, 1, 1) + x[:, :1]
    parts = [z.mean((2, 3)), z.sum(2), z.amax((0, 3)), z.softmax(1), F.max_pool2d(z, 2), z.permute(0, 2, 3, 1) * scale]
    parts.append(z.std(1))
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("size", [6, 17])
@pytest.mark.parametrize("fused", [False, True])
def test_what_stands_around_convolutions(fused, size):
    torch.manual_seed(0)
    args = [torch.randn(4, 8, size, size), torch.randn(16, 8, 3, 3) / 8, torch.randn(16, 16, 3, 3) / 12, torch.rand(16) + 0.5]
    mode = torch.tpu.EagerMode.DEFER_AND_FUSE if fused else torch.tpu.EagerMode.DEFER_NEVER
    found = []
    for device in ("cpu", "tpu", "tpu", "tpu"):  # a graph is compiled when it comes again
        on = [a.clone().to(device).requires_grad_() for a in args]
        with torch.tpu.set_eager_mode(mode):
            y = residual(*on)
            (y * torch.linspace(-1, 1, y.numel()).to(device)).sum().backward()
            found.append([t.detach().cpu() for t in (y, *(a.grad for a in on))])
        torch_tpu.metrics.counters()  # what is compiled in the background is done
    for got in found[1:]:
        for right, one in zip(found[0], got, strict=True):
            torch.testing.assert_close(one, right, atol=3e-4, rtol=3e-4)
