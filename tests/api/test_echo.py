"""Nothing that may be secret comes back in an answer or a log, wherever it was given wrongly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import Api

S = "hunter2"
FORMS = {"text": "text/plain", "csv": "text/csv", "jsonl": "application/x-ndjson", "opml": "text/x-opml"}
OPML = '<opml><body xmlns:p="urn:pollerd:opml">'
LINES = [
    ("jsonl", f'{{"url": "https://a.org/", "credentials": {{"username": "u", "password": "{S}"}}'),
    ("jsonl", f'{{"url": "https://a.org/", "pass{S}'),
    ("jsonl", f'{{"url": "https://u:{S}@a.org/"'),
    ("jsonl", f'{{"url": "https://u:{S}@a.org/"}}'),
    ("jsonl", f'{{"url": "https://a.org/", "headers": {{"X-Key": "{S}"}}, }}'),
    ("jsonl", f'{{"url": "https://a.org/", "proxy": "http://u:{S}@p:1"'),
    ("jsonl", f'{{"url": "https://a.org/", "proxy": "http://u:{S}p:1"}}'),
    ("jsonl", f'{{"url": "https://a.org/", "http://u:{S}@b/": 1}}'),
    ("jsonl", f'{{"url": "https://a.org/", "passwort": "{S}"}}'),
    ("jsonl", f'{{"url": "https://a.org/", "note": {{"pin": "{S}"}}}}'),
    ("jsonl", f'{{"url": "https://a.org/", "note": "http://u:{S}@b/"}}'),
    ("jsonl", f'"{S}'),
    ("jsonl", f"Authorization: Basic {S}"),
    ("jsonl", f'{{"p\\u0061ss": "{S}"'),
    ("csv", f'url,headers\nhttps://a.org/,"{{""X-Key"": ""{S}"'),
    ("csv", f'url,weight\nhttps://a.org/,"{S}'),
    ("csv", f"url,weight\nhttps://u:{S}@a.org/,1"),
    ("csv", f"url,weight\nhttps://a.org/,https://u:{S}@b/"),
    ("csv", f"url,credentials\nhttps://a.org/,{S}"),
    ("csv", f"url,paused\nhttps://a.org/,token={S}"),
    ("csv", f"https://u:{S}@a.org/,1"),
    ("csv", f'url,"{{""password"": ""{S}""}}"\nx'),
    ("text", f"https://u:{S}@a.org/"),
    ("text", f"u:{S}@a.org"),
    ("text", f"https://a.org/ password={S}"),
    ("text", f"https://u:{S}/@a.org/"),
    ("opml", f"{OPML}<outline xmlUrl='https://u:{S}@a.org/'/></body></opml>"),
    ("opml", f"{OPML}<outline xmlUrl='https://a.org/' p:headers='{S}'/></body></opml>"),
    ("opml", f"{OPML}<outline xmlUrl='https://a.org/' p:weight='http://u:{S}@h'/></body></opml>"),
    ("opml", f"{OPML}<outline xmlUrl='https://a.org/' p:passphrase='{S}'/></body></opml>"),
    ("opml", f"{OPML}<outline xmlUrl='https://a.org/' password='{S}'></body></opml>"),
    ("opml", f"<!DOCTYPE opml [<!ENTITY u '{S}'>]>{OPML}</body></opml>"),
]


@pytest.mark.parametrize(("form", "text"), LINES)
async def test_of_a_rejected_line_no_secret_comes_back(api: Api, form: str, text: str) -> None:
    headers = {"Content-Type": FORMS[form]}
    reply = await api("POST", "/sites/import", data=(text + "\n").encode(), headers=headers)
    assert reply.status in (200, 422)
    assert reply.status == 422 or reply.json["rejected_count"] == 1
    assert S.encode() not in reply.body
    assert len(reply.body) < 1500


async def test_a_rejected_line_is_cut(api: Api) -> None:
    for form, line in (("jsonl", "{" + "x" * 100_000), ("text", "y" * 100_000), ("csv", 'url\n"' + "z" * 100_000)):
        reply = await api("POST", "/sites/import", data=line.encode(), headers={"Content-Type": FORMS[form]})
        assert len(reply.json["rejected"][0]["reason"]) < 500


@pytest.mark.parametrize(
    "body",
    [
        {"url": f"https://u:{S}@a.org/"},
        {"url": f"https://u:{S}@a.org/" + "x" * 5_000},
        {"url": f"u:{S}@a.org"},
        {"url": [f"https://u:{S}@a.org/"]},
        {"url": "https://a.org/", "weight": f"https://u:{S}@a.org/"},
        {"url": "https://a.org/", "weight": f"password={S}"},
        {"url": "https://a.org/", "tags": [f"token: {S}" + "x" * 500]},
        {"url": "https://a.org/", "passwd": S},
        {"url": "https://a.org/", f"https://u:{S}@a.org/": 1},
        {"url": "https://a.org/", "proxy": f"http://u:{S}@p:99999999"},
        {"url": "https://a.org/", "proxy": {"u": S}},
        {"url": "https://a.org/", "credentials": S},
        {"url": "https://a.org/", "credentials": {"username": "a:b", "password": S}},
        {"url": "https://a.org/", "headers": {"A b": S}},
        {"url": "https://a.org/", "headers": [S]},
    ],
)
async def test_of_a_refused_site_no_secret_comes_back(api: Api, body: dict[str, Any]) -> None:
    site = await api.add("https://b.org/")
    for method, path in (("POST", "/sites"), ("PATCH", f"/sites/{site}")):
        reply = await api(method, path, body)
        assert reply.status == 422
        assert S.encode() not in reply.body


async def test_nor_of_a_body_that_is_none_or_a_query(api: Api) -> None:
    as_json = {"Content-Type": "application/json"}
    for data in (f'{{"url": "https://u:{S}@a.org/"', f'"{S}"', f'["{S}"]'):
        reply = await api("POST", "/sites", data=data.encode(), headers=as_json)
        assert reply.status in (400, 422)
        assert S.encode() not in reply.body, json.loads(reply.body)
    for query in (f"token={S}", f"limit=https://u:{S}@a.org/", f"since=password={S}", f"cursor=https://u:{S}@h"):
        reply = await api("GET", f"/sites?{query}" if "since" not in query else f"/changes?{query}")
        assert reply.status == 422
        assert S.encode() not in reply.body
