"""Linear algebra against PyTorch's cpu kernels and its own definitions: values, gradients, out= forms, errors, and the counters
that show where it ran."""

import pytest
import torch

import torch_tpu

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
TOLERANCE = {torch.float32: 2e-4, torch.complex64: 2e-4, torch.float64: 1e-9, torch.complex128: 1e-9}


def rand(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def positive(*shape, dtype=torch.float64, seed=0):
    x = rand(*shape, dtype=dtype, seed=seed)
    return x @ x.mH + torch.eye(shape[-1], dtype=dtype)


def good(*shape, dtype=torch.float64, seed=0):
    """Square and far from singular."""
    return rand(*shape, dtype=dtype, seed=seed) + 4 * torch.eye(shape[-1], dtype=dtype)


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


def close(got, want, strides=True):
    assert got.device.type == "tpu" and got.dtype == want.dtype
    assert not strides or got.stride() == want.stride()
    limit = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=limit, atol=limit)


def check(fn, *args, strides=True):
    """Equal results, and equal gradients of all that is differentiable."""
    args = [a.requires_grad_() if a.dtype in DTYPES else a for a in args]
    mine = [a.detach().to("tpu").requires_grad_(a.requires_grad) for a in args]
    want, got = flat(fn(*args)), flat(fn(*mine))
    for g, w in zip(got, want, strict=True):
        close(g, w, strides)
    sums = [sum((t.abs() ** 2).sum() for t in side if t.requires_grad) for side in (want, got)]
    if isinstance(sums[0], torch.Tensor):
        for g, w in zip(torch.autograd.grad(sums[1], mine), torch.autograd.grad(sums[0], args), strict=True):
            torch.testing.assert_close(g.cpu(), w, rtol=TOLERANCE[w.dtype] * 10, atol=TOLERANCE[w.dtype] * 10)


@pytest.fixture(params=["host", "device"])
def where(request, monkeypatch):
    """Ops that have both run as host routines, which is the rule on CPU plugins, and as device programs."""
    monkeypatch.setenv("TORCH_TPU_HOST_ROUTINES", "1" if request.param == "host" else "0")
    return request.param


@pytest.mark.parametrize("batch", [(), (3,), (0,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cholesky(dtype, batch, where):
    a, b = positive(*batch, 5, 5, dtype=dtype), rand(*batch, 5, 2, dtype=dtype)
    check(torch.linalg.cholesky, a)
    check(lambda a: torch.linalg.cholesky(a, upper=True), a)
    check(lambda a: torch.linalg.cholesky(a, upper=True), a.mT.contiguous().mT)
    check(lambda a: torch.linalg.cholesky_ex(a)[:1], a)
    check(lambda a: torch.cholesky_inverse(torch.linalg.cholesky(a)), a)
    check(lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a)), a, b)
    check(lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(a, upper=True), upper=True), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cholesky_reads_one_triangle(dtype, where):
    a = positive(4, 4, dtype=dtype)
    dirty = a.tril() + torch.full_like(a, float("nan")).triu(1)
    torch.testing.assert_close(torch.linalg.cholesky(dirty.to("tpu")).cpu(), torch.linalg.cholesky(a))
    upper = torch.linalg.cholesky(dirty.mH.to("tpu"), upper=True).cpu()
    torch.testing.assert_close(upper, torch.linalg.cholesky(a).mH.resolve_conj())


@pytest.mark.parametrize("batch", [(), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_triangular(dtype, batch, where):
    a, b, c = good(*batch, 4, 4, dtype=dtype), rand(*batch, 4, 3, dtype=dtype), rand(*batch, 3, 4, dtype=dtype)
    for upper in (False, True):
        for unit in (False, True):
            check(lambda a, b, u=upper, n=unit: torch.linalg.solve_triangular(a, b, upper=u, unitriangular=n), a, b)
            check(lambda a, c, u=upper, n=unit: torch.linalg.solve_triangular(a, c, upper=u, left=False, unitriangular=n), a, c)
    check(lambda a, b: torch.linalg.solve_triangular(a.mH, b, upper=True), a, b, strides=not dtype.is_complex)
    for transpose in (False, True):
        check(lambda b, a, t=transpose: torch.triangular_solve(b, a, transpose=t)[0], b, a)


def test_triangular_broadcasts(where):
    check(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), good(4, 4), rand(2, 3, 4, 5))
    check(lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), good(3, 4, 4), rand(2, 1, 4, 5))


def test_singular_triangle():
    singular = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    want = torch.linalg.solve_triangular(singular, torch.ones(2, 1), upper=False)
    got = torch.linalg.solve_triangular(singular.to("tpu"), torch.ones(2, 1).to("tpu"), upper=False).cpu()
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("batch", [(), (3,), (0,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lu_and_solvers(dtype, batch):
    a, b = good(*batch, 5, 5, dtype=dtype), rand(*batch, 5, 2, dtype=dtype)
    check(torch.linalg.inv, a)
    check(torch.linalg.det, a)
    check(lambda a: torch.linalg.slogdet(a)[1:], a)
    check(torch.linalg.solve, a, b)
    check(lambda a, b: torch.linalg.solve(a.mH, b), a, b)
    check(lambda a, b: torch.linalg.solve(a, b.mT, left=False), a, b)
    check(torch.linalg.lu_factor, a)
    check(torch.linalg.lu, a)
    check(lambda a: torch.linalg.lu_factor(a[..., :3]), a)
    check(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), a, b)
    check(lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True), a, b)
    check(lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), a)
    check(lambda a: torch.linalg.matrix_power(a, 3), a)
    check(lambda a: torch.linalg.matrix_power(a, -2), a)
    check(torch.linalg.matrix_exp, a / 8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_orthogonal(dtype):
    a = rand(2, 5, 3, dtype=dtype)
    check(torch.linalg.qr, a)
    close(torch.linalg.qr(a.detach().to("tpu").mT, mode="r")[1], torch.linalg.qr(a.detach().mT, mode="r")[1])
    check(torch.linalg.svdvals, a)
    check(lambda a: torch.linalg.eigvalsh(a @ a.mH), a)
    check(torch.linalg.pinv, a)
    check(lambda a: torch.linalg.lstsq(a, a[..., :2])[0], a, strides=False)
    check(lambda a: torch.linalg.cond(a), a)
    check(lambda a: torch.linalg.matrix_norm(a, "nuc"), a)
    check(lambda a: torch.linalg.matrix_norm(a, 2), a)
    check(lambda a: torch.linalg.householder_product(a, a[..., 0, :].clone()), a)
    assert torch.linalg.matrix_rank(a.detach().to("tpu")).tolist() == [3, 3]
    q, tau = torch.geqrf(a[0].detach().to("tpu"))
    for g, w in zip((q, tau), torch.geqrf(a[0].detach()), strict=True):
        torch.testing.assert_close(g.cpu(), w)
    close(torch.ormqr(q, tau, a[0].detach().to("tpu")), torch.ormqr(q.cpu(), tau.cpu(), a[0].detach()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_spectra_by_definition(dtype):
    a = rand(4, 4, dtype=dtype).to("tpu")
    u, s, vh = torch.linalg.svd(a)
    limit = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close((u * s) @ vh, a, **limit)
    values, vectors = torch.linalg.eig(a)
    torch.testing.assert_close(vectors * values, a.to(values.dtype) @ vectors, **limit)
    h = a + a.mH
    values, vectors = torch.linalg.eigh(h)
    torch.testing.assert_close(h @ vectors, vectors * values, **limit)
    close(torch.linalg.eigvals(a).abs().sort()[0], torch.linalg.eigvals(a.cpu()).abs().sort()[0])
    factors = torch.linalg.ldl_factor(h, hermitian=True)
    torch.testing.assert_close(torch.linalg.ldl_solve(*factors, h @ a, hermitian=True), a, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32], ids=str)
def test_cross(dtype):
    a, b = (rand(2, 3, 4, seed=i).mul(9).to(dtype) for i in (0, 1))
    check(lambda a, b: torch.linalg.cross(a, b, dim=1), a, b)
    check(lambda a, b: torch.linalg.cross(a[:1, :, :1].mT, b.mT), a, b)
    check(lambda a, b: torch.cross(a[:0], b[:0], dim=1), a, b)
    for bad in (lambda a: torch.linalg.cross(a, a), lambda a: torch.linalg.cross(a, a[..., :2], dim=1)):
        same_error(bad, a.detach())


def same_error(fn, *args):
    with pytest.raises(Exception) as want:
        fn(*args)
    with pytest.raises(type(want.value)) as got:
        fn(*(a.to("tpu") for a in args))
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


def test_errors_are_those_of_cpu(where):
    singular, square, flatter = torch.ones(3, 3), torch.eye(3), torch.ones(2, 3)
    same_error(torch.linalg.inv, singular)
    same_error(torch.linalg.inv, torch.stack([square, singular]))
    same_error(torch.linalg.solve, singular, square)
    same_error(torch.linalg.cholesky, -square)
    same_error(torch.linalg.cholesky, torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]))
    for fn in (torch.linalg.inv, torch.linalg.cholesky, torch.linalg.det, torch.linalg.eigh, torch.linalg.eig):
        same_error(fn, flatter)
        same_error(fn, square.long())
        same_error(fn, square[0])
    same_error(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), square, flatter)
    same_error(torch.linalg.lu_factor, square.half())
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.linalg.solve(square.to("tpu"), square)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(singular.to("tpu"))


def test_info_tells_what_failed(where):
    batch = torch.stack([torch.eye(3), torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]), -torch.eye(3)])
    assert torch.linalg.cholesky_ex(batch.to("tpu")).info.tolist() == torch.linalg.cholesky_ex(batch).info.tolist() == [0, 2, 1]
    big = positive(150, 150, dtype=torch.complex64)
    big[93] *= -1
    info = torch.linalg.cholesky_ex(torch.stack([big, big.mT.conj()]).to("tpu"), upper=True).info
    assert info.tolist() == torch.linalg.cholesky_ex(torch.stack([big, big.mT.conj()]), upper=True).info.tolist()
    nan = torch.full((2, 2), float("nan"))
    assert torch.linalg.cholesky_ex(nan.to("tpu")).info == torch.linalg.cholesky_ex(nan).info
    batch = torch.stack([torch.eye(3), torch.ones(3, 3)])
    assert torch.linalg.inv_ex(batch.to("tpu")).info.tolist() == torch.linalg.inv_ex(batch).info.tolist()
    assert torch.linalg.lu_factor_ex(batch.to("tpu")).info.tolist() == torch.linalg.lu_factor_ex(batch).info.tolist()
    assert torch.linalg.det(batch.to("tpu")).tolist() == [1, 0]


def outs(*likes, how):
    made = {
        "right": lambda t: torch.full_like(t, 7),
        "empty": lambda t: torch.empty(0, dtype=t.dtype),
        "strided": lambda t: torch.full((*t.shape, 2), 7, dtype=t.dtype)[..., 0],
    }
    return [made[how](t) for t in likes]


@pytest.mark.parametrize("how", ["right", "empty", "strided"])
@pytest.mark.parametrize("name", ["cholesky", "inv", "det", "eigh", "qr", "lu_factor", "svd", "slogdet"])
def test_out(name, how):
    fn, a = getattr(torch.linalg, name), positive(3, 4, 4)
    want = fn(a)
    mine, theirs = ([t.to("tpu") for t in outs(*flat(want), how=how)], outs(*flat(want), how=how))
    for target, x in ((mine, a.to("tpu")), (theirs, a)):
        fn(x, out=tuple(target) if isinstance(want, tuple) else target[0])
    for g, w in zip(mine, theirs, strict=True):
        torch.testing.assert_close(g.cpu(), w)
        if how != "strided":
            assert g.stride() == w.stride()


def test_out_may_be_the_input():
    a = positive(4, 4)
    mine = a.to("tpu")
    assert torch.linalg.cholesky(mine, out=mine) is mine
    torch.testing.assert_close(mine.cpu(), torch.linalg.cholesky(a))


def test_host_routines_are_counted(counters, recwarn):
    a = rand(4, 4).to("tpu")
    torch.linalg.svd(a)
    counted = counters()
    assert counted["host_routines"] == 1 and counted["fallbacks"] == 0
    assert counted["d2h_bytes"] >= 4 * 4 * 8 and counted["h2d_bytes"] >= 2 * 4 * 4 * 8
    assert not recwarn.list


def test_windows_and_lazy_values():
    base = rand(6, 8)
    mine, view = base.to("tpu"), base[1:5, ::2]
    close(torch.linalg.inv(mine[1:5, ::2]), torch.linalg.inv(view))
    close(torch.linalg.inv(mine[1:5, ::2].T), torch.linalg.inv(view.T))
    z = rand(3, 3, dtype=torch.complex64)
    close(torch.linalg.inv(z.to("tpu").conj()), torch.linalg.inv(z.conj()))
    torch.tpu.synchronize()
    assert torch_tpu.metrics.counters()["fallbacks"] == 0


@pytest.mark.parametrize("view", [lambda b: b[..., 0], lambda b: b[..., 0].t(), lambda b: b.permute(2, 1, 0)])
@pytest.mark.parametrize("op", [torch.linalg.det, lambda x: torch.linalg.slogdet(x)[1]])
def test_determinants_of_matrices_with_gaps_have_cpus_gradients(op, view):
    base = torch.randn(5, 5, 2, generator=torch.Generator().manual_seed(0))
    grads = []
    for device in ("cpu", "tpu"):
        leaf = base.clone().to(device).requires_grad_()
        op(view(leaf)).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4)
