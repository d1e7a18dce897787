"""Masks: a row says that the site's noise is known; which earlier polls were misled by it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from pollerd.errors import NotFoundError
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


async def test_a_mask_is_edited_with_what_the_next_poll_is_held_against(store: Store) -> None:
    (site,) = await add(store)
    polled = record((await store.sites.contexts([site]))[site], 10.0, b"a text")
    await store.commit(Batch([replace(polled, mask_changed=True)]))
    stale = (await store.sites.contexts([site]))[site]
    contents: list[Mapping[int, bytes]] = []

    def edit(context: SiteContext, stored: Mapping[int, bytes]) -> SiteContext:
        contents.append(stored)
        return replace(context, baseline=replace(context.baseline, mask=b"refused", fingerprint=b"another"))

    assert await store.sites.edit_masks(site, edit, 20.0)
    assert contents == [{stale.content_id: b"a text"}]
    after = (await store.sites.contexts([site]))[site]
    assert (after.baseline.mask, after.baseline.fingerprint, after.baseline.raw_fingerprint) == (
        b"refused",
        b"another",
        None,
    )
    assert (after.validators.etag, after.settings_changed_at) == (None, 20.0)
    # A poll from before the edit that learned a mask does not bring the old one back.
    late = record(stale, 21.0)
    late = replace(late, context=replace(late.context, baseline=replace(stale.baseline, mask=b"old")))
    await store.commit(Batch([replace(late, mask_changed=True)]))
    assert (await store.sites.contexts([site]))[site].baseline.mask == b"refused"
    assert not await store.sites.edit_masks(site, lambda context, stored: None, 30.0)
    with pytest.raises(NotFoundError):
        await store.sites.edit_masks(site + 1, edit, 30.0)


async def test_hidden_changes_are_counted_and_forgotten_with_the_page(store: Store) -> None:
    (site,) = await add(store)
    for at in (10.0, 20.0, 30.0):
        polled = record((await store.sites.contexts([site]))[site], at)
        await store.commit(Batch([replace(polled, hid_change=at > 10.0)]))
    assert (await store.sites.get(site)).hidden_changes == 2
    await store.sites.update(site, {"url": "http://other.example/", "host": "other.example:80"}, 40.0)
    assert (await store.sites.get(site)).hidden_changes == 0
