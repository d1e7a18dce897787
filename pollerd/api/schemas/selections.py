"""Selections of a site, their values, and previews of them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pollerd.api.schemas.common import Moment
from pollerd.api.schemas.inputs.settings import Render, Selections
from pollerd.api.schemas.inputs.site_access import AccessFields
from pollerd.model import Media, OutcomeKind, SelectionState, StoredReading
from pollerd.storage import RecordedReading

_TEXT = "a plain decimal number, a date as ISO 8601, or the text itself"


class CurrentValue(BaseModel):
    """A value as last read."""

    name: str
    text: str = Field(description=f"{_TEXT}; empty: it could never be read")
    number: float | None
    moment: Moment | None
    currency: str | None
    problem: str = Field(description="why it could not be read last; the rest is then from before")

    @classmethod
    def of(cls, name: str, value: StoredReading) -> CurrentValue:
        """Returns the value for an answer."""
        return cls(
            name=name,
            text=value.text,
            number=value.number,
            moment=value.moment,
            currency=value.currency,
            problem=value.problem,
        )


class SelectionStatus(BaseModel):
    """A selection as it stands."""

    name: str
    kind: Media | None = Field(description="of its content; null: nothing of it was found yet")
    missing: str = Field(description="why the last poll found nothing of it; empty: it did")
    values: list[CurrentValue]

    @classmethod
    def of(cls, state: SelectionState) -> SelectionStatus:
        """Returns the state for an answer."""
        values = [CurrentValue.of(name, value) for name, value in state.readings.items()]
        return cls(name=state.name, kind=state.baseline.media, missing=state.missing, values=values)


class ValueSchema(BaseModel):
    """A value from a moment on."""

    id: int
    selection: str
    name: str
    at: Moment
    text: str = Field(description=_TEXT)
    number: float | None
    moment: Moment | None
    currency: str | None
    problem: str = Field(description="why it could not be read then; the rest is from before")

    @classmethod
    def of(cls, one: RecordedReading) -> ValueSchema:
        """Returns the record for an answer."""
        value = one.value
        return cls(
            id=one.id,
            selection=one.selection,
            name=one.name,
            at=one.at,
            text=value.text,
            number=value.number,
            moment=value.moment,
            currency=value.currency,
            problem=value.problem,
        )


class PreviewRequest(AccessFields):
    """A page, or a site whose stored content is taken, and the selections to try."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url": "https://example.org/shop",
                    "selections": {"default": {"steps": [{"keep": {"css": "#price"}}]}},
                }
            ],
            "oneOf": [{"required": ["url"]}, {"required": ["site_id"]}],
        }
    )

    url: str | None = Field(None, description="the page to fetch")
    site_id: int | None = Field(None, ge=1, description="the site whose stored content, which is text, is taken")
    selections: Selections | None = Field(None, description="as of a site; left out: the whole page")
    render: Render | None = Field(None, description="as of a site; left out: as the site at this URL, if there is one")


class JudgementSchema(BaseModel):
    """What would be said of a difference."""

    counts: bool = Field(description="whether it is large enough to be a change")
    matters: bool = Field(description="whether it would be announced")
    why: str
    summary: str


class EarlierJudgementSchema(BaseModel):
    """What would have been said of a stored change."""

    model_config = ConfigDict(from_attributes=True)

    change_id: int
    detected_at: Moment
    counts: bool
    matters: bool
    why: str


class SelectionPreviewSchema(BaseModel):
    """What one selection keeps."""

    name: str
    kind: Media
    kept: str
    cut: bool = Field(description="whether more is kept than is shown")
    removed: list[str] = Field(description="lines of the page that are not kept")
    values: list[CurrentValue]
    missing: str = Field(description="why nothing is selected; empty: something is")
    warnings: list[str]
    now: JudgementSchema | None = Field(description="of the difference from the stored content; null: none, or equal")
    earlier: list[EarlierJudgementSchema]

    @classmethod
    def of(cls, found: Any) -> SelectionPreviewSchema:
        """Returns the preview of a selection for an answer."""
        now = found.now
        said = None
        if now is not None:
            verdict = now.verdict
            said = JudgementSchema(
                counts=now.counts,
                matters=now.counts and verdict.matters,
                why=verdict.why,
                summary=now.summary,
            )
        return cls(
            name=found.name,
            kind=found.media,
            kept=found.kept,
            cut=found.cut,
            removed=list(found.removed),
            values=[CurrentValue.of(name, value) for name, value in found.readings.items()],
            missing=found.missing,
            warnings=list(found.warnings),
            now=said,
            earlier=[EarlierJudgementSchema.model_validate(one) for one in found.earlier],
        )


class PreviewSchema(BaseModel):
    """What the selections keep of a page."""

    url: str
    outcome: OutcomeKind | None = Field(description="of the fetch; null: a stored content was taken")
    status: int | None
    detail: str
    retry_after: float | None = Field(description="seconds, where the page may not be fetched now")
    selections: list[SelectionPreviewSchema] = Field(description="none without a page")

    @classmethod
    def of(cls, found: Any) -> PreviewSchema:
        """Returns a preview for an answer."""
        outcome = found.outcome
        return cls(
            url=found.url,
            outcome=None if outcome is None else outcome.kind,
            status=None if outcome is None else outcome.status,
            detail="" if outcome is None else outcome.detail,
            retry_after=None if outcome is None else outcome.retry_after,
            selections=[SelectionPreviewSchema.of(one) for one in found.selections],
        )
