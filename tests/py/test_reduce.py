"""Reductions against PyTorch's cpu kernels: dtypes, dims, NaN, ties, empty inputs, precision of long sums."""

import math

import pytest
import torch

import torch_tpu

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 2e-6, torch.float64: 1e-12, torch.complex64: 2e-6}
WHOLE = ["sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "all", "any", "count_nonzero"]
OF_NOTHING = [torch.sum, torch.prod, torch.all, torch.any, torch.mean, torch.nansum, torch.count_nonzero, torch.var]


def make(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.complex(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)).to(dtype)
    return torch.randint(0, 9, shape, generator=generator).to(dtype)


def moved(value):
    return value.to("tpu") if isinstance(value, torch.Tensor) else value


def check(fn, *args, tolerance=None):
    """fn on both devices: equal values, dtypes and shapes."""
    want, got = fn(*args), fn(*[moved(arg) for arg in args])
    want = want if isinstance(want, (tuple, list)) else (want,)
    got = got if isinstance(got, (tuple, list)) else (got,)
    assert len(want) == len(got)
    for one, other in zip(want, got, strict=True):
        assert other.device.type == "tpu"
        limit = tolerance if tolerance is not None else TOLERANCE.get(one.dtype, 0)
        torch.testing.assert_close(other.cpu(), one, rtol=limit, atol=limit, equal_nan=True)


REDUCTIONS = [
    torch.sum,
    torch.mean,
    torch.nansum,
    torch.amax,
    torch.amin,
    torch.logsumexp,
    torch.linalg.vector_norm,
    torch.var,
    torch.std,
    torch.var_mean,
    torch.std_mean,
]


@pytest.mark.parametrize("fn", REDUCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dim", [0, -1, (0, 2), (1,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_float_dims(fn, dtype, dim, keepdim):
    if fn is torch.mean and dtype == torch.float16:
        dim = (dim,) if isinstance(dim, int) else dim
    check(lambda x: fn(x, dim=dim, keepdim=keepdim), make((3, 4, 5), dtype))


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
def test_whole(name, dtype):
    if dtype == torch.bool and name.startswith("arg"):
        pytest.skip("PyTorch has no argmax of bool")
    check(lambda x: getattr(torch, name)(x), make((4, 6), dtype))


@pytest.mark.parametrize("name", ["prod", "max", "min", "argmax", "argmin", "all", "any", "aminmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_one_dim(name, dtype, dim, keepdim):
    if dtype == torch.bool and name.startswith("arg"):
        pytest.skip("PyTorch has no argmax of bool")
    check(lambda x: getattr(torch, name)(x, dim=dim, keepdim=keepdim), make((5, 7), dtype))


@pytest.mark.parametrize("name", ["sum", "amax", "argmin", "all", "logsumexp", "var"])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_scalar_input(name, dim, keepdim):
    check(lambda x: getattr(torch, name)(x, dim=dim, keepdim=keepdim), torch.tensor(1.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8, torch.float16], ids=str)
@pytest.mark.parametrize("source", [torch.int32, torch.bool, torch.float32], ids=str)
def test_dtype_argument(dtype, source):
    x = make((6, 3), source)
    for fn in (torch.sum, torch.prod, torch.cumsum):
        if fn is torch.sum:
            check(lambda x: torch.sum(x, dtype=dtype), x)
        else:
            check(lambda x, fn=fn: fn(x, dim=0, dtype=dtype), x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex(dtype):
    x = make((3, 5), dtype)
    for fn in (torch.sum, torch.mean, torch.prod, torch.var, torch.linalg.vector_norm, torch.any, torch.all, torch.var_mean):
        check(fn, x, tolerance=1e-5)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "argmin", "aminmax"])
@pytest.mark.parametrize(
    "values",
    [[1.0, NAN, 3.0, NAN], [NAN, NAN, 1.0, 2.0], [-INF, -INF, -INF, -INF], [INF, 1.0, INF, -INF], [2.0, 3.0, 3.0, 2.0]],
    ids=str,
)
def test_nan_and_ties(name, values):
    x = torch.tensor([values, values[::-1]])
    fn = getattr(torch, name)
    check(fn, x)
    check(lambda x: fn(x, dim=1), x)
    check(lambda x: fn(x, dim=0), x)


def test_first_nan_index():
    x = torch.tensor([1.0, NAN, 5.0, NAN]).to("tpu")
    assert x.argmax().item() == 1 and x.argmin().item() == 1
    assert x.max(dim=0).indices.item() == 1


def test_long_sum_keeps_its_digits():
    x = torch.full((1 << 20,), 0.1)
    exact = math.fsum(x.double().tolist())
    assert abs(x.to("tpu").sum().item() - exact) / exact < 1e-6
    y = make((3, 100003), torch.float32).abs()
    got = y.to("tpu").sum(1).cpu().double()
    torch.testing.assert_close(got, y.double().sum(1), rtol=1e-6, atol=0)
    got = y.t().contiguous().to("tpu").sum(0).cpu().double()
    torch.testing.assert_close(got, y.double().sum(1), rtol=1e-6, atol=0)


def test_half_sum_is_wide():
    x = torch.ones(4096, dtype=torch.bfloat16)
    assert x.to("tpu").sum().item() == 4096.0


def test_integer_sum_is_wide():
    x = torch.full((1000,), 100, dtype=torch.int8)
    got = x.to("tpu").sum()
    assert got.dtype == torch.int64 and got.item() == 100000


@pytest.mark.parametrize("fn", OF_NOTHING)
def test_empty(fn):
    check(fn, torch.empty(0))
    check(fn, torch.empty(0, 3))


@pytest.mark.parametrize("fn", [torch.sum, torch.prod, torch.all, torch.logsumexp], ids=lambda f: f.__name__)
def test_empty_dim(fn):
    check(lambda x: fn(x, dim=1), torch.empty(3, 0))
    check(lambda x: fn(x, dim=0), torch.empty(3, 0))


@pytest.mark.parametrize("name", ["max", "amax", "argmax", "aminmax"])
def test_empty_extreme_raises(name):
    with pytest.raises((RuntimeError, IndexError)):
        getattr(torch, name)(torch.empty(0).to("tpu"))


def test_empty_dim_list():
    x = make((3, 4), torch.float32)
    check(lambda x: torch.sum(x, dim=[]), x)
    check(lambda x: torch.amax(x, dim=[]), x)
    check(lambda x: torch.all(x, dim=[]), x)
    check(lambda x: torch.var(x, dim=[]), x)


def test_dim_out_of_range():
    x = torch.ones(2, 3).to("tpu")
    with pytest.raises(IndexError):
        x.sum(2)
    with pytest.raises(IndexError):
        x.max(dim=-3)


@pytest.mark.parametrize("correction", [0, 1, 2, 0.5, 12])
def test_correction(correction):
    x = make((4, 3), torch.float32)
    check(lambda x: torch.var(x, dim=0, correction=correction), x)
    check(lambda x: torch.std(x, correction=correction), x)


def test_variance_with_a_large_mean():
    x = make((1000,), torch.float32) + 10000
    torch.testing.assert_close(x.to("tpu").var().cpu().double(), x.double().var(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF, -1])
def test_norms(p):
    x = make((4, 5), torch.float32)
    check(lambda x: torch.linalg.vector_norm(x, p, dim=1), x, tolerance=1e-5)
    check(lambda x: torch.norm(x, p), x, tolerance=1e-5)
    check(lambda x: torch.norm(x, p, dim=0, keepdim=True), x, tolerance=1e-5)
    check(lambda x: torch.linalg.vector_norm(x, p, dtype=torch.float64), x, tolerance=1e-10)


@pytest.mark.parametrize("p", [1.0, 2.0, INF])
def test_dist_renorm_cdist(p):
    x, y = make((4, 5), torch.float32), make((3, 5), torch.float32, 1)
    check(lambda x: torch.dist(x, x + 1, p), x, tolerance=1e-5)
    check(lambda x: torch.renorm(x, p, 0, 1.0), x, tolerance=1e-5)
    check(lambda x, y: torch.cdist(x, y, p), x, y, tolerance=1e-5)


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_pair_distances(p):
    """Forward and gradient; the gradient's formula where two rows are equal is cpu's, 0."""
    x, y = make((5, 4), torch.float32), make((3, 4), torch.float32, 1)
    y[0] = x[0]
    check(lambda x, y: torch.cdist(x, y, p), torch.stack([x, x + 1]), y, tolerance=1e-5)
    check(lambda x: torch.pdist(x, p), x, tolerance=1e-5)
    grads = []
    for device in ("cpu", "tpu"):
        a, b = (t.clone().to(device).requires_grad_() for t in (x, y))
        weight = torch.arange(1.0, 16.0).reshape(5, 3).to(device)
        (torch.cdist(a, b, p, compute_mode="donot_use_mm_for_euclid_dist") * weight).sum().backward()
        (torch.pdist(a, p) * torch.arange(1.0, 11.0).to(device)).sum().backward()
        grads.append((a.grad.cpu(), b.grad.cpu()))
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


def test_pdist_of_few_rows():
    check(torch.pdist, torch.ones(1, 3))
    check(torch.pdist, torch.tensor([[0.0, 0.0], [3.0, 4.0]]))


def test_logsumexp_extremes():
    x = torch.tensor([[1000.0, 1001.0], [-INF, -INF], [INF, 1.0], [NAN, 1.0], [-1000.0, -INF]])
    check(lambda x: torch.logsumexp(x, 1), x)
    check(lambda x: torch.logsumexp(x, (0, 1)), torch.tensor([[1, 2], [3, 4]]))


def test_trace():
    check(torch.trace, make((3, 5), torch.float32))
    check(torch.trace, make((5, 3), torch.int32))


def test_nansum_skips_nan():
    x = torch.tensor([[1.0, NAN, 2.0], [NAN, NAN, NAN]])
    check(lambda x: torch.nansum(x, 1), x)
    check(torch.nanmean, x)
    check(lambda x: torch.nanmean(x, 1), x)


@pytest.mark.parametrize("bins,low,high", [(4, 0, 0), (10, -1, 1), (3, 2, 2), (5, 0, 3)])
def test_histc(bins, low, high):
    check(lambda x: torch.histc(x, bins, low, high), make((100,), torch.float32))
    check(lambda x: torch.histc(x, bins, low, high), torch.full((7,), 2.0))


def test_number_that_varies_is_no_new_program():
    x = torch.ones(7, 11).to("tpu")
    torch.var(x, dim=0, correction=0.25).cpu()
    before = torch_tpu.metrics.counters()["compiles"]
    for correction in (0.5, 0.75, 1.25):
        torch.var(x, dim=0, correction=correction).cpu()
    assert torch_tpu.metrics.counters()["compiles"] == before


def test_out_argument():
    x = make((3, 4), torch.float32)
    out = torch.empty(3).to("tpu")
    assert torch.sum(x.to("tpu"), dim=1, out=out) is out
    torch.testing.assert_close(out.cpu(), x.sum(1))
    values, indices = torch.empty(3).to("tpu"), torch.empty(3, dtype=torch.int64).to("tpu")
    torch.max(x.to("tpu"), 1, out=(values, indices))
    want = x.max(1)
    assert torch.equal(values.cpu(), want.values) and torch.equal(indices.cpu(), want.indices)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum(1),
        lambda x: x.mean(),
        lambda x: x.prod(1),
        lambda x: x.amax(1),
        lambda x: x.max(1).values,
        lambda x: x.var(1),
        lambda x: x.std(),
        lambda x: x.logsumexp(1),
        lambda x: x.norm(),
        lambda x: x.norm(3, 1),
        lambda x: x.median(1).values,
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(1),
        lambda x: x.cummax(1).values,
        lambda x: x.logcumsumexp(1),
    ],
)
def test_gradients(fn):
    x = make((4, 5), torch.float32)
    grads = []
    for device in ("cpu", "tpu"):
        leaf = x.clone().to(device).requires_grad_()
        out = fn(leaf)
        weight = torch.arange(1.0, out.numel() + 1).reshape(out.shape).to(device)
        (out * weight).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fn", [torch.max, torch.min], ids=["max", "min"])
def test_extreme_of_an_empty_dimension(fn):
    x = torch.empty(3, 0, 2)
    with pytest.raises(IndexError) as want:
        fn(x, 1)
    with pytest.raises(IndexError) as got:
        fn(x.to("tpu"), 1)
    assert str(want.value).split(".")[0] in str(got.value)
    assert fn(x.to("tpu"), 2).values.shape == (3, 0)


@pytest.mark.parametrize("n", [127, 128, 131, 384, 1000, 1009, 40007])
def test_long_rows(n):
    """Rows are cut into lanes on processors: any length, with and without a rest, alone and with other reduced dims."""
    g = torch.Generator().manual_seed(n)
    x = torch.randn(3, 4, n, generator=g, dtype=torch.float64)
    x[1, 2, n // 2] = float("nan")
    whole = torch.randint(-100, 100, (3, n), generator=g)
    for dims in (2, (1, 2), (0, 2), (0, 1, 2)):
        for fn in (torch.sum, torch.amax, torch.amin):
            torch.testing.assert_close(fn(x.to("tpu"), dims).cpu(), fn(x, dims), equal_nan=True)
    near_one = 1 + x.nan_to_num() / 1000
    torch.testing.assert_close(near_one.to("tpu").prod(2).cpu(), near_one.prod(2))
    for fn in (torch.sum, torch.amax, torch.amin, torch.argmax, torch.argmin):
        assert fn(whole.to("tpu"), 1).tolist() == fn(whole, 1).tolist()
    torch.testing.assert_close(x.to("tpu").argmax(2).cpu(), x.argmax(2))
    torch.testing.assert_close(x[0].to("tpu").float().softmax(1).cpu(), x[0].float().softmax(1))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_histogram_of_integers(dtype):
    """As on other accelerators; cpu's kernel takes floating values only."""
    x = torch.tensor([0, 1, 1, 3, 7, 2, 3], dtype=dtype)
    got = torch.histc(x.to("tpu"), bins=4, min=0, max=3)
    assert got.dtype == dtype and got.tolist() == [1, 2, 1, 2]
    assert torch.histc(x.to("tpu"), bins=8).tolist() == torch.bincount(x.long(), minlength=8).tolist()
    with pytest.raises(NotImplementedError):
        torch.histc((x > 1).to("tpu"), bins=4)
