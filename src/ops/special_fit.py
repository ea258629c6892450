"""Fits the polynomials of special_tables.h with mpmath: Chebyshev interpolation at 60 digits, written as power series.

    python special_fit.py special_tables.h       (the build does it)

Each table is a polynomial in t, t in [-1, 1]; expr_library.c says how t comes from x. Two degrees are written, one for
float32 and one for float64. The choice of variables follows the literature named there; the coefficients are computed here.
"""

import contextlib
import itertools
import sys

import mpmath as mp

mp.mp.dps = 60


def chebyshev(f, degree):
    """Power-series coefficients of the Chebyshev interpolant of f on [-1, 1], lowest first."""
    n = degree + 1
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
    values = [f(t) for t in nodes]
    c = [2 * mp.fsum(v * mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / n) for k, v in enumerate(values)) / n for j in range(n)]
    c[0] /= 2
    total, previous, current = [mp.mpf(0)] * n, [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j in range(n):
        basis = previous if j == 0 else current
        for i, b in enumerate(basis):
            total[i] += c[j] * b
        if j >= 1:
            shifted = [mp.mpf(0)] + [2 * b for b in current]
            for i, b in enumerate(previous):
                shifted[i] -= b
            previous, current = current, shifted
    return total


def on(a, b, f):
    """f on [a, b] as a function of t in [-1, 1]."""
    return lambda t: f((a + b) / mp.mpf(2) + (b - a) / mp.mpf(2) * t)


def erf_small(z):  # z = x^2 in [0, 1]
    x = mp.sqrt(z)
    return mp.erf(x) / x if x != 0 else 2 / mp.sqrt(mp.pi)


def erfcx_wide(t):  # t = (x - K) / (x + K), x in [0, inf): (1 + 2x) exp(x^2) erfc(x)
    if t >= 1:
        return 2 / mp.sqrt(mp.pi)
    x = mp.mpf(15) / 4 * (1 + t) / (1 - t)
    if x > 60:  # asymptotic series; exp(x^2) would overflow the working precision's use
        total, term = mp.mpf(0), mp.mpf(1)
        for k in range(25):
            total += term
            term *= -(2 * k + 1) / (2 * x * x)
        return (1 + 2 * x) * total / (x * mp.sqrt(mp.pi))
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def rational(f, top, degrees):
    """Powers of z over and under the bar, lowest first, of a quotient near f on [0, top], with a small relative error.

    It equals f at some nodes, at first Chebyshev's; they move towards each other where the error between them is large.
    """
    p, q = degrees
    n = p + q + 1
    nodes = [top * (1 - mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n)) / 2 for k in range(n)]
    for _ in range(12):
        rows = [[z**j for j in range(p + 1)] + [-f(z) * z**j for j in range(1, q + 1)] for z in nodes]
        c = mp.lu_solve(mp.matrix(rows), mp.matrix([f(z) for z in nodes]))
        over, under = list(c[: p + 1]), [mp.mpf(1), *c[p + 1 :]]
        ends = [mp.mpf(0), *nodes, top]
        lengths = []
        for a, b in itertools.pairwise(ends):
            inside = [a + (b - a) * k / 8 for k in range(9)]
            worst = max(abs(mp.polyval(over[::-1], z) / mp.polyval(under[::-1], z) / f(z) - 1) for z in inside)
            lengths.append((b - a) * (worst + mp.mpf(10) ** -40) ** (-mp.mpf(1) / n))
        nodes = [top * mp.fsum(lengths[:k]) / mp.fsum(lengths) for k in range(1, n + 1)]
    return over, under


def erfinv_of_w(w):  # erfinv(x) / x with w = -log(1 - x^2)
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    # Solve erfc(y) = 1 - x; 1 - x = exp(-w) / (1 + x) keeps all digits.
    target = mp.exp(-w) / (1 + x)
    y = mp.sqrt(w) * mp.mpf("0.9") if w > 1 else x * mp.sqrt(mp.pi) / 2
    for _ in range(100):
        if target < mp.mpf("0.4"):
            step = (mp.log(mp.erfc(y)) - mp.log(target)) * mp.erfc(y) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        else:
            step = (x - mp.erf(y)) / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf(10) ** -45 * (1 + abs(y)):
            break
    return y / x


def lgamma_ratio(x):  # log(gamma(x)) / ((x - 1) (x - 2)) on [1, 3]; its values at 1 and 2 are limits
    for zero in (1, 2):
        if abs(x - zero) < mp.mpf(10) ** -25:
            return mp.digamma(zero) / (2 * zero - 3)
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def bessel_far(order):  # u = 16 / |x| - 1 in [-1, 1] for |x| in [8, inf): sqrt(x) exp(-x) I(x)
    def f(t):
        if t <= -1:
            return 1 / mp.sqrt(2 * mp.pi)
        x = 16 / (t + 1)
        if x > 500:
            mu, total, term = 4 * order * order, mp.mpf(0), mp.mpf(1)
            for k in range(1, 30):
                total += term
                term *= -(mu - (2 * k - 1) ** 2) / (k * 8 * x)
            return total / mp.sqrt(2 * mp.pi)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return f


def i0e_near(x):  # |x| in [0, 8]
    return mp.exp(-x) * mp.besseli(0, x)


def i1e_near(x):
    return mp.exp(-x) * (mp.besseli(1, x) / x if x != 0 else mp.mpf(1) / 2)


def even(f):  # x in [0, 8], t = x^2 / 32 - 1
    return lambda t: f(mp.sqrt(32 * (t + 1)))


def hankel(order, quadrature):  # z = (8 / x)^2 in [0, 1], t = 2 z - 1: amplitude and phase parts of J and Y far out
    def f(t):
        x = 8 / mp.sqrt((t + 1) / 2)
        angle = x - mp.pi / 4 - order * mp.pi / 2
        j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
        if quadrature:
            return scale * (y * mp.cos(angle) - j * mp.sin(angle)) * x
        return scale * (j * mp.cos(angle) + y * mp.sin(angle))

    return f


def y0_rest(x):
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def y1_rest(x):
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def k0_rest(z):  # z = x^2 in [0, 4]
    x = mp.sqrt(z)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def k1_rest(z):
    x = mp.sqrt(z)
    return x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))


def k_far(order):  # t = 4 / x - 1, x >= 2: sqrt(x) exp(x) K(x)
    def f(t):
        x = 4 / (t + 1)
        return mp.sqrt(x) * mp.exp(x) * mp.besselk(order, x)

    return f


ZETA_RIGHT = mp.mpf(2) / 3 * mp.mpf(2) ** mp.mpf("1.5")  # of the Airy function, at 2 and at -8
ZETA_LEFT = mp.mpf(2) / 3 * mp.mpf(8) ** mp.mpf("1.5")


def airy_right(t):  # u = ZETA_RIGHT / zeta in [0, 1], t = 2 u - 1
    zeta = ZETA_RIGHT / ((t + 1) / 2)
    x = (mp.mpf(3) / 2 * zeta) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(zeta) * x ** mp.mpf("0.25") * 2 * mp.sqrt(mp.pi)


def airy_left(quadrature):  # z = (ZETA_LEFT / zeta)^2 in [0, 1], t = 2 z - 1
    def f(t):
        zeta = ZETA_LEFT / mp.sqrt((t + 1) / 2)
        y = (mp.mpf(3) / 2 * zeta) ** (mp.mpf(2) / 3)
        ai, bi, scale, angle = mp.airyai(-y), mp.airybi(-y), mp.sqrt(mp.pi) * y ** mp.mpf("0.25"), zeta - mp.pi / 4
        if quadrature:
            return scale * (ai * mp.sin(angle) + bi * mp.cos(angle)) * zeta
        return scale * (ai * mp.cos(angle) - bi * mp.sin(angle))

    return f


# Where erf rounds to 1 in float32.
ERF_END = mp.mpf("3.92")
QUOTIENT = ("erf_over", "erf_under")

TABLES = [
    # name, f(t), degree for float32, degree for float64, what it is
    ("erf_small", on(0, 1, erf_small), 5, 11, "erf(x) / x, t = 2 x^2 - 1, |x| <= 1"),
    ("erfcx", erfcx_wide, 12, 24, "(1 + 2x) exp(x^2) erfc(x), t = (x - 3.75) / (x + 3.75), x >= 0"),
    ("erfinv_near", on(0, mp.mpf("6.25"), erfinv_of_w), 10, 22, "erfinv(x) / x, w = -log(1 - x^2) <= 6.25, t = w / 3.125 - 1"),
    (
        "erfinv_far",
        on(mp.mpf("2.5"), mp.mpf("6.5"), lambda s: erfinv_of_w(s * s)),
        12,
        28,
        "the same, t = (sqrt(w) - 4.5) / 2, sqrt(w) <= 6.5",
    ),
    (
        "erfinv_tail",
        on(mp.mpf("6.5"), mp.mpf("28.5"), lambda s: erfinv_of_w(s * s)),
        12,
        28,
        "the same, t = (sqrt(w) - 17.5) / 11",
    ),
    ("lgamma", on(1, 3, lgamma_ratio), 12, 27, "lgamma(x) / ((x - 1) (x - 2)), t = x - 2, 1 <= x <= 3"),
    ("i0e_near", on(0, 8, i0e_near), 17, 30, "exp(-x) I0(x), t = x / 4 - 1, 0 <= x <= 8"),
    ("i0e_far", bessel_far(0), 6, 22, "sqrt(x) exp(-x) I0(x), t = 16 / x - 1, x >= 8"),
    ("i1e_near", on(0, 8, i1e_near), 17, 30, "exp(-x) I1(x) / x, t = x / 4 - 1, 0 <= x <= 8"),
    ("i1e_far", bessel_far(1), 6, 22, "sqrt(x) exp(-x) I1(x), t = 16 / x - 1, x >= 8"),
    ("j0_near", even(lambda x: mp.besselj(0, x)), 10, 15, "J0(x), t = x^2 / 32 - 1, 0 <= x <= 8"),
    ("j1_near", even(lambda x: mp.besselj(1, x) / x), 9, 15, "J1(x) / x, likewise"),
    ("y0_near", even(y0_rest), 11, 15, "Y0(x) - 2 / pi log(x) J0(x), likewise"),
    ("y1_near", even(y1_rest), 10, 15, "(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, likewise"),
    ("bessel_p0", hankel(0, False), 3, 11, "part of J0 and Y0 in phase, t = 2 (8 / x)^2 - 1, x >= 8"),
    ("bessel_q0", hankel(0, True), 4, 13, "x times the part in quadrature"),
    ("bessel_p1", hankel(1, False), 3, 11, "the same for J1 and Y1"),
    ("bessel_q1", hankel(1, True), 4, 13, "the same for J1 and Y1"),
    ("k0_near", on(0, 4, k0_rest), 5, 9, "K0(x) + log(x / 2) I0(x), t = x^2 / 2 - 1, 0 < x <= 2"),
    ("k1_near", on(0, 4, k1_rest), 5, 9, "x (K1(x) - log(x / 2) I1(x)), likewise"),
    ("k0_far", k_far(0), 8, 22, "sqrt(x) exp(x) K0(x), t = 4 / x - 1, x >= 2"),
    ("k1_far", k_far(1), 8, 22, "sqrt(x) exp(x) K1(x), likewise"),
    ("airy_mid", on(-8, -3, mp.airyai), 19, 31, "Ai(x), t = (x + 5.5) / 2.5, -8 <= x <= -3"),
    ("airy_near", on(-3, 2, mp.airyai), 15, 26, "Ai(x), t = (x + 0.5) / 2.5, -3 <= x <= 2"),
    ("airy_right", airy_right, 8, 24, "2 sqrt(pi) x^(1/4) exp(zeta) Ai(x), t = 2 zeta(2) / zeta - 1, x >= 2"),
    ("airy_p", airy_left(False), 5, 12, "part of Ai in phase, t = 2 (zeta(-8) / zeta)^2 - 1, x <= -8"),
    ("airy_q", airy_left(True), 5, 12, "zeta times the part in quadrature"),
]


def error(f, coefficients):
    """Largest error on a grid, relative to the largest value: some functions have zeros."""
    worst, largest = mp.mpf(0), mp.mpf(0)
    for k in range(39):
        t = mp.mpf(k - 19) / 20
        want = f(t)
        worst, largest = max(worst, abs(mp.polyval(coefficients[::-1], t) - want)), max(largest, abs(want))
    return worst / largest


def write(name, bits, coefficients):
    print(f"static const double tpt_poly_{name}_{bits}[] = {{")
    for i in range(0, len(coefficients), 4):
        print("    " + " ".join(mp.nstr(x, 18, min_fixed=0, max_fixed=0) + "," for x in coefficients[i : i + 4]))
    print("};")


def write_quotient():
    """For float32 alone; the tables of float64 are the same numbers."""
    parts = rational(erf_small, ERF_END**2, (5, 5))
    for part, c in zip(QUOTIENT, parts, strict=True):
        print(f"/* {part} of erf(x) / x as a quotient of polynomials in x^2, |x| <= {ERF_END}. */")
        for bits in (32, 64):
            write(part, bits, c)


def main():
    print("/* special_tables.h - made by special_fit.py; do not edit. Coefficients of powers of t, lowest first. */")
    print("#ifndef TPT_OPS_SPECIAL_TABLES_H\n#define TPT_OPS_SPECIAL_TABLES_H\n")
    for name, f, low, high, what in TABLES:
        for bits, degree in ((32, low), (64, high)):
            c = chebyshev(f, degree)
            print(f"/* {what}; relative error {mp.nstr(error(f, c), 2)}. */")
            write(name, bits, c)
    write_quotient()
    print("\n#define TPT_POLY_TABLES(X) \\")
    print("    " + " ".join(f"X({name})" for name in (*(name for name, *_ in TABLES), *QUOTIENT)))
    print("\n#endif")


if __name__ == "__main__":
    with open(sys.argv[1], "w") as header, contextlib.redirect_stdout(header):
        main()
