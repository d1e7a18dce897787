"""Templates of users, rendered by Jinja2 in a sandbox with bounds, and the fallback to the built-in message.

Pure. A template may still take long within its bounds, so it belongs in a process with a limit of time and of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from datetime import UTC, tzinfo
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple

import orjson
from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as ALL
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from pollerd.errors import PermanentError, PollerdError, nearest, with_nearest
from pollerd.notifications.message import Event, EventChange, EventSite, Message
from pollerd.notifications.messages import describe, one_line, plain_line
from pollerd.notifications.writing import Medium, count, escaped, web_url
from pollerd.texts import N_, _
from pollerd.timestamps import rfc3339


class TemplateError(PermanentError):
    """A template cannot be used, or fails. line: where, from 1; None: it concerns the whole."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(
            f"template: {reason}" if line is None else _("template, line {line}: {reason}", line=line, reason=reason)
        )
        self.reason, self.line = reason, line

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.reason, self.line))


# Bounds of one rendering: steps of loops, sizes of texts, lists and numbers.

MAX_CHARACTERS = 200_000
"""Of a text made within a template, and of what it renders."""
MAX_ITEMS = 100_000
MAX_STEPS = 100_000
"""LoopSteps of all loops of one rendering together."""
_MAX_BITS = 256


class LoopSteps:
    """Counts the steps of all loops of one rendering."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def counted(self, items: Iterable[Any]) -> Iterable[Any]:
        """Returns the items of a loop. Raises TemplateError: they are too many, at once where their number is known."""
        if isinstance(items, Sized):
            self._spend(len(items))
            return items
        return self._one_by_one(items)

    def _one_by_one(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._spend(1)
            yield item

    def _spend(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise TemplateError(_("more than {max_steps:,} steps of loops", max_steps=MAX_STEPS))


def bounded(value: Any) -> Any:
    """Returns a value. Raises TemplateError: it is too long."""
    if isinstance(value, str):
        if len(value) > MAX_CHARACTERS:
            raise TemplateError(_("a text of more than {max_characters:,} characters", max_characters=MAX_CHARACTERS))
    elif isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise TemplateError(_("a number with too many digits"))
    elif isinstance(value, Sized) and len(value) > MAX_ITEMS:
        raise TemplateError(_("a list of more than {max_items:,} items", max_items=MAX_ITEMS))
    return value


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Raises TemplateError if the result would be too large to be computed first and checked after."""
    if operator == "%" and isinstance(left, str):
        raise TemplateError(_("texts are put together by ~, not by %"))
    if operator == "**":
        if isinstance(left, int) and isinstance(right, int) and right * max(left.bit_length(), 1) > _MAX_BITS:
            raise TemplateError(_("a number with too many digits"))
    elif operator == "*":
        for some, times in ((left, right), (right, left)):
            if isinstance(some, str | list | tuple) and isinstance(times, int) and len(some) * times > MAX_ITEMS:
                raise TemplateError(_("a repetition that is too long"))


# Filters for templates: those of Jinja2 whose time and memory are bounded, and some of our own.
#
# There is no `safe`: all values are escaped, and `escape` changes nothing.

_JINJA = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "sum", "title", "trim", "truncate", "unique", "upper", "urlencode", "wordcount"),
)
_MAX_PLACES = 20
_TOO_LONG = N_("a text of more than {most:,} characters")


def _join(items: Iterable[Any], by: str = "", attribute: str | None = None) -> str:
    """Joins items, or one of their values each."""
    texts, length = [], 0
    for item in items:
        texts.append(str(item[attribute] if attribute is not None else item))
        length += len(texts[-1]) + len(by)
        if length > MAX_CHARACTERS:
            raise TemplateError(_(_TOO_LONG, most=MAX_CHARACTERS))
    return str(by).join(texts)


def _replace(text: Any, old: str, new: str) -> str:
    """Replaces a part of a text wherever it is."""
    result = str(text)
    if len(result) + result.count(str(old)) * len(str(new)) > MAX_CHARACTERS:
        raise TemplateError(_(_TOO_LONG, most=MAX_CHARACTERS))
    return result.replace(str(old), str(new))


def _round(number: float, places: Any = 0) -> float:
    """Rounds to decimal places."""
    if not isinstance(places, int) or abs(places) > _MAX_PLACES:
        raise TemplateError(_("round takes at most {max_places} places", max_places=_MAX_PLACES))
    return round(number, places)


def tojson(value: Any) -> str:
    """Returns a value as JSON, which is escaped for the medium like any text."""
    return orjson.dumps(value).decode()


def _unchanged(value: Any) -> Any:
    """Stands for `escape`: everything is escaped anyway."""
    return value


def _url(value: Any) -> str:
    """Returns a URL of http or https; empty if it is none: for attributes of HTML."""
    return web_url(str(value))


FILTERS: Mapping[str, Callable[..., Any]] = {name: ALL[name] for name in _JINJA} | {
    "e": _unchanged,
    "escape": _unchanged,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "tojson": tojson,
    "url": _url,
}


# Syntax that templates may use, and bounds that are built in before compilation.

COUNTED, BOUNDED = "_counted", "_bounded"
STEPS = "_steps"
_REFUSED: tuple[tuple[type[nodes.Node], str], ...] = (
    (nodes.Include, "include"),
    (nodes.Import, "import"),
    (nodes.FromImport, "from … import"),
    (nodes.Extends, "extends"),
    (nodes.Block, "block"),
    (nodes.Macro, "macro"),
    (nodes.CallBlock, "call"),
    (nodes.FilterBlock, "filter as a block"),
    (nodes.AssignBlock, "set as a block"),
    (nodes.EvalContextModifier, "autoescape"),
)


def check_syntax(tree: nodes.Template, known: Collection[str]) -> None:
    """Raises TemplateError for what a template may not contain. known: names of the values that it is given."""
    for kind, tag in _REFUSED:
        for node in tree.find_all(kind):
            raise TemplateError(_("{tag} is not possible here", tag=tag), node.lineno)
    _check_private(tree)
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise TemplateError(_("recursive loops are not possible here"), loop.lineno)
    for used in tree.find_all(nodes.Filter):
        if used.name not in FILTERS:
            names = sorted(FILTERS)
            raise TemplateError(
                with_nearest(_("there is no filter {used}", used=used.name), used.name, names), used.lineno
            )
    missing = find_undeclared_variables(tree) - set(known)
    for name in tree.find_all(nodes.Name):
        if name.name in missing:
            near = nearest(name.name, sorted(known), most=1)
            hint = _("did you mean {near}?", near=near) if near else _("known: {names}", names=", ".join(sorted(known)))
            raise TemplateError(_("there is no value {name}; {hint}", name=name.name, hint=hint), name.lineno)


def _check_private(tree: nodes.Template) -> None:
    """Refuses names, attributes and keys that begin with an underscore: what Python keeps inside has such names."""
    for name in tree.find_all(nodes.Name):
        _check_public(name.name, name.lineno)
    for attribute in tree.find_all(nodes.Getattr):
        _check_public(attribute.attr, attribute.lineno)
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and constant.value.startswith("__"):
            _check_public(constant.value, constant.lineno)


def _check_public(name: str, line: int) -> None:
    if name.startswith("_"):
        raise TemplateError(_("{name} is private: names that begin with _ cannot be used", name=name[:60]), line)


class Bounding(NodeTransformer):
    """Lets each loop count its steps, and what grows be measured. Jinja2 calls its methods by the names of nodes."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """Counts the items of a loop."""
        self.generic_visit(node)
        node.iter = _filtered(node.iter, COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Measures texts that are put together."""
        return self._measured(node)

    def visit_Add(self, node: nodes.Add) -> nodes.Node:  # noqa: N802
        """Measures sums, and lists that are put together."""
        return self._measured(node)

    def visit_Mul(self, node: nodes.Mul) -> nodes.Node:  # noqa: N802
        """Measures products."""
        return self._measured(node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        """Measures what a filter returns."""
        return self._measured(node)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        """Measures what a call returns."""
        return self._measured(node)

    def _measured(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, BOUNDED)


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=node.environment)


# The sandbox for one medium: no files, no imports, no methods but harmless ones; values are escaped.

_OF_TEXTS = frozenset({"upper", "lower", "strip", "startswith", "endswith", "split", "title", "capitalize"})
_OF_TABLES = frozenset({"items", "keys", "values", "get"})
GLOBALS = ("range", "namespace")


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment without loaders, whose values are plain: texts, numbers, lists and tables."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Returns whether an attribute may be read: of all that Python has, a few."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        if isinstance(obj, str):
            return attr in _OF_TEXTS
        if isinstance(obj, Mapping):
            return attr in _OF_TABLES
        return isinstance(obj, LoopContext | Namespace)

    def wrap_str_format(self, value: Any) -> None:
        """Offers no `format` of texts, whose widths have no bound."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Returns a value of a table before a method of the same name: `change.values`."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Computes what cannot become too large."""
        check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)


@lru_cache(maxsize=len(Medium))
def sandbox_for(medium: Medium) -> Sandbox:
    """Returns the environment of a medium, in which every value is escaped for it."""
    sandbox = Sandbox(undefined=StrictUndefined, finalize=_escaping(medium), autoescape=False, optimized=False)
    sandbox.filters = dict(FILTERS) | {COUNTED: _counted, BOUNDED: bounded}
    sandbox.globals = {name: sandbox.globals[name] for name in GLOBALS}
    return sandbox


@pass_context
def _counted(context: Context, items: Iterable[Any]) -> Iterable[Any]:
    counted: Iterable[Any] = context[STEPS].counted(items)
    return counted


def _escaping(medium: Medium) -> Callable[[Any], str]:
    """Returns what is done with each value: lines stay lines, all else becomes harmless in the medium."""

    def finalize(value: Any) -> str:
        text = _shown(value)
        return "\n".join(escaped(plain_line(line, MAX_CHARACTERS), medium) for line in text.split("\n"))

    return finalize


def _shown(value: Any) -> str:
    """Returns a value as text. Raises TemplateError for what is none, such as a method, and what is missing raises."""
    if value is None:
        return ""
    if isinstance(value, str | int | float | Undefined):
        return str(bounded(value))
    if isinstance(value, list | tuple):
        return str(bounded(", ".join(_shown(item) for item in bounded(value))))
    if isinstance(value, Mapping):
        return tojson(value)
    raise TemplateError(_("{name} is no text; of a list, join makes one", name=type(value).__name__))


# The context of a template: texts, numbers, lists and tables of one message. Texts are single lines, not escaped.

NAMES = ("subject", "summary", "count", "kind", "events", "event", "site", "change", "link")
"""Names of the values that every template has. event, site, change: none in a message of several events."""
MAX_EVENTS = 500
_LONGEST = 2_000
_DEEPEST = 5


def context_of(message: Message, link: str = "", zone: tzinfo = UTC) -> dict[str, Any]:
    """Returns the values of a message. link: where all events of a group are."""
    events = [_event(event, zone) for event in message.events[:MAX_EVENTS]]
    only = events[0] if len(message.events) == 1 else None
    return {
        "subject": message.subject,
        "summary": count(message.events) if only is None else only["summary"],
        "count": len(message.events),
        "kind": "group" if only is None else only["kind"],
        "events": events,
        "event": only,
        "site": None if only is None else only["site"],
        "change": None if only is None else only["change"],
        "link": link if only is None else only["link"] or link,
    }


def _event(event: Event, zone: tzinfo) -> dict[str, Any]:
    described = describe(event, zone)
    return {
        "id": event.id,
        "kind": event.kind.value,
        "at": rfc3339(event.at),
        "title": described.title,
        "summary": described.summary,
        "facts": [{"name": name, "value": value} for name, value in described.facts],
        "site": None if event.site is None else _site(event.site),
        "change": None if event.change is None else _change(event.change),
        "data": _plain(event.data, 0),
        "link": event.link,
    }


def _site(site: EventSite) -> dict[str, Any]:
    return {
        "id": site.id,
        "url": site.url,
        "title": one_line(site.title, _LONGEST),
        "tags": [one_line(tag, _LONGEST) for tag in site.tags],
    }


def _change(change: EventChange) -> dict[str, Any]:
    before = change.previous_poll_at
    return {
        "id": change.id,
        "kind": change.kind.value,
        "selection": one_line(change.selection, _LONGEST),
        "summary": one_line(change.summary, _LONGEST),
        "matters": change.matters,
        "why": one_line(change.why, _LONGEST),
        "detected_at": rfc3339(change.detected_at),
        "previous_poll_at": None if before is None else rfc3339(before),
        "added": [plain_line(line, _LONGEST) for line in change.added],
        "removed": [plain_line(line, _LONGEST) for line in change.removed],
        "cut": change.cut,
        "values": {one_line(name, _LONGEST): one_line(value, _LONGEST) for name, value in change.values.items()},
    }


def _plain(value: Any, depth: int) -> Any:
    """Returns a value as plain texts, numbers, lists and tables."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {one_line(str(key), _LONGEST): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(item, depth + 1) for item in value]
    return plain_line(str(value), _LONGEST)


LONGEST_TEMPLATE = 20_000
_LONGEST_REASON = 300
_FILES = frozenset({"<template>", "<unknown>"})


def check(template: str) -> None:
    """Raises TemplateError if the template can never be rendered: with the line, and what is wrong there."""
    _compiled(template, Medium.TEXT)


def render(template: str, medium: Medium, context: Mapping[str, Any], most: int = MAX_CHARACTERS) -> str:
    """Returns what a template makes of a context (see `context_of`), values escaped for the medium.

    Raises TemplateError: it fails, a value is missing, or it renders more than `most` characters.
    """
    compiled = _compiled(template, medium)
    pieces: list[str] = []
    length = 0
    try:
        for piece in compiled.generate({**context, STEPS: LoopSteps()}):
            length += len(piece)
            if length > most:
                raise TemplateError(_("it renders more than {most:,} characters", most=most))
            pieces.append(piece)
    except TemplateError as error:
        raise TemplateError(error.reason, error.line or _line_of(error.__traceback__)) from None
    except Exception as error:  # noqa: BLE001 - whatever a template does is an error of the template
        raise TemplateError(_reason(error), _line_of(error.__traceback__)) from None
    return "".join(pieces)


@lru_cache(maxsize=64)
def _compiled(template: str, medium: Medium) -> Template:
    if len(template) > LONGEST_TEMPLATE:
        raise TemplateError(_("longer than {longest_template:,} characters", longest_template=LONGEST_TEMPLATE))
    sandbox = sandbox_for(medium)
    try:
        tree = sandbox.parse(template)
        check_syntax(tree, (*NAMES, *GLOBALS))
        return sandbox.from_string(Bounding().visit(tree))
    except TemplateSyntaxError as error:
        raise TemplateError(one_line(error.message or _("not understood"), _LONGEST_REASON), error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
        raise TemplateError(
            _("nested too deep, or a number that is too long ({name})", name=type(error).__name__)
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, SecurityError):
        return one_line(_("not allowed: {error}", error=error), _LONGEST_REASON)
    if isinstance(error, MemoryError | RecursionError):
        return _("it takes too much memory ({name})", name=type(error).__name__)
    return one_line(str(error) or type(error).__name__, _LONGEST_REASON)


def _line_of(traceback: TracebackType | None) -> int | None:
    """Returns the line of the template in which an error arose."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in _FILES:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


# The fallback for a template that fails: the built-in message, with the reason.

_LONGEST_PROBLEM = 300


class Body(NamedTuple):
    """The body of a message; problem: why it is the built-in one in place of the template's, empty if it is not."""

    text: str
    problem: str = ""


def body_of(message: Message, medium: Medium, rendered: str | PollerdError) -> Body:
    """Returns what a template rendered, or the built-in body where it failed: nothing stays untold for a template.

    rendered: the result of `render`, or what the process in which it ran raised: TemplateError or TooHeavyError. A body
    of nothing but white space is a failure, too.
    """
    if isinstance(rendered, str) and rendered.strip():
        return Body(rendered)
    return Body(built_in_body(message, medium), _problem(rendered))


def built_in_body(message: Message, medium: Medium) -> str:
    """Returns the body without a template."""
    bodies = {Medium.TEXT: message.text, Medium.HTML: message.html, Medium.MARKDOWN: message.markdown}
    return bodies[medium]


def _problem(rendered: str | PollerdError) -> str:
    if isinstance(rendered, str):
        return _("template: it renders nothing")
    return one_line(str(rendered) if isinstance(rendered, TemplateError) else f"template: {rendered}", _LONGEST_PROBLEM)
