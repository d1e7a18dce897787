"""The explanation of a site's polling."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.schemas.common import Moment
from pollerd.api.schemas.hosts import HostOverrideSchema


class FeedSchema(BaseModel):
    """What a feed showed when it was last read. Durations in seconds."""

    model_config = ConfigDict(from_attributes=True)

    items: int = Field(description="number of its items")
    new: int | None = Field(description="how many of them were new at the last poll; null: it was the first")
    limited: bool = Field(description="whether it drops old items when new ones come, as far as is known")
    oldest_at: Moment | None = Field(description="when the oldest item was published, by its own date")
    newest_at: Moment | None
    read_at: Moment
    full_polls: int = Field(
        description="number of polls at which every item was new: others may have come and gone before"
    )
    full_after: float | None = Field(
        description="in which time as many items come as it shows, at the believed rate; null: not limited, or unknown"
    )


class Explanation(BaseModel):
    """Why a site is polled as it is. Durations in seconds."""

    model_config = ConfigDict(from_attributes=True)

    site_id: int
    allocator: str
    objective: str
    rate_per_day: float | None
    rate_low_per_day: float | None
    rate_high_per_day: float | None
    elapsed: float | None
    change_probability: float | None
    urgency: float | None
    rank: int | None = Field(description="1: the most urgent of all; estimated above 16,384 sites")
    price: float | None
    budget_share: float | None
    expected_interval: float | None
    next_poll_at: Moment | None
    next_expected_poll_at: Moment | None
    believed_unchanged_until: Moment | None = Field(
        description="until then a change is believed less likely than min_yield, or the page's max-age or ttl holds, "
        "where that is respected; null: neither holds now"
    )
    told_ttl: float | None = Field(
        validation_alias="announced_ttl",
        description="for how long the page last said that it need not be asked again; null: it does not, or the site "
        "does not respect it",
    )
    why_not_now: str | None
    capped_to_uniform: bool
    failures: int
    notes: dict[str, str] = Field(
        description="what else the allocator has to say of the site: prior_source, profile, spell, drift"
    )
    host: str = Field(description="name:port")
    host_override: HostOverrideSchema | None = Field(description="what an operator last did to the host's pause")
    half_life_in_force: float = Field(
        description="for the objective interest, s: given, learned from reads, or the default; see `origins`"
    )
    origins: dict[str, str] = Field(
        description="where each setting comes from: site, `tag NAME`, or default, of half_life also reads; headers "
        "by name, as headers.Accept"
    )
    mask: tuple[str, ...] = Field(description="what of the page differs at every fetch and does not count, a line each")
    feed: FeedSchema | None = Field(description="what it shows, if it is a feed")
