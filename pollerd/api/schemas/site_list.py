"""Lists of sites: pages of them, and the filters by which they are chosen."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field

from pollerd.api.http.parameters import MAX_ID, Words
from pollerd.api.schemas.common import Given, Listing
from pollerd.api.schemas.sites import SiteSchema
from pollerd.errors import InvalidValueError
from pollerd.model import SiteState
from pollerd.storage import SiteFilter, SiteSort

MAX_WORDS_LENGTH = 1_000
MAX_CURSOR = 12_000
"""Characters: a cursor may hold a URL."""
SORTS = f"^-?({'|'.join(SiteSort)})$"
"""What sites may be sorted by."""
_SHORT = Field(max_length=MAX_WORDS_LENGTH)
PerDay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SiteList(Listing[SiteSchema]):
    """Some sites of a list, and where it goes on in either direction; null: there are no more that way now."""

    previous_cursor: str | None
    total: int | None = Field(
        description="of a page that is asked for without a cursor: how many sites fit; null: not counted"
    )
    total_is_exact: bool = Field(description="false: there are more than `total`, or may be")


class SiteFilterSchema(Given):
    """Which sites; those that fit all that is given. Without anything: every site."""

    q: Annotated[Words, _SHORT] | None = Field(None, description="words that are parts of URL or title")
    tag: Annotated[Words, _SHORT] | None = None
    state: Annotated[SiteState, Field(strict=False)] | None = None
    host: Annotated[Words, _SHORT] | None = Field(None, description="name:port")
    source: Annotated[int, Field(ge=1, le=MAX_ID)] | None = Field(None, description="id of a source that lists them")
    rate_min: PerDay | None = Field(None, description="least believed changes per day")
    rate_max: PerDay | None = Field(None, description="most believed changes per day")
    changed: Duration | None = Field(None, description="a change was found within so many seconds")

    def filter(self) -> SiteFilter:
        """Returns the filter, as of now. Raises `InvalidValueError`."""
        return site_filter(**self.model_dump())


def site_filter(  # noqa: PLR0913 (the fields of a filter)
    *,
    q: str | None,
    tag: str | None,
    state: SiteState | None,
    host: str | None,
    source: int | None,
    rate_min: float | None,
    rate_max: float | None,
    changed: float | None,
) -> SiteFilter:
    """Returns the filter, as of now. changed: seconds within which a change was found. Raises `InvalidValueError`."""
    if rate_min is not None and rate_max is not None and rate_min > rate_max:
        raise InvalidValueError("rate_max", f"at least rate_min ({rate_min:g} a day)", rate_max)
    return SiteFilter(
        q=q if q and q.strip() else None,
        tag=tag,
        state=state,
        host=None if host is None else host.lower(),
        source=source,
        rate_min=rate_min,
        rate_max=rate_max,
        changed_since=None if changed is None else time.time() - changed,
    )
