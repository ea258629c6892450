"""torch.fft, stft and istft against PyTorch's cpu kernels."""

import pytest
import torch

NORMS = ["backward", "ortho", "forward"]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}


def make(dtype, *shape, is_complex=False):
    g = torch.Generator().manual_seed(1)
    real = torch.randn(*shape, generator=g, dtype=dtype)
    return torch.complex(real, torch.randn(*shape, generator=g, dtype=dtype)) if is_complex else real


def check(fn, *inputs, tolerance):
    want, got = fn(*inputs), fn(*(x.to("tpu") for x in inputs))
    assert got.device.type == "tpu"
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_dim(name, norm, dtype):
    x = make(dtype, 3, 7, 4, is_complex=name not in ("rfft", "ihfft"))
    fn = getattr(torch.fft, name)
    for n in (None, 1, 4, 9):  # whole, cropped, padded
        check(lambda x, n=n: fn(x, n=n, dim=1, norm=norm), x, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn"])
def test_many_dims(name, norm, dtype):
    """More dims than the compiler transforms at once, some of them, and strange orders."""
    x = make(dtype, 3, 2, 5, 4, 3, is_complex=name not in ("rfftn", "ihfftn"))
    fn = getattr(torch.fft, name)
    for dim in (None, (0, 3), (-1, 1), (4, 2, 0)):
        check(lambda x, dim=dim: fn(x, dim=dim, norm=norm), x, tolerance=5 * TOLERANCE[dtype])


def test_primes_and_powers():
    for n in (2, 31, 64, 127, 1000, 1021):
        check(torch.fft.fft, make(torch.float64, 2, n, is_complex=True), tolerance=1e-9)
        check(torch.fft.rfft, make(torch.float64, 2, n), tolerance=1e-9)
        check(lambda z, n=n: torch.fft.irfft(z, n), make(torch.float64, 2, n // 2 + 1, is_complex=True), tolerance=1e-9)


def test_real_input_windows_and_empty_batches():
    x = make(torch.float32, 6, 8)
    check(torch.fft.fft, x, tolerance=2e-5)
    check(lambda x: torch.fft.fft2(x.t()[::2, 1:]), x, tolerance=2e-5)
    check(torch.fft.fft, torch.randint(0, 9, (5,)), tolerance=2e-5)
    assert torch.fft.rfft(torch.empty(0, 4, device="tpu")).shape == (0, 3)
    assert torch.fft.irfft(torch.empty(0, 4, device="tpu", dtype=torch.complex64)).shape == (0, 6)
    check(lambda x: torch.fft.fftshift(torch.fft.fftfreq(9, device=x.device)), x, tolerance=0)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "rfft2", "irfft2", "hfft", "ihfft"])
def test_gradients(name):
    base = make(torch.float64, 4, 6, is_complex=name not in ("rfft", "rfft2", "ihfft"))
    grads = []
    for device in ("cpu", "tpu"):
        x = base.detach().to(device).requires_grad_()
        y = getattr(torch.fft, name)(x)
        y = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
        (y * torch.arange(y.numel(), device=device, dtype=torch.float64).reshape(y.shape).cos()).sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-9)


def test_short_time_transforms_and_back():
    window = torch.hann_window(16)
    signal = make(torch.float32, 2, 100)
    for center in (True, False):
        for onesided in (True, False):
            options = {"n_fft": 16, "hop_length": 4, "center": center, "onesided": onesided, "return_complex": True}
            check(lambda x, w, o=options: torch.stft(x, window=w, **o), signal, window, tolerance=2e-5)
    spectrum = torch.stft(signal, 16, window=window, return_complex=True)
    check(lambda s, w: torch.istft(s, 16, window=w, length=100), spectrum, window, tolerance=2e-5)
    back = torch.istft(
        torch.stft(signal.to("tpu"), 16, window=window.to("tpu"), return_complex=True), 16, window=window.to("tpu"), length=100
    )
    torch.testing.assert_close(back.cpu(), signal, rtol=1e-4, atol=1e-4)


def test_out_and_errors():
    x = make(torch.float32, 3, 8, is_complex=True)
    out = torch.empty(0, dtype=torch.complex64, device="tpu")
    assert torch.fft.fft(x.to("tpu"), out=out) is out
    torch.testing.assert_close(out.cpu(), torch.fft.fft(x), rtol=2e-5, atol=2e-5)
    for bad in (
        lambda d: torch.fft.fft(torch.randn(3, dtype=torch.half, device=d)),
        lambda d: torch.fft.fft(torch.randn(3, device=d), n=0),
        lambda d: torch.fft.irfft(torch.randn(1, device=d)),
        lambda d: torch.fft.fft(torch.randn(3, device=d), dim=2),
        lambda d: torch.fft.fftn(torch.randn(3, 3, device=d), dim=(0, 0)),
        lambda d: torch.fft.rfft(torch.randn(3, dtype=torch.complex64, device=d)),
    ):
        with pytest.raises((RuntimeError, IndexError)) as want:
            bad("cpu")
        with pytest.raises(type(want.value)) as got:
            bad("tpu")
        assert str(got.value) == str(want.value)


def test_no_program_per_norm_of_a_repeated_step(counters):
    x = make(torch.float32, 2, 16).to("tpu")
    for _ in range(2):
        torch.fft.irfft(torch.fft.rfft(x) * 2.0)
    before = counters()["compiles"]
    for scale in (3.0, 4.0):
        torch.fft.irfft(torch.fft.rfft(x) * scale)
    assert counters()["compiles"] == before
