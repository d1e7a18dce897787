"""A policy's own random generator, whose state is stored with the learned state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.errors import InvalidValueError


def own_generator(rng: np.random.Generator) -> tuple[np.random.PCG64, np.random.Generator]:
    """Returns a new generator, seeded from the caller's shared one."""
    bits = np.random.PCG64(int(rng.integers(2**63)))
    return bits, np.random.Generator(bits)


def dump_rng(bits: np.random.PCG64) -> NDArray[np.uint64]:
    """Returns the generator's state as four 64-bit numbers."""
    inner = bits.state["state"]
    return np.array([n >> shift & (2**64 - 1) for n in (inner["state"], inner["inc"]) for shift in (64, 0)], np.uint64)


def load_rng(bits: np.random.PCG64, kept: NDArray[np.uint64]) -> None:
    """Restores the output of `dump_rng`; raises InvalidValueError for anything but four numbers."""
    if len(kept) != 4:
        raise InvalidValueError("shared_state", "a stream's state of 4 numbers", f"{len(kept)} numbers")
    state_high, state_low, inc_high, inc_low = (int(n) for n in kept)
    inner: Any = {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low}
    bits.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": 0, "uinteger": 0}
