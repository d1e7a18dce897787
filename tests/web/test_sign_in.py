"""Who may: signing in and out, roles, forms of others, the first user, links from mails."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pollerd.api.settings import ApiSettings, ApiToken, Scope
from pollerd.web.application import add_pages
from tests.api.conftest import Api, NewApi
from tests.web.conftest import Answer, NewReader, Web, until

PASSWORD = "correct horse battery"
NAMES = {"eva": "write", "max": "read"}


@pytest.fixture
async def closed(new_api: NewApi) -> Web:
    """A daemon with a token, and users who may write and read."""
    token = ApiToken.of("token", "secret-token", Scope.READ, Scope.WRITE)
    api = await new_api(ApiSettings(tokens=(token,)))
    add_pages(api.app)
    for name, role in NAMES.items():
        made = await api(
            "POST",
            "/users",
            {"name": name, "password": PASSWORD, "role": role},
            headers={"Authorization": "Bearer secret-token"},
        )
        assert made.status == 201, made.body
    return Web(api)


class Person:
    """Somebody with a browser that keeps cookies and names the page that it comes from."""

    def __init__(self, web: Web, session: aiohttp.ClientSession) -> None:
        self.web, self.session = web, session

    async def get(self, path: str, **headers: str) -> Answer:
        sent = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin", **headers}
        async with self.session.get(self.web.root + path, headers=sent, allow_redirects=False) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def post(self, path: str, data: dict[str, str], **headers: str) -> Answer:
        sent = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin", "Origin": self.web.root, **headers}
        async with self.session.post(self.web.root + path, data=data, headers=sent, allow_redirects=False) as answer:
            return Answer(answer.status, answer.headers, await answer.text())

    async def sign_in(self, name: str = "eva", password: str = PASSWORD) -> Answer:
        return await self.post("/sign-in", {"name": name, "password": password, "next": "/sites"})

    async def csrf(self, path: str = "/sites") -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', (await self.get(path)).text)
        assert found is not None
        return found[1]


@pytest.fixture
async def person(closed: Web) -> AsyncIterator[Person]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:  # also of addresses
        yield Person(closed, session)


async def test_the_way_in_and_out(person: Person) -> None:
    refused = await person.get("/sites?q=x")
    assert (refused.status, refused.headers["Location"]) == (303, "/sign-in?next=/sites%3Fq%3Dx")
    form = await person.get("/sign-in?next=/sites")
    assert (form.status, 'value="/sites"' in form.text, 'href="/rules"' in form.text) == (200, True, False)
    entered = await person.sign_in()
    assert (entered.status, entered.headers["Location"]) == (303, "/sites")
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    shown = await person.get("/sites")
    assert (shown.status, "<bdi>eva</bdi>" in shown.text) == (200, True)
    assert (await person.post("/sign-out", {"csrf": await person.csrf()})).headers["Location"] == "/sign-in"
    assert (await person.get("/sites")).status == 303


@pytest.mark.parametrize("data", [{"name": "eva", "password": "wrong"}, {"name": "nobody", "password": PASSWORD}])
async def test_what_is_wrong_is_not_said(person: Person, data: dict[str, str]) -> None:
    answer = await person.post("/sign-in", data)
    assert (answer.status, "That did not work. Check name and password." in answer.text) == (401, True)
    assert "Set-Cookie" not in answer.headers


async def test_a_token_signs_in(person: Person) -> None:
    assert (await person.post("/sign-in", {"token": "not-the-token"})).status == 401
    assert (await person.post("/sign-in", {"token": "secret-token"})).status == 303
    assert (await person.get("/system/accounts")).status == 200


async def test_many_tries_slow_down(person: Person) -> None:
    tries = [(await person.sign_in(password="wrong")).status for _ in range(20)]
    assert tries[0] == 401
    assert tries[-1] == 429
    assert re.search(r"Too many attempts\. Try again in \d+ s\.", (await person.sign_in(password="wrong")).text)


@pytest.mark.parametrize(
    "target", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
async def test_signing_in_leads_to_no_other_place(person: Person, target: str) -> None:
    answer = await person.post("/sign-in", {"name": "eva", "password": PASSWORD, "next": target})
    assert answer.headers["Location"] == "/"


async def test_who_may_look_may_not_change(person: Person) -> None:
    await person.sign_in("max")
    assert (await person.get("/sites")).status == 200
    csrf = await person.csrf("/system")
    answer = await person.post("/sites", {"url": "https://example.org/", "csrf": csrf})
    assert (answer.status, "You have read-only access." in answer.text) == (403, True)
    assert (await person.get("/system/accounts")).status == 403
    assert (await person.post("/changes/seen", {"id": "1", "csrf": csrf})).status == 303


async def test_who_may_look_is_asked_for_nothing_on_the_page_of_alerts(person: Person) -> None:
    await person.sign_in("max")
    page = (await person.get("/rules")).text
    assert "There is no rule yet" in page
    assert "Add a channel first" not in page
    channel = {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
    made = await person.web.api("POST", "/channels", channel, headers={"Authorization": "Bearer secret-token"})
    assert made.status == 201
    assert "public-url" not in (await person.get("/rules")).text
    csrf = await person.csrf("/system")
    refused = await person.post("/rules/public-url", {"url": "https://evil.example", "csrf": csrf})
    assert refused.status == 403
    assert person.web.api.control.notifications.public_url == ""
    assert "public-url" in (await person.web.get("/rules", Authorization="Bearer secret-token")).text


async def test_who_may_look_reads_what_counts_in_words(person: Person) -> None:
    selections = {"default": {"steps": [{"keep": {"xpath": "//p[. = '<b>']"}}], "conditions": {"appears": "sale"}}}
    site = {"url": "https://example.org/", "selections": selections}
    added = await person.web.api("POST", "/sites", site, headers={"Authorization": "Bearer secret-token"})
    await person.sign_in("max")
    page = (await person.get(f"/sites/{added.json['id']}")).text
    assert '<dt>Keep</dt><dd dir="auto">//p[. = &#39;&lt;b&gt;&#39;]</dd>' in page
    assert "“sale” appears" in page
    assert 'href="#counts"' in page
    assert 'action="/sites/1/counts"' not in page


async def test_forms_of_other_sessions_and_pages_are_refused(person: Person) -> None:
    await person.sign_in()
    site = {"url": "https://example.org/"}
    csrf = await person.csrf()
    assert (await person.post("/sites", site)).status == 403
    assert (await person.post("/sites", site | {"csrf": csrf[::-1]})).status == 403
    assert (await person.post("/sites", site | {"csrf": csrf}, Origin="https://evil.example")).status == 403
    assert (await person.post("/sites", site | {"csrf": csrf}, Origin="null")).status == 403
    assert (await person.post("/sites", site | {"csrf": csrf})).status == 303
    await person.post("/sign-out", {"csrf": csrf})
    await person.sign_in()
    assert (await person.post("/sites/1/pause", {"csrf": csrf})).status == 403


async def test_the_token_of_forms_looks_different_each_time(person: Person) -> None:
    """As the compressed length of a page would tell of one that stays (BREACH)."""
    await person.sign_in()
    first, second = await person.csrf(), await person.csrf()
    assert first != second
    for n, csrf in enumerate((first, second)):
        assert (await person.post("/sites", {"url": f"https://example.org/{n}", "csrf": csrf})).status == 303


async def test_a_link_from_elsewhere_comes_back_once_with_the_cookie(person: Person) -> None:
    bounced = await person.get("/changes/1", **{"Sec-Fetch-Site": "cross-site"})
    assert bounced.status == 200
    assert 'content="0; url=/changes/1?again=1"' in bounced.text
    stopped = await person.get("/changes/1?again=1", **{"Sec-Fetch-Site": "cross-site"})
    assert (stopped.status, stopped.headers["Location"]) == (303, "/sign-in?next=/changes/1")


@pytest.mark.parametrize("path", ["//evil.example/", "/%5Cevil.example"])
async def test_coming_back_leads_to_no_other_place(person: Person, path: str) -> None:
    answer = await person.get(path, **{"Sec-Fetch-Site": "cross-site"})
    assert "url=//evil" not in answer.text
    assert "url=/\\" not in answer.text
    assert not answer.headers.get("Location", "/").startswith("//")


async def test_who_is_signed_in_may_sign_in_as_somebody_else(person: Person) -> None:
    await person.sign_in("eva")
    form = {"name": "max", "password": PASSWORD, "next": "/sites", "csrf": await person.csrf("/sign-in")}
    assert (await person.post("/sign-in", form)).status == 303
    assert "<bdi>max</bdi>" in (await person.get("/sites")).text


async def test_a_reader_has_a_page_to_change_the_own_password(person: Person) -> None:
    await person.sign_in("max")
    assert '<a href="/password">' in (await person.get("/sites")).text
    form = {"password": "wrong", "new_password": "another long one", "csrf": await person.csrf("/password")}
    refused = await person.post("/password", form)
    assert (refused.status, "Check name and password" in refused.text) == (401, True)
    assert (await person.post("/password", form | {"password": PASSWORD, "new_password": "short"})).status == 422
    assert (await person.post("/password", form | {"password": PASSWORD, "csrf": "other"})).status == 403
    changed = await person.post("/password", form | {"password": PASSWORD})
    assert (changed.status, changed.headers["Location"]) == (303, "/sign-in")
    assert (await person.get("/sites")).status == 303
    assert (await person.sign_in("max")).status == 401
    assert (await person.sign_in("max", "another long one")).status == 303


async def test_users_tokens_and_sessions_are_managed(person: Person) -> None:
    await person.sign_in()
    csrf = await person.csrf()
    added = {"name": "ida", "password": "another long one", "role": "read", "csrf": csrf}
    assert (await person.post("/system/users", added)).status == 303
    assert (await person.post("/system/users", added | {"name": "kai", "password": "short"})).status == 422
    assert (await person.post("/system/users/ida", {"role": "write", "password": "", "csrf": csrf})).status == 303
    page = await person.get("/system/accounts")
    assert "<strong>ida</strong>" in page.text
    made = await person.post("/system/tokens", {"name": "script", "role": "read", "csrf": csrf})
    secret = re.search(r"<code>([\w-]{40,})</code>", made.text)
    assert secret is not None
    reply = await person.web.api("GET", "/sites", headers={"Authorization": f"Bearer {secret[1]}"})
    assert reply.status == 200
    assert secret[1] not in (await person.get("/system/accounts")).text
    assert (await person.post("/system/tokens/1/withdraw", {"csrf": csrf})).status == 303
    assert (await person.post("/system/users/ida/remove", {"csrf": csrf})).status == 303
    assert (await person.post("/system/sign-out-everywhere", {"password": "wrong", "csrf": csrf})).status == 401
    assert (await person.post("/system/sign-out-everywhere", {"password": PASSWORD, "csrf": csrf})).status == 303
    assert (await person.get("/sites")).status == 303


async def test_what_was_seen_is_each_users_own(person: Person) -> None:
    api: Api = person.web.api
    headers = {"Authorization": "Bearer secret-token"}
    assert (await api("POST", "/sites", {"url": "https://example.org/0"}, headers=headers)).status == 201
    await person.web.poll(1, "https://example.org/0", ["a\n", "b\n"])
    await person.sign_in("max")
    await person.post("/changes/seen", {"id": "1", "csrf": await person.csrf("/changes")})
    assert "You are up to date." in (await person.get("/changes")).text
    await person.post("/sign-out", {"csrf": await person.csrf("/system")})
    await person.sign_in("eva")
    assert "You are up to date." not in (await person.get("/changes")).text


async def test_in_a_browser(closed: Web, new_reader: NewReader) -> None:
    """Forms pass with their Origin, the stream carries the cookie, and ends with the session."""
    reader = await new_reader(closed.root)
    page = reader.page
    await page.goto(f"{closed.root}/system")
    await page.locator("input[name=name]").fill("eva")
    await page.locator("input[name=password]").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await page.wait_for_url("**/system")

    async def one_stream() -> bool:
        return closed.api.streams.under_way == 1

    async def no_stream() -> bool:
        return closed.api.streams.under_way == 0

    await until(one_stream)
    await closed.api.store.accounts.end_sessions()
    await until(no_stream)
    await page.goto(f"{closed.root}/sites")
    assert page.url.endswith("/sign-in?next=/sites")


async def test_the_first_user_by_the_link_of_the_log(new_api: NewApi, new_reader: NewReader) -> None:
    api = await new_api()
    add_pages(api.app)
    code = api.app.state.first_user.make()
    reader = await new_reader(api.root)
    await reader.page.goto(f"{api.root}/first-user#{code}")
    assert await reader.page.locator("#first-user-code").input_value() == code
    await reader.page.locator("input[name=name]").fill("eva")
    await reader.page.locator("input[name=password]").fill(PASSWORD)
    await reader.page.get_by_role("button", name="Create user").click()
    await reader.page.wait_for_url(f"{api.root}/")
    await reader.page.get_by_text("eva").wait_for()
    again = await new_reader(api.root)
    await again.page.goto(f"{api.root}/first-user#{code}")
    await again.page.locator("input[name=name]").fill("max")
    await again.page.locator("input[name=password]").fill(PASSWORD)
    await again.page.get_by_role("button", name="Create user").click()
    await again.page.get_by_text("This code is invalid").wait_for()


async def test_a_reader_sees_no_form_that_only_writers_can_send(closed: Web) -> None:
    """Each page, as who may look and as who may write."""
    url, writer = "https://example.org/0", {"Authorization": "Bearer secret-token"}

    async def api(method: str, path: str, body: object = None) -> int:
        return (await closed.api(method, path, body, headers=writer)).status

    assert await api("POST", "/sites", {"url": url, "title": "Page", "tags": ["shop"]}) == 201
    site_id = 1
    await closed.poll(site_id, url, ["one\n", "two\n"])
    channel = {"name": "hook", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
    assert await api("POST", "/channels", channel) == 201
    for name in ("kept", "deleted"):
        assert await api("POST", "/rules", {"name": name, "channels": ["hook"]}) == 201
    assert await api("DELETE", "/rules/2") == 204
    assert await api("POST", "/sites/bulk", {"ids": [site_id], "action": "tag", "value": {"tag": "x"}}) == 202
    paths = [
        "/",
        "/sites",
        "/sites?tag=shop",
        "/changes",
        "/changes/1",
        "/rules",
        "/jobs",
        "/jobs/1",
        "/system",
        "/plan",
    ]
    paths += ["/budget", "/sites/add", "/sites/import", "/collection", f"/sites/{site_id}", f"/sites/{site_id}/polls"]
    posts = {"writer": set[str](), "reader": set[str]()}
    for role, name in (("writer", "eva"), ("reader", "max")):
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            person = Person(closed, session)
            assert (await person.post("/sign-in", {"name": name, "password": PASSWORD})).status == 303
            for path in paths:
                answer = await person.get(path)
                assert answer.status == 200, path
                posts[role] |= set(re.findall(r'<form [^>]*method="post" action="([^"]*)"', answer.text))
                posts[role] |= set(re.findall(r'href="(/rules/(?:new|channels)[^"]*)"', answer.text))
            for path in ("/rules/1", "/rules/channels/1"):
                assert (await person.get(path)).status == (200 if role == "writer" else 303)
    assert posts["reader"] <= {"/sign-out", "/changes/seen", "/theme", "/password"}
    assert {"/rules/undo", "/sites/bulk", "/system/allocation", "/sites/import"} <= posts["writer"]


async def test_signing_in_says_where_the_token_is(closed: Web) -> None:
    page = (await closed.get("/sign-in")).text
    assert "--token-file" in page
    assert "pollerd tokens add NAME" in page
