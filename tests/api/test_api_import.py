"""Importing lists over REST."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.conftest import Api

TEXT = {"Content-Type": "text/plain"}


async def test_good_lines_are_added_and_bad_ones_named(api: Api) -> None:
    await api.add("https://known.org/")
    data = b"# mine\nhttps://a.org/\nnonsense\nhttps://known.org\nhttps://A.org/#twice\nftp://x.org/\xff\n"
    reply = await api("POST", "/sites/import", data=data, headers=TEXT)
    assert reply.status == 200
    assert (reply.json["added"], reply.json["existing"], reply.json["rejected_count"]) == (1, 2, 2)
    assert [line["line"] for line in reply.json["rejected"]] == [3, 6]
    assert all(line["reason"].startswith("url: must be ") for line in reply.json["rejected"])
    assert len((await api("GET", "/sites")).json["items"]) == 2


async def test_repeating_an_import_adds_nothing(api: Api) -> None:
    data = "".join(f"https://h{n % 50}.example/{n}\n" for n in range(12_001)).encode()
    first = (await api("POST", "/sites/import", data=data, headers=TEXT)).json
    second = (await api("POST", "/sites/import", data=data, headers=TEXT)).json
    assert (first["added"], first["existing"]) == (12_001, 0)
    assert (second["added"], second["existing"]) == (0, 12_001)


async def test_settings_come_with_csv_and_json_lines(api: Api) -> None:
    for content_type, data in [
        ("text/csv", b"url,weight,tags,max_interval\nhttps://a.org/,3,x;y,60\n"),
        ("application/x-ndjson", b'{"url": "https://b.org/", "weight": 3, "tags": ["x", "y"], "max_interval": 60}'),
    ]:
        reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": content_type})
        expected = {"added": 1, "existing": 0, "rejected": [], "rejected_count": 0, "stopped": None}
        assert reply.json.items() >= expected.items()
    sites = (await api("GET", "/sites?tag=y")).json["items"]
    assert [(s["url"], s["weight"], s["tags"], s["max_interval"]) for s in sites] == [
        ("https://a.org/", 3.0, ["x", "y"], 60.0),
        ("https://b.org/", 3.0, ["x", "y"], 60.0),
    ]


async def test_whatever_a_list_may_say_can_be_kept(api: Api) -> None:
    data = (
        b"url,weight,cost,min_interval,max_interval,half_life,min_yield,tags\n"
        b"https://a.org/,0.001,0.01,0.001,0.001,0.001,0,\n"
        b"https://b.org/,1e9,10000,1e9,1e9,1e9,0.999999,\xc3\xa9\xf0\x9f\x90\x9d\n"
    )
    reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": "text/csv"})
    assert (reply.status, reply.json.get("added")) == (200, 2), reply.body


async def test_a_deleted_site_comes_back_when_it_is_imported(api: Api) -> None:
    site_id = await api.add("https://a.org/")
    await api("DELETE", f"/sites/{site_id}")
    reply = await api("POST", "/sites/import", data=b"https://a.org/", headers=TEXT)
    assert reply.json["added"] == 1


@pytest.mark.parametrize("content_type", ["application/json", "text/html", ""])
async def test_another_type_is_unsupported(api: Api, content_type: str) -> None:
    reply = await api("POST", "/sites/import", data=b"https://a.org/", headers={"Content-Type": content_type})
    assert (reply.status, reply.json["status"]) == (415, 415)
    assert "text/csv" in reply.json["detail"]


async def test_the_format_may_be_named_beside_the_list(api: Api) -> None:
    octets = {"Content-Type": "application/octet-stream"}
    as_csv = await api("POST", "/sites/import?format=csv", data=b"url,weight\nhttps://a.org/,3\n", headers=octets)
    as_text = await api("POST", "/sites/import", data=b"https://b.org/\n", headers=octets)
    assert [reply.json["added"] for reply in (as_csv, as_text)] == [1, 1]
    named = await api("POST", "/sites/import?format=jsonl", data=b'{"url": "https://c.org/"}', headers=TEXT)
    assert named.json["added"] == 1
    unknown = await api("POST", "/sites/import?format=xls", data=b"x", headers=octets)
    assert (unknown.status, unknown.json["errors"][0]["field"]) == (422, "format")


async def test_a_compressed_list_is_unsupported(api: Api) -> None:
    reply = await api("POST", "/sites/import", data=b"x", headers={**TEXT, "Content-Encoding": "gzip"})
    assert reply.status == 415


async def test_a_csv_header_that_cannot_be_used_is_named(api: Api) -> None:
    reply = await api("POST", "/sites/import", data=b"https://a.org/\n", headers={"Content-Type": "text/csv"})
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "header")


def junk(lines: int, good_each: int = 0) -> bytes:
    """Bad lines, with a good one before each so many of them."""
    text = ""
    for n in range(lines):
        text += f"https://good.example/{n}\n" if good_each and n % good_each == 0 else ""
        text += "nonsense\n"
    return text.encode()


@pytest.mark.parametrize(
    ("form", "header", "bad"),
    [("text/plain", b"", b"x\n"), ("text/csv", b"url,weight\n", b"x,1\n"), ("application/x-ndjson", b"", b"{\n")],
)
async def test_after_a_thousand_bad_lines_the_rest_is_not_read(api: Api, form: str, header: bytes, bad: bytes) -> None:
    good = {"text/plain": b"https://a.org/\n", "text/csv": b"https://a.org/,1\n"}.get(
        form, b'{"url": "https://a.org/"}\n'
    )
    data = header + good + bad * 1_000_000 + good.replace(b"a.org", b"late.org")
    reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": form})
    assert reply.status == 200
    assert (reply.json["added"], reply.json["rejected_count"], len(reply.json["rejected"])) == (1, 1000, 1000)
    last = 1001 + len(header.splitlines())
    assert (reply.json["lines_read"], reply.json["rejected"][-1]["line"]) == (last, last)
    assert reply.json["stopped"].startswith(f"1,000 lines were rejected: read up to line {last}, no further")
    assert [site["url"] for site in (await api("GET", "/sites")).json["items"]] == ["https://a.org/"]


async def test_good_lines_between_are_added_up_to_where_it_stops(api: Api) -> None:
    reply = await api("POST", "/sites/import?max_rejected=20", data=junk(100, good_each=2), headers=TEXT)
    assert (reply.json["added"], reply.json["rejected_count"], reply.json["lines_read"]) == (10, 20, 30)
    assert reply.json["stopped"] is not None
    one = await api("POST", "/sites/import?max_rejected=1", data=junk(3), headers=TEXT)
    assert one.json["stopped"].startswith("1 line was rejected")
    whole = await api("POST", "/sites/import?max_rejected=100", data=junk(100, good_each=2), headers=TEXT)
    assert (whole.json["added"], whole.json["existing"], whole.json["stopped"]) == (40, 10, None)
    assert whole.json["lines_read"] == 150


@pytest.mark.parametrize("most", ["0", "-1", "100001", "many"])
async def test_how_many_is_a_number_in_a_range(api: Api, most: str) -> None:
    reply = await api("POST", f"/sites/import?max_rejected={most}", data=b"", headers=TEXT)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "max_rejected")


async def test_bad_outlines_count_too(api: Api) -> None:
    data = b"<opml><body>" + b"<outline xmlUrl='x'/>\n" * 5_000 + b"</body></opml>"
    reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": "text/x-opml"})
    assert (reply.json["rejected_count"], reply.json["lines_read"]) == (1000, 1000)
    assert reply.json["stopped"] is not None


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("text/plain", b"\n" * 2_000_000),
        ("text/plain", b"#\n" * 1_000_000),
        ("text/csv", b"url\n" + b"\n" * 2_000_000),
        ("application/x-ndjson", b"\n" * 2_000_000),
        ("text/x-opml", b"<opml><body>" + b"<a/>" * 1_000_000 + b"</body></opml>"),
    ],
)
async def test_nothing_at_all_does_not_hold_the_loop(api: Api, form: str, data: bytes) -> None:
    """Another call comes through while it is read."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    reply = await api("POST", "/sites/import", data=data, headers={"Content-Type": form})
    counting.cancel()
    assert (reply.status, reply.json["added"], reply.json["rejected"]) == (200, 0, [])
    assert turns > 40


async def test_a_header_is_not_sought_for_ever(api: Api) -> None:
    """Blank lines before it are passed over at once; lines of spaces that are not ASCII's are looked at one by one."""
    form = {"Content-Type": "text/csv"}
    reply = await api("POST", "/sites/import", data=b"\n" * 5_000 + b"url\n", headers=form)
    assert (reply.status, reply.json["added"]) == (200, 0)
    reply = await api("POST", "/sites/import", data="\N{NO-BREAK SPACE}\n".encode() * 5_000, headers=form)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, "header")
