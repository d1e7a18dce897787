"""The calls of changedetection.io's API that tell its watches and groups: read only, one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Protocol

from pollerd.errors import ConfigError, TransientError
from pollerd.moving.changedetection.instance import Instance, Item, Watch, table
from pollerd.texts import _

MAX_WATCHES = 100_000
MAX_FAILURES = 20
"""Watches in a row that cannot be read, after which the source counts as gone."""
_UUID = re.compile(r"[0-9A-Za-z-]{1,64}")
_FORBIDDEN, _GONE = 403, 404


class Answers(Protocol):
    """Gets what is at a path below the source's `/api/v1`."""

    def get(self, path: str) -> tuple[int, bytes]:
        """Returns (HTTP status, body of limited size). Raises `TransientError` if nothing answers."""


def read_api(source: Answers, progress: Callable[[int, int], None] = lambda done, total: None) -> Instance:
    """Reads all watches and groups.

    Raises `ConfigError` if the source refuses or is another program, `TransientError` if it does not answer. A watch
    that cannot be read is named, and stops no other.
    """
    listed = _table(source, "/watch")
    if len(listed) > MAX_WATCHES:
        raise ConfigError(
            _(
                "at most {max_watches} watches can be moved at once; given: {count}",
                max_watches=MAX_WATCHES,
                count=len(listed),
            )
        )
    watches, unread, failures = list[Watch](), list[tuple[str, str]](), 0
    groups = _groups(source, unread)
    for number, uuid in enumerate(listed, 1):
        item = _item(source, "watch", uuid)
        if isinstance(item, str):
            unread.append((f"watch {uuid[:40]}", item))
            failures += 1
        else:
            watches.append(Watch(uuid, item))
            failures = 0
        if failures >= MAX_FAILURES:
            raise TransientError(
                _("{failures} watches in a row could not be read; the last: {item}", failures=failures, item=item)
            )
        progress(number, len(listed))
    unread.append((_("proxies and headers.txt"), _("the API does not show them")))
    return Instance(watches, groups, None, unread)


def _groups(source: Answers, unread: list[tuple[str, str]]) -> dict[str, Item]:
    """Returns all groups with their fields, of which their list tells only a few."""
    groups = dict[str, Item]()
    for uuid, told in _table(source, "/tags").items():
        group = _item(source, "tag", uuid)
        if isinstance(group, str):
            unread.append((_("group {uuid}: all but its title", uuid=uuid[:40]), group))
            group = {}
        groups[uuid] = {**table(told), **group}
    return groups


def _item(source: Answers, kind: str, uuid: str) -> Item | str:
    """Returns the fields of a watch or a group, or why they cannot be read."""
    if not _UUID.fullmatch(uuid):
        return _("its id is none")
    try:
        return _table(source, f"/{kind}/{uuid}")
    except TransientError as error:
        return str(error)


def _table(source: Answers, path: str) -> Item:
    status, body = source.get(path)
    if status == _FORBIDDEN:
        raise ConfigError(_("the source refuses the key (403): it is in its settings under API"))
    if status == _GONE and path.startswith(("/watch/", "/tag/")):
        raise TransientError(_("it was removed in the meantime (404)"))
    if status >= 500:
        raise TransientError(_("the source fails with {status}", status=status))
    if status != 200:
        raise ConfigError(
            _("what answers is no changedetection.io, or an old one: {status} for {path}", status=status, path=path)
        )
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ConfigError(_("what answers is no changedetection.io: no JSON for {path}", path=path)) from error
    if isinstance(document, dict):
        return table(document)
    if document == []:  # an empty table of the program may come as a list
        return {}
    raise ConfigError(
        _("what answers is no changedetection.io: a {name} for {path}", name=type(document).__name__, path=path)
    )
