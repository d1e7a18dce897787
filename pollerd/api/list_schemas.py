"""Lists of sites: results of an import and of a comparison."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from pollerd.api.common import Given

# Named, so that generated clients have pleasant names for them.
ListedTag = TypeAliasType("ListedTag", dict[str, Any])
ListedSource = TypeAliasType("ListedSource", dict[str, Any])


class Rejection(BaseModel):
    """A line that names no site that can be polled."""

    line: int
    reason: str


class ImportResult(BaseModel):
    """What became of a list.

    lines_read: number of the last line that was read and said something. stopped: why what follows was not read; null:
    all was. dry_run: nothing was added; the numbers say what would have been.
    """

    added: int
    existing: int
    rejected: list[Rejection]
    rejected_count: int
    lines_read: int
    stopped: str | None
    dry_run: bool


class FieldDifference(BaseModel):
    """One setting as it is and as the list has it. Of headers it shows the names, of a proxy its host."""

    field: str
    before: Any = Field(description="as it is; null: not set")
    after: Any = Field(description="as the list has it; null: not set")
    note: str | None = Field(description="a secret that differs, though both show the same")


class SiteDifference(BaseModel):
    """A site whose settings a list would change."""

    id: int
    url: str
    fields: list[FieldDifference]


class NamedDifference(BaseModel):
    """A tag, source, channel or rule whose settings a list would change. A source is named by its URL."""

    name: str
    fields: list[FieldDifference]


class SettingsDifference(BaseModel):
    """What a list would do with tags, sources, channels or rules."""

    added: list[str]
    changed: list[NamedDifference]
    removed: list[str]


class TagsOfList(Given):
    """The settings of tags as a list has them, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tags": {"news": {"weight": 2.0}}}]})

    tags: dict[str, ListedTag] = Field(description="as PUT /tags/{name} takes them", max_length=10_000)


class SourcesOfList(Given):
    """The sources of a list."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sources": [{"url": "https://example.org/map.xml"}]}]})

    sources: list[ListedSource] = Field(description="as POST /sources takes them", max_length=10_000)


class ChannelsOfList(Given):
    """The channels of a list."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "channels": [
                        {
                            "name": "mail",
                            "kind": "email",
                            "host": "mail.example.org",
                            "sender": "us@example.org",
                            "recipients": ["me@example.org"],
                        }
                    ]
                }
            ]
        }
    )

    channels: list[Annotated[dict[str, Any], Field(title="ListedChannel")]] = Field(
        description="name, kind, settings and secrets in one object each", max_length=1_000
    )


class RulesOfList(Given):
    """The rules of a list."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rules": [{"name": "all", "channels": ["mail"]}]}]})

    rules: list[Annotated[dict[str, Any], Field(title="ListedRule")]] = Field(
        description="as POST /rules takes them", max_length=1_000
    )


class ListDifference(BaseModel):
    """What a list would do. Each of the lists shows at most 100,000; the counts count all."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    added: list[str] = Field(default=[], description="URLs")
    added_count: int = 0
    existing: int = Field(default=0, description="sites of the list that are there already")
    changed: list[SiteDifference] = []
    changed_count: int = 0
    removed: list[str] = Field(default=[], description="URLs")
    removed_count: int = 0
    left_out_as_deleted: list[str] = Field(default=[], description="URLs that a user deleted: sync brings them back")
    left_out_as_deleted_count: int = 0
    rejected: list[Rejection] = []
    rejected_count: int = 0
