"""Filters that pick elements of HTML or XML, or turn them into text."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.moving.draft import Step
from pollerd.moving.selectors import css, css_as_xpath, css_lacking, xpath_lacking
from pollerd.moving.urlwatch.filter_parts import FilterCall, Handler
from pollerd.texts import _

_PROGRAMS = frozenset({"lynx", "pyhtml2text", "html2text"})


def _css(call: FilterCall) -> None:
    wrong = css_lacking(call.text("selector"))
    _pick(call, {"css": css(call.text("selector"))}, wrong, "css")


def _xpath(call: FilterCall) -> None:
    _pick(call, {"xpath": call.text("path").strip()}, xpath_lacking(call.text("path")), "xpath")


def _pick(call: FilterCall, selector: Mapping[str, str], wrong: str | None, language: str) -> None:
    xml = str(call.take("method", "html")) == "xml"
    namespaces = call.take("namespaces")
    if wrong is None and namespaces:
        wrong = _('namespaces are not known here; an XPath with local-name()="…" does the same')
    if wrong is not None:
        call.not_carried(wrong)
        return
    call.draft.reads_xml = call.draft.reads_xml or xml
    exclude = call.text("exclude")
    if exclude:
        _exclude(call, exclude, language)
    if xml and language == "css" and (path := css_as_xpath(selector["css"], xml=True)) is not None:
        selector = {"xpath": path}
    step: Step = {"keep": dict(selector)}
    skip, most = _count(call, "skip"), _count(call, "maxitems")
    step |= {name: number for name, number in (("skip", skip), ("limit", most)) if number}
    call.step(step, _("XML is read as the page's type says") if xml else "")
    if call.take("sort"):
        call.draft.add_step(f"{call.key}.sort", {"sort": "text"})
        call.draft.report.approximated(f"{call.key}.sort", _("lines are sorted, not matches"))


def _exclude(call: FilterCall, exclude: str, language: str) -> None:
    wrong = css_lacking(exclude) if language == "css" else xpath_lacking(exclude)
    if wrong is not None:
        call.draft.report.not_carried(f"{call.key}.exclude", wrong)
        return
    removed = {language: css(exclude) if language == "css" else exclude.strip()}
    if call.draft.reads_xml and language == "css" and (path := css_as_xpath(exclude, xml=True)) is not None:
        removed = {"xpath": path}
    call.draft.add_step(call.key, {"remove": removed})
    call.draft.report.carried(f"{call.key}.exclude")


def _count(call: FilterCall, name: str) -> int:
    value = call.take(name, 0)
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _element(parameter: str, selector: str) -> Handler:
    def handle(call: FilterCall) -> None:
        text = call.text(parameter)
        if not text:
            call.not_carried(_("{parameter} is missing", parameter=parameter))
            return
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        call.step({"keep": {"css": selector.format(quoted)}})

    return handle


def _html2text(call: FilterCall) -> None:
    method = str(call.take("method", "html2text" if call.dialect.markdown else "re"))
    if call.draft.reads_xml:
        call.step({"replace": {"re": "<[^>]*>", "with": ""}}, _("tags of XML are removed"))
        return
    markdown = method == "pyhtml2text" or (call.dialect.markdown and method == "html2text")
    links = "yes" if markdown and not call.take("ignore_links") else "no"
    if markdown:
        how = _("text instead of Markdown")
    elif method in _PROGRAMS:
        how = _("pollerd's own text instead of the output of the program {method} makes", method=method)
    else:
        how = _("pollerd's own text: blocks begin lines, scripts and styles are removed")
    call.step({"text": {"links": links}}, how)


def _beautify(call: FilterCall) -> None:
    if call.take("absolute_links"):
        call.draft.report.not_carried(f"{call.key}.absolute_links", _("links are compared as they are written"))
    call.nothing_needed(_("what a reader sees has no indentation"))


def _absolute_links(call: FilterCall) -> None:
    call.step({"text": {"links": "absolute"}}, _("links appear in the text, absolute"))


ELEMENT_FILTERS: Mapping[str, Handler] = {
    "css": _css,
    "xpath": _xpath,
    "element-by-id": _element("id", '[id="{}"]'),
    "element-by-class": _element("class", '[class="{}"]'),
    "element-by-style": _element("style", '[style="{}"]'),
    "element-by-tag": _element("tag", "{}"),
    "html2text": _html2text,
    "beautify": _beautify,
    "absolute_links": _absolute_links,
}
