"""Decompositions for ops that the device has no row for. Asked by the glue once an op (glue/fallback.cpp)."""

import functools
import inspect

import torch

from . import _composed, _composed_nn, _nested, _sparse

# Ops that PyTorch "decomposes" into themselves, into views of another device, or into host work: never taken.
_REFUSED = frozenset(
    {
        "aten::copy_",
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_local_scalar_dense",
        "aten::empty.memory_format",
        "aten::empty_strided",
        "aten::set_.source_Tensor",
        "aten::set_.source_Storage",
        "aten::set_.source_Storage_storage_offset",
        "aten::resize_",
        "aten::record_stream",
        "aten::item",
    }
)


def _overload(name, overload):
    """The torch.ops object of an op, or None."""
    space, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, space), base, None)
    return None if packet is None else getattr(packet, overload or "default", None)


@functools.cache
def _table():
    import torch._refs  # noqa: F401  (adds its own entries)
    from torch._decomp import decomposition_table

    return decomposition_table


def _written(schema):
    """Names of the arguments that the schema mutates."""
    return [arg.name for arg in schema.arguments if arg.alias_info is not None and arg.alias_info.is_write]


def _key(schema, skip):
    return [(arg.name, str(arg.type)) for arg in schema.arguments if arg.name not in skip]


def _functional(op):
    """The functional overload of an in-place or out= op, found by signature, or None."""
    schema = op._schema
    space, _, base = schema.name.partition("::")
    outs = [arg.name for arg in schema.arguments if arg.is_out]
    if not outs:
        if base.startswith("__i"):
            base = "__" + base[3:]
        elif base.endswith("_"):
            base = base[:-1]
        else:
            return None
    packet = getattr(getattr(torch.ops, space), base, None)
    if packet is None:
        return None
    for overload in packet.overloads():
        other = getattr(packet, overload)
        if not _written(other._schema) and _key(other._schema, ()) == _key(schema, outs):
            return other
    return None


def _accepts(fn, names):
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return False
    return all(name in parameters for name in names)


def _store(target, value):
    if isinstance(target, (list, tuple)):
        for one, other in zip(target, value, strict=True):
            _store(one, other)
        return
    if target.device != value.device:
        places = f"{value.device} and {target.device}"
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {places}!")
    if not torch.can_cast(value.dtype, target.dtype):
        raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {target.dtype}")
    torch._resize_output_(target, value.shape, target.device)  # with the warning that is due
    target.copy_(value)


def _through_functional(op, functional):
    """An in-place or out= op as its functional form and a copy."""
    schema = op._schema
    outs = [arg.name for arg in schema.arguments if arg.is_out]

    def run(*args, **kwargs):
        if outs:
            targets = [kwargs.pop(name) for name in outs]
            result = functional(*args, **kwargs)
            results = result if isinstance(result, tuple) else (result,)
            _store(targets, results)
            return targets[0] if len(targets) == 1 else tuple(targets)
        _store(args[0], functional(*args, **kwargs))
        return args[0]

    return run


def _bincount(x, weights=None, minlength=0):
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if x.is_floating_point() or x.is_complex() or x.dtype is torch.bool:
        raise NotImplementedError(f"bincount is not implemented for {x.dtype}: it counts integers")
    if x.dim() == 1 and x.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64, device=x.device)
    bounds = x.aminmax() if x.dim() == 1 else None
    low, high = (0, -1) if bounds is None else torch.stack(bounds).tolist()
    if bounds is None or low < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        weights = torch.ones(x.shape, dtype=torch.int64, device=x.device)
    elif weights.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    elif weights.dtype != torch.float32:
        weights = weights.double()
    counts = torch.zeros(max(high + 1, minlength), dtype=weights.dtype, device=x.device)
    return counts.index_add_(0, x.to(torch.int64), weights)


def _addbmm_(x, a, b, *, beta=1, alpha=1):
    """Alone among in-place ops this one gives self the size of the result."""
    result = torch.addbmm(x, a, b, beta=beta, alpha=alpha)
    return x.resize_(result.shape).copy_(result)


def _assert_async(x, msg="Expected Tensor with single nonzero value, but got zero"):
    if x.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no values' if x.numel() == 0 else 'more than one value'} is ambiguous"
        )
    if not x.item():
        raise RuntimeError(msg)


def _functional_assert_async(x, assert_msg, dep_token):
    _assert_async(x, assert_msg)
    return dep_token.clone()


# Ops that PyTorch neither decomposes nor needs to: their size or verdict is read by the host.
_OWN = {
    **_composed.OPS,
    **_composed_nn.OPS,
    **_sparse.OPS,
    **_nested.OPS,
    "aten::addbmm_": _addbmm_,
    "aten::bincount": _bincount,
    "aten::_assert_async": _assert_async,
    "aten::_assert_async.msg": lambda x, assert_msg: _assert_async(x, assert_msg),
    "aten::_functional_assert_async.msg": _functional_assert_async,
}


# A functional form can be called when it has a kernel of ours or one that PyTorch composes of other ops.
_KERNELS = ("PrivateUse1", "CompositeImplicitAutograd", "CompositeExplicitAutograd")


def find(name, overload):
    """A callable that computes the op from others, or None. `name` is like "aten::addcmul"."""
    full = f"{name}.{overload}" if overload else name
    if full in _REFUSED:
        return None
    if full in _OWN:
        return _OWN[full]
    op = _overload(name, overload)
    if op is None:
        return None
    fn = _table().get(op)
    written = _written(op._schema)
    if not written:
        return fn
    outs = [arg.name for arg in op._schema.arguments if arg.is_out]
    if fn is not None and (not outs or _accepts(fn, outs)):
        return fn
    functional = _functional(op)
    if functional is None:
        return None
    own = _OWN.get(functional.name())
    if own is not None:
        return _through_functional(op, own)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if functional in _table() or any(has_kernel(functional.name(), key) for key in _KERNELS):
        return _through_functional(op, functional)
    return None
