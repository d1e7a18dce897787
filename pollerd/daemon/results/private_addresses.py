"""Tracks sites at private addresses while the daemon runs without allow_private, and warns the user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pollerd.fetching import WITHOUT_FLAG
from pollerd.model import OutcomeKind
from pollerd.scheduling import SiteTable
from pollerd.storage import PollRecord

_AGAIN = 10
"""Growth factor between warnings: one comes with the first such site, then at ten times the number of the last one."""


class PrivateAddresses:
    """Keeps the column `private` of the sites, and warns that a flag is missing."""

    def __init__(self, sites: SiteTable) -> None:
        self._sites = sites
        self._warn_at = 1
        self._log = structlog.get_logger("pollerd.guard")

    def note(self, slots: NDArray[np.int64], records: Sequence[PollRecord]) -> None:
        """Records the outcomes of polls of the sites in the slots int64[k]."""
        refused = [_is_private(record) for record in records]
        self._sites.put("private", slots, refused)
        if any(refused):
            self._warn(records[refused.index(True)])

    def _warn(self, first: PollRecord) -> None:
        number = int(np.count_nonzero(self._sites.private[: self._sites.size]))
        if number < self._warn_at:
            return
        self._warn_at = number * _AGAIN
        self._log.warning(
            "private_addresses",
            sites=number,
            url=first.context.url,
            reason=first.poll.detail,
            instead="start pollerd with --allow-private where loopback and private addresses are meant to be polled",
        )


def _is_private(record: PollRecord) -> bool:
    return record.poll.outcome is OutcomeKind.BLOCKED_ADDRESS and WITHOUT_FLAG in record.poll.detail
