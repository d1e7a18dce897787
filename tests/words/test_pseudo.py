"""Nothing that people read is left out of the catalogue: all of it is in a language that only the catalogue has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from pollerd.api.application import create_api
from pollerd.api.openapi import TEXTS_OF_DOCUMENT, translated
from pollerd.api.settings import ApiSettings
from pollerd.cli.commands import COMMANDS, app
from pollerd.detection.selection.selection import compile_selection
from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError, TooManyError, unknown_name
from pollerd.events import EventKind
from pollerd.lab.experiments.catalogue import experiments
from pollerd.moving.patterns import lacking
from pollerd.notifications.messages import describe
from pollerd.planning import about, apart, exactly, in_percent
from pollerd.quantities import in_bytes, per_second, seconds, share
from pollerd.ranges import BUDGET, LIVE_LOOP, RENDER_PLAN
from pollerd.storage.store import Store
from pollerd.texts import N_, TextLanguage, speaking
from pollerd.urls import normalise_url
from pollerd.web.alerts import event_words, rule_words
from pollerd.web.counts_words import selections_in_words
from pollerd.web.words import how_often, percent, plain
from tests.cli.test_usage import every_command, names_of
from tests.detection.selection.conditions.doubles import ReadValue, judged
from tests.support.pseudo import PseudoLanguage, untranslated
from tests.support.sample_events import change_event, other_event
from tests.web.test_counts_form import CONDITIONS


@pytest.fixture(autouse=True)
def _pseudo() -> Iterator[None]:
    with speaking(PseudoLanguage()):
        yield


def help_of(command: Any, path: str) -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for option in command.params:
        yield f"{path} {option.opts[-1]}", getattr(option, "help", None) or ""
    context = command.context_class(command)
    for name in getattr(command, "commands", ()):
        yield from help_of(command.resolve_command(context, [name])[1], f"{path} {name}")


def test_help_of_every_command() -> None:
    examples = ('{"Accept-Language": "en"}', '{"username": "u", "password": "p"}', '{"token": "t"}')
    texts = [
        (place, text)
        for place, text in help_of(typer.main.get_command(app), "pollerd")
        if not place.endswith("-completion")  # made by Typer, and translated when help is shown
    ]
    assert len(texts) > 400
    assert [(place, words) for place, text in texts if (words := untranslated(text, examples))] == []


def test_help_as_it_is_shown() -> None:
    foreign = {}
    for path, command in every_command():
        shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "500"}).output
        assert "⟦" in shown
        rest = re.sub(r"⟦[^⟧]*⟧|--[a-z-]+", " ", shown)
        names = [*path.split(), *getattr(command, "commands", ()), *names_of(command)]
        if words := untranslated(rest, names):
            foreign[path] = words
    assert foreign == {}


@pytest.mark.parametrize(
    "line", ["", "run no/such", "sites edt", "sites edit 1 --wieght 2", "jobs undo", "rules add --file /"]
)
def test_errors_as_they_are_shown(line: str) -> None:
    shown = CliRunner().invoke(app, line.split(), env={"COLUMNS": "500"})
    assert shown.exit_code == 2
    assert "⟦" in shown.output
    names = ("ID no such pollerd run sites edt edit undo jobs rules add NAME " + " ".join(COMMANDS)).split()
    assert untranslated(re.sub(r"⟦[^⟧]*⟧|--[a-z-]+", " ", shown.output), names) == []


def test_experiments_are_listed_by_the_titles_of_their_reports() -> None:
    """Those quote papers, and are in English in every language."""
    _header, *rows = CliRunner().invoke(app, ["reproduce", "--list"]).output.splitlines()
    assert rows == ["\t".join((each.name, each.title, each.source)) for each in experiments().values()]
    assert "⟦" not in "".join(rows)


def descriptions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name in TEXTS_OF_DOCUMENT and isinstance(value, str):
                yield value
            elif name not in ("example", "examples"):
                yield from descriptions(value)
    elif isinstance(node, list):
        for item in node:
            yield from descriptions(item)


def test_descriptions_of_the_api() -> None:
    api = create_api(Mock(), Mock(spec=Store), CollectorRegistry(), ApiSettings(), "0")
    texts = list(descriptions(translated(api.openapi())))
    assert len(texts) > 700
    assert [text for text in texts if text.strip() and not (text.startswith("⟦") and text.endswith("⟧"))] == []
    assert [text for text in descriptions(api.openapi()) if "⟦" in text] == []


@pytest.mark.parametrize("kind", EventKind)
@pytest.mark.parametrize(
    "data", [{}, {"over": True, "channel": "7", "failures": 3, "since": 5.0, "from": 1.0, "to": 2}]
)
def test_messages_of_every_kind(kind: EventKind, data: dict[str, Any]) -> None:
    event = other_event(kind, **data)
    described = describe(event)
    names = (event.site.title, event.site.url) if event.site is not None else ()
    words = [described.title, described.summary, *(name for name, _value in described.facts)]
    assert [untranslated(text, names) for text in words] == [[]] * len(words)


def test_a_message_of_a_change_names_its_facts() -> None:
    described = describe(change_event())
    assert [untranslated(name) for name, _value in described.facts if name != "price"] == [[]] * 3


@pytest.mark.parametrize(
    "write",
    [
        lambda: seconds("often"),
        lambda: per_second("x"),
        lambda: share("x"),
        lambda: in_bytes("1.5"),
        lambda: BUDGET.check(0),
        lambda: next(iter(LIVE_LOOP.values())).check(-1),
        lambda: next(iter(RENDER_PLAN.values())).check(-1),
        lambda: normalise_url("7"),
        lambda: normalise_url("7://8"),
        lambda: normalise_url("http://8:9:0/"),
    ],
)
def test_errors(write: Callable[[], object]) -> None:
    with pytest.raises(ValueError) as refused:
        write()
    error = refused.value
    text = error.allowed if isinstance(error, InvalidValueError) else str(error)
    assert "⟦" in text
    assert untranslated(text, ("min", "KiB", "MiB", "GiB", "example.org", "http", "https", "did")) == []


@pytest.mark.parametrize(
    "step",
    [
        {"keep": {"css": "p:frist-child"}},
        {"keep": {"css": "p[["}},
        {"keep": {"css": "//p"}},
        {"keep": {"xpath": "//p["}},
        {"keep": {"xpath": "//p[lower-case(.)]"}},
        {"keep": {"jsonpath": "$.[["}},
        {"replace": {"re": "(?=7)", "with": ""}},
        {"replace": {"re": "(7", "with": ""}},
        {"seven": 7},
        7,
    ],
)
def test_errors_of_selections(step: object) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_selection("7", "7", {"steps": [step]})
    assert "⟦" in refused.value.allowed


def test_errors_of_the_tree() -> None:
    errors = [
        NotFoundError(N_("site"), 7),
        DuplicateError(N_("site"), 7, 8),
        TooManyError(N_("reads"), 9.0),
        unknown_name("7", N_("setting"), "8", ["9"]),
    ]
    assert [untranslated(str(error), ("None",)) for error in errors] == [[]] * 4
    assert untranslated(lacking("(?<=7)8") or "missing") == []


def test_numbers_and_spans() -> None:
    texts = [
        *(exactly(value) for value in (1, 1.5, 60, 120, 3_600, 86_400)),
        *(apart(value) for value in (1, 60, 3_600, 86_400, 90, 0.5)),
        *(about(value) for value in (0.4, 45, 1_300, 11_400, 190_000, 2_000_000)),
        *(in_percent(value) for value in (0.001, 0.5, 0.999)),
        *(percent(value) for value in (0.000001, 0.5, 0.999)),
        *(how_often(value) for value in (0.0001, 1.0, 6.0, 1e6)),
    ]
    assert [(text, words) for text in texts if (words := untranslated(text))] == []
    assert all("⟦" in text for text in texts)


RULE = {
    "channels": ["7", "8"],
    "events": ["site.changed", "site.failing", "daemon.blind"],
    "sites": {"ids": [1, 3], "tags": ["7", "8"], "hosts": ["9"], "media": ["html", "feed"], "selections": ["7"]},
    "matters": False,
    "words": {"summary": [{"re": "7"}], "added": [{"text": "8"}], "removed": ["9"]},
    "failing": {"after_polls": 5, "after": 5400.0},
    "digest": {"every": "day", "at": "07:30", "days": ["mon", "fri"], "zone": "7"},
    "quiet": {"zone": "7", "hours": [{"from": "22:00", "to": "07:00"}, {"from": "12:00", "to": "13:00"}]},
}


@pytest.mark.parametrize("digest", [RULE["digest"], {"every": "hour"}, {"every": "day", "at": "7"}, None])
@pytest.mark.parametrize("more", [{}, {"events": list(event_words())}, {"events": None, "sites": {}, "words": {}}])
def test_a_rule_is_whole_sentences(digest: object, more: dict[str, Any]) -> None:
    said = plain(rule_words(RULE | {"digest": digest} | more))
    assert said.startswith("⟦")
    assert untranslated(said) == []
    assert said.endswith("⟧")


def test_a_language_orders_a_rule_as_it_likes() -> None:
    class German(TextLanguage):
        def gettext(self, message: str) -> str:
            return {
                "When {condition}, alert {channels} at once.": "{channels} sofort melden, wenn {condition}.",
                "a site changes": "sich eine Seite ändert",
                "{first} and {last}": "{first} und {last}",
            }.get(message, message)

    with speaking(German()):
        assert plain(rule_words({"channels": ["a", "b"]})) == "a und b sofort melden, wenn sich eine Seite ändert."


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_whole_clauses(condition: Any) -> None:
    typed = ("in stock", "sold", "price", "EUR", "Gone")
    ((_name, paragraphs),) = selections_in_words(json.dumps({"default": {"conditions": condition}}))
    lines = [text for heading, lines in paragraphs for text in (heading, *lines)]
    assert [text for text in lines if untranslated(text, typed) or not text.startswith("⟦")] == []


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("before", "after"), [("7", "7"), ("7", "in stock x v1 X\n7"), ("in stock x v1 X\n7\n8", "7")])
def test_reasons_of_conditions_are_whole_clauses(condition: Any, before: str, after: str) -> None:
    typed = ("in stock", "sold", "price", "EUR", "v[0-9]+", "x|y", "^x")
    for price, last in ((5, 9), (9, 5), (5, 5), ("x EUR", "y")):
        given = [ReadValue(None if isinstance(value, str) else Decimal(value), str(value)) for value in (price, last)]
        values = {name: {"price": value} for name, value in zip(("values", "last_values"), given, strict=True)}
        why = judged(condition, before, after, **values, announced=before).why
        assert why.startswith("⟦")
        assert untranslated(why, typed) == []
