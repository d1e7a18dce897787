"""State that was damaged, or is another's: it is refused as such, or an allocator comes out that works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pollerd.allocation.contract import Allocator
from pollerd.allocation.evidence import EvidenceBatch
from pollerd.allocation.learned_state import ENVELOPE, pack, unpack
from pollerd.allocation.registry import create, names
from pollerd.allocation.whittle.belief import ROW
from pollerd.allocation.whittle.belief import VERSION as BELIEF_VERSION
from pollerd.errors import InvalidValueError

NOW = 1.75e9
VERSIONS = {"whittle": BELIEF_VERSION, "gpoks": 3}
SEED = 20261123
ROW_FLIPS = 200
SHARED_FLIPS = 400

State = tuple[NDArray[np.uint8], bytes]


@pytest.fixture(params=names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(name: str, **parameters: Any) -> Allocator:
    sites = 2 if create(name, budget=0.1, rng=np.random.default_rng(1)).most_sites == 2 else 5
    allocator = create(name, budget=0.1, rng=np.random.default_rng(1), **parameters)
    allocator.add(np.arange(sites), np.ones(sites), np.ones(sites))
    return allocator


def slots_of(allocator: Allocator) -> NDArray[np.int64]:
    return np.arange(len(allocator.rates()))


def poll(allocator: Allocator, steps: int, begin: float = NOW) -> None:
    """In fixed steps; the lower the slot, the oftener it changes."""
    rng, slots = np.random.default_rng(2), slots_of(allocator)
    last = np.full(len(slots), begin)
    for step in range(1, steps + 1):
        now = begin + 10.0 * step
        chosen = allocator.select(now - last, now, np.ones(len(slots), bool), 1)
        changed = rng.random(len(chosen)) < 0.9 / (1 + chosen)
        allocator.observe(chosen, now - last[chosen], EvidenceBatch(changed), now)
        last[chosen] = now


def learned(name: str, steps: int = 60, **parameters: Any) -> State:
    allocator = made(name, **parameters)
    poll(allocator, steps)
    return allocator.site_state(slots_of(allocator)), allocator.shared_state()


def put_back(name: str, rows: NDArray[np.uint8], shared: bytes, **parameters: Any) -> Allocator:
    allocator = made(name, **parameters)
    allocator.restore(slots_of(allocator), rows, shared)
    return allocator


def assert_works(allocator: Allocator) -> None:
    slots = slots_of(allocator)
    for _ in range(2):
        assert np.isfinite(allocator.urgency(np.linspace(0.0, 1e4, len(slots)), NOW + 1e4)).all()
        assert np.isfinite(allocator.urgency(np.full(len(slots), np.inf), NOW + 1e4)).all()
        assert not np.isinf(allocator.rates()).any()
        poll(allocator, 3, NOW + 1e4)
        allocator.observe(slots, np.full(len(slots), 30.0), EvidenceBatch(slots % 2 == 0), NOW + 2e4)
    allocator.restore(slots, allocator.site_state(slots), allocator.shared_state())


def flipped(data: bytes, rng: np.random.Generator, times: int) -> Iterator[bytes]:
    """The bytes with one bit of them changed, at so many random places."""
    for at, bit in zip(rng.integers(len(data), size=times).tolist(), rng.integers(8, size=times).tolist(), strict=True):
        yield data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def repacked(name: str, shared: bytes, change: Callable[[dict[str, NDArray[Any]]], object]) -> bytes:
    """The state with its arrays changed, and a checksum that fits."""
    version = VERSIONS.get(name, 1)
    arrays = unpack(name, version, shared)
    change(arrays)
    return pack(name, version, arrays)


def test_any_damage_to_what_was_learned_in_common_is_told(name: str) -> None:
    rows, shared = learned(name)
    rng = np.random.default_rng(SEED)
    header = shared.index(b"\n") + 1
    damaged = [*flipped(shared, rng, SHARED_FLIPS)]
    damaged += [part + shared[header:] for part in flipped(shared[:header], rng, SHARED_FLIPS)]
    damaged += [shared[:at] for at in rng.integers(len(shared), size=50).tolist()]
    damaged += [shared + b"\0", shared[:header] + b"\0" + shared[header:]]
    allocator = made(name)
    for bytes_ in damaged:
        with pytest.raises(InvalidValueError, match="shared_state"):
            allocator.restore(slots_of(allocator), rows, bytes_)


def test_arrays_of_another_name_kind_or_size_are_refused(name: str) -> None:
    rows, shared = learned(name)
    version = VERSIONS.get(name, 1)
    arrays = unpack(name, version, shared)
    odd = [pack(name, version, {**arrays, "odd": np.zeros(3)})]
    for key, kept in arrays.items():
        rest = {other: array for other, array in arrays.items() if other != key}
        another = kept.astype(np.int64) if kept.dtype.kind == "f" else kept.astype(np.float64)
        odd += [pack(name, version, changed) for changed in (rest, {**rest, "odd": kept}, {**rest, key: another})]
        if kept.size:
            odd.append(pack(name, version, {**rest, key: kept[:-1]}))
        odd.append(pack(name, version, {**rest, key: np.append(kept, kept[-1:] + 1 if kept.size else np.zeros(1))}))
        if kept.dtype.kind == "f" and kept.size:
            odd.append(pack(name, version, {**rest, key: kept * np.nan}))
    allocator = made(name)
    for state in odd:
        with pytest.raises(InvalidValueError):
            allocator.restore(slots_of(allocator), rows, state)


def test_damaged_rows_are_refused_or_do_no_harm(name: str) -> None:
    rows, shared = learned(name)
    if not rows.size:
        pytest.skip("keeps nothing of a site")
    rng, refused = np.random.default_rng(SEED), 0
    for data in flipped(rows.tobytes(), rng, ROW_FLIPS // (10 if len(rows) == 2 else 1)):
        try:
            allocator = put_back(name, np.frombuffer(data, np.uint8).reshape(rows.shape), shared)
        except InvalidValueError as error:
            assert error.field == "site_state"  # noqa: PT017
            refused += 1
        else:
            assert_works(allocator)
    assert refused > 0


def test_rows_of_random_bytes_are_refused(name: str) -> None:
    rows, shared = learned(name)
    if not rows.size:
        pytest.skip("keeps nothing of a site")
    rng = np.random.default_rng(SEED)
    for _ in range(5):
        with pytest.raises(InvalidValueError, match="site_state"):
            put_back(name, rng.integers(256, size=rows.shape, dtype=np.uint8), shared)


def test_a_state_from_before_the_checksum_is_refused_by_name(name: str) -> None:
    rows, shared = learned(name, 3)
    old = shared.replace(f', "envelope": {ENVELOPE}'.encode(), b"")
    with pytest.raises(InvalidValueError, match=f"envelope {ENVELOPE}; given: .*{name}.*None"):
        put_back(name, rows, old)


@pytest.mark.parametrize("reorder_at", [0, 59, 60, -1])
def test_htraa_refuses_progress_beyond_the_next_sorting(reorder_at: int) -> None:
    rows, shared = learned("htraa")

    def change(arrays: dict[str, NDArray[Any]]) -> None:
        assert arrays["progress"][2] == 60
        arrays["progress"][3] = reorder_at

    with pytest.raises(InvalidValueError, match="progress of the state"):
        put_back("htraa", rows, repacked("htraa", shared, change))


def test_htraa_that_never_sorted_is_refused_where_leaves_are_sorted() -> None:
    rows, shared = learned("htraa", 1200, reorder=False)
    assert_works(put_back("htraa", rows, shared, reorder=False))
    with pytest.raises(InvalidValueError, match="progress of the state"):
        put_back("htraa", rows, shared)


@pytest.mark.parametrize("state", [501.0, 2.5, -1.0, np.nan, np.inf])
def test_lakg_refuses_states_that_are_none(state: float) -> None:
    rows, shared = learned("lakg")
    numbers = rows.view("<f8").copy()
    numbers[2, -1] = state
    with pytest.raises(InvalidValueError, match="whole state from 1 to 500"):
        put_back("lakg", numbers.view(np.uint8), shared)


def test_lspe_refuses_luck_that_is_not_a_number() -> None:
    rows, shared = learned("lspe")
    with pytest.raises(InvalidValueError, match="luck"):
        put_back("lspe", rows, repacked("lspe", shared, lambda arrays: arrays["luck"].fill(np.nan)))


def test_lspe_that_made_no_step_is_put_back() -> None:
    rows, shared = learned("lspe", 0)
    assert_works(put_back("lspe", rows, shared))


def test_rows_are_as_long_as_before() -> None:
    """The database keeps one for each site: 167 bytes of `whittle`."""
    rows, _ = learned("whittle", 3)
    assert rows.shape == (5, 167)


def test_rows_with_a_long_run_of_the_page_are_read() -> None:
    rows, shared = learned("whittle")
    older = rows.copy().view(ROW)
    older["unused"] = 1_000
    now, before = made("whittle"), made("whittle")
    now.restore(slots_of(now), rows, shared)
    before.restore(slots_of(before), older.view(np.uint8).reshape(rows.shape), shared)
    np.testing.assert_array_equal(now.rates(), before.rates())
    np.testing.assert_array_equal(before.site_state(slots_of(before)), rows)
