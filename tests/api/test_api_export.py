"""Exported lists come back equal, whatever the format can hold, on both databases."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.api.formats import Format
from pollerd.api.inputs import check_spec
from pollerd.api.list_formats import parse_list
from pollerd.api.lists import HEADS, TAILS, WRITERS
from pollerd.errors import DatabaseUnavailableError, InvalidValueError
from pollerd.site_settings import RespectTtl, SiteSpec
from pollerd.storage.store import Store
from tests.api.conftest import Api
from tests.support.postgres import postgres_database

SITES: list[dict[str, Any]] = [
    {"url": "https://plain.org/"},
    {
        "url": "https://all.org/?a=1,2&b=%22quoted%22#x",
        "weight": 0.1,
        "cost": 1e-2,
        "tags": ['<b>&"quotes"\'', "comma, space", "=1+1", "été 🐝"],
        "min_interval": 0.1 + 0.2,
        "max_interval": 1e9,
        "half_life": 1 / 3,
        "deadline": 7.25,
        "min_yield": 0.025,
        "respect_ttl": False,
    },
    {"url": "https://xn--bcher-kva.example/a%20b?q=%C3%A9;x", "min_interval": 0.0, "tags": ["true"]},
]


@pytest.fixture
def postgres_url() -> Iterator[str]:
    with postgres_database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path) -> AsyncIterator[Store]:
    """In place of the suite's: both databases."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{shutil.copy(empty_database, tmp_path / 'poll.db')}"
    else:
        url = request.getfixturevalue("postgres_url")
    opened = await Store.open(url)
    yield opened
    await opened.close()


async def specs(store: Store) -> list[SiteSpec]:
    return [site.spec async for site in store.sites.iterate()]


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON_LINES, Format.OPML])
async def test_into_an_empty_daemon_come_equal_sites(api: Api, form: Format) -> None:
    ids = [await api.add(str(site["url"]), **{k: v for k, v in site.items() if k != "url"}) for site in SITES]
    await api("POST", f"/sites/{ids[0]}/pause")
    before = await specs(api.store)
    exported = await api("GET", f"/sites/export?format={form}")
    assert (exported.status, exported.headers["Content-Type"].partition(";")[0]) == (200, form.media)
    assert exported.headers["Content-Disposition"] == f'attachment; filename="sites.{form.suffix}"'
    for site_id in ids:
        await api("DELETE", f"/sites/{site_id}")
    assert await specs(api.store) == []
    imported = await api("POST", "/sites/import", data=exported.body, headers={"Content-Type": form.media})
    expected = {"added": 3, "existing": 0, "rejected": [], "rejected_count": 0, "stopped": None}
    assert imported.json.items() >= expected.items()
    assert await specs(api.store) == before
    assert [spec.paused for spec in before] == [True, False, False]
    sites = (await api("GET", "/sites")).json["items"]
    assert [site["state"] for site in sites] == ["paused", "active", "active"]
    # The daemon, too, knows at once which one it is not to poll.
    assert [site["next_poll_at"] is None for site in sites] == [True, False, False]
    assert (await api("GET", f"/sites/export?format={form}")).body == exported.body


async def test_text_holds_the_urls(api: Api) -> None:
    await api.add("https://a.org/", weight=2.0)
    await api.add("https://b.org/#x")
    reply = await api("GET", "/sites/export?format=text")
    assert (reply.body, reply.headers["Content-Type"]) == (
        b"https://a.org/\nhttps://b.org/\n",
        "text/plain; charset=utf-8",
    )


async def test_secrets_are_not_exported(api: Api, request: pytest.FixtureRequest) -> None:
    if "postgres" in request.node.name:
        return  # a server needs a key for secrets; what is written does not depend on the database
    await api.add("https://a.org/", headers={"X-Key": "s3cret"}, credentials={"token": "s3cret"})
    for form in Format:
        body = (await api("GET", f"/sites/export?format={form}")).body
        assert b"https://a.org/" in body
        assert b"s3cret" not in body


async def test_many_sites_come_in_pieces_and_none_is_missing(api: Api) -> None:
    data = "".join(f"https://h{n % 7}.example/{n}\n" for n in range(2_500)).encode()
    await api("POST", "/sites/import", data=data, headers={"Content-Type": "text/plain"})
    assert (await api("GET", "/sites/export?format=text")).body == data
    assert (await api("GET", "/sites/export")).body.count(b"\n") == 2_500


async def test_an_export_that_breaks_off_is_seen_to_be_cut_short(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "".join(f"https://h.example/{n}\n" for n in range(1_500)).encode()
    await api("POST", "/sites/import", data=data, headers={"Content-Type": "text/plain"})
    read = api.store.sites.page

    async def failing(limit: int, cursor: str | None = None) -> object:
        if cursor is not None:
            raise DatabaseUnavailableError("gone")
        return await read(limit=limit)

    monkeypatch.setattr(api.store.sites, "page", failing)
    with pytest.raises(aiohttp.ClientPayloadError):
        await api("GET", "/sites/export?format=text")


async def test_a_format_that_is_none_is_named(api: Api) -> None:
    reply = await api("GET", "/sites/export?format=xls")
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "format")
    assert "opml" in reply.json["errors"][0]["allowed"]


SECONDS = st.none() | st.floats(0.001, 1e9)
TAGS = st.lists(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=64), max_size=3)
SPECS = st.builds(
    SiteSpec,
    url=st.text("abc123/?&='\"<>;,%é", max_size=12).map(lambda path: f"https://example.org/{path}"),
    weight=st.floats(0, 1e9),
    cost=st.floats(0.01, 10_000),
    tags=TAGS.map(tuple),
    half_life=SECONDS,
    min_yield=st.none() | st.floats(0, 1, exclude_max=True),
    respect_ttl=st.none() | st.sampled_from(RespectTtl),
    paused=st.booleans(),
)


@settings(deadline=None)
@given(SPECS, st.sampled_from([Format.CSV, Format.JSON_LINES, Format.OPML]))
def test_whatever_a_site_is_comes_back(spec: SiteSpec, form: Format) -> None:
    try:
        checked = check_spec(spec)
    except InvalidValueError:
        return
    text = HEADS.get(form, "") + WRITERS[form](checked) + TAILS.get(form, "")
    assert [found for _, found in parse_list(text.encode(), form.media)] == [checked]


EVIL = ("=1+1", "+49", "-3", "@SUM(A1)", "'=quoted", "''=twice", "'plain", "plain=")


async def test_no_cell_of_a_csv_is_a_formula_and_all_come_back(api: Api) -> None:
    for n, text in enumerate(EVIL):
        await api.add(f"http://{n}.invalid/", title=text, tags=[text])
    exported = (await api("GET", "/sites/export?format=csv")).body
    rows = list(csv.DictReader(io.StringIO(exported.decode())))
    assert {cell[0] for row in rows for cell in row.values() if cell} & set("=+-@\t\r") == set()
    assert [row["title"] for row in rows][:2] == ["'=1+1", "'+49"]
    for site in (await api("GET", "/sites")).json["items"]:
        await api("DELETE", f"/sites/{site['id']}")
    reply = await api("POST", "/sites/import", data=exported, headers={"Content-Type": "text/csv"})
    assert reply.json["added"] == len(EVIL)
    items = sorted((await api("GET", "/sites")).json["items"], key=lambda site: str(site["url"]))
    assert [(site["title"], *site["tags"]) for site in items] == [(text, text) for text in EVIL]
