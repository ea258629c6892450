"""Strided nested tensors on the device: PyTorch's kernels for cpu where they work on the buffer as a dense tensor and keep the
sizes on the host (_NEUTRAL). Jagged ones are PyTorch's own Python class over dense tensors; they need these for attention only.
"""

import torch

from . import _composed, _composed_nn

_aten = torch.ops.aten
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_NESTED_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)
_KEY = "NestedTensorPrivateUse1"
# Those that have a kernel for every device, which would win over the fallback, and the rest.
_EVERYWHERE = (
    "_safe_softmax _softmax _to_copy abs abs_ add.Tensor add_.Tensor alias bmm chunk clone copy_ cos detach div.Scalar "
    "div.Tensor empty_like eq.Scalar eq.Tensor ge.Scalar gelu gelu_ gt.Scalar is_same_size isinf isneginf isposinf linear "
    "logical_not logical_not_ masked_fill.Scalar matmul mul.Scalar mul.Tensor mul_.Scalar mul_.Tensor narrow native_layer_norm "
    "neg neg_ ones_like select.int sgn sgn_ silu silu_ sin split_with_sizes sqrt squeeze squeeze.dim squeeze.dims sub.Tensor "
    "sum.dim_IntList tanh tanh_ transpose.int unbind.int unsqueeze values"
)
_NEUTRAL = frozenset(
    (
        _EVERYWHERE.replace(".", " ") + " _nested_tensor_size _nested_tensor_storage_offsets _nested_tensor_strides "
        "_nested_tensor_softmax_with_shape fill_ isnan relu relu_ to_padded_tensor view where zero_"
    ).split()
)


def _again(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.strided)


def _matmul(a, b):
    """Row by row. A dense operand of rank 2 or less serves all rows."""
    rows = next(x for x in (a, b) if x.is_nested).size(0)
    lists = [x.unbind() if x.is_nested or x.dim() > 2 else [x] * rows for x in (a, b)]
    return _again([x @ y for x, y in zip(*lists, strict=True)])


def _sum(x, dims, keepdim=False, dtype=None):
    dims = [d % x.dim() for d in (dims or ())]
    if not dims or 0 in dims or not keepdim:
        raise RuntimeError("a strided nested tensor is summed over dims within its rows, with keepdim=True")
    return _again([row.sum([d - 1 for d in dims], keepdim=True, dtype=dtype) for row in x.unbind()])


def _safe_softmax(x, dim, dtype=None):
    return _again([_aten._safe_softmax(row, dim if dim < 0 else dim - 1, dtype) for row in x.unbind()])


def _transformer_encoder_layer_fwd(src, embed_dim, heads, *rest):
    """As a padded batch and back: what is padded is not seen."""
    sizes = src._nested_tensor_size()
    padded = torch.nested.to_padded_tensor(src, 0.0)
    mask = (torch.arange(padded.shape[1]) >= sizes[:, :1]).to(padded.device)
    out = _composed_nn.transformer_encoder_layer(padded, embed_dim, heads, *rest[:15], mask, 1)
    return _again([out[i, : size[0]] for i, size in enumerate(sizes.tolist())])


_OWN = {
    "_safe_softmax": _safe_softmax,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer_fwd,
    "matmul": _matmul,
    "sum": _sum,
}


def _call(op, *args, **kwargs):
    base = op._schema.name.partition("::")[2]
    if base in _OWN:
        return _OWN[base](*args, **kwargs)
    if base not in _NEUTRAL:
        raise NotImplementedError(f"{op} is not implemented for strided nested tensors on the tpu device")
    return op.redispatch(_NESTED_CPU, *_composed.as_tensors(op, args), **kwargs)


def _one(op):
    def run(*args, **kwargs):
        return _call(op, *args, **kwargs)

    return run


def _from_mask_left_aligned(x, mask):
    return bool((mask == (torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True))).all().item())


def _from_mask(x, mask, mask_check=True):
    if mask_check and not _from_mask_left_aligned(x, mask):
        raise RuntimeError("Expected mask to be left-aligned without gaps")
    return _again([x[i, :n] for i, n in enumerate(mask.sum(1).tolist())])


# Written anew: a nested tensor takes its whole storage for the buffer, and what PyTorch's kernels select is padded here.
OPS = {
    "aten::_nested_tensor_from_mask": _from_mask,
    "aten::_nested_tensor_from_mask_left_aligned": _from_mask_left_aligned,
    "aten::_nested_view_from_buffer": lambda *args: _aten._nested_view_from_buffer.default.redispatch(_CPU, *args),
}

_libraries = []


def register():
    """PyTorch's composite ops would come before the layout's fallback. Once a process, at the first such tensor."""
    if _libraries:
        return
    one_by_one = torch.library.Library("aten", "IMPL")
    _libraries.append(one_by_one)
    for name in _EVERYWHERE.split():
        base, _, overload = name.partition(".")
        one_by_one.impl(name, _one(getattr(getattr(_aten, base), overload or "default")), _KEY)


def call(key, op, *args, **kwargs):
    """The fallback of the layout's dispatch key."""
    register()
    return _call(op, *args, **kwargs)
