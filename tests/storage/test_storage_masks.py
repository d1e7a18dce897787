"""Masks: a row says that the site's noise is known; which earlier polls were misled by it."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.storage.store import Store
from pollerd.storage.values import Batch, SiteContext
from tests.storage.samples import add, poll_all, record


async def masked(store: Store, site: int, at: float, mask: bytes, *, misled: bool) -> SiteContext:
    """Commits a poll that taught the mask; the site's context as stored."""
    context = (await store.sites.contexts([site]))[site]
    polled = record(context, at)
    baseline = replace(context.baseline, mask=mask, proven=True)
    context = replace(polled.context, baseline=baseline)
    await store.commit(Batch([replace(polled, context=context, mask_changed=True, misled=misled)]))
    return (await store.sites.contexts([site]))[site]


async def replayed(store: Store) -> list[float]:
    return [at async for piece in store.history.recent_polls(64) for at in piece.at.tolist()]


async def test_a_row_says_that_the_noise_is_known_even_if_there_is_none(store: Store) -> None:
    site, other = await add(store, 2)
    assert not (await store.sites.contexts([site]))[site].baseline.proven
    assert (await masked(store, site, 10.0, b"", misled=False)).baseline.proven
    found = await masked(store, site, 20.0, b"rules", misled=False)
    assert (found.baseline.mask, found.baseline.proven) == (b"rules", True)
    assert not (await store.sites.contexts([other]))[other].baseline.proven


async def test_only_what_misled_is_not_replayed(store: Store) -> None:
    (site,) = await add(store)
    await poll_all(store, [site], 10.0)
    await masked(store, site, 20.0, b"", misled=False)
    assert await replayed(store) == [10.0, 20.0]
    await poll_all(store, [site], 30.0, b"noise", changed=True)
    await masked(store, site, 40.0, b"rules", misled=True)
    assert await replayed(store) == [40.0]
    await masked(store, site, 50.0, b"wider rules", misled=False)
    assert await replayed(store) == [40.0, 50.0]
