"""Ops that are composed of others on this device (torch_tpu/_composed.py), and sizes that come from data."""

import pytest
import torch
from torch import nn

INF, NAN = float("inf"), float("nan")


def make(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def moved(value):
    if isinstance(value, torch.Tensor):
        return value.to("tpu")
    return [moved(v) for v in value] if isinstance(value, list) else value


def check(fn, *inputs, tolerance=1e-5):
    want, got = fn(*inputs), fn(*(moved(x) for x in inputs))
    want = want if isinstance(want, (list, tuple)) else [want]
    got = got if isinstance(got, (list, tuple)) else [got]
    for w, g in zip(want, got, strict=True):
        assert g.device.type == "tpu"
        torch.testing.assert_close(g.cpu(), w, rtol=tolerance, atol=tolerance, equal_nan=True)


def check_grad(fn, x, *rest, tolerance=1e-5):
    grads = []
    for device in ("cpu", "tpu"):
        leaf = x.detach().to(device).requires_grad_()
        y = fn(leaf, *(r.to(device) if isinstance(r, torch.Tensor) else r for r in rest))
        (y * torch.arange(1, y.numel() + 1, device=device).reshape(y.shape)).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=tolerance, atol=tolerance, equal_nan=True)


def same_error(fn):
    """The same exception with the same first line on both devices."""
    with pytest.raises(Exception) as want:
        fn("cpu")
    with pytest.raises(type(want.value)) as got:
        fn("tpu")
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


# ---- connectionist temporal classification

LENGTHS = ([12, 7, 0, 3, 9], [5, 3, 2, 0, 4])


def ctc_inputs(joined):
    x = make(12, 5, 6, dtype=torch.float64).log_softmax(2)
    labels = torch.tensor([[1, 1, 2, 3, 3], [4, 4, 1, 0, 0], [2, 3, 0, 0, 0], [0, 0, 0, 0, 0], [5, 1, 5, 1, 0]])
    if joined:
        labels = torch.cat([row[:n] for row, n in zip(labels, LENGTHS[1], strict=True)])
    return x, labels


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss(joined, reduction, zero_infinity):
    def loss(x, labels):
        return nn.functional.ctc_loss(x, labels, *LENGTHS, reduction=reduction, zero_infinity=zero_infinity)

    x, labels = ctc_inputs(joined)
    check(loss, x, labels)
    check_grad(loss, x, labels)
    check(lambda x, labels: nn.functional.ctc_loss(x, labels, *(torch.tensor(n) for n in LENGTHS), blank=3), x, labels)


def test_ctc_lengths_make_no_program(counters):
    x, labels = (t.to("tpu") for t in ctc_inputs(False))
    for _ in range(2):
        nn.functional.ctc_loss(x, labels, *LENGTHS)
    before = counters()["compiles"]
    nn.functional.ctc_loss(x, labels, [11, 6, 5, 12, 9], [5, 1, 2, 3, 4])
    assert counters()["compiles"] == before


def test_ctc_refusals():
    x, labels = ctc_inputs(False)
    for inputs, targets in (([13, 7, 0, 3, 9], LENGTHS[1]), (LENGTHS[0], [6, 3, 2, 0, 4]), ([1, 2], LENGTHS[1])):
        same_error(lambda d, i=inputs, t=targets: torch.ops.aten._ctc_loss(x.to(d), labels.to(d), i, t))


# ---- margins


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margin_losses(reduction):
    x, labels = make(5, 7), torch.tensor([0, 6, 3, 3, 1])
    for p in (1, 2):
        for weight in (None, make(7).abs()):
            check_grad(
                lambda x, t, w, p=p: nn.functional.multi_margin_loss(x, t, p=p, margin=0.7, weight=w, reduction=reduction),
                *(x, labels, weight),
            )
    lists = torch.tensor(
        [[3, 0, -1, 4, 4, 4, 4], [1, 2, 3, 4, 5, 6, 0], [-1, 0, 0, 0, 0, 0, 0], [2, -1] * 3 + [0], [6] + [-1] * 6]
    )
    check_grad(lambda x, t: nn.functional.multilabel_margin_loss(x, t, reduction=reduction), x, lists)
    check_grad(lambda x, t: nn.functional.multilabel_margin_loss(x, t, reduction=reduction), x[0], lists[0])


# ---- pooling


def test_fractional_max_pool():
    x, samples = make(2, 3, 9, 11), torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(1))
    x[0, 0, 2, 3] = x[0, 0, 3, 3] = NAN
    x[1, 1] = -INF

    def pool(x, s):
        return nn.functional.fractional_max_pool2d_with_indices(x, (2, 3), (4, 5), _random_samples=s)

    check(pool, x, samples)
    check(lambda x, s: nn.functional.fractional_max_pool2d_with_indices(x, 3, (1, 7), _random_samples=s), x, samples)
    check_grad(lambda x, s: pool(x, s)[0], make(2, 3, 9, 11), samples)
    x, samples = make(2, 3, 6, 7, 8), torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(1))
    pool3 = nn.functional.fractional_max_pool3d_with_indices
    check(lambda x, s: pool3(x, (2, 1, 3), (3, 5, 4), _random_samples=s), x, samples)
    check_grad(lambda x, s: pool3(x, 2, (3, 5, 4), _random_samples=s)[0], x, samples)
    same_error(lambda d: nn.functional.fractional_max_pool2d(make(1, 2, 4, 4).to(d), 3, (4, 4)))


# ---- histograms


def test_histograms():
    x, weight = make(500), make(500, seed=1).abs()
    x[3] = x[10]
    edges = torch.tensor([-2.0, -1.0, 0.0, 0.1, 3.0])
    check(lambda x: torch.histogram(x, 11), x)
    check(lambda x: torch.histogram(x, 8, range=(-1.0, 1.0)), x)
    check(lambda x, w: torch.histogram(x, 8, weight=w, density=True), x, weight)
    check(lambda x, e: torch.histogram(x, e), x, edges)
    check(lambda x: torch.histogram(x, 4), torch.full((3,), 2.0))
    check(lambda x: torch.histogram(x, 4), torch.empty(0))
    points = make(100, 3)
    check(lambda x: [(h := torch.histogramdd(x, [3, 4, 5])).hist, *h.bin_edges], points)
    check(lambda x, w: torch.histogramdd(x, [3, 2, 2], weight=w, density=True).hist, points, weight[:100])
    check(lambda x, a, b: torch.histogramdd(x[:, :2], [a, b]).hist, points, edges, edges[1:])
    same_error(lambda d: torch.histogram(torch.tensor([1.0, INF], device=d), 3))
    same_error(lambda d: torch.histogram(torch.ones(3, device=d), 0))
    same_error(lambda d: torch.histogram(torch.ones(3, device=d, dtype=torch.int64), 3))


# ---- segments


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segment_reduce(reduce, initial):
    data, lengths = make(7, 3), torch.tensor([2, 0, 3, 2])
    data[2], data[5, 1], data[4, 2] = 0, NAN, data[3, 2]

    def reduced(x, n):
        return torch.segment_reduce(x, reduce, lengths=n, initial=initial)

    check(reduced, data, lengths)
    check_grad(reduced, data, lengths)
    check(lambda x, o: torch.segment_reduce(x, reduce, offsets=o, initial=initial), data, torch.tensor([0, 2, 2, 5, 7]))
    batched = torch.tensor([[2, 1], [0, 3]])
    check(lambda x, n: torch.segment_reduce(x, reduce, lengths=n, axis=1, initial=initial), make(2, 3, 2), batched)


# ---- attention's fast path


def test_masked_softmax():
    x = make(2, 3, 4, 4)
    square, keys, whole = (make(*shape, seed=2) > 0 for shape in ((4, 4), (2, 4), (2, 3, 4, 4)))
    check(lambda x, m: torch._masked_softmax(x, m, 3, 0), x, square)
    check(lambda x, m: torch._masked_softmax(x, m, 3, 1), x, keys)
    check(lambda x, m: torch._masked_softmax(x, m, 2, 2), x, whole)
    check(lambda g, y, m: torch.ops.aten._masked_softmax_backward(g, y, m, 3), make(2, 3, 4, 4, seed=4), x.softmax(3), whole)
    same_error(lambda d: torch._masked_softmax(x.to(d), square[:3].to(d), 3, 0))
    same_error(lambda d: torch._masked_softmax(x.to(d), x.to(d), 3, 2))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_layers_in_evaluation(norm_first, activation):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation=activation).eval()
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, causal = make(3, 5, 16), nn.Transformer.generate_square_subsequent_mask(5).isinf()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    with torch.no_grad():
        wants = [encoder(x), encoder(x, mask=causal), encoder(x, src_key_padding_mask=padding)]
        encoder.to("tpu")
        x, causal, padding = x.to("tpu"), causal.to("tpu"), padding.to("tpu")
        gots = [encoder(x), encoder(x, mask=causal), encoder(x, src_key_padding_mask=padding)]
    for want, got in zip(wants, gots, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_multi_head_attention_in_evaluation():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    x = make(3, 5, 16)
    with torch.no_grad():
        wants = [*attention(x, x, x), *attention(x, x, x, average_attn_weights=False)]
        attention.to("tpu")
        x = x.to("tpu")
        gots = [*attention(x, x, x), *attention(x, x, x, average_attn_weights=False)]
    for want, got in zip(wants, gots, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


# ---- sizes from data


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_unique_along_any_dim(dim):
    x = torch.randint(0, 2, (3, 4, 3), generator=torch.Generator().manual_seed(5))
    options = {"return_inverse": True, "return_counts": True, "dim": dim}
    check(lambda x: torch.unique(x, **options), x, tolerance=0)
    check(lambda x: torch.unique_consecutive(x, **options), x.sort(dim).values, tolerance=0)


def test_repeat_interleave_reads_its_size():
    repeats = torch.tensor([2, 0, 3, 1])
    check(lambda r: torch.repeat_interleave(r), repeats, tolerance=0)
    check(lambda r: torch.repeat_interleave(r.int()), repeats, tolerance=0)
    check(lambda x, r: x.repeat_interleave(r, dim=0), make(4, 3), repeats, tolerance=0)
    check(lambda x, r: x.repeat_interleave(r), make(2, 2), repeats, tolerance=0)
    check(lambda r: torch.repeat_interleave(r), torch.empty(0, dtype=torch.int64), tolerance=0)
    same_error(lambda d: torch.repeat_interleave(torch.tensor([1, -1], device=d)))
    same_error(lambda d: torch.repeat_interleave(torch.tensor([1.0], device=d)))


# ---- the rest


def test_gamma_and_dirichlet_gradients():
    from scipy import special

    shapes = torch.tensor([1e-2, 0.3, 1.0, 4.0, 50.0, 2000.0], dtype=torch.float64).unsqueeze(1)
    x = torch.tensor(special.gammaincinv(shapes.numpy(), [0.01, 0.3, 0.7, 0.99]))
    check(lambda a, x: torch._standard_gamma_grad(a, x), shapes.expand_as(x).contiguous(), x, tolerance=2e-3)
    a, b = shapes[1:5].reshape(4, 1, 1), torch.tensor([0.4, 2.0, 9.0], dtype=torch.float64).reshape(3, 1)
    x = torch.tensor(special.betaincinv(a.numpy(), b.numpy(), [0.05, 0.5, 0.9]))
    check(torch._dirichlet_grad, x, a.expand_as(x).contiguous(), (a + b).expand_as(x).contiguous(), tolerance=2e-3)
    # Against a known derivative: for shape 1 the gamma distribution is exponential, whose slope is a plain integral.
    step = 1e-6
    exact = (special.gammaincinv(1 + step, 0.5) - special.gammaincinv(1 - step, 0.5)) / (2 * step)
    got = torch._standard_gamma_grad(torch.ones(1, device="tpu"), torch.full((1,), 0.5, device="tpu").log().neg())
    assert abs(got.item() - exact) < 1e-6


def test_hash_of_bits():
    for x in (make(5, 4), make(3).half(), torch.tensor([3, 5, -1]), torch.tensor([True, True, False])):
        check(lambda x: torch.hash_tensor(x).view(torch.int64), x)
        check(lambda x: torch.hash_tensor(x, 0, keepdim=True).view(torch.int64), x)


def test_index_lists_and_jagged_rows():
    rows = torch.tensor([0, 0, 2, 3, 3, 3])
    check(lambda r: torch._convert_indices_from_coo_to_csr(r, 5), rows, tolerance=0)
    check(lambda r: torch._convert_indices_from_coo_to_csr(r, 5, out_int32=True), rows, tolerance=0)
    crow, col = torch.tensor([0, 2, 2, 3, 6, 6]), torch.tensor([1, 4, 0, 0, 1, 2])
    check(lambda a, b: torch._convert_indices_from_csr_to_coo(a, b), crow, col, tolerance=0)
    check(lambda a, b: torch._convert_indices_from_csr_to_coo(a, b, transpose=True), crow, col, tolerance=0)
    values, offsets = make(6, 2), torch.tensor([0, 2, 2, 6])
    check(lambda v, o: torch.ops.aten._jagged_to_padded_dense_forward(v, [o], [4], -1.0), values, offsets)
    check(lambda v, o: torch.ops.aten._padded_dense_to_jagged_forward(v, [o], 6), make(3, 4, 2), offsets)


def test_pooling_out_forms():
    x = make(2, 3, 8, 8)
    for fn in (torch._C._nn.adaptive_avg_pool2d, torch._C._nn.adaptive_max_pool2d):
        check(lambda x, fn=fn: fn(x, (3, 5)), x)
    out = torch.empty(0, device="tpu")
    torch._C._nn.adaptive_avg_pool2d(x.to("tpu"), (3, 5), out=out)
    torch.testing.assert_close(out.cpu(), nn.functional.adaptive_avg_pool2d(x, (3, 5)))
