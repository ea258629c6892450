"""Views are metadata: no execute, shared storage, right values when read and when written through."""

import pytest
import torch

VIEWS = {
    "slice": lambda x: x[1:, :, ::2],
    "select": lambda x: x[:, 1],
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "view": lambda x: x.view(8, 6),
    "reshape": lambda x: x.reshape(-1, 4),
    "flatten": lambda x: x.flatten(),
    "unsqueeze": lambda x: x[:, None],
    "narrow": lambda x: x.narrow(2, 1, 3),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "diagonal": lambda x: x.diagonal(0, 0, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 5),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split(3, 2)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "movedim": lambda x: x.movedim(0, 1),
    "bytes": lambda x: x.view(torch.uint8),
    "as int": lambda x: x.view(torch.int32),
    "slice of transpose": lambda x: x.transpose(1, 2)[:, 1:4:2, 1:],
    "T of slice": lambda x: x[0, 1:].T,
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "swapaxes": lambda x: x.swapaxes(0, 1)[3],
}


def pair():
    cpu = torch.arange(48.0).reshape(2, 4, 6)
    return cpu, cpu.to("tpu")


@pytest.mark.parametrize("name", VIEWS)
def test_view_reads_and_costs_no_execute(name, counters):
    cpu, tpu = pair()
    a, b = VIEWS[name](cpu), VIEWS[name](tpu)
    assert b.shape == a.shape and b.stride() == a.stride() and b.storage_offset() == a.storage_offset()
    assert b.untyped_storage().data_ptr() == tpu.untyped_storage().data_ptr()
    assert torch.equal(b.cpu(), a)
    assert counters()["executes"] == 0
    assert torch.equal((b + 1).cpu(), a + 1)
    assert counters()["executes"] == 1


@pytest.mark.parametrize("name", [n for n in VIEWS if n != "unfold" and n != "as_strided"])
def test_view_writes(name):
    cpu, tpu = pair()
    for x in (cpu, tpu):
        view = VIEWS[name](x)
        view.add_(1)
        view.copy_(view * 2)
        view[..., 0] = 3
    assert torch.equal(tpu.cpu(), cpu)


def test_view_of_other_shape_raises_as_cpu():
    cpu, tpu = pair()
    for make in (
        lambda x: x.view(7, 7),
        lambda x: x.transpose(0, 1).view(-1),
        lambda x: x[:, :, 7],
        lambda x: x.as_strided((99,), (1,)),
    ):
        messages = []
        for x in (cpu, tpu):
            with pytest.raises((RuntimeError, IndexError)) as error:
                make(x)
            messages.append(str(error.value))
        assert messages[0] == messages[1] or "out of bounds for storage" in messages[1]


def test_complex_views():
    cpu = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0j]])
    tpu = cpu.to("tpu")
    assert torch.equal(torch.view_as_real(tpu).cpu(), torch.view_as_real(cpu))
    assert torch.equal(tpu.real.cpu(), cpu.real)
    assert torch.equal(torch.view_as_complex(torch.view_as_real(tpu)).cpu(), cpu)
    for x in (cpu, tpu):
        x.real.mul_(2)
        x.imag[0] = 7
    assert torch.equal(tpu.cpu(), cpu)


def test_version_counter_is_shared():
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_gradients_through_views_and_in_place():
    grads = []
    for device in ("cpu", "tpu"):
        x = torch.arange(6.0, device=device).reshape(2, 3).requires_grad_()
        y = x * 2
        y[0].mul_(x[1])
        y.t()[1] += 4
        (y[:, 1:] ** 2).sum().backward()
        grads.append(x.grad.cpu())
    assert torch.equal(grads[0], grads[1])


def test_resize_and_set():
    for device in ("cpu", "tpu"):
        x = torch.arange(6.0, device=device)
        x.resize_(2, 2)
        assert x.tolist() == [[0, 1], [2, 3]]
        x.resize_(6)
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
        x.resize_(8)
        assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
        assert x.untyped_storage().nbytes() == 32
        y = torch.empty(0, device=device).set_(x.untyped_storage(), 2, (2, 2), (1, 2))
        assert y.tolist() == [[2, 4], [3, 5]]
        assert y.is_set_to(torch.as_strided(x, (2, 2), (1, 2), 2))
        y.set_()
        assert y.shape == (0,)


def test_storage_operations():
    x = torch.arange(4.0, device="tpu")
    storage = x.untyped_storage()
    assert storage.is_tpu and storage.nbytes() == 16
    assert bytes(storage.cpu().tolist()) == bytes(torch.arange(4.0).untyped_storage().tolist())
    storage.fill_(0)
    assert x.tolist() == [0, 0, 0, 0]
    storage.resize_(0)
    storage.resize_(16)
    x.copy_(torch.ones(4))
    assert x.tolist() == [1, 1, 1, 1]
    assert x.data_ptr() == storage.data_ptr()


def test_data_ptr_offsets():
    x = torch.zeros(4, 4, device="tpu")
    assert x[1].data_ptr() - x.data_ptr() == 16
    assert x.data_ptr() != torch.zeros(4, 4, device="tpu").data_ptr()


def test_windows_that_differ_in_the_offset_share_a_program(counters):
    x = torch.arange(100.0).reshape(10, 10).to("tpu")
    x[0] + 1
    before = counters()["compiles"]
    for i in range(1, 10):
        assert (x[i] + 1)[0].item() == 10 * i + 1
    assert counters()["compiles"] == before
