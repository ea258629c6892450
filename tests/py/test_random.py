"""Random numbers: ranges, moments, reproducibility, and parameters that make no new program."""

import math

import pytest
import torch

import torch_tpu

N = 20000
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def empty(dtype=torch.float32, n=N):
    return torch.empty(n, dtype=dtype, device="tpu")


def compiles():
    return torch_tpu.metrics.counters()["compiles"]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1234)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform(dtype):
    x = empty(dtype).uniform_().cpu().double()
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.01
    y = empty(dtype).uniform_(-3, 5).cpu().double()
    assert y.min() >= -3 and y.max() < 5 and abs(y.mean() - 1) < 0.1
    assert len(torch.rand(1000, device="tpu").unique()) > 990


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [N, N + 1])
def test_normal(dtype, n):
    x = empty(dtype, n).normal_(2, 3).cpu().double()
    assert abs(x.mean() - 2) < 0.1 and abs(x.std() - 3) < 0.1
    z = (x - 2) / 3
    assert abs((z**3).mean()) < 0.1 and abs((z**4).mean() - 3) < 0.3
    assert abs((z.abs() < 1).double().mean() - 0.6827) < 0.02


def test_normal_halves_are_independent():
    z = torch.randn(N, device="tpu").cpu()
    a, b = z[: N // 2], z[N // 2 :]
    assert abs((a * b).mean()) < 0.05 and abs((a**2 * b**2).mean() - 1) < 0.1


def test_normal_complex():
    z = torch.randn(N, dtype=torch.complex64, device="tpu").cpu()
    assert abs(z.abs().square().mean() - 1) < 0.05 and abs(z.real.var() - 0.5) < 0.05


def test_normal_of_tensors():
    mean, std = torch.arange(3.0).reshape(3, 1).to("tpu"), torch.tensor([1.0, 2.0] * 5000).to("tpu")
    x = torch.normal(mean, std).cpu()
    assert x.shape == (3, 10000)
    torch.testing.assert_close(x[:, ::2].mean(1), torch.arange(3.0), atol=0.1, rtol=0)
    assert abs(x[0, 1::2].std() - 2) < 0.1
    assert abs(torch.normal(torch.zeros(N).to("tpu"), 4.0).std().item() - 4) < 0.2
    assert abs(torch.normal(5.0, torch.ones(N).to("tpu")).mean().item() - 5) < 0.1


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_random(dtype):
    x = empty(dtype).random_().cpu()
    limit = {
        torch.bool: 1,
        torch.uint8: 255,
        torch.int8: 127,
        torch.float16: 1 << 11,
        torch.bfloat16: 1 << 8,
        torch.float32: 1 << 24,
        torch.float64: 1 << 53,
        torch.int32: (1 << 31) - 1,
        torch.int64: (1 << 63) - 1,
    }[dtype]
    values = x.double()
    assert values.min() >= 0 and values.max() <= limit
    assert abs(values.mean() / limit - 0.5) < 0.02
    assert torch.equal(values, values.floor())


@pytest.mark.parametrize("low,high", [(0, 2), (-5, 5), (7, 8), (-(1 << 40), 1 << 40), (0, (1 << 63) - 1)])
def test_randint(low, high):
    x = torch.randint(low, high, (N,), device="tpu").cpu()
    assert x.min() >= low and x.max() < high
    middle, width = (low + high - 1) / 2, high - low
    assert abs(x.double().mean() - middle) <= 0.02 * width
    assert x.dtype == torch.int64


def test_randint_hits_every_value():
    counts = torch.bincount(torch.randint(0, 10, (N,), device="tpu").cpu(), minlength=10)
    assert counts.min() > N / 10 * 0.85 and counts.max() < N / 10 * 1.15


def test_random_from_to_in_float():
    x = empty().random_(-3, 4).cpu()
    assert sorted(x.unique().tolist()) == [-3, -2, -1, 0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        empty().random_(4, 4)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32], ids=str)
def test_bernoulli(p, dtype):
    x = empty(dtype).bernoulli_(p).cpu().double()
    assert set(x.unique().tolist()) <= {0.0, 1.0}
    assert abs(x.mean() - p) < 0.02
    if p in (0.0, 1.0):
        assert (x == p).all()


def test_bernoulli_tensors():
    p = torch.tensor([0.0, 0.3, 1.0]).to("tpu").expand(N, 3)
    x = torch.bernoulli(p).cpu().mean(0)
    torch.testing.assert_close(x, torch.tensor([0.0, 0.3, 1.0]), atol=0.02, rtol=0)
    y = torch.empty(N, 3, device="tpu").bernoulli_(torch.tensor([0.0, 0.3, 1.0]).to("tpu")).cpu().mean(0)
    torch.testing.assert_close(y, torch.tensor([0.0, 0.3, 1.0]), atol=0.02, rtol=0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponential(dtype):
    x = empty(dtype).exponential_(2.0).cpu().double()
    assert x.min() >= 0 and abs(x.mean() - 0.5) < 0.02 and abs(x.std() - 0.5) < 0.03
    assert torch.isfinite(x).all()


def test_geometric():
    x = empty().geometric_(0.25).cpu()
    assert x.min() == 1 and abs(x.mean() - 4) < 0.2 and torch.equal(x, x.floor())
    assert (empty(torch.int64).geometric_(0.999999999).cpu() == 1).all()


def test_cauchy_and_log_normal():
    x = empty().cauchy_(3.0, 2.0).cpu()
    assert abs(x.median() - 3) < 0.15 and abs((x - 3).abs().median() - 2) < 0.15
    y = empty().log_normal_(1.0, 0.5).cpu().log()
    assert abs(y.mean() - 1) < 0.05 and abs(y.std() - 0.5) < 0.05


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9, 1.0])
def test_native_dropout(p):
    x = torch.full((N,), 2.0).to("tpu")
    out, mask = torch.ops.aten.native_dropout(x, p, True)
    out, mask = out.cpu(), mask.cpu()
    assert mask.dtype == torch.bool and abs(mask.float().mean() - (1 - p)) < 0.02
    scale = 0.0 if p == 1 else 1 / (1 - p)
    torch.testing.assert_close(out, mask * 2.0 * scale)


def test_dropout_modes():
    x = torch.randn(5, 4, device="tpu")
    out, mask = torch.ops.aten.native_dropout(x, 0.5, False)
    assert torch.equal(out.cpu(), x.cpu()) and mask.cpu().all()
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False).cpu(), x.cpu())


def test_dropout_gradient():
    x = torch.ones(1000, device="tpu", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
def test_randperm(n, dtype):
    x = torch.randperm(n, device="tpu", dtype=dtype)
    assert x.dtype == dtype and x.device.type == "tpu"
    assert x.cpu().sort().values.tolist() == list(range(n))
    if n == 1000:
        assert x.cpu().tolist() != torch.randperm(n, device="tpu", dtype=dtype).cpu().tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5, 40.0])
def test_gamma(dtype, shape):
    x = torch._standard_gamma(torch.full((N,), shape, dtype=dtype, device="tpu"))
    assert x.dtype == dtype
    x = x.cpu().double()
    assert (x > 0).all()
    assert abs(x.mean() / shape - 1) < 0.04 and abs(x.var() / shape - 1) < 0.1


def test_dirichlet():
    x = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 5.0]).to("tpu").expand(N, 3)).cpu()
    torch.testing.assert_close(x.sum(1), torch.ones(N))
    torch.testing.assert_close(x.mean(0), torch.tensor([1.0, 2.0, 5.0]) / 8, atol=0.01, rtol=0)


@pytest.mark.parametrize("mean", [0.0, 0.2, 3.0, 9.9, 10.0, 37.5, 1000.0])
def test_poisson(mean):
    x = torch.poisson(torch.full((N,), mean, device="tpu")).cpu().double()
    assert (x >= 0).all() and torch.equal(x, x.floor())
    assert abs(x.mean() - mean) <= 4 * math.sqrt(mean / N) and abs(x.var() - mean) <= 0.05 * mean
    if mean == 3.0:
        share = torch.bincount(x.long(), minlength=4)[:4].double() / N
        want = torch.tensor([math.exp(-3) * 3**k / math.factorial(k) for k in range(4)], dtype=torch.float64)
        torch.testing.assert_close(share, want, atol=0.015, rtol=0)


@pytest.mark.parametrize("count", [1.0, 7.0, 30.0, 5000.0])
@pytest.mark.parametrize("p", [0.0, 0.05, 0.5, 0.8, 1.0])
def test_binomial(count, p):
    x = torch.binomial(torch.full((N,), count, device="tpu"), torch.full((N,), p, device="tpu")).cpu().double()
    spread = count * p * (1 - p)
    assert x.min() >= 0 and x.max() <= count and torch.equal(x, x.floor())
    assert abs(x.mean() - count * p) <= 4 * math.sqrt(spread / N) + 1e-4 * count and abs(x.var() - spread) <= 0.12 * spread


def test_distributions():
    for law in (
        torch.distributions.Beta(torch.tensor(2.0).to("tpu"), torch.tensor(3.0).to("tpu")),
        torch.distributions.StudentT(torch.tensor(9.0).to("tpu")),
        torch.distributions.Poisson(torch.tensor(4.0).to("tpu")),
        torch.distributions.Binomial(torch.tensor(20).to("tpu"), torch.tensor(0.3).to("tpu")),
    ):
        x = law.sample((N,)).cpu()
        assert abs(x.mean() - law.mean.cpu()) < 0.1 and abs(x.var() - law.variance.cpu()) < 0.4


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement):
    p = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0]).to("tpu")
    draws = torch.stack([torch.multinomial(p, 1, replacement) for _ in range(3)])
    assert draws.dtype == torch.int64 and draws.shape == (3, 1)
    rows = p.expand(N, 5)
    first = torch.multinomial(rows, 1, replacement).cpu().flatten()
    share = torch.bincount(first, minlength=5) / N
    torch.testing.assert_close(share, torch.tensor([0.0, 0.1, 0.3, 0.0, 0.6]), atol=0.02, rtol=0)
    three = torch.multinomial(rows, 3, replacement).cpu()
    if replacement:
        share = torch.bincount(three.flatten(), minlength=5) / (3 * N)
        torch.testing.assert_close(share, torch.tensor([0.0, 0.1, 0.3, 0.0, 0.6]), atol=0.02, rtol=0)
    else:
        assert (three.sort(1).values == torch.tensor([1, 2, 4])).all()


def test_seed_repeats():
    draws = []
    for _ in range(2):
        torch.manual_seed(7)
        draws.append((torch.rand(9, device="tpu").cpu(), torch.randn(9, device="tpu").cpu()))
    assert torch.equal(draws[0][0], draws[1][0]) and torch.equal(draws[0][1], draws[1][1])
    assert not torch.equal(draws[0][0], torch.rand(9, device="tpu").cpu())


def test_bits_are_threefry():
    """The published words for key 0 and counter 0, on every plugin."""
    generator = torch.Generator("tpu").manual_seed(0)
    word = torch.empty(1, dtype=torch.int64, device="tpu").random_(-(1 << 63), None, generator=generator).item()
    assert word + (1 << 63) == 0x99BA4EFE6B200159


def test_generator_argument():
    one = torch.Generator("tpu").manual_seed(3)
    a = torch.rand(5, device="tpu", generator=one).cpu()
    one.manual_seed(3)
    b = torch.rand(5, device="tpu", generator=one).cpu()
    c = torch.rand(5, device="tpu", generator=one).cpu()
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_views_are_filled_in_place():
    x = torch.zeros(4, 6, device="tpu")
    x[1:3, ::2].uniform_(1, 2)
    got = x.cpu()
    assert (got[1:3, ::2] >= 1).all() and got.count_nonzero() == 6


def test_parameters_make_no_new_program():
    x = empty(n=333)
    for p in (0.1, 0.2):
        x.uniform_(-p, p), x.normal_(p, p), x.bernoulli_(p), x.exponential_(p), torch.nn.functional.dropout(x, p)
    before = compiles()
    for p in (0.3, 0.4, 0.5):
        x.uniform_(-p, p), x.normal_(p, p), x.bernoulli_(p), x.exponential_(p), torch.nn.functional.dropout(x, p)
    assert compiles() == before


def test_initialisers():
    linear = torch.nn.Linear(64, 64, device="tpu")
    bound = 1 / math.sqrt(64)
    weight = linear.weight.detach().cpu()
    assert weight.abs().max() <= bound and abs(weight.std() - bound / math.sqrt(3)) < 0.01
    torch.nn.init.xavier_normal_(linear.weight)
    assert abs(linear.weight.detach().cpu().std() - math.sqrt(2 / 128)) < 0.01
    torch.nn.init.trunc_normal_(linear.weight, std=0.02)
    assert linear.weight.detach().cpu().abs().max() <= 2
