"""Pages in a real Chromium: what is read of them, and what becomes of those that cannot be read."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind, Redirect
from pollerd.rendering.plan import compile_plan
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings
from tests.support.origin import Origin, Page, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPTED = "<!doctype html><title>t</title><p id=a>waiting</p><script>a.textContent = 'ren' + 'dered'</script>"
LATE = "<p id=a>waiting</p><script>setTimeout(() => {a.innerHTML = '<b class=late>here</b>'}, 700)</script>"


def plan(**document: Any) -> Any:
    return compile_plan("render", document)


async def test_what_a_script_makes_is_read(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page(SCRIPTED, headers={"X-Robots-Tag": "noindex", "Cache-Control": "max-age=60"})
    outcome = await renderer.render(Request(origin.url("/")))
    assert outcome.kind is OutcomeKind.BODY
    assert outcome.body is not None
    assert outcome.body.startswith(b"<!DOCTYPE html><html><head><title>t</title>")
    assert b'<p id="a">rendered</p>' in outcome.body
    assert (outcome.status, outcome.bytes) == (200, len(outcome.body))
    assert outcome.content_type == "text/html; charset=utf-8"
    assert (outcome.robots_tags, outcome.fresh_for) == (("noindex",), 60)
    assert outcome.server_date is not None
    assert outcome.duration > 0
    assert (outcome.requests, outcome.refused, outcome.browser_fault) == (1, 0, False)
    assert outcome.loaded_bytes > outcome.bytes


async def test_it_says_who_asks(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("x")
    await renderer.render(Request(origin.url("/")))
    assert "pollerd/" in origin.log[0].headers["User-Agent"]
    assert origin.log[0].headers["User-Agent"].endswith("(+https://example.org/bot)")


async def test_nothing_is_kept_from_one_poll_to_the_next(renderer: Renderer, origin: Origin) -> None:
    script = "<p id=a></p><script>a.textContent = document.cookie + localStorage.x; localStorage.x = 1</script>"
    origin.pages["/"] = Page(script, headers={"Set-Cookie": "c=1", "Cache-Control": "max-age=999"})
    for _ in range(2):
        outcome = await renderer.render(Request(origin.url("/")))
        assert b"c=1undefined" in (outcome.body or b"")
    assert len(origin.log) == 2
    assert not any("Cookie" in hit.headers for hit in origin.log)


@pytest.mark.parametrize("wait", [{"selector": ".late"}, {"seconds": 1.5}, {"idle": True, "selector": "b"}])
async def test_what_is_waited_for(renderer: Renderer, origin: Origin, wait: dict[str, Any]) -> None:
    origin.pages["/"] = Page(LATE)
    outcome = await renderer.render(Request(origin.url("/")), plan(wait=wait))
    assert b"here" in (outcome.body or b"")


async def test_a_selector_that_never_comes(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("x")
    outcome = await renderer.render(Request(origin.url("/")), plan(wait={"selector": ".never"}, timeout=2))
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.detail == "nothing matched the selector that is waited for, within the deadline"
    assert outcome.status == 200
    assert 1.9 < outcome.duration < 10


async def test_what_is_blocked_is_not_asked_for(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("<img src=/i.png><video src=/v.mp4></video><link rel=stylesheet href=/s.css><p>x")
    await renderer.render(Request(origin.url("/")))
    assert {hit.path for hit in origin.log} == {"/", "/s.css"}
    origin.log.clear()
    await renderer.render(Request(origin.url("/")), plan(block=["stylesheet"]))
    assert {hit.path for hit in origin.log} >= {"/", "/i.png"}
    assert "/s.css" not in {hit.path for hit in origin.log}


async def test_redirects_are_told_and_permitted_one_by_one(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/from"] = Page(status=301, headers={"Location": "/via"})
    origin.pages["/via"] = Page(status=302, headers={"Location": origin.url("/", 2)})
    origin.pages["/"] = Page(SCRIPTED)
    asked: list[str] = []

    async def may_follow(url: str) -> bool:
        asked.append(url)
        return True

    outcome = await renderer.render(Request(origin.url("/from")), may_follow=may_follow)
    hops = [origin.url("/via"), origin.url("/", 2)]
    assert outcome.redirects == (Redirect(301, hops[0]), Redirect(302, hops[1]))
    assert asked == hops
    assert b"rendered" in (outcome.body or b"")


async def test_a_redirect_that_is_not_permitted_is_not_followed(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/from"] = Page(status=302, headers={"Location": origin.url("/", 2)})

    async def may_follow(_: str) -> bool:
        return False

    outcome = await renderer.render(Request(origin.url("/from")), may_follow=may_follow)
    assert outcome.kind is OutcomeKind.DENIED
    assert outcome.redirects == (Redirect(302, origin.url("/", 2)),)
    assert [hit.path for hit in origin.log] == ["/from"]


async def test_endless_redirects(renderer: Renderer, origin: Origin) -> None:
    async def on(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"/?{int(request.query_string or 0) + 1}"})

    origin.pages["/"] = Page(handler=on)
    outcome = await renderer.render(Request(origin.url("/?0")))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.PROTOCOL_ERROR, "more than 10 redirects")
    assert len(origin.log) == 11


async def test_own_headers_reach_their_origin_only(renderer: Renderer, origin: Origin) -> None:
    elsewhere = origin.url("/there", 2)
    page = (
        f"<script>fetch('/a'); fetch('{elsewhere}', {{mode: 'no-cors'}}); fetch('/away', {{mode: 'no-cors'}})</script>"
    )
    origin.pages |= {"/": Page(page), "/a": Page("x"), "/there": Page("x"), "/gone": Page("x")}
    origin.pages["/away"] = Page(status=302, headers={"Location": origin.url("/gone", 3)})
    own = (("Authorization", "Bearer s3cret"), ("Accept-Language", "nn"))
    await renderer.render(Request(origin.url("/"), headers=own))
    shown = {hit.path: (hit.headers.get("Authorization"), hit.headers.get("Accept-Language")) for hit in origin.log}
    assert set(shown) == {"/", "/a", "/away", "/there", "/gone"}
    with_own = {path for path, headers in shown.items() if headers == ("Bearer s3cret", "nn")}
    assert with_own == {"/", "/a", "/away"}
    assert {headers[0] for path, headers in shown.items() if path in ("/there", "/gone")} == {None}


@pytest.mark.parametrize(
    ("status", "headers", "kind", "retry_after"),
    [
        (404, {}, OutcomeKind.NOT_FOUND, None),
        (410, {}, OutcomeKind.GONE, None),
        (429, {"Retry-After": "7"}, OutcomeKind.THROTTLED, 7),
        (503, {"Retry-After": "9"}, OutcomeKind.THROTTLED, 9),
        (503, {}, OutcomeKind.SERVER_ERROR, None),
        (403, {}, OutcomeKind.CLIENT_ERROR, None),
    ],
)
async def test_statuses(
    renderer: Renderer,
    origin: Origin,
    status: int,
    headers: dict[str, str],
    kind: OutcomeKind,
    retry_after: float | None,
) -> None:
    origin.pages["/"] = Page("<script src=/s.js></script>", status=status, headers=headers)
    outcome = await renderer.render(Request(origin.url("/")))
    assert (outcome.kind, outcome.status, outcome.retry_after) == (kind, status, retry_after)
    assert outcome.detail == f"HTTP status {status}"
    assert [hit.path for hit in origin.log] == ["/"], "nothing of it is loaded"


async def test_an_answer_without_content(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("", status=204)
    outcome = await renderer.render(Request(origin.url("/")))
    assert (outcome.kind, outcome.body) == (OutcomeKind.BODY, b"")


async def test_a_download_is_no_page(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("x" * 100, headers={"Content-Disposition": "attachment; filename=x.bin"})
    outcome = await renderer.render(Request(origin.url("/")))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR
    assert outcome.detail == "the answer is a download, not a page"


async def test_where_no_page_is(renderer: Renderer, origin: Origin) -> None:
    found = [
        (await renderer.render(Request(url))).kind
        for url in (
            "http://nosuch.invalid/",
            "http://127.0.0.1:9/",
            "https://169.254.169.254/",
            f"https{origin.url()[4:]}",
        )
    ]
    assert found[0] is OutcomeKind.DNS_ERROR
    assert found[2:] == [OutcomeKind.BLOCKED_ADDRESS, OutcomeKind.TLS_ERROR]


async def test_where_nobody_listens(renderer: Renderer, unused_tcp_port: int) -> None:
    for scheme in ("http", "https"):
        outcome = await renderer.render(Request(f"{scheme}://127.0.0.1:{unused_tcp_port}/"))
        assert outcome.kind is OutcomeKind.CONNECT_ERROR
        assert not outcome.browser_fault


async def test_an_answer_that_is_none(renderer: Renderer) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        outcome = await renderer.render(Request(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    assert outcome.kind is OutcomeKind.PROTOCOL_ERROR


async def test_the_picture_of_a_page(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page("<body style='margin:0'><div style='height: 3000px; background: teal'></div>")
    shown = dataclasses.replace(plan(viewport={"width": 640}), screenshot=True)
    outcome = await renderer.render(Request(origin.url("/")), shown)
    assert outcome.screenshot is not None
    assert outcome.screenshot.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack_from("!II", outcome.screenshot, 16) == (640, 3000)
    origin.pages["/"] = Page("<body style='margin:0'><div style='height: 90000px; background: teal'></div>")
    outcome = await renderer.render(Request(origin.url("/")), shown)
    assert struct.unpack_from("!II", outcome.screenshot or b"", 16) == (640, 10_000)


Write = Callable[[], bool]


async def test_the_request_waits_for_its_turn(renderer: Renderer, origin: Origin) -> None:
    origin.pages["/"] = Page(SCRIPTED)

    async def later(write: Write) -> bool:
        await asyncio.sleep(8.0)
        assert not origin.log
        return write()

    outcome = await renderer.render(Request(origin.url("/")), plan(timeout=7.5, wait={}), send=later)
    assert outcome.kind is OutcomeKind.BODY, "the wait does not count for the deadline"
    assert outcome.duration < 7.5


async def test_who_is_told_of_requests_and_how_many_pages_there_are(
    settings: RenderingSettings, origin: Origin
) -> None:
    origin.pages["/"] = Page(SCRIPTED)
    origin.pages["/from"] = Page(status=302, headers={"Location": origin.url("/", 2)})
    sent: list[str] = []
    async with Renderer(settings, FetchSettings(allow_private=True), on_sent=sent.append) as renderer:
        await renderer.render(Request(origin.url("/from")))
        assert sent == [f"127.0.0.2:{origin.port}", f"127.0.0.3:{origin.port}"]
        held: list[asyncio.Future[None]] = []

        def hold(write: Write) -> Awaitable[bool]:
            async def wait() -> bool:
                held.append(asyncio.get_running_loop().create_future())
                await held[-1]
                return write()

            return wait()

        polls = [asyncio.create_task(renderer.render(Request(origin.url("/")), send=hold)) for _ in range(4)]
        while len(held) < settings.browser_pages:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert len(held) == settings.browser_pages == 2
        while not all(poll.done() for poll in polls):
            for one in held:
                if not one.done():
                    one.set_result(None)
            await asyncio.sleep(0.05)
        assert {poll.result().kind for poll in polls} == {OutcomeKind.BODY}


async def test_paused_hosts_are_not_connected_to(settings: RenderingSettings, origin: Origin) -> None:
    origin.pages["/"] = Page(f"<script src='{origin.url('/s.js', 2)}'></script><script src=/t.js></script>x")
    reasons = {f"127.0.0.3:{origin.port}": "paused"}
    fetching = FetchSettings(allow_private=True)
    async with Renderer(settings, fetching, may_connect=reasons.get) as renderer:
        outcome = await renderer.render(Request(origin.url("/")))
    assert outcome.kind is OutcomeKind.BODY
    assert outcome.refused >= 1
    assert {hit.path for hit in origin.log} == {"/", "/t.js"}


async def test_a_page_that_is_cancelled(renderer: Renderer, origin: Origin) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    origin.pages["/"] = Page(handler=never)
    poll = asyncio.create_task(renderer.render(Request(origin.url("/"))))
    await until(lambda: sum(origin.concurrent.values()) > 0)
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    origin.pages["/"] = Page(SCRIPTED)
    assert (await renderer.render(Request(origin.url("/")))).kind is OutcomeKind.BODY
