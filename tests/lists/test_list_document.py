"""Lists as TOML and YAML documents: what they say of each site, and what they are refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pollerd.api.list_formats import parse_entries
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.lists.list_document import MAX_BYTES, read_document
from pollerd.site_settings import Access, Credentials, SiteSpec

TOML = b"""
[defaults]
weight = 2
min_interval = "5m"
tags = ["all"]
proxy = "http://proxy.example:3128"

[[sites]]
url = "https://a.example"

[[sites]]
url = "https://b.example/x"
weight = 3
tags = []
max_interval = 86400
paused = true
credentials = { username = "reader", password_file = "b.pw" }
headers = { Accept-Language = "en", Cookie = { file = "b.cookie" } }
"""
YAML = b"""
defaults:
  weight: 2
  min_interval: 5m
  tags: [all]
  proxy: http://proxy.example:3128
sites:
  - https://a.example
  - url: https://b.example/x
    weight: 3
    tags: []
    max_interval: 86400
    paused: true
    credentials: {username: reader, password_file: b.pw}
    headers:
      Accept-Language: en
      Cookie: {file: b.cookie}
"""


def read(data: bytes, form: str, folder: Path) -> list[Any]:
    return [found for _, found in parse_entries(read_document(data, form, folder).entries)]


@pytest.mark.parametrize(("data", "form"), [(TOML, "toml"), (YAML, "yaml"), (b"\xef\xbb\xbf" + TOML, "toml")])
def test_defaults_hold_for_sites_that_say_nothing_else(data: bytes, form: str, tmp_path: Path) -> None:
    (tmp_path / "b.pw").write_text("hush\n")
    (tmp_path / "b.cookie").write_text("id=7\n")
    proxy = "http://proxy.example:3128"
    access = Access((("Accept-Language", "en"), ("Cookie", "id=7")), Credentials("reader", "hush"), proxy)
    assert read(data, form, tmp_path) == [
        SiteSpec("https://a.example/", 2.0, tags=("all",), min_interval=300.0, access=Access(proxy=proxy)),
        SiteSpec("https://b.example/x", 3.0, None, (), 300.0, 86_400.0, access=access, paused=True),
    ]


def test_null_takes_a_default_away(tmp_path: Path) -> None:
    data = b"defaults: {max_interval: 1h, weight: 2}\nsites: [{url: 'https://a.example', max_interval: null}]"
    assert read(data, "yaml", tmp_path) == [SiteSpec("https://a.example/", 2.0)]


@pytest.mark.parametrize("data", [b"", b"# nothing\n", b"sites: []", b"defaults: {weight: 2}"])
def test_a_list_may_be_empty(data: bytes, tmp_path: Path) -> None:
    assert read(data, "yaml", tmp_path) == []


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{weight: 2}", "url: is needed"),
        ("7", "site: must be a URL, or a table with a url; given: 'a number'"),
        ("{url: 'https://a.example', wieght: 2}", "wieght: unknown setting; did you mean weight?"),
        ("{url: 'https://a.example', weight: heavy}", "weight: must be a number; given: 'heavy'"),
        ("{url: 'https://a.example', weight: -1}", "weight: must be 0 to 1,000,000,000; given: -1.0"),
        ("{url: 'https://a.example', min_interval: soon}", "min_interval: must be seconds, or a number with s, m, h"),
        ("{url: 'https://a.example', tags: [2024]}", "tags: must be a list of texts"),
        ("{url: 'https://a.example', proxy: 'http://p:1', proxy_file: x}", "proxy: give proxy or proxy_file, not both"),
        ("{url: 'https://a.example', proxy_file: none.such}", "proxy_file: there is no file "),
        ("{url: 'https://a.example', credentials: {token_file: 7}}", "credentials.token_file: must be the name of"),
        ("{url: 'https://a.example', headers: {Cookie: {env: X}}}", "headers.Cookie: must be a text, or a table that"),
        ("{url: 'https://a.example', credentials: {pass: geheim}}", "credentials: must be username and password"),
    ],
)
def test_a_site_that_cannot_be_used_spoils_no_other(entry: str, told: str, tmp_path: Path) -> None:
    data = f"sites:\n  - https://first.example\n  - {entry}\n  - https://last.example\n".encode()
    entries = list(parse_entries(read_document(data, "yaml", tmp_path).entries))
    assert [number for number, _ in entries] == [1, 2, 3]
    assert isinstance(entries[0][1], SiteSpec)
    assert isinstance(entries[2][1], SiteSpec)
    assert isinstance(entries[1][1], InvalidValueError)
    assert str(entries[1][1]).startswith(told)
    assert "geheim" not in str(entries[1][1])


@pytest.mark.parametrize(
    ("form", "data", "told"),
    [
        ("toml", b"[[sites]\n", "no TOML: .*line 1"),
        ("toml", b"x = " + b"[" * 100_000, "no TOML"),
        ("toml", b"\xff", "no TOML"),
        ("toml", b"site = []", "unknown site; known: defaults, tags, sites"),
        ("toml", b"sites = 'x'", "sites must be a list of tables; given: a text"),
        (
            "yaml",
            b"- https://a.example",
            "a table, which can have defaults, tags, sites, sources, signal_sources, channels, rules; given: a list",
        ),
        ("yaml", b"defaults: [1]", "defaults must be a table"),
        ("yaml", b"defaults: {url: 'https://a.example'}", "defaults: url belongs to a site"),
        ("yaml", b"defaults: {credentials: {token: geheim}}", "credentials belong to a site"),
        ("yaml", b"defaults: {body: geheim}", "body belong to a site"),
        ("yaml", b"defaults: {render: {steps: [{type: '#p', secret: geheim}]}}", "a secret belongs to a site"),
        ("yaml", b"sites:\n  - {url: x,\n", "line 3: no YAML"),
        ("yaml", b"sites:\n- !!python/object/apply:os.system ['true']", "line 2: no YAML: could not determine"),
        ("yaml", b"sites:\n- url: a\n  url: b\n", "line 3: url is given twice"),
        ("yaml", b"sites: [{[1]: 2}]", "line 1: no YAML"),
        ("yaml", b"sites: 2024-99-99", "a number or a date that is none"),
        ("yaml", b"sites: " + b"9" * 10_000, "a number or a date that is none"),
        ("yaml", b"a: 1\n---\nb: 2\n", "no YAML"),
        ("yaml", b"\x00\x01", "no YAML"),
        ("yaml", b"[" * 10_000, "nested deeper than 20"),
        ("yaml", b"x: &a [1]\ny: *a\n", r"line 2: alias \*a must be written out"),
        ("yaml", b" " * (MAX_BYTES + 1), "at most 16777216 bytes"),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_whole(form: str, data: bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        list(read_document(data, form, tmp_path).entries)
    assert "geheim" not in str(caught.value)


def test_a_billion_laughs_are_not_laughed(tmp_path: Path) -> None:
    """Neither by lists of lists nor by merged keys, which copy what they merge."""
    lists = ["a0: &a0 [lol, lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    merged = ["a0: &a0 {k: 1}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    for bomb in (lists, merged):
        with pytest.raises(ConfigError, match="line 2: alias"):
            read_document("\n".join(bomb).encode(), "yaml", tmp_path)


def test_a_secret_file_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 70_000)
    found = read(b"sites: [{url: 'https://a.example', credentials: {token_file: big}}]", "yaml", tmp_path)
    assert str(found[0]) == "credentials.token_file: must be a file of at most 65536 bytes; given: 'big'"
