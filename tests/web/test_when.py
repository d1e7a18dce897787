"""When and how a site is checked, by form: every setting has a field, secrets are never shown, a fetch tries it."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from aiohttp import web

from pollerd.site_settings import ACCESS_SETTINGS, SITE_SETTINGS
from pollerd.web.fetch_form import OF_SITE
from tests.support.origin import Origin
from tests.support.origin import Page as Served
from tests.web.conftest import Web
from tests.web.test_add_page import Post, origin, post

__all__ = ["origin", "post"]
SECRETS = ("sesame", "tok-1", "consent-2", "typed-3", "pdf-4", "body-5", "proxy-6")
PLAN: dict[str, Any] = {
    "wait": {"idle": False, "selector": "main", "seconds": 2},
    "block": ["image"],
    "timeout": 20,
    "viewport": {"width": 800, "height": 600},
    "steps": [
        {"click_if_exists": "#ok", "timeout": 3},
        {"type": "#name", "text": "anna"},
        {"type": "#word", "secret": "typed-3"},
        {"press": "Enter"},
        {"press": "Tab", "on": "#name"},
        {"select": "#list", "value": "b"},
        {"wait": 1.5},
        {"wait_for_text": "Welcome"},
        {"scroll": "bottom"},
        {"scroll": 200},
    ],
}


def fields_of(page: str) -> list[tuple[str, str]]:
    """Returns what a browser would send of the form "When and how"."""
    form = page[page.index('/when" class="fields') :]
    form = form[: form.index("</form>")]
    fields = []
    for tag in re.finditer(r"<(input|textarea|select)\b([^>]*)>(.*?)(?=<(?:input|textarea|select)\b|\Z)", form, re.S):
        kind, attributes, rest = tag.groups()
        name = re.search(r'\bname="([^"]*)"', attributes)
        if name is None or (re.search("checkbox|radio", attributes) and " checked" not in attributes):
            continue
        value = re.search(r'\bvalue="([^"]*)"', attributes)
        if kind == "select":
            chosen = re.search(r'value="([^"]*)" selected', rest) or re.search(r'value="([^"]*)"', rest)
            fields.append((name[1], chosen[1] if chosen else ""))
        else:
            fields.append((name[1], value[1] if value else ""))
    return [(name, value.replace("&#34;", '"')) for name, value in fields]


async def settings(web: Web) -> Any:
    return (await web.api.store.sites.get(1)).spec


async def test_every_setting_has_a_field(busy: Web) -> None:
    page = (await busy.get("/sites/1")).text
    named = set(re.findall(r'name="([a-z_]+)"', page))
    forms = {"selections": "keep", "windows": "hours_from"}
    for name in [name for name, setting in SITE_SETTINGS.items() if setting.form]:
        assert forms.get(name, name) in named, name
    of_access = {"headers": "header_name", "credentials": "password", "typed": "step_secret"}
    for name in ACCESS_SETTINGS:
        assert of_access.get(name, name) in named, name
    assert set(OF_SITE) <= named


async def test_sending_the_form_back_changes_nothing(web: Web) -> None:
    windows = {"zone": "Europe/Berlin", "open": [{"days": ["mon", "fri"], "from": "08:00", "to": "18:30"}]}
    await web.api.add(
        "https://example.org/a",
        render=PLAN,
        windows=windows,
        headers={"X-Key": "tok-1", "Cookie": "a=consent-2"},
        credentials={"username": "anna", "password": "sesame"},
        pdf_password="pdf-4",
        body="q=body-5",
        proxy="http://u:proxy-6@proxy.example.org:3128",
        weight=2.5,
        min_interval=90,
        min_yield=0.01,
        respect_ttl="strict",
        keep_screenshots=True,
    )
    before = await settings(web)
    page = (await web.get("/sites/1/when")).text
    assert not [secret for secret in SECRETS if secret in page]
    answer = await web.post("/sites/1/when", fields_of(page))
    assert answer.status == 303, answer.text
    assert await settings(web) == before


async def test_one_field_changes_and_the_sealed_secrets_stay(web: Web) -> None:
    await web.api.add("https://example.org/a", render=PLAN, headers={"X-Key": "tok-1", "X-Other": "b"})
    fields = fields_of((await web.get("/sites/1/when")).text)
    edited = [(name, "Hello" if value == "Welcome" else value) for name, value in fields]
    edited = [(name, "") if value == "X-Other" else (name, value) for name, value in edited]
    edited += [("cookie", "Cookie: a=consent-2"), ("username", "anna"), ("password", "sesame")]
    edited = [
        (name, value)
        for name, value in edited
        if (name, value) not in {("cookie", ""), ("username", ""), ("password", "")}
    ]
    saved = await web.post("/sites/1/when", edited)
    assert saved.status == 303, re.findall("▲[^<]*", saved.text)
    spec = await settings(web)
    assert orjson.loads(spec.render)["steps"][7] == {"wait_for_text": "Hello"}
    assert spec.access.typed == ("typed-3",)
    assert dict(spec.access.headers) == {"X-Key": "tok-1", "Cookie": "a=consent-2"}
    assert (spec.access.credentials.username, spec.access.credentials.password) == ("anna", "sesame")
    fields = fields_of((await web.get("/sites/1/when")).text)
    forgotten = [
        ("forget_credentials", "1"),
        *((name, value) for name, value in fields if name != "render"),
        ("render", ""),
    ]
    assert (await web.post("/sites/1/when", forgotten)).status == 303
    spec = await settings(web)
    assert (spec.access.credentials, spec.render, spec.access.typed) == (None, "", ())


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("min_interval", "soon", "min_interval"),
        ("weight", "-1", "weight"),
        ("wait_selector", "main >", "render"),
        ("step_target", "p[", "render.steps[0]"),
        ("hours_from", "25:00", "windows"),
        ("header_name", "Host", "headers"),
        ("proxy", "ftp://x", "proxy"),
        ("min_yield", "200%", "min_yield"),
        ("width", "inf", "render"),
        ("timeout", "nan", "render"),
    ],
)
async def test_what_is_wrong_stands_next_to_its_field_and_nothing_is_saved(
    web: Web, field: str, value: str, why: str
) -> None:
    await web.api.add("https://example.org/a")
    before = await settings(web)
    fields = [(name, value if name == field else old) for name, old in fields_of((await web.get("/sites/1/when")).text)]
    fields = [
        (name, "browser" if name == "render" and field in ("wait_selector", "step_target", "width", "timeout") else old)
        for name, old in fields
    ]
    fields = [(name, "x" if name == "header_value" else old) for name, old in fields] + [("title", "kept")]
    answer = await web.post("/sites/1/when", fields)
    assert answer.status == 422
    assert f"▲ {why}: " in answer.text
    if field not in ("proxy", "header_name"):
        assert value.replace(">", "&gt;") in answer.text, "what was typed stays"
    assert await settings(web) == before


async def test_hours_are_saved_and_removed(web: Web) -> None:
    await web.api.add("https://example.org/a")
    fields = fields_of((await web.get("/sites/1/when")).text)
    hours = {"hours_from": "08:00", "hours_to": "18:00", "zone": "Europe/Berlin"}
    sent = [(name, hours.get(name, value)) for name, value in fields]
    assert (await web.post("/sites/1/when", [*sent, ("hours_days_0", "mon"), ("hours_days_0", "tue")])).status == 303
    windows = (await settings(web)).windows
    assert (windows.zone, windows.open[0].days, windows.open[0].ends) == ("Europe/Berlin", ("mon", "tue"), "18:00")
    fields = [
        (name, "" if name in ("hours_from", "hours_to") else value)
        for name, value in fields_of((await web.get("/sites/1/when")).text)
        if not name.startswith("hours_days")
    ]
    assert (await web.post("/sites/1/when", fields)).status == 303
    assert (await settings(web)).windows is None


async def test_a_page_behind_a_password_is_tried_before_it_is_saved(post: Post, origin: Origin) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        return web.Response(text="<title>Intranet &lt;b&gt;</title><p>Canteen: soup.</p>", content_type="text/html")

    origin.pages["/in"] = Served(handler=answer)
    await post(url=origin.url("/in"))
    _, page, _ = await post("/sites/1/when")
    fields = dict(fields_of(page))
    status, page, _ = await post_form(post, {**fields, "try": "1"})
    assert "asks for a user name and password" in page
    status, page, _ = await post_form(post, {**fields, "username": "anna", "password": "sesame", "try": "1"})
    assert (status, "Canteen: soup." in page, "sesame" in page) == (200, True, False)
    assert "Intranet &lt;b&gt;" in page
    assert orjson.loads((await post("/api/v1/sites/1"))[1])["has_credentials"] is False, "nothing is saved by trying"
    for expected in (200, 422):
        status, page, _ = await post_form(post, {**fields, "try": "1"})
        assert status == expected
    assert "3 pages per minute" in page


async def post_form(post: Post, fields: dict[str, str]) -> tuple[int, str, str]:
    return await post("POST /sites/1/when", **fields)
