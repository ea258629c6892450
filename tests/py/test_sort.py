"""Sorting, order statistics, searches and unique against PyTorch's cpu kernels."""

import pytest
import torch
from test_reduce import FLOATS, INTS, check, make, moved

import torch_tpu  # noqa: F401

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool], ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sort(dtype, descending, dim):
    check(lambda x: torch.sort(x, stable=True, dim=dim, descending=descending), make((6, 30), dtype))


@pytest.mark.parametrize("descending", [False, True])
def test_sort_special_values(descending):
    x = torch.tensor([[1.0, NAN, -INF, INF, NAN, 0.0, -0.0, 1.0, 0.0]])
    check(lambda x: torch.sort(x, stable=True, descending=descending), x)
    check(lambda x: torch.sort(x, stable=True, descending=descending), x.bfloat16())
    check(lambda x: torch.sort(x, stable=True, descending=descending), x.double())


def test_sort_shapes():
    check(torch.sort, torch.tensor(3.0))
    check(torch.sort, torch.empty(0))
    check(torch.sort, torch.empty(3, 0))
    check(torch.sort, torch.tensor([[1.0], [2.0]]))
    check(lambda x: torch.sort(x, stable=True), torch.randperm(5000, generator=torch.Generator().manual_seed(0)))
    check(torch.msort, make((5, 4), torch.float32))
    check(lambda x: torch.argsort(x, dim=0, stable=True), make((5, 4), torch.int32))


@pytest.mark.parametrize("k", [0, 1, 3, 8])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_topk(k, largest, dtype):
    x = torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(i)) for i in range(5)]).to(dtype)
    check(lambda x: torch.topk(x, k, largest=largest), x)
    check(lambda x: torch.topk(x, min(k, 5), dim=0, largest=largest).values, x)


def test_topk_nan_is_largest():
    x = torch.tensor([1.0, NAN, 3.0, INF, -INF])
    check(lambda x: torch.topk(x, 3), x)
    check(lambda x: torch.topk(x, 1), x)
    check(lambda x: torch.topk(x, 4, largest=False), x)


def test_topk_k_too_large():
    with pytest.raises(RuntimeError):
        torch.topk(torch.ones(3).to("tpu"), 4)


@pytest.mark.parametrize("fn", [torch.median, torch.nanmedian])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_median(fn, n):
    x = torch.stack([torch.randperm(n, generator=torch.Generator().manual_seed(i)) for i in range(3)]).float()
    check(fn, x)
    check(lambda x: fn(x, dim=1), x)
    check(lambda x: fn(x, dim=1, keepdim=True), x)
    check(fn, x.int())
    y = x.clone()
    y[0, -1] = NAN
    y[1] = NAN
    check(fn, y)
    if fn is torch.median:
        check(lambda x: fn(x, dim=1), y)
    else:  # which NaN of a row of NaNs is picked is not said
        check(lambda x: fn(x, dim=1).values, y)
        check(lambda x: fn(x, dim=1).indices, y[::2])


def test_median_edges():
    check(torch.median, torch.empty(0))
    check(torch.median, torch.tensor(3.0))
    check(lambda x: torch.median(x, 0), torch.tensor(3.0))
    with pytest.raises(IndexError):
        torch.median(torch.empty(3, 0).to("tpu"), 1)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_kthvalue(k):
    x = torch.stack([torch.randperm(7, generator=torch.Generator().manual_seed(i)) for i in range(3)]).float()
    check(lambda x: torch.kthvalue(x, k), x)
    check(lambda x: torch.kthvalue(x, k, dim=1, keepdim=True), x)


def test_mode():
    check(torch.mode, torch.tensor([[1, 2, 2, 1, 3], [5, 5, 5, 1, 1], [4, 3, 2, 1, 0]]))
    check(lambda x: torch.mode(x, 0, True), make((9, 4), torch.int64))
    check(torch.mode, torch.tensor([1.0, 2.0, 2.0, 0.5]))
    check(torch.mode, torch.tensor(3.0))


@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0])
def test_quantile(q):
    x = make((4, 9), torch.float32)
    check(lambda x: torch.quantile(x, q, dim=1), x)
    check(lambda x: torch.nanquantile(x, q), x)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64], ids=str)
def test_searchsorted(right, dtype):
    rows = torch.sort(make((3, 40), dtype))[0]
    values = make((3, 17), dtype, 1)
    check(lambda s, v: torch.searchsorted(s, v, right=right), rows, values)
    check(lambda s, v: torch.searchsorted(s, v, right=right), rows[0].contiguous(), values)
    check(lambda s: torch.searchsorted(s, 3, right=right), rows[0].contiguous())
    check(lambda s, v: torch.bucketize(v, s, right=right, out_int32=True), rows[1].contiguous(), values)
    check(lambda s, v: torch.bucketize(v, s, right=right), rows[1, :0].contiguous(), values)


def test_searchsorted_special():
    rows = torch.tensor([1.0, 2.0, 2.0, INF, NAN])
    values = torch.tensor([NAN, -INF, INF, 2.0, 0.0])
    check(lambda s, v: torch.searchsorted(s, v), rows, values)
    check(lambda s, v: torch.searchsorted(s, v, side="right"), rows, values)
    none = torch.empty(0)
    check(lambda s, v: torch.searchsorted(s, v, sorter=torch.argsort(s)), none, values)
    check(lambda s, v: torch.bucketize(v, s, out_int32=True), none, values)
    unsorted = torch.tensor([3.0, 1.0, 2.0])
    check(lambda s, v: torch.searchsorted(s, v, sorter=torch.argsort(s)), unsorted, values)


@pytest.mark.parametrize("m", [0, 3, 500])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(m, invert):
    x, test = make((20, 10), torch.int64), make((m,), torch.int64, 1) * 3
    check(lambda x, y: torch.isin(x, y, invert=invert), x, test)
    check(lambda x, y: torch.isin(x, y), x.float() / 2, test)
    check(lambda x: torch.isin(x, 3), x)
    check(lambda x: torch.isin(3, x), x)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16], ids=str)
def test_unique(inverse, counts, dtype):
    x = make((4, 25), dtype)
    check(lambda x: torch.unique(x, return_inverse=inverse, return_counts=counts), x)
    check(lambda x: torch.unique_consecutive(x, return_inverse=inverse, return_counts=counts), x)
    check(lambda x: torch.ops.aten._unique(x, True, inverse), x)


def test_unique_edges():
    check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.empty(0))
    check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.empty(2, 0))
    check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.tensor(3))
    check(lambda x: torch.unique(x, return_counts=True), torch.tensor([1.0, NAN, NAN, 1.0]))
    check(lambda x: torch.unique(x), torch.arange(100))


@pytest.mark.parametrize("columns", [1, 3])
def test_unique_rows(columns):
    x = make((30, columns), torch.int64) % 2
    check(lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), x)
    check(lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True), x)
    check(lambda x: torch.unique(x, dim=0, return_counts=True), make((10, 2, 2), torch.int32) % 2)
    for dim in (1, 2, -1):
        y = make((2, 8, 3), torch.int32) % 2
        check(lambda x: torch.unique(x, dim=dim, return_inverse=True, return_counts=True), y)  # noqa: B023
        check(lambda x: torch.unique_consecutive(x, dim=dim, return_inverse=True, return_counts=True), y)  # noqa: B023


def test_out_argument():
    x = make((3, 8), torch.float32)
    values, indices = torch.empty(3, 8).to("tpu"), torch.empty(3, 8, dtype=torch.int64).to("tpu")
    torch.sort(moved(x), 1, out=(values, indices))
    want = x.sort(1)
    assert torch.equal(values.cpu(), want.values) and torch.equal(indices.cpu(), want.indices)


@pytest.mark.parametrize("fn", [lambda x: x.sort(1).values, lambda x: x.topk(3, 1).values, lambda x: x.kthvalue(2, 1).values])
def test_gradients(fn):
    x = make((4, 6), torch.float32)
    grads = []
    for device in ("cpu", "tpu"):
        leaf = x.clone().to(device).requires_grad_()
        out = fn(leaf)
        (out * torch.arange(1.0, out.numel() + 1).reshape(out.shape).to(device)).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_one_with_nan(dtype, largest):
    x = torch.tensor([[3.0, float("nan"), 1.0], [float("nan")] * 3, [float("inf"), float("nan"), float("inf")]], dtype=dtype)
    want, got = torch.topk(x, 1, largest=largest), torch.topk(x.tpu(), 1, largest=largest)
    torch.testing.assert_close(got.values.cpu(), want.values, equal_nan=True)
    torch.testing.assert_close(x.gather(1, got.indices.cpu()), want.values, equal_nan=True)
