"""Rows of sites: as values and checked before they are written, and read in pieces by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, func, select

from pollerd.errors import InvalidValueError
from pollerd.model import OutcomeKind, Site, SiteState
from pollerd.site_settings import COLUMNS, NO_ACCESS, NUMERIC_SETTINGS, USABLE, Kind, RespectTtl, SiteSpec, Windows
from pollerd.storage.encoding import Field, number, storable
from pollerd.storage.encryption import Encryption
from pollerd.storage.schema import host, site, site_state, site_text
from pollerd.storage.soft_delete import is_soft_deleted
from pollerd.storage.values import ScheduleRows
from pollerd.texts import _

# Polling windows as stored: JSON, of which equal ones are read once.


class WindowsRead(dict[str | None, int]):
    """Number of each text of windows, from 1, and 0 for none; reads those that are new.

    Raises ValueError for a text that cannot be read.
    """

    def __init__(self) -> None:
        super().__init__({None: 0})
        self._values: list[Windows] = []

    def __missing__(self, text: str | None) -> int:
        self._values.append(decode_windows(text))
        self[text] = len(self._values)
        return len(self._values)

    def field(self) -> Field:
        """Returns the column of these numbers."""
        return Field("windows", np.int32, "windows, as a site has them", 0, self)

    def of_sites(self, site_ids: NDArray[np.int64], numbers: NDArray[np.int32]) -> dict[int, Windows]:
        """Returns the windows of sites int64[k] with these numbers, by site id; others are missing."""
        some = np.flatnonzero(numbers)
        pairs = zip(site_ids[some].tolist(), numbers[some].tolist(), strict=True)
        return {site_id: self._values[number - 1] for site_id, number in pairs}


def decode_windows(text: str | None) -> Windows:
    """Returns stored windows. Raises ValueError, also for a zone that is not known any more."""
    try:
        return usable_windows(msgspec.json.decode(text or "", type=Windows))
    except (msgspec.MsgspecError, TypeError) as error:
        raise ValueError(str(error)) from error


def usable_windows(windows: Windows) -> Windows:
    """Returns the windows, which the scheduler can go by. Raises ValueError."""
    from pollerd.scheduling.windows import opening_times  # not for who has none

    try:
        opening_times(windows)
    except InvalidValueError as error:
        raise ValueError(str(error)) from error
    return windows


def encode_windows(windows: Windows | None) -> str | None:
    """Returns windows as they are stored."""
    return None if windows is None else msgspec.json.encode(windows).decode()


# A site as a value.

STATES = {state.value: state for state in SiteState}
_TTL_TRUST = {float(choice): choice for choice in RespectTtl}
_OUTCOMES = {kind.value: kind for kind in OutcomeKind}
_numbers = attrgetter(*USABLE)
_UNSET = (None,) * len(USABLE)


def check_spec(spec: SiteSpec) -> None:
    """Raises `InvalidValueError`, naming the field, if a spec cannot be stored."""
    numbers = _numbers(spec)
    if numbers != _UNSET:  # most sites of a list have only a URL
        for usable, value in zip(USABLE.values(), numbers, strict=True):
            if value is not None:
                usable.check(value)
        if None not in (spec.min_interval, spec.max_interval) and spec.min_interval > spec.max_interval:  # type: ignore[operator]
            raise InvalidValueError(
                "max_interval",
                _("at least min_interval ({min_interval})", min_interval=spec.min_interval),
                spec.max_interval,
            )
    if not spec.url or storable(spec.url) != spec.url:
        raise InvalidValueError("url", _("a URL without NUL or lone surrogates"), spec.url)
    for field in ("selections", "render", "title"):
        text: str = getattr(spec, field)
        if storable(text) != text:
            raise InvalidValueError(field, _("without NUL or lone surrogates"), "others")
    for tag in spec.tags:
        if not tag or storable(tag) != tag:
            raise InvalidValueError("tags", _("words without NUL or lone surrogates"), tag)


def select_sites() -> Select[Any]:
    """Selects the rows of `site_of`."""
    s, t = site.c, site_state.c
    return (
        select(
            s.id,
            s.url,
            host.c.name.label("host"),
            s.created_at,
            s.paused,
            *(s[name] for name in COLUMNS),
            s.access,
            t.state,
            t.last_poll_at,
            t.not_before,
            t.polls,
            t.changes,
            t.failures,
            t.last_outcome,
            t.last_detail,
            t.redirect_url,
            t.redirect_count,
            t.hidden_changes,
            t.last_change_at,
            func.coalesce(site_text.c.page_title, "").label("page_title"),
        )
        .join_from(site, site_state)
        .outerjoin(site_text, site_text.c.site_id == s.id)
        .outerjoin(host, host.c.id == s.host_id)
        .where(~is_soft_deleted(s.id))
    )


def stored_settings(spec: SiteSpec) -> dict[str, Any]:
    """Returns the values of `COLUMNS`: empty texts as NULL."""
    values = {name: value if (value := getattr(spec, name)) != "" else None for name in COLUMNS}
    return {**values, "windows": encode_windows(spec.windows)}


def _setting(kind: Kind, value: Any) -> Any:
    """Returns the value of a column as `SiteSpec` holds it."""
    match kind:
        case Kind.NUMBER | Kind.SECONDS | Kind.SHARE:
            return number(value)
        case Kind.TRUST:
            return _TTL_TRUST.get(number(value))
        case Kind.WINDOWS:
            return _windows(value)
        case Kind.SWITCH:
            return value
    return value or ""


def site_of(row: Any, tags: tuple[str, ...], encryption: Encryption) -> Site:
    """Returns the site of a row; values damaged by hand become those of a new site."""
    access = NO_ACCESS if row.access is None else encryption.decrypt(row.access)
    settings = {
        name: _setting(setting.kind, value)
        for name, setting in COLUMNS.items()
        if (value := getattr(row, name)) is not None  # most are not set, so as in a new `SiteSpec`
    }
    return Site(
        id=row.id,
        spec=SiteSpec(row.url, tags=tags, access=access, paused=row.paused, **settings),
        host=row.host or "",
        state=SiteState.PAUSED if row.paused else STATES.get(row.state, SiteState.ACTIVE),
        created_at=number(row.created_at, 0.0),
        last_poll_at=number(row.last_poll_at),
        next_poll_at=number(row.not_before),
        polls=number(row.polls, 0),
        changes=number(row.changes, 0),
        failures=number(row.failures, 0),
        last_outcome=_OUTCOMES.get(row.last_outcome),
        last_detail=row.last_detail,
        redirect_url=row.redirect_url,
        redirect_count=number(row.redirect_count, 0),
        hidden_changes=number(row.hidden_changes, 0),
        page_title=row.page_title,
        last_change_at=number(row.last_change_at, 0.0) or None,
    )


def _windows(text: str | None) -> Windows | None:
    """Returns stored windows; none in place of those damaged by hand, which the daemon reports."""
    try:
        return None if text is None else decode_windows(text)
    except ValueError:
        return None


def tag_rows(site_id: int, tags: Iterable[str]) -> list[dict[str, Any]]:
    """Returns the rows of a site's tags, each once and in their order."""
    return [{"site_id": site_id, "tag": tag, "position": place} for place, tag in enumerate(dict.fromkeys(tags))]


# Pieces of long lists.

PIECE = 20_000
OF_SITE = (Field("paused", np.bool_, "true or false", 0), *(Field(name, np.float64) for name in NUMERIC_SETTINGS))
"""Columns of a site's settings."""


def numbers_of(rows: ScheduleRows) -> dict[str, NDArray[np.float64]]:
    """Returns the columns of settings, by name."""
    return {name: getattr(rows, name) for name in NUMERIC_SETTINGS}


def rows_after(connection: Connection, statement: Select[Any], key: Any, after: int) -> Sequence[Any]:
    """Returns the first rows above `after` in order of `key`, the statement's first column, as the driver's tuples.

    `Result.all` would build a `Row` for each: 1.6 of the 10 s that reading a million sites takes.
    """
    with connection.execute(statement.where(key > after).order_by(key).limit(PIECE)) as result:
        return result.cursor.fetchall()
