"""Hosts: state and changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.http.timestamps import parse_moment
from pollerd.api.schemas.common import Given, Moment
from pollerd.errors import InvalidValueError


class HostOverrideSchema(BaseModel):
    """What an operator last did to a host's pause."""

    model_config = ConfigDict(from_attributes=True)

    at: Moment
    by: str = Field(description="what it took to be let in: the scope of the token")
    paused: bool = Field(description="true: paused by hand; false: a pause was ended")
    until: Moment | None = Field(description="of a pause by hand; null: until somebody ends it")


class HostRobots(BaseModel):
    """What is known of a host's robots.txt."""

    model_config = ConfigDict(from_attributes=True)

    state: Literal["unknown", "found", "absent", "unreachable"] = Field(
        description="unknown: never asked for; found: its rules hold; absent: all is allowed; unreachable: nothing is "
        "asked of the host until it could be read"
    )
    fetched_at: Moment | None
    retry_at: Moment | None = Field(description="not asked for again before")
    failures: int = Field(description="in a row")
    detail: str


class Host(BaseModel):
    """What is known of a host. Durations in seconds."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(description="name:port")
    sites: int
    spacing: float = Field(description="between two requests")
    crawl_delay: float | None = Field(description="what its robots.txt asks for")
    robots: HostRobots
    paused: bool
    paused_until: Moment | None = Field(description="null with `paused`: until somebody ends it")
    paused_by: Literal["host", "operator"] | None
    pause_reason: str | None
    refusals: int = Field(description="answers of status 429 or 503 in a row")
    last_request_at: Moment | None = Field(description="null: never, or not known since a restart")
    next_request_at: Moment | None = Field(description="the earliest moment; null: none is to come")
    busy: bool = Field(description="a request is under way")
    override: HostOverrideSchema | None = Field(description="what an operator last did to its pause")


class HostPatch(Given):
    """`paused` true: until `paused_until`, null or left out: until somebody ends it. `paused` false, or `paused_until`
    null alone: all pauses end, also one that the host asked for.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"paused": False}, {"paused": True}, {"paused_until": "2126-01-31T12:00:00Z"}],
            "minProperties": 1,
        }
    )

    paused: bool = False
    paused_until: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None

    def pause(self) -> tuple[bool, float | None]:
        """Returns whether to pause the host, and until when (epoch s), None: no limit. Raises `InvalidValueError`."""
        if not self.model_fields_set:
            raise InvalidValueError("paused", "given, or paused_until", None)
        until = None if self.paused_until is None else parse_moment("paused_until", self.paused_until)
        if "paused" not in self.model_fields_set:
            return until is not None, until
        if until is not None and not self.paused:
            raise InvalidValueError("paused_until", "null or left out where paused is false", self.paused_until)
        return self.paused, until
