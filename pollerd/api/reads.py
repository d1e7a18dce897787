"""Reads of changes.

Routes of reads.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pollerd.api.common import Given
from pollerd.api.http import MAX_ID, Daemon, SiteId, api_router, json_body
from pollerd.errors import InvalidValueError
from pollerd.planning import about
from pollerd.shown import Moment
from pollerd.storage.reads import ReadResult, ReportedRead, SiteInterest
from pollerd.texts import _, n_
from pollerd.timestamps import parse_moment
from pollerd.urls import normalise_url

# Reads of changes: input and output.

MAX_READS = 1_000
"""Most entries of one report."""
MAX_COUNT = 1_000_000
"""Most reads of one entry."""
_LONGEST_NAME = 100
_AT: dict[str, JsonValue] = {"format": "date-time"}
_Id = Annotated[int | None, Field(ge=1, le=MAX_ID)]


class ReadOfChange(Given):
    """Reads of a site's change at one time."""

    site_id: _Id = Field(None, description="the site's id; or `url`")
    url: str | None = Field(None, description="the site's URL, normalised as that of a site")
    at: str = Field(description="when it was read, RFC 3339", json_schema_extra=_AT)
    count: int = Field(1, ge=1, le=MAX_COUNT, description="how often")
    change_id: _Id = Field(None, description="which change; null: the newest that was published before")

    def read(self, place: int) -> ReportedRead:
        """Returns the checked entry. Raises `InvalidValueError` naming the place."""
        field = f"reads[{place}]"
        if (self.site_id is None) == (self.url is None):
            names = [name for name in ("site_id", "url") if getattr(self, name) is not None]
            raise InvalidValueError(f"{field}.site_id", _("given, or url: one of the two"), names)
        at = parse_moment(f"{field}.at", self.at)
        return ReportedRead(at, self.count, self.site_id, self._normalised(f"{field}.url"), self.change_id)

    def _normalised(self, field: str) -> str | None:
        if self.url is None:
            return None
        try:
            return normalise_url(self.url)
        except InvalidValueError as error:
            raise error.of(field, given=self.url) from error


class ReadsReport(Given):
    """How often changes were read, as reported by a program."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "report": "newsletter-2026-01-31",
                    "reads": [{"site_id": 7, "at": "2026-01-31T12:00:00Z", "count": 31, "change_id": 4711}],
                    "complete_until": "2026-01-31T12:30:00Z",
                },
                {"report": "click-93842", "reads": [{"url": "https://example.org/a", "at": "2026-01-31T12:00:00Z"}]},
            ]
        }
    )

    report: str = Field(
        min_length=1, max_length=_LONGEST_NAME, description="names it: a report of the same name is not taken twice"
    )
    reads: list[ReadOfChange] = Field(min_length=1, max_length=MAX_READS)
    complete_until: str | None = Field(
        None,
        description="with this report all reads of its sites until then are reported; null: unknown",
        json_schema_extra=_AT,
    )

    def entries(self) -> list[ReportedRead]:
        """Returns the checked entries. Raises `InvalidValueError` naming the place."""
        return [entry.read(place) for place, entry in enumerate(self.reads)]

    def until(self) -> float | None:
        """Returns `complete_until` in epoch s. Raises `InvalidValueError`."""
        return None if self.complete_until is None else parse_moment("complete_until", self.complete_until)


class ReadsTaken(BaseModel):
    """What became of a report, in reads."""

    reads: int = Field(description="of changes that are known")
    unknown_sites: int = Field(description="of what is no site")
    before_changes: int = Field(description="of sites of which no change was published before")
    other_changes: int = Field(
        description="they name a change that is none of the site, was not published yet, or that another had followed"
    )
    between_polls: int = Field(
        description="they name no change, and came between the last poll before a change and the one that found it"
    )
    repeated: bool = Field(description="a report of this name was taken before: nothing changed")

    @classmethod
    def of(cls, result: ReadResult) -> ReadsTaken:
        """Returns the result in the API's words."""
        return cls(
            reads=result.counts.taken,
            unknown_sites=result.unknown_sites,
            before_changes=result.counts.before_changes,
            other_changes=result.counts.other_changes,
            between_polls=result.counts.between_polls,
            repeated=result.repeated,
        )


class SiteReadsSchema(BaseModel):
    """What is known of the reads of a site's changes."""

    reads: int = Field(description="reported so far")
    changes: int = Field(description="changes that were read")
    last_read_at: Moment | None
    half_life: float | None = Field(description="of interest in a change, s, as of the last report; null: no reads")
    half_life_low: float | None = Field(description="below it with a chance of 5 %")
    half_life_high: float | None = Field(description="above it with a chance of 5 %")
    learned_half_life: float | None = Field(
        description="in force where the site and its tags give none; follows half_life when that moved by a tenth"
    )
    in_words: str

    @classmethod
    def of(cls, known: SiteInterest | None) -> SiteReadsSchema:
        """Returns it in the API's words."""
        value = None if known is None else known.half_life
        return cls(
            reads=0 if known is None else known.reads,
            changes=0 if known is None else known.changes,
            last_read_at=None if known is None else known.last_read_at,
            half_life=None if value is None else value.value,
            half_life_low=None if value is None else value.low,
            half_life_high=None if value is None else value.high,
            learned_half_life=None if known is None else known.in_force,
            in_words=reads_in_words(known),
        )


def reads_in_words(known: SiteInterest | None) -> str:
    """Returns what reads say of a site, as one line for users."""
    if known is None or known.half_life is None:
        return _("no reads were reported")
    life = known.half_life
    sure = _("90 % sure: {low} to {high}", low=about(life.low), high=about(life.high))
    of = _(
        "{reads} of {changes}",
        reads=n_("{count} read", "{count} reads", known.reads),
        changes=n_("{count} change", "{count} changes", known.changes),
    )
    return _("{of}: interest halves in {life} ({sure})", of=of, life=about(life.value), sure=sure)


router = api_router(tag="reads")


@router.post("/reads", dependencies=[Depends(json_body)], summary="Report reads of changes")
async def report_reads(daemon: Daemon, report: ReadsReport) -> ReadsTaken:
    """Half-lives of interest are learned from them, for the objective `interest`. A report may be repeated.

    Each read counts for the newest change that was published before it, or the one that it names. 422 for times in the
    future, or before the history. 429 with Retry-After where reports come too fast; nothing of such a report is taken.
    """
    return ReadsTaken.of(await daemon.control.reads.report(report.report, report.entries(), report.until()))


@router.get("/sites/{site_id:id}/reads", summary="What reads say of a site")
async def get_site_reads(daemon: Daemon, site_id: SiteId) -> SiteReadsSchema:
    """Its reads so far, and the half-life that was learned from them."""
    await daemon.store.sites.get(site_id)  # 404 for one that is none
    return SiteReadsSchema.of(await daemon.store.reads.of_site(site_id))


@router.delete(
    "/sites/{site_id:id}/reads",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
    summary="Forget the reads of a site",
)
async def delete_site_reads(daemon: Daemon, site_id: SiteId) -> None:
    """What was learned from them holds no longer. 404 where there are none."""
    await daemon.control.reads.forget(site_id)


ROUTERS = (router,)
