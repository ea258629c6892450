"""Sparse COO and compressed tensors on the device.

A sparse tensor is a few dense ones. PyTorch's own kernels for sparse cpu tensors are for the most part written in terms of
those and run here as they are (_NEUTRAL); those that read memory have a form of their own below. Nothing is patched: two
fallbacks of the dispatcher, and kernels for the few ops that have one for every device.
"""

import math

import torch

from . import _composed, _layouts

_aten = torch.ops.aten
_KEYS = {
    "SparsePrivateUse1": torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU),
    "SparseCsrPrivateUse1": torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCsrCPU),
}
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _words(text):
    return text.split()


_UNARY = _words(
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p nan_to_num neg "
    "rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc"
)
_BOTH = _words(
    "_nnz _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr clone conj_physical copy_ dense_dim empty "
    "empty_like resize_as_sparse_ sparse_dim sum threshold_backward values zero_"
)
_NEUTRAL = {
    "SparsePrivateUse1": {
        *_UNARY,
        *(name + "_" for name in _UNARY),
        *_BOTH,
        *_words(
            "_coalesced_ _dimI _dimV _indices _sparse_broadcast_to _sparse_coo_tensor_with_dims "
            "_sparse_coo_tensor_with_dims_and_tensors _values any cat copy_sparse_to_sparse_ div div_ floor_divide "
            "floor_divide_ indices is_coalesced mm mv narrow_copy native_norm norm permute pow sparse_resize_ "
            "sparse_resize_and_clear_ unsqueeze view_as_complex view_as_real zeros"
        ),
    },
    "SparseCsrPrivateUse1": {
        *_UNARY,
        *(name + "_" for name in _UNARY),
        *_BOTH,
        *_words(
            "_conj_physical angle ccol_indices col_indices conj_physical_ crow_indices fill_ resize_ row_indices select "
            "select_copy"
        ),
    },
}
# Ops with a kernel for every device, which would win over the fallback: registered one by one.
_EVERYWHERE = {
    "SparsePrivateUse1": _words(
        "nan_to_num permute is_coalesced zeros.out deg2rad sum mv isinf sparse_dim unsqueeze deg2rad.out rad2deg deg2rad_ "
        "indices copy_ nan_to_num_ dense_dim empty_like values clone abs rad2deg.out abs_ rad2deg_"
    ),
    "SparseCsrPrivateUse1": _layouts.CSR_COMPOSITES,
}


# ---- places


def _flat(indices, sizes):
    """Places of the columns of `indices` in row-major order over `sizes`."""
    place = torch.zeros(indices.shape[1], dtype=torch.int64, device=indices.device)
    for d, size in enumerate(sizes):
        place = place * size + indices[d]
    return place


def _unflat(place, sizes):
    rows = []
    for size in reversed(sizes):
        rows.append(place % size)
        place = torch.div(place, size, rounding_mode="floor")
    return torch.stack(rows[::-1]) if rows else place.new_empty((0, place.shape[0]))


def _like(sparse, indices, values, coalesced=False):
    return _aten._sparse_coo_tensor_unsafe(indices, values, sparse.shape, is_coalesced=coalesced)


def _with_values(sparse, values):
    return _like(sparse, sparse._indices(), values, sparse.is_coalesced())


def _add_rows(into, index, rows):
    """index_add, for truth values too: there a sum is an or."""
    if into.dtype == torch.bool:
        return into.to(torch.int32).index_add(0, index, rows.to(torch.int32)) > 0
    return into.index_add(0, index, rows)


def _coalesce(x):
    if x.is_coalesced():
        return x
    if x._nnz() < 2:
        y = x.clone()
        y._coalesced_(True)
        return y
    sizes = x.shape[: x.sparse_dim()]
    place, group = torch.unique(_flat(x._indices(), sizes), return_inverse=True)
    values = x._values()
    sums = _add_rows(values.new_zeros((place.shape[0], *values.shape[1:])), group, values)
    return _like(x, _unflat(place, sizes), sums, True)


def _to_dense(x, dtype=None, masked_grad=None):
    sizes = x.shape[: x.sparse_dim()]
    values = x._values()
    flat = values.new_zeros((math.prod(sizes), *values.shape[1:]))
    out = _add_rows(flat, _flat(x._indices(), sizes), values) if values.numel() > 0 else flat
    return out.reshape(x.shape).to(values.dtype if dtype is None else dtype)


# ---- arithmetic


def _taken(dense, sparse):
    """The elements of a dense tensor at the places of a sparse one."""
    dense = dense.expand(sparse.shape)
    sizes = sparse.shape[: sparse.sparse_dim()]
    return dense.reshape(math.prod(sizes), *sparse.shape[sparse.sparse_dim() :])[_flat(sparse._indices(), sizes)]


def _add(a, b, alpha=1):
    if not a.is_sparse:
        dtype = torch.result_type(a, b)
        out = a.to(dtype).expand(torch.broadcast_shapes(a.shape, b.shape))
        sizes = out.shape[: b.sparse_dim()]
        flat = out.reshape(math.prod(sizes), *out.shape[b.sparse_dim() :])
        if out.shape != b.shape:
            return out + alpha * _to_dense(b).to(dtype)
        return _add_rows(flat, _flat(b._indices(), sizes), b._values().to(dtype) * alpha).reshape(out.shape)
    if not b.is_sparse:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if a.shape != b.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")
    dtype, together = torch.result_type(a, b), a.is_coalesced() and b.is_coalesced()
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError("add: expected 'self' and 'other' to have same number of sparse dimensions")
    values = torch.cat([a._values().to(dtype), b._values().to(dtype) * alpha])
    out = _like(a, torch.cat([a._indices(), b._indices()], 1), values)
    return _coalesce(out) if together else out


def _sub(a, b, alpha=1):
    return _add(a, b, -alpha)


def _mul(a, b):
    if not isinstance(b, torch.Tensor) or (not b.is_sparse and b.dim() == 0):
        return _with_values(a, a._values() * b)
    if not a.is_sparse:
        return _mul(b, a)
    if not b.is_sparse:
        out = a if torch.broadcast_shapes(a.shape, b.shape) == a.shape else None
        if out is None:
            raise NotImplementedError("a sparse tensor times a larger dense one is not implemented on tpu")
        return _with_values(a, a._values() * _taken(b, a))
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(f"mul operands have incompatible sizes {list(a.shape)} and {list(b.shape)}")
    a, b = _coalesce(a), _coalesce(b)
    sizes = a.shape[: a.sparse_dim()]
    mine, theirs = _flat(a._indices(), sizes), _flat(b._indices(), sizes)
    if mine.numel() == 0 or theirs.numel() == 0:
        return _like(a, a._indices()[:, :0], a._values()[:0] * b._values()[:0], True)
    at = torch.searchsorted(theirs, mine).clamp(max=theirs.shape[0] - 1)
    both = (theirs[at] == mine).nonzero().squeeze(1)
    return _like(a, a._indices()[:, both], a._values()[both] * b._values()[at[both]])


def _addmm(x, sparse, dense, beta=1, alpha=1):
    if dense.is_sparse or sparse.sparse_dim() != 2 or sparse.dense_dim() != 0:
        raise NotImplementedError("addmm of these sparse operands is not implemented on tpu")
    if dense.dim() != 2 or sparse.shape[1] != dense.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {sparse.shape[1]}, got {dense.shape[0] if dense.dim() else 0}"
        )
    row, col = sparse._indices()
    return _mix(x, _row_sums(row, col, sparse._values(), dense, sparse.shape[0]), beta, alpha)


def _row_sums(row, col, values, dense, rows):
    return dense.new_zeros((rows, dense.shape[1])).index_add(0, row, values.unsqueeze(1) * dense[col])


def _mix(x, product, beta, alpha):
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (x if beta == 1 else x * beta)


def _bmm(sparse, dense):
    if dense.is_sparse or sparse.dim() != 3 or sparse.sparse_dim() != 3:
        raise NotImplementedError("bmm of these sparse operands is not implemented on tpu")
    batch, row, col = sparse._indices()
    rows, columns = sparse.shape[1], sparse.shape[2]
    flat = dense.reshape(-1, dense.shape[2])
    out = _row_sums(batch * rows + row, batch * columns + col, sparse._values(), flat, sparse.shape[0] * rows)
    return out.reshape(sparse.shape[0], rows, dense.shape[2])


def _sparse_sparse_matmul(a, b):
    """The places come from a product of patterns, for a sum that happens to be 0 is stored all the same."""
    ones = [_to_dense(_with_values(x, torch.ones_like(x._values(), dtype=torch.float32))) for x in (a, b)]
    place = (ones[0] @ ones[1]).nonzero().t()
    values = (_to_dense(a) @ _to_dense(b))[place[0], place[1]]
    size = (a.shape[0], b.shape[1])
    return _aten._sparse_coo_tensor_unsafe(place, values, size, is_coalesced=True)


def _sparse_mask(x, mask):
    if x.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(x.shape)} but mask has size {list(mask.shape)}"
        )
    if x.layout == torch.sparse_coo:
        x = _to_dense(x)
    return _with_values(mask, _taken(x, mask))


def _sum_backward(grad, x, dims):
    x = _coalesce(x)
    dims = sorted(d % x.dim() for d in dims)
    if grad.layout == torch.sparse_coo:
        grad = _to_dense(grad)
    for d in dims:
        grad = grad.unsqueeze(d)
    return _with_values(x, _taken(grad, x))


def _index_select(x, dim, index):
    dim %= x.dim()
    if dim >= x.sparse_dim():
        return _aten._sparse_coo_tensor_unsafe(
            x._indices(),
            x._values().index_select(dim - x.sparse_dim() + 1, index),
            (*x.shape[:dim], index.numel(), *x.shape[dim + 1 :]),
            is_coalesced=x.is_coalesced(),
        )
    there, which = (x._indices()[dim].unsqueeze(0) == (index % x.shape[dim]).unsqueeze(1)).nonzero().t()
    indices = x._indices()[:, which]
    indices = torch.cat([indices[:dim], there.unsqueeze(0), indices[dim + 1 :]])
    size = (*x.shape[:dim], index.numel(), *x.shape[dim + 1 :])
    out = _aten._sparse_coo_tensor_unsafe(indices, x._values()[which], size)
    return _coalesce(out) if x.is_coalesced() else out


def _softmax(log):
    def softmax(x, dim, half_to_float=False):
        x = _coalesce(x)
        sizes = x.shape[: x.sparse_dim()]
        values = x._values()
        flat = values.new_full((math.prod(sizes), *values.shape[1:]), -math.inf)
        dense = flat.index_copy(0, _flat(x._indices(), sizes), values).reshape(x.shape)
        return _with_values(x, _taken(dense.log_softmax(dim) if log else dense.softmax(dim), x))

    return softmax


def _softmax_backward(log):
    def backward(grad, output, dim, x):
        dense, given = _to_dense(output), _to_dense(grad)
        if not log:
            back = dense * (given - (dense * given).sum(dim, keepdim=True))
        else:
            ones = _to_dense(_with_values(output, torch.ones_like(output._values())))
            back = given - ones * dense.exp() * given.sum(dim, keepdim=True)
        return _with_values(output, _taken(back, output))

    return backward


# ---- compressed rows and columns


def _rows_and_columns(x):
    if x.layout == torch.sparse_csr:
        return _aten._convert_indices_from_csr_to_coo(x.crow_indices(), x.col_indices())
    if x.layout == torch.sparse_csc:
        return _aten._convert_indices_from_csr_to_coo(x.ccol_indices(), x.row_indices(), transpose=True)
    raise NotImplementedError(f"this op of layout {x.layout} is not implemented on tpu")


def _again(x, values):
    compressed, plain = (
        (x.crow_indices(), x.col_indices()) if x.layout == torch.sparse_csr else (x.ccol_indices(), x.row_indices())
    )
    options = {"dtype": values.dtype, "layout": x.layout, "device": values.device}
    return _aten._sparse_compressed_tensor_unsafe(compressed, plain, values, x.shape, **options)


def _csr_to_dense(x, dtype=None, masked_grad=None):
    if x.layout not in (torch.sparse_csr, torch.sparse_csc) or x.dim() != 2:
        return x.to_sparse_coo().to_dense() if dtype is None else x.to_sparse_coo().to_dense().to(dtype)
    row, col = _rows_and_columns(x)
    values = x.values()
    flat = values.new_zeros((x.shape[0] * x.shape[1], *values.shape[1:]))
    out = _add_rows(flat, row.to(torch.int64) * x.shape[1] + col, values).reshape(*x.shape[:2], *values.shape[1:])
    return out if dtype is None else out.to(dtype)


_COMPRESSED = (torch.sparse_csr, torch.sparse_csc)


def _csr_addmm(x, a, b, beta=1, alpha=1):
    if a.layout in _COMPRESSED and b.layout == torch.strided:
        row, col = _rows_and_columns(a)
        product = _row_sums(row, col, a.values(), b, a.shape[0])
    elif a.layout == torch.strided and b.layout in _COMPRESSED:
        row, col = _rows_and_columns(b)
        product = _row_sums(col, row, b.values(), a.t(), b.shape[1]).t()
    elif a.layout in _COMPRESSED and b.layout in _COMPRESSED:
        product = _sparse_sparse_matmul(a.to_sparse_coo(), b.to_sparse_coo())
        return product.to_sparse_csr() if x.layout != torch.strided else _mix(x, product.to_dense(), beta, alpha)
    else:
        raise NotImplementedError("addmm of these sparse operands is not implemented on tpu")
    if x.layout != torch.strided:
        x = x.to_dense()
    return _mix(x, product, beta, alpha)


def _csr_mm(a, b):
    if a.layout in _COMPRESSED and b.layout in _COMPRESSED:
        return _sparse_sparse_matmul(a.to_sparse_coo(), b.to_sparse_coo()).to_sparse_csr()
    return _csr_addmm(a, a, b, 0, 1)


def _sampled_addmm(x, a, b, beta=1, alpha=1):
    row, col = _rows_and_columns(x)
    if x.dim() != 2 or a.shape[-1] != b.shape[-2]:
        raise NotImplementedError("sampled_addmm of these operands is not implemented on tpu")
    product = (a[row] * b.t()[col]).sum(1) * alpha
    return _again(x, product if beta == 0 else product + beta * x.values())


def _csr_add(a, b, alpha=1):
    if a.layout == torch.strided:
        return a + alpha * b.to_dense()
    if b.layout == torch.strided:
        return a.to_dense() + alpha * b
    return _add(a.to_sparse_coo(), b.to_sparse_coo(), alpha).coalesce().to_sparse_csr()


def _csr_mul(a, b):
    if not isinstance(b, torch.Tensor) or b.dim() == 0:
        return _again(a, a.values() * b)
    if a.layout == torch.strided:
        return _csr_mul(b, a)
    if b.layout == torch.strided:
        row, col = _rows_and_columns(a)
        return _again(a, a.values() * b.expand(a.shape)[row, col])
    return _mul(a.to_sparse_coo(), b.to_sparse_coo()).to_sparse_csr()


def _csr_sparse_mask(x, mask):
    row, col = _rows_and_columns(mask)
    return _again(mask, (x if x.layout == torch.strided else x.to_dense())[row, col])


def _csr_sum(x, dims, keepdim=False, dtype=None):
    out = x.to_dense().sum([d % x.dim() for d in dims], keepdim=keepdim, dtype=dtype)
    return out.to_sparse_csr()


_REDUCES = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin"}


def _mm_reduce(sparse, dense, reduce):
    """Rows of products reduced; where several are the largest the first counts (what the gradient flows to)."""
    row, col = _rows_and_columns(sparse)
    terms = sparse.values().unsqueeze(1) * dense[col]
    index = row.to(torch.int64).unsqueeze(1).expand_as(terms)
    out = dense.new_zeros((sparse.shape[0], dense.shape[1]))
    out = out.scatter_reduce(0, index, terms, _REDUCES[reduce], include_self=False)
    where = torch.empty(0, dtype=torch.int64, device=dense.device)
    if reduce in ("amax", "amin"):
        hit = terms == out.gather(0, index)
        place = torch.where(hit, torch.arange(terms.shape[0], device=dense.device).unsqueeze(1), terms.shape[0])
        where = torch.full_like(out, terms.shape[0], dtype=torch.int64).scatter_reduce(0, index, place, "amin")
    return out, where


def _mm_reduce_backward(sparse, grad, weight, reduce, where, output_mask):
    row, col = _rows_and_columns(sparse)
    mine = grad[row]
    if reduce == "mean":
        count = sparse.crow_indices().diff()[row].to(grad.dtype)
        mine = mine / count.unsqueeze(1)
    elif reduce in ("amax", "amin"):
        place = torch.arange(row.shape[0], device=grad.device).unsqueeze(1)
        mine = torch.where(where[row] == place, mine, 0)
    grad_sparse = _again(sparse, (mine * weight[col]).sum(1)) if output_mask[0] else None
    if not output_mask[1]:
        return grad_sparse, None
    return grad_sparse, torch.zeros_like(weight).index_add(0, col, mine * sparse.values().unsqueeze(1))


_OWN = {
    "SparsePrivateUse1": {
        "_coalesce": _coalesce,
        "_to_dense": _to_dense,
        "add": _add,
        "sub": _sub,
        "mul": _mul,
        "addmm": _addmm,
        "bmm": _bmm,
        "_sparse_sparse_matmul": _sparse_sparse_matmul,
        "sparse_mask": _sparse_mask,
        "_sparse_sum_backward": _sum_backward,
        "index_select": _index_select,
        "_sparse_softmax": _softmax(False),
        "_sparse_log_softmax": _softmax(True),
        "_sparse_softmax_backward_data": _softmax_backward(False),
        "_sparse_log_softmax_backward_data": _softmax_backward(True),
        "is_pinned": lambda x, device=None: False,
    },
    "SparseCsrPrivateUse1": {
        "_to_dense": _csr_to_dense,
        "add": _csr_add,
        "mul": _csr_mul,
        "mm": _csr_mm,
        "addmm": _csr_addmm,
        "addmv": lambda x, a, v, beta=1, alpha=1: _csr_addmm(x.unsqueeze(1), a, v.unsqueeze(1), beta, alpha).squeeze(1),
        "sparse_sampled_addmm": _sampled_addmm,
        "sparse_mask": _csr_sparse_mask,
        "_sparse_csr_sum": _csr_sum,
        "_sparse_mm_reduce_impl": _mm_reduce,
        "_sparse_mm_reduce_impl_backward": _mm_reduce_backward,
        "is_pinned": lambda x, device=None: False,
    },
}


def _written(op):
    """The out= argument's name, or "" for an op in place, or None."""
    for arg in op._schema.arguments:
        if arg.is_out:
            return arg.name
        if arg.alias_info is not None and arg.alias_info.is_write:
            return ""
    return None


def call(key, op, *args, **kwargs):
    """The fallback of dispatch key `key`."""
    base = op._schema.name.partition("::")[2]
    if base in _NEUTRAL[key]:
        return op.redispatch(_KEYS[key], *_composed.as_tensors(op, args), **kwargs)
    written = _written(op)
    own = _OWN[key].get(base.rstrip("_") if written == "" and base not in _OWN[key] else base)
    if own is None:
        raise NotImplementedError(
            f"{op} is not implemented for sparse tensors on the tpu device; x.to_dense() or x.cpu() may serve"
        )
    if written is None:
        return own(*args, **kwargs)
    target = kwargs.pop(written) if written else args[0]
    result = own(*args, **kwargs)
    if written and target.layout == torch.strided and target.shape != result.shape:
        target.resize_(result.shape)
    return target.copy_(result)


def _one(key, op):
    def run(*args, **kwargs):
        return call(key, op, *args, **kwargs)

    return run


def _spdiags(diagonals, offsets, shape, layout=None):
    if diagonals.dim() == 1:
        diagonals = diagonals.unsqueeze(0)
    offsets = offsets.reshape(-1)
    if diagonals.shape[0] != offsets.shape[0] or len(shape) != 2 or diagonals.dim() != 2:
        zeros = (torch.zeros(t.shape, dtype=t.dtype) for t in (diagonals, offsets))
        _aten._spdiags(*zeros, shape, layout)
    col = torch.arange(diagonals.shape[1], device=diagonals.device)
    row = col - offsets.to(diagonals.device).unsqueeze(1)
    inside = (row >= 0) & (row < shape[0]) & (col < shape[1])
    which, col = inside.nonzero().t()
    indices = torch.stack([row[which, col], col])
    out = torch.sparse_coo_tensor(indices, diagonals[which, col], shape)
    return out if layout is None else out.to_sparse(layout=layout)


def _from_dense(op):
    def run(*args, **kwargs):
        _layouts.open_sparse()
        return op.redispatch(_CPU, *args, **kwargs)

    return run


# Ops of dense tensors that give sparse ones: PyTorch's cpu kernels, which look for what is not zero.
OPS = {
    "aten::_to_sparse": _from_dense(_aten._to_sparse.default),
    "aten::_to_sparse.sparse_dim": _from_dense(_aten._to_sparse.sparse_dim),
    "aten::_to_sparse_csr": _from_dense(_aten._to_sparse_csr.default),
    "aten::_to_sparse_csc": _from_dense(_aten._to_sparse_csc.default),
    "aten::_to_sparse_bsr": _from_dense(_aten._to_sparse_bsr.default),
    "aten::_to_sparse_bsc": _from_dense(_aten._to_sparse_bsc.default),
    "aten::_spdiags": _spdiags,
}

_libraries = []


def register():
    """PyTorch's composite ops would come before the layouts' fallback. Once a process, at the first such tensor."""
    one_by_one = torch.library.Library("aten", "IMPL")
    _libraries.append(one_by_one)
    for key, names in _EVERYWHERE.items():
        for name in names:
            base, _, overload = name.partition(".")
            one_by_one.impl(name, _one(key, getattr(getattr(_aten, base), overload or "default")), key)
