"""Every elementwise row against cpu kernels: dtypes, promotion, broadcasting, NaN, infinities, signed zeros, numbers."""

import math

import pytest
import torch

import torch_tpu  # noqa: F401

NAN, INF = float("nan"), float("inf")
HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, torch.float64, *HALVES]
COMPLEX = [torch.complex64, torch.complex128]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REAL = [*FLOATS, *INTS, torch.bool]
ALL = [*REAL, *COMPLEX]

# Values at which formulas break: poles, branch points, ends of ranges, ties of rounding.
SPECIAL = [
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.0,
    3.0,
    1e-3,
    -1e-3,
    7.25,
    -7.25,
    20.0,
    -20.0,
    100.0,
    -100.0,
    1e4,
    3e38,
    2e-38,
]


def values(dtype, seed=0, n=40):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(n, generator=generator) < 0.5
    if dtype.is_complex:
        re = torch.cat([torch.tensor([0.0, 1, -1, 0.5, -0.5, 3, -3, 2.5, -2.5]), torch.randn(n, generator=generator) * 2])
        im = torch.cat([torch.tensor([0.5, 1, -1, 1.5, -0.5, 3, -3, -2.5, 2.5]), torch.randn(n, generator=generator) * 2])
        return torch.complex(re, im).to(dtype)
    if dtype.is_floating_point:
        random = torch.randn(n, generator=generator, dtype=torch.float64) * 3
        return torch.cat([torch.tensor(SPECIAL, dtype=torch.float64), random]).to(dtype)
    info = torch.iinfo(dtype)
    ends = torch.tensor([0, 1, 2, 3, 7, info.max, info.min, info.max - 1], dtype=dtype)
    return torch.cat([ends, torch.randint(max(info.min, -20), 20, (n,), generator=generator).to(dtype)])


def tame(x):
    """Without values so large or small that cpu's own vector code fails (quotients beyond 2^31 in fmod)."""
    return x[~(x.abs() > 1e5) & ~((x.abs() < 1e-5) & (x != 0))]


def pair(dtype, other=None):
    """A column and a row: all pairs of values."""
    return values(dtype)[:, None], values(other or dtype, seed=1, n=12)


def cpu_op(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def moved(x):
    return x.to("tpu") if isinstance(x, torch.Tensor) else x


def tpu_run(name, args, kwargs):
    out = cpu_op(name)(*[moved(x) for x in args], **{k: moved(v) for k, v in kwargs.items()})
    return [t.cpu() for t in (out if isinstance(out, (tuple, list)) else (out,))]


# (rtol, atol); float32 as torch.testing has it.
TOLERANCE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-12, 1e-12),
    torch.complex64: (2e-6, 1e-5),
    torch.complex128: (1e-11, 1e-11),
}


def better(name, want, got, args, kwargs, rtol, atol):
    """cpu rounds halves between the steps of some formulas; computing in float32 is right too."""
    wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x for x in args]
    more = cpu_op(name)(
        *wide, **{k: v.float() if isinstance(v, torch.Tensor) and v.dtype in HALVES else v for k, v in kwargs.items()}
    )
    more = list(more) if isinstance(more, (tuple, list)) else [more]
    close = [torch.isclose(g, w, rtol=rtol, atol=atol, equal_nan=True) for g, w in zip(got, want, strict=True)]
    return [torch.where(c, w, m.to(w.dtype)) for c, w, m in zip(close, want, more, strict=True)]


def check(name, *args, tolerance=None, **kwargs):
    try:
        want = cpu_op(name)(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if "not implemented for" in str(error):
            pytest.skip(str(error))
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            tpu_run(name, args, kwargs)
        return
    if any(x.dtype == torch.complex32 for x in (want if isinstance(want, (tuple, list)) else [want])):
        pytest.skip("no complex32 on tpu")
    got = tpu_run(name, args, kwargs)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    assert len(got) == len(want)
    if tolerance is None and want[0].dtype in HALVES:
        want = better(name, want, got, args, kwargs, *TOLERANCE[want[0].dtype])
    for one, other in zip(want, got, strict=True):
        assert other.dtype == one.dtype and other.shape == one.shape
        rtol, atol = tolerance or TOLERANCE.get(one.dtype, (0, 0))
        torch.testing.assert_close(other, one, rtol=rtol, atol=atol, equal_nan=True)


def each(names, dtypes):
    return [pytest.param(n, d, id=f"{n}-{str(d)[6:]}") for n in names for d in dtypes]


UNARY_FLOAT_COMPLEX = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sinc",
    "reciprocal",
    "sigmoid",
    "silu",
    "angle",
]
UNARY_REAL = [
    "abs",
    "neg",
    "sign",
    "sgn",
    "signbit",
    "floor",
    "ceil",
    "trunc",
    "round",
    "isnan",
    "isinf",
    "isposinf",
    "isneginf",
    "bitwise_not",
    "logical_not",
    "relu",
    "deg2rad",
    "rad2deg",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "i0",
    "special_i0e",
    "special_i1",
    "special_i1e",
    "special_erfcx",
    "special_log_ndtr",
    "special_ndtri",
    "special_entr",
    "nan_to_num",
    "frac",
    "logit",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_spherical_bessel_j0",
    "mish",
]


@pytest.mark.parametrize(("name", "dtype"), each(UNARY_FLOAT_COMPLEX, ALL) + each(UNARY_REAL, REAL))
def test_unary(name, dtype):
    x = values(dtype)
    if dtype.is_complex and name in ("exp", "exp2", "expm1", "sinh", "cosh", "tanh", "sigmoid", "silu", "tan"):
        x = x / 4
    if name == "special_spherical_bessel_j0":
        x = x.clamp(-100, 100)  # cpu loses the phase of large arguments
    check(name, x)


@pytest.mark.parametrize(
    ("name", "dtype"),
    each(["abs", "neg", "sgn", "log", "sqrt", "_conj_physical", "isnan", "isinf", "nan_to_num", "logical_not"], COMPLEX),
)
def test_unary_complex(name, dtype):
    check(name, values(dtype))


def test_complex_nonfinite():
    z = torch.tensor([complex(NAN, 1), complex(1, NAN), complex(INF, 0), complex(1, -INF), complex(1, 2)])
    for name in ("isnan", "isinf", "nan_to_num"):
        check(name, z)


BINARY_ARITHMETIC = [
    "add.Tensor",
    "sub.Tensor",
    "mul.Tensor",
    "div.Tensor",
    "rsub.Tensor",
    "pow.Tensor_Tensor",
    "eq.Tensor",
    "ne.Tensor",
]
BINARY_REAL = [
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "fmod.Tensor",
    "remainder.Tensor",
    "floor_divide",
    "atan2",
    "hypot",
    "copysign.Tensor",
    "lt.Tensor",
    "le.Tensor",
    "gt.Tensor",
    "ge.Tensor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "heaviside",
    "xlogy.Tensor",
    "special_xlog1py",
    "logaddexp",
    "logaddexp2",
    "nextafter",
    "clamp_min.Tensor",
    "clamp_max.Tensor",
]
BINARY_INT = [
    "bitwise_and.Tensor",
    "bitwise_or.Tensor",
    "bitwise_xor.Tensor",
    "bitwise_left_shift.Tensor",
    "bitwise_right_shift.Tensor",
    "__lshift__.Tensor",
    "__rshift__.Tensor",
    "gcd",
    "lcm",
]


@pytest.mark.parametrize(
    ("name", "dtype"), each(BINARY_ARITHMETIC, ALL) + each(BINARY_REAL, REAL) + each(BINARY_INT, [*INTS, torch.bool])
)
def test_binary(name, dtype):
    a, b = pair(dtype)
    if name.startswith(("floor_divide", "fmod", "remainder")) and not dtype.is_floating_point:
        b = torch.where(b == 0, torch.ones_like(b), b)
        if dtype in INTS and torch.iinfo(dtype).min < 0:
            b = torch.where(b == -1, torch.ones_like(b) * 2, b)  # lowest / -1 has no value
    elif name.startswith(("fmod", "remainder")):
        a, b = tame(a[:, 0])[:, None], tame(b)
    if name == "pow.Tensor_Tensor" and not dtype.is_floating_point:
        a, b = a.clamp(-9, 9) if dtype in INTS else a, b.clamp(0, 5) if dtype in INTS else b
    if name in ("gcd", "lcm") and dtype in INTS:
        a, b = a.clamp(-11, 11), b.clamp(-11, 11)  # a multiple fits int8
    check(name, a, b)


MIXED = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]


@pytest.mark.parametrize("first", MIXED, ids=str)
@pytest.mark.parametrize("second", MIXED, ids=str)
def test_promotion(first, second):
    a, b = values(first, n=8)[:12], values(second, seed=3, n=8)[:12]
    if first.is_complex or second.is_complex:  # which parts of a complex number become NaN is not agreed upon
        a, b = (x[x.isfinite() & (x != 0)][:5] for x in (a, b))
    check("add.Tensor", a, b)
    check("add.Tensor", a, b[4])
    check("add.Tensor", a[3], b)
    check("div.Tensor", a, b)


SOME = [torch.float32, torch.bfloat16, torch.uint8, torch.int32, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize(
    "name", ["add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar", "eq.Scalar", "ne.Scalar"]
)
def test_number(name, dtype):
    x = values(dtype)
    x = x[x.abs() > 0.2] if dtype == torch.bfloat16 else x  # cpu rounds the number to half for sums: no cancellation here
    for number in (2, 0, 2.5, -0.1, True, 1 + 2j):
        # Which parts of a complex number become NaN is not agreed upon.
        check(name, x[x.isfinite()] if isinstance(number, complex) else x, number)
    if dtype != torch.uint8:
        check(name, x, -3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "remainder.Scalar",
        "fmod.Scalar",
        "floor_divide.Scalar",
        "lt.Scalar",
        "le.Scalar",
        "gt.Scalar",
        "ge.Scalar",
        "clamp_min",
        "clamp_max",
        "xlogy.Scalar_Other",
        "copysign.Scalar",
        "special_xlog1py.other_scalar",
    ],
)
def test_number_real(name, dtype):
    x = values(dtype)
    if dtype == torch.int32:
        x = x[x != torch.iinfo(dtype).min]
    if dtype.is_floating_point:
        x = tame(x)
    for number in (2, 2.5, 0.1) if dtype == torch.uint8 else (2, -3, 2.5, -0.1, 0.1):
        if dtype == torch.bfloat16 and number in (0.1, -0.1) and name.startswith(("rem", "fmod", "floor")):
            continue  # cpu rounds the number to half first: another remainder
        check(name, x, number)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64], ids=str)
@pytest.mark.parametrize("name", ["xlogy.Scalar_Self", "special_xlog1py.self_scalar", "remainder.Scalar_Tensor"])
def test_number_first(name, dtype):
    x = tame(values(dtype)) if dtype.is_floating_point else values(dtype)
    if name.startswith("remainder") and not dtype.is_floating_point:
        x = torch.where((x == 0) | (x == -1 if dtype in INTS and torch.iinfo(dtype).min < 0 else x == 0), torch.ones_like(x), x)
    for number in (0, 2, 1.5):
        check(name, number, x)


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"])
def test_bits_with_numbers(name, dtype):
    x = values(dtype)
    check(f"{name}.{'Tensor_Scalar' if 'shift' in name else 'Scalar'}", x, 3)
    check(f"{name}.Scalar_Tensor", 3, x)


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 1.75, -3, 1 + 1j], ids=str)
def test_power_of_number(exponent, dtype):
    x = values(dtype)
    if exponent == 0.5 and dtype.is_floating_point:
        x = x[x != -INF]  # cpu is of two minds: sqrt in its vector code, pow elsewhere
    if dtype in INTS:
        x = x.clamp(-11, 11)
    check("pow.Tensor_Scalar", x, exponent)


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("base", [0, 1, 2, -1, 2.5, -1.5], ids=str)
def test_number_to_power(base, dtype):
    x = values(dtype)
    if base in (0, -1) and dtype == torch.uint8:
        x = x.clamp(1, 6)
    if dtype in INTS:
        x = x.clamp(0, 6)
    if dtype.is_complex and base == 0:
        pytest.skip("0 to a complex power has no agreed value")
    check("pow.Scalar", base, x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_rounded_division(mode, dtype):
    a, b = pair(dtype)
    if dtype in INTS:
        b = torch.where((b == 0) | (b == -1 if torch.iinfo(dtype).min < 0 else b == 0), torch.full_like(b, 3), b)
    check("div.Tensor_mode", a, b, rounding_mode=mode)
    if dtype in INTS:
        into = torch.empty(torch.broadcast_shapes(a.shape, b.shape), dtype=torch.float64)
        want = torch.div(a, b, rounding_mode=mode, out=into)
        got = torch.div(a.to("tpu"), b.to("tpu"), rounding_mode=mode, out=torch.empty_like(into).to("tpu"))
        torch.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=1e-6, equal_nan=True)
    check("div.Scalar_mode", a, 3, rounding_mode=mode)
    if dtype not in HALVES:
        check("div.Scalar_mode", a, 2.5, rounding_mode=mode)


def test_floor_division_of_python():
    one = torch.tensor([1.0, INF, 1.0, -1.0, 5.0, -5.0])
    by = torch.tensor([-INF, 2.0, 0.1, INF, 0.0, 0.0])
    got = tpu_run("floor_divide", (one, by), {})[0]
    assert got[0] == -1 and math.isnan(got[1]) and got[2] == 9 and got[3] == -1 and got[4] == INF and got[5] == -INF


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_clamp(dtype):
    x = values(dtype)
    check("clamp", x, 1, 3)
    check("clamp", x, None, 2.5)
    check("clamp", x, 2, None)
    check("clamp", x, 4, 1)
    check("clamp.Tensor", x, values(dtype, seed=5).flip(0), values(dtype, seed=6))
    check("clamp.Tensor", x, None, x[7])


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_ternary(dtype):
    a, b, c = values(dtype, 1)[:, None], values(dtype, 2, n=3), values(dtype, 3, n=3)
    if not dtype.is_complex:  # products that overflow depend on fused multiply-adds
        a, b, c = a.clamp(-1e4, 1e4), b.clamp(-1e2, 1e2), c.clamp(-1e2, 1e2)
    check("lerp.Scalar", a, b, 0.3)
    check("lerp.Scalar", a, b, 0.7)
    check("lerp.Tensor", a, b, c)
    check("addcmul", a, b, c, value=0.5)
    check("addcmul", a, b, c)
    check("addcdiv", a, b, c, value=-1.5)
    check("where.self", a.abs() > 1, b, c)
    check("add.Tensor", a, b, alpha=0.25)
    check("rsub.Tensor", a, b, alpha=3)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_choice(dtype):
    a, b = values(dtype, 1)[:, None], values(dtype, 2, n=3)
    mask = torch.rand(b.shape[0], generator=torch.Generator().manual_seed(4)) < 0.5
    check("where.self", mask, a, b)
    check("where.self", mask, a, b[2])
    check("masked_fill.Scalar", a, mask, 1)
    check("masked_fill.Tensor", a, mask, b[1])
    if dtype in INTS:
        check("addcmul", a, b, b, value=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_complex_parts(dtype):
    a, b = pair(dtype)
    check("complex", a, b)
    finite = torch.where(torch.isfinite(b) & (b.abs() < 1e3), b, torch.ones_like(b))
    check("polar", torch.where(torch.isfinite(a), a, torch.ones_like(a)), finite)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rounding_to_decimals(dtype):
    x = values(dtype)
    x = x[x.abs() < 1e4]
    for decimals in (0, 1, 3, -1):
        check("round.decimals", x, decimals=decimals)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_parameters(dtype):
    x = values(dtype)
    check("nan_to_num", x, 1.5, 2.0, -3.0)
    if dtype not in HALVES:
        check("logit", torch.rand(50, generator=torch.Generator().manual_seed(1)).to(dtype), 1e-2)
    check("threshold", x, 0.5, -7)
    check("elu", x)
    check("elu", x, 0.7, 1.3, 0.9)
    check("leaky_relu", x, 0.2)
    check("hardtanh", x, -2, 3)
    check("hardsigmoid", x)
    check("hardswish", x)
    check("softplus", x)
    check("softplus", x, 2, 5)
    check("softshrink", x, 0.6)
    check("hardshrink", x, 0.6)
    # For huge values cpu's own gelu depends on the processor (oneDNN overflows on some): there mathematics decides.
    check("gelu", x[x.abs() < 1e4])
    assert torch.nn.functional.gelu(torch.tensor([float("inf")], dtype=dtype).tpu()).item() == float("inf")
    check("gelu", x, approximate="tanh")
    check("_prelu_kernel", x, torch.tensor([0.3], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_backward_rows(dtype):
    x = values(dtype)
    x = x[x.abs() < 1e4]
    g = torch.linspace(-2, 2, x.numel(), dtype=torch.float64).to(dtype)
    unit = torch.sigmoid(x)
    check("threshold_backward", g, x, 0.5)
    check("sigmoid_backward", g, unit)
    check("tanh_backward", g, torch.tanh(x))
    check("gelu_backward", g, x)
    check("gelu_backward", g, x, approximate="tanh")
    check("silu_backward", g, x)
    check("mish_backward", g, x)
    check("elu_backward", g, 0.7, 1.3, 0.9, False, x)
    check("elu_backward", g, 0.7, 1.3, 0.9, True, torch.ops.aten.elu(x, 0.7, 1.3, 0.9))
    check("leaky_relu_backward", g, x, 0.2, False)
    check("hardtanh_backward", g, x, -1, 2)
    check("hardsigmoid_backward", g, x, tolerance=(1.6e-2 if dtype == torch.bfloat16 else 1e-6, 1e-6))  # cpu has 1/6 in float32
    check("hardswish_backward", g, x)
    check("softplus_backward", g, x, 2, 5)
    check("softshrink_backward", g, x, 0.5)
    check("hardshrink_backward", g, x, 0.5)
    check("logit_backward", g, unit, None)
    check("logit_backward", g, unit, 0.1)
    check("_prelu_kernel_backward", g, x, torch.tensor([0.3], dtype=dtype))
    check("rrelu_with_noise_backward", g, x, unit, 0.1, 0.4, True, False)
    check("rrelu_with_noise_backward", g, x, unit, 0.1, 0.4, False, False)
    check("log_sigmoid_backward", g, x, torch.exp(-x.abs()))
    loose = (5e-2, 1e-3) if dtype == torch.bfloat16 else None  # cpu rounds between steps
    check("glu_backward", g[: 2 * (len(g) // 4)], x[: 4 * (len(g) // 4)], 0, tolerance=loose)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gated(dtype):
    x = values(dtype)[3:63].reshape(3, 2, 10)
    check("glu", x, 1)
    check("glu", x)
    want = torch.nn.functional.logsigmoid(values(dtype))
    got = tpu_run("log_sigmoid_forward", (values(dtype),), {})[0]
    rtol, atol = TOLERANCE[dtype]
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_frexp(dtype):
    check("frexp.Tensor", torch.cat([values(dtype), torch.tensor([1e30, -1e-30], dtype=torch.float64).to(dtype)]))


def test_complex_logaddexp():
    z = values(torch.complex64)
    check("logaddexp", z, z.flip(0))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (2, 3, 4)], ids=str)
def test_shapes(shape):
    a = torch.ones(shape)
    check("add.Tensor", a, a)
    check("gelu", a)
    check("where.self", a > 0, a, torch.tensor(3.0))
    check("logical_and", a, a)
    check("gcd", a.int(), a.int())
    check("special_zeta", a + 1, a)


def test_integers_are_exact():
    big = torch.tensor([2**62 + 1, -(2**62) - 1, 2**53 + 1, -(2**53) - 1])
    check("add.Scalar", big, 1)
    check("mul.Scalar", big, 3)
    check("floor_divide.Scalar", big, 7)
    check("remainder.Scalar", big, 1000003)
    check("maximum", big, big.flip(0))
    check("eq.Scalar", big, 2**53 + 1)
    check("abs", big)


def test_in_place_and_out():
    x = torch.tensor([1.0, -2.0, 3.0])
    y = x.to("tpu")
    y.add_(1.5).mul_(y).clamp_(max=5)
    torch.testing.assert_close(y.cpu(), x.clone().add_(1.5).mul_(x + 1.5).clamp_(max=5))
    out = torch.empty(3, device="tpu")
    assert torch.div(torch.tensor([1, 2, 3]).to("tpu"), torch.tensor([2, 2, 2]).to("tpu"), out=out) is out
    assert out.tolist() == [0.5, 1.0, 1.5]
    half = torch.ones(3, dtype=torch.bfloat16, device="tpu")
    assert half.mul_(torch.full((3,), 1.25, device="tpu")).dtype == torch.bfloat16 and half.tolist() == [1.25] * 3


def test_half_numbers_are_not_rounded_first():
    x = torch.linspace(-3, 3, 301).bfloat16()
    check("mul.Scalar", x, 0.1, tolerance=(0, 0))
    got = tpu_run("add.Scalar", (x, 0.1), {})[0]
    assert torch.equal(got, (x.float() + 0.1).bfloat16())
    check("lt.Scalar", x, 0.1)
