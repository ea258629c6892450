/* expr_library.c - functions that StableHLO lacks or rounds badly, written in the expression language.
 *
 * Sources of the formulas: Kahan 1987, "Branch cuts for complex elementary functions" (inverse trigonometric functions of
 * complex numbers); Shepherd and Laframboise 1981 (variable of erfc); Giles 2012 (variable of erfinv); Abramowitz and Stegun
 * 6.1.41, 6.3.18, 6.4.12 (asymptotic series of the gamma family); Clenshaw 1962 (ranges of the Bessel functions). The
 * coefficients are our own (special_fit.py). */
#include <string.h>

#include "ops/expr.h"

#define LIBRARY(name, arity, params, body) {name, arity, NULL, 0, NULL, params, body}
/* One step of a recurrence z -> z + 1 up to `top`, with a product or a sum along the way. */
#define RAISE_PRODUCT(a, b, top) \
    "let p" b " = where(z" a " < " top ", p" a " * z" a ", p" a "); let z" b " = where(z" a " < " top ", z" a " + 1, z" a ");"
#define RAISE_SUM(a, b, top)                                                                                                  \
    "let s" b " = where(z" a " < " top ", s" a " + 1 / z" a ", s" a "); let z" b " = where(z" a " < " top ", z" a " + 1, z" a \
    ");"
#define RAISE_SQUARES(a, b, top)                                                                                             \
    "let s" b " = where(z" a " < " top ", s" a " + 1 / (z" a " * z" a "), s" a "); let z" b " = where(z" a " < " top ", z" a \
    " + 1, z" a ");"

static const tpt_expr_function_t library[] = {
    /* ---- division: PyTorch's, which is Python's */
    LIBRARY("trunc_div", 2, "x y", "if(isint(x) || isbool(x), x / y, trunc(x / y))"),
    /* x rounded to the digits of a half (Veltkamp's splitting, with 2^k + 1): PyTorch truncates a quotient of that type. */
    LIBRARY("split", 2, "x s", "let y = x * s; where(abs(x) < 1e30, y - (y - x), x)"),
    LIBRARY("floor_div", 2, "x y", "if(isunsigned(x), x / y, if(isint(x), floor_div_int(x, y), floor_div_float(x, y)))"),
    LIBRARY("floor_div_int", 2, "x y", "let q = x / y; let r = x - q * y; where((r != 0) & ((r < 0) ^ (y < 0)), q - 1, q)"),
    LIBRARY("floor_div_float", 2, "x y",
            "let m = rem(x, y); let c = (x - m) / y; let d = where((m != 0) & ((y < 0) ^ (m < 0)), c - 1, c);"
            "let f = floor(d); let g = where(d - f > 0.5, f + 1, f);"
            "where(y == 0, x / y, where(d == 0, copysign(0 * d, x / y), g))"),
    LIBRARY("remainder", 2, "x y", "let r = rem(x, y); if(isunsigned(x), r, where((r != 0) & ((r < 0) ^ (y < 0)), r + y, r))"),
    LIBRARY("copysign", 2, "x y", "let a = abs(x); where(signbit(y), -a, a)"),
    LIBRARY("hypot", 2, "x y",
            "let a = max(abs(x), abs(y)); let b = min(abs(x), abs(y)); let q = b / where(a == 0, 1, a);"
            "where(isinf(x) | isinf(y), inf, a * sqrt(1 + q * q))"),
    LIBRARY("fmax", 2, "x y", "if(isfloat(x), where(isnan(y), x, where(isnan(x), y, max(x, y))), max(x, y))"),
    LIBRARY("fmin", 2, "x y", "if(isfloat(x), where(isnan(y), x, where(isnan(x), y, min(x, y))), min(x, y))"),
    LIBRARY("logaddexp", 2, "x y", "if(iscomplex(x), logaddexp_complex(x, y), logaddexp_real(x, y))"),
    LIBRARY("logaddexp_complex", 2, "x y",
            "let m = where(real(x) >= real(y), x, y); let l = where(real(x) >= real(y), y, x); m + log1p(exp(l - m))"),
    LIBRARY("logaddexp_real", 2, "x y", "let m = max(x, y); where(isinf(m) & (x == y), m, m + log1p(exp(-abs(x - y))))"),
    LIBRARY("logaddexp2", 2, "x y",
            "let m = max(x, y); where(isinf(m) & (x == y), m, m + log1p(pow(2, -abs(x - y))) / 0.6931471805599453)"),
    LIBRARY("xlogy", 2, "x y", "where(isnan(y), nan, where(x == 0, 0, x * log(y)))"),
    LIBRARY("xlog1py", 2, "x y", "where(isnan(y), nan, where(x == 0, 0, x * log1p(y)))"),
    LIBRARY("int_pow", 2, "x y",
            "if(isbool(x), x | !y, if(isunsigned(x), whole_power(x, y),"
            " where(y < 0, where(x == 1, 1, where(x == -1, where((y & 1) == 0, 1, -1), 0)), whole_power(x, where(y < 0, 0, y)))))"),
    LIBRARY("sign_of", 1, "x",
            "if(isbool(x), x, if(isunsigned(x), where(x == 0, 0, 1), if(isfloat(x), where(isnan(x), 0, sign(x)), sign(x))))"),
    LIBRARY("power", 2, "x y", "if(iscomplex(x), where(x == 0, where(real(y) > 0, 0, where(y == 0, 1, pow(x, y))), pow(x, y)), pow(x, y))"),
    LIBRARY("square", 1, "x", "x * x"),
    LIBRARY("times_i", 1, "x", "complex(-imag(x), real(x))"),
    LIBRARY("scaled", 2, "x c", "if(iscomplex(x), complex(real(x) * real(c), imag(x) * real(c)), x * c)"),
    /* 1 - x keeps the sign of an imaginary zero, and with it the side of a cut, when the number has no imaginary part. */
    LIBRARY("one_minus", 1, "x", "complex(1 - real(x), -imag(x))"),
    LIBRARY("one_plus", 1, "x", "complex(1 + real(x), imag(x))"),
    LIBRARY("conj", 1, "x", "if(iscomplex(x), complex(real(x), -imag(x)), x)"),

    /* ---- trigonometric and hyperbolic */
    LIBRARY("sinh", 1, "x",
            "if(iscomplex(x), sinh_complex(real(x), imag(x)), sinh_real(x))"),
    /* Where one factor is infinite the other may be an exact zero: it wins. */
    LIBRARY("sinh_complex", 2, "x y",
            "complex(where(x == 0, x, sinh_real(x) * cos(y)), where(y == 0, y, cosh_real(x) * sin(y)))"),
    LIBRARY("sinh_real", 1, "x",
            "let a = abs(x); let u = expm1(a); let h = exp(a * 0.5);"
            "copysign(where(a < 20, 0.5 * (u + u / (u + 1)), (0.5 * h) * h), x)"),
    LIBRARY("cosh", 1, "x",
            "if(iscomplex(x), cosh_complex(real(x), imag(x)), cosh_real(x))"),
    LIBRARY("cosh_complex", 2, "x y",
            "complex(cosh_real(x) * cos(y), where(y == 0, where(signbit(x), -y, y), sinh_real(x) * sin(y)))"),
    LIBRARY("cosh_real", 1, "x", "let h = exp(abs(x) * 0.5); (0.5 * h) * h + 0.5 / h / h"),
    LIBRARY("sine", 1, "x", "if(iscomplex(x), -times_i(sinh(times_i(x))), sin(x))"),
    LIBRARY("asin", 1, "x", "if(iscomplex(x), asin_complex(x), 2 * atan2(x, 1 + sqrt((1 - x) * (1 + x))))"),
    LIBRARY("asin_complex", 1, "x",
            "let a = sqrt(one_minus(x)); let b = sqrt(one_plus(x)); complex(atan2(real(x), real(a * b)), asinh(imag(conj(a) * b)))"),
    LIBRARY("acos", 1, "x", "if(iscomplex(x), acos_complex(x), 2 * atan2(sqrt(1 - x), sqrt(1 + x)))"),
    LIBRARY("acos_complex", 1, "x",
            "let a = sqrt(one_minus(x)); let b = sqrt(one_plus(x)); complex(2 * atan2(real(a), real(b)), asinh(imag(conj(b) * a)))"),
    LIBRARY("atan", 1, "x", "if(iscomplex(x), -times_i(atanh(times_i(x))), atan2(x, 1))"),
    LIBRARY("asinh", 1, "x", "if(iscomplex(x), -times_i(asin_complex(times_i(x))), asinh_real(x))"),
    LIBRARY("asinh_real", 1, "x",
            "let a = abs(x); let s = a * a;"
            "copysign(where(a > if(isf64(x), 1e8, 1e4), log(a) + 0.6931471805599453, log1p(a + s / (1 + sqrt(s + 1)))), x)"),
    LIBRARY("acosh", 1, "x", "if(iscomplex(x), acosh_complex(x), acosh_real(x))"),
    LIBRARY("acosh_complex", 1, "x",
            "let a = sqrt(complex(real(x) - 1, imag(x))); let b = sqrt(one_plus(x)); complex(asinh(real(conj(a) * b)), 2 * atan2(imag(a), real(b)))"),
    LIBRARY("acosh_real", 1, "x",
            "let t = x - 1; where(x < 1, nan, where(x > if(isf64(x), 1e8, 1e4), log(x) + 0.6931471805599453, log1p(t + sqrt(2 "
            "* t + t * t))))"),
    LIBRARY("atanh", 1, "x", "if(iscomplex(x), atanh_complex(real(x), imag(x)), 0.5 * (log1p(x) - log1p(-x)))"),
    LIBRARY("atanh_complex", 2, "x y",
            "let a = abs(x); let h = hypot(1 - a, y); let near = 0.5 * (0.6931471805599453 - log(h));"
            "let far = 0.25 * log1p(4 * (a / where(h == 0, 1, h)) / where(h == 0, 1, h));"
            "let turn = where(abs(y) > 1e18, copysign(pi, y), atan2(2 * y, (1 - a) * (1 + a) - y * y));"
            "complex(copysign(where(h < 1e-6, near, far), x), 0.5 * turn)"),
    LIBRARY("log2", 1, "x", "if(iscomplex(x), scaled(log(x), 1.4426950408889634), log(x) / 0.6931471805599453)"),
    LIBRARY("log10", 1, "x", "if(iscomplex(x), scaled(log(x), 0.4342944819032518), log(x) / 2.302585092994046)"),
    LIBRARY("exp2", 1, "x", "if(iscomplex(x), exp(scaled(x, 0.6931471805599453)), pow(2, x))"),
    /* sin(pi x) / (pi x) and sin(pi x) with the period taken out first. */
    LIBRARY("sin_pi", 1, "x",
            "let a = abs(x); let f = a - 2 * floor(a * 0.5); let g = where(f > 1, f - 2, f);"
            "let r = where(g > 0.5, 1 - g, where(g < -0.5, -1 - g, g)); copysign(1 + 0 * x, x) * sin(pi * r)"),
    LIBRARY("sinc", 1, "x", "where(x == 0, 1, sine(pi * x) / (pi * where(x == 0, 1, x)))"),
    LIBRARY("softplus_plain", 1, "x", "max(x, 0) + log1p(exp(-abs(x)))"),
    LIBRARY("log_sigmoid", 1, "x", "min(x, 0) - log1p(exp(-abs(x)))"),

    /* ---- error functions */
    LIBRARY("exp_minus_square", 1, "x", "let h = high_part(x); exp(-h * h) * exp(-(x - h) * (x + h))"),
    LIBRARY("erfcx_positive", 1, "x", "poly('erfcx', (x - 3.75) / (x + 3.75)) / (1 + 2 * x)"),
    LIBRARY("erf_near", 1, "x", "x * poly('erf_small', 2 * x * x - 1)"),
    LIBRARY("erf", 1, "x", "if(isf64(x), erf_exact(x), erf_quotient(x))"),
    LIBRARY("erf_exact", 1, "x",
            "let a = min(abs(x), 30); where(a <= 1, erf_near(x), copysign(1 - exp_minus_square(a) * erfcx_positive(a), x))"),
    /* To 3e-7, without an exponential: a third of the time. Where it ends erf rounds to 1. */
    LIBRARY("erf_quotient", 1, "x",
            "let z = x * x; let r = x * (poly('erf_over', z) / poly('erf_under', z));"
            "where(abs(x) >= 3.92, where(x > 0, 1, -1), min(max(r, -1), 1))"),
    /* The normal distribution's function, for activations: like PyTorch's, to 1e-7 of one and not of itself. */
    LIBRARY("bell_area", 1, "x", "if(isf64(x), 0.5 * erfc(x * -0.7071067811865476), 0.5 + 0.5 * erf_quotient(x * 0.7071067811865476))"),
    LIBRARY("erfc", 1, "x",
            "let a = min(abs(x), 30); let tail = exp_minus_square(a) * erfcx_positive(a);"
            "where(a <= 0.5, 1 - erf_near(x), where(x < 0, 2 - tail, tail))"),
    LIBRARY("erfcx", 1, "x",
            "let a = abs(x); let r = where(isinf(a), 0, erfcx_positive(a));"
            "where(x < 0, 2 * exp(x * x) - where(isinf(a), 0, r), r)"),
    /* erfinv(x) / x from w = -log(1 - x^2). */
    LIBRARY("erfinv_ratio", 1, "w",
            "let s = sqrt(w); where(w <= 6.25, poly('erfinv_near', w / 3.125 - 1),"
            " where(s <= 6.5, poly('erfinv_far', (s - 4.5) * 0.5), poly('erfinv_tail', (s - 17.5) / 11)))"),
    LIBRARY("erfinv", 1, "x", "where(abs(x) == 1, x * inf, x * erfinv_ratio(-log((1 - x) * (1 + x))))"),
    LIBRARY("ndtr", 1, "x", "0.5 * erfc(x * -0.7071067811865476)"),
    LIBRARY("ndtri", 1, "x",
            "where(x == 0, -inf, where(x == 1, inf, 1.4142135623730951 * (2 * x - 1) * erfinv_ratio(-log(4 * x * (1 - x)))))"),
    LIBRARY("log_ndtr", 1, "x",
            "let s = x * -0.7071067811865476; where(x < -1, log(0.5 * erfcx(max(s, 0))) - s * s, log1p(-0.5 * erfc(-s)))"),
    LIBRARY("entr", 1, "x", "where(isnan(x), x, where(x > 0, -x * log(x), where(x == 0, 0, -inf)))"),

    /* ---- gamma family */
    LIBRARY("lgamma_stirling", 1, "z",
            "let w = 1 / z; let v = w * w; (z - 0.5) * (log(z) - 1) + 0.41893853320467274 +"
            " w * (0.08333333333333333 - v * (0.002777777777777778 - v * (0.0007936507936507937 - v * (0.0005952380952380953"
            " - v * (0.0008417508417508417 - v * (0.0019175269175269176 - v * 0.00641025641025641))))))"),
    LIBRARY("lgamma_positive", 1, "x", /* x >= 1 */
            "let z0 = x; let p0 = 1;" RAISE_PRODUCT("0", "1", "8") RAISE_PRODUCT("1", "2", "8") RAISE_PRODUCT("2", "3", "8")
                RAISE_PRODUCT("3", "4", "8") RAISE_PRODUCT("4", "5", "8") RAISE_PRODUCT(
                    "5", "6", "8") "where(x <= 3, (x - 1) * (x - 2) * poly('lgamma', x - 2), lgamma_stirling(z6) - log(p6))"),
    LIBRARY("lgamma", 1, "x",
            "let a = where(x < 0, 1 - x, x); let g = lgamma_positive(where(a < 1, a + 1, a)) - where(a < 1, log(a), 0);"
            "where(isinf(x), inf, where(x < 0, 1.1447298858494002 - log(abs(sin_pi(x))) - g, g))"),
    LIBRARY("digamma_positive", 1, "x", /* x > 0 */
            "let z0 = x; let s0 = 0;" RAISE_SUM("0", "1", "10") RAISE_SUM("1", "2", "10") RAISE_SUM("2", "3", "10")
                RAISE_SUM("3", "4", "10") RAISE_SUM("4", "5", "10") RAISE_SUM("5", "6", "10") RAISE_SUM("6", "7", "10")
                    RAISE_SUM("7", "8", "10") RAISE_SUM("8", "9", "10") RAISE_SUM(
                        "9", "10",
                        "10") "let v = 1 / (z10 * z10); log(z10) - 0.5 / z10 - s10 -"
                              " v * (0.08333333333333333 - v * (0.008333333333333333 - v * (0.003968253968253968 - v * "
                              "(0.004166666666666667"
                              " - v * (0.007575757575757576 - v * (0.021092796092796094 - v * 0.08333333333333333))))))"),
    LIBRARY("digamma", 1, "x",
            "let r = x - round_even(x); let plain = digamma_positive(where(x < 0, 1 - x, x));"
            "where(x == 0, copysign(inf + 0 * x, -x), where(x < 0, where(r == 0, nan, plain - pi / tan(pi * r)), plain))"),
    LIBRARY("trigamma_positive", 1, "x",
            "let z0 = x; let s0 = 0;" RAISE_SQUARES("0", "1", "10") RAISE_SQUARES("1", "2", "10") RAISE_SQUARES("2", "3", "10")
                RAISE_SQUARES("3", "4", "10") RAISE_SQUARES("4", "5", "10") RAISE_SQUARES("5", "6", "10")
                    RAISE_SQUARES("6", "7", "10") RAISE_SQUARES("7", "8", "10") RAISE_SQUARES("8", "9", "10")
                        RAISE_SQUARES("9", "10", "10") "let w = 1 / z10; let v = w * w; s10 + w + 0.5 * v + w * v * "
                                                       "(0.16666666666666666 - v * (0.03333333333333333"
                                                       " - v * (0.023809523809523808 - v * (0.03333333333333333 - v * "
                                                       "(0.07575757575757576 - v * 0.2531135531135531)))))"),
    LIBRARY("trigamma", 1, "x",
            "let s = sin_pi(x); let plain = trigamma_positive(where(x < 0.5, 1 - x, x));"
            "where(x < 0.5, 9.869604401089358 / (s * s) - plain, plain)"),

    /* ---- Bessel functions */
    LIBRARY("i0e", 1, "x",
            "let a = abs(x); where(a <= 8, poly('i0e_near', a * 0.25 - 1), poly('i0e_far', 16 / a - 1) / sqrt(a))"),
    LIBRARY("i1e", 1, "x",
            "let a = abs(x); where(a <= 8, x * poly('i1e_near', a * 0.25 - 1), copysign(poly('i1e_far', 16 / a - 1) / sqrt(a), "
            "x))"),
    LIBRARY("i0", 1, "x", "i0e(x) * exp(abs(x))"),
    LIBRARY("i1", 1, "x", "i1e(x) * exp(abs(x))"),

    /* sqrt(2 / (pi x)), and cosine and sine of x - pi / 4, for x >= 8; in a harmless place elsewhere. */
    LIBRARY("far_p", 3, "x p q",
            "let r = 1 / sqrt(x); (p * (cos(x) + sin(x)) + q * (cos(x) - sin(x)) / x) * r * 0.5641895835477563"),
    LIBRARY("far_q", 3, "x p q",
            "let r = 1 / sqrt(x); (p * (sin(x) - cos(x)) + q * (sin(x) + cos(x)) / x) * r * 0.5641895835477563"),
    LIBRARY("bessel_j0", 1, "x",
            "let a = abs(x); let f = max(a, 8); let u = 64 / (f * f); let t = 2 * u - 1; let n = min(a, 8);"
            "where(a <= 8, poly('j0_near', n * n / 32 - 1), far_p(f, poly('bessel_p0', t), poly('bessel_q0', t)))"),
    LIBRARY("bessel_j1", 1, "x",
            "let a = abs(x); let f = max(a, 8); let u = 64 / (f * f); let t = 2 * u - 1; let n = min(a, 8);"
            "let far = far_q(f, poly('bessel_p1', t), poly('bessel_q1', t));"
            "where(a <= 8, x * poly('j1_near', n * n / 32 - 1), where(x < 0, -far, far))"),
    LIBRARY("bessel_y0", 1, "x",
            "let f = max(x, 8); let u = 64 / (f * f); let t = 2 * u - 1; let n = min(x, 8);"
            "let far = far_q(f, poly('bessel_p0', t), poly('bessel_q0', t));"
            "let near = 0.6366197723675814 * log(n) * bessel_j0(n) + poly('y0_near', n * n / 32 - 1);"
            "where(x < 0, nan, where(x == 0, -inf, where(x <= 8, near, far)))"),
    LIBRARY("bessel_y1", 1, "x",
            "let f = max(x, 8); let u = 64 / (f * f); let t = 2 * u - 1; let n = min(x, 8);"
            "let far = -far_p(f, poly('bessel_p1', t), poly('bessel_q1', t));"
            "let near = 0.6366197723675814 * (log(n) * bessel_j1(n) - 1 / n) + n * poly('y1_near', n * n / 32 - 1);"
            "where(x < 0, nan, where(x == 0, -inf, where(x <= 8, near, far)))"),
    LIBRARY("bessel_k0_near", 1, "x", "poly('k0_near', x * x * 0.5 - 1) - log(x * 0.5) * i0(x)"),
    LIBRARY("bessel_k1_near", 1, "x", "poly('k1_near', x * x * 0.5 - 1) / x + log(x * 0.5) * i1(x)"),
    LIBRARY("bessel_k0", 1, "x",
            "where(x < 0, nan, where(x == 0, inf, where(x <= 2, bessel_k0_near(min(x, 2)), exp(-x) * poly('k0_far', 4 / max(x, "
            "2) - 1) / sqrt(x))))"),
    LIBRARY("bessel_k1", 1, "x",
            "where(x < 0, nan, where(x == 0, inf, where(x <= 2, bessel_k1_near(min(x, 2)), exp(-x) * poly('k1_far', 4 / max(x, "
            "2) - 1) / sqrt(x))))"),
    LIBRARY("bessel_k0e", 1, "x",
            "where(x < 0, nan, where(x == 0, inf, where(x <= 2, exp(x) * bessel_k0_near(min(x, 2)), poly('k0_far', 4 / max(x, "
            "2) - 1) / sqrt(x))))"),
    LIBRARY("bessel_k1e", 1, "x",
            "where(x < 0, nan, where(x == 0, inf, where(x <= 2, exp(x) * bessel_k1_near(min(x, 2)), poly('k1_far', 4 / max(x, "
            "2) - 1) / sqrt(x))))"),
    LIBRARY(
        "airy_ai", 1, "x",
        "let r = max(x, 2); let v = 0.6666666666666666 * r * sqrt(r);"
        "let right = exp(-v) * 0.28209479177387814 / sqrt(sqrt(r)) * poly('airy_right', 3.771236166328254 / v - 1);"
        "let y = max(-x, 8); let z = 0.6666666666666666 * y * sqrt(y); let w = 15.084944665313014 / z; let t = 2 * w * w - 1;"
        "let c = (cos(z) + sin(z)) * 0.7071067811865476; let s = (sin(z) - cos(z)) * 0.7071067811865476;"
        "let left = (c * poly('airy_p', t) + s * poly('airy_q', t) / z) * 0.5641895835477563 / sqrt(sqrt(y));"
        "where(x == inf, 0, where(x > 2, right, where(x < -8, left, where(x < -3, poly('airy_mid', (x + 5.5) * 0.4), "
        "poly('airy_near', (x + 0.5) * 0.4)))))"),

    /* ---- incomplete gamma function; far out the power is taken around a, so that large numbers do not cancel */
    LIBRARY(
        "gamma_power", 2, "a x",
        "let m = (x - a) / a; let w = 1 / a; let v = w * w;"
        "let far = exp(a * (log1p(m) - m) - w * (0.08333333333333333 - v * (0.002777777777777778 - v * 0.0007936507936507937)))"
        " * sqrt(a) * 0.3989422804014327;"
        "where(a < 10, exp(a * log(x) - x - lgamma(a)), far)"),
    LIBRARY("gamma_lower", 2, "a x", "gamma_power(a, x) / a * gamma_series(a, x)"),
    LIBRARY("gamma_upper", 2, "a x", "gamma_power(a, x) * gamma_fraction(a, x)"),
    LIBRARY(
        "igamma", 2, "a x",
        "let good = (a > 0) & (x > 0) & isfinite(a) & isfinite(x); let low = good & ((x <= 1) | (x <= a)); let high = good & "
        "!low;"
        "let p = gamma_lower(where(low, a, 1), where(low, x, 0.5)); let q = gamma_upper(where(high, a, 1), where(high, x, 2));"
        "let edge = where((a < 0) | (x < 0), nan, where(a == 0, where(x > 0, 1, nan),"
        " where(x == 0, 0, where(isinf(a), where(isinf(x), nan, 0), where(isinf(x), 1, nan)))));"
        "where(low, p, where(high, 1 - q, edge))"),
    LIBRARY(
        "igammac", 2, "a x",
        "let good = (a > 0) & (x > 0) & isfinite(a) & isfinite(x); let low = good & ((x <= 1) | (x <= a)); let high = good & "
        "!low;"
        "let p = gamma_lower(where(low, a, 1), where(low, x, 0.5)); let q = gamma_upper(where(high, a, 1), where(high, x, 2));"
        "let edge = where((a < 0) | (x < 0), nan, where(a == 0, where(x > 0, 0, nan),"
        " where(x == 0, 1, where(isinf(a), where(isinf(x), nan, 1), where(isinf(x), 0, nan)))));"
        "where(low, 1 - p, where(high, q, edge))"),

    /* ---- orthogonal polynomials of whole degree m: ends of the interval, closed form inside, recurrence elsewhere */
    LIBRARY("even", 1, "m", "m - 2 * floor(m * 0.5) == 0"),
    LIBRARY("chebyshev_t", 2, "x n",
            "let m = trunc(n); let inside = (m > 6) & (abs(x) < 1); let ends = where((x > 0) | even(m), 1, -1);"
            "let sum = chebyshev(x, where(inside | (abs(x) == 1), 0, m), x);"
            "where(m < 0, 0, where(abs(x) == 1, ends, where(inside, cos(m * acos(x)), sum)))"),
    LIBRARY("chebyshev_u", 2, "x n",
            "let m = trunc(n); let inside = (m > 8) & (abs(x) < 1); let ends = where((x > 0) | even(m), m + 1, -m - 1);"
            "let sum = chebyshev(x, where(inside | (abs(x) == 1), 0, m), x + x); let a = acos(x);"
            "where(m < 0, 0, where(abs(x) == 1, ends, where(inside, sin((m + 1) * a) / sin(a), sum)))"),
    LIBRARY("chebyshev_v", 2, "x n",
            "let m = trunc(n); let inside = (m > 8) & (abs(x) < 1); let ends = where(x > 0, 1, where(even(m), m + m + 1, -m - "
            "m - 1));"
            "let sum = chebyshev(x, where(inside | (abs(x) == 1), 0, m), x + x - 1); let a = acos(x);"
            "where(m < 0, 0, where(abs(x) == 1, ends, where(inside, cos((m + 0.5) * a) / cos(a * 0.5), sum)))"),
    LIBRARY("chebyshev_w", 2, "x n",
            "let m = trunc(n); let inside = (m > 8) & (abs(x) < 1); let ends = where(x > 0, m + m + 1, where(even(m), 1, -1));"
            "let sum = chebyshev(x, where(inside | (abs(x) == 1), 0, m), x + x + 1); let a = acos(x);"
            "where(m < 0, 0, where(abs(x) == 1, ends, where(inside, sin((m + 0.5) * a) / sin(a * 0.5), sum)))"),
    LIBRARY("hermite_polynomial_h", 2, "x n", "let m = trunc(n); where(m < 0, 0, hermite_h(x, m, x + x))"),
    LIBRARY("hermite_polynomial_he", 2, "x n", "let m = trunc(n); where(m < 0, 0, hermite_he(x, m, x))"),
    LIBRARY("laguerre_polynomial_l", 2, "x n", "let m = trunc(n); where(m < 0, 0, laguerre(x, m, 1 - x))"),
    LIBRARY("legendre_polynomial_p", 2, "x n", "let m = trunc(n); where(m < 0, 0, legendre(x, m, x))"),
};

const tpt_expr_function_t *tpt_expr_library_find(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof library / sizeof library[0]; i++)
        if (strlen(library[i].name) == size && memcmp(library[i].name, name, size) == 0) return &library[i];
    return NULL;
}
