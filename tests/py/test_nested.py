"""Nested tensors, jagged and strided, against device cpu."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore")


def make(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


PARTS, WEIGHT = [make(2, 4), make(3, 4, seed=1), make(1, 4, seed=2)], make(5, 4, seed=3)


def jagged(device, requires_grad=False):
    return torch.nested.nested_tensor(
        [p.clone() for p in PARTS], layout=torch.jagged, device=device, requires_grad=requires_grad
    )


def strided(device):
    return torch.nested.nested_tensor(PARTS, device=device)


def leaves(value):
    if isinstance(value, torch.Tensor):
        return list(value.unbind()) if value.is_nested else [value]
    return [leaf for item in value for leaf in leaves(item)]


def check(fn):
    for want, got in zip(leaves(fn("cpu")), leaves(fn("tpu")), strict=True):
        assert got.device.type == "tpu"
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def heads(device):
    return jagged(device).view(3, -1, 2, 2).transpose(1, 2)


def from_jagged(device):
    joined, ends = torch.cat(PARTS).to(device), torch.tensor([0, 2, 5, 6], device=device)
    lengths = torch.tensor([2, 3, 1], device=device)
    make_one = torch.nested.nested_tensor_from_jagged
    return [make_one(joined, offsets=ends), make_one(joined, lengths=lengths)]


def gradients(device):
    x = jagged(device, True)
    torch.nested.to_padded_tensor(F.linear(x, WEIGHT.to(device)).relu(), 0.0).pow(2).sum().backward()
    values = torch.cat(PARTS).to(device).requires_grad_()
    y = torch.nested.nested_tensor_from_jagged(values, offsets=torch.tensor([0, 2, 5, 6], device=device))
    (y.softmax(-1) * y).values().pow(2).sum().backward()
    return [x.grad, values.grad]


JAGGED = {
    "make": jagged,
    "from_jagged": from_jagged,
    "to": lambda d: jagged("cpu").to(d),
    "there_and_back": lambda d: jagged(d).cpu().to(d),
    "pointwise": lambda d: (lambda x: [x * x + x * 2 - x / 3, x.sin(), F.gelu(x), torch.where(x > 0, x, -x)])(jagged(d)),
    "linear": lambda d: F.linear(jagged(d), WEIGHT.to(d), torch.ones(5, device=d)),
    "matmul": lambda d: jagged(d) @ WEIGHT.t().to(d),
    "padded": lambda d: torch.nested.to_padded_tensor(jagged(d), -1.0),
    "sums": lambda d: [jagged(d).sum(1), jagged(d).sum(-1), jagged(d).sum(), jagged(d).mean(1)],
    "extremes": lambda d: [jagged(d).amax(-1), jagged(d).amax(1)],
    "softmax": lambda d: [jagged(d).softmax(-1), jagged(d).softmax(1)],
    "norms": lambda d: [F.layer_norm(jagged(d), (4,)), F.rms_norm(jagged(d), (4,))],
    "views": lambda d: [jagged(d).view(3, -1, 2, 2), jagged(d).unsqueeze(-1), *jagged(d).chunk(2, -1)],
    "select": lambda d: jagged(d)[1],
    "attention": lambda d: F.scaled_dot_product_attention(heads(d), heads(d), heads(d)).transpose(1, 2),
    "gradients": gradients,
}
STRIDED = {
    "make": strided,
    "relu": lambda d: strided(d).relu(),
    "arithmetic": lambda d: [strided(d) + strided(d), strided(d) * 2, -strided(d)],
    "clone": lambda d: strided(d).clone(),
    "transpose": lambda d: strided(d).transpose(1, 2).contiguous(),
    "linear": lambda d: F.linear(strided(d), WEIGHT.to(d)),
    "softmax": lambda d: strided(d).softmax(-1),
    "matmul": lambda d: torch.matmul(strided(d), strided(d).transpose(1, 2)),
    "sum": lambda d: strided(d).sum(-1, keepdim=True),
    "double": lambda d: strided(d).double(),
    "padded": lambda d: strided(d).to_padded_tensor(0.0),
    "select": lambda d: strided(d)[1],
}


@pytest.mark.parametrize("name", JAGGED)
def test_jagged(name):
    check(JAGGED[name])


@pytest.mark.parametrize("name", STRIDED)
def test_strided(name):
    check(STRIDED[name])


def test_encoder_makes_padded_batches_nested():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x, padding = make(3, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    with torch.no_grad():
        want = encoder(x, src_key_padding_mask=padding)
        got = encoder.to("tpu")(x.to("tpu"), src_key_padding_mask=padding.to("tpu"))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_what_strided_ones_lack_says_so():
    with pytest.raises(NotImplementedError, match="strided nested tensors on the tpu device"):
        torch.nn.functional.dropout(strided("tpu"), 0.5)
