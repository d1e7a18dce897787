"""Filters for documents that are no HTML, and those that run programs."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.moving.selectors import jq_path
from pollerd.moving.urlwatch.filter_parts import FilterCall, Handler
from pollerd.texts import N_, _


def _pdf(call: FilterCall) -> None:
    password = call.text("password")
    if password and "pdf_password" not in call.draft.fields:
        call.draft.fields["pdf_password"] = password
        call.draft.report.carried(f"{call.key}.password")
    elif password:
        call.draft.report.not_carried(f"{call.key}.password", _("a site has one password for its document"))
    call.step({"as": "pdf"}, _("pollerd's own text of the PDF"))


def _jq(call: FilterCall) -> None:
    path = jq_path(call.text("query"))
    if path is None:
        call.not_carried(_("only paths of jq (.a.b[0], .a[], .[] | .x) can be written as JSONPath"))
    else:
        call.draft.add_step(call.key, {"as": "json"})
        call.step({"keep": {"jsonpath": path}}, _("one text is kept without quotes, several matches as a JSON list"))


def _json(call: FilterCall) -> None:
    call.take("indentation")
    call.take("sort_keys")
    call.step({"as": "json"}, _("JSON is written out with its keys sorted"))


def _xml(call: FilterCall) -> None:
    call.take("indentation")
    call.step({"as": "xml"}, "" if call.dialect.markdown else _("without an XML declaration"))


def _yaml(call: FilterCall) -> None:
    call.take("indentation")
    call.step({"as": "json"}, _("JSON instead of YAML"))


def _bytes(call: FilterCall) -> None:
    call.step({"as": "bytes"}, _("a change of the bytes is found, and nothing readable kept"))


def _lost(why: str) -> Handler:
    return lambda call: call.not_carried(why)


_NO_PROGRAMS = N_("pollerd starts no programs")
MEDIA_FILTERS: Mapping[str, Handler] = {
    "pdf2text": _pdf,
    "pypdf": _pdf,
    "jq": _jq,
    "format-json": _json,
    "jsontoyaml": _yaml,
    "pretty-xml": _xml,
    "format-xml": _xml,
    "sha1sum": _bytes,
    "sha256sum": _bytes,
    "hexdump": _bytes,
    "ascii85": _bytes,
    "base64": _bytes,
    "csv2text": _lost(N_("rows are not formatted: the lines of the file are compared")),
    "ical2text": _lost(N_("calendars are not formatted: their text is compared")),
    "ocr": _lost(N_("texts in pictures are not read")),
    "shellpipe": _lost(_NO_PROGRAMS),
    "execute": _lost(_NO_PROGRAMS),
}
