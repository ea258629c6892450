"""Cumulative ops against PyTorch's cpu kernels."""

import pytest
import torch
from test_reduce import FLOATS, INTS, check, make

import torch_tpu  # noqa: F401

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 256, 257, 1000, 5000])
def test_lengths(n):
    x = make((2, n), torch.float32)
    check(lambda x: x.cumsum(1), x, tolerance=2e-5)
    check(lambda x: x.cummax(1), x)
    check(lambda x: x.t().contiguous().cumsum(0), x, tolerance=2e-5)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_dtypes(name, dtype, dim):
    check(lambda x: getattr(torch, name)(x, dim), make((5, 20, 3), dtype), tolerance=2e-2 if dtype == torch.bfloat16 else 5e-3)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_scalar_and_empty(name):
    fn = getattr(torch, name)
    check(lambda x: fn(x, 0), torch.tensor(2.0))
    check(lambda x: fn(x, -1), torch.empty(0))
    check(lambda x: fn(x, 1), torch.empty(3, 0))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_special_values(name):
    rows = [[1.0, INF, 2.0, NAN, 3.0, NAN, 1.0], [1.0, -INF, 2.0, 2.0, INF, 0.0, 5.0], [3.0, 1.0, 3.0, 2.0, 3.0, 1.0, 1.0]]
    x = torch.tensor(rows)
    check(lambda x: getattr(torch, name)(x, 1), x)
    check(lambda x: getattr(torch, name)(x, 1), torch.full((1, 40), -INF))


def test_infinity_does_not_reach_back():
    x = torch.ones(100)
    x[50] = INF
    got = x.to("tpu").cumsum(0).cpu()
    assert got[49].item() == 50.0 and got[50].item() == INF


def test_long_sum_is_precise():
    x = make((100000,), torch.float32)
    torch.testing.assert_close(x.to("tpu").cumsum(0).cpu().double(), x.double().cumsum(0), rtol=1e-5, atol=1e-3)
    ones = torch.full((100000,), 0.1)
    got, want = ones.to("tpu").cumsum(0).cpu().double(), ones.double().cumsum(0)
    assert ((got - want).abs() / want).max().item() < 1e-6


def test_integer_sum_is_exact():
    x = torch.randint(0, 1 << 40, (3000,), generator=torch.Generator().manual_seed(0))
    check(lambda x: x.cumsum(0), x)


def test_ties_take_the_last_index():
    got = torch.tensor([3.0, 1.0, 3.0, 3.0, 2.0]).to("tpu").cummax(0)
    assert got.indices.tolist() == [0, 0, 2, 3, 3]


def test_logcumsumexp_of_large_numbers():
    x = make((3, 300), torch.float32) * 50
    check(lambda x: x.logcumsumexp(1), x, tolerance=1e-5)


def test_in_place_and_out():
    x = make((4, 9), torch.float32)
    y = x.to("tpu")
    y.cumsum_(1)
    torch.testing.assert_close(y.cpu(), x.cumsum(1))
    out = torch.empty(4, 9).to("tpu")
    torch.cumprod(x.to("tpu"), 1, out=out)
    torch.testing.assert_close(out.cpu(), x.cumprod(1))


def test_derived():
    x = make((4, 9), torch.float32)
    check(lambda x: torch.diff(x, dim=1), x)
    check(lambda x: torch.cumulative_trapezoid(x, dim=1), x, tolerance=1e-5)
