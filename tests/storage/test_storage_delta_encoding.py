"""Contents that differ little from the one before lean on it; whatever is thrown away, the rest can be read."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pollerd.storage import migrate
from pollerd.storage.encoding import Base, pack, pack_all, unpack, unpack_all
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from pollerd.storage.values import Batch
from tests.storage.samples import add, query, record

PAGE = b"".join(b"line %d of the page\n" % number for number in range(100))


def edition(number: int) -> bytes:
    """A page of which only its first line is new; the first 16 bytes are its fingerprint."""
    return b"edition %08d\n" % number + PAGE


async def change(store: Store, site: int, at: float, content: bytes) -> int:
    """Polls the site as the daemon does, what it held being read first; the id of its content."""
    context = (await store.sites.contexts([site]))[site]
    await store.contents.load([context.content_id or 0])
    poll = record(context, at, content, changed=context.content_id is not None)
    poll = replace(poll, context=replace(poll.context, content_id=context.content_id))
    return (await store.commit(Batch([poll]))).content_ids[site]


async def rows(url: str) -> dict[int, tuple[int, int | None]]:
    """Size and base of each kept content."""
    found = await query(url, "SELECT id, size, base_id FROM content")
    return {content_id: (size, base_id) for content_id, size, base_id in found}


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
@example(b"aa", b"", b"aa", b"a")
def test_whatever_is_packed_comes_back(head: bytes, tail: bytes, old: bytes, new: bytes) -> None:
    base, content = head * 20 + old + tail * 20, head * 20 + new + tail * 20
    packed = pack_all([(1, content, Base(7, base)), (2, content, None)], 1)
    read = unpack_all([(1, packed[1].body, packed[1].base_id, pack(base)), (2, packed[2].body, None, None)])
    assert (read[1].content, read[2].content) == (content, content)
    assert read[1].base == (Base(7, base) if packed[1].base_id else Base(1, content))
    assert packed[2].base_id is None
    assert unpack(packed[2].body) == content


async def test_a_small_change_keeps_only_what_differs(store: Store, url: str) -> None:
    [site] = await add(store)
    ids = [await change(store, site, 10.0 * number, edition(number)) for number in range(1, 4)]
    kept = await rows(url)
    assert [kept[one][1] for one in ids] == [None, ids[0], ids[0]]
    assert kept[ids[1]][0] < 20 < kept[ids[0]][0]
    assert [(await store.contents.get(one)).body for one in ids] == [edition(1), edition(2), edition(3)]
    assert await store.contents.load(ids) == {one: edition(number) for number, one in enumerate(ids, 1)}


async def test_a_large_change_is_kept_whole_and_leaned_on_from_then_on(store: Store, url: str) -> None:
    [site] = await add(store)
    await change(store, site, 10.0, edition(1))
    rebuilt = await change(store, site, 20.0, PAGE[::-1])
    after = await change(store, site, 30.0, b"one more\n" + PAGE[::-1])
    assert (await rows(url))[rebuilt][1] is None
    assert (await rows(url))[after][1] == rebuilt


async def test_what_is_leaned_on_stays_as_long_as_anything_leans_on_it(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(keep_contents=3, content_retention_seconds=1.0))
    [site] = await add(store)
    ids = [await change(store, site, 10.0 * number, edition(number)) for number in range(1, 9)]
    assert (await store.prune(1000.0)).contents == 4
    assert set(await rows(url)) == {ids[0], *ids[-3:]}
    assert (await store.contents.load(ids[-3:]))[ids[-3]] == edition(6)
    fresh = [
        await change(store, site, 100.0 + number, edition(number) * 2 + b"x" * 900 * number) for number in (1, 2, 3)
    ]
    await store.prune(1000.0)
    assert set(await rows(url)) == set(fresh)
    await store.close()


async def test_under_the_cap_what_leans_goes_before_what_it_leans_on(url: str) -> None:
    store = await Store.open(url, settings=StorageSettings(content_cap_bytes=1))
    [site] = await add(store)
    ids = [await change(store, site, 10.0 * number, edition(number)) for number in range(1, 6)]
    await store.prune(1000.0)
    assert set(await rows(url)) == {ids[0], ids[-1]}
    assert await store.contents.load(ids) == {ids[0]: edition(1), ids[-1]: edition(5)}
    await store.close()


async def test_what_is_not_current_any_more_is_not_leaned_on(store: Store, url: str) -> None:
    [site] = await add(store)
    first = await change(store, site, 10.0, edition(1))
    await change(store, site, 20.0, PAGE[::-1])
    context = (await store.sites.contexts([site]))[site]
    await store.contents.load([first])
    poll = record(context, 30.0, edition(2), changed=True)
    result = await store.commit(Batch([replace(poll, context=replace(poll.context, content_id=first))]))
    assert (await rows(url))[result.content_ids[site]][1] is None
    assert (await store.contents.get(result.content_ids[site])).body == edition(2)


async def test_an_older_schema_gets_its_contents_whole(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    [site] = await add(store)
    ids = [await change(store, site, 10.0 * number, edition(number)) for number in range(1, 4)]
    await store.close()
    database = Database(database_url(url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0005"))
    await database.close()
    found = {one: (size, body) for one, size, body in await query(url, "SELECT id, size, body FROM content")}
    assert [unpack(found[one][1]) for one in ids] == [edition(1), edition(2), edition(3)]
    assert all(size == len(body) for size, body in found.values())
