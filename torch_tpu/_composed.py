"""Ops that PyTorch has no decomposition for, composed of ops that have rows. Found by torch_tpu/_decompose.py, recorded as one
program each. A call that looks wrong is asked of PyTorch's own kernel on zeros, so that users see the text they know."""

import math

import torch

_INF = float("inf")


def _zeros(value, device):
    if isinstance(value, torch.Tensor):
        return torch.zeros(value.shape, dtype=value.dtype, device=device)
    if isinstance(value, (list, tuple)):
        return type(value)(_zeros(item, device) for item in value)
    return value


def ask(op, *args, device="cpu", **kwargs):
    """PyTorch's opinion of a call's shapes and dtypes: raises what it raises."""
    return op(*(_zeros(a, device) for a in args), **{k: _zeros(v, device) for k, v in kwargs.items()})


def as_tensors(op, args):
    """Python numbers back as tensors where the schema wants those: the way to Python has unwrapped them."""
    if not any(isinstance(arg, (bool, int, float, complex)) for arg in args):
        return args
    wanted = op._schema.arguments
    return [
        torch.tensor(arg) if not isinstance(arg, torch.Tensor) and str(want.type) == "Tensor" else arg
        for arg, want in zip(args, wanted, strict=False)
    ]


# ---- histograms


def _outer_edges(points, bounds):
    """Lowest and highest edge of each column of [M, D] points, as two tensors of [D]."""
    if bounds is not None:
        ends = torch.tensor(bounds, dtype=torch.float64).to(points.dtype).reshape(-1, 2)
        if not (ends.isfinite().all() and (ends[:, 0] <= ends[:, 1]).all()):
            bins = [1] * points.shape[1]
            ask(torch.ops.aten._histogramdd_bin_edges, points[:1], bins, range=bounds)
        ends = ends.to(points.device)
        low, high = ends[:, 0], ends[:, 1]
    elif points.shape[0] == 0:
        low = high = points.new_zeros(points.shape[1])
    else:
        low, high = points.amin(0), points.amax(0)
        if not torch.stack([low, high]).isfinite().all().item():
            for d, (first, last) in enumerate(torch.stack([low, high], 1).tolist()):
                if not (math.isfinite(first) and math.isfinite(last)):
                    raise RuntimeError(f"torch.histogramdd: dimension {d}'s range [{first:g}, {last:g}] is not finite")
    flat = low == high
    if points.shape[0] == 0 and bounds is None:
        return low, high + 1
    return torch.where(flat, low - 0.5, low), torch.where(flat, high + 0.5, high)


def _bin_edges(points, bins, bounds):
    low, high = _outer_edges(points, bounds)
    return [torch.linspace(low[d], high[d], n + 1, dtype=points.dtype, device=points.device) for d, n in enumerate(bins)]


def _binned(points, edges, weight, density):
    """The histogram of [M, D] points between the edges of each column; the last bin holds its upper edge too."""
    shape = [e.numel() - 1 for e in edges]
    place, inside = 0, True
    for d, edge in enumerate(edges):
        column = points[:, d].contiguous()
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        at = torch.searchsorted(edge, column, right=True) - 1
        place = place * shape[d] + at.clamp(0, shape[d] - 1)
    weight = points.new_ones(points.shape[0]) if weight is None else weight.reshape(-1)
    total = math.prod(shape)
    counts = points.new_zeros(total + 1).index_add(0, torch.where(inside, place, total), weight)
    counts = counts[:total].reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, edge in enumerate(edges):
            counts = counts / edge.diff().reshape([-1 if k == d else 1 for k in range(len(edges))])
    return counts


def _points(x):
    return x.reshape(-1, x.shape[-1])


_FLOATS = (torch.float32, torch.float64)


def _check_weight(op, x, weight, shape, *bins):
    if x.dtype not in _FLOATS or (weight is not None and (weight.dtype != x.dtype or weight.shape != shape)):
        ask(op, x, *bins, weight=weight)


def _histogram_bin_ct(x, bins=100, range=None, weight=None, density=False):
    op = torch.ops.aten.histogram.bin_ct
    _check_weight(op, x, weight, x.shape, bins)
    if bins <= 0 or (range is not None and len(range) != 2):
        ask(op, x, bins, range=range)
    points = x.reshape(-1, 1)
    edges = _bin_edges(points, [bins], range)
    return _binned(points, edges, weight, density), edges[0]


def _histogram_bins(x, bins, weight=None, density=False):
    _check_weight(torch.ops.aten.histogram.bins_tensor, x, weight, x.shape, bins)
    if bins.dim() != 1 or bins.numel() == 0 or bins.dtype != x.dtype:
        ask(torch.ops.aten.histogram.bins_tensor, x, bins)
    return _binned(x.reshape(-1, 1), [bins], weight, density), bins.clone()


def _histogramdd_bin_edges(x, bins, range=None, weight=None, density=False):
    _check_weight(torch.ops.aten._histogramdd_bin_edges, x, weight, x.shape[:-1], bins)
    if x.dim() < 2 or len(bins) != x.shape[-1] or min(bins, default=0) <= 0 or (range and len(range) != 2 * len(bins)):
        ask(torch.ops.aten._histogramdd_bin_edges, x, bins, range=range)
    return _bin_edges(_points(x), bins, range)


def _histogramdd_from_bin_cts(x, bins, range=None, weight=None, density=False):
    return _binned(_points(x), _histogramdd_bin_edges(x, bins, range, weight), weight, density)


def _histogramdd_from_bin_tensors(x, bins, weight=None, density=False):
    op = torch.ops.aten._histogramdd_from_bin_tensors
    _check_weight(op, x, weight, x.shape[:-1], bins)
    if x.dim() < 2 or len(bins) != x.shape[-1] or any(b.dim() != 1 or b.dtype != x.dtype or not b.numel() for b in bins):
        ask(op, x, bins)
    return _binned(_points(x), bins, weight, density)


# ---- segments


def _segments(data, lengths, offsets, axis):
    """Lengths of the segments along axis, and for each element the segment it lies in (behind the last: one more)."""
    if lengths is None:
        lengths = offsets.diff(dim=-1)
    ends = lengths.cumsum(-1)
    places = torch.arange(data.shape[axis], device=data.device).expand(*ends.shape[:-1], -1).contiguous()
    return lengths, torch.searchsorted(ends.contiguous(), places, right=True)


def _over_rest(values, data, axis):
    """[*lead, n] -> the shape of data along `axis`, broadcast over the dims behind it."""
    shape = [*values.shape, *([1] * (data.dim() - axis - 1))]
    return values.reshape(shape).expand(*values.shape, *data.shape[axis + 1 :])


_SEGMENT_MODES = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
_SEGMENT_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -_INF, "min": _INF}


def _segment_check(op, data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    length = lengths if lengths is not None else offsets
    if reduce not in _SEGMENT_MODES or length is None or indices is not None or axis != length.dim() - 1:
        ask(op, data, reduce, lengths=lengths, indices=indices, offsets=offsets, axis=axis, unsafe=True, initial=initial)
    if length.dtype not in (torch.int64, torch.int32) or data.dim() == 0 or data.numel() == 0:
        ask(op, data, reduce, lengths=lengths, indices=indices, offsets=offsets, axis=axis, unsafe=True, initial=initial)
    if unsafe or lengths is None:
        return
    least, sums = lengths.amin(), lengths.sum(-1)
    if least.item() < 0:
        raise RuntimeError("lengths contains negative value!")
    if not (sums == data.shape[axis]).all().item():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe."
        )


def _segment_reduce(data, reduce, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    axis = axis + data.dim() if axis < 0 else axis
    _segment_check(torch.ops.aten.segment_reduce, data, reduce, lengths, indices, offsets, axis, unsafe, initial)
    lengths, segment = _segments(data, lengths, offsets, axis)
    count = lengths.shape[-1]
    shape = [*data.shape[:axis], count + 1, *data.shape[axis + 1 :]]
    start = data.new_full(shape, _SEGMENT_START[reduce] if initial is None else initial)
    segment = _over_rest(segment, data, axis)
    out = start.scatter_reduce(axis, segment, data, _SEGMENT_MODES[reduce]).narrow(axis, 0, count)
    if reduce != "mean":
        return out
    lengths = _over_rest(lengths, data, axis)
    empty = out.new_full((), math.nan if initial is None else initial)
    return torch.where(lengths == 0, empty, out / lengths)


def _segment_reduce_backward(grad, output, data, reduce, lengths=None, offsets=None, axis=0, initial=None):
    lengths, segment = _segments(data, lengths, offsets, axis)
    count = lengths.shape[-1]
    inside = _over_rest(segment, data, axis) < count
    segment = _over_rest(segment.clamp(max=max(count - 1, 0)), data, axis)
    if count == 0:
        return torch.zeros_like(data)
    mine = grad.gather(axis, segment)
    if reduce == "mean":
        mine = mine / _over_rest(lengths, data, axis).gather(axis, segment)
    elif reduce in ("max", "min"):
        result = output.gather(axis, segment)
        hit = ((data == result) | data.isnan()) & inside
        hits = torch.zeros_like(output).scatter_add(axis, segment, hit.to(data.dtype))
        mine = torch.where(hit, mine / hits.gather(axis, segment), 0.0)
    elif reduce == "prod":
        mine = mine * _product_of_others(data, output, segment, axis, initial)
    return torch.where(inside, mine, 0.0)


def _product_of_others(data, output, segment, axis, initial):
    """For each element the product of its segment without it: a quotient, unless the element is 0 or NaN."""
    zero, nan = data == 0, data.isnan()
    start = output.new_full(output.shape, 1.0 if initial is None else initial)
    special = zero | nan
    product = start.scatter_reduce(axis, segment, torch.where(special, 1.0, data), "prod").gather(axis, segment)
    zeros = torch.zeros_like(output).scatter_add(axis, segment, zero.to(data.dtype)).gather(axis, segment) - zero.to(data.dtype)
    nans = torch.zeros_like(output).scatter_add(axis, segment, nan.to(data.dtype)).gather(axis, segment) - nan.to(data.dtype)
    others = torch.where(nans > 0, math.nan, torch.where(zeros > 0, 0.0, product))
    return torch.where(special, others, output.gather(axis, segment) / data)


# ---- jagged tensors, index lists


def _jagged_to_padded(values, offsets, max_lengths, padding_value=0.0):
    if len(offsets) != 1 or len(max_lengths) != 1:
        raise NotImplementedError("jagged tensors with more than one ragged dim are not implemented on tpu")
    starts, ends, longest = offsets[0][:-1], offsets[0][1:], max_lengths[0]
    at = starts.unsqueeze(1) + torch.arange(longest, device=values.device)
    inside = at < ends.unsqueeze(1)
    if values.shape[0] == 0:
        return values.new_full((starts.shape[0], longest, *values.shape[1:]), padding_value)
    rows = values[at.clamp(0, values.shape[0] - 1)]
    return torch.where(inside.reshape(*inside.shape, *([1] * (values.dim() - 1))), rows, padding_value).to(values.dtype)


def _padded_to_jagged(dense, offsets, total=None):
    if len(offsets) != 1:
        raise NotImplementedError("jagged tensors with more than one ragged dim are not implemented on tpu")
    total = int(offsets[0][-1].item()) if total is None else total
    at = torch.arange(total, device=dense.device)
    row = torch.searchsorted(offsets[0], at.to(offsets[0].dtype), right=True) - 1
    row = row.clamp(0, max(dense.shape[0] - 1, 0))
    place = at - offsets[0][row]
    inside = (place < dense.shape[1]) & (place >= 0)
    rows = dense[row, place.clamp(0, max(dense.shape[1] - 1, 0))]
    return torch.where(inside.reshape(-1, *([1] * (dense.dim() - 2))), rows, 0).to(dense.dtype)


def _coo_to_csr(rows, size, out_int32=False):
    edges = torch.arange(size + 1, dtype=rows.dtype, device=rows.device)
    return torch.searchsorted(rows.contiguous(), edges, out_int32=out_int32)


def _csr_to_coo(crow, col, out_int32=False, transpose=False):
    dtype = torch.int32 if out_int32 else torch.int64
    lead, count = col.shape[:-1], col.shape[-1]
    crow, flat = crow.reshape(math.prod(lead), -1), col.reshape(math.prod(lead), count)
    places = torch.arange(count, dtype=crow.dtype, device=col.device).expand(flat.shape[0], -1)
    row = torch.searchsorted(crow[:, 1:].contiguous(), places.contiguous(), right=True).reshape(-1).to(dtype)
    both = [row, flat.reshape(-1).to(dtype)]
    if transpose:
        both.reverse()
    batches = math.prod(lead)
    shape = [torch.arange(n, device=col.device) for n in lead]
    if shape:
        grid = torch.stack(torch.meshgrid(*shape, indexing="ij")).reshape(len(lead), batches)
        both = [*grid.repeat_interleave(count, 1).to(dtype).unbind(0), *both]
    return torch.stack(both)


# ---- scaled and packed products


def _scaled_mm(a, b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    def scaled(x, scale):
        return x.to(torch.float32) * scale

    out = scaled(a, scale_a) @ scaled(b, scale_b)
    if bias is not None:
        out = out + bias
    dtype = a.dtype if out_dtype is None else out_dtype
    if scale_result is not None and dtype.itemsize == 1:
        out = out * scale_result
    return out.to(dtype)


def _weight_int8pack_mm(x, weight, scales):
    return (x @ weight.to(x.dtype).t()) * scales


# ---- the rest


def _batch_norm_update_stats(x, running_mean, running_var, momentum):
    dims = [0, *range(2, x.dim())]
    var, mean = torch.var_mean(x, dims, correction=0)
    count = x.numel() // x.shape[1]
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(mean * momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(var * (momentum * count / max(count - 1, 1)))
    return mean, var


def _glu_jvp(glu, x, dx, dim):
    b, da, db = x.chunk(2, dim)[1], *dx.chunk(2, dim)
    gate = b.sigmoid()
    return da * gate + db * (glu - gate * glu)


def _glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim):
    (a, b), (da, db) = x.chunk(2, dim), dx.chunk(2, dim)
    gate = b.sigmoid()
    dgate = db * gate * (1 - gate)
    slope, dslope = gate * (1 - gate), dgate * (1 - 2 * gate)
    da_grad = dgrad_glu * gate + grad_glu * dgate
    db_grad = dgrad_glu * a * slope + grad_glu * (da * slope + a * dslope)
    return torch.cat([da_grad, db_grad], dim)


OPS = {
    "aten::histogram.bin_ct": _histogram_bin_ct,
    "aten::histogram.bins_tensor": _histogram_bins,
    "aten::_histogramdd_bin_edges": _histogramdd_bin_edges,
    "aten::_histogramdd_from_bin_cts": _histogramdd_from_bin_cts,
    "aten::_histogramdd_from_bin_tensors": _histogramdd_from_bin_tensors,
    "aten::segment_reduce": _segment_reduce,
    "aten::_segment_reduce_backward": _segment_reduce_backward,
    "aten::_jagged_to_padded_dense_forward": _jagged_to_padded,
    "aten::_padded_dense_to_jagged_forward": _padded_to_jagged,
    "aten::_convert_indices_from_coo_to_csr": _coo_to_csr,
    "aten::_convert_indices_from_csr_to_coo": _csr_to_coo,
    "aten::_scaled_mm": _scaled_mm,
    "aten::_weight_int8pack_mm": _weight_int8pack_mm,
    "aten::batch_norm_update_stats": _batch_norm_update_stats,
    "aten::glu_jvp": _glu_jvp,
    "aten::glu_backward_jvp": _glu_backward_jvp,
    "aten::_add_relu.Scalar": lambda x, other, alpha=1: torch.add(x, other, alpha=alpha).relu(),
    "aten::_stack": lambda tensors, dim=0: torch.stack(tensors, dim),
}
