"""Whole numbers where they overflow, where a double has too few digits for them, and numbers that are tensors on the host."""

import pytest
import torch
from test_elementwise import FLOATS, INTS, values


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_whole_powers_wrap_around(dtype):
    most = torch.iinfo(dtype).max
    x = values(dtype, n=20).unsqueeze(1)
    powers = [0, 1, 2, 3, 31, 32, 62, 63, 64, 65, 100, 127, 4095, 4096, 1 << 20, (1 << 53) + 1, (1 << 62) + 5, most]
    powers = [n for n in powers if n <= most]
    y = torch.tensor(powers, dtype=dtype)
    assert torch.equal((x.tpu() ** y.tpu()).cpu(), x**y)
    for n in powers:
        assert torch.equal((x.tpu() ** n).cpu(), x**n)
    for n in (-3, 2, 3, 7) if dtype.is_signed else (2, 3, 7):
        assert torch.equal((n ** y.tpu()).cpu(), n**y)
    if dtype.is_signed:
        assert torch.equal((x.tpu() ** -y.tpu()).cpu(), x**-y)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_common_multiples_that_overflow(dtype):
    x = values(dtype, n=20)
    x = x[x != torch.iinfo(dtype).min] if dtype.is_signed else x  # cpu's own division overflows
    assert torch.equal(torch.lcm(x.tpu().unsqueeze(1), x.tpu()).cpu(), torch.lcm(x.unsqueeze(1), x))


def test_whole_numbers_beyond_the_digits_of_a_double():
    x = torch.tensor([0, 1, -1, 5, 2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63), 2**53 + 1])
    for n in (2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1):
        for fn in (
            lambda x, n: torch.threshold(x, 3, n),
            lambda x, n: torch.threshold(x, n, 3),
            lambda x, n: x + n,
            lambda x, n: x.clamp(-5, n) if n > 0 else x.clamp(n, 5),
            lambda x, n: torch.where(x > 0, x, n),
            lambda x, n: x.masked_fill(x > 0, n),
            lambda x, n: x % n,
        ):
            assert torch.equal(fn(x.tpu(), n).cpu(), fn(x, n))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_negative_floats_as_bytes_wrap_around(dtype):
    x = torch.tensor([-1.0, -2.5, -7.3, -255.0, -256.0, -1000.0, 0.9, 255.9, 256.0, 300.0]).to(dtype)
    assert torch.equal(x.tpu().byte().cpu(), x.byte())
    assert torch.equal(torch.zeros(10, dtype=torch.uint8, device="tpu").copy_(x.tpu()).cpu(), x.byte())
    y = torch.zeros(10, dtype=torch.uint8, device="tpu")
    y[2:5] = x.tpu()[2:5]
    assert torch.equal(y.cpu()[2:5], x.byte()[2:5])


def test_tensors_on_the_host_are_numbers():
    for dtype in (torch.int64, torch.float32, torch.bfloat16):
        x, seven = torch.arange(5).to(dtype), torch.tensor(7, dtype=dtype)
        for fn in (
            lambda x, seven: x.masked_fill(x > 2, seven),
            lambda x, seven: x.clone().masked_fill_(x > 2, seven),
            lambda x, seven: x.clone().index_put_((x > 2,), seven),
            lambda x, seven: x.index_put((x > 2,), seven, accumulate=True),
            lambda x, seven: x.index_fill(0, torch.tensor([1, 2], device=x.device), seven),
            lambda x, seven: torch.where(x > 2, seven, x),
            lambda x, seven: torch.maximum(x, seven),
        ):
            assert torch.equal(fn(x.tpu(), seven).cpu(), fn(x, seven))
