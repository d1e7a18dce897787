"""What a page's script may not reach, and what it may cost. Real Chromium; the name server is the tests' own.

Of this machine's addresses 127.0.0.1 stands for a public one, all others are inside; canaries listen there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from aiohttp import web

from pollerd.fetching import guard
from pollerd.fetching.request import Request
from pollerd.fetching.settings import FetchSettings
from pollerd.model import OutcomeKind
from pollerd.rendering.outcome import RenderedOutcome
from pollerd.rendering.plan import compile_plan
from pollerd.rendering.renderer import Renderer
from pollerd.rendering.settings import RenderingSettings
from tests.support.chromium import browser_folders
from tests.support.nameserver import NameServer, look_up, name_server
from tests.support.origin import Origin, Page

pytestmark = pytest.mark.asyncio(loop_scope="module")
PUBLIC = "127.0.0.1"
SHORT = compile_plan("render", {"wait": {"seconds": 2.5}, "timeout": 15})


class Canaries(asyncio.DatagramProtocol):
    """Listen inside, by TCP and UDP, on one port of every loopback address; they note who comes."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.port = 0

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.heard.append(f"udp {data[:8]!r}")

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard.append(f"tcp {writer.get_extra_info('sockname')[0]}")
        writer.write(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 6\r\n\r\ninside")
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def canaries() -> AsyncIterator[Canaries]:
    found = Canaries()
    server = await asyncio.start_server(found.connected, "0.0.0.0", 0)
    found.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: found, ("0.0.0.0", found.port))
    async with server:
        yield found
    transport.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def names() -> AsyncIterator[NameServer]:
    real = guard.denial
    loop = asyncio.get_running_loop()
    async with name_server({}) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(guard, "denial", lambda address, *rest: None if address == PUBLIC else real(address, *rest))
            patch.setattr(loop, "getaddrinfo", look_up(server, loop.getaddrinfo))
            yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(settings: RenderingSettings, names: NameServer) -> AsyncIterator[Renderer]:
    """May dial what is public only."""
    limited = RenderingSettings(
        browser=settings.browser, browser_no_sandbox=True, browser_deadline_seconds=20.0, browser_page_bytes=8_000_000
    )
    async with Renderer(limited, FetchSettings(max_body_bytes=2_000_000)) as opened:
        yield opened


async def run(guarded: Renderer, origin: Origin, script: str, *, markup: str = "") -> RenderedOutcome:
    """Renders a page with this script; what it says stands in #said."""
    body = f"<p id=said></p>{markup}<script>const say = x => said.textContent += x + ' ';{script}</script>"
    origin.pages["/"] = Page(body)
    return await guarded.render(Request(origin.url("/", 0)), SHORT)


def said(outcome: RenderedOutcome) -> bytes:
    """What the page's script said."""
    return (outcome.body or b"").partition(b'<p id="said">')[2].partition(b"</p>")[0]


def still_works(outcome: RenderedOutcome) -> None:
    assert outcome.kind is OutcomeKind.BODY, outcome.detail
    assert b"inside" not in said(outcome)


FETCHES = "fetch(`{url}`).then(r => r.text()).then(say, e => say('refused'));"
WAYS = {
    "fetch": FETCHES,
    "no-cors": "fetch(`{url}`, {{mode: 'no-cors'}}).then(() => say('inside'), () => say('refused'));",
    "image": "const i = new Image(); i.src = `{url}`;",
    "frame": "const f = document.createElement('iframe'); f.src = `{url}`; document.body.append(f);",
    "socket": "const w = new WebSocket(`{url}`.replace('http', 'ws')); w.onopen = () => say('inside');",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('{url}')`])));",
    "beacon": "navigator.sendBeacon(`{url}`, 'x');",
    "prefetch": "document.head.innerHTML += `<link rel=prefetch href={url}><link rel=preconnect href={url}>`;",
    "prerender": "document.head.innerHTML += `<link rel=prerender href={url}>`;",
    "form": "const f = document.createElement('form'); f.action = `{url}`; f.target = 'x'; document.body.append(f);"
    "f.submit();",
    "stream": "new EventSource(`{url}`);",
}


@pytest.mark.parametrize("way", WAYS)
async def test_inside_is_not_reached(
    guarded: Renderer, origin: Origin, canaries: Canaries, names: NameServer, way: str
) -> None:
    names.names["localhost"] = [["127.0.0.2"]]
    names.names["inside.example"] = [["127.0.0.3"]]
    hosts = ("127.0.0.2", "localhost", "inside.example", "[::1]", "169.254.169.254", "0.0.0.0", "[::ffff:7f00:2]")
    tries = "".join(f"{{{WAYS[way].format(url=f'http://{host}:{canaries.port}/x')}}}" for host in hosts)
    still_works(await run(guarded, origin, tries))
    assert canaries.heard == []


async def test_a_name_that_turns_inside(
    guarded: Renderer, origin: Origin, canaries: Canaries, names: NameServer
) -> None:
    names.names["turning.example"] = [[PUBLIC], ["127.0.0.2"]]
    origin.pages["/a"] = Page("outside", headers={"Access-Control-Allow-Origin": "*", "Connection": "close"})
    url = f"http://turning.example:{origin.port}/a"
    inside = f"http://turning.example:{canaries.port}/a"
    again = f"fetch('{inside}').then(r => r.text()).then(say, () => say('refused'))"
    outcome = await run(guarded, origin, f"fetch('{url}').then(r => r.text()).then(t => {{say(t); {again}}});")
    still_works(outcome)
    assert b"outside refused" in (outcome.body or b"")
    assert canaries.heard == []


async def test_a_page_cannot_go_inside_itself(guarded: Renderer, origin: Origin, canaries: Canaries) -> None:
    origin.pages["/hop"] = Page(status=302, headers={"Location": f"http://127.0.0.2:{canaries.port}/"})
    outcome = await guarded.render(Request(origin.url("/hop", 0)))
    assert outcome.kind is OutcomeKind.BLOCKED_ADDRESS
    await run(guarded, origin, f"location.href = 'http://127.0.0.2:{canaries.port}/'")
    await run(
        guarded, origin, "", markup=f"<meta http-equiv=refresh content='0;url=http://127.0.0.2:{canaries.port}/'>"
    )
    assert canaries.heard == []


async def test_no_datagram_leaves(guarded: Renderer, origin: Origin, canaries: Canaries) -> None:
    script = f"""
      say(typeof RTCPeerConnection + typeof webkitRTCPeerConnection + typeof WebTransport);
      const f = document.createElement('iframe'); document.body.append(f);
      const RTC = f.contentWindow.RTCPeerConnection;
      say(typeof RTC + typeof f.contentWindow.WebTransport);
      for (const host of ['127.0.0.1', '127.0.0.2']) {{
        try {{
          const c = new RTC({{iceServers: [{{urls: `stun:${{host}}:{canaries.port}`}},
            {{urls: `turn:${{host}}:{canaries.port}`, username: 'u', credential: 'p'}}]}});
          c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o));
        }} catch (e) {{ }}
        const w = `try {{ new WebTransport('https://${{host}}:{canaries.port}/') }} catch (e) {{ }}`;
        new Worker(URL.createObjectURL(new Blob([w])));
      }}"""
    outcome = await run(guarded, origin, script)
    still_works(outcome)
    assert b"undefinedundefinedundefined undefinedundefined" in (outcome.body or b"")
    assert [heard for heard in canaries.heard if heard.startswith("udp")] == []


async def test_downloads_dialogs_and_popups_stop_nothing(guarded: Renderer, origin: Origin) -> None:
    origin.pages["/file"] = Page("x" * 1_000, headers={"Content-Disposition": "attachment"})
    origin.pages["/popup"] = Page("popup")
    script = """
      const a = document.createElement('a'); a.href = '/file'; a.download = 'f'; document.body.append(a); a.click();
      say(confirm('sure?')); say(prompt('what?')); alert('!'); print();
      for (let n = 0; n < 5; n++) say(window.open('/popup') === null ? 'none' : 'open');
      onbeforeunload = () => 'stay'; globalThis.Notification?.requestPermission().then(say);
      navigator.geolocation.getCurrentPosition(() => say('inside'), () => say('nowhere'));
      say('end');"""
    outcome = await run(guarded, origin, script)
    still_works(outcome)
    assert said(outcome).startswith(b"false null")
    assert not [folder for folder in browser_folders() for file in folder.rglob("f") if file.is_file()]
    assert b"end" in said(outcome)


async def test_no_service_worker(guarded: Renderer, origin: Origin) -> None:
    origin.pages["/sw.js"] = Page("x", headers={"Content-Type": "text/javascript"})
    script = "say('serviceWorker' in navigator); navigator.serviceWorker.register('/sw.js').then(() => say('inside'))"
    outcome = await run(guarded, origin, script)
    still_works(outcome)
    assert said(outcome) == b"false "
    assert "/sw.js" not in {hit.path for hit in origin.log}


@pytest.mark.parametrize(
    "script", ["while (true) {}", "while (true) alert('x')", "setInterval(() => {while (true);}, 100)"]
)
async def test_a_script_without_end_costs_its_own_page_a_bounded_time(
    guarded: Renderer, origin: Origin, script: str
) -> None:
    origin.pages["/"] = Page(f"<p>x</p><script>{script}</script>")
    origin.pages["/good"] = Page("<p>good</p>")
    plan = compile_plan("render", {"timeout": 4})
    endless = asyncio.create_task(guarded.render(Request(origin.url("/", 0)), plan))
    good = [await guarded.render(Request(origin.url("/good", 0))) for _ in range(2)]
    assert {one.kind for one in good} == {OutcomeKind.BODY}
    outcome = await endless
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.duration < 10
    assert (await guarded.render(Request(origin.url("/good", 0)))).kind is OutcomeKind.BODY


async def test_a_page_of_a_gigabyte(guarded: Renderer, origin: Origin) -> None:
    sent = 0

    async def gigabyte(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "text/html", "Content-Length": str(10**9)})
        await response.prepare(request)
        chunk = b"<p>x" * 16_384
        while sent < 10**9:
            await response.write(chunk)
            sent += len(chunk)
        return response

    origin.pages["/"] = Page(handler=gigabyte)
    outcome = await guarded.render(Request(origin.url("/", 0)))
    assert (outcome.kind, outcome.detail) == (OutcomeKind.TOO_LARGE, "the page loads more than 8000000 bytes")
    assert sent < 40_000_000
    sent = 0
    origin.pages["/big"] = Page(handler=gigabyte)
    outcome = await run(guarded, origin, "fetch('/big').then(r => r.arrayBuffer())")
    assert outcome.kind is OutcomeKind.TOO_LARGE


async def test_a_page_that_a_script_makes_large(guarded: Renderer, origin: Origin) -> None:
    outcome = await run(guarded, origin, "document.body.append('x'.repeat(3_000_000))")
    assert (outcome.kind, outcome.detail) == (OutcomeKind.TOO_LARGE, "rendered page of more than 2000000 bytes")
    lies = (
        "Object.defineProperty(Element.prototype, 'outerHTML', {get: () => 'y'}); document.body.append('x'.repeat(3e6))"
    )
    assert (await run(guarded, origin, lies)).kind is OutcomeKind.TOO_LARGE


async def test_the_seventh_connection_waits(guarded: Renderer, origin: Origin) -> None:
    open_now, most = 0, 0

    async def slow(request: web.Request) -> web.Response:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.2)
        open_now -= 1
        return web.Response(text="x")

    origin.pages["/slow"] = Page(handler=slow)
    script = f"""for (let n = 0; n < 20; n++) {{
        fetch('/slow?' + n); new WebSocket('ws://127.0.0.1:{origin.port}/slow?w' + n) }}"""
    still_works(await run(guarded, origin, script))
    assert 2 <= most <= 6
    assert guarded.most_connections <= 6


async def test_a_page_that_takes_all_memory_ends_itself(guarded: Renderer, origin: Origin) -> None:
    outcome = await run(guarded, origin, "const a = []; while (true) a.push(new Array(1e6).fill(Math.random()))")
    assert outcome.kind in (OutcomeKind.PROTOCOL_ERROR, OutcomeKind.TIMEOUT)
    assert not outcome.browser_fault
    still_works(await run(guarded, origin, "say('fine')"))
