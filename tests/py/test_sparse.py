"""Sparse tensors, coordinates and compressed, against PyTorch's cpu kernels."""

import subprocess
import sys

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
PLACES, VALUES = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), torch.tensor([1.0, 2.0, 3.0, 4.0])


def make(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


SMALL, WIDE = make(2, 3), make(3, 5, seed=1)


def coo(device, values=VALUES):
    """[2, 3], with one place twice."""
    return torch.sparse_coo_tensor(PLACES.to(device), values.to(device), (2, 3, *values.shape[1:]))


def hybrid(device):
    return coo(device, torch.stack([VALUES, VALUES * 2], 1))


def csr(device):
    crow, col, values = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), torch.tensor([1.0, 2.0, 3.0])
    return torch.sparse_csr_tensor(crow.to(device), col.to(device), values.to(device), (2, 3))


def check(fn, tolerance=1e-5):
    wants, gots = fn("cpu"), fn("tpu")
    wants, gots = ([x] if isinstance(x, torch.Tensor) else x for x in (wants, gots))
    for want, got in zip(wants, gots, strict=True):
        assert got.device.type == "tpu" and got.layout == want.layout
        if want.layout == torch.sparse_coo:
            assert got.is_coalesced() == want.is_coalesced()
            assert got.cpu().coalesce()._nnz() == want.coalesce()._nnz()
        torch.testing.assert_close(got.cpu().to_dense(), want.to_dense(), rtol=tolerance, atol=tolerance)


MAKING = {
    "plain": coo,
    "hybrid": hybrid,
    "coalesced": lambda d: coo(d).coalesce(),
    "dense": lambda d: coo(d).to_dense(),
    "hybrid_dense": lambda d: hybrid(d).to_dense(),
    "from_cpu": lambda d: coo("cpu").to(d),
    "there_and_back": lambda d: coo(d).cpu().to(d),
    "from_dense": lambda d: SMALL.relu().to(d).to_sparse(),
    "some_dims": lambda d: SMALL.to(d).to_sparse(1),
    "zeros": lambda d: torch.zeros(2, 3, layout=torch.sparse_coo, device=d),
    "double": lambda d: coo(d).double(),
    "bool": lambda d: coo(d, VALUES > 2).coalesce(),
    "diagonals": lambda d: torch.sparse.spdiags(SMALL.to(d), torch.tensor([0, 1]), (3, 3)),
    "csr": csr,
    "csr_from_cpu": lambda d: csr("cpu").to(d),
    "csr_dense": lambda d: csr(d).to_dense(),
    "csr_to_coo": lambda d: csr(d).to_sparse_coo(),
    "coo_to_csr": lambda d: coo(d).coalesce().to_sparse_csr(),
    "dense_to_csr": lambda d: SMALL.relu().to(d).to_sparse_csr(),
    "dense_to_csc": lambda d: SMALL.relu().to(d).to_sparse_csc(),
    "blocks": lambda d: make(4, 4).to(d).to_sparse_bsr((2, 2)).to_dense(),
}
PRODUCTS = {
    "mm": lambda d: torch.sparse.mm(coo(d), WIDE.to(d)),
    "matmul": lambda d: coo(d) @ WIDE.to(d),
    "vector": lambda d: coo(d) @ WIDE[:, 0].to(d),
    "addmm": lambda d: torch.sparse.addmm(torch.ones(2, 5, device=d), coo(d), WIDE.to(d), beta=2.0, alpha=3.0),
    "transposed": lambda d: torch.mm(coo(d).t(), SMALL.to(d)),
    "dense_first": lambda d: torch.mm(SMALL.to(d).t(), coo(d)),
    "both_sparse": lambda d: torch.sparse.mm(coo(d), coo(d).t()),
    "bmm": lambda d: torch.bmm(torch.stack([coo(d), coo(d)]), WIDE.expand(2, 3, 5).contiguous().to(d)),
    "csr": lambda d: csr(d) @ WIDE.to(d),
    "csr_vector": lambda d: csr(d) @ WIDE[:, 1].to(d),
    "csr_second": lambda d: SMALL.t().contiguous().to(d) @ csr(d),
    "csr_addmm": lambda d: torch.addmm(torch.ones(2, 5, device=d), csr(d), WIDE.to(d), beta=0.5),
    "csr_both": lambda d: csr(d) @ csr(d).to_dense().t().to_sparse_csr(),
    "sampled": lambda d: torch.sparse.sampled_addmm(
        csr(d), torch.ones(2, 4, device=d), torch.ones(4, 3, device=d), beta=0.5, alpha=2.0
    ),
}
OTHERS = {
    "add": lambda d: coo(d) + coo(d),
    "add_coalesced": lambda d: coo(d).coalesce() + coo(d).coalesce() * 2,
    "sub": lambda d: coo(d) - coo(d) * 0.5,
    "to_dense_add": lambda d: SMALL.to(d) + coo(d),
    "to_dense_add_": lambda d: SMALL.clone().to(d).add_(coo(d), alpha=-0.1),
    "times_number": lambda d: coo(d) * 3,
    "times_dense": lambda d: coo(d) * SMALL.to(d),
    "times_sparse": lambda d: coo(d) * coo(d),
    "div": lambda d: coo(d) / 2,
    "neg": lambda d: -coo(d),
    "sin": lambda d: coo(d).sin(),
    "sqrt_": lambda d: coo(d).coalesce().sqrt_(),
    "pow": lambda d: coo(d) ** 2,
    "sum": lambda d: torch.sparse.sum(coo(d)),
    "sum_dim": lambda d: torch.sparse.sum(coo(d), 0),
    "norm": lambda d: coo(d).norm(),
    "softmax": lambda d: torch.sparse.softmax(coo(d), 1),
    "log_softmax": lambda d: torch.sparse.log_softmax(coo(d), 0),
    "transpose": lambda d: hybrid(d).transpose(0, 1),
    "unsqueeze": lambda d: coo(d).unsqueeze(0),
    "cat": lambda d: torch.cat([coo(d), coo(d)], 1),
    "select": lambda d: coo(d)[1],
    "index_select": lambda d: coo(d).index_select(1, torch.tensor([2, 0], device=d)),
    "narrow": lambda d: torch.narrow_copy(coo(d), 1, 1, 2),
    "mask": lambda d: SMALL.to(d).sparse_mask(coo(d).coalesce()),
    "csr_add": lambda d: csr(d) + csr(d),
    "csr_times": lambda d: csr(d) * 2,
    "csr_times_dense": lambda d: csr(d) * SMALL.to(d),
    "csr_sin": lambda d: csr(d).sin(),
    "csr_sum": lambda d: csr(d).sum(),
}


@pytest.mark.parametrize("name", MAKING)
def test_making(name):
    check(MAKING[name])


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    check(PRODUCTS[name])


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    check(OTHERS[name])


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reduced_products(reduce):
    def run(d):
        x, y = csr("cpu").to(d).requires_grad_(), WIDE.clone().to(d).requires_grad_()
        out = torch.sparse.mm(x, y, reduce)
        out.pow(2).sum().backward()
        return out.detach(), x.grad, y.grad

    check(run)


def test_gradients():
    def product(d):
        x, y = coo("cpu").to(d).requires_grad_(), WIDE.clone().to(d).requires_grad_()
        (torch.sparse.mm(x, y) * torch.arange(10, device=d).reshape(2, 5)).sum().backward()
        return x.grad, y.grad

    def of_values(d):
        w = VALUES.clone().to(d).requires_grad_()
        torch.sparse.mm(torch.sparse_coo_tensor(PLACES.to(d), w, (2, 3)), WIDE.to(d)).pow(2).sum().backward()
        return w.grad

    def of_sum(d):
        x = coo("cpu").to(d).requires_grad_()
        torch.sparse.sum(x, 0).to_dense().pow(2).sum().backward()
        return x.grad

    def of_csr(d):
        x, y = csr("cpu").to(d).requires_grad_(), WIDE.clone().to(d).requires_grad_()
        (x @ y).pow(2).sum().backward()
        return x.grad, y.grad

    for fn in (product, of_values, of_sum, of_csr):
        check(fn)


def test_embedding_with_sparse_gradients():
    def run(d):
        torch.manual_seed(0)
        table = nn.Embedding(6, 3, sparse=True).to(d)
        for optimizer in (torch.optim.SGD, torch.optim.Adagrad, lambda p, lr: torch.optim.SparseAdam(list(p), lr=lr)):
            step = optimizer(table.parameters(), lr=0.1)
            step.zero_grad()
            table(torch.tensor([1, 2, 1], device=d)).pow(2).sum().backward()
            step.step()
        return table.weight.detach(), table.weight.grad

    check(run)


def test_text_and_refusals():
    for fn in (coo, csr):
        assert str(fn("tpu")).replace("device='tpu:0', ", "") == str(fn("cpu"))
    with pytest.raises(RuntimeError, match="Use add\\(dense, sparse\\) instead"):
        coo("tpu") + SMALL.to("tpu")
    with pytest.raises(NotImplementedError, match="sparse tensors on the tpu device"):
        torch.hspmm(coo("tpu"), WIDE.to("tpu"))


def test_quotients_of_whole_numbers_and_products_of_nothing():
    for fn in (
        lambda s: s / 2,
        lambda s: s / torch.tensor(4),
        lambda s: torch.div(s, 2, rounding_mode="floor"),
        lambda s: s * 1.5,
    ):
        check(lambda d, fn=fn: fn(torch.tensor([[3, 0, 5]]).to(d).to_sparse()))
    for shape in ((20, 0), (0, 3), (2, 3)):
        check(lambda d, shape=shape: torch.zeros(shape).to(d).to_sparse() * torch.zeros(shape).to(d).to_sparse())


FIRST_OPS = """
import os, warnings, torch
warnings.filterwarnings("error", message="Warning only once")
warnings.filterwarnings("ignore", message="Sparse")
def csr(d):
    crow, col, values = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1]), torch.tensor([1.0, -2.0, 3.0])
    return torch.sparse_csr_tensor(crow.to(d), col.to(d), values.to(d), (2, 3))
firsts = {
    "sum": lambda x: x.sum(), "abs": lambda x: x.abs().values(), "mm": lambda x: x @ torch.ones(3, 2, device=x.device),
    "clone": lambda x: x.clone().values(), "to_dense": lambda x: x.to_dense(), "transpose": lambda x: x.t().to_dense(),
    "coo": lambda x: torch.zeros(2, 2, device=x.device).to_sparse().to_dense(),
    "zeros_like": lambda x: torch.zeros_like(x).to_dense(),
}
for name, first in firsts.items():
    if os.fork() == 0:
        torch.testing.assert_close(first(csr("tpu")).cpu(), first(csr("cpu")), msg=name)
        torch.testing.assert_close(csr("tpu").sum().cpu(), csr("cpu").sum(), msg=name)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_any_op_may_be_the_first_of_a_process():
    subprocess.run([sys.executable, "-c", FIRST_OPS], check=True, timeout=300)
