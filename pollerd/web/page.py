"""How a page is made: templates, assets, markup.

How a page is made: a template, what it shows, and what all pages have in common.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import math
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import orjson
from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined, nodes
from jinja2.ext import InternationalizationExtension
from markupsafe import Markup, escape
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from pollerd import texts
from pollerd.api.http import ApiPorts, SignedIn, caller_of, check_csrf, csrf_token, reader_of
from pollerd.errors import (
    DatabaseInUseError,
    DatabaseUnavailableError,
    DuplicateError,
    InvalidValueError,
    NotFoundError,
    SchemaError,
    allowed_by,
    refusal,
)
from pollerd.limits import LeakyBuckets
from pollerd.planning import about, pace
from pollerd.plots import moment_text
from pollerd.scheduling.windows import zone_of
from pollerd.texts import _
from pollerd.timestamps import rfc3339
from pollerd.web import words
from pollerd.web.http import PAGE_HEADERS, POLICY, Posted, ours, posted_form, query
from pollerd.web.words import Moment, Part, Strong, visible

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

# The stylesheet and the scripts: kept in memory, under addresses that change with their contents.

router = APIRouter(include_in_schema=False)
_ASSETS_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    media: str
    plain: bytes
    packed: bytes
    """By gzip."""


# A page asks for one script, not for each of its modules in turn: a module and all that it imports become one file,
# each module in a function of its own, so that names do not meet.
_ENTRIES = ("page.js", "forms.js", "live-worker.js")
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
# Of modules are left out: comments, and the space at the start of lines (no text has such).
_COMMENT = re.compile(r"^\s*//.*\n|^\s*/\*\*.*\*/\n|^\s+| // .*$", re.MULTILINE)
_OF_STYLE = re.compile(rb"/\*.*?\*/\n?|^[ \t]+", re.MULTILINE | re.DOTALL)
"""Of a stylesheet: what only people need, who read it in the repository."""


def _bundled(entry: str, contents: Mapping[str, bytes]) -> bytes:
    """Returns a module with those that it imports, in the order in which they are needed."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        source = _COMMENT.sub("", contents[name].decode())
        for _names, needed in _IMPORT.findall(source):
            add(needed)
        inside = _IMPORT.sub(lambda match: f"const {match[1]} = {_variable(match[2])};", source)
        exports = ", ".join(_EXPORT.findall(source))
        made[name] = f"const {_variable(name)} = (() => {{\n{_EXPORT.sub('', inside)}return {{ {exports} }};\n}})();\n"

    add(entry)
    return "".join(made.values()).encode()


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)


_STRING = r'"((?:[^"\\\n]|\\.)*)"'
_TEXT = re.compile(rf"\b(?:_|_parts)\({_STRING}|\bn_\(\s*{_STRING},\s*{_STRING}")
"""A text of a script, see `texts.js`."""


class Assets:
    """All files, and the address that they have in common."""

    def __init__(self) -> None:
        folder = resources.files("pollerd.web") / "assets"
        contents = {file.name: file.read_bytes() for file in sorted(folder.iterdir(), key=lambda path: path.name)}
        contents |= {name: _bundled(name, contents) for name in _ENTRIES}
        contents["style.css"] = _OF_STYLE.sub(b"", contents["style.css"])
        self.files: Mapping[str, Asset] = {
            name: Asset(_ASSETS_MEDIA[name[name.rindex(".") :]], body, gzip.compress(body, 9, mtime=0))
            for name, body in contents.items()
            if name[name.rindex(".") :] in _ASSETS_MEDIA
        }
        digest = hashlib.sha256(b"\0".join(part for name, body in contents.items() for part in (name.encode(), body)))
        self.build = digest.hexdigest()[:16]
        """Names this state of the files."""
        scripts = (contents[name].decode() for name in _ENTRIES)
        self._texts = sorted({found for script in scripts for found in _TEXT.findall(script)})

    def texts(self) -> str:
        """Returns the texts of scripts in the language of the context, as `texts.js` reads them; empty: in English."""
        spoken = texts.current()
        if spoken.code == texts.ENGLISH:
            return ""
        translated: dict[str, object] = {text: spoken.gettext(text) for text, one, _many in self._texts if not one}
        translated |= {one: spoken.plurals(one, many) for _text, one, many in self._texts if one}
        return orjson.dumps(translated).decode()

    def url(self, name: str) -> str:
        """Returns the address of a file. Raises KeyError."""
        if name not in self.files:
            raise KeyError(name)
        return f"/assets/{self.build}/{name}"


@router.get("/assets/{build}/{name}", response_class=Response)
async def asset(request: Request, build: str, name: str) -> Response:
    """A file. One of another version of the program is not found: then the page that asks for it is an old one."""
    assets: Assets = request.app.state.web.assets
    file = assets.files.get(name)
    if file is None or build != assets.build:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding", **POLICY}
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.packed if packed else file.plain, media_type=file.media, headers=headers)


# What makes the pages an application that phones and desks install: they can share addresses with it, and see that it
# is out of reach in place of the browser's error.


@router.get("/manifest.webmanifest", response_class=Response)
async def manifest(request: Request) -> Response:
    """Name, icon, and where addresses go that are shared with the application."""
    icon = {"src": request.app.state.web.assets.url("icon.svg"), "sizes": "any", "type": "image/svg+xml"}
    document = {
        "name": "pollerd",
        "short_name": "pollerd",
        "description": _("The changes on the pages that you watch."),
        "id": "/",
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "background_color": "#ffffff",
        "theme_color": "#0b5cad",
        "icons": [icon],
        "share_target": {"action": "/sites/add", "params": {"title": "title", "text": "text", "url": "url"}},
    }
    headers = {"Cache-Control": "no-cache", **POLICY}
    return Response(orjson.dumps(document), media_type="application/manifest+json", headers=headers)


@router.get("/service-worker.js", response_class=Response)
async def service_worker(request: Request) -> Response:
    """The script that shows the page below while pollerd cannot be reached; browsers ask for it again each day."""
    script = request.app.state.web.assets.files["service-worker.js"]
    return Response(script.plain, media_type=script.media, headers={"Cache-Control": "no-cache", **POLICY})


UNREAD_COUNTED = 1_000
"""Unread changes are counted so far."""
_THEME, _THEMES, _THEME_SECONDS = "pollerd-theme", frozenset({"light", "dark"}), 366 * 86_400
_ZONE = "pollerd-zone"
PAGE_FORM = "page"
"""Name of the forms of pages: one token serves all forms of a session."""
_FRAGMENT = "x-fragment"
_PACKING = 6
"""Level of gzip."""
_MEDIA = "text/html; charset=utf-8"


class Examples(Protocol):
    """Example sites that this process serves to itself."""

    @property
    def running(self) -> bool:
        """Whether they are served."""

    async def start(self) -> Sequence[str]:
        """Serves them; returns their URLs. Raises `ConfigError`."""

    async def stop(self) -> None:
        """Ends serving; may be called twice."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the pages share."""

    assets: Assets
    environment: Environment
    version: str
    settings: Mapping[str, tuple[str, str]]
    """Each setting as it may be shown, and where it comes from; a reload keeps it up to date."""
    log_lines: Callable[[str], Sequence[str]]
    """Returns the last lines of the log, of a level or above."""
    examples: Examples | None = None
    """None: this process serves none."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What a page keeps between readers, by name."""

    def setting(self, name: str) -> str | None:
        """Returns a setting as it may be shown, empty if it is not set; None: the settings are not known."""
        return self.settings[name][0] if name in self.settings else None


@dataclass(frozen=True, slots=True)
class Page:
    """One request for a page, and the ports to read from."""

    request: Request
    ports: ApiPorts
    newest_change: int
    """Id of the newest change when it was asked for, before anything was read: events after it are news to it."""
    unread: int | None = None
    """How many important changes the reader has not read, at most `UNREAD_COUNTED`; None: they were not counted."""

    @classmethod
    def of(cls, request: Request) -> Page:
        """Returns the page that a request asks for."""
        ports: ApiPorts = request.app.state.ports
        return cls(request, ports, ports.store.changes.newest)

    @property
    def caller(self) -> SignedIn | None:
        """Who is signed in; None: nobody has to be."""
        return caller_of(self.request)

    @property
    def may_write(self) -> bool:
        """Whether the reader can change anything: forms are shown to nobody else."""
        caller = self.caller
        return caller is None or caller.may_write

    @property
    def now(self) -> float:
        """The time, epoch s."""
        return time.time()  # noqa: TID251 (this is where pages get it)

    @property
    def theme(self) -> str:
        """The colours that the reader chose, `light` or `dark`; empty: those of the system."""
        chosen = self.request.cookies.get(_THEME, "")
        return chosen if chosen in _THEMES else ""

    @property
    def zone(self) -> ZoneInfo | None:
        """The reader's time zone, as the script of an earlier page noted it; None: it is not known."""
        try:
            return zone_of(self.request.cookies[_ZONE], _ZONE)
        except (KeyError, InvalidValueError):
            return None

    @property
    def is_fragment(self) -> bool:
        """Whether a script asks for a part, to put it into the page that it runs in."""
        return _FRAGMENT in self.request.headers

    @property
    def reader(self) -> str:
        """Names who reads, for what was seen; without users there is one reader."""
        return reader_of(self.request)

    @property
    def web(self) -> PageParts:
        """What the pages share."""
        web: PageParts = self.request.app.state.web
        return web

    def show(self, template: str, *, status: int = HTTPStatus.OK, **values: Any) -> Response:
        """Returns the page of a template."""
        text = self.web.environment.get_template(template).render(frame=self._frame(), **values)
        headers = {**PAGE_HEADERS, "Vary": "X-Fragment, Cookie, Accept-Encoding"}
        if self.is_fragment and not text.startswith("<!DOCTYPE"):  # a whole page is put into no other
            headers["X-Fragment"] = "1"
        body = text.encode("utf-8", "replace")
        if self._may_be_packed:
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, _PACKING, mtime=0)
        return Response(body, status, headers, _MEDIA)

    @property
    def _may_be_packed(self) -> bool:
        """Whether the answer may be compressed.

        The length of a compressed answer tells whether what was sent is like what is secret in it (BREACH). So answers
        to forms and queries, which show them again, or a token that was just made, go out as they are; and the token
        of forms, which every page has, looks different each time, as what watched pages contain is input, too.
        """
        asked = self.request
        reflects = asked.method not in ("GET", "HEAD") or bool(asked.url.query)
        return not reflects and "gzip" in asked.headers.get("accept-encoding", "")

    def go(self, path: str) -> Response:
        """Returns the way to another page after a form was taken."""
        return RedirectResponse(path, HTTPStatus.SEE_OTHER, PAGE_HEADERS)

    def _frame(self) -> dict[str, Any]:
        """Returns what the header and footer of all pages show."""
        status, caller = self.ports.control.health.status(), caller_of(self.request)
        return {
            "path": self.request.url.path,
            "status": status,
            "version": self.web.version,
            "fragment": self.is_fragment,
            "texts": self.web.assets.texts(),
            "csrf": _masked(csrf_token(caller, PAGE_FORM)),
            "caller": caller,
            "may_write": self.may_write,
            "newest_change": self.newest_change,
            "unread": self.unread,
            "theme": self.theme,
            "has_topic": self.web.setting("topic") != "",
            "has_browser": self.web.setting("browser") != "",
        }


def _masked(token: str) -> str:
    """Returns a token under a pad of its own, which goes with it; see `Page._may_be_packed`."""
    pad = secrets.token_bytes(len(token))
    return base64.urlsafe_b64encode(pad + bytes(a ^ b for a, b in zip(pad, token.encode(), strict=True))).decode()


def _unmasked(sent: str) -> str:
    """Returns the token of what a form sent; what is none becomes one that is not right."""
    try:
        both = base64.urlsafe_b64decode(sent.encode("ascii", "replace"))
    except binascii.Error:
        return ""
    half = len(both) // 2
    return bytes(a ^ b for a, b in zip(both[:half], both[half:], strict=False)).decode("latin-1")


_LOOKS = 3
"""Pages that one caller can have fetched by a form, a minute."""


def take_look(page: Page, caller: object, field: str) -> None:
    """Takes one of the fetches that the caller has for forms. Raises `InvalidValueError` of the field: wait."""
    looks: LeakyBuckets = page.web.kept.setdefault("looks", LeakyBuckets(_LOOKS, _LOOKS / 60.0))
    wait = looks.take(page.now, str(caller))
    if wait > 0:
        raise refusal(
            field,
            _("{looks} pages per minute can be fetched by hand: wait {ceil} s", looks=_LOOKS, ceil=math.ceil(wait)),
        )


async def _page(request: Request) -> Page:
    page = Page.of(request)
    if page.is_fragment or request.method != "GET":  # the menu is not shown
        return page
    with suppress(DatabaseUnavailableError):  # errors are pages, too
        return replace(page, unread=await page.ports.store.changes.count_unseen(page.reader, UNREAD_COUNTED))
    return page


Shown = Annotated[Page, Depends(_page)]


@router.get("/offline", response_class=Response)
async def offline(page: Shown) -> Response:
    """What is shown while pollerd cannot be reached: says nothing of anybody's pages."""
    return page.show("offline.html", visitor=True)


# The one place where markup is made outside of templates: its inputs are numbers, or are escaped here.

_LONG = 200_000
"""Most characters of a page's text that are shown."""


def moment(at: float | None) -> Markup:
    """Returns a time, epoch s, as an element that says its zone; a script writes it in the reader's."""
    if at is None:
        return Markup("–")
    return Markup('<time datetime="{}">{} UTC</time>').format(rfc3339(at), moment_text(at))


def ago(at: float | None) -> Markup:
    """Returns a time, epoch s, as lists show it: a script writes how long ago it was."""
    return moment(at).replace("<time ", Markup("<time data-short "), 1)


def sentence(parts: Iterable[Part]) -> Markup:
    """Returns a sentence with its times and what stands out."""
    return Markup("").join(map(_part, parts))


def whole(text: str) -> Markup:
    """Returns text to be edited: all of it, as it is."""
    return escape(text)


def cut(text: str) -> Markup:
    """Returns a long text, such as that of a page, made visible and cut."""
    return escape(visible(text, _LONG))


def drawing(svg: str) -> Markup:
    """Returns an SVG of ours. Its builders draw from numbers alone, and escape the texts of their titles."""
    return Markup(svg)


def for_both(wide: str, narrow: str) -> Markup:
    """Returns two SVGs of ours of the same: one is shown on desks, the other on phones."""
    both = Markup('<div class="wide-only">{}</div><div class="phone-only">{}</div>')
    return both.format(drawing(wide), drawing(narrow))


def marked(text: str, marks: Iterable[tuple[int, int]]) -> Markup:
    """Returns a line of a difference with the parts `marks`, [from, to) in characters, as `<mark>`."""
    made, done = Markup(""), 0
    for start, end in marks:
        made += escape(visible(text[done:start])) + Markup("<mark>{}</mark>").format(visible(text[start:end]))
        done = end
    return made + escape(visible(text[done:]))


def _part(part: Part) -> Markup:
    if isinstance(part, Moment):
        return moment(part.at)
    if isinstance(part, Strong):
        return Markup("<strong>{}</strong>").format(visible(part.text))
    return escape(visible(part))


# The templates' environment: everything is escaped, and names that are not there are errors.

_TAG_COLOURS = 8


class _Translating(InternationalizationExtension):
    """`{% trans %}`, whose values are made visible like those of all other expressions."""

    def _make_node(
        self, singular: str, plural: str | None, context: str | None, variables: dict[str, nodes.Expr], *rest: Any
    ) -> nodes.Output:
        shown: dict[str, nodes.Expr] = {
            name: nodes.Filter(value, "shown", [], [], None, None) for name, value in variables.items()
        }
        return super()._make_node(singular, plural, context, shown, *rest)


def environment(asset_url: Callable[[str], str]) -> Environment:
    """Returns the environment; all templates are compiled here, so that a fault in one shows at the start."""
    made = Environment(
        loader=PackageLoader("pollerd.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.add_extension(_Translating)
    made.policies["ext.i18n.trimmed"] = True
    made.globals |= {"asset": asset_url, "query": query, "language": texts.current}
    made.globals |= {
        "gettext": lambda text: texts.current().gettext(text),  # for `{% trans %}`
        "ngettext": lambda singular, many, number: texts.current().ngettext(singular, many, number),
        "_": texts._,
        "n_": texts.n_,
        "N_": texts.N_,
    }
    made.filters |= {
        "shown": _shown,
        "words": sentence,
        "at": moment,
        "ago": ago,
        "pace": pace,
        "in_use": words.in_use,
        "whole": whole,
        "cut": cut,
        "marked": marked,
        "figure": words.figure,
        "percent": words.percent,
        "about": about,
        "how_often": words.how_often,
        "link": _link,
        "tag_colour": _tag_colour,
        "shown_url": shown_url,
        "host": _shown_host,
    }
    for name in made.list_templates():
        made.get_template(name)
    return made


def _shown(value: Any) -> Any:
    """Makes the text of an expression visible; what is markup already stays."""
    if value is None:
        return ""
    return visible(value) if type(value) is str else value


def _link(url: str) -> str | None:
    """Returns an address that a link may have; None for schemes that would run something."""
    return url if url.lower().startswith(("http://", "https://")) else None


def shown_url(url: str) -> str:
    """Returns an address as people read it: without scheme, and the slash at its end."""
    return url.partition("://")[2].removesuffix("/") or url


def _shown_host(url: str) -> str:
    """Returns the host of an address as people read it, with a port that is not the usual one."""
    return url.partition("://")[2].partition("/")[0]


def _tag_colour(tag: str) -> int:
    """Returns which of the colours a tag has."""
    return sum(tag.encode("utf-8", "replace")) % _TAG_COLOURS


# Routes of pages: their errors are pages, too.

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
_ANSWERED = (
    HTTPException,
    RequestValidationError,
    ValidationError,
    InvalidValueError,
    NotFoundError,
    DuplicateError,
    DatabaseUnavailableError,
    DatabaseInUseError,
    SchemaError,
)


class PageRoute(APIRoute):
    """A route whose known errors are shown as pages; a fault goes on to the server's log."""

    def get_route_handler(self) -> Handler:
        """Returns the handler of a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                if request.method == "POST":
                    await _check_form(request)
                return await handle(request)
            except _ANSWERED as error:
                return error_page(request, error)

        return answer


async def _check_form(request: Request) -> None:
    """Raises 403 unless the form was made by this session, where there is one."""
    if csrf_token(caller_of(request), PAGE_FORM):
        form = await posted_form(request)
        check_csrf(request, PAGE_FORM, _unmasked(form.text("csrf")))


def page_router(prefix: str = "") -> APIRouter:
    """Returns a router whose routes are pages."""
    return APIRouter(prefix=prefix, route_class=PageRoute, include_in_schema=False)


def wants_page(request: Request) -> bool:
    """Returns whether somebody reads the answer in a browser, and not a program of the API."""
    of_pages = not request.url.path.startswith("/api/")
    return of_pages and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, error: Exception) -> Response:
    """Returns a known error as a page."""
    status, heading, detail = _described(request, error)
    page = Page.of(request)
    existing = error.existing_id if isinstance(error, DuplicateError) and error.what == "site" else None
    return page.show("error.html", status=status, heading=heading, detail=detail, existing=existing)


def _described(request: Request, error: Exception) -> tuple[int, str, str]:
    """Returns status, heading and explanation of an error."""
    if isinstance(error, HTTPException):
        details = {HTTPStatus.NOT_FOUND: _("There is no such page.")}
        return (
            error.status_code,
            _("Not found") if error.status_code == HTTPStatus.NOT_FOUND else HTTPStatus(error.status_code).phrase,
            details.get(HTTPStatus(error.status_code), str(error.detail)),
        )
    if isinstance(error, RequestValidationError | ValidationError):
        first = error.errors()[0]
        place = first["loc"][1:] if isinstance(error, RequestValidationError) else first["loc"]
        if first["loc"][0] == "path":
            return HTTPStatus.NOT_FOUND, _("Not found"), _("There is no such page.")
        field = ".".join(map(str, place))
        return (
            HTTPStatus.UNPROCESSABLE_ENTITY,
            _("Invalid input"),
            _("{field}: must be {allowed_by}", field=field, allowed_by=allowed_by(first)),
        )
    if isinstance(error, InvalidValueError):
        return HTTPStatus.UNPROCESSABLE_ENTITY, _("Invalid input"), error.text
    if isinstance(error, NotFoundError):
        return HTTPStatus.NOT_FOUND, _("Not found"), f"{error}."
    if isinstance(error, DuplicateError):
        heading = _("This site is watched already") if error.what == "site" else _("It exists already")
        return HTTPStatus.CONFLICT, heading, f"{error}."
    why = _("Database unavailable: {error}. Polling is paused until it answers.", error=error)
    return HTTPStatus.SERVICE_UNAVAILABLE, _("Database unavailable"), why


# Colours by choice.

theme_router = page_router()


@theme_router.post("/theme")
async def choose_theme(page: Shown, form: Posted) -> Response:
    """Keeps which colours the reader chose in a cookie, for a year."""
    answer = page.go(ours(form.text("back")))
    if form.text("theme") in _THEMES:
        answer.set_cookie(_THEME, form.text("theme"), _THEME_SECONDS, httponly=True, samesite="lax")
    else:
        answer.delete_cookie(_THEME)
    return answer


ROUTERS = (router, theme_router)
