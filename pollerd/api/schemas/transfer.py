"""Results of importing a settings document, by section."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class SecretsMissing(BaseModel):
    """A site, a tag or a channel whose secrets the document names and does not hold."""

    url: str | None = Field(description="of the site; null: it is none")
    tag: str | None = Field(description="its name; null: it is none")
    channel: str | None = Field(None, description="its name; null: it is none")
    kinds: list[str] = Field(description="headers, credentials … of a site or tag; names of a channel's secrets")


class RestoredSection(BaseModel):
    """What became of one section of a document; with `dry_run` (`compared`) what would."""

    section: str
    status: Literal["applied", "compared", "refused", "not_tried"]
    added: int
    changed: int
    unchanged: int
    reason: str | None = Field(description="why it was refused: nothing of the section is in force")


class RestoreReport(BaseModel):
    """What became of a document. `secrets_missing` shows at most 10,000 sites; `secrets_missing_count` counts all."""

    dry_run: bool
    complete: bool = Field(description="false: a section was refused, and those behind it were not tried")
    sections: list[RestoredSection]
    secrets_missing: list[SecretsMissing]
    secrets_missing_count: int
