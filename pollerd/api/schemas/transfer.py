"""Results of importing a settings document, by section."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field


class SecretKind(StrEnum):
    """What of a site is secret."""

    HEADERS = "headers"
    CREDENTIALS = "credentials"
    PROXY = "proxy"
    BODY = "body"
    TYPED = "typed"
    PDF_PASSWORD = "pdf_password"


class SecretsMissing(BaseModel):
    """A site, or a tag, whose secrets the document names and does not hold."""

    url: str | None = Field(description="of the site; null: a tag's")
    tag: str | None = Field(description="null: a site's")
    kinds: list[SecretKind]


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
