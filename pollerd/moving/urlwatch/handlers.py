"""What becomes of a directive that no setting of a site follows from."""

from __future__ import annotations

from collections.abc import Callable

from pollerd.moving.draft import Draft

Directive = Callable[[Draft, str, object], None]
"""Applies a key of a job, with its value, to the site that is being made."""


def lost(why: str) -> Directive:
    """Returns a directive that is not carried over, where it is switched on."""

    def handle(draft: Draft, key: str, value: object) -> None:
        if value in (None, False, [], {}, ""):
            draft.report.nothing_said(key)
        else:
            draft.report.not_carried(key, why)

    return handle
