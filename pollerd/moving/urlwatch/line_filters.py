"""Filters that work on text: lines, replacements, white space, order."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pollerd.moving.draft import Step
from pollerd.moving.patterns import escaped
from pollerd.moving.urlwatch.filter_parts import FilterCall, Handler
from pollerd.texts import _

_NEWLINE = "\n"


def _lines(kept: bool) -> Handler:
    """Keeps or drops lines: `text` in its own letter case, else `re`."""

    def handle(call: FilterCall) -> None:
        side = "keep" if kept else "drop"
        if call.given.get("text") is not None:
            text = call.text("text")
            if text:
                call.step({"lines": {side: [{"text": text, "case": True}]}})
            else:
                call.not_carried(_("text must be a text that is not empty"))
            return
        pattern = call.pattern("re")
        if pattern is not None:
            call.step({"lines": {side: [{"re": pattern}]}})

    return handle


def _strip(call: FilterCall) -> None:
    chars, side = call.text("chars"), str(call.take("side", "both"))
    by_line = bool(call.take("splitlines"))
    if not chars:
        how = "" if by_line and side == "both" else _("on both sides, of each line")
        call.step({"space": "trim"}, how)
        return
    among = "[" + escaped(chars) + "]+"
    left, right = (f"(?m)^{among}", f"(?m){among}$") if by_line else (rf"\A{among}", rf"{among}\Z")
    if side != "right":
        call.draft.add_step(call.key, {"replace": {"re": left, "with": ""}})
    if side != "left":
        call.draft.add_step(call.key, {"replace": {"re": right, "with": ""}})
    call.carried()


def _striplines(call: FilterCall) -> None:
    call.step({"space": "trim"})


def _sub(call: FilterCall) -> None:
    pattern = call.pattern("pattern")
    if pattern is not None:
        call.step({"replace": {"re": pattern, "with": call.text("repl")}})


def _findall(call: FilterCall) -> None:
    pattern = call.pattern("pattern")
    if pattern is not None:
        call.step({"find": {"re": pattern, "with": call.text("repl") or r"\g<0>"}})


def _between(call: FilterCall) -> None:
    start, end = call.pattern("start"), call.pattern("end")
    if start is None or end is None:
        return
    step: Step = {"find": {"re": f"(?ms)^[^\\n]*?(?:{start})[^\\n]*\\n(.*?)^[^\\n]*?(?:{end})", "with": r"\1"}}
    if re.compile(start).groups:
        call.not_carried(_("blocks of lines whose start has groups have no counterpart"))
    else:
        call.step(step, _("blocks are found by one expression over the whole text"))


def _sort(call: FilterCall) -> None:
    _split(call)
    call.step({"sort": "reverse" if call.take("reverse") else "text"})


def _unique(call: FilterCall) -> None:
    _split(call)
    call.step({"unique": "all"})


def _repeated(call: FilterCall) -> None:
    _split(call)
    if call.take("ignore_case"):
        call.draft.report.not_carried(f"{call.key}.ignore_case", _("repeats are found by their letter case"))
    call.step({"unique": "adjacent" if call.take("adjacent", True) else "all"})


def _reverse(call: FilterCall) -> None:
    _split(call)
    call.step({"sort": "reverse_order"})


def _split(call: FilterCall) -> None:
    """Puts what a separator parts on lines of their own: all that works on items works on lines here."""
    separator = call.take("separator", _NEWLINE)
    if isinstance(separator, str) and separator not in ("", _NEWLINE):
        call.draft.add_step(call.key, {"replace": {"re": escaped(separator), "with": r"\n"}})
        call.draft.report.approximated(f"{call.key}.separator", _("each item is on its own line"))


LINE_FILTERS: Mapping[str, Handler] = {
    "grep": _lines(kept=True),
    "grepi": _lines(kept=False),
    "keep_lines_containing": _lines(kept=True),
    "delete_lines_containing": _lines(kept=False),
    "strip": _strip,
    "striplines": _striplines,
    "re.sub": _sub,
    "re.findall": _findall,
    "between": _between,
    "sort": _sort,
    "remove-duplicate-lines": _unique,
    "remove_repeated": _repeated,
    "reverse": _reverse,
}
