"""Selections of a site: each compiled from its settings, applied to a body, with the values read from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import xxhash
from msgspec import Struct

from pollerd.detection import feed
from pollerd.detection.feed import feed_ttl
from pollerd.detection.media import classify, parsed, to_utf8
from pollerd.detection.normalise import normalise
from pollerd.detection.pdf import is_pdf, pdf_text
from pollerd.detection.selection.conditions.condition import Condition, parse_conditions
from pollerd.detection.selection.conditions.logic import Least, parse_least
from pollerd.detection.selection.document import flag, known_table, text
from pollerd.detection.selection.expressions.css import CssSelector
from pollerd.detection.selection.expressions.jsonpath import JsonPath
from pollerd.detection.selection.expressions.pattern import Pattern, compile_pattern, compile_replacement
from pollerd.detection.selection.expressions.xpath import XPathExpression
from pollerd.detection.selection.steps.documents import (
    FeedItems,
    XmlDocument,
    kept_of_json,
    read_feed,
    texts_in_json,
    without_json,
)
from pollerd.detection.selection.steps.page import HtmlPage, compile_expression, kind_of
from pollerd.detection.selection.steps.plan import SelectionPlan, compile_plan
from pollerd.detection.selection.values.definition import compile_value_format
from pollerd.detection.selection.values.form import Reading, ValueFormat
from pollerd.detection.selection.values.read import read_value
from pollerd.errors import InvalidValueError, refusal
from pollerd.model import DEFAULT_SELECTION, FIRST_READER, READER, Media
from pollerd.texts import N_, _, n_

# Sources of values: an element, an attribute, a JSON field, or text of the selected content.

VALUES_MAX = 50
_NAME_MAX = 64
_KEYS = ("css", "xpath", "jsonpath", "re", "attribute", "with")


@dataclass(frozen=True, slots=True)
class ValueSource:
    """One value of a selection: where it stands and how it is written.

    Without expression and pattern it is read from the selected text.
    """

    name: str
    form: ValueFormat
    expression: CssSelector | XPathExpression | JsonPath | None = None
    attribute: str | None = None
    pattern: Pattern | None = None
    replacement: Any = None

    @property
    def machine(self) -> bool:
        """Whether it is written for programs, with "." as its decimal sign."""
        return isinstance(self.expression, JsonPath) or self.attribute == "content"


def compile_values(field: str, value: object) -> tuple[ValueSource, ...]:
    """Compiles `{"price": {"kind": "price", "from": {"css": ..., "attribute": ...}, ...}}`. Raises InvalidValueError.

    `from` is `{"css" or "xpath": ..., "attribute": ...}`, `{"jsonpath": ...}` (of an HTML page: of its JSON-LD),
    `{"re": ..., "with": ...}` (of the selected text), or left out: the selected text.
    """
    if not isinstance(value, Mapping) or len(value) > VALUES_MAX:
        raise InvalidValueError(
            field, _("a table of at most {values_max} values by name", values_max=VALUES_MAX), type(value).__name__
        )
    return tuple(_value(f"{field}.{name}", name, definition) for name, definition in value.items())


def _value(field: str, name: object, raw: object) -> ValueSource:
    text(field, name, _NAME_MAX)
    if not isinstance(raw, Mapping):
        raise InvalidValueError(field, _("a table with kind and from"), type(raw).__name__)
    form = compile_value_format(field, {key: value for key, value in raw.items() if key != "from"})
    if raw.get("from") is None:
        return ValueSource(str(name), form)
    at = f"{field}.from"
    fields = known_table(at, raw["from"], _KEYS)
    if "re" in fields:
        known_table(at, fields, ("re", "with"))
        pattern = compile_pattern(at, {"re": fields["re"]})
        replacement = compile_replacement(f"{at}.with", str(fields.get("with", r"\g<0>")), pattern)
        return ValueSource(str(name), form, pattern=pattern, replacement=replacement)
    attribute = fields.get("attribute")
    place = {key: value for key, value in fields.items() if key != "attribute"}
    expression = compile_expression(at, place, ("css", "xpath", "jsonpath"))
    if attribute is not None and kind_of(expression) == "jsonpath":
        raise refusal(f"{at}.attribute", _("a JSONPath has no attribute"))
    return ValueSource(
        str(name), form, expression, None if attribute is None else text(f"{at}.attribute", attribute, 100)
    )


_KNOWN = ("steps", "values", "least", "conditions", "inherit")
_JSON_LD = "application/ld+json"


class Selected(Struct, frozen=True):
    """What a selection keeps of one body."""

    media: Media
    content: bytes
    """UTF-8 text, one item per line; the bytes of the body where it is read as bytes."""
    entries: tuple[feed.FeedEntry, ...] = ()
    """Items of a feed that count, in order."""
    ttl: float | None = None
    readings: Mapping[str, Reading] = {}
    missing: str = ""
    """Why nothing was selected, one line; empty: something was, or nothing is a state that the selection knows."""
    language: str | None = None
    """The language that an HTML page states."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled selection. `version` changes with every change of its settings."""

    name: str
    version: bytes
    plan: SelectionPlan
    values: tuple[ValueSource, ...]
    least: Least | None
    conditions: Condition | None
    cheap: bool
    """Whether a body of a few KiB is read in about a millisecond: only simple CSS selectors."""

    def read(
        self,
        body: bytes,
        content_type: str | None,
        url: str,
        pdf_password: str | None = None,
        reader: int = READER,
    ) -> Selected:
        """Returns what it keeps of a body. `url`: of the page, for absolute links.

        Raises SelectionLimitError where that would take too long.
        """
        selected = _Reader(self.plan, self.values, body, content_type, url, pdf_password, reader).selected()
        content = selected.content
        if self.plan.text_steps and selected.media is not Media.BINARY:
            text = content.decode("utf-8", "replace")
            for step in self.plan.text_steps:
                text = step(text)
            content = text.encode("utf-8", "replace")
        missing = selected.missing
        if not content and not missing and body and not self.plan.optional and (self.plan.keeps or self.plan.narrowing):
            missing = _("nothing is left of the page")
        texts = content.decode("utf-8", "replace") if any(value.expression is None for value in self.values) else ""
        of_text = {v.name: _of_text(v, texts, selected.language, reader) for v in self.values if v.expression is None}
        readings = {**selected.readings, **of_text}
        return Selected(selected.media, content, selected.entries, selected.ttl, readings, missing)

    @property
    def narrows(self) -> bool:
        """Whether it keeps a part of the page by design, which may be little, or nothing for a while."""
        return bool(self.plan.keeps) or self.plan.narrowing or self.plan.feed_items is not None


def compile_selection(name: str, field: str, raw: object) -> Selection:
    """Compiles `{"steps": [...], "values": {...}, "least": {...}, "conditions": {...}, "inherit": true}`.

    `inherit`: whether what tags remove and drop goes in front (see `pollerd.inheritance`).

    `field` is its position in the settings. Raises InvalidValueError with field, position and reason.
    """
    fields = known_table(field, raw, _KNOWN)
    flag(f"{field}.inherit", fields.get("inherit", True))
    plan = compile_plan(f"{field}.steps", fields.get("steps", []))
    values = compile_values(f"{field}.values", fields.get("values", {}))
    conditions = parse_conditions(
        f"{field}.conditions",
        fields.get("conditions"),
        values=[value.name for value in values],
        compile_pattern=compile_pattern,
    )
    least = parse_least(f"{field}.least", fields["least"]) if fields.get("least") is not None else None
    return Selection(name, version_of(name, fields), plan, values, least, conditions, _is_cheap(plan, values))


def version_of(name: str, fields: Mapping[str, object]) -> bytes:
    """Returns the 8-byte version of what a selection keeps; its conditions do not belong to it."""
    kept = {key: fields[key] for key in ("steps", "values") if fields.get(key)}
    return xxhash.xxh3_64_digest(orjson.dumps([name, kept], option=orjson.OPT_SORT_KEYS))


def _is_cheap(plan: SelectionPlan, values: Sequence[ValueSource]) -> bool:
    expressions = [*plan.removals, *(expression for keep in plan.keeps for expression in keep.expressions)]
    expressions += [value.expression for value in values if value.expression is not None]
    simple = all(isinstance(expression, CssSelector) and expression.cheap for expression in expressions)
    searching = plan.searching or any(value.pattern is not None for value in values)
    return simple and not searching and plan.read_as in ("auto", "html", "text", "source", "bytes", "json")


def _of_text(value: ValueSource, text: str, language: str | None, reader: int) -> Reading:
    if value.pattern is None:
        texts = text.split("\n") if text else []
    else:
        texts = [value.replacement.expand(match) for match in value.pattern.finditer(text)]
    return read_value(texts, value.form, language=language, reader=reader)


class _Reader:
    """Reads one body by a plan."""

    def __init__(
        self,
        plan: SelectionPlan,
        values: Sequence[ValueSource],
        body: bytes,
        content_type: str | None,
        url: str,
        pdf_password: str | None,
        reader: int,
    ) -> None:
        self._reader = reader
        self._plan, self._values = plan, [value for value in values if value.expression is not None]
        self._body, self._type, self._url, self._pdf_password = body, content_type, url, pdf_password

    def selected(self) -> Selected:
        plan, body = self._plan, self._body
        match plan.read_as:
            case "bytes":
                return Selected(Media.BINARY, body)
            case "pdf":
                return self._pdf()
            case "auto" if is_pdf(body, self._type):
                return self._pdf()
            case "source" | "text":
                return Selected(Media.TEXT, _lines(to_utf8(body, self._type, self._reader)))
            case "html":
                return self._html(to_utf8(body, self._type, self._reader))
            case "json":
                return self._json(to_utf8(body, self._type, self._reader))
            case "xml":
                return self._xml(to_utf8(body, self._type, self._reader))
            case "feed":
                return self._feed(to_utf8(body, self._type, self._reader), plan.feed_items or FeedItems())
            case _:
                return self._by_media()

    def _by_media(self) -> Selected:
        candidates, text = classify(self._body, self._type, self._reader)
        if self._plan.feed_items is not None:
            return self._feed(text, self._plan.feed_items)
        for media in candidates:
            if media is Media.FEED and not (self._plan.keeps or self._plan.removals):
                selected = self._feed(text, FeedItems())
                if not selected.missing:
                    return selected
            elif media is Media.HTML:
                return self._html(text)
            elif media is Media.JSON:
                selected = self._json(text)
                if not selected.missing or self._plan.keeps:
                    return selected
        if self._plan.keeps or self._plan.removals:
            if text.lstrip()[:1] == b"<" and self._by_xpath():
                return self._xml(text)
            return self._unfit(candidates[0] if candidates[0] is Media.FEED else candidates[-1])
        plain = normalise(self._body, self._type, self._reader)
        return Selected(plain.media, plain.content, plain.entries, plain.ttl)

    def _by_xpath(self) -> bool:
        expressions = [
            *self._plan.removals,
            *(expression for keep in self._plan.keeps for expression in keep.expressions),
        ]
        return not any(isinstance(expression, CssSelector | JsonPath) for expression in expressions)

    @property
    def _by_jsonpath(self) -> bool:
        """Whether parts are named by JSONPath; then all of them are."""
        return any(isinstance(path, JsonPath) for path in self._plan.removals) or any(
            "jsonpath" in keep.kinds for keep in self._plan.keeps
        )

    def _unfit(self, media: Media) -> Selected:
        field = self._plan.keeps[0].field if self._plan.keeps else "steps"
        advice = f"; {_(_IN_FEEDS)}" if media is Media.FEED else ""
        return _nothing(
            _("{field} does not fit the page, which is {media}{advice}", field=field, media=media.value, advice=advice)
        )

    def _html(self, text: bytes) -> Selected:
        plan = self._plan
        if self._by_jsonpath:
            return self._unfit(Media.HTML)
        page = HtmlPage(text, self._reader)
        readings, language = self._html_values(page), None if self._reader == FIRST_READER else page.language
        page.remove(plan.removals)
        if plan.links != "no":
            page.show_links(self._url if plan.links == "absolute" else None)
        if plan.cells == "tab":
            page.mark_cells()
        content, missing = page.kept(plan.keeps) if plan.keeps else (page.whole(), "")
        return Selected(Media.HTML, content, readings=readings, language=language, missing=_unmatched(missing))

    def _html_values(self, page: HtmlPage) -> dict[str, Reading]:
        readings = {}
        for value in self._values:
            if isinstance(value.expression, JsonPath):
                scripts = page.scripts(_JSON_LD)
                texts = [text for script in scripts for text in self._in_json(script, value, value.expression)]
            else:
                assert value.expression is not None
                texts = page.texts_at(value.expression, value.attribute)
            readings[value.name] = read_value(
                texts, value.form, language=page.language, machine=value.machine, reader=self._reader
            )
        return readings

    def _in_json(self, document: bytes, value: ValueSource, path: JsonPath) -> list[str]:
        """Returns the texts of a value in JSON, of a price with its currency."""
        with_currency = value.form.kind == "price" and self._reader != FIRST_READER
        return texts_in_json(document, path, with_currency=with_currency)

    def _json(self, text: bytes) -> Selected:
        if (self._plan.keeps or self._plan.removals) and not self._by_jsonpath:
            return self._unfit(Media.JSON)
        plain = normalise(text, "application/json", self._reader)
        lines = self._reader != FIRST_READER and parsed(text) is not None
        if plain.media is not Media.JSON and not lines:
            return _nothing(_("the page is no JSON"))
        readings = {
            value.name: read_value(self._in_json(text, value, value.expression), value.form, machine=True)
            for value in self._values
            if isinstance(value.expression, JsonPath)
        }
        readings |= self._unread(_("JSON has no elements"), readings)
        if self._plan.removals:
            text = without_json(text, self._plan.removals)
            plain = normalise(text, "application/json", self._reader)
        if not self._plan.keeps:
            return Selected(plain.media, plain.content, readings=readings)
        content, missing = kept_of_json(text, self._plan.keeps)
        return Selected(Media.JSON, content, readings=readings, missing=_unmatched(missing))

    def _xml(self, text: bytes) -> Selected:
        try:
            document = XmlDocument(text, by_local_names=self._reader != FIRST_READER)
        except ValueError as error:
            return _nothing(_("the page is no XML: {error}", error=error))
        readings = self._xml_values(document)
        document.remove(self._plan.removals)
        content, missing = document.kept(self._plan.keeps) if self._plan.keeps else (document.whole(), "")
        return Selected(Media.TEXT, content, readings=readings, missing=_unmatched(missing))

    def _xml_values(self, document: XmlDocument) -> dict[str, Reading]:
        readings = {
            value.name: read_value(
                document.texts_at(value.expression, value.attribute), value.form, reader=self._reader
            )
            for value in self._values
            if isinstance(value.expression, XPathExpression)
        }
        return readings | self._unread(_("XML is read by xpath"), readings)

    def _feed(self, text: bytes, items: FeedItems) -> Selected:
        document = read_feed(text, self._reader)
        if document is None:
            return _nothing(_("the page is no feed"))
        kept, about = items.kept(document.entries), document.about if self._plan.feed_items is None else ("", "")
        content = items.lines(kept) if items.fields else feed.content(kept, about, self._reader)
        return Selected(Media.FEED, content, kept, feed_ttl(text), self._feed_values(text))

    def _feed_values(self, text: bytes) -> dict[str, Reading]:
        if any(isinstance(value.expression, XPathExpression) for value in self._values):
            with suppress(ValueError):
                return self._xml_values(XmlDocument(text))
        return self._unread(_(_IN_FEEDS), {})

    def _pdf(self) -> Selected:
        if self._plan.keeps or self._plan.removals:
            return _nothing(_("the page is a PDF document, which has no elements"))
        try:
            text = pdf_text(self._body, self._pdf_password)
            return Selected(Media.TEXT, text, readings=self._unread(_("a PDF has no elements"), {}))
        except ValueError as error:
            return _nothing(str(error))

    def _unread(self, why: str, known: Mapping[str, Reading]) -> dict[str, Reading]:
        return {value.name: Reading(problem=why) for value in self._values if value.name not in known}


_IN_FEEDS = N_('in a feed, CSS selects nothing: use the step items, or xpath as in "//item/title" or "//entry/title"')


def _nothing(why: str) -> Selected:
    return Selected(Media.TEXT, b"", missing=why)


def _unmatched(field: str) -> str:
    return _("{field} matches nothing", field=field) if field else ""


def _lines(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


# The named selections of one site.

SELECTIONS_MAX = 20
BYTES_MAX = 64 * 1024
"""Longest settings of one site, as JSON."""
_NAME = re.compile(r"[^\s\x00-\x1f\x7f;,][^\x00-\x1f\x7f;,]{0,63}")
_COMPILED = 1024


@dataclass(frozen=True, slots=True)
class Selections:
    """The selections of one site, `default` first."""

    all: tuple[Selection, ...]

    @property
    def cheap(self) -> bool:
        """Whether small bodies may be read in the event loop."""
        return all(selection.cheap for selection in self.all)

    def __getitem__(self, name: str) -> Selection:
        """Returns the selection of this name. Raises KeyError."""
        for selection in self.all:
            if selection.name == name:
                return selection
        raise KeyError(name)


def canonical(value: object) -> str:
    """Returns checked settings `{name: selection}` as JSON with sorted keys; empty for none or an empty table.

    A site always has a selection `default`: where the settings name none, it keeps the whole page. Raises
    InvalidValueError with the position of what is wrong.
    """
    if value is None or value == {}:
        return ""
    if not isinstance(value, Mapping):
        raise InvalidValueError("selections", _("a table of selections by name"), type(value).__name__)
    written = _written(value)
    compiled(written)
    return written


@lru_cache(maxsize=_COMPILED)
def compiled(settings: str) -> Selections:
    """Returns the selections of settings as returned by `canonical`. Raises InvalidValueError.

    Compiled ones are kept, because every poll of the site uses them.
    """
    return _compiled(orjson.loads(settings))


def _written(fields: Mapping[object, object]) -> str:
    for name in fields:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidValueError(
                "selections", _("names of 1 to 64 characters without comma and semicolon"), str(name)
            )
    if len(fields) > SELECTIONS_MAX:
        raise InvalidValueError(
            "selections", _("at most {selections_max} selections", selections_max=SELECTIONS_MAX), f"{len(fields)}"
        )
    try:
        written = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError("selections", _("values as in JSON ({error})", error=error), "others") from error
    if len(written) > BYTES_MAX:
        raise InvalidValueError(
            "selections",
            _("at most {bytes_max:,} bytes as JSON", bytes_max=BYTES_MAX),
            n_("{count} byte", "{count} bytes", len(written)),
        )
    return written


def _compiled(fields: Mapping[str, object]) -> Selections:
    names = sorted(fields, key=lambda name: (name != DEFAULT_SELECTION, name))
    if DEFAULT_SELECTION not in fields:
        names = [DEFAULT_SELECTION, *names]
    return Selections(
        tuple(compile_selection(name, f"selections.{name}", fields.get(name, {}) or {}) for name in names)
    )
