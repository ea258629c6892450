"""Products by the host's BLAS, which reads views where they lie: values and gradients against device cpu, strict and fused."""

import random

import pytest
import torch
import torch.nn.functional as F

FUSED, STRICT = torch.tpu.EagerMode.DEFER_AND_FUSE, torch.tpu.EagerMode.DEFER_NEVER
NAN = float("nan")
TOLERANCE = {torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-11}
WIDE = (torch.float32, torch.float64)


@pytest.fixture(params=[STRICT, FUSED], ids=["strict", "fused"], autouse=True)
def mode(request):
    with torch.tpu.set_eager_mode(request.param):
        yield request.param


def rand(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float32).to(dtype)


def same(got, want, scale=1.0):
    """Equal as far as sums in another order can be: `scale` is about how large a sum's terms add up to."""
    assert got.device.type == "tpu" and got.dtype == want.dtype and got.shape == want.shape
    limit = TOLERANCE[want.dtype]
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=limit, atol=limit * scale, equal_nan=True)


def check(fn, *args, scale=10.0, twice=True):
    """The same on both devices; the second time a fused program is compiled."""
    want = fn(*args)
    mine = [a.to("tpu") if isinstance(a, torch.Tensor) else a for a in args]
    for _ in range(2 if twice else 1):
        same(fn(*mine), want, scale)


def check_gradients(fn, *args, scale=10.0):
    leaves = [a.clone().requires_grad_() for a in args]
    mine = [a.to("tpu").requires_grad_() for a in args]
    want, got = fn(*leaves), fn(*mine)
    seed = rand(*want.shape, dtype=want.dtype, seed=9)
    wants = torch.autograd.grad(want, leaves, seed)
    gots = torch.autograd.grad(got, mine, seed.to("tpu"))
    same(got, want, scale)
    for a, b in zip(gots, wants, strict=True):
        same(a, b, scale * 5)


# ---- plain products

SIZES = [
    (1, 1, 1),
    (1, 200, 200),
    (200, 1, 200),
    (200, 200, 1),
    (2, 2, 2),
    (2, 9000, 2),
    (31, 33, 37),
    (64, 64, 64),
    (33, 129, 65),
]
LARGE = [(257, 255, 129), (40, 1100, 300), (1100, 300, 40), (16, 40000, 16)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("m,k,n", SIZES + LARGE)
def test_mm_turned_or_not(m, k, n, dtype):
    x, y, xt, yt = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype), rand(k, m, dtype=dtype), rand(n, k, dtype=dtype)
    scale = k**0.5
    for fn, args in (
        (torch.mm, (x, y)),
        (lambda a, b: a.t() @ b, (xt, y)),
        (lambda a, b: a @ b.t(), (x, yt)),
        (lambda a, b: a.t() @ b.t(), (xt, yt)),
    ):
        check(fn, *args, scale=scale, twice=m < 100)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "b,m,k,n", [(1, 64, 32, 64), (2, 33, 65, 31), (7, 40, 50, 60), (96, 17, 64, 16), (3, 1, 300, 70), (3, 70, 300, 1)]
)
def test_bmm(b, m, k, n, dtype):
    x, y = rand(b, m, k, dtype=dtype), rand(b, k, n, dtype=dtype)
    check(torch.bmm, x, y)
    check(lambda x, y: x.mT.contiguous().mT @ y, x, y)
    check(lambda x, y: torch.bmm(x, y.mT.contiguous().mT), x, y)
    check(lambda x, y: torch.bmm(x.transpose(0, 1).contiguous().transpose(0, 1), y), x, y)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_whole_numbers_are_exact(dtype):
    x, y = (torch.randint(-8, 9, s, generator=torch.Generator().manual_seed(1)).to(dtype) for s in ((130, 517), (517, 140)))
    assert torch.equal((x.to("tpu") @ y.to("tpu")).cpu(), x @ y)


def test_what_is_no_number_spreads_as_on_cpu():
    x, y = rand(50, 60), rand(60, 40)
    x[3, 4], x[7, 0], y[5, 6] = NAN, float("inf"), -float("inf")
    got, want = (x.to("tpu") @ y.to("tpu")).cpu(), x @ y
    torch.testing.assert_close(got, want, equal_nan=True)


# ---- sums

SELFS = [(40, 60), (60,), (1, 60), (40, 1), (1, 1), ()]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("beta,alpha", [(1, 1), (0.5, -2.0), (2, 0), (0, 3), (-1, 1)])
def test_addmm(dtype, beta, alpha):
    x, y = rand(40, 50, dtype=dtype), rand(50, 60, dtype=dtype)
    for shape in SELFS:
        check(lambda c, x, y: torch.addmm(c, x, y, beta=beta, alpha=alpha), rand(*shape, dtype=dtype), x, y, scale=30)
    check(lambda c, x, y: torch.addmm(c.t(), x, y, beta=beta, alpha=alpha), rand(60, 40, dtype=dtype), x, y, scale=30)
    check(
        lambda c, x, y: torch.addmm(c[2:42:1, 5:125:2], x, y, beta=beta, alpha=alpha),
        rand(50, 130, dtype=dtype),
        x,
        y,
        scale=30,
    )
    check(
        lambda c, x, y: torch.addmm(c.flip(0), x, y.t(), beta=beta, alpha=alpha),
        rand(40, 60, dtype=dtype),
        x,
        y.t().contiguous(),
    )
    check(lambda c, x, y: torch.addmm(c.expand(40, 60), x, y, beta=beta, alpha=alpha), rand(1, 60, dtype=dtype), x, y, scale=30)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_a_beta_of_zero_drops_self(dtype):
    x, y = rand(40, 50, dtype=dtype), rand(50, 60, dtype=dtype)
    for shape in SELFS:
        check(lambda c, x, y: torch.addmm(c, x, y, beta=0), torch.full(shape, NAN, dtype=dtype), x, y)
    check(
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0),
        torch.full((3, 40, 60), NAN, dtype=dtype),
        x.expand(3, 40, 50),
        y.expand(3, 50, 60),
    )


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_sums_in_place_and_into_windows(dtype):
    x, y, c = rand(40, 50, dtype=dtype), rand(50, 40, dtype=dtype), rand(40, 40, dtype=dtype)

    def in_place(c, x, y):
        c = c.clone()
        return c.addmm_(x, y, beta=0.5, alpha=2) + c

    def by_views_of_itself(c, x, y):
        return torch.addmm(c, c, c.t(), beta=-1) + torch.addmm(c.t(), c[:, :1].expand(40, 40), x @ y)

    def window(c, x, y):
        whole = torch.zeros(100, 100, dtype=c.dtype, device=c.device)
        whole[10:50, 20:60] = c
        whole[10:50, 20:60].addmm_(x, y)
        torch.mm(x, y, out=whole[60:100, :40])
        return whole

    for fn in (in_place, by_views_of_itself, window):
        check(fn, c, x, y, scale=30)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_baddbmm(dtype):
    x, y = rand(6, 20, 30, dtype=dtype), rand(6, 30, 40, dtype=dtype)
    for shape in [(6, 20, 40), (1, 20, 40), (6, 1, 40), (6, 20, 1), (40,), (20, 1), ()]:
        check(lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=-2), rand(*shape, dtype=dtype), x, y, scale=30)
    check(lambda c, x, y: torch.addbmm(c, x, y, beta=0.5, alpha=-2), rand(20, 40, dtype=dtype), x, y, scale=50)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(1, 96), (2, 96), (65, 96), (4, 33, 96), (2, 3, 17, 96)])
def test_linear(shape, dtype):
    x, w, b = rand(*shape, dtype=dtype), rand(80, 96, dtype=dtype), rand(80, dtype=dtype)
    check(F.linear, x, w, b)
    check(F.linear, x, w)
    if dtype in WIDE:
        check_gradients(F.linear, x, w, b)


# ---- more dims

EINSUMS = [
    ("ij,jk->ik", (40, 50), (50, 60)),
    ("ij,jk->ki", (40, 50), (50, 60)),
    ("ji,kj->ik", (50, 40), (60, 50)),
    ("bij,bjk->bik", (5, 20, 30), (5, 30, 40)),
    ("bij,jk->bik", (5, 20, 30), (30, 40)),
    ("ij,bjk->bik", (20, 30), (5, 30, 40)),
    ("ibj,jbk->bik", (20, 5, 30), (30, 5, 40)),
    ("bshd,bthd->bhst", (2, 24, 3, 16), (2, 24, 3, 16)),
    ("bhst,bthd->bshd", (2, 3, 24, 24), (2, 24, 3, 16)),
    ("abcd,cdef->abef", (6, 7, 5, 8), (5, 8, 6, 7)),
    ("abcd,dcef->abef", (6, 7, 5, 8), (8, 5, 6, 7)),
    ("abc,abd->cd", (6, 50, 20), (6, 50, 30)),
    ("abc,dc->dab", (6, 20, 30), (40, 30)),
    ("aibj,bjck->aick", (6, 7, 5, 8), (5, 8, 6, 7)),
    ("ij,ij->i", (200, 300), (200, 300)),
    ("i,j->ij", (300,), (200,)),
]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("text,left,right", EINSUMS, ids=[e[0] for e in EINSUMS])
def test_einsum(text, left, right, dtype):
    x, y = rand(*left, dtype=dtype), rand(*right, dtype=dtype, seed=1)
    check(lambda x, y: torch.einsum(text, x, y), x, y, scale=30)
    if dtype in WIDE:
        check_gradients(lambda x, y: torch.einsum(text, x, y), x, y, scale=30)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_tensordot(dtype):
    x, y = rand(6, 7, 5, 8, dtype=dtype), rand(5, 8, 6, 9, dtype=dtype)
    for dims in (2, ([2, 3], [0, 1]), ([3, 2], [1, 0]), ([0], [2]), ([0, 2], [2, 0]), ([3], [1])):
        check(lambda x, y, dims=dims: torch.tensordot(x, y, dims), x, y, scale=30)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "left,right",
    [
        ((2, 1, 24, 30), (3, 30, 40)),
        ((24, 30), (2, 3, 30, 40)),
        ((2, 3, 24, 30), (30, 40)),
        ((1, 3, 24, 30), (2, 1, 30, 40)),
        ((2, 3, 1, 300), (300, 200)),
        ((300,), (2, 300, 200)),
        ((2, 200, 300), (300,)),
    ],
)
def test_matmul_of_batches_that_broadcast(left, right, dtype):
    x, y = rand(*left, dtype=dtype), rand(*right, dtype=dtype)
    check(torch.matmul, x, y, scale=30)
    if dtype in WIDE:
        check_gradients(torch.matmul, x, y, scale=30)


# ---- views

VIEWS = {
    "whole": lambda x: x,
    "narrow rows": lambda x: x[:, 3:43],
    "narrow columns": lambda x: x.narrow(2, 5, 32),
    "window": lambda x: x[1:, 2:42, 7:41],
    "step rows": lambda x: x[:, ::2],
    "step columns": lambda x: x[:, :, 1::2],
    "step batch": lambda x: x[::2],
    "select expanded": lambda x: x[1].expand(3, 60, 80),
    "select": lambda x: x[:1].expand(4, 60, 80),
    "row expanded": lambda x: x[:, 4:5].expand(4, 40, 80),
    "column expanded": lambda x: x[:, :, 4:5].expand(4, 60, 40),
    "turned": lambda x: x.mT,
    "turned window": lambda x: x.mT[:, 4:64, 10:],
    "rows first": lambda x: x.transpose(0, 1),
    "columns first": lambda x: x.permute(2, 0, 1)[:32],
    "flip rows": lambda x: x.flip(1),
    "flip columns": lambda x: x.flip(2),
    "flip turned": lambda x: x.flip(0).mT,
    "split": lambda x: x.view(4, 60, 2, 40)[:, :, 1],
    "heads": lambda x: x.view(4, 60, 2, 40).transpose(1, 2).flatten(0, 1),
    "heads apart": lambda x: x.view(4, 60, 2, 40).transpose(1, 2)[1],
    "joined": lambda x: x.reshape(1, 240, 80),
    "joined columns": lambda x: x.transpose(1, 2).reshape(4, 20, 240),
    "unsqueezed": lambda x: x[2].unsqueeze(0),
    "squeezed": lambda x: x[:, None, 3:].squeeze(1),
    "overlapping": lambda x: x.as_strided((4, 50, 60), (4800, 30, 1), 7),
    "overlapping turned": lambda x: x.as_strided((3, 60, 50), (4800, 1, 31), 70),
    "hankel": lambda x: x.as_strided((4, 50, 60), (100, 1, 1), 2),
    "apart": lambda x: x.as_strided((2, 40, 50), (9600, 160, 3), 1),
    "diagonal": lambda x: x.view(4, 60, 8, 10).diagonal(0, 0, 2).permute(2, 0, 1),
    "unfold": lambda x: x.unfold(2, 40, 8)[:, :, 3],
    "contiguous turned": lambda x: x.mT.contiguous().mT[1:3],
    "made": lambda x: (x * 2)[:, 1:40],
    "cut of made": lambda x: (x + 1)[:1, :33, :33],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_views(name, dtype):
    x, view = rand(4, 60, 80, dtype=dtype), VIEWS[name]
    shape = view(x).shape
    y, z = rand(shape[0], shape[2], 50, dtype=dtype), rand(shape[0], 50, shape[1], dtype=dtype)
    check(lambda x, y: view(x) @ y, x, y, scale=50)
    check(lambda x, z: z @ view(x), x, z, scale=50)
    check(lambda x: view(x) @ view(x).mT, x, scale=200)
    check(lambda x, y: view(x)[0] @ y[0], x, y, scale=50)
    check(lambda x, y: torch.addmm(view(x)[0, :, :1], view(x)[0], y[0], alpha=0.5), x, y, scale=50)
    check_gradients(lambda x, y: view(x) @ y, x, y, scale=200)


@pytest.mark.parametrize("name", VIEWS)
def test_views_into_sums(name):
    """What is added is a view."""
    x, view = rand(4, 60, 80), VIEWS[name]
    rows, columns = view(x).shape[1:]
    check(lambda x, y, z: torch.addmm(view(x)[0], y, z, beta=-2), x, rand(rows, 64), rand(64, columns), scale=50)


# ---- attention and layers


def attention(x, wq, wk, wv):
    b, s, e = x.shape
    q, k, v = (F.linear(x, w).view(b, s, 6, e // 6).transpose(1, 2) for w in (wq, wk, wv))
    weights = torch.softmax(q @ k.transpose(-2, -1) / (e // 6) ** 0.5, -1)
    return (weights @ v).transpose(1, 2).reshape(b, s, e)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_attention(dtype):
    x, weights = rand(3, 33, 48, dtype=dtype), [rand(48, 48, dtype=dtype, seed=i) / 7 for i in range(3)]
    check(attention, x, *weights)
    for _ in range(2):
        check_gradients(attention, x, *weights)


def packed_attention(x, w):
    b, s = x.shape[:2]
    q, k, v = F.linear(x, w).chunk(3, -1)
    q, k, v = (t.view(b, s, 4, -1).transpose(1, 2) for t in (q, k, v))
    return torch.einsum("bhst,bhtd->bshd", torch.tanh(q @ k.mT / 8), v).flatten(2)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_attention_of_one_projection(dtype):
    for _ in range(2):
        check_gradients(packed_attention, rand(3, 40, 64, dtype=dtype), rand(192, 64, dtype=dtype) / 8)


def test_gradients_of_layers():
    def layers(x, w1, b1, w2, b2):
        return F.linear(torch.relu(F.linear(x, w1, b1)), w2, b2)

    for _ in range(2):
        check_gradients(layers, rand(64, 48), rand(96, 48) / 7, rand(96), rand(33, 96) / 10, rand(33))


def test_operands_that_change_afterwards():
    """A product has read its operands before what comes later writes to them."""

    def run(x, y):
        x, y = x.clone(), y.clone()
        first = x.t() @ y[:, 2:]
        x.mul_(2)
        second = x.t() @ y[:, 2:]
        y[:, 2:].zero_()
        return first + 3 * second + x.t() @ y[:, 2:]

    check(run, rand(60, 70), rand(60, 52), scale=50)


# ---- random views


def random_view(rng, x):
    """A tensor of 3 dims seen through a chain of views."""
    for _ in range(rng.randint(0, 4)):
        kind = rng.choice(["permute", "slice", "reshape", "expand", "split", "swap"])
        if kind == "permute":
            x = x.permute(rng.sample(range(x.dim()), x.dim()))
        elif kind == "slice":
            dim = rng.randrange(x.dim())
            if x.shape[dim] > 2:
                start, step = rng.randint(0, x.shape[dim] // 3), rng.choice([1, 1, 1, 2])
                x = x[(slice(None),) * dim + (slice(start, x.shape[dim] - rng.randint(0, 1), step),)]
        elif kind == "reshape" and x.dim() > 1:
            dim = rng.randrange(x.dim() - 1)
            x = x.flatten(dim, dim + 1)
        elif kind == "expand" and x.dim() < 5 and x.numel() < 30000:
            dim = rng.randint(0, x.dim())
            x = x.unsqueeze(dim).expand(*x.shape[:dim], rng.choice([1, 2, 3]), *x.shape[dim:])
        elif kind == "split" and x.dim() < 5:
            dim = rng.randrange(x.dim())
            part = next((p for p in rng.sample([2, 3, 4, 5], 4) if x.shape[dim] % p == 0), 1)
            x = x.unflatten(dim, (part, -1))
        elif kind == "swap" and x.dim() > 1:
            x = x.transpose(-1, -2)
    return x


def random_product(rng, x):
    """A chain of views of x by a fresh tensor with a view of its own: the function and the other operand."""
    state = rng.getstate()
    shape = random_view(rng, x).shape
    letters = "abcdefgh"[: len(shape)]
    batch = [c for c in letters if rng.random() < 0.25]
    inner = [c for c in letters if c not in batch and rng.random() < 0.5]
    sizes = dict(zip(letters, shape, strict=True)) | {"y": rng.choice([2, 16, 33]), "z": rng.choice([1, 3])}
    other = [*batch, *inner, *rng.choice([["y"], ["y"], ["y", "z"], []])]
    rng.shuffle(other)
    out = [c for c in [*letters, "y", "z"] if c not in inner and (c in letters or c in other)]
    rng.shuffle(out)
    order = rng.sample(range(len(other)), len(other))
    stored = [sizes[other[i]] + (3 if rng.random() < 0.3 else 0) for i in order]
    text = f"{letters},{''.join(other)}->{''.join(out)}"

    def fn(x, w):
        replay = random.Random()
        replay.setstate(state)
        y = w.permute([order.index(i) for i in range(len(other))])
        y = y[tuple(slice(s - sizes[c], None) for c, s in zip(other, y.shape, strict=True))]
        return torch.einsum(text, random_view(replay, x), y)

    return fn, stored, text


@pytest.mark.parametrize("part", range(6))
def test_random_views(part):
    rng = random.Random(1000 + part)
    for i in range(50):
        x = rand(*(rng.choice([2, 4, 6, 12, 20, 30]) for _ in range(3)), seed=i).to(rng.choice(WIDE))
        fn, stored, text = random_product(rng, x)
        w = rand(*stored, dtype=x.dtype, seed=i + 1)
        try:
            check(fn, x, w, scale=100, twice=False)
        except AssertionError as error:
            raise AssertionError(f"number {i} of part {part}: {text} of {tuple(x.shape)} and {stored}") from error


@pytest.mark.parametrize("part", range(3))
def test_random_matmuls(part):
    rng = random.Random(part)
    for i in range(50):
        x = rand(*(rng.choice([4, 12, 24, 30, 48]) for _ in range(3)), seed=i).to(rng.choice(WIDE))
        state = rng.getstate()
        shape = random_view(rng, x).shape
        if len(shape) < 2:
            continue
        y = rand(*shape[:-2], shape[-1], rng.choice([2, 17, 64]), dtype=x.dtype, seed=i + 1)
        left = rng.random() < 0.5

        def fn(x, y, state=state, left=left):
            replay = random.Random()
            replay.setstate(state)
            seen = random_view(replay, x)
            return seen @ y if left else y.mT @ seen.mT

        try:
            check(fn, x, y, scale=100, twice=False)
        except AssertionError as error:
            raise AssertionError(f"number {i} of part {part}: {tuple(x.shape)} as {tuple(shape)}") from error


# ---- heads cut out of one array, and what their gradients become


def heads_of(x, cut):
    """q, k and v of [2, 24, 3 * 4 * 8] as [2, 4, 24, 8], cut out in different ways."""
    if cut == "select":
        seen = x.view(2, 24, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return seen[0], seen[1], seen[2]
    if cut == "chunk":
        return tuple(part.view(2, 24, 4, 8).transpose(1, 2) for part in x.chunk(3, -1))
    return tuple(x[..., 32 * i : 32 * i + 32].reshape(2, 24, 4, 8).transpose(1, 2) for i in (2, 0, 1))


@pytest.mark.parametrize("cut", ["select", "chunk", "slice"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_attention_of_heads_cut_out(cut, by_hand):
    def attend(x, w):
        q, k, v = heads_of(x @ w, cut)
        if by_hand:
            unseen = torch.ones(24, 24, dtype=torch.bool, device=x.device).triu(1)
            y = (q @ k.transpose(-2, -1)).masked_fill(unseen, -1e9).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 24, 32) @ w[:, :32].t()

    for _ in range(3):  # the later ones as one program
        check_gradients(attend, rand(2, 24, 32), rand(32, 96), scale=20)


PARTS = [
    ((0, 3), (3, 7), (7, 10)),
    ((7, 10), (0, 3), (3, 7)),
    ((0, 4), (6, 10)),
    ((2, 5), (4, 8)),
    ((1, 4), (4, 9)),
    ((0, 10), (0, 10)),
]


@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_gradients_of_parts_side_by_side(parts, dim):
    def fn(x):
        return torch.cat([x.narrow(dim, a, b - a).sin() * (i + 2) for i, (a, b) in enumerate(parts)], dim)

    for _ in range(3):
        check_gradients(fn, rand(10, 10))
