"""Copies: host to device and back, within a device, between devices; casts, strides, lazy bits, overlaps, shapes."""

import itertools

import pytest
import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]


def same(tpu, cpu):
    """Equal dtype, shape and bytes."""
    assert tpu.device.type == "tpu"
    back = tpu.cpu()
    assert back.dtype == cpu.dtype
    assert back.shape == cpu.shape
    dense = cpu.resolve_conj().resolve_neg().contiguous().reshape(-1)
    assert torch.equal(back.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8), dense.view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype, counters):
    cpu = (torch.arange(24.0) % 5).reshape(2, 3, 4).to(dtype)
    same(cpu.to("tpu"), cpu)
    same(cpu.transpose(0, 2).to("tpu"), cpu.transpose(0, 2))
    same(cpu[:, 1:, ::2].to("tpu"), cpu[:, 1:, ::2])
    assert counters()["executes"] == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item(dtype):
    cpu = torch.tensor([0, 1, 1, 0]).to(dtype)
    tpu = cpu.to("tpu")
    for i in range(4):
        value = tpu[i].item()
        assert value == cpu[i].item()
        assert type(value) is type(cpu[i].item())


def test_casts_on_device():
    cpu = torch.tensor([[-1.5, 0.0, 2.75], [3.0, 100.5, -7.25]])
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.bool, torch.complex64):
        same(cpu.to("tpu").to(dtype), cpu.to(dtype))
        same(cpu.to("tpu").t().to(dtype), cpu.t().to(dtype))
        target = torch.zeros(2, 3, dtype=dtype, device="tpu")
        same(target.copy_(cpu), cpu.to(dtype))
        assert torch.equal(torch.zeros(2, 3, dtype=dtype).copy_(cpu.to("tpu")), cpu.to(dtype))


def test_a_cast_is_one_program(counters):
    x = torch.ones(3, 5).to("tpu")
    x.to(torch.float16)
    assert counters()["executes"] == 1


def test_channels_last_keeps_strides(counters):
    cpu = torch.arange(48.0).reshape(2, 3, 4, 2)
    tpu = cpu.to("tpu", memory_format=torch.channels_last)
    assert tpu.is_contiguous(memory_format=torch.channels_last)
    same(tpu, cpu)
    last = cpu.contiguous(memory_format=torch.channels_last)
    assert last.to("tpu").stride() == last.stride()
    assert last.to("tpu").cpu().stride() == last.stride()
    same(last.to("tpu"), last)
    assert counters()["executes"] == 0
    assert tpu.clone().stride() == tpu.stride()
    same(tpu.contiguous(), cpu)


def test_dense_clone_costs_nothing_and_is_apart(counters):
    x = torch.arange(6.0).to("tpu")
    y = x.clone()
    assert counters()["executes"] == 0
    y.add_(1)
    x.mul_(2)
    assert x.tolist() == [0, 2, 4, 6, 8, 10]
    assert y.tolist() == [1, 2, 3, 4, 5, 6]
    assert x.data_ptr() != y.data_ptr()


def test_writes_into_windows():
    cpu, tpu = torch.arange(24.0).reshape(2, 3, 4), torch.arange(24.0).reshape(2, 3, 4).to("tpu")
    for x in (cpu, tpu):
        x[0, 1] = 5
        x[:, :, 1:3] = torch.full((2, 3, 2), 7.0)
        x[1].copy_(x[0])
        x.transpose(0, 2)[1].fill_(3)
        x[..., 0].copy_(torch.tensor([1, 2, 3]))
        x[0, 0, 0] = torch.tensor(9, dtype=torch.int64)
        x[:, ::2].copy_(x[:, 1:2])
        x.view(-1)[5:9] = torch.arange(4)
    same(tpu, cpu)


def test_broadcast_and_scalar_sources():
    tpu = torch.zeros(3, 4, device="tpu")
    same(tpu.copy_(torch.arange(4)), torch.arange(4.0).expand(3, 4).clone())
    same(tpu.copy_(torch.tensor(2.5)), torch.full((3, 4), 2.5))
    same(tpu.copy_(torch.arange(3.0).to("tpu")[:, None]), torch.arange(3.0)[:, None].expand(3, 4).clone())


def test_conj_and_neg_bits():
    cpu = torch.tensor([1 + 2j, -3 + 0.5j, 4j])
    tpu = cpu.to("tpu")
    same(tpu.conj(), cpu.conj())
    same(cpu.conj().to("tpu"), cpu.conj())
    same(tpu.conj().imag, cpu.conj().imag)
    same(tpu.conj().clone(), cpu.conj().clone())
    assert tpu.conj()[1].item() == cpu.conj()[1].item()
    assert tpu.conj().imag[0].item() == -2
    a, b = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex64, device="tpu")
    for x, y in ((a, cpu), (b, tpu)):
        x.conj().copy_(y)
    same(b, a)
    for x, y in ((a, cpu), (b, tpu)):
        x.conj().imag.copy_(y.real)
    same(b, a)


def test_between_devices(counters):
    cpu = torch.arange(12.0).reshape(3, 4)
    a = cpu.to("tpu:0")
    b = a.to("tpu:2")
    assert b.device.index == 2
    same(b, cpu)
    assert counters()["d2h_copies"] == 1  # the check's own
    same(a.t().to("tpu:1"), cpu.t())
    same(a.to("tpu:3", torch.int32), cpu.int())
    target = torch.zeros(3, 8, device="tpu:1")
    target[:, ::2].copy_(a)
    assert torch.equal(target.cpu()[:, ::2], cpu)
    b.add_(1)
    same(a, cpu)


def test_shape_errors_are_those_of_cpu():
    for left, right in itertools.product([(3,), (1,), (2, 3), ()], repeat=2):
        results = []
        for device in ("cpu", "tpu"):
            try:
                results.append(tuple(torch.zeros(left, device=device).copy_(torch.zeros(right, device=device)).shape))
            except RuntimeError as error:
                results.append(str(error))
        assert results[0] == results[1]


def test_overlaps_raise():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(3, device="tpu").expand(2, 3).copy_(torch.ones(2, 3))
    x = torch.arange(4.0).to("tpu")
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        x[1:].copy_(x[:-1])
    assert x.tolist() == [0, 1, 2, 3]
    assert x.copy_(x) is x


def test_empty_tensors():
    for shape in ((0,), (0, 3), (2, 0, 4)):
        x = torch.empty(shape, device="tpu")
        assert x.cpu().shape == shape
        assert x.copy_(torch.empty(shape)).shape == shape
        assert x.clone().shape == shape
        assert x.to(torch.int32).dtype is torch.int32
        assert x.to("tpu:1").shape == shape


def test_reading_a_wide_window_does_not_read_the_whole(counters):
    x = torch.zeros(1 << 20, 4, device="tpu")
    x[:, 1] = 2
    x.sum().item()
    before = counters()["d2h_bytes"]
    assert x[:: 1 << 10, 1].tolist() == [2.0] * (1 << 10)
    assert counters()["d2h_bytes"] - before <= (1 << 10) * 4


def test_equal():
    x = torch.arange(6.0).to("tpu")
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)
    assert not torch.equal(x, x.reshape(2, 3))
    assert not torch.equal(torch.tensor([float("nan")], device="tpu"), torch.tensor([float("nan")], device="tpu"))


def test_print_as_cpu():
    for cpu in (
        torch.arange(6.0).reshape(2, 3),
        torch.tensor([1, -2]),
        torch.tensor([1e-7, 2.5]),
        torch.tensor(True),
        torch.empty(0),
    ):
        text = repr(cpu.to("tpu")).replace("device='tpu:0'", "").replace("\n", "").replace(" ", "").replace(",)", ")")
        assert text == repr(cpu).replace("\n", "").replace(" ", "")
