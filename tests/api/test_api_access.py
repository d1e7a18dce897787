"""Who may call, how much may be sent, and what machines may ask without a token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers

from pollerd.api.auth.middleware import MAX_BODY_BYTES, foreign_page
from pollerd.api.settings import ApiSettings, Scope, hash_of
from pollerd.errors import InvalidValueError
from tests.api.conftest import Api, NewApi

FULL, READ = "full-token", "read-token"


def bearer(token: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


@pytest.fixture
async def guarded(new_api: NewApi) -> Api:
    return await new_api(ApiSettings.listening("127.0.0.1:0", token=FULL, read_token=READ))


@pytest.mark.parametrize("path", ["/sites", "/nowhere", "//openapi.json", "//nowhere", "/sites/1/explain"])
async def test_without_a_known_token_nothing_is_told(guarded: Api, path: str) -> None:
    for options in ({}, bearer("wrong"), bearer(""), {"headers": {"Authorization": "Basic Zm9v"}}):
        reply = await guarded("GET", path, **options)
        assert reply.status == 401
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")
        assert reply.headers["Content-Type"] == "application/problem+json"


async def test_scopes(guarded: Api) -> None:
    body = {"url": "https://example.org/"}
    assert (await guarded("POST", "/sites", body, **bearer(READ))).status == 403
    assert (await guarded("POST", "/sites", body, **bearer(FULL))).status == 201
    assert (await guarded("GET", "/sites", **bearer(READ))).status == 200
    assert (await guarded("DELETE", "/sites/1", **bearer(READ))).status == 403
    assert (await guarded("PUT", "/allocation", {"budget": 1}, **bearer(READ))).status == 403
    assert (await guarded("GET", "/sites", headers={"Authorization": f"bearer {FULL}"})).status == 200


async def test_a_token_kept_as_its_hash_lets_in_who_has_it(new_api: NewApi) -> None:
    api = await new_api(ApiSettings.listening("127.0.0.1:0", token=hash_of(FULL), read_token=hash_of(READ)))
    assert (await api("GET", "/sites", **bearer(FULL))).status == 200
    assert (await api("GET", "/sites", **bearer(READ))).status == 200
    refused = await api("POST", "/sites", {"url": "https://example.org/"}, **bearer(READ))
    assert refused.status == 403
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="pollerd", error="insufficient_scope", scope="write"'
    assert (await api("GET", "/sites", **bearer(hash_of(FULL)))).status == 401


async def test_health_and_metrics_need_no_token(guarded: Api) -> None:
    assert (await guarded("GET", "//readyz")).status == 200
    assert (await guarded("GET", "//metrics")).status == 200
    assert (await guarded("GET", "//healthz")).status in (200, 503)


async def test_without_tokens_pages_of_other_sites_are_kept_out(api: Api) -> None:
    own = api.root.removeprefix("http://")
    for headers, status in [
        ({"Host": "attacker.example"}, 403),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://{own}"}, 200),
        ({"Origin": f"http://evil@{own}"}, 403),
        ({"Origin": f"http://{own}/"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "LocalHost"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Referer": "https://attacker.example/linking-here"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 200),
    ]:
        assert (await api("GET", "/sites", headers=headers)).status == status, headers


ODD_HOSTS = [
    "[::1",
    "::1",
    "evil@127.0.0.1",
    "evil:pw@127.0.0.1:8080",
    "127.0.0.1@evil",
    "127.0.0.1#evil",
    "127.0.0.1:8080#evil",
    "127.0.0.1/evil",
    "127.0.0.1?evil",
    "127.0.0.1\\evil",
    "127.0.0.1, evil",
    "127.0.0.1 evil",
    "127.0.0.1:",
    "127.0.0.1:80:80",
    "127.0.0.1:http",
    "127.0.0.1:99999999",
    "127.0.0.1.",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.localhost",
    "localhost@evil",
    "[::1%25lo]",
    "[::1]evil",
    "[::ffff:8.8.8.8]",
    "0.0.0.0",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "%31%32%37.0.0.1",
    "//127.0.0.1",
    "",
    "\u0661\u0662\u0667.0.0.1",
]


async def raw(root: str, head: str) -> bytes:
    """The first line of the answer to a request written to the letter."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(root.rpartition(":")[2]))
    try:
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
        return await asyncio.wait_for(reader.readline(), 20)
    finally:
        writer.close()


@pytest.mark.parametrize("host", ODD_HOSTS)
async def test_a_host_must_be_loopback_to_the_letter(api: Api, host: str) -> None:
    said = await raw(api.root, f"GET /api/v1/sites HTTP/1.1\r\nHost: {host}")
    assert said.split()[1] in (b"400", b"403"), said
    assert foreign_page(Headers(raw=[(b"host", host.encode())]), writes=False) is not None


async def test_two_hosts_are_none(api: Api) -> None:
    for hosts in ("Host: 127.0.0.1\r\nHost: evil.example", "Host: evil.example\r\nHost: 127.0.0.1"):
        said = await raw(api.root, f"GET /api/v1/sites HTTP/1.1\r\n{hosts}")
        assert said.split()[1] in (b"400", b"403"), said


async def test_a_change_must_not_come_from_another_sites_page(api: Api) -> None:
    site, own = await api.add("https://example.org/"), api.root.removeprefix("http://")
    refused = [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "Cross-Site"},
        {"Sec-Fetch-Site": "sideways"},
        {"Referer": "https://attacker.example/"},
        {"Referer": f"https://attacker.example/#http://{own}/"},
        {"Referer": f"http://{own}@attacker.example/"},
        {"Referer": f"http://attacker@{own}/"},
        {"Referer": f"http://{own}.attacker.example/"},
        {"Referer": "http://127.0.0.1:1/"},
        {"Referer": "javascript:void(0)"},
        {"Origin": "https://attacker.example"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ]
    calls = [
        ("POST", "/sites", {"url": "https://example.org/b"}),
        ("POST", f"/sites/{site}/pause", None),
        ("PATCH", f"/sites/{site}", {"weight": 2}),
        ("PUT", "/allocation", {"budget": 7}),
        ("DELETE", f"/sites/{site}", None),
    ]
    for headers in refused:
        for method, path, body in calls:
            reply = await api(method, path, body, headers=headers)
            assert (reply.status, reply.json["status"]) == (403, 403), (method, headers)
    allowed = [
        {"Sec-Fetch-Site": "same-origin", "Origin": f"http://{own}", "Referer": f"http://{own}/pages/of/ours?q#f"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": f"http://{own}"},
        {},
    ]
    for n, headers in enumerate(allowed):
        assert (await api("POST", "/sites", {"url": f"https://example.org/{n}"}, headers=headers)).status == 201


async def test_with_a_token_it_does_not_matter_whose_page_calls(guarded: Api) -> None:
    headers = {"Authorization": f"Bearer {FULL}", "Sec-Fetch-Site": "cross-site", "Origin": "https://other.example"}
    assert (await guarded("POST", "/sites", {"url": "https://example.org/"}, headers=headers)).status == 201


async def test_with_a_token_any_name_will_do(guarded: Api) -> None:
    headers = {"Host": "pollerd.example", "Authorization": f"Bearer {FULL}"}
    assert (await guarded("GET", "/sites", headers=headers)).status == 200


async def test_a_body_over_the_limit_is_refused(api: Api) -> None:
    async def in_chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * (MAX_BODY_BYTES // 10)

    for data in (b" " * (MAX_BODY_BYTES + 1), in_chunks()):
        reply = await api("POST", "/sites", data=data, headers={"Content-Type": "application/json"})
        assert (reply.status, reply.json["status"]) == (413, 413)


async def test_an_import_may_be_larger(api: Api) -> None:
    reply = await api("POST", "/sites/import", data=b"#" * (MAX_BODY_BYTES + 1), headers={"Content-Type": "text/plain"})
    assert (reply.status, reply.json["added"]) == (200, 0)


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "example.org:80", "127.evil.org:80"])
def test_without_a_token_only_loopback_is_listened_on(listen: str) -> None:
    with pytest.raises(InvalidValueError, match="listen"):
        ApiSettings.listening(listen)
    assert ApiSettings.listening(listen, read_token=READ).tokens[0].scopes == {Scope.READ}


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:8080", "127.0.0.1", 8080), ("127.9.9.9:0", "127.9.9.9", 0), ("[::1]:1", "::1", 1)],
)
def test_loopback_needs_no_token(listen: str, host: str, port: int) -> None:
    settings = ApiSettings.listening(listen)
    assert (settings.host, settings.port, settings.tokens) == (host, port, ())


@pytest.mark.parametrize("listen", ["", "8080", ":8080", "localhost", "localhost:", "localhost:70000", "::1:8080"])
def test_a_listen_address_that_is_none_is_named(listen: str) -> None:
    with pytest.raises(InvalidValueError, match="listen"):
        ApiSettings.listening(listen)


@pytest.mark.parametrize("token", ["", "two words", "snow\u2603", "x" * 513, "a\n"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^token: must be [^;]*$"):
        ApiSettings.listening("127.0.0.1:1", token=token)


def test_tokens_are_not_kept_and_must_differ() -> None:
    assert FULL not in repr(ApiSettings.listening("127.0.0.1:1", token=FULL))
    with pytest.raises(InvalidValueError, match="read_token"):
        ApiSettings.listening("127.0.0.1:1", token=FULL, read_token=FULL)


async def test_what_is_not_known_is_named_with_what_is(api: Api) -> None:
    for method, path, body, known in [
        (
            "POST",
            "/sites",
            {"url": "https://example.org/", "foo": 3},
            "proxy, body, method, pdf_password, weight",
        ),
        ("PUT", "/allocation", {"foo": 3}, "allocator, objective, deadline, budget"),
        ("GET", "/sites?foo=3", None, "limit, cursor, sort, rate_min, rate_max, changed, q, tag, state, host"),
    ]:
        reply = await api(method, path, body)
        [error] = reply.json["errors"]
        assert (reply.status, error["field"], str(error["given"])) == (422, "foo", "3")
        assert error["allowed"].startswith(("unknown field; known: ", "unknown parameter; known: "))
        assert known in error["allowed"]
    secret = (await api("GET", "/sites?password=s3cret")).body
    assert b"password" in secret
    assert b"s3cret" not in secret
    line = b'{"url": "https://example.org/", "foo": 3}'
    reply = await api("POST", "/sites/import", data=line, headers={"Content-Type": "application/x-ndjson"})
    [rejected] = reply.json["rejected"]
    assert rejected["reason"].startswith("foo: unknown setting; known: url, weight")
