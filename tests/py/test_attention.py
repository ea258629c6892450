"""scaled_dot_product_attention: which way it takes, its strides, masks that hide everything, gradients."""

import pytest
import torch
import torch.nn.functional as F
from test_matmul import rand, same
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_tpu

MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "bool": {"attn_mask": torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) > 0.4},
    "hides all": {"attn_mask": torch.zeros(5, 5, dtype=torch.bool)},
    "bias a head": {"attn_mask": rand(2, 4, 5, 5)},
    "bias of one row": {"attn_mask": rand(1, 5), "scale": 0.3},
}


def attention(device, heads_of_keys, heads_first, **options):
    """Output and gradients, of activations as models have them ([batch, positions, heads, width]) or with heads first."""
    heads = (4, heads_of_keys, heads_of_keys)
    leaves = [rand(2, 5, count, 8, seed=i).to(device).requires_grad_() for i, count in enumerate(heads)]
    q, k, v = (leaf.transpose(1, 2).contiguous() if heads_first else leaf.transpose(1, 2) for leaf in leaves)
    options = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in options.items()}
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=heads_of_keys != 4, **options)
    out.square().sum().backward()
    return out, [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("heads_of_keys", [4, 2])
@pytest.mark.parametrize("mask", MASKS)
def test_attention_is_cpus(mask, heads_of_keys, heads_first):
    got, grads = attention("tpu", heads_of_keys, heads_first, **MASKS[mask])
    want, wanted = attention("cpu", heads_of_keys, heads_first, **MASKS[mask])
    same(got.detach(), want.detach(), 2e-5)
    same(grads, wanted, 2e-5)
    if heads_of_keys == 4:  # with fewer, cpu takes its math path
        assert got.stride() == want.stride()


def programs(function):
    torch_tpu.metrics.reset()
    function()
    return torch_tpu.metrics.counters()["executes"]


def test_one_program_unless_told_otherwise():
    q, k, v = (rand(1, 4, 3, 8, seed=i).to("tpu") for i in range(3))
    plain = lambda: F.scaled_dot_product_attention(q, k, v)  # noqa: E731
    assert programs(plain) == 1
    with sdpa_kernel(SDPBackend.MATH):
        assert programs(plain) > 1
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert programs(plain) == 1
    assert programs(lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)) > 1


def test_shapes_that_are_not_fused():
    for shape in ((3, 8), (2, 3, 8), (2, 1, 4, 3, 8), (0, 4, 3, 8)):
        x = rand(*shape)
        same(F.scaled_dot_product_attention(*[x.to("tpu")] * 3), F.scaled_dot_product_attention(x, x, x), 2e-5)


def test_gradient_of_the_bias():
    q, k, v, bias = (*(rand(2, 4, 5, 8, seed=i) for i in range(3)), rand(1, 4, 5, 1))
    grads = []
    for device in ("cpu", "tpu"):
        leaf = bias.to(device).detach().requires_grad_()
        F.scaled_dot_product_attention(q.to(device), k.to(device), v.to(device), attn_mask=leaf).square().sum().backward()
        grads.append(leaf.grad)
    same(grads[1], grads[0], 2e-5)


def test_wrong_shapes_are_refused_as_on_cpu():
    q, k = rand(1, 4, 3, 8), rand(1, 4, 3, 7)
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError):
            F.scaled_dot_product_attention(q.to(device), k.to(device), q.to(device))


def test_rows_of_one_large_score():
    """Beside a large finite score the logarithm of a row's sum is lost: the gradient may not go by it."""
    grads = []
    for device in ("cpu", "tpu"):
        q, k, v = (rand(1, 2, 4, width, seed=i).to(device).requires_grad_() for i, width in enumerate((4, 4, 3)))
        mask = torch.zeros(4, 4)
        mask[2], mask[1] = torch.finfo(torch.float32).min, 1e9
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(device))
        grads.append(torch.autograd.grad(out.square().sum(), (q, k, v)))
    same(grads[1], grads[0], 2e-5)


def test_vmap_and_second_gradients():
    x = rand(3, 2, 2, 3, 4)
    mapped = torch.func.vmap(lambda x: F.scaled_dot_product_attention(x, x, x))
    same(mapped(x.to("tpu")), mapped(x), 2e-5)
    by_row = torch.func.vmap(torch.func.grad(lambda x: F.scaled_dot_product_attention(x, x, x).square().sum()))
    same(by_row(x.to("tpu")), by_row(x), 2e-5)
    seconds = []
    for device in ("cpu", "tpu"):
        q, bias = rand(1, 2, 3, 4).to(device).requires_grad_(), rand(3, 3).to(device).requires_grad_()
        first = torch.autograd.grad(F.scaled_dot_product_attention(q, q, q, bias).square().sum(), q, create_graph=True)[0]
        seconds.append(torch.autograd.grad(first.square().sum(), (q, bias)))
    same(seconds[1], seconds[0], 1e-4)


@pytest.mark.parametrize(
    "wrong", [{"attn_mask": torch.ones(3, dtype=torch.bool)}, {"dropout_p": -0.1}, {"attn_mask": torch.ones(2, 2)}], ids=str
)
def test_wrong_options_are_refused_as_on_cpu(wrong):
    x = rand(1, 2, 3, 4)
    with pytest.raises(Exception) as expected:
        F.scaled_dot_product_attention(x, x, x, **wrong)
    moved = {name: value.to("tpu") if isinstance(value, torch.Tensor) else value for name, value in wrong.items()}
    with pytest.raises(expected.type):
        F.scaled_dot_product_attention(*[x.to("tpu")] * 3, **moved)


def test_mask_and_causal_at_once():
    x, mask = rand(1, 2, 3, 4), rand(3, 3)
    got = F.scaled_dot_product_attention(*[x.to("tpu")] * 3, attn_mask=mask.to("tpu"), is_causal=True)
    same(got, F.scaled_dot_product_attention(x, x, x, attn_mask=mask, is_causal=True), 2e-5)


def test_gradients_that_are_not_there():
    class Dead(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    q = torch.randn(1, 2, 4, 8, device="tpu", requires_grad=True)
    Dead.apply(torch.nn.functional.scaled_dot_product_attention(q, q, q)).sum().backward()
    assert q.grad is None or not q.grad.cpu().any()
    a = torch.randn(1, 1, 3, 2, dtype=torch.float64, device="tpu", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), (a,))
