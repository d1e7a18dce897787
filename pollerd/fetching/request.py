"""What the daemon asks of fetching."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.model import Validators

NO_VALIDATORS = Validators()


@dataclass(frozen=True, slots=True)
class Request:
    """One page to get."""

    url: str
    """As `normalise_url` returns it."""
    validators: Validators = NO_VALIDATORS
    """Sent back verbatim; empty: a full GET."""
    headers: tuple[tuple[str, str], ...] = ()
    """The site's own, perhaps with credentials: sent to the origin of `url` only, never across a redirect."""
