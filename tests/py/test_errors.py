"""Errors are the exceptions, and as far as can be the words, that users know from cpu."""

import re

import pytest
import torch


def tpu(*sizes, **kw):
    return torch.ones(*sizes, device="tpu", **kw)


# Each entry: a function of a device. cpu says what is right.
CASES = {
    "broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "matmul": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "dim": lambda d: torch.ones(2, 3, device=d).sum(5),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(1, 1, device=d)]),
    "cast": lambda d: torch.ones(2, dtype=torch.int32, device=d).add_(1.5),
    "expanded": lambda d: torch.ones(3, device=d).expand(2, 3).add_(1),
    "overlap": lambda d: (lambda x: x[1:].add_(x[:-1]))(torch.ones(4, device=d)),
    "bool sub": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "mask shape": lambda d: torch.ones(3, device=d)[torch.ones(4, dtype=torch.bool, device=d)],
    "too many indices": lambda d: torch.ones(3, device=d)[torch.tensor([0], device=d), torch.tensor([0], device=d)],
    "float index": lambda d: torch.ones(3, device=d)[torch.tensor([0.5], device=d)],
    "put dtype": lambda d: torch.ones(3, device=d).index_put_(
        (torch.tensor([0], device=d),), torch.ones(1, device=d, dtype=torch.float64)
    ),
    "out dtype": lambda d: torch.add(torch.ones(2, device=d), 1, out=torch.empty(2, dtype=torch.int64, device=d)),
}


@pytest.mark.parametrize("name", CASES)
def test_same_exception_and_text_as_cpu(name):
    with pytest.raises(Exception) as cpu:
        CASES[name]("cpu")
    with pytest.raises(type(cpu.value), match=re.escape(str(cpu.value).replace("cpu", "tpu"))):
        CASES[name]("tpu")


def ints(device, dtype=torch.int64):
    return torch.ones(3, dtype=dtype, device=device)


def aliased(fn):
    """fn(x, i): x is a view of six numbers, i three indices."""
    return lambda d: fn(torch.arange(6.0, device=d)[:3], torch.tensor([0, 1, 2], device=d))


# Numbers are no part of a plan's key: each entry has a good call, that makes the plan, and a bad one.
NUMBERS = {
    "uniform": (lambda d, n: torch.ones(3, device=d).uniform_(0, n), 1.0, -1.0),
    "geometric": (lambda d, n: torch.ones(3, device=d).geometric_(n), 0.5, 1.0),
    "exponential": (lambda d, n: torch.ones(3, device=d).exponential_(n), 1.0, 0.0),
    "cauchy": (lambda d, n: torch.ones(3, device=d).cauchy_(0, n), 1.0, -1.0),
    "log_normal": (lambda d, n: torch.ones(3, device=d).log_normal_(0, n), 1.0, -1.0),
    "normal": (lambda d, n: torch.ones(3, device=d).normal_(0, n), 0.0, -1.0),
    "bernoulli": (lambda d, n: torch.ones(3, device=d).bernoulli_(n), 1.0, 1.5),
    "renorm": (lambda d, n: torch.renorm(torch.ones(3, 3, device=d), 2, 0, n), 1.0, -1.0),
    "huber": (lambda d, n: torch.nn.functional.huber_loss(tpu(3).to(d), tpu(3).to(d), delta=n), 1.0, 0.0),
    "smooth_l1": (lambda d, n: torch._C._nn.smooth_l1_loss(tpu(3).to(d), tpu(3).to(d), beta=n), 1.0, -1.0),
    "leaky_relu": (
        lambda d, n: torch.nn.functional.leaky_relu_(torch.ones(3, device=d, requires_grad=True) * 1, n).sum().backward(),
        *(0.1, -0.1),
    ),
    "full": (lambda d, n: torch.full((3,), n, device=d, dtype=torch.uint8), 255, 256),
    "full half": (lambda d, n: torch.full((3,), n, device=d, dtype=torch.float16), float("-inf"), -1e9),
    "masked_fill": (lambda d, n: ints(d, torch.int8).masked_fill(torch.ones(3, dtype=torch.bool, device=d), n), 127, 128),
    "index_fill": (lambda d, n: ints(d, torch.int32).index_fill(0, torch.tensor([0], device=d), n), 2**31 - 1, 2**31),
    "scatter": (lambda d, n: ints(d, torch.uint8).scatter(0, torch.tensor([0], device=d), n), 255, 300),
    "clamp": (lambda d, n: ints(d, torch.uint8).clamp(max=n), 255, 300),
    "floor_divide": (lambda d, n: ints(d) // n, 2, 0),
    "remainder": (lambda d, n: ints(d) % n, 2, 0),
    "fmod": (lambda d, n: torch.fmod(ints(d), n), 2, 0),
    "trunc": (lambda d, n: torch.div(ints(d), n, rounding_mode="trunc"), 2, 0),
    "random": (lambda d, n: ints(d, torch.uint8).random_(0, n), 256, 300),
    "negative power": (lambda d, n: ints(d) ** n, 2, -1),
    "repeats": (lambda d, n: torch.repeat_interleave(tpu(2).to(d), torch.tensor([1, n], device=d)), 2, -1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_cpu_refuses_are_refused_at_every_call(name):
    fn, good, bad = NUMBERS[name]
    for device in ("cpu", "tpu"):
        fn(device, good)
    with pytest.raises(Exception) as cpu:
        fn("cpu", bad)
    with pytest.raises(cpu.type, match="^" + re.escape(str(cpu.value).splitlines()[0]) + "$"):
        fn("tpu", bad)


# What the values of tensors make wrong is found out on the device, and raised at the next read at the latest.
VALUES = {
    "floor_divide": lambda d: ints(d) // torch.zeros(3, dtype=torch.int64, device=d),
    "remainder": lambda d: ints(d, torch.int8) % torch.zeros(1, dtype=torch.int32, device=d),
    "fmod_": lambda d: ints(d).fmod_(torch.tensor([1, 2, 0], device=d)),
    "trunc": lambda d: torch.div(ints(d), torch.zeros(3, dtype=torch.int64, device=d), rounding_mode="trunc"),
    "bernoulli": lambda d: torch.bernoulli(torch.full((3,), 1.5, device=d)),
    "poisson": lambda d: torch.poisson(torch.full((3,), -1.0, device=d)),
    "multinomial": lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    "binary_cross_entropy": lambda d: torch.nn.functional.binary_cross_entropy(
        torch.full((3,), 1.5, device=d), torch.ones(3, device=d)
    ),
    "gather": lambda d: torch.ones(3, device=d).gather(0, torch.tensor([7], device=d)),
    "histc of inf": lambda d: torch.histc(torch.tensor([1.0, float("inf")], device=d)),
    "histc of nan": lambda d: torch.histc(torch.tensor([1.0, float("nan")], device=d)),
    "masked_scatter": lambda d: torch.ones(3, device=d).masked_scatter(ints(d) > 0, torch.ones(2, device=d)),
    "bincount": lambda d: torch.ones(3, device=d).bincount(),
    "bincount of bool": lambda d: (ints(d) > 0).bincount(),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_cpu_refuses_are_refused(name):
    with pytest.raises(Exception) as cpu:
        VALUES[name]("cpu")
    with pytest.raises(cpu.type):
        VALUES[name]("tpu").cpu()
    assert tpu(3).sum().item() == 3  # the process lives on


def test_division_by_zero_that_is_none():
    for device in ("cpu", "tpu"):
        assert torch.div(ints(device), 0, rounding_mode=None).tolist() == [float("inf")] * 3
        assert (tpu(3).to(device) // 0).tolist() == [float("inf")] * 3
        assert torch.fmod(ints(device), torch.tensor([2, 3, 1], device=device)).tolist() == [1, 1, 0]


# What is written may not be read, or not at other places; an integer target can't take fractions; an input keeps its size.
WRITES = {
    "cat": aliased(lambda x, i: torch.cat([x], out=x)),
    "stack": aliased(lambda x, i: torch.stack([x], out=x.view(1, 3))),
    "scatter": aliased(lambda x, i: x.scatter_(0, i, x)),
    "scatter_add": aliased(lambda x, i: x.scatter_add_(0, i, x)),
    "index_put": aliased(lambda x, i: x.index_put_((i,), x)),
    "index_fill": aliased(lambda x, i: i.index_fill_(0, i, 1)),
    "index_select": aliased(lambda x, i: torch.index_select(i, 0, i, out=i)),
    "take": aliased(lambda x, i: torch.take(x, i, out=x)),
    "masked_select": aliased(lambda x, i: torch.masked_select(x, x > 0, out=x)),
    "logit": lambda d: ints(d, torch.uint8).logit_(),
    "angle": lambda d: torch.angle(torch.ones(3, device=d), out=ints(d)),
    "mask dtype": lambda d: torch.masked_select(torch.ones(3, device=d), torch.ones(3, device=d)),
    "heaviside": lambda d: torch.heaviside(torch.ones(3, device=d), torch.ones(3, device=d, dtype=torch.float64)),
    "complex": lambda d: torch.complex(torch.ones(3, device=d), torch.ones(3, device=d, dtype=torch.float64)),
    "bucketize": lambda d: torch.bucketize(torch.ones(3, device=d), torch.ones(3, 3, device=d)),
    "padding": lambda d: torch.conv3d(torch.ones(1, 1, 4, 4, 4, device=d), torch.ones(1, 1, 2, 2, 2, device=d), padding=-1),
    "input as out": lambda d: (lambda x: torch.mul(x, torch.ones(4, 3, device=d), out=x))(torch.ones(1, 3, device=d)),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_cpu_refuses_to_write_is_refused(name):
    with pytest.raises(Exception) as cpu:
        WRITES[name]("cpu")
    with pytest.raises(cpu.type, match=re.escape(str(cpu.value).splitlines()[0][:60])):
        WRITES[name]("tpu")


# A number's imaginary part is never dropped, whatever the op; a mask is of bool; a target does not grow.
TWIST = 1 + 2j


def masked(value, mask=torch.bool):
    return lambda d: torch.zeros(3, device=d).masked_fill_(torch.ones(3, dtype=mask, device=d), value)


def set_item(d):
    torch.zeros(3, device=d)[0] = TWIST


IMAGINARY = {
    "fill_": lambda d: torch.zeros(3, device=d).fill_(TWIST),
    "fill_ int": lambda d: ints(d).fill_(TWIST),
    "fill_ float64": lambda d: torch.zeros(3, device=d, dtype=torch.float64).fill_(TWIST),
    "fill_ large": lambda d: torch.zeros(1 << 25, device=d).fill_(TWIST),
    "full": lambda d: torch.full((3,), TWIST, dtype=torch.float32, device=d),
    "full_like": lambda d: torch.full_like(torch.zeros(3, device=d), TWIST),
    "new_full": lambda d: torch.zeros(3, device=d).new_full((2,), TWIST),
    "masked_fill_": masked(TWIST),
    "masked_fill_ tensor": masked(torch.tensor(TWIST)),
    "scatter_": lambda d: torch.zeros(3, device=d).scatter_(0, torch.tensor([0], device=d), TWIST),
    "fill_diagonal_": lambda d: torch.zeros(3, 3, device=d).fill_diagonal_(TWIST),
    "index_fill_": lambda d: torch.zeros(3, device=d).index_fill_(0, torch.tensor([0], device=d), TWIST),
    "setitem": set_item,
    "addcmul": lambda d: torch.zeros(3, device=d).addcmul(*[torch.ones(3, device=d)] * 2, value=TWIST),
    "addmm": lambda d: torch.addmm(*[torch.ones(3, 3, device=d)] * 3, beta=TWIST),
    "lerp": lambda d: torch.zeros(3, device=d).lerp(torch.ones(3, device=d), TWIST),
    "threshold": lambda d: torch.threshold(torch.zeros(3, device=d), 0, TWIST),
    "leaky_relu": lambda d: torch.nn.functional.leaky_relu(torch.zeros(3, device=d), TWIST),
    "elu": lambda d: torch.nn.functional.elu(torch.zeros(3, device=d), TWIST),
    "clamp": lambda d: torch.zeros(3, device=d).clamp(TWIST),
    "clamp_min_": lambda d: torch.zeros(3, device=d).clamp_min_(TWIST),
    "mul_": lambda d: torch.zeros(3, device=d).mul_(TWIST),
    "_foreach_add_": lambda d: torch._foreach_add_([torch.zeros(3, device=d)], TWIST),
}
# In-place ops on lists cast no more than others do.
CASTS = {
    "_foreach_mul_ complex": lambda d: torch._foreach_mul_([torch.ones(2, device=d)], [2 + 1j]),
    "_foreach_mul_ number": lambda d: torch._foreach_mul_([ints(d)], 1.5),
    "_foreach_mul_ numbers": lambda d: torch._foreach_mul_([ints(d)], [1.5]),
    "_foreach_mul_ tensor": lambda d: torch._foreach_mul_([ints(d)], torch.tensor(1.5)),
    "_foreach_mul_ tensors": lambda d: torch._foreach_mul_([ints(d)], [torch.ones(3, device=d)]),
    "_foreach_mul_ bool": lambda d: torch._foreach_mul_([ints(d) > 0], 2),
    "_foreach_addcmul_": lambda d: torch._foreach_addcmul_([ints(d)], [torch.ones(3, device=d)], [ints(d)]),
    "_foreach_add_ alpha": lambda d: torch._foreach_add_([ints(d)], [ints(d)], alpha=2.5),
    "_foreach_add alpha": lambda d: torch._foreach_add([ints(d) > 0], [ints(d) > 0], alpha=2.0),
    "_foreach_lerp": lambda d: torch._foreach_lerp([ints(d)], [ints(d)], 0.5),
    "lerp_": lambda d: ints(d).lerp_(ints(d), torch.tensor(0.5)),
    "arange": lambda d: torch.arange(6, out=torch.zeros(3, device=d).expand(2, 3)),
}
MASKS = {str(m): masked(1, m) for m in (torch.float32, torch.int32, torch.uint8, torch.float16)}


@pytest.mark.parametrize("name", IMAGINARY | MASKS | CASTS)
def test_imaginary_parts_masks_and_casts_are_refused_as_on_cpu(name):
    call = (IMAGINARY | MASKS | CASTS)[name]
    with pytest.raises(Exception) as cpu:
        call("cpu")
    with pytest.raises(cpu.type, match=re.escape(str(cpu.value).splitlines()[0])):
        call("tpu")


def test_complex_numbers_without_an_imaginary_part_come_before_and_after():
    ones = torch.ones(3, device="tpu")
    for call in (lambda z: ones.clone().fill_(z), lambda z: torch.zeros_like(ones).addcmul_(ones, ones, value=z)):
        assert call(2 + 0j).tolist() == [2, 2, 2]
        with pytest.raises(RuntimeError, match="without overflow"):
            call(2 + 1j)
        assert call(3 + 0j).tolist() == [3, 3, 3]
    assert torch.zeros(2, dtype=torch.bool, device="tpu").fill_(2j).tolist() == [True, True]
    assert torch.zeros(2, device="tpu").fill_(torch.tensor(1 + 2j)).tolist() == [1, 1]  # of a tensor it is dropped
    assert torch.zeros(2, device="tpu").fill_(torch.tensor(1 + 2j).tpu()).tolist() == [1, 1]
    assert (torch.ones(2, device="tpu") * 2j).tolist() == [2j, 2j]


GROWING = ["gt_", "eq_", "pow_", "floor_divide_", "clamp_", "clamp_min_", "masked_scatter_", "atan2_", "add_"]


@pytest.mark.parametrize("name", GROWING)
def test_targets_do_not_grow(name):
    def call(device):
        x = torch.tensor([1.0, 2, 3], device=device)
        return getattr(x[:1].clone(), name)(*((x > 0, x) if name == "masked_scatter_" else (x,)))

    with pytest.raises(RuntimeError) as cpu:
        call("cpu")
    with pytest.raises(RuntimeError, match=re.escape(str(cpu.value))):
        call("tpu")


def test_a_large_target_does_not_grow():
    x = torch.zeros(1 << 24, 2, device="tpu")
    text = "output with shape [16777216, 1] doesn't match the broadcast shape [16777216, 2]"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        x[:, :1].clone().gt_(x)


def test_powers_of_bool_in_place():
    for device in ("cpu", "tpu"):
        x = torch.tensor([True, False], device=device)
        assert x.clone().pow_(True).tolist() == [True, False] and x.clone().pow_(False).tolist() == [True, True]


def test_zeros_that_take_no_memory():
    zeros, ones = torch._efficientzerotensor(3, device="tpu"), torch.ones(3, device="tpu")
    assert zeros.clone().add_(1).tolist() == [1, 1, 1] and zeros.contiguous().tolist() == [0, 0, 0]
    assert torch.dot(zeros, ones).item() == 0 and torch.vdot(ones, zeros).item() == 0 and "0., 0., 0." in str(zeros)


def test_the_dtype_of_a_target_does_not_decide_how_a_result_is_computed():
    for device in ("cpu", "tpu"):
        x = torch.full((2,), 100, dtype=torch.int8, device=device)
        assert torch.add(x, x, out=torch.empty(2, dtype=torch.float64, device=device)).tolist() == [-56, -56]
        assert torch.bitwise_xor(x, x, out=torch.empty(2, device=device)).tolist() == [0, 0]
        # but for running sums it does
        x = torch.tensor([0.5, 0.6, 0.7], device=device)
        assert torch.cumsum(x, 0, out=torch.empty(3, dtype=torch.int64, device=device)).tolist() == [0, 0, 0]


def test_tensors_on_two_kinds_of_devices():
    text = "Expected all tensors to be on the same device, but found at least two devices, tpu:0 and cpu!"
    for call in (lambda: tpu(3) + torch.ones(3), lambda: torch.ones(3) + tpu(3), lambda: torch.cat([tpu(3), torch.ones(3)])):
        with pytest.raises(RuntimeError, match=re.escape(text)):
            call()


def test_which_argument_is_on_another_device():
    calls = {
        "mat2 in method aten::mm": lambda: tpu(3, 3) @ torch.ones(3, 3),
        "weight in method aten::native_layer_norm": lambda: torch.nn.functional.layer_norm(tpu(3), (3,), torch.ones(3)),
        "tensors in method aten::cat": lambda: torch.cat([tpu(3), torch.ones(3)]),
        "other in method aten::add_.Tensor": lambda: tpu(3).add_(torch.ones(3)),
        "min in method aten::clamp.Tensor": lambda: tpu(3).clamp(torch.ones(3), torch.ones(3)),
    }
    for text, call in calls.items():
        with pytest.raises(RuntimeError, match=re.escape(f"tpu:0 and cpu! (when checking argument for argument {text})")):
            call()


def test_tensors_on_two_tpus():
    text = "Expected all tensors to be on the same device, but found at least two devices, tpu:0 and tpu:1!"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        tpu(3) + torch.ones(3, device="tpu:1")


def test_a_cpu_scalar_cannot_be_written_from_the_device():
    with pytest.raises(RuntimeError, match="same device"):
        torch.tensor(1.0).add_(tpu(()))


def test_unknown_dtypes_are_refused():
    with pytest.raises(TypeError, match="ComplexHalf"):
        torch.zeros(3, dtype=torch.complex32, device="tpu")


def test_an_index_out_of_range_names_op_size_and_line():
    with pytest.raises(IndexError) as error:
        tpu(3)[torch.tensor([5], device="tpu")].cpu()
    text = str(error.value)
    assert "aten::index.Tensor" in text
    assert "size 3" in text
    assert "test_errors.py:" in text
    assert (tpu(3) + 1).tolist() == [2, 2, 2]  # the process lives on


def test_the_line_is_the_users_not_pytorchs():
    with pytest.raises(IndexError, match=r"test_errors\.py:\d+"):
        torch.nn.functional.embedding(torch.tensor([9], device="tpu"), tpu(3, 2)).cpu()


def test_a_failed_in_place_op_leaves_the_tensor_as_it_was():
    x = tpu(3)
    with pytest.raises(RuntimeError):
        x.add_(tpu(4))
    assert x.tolist() == [1, 1, 1]


def test_an_op_that_is_missing_says_what_to_do(monkeypatch):
    monkeypatch.delenv("TORCH_TPU_CPU_FALLBACK", raising=False)
    library = torch.library.Library("tpt_errors", "DEF")
    library.define("missing(Tensor x, Tensor[] many) -> Tensor")
    with pytest.raises(NotImplementedError) as error:
        torch.ops.tpt_errors.missing(tpu(2, 3), [tpu(1)])
    text = str(error.value)
    assert "tpt_errors::missing is not implemented on the tpu device" in text
    assert "x: tpu:0 Float[2, 3]" in text
    assert "TORCH_TPU_CPU_FALLBACK=1" in text


def test_errors_carry_no_backtrace():
    with pytest.raises(RuntimeError) as error:
        tpu(2) + torch.ones(3)
    assert "frame #" not in str(error.value)


ONE = {
    "float32": torch.ones(2, 2),
    "bfloat16": torch.ones(2, 2).bfloat16(),
    "bool": torch.ones(2, 2) > 0,
    "complex64": torch.ones(2, 2) + 0j,
}
PAIRS = [
    ("bfloat16", "float32"),
    ("bool", "float32"),
    ("float32", "bfloat16"),
    ("bfloat16", "complex64"),
    ("float32", "complex64"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize(
    "name", ["mm", "bmm", "mv", "linear", "baddbmm", "addbmm", "addmm", "dot", "conv2d", "conv_transpose2d"]
)
def test_products_of_two_dtypes_are_refused(name, first, second):
    a, b = ONE[first].tpu(), ONE[second].tpu()
    calls = {
        "mm": lambda: a @ b,
        "bmm": lambda: torch.bmm(a[None], b[None]),
        "mv": lambda: a.mv(b[0]),
        "linear": lambda: torch.nn.functional.linear(a, b),
        "baddbmm": lambda: torch.baddbmm(a[None], a[None], b[None]),
        "addbmm": lambda: torch.addbmm(a, a[None], b[None]),
        "addmm": lambda: torch.addmm(a, a, b),
        "dot": lambda: torch.dot(a[0], b[0]),
        "conv2d": lambda: torch.nn.functional.conv2d(a[None, None], b[None, None]),
        "conv_transpose2d": lambda: torch.nn.functional.conv_transpose2d(a[None, None], b[None, None]),
    }
    with pytest.raises(RuntimeError, match=r"type|implemented"):
        calls[name]()


def test_parameters_and_sources_of_another_dtype_are_refused():
    x, whole = torch.ones(2, 4, device="tpu"), torch.tensor([1, 1], device="tpu")
    index, source = torch.tensor([0], device="tpu"), torch.tensor([1.7], device="tpu")
    wrong = torch.ones(4, dtype=torch.float64, device="tpu")
    for call in (
        lambda: whole.index_add(0, index, source),
        lambda: whole.index_reduce(0, index, source, "prod"),
        lambda: torch.nn.functional.layer_norm(x, (4,), wrong),
        lambda: torch.nn.functional.group_norm(x, 2, wrong),
        lambda: torch.nn.functional.batch_norm(x, wrong, wrong),
        lambda: torch.normal(torch.zeros(1, device="tpu"), -torch.ones(1, device="tpu")).cpu(),
    ):
        with pytest.raises(RuntimeError, match=r"type|std >= 0"):
            call()
    half = torch.nn.functional.layer_norm(x.bfloat16(), (4,), torch.ones(4, device="tpu"))  # as autocast has it
    assert half.dtype == torch.bfloat16


def test_integers_beyond_int64():
    huge = 2**64 - 1
    for make in (
        lambda d: torch.tensor([1.5], device=d) * huge,
        lambda d: torch.tensor([7], device=d) / 2**63,
        lambda d: torch.full((2,), float(2**63), device=d),
        lambda d: torch.full((2,), 2**63, dtype=torch.float64, device=d),
        lambda d: torch.tensor([1.0], device=d).fill_(huge),
        lambda d: torch.where(torch.tensor([True, False], device=d), huge, torch.tensor([1.0, 2.0], device=d)),
        lambda d: torch.tensor([1.0], device=d) < huge,
        lambda d: torch.tensor([1], device=d) + 2**63,  # the bits, on cpu too
        lambda d: torch.add(torch.tensor([1.0], device=d), torch.tensor([1.0], device=d), alpha=huge),
    ):
        assert torch.equal(make("tpu").cpu(), make("cpu"))
    for call in (
        lambda: torch.full((2,), 2**63, dtype=torch.int64, device="tpu"),
        lambda: torch.tensor([1], device="tpu").fill_(huge),
        lambda: torch.tensor([1], device="tpu").masked_fill(torch.tensor([True], device="tpu"), huge),
        lambda: torch.tensor([1], device="tpu").clamp(max=huge),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()
