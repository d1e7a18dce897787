"""The daemon's settings, each declared once: `Options` is the table, and its annotations say all else of a setting.

Flags of `pollerd run`, variables, TOML keys, `config show`, what a reload applies and the table of docs/settings.md are
read from it. To add a setting is a field of the settings of the room that uses it, which has its default and checks its
range, and one of the same name here (without `_seconds`). Loads little, for `pollerd run --help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pollerd.allocation.registered import NAMES, OBJECTIVES
from pollerd.daemon.settings import DaemonSettings
from pollerd.fetching.settings import FetchSettings
from pollerd.quantities import duration, size
from pollerd.rendering.settings import RenderingSettings
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import Kind, RespectTtl
from pollerd.storage.settings import StorageSettings
from pollerd.texts import N_


class Panel(StrEnum):
    """Under which title the help of `pollerd run` lists a flag."""

    TOPIC = N_("Topic crawler")
    POLLING = N_("Polling")
    DAEMON = N_("Daemon")
    LIMITS = N_("Limits and retention")


class Applies(StrEnum):
    """When a changed setting is in force."""

    RELOAD = "reload"
    """After SIGHUP."""
    RESTART = "restart"
    USE = "use"
    """It is read whenever it is needed."""


@dataclass(frozen=True, slots=True)
class Option:
    """What the table says of one setting of the daemon."""

    kind: Kind
    help: str = ""
    """What it does: the help of its flag, and its line in docs."""
    more: str = ""
    """What docs add to it, in Markdown."""
    panel: Panel = Panel.LIMITS
    applies: Applies = Applies.RELOAD
    choices: tuple[str, ...] = ()
    secret: bool = False
    """Whether it is never shown, and can be given as a file that holds it (`NAME_file`)."""
    flag: str = ""
    """Its flag without `--`; empty: its name with hyphens."""
    metavar: str = ""
    """What stands behind its flag in the help; empty: what its kind says."""
    unset: str = ""
    """What holds if it has no value, for help and docs."""
    name: str = ""
    default: Any = None
    """Its field and its value if nobody sets it, from the table."""

    @property
    def flag_name(self) -> str:
        """Its flag."""
        return f"--{self.flag or self.name.replace('_', '-')}"

    @property
    def default_text(self) -> str:
        """The default as users write it; empty: there is none."""
        value = self.default
        if value is None or value == ():
            return self.unset
        match self.kind:
            case Kind.SIZE:
                return size(value)
            case Kind.SECONDS:
                return duration(value)
            case Kind.SHARE:
                return f"{100 * value:g}%"
            case Kind.RATE:
                return f"{value:g}"
            case Kind.SWITCH:
                return "off"
            case Kind.TRUST:
                return RespectTtl(value).name.lower()
        return str(value)


@dataclass(frozen=True, repr=False)
class Options:
    """All settings of the daemon, flat: flags over variables over the file over these defaults.

    The order of the fields is that of `config show`. `repr` shows no values: some are secret.
    """

    urls: Annotated[
        Path | None,
        Option(
            Kind.PATH, "List of sites (.txt .csv .jsonl .opml .toml .yaml), read at every start.", applies=Applies.USE
        ),
    ] = None
    topic: Annotated[
        Path | None,
        Option(
            Kind.PATH,
            "TOML file: build a collection on this topic, following links.",
            more="[focused crawler](focused-crawler.md)",
            panel=Panel.TOPIC,
            applies=Applies.RESTART,
        ),
    ] = None
    seeds: Annotated[
        Path | None,
        Option(
            Kind.PATH,
            "List of URLs that the focused crawler begins with.",
            panel=Panel.TOPIC,
            applies=Applies.RESTART,
        ),
    ] = None
    budget: Annotated[
        float,
        Option(
            Kind.RATE,
            "Maximum polls: 5 a second, 20/min, 300/h, 5000/d.",
            more="over all sites, 0.01 to 10,000 per second",
            panel=Panel.POLLING,
        ),
    ] = DaemonSettings.budget
    allocator: Annotated[
        str,
        Option(
            Kind.TEXT,
            f"Policy that decides which site is polled next: {', '.join(NAMES)}.",
            more="`whittle` learns rates, `htraa` is a tree of learning automata (equal weights, `changes` only), "
            "`uniform` is round robin; [this page](papers/ours.md) compares them",
            panel=Panel.POLLING,
        ),
    ] = DaemonSettings.allocator
    objective: Annotated[
        str,
        Option(
            Kind.CHOICE,
            "Aim of the policy.",
            more="`changes`: polls that find something; `freshness`: time our copy is current; `interest`: decayed "
            "value of new items; [`delay`, `deadline`](objectives.md): how soon each change is found",
            panel=Panel.POLLING,
            choices=OBJECTIVES,
        ),
    ] = DaemonSettings.objective
    deadline: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "For objective deadline: time within which a change should be found.",
            more="a site or tag can have its own",
            panel=Panel.POLLING,
        ),
    ] = DaemonSettings.deadline
    shadow: Annotated[
        tuple[str, ...],
        Option(
            Kind.NAMES,
            "Extra policies, at most 3, that run in parallel for comparison: htraa,uniform.",
            more="they learn from the same polls and choose nothing; `GET /allocation` shows what each would find",
            panel=Panel.POLLING,
        ),
    ] = DaemonSettings.shadows
    database: Annotated[
        str,
        Option(
            Kind.TEXT,
            "sqlite+aiosqlite:///FILE or postgresql+asyncpg://user@host/name.",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
            secret=True,
        ),
    ] = "sqlite+aiosqlite:///pollerd.db"
    node: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "Share the database, on PostgreSQL, with other nodes, under this name; auto: the machine's.",
            more="[cluster.md](cluster.md)",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = None
    nodes_wanted: Annotated[
        int,
        Option(
            Kind.COUNT,
            "How many nodes there should be; doctor and alerts say when there are fewer. 0: any number.",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = 0
    node_address: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "Without effect: nodes ask one another through the database. The next version does not know it.",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = None
    listen: Annotated[
        str,
        Option(
            Kind.TEXT,
            "Address of the API.",
            more="other than loopback only with a token, `--sign-in` or `--trusted-proxy`",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = "127.0.0.1:8080"
    host_interval: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "Minimum time between two requests to one host; a longer Crawl-delay wins.",
            panel=Panel.POLLING,
        ),
    ] = SchedulingSettings.host_interval_seconds
    min_interval: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "Minimum time between two polls of a site.",
            more="a site can have its own",
            panel=Panel.POLLING,
        ),
    ] = SchedulingSettings.min_interval_seconds
    max_interval: Annotated[
        float | None,
        Option(
            Kind.SECONDS,
            "Maximum time between two polls of a site.",
            more="a site can have its own",
            panel=Panel.POLLING,
            unset="none",
        ),
    ] = None
    min_saving: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "Minimum time by which a poll should bring news sooner, at weight and cost 1; 0: no minimum.",
            more="with 20s a page that changes once a day is polled about every half hour ([short lists]"
            "(short-lists.md)); a site can have its own; where only a `min_yield` of 0 is given, this is 0, too",
            panel=Panel.POLLING,
        ),
    ] = SchedulingSettings.min_saving_seconds
    min_yield: Annotated[
        float,
        Option(
            Kind.SHARE,
            "Minimum chance of a change before a site is polled, besides --min-saving; 0: no minimum.",
            more="a site can have its own ([why](adr/0038-a-poll-has-to-bring-news-sooner.md))",
            panel=Panel.POLLING,
        ),
    ] = SchedulingSettings.min_yield
    max_silence: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "Time after which a site can be polled however unlikely a change is.",
            panel=Panel.POLLING,
        ),
    ] = SchedulingSettings.max_silence_seconds
    respect_ttl: Annotated[
        RespectTtl,
        Option(
            Kind.TRUST,
            "Whether a site is left alone for as long as its max-age, Expires or ttl says. hint: up to 1h, not once a "
            "change was found earlier; strict: up to 1d, also as --respect-ttl alone; off: also as --no-respect-ttl.",
            more="`Expires` counts less `Age`; feeds say it by `ttl` or `updatePeriod`; never longer than the site's "
            "max_interval. A hint ends when a signal says that the site changed. Polls by hand and proofs do not wait "
            "for it; a site can have its own",
            panel=Panel.POLLING,
            metavar="off|hint|strict",
        ),
    ] = SchedulingSettings.respect_ttl
    contact: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "Your URL or mail address, sent in the User-Agent.",
            more="recommended",
            panel=Panel.POLLING,
        ),
    ] = None
    allow_private: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Also poll loopback and private addresses.",
            more="cloud metadata stays closed",
            panel=Panel.POLLING,
        ),
    ] = False
    public_url: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "URL at which users reach this daemon, for links in messages.",
            more="its host names the daemon in [e-mails](notifications.md)",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = None
    callback_url: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "URL at which WebSub hubs reach this daemon; without it no hub is subscribed to.",
            more="`/websub/…` is added to it ([signal sources](signal-sources.md#websub))",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = None
    indexnow: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Accept reports of changed pages in IndexNow's form from every host that holds the key.",
            more="at `/indexnow` ([signal sources](signal-sources.md#indexnow))",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = False
    allow_private_channels: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Allow channels on loopback and private addresses.",
            more="for example an ntfy at home; cloud metadata stays closed ([channels](notifications.md))",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = False
    sync: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Follow the list exactly: reset settings to those in it, and remove sites that are not in it.",
            more="[lists](lists.md)",
            panel=Panel.POLLING,
            applies=Applies.USE,
        ),
    ] = False
    no_wait: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Exit with code 2 if the database cannot be opened at the start, instead of waiting for it.",
            panel=Panel.DAEMON,
            applies=Applies.USE,
        ),
    ] = False
    no_web: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Serve no web pages: only REST, metrics and health.",
            more="[web pages](web.md)",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = False
    token: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "File with the token, or its hash, that allows everything.",
            more="[tokens of the API](api.md#tokens)",
            panel=Panel.DAEMON,
            secret=True,
            flag="token-file",
        ),
    ] = None
    read_token: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "File with the token, or its hash, that allows reading.",
            panel=Panel.DAEMON,
            secret=True,
            flag="read-token-file",
        ),
    ] = None
    sign_in: Annotated[
        bool,
        Option(
            Kind.SWITCH,
            "Callers must sign in, or send a token. If there is no user yet, a link in the log makes one.",
            more="then it can listen anywhere ([users](api.md#users-and-sessions))",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = False
    allowed_host: Annotated[
        tuple[str, ...],
        Option(
            Kind.NAMES,
            "Name, perhaps with a port, under which browsers reach this daemon (repeatable).",
            more="needed if no sign-in is needed and the name is not loopback's, and behind a proxy that "
            "changes the Host",
            panel=Panel.DAEMON,
        ),
    ] = ()
    trusted_proxy: Annotated[
        tuple[str, ...],
        Option(
            Kind.NAMES,
            "Address or network of a proxy that names the caller's address (repeatable).",
            more="in `X-Forwarded-For`",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = ()
    user_header: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "Header in which trusted proxies name the user.",
            more="[users](api.md#users-and-sessions)",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
        ),
    ] = None
    metrics_version: Annotated[
        bool,
        Option(Kind.SWITCH, "Show the program's version at /metrics to callers without a token.", panel=Panel.DAEMON),
    ] = False
    secret_key: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "File with the key that encrypts the credentials of sites.",
            more="SQLite makes one next to its file; `pollerd config key` prints a new one",
            panel=Panel.DAEMON,
            applies=Applies.RESTART,
            secret=True,
            flag="secret-key-file",
        ),
    ] = None
    proxy: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "http:// or https:// proxy for every request, perhaps with user:password@.",
            more="a password is safer in a file",
            panel=Panel.POLLING,
            secret=True,
        ),
    ] = None
    log_format: Annotated[
        str,
        Option(
            Kind.CHOICE,
            "Form of the log: a line of key=value, or an object, for each event.",
            panel=Panel.DAEMON,
            choices=("text", "json"),
        ),
    ] = "text"
    log_level: Annotated[
        str,
        Option(
            Kind.CHOICE,
            "Least level that is logged.",
            panel=Panel.DAEMON,
            choices=("debug", "info", "warning", "error"),
        ),
    ] = "info"
    total_timeout: Annotated[
        float,
        Option(
            Kind.SECONDS,
            "Deadline of a poll, including redirects.",
            more="of one of several nodes 20s, as another waits so long before it takes over",
        ),
    ] = FetchSettings.total_timeout_seconds
    connect_timeout: Annotated[
        float, Option(Kind.SECONDS, "Deadline of a connection, including name lookup and TLS.")
    ] = FetchSettings.connect_timeout_seconds
    max_body_bytes: Annotated[
        int, Option(Kind.SIZE, "Largest body of a page, both as sent and after decompression.")
    ] = FetchSettings.max_body_bytes
    tls_session_bytes: Annotated[int, Option(Kind.SIZE, "Memory for TLS sessions to resume; 0: none are resumed.")] = (
        FetchSettings.tls_session_bytes
    )
    ca_file: Annotated[
        str | None,
        Option(Kind.TEXT, "PEM file of certificate authorities that are trusted in addition to the system's."),
    ] = None
    full_get_every: Annotated[
        int, Option(Kind.COUNT, "Every n-th poll of a site is a full GET instead of a conditional one.")
    ] = DaemonSettings.full_get_every
    max_inflight: Annotated[
        int, Option(Kind.COUNT, "Maximum number of polls at the same time.", applies=Applies.RESTART)
    ] = DaemonSettings.max_inflight
    keep_contents: Annotated[
        int, Option(Kind.COUNT, "Newest contents of each site that are kept whatever their age.")
    ] = StorageSettings.keep_contents
    content_retention: Annotated[float, Option(Kind.SECONDS, "How long the difference of a change can be read.")] = (
        StorageSettings.content_retention_seconds
    )
    content_cap_bytes: Annotated[
        int, Option(Kind.SIZE, "Maximum space for contents; the sites that keep most lose theirs first.")
    ] = StorageSettings.content_cap_bytes
    change_retention: Annotated[float | None, Option(Kind.SECONDS, "How long changes are kept.", unset="for ever")] = (
        StorageSettings.change_retention_seconds
    )
    poll_retention: Annotated[float, Option(Kind.SECONDS, "How long single polls are kept.")] = (
        StorageSettings.poll_retention_seconds
    )
    browser: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "For pages that need one: the absolute path of a Chromium, or the ws:// or http:// address of a browser.",
            more="an address is trusted ([rendering](rendering.md))",
            panel=Panel.POLLING,
            applies=Applies.RESTART,
            secret=True,
        ),
    ] = None
    browser_pages: Annotated[
        int,
        Option(Kind.COUNT, "Maximum number of pages rendered at the same time.", more="1 to 64", panel=Panel.POLLING),
    ] = RenderingSettings.browser_pages
    browser_deadline: Annotated[
        float, Option(Kind.SECONDS, "Deadline of a rendered poll, from its request to its text.")
    ] = RenderingSettings.browser_deadline_seconds
    browser_page_bytes: Annotated[
        int, Option(Kind.SIZE, "Most bytes that a rendered page can load, with all that belongs to it.")
    ] = RenderingSettings.browser_page_bytes
    browser_no_sandbox: Annotated[
        bool,
        Option(Kind.SWITCH, "Start Chromium without its sandbox; root cannot have one.", applies=Applies.RESTART),
    ] = RenderingSettings.browser_no_sandbox
    browser_proxy: Annotated[
        str | None,
        Option(
            Kind.TEXT,
            "HOST:PORT at which a browser elsewhere reaches pollerd's proxy.",
            applies=Applies.RESTART,
            unset="a free port of 127.0.0.1",
        ),
    ] = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def options_of(table: type[Options]) -> dict[str, Option]:
    """Returns the settings that a class declares by `Option`, by name in the order of its fields."""
    hints = get_type_hints(table, include_extras=True)
    return {
        field.name: replace(note, name=field.name, default=field.default)
        for field in fields(table)
        for note in hints[field.name].__metadata__
        if isinstance(note, Option)
    }


OPTIONS: Mapping[str, Option] = options_of(Options)
SECRETS = frozenset(name for name, option in OPTIONS.items() if option.secret)
NEEDS_RESTART = frozenset(name for name, option in OPTIONS.items() if option.applies is Applies.RESTART)
