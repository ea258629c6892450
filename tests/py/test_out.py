"""What `out=` and in-place forms do to targets that do not fit: sizes, strides, warnings and refusals are those of cpu."""

import warnings

import pytest
import torch


def both(call, *args, **kwargs):
    """A call's result on cpu and on tpu; tensors among the arguments are cpu ones."""

    def on(device):
        def move(x):
            return x.clone().to(device) if isinstance(x, torch.Tensor) else x

        return call(*(move(a) for a in args), **{k: move(v) for k, v in kwargs.items()})

    return on("cpu"), on("tpu")


def check_same(right, got):
    assert got.shape == right.shape
    assert got.stride() == right.stride()
    torch.testing.assert_close(got.cpu(), right, equal_nan=True)


TURNED = torch.arange(1.0, 7.0).reshape(2, 3).t()


@pytest.mark.parametrize(
    "op",
    [torch.sin, torch.neg, torch.signbit, torch.frac, torch.angle, torch.special.erfcx, torch.logit, torch.round],
    ids=lambda op: op.__name__,
)
def test_one_operand_lays_out_a_resized_target(op):
    dtype = op(TURNED).dtype
    check_same(*both(op, TURNED, out=torch.empty(0, dtype=dtype)))


@pytest.mark.parametrize(
    "op",
    [torch.add, torch.mul, torch.div, torch.floor_divide, torch.eq, torch.maximum, torch.hypot, torch.polar, torch.complex],
    ids=lambda op: op.__name__,
)
def test_two_operands_lay_out_a_resized_target(op):
    dtype = op(TURNED, TURNED).dtype
    check_same(*both(op, TURNED, TURNED, out=torch.empty(0, dtype=dtype)))
    check_same(*both(op, TURNED, TURNED[:1], out=torch.empty(0, dtype=dtype)))


def test_other_ops_give_a_resized_target_rows():
    check_same(*both(torch.mm, TURNED, TURNED.t(), out=torch.empty(0)))
    check_same(*both(torch.cumsum, TURNED, 0, out=torch.empty(0)))


def test_a_target_that_fits_keeps_its_strides():
    check_same(*both(torch.add, TURNED, TURNED, out=torch.zeros(3, 2)))


def test_addr_lays_out_a_resized_target():
    check_same(*both(torch.addr, TURNED, torch.randn(3), torch.randn(2), out=torch.empty(0)))


def test_cat_lays_out_a_resized_target_channels_last():
    x = torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last)
    check_same(*both(lambda a, b, out: torch.cat([a, b], 1, out=out), x, x, out=torch.empty(0)))


@pytest.mark.parametrize("transform", [torch.fft.ifft, torch.fft.ihfft])
def test_inverse_transforms_lay_out_a_resized_target(transform):
    check_same(*both(transform, torch.randn(3, 4, 5), dim=1, out=torch.empty(0, dtype=torch.complex64)))


def test_nonzero_lays_out_a_resized_target_by_index():
    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 4.0]])
    check_same(*both(torch.nonzero, x, out=torch.empty(0, dtype=torch.int64)))
    check_same(*both(torch.nonzero, x, out=torch.zeros(4, 2, dtype=torch.int64)))


def test_lstsq_solution_is_the_upper_part_of_a_taller_matrix():
    def solve(a, b, *outs):
        return torch.linalg.lstsq(a, b, driver="gels", out=outs)[0]

    outs = [torch.empty(0), torch.empty(0), torch.empty(0, dtype=torch.int64), torch.empty(0)]
    right, got = both(solve, torch.randn(5, 3), torch.randn(5, 2), *outs)
    assert right.stride() == (1, 5)
    check_same(right, got)


def test_a_host_routine_resizes_targets_to_nothing():
    check_same(*both(torch.linalg.inv, torch.empty(0, 0), out=torch.empty(1)))


def test_bernoulli_writes_any_dtype():
    p = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    for dtype in (torch.int64, torch.float64, torch.bool):
        check_same(*both(torch.bernoulli, p.t(), out=torch.empty(0, dtype=dtype)))


def test_composed_ops_warn_of_a_resize():
    x, outs = torch.tensor([1.0, 2.0, 1.0], device="tpu"), [torch.ones(2, device="tpu"), torch.ones(2, device="tpu")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.histogram(x, 4, out=outs)
    assert sum("was resized" in str(w.message) for w in caught) == 2
    assert outs[0].tolist() == [2.0, 0.0, 0.0, 1.0]


def test_addbmm_resizes_self():
    def call(x, a, b):
        result = x.addbmm_(a, b)
        assert result is x
        return x

    check_same(*both(call, torch.ones(1), torch.randn(2, 5, 3), torch.randn(2, 3, 4)))
    check_same(*both(call, torch.ones(5, 4), torch.randn(2, 5, 3), torch.randn(2, 3, 4)))


def test_a_scalar_target_on_the_host_is_refused():
    x = torch.eye(2, device="tpu")
    with pytest.raises(RuntimeError, match="same device"):
        torch.linalg.det(x, out=torch.empty(()))
    with pytest.raises(RuntimeError, match="same device"):
        torch.linalg.slogdet(x, out=(torch.empty(()), torch.empty(())))


REFUSED = {
    "aminmax": lambda x: torch.aminmax(x, out=(torch.empty((), dtype=torch.float64, device=x.device),) * 2),
    "complex": lambda x: torch.complex(x, x, out=torch.empty(3, dtype=torch.complex128, device=x.device)),
    "ihfftn": lambda x: torch.fft.ihfftn(x, out=torch.empty(2, dtype=torch.int64, device=x.device)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_targets_of_other_dtypes_are_refused_in_the_hosts_words(name):
    x = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError) as right:
        REFUSED[name](x)
    with pytest.raises(RuntimeError) as got:
        REFUSED[name](x.to("tpu"))
    assert str(got.value).splitlines()[0] == str(right.value).splitlines()[0]


def test_the_warning_of_a_target_that_is_resized():
    calls = {
        "add": lambda x, out: torch.add(x, x, out=out),
        "sum": lambda x, out: torch.sum(x, 0, out=out),
        "mm": lambda x, out: torch.mm(x, x.T, out=out),
        "cumsum": lambda x, out: torch.cumsum(x, 0, out=out),
        "cat": lambda x, out: torch.cat([x, x], out=out),
        "nothing": lambda x, out: torch.add(x[0, 0], 1, out=out[0]),
        "same": lambda x, out: torch.sum(x[:, :2], 0, out=out),
        "arange": lambda x, out: torch.arange(2, out=out.view(2, 1)),
        "linspace": lambda x, out: torch.linspace(0, 1, 4, out=out),
        "linspace of a view": lambda x, out: torch.linspace(0, 1, 4, out=torch.zeros(4, 4, device=x.device)[::2, ::2]),
        "logspace of a view": lambda x, out: torch.logspace(0, 1, 4, out=torch.zeros(2, 2, device=x.device).t()),
        "zeros": lambda x, out: torch.zeros(3, out=out),
        "full": lambda x, out: torch.full((3, 1), 2.0, out=out),
        "eye": lambda x, out: torch.eye(3, out=out),
    }
    for name, call in calls.items():
        seen = {}
        for device in ("cpu", "tpu"):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = call(torch.ones(2, 3, device=device), torch.zeros(2, device=device))
            seen[device] = ([str(w.message).split("(Triggered")[0] for w in caught], result.shape, result.stride())
            seen[device + "'s values"] = result.cpu()
        assert seen["tpu"] == seen["cpu"], name
        torch.testing.assert_close(seen["tpu's values"], seen["cpu's values"])
