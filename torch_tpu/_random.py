"""Random state of ``torch.tpu``: a seed and a position a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from . import _C
from ._device import DeviceLike, _get_device_index, current_device, device_count


class _DefaultGenerators(Sequence[torch.Generator]):
    """The default generators by device. They exist without the plugin being open; only their number needs it."""

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override]
        return _C.default_generator(index)

    def __len__(self) -> int:
        return device_count()

    def __iter__(self) -> Iterator[torch.Generator]:
        return (self[i] for i in range(len(self)))


default_generators = _DefaultGenerators()


def _get_generator(device: torch.device) -> torch.Generator:
    """The default generator of a device."""
    return _C.default_generator(_get_device_index(device))


def manual_seed(seed: int) -> None:
    """Seeds the current device."""
    _C.default_generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device, those included that are first used later. Does not open the plugin."""
    _C.seed_all(int(seed))


def seed() -> None:
    """Seeds the current device with a random number."""
    _C.default_generator(current_device()).seed()


def seed_all() -> None:
    """Seeds every device with one random number."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """The seed of the current device."""
    return _C.default_generator(current_device()).initial_seed()


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    """The random state of a device as a ByteTensor on cpu."""
    return _C.default_generator(_get_device_index(device, optional=True)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The random states of all devices."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    """Puts back a state that get_rng_state gave."""
    _C.default_generator(_get_device_index(device, optional=True)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Puts back the states that get_rng_state_all gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
