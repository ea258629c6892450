"""Random state: seeds, offsets, generators, fork, checkpointing."""

import pytest
import torch


def test_same_seed_same_numbers():
    torch.manual_seed(3)
    a = torch.randn(100, device="tpu").cpu()
    b = torch.randn(100, device="tpu").cpu()
    assert not torch.equal(a, b)
    torch.manual_seed(3)
    assert torch.equal(a, torch.randn(100, device="tpu").cpu())
    torch.tpu.manual_seed(3)
    assert torch.equal(a, torch.randn(100, device="tpu").cpu())
    assert torch.tpu.initial_seed() == 3


def test_generator_argument():
    torch.manual_seed(7)
    a = torch.rand(50, device="tpu").cpu()
    generator = torch.Generator("tpu").manual_seed(7)
    assert generator.device.type == "tpu"
    assert torch.equal(a, torch.rand(50, device="tpu", generator=generator).cpu())
    state = torch.tpu.get_rng_state()
    torch.rand(5, device="tpu", generator=generator)
    assert torch.equal(state, torch.tpu.get_rng_state())
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(5, device="tpu", generator=torch.Generator())


def test_state_round_trip():
    torch.manual_seed(1)
    torch.rand(3, device="tpu")
    state = torch.tpu.get_rng_state()
    assert state.dtype is torch.uint8 and state.device.type == "cpu"
    a = torch.rand(9, device="tpu").cpu()
    torch.tpu.set_rng_state(state)
    assert torch.equal(a, torch.rand(9, device="tpu").cpu())
    with pytest.raises(RuntimeError, match="RNG state"):
        torch.tpu.set_rng_state(state[:5])


def test_clone_and_offset():
    generator = torch.Generator("tpu").manual_seed(4)
    torch.rand(8, device="tpu", generator=generator)
    twin = generator.clone_state()
    assert generator.get_offset() == twin.get_offset() > 0
    a = torch.rand(8, device="tpu", generator=generator).cpu()
    assert torch.equal(a, torch.rand(8, device="tpu", generator=twin).cpu())
    generator.set_offset(0)
    generator.manual_seed(4)
    torch.rand(8, device="tpu", generator=generator)
    assert torch.equal(a, torch.rand(8, device="tpu", generator=generator).cpu())


def test_devices_are_apart():
    torch.manual_seed(2)
    a = torch.rand(4, device="tpu:0").cpu()
    assert torch.equal(a, torch.rand(4, device="tpu:1").cpu())
    states = torch.tpu.get_rng_state_all()
    assert len(states) == 4
    torch.rand(4, device="tpu:1")
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(states[1], torch.tpu.get_rng_state(1))
    assert torch.tpu.default_generators[2].device.index == 2


def test_fork_rng():
    torch.manual_seed(1)
    a = torch.rand(2, device="tpu").cpu()
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.rand(3, device="tpu")
    assert torch.equal(a, torch.rand(2, device="tpu").cpu())


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_repeats_dropout(use_reentrant):
    torch.manual_seed(0)
    masks = []

    def part(x):
        y = torch.nn.functional.dropout(x, 0.5)
        masks.append((y != 0).cpu())
        return y * x

    x = torch.ones(64, device="tpu", requires_grad=True)
    torch.utils.checkpoint.checkpoint(part, x, use_reentrant=use_reentrant).sum().backward()
    assert len(masks) == 2 and torch.equal(masks[0], masks[1])
    assert masks[0].any() and not masks[0].all()


def test_new_seed_is_no_new_program(counters):
    torch.manual_seed(1)
    torch.rand(33, device="tpu")
    before = counters()["compiles"]
    for seed in range(3):
        torch.manual_seed(seed)
        torch.rand(33, device="tpu")
    assert counters()["compiles"] == before
