"""Shape, fill, pad and resampling ops against PyTorch on cpu."""

import pytest
import torch
from torch.nn import functional

import torch_tpu  # noqa: F401

FLOATS = [torch.float32, torch.bfloat16]
KINDS = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]


def data(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0 if dtype is torch.uint8 else -9, 10, shape, generator=generator, dtype=dtype)


def move(value):
    if isinstance(value, torch.Tensor):
        return value.to("tpu")
    if isinstance(value, (list, tuple)):
        return type(value)(move(item) for item in value)
    return value


def same(got, want, **kwargs):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, **kwargs)
        return
    assert got.device.type == "tpu"
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, **kwargs)


def check(fn, *args, **kwargs):
    want = fn(*args)
    same(fn(*move(args)), want, **kwargs)


def check_grad(fn, *args, **kwargs):
    """Value and gradients of the floating arguments. Half precision is held against float32: cpu rounds each sum."""
    half = any(a.dtype in (torch.bfloat16, torch.float16) for a in args)
    if half:
        kwargs = {"rtol": 2e-2, "atol": 1e-2, **kwargs}

    def reference(a):
        return a.detach().clone().float() if half and a.is_floating_point() else a.detach().clone()

    host = [reference(a).requires_grad_(a.is_floating_point()) for a in args]
    device = [a.detach().to("tpu").requires_grad_(a.is_floating_point()) for a in args]
    want, got = fn(*host), fn(*device)
    weight = data(*want.shape, seed=7).to(got.dtype)
    want.backward(weight.to(want.dtype))
    got.backward(weight.to("tpu"))
    same(got.detach(), want.detach().to(got.dtype), **kwargs)
    for a, h, d in zip(args, host, device, strict=True):
        if h.grad is not None:
            torch.testing.assert_close(d.grad.cpu(), h.grad.to(a.dtype), **kwargs)


# ---- copies and joins


@pytest.mark.parametrize("src", KINDS)
@pytest.mark.parametrize("dst", KINDS)
def test_copy_casts(src, dst):
    if src.is_complex and not dst.is_complex:
        pytest.skip("discards the imaginary part with a warning")
    host = torch.zeros(3, 4, dtype=dst)
    device = host.to("tpu")
    value = data(3, 4, dtype=src)
    if src.is_floating_point and dst is torch.uint8:
        value = value.abs()  # negative floats to unsigned are undefined
    host.copy_(value)
    device.copy_(value.to("tpu"))
    same(device, host)
    same(value.to("tpu").to(dst), value.to(dst))


def test_copy_broadcasts():
    host, device = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, device="tpu")
    src = data(3, 1)
    same(device.copy_(src.to("tpu")), host.copy_(src))
    with pytest.raises(RuntimeError):
        device.copy_(torch.zeros(5, device="tpu"))


def test_clone_keeps_strides():
    x = data(2, 3, 4, 5)
    check(lambda t: t.to(memory_format=torch.channels_last).clone(), x)
    check(lambda t: t.transpose(1, 3).clone(), x)
    check(lambda t: t.transpose(1, 3).contiguous(), x)
    check(lambda t: t[:, 1:, ::2].clone(), x)
    check(lambda t: t.mT.conj().clone(), data(3, 4, dtype=torch.complex64))


@pytest.mark.parametrize("dtype", KINDS)
def test_cat_and_stack(dtype):
    a, b, c = data(2, 3, dtype=dtype), data(4, 3, dtype=dtype, seed=1), data(1, 3, dtype=dtype, seed=2)
    check(lambda *t: torch.cat(t), a, b, c)
    check(lambda *t: torch.cat(t, -2), a, b, c)
    check(lambda *t: torch.stack(t, -1), a, a, a)
    check(lambda *t: torch.stack(t), a, a)
    check(lambda t: torch.cat([t]), a)


def test_cat_promotes_and_skips_legacy_empty():
    check(lambda *t: torch.cat(t), data(2, dtype=torch.int64), data(3), data(1, dtype=torch.bool))
    check(lambda *t: torch.cat(t), torch.empty(0), data(2, 3))
    check(lambda *t: torch.cat(t), torch.empty(0), torch.empty(0))
    check(lambda *t: torch.cat(t, 1), torch.empty(2, 0), data(2, 3))
    out = torch.empty(5, dtype=torch.float64, device="tpu")
    torch.cat([data(2).to("tpu"), data(3).to("tpu")], out=out)
    torch.testing.assert_close(out.cpu(), torch.cat([data(2), data(3)]).double())
    with pytest.raises(RuntimeError):
        torch.cat([data(2, 3).to("tpu"), data(2, 4).to("tpu")])


def test_join_gradients():
    check_grad(lambda a, b: torch.cat([a, b * 2], 1), data(2, 3), data(2, 1))
    check_grad(lambda a, b: torch.stack([a, b * 2], 1), data(2, 3), data(2, 3))
    check_grad(lambda a: torch.cat([a, a, a[:1]]), data(2, 3))


# ---- rearrangements


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_rearrange(dtype):
    x = data(2, 3, 4, dtype=dtype)
    check(lambda t: t.flip(0), x)
    check(lambda t: t.flip(-1, 0), x)
    check(lambda t: t.flip([]), x)
    check(lambda t: t.roll(2), x)
    check(lambda t: t.roll(-5, 1), x)
    check(lambda t: t.roll((1, -2), (0, 2)), x)
    check(lambda t: t.roll(3, 0), torch.empty(0, 2, dtype=dtype))
    check(lambda t: t.repeat(2, 1, 3), x)
    check(lambda t: t.repeat(2, 3, 1, 1, 2), x)
    check(lambda t: t.repeat(1, 0, 1), x)
    check(lambda t: t.repeat_interleave(3), x)
    check(lambda t: t.repeat_interleave(2, 1), x)
    check(lambda t: t.rot90(1, [0, 2]), x)
    check(lambda t: torch.tile(t, (2, 2)), x)


def test_repeat_interleave_tensor():
    counts = torch.tensor([2, 0, 3, 1])
    check(lambda n: torch.repeat_interleave(n, output_size=6), counts)
    check(lambda n: torch.repeat_interleave(n, output_size=6), counts.int())
    check(lambda t, n: t.repeat_interleave(n, 0, output_size=6), data(4, 3), counts)
    check(lambda n: torch.repeat_interleave(n, output_size=0), torch.tensor([0, 0]))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("diagonal", [-3, -1, 0, 2, 9])
def test_triangles(dtype, diagonal):
    x = data(2, 4, 5, dtype=dtype)
    check(lambda t: t.tril(diagonal), x)
    check(lambda t: t.triu(diagonal), x)
    host, device = x.clone(), x.to("tpu")
    same(device.tril_(diagonal), host.tril_(diagonal))


def test_triangle_keeps_no_nan():
    x = torch.full((3, 3), float("nan"))
    check(lambda t: t.tril(-1), x)
    check(lambda t: t.triu(), torch.empty(0, 3))


@pytest.mark.parametrize(
    "row,col,offset", [(3, 4, 0), (4, 3, 1), (3, 3, -1), (2, 5, -4), (5, 2, 3), (0, 3, 0), (3, 0, 0), (3, 3, 9)]
)
def test_triangle_indices(row, col, offset):
    for fn in (torch.tril_indices, torch.triu_indices):
        for dtype in (torch.int64, torch.int32):
            same(fn(row, col, offset, dtype=dtype, device="tpu"), fn(row, col, offset, dtype=dtype))


def test_pixels_and_channels():
    x = data(2, 8, 3, 4)
    check_grad(lambda t: functional.pixel_shuffle(t, 2), x)
    check_grad(lambda t: functional.pixel_unshuffle(t, 2), data(2, 3, 4, 6))
    check(lambda t: functional.channel_shuffle(t, 4), x)
    check(lambda t: functional.pixel_shuffle(t, 2), data(4, 3, 3))


# ---- numbers


@pytest.mark.parametrize("dtype", KINDS)
def test_fill(dtype):
    value = True if dtype is torch.bool else 3
    like = data(2, 3, dtype=dtype)
    check(lambda t: torch.full_like(t, value), like)
    check(lambda t: torch.zeros_like(t), like)
    check(lambda t: torch.ones_like(t), like)
    check(lambda t: t.clone().fill_(value), like)
    check(lambda t: t.clone().zero_(), like)
    check(lambda t, v: t.clone().fill_(v), like, torch.tensor(value))
    check(lambda t: torch.fill(t, value), like)
    same(torch.full((2, 0, 3), value, dtype=dtype, device="tpu"), torch.full((2, 0, 3), value, dtype=dtype))
    same(torch.full((2, 3), value, dtype=dtype, device="tpu"), torch.full((2, 3), value, dtype=dtype))
    same(torch.ones(4, dtype=dtype, device="tpu"), torch.ones(4, dtype=dtype))
    same(torch.zeros((), dtype=dtype, device="tpu"), torch.zeros((), dtype=dtype))
    same(torch.scalar_tensor(value, dtype=dtype, device="tpu"), torch.scalar_tensor(value, dtype=dtype))
    for n, m in ((3, 3), (2, 5), (4, 1), (0, 2)):
        same(torch.eye(n, m, dtype=dtype, device="tpu"), torch.eye(n, m, dtype=dtype))


def test_fill_writes_through_views():
    host, device = torch.zeros(4, 5), torch.zeros(4, 5, device="tpu")
    for t in (host, device):
        t[1:3, ::2].fill_(2)
        t[:, 4].zero_()
        t.t()[0].fill_(-1)
    same(device, host)


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 7), (0, 10, 3), (10, 0, -3), (0, 1, 0.1), (0.0, 2.5), (5, 5), (1, 6, 0.5), (2**60, 2**60 + 5), (-3, 3)],
    ids=str,
)
def test_arange(args):
    same(torch.arange(*args, device="tpu"), torch.arange(*args))
    if max(map(abs, args)) < 2**24:
        same(torch.arange(*args, dtype=torch.float32, device="tpu"), torch.arange(*args, dtype=torch.float32))


def test_arange_sizes_do_not_mix():
    for n in (3, 7, 4, 0, 12):
        same(torch.arange(n, device="tpu"), torch.arange(n))
    out = torch.empty(10, dtype=torch.int64, device="tpu")
    window = out[2:7]
    torch.arange(5, out=window)
    assert out[2:7].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64])
def test_linspace_logspace(dtype):
    for start, end, steps in ((0, 1, 5), (-3, 3, 7), (2, 2, 3), (5, -5, 1), (0, 1, 0), (0, 10, 11)):
        same(torch.linspace(start, end, steps, dtype=dtype, device="tpu"), torch.linspace(start, end, steps, dtype=dtype))
    for start, end, steps in ((0, 3, 4), (0, 2, 5), (1, 1, 1)):
        same(
            torch.logspace(start, end, steps, dtype=dtype, device="tpu"),
            torch.logspace(start, end, steps, dtype=dtype),
            rtol=1e-4,
            atol=1e-4,
        )
    same(torch.linspace(torch.tensor(1.0), 4.0, 4, device="tpu"), torch.linspace(1.0, 4.0, 4))


def test_linspace_ends_exactly():
    x = torch.linspace(-1.7, 3.3, 1001, device="tpu").cpu()
    assert x[-1].item() == torch.tensor(3.3).item() and x[0].item() == torch.tensor(-1.7).item()


# ---- padding


@pytest.mark.parametrize("dtype", KINDS)
def test_constant_pad(dtype):
    x = data(2, 3, 4, dtype=dtype)
    for pad in ((1, 2), (0, 0, 2, 1), (1, 1, 1, 1, 1, 1), (-1, 2), (-1, -1, 0, -2)):
        check(lambda t, pad=pad: functional.pad(t, pad), x)
    check(lambda t: functional.pad(t, (1, 1), value=True if dtype is torch.bool else 5), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 1), (1, 1, 0, 2, 1, 0)])
def test_border_pad(mode, pad, dtype):
    if dtype is torch.bfloat16 and mode == "circular":
        pytest.skip("a composite of copies")
    x = data(2, 3, *([4] * (len(pad) // 2)), dtype=dtype)
    check_grad(lambda t: functional.pad(t, pad, mode=mode), x)


def test_border_pad_refuses_too_much():
    with pytest.raises(RuntimeError):
        functional.pad(torch.zeros(1, 1, 3, device="tpu"), (3, 0), mode="reflect")
    with pytest.raises(RuntimeError):
        functional.pad(torch.zeros(1, 1, 0, device="tpu"), (1, 0), mode="replicate")


def test_constant_pad_gradient():
    check_grad(lambda t: functional.pad(t, (1, -1, 2, 0), value=3.0), data(2, 3, 4))


# ---- parts


def test_part_gradients():
    x = data(4, 5, 6)
    check_grad(lambda t: t[1:3, :, ::2], x)
    check_grad(lambda t: t[-2], x)
    check_grad(lambda t: t[:, 2:2], x)
    check_grad(lambda t: t[..., -3:-1], x)
    check_grad(lambda t: t.diagonal(1, 0, 2), x)
    check_grad(lambda t: t.diagonal(-2, 2, 1), x)
    check_grad(lambda t: t.diagonal(9), x)
    check_grad(lambda t: t.unfold(1, 3, 1), x)
    check_grad(lambda t: t.unfold(2, 2, 3), x)
    check_grad(lambda t: t.unfold(0, 70, 1), data(75, 2))
    check_grad(lambda t: torch.diag_embed(t, 1, 0, 2), data(2, 3))
    check_grad(lambda t: torch.diag_embed(t, -2), data(3))


def test_part_scatters():
    x = data(4, 5)
    check(lambda t, s: t.slice_scatter(s, 0, 1, 3), x, data(2, 5, seed=1))
    check(lambda t, s: t.slice_scatter(s, 1, 0, 5, 2), x, data(4, 3, seed=1))
    check(lambda t, s: t.slice_scatter(s, 0, -1), x, data(1, 5, seed=1))
    check(lambda t, s: t.select_scatter(s, 1, -2), x, data(4, seed=1))
    check(lambda t, s: t.diagonal_scatter(s, 1), x, data(4, seed=1))
    check(lambda t, s: t.diagonal_scatter(s, -1, 1, 0), x, data(4, seed=1))
    with pytest.raises(IndexError):
        move(x).select_scatter(move(data(4)), 1, 5)


@pytest.mark.parametrize(
    "kernel,dilation,padding,stride", [(3, 1, 1, 1), ((2, 3), 1, 0, 2), (2, 2, (1, 0), (1, 2)), (1, 1, 0, 1)]
)
def test_unfold_fold(kernel, dilation, padding, stride):
    x = data(2, 3, 7, 8)
    options = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
    check_grad(lambda t: functional.unfold(t, **options), x)
    columns = functional.unfold(x, **options)
    check_grad(lambda t: functional.fold(t, (7, 8), **options), columns)
    check(lambda t: functional.unfold(t, **options), x[0])


# ---- resampling


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [7, 10, 3, 5, 1])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_resample_1d(mode, size, dtype):
    check_grad(lambda t: functional.interpolate(t, size=size, mode=mode), data(2, 3, 5, dtype=dtype))


@pytest.mark.parametrize("size", [(7, 4), (10, 12), (3, 2), (5, 6), (1, 1)])
@pytest.mark.parametrize(
    "mode,align,smooth",
    [
        ("nearest", None, False),
        ("nearest-exact", None, False),
        ("bilinear", False, False),
        ("bilinear", True, False),
        ("bicubic", False, False),
        ("bicubic", True, False),
        ("bilinear", False, True),
        ("bicubic", False, True),
    ],
)
def test_resample_2d(mode, align, smooth, size):
    check_grad(
        lambda t: functional.interpolate(t, size=size, mode=mode, align_corners=align, antialias=smooth),
        data(2, 3, 5, 6),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("mode,align", [("nearest", None), ("nearest-exact", None), ("trilinear", False), ("trilinear", True)])
def test_resample_3d(mode, align):
    check_grad(
        lambda t: functional.interpolate(t, size=(4, 7, 3), mode=mode, align_corners=align),
        data(1, 2, 3, 4, 5),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("scale", [2, 1.7, 0.4])
@pytest.mark.parametrize("recompute", [False, True])
def test_resample_by_scale(scale, recompute):
    for mode in ("nearest", "bilinear", "bicubic"):
        check(
            lambda t, mode=mode: functional.interpolate(t, scale_factor=scale, mode=mode, recompute_scale_factor=recompute),
            data(1, 2, 6, 7),
            rtol=1e-4,
            atol=1e-5,
        )


def test_resample_bytes():
    check(lambda t: functional.interpolate(t, size=(5, 9), mode="nearest"), data(1, 2, 4, 6, dtype=torch.uint8))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_2d(mode, padding, align):
    grid = data(2, 4, 3, 2, seed=1) * 1.3
    check_grad(lambda t, g: functional.grid_sample(t, g, mode, padding, align), data(2, 3, 5, 6), grid, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_3d(mode, padding):
    grid = data(1, 2, 4, 3, 3, seed=1)
    check_grad(lambda t, g: functional.grid_sample(t, g, mode, padding, False), data(1, 2, 3, 4, 5), grid, rtol=1e-4, atol=1e-4)
