"""A setting more in the table is found by every way in and out: here a field in a copy of the table."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from pydantic import BaseModel, ValidationError, create_model
from sqlalchemy import Double
from starlette.datastructures import FormData
from typer.testing import CliRunner

from pollerd.api import list_diff, lists
from pollerd.api.inputs import input_fields
from pollerd.api.list_formats import cell_of, list_fields, typed_value
from pollerd.api.sites import SiteSchema
from pollerd.api.tags import Tag
from pollerd.cli.setting_options import Settings, with_settings
from pollerd.errors import InvalidValueError
from pollerd.inheritance import effective
from pollerd.ranges import SECONDS, Range
from pollerd.scheduling.sites import SiteTable
from pollerd.site_settings import (
    INHERITED,
    NUMERIC_SETTINGS,
    SITE_SETTINGS,
    Kind,
    Setting,
    SiteSpec,
    TagSettings,
    differing,
    settings_of,
)
from pollerd.storage.schema import setting_columns
from pollerd.web.fetch_form import form_fields, text_of, value_in
from pollerd.web.http import PostedForm


class WithGrace(SiteSpec, frozen=True):
    """A copy of the table with one more field."""

    grace: Annotated[
        float | None,
        Setting(
            Kind.SECONDS, range=Range("", 1, 100, SECONDS, "seconds"), help="seconds", cli="How long.", form="Grace"
        ),
    ] = None


MORE = settings_of(WithGrace)
GRACE = MORE["grace"]
SPEC = WithGrace("http://h/", grace=90.0)


def test_lists_have_the_field_and_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "grace" in list_fields(MORE)
    assert (cell_of(GRACE, "1.5m"), typed_value(GRACE, "1.5m"), typed_value(GRACE, 90)) == (90.0, 90.0, 90.0)
    with pytest.raises(InvalidValueError, match="grace: must be a number"):
        typed_value(GRACE, True)
    monkeypatch.setattr(lists, "SITE_SETTINGS", MORE)
    assert lists.settings(SPEC)["grace"] == 90.0


def test_diffs_have_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    after = WithGrace("http://h/", grace=91.0)
    assert differing(SPEC, after) == ("grace",)
    monkeypatch.setattr(list_diff, "SITE_SETTINGS", MORE)
    found = list_diff.field_difference("grace", SPEC, after)
    assert (found.before, found.after) == (90.0, 91.0)


def test_rest_takes_it_in_its_range() -> None:
    model: type[BaseModel] = create_model("Model", **input_fields({"grace": GRACE}))
    assert model.model_validate({"grace": "1.5m"}).model_dump() == {"grace": 90.0}
    assert model.model_validate({"grace": None}).model_dump() == {"grace": None}
    with pytest.raises(ValidationError):
        model.model_validate({"grace": "soon"})
    described = str(model.model_json_schema())
    assert "'maximum': 100" in described
    assert "'description': 'seconds'" in described


def test_commands_have_an_option_for_it() -> None:
    app, given = typer.Typer(), list[Any]()

    @app.command()
    @with_settings(MORE, none="inherited.")
    def set_(site: str, *, settings: Settings) -> None:
        given.append((site, dict(settings)))

    for words in (["7", "--grace", "1.5m"], ["7", "--grace", "none"], ["7"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert given == [("7", {"grace": 90.0}), ("7", {"grace": None}), ("7", {})]
    assert CliRunner().invoke(app, ["7", "--grace", "soon"]).exit_code == 2
    assert "How long. none: inherited." in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output


def test_the_form_shows_and_reads_it() -> None:
    inherited = WithGrace("http://h/", grace=60.0)
    (field,) = (one for one in form_fields(MORE, WithGrace("http://h/"), inherited) if one["name"] == "grace")
    assert (field["label"], field["value"], field["inherited"]) == ("Grace", "", "1m")
    assert text_of(GRACE, 90.0) == "1.5m"
    assert value_in(PostedForm(FormData({"grace": "1.5m"})), GRACE) == 90.0
    assert value_in(PostedForm(FormData({"grace": ""})), GRACE) is None


def test_tags_carry_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pollerd.inheritance.INHERITED", {name: one for name, one in MORE.items() if one.inherits})
    tags = {"slow": TagSettings("slow", {"grace": 60.0})}
    found, origins = effective(WithGrace("http://h/", tags=("slow",)), tags)
    assert isinstance(found, WithGrace)
    assert (found.grace, origins["grace"]) == (60.0, "tag slow")


def test_the_database_has_a_column_for_it() -> None:
    (column,) = setting_columns({"grace": GRACE})
    assert (column.name, type(column.type), column.nullable) == ("grace", Double, True)


def test_answers_and_the_scheduler_have_every_setting_of_the_table() -> None:
    """Answers are written out, because their order is theirs: a new setting must be added there."""
    assert set(INHERITED) <= set(SiteSchema.model_fields)
    assert set(INHERITED) <= set(Tag.model_fields)
    table = SiteTable()
    table.add([7])
    assert all(hasattr(table, name) for name in NUMERIC_SETTINGS)


@pytest.mark.parametrize("kind", sorted({one.kind for one in SITE_SETTINGS.values()} - {Kind.ACCESS}))
def test_every_kind_has_a_column_but_those_of_tables_of_their_own(kind: Kind) -> None:
    if kind is Kind.TAGS:
        with pytest.raises(KeyError):
            setting_columns({"x": Setting(kind)})
    else:
        assert len(setting_columns({"x": Setting(kind)})) == 1
