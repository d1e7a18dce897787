"""Steps before reading: a cookie banner, a sign-in, and steps that are not possible."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from pollerd.fetching.request import Request
from pollerd.model import OutcomeKind
from pollerd.rendering.plan import compile_plan
from pollerd.rendering.renderer import Renderer
from tests.support.origin import Origin, Page

pytestmark = pytest.mark.asyncio(loop_scope="module")

BANNER = """<div id=banner style="position:fixed;inset:0;background:white">
<button id=ok onclick="setTimeout(() => banner.remove(), 200)">Accept</button></div>
<p id=text>waiting</p><button id=more onclick="text.textContent = 'all of it'">More</button>"""

FORM = """<form method=post action=/in><input name=user><input name=password type=password>
<input type=checkbox name=terms><select name=lang><option value=en>E<option value=nn>N</select>
<button>Sign in</button></form>"""


def plan(*steps: dict[str, Any], **more: Any) -> Any:
    return compile_plan("render", {"steps": list(steps), **more})


async def test_a_cookie_banner(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page(BANNER)
    accept = {"click_if_exists": "#ok"}
    outcome = await renderer.render(Request(origin.url("/")), plan(accept, {"click": "#more"}, {"remove": "button"}))
    assert outcome.kind is OutcomeKind.BODY
    assert b"all of it" in (outcome.body or b"")
    assert b"<button" not in (outcome.body or b"")
    origin.pages["/"] = Page("<p>no banner today</p>")
    outcome = await renderer.render(Request(origin.url("/")), plan(accept | {"timeout": 0.5}))
    assert b"no banner today" in (outcome.body or b"")


async def test_a_sign_in(renderer: Renderer, origin: Origin) -> None:
    posted: list[dict[str, str]] = []

    async def sign_in(request: web.Request) -> web.Response:
        posted.append({name: str(value) for name, value in (await request.post()).items()})
        return web.Response(status=303, headers={"Location": "/account", "Set-Cookie": "session=abc; HttpOnly"})

    async def account(request: web.Request) -> web.Response:
        if request.cookies.get("session") != "abc":
            return web.Response(status=403, text=FORM, content_type="text/html")
        text = "<h1>Welcome</h1><input value='hunter2&amp;co'><p>hunter2&amp;co</p>"
        return web.Response(text=text, content_type="text/html")

    origin.pages |= {"/account": Page(handler=account), "/in": Page(handler=sign_in)}
    steps = (
        {"type": "input[name=user]", "text": "jo"},
        {"type": "input[name=password]", "secret": "hunter2&co"},
        {"check": "input[name=terms]"},
        {"select": "select", "value": "nn"},
        {"press": "Enter", "on": "input[name=password]"},
        {"wait_for": "h1"},
        {"wait_for_text": "Welcome"},
    )
    for _ in range(2):
        outcome = await renderer.render(Request(origin.url("/account")), plan(*steps))
        assert (outcome.kind, outcome.status) == (OutcomeKind.BODY, 200)
        assert b"<h1>Welcome</h1>" in (outcome.body or b"")
        assert b"hunter2" not in (outcome.body or b"")
        assert outcome.redirects == (), "they are none of the page's own answer"
    assert posted == [{"user": "jo", "password": "hunter2&co", "terms": "on", "lang": "nn"}] * 2


async def test_a_sign_in_that_fails(renderer: Renderer, origin: Origin) -> None:
    origin.pages |= {"/": Page(FORM, status=403), "/in": Page("no", status=401)}
    steps = ({"type": "input[name=password]", "secret": "hunter2"}, {"press": "Enter"}, {"wait_for_text": "no"})
    outcome = await renderer.render(Request(origin.url("/")), plan(*steps))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.CLIENT_ERROR, "HTTP status 401")


async def test_scrolling_loads_more(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page(
        "<div style='height: 4000px'></div><p id=end>end</p><script>"
        "new IntersectionObserver(e => {if (e[0].isIntersecting) end.textContent = 'more'}).observe(end);"
        "addEventListener('scroll', () => {document.title += scrollY + ' '})</script>"
    )
    for step in ({"scroll": "bottom"}, {"scroll_to": "#end"}, {"scroll": 5000}):
        outcome = await renderer.render(Request(origin.url("/")), plan(step, {"wait": 0.3}))
        assert b">more<" in (outcome.body or b""), step
    outcome = await renderer.render(Request(origin.url("/")), plan({"scroll": 500}, {"wait": 0.3}))
    assert b">end<" in (outcome.body or b"")


@pytest.mark.parametrize(
    ("step", "kind", "detail"),
    [
        ({"click": "#none"}, OutcomeKind.TIMEOUT, "step 1 (click) was not possible within 1 s"),
        ({"wait_for": "#hidden"}, OutcomeKind.TIMEOUT, "step 1 (wait_for) was not possible within 1 s"),
        ({"wait_for_text": "s3cret"}, OutcomeKind.TIMEOUT, "step 1 (wait_for_text) was not possible within 1 s"),
        ({"type": "#none", "secret": "s3cret"}, OutcomeKind.TIMEOUT, "step 1 (type) was not possible within 1 s"),
        ({"type": "p", "secret": "s3cret"}, OutcomeKind.PROTOCOL_ERROR, "step 1 (type) was not possible"),
        ({"check": "p"}, OutcomeKind.PROTOCOL_ERROR, "step 1 (check) was not possible"),
        ({"select": "select", "value": "s3cret"}, OutcomeKind.TIMEOUT, "step 1 (select) was not possible within 1 s"),
        ({"press": "Nokey"}, OutcomeKind.PROTOCOL_ERROR, "step 1 (press) was not possible"),
    ],
)
async def test_steps_that_are_not_possible(
    renderer: Renderer, origin: Origin, step: dict[str, Any], kind: OutcomeKind, detail: str
) -> None:
    origin.pages["/"] = Page("<p>x</p><div id=hidden hidden>h</div><select><option value=a>A</select>")
    outcome = await renderer.render(
        Request(origin.url("/")), plan(step | {"timeout": 1 if kind is OutcomeKind.TIMEOUT else 8})
    )
    assert (outcome.kind, outcome.detail) == (kind, detail)
    assert "s3cret" not in repr(outcome)
