"""Settings from flags, environment and TOML, in this order of precedence. The only reader of the environment.

Every setting is one field of `Options`: `--host-interval` is `POLLERD_HOST_INTERVAL` and the TOML key `host_interval`.
Secrets may also come from a file: `--token-file`, `POLLERD_TOKEN_FILE`, `token_file`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pollerd import quantities
from pollerd.allocation.registered import Objective
from pollerd.api.settings import SHORTEST_TOKEN, ApiSettings, SignInSettings, is_hash
from pollerd.app.environment import PREFIX, SECRET_FILES, SECRETS, variable, variables, with_secrets_read
from pollerd.daemon.settings import DaemonSettings, SignalSettings
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.fetching.settings import FetchSettings, normalise_proxy, without_userinfo
from pollerd.notifications.settings import NotificationSettings
from pollerd.rendering.settings import RenderingSettings, browser_shown
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.site_settings import RespectTtl
from pollerd.storage.settings import StorageSettings

NODE_TOTAL_TIMEOUT_SECONDS = 20.0
_CLIENT_ONLY = frozenset({"url"})


def _written(read: Callable[[str], float]) -> BeforeValidator:
    """Returns a validator that parses texts with `read` and leaves other values unchanged."""
    return BeforeValidator(lambda value: read(value) if isinstance(value, str) else value)


def _names(value: object) -> object:
    """Splits names in a text like "htraa, uniform"."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.split(",") if name.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Seconds = Annotated[float, _written(quantities.seconds), Field(allow_inf_nan=False)]
PollRate = Annotated[float, _written(quantities.per_second), Field(allow_inf_nan=False)]
Trust = Annotated[RespectTtl, BeforeValidator(RespectTtl.of)]
Share = Annotated[float, _written(quantities.share), Field(allow_inf_nan=False)]


class Options(BaseModel):
    """All user settings, flat. Ranges are checked by the packages that own the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    urls: Path | None = None
    topic: Path | None = None
    seeds: Path | None = None
    budget: PollRate = DaemonSettings.budget
    allocator: str = DaemonSettings.allocator
    objective: Objective = "changes"
    deadline: Seconds = DaemonSettings.deadline
    shadow: Names = ()
    database: str = Field(default="sqlite+aiosqlite:///pollerd.db", repr=False)
    node: str | None = None
    node_address: str | None = None
    listen: str = "127.0.0.1:8080"
    host_interval: Seconds = SchedulingSettings.host_interval_seconds
    min_interval: Seconds = SchedulingSettings.min_interval_seconds
    max_interval: Seconds | None = None
    min_yield: Share = SchedulingSettings.min_yield
    max_silence: Seconds = SchedulingSettings.max_silence_seconds
    respect_ttl: Trust = SchedulingSettings.respect_ttl
    contact: str | None = None
    allow_private: bool = False
    public_url: str | None = None
    callback_url: str | None = None
    indexnow: bool = False
    allow_private_channels: bool = False
    sync: bool = False
    no_wait: bool = False
    no_web: bool = False
    token: str | None = Field(default=None, repr=False)
    read_token: str | None = Field(default=None, repr=False)
    sign_in: bool = False
    allowed_host: Names = ()
    trusted_proxy: Names = ()
    user_header: str | None = None
    metrics_version: bool = False
    secret_key: str | None = Field(default=None, repr=False)
    proxy: str | None = Field(default=None, repr=False)
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    total_timeout: Seconds = FetchSettings.total_timeout_seconds
    connect_timeout: Seconds = FetchSettings.connect_timeout_seconds
    max_body_bytes: int = FetchSettings.max_body_bytes
    tls_session_bytes: int = FetchSettings.tls_session_bytes
    ca_file: str | None = None
    full_get_every: int = DaemonSettings.full_get_every
    max_inflight: int = DaemonSettings.max_inflight
    keep_contents: int = StorageSettings.keep_contents
    content_retention: Seconds = StorageSettings.content_retention_seconds
    content_cap_bytes: int = StorageSettings.content_cap_bytes
    change_retention: Seconds | None = StorageSettings.change_retention_seconds
    poll_retention: Seconds = StorageSettings.poll_retention_seconds
    browser: str | None = Field(default=None, repr=False)
    browser_pages: int = RenderingSettings.browser_pages
    browser_deadline: Seconds = RenderingSettings.browser_deadline_seconds
    browser_page_bytes: int = RenderingSettings.browser_page_bytes
    browser_no_sandbox: bool = RenderingSettings.browser_no_sandbox
    browser_proxy: str | None = None


@dataclass(frozen=True)
class Config:
    """The merged options, their sources, and the settings for the packages."""

    options: Options
    sources: Mapping[str, str]
    """Option -> "flag", "environment", "file PATH" or "default"."""
    daemon: DaemonSettings
    scheduling: SchedulingSettings
    fetching: FetchSettings
    rendering: RenderingSettings
    notifying: NotificationSettings
    signals: SignalSettings
    storage: StorageSettings
    api: ApiSettings

    def is_set(self, option: str) -> bool:
        """Returns whether the user set the option anywhere."""
        return self.sources[option] != "default"

    def short_tokens(self) -> list[str]:
        """Returns which tokens are too short to be safe, by option; of a hash the length is not known."""
        given = {"token": self.options.token, "read_token": self.options.read_token}
        return [name for name, token in given.items() if token and not is_hash(token) and len(token) < SHORTEST_TOKEN]

    def shown(self) -> dict[str, tuple[str, str]]:
        """Returns option -> (value as text, source); secrets are masked."""
        return {name: (_shown(name, value), self.sources[name]) for name, value in self.options}


def load(flags: Mapping[str, Any], *, file: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Merges flags (None: not given), environment and TOML file.

    Raises ConfigError for unknown names and unreadable files, InvalidValueError for invalid values.
    """
    env = os.environ if environ is None else environ
    values, sources = _from_file(_file(file, env))
    given = with_secrets_read(_given(flags), lambda name: f"--{name.replace('_', '-')}")
    for layer, name in ((_from_environment(env), "environment"), (given, "flag")):
        values.update(layer)
        sources.update(dict.fromkeys(layer, name))
    options = _validated(values)
    complete = {name: sources.get(name, "default") for name in Options.model_fields}
    try:
        return _settings(options, complete)
    except InvalidValueError as error:
        raise _as_option(error) from error


def _file(file: Path | None, env: Mapping[str, str]) -> Path | None:
    if file is not None:
        return file
    named = env.get(PREFIX + "CONFIG")
    return Path(named) if named else None


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if value is not None}


def _from_file(path: Path | None) -> tuple[dict[str, Any], dict[str, str]]:
    if path is None:
        return {}, {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path}: {error}") from error
    _refuse_unknown(values, f"config file {path}", str, SECRET_FILES)
    values = with_secrets_read(values, str)
    return values, dict.fromkeys(values, f"file {path}")


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    found = variables(env)
    check_variables(frozenset(found))
    found = with_secrets_read(found, variable)
    return {name: value for name, value in found.items() if name not in _CLIENT_ONLY}


def check_variables(names: frozenset[str]) -> None:
    """Raises ConfigError for a variable without an option; `names` as returned by `variables`."""
    _refuse_unknown(names, "environment", variable, _CLIENT_ONLY | SECRET_FILES)


def _refuse_unknown(
    values: Collection[str], where: str, spelled: Callable[[str], str], also: frozenset[str] = frozenset()
) -> None:
    unknown = sorted(set(values) - set(Options.model_fields) - also)
    if unknown:
        known = ", ".join(spelled(name) for name in Options.model_fields)
        raise ConfigError(f"{where}: unknown {', '.join(spelled(n) for n in unknown)}; known: {known}")


def _validated(values: dict[str, Any]) -> Options:
    try:
        return Options.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        given = "(not shown)" if name in SECRETS else first["input"]
        raise InvalidValueError(name, _allowed(first["msg"]), given) from error


def _allowed(message: str) -> str:
    """Returns Pydantic's message as the end of "must be ..."."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message


def _as_option(error: InvalidValueError) -> InvalidValueError:
    """Renames the field of the error to the user's option, which lacks the unit."""
    name = error.field.removesuffix("_seconds")
    return InvalidValueError(name if name in Options.model_fields else error.field, error.allowed, error.given)


def _settings(options: Options, sources: Mapping[str, str]) -> Config:
    longest = {} if options.max_interval is None else {"max_interval_seconds": options.max_interval}
    return Config(
        options=options,
        sources=sources,
        daemon=DaemonSettings(
            budget=options.budget,
            allocator=options.allocator,
            objective=_objective(options, sources),
            deadline=options.deadline,
            shadows=options.shadow,
            full_get_every=options.full_get_every,
            max_inflight=options.max_inflight,
        ),
        scheduling=SchedulingSettings(
            min_interval_seconds=options.min_interval,
            host_interval_seconds=options.host_interval,
            min_yield=options.min_yield,
            max_silence_seconds=options.max_silence,
            respect_ttl=options.respect_ttl,
            **longest,
        ),
        fetching=FetchSettings(
            contact=options.contact,
            total_timeout_seconds=_total_timeout(options, sources),
            connect_timeout_seconds=options.connect_timeout,
            max_body_bytes=options.max_body_bytes,
            tls_session_bytes=options.tls_session_bytes,
            max_connections=max(options.max_inflight, FetchSettings.max_connections),
            allow_private=options.allow_private,
            ca_file=options.ca_file,
            proxy=options.proxy,
        ),
        rendering=_rendering(options),
        notifying=NotificationSettings(
            public_url=options.public_url,
            allow_private_channels=options.allow_private_channels,
            ca_file=options.ca_file,
            contact=options.contact,
            proxy=options.proxy,
        ),
        signals=SignalSettings(callback_url=options.callback_url, indexnow=options.indexnow),
        storage=StorageSettings(
            keep_contents=options.keep_contents,
            content_retention_seconds=options.content_retention,
            content_cap_bytes=options.content_cap_bytes,
            change_retention_seconds=options.change_retention,
            poll_retention_seconds=options.poll_retention,
            secret_key=options.secret_key,
        ),
        api=ApiSettings.listening(
            options.listen,
            token=options.token,
            read_token=options.read_token,
            metrics_version=options.metrics_version,
            entrance=SignInSettings.of(
                required=options.sign_in,
                allowed_hosts=options.allowed_host,
                trusted_proxies=options.trusted_proxy,
                user_header=options.user_header,
            ),
        ),
    )


def _total_timeout(options: Options, sources: Mapping[str, str]) -> float:
    """Returns the deadline of a poll; of a node, by default, shorter: who takes over from a dead one waits so long."""
    chosen = options.node is None or sources["total_timeout"] != "default"
    return options.total_timeout if chosen else min(options.total_timeout, NODE_TOTAL_TIMEOUT_SECONDS)


def _rendering(options: Options) -> RenderingSettings:
    return RenderingSettings(
        browser=options.browser,
        browser_pages=options.browser_pages,
        browser_deadline_seconds=options.browser_deadline,
        browser_page_bytes=options.browser_page_bytes,
        browser_no_sandbox=options.browser_no_sandbox,
        browser_proxy=options.browser_proxy,
    )


def _objective(options: Options, sources: Mapping[str, str]) -> str:
    """Returns the objective; freshness by default for a collection, which should be current."""
    chosen = options.topic is None or sources["objective"] != "default"
    return options.objective if chosen else "freshness"


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "database":
        return _without_password(str(value))
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, RespectTtl):
        return value.name.lower()
    if name == "proxy":
        return without_userinfo(normalise_proxy(str(value)))
    if name == "browser":
        return browser_shown(str(value))
    return "***" if name in SECRETS else str(value)


def _without_password(url: str) -> str:
    """Masks the password in the URL, and all values of its query, where drivers accept passwords too."""
    scheme, separator, rest = url.partition("://")
    if scheme.startswith("sqlite") or not separator:
        return url
    person, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    if "=" in place or "&" in place:  # an @ within the query: the parts are ambiguous
        return f"{scheme}://***"
    name, colon, _ = person.partition(":")
    names = "&".join(f"{pair.partition('=')[0]}=***" for pair in query.split("&")) if query else ""
    return f"{scheme}://{name}{colon and ':***'}{at}{place}{question}{names}"
