"""Addresses of every kind, served by a web server and looked at by the form: what each is, and what is in the way."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import aiohttp
import orjson
from aiohttp import web

from pollerd.lists.recognise import AddressKind, Obstacle
from pollerd.web.sites import KINDS
from tests.lists.test_recognise import ARTICLE, BANNER, PAGES, RSS, SITEMAP, page
from tests.support.origin import Origin, until
from tests.support.origin import Page as Served
from tests.support.process import daemon_process

MORE: dict[str, tuple[str, AddressKind, Obstacle | None]] = {
    "a shell of Angular's": (
        page('<app-root></app-root><script src="main.js" type="module"></script>'),
        AddressKind.PAGE,
        Obstacle.SCRIPTS,
    ),
    "a page that sends browsers on": (
        '<html><head><meta http-equiv="refresh" content="0; url=/new/"></head><body></body></html>',
        AddressKind.PAGE,
        Obstacle.NO_TEXT,
    ),
    "a page of pictures": (
        page('<img src="1.jpg"><img src="2.jpg"><video src="3.mp4"></video>', ""),
        AddressKind.PAGE,
        Obstacle.NO_TEXT,
    ),
    "a cookie wall in Italian": (
        page(
            "<h1>La tua privacy</h1><p>Noi e i nostri partner utilizziamo i cookie.</p><button>Accetta tutti</button>"
            "<button>Rifiuta</button><p>Puoi revocare il consenso in ogni momento.</p>"
        ),
        AddressKind.PAGE,
        Obstacle.COOKIES,
    ),
    "a form to sign in, in French": (
        page('<h1>Espace client</h1><form><input type="password"><button>Se connecter</button></form>'),
        AddressKind.PAGE,
        Obstacle.PASSWORD,
    ),
    "a table of departures": (
        page("<table><tr><th>Time<th>To</tr>" + "<tr><td>12:0{n}<td>Graz</tr>" * 9 + "</table>"),
        AddressKind.PAGE,
        None,
    ),
    "a price list under a banner": (
        page(f"{BANNER}<ul><li>Coffee € 2.90</li><li>Tea € 2.40</li></ul>"),
        AddressKind.PAGE,
        None,
    ),
    "a recipe by JSON-LD": (
        page(f'{ARTICLE}<script type="application/ld+json">{{"@type":"Recipe","name":"Soup"}}</script>'),
        AddressKind.PAGE,
        None,
    ),
}
"""Kinds that the rules of recognition were not written by."""
OTHER_MEDIA = {
    "a feed": (RSS, "application/rss+xml", AddressKind.FEED),
    "a sitemap": (SITEMAP, "application/xml", AddressKind.LIST),
    "JSON": ('{"a": [1, 2]}', "application/json", AddressKind.JSON),
    "text": ("one\ntwo\n", "text/plain", AddressKind.TEXT),
    "a table as text": ("day;price\nmon;5\n", "text/csv", AddressKind.TEXT),
    "bytes": ("\x00\x01\x02", "application/octet-stream", AddressKind.FILE),
}
REFUSED = {
    "401": (401, Obstacle.PASSWORD),
    "403": (403, Obstacle.CHALLENGE),
    "202": (202, Obstacle.CHALLENGE),
    "404": (404, Obstacle.FAILURE),
    "500": (500, Obstacle.FAILURE),
}
SAYS = {
    Obstacle.PASSWORD: "password|sign in",
    Obstacle.COOKIES: "cookies",
    Obstacle.CHALLENGE: "a person asks|refuses programs|a test",
    Obstacle.SCRIPTS: "scripts",
    Obstacle.ROBOTS: "robots.txt",
    Obstacle.NO_TEXT: "no text|frames|sends browsers on",
    Obstacle.FAILURE: ".",
}
CURES = {
    Obstacle.PASSWORD: 'name="password"',
    Obstacle.COOKIES: 'name="cookie"',
    Obstacle.CHALLENGE: 'name="cookie"',
    Obstacle.SCRIPTS: 'name="browser" value="1" checked',
    Obstacle.NO_TEXT: 'name="browser"',
}
"""What the form offers then."""
_WRONG_AT_MOST = 0.05
LOOKS = 3
"""A minute, of each caller: so each token looks at so many."""


async def loop(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(request.path, headers={"Set-Cookie": "consent=asked"})


def serve(origin: Origin) -> dict[str, tuple[AddressKind | None, Obstacle | None]]:
    """Serves all kinds, each at a path that is its name; returns what they are and what is in the way."""
    kinds: dict[str, tuple[AddressKind | None, Obstacle | None]] = {}
    for name, (html, kind, obstacle) in (PAGES | MORE).items():
        origin.pages[f"/{name}"] = Served(html)
        kinds[name] = kind, obstacle
    for name, (body, media, kind) in OTHER_MEDIA.items():
        origin.pages[f"/{name}"] = Served(body, headers={"Content-Type": media})
        kinds[name] = kind, None
    for name, (status, obstacle) in REFUSED.items():
        origin.pages[f"/{name}"] = Served("<p>Not now.</p>", status=status)
        kinds[name] = None, obstacle
    origin.pages["/loop"] = Served(handler=loop)
    kinds["loop"] = None, Obstacle.COOKIES
    origin.pages["/denied"] = Served(page(ARTICLE))
    origin.robots = Served("User-agent: *\nDisallow: /denied\n", headers={"Content-Type": "text/plain"})
    kinds["denied"] = None, Obstacle.ROBOTS
    origin.pages["/with a feed"] = Served(
        page(ARTICLE, head='<link rel="alternate" type="application/rss+xml" href="/a feed">')
    )
    kinds["with a feed"] = AddressKind.PAGE, None
    return kinds


def is_right(shown: str, kind: AddressKind | None, obstacle: Obstacle | None) -> bool:
    """Returns whether the page of the form says what the address is, what is in the way, and offers what helps."""
    text = unescape(re.sub("<[^>]+>", "", shown))
    if kind is not None and f"· {KINDS[kind]}" not in text:
        return False
    if obstacle is None:
        return "✓ It was read" in text and "In the way" not in text
    reason = re.search(r"In the way: (.*)", text)
    return reason is not None and re.search(SAYS[obstacle], reason[1]) is not None and CURES.get(obstacle, "") in shown


async def test_every_kind_of_address_is_recognised_by_the_form(tmp_path: Path) -> None:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    async with Origin() as origin, daemon_process(database, tmp_path / "log", "--budget", "1000") as daemon:
        kinds = serve(origin)
        assert len(kinds) >= 40
        await until(lambda: bool(re.search(r"http://127\.0\.0\.1:\d+", daemon.log)))
        root = re.findall(r"http://127\.0\.0\.1:\d+", daemon.log)[0]
        async with aiohttp.ClientSession() as session:
            for path in ("/", "/sites"):
                async with session.get(root + path) as answer:
                    form = re.search(
                        r'<form method="post" action="/sites" class="add">.*?</form>', await answer.text(), re.S
                    )
                assert form is not None
                assert 'name="look"' in form[0]
            secrets: list[str] = []
            for n in range(-(-len(kinds) // LOOKS)):
                known = {"Authorization": f"Bearer {secrets[0]}"} if secrets else {}
                token = {"name": f"t{n}", "role": "write"}
                async with session.post(f"{root}/api/v1/tokens", json=token, headers=known) as answer:
                    made = orjson.loads(await answer.read())
                    assert answer.status == 201, made
                secrets.append(made["token"])
            wrong, shown = list[str](), dict[str, str]()
            for n, (name, (kind, obstacle)) in enumerate(kinds.items()):
                bearer = {"Authorization": f"Bearer {secrets[n // LOOKS]}"}
                data = {"url": origin.url(quote(f"/{name}")), "look": "1"}
                async with session.post(f"{root}/sites", data=data, headers=bearer) as answer:
                    shown[name] = await answer.text()
                    assert answer.status == 200, (name, shown[name])
                if not is_right(shown[name], kind, obstacle):
                    wrong.append(name)
            fine = [name for name, (_kind, obstacle) in kinds.items() if obstacle and "✓ It was read" in shown[name]]
            assert fine == [], "nothing is called fine that cannot be read"
            # A page of two short lines under a banner is taken for a wall: there is nearly nothing else on it.
            assert len(wrong) <= _WRONG_AT_MOST * len(kinds), wrong
            assert "Add the feed instead" in shown["with a feed"]
            assert "Add the feed instead" not in shown["an article"]
