"""Jinja2's sandbox for one medium: no files, no imports, no methods but harmless ones; values are escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from pollerd.notifications.messages.escaping import Medium, escaped
from pollerd.notifications.messages.plain import plain_line
from pollerd.notifications.templates.bounds import MOST_CHARACTERS, bounded, check_operation
from pollerd.notifications.templates.error import TemplateError
from pollerd.notifications.templates.filters import FILTERS, tojson
from pollerd.notifications.templates.syntax import BOUNDED, COUNTED, STEPS

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
    found: Iterable[Any] = context[STEPS].counted(items)
    return found


def _escaping(medium: Medium) -> Callable[[Any], str]:
    """Returns what is done with each value: lines stay lines, all else becomes harmless in the medium."""

    def finalize(value: Any) -> str:
        text = _shown(value)
        return "\n".join(escaped(plain_line(line, MOST_CHARACTERS), medium) for line in text.split("\n"))

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
    raise TemplateError(f"{type(value).__name__} is no text; of a list, join makes one")
