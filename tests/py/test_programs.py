"""Random programs of views, in-place and functional ops give on device tpu what they give on cpu, strict and fused.

Values are small whole numbers, so that results are equal to the last bit and a difference is a fault. TPT_RANDOM_PROGRAMS sets
how many programs run (60), TPT_RANDOM_SEED where they start."""

import os
import random

import pytest
import torch

PROGRAMS = int(os.environ.get("TPT_RANDOM_PROGRAMS", "60"))
FIRST = int(os.environ.get("TPT_RANDOM_SEED", "0"))
STEPS = 12

VIEWS = {
    "t": lambda x, r: x.t() if x.dim() == 2 else x.unsqueeze(0),
    "slice": lambda x, r: x[1:] if x.dim() and x.shape[0] > 1 else x[...],
    "step": lambda x, r: x[..., ::2] if x.dim() else x[None],
    "tail": lambda x, r: x[..., 1:3] if x.dim() and x.shape[-1] > 2 else x[...],
    "select": lambda x, r: x.select(r.randrange(x.dim()), 0) if x.dim() else x.view(1),
    "last": lambda x, r: x.select(-1, x.shape[-1] - 1) if x.dim() and x.shape[-1] else x[...],
    "flat": lambda x, r: x.view(-1) if x.is_contiguous() else x.reshape(x.shape),
    "wide": lambda x, r: x.view(2, -1) if x.is_contiguous() and x.numel() % 2 == 0 and x.numel() else x[...],
    "unsqueeze": lambda x, r: x.unsqueeze(r.randrange(x.dim() + 1)) if x.dim() < 4 else x[0],
    "squeeze": lambda x, r: x.squeeze(),
    "diagonal": lambda x, r: x.diagonal() if x.dim() == 2 else x[...],
    "expand": lambda x, r: x.expand(2, *x.shape) if x.dim() < 3 else x[0],
    "movedim": lambda x, r: x.movedim(0, -1) if x.dim() else x[...],
    "strided": lambda x, r: (
        x.as_strided((2, 2), (3, 1)) if x.storage_offset() == 0 and x.untyped_storage().nbytes() > 20 else x[...]
    ),
    "unfold": lambda x, r: x.unfold(-1, 2, 2) if 0 < x.dim() < 4 and x.shape[-1] >= 2 else x[...],
    "detach": lambda x, r: x.detach(),
    "chunk": lambda x, r: x.chunk(2, -1)[1] if x.dim() and x.shape[-1] > 1 else x[...],
}


def small(x):
    return x.clamp(-8, 8)


FUNCTIONS = {
    "add": lambda x, y: small(x + y),
    "sub": lambda x, y: small(torch.sub(x, y, alpha=2)),
    "rsub": lambda x, y: small(3 - x),
    "mul": lambda x, y: small(x * y),
    "max": torch.maximum,
    "where": lambda x, y: torch.where(x > y, x, y + 1),
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: torch.relu(x),
    "sum": lambda x, y: small(x.sum(-1)) if x.dim() else x.sum(),
    "amax": lambda x, y: x.amax(0) if x.dim() and x.numel() else x.clone(),
    "cat": lambda x, y: torch.cat([x, x])[: max(x.shape[0], 1)] if x.dim() else torch.stack([x, x]),
    "clone": lambda x, y: x.clone(),
    "contiguous": lambda x, y: x.contiguous(),
    "flip": lambda x, y: x.flip(-1) if x.dim() else x.clone(),
    "roll": lambda x, y: x.roll(1, -1) if x.dim() and x.numel() else x.clone(),
    "mm": lambda x, y: small(x @ x.mT) if x.dim() == 2 else small(x * 2),
    "cumsum": lambda x, y: small(x.cumsum(-1)) if x.dim() else x.clone(),
    "half": lambda x, y: x.half().float(),
    "double": lambda x, y: x.double().add(1).float(),
    "index": lambda x, y: x[torch.zeros(2, dtype=torch.int64, device=x.device)] if x.dim() and x.shape[0] else x.clone(),
    "tril": lambda x, y: x.tril() if x.dim() >= 2 else x.clone(),
    "lerp": lambda x, y: small(torch.addcmul(x, y, y, value=2)),
}
WRITES = {
    "add_": lambda x, y: x.add_(y).clamp_(-8, 8),
    "add_number": lambda x, y: x.add_(1),
    "sub_": lambda x, y: x.sub_(y, alpha=2).clamp_(-8, 8),
    "mul_": lambda x, y: x.mul_(y).clamp_(-8, 8),
    "copy_": lambda x, y: x.copy_(y),
    "fill_": lambda x, y: x.fill_(3),
    "zero_": lambda x, y: x.zero_(),
    "neg_": lambda x, y: x.neg_(),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 2, -1),
    "put": lambda x, y: x.__setitem__(y > 4, 5) if y.shape == x.shape else x.fill_(1),
    "row": lambda x, y: x.__setitem__(0, 4) if x.dim() and x.shape[0] else x.add_(2),
    "rows": lambda x, y: x.__setitem__((..., slice(None, None, 2)), 2) if x.dim() else x.add_(2),
    "index": lambda x, y: (
        x.index_fill_(0, torch.zeros(1, dtype=torch.int64, device=x.device), 6) if x.dim() and x.shape[0] else x.add_(3)
    ),
    "scatter_": lambda x, y: (
        x.scatter_(-1, torch.zeros_like(x, dtype=torch.int64)[..., :1], 7) if x.dim() and x.shape[-1] else x.neg_()
    ),
    "foreach": lambda x, y: torch._foreach_add_([x], 1),
    "data": lambda x, y: x.data.add_(1),
    "resigned": lambda x, y: torch.neg(x, out=x),
}


def overlaps_itself(x):
    """Whether two places of x are the same element."""
    places = torch.arange(x.untyped_storage().nbytes() // 4).as_strided(x.shape, x.stride(), x.storage_offset())
    return places.unique().numel() != x.numel()


def shares(x, y):
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def write(name, x, y):
    """Where x and y partly share places, cpu's result hangs on its loop order: what is meant is what a copy of y gives."""
    try:
        WRITES[name](x, y)
    except RuntimeError as error:
        if "unsupported operation" not in str(error):
            raise
        WRITES[name](x, y.clone())


def fitting(r, tensors, x):
    """The place of a tensor that broadcasts to x's shape."""
    places = []
    for i, y in enumerate(tensors):
        sizes = zip(reversed(y.shape), reversed(x.shape), strict=False)
        if y.dim() <= x.dim() and all(a in (b, 1) for a, b in sizes):
            places.append(i)
    return r.choice(places)


def make_bases():
    count = torch.arange(24.0)
    return [(count.view(4, 6) % 7) - 3, (count.view(6, 4) % 5) - 2, (count[:6] % 4) - 1, torch.tensor(2.0)]


def step(r, cpu, tpu, trace):
    kind = r.choices(("view", "function", "write", "read"), (4, 3, 4, 1))[0]
    i = r.randrange(len(cpu))
    if kind == "view":
        name, salt = r.choice(sorted(VIEWS)), r.random()
        trace.append(f"{len(cpu)} = {name}({i}) of {tuple(cpu[i].shape)}")
        a, b = (VIEWS[name](t[i], random.Random(salt)) for t in (cpu, tpu))
        assert a.shape == b.shape and a.stride() == b.stride() and a.storage_offset() == b.storage_offset(), trace
        cpu.append(a)
        tpu.append(b)
    elif kind == "function":
        name, j = r.choice(sorted(FUNCTIONS)), fitting(r, cpu, cpu[i])
        trace.append(f"{len(cpu)} = {name}({i}, {j}) of {tuple(cpu[i].shape)}")
        cpu.append(FUNCTIONS[name](cpu[i], cpu[j]))
        tpu.append(FUNCTIONS[name](tpu[i], tpu[j]))
    elif kind == "write" and not overlaps_itself(cpu[i]):
        name, j = r.choice(sorted(WRITES)), fitting(r, cpu, cpu[i])
        trace.append(f"{name}({i}, {j}) of {tuple(cpu[i].shape)}")
        WRITES[name](cpu[i], cpu[j].clone() if shares(cpu[i], cpu[j]) else cpu[j])
        write(name, tpu[i], tpu[j])
    elif kind == "read":
        trace.append(f"read {i}")
        assert torch.equal(tpu[i].cpu(), cpu[i]), trace


def run_program(seed):
    r = random.Random(seed)
    cpu, trace = make_bases(), []
    tpu = [x.to("tpu") for x in cpu]
    for _ in range(STEPS):
        step(r, cpu, tpu, trace)
        if len(cpu) > 9:  # some tensors die, others keep their storages alive
            dead = r.randrange(4, len(cpu))
            trace.append(f"del {dead}")
            del cpu[dead], tpu[dead]
    for i, (a, b) in enumerate(zip(cpu, tpu, strict=True)):
        assert a.shape == b.shape and torch.equal(b.cpu(), a), (seed, i, a, b.cpu(), trace)


def run_gradient_program(seed):
    """The same with autograd: functions and views of leaves, writes to what is no leaf."""
    r = random.Random(seed)
    leaves = [[x.to(d).requires_grad_() for x in make_bases()] for d in ("cpu", "tpu")]
    cpu, tpu = ([x * 1 for x in group] for group in leaves)
    trace = []
    names = [n for n in sorted(WRITES) if n not in ("data", "resigned", "put")]
    for _ in range(STEPS):
        i, kind = r.randrange(len(cpu)), r.choice(("view", "function", "write"))
        if kind == "view":
            name, salt = r.choice([n for n in sorted(VIEWS) if n not in ("detach", "strided")]), r.random()
            calls = [lambda t, n=name, s=salt, i=i: t.append(VIEWS[n](t[i], random.Random(s)))] * 2
        elif kind == "function":
            name, j = r.choice(sorted(FUNCTIONS)), fitting(r, cpu, cpu[i])
            calls = [lambda t, n=name, i=i, j=j: t.append(FUNCTIONS[n](t[i], t[j]))] * 2
        else:
            if overlaps_itself(cpu[i]):
                continue
            name, j = r.choice(names), fitting(r, cpu, cpu[i])
            copied = shares(cpu[i], cpu[j])
            calls = [lambda t, n=name, i=i, j=j, c=copied: WRITES[n](t[i], t[j].clone() if c else t[j])] * 2
        trace.append((name, i))
        errors = []
        for call, tensors in zip(calls, (cpu, tpu), strict=True):
            try:
                call(tensors)
                errors.append(None)
            except RuntimeError as error:
                errors.append(str(error))
        assert (errors[0] is None) == (errors[1] is None), (seed, trace, errors)
    errors = []
    for tensors in (cpu, tpu):
        try:
            sum(x.sum() for x in tensors).backward()
            errors.append(None)
        except RuntimeError as error:
            errors.append(str(error))
    assert (errors[0] is None) == (errors[1] is None), (seed, trace, errors)
    for a, b in zip(*leaves, strict=True):
        assert (a.grad is None) == (b.grad is None), (seed, trace)
        if a.grad is not None and errors[0] is None:
            torch.testing.assert_close(b.grad.cpu(), a.grad, msg=lambda m: f"{m}\n{seed} {trace}")


GROUPS = 6
MODES = {"strict": torch.tpu.EagerMode.DEFER_NEVER, "fused": torch.tpu.EagerMode.DEFER_AND_FUSE}


def seeds(group, count):
    return [FIRST + k for k in range(count) if k % GROUPS == group]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs(mode, group):
    with torch.tpu.set_eager_mode(MODES[mode]):
        for seed in seeds(group, PROGRAMS):
            run_program(seed)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs_with_gradients(mode, group):
    with torch.tpu.set_eager_mode(MODES[mode]):
        for seed in seeds(group, PROGRAMS // 2):
            run_gradient_program(seed)
