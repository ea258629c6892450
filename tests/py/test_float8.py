"""8-bit floats (casts, copies, text, scaled products) and exchange by DLPack, against PyTorch's cpu kernels."""

import numpy as np
import pytest
import torch

FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
EDGES = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 448, 464, 465, 57344, 61439, 61440, 7e4, 240, 250]
EDGES += [2.0**-k for k in range(6, 20)] + [1.5 * 2.0**-k for k in range(6, 20)] + [-(2.0**-k) for k in range(6, 20)]


def values():
    g = torch.Generator().manual_seed(0)
    return torch.cat([torch.randn(3000, generator=g) * torch.logspace(-7, 6, 3000), torch.tensor(EDGES)])


def check(fn):
    want, got = fn("cpu"), fn("tpu")
    assert got.device.type == "tpu" and got.dtype == want.dtype
    want, got = want.contiguous(), got.cpu().contiguous()
    if want.dtype in FORMATS:
        nan = want.float().isnan()
        assert torch.equal(got.float().isnan(), nan)
        want, got = want.view(torch.uint8)[~nan], got.view(torch.uint8)[~nan]
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_rounding(dtype):
    x = values()
    check(lambda d: x.to(d).to(dtype))
    check(lambda d: x.double().to(d).to(dtype))
    check(lambda d: x.half().to(d).to(dtype))
    check(lambda d: x.bfloat16().to(d).to(dtype))
    check(lambda d: torch.arange(-5, 20, device=d).to(dtype))
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    for wide in (torch.float32, torch.bfloat16, torch.float64):
        check(lambda d, wide=wide: codes.to(d).to(wide))


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_moves_and_text(dtype):
    x = torch.tensor([1.0, -2.5, 0.3, 100.0, 7.0, 0.01]).reshape(2, 3).to(dtype)
    for fn in (
        lambda d: x.to(d).t().contiguous(),
        lambda d: torch.cat([x.to(d), x.to(d)]),
        lambda d: torch.empty(3, dtype=dtype, device=d).copy_(torch.tensor([1.0, 2.0, 3.0])),
        lambda d: torch.zeros(3, dtype=dtype, device=d).fill_(2.7),
        lambda d: torch.full((3,), 1.5, dtype=dtype, device=d),
        lambda d: x.to(d)[torch.tensor([1, 0], device=d)],
        lambda d: x.to(d) == x.to(d),
        lambda d: x.to(d).view(torch.uint8),
    ):
        check(fn)
    assert x.to("tpu")[0, 0].item() == 1.0
    assert "".join(str(x.to("tpu")).split()).replace("device='tpu:0',", "") == "".join(str(x).split())


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_arithmetic_is_refused_as_on_cpu(dtype):
    for fn in (lambda x: x + x, lambda x: x * 2, lambda x: -x, lambda x: x.max(), lambda x: x.sigmoid()):
        with pytest.raises(NotImplementedError) as want:
            fn(torch.ones(3).to(dtype))
        with pytest.raises(NotImplementedError) as got:
            fn(torch.ones(3).to(dtype).to("tpu"))
        assert str(got.value) == str(want.value)


def test_scaled_products():
    g = torch.Generator().manual_seed(1)
    a, b = (torch.randn(n, 32, generator=g).to(torch.float8_e4m3fn) for n in (16, 64))
    one, half, bias = torch.tensor(1.0), torch.tensor(0.5), torch.randn(64, generator=g)
    rows, columns = torch.rand(16, 1, generator=g), torch.rand(1, 64, generator=g)

    def product(d, s, t, dtype, bias=None):
        bias = None if bias is None else bias.to(d)
        return torch._scaled_mm(a.to(d), b.to(d).t(), s.to(d), t.to(d), bias=bias, out_dtype=dtype)

    for arguments in ((one, half, torch.float32), (half, half, torch.bfloat16, bias), (rows, columns, torch.bfloat16)):
        want, got = product("cpu", *arguments), product("tpu", *arguments)
        assert got.dtype == want.dtype
        torch.testing.assert_close(got.cpu().float(), want.float(), rtol=1e-2, atol=1e-3)


def test_dlpack():
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    again = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x.t()))
    assert again.device == x.device and again.data_ptr() == x.data_ptr()
    again[1:].add_(1)  # one memory, two tensors
    assert x.tolist() == [[0.0, 2.0, 3.0], [3.0, 5.0, 6.0]]
    with pytest.raises(RuntimeError, match="storage"):  # only whole storages have an address of their own
        torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x[:, 1:])) + 1
    host = torch.from_dlpack(x.__dlpack__(dl_device=(torch.utils.dlpack.DLDeviceType.kDLCPU, 0)))
    assert host.device.type == "cpu" and host.tolist() == x.tolist()
    assert np.from_dlpack(x.cpu()).tolist() == x.tolist()
    assert torch.from_dlpack(np.ones(3, dtype=np.float32), device="tpu", copy=True).device.type == "tpu"


def test_scale_of_gradients_is_updated():
    for found in (0.0, 1.0):
        results = []
        for d in ("cpu", "tpu"):
            scale, tracker = torch.tensor(8.0, device=d), torch.tensor(1, dtype=torch.int32, device=d)
            torch._amp_update_scale_(scale, tracker, torch.full((1,), found, device=d), 2.0, 0.5, 2)
            results.append((scale.item(), tracker.item()))
        assert results[0] == results[1]
