"""Composed ops of neural networks: losses, pooling, attention's fast path in evaluation."""

import math

import torch

from ._composed import ask

_INF = float("inf")


# ---- losses


def _ctc_suspect(log_probs, targets, input_lengths, target_lengths, blank):
    steps, batch, classes = log_probs.shape if log_probs.dim() == 3 else (0, 0, 0)
    longest = max(target_lengths, default=0)
    wrong = log_probs.dim() != 3 or targets.dim() not in (1, 2) or log_probs.numel() == 0
    wrong = wrong or targets.dtype not in (torch.int64, torch.int32) or not 0 <= blank < classes
    wrong = wrong or log_probs.dtype not in (torch.float32, torch.float64)
    wrong = wrong or len(input_lengths) != batch or len(target_lengths) != batch
    wrong = wrong or min((*input_lengths, *target_lengths), default=0) < 0 or max(input_lengths, default=0) > steps
    if wrong:
        return True
    if targets.dim() == 1:
        return targets.shape[0] != sum(target_lengths)
    return targets.shape[0] != batch or targets.shape[1] < longest


def _ctc_inputs(targets, input_lengths, target_lengths, device):
    """Lengths on the device, so that other lengths are no other program; targets as a matrix, no wider than need be."""
    lengths = torch.tensor([input_lengths, target_lengths], dtype=torch.int64).to(device)
    longest = max(target_lengths)
    if targets.dim() == 2:
        return targets[:, :longest], lengths[0], lengths[1]
    starts = (lengths[1].cumsum(0) - lengths[1]).unsqueeze(1)
    places = starts + torch.arange(longest, device=device)
    return targets[places.clamp(max=max(targets.shape[0] - 1, 0))], lengths[0], lengths[1]


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    if _ctc_suspect(log_probs, targets, input_lengths, target_lengths, blank):
        ask(torch.ops.aten._ctc_loss, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    inputs = _ctc_inputs(targets, input_lengths, target_lengths, log_probs.device)
    return torch.ops.aten._ctc_loss.Tensor(log_probs, *inputs, blank, zero_infinity)


def _ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, blank, zero_infinity=False):
    inputs = _ctc_inputs(targets, input_lengths, target_lengths, log_probs.device)
    return torch.ops.aten._ctc_loss_backward.Tensor(grad, log_probs, *inputs, loss, log_alpha, blank, zero_infinity)


def _per_sample(grad_output, samples, reduction):
    """The gradient of each sample's loss, as a column."""
    grad = grad_output.reshape(-1, 1)
    return grad / samples if reduction == 1 else grad


def _multi_margin_loss_backward(grad_output, x, target, p, margin, weight=None, reduction=1):
    if p not in (1, 2):
        raise RuntimeError("multi_margin_loss_backward: Invalid p, expected 1 or 2 but got " + str(p))
    if x.numel() == 0:
        return torch.zeros_like(x)
    rows = x.reshape(-1, x.shape[-1]) if x.dim() > 0 else x.reshape(1, 1)
    count, classes = rows.shape
    right = target.reshape(count, 1)
    short = margin - rows.gather(1, right) + rows
    slope = torch.where(short > 0, 1 if p == 1 else 2 * short, 0.0).to(x.dtype) / classes
    if weight is not None:
        slope = slope * weight[right]
    slope = slope.scatter(1, right, 0.0)
    slope = slope.scatter(1, right, -slope.sum(1, keepdim=True))
    return (slope * _per_sample(grad_output, count, reduction)).reshape(x.shape)


def _multilabel_margin_loss_forward(x, target, reduction):
    from torch._decomp import decomposition_table

    loss, is_target = decomposition_table[_aten.multilabel_margin_loss_forward.default](x, target, reduction)
    return loss.reshape(()) if x.dim() < 2 else loss, is_target  # one sample's loss has no dims on cpu


def _multilabel_margin_loss_backward(grad_output, x, target, reduction, is_target):
    if x.numel() == 0:
        return torch.zeros_like(x)
    rows = x.reshape(-1, x.shape[-1]) if x.dim() > 0 else x.reshape(1, 1)
    count, classes = rows.shape
    labels = target.reshape(count, classes)
    counts = (labels >= 0).to(torch.int64).cumprod(1) > 0  # the list of a sample ends at its first negative label
    labels = labels.clamp(min=0)
    short = 1 - rows.gather(1, labels).unsqueeze(2) + rows.unsqueeze(1)
    hit = (short > 0) & counts.unsqueeze(2) & (is_target.reshape(count, 1, classes) == 0)
    slope = hit.sum(1).to(x.dtype).scatter_add(1, labels, -hit.sum(2).to(x.dtype)) / classes
    return (slope * _per_sample(grad_output, count, reduction)).reshape(x.shape)


# ---- pooling


def _fractional_starts(size, kernel, out, sample):
    """First elements of the windows along one dim, [N, C, out]."""
    if out == 1:
        return torch.full((*sample.shape, 1), size - kernel, dtype=torch.int64, device=sample.device)
    step = (size - kernel) / (out - 1)
    sample = sample.unsqueeze(-1)
    at = torch.arange(out, device=sample.device)
    starts = ((at + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
    return torch.where(at == out - 1, size - kernel, starts)


def _fractional_max_pool(op, order):
    def pool(x, kernel, out, samples):
        ask(op, x, kernel, out, samples, device="meta")
        dims = len(order)
        lead, sizes = x.shape[:-dims], x.shape[-dims:]
        planes = x.reshape(-1, lead[-1], math.prod(sizes))
        index, count = 0, math.prod(sizes)
        for d in range(dims):
            count //= sizes[d]
            starts = _fractional_starts(sizes[d], kernel[d], out[d], samples[:, :, order[d]])
            if starts.shape[0] != planes.shape[0]:  # one batch of samples for an unbatched input
                starts = starts[: planes.shape[0]]
            window = starts.unsqueeze(-1) + torch.arange(kernel[d], device=x.device)
            shape = [*window.shape[:2], *([1] * (2 * dims))]
            shape[2 + d], shape[2 + dims + d] = out[d], kernel[d]
            index = index + window.reshape(shape) * count
        index = index.flatten(2 + dims)
        found = planes.gather(2, index.flatten(2)).reshape(index.shape)
        best = found.argmax(-1, keepdim=True)
        if x.is_floating_point():  # of several NaN PyTorch takes the last
            last = (found.isnan() * torch.arange(1, found.shape[-1] + 1, device=x.device)).amax(-1, keepdim=True)
            best = torch.where(last > 0, last - 1, best)
        shape = (*lead, *out)
        return found.gather(-1, best).reshape(shape), index.gather(-1, best).reshape(shape)

    return pool


def _fractional_max_pool_backward(dims):
    def backward(grad_output, x, kernel, out, indices):
        flat = torch.zeros_like(x, memory_format=torch.contiguous_format).flatten(-dims)
        if grad_output.shape != indices.shape:
            raise RuntimeError(f"fractional_max_pool{dims}d_backward(): gradOutput sizes unexpected")
        return flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims)).reshape(x.shape)

    return backward


# ---- attention's fast path


def _masked_softmax(x, mask, dim=None, mask_type=None):
    if mask.dtype != torch.bool or mask_type not in (0, 1) or x.dim() != 4:
        if mask.dtype != torch.bool or mask.shape != x.shape or mask_type in (0, 1):
            ask(torch.ops.aten._masked_softmax, x, mask, dim, mask_type)
    elif mask.shape != ((x.shape[2], x.shape[2]) if mask_type == 0 else (x.shape[0], x.shape[2])):
        ask(torch.ops.aten._masked_softmax, x, mask, dim, mask_type)
    if mask_type == 1:
        mask = mask.reshape(x.shape[0], 1, 1, x.shape[2])
    dim = x.dim() - 1 if dim is None else dim
    return x.masked_fill(mask, -_INF).softmax(dim)


def _masked_softmax_backward(grad_output, output, mask, dim=None):
    if grad_output.shape != mask.shape or mask.dtype != torch.bool:
        ask(torch.ops.aten._masked_softmax_backward, grad_output, output, mask, dim)
    dim = output.dim() - 1 if dim is None else dim
    product = (grad_output * output).masked_fill(mask, 0.0)
    return (product - output * product.sum(dim, keepdim=True)).masked_fill(mask, 0.0)


def _transform_bias_rescale_qkv(qkv, bias, heads):
    batch, steps, width = qkv.shape
    if width % 3 or (width // 3) % heads:
        ask(torch.ops.aten._transform_bias_rescale_qkv, qkv, bias, heads)
    each = width // 3 // heads
    q, k, v = (qkv + bias).reshape(batch, steps, 3, heads, each).permute(2, 0, 3, 1, 4).unbind(0)
    return (q / math.sqrt(each)).contiguous(), k.contiguous(), v.contiguous()


def _native_multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    if query.is_nested or key.is_nested or value.is_nested:
        raise NotImplementedError("aten::_native_multi_head_attention of strided nested tensors is not implemented on tpu")
    if query.dim() != 3 or query.shape[2] != embed_dim or qkv_weight.dim() != 2 or qkv_weight.shape[0] != 3 * embed_dim:
        ask(
            torch.ops.aten._native_multi_head_attention,
            *(query, key, value, embed_dim, heads, qkv_weight, qkv_bias, proj_weight, proj_bias),
            *(mask, need_weights, average_attn_weights, mask_type),
        )
    w = qkv_weight.split(embed_dim)
    qkv = torch.cat([t @ m.t() for t, m in zip((query, key, value), w, strict=True)], 2)
    q, k, v = _transform_bias_rescale_qkv(qkv, qkv_bias, heads)
    scores = q @ k.transpose(2, 3)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = mask if mask.dtype == torch.bool else mask != 0  # 0 and -inf, to be added, are what the modules give
        if mask_type == 2:
            mask = mask.expand_as(scores)
        weights = _masked_softmax(scores, mask, 3, mask_type)
    out = (weights @ v).transpose(1, 2).reshape(query.shape[0], query.shape[1], embed_dim)
    out = out @ proj_weight.t() + proj_bias
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


def transformer_encoder_layer(
    src,
    embed_dim,
    heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    use_gelu,
    norm_first,
    eps,
    norm_weight_1,
    norm_bias_1,
    norm_weight_2,
    norm_bias_2,
    ffn_weight_1,
    ffn_bias_1,
    ffn_weight_2,
    ffn_bias_2,
    mask=None,
    mask_type=None,
):
    def norm_1(x):
        return torch.nn.functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x):
        return torch.nn.functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attend(x):
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        return _native_multi_head_attention(x, x, x, embed_dim, heads, *weights, mask, False, True, mask_type)[0]

    def feed(x):
        x = x @ ffn_weight_1.t() + ffn_bias_1
        x = torch.nn.functional.gelu(x) if use_gelu else x.relu()
        return x @ ffn_weight_2.t() + ffn_bias_2

    if norm_first:
        x = src + attend(norm_1(src))
        return x + feed(norm_2(x))
    x = norm_1(src + attend(src))
    return norm_2(x + feed(x))


_aten = torch.ops.aten
OPS = {
    "aten::_ctc_loss": _ctc_loss,
    "aten::_ctc_loss_backward": _ctc_loss_backward,
    "aten::multi_margin_loss_backward": _multi_margin_loss_backward,
    "aten::multilabel_margin_loss_forward": _multilabel_margin_loss_forward,
    "aten::multilabel_margin_loss_backward": _multilabel_margin_loss_backward,
    "aten::fractional_max_pool2d": _fractional_max_pool(_aten.fractional_max_pool2d.default, (1, 0)),
    "aten::fractional_max_pool3d": _fractional_max_pool(_aten.fractional_max_pool3d.default, (0, 1, 2)),
    "aten::fractional_max_pool2d_backward": _fractional_max_pool_backward(2),
    "aten::fractional_max_pool3d_backward": _fractional_max_pool_backward(3),
    "aten::_masked_softmax": _masked_softmax,
    "aten::_masked_softmax_backward": _masked_softmax_backward,
    "aten::_transform_bias_rescale_qkv": _transform_bias_rescale_qkv,
    "aten::_native_multi_head_attention": _native_multi_head_attention,
    "aten::_transformer_encoder_layer_fwd": transformer_encoder_layer,
}
