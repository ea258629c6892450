"""Complex numbers against PyTorch's cpu kernels: range, branch cuts, bits that say conjugate or negative, refusals."""

import pytest
import torch

GRID = [0.0, -0.0, 1.0, -1.0, 2.5, -0.3, 1e-12, 1e15, -1e15]


def grid(dtype=torch.complex64):
    return torch.tensor([complex(a, b) for a in GRID for b in GRID], dtype=dtype)


def make(*shape, dtype=torch.complex64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)) * 2


def check(fn, *inputs, tolerance=2e-5):
    want, got = fn(*inputs), fn(*(x.to("tpu") for x in inputs))
    assert got.device.type == "tpu"
    got, want = got.cpu().resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg()
    if want.is_complex():
        assert got.dtype == want.dtype
        got, want = torch.view_as_real(got), torch.view_as_real(want)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=1e-6, equal_nan=True)


UNARY = [
    *("abs", "angle", "sgn", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("log", "log2", "log10", "sqrt", "square", "sinc"),
]


@pytest.mark.parametrize("name", UNARY)
def test_functions_on_both_sides_of_their_cuts(name):
    x = grid()
    if name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "sinc", "square"):  # elsewhere they overflow
        x = x[x.abs() < 10]
    check(getattr(torch, name), x)
    check(getattr(torch, name), make(100))


def test_conjugates_in_place_and_into_targets():
    x = make(3, 4)
    check(lambda x: x.clone().t().conj_physical_(), x)
    check(lambda x: x.clone().conj().conj_physical_(), x)
    check(lambda x: torch.conj_physical(x, out=torch.empty_like(x).t().contiguous().t()), x)
    for x in (torch.arange(3), torch.tensor([True, False]), torch.randn(3)):
        check(lambda x: x.clone().conj_physical_(), x)


def test_roots_and_quotients_keep_their_range():
    x = torch.tensor([1e30, 1e-30, 1e30j, 1e-30j, 3e25 - 4e25j, 3e-25 + 4e-25j, -2.0, -0.0], dtype=torch.complex64)
    check(torch.sqrt, x)
    check(lambda x: x / (x + x), x[:-1])
    check(lambda x: (x.unsqueeze(1) / x[:6]).flatten(), make(8))
    check(torch.reciprocal, x[:6])


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, -2, 0, 1.7, 1j, 2 + 1j])
def test_powers(exponent):
    check(lambda x: x**exponent, make(50), tolerance=1e-4)


@pytest.mark.parametrize("dim", [0, 1])
def test_logsumexp_and_its_scan(dim):
    for dtype in (torch.complex64, torch.complex128):
        check(lambda x: torch.logsumexp(x, dim), make(7, 40, dtype=dtype))
        check(lambda x: torch.logcumsumexp(x, dim), make(7, 40, dtype=dtype))
    x = make(3, 6)
    x[0, 2], x[1, 0] = complex(float("-inf"), 0), complex(float("nan"), 1)
    check(lambda x: torch.logcumsumexp(x, dim), x)
    base = make(5, 6, dtype=torch.complex128)
    grads = []
    for device in ("cpu", "tpu"):
        x = base.detach().to(device).requires_grad_()
        (torch.logcumsumexp(x, dim).sum() + torch.logsumexp(x, dim).sum()).abs().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


def test_bits_and_views():
    x = make(6, 4)
    check(lambda x: (x.conj() + 1j * x).conj(), x)
    check(lambda x: x.conj().imag.clone() + x.conj().imag, x)
    check(lambda x: x.mH @ x.conj(), x)
    check(lambda x: torch.view_as_complex(torch.view_as_real(x).flip(-1).contiguous()), x)

    def writes(x):
        y = x.clone()
        y.real.mul_(2)
        y.imag.add_(1)
        y.conj().add_(1j)
        y.conj().imag[0].zero_()
        return y

    check(writes, x)
    check(lambda x: x.conj().to(torch.complex128), x)
    assert torch.equal(x.to("tpu").conj().cpu().resolve_conj(), x.conj().resolve_conj())


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "norm", "cumsum", "cumprod", "any", "count_nonzero"])
def test_reductions(name):
    fn = getattr(torch, name)
    check(lambda x: fn(x, 0) if name.startswith("cum") else fn(x), make(9), tolerance=1e-4)


def test_uniform_numbers():
    x = torch.empty(4000, dtype=torch.complex64, device="tpu").uniform_(-1, 3).cpu()
    assert x.real.min() >= -1 and x.real.max() < 3 and abs(x.real.mean() - 1) < 0.1
    assert x.imag.min() >= -1 and x.imag.max() < 3 and abs(x.imag.mean() - 1) < 0.1
    assert abs(((x.real - 1) * (x.imag - 1)).mean()) < 0.15


REFUSED = {
    "sort": lambda x: x.sort(),
    "max": lambda x: x.max(),
    "amax": lambda x: x.amax(0),
    "argmax": lambda x: x.argmax(),
    "median": lambda x: x.median(),
    "kthvalue": lambda x: x.kthvalue(1),
    "mode": lambda x: x.mode(),
    "cummax": lambda x: x.cummax(0),
    "maximum": lambda x: torch.maximum(x, x),
    "lt": lambda x: x < x,
    "floor": lambda x: x.floor(),
    "fmod": lambda x: torch.fmod(x, x),
    "atan2": lambda x: torch.atan2(x, x),
    "clamp": lambda x: x.clamp(0, 1),
    "sign": lambda x: x.sign(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_order_is_refused_as_on_cpu(name):
    x = make(5)
    with pytest.raises((RuntimeError, NotImplementedError)) as want:
        REFUSED[name](x)
    with pytest.raises((RuntimeError, NotImplementedError)) as got:
        REFUSED[name](x.to("tpu"))
    assert type(got.value) is type(want.value) and str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_abs_of_infinity_beside_nan(dtype):
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([complex(inf, nan), complex(nan, -inf), complex(nan, 1), complex(3, 4), complex(inf, inf)], dtype=dtype)
    torch.testing.assert_close(x.tpu().abs().cpu(), x.abs(), equal_nan=True)


def test_what_takes_the_place_of_nan_is_real():
    x = torch.tensor([complex("nan"), complex(1, float("inf")), 1j])
    assert torch.nan_to_num(x.tpu(), 2.0, 3.0).tolist() == torch.nan_to_num(x, 2.0, 3.0).tolist()
