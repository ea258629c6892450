"""Autograd's turn of a call: what it notes, what it refuses, and the calls of which it has nothing to note."""

import subprocess
import sys

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode


def on_both(run):
    """The same run on both devices: what it returns."""
    torch.manual_seed(0)
    numbers = torch.rand(3, 4), torch.rand(3, 4)
    return run(*(n.clone() for n in numbers)), run(*(n.to("tpu") for n in numbers))


def equal(got, want):
    torch.testing.assert_close(got, want, check_device=False)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("followed", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    "op",
    [
        torch.add,
        torch.mul,
        torch.sub,
        torch.div,
        lambda x, y: x @ y.T,
        lambda x, y: x * 1.5 + y,
        lambda x, y: torch.addcmul(x, x, y),
    ],
)
def test_gradients_of_some_or_no_arguments(op, followed, grad):
    def run(*args):
        leaves = [args[i].requires_grad_() for i in followed]
        with torch.set_grad_enabled(grad):
            result = op(*args)
        assert result.requires_grad == (grad and bool(followed))
        name = type(result.grad_fn).__name__
        if result.requires_grad:
            result.sum().backward()
        return result.detach().cpu(), name, [leaf.grad.cpu() if leaf.grad is not None else None for leaf in leaves]

    want, got = on_both(run)
    assert got[1] == want[1]
    equal(got[0], want[0])
    for g, w in zip(got[2], want[2], strict=True):
        assert (g is None) == (w is None)
        if w is not None:
            equal(g, w)


@pytest.mark.parametrize("grad", [True, False])
def test_versions_of_what_is_written(grad):
    def run(x, y):
        leaf = y.clone().requires_grad_()
        row, seen = x[0], []
        with torch.set_grad_enabled(grad):
            for write in (
                lambda: x.add_(y),
                lambda: x.mul_(1.5),
                lambda: row.add_(1),
                lambda: x.detach().add_(1),
                lambda: x.data.add_(1),
                lambda: x.neg_(),
                lambda: x.add_(leaf),
            ):
                write()
                seen.append((x._version, row._version, x.requires_grad))
        return seen, x.detach().cpu()

    want, got = on_both(run)
    assert got[0] == want[0]
    equal(got[1], want[1])


def test_writes_to_what_was_saved_are_refused():
    def run(x, y):
        leaf = x.requires_grad_()
        product = leaf * y
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            leaf.add_(1)
        with torch.no_grad():
            leaf.add_(1)
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            leaf[0].add_(1)
        return leaf.detach().cpu()

    want, got = on_both(run)
    equal(got, want)


def test_writes_to_views_reach_the_base_of_the_graph():
    def run(x, y):
        leaf = y.requires_grad_()
        base = x * 1
        base[1].mul_(leaf[0])
        base[:, 2].add_(leaf[:, 1])
        base.sum().backward()
        return base.detach().cpu(), leaf.grad.cpu()

    for got, want in zip(*reversed(on_both(run)), strict=True):
        equal(got, want)


@pytest.mark.parametrize("grad", [True, False])
def test_forward_mode(grad):
    def run(x, y):
        with torch.set_grad_enabled(grad), forward_ad.dual_level():
            dual = forward_ad.make_dual(x, y)
            result = dual * 2 + y
            other = y.clone().add_(dual)
            return [forward_ad.unpack_dual(t).tangent.cpu() for t in (result, other, dual @ y.T)]

    for got, want in zip(*reversed(on_both(run)), strict=True):
        equal(got, want)


def test_inference_tensors():
    def run(x, y):
        with torch.inference_mode():
            made = x + y
            made.add_(1)
        assert (made + y).is_inference() is False and made.is_inference()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            made.add_(y)
        leaf = x.clone().requires_grad_()
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            leaf * made
        return y.add_(made).cpu(), y._version

    want, got = on_both(run)
    equal(got[0], want[0])
    assert got[1] == want[1]


def test_what_stands_below_autograd_still_sees_the_call():
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x, y = torch.rand(3, 4).to("tpu"), torch.rand(3, 4).to("tpu")
    with Watch():
        x.add_(y)
        x + y
    assert seen == ["aten.add_.Tensor", "aten.add.Tensor"]


def test_transforms_and_complex_bits():
    def run(x, y):
        vmapped = torch.func.vmap(lambda a, b: a.mul(2).add_(b))(x, y)
        gradient = torch.func.grad(lambda a: (a * y).add(1).sum())(x)
        twisted = torch.complex(x, y)
        imaginary = twisted.conj().imag  # a negated view
        return vmapped.cpu(), gradient.cpu(), (imaginary + x).cpu(), (twisted.conj() * twisted).cpu()

    for got, want in zip(*reversed(on_both(run)), strict=True):
        equal(got, want)


def test_functionalized_writes():
    def run(x, y):
        def write(a, b):
            a = a.clone()
            a[0].add_(b[1])
            return a.mul_(2)

        return torch.func.functionalize(write)(x, y).cpu()

    want, got = on_both(run)
    equal(got, want)


def test_kernels_of_others_are_called():
    """Somebody registers another kernel of an op for the device or its autograd key: it runs, followed or not."""
    code = """
import torch, warnings
warnings.simplefilter("ignore")
x, leaf = torch.ones(3, device="tpu"), torch.ones(3, device="tpu", requires_grad=True)
calls = []
def kernel(a, b):
    calls.append(1)
    return a.clone()
library = torch.library.Library("aten", "IMPL")
library.impl("mul.Tensor", kernel, "PrivateUse1")
x * x, leaf * x
assert len(calls) == 2, calls
other = torch.library.Library("aten", "IMPL")
other.impl("div.Tensor", kernel, "AutogradPrivateUse1")
x / x, leaf / x
assert len(calls) == 4, calls
for key in "Autograd", "ADInplaceOrView":
    wide = torch.library.Library("aten", "IMPL")
    wide.impl("sub.Tensor", kernel, key)
    wide.impl("mul_.Tensor", lambda a, b: calls.append(2) or a, key)
    calls.clear()
    x - x, leaf - x, x.mul_(2.5), (leaf + 1).mul_(2.5)
    assert calls == [1, 1, 2, 2] and x.tolist() == [1, 1, 1], (key, calls, x)
    wide._destroy()
    assert (x - x).tolist() == [0, 0, 0] and x.mul_(2.5).tolist() == [2.5] * 3 and calls == [1, 1, 2, 2]
    x.fill_(1)
last = torch.library.Library("aten", "IMPL")
last.impl("abs", kernel, "CompositeImplicitAutograd")  # a backend has its own: as on cpu nobody is asked
last.impl("neg", kernel, "AutogradOther")
calls.clear()
assert x.neg().abs().tolist() == [1, 1, 1] and leaf.neg().abs().requires_grad and not calls
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_under_the_python_dispatcher():
    mode = FakeTensorMode()
    x, w = mode.from_tensor(torch.rand(3, 4).to("tpu")), mode.from_tensor(torch.rand(4, 4).to("tpu")).requires_grad_()
    with mode, enable_python_dispatcher():
        for result, grad in (((x + 1) * x, False), (x @ w, True), (x.clone().add_(x), False)):
            assert result.shape == (3, 4) and result.device.type == "tpu" and result.requires_grad == grad


def test_what_dynamo_runs():
    def fn(x, w):
        return torch.nn.functional.gelu(x @ w + 1).mul_(x)

    def run(x, y):
        w = y.t().contiguous()[:, :3].repeat(1, 2)[:, :4].requires_grad_()
        result = torch.compile(fn, backend="eager")(x, w)
        result.sum().backward()
        return result.detach().cpu(), w.grad.cpu()

    for got, want in zip(*reversed(on_both(run)), strict=True):
        equal(got, want)


def test_exported_programs():
    exported = torch.export.export(torch.nn.Linear(4, 2).to("tpu"), (torch.rand(3, 4).to("tpu"),))
    assert "aten.linear.default" in str(exported.graph)
