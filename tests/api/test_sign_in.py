"""Signing in and out: cookies, forms, limits, the first user, trusted proxies, and streams that end with sessions."""

from __future__ import annotations

import asyncio
import re
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
import argon2
import pytest
from starlette.requests import Request

from pollerd.api.auth import recognition as recognition_room
from pollerd.api.auth import sign_in as passwords_of
from pollerd.api.auth.limits import BURST, NAME_SECONDS, SignInLimits
from pollerd.api.auth.recognition import CallerRecognition, Tokens, cookie_name
from pollerd.api.auth.sign_in import (
    MAX_WAITING,
    VALID_SECONDS,
    BusyError,
    FirstUserCode,
    Passwords,
    SignIn,
    SignInError,
    Visitor,
    link,
)
from pollerd.api.http import CALLER, By, SignedIn, csrf_is_right, csrf_token, reader_of
from pollerd.api.settings import ApiSettings, SignInSettings
from pollerd.errors import DatabaseUnavailableError, DuplicateError, InvalidValueError
from pollerd.model import Role
from pollerd.storage.accounts import SESSION_IDLE_SECONDS
from pollerd.storage.store import Store
from tests.api.conftest import Api, NewApi, Reply
from tests.support.origin import until

PASSWORD = "correct horse battery"
HASH = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
COST = (passwords_of.PASSES, passwords_of.MEMORY_KIB)
SITE = {"url": "https://example.org/"}
NAMES = {Role.READ: "reader", Role.WRITE: "writer"}
HERE = Visitor("192.0.2.1", "Firefox")


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords that cost nothing: what they cost in the product has a test of its own."""
    monkeypatch.setattr(passwords_of, "PASSES", 1)
    monkeypatch.setattr(passwords_of, "MEMORY_KIB", 64)


def test_passwords_cost_what_is_recommended() -> None:
    """At least what OWASP's cheat sheet of 2025 has as its equal minima: 46 MiB and 1 pass, 19 MiB and 2."""
    assert COST >= (1, 46 * 1024)


@pytest.fixture
async def people(store: Store) -> None:
    for role in (Role.READ, Role.WRITE):
        await store.accounts.add_user(NAMES[role], role, HASH, 1.0)


@pytest.fixture
async def guarded(people: None, new_api: NewApi) -> Api:
    return await new_api()


async def signed_in(api: Api, name: str = "writer", **options: Any) -> dict[str, str]:
    """Signs in; the headers of what a browser sends then."""
    reply = await api("POST", "/sessions", {"name": name, "password": PASSWORD}, **options)
    assert reply.status == 201, reply.body
    return {"Cookie": f"pollerd={cookie_of(reply).value}", "Origin": api.root}


def cookie_of(reply: Reply, name: str = "pollerd") -> Any:
    """The cookie of a name, to which the port of the daemon's address is added."""
    ((found, cookie),) = SimpleCookie(reply.headers["Set-Cookie"]).items()
    assert re.fullmatch(rf"{name}-\d+", found)
    return cookie


async def test_with_the_first_user_everybody_must_sign_in(api: Api) -> None:
    assert (await api("GET", "/sites")).status == 200
    added = await api("POST", "/users", {"name": "ada", "password": PASSWORD, "role": "write"})
    assert (added.status, added.headers["Location"]) == (201, "/api/v1/users/ada")
    assert added.json.keys() == {"name", "role", "created_at", "has_password"}
    assert (await api("GET", "/sites")).status == 401
    assert (await api("GET", "//healthz")).status in (200, 503)
    headers = await signed_in(api, "ADA")
    assert (await api("POST", "/sites", SITE, headers=headers)).status == 201
    assert (await api("DELETE", "/users/ada", headers=headers)).status == 204
    assert (await api("GET", "/sites")).status == 200, "nobody is left to be"


async def test_a_cookie_that_no_script_and_no_other_site_can_use(guarded: Api) -> None:
    reply = await guarded("POST", "/sessions", {"name": "rea_der", "password": PASSWORD})
    assert reply.status == 401
    reply = await guarded("POST", "/sessions", {"name": "reader", "password": PASSWORD})
    cookie = cookie_of(reply)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "strict", "/", "")
    assert cookie.value not in reply.body.decode()
    behind = {"X-Forwarded-Proto": "https"}
    reply = await guarded("POST", "/sessions", {"name": "reader", "password": PASSWORD}, headers=behind)
    cookie = cookie_of(reply, "__Host-pollerd")
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "strict", "/", True)
    assert "domain=" not in reply.headers["Set-Cookie"].lower()
    sent = {"Cookie": f"__Host-pollerd={cookie.value}"}
    assert (await guarded("GET", "/sites", headers={**sent, **behind})).status == 200
    assert (await guarded("GET", "/sites", headers=sent)).status == 401, "as another host could have set it"


@pytest.mark.parametrize(
    ("host", "scheme", "name"),
    [
        ("example.org:8080", "http", "pollerd-8080"),
        ("example.org", "http", "pollerd"),
        ("[::1]:8443", "https", "__Host-pollerd-8443"),
        ("[fd00::80]", "http", "pollerd"),
        ("", "https", "__Host-pollerd"),
        ("example.org:a=b;c", "http", "pollerd"),
    ],
)
def test_the_cookie_is_named_by_the_port(host: str, scheme: str, name: str) -> None:
    assert cookie_name({"type": "http", "scheme": scheme, "headers": [(b"host", host.encode())]}) == name


async def test_daemons_on_two_ports_of_a_host_leave_each_others_sessions(people: None, new_api: NewApi) -> None:
    one, other = await new_api(), await new_api()
    who = {"name": "reader", "password": PASSWORD}
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        for daemon in (one, other):
            async with browser.post(f"{daemon.root}/api/v1/sessions", json=who) as answer:
                assert answer.status == 201
        kept = {cookie.key: cookie.value for cookie in browser.cookie_jar}
        assert len(set(kept.values())) == 2
        async with browser.delete(f"{one.root}/api/v1/sessions/current", headers={"Origin": one.root}) as answer:
            assert answer.status == 200
        async with browser.get(f"{one.root}/api/v1/sites") as answer:
            assert answer.status == 401
        async with browser.get(f"{other.root}/api/v1/sites") as answer:
            assert answer.status == 200


async def test_all_failures_are_answered_alike(guarded: Api) -> None:
    replies = [
        await guarded("POST", "/sessions", body)
        for body in (
            {"name": "writer", "password": "wrong"},
            {"name": "nobody", "password": PASSWORD},
            {"name": "\0", "password": ""},
            {"token": "wrong"},
        )
    ]
    assert {reply.status for reply in replies} == {401}
    assert len({reply.body for reply in replies}) == 1
    assert "Set-Cookie" not in replies[0].headers


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "ada"}, "password"),
        ({"password": "hush-hush-hush"}, "name"),
        ({}, "name"),
        ({"name": "ada", "password": "hush-hush-hush", "token": "hush-hush-hush"}, "token"),
        ({"name": 7, "password": "hush-hush-hush"}, "name"),
        ({"name": "ada", "password": 7}, "password"),
        ({"name": "ada", "password": "hush-hush-hush", "remember": True}, "remember"),
    ],
)
async def test_what_cannot_be_a_sign_in_is_refused_by_name(guarded: Api, body: dict[str, Any], field: str) -> None:
    reply = await guarded("POST", "/sessions", body)
    assert (reply.status, reply.json["errors"][0]["field"]) == (422, field)
    assert b"hush" not in reply.body


async def test_who_may_read_may_look_and_sign_out(guarded: Api) -> None:
    headers = await signed_in(guarded, "reader")
    me = (await guarded("GET", "/sessions/current", headers=headers)).json
    assert (me["name"], me["role"], me["by"], me["is_user"]) == ("reader", "read", "session", True)
    refused = await guarded("POST", "/sites", SITE, headers=headers)
    assert (refused.status, refused.json["detail"]) == (403, "you have read-only access")
    for path in ("/users", "/tokens", "/sessions"):
        assert (await guarded("GET", path, headers=headers)).status == 403
    out = await guarded("DELETE", "/sessions/current", headers=headers)
    assert (out.status, out.json) == (200, {"ended": 1})
    assert cookie_of(out)["max-age"] == "0"
    dead = await guarded("GET", "/sites", headers=headers)
    assert (dead.status, dead.json["type"]) == (401, "urn:pollerd:problem:session-over")
    assert cookie_of(dead)["max-age"] == "0"


async def test_users_change_their_own_password_by_the_present_one(guarded: Api) -> None:
    headers, elsewhere = await signed_in(guarded, "reader"), await signed_in(guarded, "reader")
    other, new = await signed_in(guarded), "another long one"

    async def change(password: str, new_password: str) -> Reply:
        body = {"password": password, "new_password": new_password}
        return await guarded("PUT", "/sessions/current/password", body, headers=headers)

    wrong = await change("wrong", new)
    assert (wrong.status, wrong.json["type"]) == (401, "urn:pollerd:problem:sign-in-failed")
    for unsuitable in ("short", "a" * 20):
        assert (await change(PASSWORD, unsuitable)).json["errors"][0]["field"] == "new_password"
    assert (await guarded("GET", "/sites", headers=headers)).status == 200, "a refused change ends nothing"
    changed = await change(PASSWORD, new)
    assert (changed.status, cookie_of(changed)["max-age"]) == (204, "0")
    for ended in (headers, elsewhere):
        assert (await guarded("GET", "/sites", headers=ended)).status == 401
    assert (await guarded("GET", "/sites", headers=other)).status == 200, "others stay signed in"
    assert (await guarded("POST", "/sessions", {"name": "reader", "password": PASSWORD})).status == 401
    assert (await guarded("POST", "/sessions", {"name": "reader", "password": new})).status == 201


async def test_who_is_not_signed_in_by_a_password_has_none_to_change(guarded: Api) -> None:
    body = {"password": PASSWORD, "new_password": "another long one"}
    assert (await guarded("PUT", "/sessions/current/password", body)).status == 401
    made = await guarded("POST", "/tokens", {"name": "script", "role": "write"}, headers=await signed_in(guarded))
    token = made.json["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert (await guarded("PUT", "/sessions/current/password", body, headers=bearer)).status == 404
    begun = await guarded("POST", "/sessions", {"token": token})
    by_token = {"Cookie": f"pollerd={cookie_of(begun).value}", "Origin": guarded.root}
    assert (await guarded("PUT", "/sessions/current/password", body, headers=by_token)).status == 404
    assert (await guarded("POST", "/sessions", {"name": "writer", "password": PASSWORD})).status == 201


async def test_guesses_at_the_present_password_have_to_wait_as_sign_ins_do(guarded: Api) -> None:
    headers = await signed_in(guarded, "reader")
    body = {"password": "wrong", "new_password": "another long one"}
    tries = [(await guarded("PUT", "/sessions/current/password", body, headers=headers)).status for _ in range(12)]
    assert tries[0] == 401
    assert tries[-1] == 429


async def test_another_role_counts_at_once(guarded: Api) -> None:
    reader, writer = await signed_in(guarded, "reader"), await signed_in(guarded)
    changed = await guarded("PATCH", "/users/reader", {"role": "write"}, headers=writer)
    assert (changed.status, changed.json["role"]) == (200, "write")
    assert (await guarded("POST", "/sites", SITE, headers=reader)).status == 201


async def test_sessions_are_listed_and_ended(guarded: Api) -> None:
    one, two = await signed_in(guarded), await signed_in(guarded, headers={"User-Agent": "lynx"})
    other = await signed_in(guarded, "reader")
    listed = (await guarded("GET", "/sessions", headers=two)).json["items"]
    listed.sort(key=lambda each: each["id"])
    assert [(each["name"], each["current"]) for each in listed] == [
        ("writer", False),
        ("writer", True),
        ("reader", False),
    ]
    assert (listed[1]["agent"], listed[1]["address"], listed[1]["is_user"]) == ("lynx", "127.0.0.1", True)
    assert (await guarded("DELETE", f"/sessions/{listed[0]['id']}", headers=two)).status == 204
    assert (await guarded("GET", "/sites", headers=one)).status == 401
    assert (await guarded("DELETE", "/sessions/999", headers=two)).status == 404
    third = await signed_in(guarded)
    out = await guarded("DELETE", "/sessions/current?everywhere=true", headers=third)
    assert out.json == {"ended": 2}
    assert (await guarded("GET", "/sites", headers=two)).status == 401
    assert (await guarded("GET", "/sites", headers=other)).status == 200
    last = await signed_in(guarded)
    assert (await guarded("DELETE", "/sessions?user=reader", headers=last)).json == {"ended": 1}
    assert (await guarded("GET", "/sites", headers=other)).status == 401
    assert (await guarded("DELETE", "/sessions", headers=last)).json == {"ended": 1}
    assert (await guarded("GET", "/sites", headers=last)).status == 401


async def test_tokens_are_made_shown_once_and_withdrawn(guarded: Api) -> None:
    headers = await signed_in(guarded)
    made = await guarded("POST", "/tokens", {"name": "backup"}, headers=headers)
    assert (made.status, made.json["role"], made.headers["Cache-Control"]) == (201, "read", "no-store")
    bearer = {"Authorization": f"Bearer {made.json['token']}"}
    assert (await guarded("GET", "/sites", headers=bearer)).status == 200
    assert (await guarded("POST", "/sites", SITE, headers=bearer)).status == 403
    listed = await guarded("GET", "/tokens", headers=headers)
    assert made.json["token"] not in listed.body.decode()
    assert listed.json["items"][0]["used_at"] is not None
    assert (await guarded("POST", "/tokens", {"name": "BACKUP"}, headers=headers)).status == 409
    by_token = await guarded("POST", "/sessions", {"token": made.json["token"]})
    session = {"Cookie": f"pollerd={cookie_of(by_token).value}"}
    assert by_token.json["is_user"] is False
    assert (await guarded("GET", "/sites", headers=session)).status == 200
    assert (await guarded("DELETE", f"/tokens/{made.json['id']}", headers=headers)).status == 204
    assert (await guarded("GET", "/sites", headers=bearer)).status == 401
    assert (await guarded("GET", "/sites", headers=session)).status == 401


async def test_a_token_for_signals_reports_and_does_nothing_else(guarded: Api) -> None:
    by_cookie = await signed_in(guarded)
    made = await guarded("POST", "/tokens", {"name": "cms", "role": "signals"}, headers=by_cookie)
    assert (made.status, made.json["role"]) == (201, "signals")
    await guarded("POST", "/signal-sources", {"kind": "push", "name": "cms"}, headers=by_cookie)
    bearer = {"Authorization": f"Bearer {made.json['token']}"}
    report = {"source": "cms", "urlList": ["https://a.invalid/"]}
    assert (await guarded("POST", "/signals", report, headers=bearer)).json == {"signals": 0, "ignored": 1}
    for method, path in (
        ("GET", "/sites"),
        ("GET", "/signal-sources"),
        ("GET", "/sessions/current"),
        ("POST", "/signal-sources"),
        ("DELETE", "/signal-sources/1"),
        ("GET", "//openapi.json"),
    ):
        refused = await guarded(method, path, {} if method == "POST" else None, headers=bearer)
        assert refused.status == 403, path
    assert (await guarded("POST", "/sessions", {"token": made.json["token"]})).status == 401
    # Nor may a reader report, and no user is for signals.
    reader = await guarded("POST", "/tokens", {"name": "r", "role": "read"}, headers=by_cookie)
    by_reader = {"Authorization": f"Bearer {reader.json['token']}"}
    assert (await guarded("POST", "/signals", report, headers=by_reader)).status == 403
    refused = await guarded("POST", "/users", {"name": "bob", "role": "signals"}, headers=by_cookie)
    assert (refused.status, refused.json["errors"][0]["field"]) == (422, "role")
    with pytest.raises(InvalidValueError, match="only a token"):
        await guarded.store.accounts.change_user("reader", role=Role.SIGNALS)


async def test_a_session_by_a_token_of_the_settings_ends_with_it(new_api: NewApi) -> None:
    api = await new_api(ApiSettings.listening("127.0.0.1:0", token="sesame"))
    begun = await api("POST", "/sessions", {"token": "sesame"})
    headers = {"Cookie": f"pollerd={cookie_of(begun).value}", "Origin": api.root}
    assert (await api("POST", "/sites", SITE, headers=headers)).status == 201
    api.tokens.put_in_force(ApiSettings.listening("127.0.0.1:0", token="another"))
    async with asyncio.timeout(20):
        while (await api("GET", "/sites", headers=headers)).status != 401:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "own", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "own", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "own"}, 201),
        ({"X-CSRF-Token": "wrong"}, 403),
        ({"X-CSRF-Token": "right"}, 201),
        ({"X-CSRF-Token": "right", "Origin": "null"}, 201),
        ({"X-CSRF-Token": "of another form"}, 403),
    ],
)
async def test_a_change_by_cookie_must_come_from_a_page_of_ours(
    guarded: Api, headers: dict[str, str], status: int
) -> None:
    cookie = (await signed_in(guarded))["Cookie"]
    me = (await guarded("GET", "/sessions/current", headers={"Cookie": cookie})).json
    sent = {**headers, "Cookie": cookie}
    if sent.get("Origin") == "own":
        sent["Origin"] = guarded.root
    if sent.get("X-CSRF-Token") == "right":
        sent["X-CSRF-Token"] = me["csrf_token"]
    if sent.get("X-CSRF-Token") == "of another form":
        caller = SignedIn(by=By.SESSION, name="", role=Role.READ, secret=cookie.partition("=")[2].encode())
        sent["X-CSRF-Token"] = csrf_token(caller, "site")
    assert (await guarded("POST", "/sites", SITE, headers=sent)).status == status


async def test_another_sites_page_cannot_sign_a_reader_in(guarded: Api) -> None:
    body = {"name": "writer", "password": PASSWORD}
    for headers in ({"Origin": "https://attacker.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert (await guarded("POST", "/sessions", body, headers=headers)).status == 403


def test_tokens_of_forms_differ_by_form_and_session_and_none_is_needed_without() -> None:
    one = SignedIn(by=By.SESSION, name="ada", role=Role.WRITE, user_id=3, secret=b"1")
    two = SignedIn(by=By.SESSION, name="ada", role=Role.WRITE, user_id=3, secret=b"2")
    token = csrf_token(one, "site")
    assert csrf_is_right(one, "site", token)
    for caller, form, given in (
        (two, "site", token),
        (one, "sites", token),
        (one, "site", ""),
        (one, "site", "\ud800"),
    ):
        assert not csrf_is_right(caller, form, given)
    bearer = SignedIn(by=By.TOKEN, name="t", role=Role.WRITE)
    for none in (None, bearer):
        assert csrf_token(none, "site") == ""
        assert csrf_is_right(none, "site", "")
    readers = [reader_of(Request({"type": "http", CALLER: found})) for found in (None, bearer, one)]
    assert readers == ["", "", "user:3"]


async def test_event_streams_end_with_their_session(guarded: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition_room, "FRESH_SECONDS", 0.1)
    headers, other = await signed_in(guarded), await signed_in(guarded, "reader")

    def events(headers: dict[str, str]) -> Any:
        return guarded.session.get(f"{guarded.root}/api/v1/events", headers=headers)

    async with events(headers) as own, events(other) as others:
        await own.content.readline()
        await others.content.readline()
        assert (await guarded("DELETE", "/sessions/current", headers=headers)).status == 200
        await asyncio.wait_for(own.content.read(), 20)
        await until(lambda: guarded.streams.under_way == 1)
        # By another process: a command that works on the database.
        await guarded.store.accounts.remove_user("reader")
        await asyncio.wait_for(others.content.read(), 20)
    again = await signed_in(guarded)
    async with events(again) as stream:
        await stream.content.readline()
        guarded.streams.end()
        await stream.content.read()


async def test_streams_that_nobody_had_to_sign_in_for_end_with_the_first_user(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recognition_room, "FRESH_SECONDS", 0.1)
    async with api.session.get(f"{api.root}/api/v1/events") as stream:
        await stream.content.readline()
        await api.store.accounts.add_user("ada", Role.WRITE, HASH, 1.0)
        await asyncio.wait_for(stream.content.read(), 20)


async def test_a_body_that_comes_after_its_session_ended_changes_nothing(guarded: Api) -> None:
    headers = await signed_in(guarded)
    begun = asyncio.Event()

    async def slowly() -> Any:
        yield b'{"url": '
        begun.set()
        await until(lambda: not listening)
        yield b'"https://late.example/"}'

    listening = [True]
    options = {"headers": {**headers, "Content-Type": "application/json"}}
    call = asyncio.create_task(guarded("POST", "/sites", data=slowly(), **options))
    await begun.wait()
    await asyncio.sleep(0.1)
    assert (await guarded("DELETE", "/sessions/current", headers=headers)).status == 200
    listening.clear()
    assert (await call).status == 401
    assert (await guarded("GET", "/sites", headers=await signed_in(guarded))).json["items"] == []


async def test_wrong_sign_ins_have_to_wait_by_address_and_by_name(guarded: Api) -> None:
    for _ in range(BURST):
        assert (await guarded("POST", "/sessions", {"token": "wrong"})).status == 401
    for body in ({"token": "wrong"}, {"name": "reader", "password": PASSWORD}):
        reply = await guarded("POST", "/sessions", body)
        assert (reply.status, reply.json["type"]) == (429, "urn:pollerd:problem:too-many-sign-ins")
        assert 0 < int(reply.headers["Retry-After"]) <= 6


def test_a_name_is_guarded_from_all_addresses_but_its_users_own() -> None:
    now = [0.0]
    limits = SignInLimits(lambda: now[0])
    limits.begin("home", "Ada")
    limits.right("home", "Ada")
    for n in range(BURST):
        assert limits.wait(f"192.0.2.{n}", "ada") == 0
        limits.begin(f"192.0.2.{n}", "ada")
    assert limits.wait("192.0.2.99", "ADA") == pytest.approx(NAME_SECONDS)
    assert limits.wait("192.0.2.99", "bob") == 0
    assert limits.wait("home", "ada") == 0, "its user is not locked out"
    now[0] += NAME_SECONDS
    assert limits.wait("192.0.2.99", "ada") == 0
    for _ in range(BURST):
        limits.begin("home", "bob")
    assert limits.wait("home", "ada") > 0, "but its address may not guess without end"


async def test_passwords_are_compared_one_at_a_time_and_few_may_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = Passwords()
    assert (await passwords.compare(PASSWORD, HASH)).right
    assert not (await passwords.compare(PASSWORD + "x", HASH)).right
    assert not (await passwords.compare(PASSWORD, None)).right
    assert not (await passwords.compare(PASSWORD, "no hash")).right
    # So many that none ends before all have begun.
    monkeypatch.setattr(passwords_of, "MEMORY_KIB", COST[1])
    results = await asyncio.gather(
        *(passwords.compare(PASSWORD, None) for _ in range(MAX_WAITING + 5)), return_exceptions=True
    )
    assert len([one for one in results if isinstance(one, BusyError)]) == 4
    sign_in = SignIn(CallerRecognition(Tokens(ApiSettings()), store), passwords, FirstUserCode())
    tries = (sign_in.with_password(f"nobody-{n}", PASSWORD, Visitor(str(n))) for n in range(MAX_WAITING + 3))
    ended = await asyncio.gather(*tries, return_exceptions=True)
    assert {one.wait for one in ended if isinstance(one, SignInError)} == {0.0, 1.0}


async def test_a_hash_of_weaker_parameters_is_made_anew(store: Store) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    await store.accounts.add_user("ada", Role.READ, weak, 1.0)
    sign_in = SignIn(CallerRecognition(Tokens(ApiSettings()), store), Passwords(), FirstUserCode())
    await sign_in.with_password("ada", PASSWORD, HERE)
    found = await store.accounts.user("ada")
    assert found is not None
    assert found.hash != weak
    await sign_in.with_password("ada", PASSWORD, HERE)


@pytest.mark.parametrize("password", ["", "short", "x" * 257, "aaaaaaaaaaaa"])
async def test_unsuitable_passwords_are_refused_without_being_shown(api: Api, password: str) -> None:
    reply = await api("POST", "/users", {"name": "ada", "password": password})
    assert reply.status == 422
    assert reply.json["errors"][0]["field"] == "password"
    assert not password or password not in reply.body.decode()
    with pytest.raises(InvalidValueError):
        await Passwords().hash(password)


# The first user.


async def test_the_first_user_is_made_by_the_link_once_and_for_an_hour(store: Store) -> None:
    now = [0.0]
    code = FirstUserCode(lambda: now[0])
    assert not code.is_valid
    assert not code.matches("")
    secret = code.make()
    assert link("http://127.0.0.1:8080", secret) == f"http://127.0.0.1:8080/first-user#{secret}"
    settings = ApiSettings(entrance=SignInSettings(required=True))
    sign_in = SignIn(CallerRecognition(Tokens(settings), store), Passwords(), code)
    with pytest.raises(SignInError):
        await sign_in.as_first_user(secret[:-1], "ada", PASSWORD, HERE)
    with pytest.raises(InvalidValueError):
        await sign_in.as_first_user(secret, "ada", "short", HERE)
    now[0] = VALID_SECONDS
    with pytest.raises(SignInError):
        await sign_in.as_first_user(secret, "ada", PASSWORD, HERE)
    secret = code.make()
    begun = await sign_in.as_first_user(secret, "ada", PASSWORD, HERE)
    assert (begun.caller.name, begun.caller.role, begun.session.agent) == ("ada", Role.WRITE, "Firefox")
    with pytest.raises(SignInError):
        await sign_in.as_first_user(secret, "eve", PASSWORD, HERE)
    with pytest.raises(DuplicateError):
        await sign_in.as_first_user(code.make(), "eve", PASSWORD, HERE)


async def test_a_daemon_that_demands_it_lets_nobody_in_before_the_first_user(new_api: NewApi) -> None:
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=SignInSettings(required=True)))
    assert (await api("GET", "/sites")).status == 401
    body = {"token": "guess", "name": "ada", "password": PASSWORD}
    assert (await api("POST", "/users/first", body)).status == 401
    assert (await api("POST", "/users", {"name": "ada", "password": PASSWORD})).status == 401
    assert ApiSettings("0.0.0.0", 0, entrance=SignInSettings(required=True)).closed
    with pytest.raises(InvalidValueError, match="unless a token or sign_in is set"):
        ApiSettings("0.0.0.0", 0)


# Where the daemon is reached.


async def test_without_users_pages_under_allowed_names_are_let_in(new_api: NewApi) -> None:
    names = SignInSettings.of(allowed_hosts=["Pollerd.Home.Example", "box:8080"])
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=names))
    for host, origin, status in [
        ("pollerd.home.example", None, 200),
        ("POLLERD.home.example:81", "http://pollerd.home.example:81", 200),
        ("box:8080", "http://box:8080", 200),
        ("box:8081", None, 403),
        ("box", None, 403),
        ("127.0.0.1:8080", "https://pollerd.home.example", 200),
        ("pollerd.home.example", "https://attacker.example", 403),
        ("pollerd.home.example.attacker.example", None, 403),
        ("attacker.example", "http://pollerd.home.example", 403),
    ]:
        headers = {"Host": host} | ({"Origin": origin} if origin else {})
        assert (await api("GET", "/sites", headers=headers)).status == status, (host, origin)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"allowed_hosts": ["http://a.example"]}, "allowed_host"),
        ({"allowed_hosts": ["*"]}, "allowed_host"),
        ({"allowed_hosts": ["a b"]}, "allowed_host"),
        ({"trusted_proxies": ["proxy"], "user_header": "X-User"}, "trusted_proxy"),
        ({"trusted_proxies": ["10.0.0.1/8"], "user_header": "X-User"}, "trusted_proxy"),
        ({"user_header": "X-User"}, "trusted_proxy"),
        ({"trusted_proxies": ["10.0.0.1"], "user_header": "Cookie"}, "user_header"),
        ({"trusted_proxies": ["10.0.0.1"], "user_header": "X User"}, "user_header"),
    ],
)
def test_entrances_that_cannot_be_are_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        SignInSettings.of(**given)
    assert caught.value.field == field


# Trusted proxies.

ONLY_ADDRESSES = SignInSettings.of(trusted_proxies=["127.0.0.0/8"])
PROXY = SignInSettings.of(trusted_proxies=["127.0.0.0/8"], user_header="X-Remote-User")


async def test_a_trusted_proxy_names_the_user(people: None, new_api: NewApi) -> None:
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=PROXY))
    assert (await api("GET", "/sites")).status == 401
    reader, writer = ({"X-Remote-User": name, "Origin": api.root} for name in ("reader", "Writer"))
    assert (await api("GET", "/sites", headers=reader)).status == 200
    assert (await api("POST", "/sites", SITE, headers=reader)).status == 403
    assert (await api("POST", "/sites", SITE, headers=writer)).status == 201
    basic = {"Authorization": "Basic Zm9v"}  # as proxies pass it on
    assert (await api("GET", "/sites", headers={**reader, **basic})).status == 200
    me = (await api("GET", "/sessions/current", headers=writer)).json
    assert (me["name"], me["by"]) == ("writer", "proxy")
    foreign = {**writer, "Origin": "https://attacker.example"}
    assert (await api("POST", "/sites", SITE, headers=foreign)).status == 403
    assert (await api("GET", "/sites", headers={"X-Remote-User": "eve"})).status == 403
    assert (await api("GET", "/sites", headers={"X-Remote-User": ""})).status == 403
    assert (
        await api("GET", "/sites", headers=[("X-Remote-User", "reader"), ("X-Remote-User", "writer")])
    ).status == 403


async def test_the_header_counts_from_named_addresses_only(people: None, new_api: NewApi) -> None:
    elsewhere = SignInSettings.of(trusted_proxies=["192.0.2.0/24", "::1"], user_header="X-Remote-User")
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=elsewhere))
    for more in ({}, {"X-Forwarded-For": "192.0.2.1"}):
        assert (await api("GET", "/sites", headers={"X-Remote-User": "writer", **more})).status == 401
    for address, trusted in [
        ("192.0.2.7", True),
        ("::ffff:192.0.2.7", True),
        ("::1", True),
        ("192.0.3.7", False),
        ("", False),
        ("unix", False),
    ]:
        assert elsewhere.trusts(address) is trusted


async def test_a_proxy_without_a_header_for_users_names_nobody(people: None, new_api: NewApi) -> None:
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=ONLY_ADDRESSES))
    assert (await api("GET", "/sites")).status == 401
    assert (await api("GET", "/sites", headers={"X-Remote-User": "writer"})).status == 401
    headers = await signed_in(api, headers={"X-Forwarded-For": "198.51.100.7"})
    listed = (await api("GET", "/sessions", headers=headers)).json["items"]
    assert [session["address"] for session in listed] == ["198.51.100.7"]


def test_wrong_sign_ins_lock_a_right_one_out_for_some_seconds_at_most() -> None:
    """Ten of one address, or many more: those that have to wait do not count."""
    now = [100.0]
    limits = SignInLimits(lambda: now[0])
    for _ in range(100):
        if limits.wait("192.0.2.1", "ada") == 0:
            limits.begin("192.0.2.1", "ada")
    assert 0 < limits.wait("192.0.2.1", "ada") <= 5
    assert 0 < limits.wait("192.0.2.2", "ada") <= 5
    assert limits.wait("192.0.2.2", "bob") == 0
    now[0] += 5
    assert limits.wait("192.0.2.1", "ada") == 0


@pytest.mark.parametrize("entrance", ["PROXY", "ONLY_ADDRESSES"])
async def test_limits_go_by_the_address_that_a_trusted_proxy_names(
    people: None, new_api: NewApi, entrance: str
) -> None:
    api = await new_api(ApiSettings("127.0.0.1", 0, entrance=globals()[entrance]))
    for _ in range(BURST + 1):
        reply = await api("POST", "/sessions", {"token": "wrong"}, headers={"X-Forwarded-For": "198.51.100.1"})
    assert reply.status == 429
    reply = await api("POST", "/sessions", {"token": "wrong"}, headers={"X-Forwarded-For": "198.51.100.2"})
    assert reply.status == 401


# What is kept while the database does not answer, and for how long.


class Broken:
    """A store whose database does not answer."""

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any) -> Any:
            raise DatabaseUnavailableError("gone")

        return self if name == "accounts" else fail


async def test_what_was_known_stays_in_force_while_the_database_does_not_answer(
    people: None, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    recognition = CallerRecognition(Tokens(ApiSettings()), store, lambda: now[0])
    sign_in = SignIn(recognition, Passwords(), FirstUserCode(), clock=lambda: now[0])
    begun = await sign_in.with_password("reader", PASSWORD, HERE)
    assert await recognition.needed()
    monkeypatch.setattr(recognition, "_store", Broken())
    now[0] += 60
    assert await recognition.needed()
    assert await recognition.by_session(begun.secret) == begun.caller
    with pytest.raises(DatabaseUnavailableError):
        await recognition.by_session("unknown")
    now[0] += SESSION_IDLE_SECONDS
    with pytest.raises(DatabaseUnavailableError):
        await recognition.by_session(begun.secret)
    fresh = CallerRecognition(Tokens(ApiSettings()), Broken())  # type: ignore[arg-type]
    with pytest.raises(DatabaseUnavailableError):
        await fresh.needed()


async def test_use_prolongs_a_session_and_is_noted_seldom(people: None, store: Store) -> None:
    now = [1_000_000.0]
    recognition = CallerRecognition(Tokens(ApiSettings()), store, lambda: now[0])
    sign_in = SignIn(recognition, Passwords(), FirstUserCode(), clock=lambda: now[0])
    begun = await sign_in.with_password("reader", PASSWORD, HERE)
    for step in (0.0, 300.0, 601.0):
        now[0] = 1_000_000.0 + step
        caller = await recognition.by_session(begun.secret)
        assert caller is not None
        await recognition.seen(caller)
    assert [one.seen_at for one in await store.accounts.sessions(now[0])] == [1_000_601.0]
    now[0] += SESSION_IDLE_SECONDS - 1
    assert await recognition.by_session(begun.secret) is not None
    now[0] += 1
    assert await recognition.by_session(begun.secret) is None


async def test_a_database_that_does_not_answer_is_said(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> Any:
        raise DatabaseUnavailableError("the database is locked")

    monkeypatch.setattr(api.store.accounts, "existing", fail)
    reply = await api("GET", "/sites")
    assert (reply.status, reply.json["type"]) == (503, "urn:pollerd:problem:database-unavailable")
    assert (await api("GET", "//readyz")).status == 200


async def test_aiohttp_keeps_the_cookie_as_browsers_do(guarded: Api) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        body = {"name": "reader", "password": PASSWORD}
        async with browser.post(f"{guarded.root}/api/v1/sessions", json=body) as reply:
            assert reply.status == 201
        async with browser.get(f"{guarded.root}/api/v1/sites") as reply:
            assert reply.status == 200
        async with browser.delete(f"{guarded.root}/api/v1/sessions/current", headers={"Origin": guarded.root}) as out:
            assert out.status == 200
        async with browser.get(f"{guarded.root}/api/v1/sites") as reply:
            assert reply.status == 401
        assert len(jar) == 0
