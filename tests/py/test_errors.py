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


def test_tensors_on_two_kinds_of_devices():
    text = "Expected all tensors to be on the same device, but found at least two devices, tpu:0 and cpu!"
    for call in (lambda: tpu(3) + torch.ones(3), lambda: torch.ones(3) + tpu(3), lambda: torch.cat([tpu(3), torch.ones(3)])):
        with pytest.raises(RuntimeError, match=re.escape(text)):
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
