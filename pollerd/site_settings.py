"""The settings of a site, each declared once: `SiteSpec` is the table, and its annotations say all else of a setting.

What tags carry, columns of numbers, fields of lists, options of commands, inputs of REST and the web form are read from
it. To add a setting is a field here, a migration with its column, and the places that use it. Values only (ADR 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from operator import itemgetter
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

from msgspec import Struct

from pollerd.ranges import PLAIN, SECONDS, Range
from pollerd.texts import N_, _


class RespectTtl(IntEnum):
    """Whether a site is left alone for as long as it announces (max-age, Expires, a feed's ttl).

    The numbers are stored.
    `HINT`: up to an hour, unless a change was found inside an earlier promise of the site. `STRICT`: up to a day.
    """

    OFF = 0
    STRICT = 1
    HINT = 2

    @classmethod
    def of(cls, value: object) -> Self:
        """Returns the value as users write it. Raises ValueError, which says what is allowed.

        Earlier versions knew true and false, in all the words that there are for them.
        """
        if isinstance(value, cls):
            return value
        word = str(value).strip().lower() if isinstance(value, str | bool) else ""
        if word not in _TTL_NUMBERS:
            raise ValueError(_(TTL_WORDS))
        return cls(_TTL_NUMBERS[word])

    @property
    def shown(self) -> bool | Literal["hint"]:
        """The value as programs read it: what was true or false before there were hints still is."""
        return "hint" if self is RespectTtl.HINT else self is RespectTtl.STRICT


TTL_WORDS = N_("off, hint or strict (true: strict, false: off)")
"""What is allowed as `RespectTtl`."""
_TTL_NUMBERS = {
    **dict.fromkeys(("off", "false", "no", "f", "n", "0"), 0),
    **dict.fromkeys(("strict", "true", "yes", "on", "t", "y", "1"), 1),
    "hint": 2,
}


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Days of the week, as `datetime.weekday` counts them."""


class DayWindow(Struct, frozen=True, gc=False, rename={"begins": "from", "ends": "to"}):
    """Hours of some days in which a site may be polled; `ends` not after `begins`: on the next day."""

    days: tuple[str, ...]
    begins: str
    ends: str


class Windows(Struct, frozen=True, gc=False):
    """When a site may be polled, in the time of an IANA zone; see `scheduling.windows`."""

    zone: str
    open: tuple[DayWindow, ...]


class Kind(StrEnum):
    """How a setting is written and read: each way in has one reader for a kind, and each way out one writer."""

    TEXT = "text"
    TAGS = "tags"
    SWITCH = "switch"
    NUMBER = "number"
    SECONDS = "seconds"
    """Also as 90s, 5m, 1.5h or 2d."""
    SHARE = "share"
    """Also as 1%."""
    RATE = "rate"
    """Polls per second, also as 20/min, 300/h or 5000/d."""
    COUNT = "count"
    """A whole number."""
    SIZE = "size"
    """Bytes, also as 10MiB or 2GiB."""
    CHOICE = "choice"
    """One of a few words."""
    NAMES = "names"
    """Words, also with commas between them."""
    PATH = "path"
    TRUST = "trust"
    """A `RespectTtl`."""
    WINDOWS = "windows"
    SELECTIONS = "selections"
    RENDER = "render"
    HEADERS = "headers"
    CREDENTIALS = "credentials"
    ACCESS = "access"
    """Headers, credentials and the like: `Access` has fields of its own, with rules of their own."""


_NUMBERS = frozenset({Kind.NUMBER, Kind.SECONDS, Kind.SHARE, Kind.TRUST})


@dataclass(frozen=True, slots=True)
class Setting:
    """What the table says of one setting."""

    kind: Kind
    default: Any = None
    """Its value if neither site nor tag has one; None: the daemon's setting."""
    range: Range | None = None
    """Numbers that users can give, by every way in."""
    usable: Range | None = None
    """Numbers that the scheduler can use if a row of the database has one that no user can give: wider than `range`."""
    inherits: bool = True
    """Whether tags can have it, and their sites inherit it."""
    help: str = ""
    """Its description in OpenAPI, if the unit of its range does not say all."""
    cli: str = ""
    """The help of its option; empty: no command has one."""
    option: str = ""
    """Its option without `--`; empty: its name with hyphens."""
    bulk: str = ""
    """The action on many sites that changes it; empty: none does."""
    secret: bool = False
    """Whether it is sealed, and never shown."""
    form: str = ""
    """Its label in the web form; empty: the form does not have it."""
    example: Any = None
    """Its value in the examples of OpenAPI."""
    name: str = ""
    type: Any = None
    """Its field and the type of its values, from the table."""

    @property
    def is_number(self) -> bool:
        """Whether it is a column of numbers in the database and in the scheduler."""
        return self.kind in _NUMBERS


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and a password, or a bearer token. Secret: `repr` shows none of them."""

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """Settings of a site's requests. Secret: `repr` shows none of them."""

    headers: Annotated[
        tuple[tuple[str, str], ...],
        Setting(
            Kind.HEADERS,
            secret=True,
            cli='Request headers, for example {"Accept-Language": "en"}; they replace all others.',
        ),
    ] = field(default=(), repr=False)
    """(name, value), sent to the origin of the site's URL only."""
    credentials: Annotated[
        Credentials | None,
        Setting(
            Kind.CREDENTIALS, secret=True, cli='Credentials: {"username": "u", "password": "p"} or {"token": "t"}.'
        ),
    ] = field(default=None, repr=False)
    """Sent to the origin of the site's URL only."""
    proxy: Annotated[
        str | None, Setting(Kind.TEXT, secret=True, cli="URL of the proxy for all requests of the site.")
    ] = field(default=None, repr=False)
    """URL of the proxy for all requests of the site, perhaps with user name and password."""
    body: Annotated[
        str | None, Setting(Kind.TEXT, secret=True, cli="Request the page by POST with this body, which can be empty.")
    ] = field(default=None, repr=False)
    """Sent to the site's URL by POST, once a poll; None: it is asked for by GET."""
    typed: Annotated[tuple[str, ...], Setting(Kind.TAGS, secret=True)] = field(default=(), repr=False)
    """Secrets that the steps of a rendered poll type, in order."""
    pdf_password: Annotated[
        str | None, Setting(Kind.TEXT, secret=True, cli="Password of the PDF document; never sent.")
    ] = field(default=None, repr=False)
    """Opens the PDF document that the site is; never sent."""

    def __bool__(self) -> bool:
        # An empty body is one, too: it is sent by POST.
        is_set = self.credentials is not None or self.body is not None or self.proxy is not None
        return is_set or self.pdf_password is not None or bool(self.headers or self.typed)

    @property
    def header_names(self) -> tuple[str, ...]:
        """Names of the headers, which are not secret."""
        return tuple(map(itemgetter(0), self.headers))

    def elsewhere(self) -> Access:
        """Returns the part that applies to another origin: the proxy."""
        return Access(proxy=self.proxy)


NO_ACCESS = Access()


def _seconds(lowest: float) -> Range:
    return Range("", lowest, 1e9, SECONDS, "seconds")  # 1e9 s are 31 years


_ABOVE_ZERO = Range("", 0, words=N_("seconds above {lowest:g}"), above=True, below=True)


class SiteSpec(Struct, frozen=True, gc=False):
    """What the user says of a site, without anything inherited or learned; None: not said, see `inheritance`.

    Not a dataclass: a list has millions of them, and a Struct is created in a tenth of the time. The order of its
    fields is that of lists and answers.
    """

    url: Annotated[str, Setting(Kind.TEXT, inherits=False, form=N_("Address"))]
    weight: Annotated[
        float | None,
        Setting(
            Kind.NUMBER,
            default=1.0,
            range=Range("", 0, 1e9, PLAIN),
            usable=Range("", 0, words=N_("finite, {lowest:g} or more"), below=True),
            cli="Importance of its changes: default 1, higher is more important.",
            bulk="weight",
            form=N_("Weight (importance, default 1)"),
            example=2.0,
        ),
    ] = None
    cost: Annotated[
        float | None,
        Setting(
            Kind.NUMBER,
            default=1.0,
            range=Range("", 0.01, 10_000.0, PLAIN),
            usable=Range("", 0, words=N_("finite, above {lowest:g}"), above=True, below=True),
            cli="Share of the budget that one poll takes: default 1.",
            form=N_("Cost of a poll"),
            example=1.0,
        ),
    ] = None
    tags: Annotated[tuple[str, ...], Setting(Kind.TAGS, inherits=False, form=N_("Tags"))] = ()
    min_interval: Annotated[
        float | None,
        Setting(
            Kind.SECONDS,
            range=_seconds(0),
            usable=Range("", 0, words=N_("seconds, {lowest:g} or more"), below=True),
            cli="Minimum time between two polls, for example 30s, 5m, 1.5h or 2d.",
            bulk="limits",
            form=N_("Minimum interval"),
        ),
    ] = None
    max_interval: Annotated[
        float | None,
        Setting(
            Kind.SECONDS,
            range=_seconds(0.001),
            usable=_ABOVE_ZERO,
            cli="Maximum time between two polls.",
            bulk="limits",
            form=N_("Maximum interval"),
            example=86_400.0,
        ),
    ] = None
    min_saving: Annotated[
        float | None,
        Setting(
            Kind.SECONDS,
            range=_seconds(0),
            usable=Range("", 0, words=N_("seconds, {lowest:g} or more"), below=True),
            help="minimum of the seconds by which a poll is expected to bring news sooner, at weight and cost 1; 0: no "
            "minimum; null: the default, or 0 where min_yield is 0",
            cli="Minimum time by which a poll should bring news sooner, for example 20s.",
            bulk="limits",
            form=N_("Minimum time by which a poll should bring news sooner"),
        ),
    ] = None
    min_yield: Annotated[
        float | None,
        Setting(
            Kind.SHARE,
            range=Range("", 0, 1, N_("from {lowest:g} to below {highest:g}, or below 100%"), below=True),
            usable=Range("", 0, 1, N_("a chance from {lowest:g} to below {highest:g}"), below=True),
            help="minimum chance of a change before the site is polled; 0: no minimum",
            cli="Minimum chance of a change before a poll, for example 1%.",
            form=N_("Minimum chance of a change before a poll"),
        ),
    ] = None
    respect_ttl: Annotated[
        RespectTtl | None,
        Setting(
            Kind.TRUST,
            usable=Range("", 0, 2, N_("0 (off), 1 (strict) or 2 (hint)")),
            help="leave the site alone for as long as its max-age, Expires or feed's ttl says: strict (or true), at "
            "most a day; hint, at most an hour, and no more once a change was found inside such a time; off (or "
            "false), never; null: the default",
            cli="How long max-age, Expires or a feed's ttl delay polls.",
            bulk="limits",
            form=N_("Wait as long as the server says that nothing will change (max-age, Expires, ttl)"),
        ),
    ] = None
    half_life: Annotated[
        float | None,
        Setting(
            Kind.SECONDS,
            range=_seconds(0.001),
            usable=_ABOVE_ZERO,
            cli="For goal interest: time after which a change is worth half.",
            form=N_("Half-life of a change's worth"),
        ),
    ] = None
    deadline: Annotated[
        float | None,
        Setting(
            Kind.SECONDS,
            range=_seconds(0.001),
            usable=_ABOVE_ZERO,
            help="seconds within which a change should be found, for the goal deadline",
            cli="For goal deadline: time within which a change should be found.",
            form=N_("Time within which a change should be found"),
        ),
    ] = None
    windows: Annotated[
        Windows | None,
        Setting(
            Kind.WINDOWS,
            help="when the site may be polled; outside of it, it is not due, and not late; null: what its tags say, "
            "else always",
            cli="Polling hours, as JSON.",
            form=N_("Polling hours (windows, as JSON)"),
        ),
    ] = None
    paused: Annotated[bool, Setting(Kind.SWITCH, inherits=False)] = False
    selections: Annotated[
        str,
        Setting(
            Kind.SELECTIONS,
            default="",
            help="what of the page counts, by name: steps, values, least and conditions (docs/selections.md); a site "
            "has at least `default`; null or {}: the whole page",
            cli="What counts on the page: css=SELECTOR, xpath=EXPRESSION, jsonpath=PATH, JSON as in "
            "docs/selections.md, or @FILE (.json, .toml, .yaml).",
            option="select",
            form=N_("Content to watch (selections, as JSON)"),
            example={"default": {"steps": [{"keep": {"css": "main"}}]}},
        ),
    ] = ""
    """What of the page counts: settings by name as JSON (`detection.selection`); empty: the whole page."""
    render: Annotated[
        str,
        Setting(
            Kind.RENDER,
            default="",
            help="browser, or a plan of what a browser does (docs/rendering.md): the page is rendered, at a cost of 20 "
            "unless cost says another; secrets of its steps are sealed; null: the page is fetched",
            cli="Render the page in a browser: browser, a plan as JSON (docs/rendering.md), or @FILE (.json, .toml, "
            ".yaml).",
            form=N_("Render in a browser (browser, or a plan as JSON)"),
        ),
    ] = ""
    """How a browser renders the page, as JSON (`rendering.plan`), secrets apart; empty: it is fetched."""
    keep_screenshots: Annotated[
        bool | None,
        Setting(
            Kind.SWITCH,
            help="keep a PNG of the rendered page with each new content, GET /contents/{id}/screenshot; a site that "
            "is not rendered cannot say it; null: the default, no",
            cli="Keep a PNG of the rendered page with each new content.",
            form=N_("Keep a screenshot of each new content"),
            example=False,
        ),
    ] = None
    title: Annotated[
        str,
        Setting(Kind.TEXT, inherits=False, help="name for people", cli="Name for people.", form=N_("Title")),
    ] = ""
    access: Annotated[Access, Setting(Kind.ACCESS, inherits=False)] = NO_ACCESS
    spelling: str = ""
    """The URL as it is sent, percent-encoded as it was given (`urls.spelling_of`); empty: as it stands in `url`. No
    setting: lists have it in the place of the URL.
    """

    @property
    def sent_url(self) -> str:
        """The URL as it is sent."""
        return self.spelling or self.url


def settings_of(table: type[SiteSpec | Access]) -> dict[str, Setting]:
    """Returns the settings that a class declares by `Setting`, by name in the order of its fields."""
    settings = {}
    for name, hint in get_type_hints(table, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Setting):
                allowed, usable = (bounds and replace(bounds, name=name) for bounds in (note.range, note.usable))
                settings[name] = replace(note, name=name, type=_present(hint), range=allowed, usable=usable)
    return settings


def _present(hint: Any) -> Any:
    """Returns the type of a field's values if there is one: without `Annotated` and None."""
    declared = get_args(hint)[0]
    types = [arg for arg in get_args(declared) if arg is not NoneType]
    return types[0] if NoneType in get_args(declared) else declared


SITE_SETTINGS: Mapping[str, Setting] = settings_of(SiteSpec)
ACCESS_SETTINGS: Mapping[str, Setting] = settings_of(Access)
"""The secrets of a site or tag; tags can have them, by rules of their own."""
INHERITED: Mapping[str, Setting] = {name: setting for name, setting in SITE_SETTINGS.items() if setting.inherits}
"""Settings that tags can have, besides `ACCESS_SETTINGS`."""
NUMERIC_SETTINGS: Mapping[str, float | None] = {
    name: setting.default for name, setting in INHERITED.items() if setting.is_number
}
"""Settings that are columns of numbers -> default."""
COLUMNS: Mapping[str, Setting] = {
    **{name: setting for name, setting in SITE_SETTINGS.items() if setting.inherits or name == "title"},
    "spelling": Setting(Kind.TEXT, name="spelling", inherits=False),
}
"""What has a column of its own, NULL without a value; tags and access are stored otherwise."""
SITE: Mapping[str, Range] = {
    name: setting.range for name, setting in SITE_SETTINGS.items() if setting.range is not None
}
"""Numbers that users can give a site."""
USABLE: Mapping[str, Range] = {
    name: setting.usable for name, setting in SITE_SETTINGS.items() if setting.usable is not None
}
"""Numbers that the scheduler can use."""


class TagSettings(Struct, frozen=True):
    """Settings that the sites of a tag inherit."""

    name: str
    settings: Mapping[str, object] = {}
    """Value of each setting that is given, as in `SiteSpec`; settings of another version as JSON has them."""
    access: Access = NO_ACCESS
    changed_at: float | None = None
    fault: str = ""
    """Why the stored row cannot be used; then its sites are not polled."""


Tags = Mapping[str, TagSettings]
"""The tags that have settings, by name."""


def differing(before: SiteSpec, after: SiteSpec) -> tuple[str, ...]:
    """Returns the names of settings that differ between specs of one URL; headers, credentials, proxy separately."""
    here, other = _settings(before), _settings(after)
    return tuple(name for name, value in here.items() if value != other[name])


def _settings(spec: SiteSpec) -> dict[str, object]:
    values = {name: getattr(spec, name) for name in spec.__struct_fields__ if name not in ("url", "access")}
    access = {field.name: getattr(spec.access, field.name) for field in fields(spec.access)}
    return {**values, **access, "headers": dict(spec.access.headers)}
