"""Special functions against cpu kernels and known values."""

import pytest
import torch
from test_elementwise import INF, NAN, check, tpu_run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gamma_family(dtype):
    x = torch.cat(
        [torch.linspace(-5.3, 12, 70, dtype=torch.float64), torch.tensor([0.0, 1, 2, -1, 30, 200.0], dtype=torch.float64)]
    ).to(dtype)
    tolerance = (3e-5, 1e-4) if dtype == torch.float32 else (1e-11, 1e-11)
    for name in ("lgamma", "digamma"):
        check(name, x, tolerance=tolerance)
    for n in (0, 1, 2, 3):
        check("polygamma", n, x[(x > 0.2)], tolerance=tolerance if n != 1 else (1e-4, 2e-9))  # cpu's own series is short
    check("special_zeta", torch.tensor([1.0, 1.5, 2, 3, 8, 0.5], dtype=dtype)[:, None], x, tolerance=tolerance)
    check("special_zeta.self_scalar", 2.5, x, tolerance=tolerance)
    check("special_zeta.other_scalar", x, 1.0, tolerance=tolerance)


def test_dense_error_functions():
    x = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    for name in ("erf", "erfc"):
        check(name, x, tolerance=(1e-13, 1e-300))
        check(name, x.float(), tolerance=(3e-6, 1e-30))
    p = torch.linspace(1e-6, 1 - 1e-6, 4001, dtype=torch.float64)
    check("erfinv", 2 * p - 1, tolerance=(1e-12, 1e-14))
    check("special_ndtri", p, tolerance=(1e-11, 1e-13))
    tiny = torch.logspace(-300, -1, 200, dtype=torch.float64)
    check("special_ndtri", tiny, tolerance=(1e-11, 0))
    far = torch.linspace(-30, 5, 500, dtype=torch.float64)
    check("special_log_ndtr", far, tolerance=(1e-11, 1e-300))
    check("special_erfcx", torch.linspace(-5, 50, 500, dtype=torch.float64), tolerance=(1e-12, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_bessel_and_airy(dtype):
    x = torch.cat([torch.linspace(-20, 20, 200, dtype=torch.float64), torch.tensor([0.0, NAN, 1e-3, 2.0, 8.0, -8.0])]).to(dtype)
    # cpu's own float64 formulas are good to some 1e-7 only (checked against mpmath).
    tolerance = (2e-6, 2e-6) if dtype == torch.float32 else (1e-4, 1e-6)
    names = "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1"
    for name in [*names.split(), "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"]:
        check(f"special_{name}", x, tolerance=tolerance)
    check("special_airy_ai", x, tolerance=(1e-5, 1e-5) if dtype == torch.float32 else (1e-4, 1e-5))


def test_bessel_exactly():
    # Values of mpmath at 20 digits.
    for name, x, want in [
        ("special_bessel_j0", 9.6, -0.208978718368872),
        ("special_bessel_y0", 4.4, -0.163336462804245),
        ("special_airy_ai", -2.4, -0.0433341404403094),
    ]:
        got = tpu_run(name, (torch.tensor([x], dtype=torch.float64),), {})[0].item()
        assert abs(got - want) < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_incomplete_gamma(dtype):
    a = torch.tensor([0.0, 0.1, 0.5, 1, 2, 5, 9.9, 11, 50, 300, INF, -1], dtype=dtype)[:, None]
    x = torch.tensor([0.0, 0.01, 0.5, 1, 1.5, 3, 7, 12, 45, 60, 290, 330, INF, -1], dtype=dtype)
    for name in ("igamma", "igammac"):
        check(name, a, x, tolerance=(1e-5, 1e-5) if dtype == torch.float32 else (2e-9, 1e-9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_orthogonal_polynomials(dtype):
    x = torch.tensor([-2.0, -1, -0.7, 0, 0.3, 0.99, 1, 1.5, 3], dtype=dtype)[:, None]
    n = torch.tensor([-1.0, 0, 1, 2, 3, 5, 8, 12, 2.7], dtype=dtype)
    chebyshev = [f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"]
    for name in [*chebyshev, "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]:
        check(f"special_{name}", x, n, tolerance=(2e-5, 2e-5) if dtype == torch.float32 else (1e-10, 1e-10))
    check("special_chebyshev_polynomial_t.n_scalar", x, 3)
    check("special_hermite_polynomial_h.x_scalar", 0.3, n)
