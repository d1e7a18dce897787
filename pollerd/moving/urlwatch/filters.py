"""Filters of a job, in their order, as steps of a selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pollerd.moving.draft import Draft
from pollerd.moving.moved import COMPARES_SOURCE
from pollerd.moving.urlwatch.dialect import Dialect
from pollerd.moving.urlwatch.element_filters import ELEMENT_FILTERS
from pollerd.moving.urlwatch.filter_parts import FilterCall, Handler, as_mapping
from pollerd.moving.urlwatch.line_filters import LINE_FILTERS
from pollerd.moving.urlwatch.media_filters import MEDIA_FILTERS
from pollerd.texts import _

_FILTERS: Mapping[str, Handler] = {**ELEMENT_FILTERS, **LINE_FILTERS, **MEDIA_FILTERS}
KINDS = frozenset(_FILTERS)
"""Filters that are known here."""
_TO_TEXT = frozenset({"html2text", "pdf2text", "pypdf", "ical2text", "csv2text", "ocr"})
_NO_TEXT = frozenset({"format-json", "jq", "pretty-xml", "format-xml", "jsontoyaml", "sha1sum", "sha256sum"})


def apply_filters(draft: Draft, key: str, value: object, dialect: Dialect, *, exact: bool) -> None:
    """Adds the steps of all filters of the job; each filter and each of its parameters gets its line."""
    calls = list(_calls(draft, key, value, dialect))
    kinds = [call.kind for call in calls]
    if calls:
        draft.report.carried(key)
    for call in calls:
        handler = _FILTERS.get(call.kind)
        if handler is None:
            call.not_carried(_("a filter of the program's own hooks, or unknown: pollerd runs no programs"))
            continue
        handler(call)
        call.finish()
    if _compares_markup(kinds) and not draft.has_media:
        _source(draft, key, exact=exact)


def compare_body(draft: Draft, *, exact: bool) -> None:
    """A job without filters compares the body as it is sent."""
    _source(draft, "filter", exact=exact)


def _source(draft: Draft, key: str, *, exact: bool) -> None:
    if exact:
        draft.add_step(key, {"as": "source"})
        draft.report.carried(f"{key} {_(COMPARES_SOURCE)}")
    else:
        how = _("it compares the source there; here what a reader sees (--exact compares the source)")
        draft.report.approximated(f"{key} {_(COMPARES_SOURCE)}", how)


def _compares_markup(kinds: Sequence[str]) -> bool:
    return not any(kind in _TO_TEXT or kind in _NO_TEXT for kind in kinds)


def _calls(draft: Draft, key: str, raw: object, dialect: Dialect) -> Iterator[FilterCall]:
    """Yields the filters of a list, or of the old form in one text (`css:#a,html2text`)."""
    if isinstance(raw, str):
        draft.report.approximated(key, _("the old form in one text: split at each comma, as its program does"))
        raw = [dict([part.split(":", 1)]) if ":" in part else part for part in raw.split(",")]
    if isinstance(raw, Mapping):  # webchanges takes one filter without a list
        raw = [{name: value} for name, value in raw.items()]
    if not isinstance(raw, list):
        draft.report.not_carried(key, _("must be a list of filters; it is a {name}", name=type(raw).__name__))
        return
    for number, entry in enumerate(raw):
        place = f"{key}[{number}]"
        if isinstance(entry, str):
            yield FilterCall(draft, f"{place}.{entry}", entry, {}, dialect)
        elif isinstance(entry, Mapping) and entry:
            (kind, value), *more = entry.items()
            for name, _value in more:
                draft.report.not_carried(f"{place}.{name}", _("only the first key of a filter counts in its program"))
            name = str(kind)
            yield FilterCall(draft, f"{place}.{name}", name, as_mapping(name, value), dialect)
        else:
            draft.report.not_carried(place, _("is no filter: neither a text nor a table"))
