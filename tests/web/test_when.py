"""When and how a site is checked, by form: every setting has a field, secrets are never shown, a fetch tries it."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from aiohttp import web

from pollerd.site_settings import ACCESS_SETTINGS, SITE_SETTINGS, DayWindow, Windows
from pollerd.web.fetch_form import OF_SITE, HoursRow, hours_in_words, hours_of, rows_of
from tests.support.origin import Origin
from tests.support.origin import Page as Served
from tests.web.conftest import NewReader, Web
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
    for half in ({"username": "anna"}, {"password": "sesame"}):  # as the form is shown again without its secrets
        status, page, _ = await post_form(post, {**fields, **half})
        assert (status, "Type both the user name and the password" in page) == (422, True)
    assert orjson.loads((await post("/api/v1/sites/1"))[1])["has_credentials"] is False
    for expected in (200, 422):
        status, page, _ = await post_form(post, {**fields, "try": "1"})
        assert status == expected
    assert "3 pages per minute" in page


async def test_what_was_typed_stays_when_it_was_tried_by_script(
    post: Post, origin: Origin, new_reader: NewReader
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic"})
        return web.Response(text="<title>Intranet</title><p>Canteen: soup.</p>", content_type="text/html")

    origin.pages["/in"] = Served(handler=answer)
    await post(url=origin.url("/in"))
    _, _, address = await post("/sites/1")
    reader = await new_reader(address.removesuffix("/sites/1"), viewport={"width": 390, "height": 740})
    page = reader.page
    await page.goto(f"{address}#when")
    for _time in range(2):
        await page.locator("input[name=username]").fill("anna")
        await page.locator("form[data-try] input[name=password]").fill("sesame")
        await page.get_by_role("button", name="Try it").click()
        await page.locator("#tried").get_by_text("Canteen: soup.").wait_for()
        assert await page.locator("form[data-try] input[name=password]").input_value() == "sesame"
        assert "Secrets have to be typed again" not in await page.locator("#tried").inner_text()
    await page.locator("input[name=min_interval]").fill("tomorrow")
    await page.get_by_role("button", name="Try it").click()
    await page.locator("#tried .wrong").wait_for()
    await page.locator("input[name=min_interval]").fill("")
    await page.locator("form[data-try]").get_by_role("button", name="Save").click()
    await page.wait_for_load_state()
    await page.get_by_text("A password or token is set").first.wait_for(state="attached")
    assert orjson.loads((await post("/api/v1/sites/1"))[1])["has_credentials"] is True
    assert [one for one in reader.complaints if "422" not in one] == []


async def post_form(post: Post, fields: dict[str, str]) -> tuple[int, str, str]:
    return await post("POST /sites/1/when", **fields)


@pytest.mark.parametrize(
    ("rows", "hours", "again"),
    [
        ([], 0, []),
        ([HoursRow((), "08:00", "18:00")], 70, [HoursRow((), "08:00", "18:00")]),
        ([HoursRow(("mon", "fri"), "08:30", "09:15")], 4, [HoursRow(("mon", "fri"), "08:00", "10:00")]),
        (
            [HoursRow(("sun",), "22:00", "06:00")],
            8,
            [HoursRow(("mon",), "00:00", "06:00"), HoursRow(("sun",), "22:00", "24:00")],
        ),
        ([HoursRow((), "00:00", "24:00")], 168, []),
        ([HoursRow(("tue",), "09:00", "")], 15, [HoursRow(("tue",), "09:00", "24:00")]),
        ([HoursRow(("tue",), "no", "time")], 0, []),
    ],
)
def test_rows_and_hours_of_a_week(rows: list[HoursRow], hours: int, again: list[HoursRow]) -> None:
    painted = hours_of(rows)
    assert (len(painted), rows_of(painted)) == (hours, again)
    assert rows_of(hours_of(again)) == again


async def test_a_painted_week_is_saved_and_exact_times_stay_until_it_is_painted_over(web: Web) -> None:
    await web.api.add("https://example.org/a")
    page = (await web.get("/sites/1/when")).text
    assert page.count('name="hour"') == 168
    assert "Nothing is painted: it is checked at all hours." in page
    fields = [(name, "Europe/Berlin" if name == "zone" else value) for name, value in fields_of(page)]
    work = [("hour", f"{day}-{hour}") for day in ("mon", "tue") for hour in range(8, 18)]
    assert (await web.post("/sites/1/when", [*fields, *work, ("hour", "no-1")])).status == 303
    windows = (await settings(web)).windows
    assert (windows.zone, [(one.days, one.begins, one.ends) for one in windows.open]) == (
        "Europe/Berlin",
        [(("mon", "tue"), "08:00", "18:00")],
    )
    page = (await web.get("/sites/1/when")).text
    assert "20 of 168 hours a week." in page
    assert (await web.post("/sites/1/when", fields_of(page))).status == 303
    assert (await settings(web)).windows == windows, "sent back, it stays"
    exact = [(name, "08:30" if name == "hours_from" and value else value) for name, value in fields_of(page)]
    for _ in range(2):
        assert (await web.post("/sites/1/when", exact)).status == 303
        assert (await settings(web)).windows.open[0].begins == "08:30"
        exact = fields_of((await web.get("/sites/1/when")).text)
    painted = [(name, value) for name, value in exact if name != "hour"]
    assert (await web.post("/sites/1/when", [*painted, ("hour", "sat-9")])).status == 303
    assert [one.days for one in (await settings(web)).windows.open] == [("sat",)]
    cleared = [(name, value) for name, value in fields_of((await web.get("/sites/1/when")).text) if name != "hour"]
    assert (await web.post("/sites/1/when", cleared)).status == 303
    assert (await settings(web)).windows is None


@pytest.mark.parametrize("width", [1280, 360])
async def test_a_week_is_painted_by_drag_and_by_keys(web: Web, new_reader: NewReader, width: int) -> None:
    await web.api.add("https://example.org/a")
    reader = await new_reader(web.root, viewport={"width": width, "height": 900}, timezone_id="Asia/Tokyo")
    page = reader.page
    await page.goto(f"{web.root}/sites/1#when")
    boxes = page.locator(".week input")

    async def middle(name: str) -> tuple[float, float]:
        box = page.locator(f".week input[value='{name}']")
        await box.scroll_into_view_if_needed()
        at = await box.bounding_box()
        assert at is not None
        assert at["width"] >= 24
        assert at["height"] >= 24
        assert at["x"] + at["width"] <= width
        return at["x"] + at["width"] / 2, at["y"] + at["height"] / 2

    await page.mouse.move(*await middle("mon-8"))
    await page.mouse.down()
    for hour in range(9, 12):
        await page.mouse.move(*await middle(f"mon-{hour}"))
    await page.mouse.up()
    await page.mouse.move(*await middle("fri-20"))
    said = page.locator("#week-hours")
    assert await said.text_content() == "4 of 168 hours a week."
    await page.locator(".week input[value='mon-11']").click()
    assert await said.text_content() == "3 of 168 hours a week.", "a click is a drag over one hour"
    await page.locator(".week input[value='mon-10']").focus()
    across, along = ("ArrowRight", "ArrowDown") if width == 360 else ("ArrowDown", "ArrowRight")
    await page.keyboard.press(f"Shift+{across}")
    assert await page.locator(".week input[value='tue-10']").is_checked()
    await page.keyboard.press(along)
    await page.keyboard.press("Space")
    assert await page.locator(".week input[value='tue-11']").is_checked()
    assert await boxes.count() == 168
    await page.get_by_role("button", name="Save").locator("visible=true").click()
    await page.wait_for_url("**/sites/1#when")
    windows = (await settings(web)).windows
    assert windows.zone == "Asia/Tokyo", "the reader's own"
    assert [(one.days, one.begins, one.ends) for one in windows.open] == [
        (("mon",), "08:00", "11:00"),
        (("tue",), "10:00", "12:00"),
    ]
    assert reader.complaints == []


@pytest.mark.parametrize("script", [True, False])
async def test_parts_of_a_site_are_tabs(busy: Web, new_reader: NewReader, script: bool) -> None:
    reader = await new_reader(busy.root, java_script_enabled=script)
    page = reader.page
    parts = {"Changes": "#changes", "What counts": "#counts", "When and how": "#when", "Alerts": "#alerts"}
    parts["Address and tags"] = "#settings"
    await page.goto(f"{busy.root}/sites/1")
    tabs = page.get_by_role("navigation", name="Parts of this page")
    for name, place in [("", "#changes"), *parts.items(), ("Changes", "#changes")]:
        if name:
            await tabs.get_by_role("link", name=name).click()
        await page.locator(place).wait_for(state="visible")
        shown = [other for other in parts.values() if await page.locator(other).is_visible()]
        assert shown == [place]
        if script:
            assert await tabs.locator("[aria-current]").get_attribute("href") == place
    await page.goto(f"{busy.root}/sites/1#when")
    assert await page.locator("#when").is_visible(), "links into a part show it"
    await page.go_back()
    await page.locator("#changes").wait_for(state="visible")
    assert reader.complaints == []


@pytest.mark.parametrize(
    ("openings", "words"),
    [
        ([("mon tue wed thu fri", "08:00", "18:00")], "Mon–Fri 8–18 (UTC)"),
        ([("sat mon", "00:00", "24:00"), ("sun", "09:30", "10:00")], "Mon, Sat 0–24, Sun 9:30–10 (UTC)"),
        ([("fri sat sun mon", "22:00", "00:30")], "Mon, Fri–Sun 22–0:30 (UTC)"),
        ([("", "08:00", "09:00")], "every day 8–9 (UTC)"),
        ([("sun sat fri thu wed tue mon", "08:00", "09:00")], "every day 8–9 (UTC)"),
    ],
)
def test_hours_are_said_in_words(openings: list[tuple[str, str, str]], words: str) -> None:
    windows = Windows("UTC", tuple(DayWindow(tuple(days.split()), begins, ends) for days, begins, ends in openings))
    assert hours_in_words(windows) == words
    assert hours_in_words(None) == ""


async def test_the_form_says_the_hours_that_are_saved_and_whether_there_is_a_browser(web: Web) -> None:
    await web.api.add("https://example.org/")
    page = (await web.get("/sites/1")).text
    assert "Saved: " not in page
    assert "--browser" not in page, "settings are not known"
    settings = web.api.app.state.web.settings
    settings["browser"] = ("", "default")
    for path in ("/sites/1", "/sites/1/when"):
        assert "pollerd runs without <code>--browser</code>" in (await web.get(path)).text
    settings["browser"] = ("/usr/bin/chromium", "flag")
    sent = {"painted": "1", "hour": "mon-8", "zone": "Europe/Vienna"}
    assert (await web.post("/sites/1/when", sent)).status == 303
    page = (await web.get("/sites/1")).text
    assert "Saved: Mon 8–9 (Europe/Vienna)." in page
    assert "--browser" not in page
