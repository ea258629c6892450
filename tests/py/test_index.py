"""Reading and writing at indices, against PyTorch on cpu. An index out of range is an IndexError, for gather and scatter a
RuntimeError."""

import pytest
import torch
from torch.nn import functional

import torch_tpu  # noqa: F401

KINDS = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


def data(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0 if dtype is torch.uint8 else -9, 10, shape, generator=generator, dtype=dtype)


def ints(*values, dtype=torch.int64):
    return torch.tensor(values if len(values) != 1 or not isinstance(values[0], list) else values[0], dtype=dtype)


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
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, **kwargs)


def check(fn, *args, **kwargs):
    want = fn(*args)
    same(fn(*move(args)), want, **kwargs)


def check_grad(fn, *args, **kwargs):
    host = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in args]
    device = [a.detach().to("tpu").requires_grad_(a.is_floating_point()) for a in args]
    want, got = fn(*host), fn(*device)
    same(got.detach(), want.detach(), **kwargs)
    weight = data(*want.shape, seed=7).to(want.dtype)
    want.backward(weight)
    got.backward(weight.to("tpu"))
    for h, d in zip(host, device, strict=True):
        if h.grad is not None:
            torch.testing.assert_close(d.grad.cpu(), h.grad, **kwargs)


def raises(error, fn, *args):
    with pytest.raises(error):
        fn(*move(args)).cpu()
    # The device goes on.
    assert torch.ones(2, device="tpu").sum().item() == 2


# ---- index


@pytest.mark.parametrize("dtype", KINDS)
def test_index_one_dim(dtype):
    x = data(5, 4, 3, dtype=dtype)
    check(lambda t, i: t[i], x, ints(0, 4, -1, -5, 0))
    check(lambda t, i: t[:, i], x, ints([[1, -2], [3, 0]]))
    check(lambda t, i: t[..., i], x, ints(2, 2, 0, dtype=torch.int32))
    check(lambda t, i: t[i], x, torch.empty(0, dtype=torch.int64))
    check(lambda t, i: t[i], x, ints(2)[0])


def test_index_many_dims():
    x = data(5, 4, 3, 2)
    i, j, k = ints(0, 3, -1), ints(1, -4, 2), ints([[0], [-1]])
    check(lambda t, i, j: t[i, j], x, i, j)
    check(lambda t, i, j: t[i, :, j % 3], x, i, j)
    check(lambda t, i, j: t[:, i % 4, j % 3], x, i, j)
    check(lambda t, i, k: t[:, i % 4, :, k], x, i, k)
    check(lambda t, i, j, k: t[i, j, k], x, i, j, k)
    check(lambda t, i: t[i, i % 4, i % 3, i % 2], x, i)
    check(lambda t, i: t[None, i, 1:3, ..., 0], x, i)
    check(lambda t, i: t[i, ..., i % 2], x, i)


def test_index_masks():
    x = data(4, 5, 3)
    check(lambda t: t[t > 0], x)
    check(lambda t, m: t[m], x, data(4, 5, dtype=torch.bool))
    check(lambda t, m: t[:, m], x, data(5, dtype=torch.bool))
    check(lambda t, m: t[m], x, torch.zeros(4, dtype=torch.bool))
    check(lambda t, m, i: t[m, i], x, ints(1, 0, 1, 1).bool(), ints(0, 2, -1))
    check(lambda t: t[torch.ones((), dtype=torch.bool, device=t.device)], x)


def test_index_empty_tensor():
    x = torch.empty(0, 3)
    check(lambda t, i: t[i], x, torch.empty(0, dtype=torch.int64))
    check(lambda t, i: t[:, i], x, ints(0, 2))
    with pytest.raises(IndexError):
        move(x)[move(ints(0, 1))].cpu()


def test_index_errors():
    x = data(5, 4)
    raises(IndexError, lambda t, i: t[i], x, ints(5))
    raises(IndexError, lambda t, i: t[i], x, ints(0, -6))
    raises(IndexError, lambda t, i: t[:, i], x, ints(4))
    with pytest.raises((IndexError, RuntimeError)):
        move(x)[move(ints(0, 1)), move(ints(0, 1, 2))]
    with pytest.raises((IndexError, RuntimeError)):
        move(x)[move(ints(0)), move(ints(0)), move(ints(0))]


def test_index_gradient():
    check_grad(lambda t, i: t[i], data(5, 4), ints(0, 3, 0, -1, 0))
    check_grad(lambda t, i: t[:, i], data(5, 4), ints([[0, 3], [0, -1]]))
    check_grad(lambda t, i: t[i, i], data(5, 4), ints(0, 3, 0))
    check_grad(lambda t: t[t.detach() > 0], data(5, 4))


# ---- index_put


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(dtype, accumulate):
    x = data(5, 4, dtype=dtype)
    cases = [
        ((ints(0, 3, -1),), (3, 4)),
        ((ints(0, 3, -1),), (4,)),
        ((ints(0, 3, -1), ints(1, -4, 2)), (3,)),
        ((ints(2, 1), ints(0, 0)), ()),
        ((ints([[0], [3]]), ints(1, 2)), (2, 2)),
    ]
    for indices, shape in cases:
        check(lambda t, i, v: t.index_put(i, v, accumulate), x, indices, data(*shape, dtype=dtype, seed=3))
        check(lambda t, i, v: t.clone().index_put_(i, v, accumulate), x, indices, data(*shape, dtype=dtype, seed=3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_index_put_counts_every_repeat(dtype):
    x = torch.zeros(4, dtype=dtype)
    check(lambda t, i, v: t.index_put((i,), v, True), x, ints(1, 1, 1, 3, 1), torch.ones(5, dtype=dtype))
    check(lambda t, i, v: t.index_put((i,), v, True), x, ints(1, 1, 1, 3, 1), torch.ones((), dtype=dtype))


def test_half_sums_are_rounded_once():
    got = torch.zeros(1, dtype=torch.bfloat16, device="tpu")
    got.index_put_(
        (torch.zeros(512, dtype=torch.int64, device="tpu"),), torch.ones(512, dtype=torch.bfloat16, device="tpu"), True
    )
    assert got.item() == 512


def test_setitem():
    def writes(t):
        t = t.clone()
        device = t.device
        t[torch.tensor([0, -1], device=device)] = 5
        t[:, torch.tensor([1], device=device)] = torch.tensor([[7.0]], device=device)
        t[t > 4] = -1
        t[torch.tensor([True, False, False, True, False], device=device)] = torch.arange(8.0, device=device).reshape(2, 4)
        t[1:3, torch.tensor([0, 2], device=device)] += 10
        t[torch.tensor([2], device=device), 1:3] = 0.5
        return t

    check(writes, data(5, 4))


def test_index_put_through_view():
    host, device = data(4, 6), data(4, 6).to("tpu")
    for t in (host, device):
        t.t()[1:4][torch.tensor([0, -1], device=t.device)] = 9
    same(device, host)


def test_index_put_errors():
    raises(IndexError, lambda t, i: t.index_put((i,), torch.zeros((), device=t.device)), data(3), ints(3))
    raises(IndexError, lambda t, i: t.clone().index_put_((i,), torch.ones((), device=t.device), True), data(3), ints(-4))


# ---- index_select and kin


@pytest.mark.parametrize("dtype", KINDS)
def test_index_select(dtype):
    x = data(5, 4, 3, dtype=dtype)
    for dim in (0, 1, -1):
        check(lambda t, i, dim=dim: t.index_select(dim, i), x, ints(2, 0, 2))
    check(lambda t, i: t.index_select(0, i), x, ints(1, 1, dtype=torch.int32))
    check(lambda t, i: t.index_select(0, i), x, torch.empty(0, dtype=torch.int64))
    check(lambda t, i: t.index_select(0, i), x[0, 0, 0], ints([0]))
    raises(IndexError, lambda t, i: t.index_select(1, i), x, ints(4))
    raises(IndexError, lambda t, i: t.index_select(1, i), x, ints(-1))


def test_index_select_gradient():
    check_grad(lambda t, i: t.index_select(1, i), data(3, 4), ints(2, 0, 2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_index_add_copy_fill(dtype):
    x, src = data(5, 4, dtype=dtype), data(3, 4, dtype=dtype, seed=5)
    for index in (ints(0, 2, 4), ints(4, 0, 1, dtype=torch.int32)):
        check(lambda t, i, s: t.index_add(0, i, s), x, index, src)
        check(lambda t, i, s: t.index_add(-1, i.long() % 4, s), x, index, data(5, 3, dtype=dtype))
    check(lambda t, i, s: t.index_copy(0, i, s), x, ints(0, 2, 4), src)
    check(lambda t, i, s: t.clone().index_copy_(1, i, s), x, ints(3, 0), data(5, 2, dtype=dtype))
    check(lambda t, i: t.index_fill(0, i, 1), x, ints(0, -1))
    check(lambda t, i: t.clone().index_fill_(1, i, 1), x, ints(2))
    check(lambda t, i, v: t.index_fill(1, i, v), x, ints(2), torch.ones((), dtype=dtype))


def test_index_add_details():
    check(lambda t, i, s: t.index_add(0, i, s, alpha=-2), data(3, 2), ints(1, 1, 0), data(3, 2, seed=2))
    check(lambda t, i, s: t.index_add(0, i, s), data(3), ints(1, 1, 1), torch.ones(3))
    check(lambda t, i, s: t.index_add(0, i, s), torch.zeros(()), ints([0]), torch.ones(()))
    check_grad(lambda t, i, s: t.index_add(0, i, s), data(3, 2), ints(1, 1, 0), data(3, 2, seed=2))
    raises(IndexError, lambda t, i, s: t.index_add(0, i, s), data(3), ints(3), data(1))
    raises(IndexError, lambda t, i, s: t.index_copy(0, i, s), data(3), ints(-1), data(1))
    raises(IndexError, lambda t, i: t.index_fill(0, i, 1.0), data(3), ints(3))


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
def test_index_reduce(reduce, include_self):
    check(
        lambda t, i, s: t.index_reduce(0, i, s, reduce, include_self=include_self),
        data(5, 4),
        ints(0, 3, 3, 0),
        data(4, 4, seed=3),
    )


def test_take_and_put():
    x = data(3, 4)
    check(lambda t, i: t.take(i), x, ints([[0, -1], [11, -12]]))
    check(lambda t, i: torch.take_along_dim(t, i, 1), x, ints([[0], [3], [1]]))
    check(lambda t, i, s: t.put(i, s), x, ints(0, -1, 5), data(3, seed=1))
    check(lambda t, i, s: t.put(i, s, True), x, ints(1, 1, -1), data(3, seed=1))
    check(lambda t, i, s: t.t().clone().put_(i, s, True), x, ints(1, 1, -1), data(3, seed=1))
    raises(IndexError, lambda t, i: t.take(i), x, ints(12))
    raises(IndexError, lambda t, i, s: t.put(i, s), x, ints(-13), data(1))


# ---- gather, scatter


@pytest.mark.parametrize("dtype", KINDS)
def test_gather(dtype):
    x = data(4, 5, 3, dtype=dtype)
    for dim, shape in ((0, (2, 5, 3)), (1, (4, 7, 3)), (2, (3, 2, 1)), (-1, (4, 5, 3)), (1, (2, 0, 3))):
        index = torch.randint(0, x.shape[dim], shape, generator=torch.Generator().manual_seed(1))
        check(lambda t, i, dim=dim: t.gather(dim, i), x, index)
    check(lambda t, i: t.gather(0, i), x[0, 0, 0], ints(0)[0])
    raises(RuntimeError, lambda t, i: t.gather(0, i), x, torch.full((1, 1, 1), 4))
    raises(RuntimeError, lambda t, i: t.gather(0, i), x, torch.full((1, 1, 1), -1))


def test_gather_gradient():
    check_grad(lambda t, i: t.gather(1, i), data(3, 4), ints([[0, 0, 3], [1, 2, 2], [3, 3, 3]]))
    check_grad(lambda t, i: t.gather(0, i), data(3, 4), ints([[0, 2], [2, 2]]))


@pytest.mark.parametrize("dtype", KINDS)
def test_scatter(dtype):
    x, src = data(4, 5, dtype=dtype), data(4, 5, dtype=dtype, seed=4)
    unique = ints([[0, 2, 4], [1, 3, 0]])
    check(lambda t, i, s: t.scatter(1, i, s), x, unique, src)
    check(lambda t, i, s: t.clone().scatter_(1, i, s), x, unique, src)
    check(lambda t, i: t.scatter(1, i, 1), x, unique)
    check(lambda t, i, s: t.scatter(0, i, s), x, ints([[3, 0, 1]]), src)
    check(lambda t, i, s: t.scatter_add(1, i, s), x, ints([[0, 0, 0, 4], [1, 1, 2, 2]]), src)
    check(lambda t, i, s: t.scatter(1, i, s), x, torch.empty(0, 0, dtype=torch.int64), src)
    if dtype is not torch.bool:
        check(lambda t, i, s: t.scatter(1, i, s, reduce="add"), x, unique, src)
        check(lambda t, i, s: t.scatter(1, i, s, reduce="multiply"), x, unique, src)
        check(lambda t, i: t.scatter(1, i, 2, reduce="add"), x, unique)
        check(lambda t, i: t.scatter(1, i, 3, reduce="multiply"), x, unique)


def test_scatter_details():
    check(lambda t, i, s: t.scatter(0, i, s), torch.zeros(()), ints(0)[0], torch.ones(()))
    check_grad(lambda t, i, s: t.scatter(1, i, s), data(3, 4), ints([[0, 2], [1, 3], [3, 0]]), data(3, 2, seed=1))
    check_grad(lambda t, i, s: t.scatter_add(1, i, s), data(3, 4), ints([[0, 0], [1, 1], [3, 0]]), data(3, 2, seed=1))
    raises(RuntimeError, lambda t, i, s: t.scatter(1, i, s), data(2, 3), ints([[3]]), data(1, 1))
    raises(RuntimeError, lambda t, i: t.scatter(0, i, 1.0), data(2, 3), ints([[-1]]))
    raises(RuntimeError, lambda t, i, s: t.scatter_add(1, i, s), data(2, 3), ints([[3]]), data(1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [False, True])
def test_scatter_reduce(reduce, include_self, dtype):
    x, src = data(3, 5, dtype=dtype), data(3, 6, dtype=dtype, seed=4)
    index = ints([[0, 0, 1, 1, 4, 4], [2, 2, 2, 2, 2, 2], [0, 1, 2, 3, 4, 0]])
    check(lambda t, i, s: t.scatter_reduce(1, i, s, reduce, include_self=include_self), x, index, src)
    check(lambda t, i, s: t.clone().scatter_reduce_(1, i, s, reduce, include_self=include_self), x, index, src)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_scatter_reduce_nan(reduce):
    src = torch.tensor([1.0, float("nan"), 2.0, 3.0])
    check(lambda t, i, s: t.scatter_reduce(0, i, s, reduce), torch.zeros(3), ints(0, 0, 1, 1), src)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax"])
def test_scatter_reduce_gradient(reduce):
    check_grad(lambda t, i, s: t.scatter_reduce(1, i, s, reduce), data(2, 4), ints([[0, 0, 1], [3, 2, 3]]), data(2, 3, seed=2))


# ---- masks


@pytest.mark.parametrize("dtype", KINDS)
def test_nonzero(dtype):
    check(lambda t: t.nonzero(), data(3, 4, 5, dtype=dtype))
    check(lambda t: t.nonzero(as_tuple=True), data(6, 3, dtype=dtype))


def test_nonzero_edges():
    check(lambda t: t.nonzero(), torch.zeros(3, 4))
    check(lambda t: t.nonzero(), torch.empty(0, 4))
    check(lambda t: t.nonzero(), torch.tensor(0.0))
    check(lambda t: t.nonzero(), torch.tensor(2.0))
    check(lambda t: t.nonzero(), torch.tensor([float("nan"), 0.0, -0.0, 1e-30]))
    check(lambda t: t.nonzero(), data(70, 301, dtype=torch.bool))
    check(lambda t: torch.argwhere(t), data(3, 4, dtype=torch.int64))
    check(lambda t: torch.nonzero_static(t, size=4), ints(0, 1, 0, 1, 1))
    check(lambda t: torch.nonzero_static(t, size=9, fill_value=7), data(3, 2, dtype=torch.bool))


@pytest.mark.parametrize("dtype", KINDS)
def test_masked_select_and_scatter(dtype):
    x, mask = data(4, 5, dtype=dtype), data(4, 5, dtype=torch.bool, seed=3)
    check(lambda t, m: t.masked_select(m), x, mask)
    check(lambda t, m: t.masked_select(m), x, mask[0])
    check(lambda t, m: t.masked_select(m), x[:1], mask)
    check(lambda t, m, s: t.masked_scatter(m, s), x, mask, data(20, dtype=dtype, seed=2))
    check(lambda t, m, s: t.clone().masked_scatter_(m, s), x, mask[:, :1], data(20, dtype=dtype, seed=2))


def test_mask_gradients():
    mask = data(4, 5, dtype=torch.bool, seed=3)
    check_grad(lambda t, m: t.masked_select(m), data(4, 5), mask)
    check_grad(lambda t, m, s: t.masked_scatter(m, s), data(4, 5), mask, data(20, seed=1))
    with pytest.raises((IndexError, RuntimeError)):
        data(4).to("tpu").masked_scatter(torch.ones(4, dtype=torch.bool, device="tpu"), torch.ones(2, device="tpu")).cpu()


# ---- embeddings


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding(dtype, padding, by_frequency):
    index = ints([[0, 1, 1, 5], [5, 5, 2, 1]])
    check_grad(
        lambda w, i: functional.embedding(i, w, padding, scale_grad_by_freq=by_frequency), data(6, 3, dtype=dtype), index
    )
    check_grad(lambda w, i: functional.embedding(i, w, padding), data(6, 3, dtype=dtype), index.int())


def test_embedding_details():
    check(lambda w, i: functional.embedding(i, w), data(6, 3), ints(3)[0])
    check(lambda w, i: functional.embedding(i, w), data(6, 3), torch.empty(2, 0, dtype=torch.int64))
    raises(IndexError, lambda w, i: functional.embedding(i, w), data(6, 3), ints(6))
    raises(IndexError, lambda w, i: functional.embedding(i, w), data(6, 3), ints(-1))
    raises(IndexError, lambda w, i: functional.embedding(i, w), data(6, 3), ints(0, 1, 10**12))


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
def test_embedding_max_norm(norm_type):
    check(lambda w, i: functional.embedding(i, w.clone(), max_norm=0.7, norm_type=norm_type), data(6, 3), ints(0, 2, 2, 5))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
def test_embedding_bag(mode, last, padding):
    index, offsets = ints(0, 2, 2, 5, 1, 2, 4), ints(*([0, 3, 3, 5] + ([7] if last else [])))
    check_grad(
        lambda w, i, o: functional.embedding_bag(i, w, o, mode=mode, include_last_offset=last, padding_idx=padding),
        data(6, 3),
        index,
        offsets,
    )


def test_embedding_bag_weights():
    index, offsets = ints(0, 2, 2, 5, 1, 2, 4), ints(0, 3, 3, 5)
    check_grad(
        lambda w, i, o, p: functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
        data(6, 3),
        index,
        offsets,
        data(7, seed=2),
    )
    check_grad(lambda w, i: functional.embedding_bag(i, w, mode="mean"), data(6, 3), ints([[0, 1], [5, 5]]))
    raises(IndexError, lambda w, i, o: functional.embedding_bag(i, w, o), data(6, 3), ints(0, 6), ints([0]))


# ---- plans


def test_same_op_with_other_indices_makes_no_new_program():
    from torch_tpu import metrics

    x, index = data(50, 4).to("tpu"), ints(1, 2, 3).to("tpu")
    x[index].cpu()
    before = metrics.counters()["compiles"]
    for k in range(3):
        x[(index + k).clone()].cpu()
    x[index].cpu()
    assert metrics.counters()["compiles"] - before <= 2  # of the addition and the copy


def test_index_add_of_nothing():
    for device in ("cpu", "tpu"):
        none = torch.empty(0, dtype=torch.long, device=device)
        assert torch.ones(5, device=device).index_add(0, none, torch.empty(0, device=device)).tolist() == [1] * 5


def test_nothing_is_out_of_range_where_nothing_is():
    for device in ("cpu", "tpu"):
        far = torch.tensor([5], device=device)
        assert torch.zeros(3, 0, device=device).index_add(0, far, torch.ones(1, 0, device=device)).shape == (3, 0)
        none = torch.zeros(0, dtype=torch.int32, device=device)
        assert torch.fmod(none, torch.zeros(1, dtype=torch.int32, device=device)).tolist() == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16], ids=str)
def test_indices_of_wrong_dtypes_are_refused(dtype):
    for device in ("cpu", "tpu"):
        index, x = torch.zeros(2, dtype=dtype, device=device), torch.ones(3, 2, device=device)
        for name in ("index_add", "index_copy"):
            with pytest.raises(RuntimeError):
                getattr(x, name)(0, index, x[:2])


def test_a_refused_value_keeps_its_error():
    quotient = torch.tensor([1, 2]).to("tpu")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        quotient = quotient // torch.tensor([0, 1]).to("tpu")
        torch.ones(2).to("tpu").tolist()
    if quotient.dtype == torch.int64 and quotient.numel() == 2:
        with pytest.raises(RuntimeError):
            (quotient // torch.tensor([0, 1]).to("tpu")).tolist()


def test_indices_behind_the_last_bag_have_no_gradient():
    weight = torch.ones(5, 2, device="tpu", requires_grad=True)
    bags = torch.tensor([1, 2, 3], device="tpu"), torch.tensor([0, 2], device="tpu")
    functional.embedding_bag(bags[0], weight, bags[1], mode="sum", include_last_offset=True).sum().backward()
    assert weight.grad.cpu().sum(1).tolist() == [0, 2, 2, 0, 0]
