"""Settings from flags, environment and TOML, in this order of strength. The only reader of the environment.

Every setting is one field of `Options`: `--host-interval` is `POLLERD_HOST_INTERVAL` and the TOML key
`host_interval`. Secrets may also come from a file: `--token-file`, `POLLERD_TOKEN_FILE`, `token_file`.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pollerd.api import ApiSettings, is_hash
from pollerd.daemon import DaemonSettings
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.fetching import FetchSettings, normalise_proxy, without_userinfo
from pollerd.scheduling import SchedulingSettings
from pollerd.storage import StorageSettings

PREFIX = "POLLERD_"
SECRETS = frozenset({"token", "read_token", "secret_key", "proxy", "database"})
_SECRET_FILES = frozenset(f"{name}_file" for name in SECRETS)
_CLIENT_ONLY = frozenset({"url"})
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([smhd]?)")
DEFAULT_URL = "http://127.0.0.1:8080"


def _seconds(value: object) -> object:
    """Seconds from a number, or a text like "90", "1.5h", "2d"."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    seconds = math.nan if match is None else float(match[1]) * _UNITS[match[2]]
    if not math.isfinite(seconds):
        raise ValueError("seconds, or a number with s, m, h or d behind it")
    return seconds


def _names(value: object) -> object:
    """Names from a text like "htraa, uniform"."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.split(",") if name.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]


class Options(BaseModel):
    """Everything a user may set, flat. Ranges are checked by the packages that own the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    urls: Path | None = None
    topic: Path | None = None
    seeds: Path | None = None
    budget: float = DaemonSettings.budget
    allocator: str = DaemonSettings.allocator
    objective: Literal["changes", "freshness", "interest"] = "changes"
    shadow: Names = ()
    database: str = Field("sqlite+aiosqlite:///pollerd.db", repr=False)
    listen: str = "127.0.0.1:8080"
    host_interval: Seconds = SchedulingSettings.host_interval_seconds
    min_interval: Seconds = SchedulingSettings.min_interval_seconds
    max_interval: Seconds | None = None
    contact: str | None = None
    allow_private: bool = False
    sync: bool = False
    token: str | None = Field(None, repr=False)
    read_token: str | None = Field(None, repr=False)
    secret_key: str | None = Field(None, repr=False)
    proxy: str | None = Field(None, repr=False)
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    total_timeout: Seconds = FetchSettings.total_timeout_seconds
    connect_timeout: Seconds = FetchSettings.connect_timeout_seconds
    max_body_bytes: int = FetchSettings.max_body_bytes
    ca_file: str | None = None
    full_get_every: int = DaemonSettings.full_get_every
    max_inflight: int = DaemonSettings.max_inflight
    keep_contents: int = StorageSettings.keep_contents
    content_cap_bytes: int = StorageSettings.content_cap_bytes
    poll_retention: Seconds = StorageSettings.poll_retention_seconds


@dataclass(frozen=True)
class Config:
    """The merged options, where each came from, and the settings that the packages are given."""

    options: Options
    sources: Mapping[str, str]
    """Option -> "flag", "environment", "file PATH" or "default"."""
    daemon: DaemonSettings
    scheduling: SchedulingSettings
    fetching: FetchSettings
    storage: StorageSettings
    api: ApiSettings

    def is_set(self, option: str) -> bool:
        """Whether the user set the option anywhere."""
        return self.sources[option] != "default"

    def shown(self) -> dict[str, tuple[str, str]]:
        """Option -> (value as text, source); secrets are not told."""
        return {name: (_shown(name, value), self.sources[name]) for name, value in self.options}


def load(flags: Mapping[str, Any], *, file: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Merges flags (None: not given), environment and TOML file.

    Raises ConfigError for unknown names and unreadable files, InvalidValueError for values that cannot be used.
    """
    env = os.environ if environ is None else environ
    values, sources = _from_file(_file(file, env))
    given = _with_secrets_read(_given(flags), lambda name: f"--{name.replace('_', '-')}")
    for layer, name in ((_from_environment(env), "environment"), (given, "flag")):
        values.update(layer)
        sources.update(dict.fromkeys(layer, name))
    options = _validated(values)
    complete = {name: sources.get(name, "default") for name in Options.model_fields}
    try:
        return _settings(options, complete)
    except InvalidValueError as error:
        raise _as_option(error) from error


def client_defaults(environ: Mapping[str, str] | None = None) -> tuple[str, str | None]:
    """(URL of the daemon, token) that client commands start from. Raises as `load` does."""
    env = os.environ if environ is None else environ
    token = _from_environment(env).get("token")
    if token is not None and is_hash(token):
        allowed = "the token itself: its hash is enough for the daemon, not for commands that call it"
        raise InvalidValueError("token", allowed, "(not shown)")
    return env.get(PREFIX + "URL", DEFAULT_URL), token


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
    _refuse_unknown(values, f"config file {path}", str, _SECRET_FILES)
    values = _with_secrets_read(values, str)
    return values, dict.fromkeys(values, f"file {path}")


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        variable.removeprefix(PREFIX).lower(): value
        for variable, value in sorted(env.items())
        if variable.startswith(PREFIX) and variable != PREFIX + "CONFIG"
    }
    _refuse_unknown(found, "environment", _variable, _CLIENT_ONLY | _SECRET_FILES)
    found = _with_secrets_read(found, _variable)
    return {name: value for name, value in found.items() if name not in _CLIENT_ONLY}


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _with_secrets_read(values: Mapping[str, Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    """The values with what secret files hold in place of their names."""
    found = {name: value for name, value in values.items() if name not in _SECRET_FILES}
    for name in sorted(_SECRET_FILES & values.keys()):
        secret = name.removesuffix("_file")
        if secret in found:
            raise ConfigError(f"{spelled(secret)} and {spelled(name)} are both set; one is allowed")
        found[secret] = _secret(spelled(name), values[name])
    return found


def _secret(spelled: str, path: object) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{spelled}: {path} cannot be read: {error}") from error


def _refuse_unknown(
    values: Mapping[str, Any], where: str, spelled: Callable[[str], str], also: frozenset[str] = frozenset()
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
    """Pydantic's sentence as the end of "must be ..."."""
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message


def _as_option(error: InvalidValueError) -> InvalidValueError:
    """The packages' fields have their unit in the name, the user's options have not."""
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
            shadows=options.shadow,
            full_get_every=options.full_get_every,
            max_inflight=options.max_inflight,
        ),
        scheduling=SchedulingSettings(
            min_interval_seconds=options.min_interval, host_interval_seconds=options.host_interval, **longest
        ),
        fetching=FetchSettings(
            contact=options.contact,
            total_timeout_seconds=options.total_timeout,
            connect_timeout_seconds=options.connect_timeout,
            max_body_bytes=options.max_body_bytes,
            max_connections=max(options.max_inflight, FetchSettings.max_connections),
            allow_private=options.allow_private,
            ca_file=options.ca_file,
            proxy=options.proxy,
        ),
        storage=StorageSettings(
            keep_contents=options.keep_contents,
            content_cap_bytes=options.content_cap_bytes,
            poll_retention_seconds=options.poll_retention,
            secret_key=options.secret_key,
        ),
        api=ApiSettings.listening(options.listen, token=options.token, read_token=options.read_token),
    )


def _objective(options: Options, sources: Mapping[str, str]) -> str:
    """A collection is meant to be current, unless the user says otherwise."""
    chosen = options.topic is None or sources["objective"] != "default"
    return options.objective if chosen else "freshness"


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "database":
        return _without_password(str(value))
    if isinstance(value, tuple):
        return ", ".join(value)
    if name == "proxy":
        return without_userinfo(normalise_proxy(str(value)))
    return "***" if name in SECRETS else str(value)


def _without_password(url: str) -> str:
    """The URL for showing: no password, and of a query only its names, for a driver takes passwords there too."""
    scheme, separator, rest = url.partition("://")
    if scheme.startswith("sqlite") or not separator:
        return url
    person, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    if "=" in place or "&" in place:  # an @ within the query: what is what cannot be told
        return f"{scheme}://***"
    name, colon, _ = person.partition(":")
    names = "&".join(f"{pair.partition('=')[0]}=***" for pair in query.split("&")) if query else ""
    return f"{scheme}://{name}{colon and ':***'}{at}{place}{question}{names}"
