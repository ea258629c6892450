"""Matrix products against PyTorch's cpu kernels, with gradients; also helpers of the tests of layers, losses and optimizers."""

import pytest
import torch
import torch.nn.functional as F

import torch_tpu

torch.set_num_threads(1)
NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
HALVES = (torch.float16, torch.bfloat16)
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 1e-5, torch.float64: 1e-10, torch.complex64: 1e-5}


def rand(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-5, 6, shape, generator=generator).to(dtype)


def to_tpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().to("tpu").requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(to_tpu(item) for item in value)
    return value


def same(got, want, tolerance=None):
    if want is None or not isinstance(want, (torch.Tensor, list, tuple)):
        assert got == want
        return
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other, tolerance)
        return
    assert got.device.type == "tpu"
    limit = TOLERANCE.get(want.dtype, 0) if tolerance is None else tolerance
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=limit, atol=limit, equal_nan=True)


def flat(values):
    if isinstance(values, torch.Tensor):
        return [values]
    return [v for v in values if isinstance(v, torch.Tensor)] if isinstance(values, (list, tuple)) else []


def check(fn, *args, tolerance=None):
    """Equal values, dtypes, shapes; and equal gradients of every floating argument and result."""
    args = [a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    mine = [to_tpu(a) for a in args]
    want, got = fn(*args), fn(*mine)
    same(got, want, tolerance)
    pairs = [(w, g) for w, g in zip(flat(want), flat(got), strict=True) if w.requires_grad]
    if not pairs:
        return
    seeds = [rand(*w.shape, dtype=w.dtype, seed=5) for w, _ in pairs]
    leaves = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    grads = torch.autograd.grad([w for w, _ in pairs], [args[i] for i in leaves], seeds, allow_unused=True)
    mine_grads = torch.autograd.grad(
        [g for _, g in pairs], [mine[i] for i in leaves], [s.to("tpu") for s in seeds], allow_unused=True
    )
    for a, b in zip(mine_grads, grads, strict=True):
        same(a, b, tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
def test_products(dtype):
    def make(*shape, seed=0):
        return rand(*shape, dtype=dtype, seed=seed)

    check(torch.mm, make(5, 7), make(7, 3))
    check(torch.bmm, make(2, 5, 7), make(2, 7, 3))
    check(torch.mv, make(5, 7), make(7))
    check(torch.dot, make(7), make(7, seed=1))
    check(torch.vdot, make(7), make(7, seed=1))
    check(torch.matmul, make(2, 1, 4, 5), make(3, 5, 6))
    check(torch.matmul, make(5), make(3, 5, 6))
    check(torch.outer, make(4), make(3))
    check(torch.addmm, make(3), make(5, 7), make(7, 3))
    check(torch.baddbmm, make(2, 1, 3), make(2, 5, 7), make(2, 7, 3))
    check(torch.addbmm, make(5, 3), make(2, 5, 7), make(2, 7, 3))
    check(torch.addmv, make(5), make(5, 7), make(7))
    check(torch.addr, make(4, 3), make(4), make(3))
    check(F.linear, make(2, 3, 7), make(4, 7), make(4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int64], ids=str)
@pytest.mark.parametrize("n", [63, 64, 1000, 10007])
def test_long_vectors(dtype, n):
    x, y, w = rand(n, dtype=dtype), rand(n, dtype=dtype, seed=1), rand(n, 5, dtype=dtype)
    for fn, args in ((torch.dot, (x, y)), (torch.vdot, (x, y)), (torch.mv, (w.t(), x)), (torch.mv, (w.t().contiguous(), x))):
        limit = 1e-5 * n**0.5 if dtype in (torch.float32, torch.complex64) else None
        same(fn(*(a.to("tpu") for a in args)), fn(*args), limit)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str)
def test_integers(dtype):
    x, y = rand(5, 7, dtype=dtype), rand(7, 3, dtype=dtype)
    check(torch.mm, x, y)
    check(lambda a, b, c: torch.addmm(c, a, b, beta=2, alpha=3), x, y, rand(5, 3, dtype=dtype))
    check(torch.dot, rand(9, dtype=dtype), rand(9, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("beta,alpha", [(0, 1), (0.5, -2.0), (2, 0), (0.0, 3)])
def test_blend(dtype, beta, alpha):
    x, y, c = rand(5, 7, dtype=dtype), rand(7, 3, dtype=dtype), rand(5, 3, dtype=dtype)
    check(lambda c, x, y: torch.addmm(c, x, y, beta=beta, alpha=alpha), c, x, y)
    b = 3 * [x], 3 * [y]
    check(lambda c, x, y: torch.addbmm(c, x, y, beta=beta, alpha=alpha), c, torch.stack(b[0]), torch.stack(b[1]))
    check(lambda c, x, y: torch.addmv(c, x, y, beta=beta, alpha=alpha), c[:, 0], x, y[:, 0])
    check(lambda c, x, y: torch.addr(c, x, y, beta=beta, alpha=alpha), c, x[:, 0], y[0])


def test_beta_zero_drops_self():
    c, x, y = torch.full((2, 2), NAN), rand(2, 3), rand(3, 2)
    same(torch.addmm(c.to("tpu"), x.to("tpu"), y.to("tpu"), beta=0), x @ y)
    same(torch.addmm(c.to("tpu"), x.to("tpu"), y.to("tpu"), beta=0.0), x @ y)


def test_numbers_make_no_new_program():
    c, x, y = (rand(4, 4, seed=i).to("tpu") for i in range(3))
    torch.addmm(c, x, y, beta=0.25, alpha=2.5).cpu()
    before = torch_tpu.metrics.counters()["compiles"]
    for k in range(3):
        torch.addmm(c, x, y, beta=0.5 + k, alpha=1.5 * k).cpu()
    assert torch_tpu.metrics.counters()["compiles"] == before


def test_forms():
    x, y, c = rand(5, 7), rand(7, 3), rand(5, 3)
    out = torch.empty(5, 3, device="tpu")
    assert torch.mm(x.to("tpu"), y.to("tpu"), out=out) is out
    same(out, x @ y)
    mine = c.to("tpu")
    assert mine.addmm_(x.to("tpu"), y.to("tpu"), beta=2, alpha=0.5) is mine
    same(mine, torch.addmm(c, x, y, beta=2, alpha=0.5))
    wide = rand(6, 5).to("tpu")
    same(x.to("tpu").t() @ wide[1:, 1:4], x.t() @ wide.cpu()[1:, 1:4])


def test_halves_round_once():
    x, y = rand(4, 4096, dtype=torch.bfloat16), rand(4096, 4, dtype=torch.bfloat16)
    exact = (x.double() @ y.double()).to(torch.bfloat16)
    torch.testing.assert_close((x.to("tpu") @ y.to("tpu")).cpu(), exact, rtol=8e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("left", [False, True], ids=["left", "left.mT"])
@pytest.mark.parametrize("right", [False, True], ids=["right", "right.mT"])
def test_batches_of_one_with_turned_matrices(dtype, left, right):
    for m, k, n in [(2, 8, 4), (5, 8, 6), (3, 1, 7)]:
        x, y = rand(1, *((k, m) if left else (m, k)), dtype=dtype), rand(1, *((n, k) if right else (k, n)), dtype=dtype)
        check(lambda x, y: torch.bmm(x.mT if left else x, y.mT if right else y), x, y)


def test_outer_products_of_bools_into_wider_targets():
    x, a, b = rand(5, 4, dtype=torch.bool), rand(5, dtype=torch.bool), rand(4, dtype=torch.bool)
    for dtype in (torch.bool, torch.int64, torch.float64):
        want = torch.addr(x, a, b, out=torch.empty(5, 4, dtype=dtype))
        same(torch.addr(x.to("tpu"), a.to("tpu"), b.to("tpu"), out=torch.empty(5, 4, dtype=dtype, device="tpu")), want)
    check(torch.addr, rand(5, 4, dtype=torch.int32), rand(5, dtype=torch.int32), rand(4, dtype=torch.int32))


def test_bilinear_in_halves():
    for dtype in HALVES:
        check(F.bilinear, rand(7, 9, dtype=dtype), rand(7, 8, dtype=dtype), rand(6, 9, 8, dtype=dtype), tolerance=6e-2)


def test_empty():
    check(torch.mm, rand(0, 3), rand(3, 2))
    check(torch.mm, rand(2, 0), rand(0, 3))
    check(torch.bmm, rand(0, 2, 3), rand(0, 3, 2))


def test_errors():
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied|same reduction dim"):
        rand(2, 3).to("tpu") @ rand(4, 5).to("tpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_grouped(dtype):
    groups, m, k, n = 3, 8, 16, 24
    ends = torch.tensor([2, 2, 8], dtype=torch.int32)
    rows, weights = rand(m, k, dtype=dtype), rand(groups, k, n, dtype=dtype)

    def pieces(length):
        starts = [0, *ends.tolist()[:-1]]
        assert ends[-1] == length
        return list(zip(starts, ends.tolist(), strict=True))

    want = torch.cat([rows[s:e] @ weights[g] for g, (s, e) in enumerate(pieces(m))])
    same(torch._grouped_mm(rows.to("tpu"), weights.to("tpu"), offs=ends.to("tpu")), want)
    x, y = rand(groups, m, k, dtype=dtype), rand(k, 8, dtype=dtype)
    want = torch.cat([x[g] @ y[:, s:e] for g, (s, e) in enumerate(pieces(8))], dim=1)
    same(torch._grouped_mm(x.to("tpu"), y.to("tpu"), offs=ends.to("tpu")), want)
    a, b = rand(16, 8, dtype=dtype), rand(8, 24, dtype=dtype)
    want = torch.stack([a[:, s:e] @ b[s:e] for s, e in pieces(8)])
    same(torch._grouped_mm(a.to("tpu"), b.to("tpu"), offs=ends.to("tpu")), want)
    same(torch._grouped_mm(x.to("tpu"), weights.to("tpu")), torch.bmm(x, weights))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention(dtype, causal):
    q, k, v = (rand(2, 3, 5, 8, dtype=dtype, seed=i) for i in range(3))
    check(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        q,
        k,
        v,
        tolerance=None if dtype == torch.float32 else 4e-2,
    )


def test_attention_mask():
    q, k, v = (rand(2, 3, 5, 8, seed=i) for i in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), q, k, v, mask)
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3), q, k, v, rand(5, 5))
    kv = rand(2, 1, 5, 8)
    check(lambda q, kv: F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True), q, kv)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_fused_attention_rows(causal, heads, biased):
    q, g = rand(2, 4, 6, 8), rand(2, 4, 6, 8, seed=1)
    k, v = rand(2, heads, 6, 8, seed=2), rand(2, heads, 6, 8, seed=3)
    bias = rand(1, 4, 6, 6) if biased and not causal else None
    leaves = [t.clone().requires_grad_() for t in (q, k, v) + ((bias,) if bias is not None else ())]
    mask = leaves[3] if bias is not None else None
    want = F.scaled_dot_product_attention(*leaves[:3], attn_mask=mask, is_causal=causal, enable_gqa=heads != 4)
    want.backward(g)
    mine = [t.detach().to("tpu") for t in leaves[:3]]
    mine_bias = None if bias is None else bias.to("tpu")
    ops = torch.ops.aten
    out, lse, cq, ck, mq, mk, seed, offset, _ = ops._scaled_dot_product_fused_attention_overrideable(
        *mine, mine_bias, 0.0, causal, False
    )
    same(out, want.detach(), 2e-5)
    grads = ops._scaled_dot_product_fused_attention_overrideable_backward(
        g.to("tpu"), *mine, mine_bias, [True] * 4, out, lse, cq, ck, mq, mk, 0.0, causal, seed, offset
    )
    for got, leaf in zip(grads, leaves, strict=False):
        same(got, leaf.grad, 2e-5)


def test_pytorchs_precision_setting_counts_unless_ours_is_given(counters):
    x = torch.randn(8, 8).to("tpu")
    assert torch.tpu.get_precision() is torch.tpu.Precision.HIGHEST  # the plugin's own
    (x @ x).cpu()
    try:
        torch.set_float32_matmul_precision("medium")
        assert torch.tpu.get_precision() is torch.tpu.Precision.DEFAULT
        before = counters()["plan_misses"]
        (x @ x).cpu()  # another plan
        assert counters()["plan_misses"] == before + 1
        with torch.tpu.precision("high"):
            assert torch.tpu.get_precision() is torch.tpu.Precision.HIGH
        assert torch.tpu.get_precision() is torch.tpu.Precision.DEFAULT
        torch.set_float32_matmul_precision("high")
        assert torch.tpu.get_precision() is torch.tpu.Precision.HIGH
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.tpu.get_precision() is torch.tpu.Precision.HIGHEST
