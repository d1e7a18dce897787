"""The explanation of a site's polling."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.schemas.common import Moment
from pollerd.api.schemas.hosts import HostOverrideSchema


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
    origins: dict[str, str] = Field(
        description="where each setting comes from: site, `tag NAME`, or default; headers by name, as headers.Accept"
    )
    mask: tuple[str, ...] = Field(description="what of the page differs at every fetch and does not count, a line each")
