"""JSONPath (RFC 9535): checked when set, with hints for other dialects, and bounded when used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pollerd.detection.selection.expressions.refusal import Refusal, checked_source
from pollerd.errors import InvalidValueError
from pollerd.texts import N_, _

MAX_BRACKETS, MAX_OPERATORS = 15, 60
"""Maximum depth of brackets; maximum number of !, &&, || and comparisons."""
_KIND = N_("a JSONPath (RFC 9535)")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_OPERATOR = re.compile(r"&&|\|\||[!<>=]=?")
_DIALECTS = (
    (
        re.compile(r"`"),
        N_("functions between ` are of jsonpath-ng; RFC 9535 has length(), count(), match(), search(), value()"),
    ),
    (re.compile(r"=~"), N_('"=~" is not of RFC 9535; write search(@.name, "…")')),
    (re.compile(r"\[\s*[/\\]"), N_("sorting is of jsonpath-ng; use the step sort")),
    (re.compile(r"(?<!&)&(?!&)"), N_('"&" is not of RFC 9535; write "&&"')),
    (re.compile(r"(?<!\|)\|(?!\|)"), N_('"|" is not of RFC 9535; write "||", or use several in keep')),
    (
        re.compile(r"\bin\b\s*\[|\bnin\b|\banyof\b"),
        N_('lists of values are not of RFC 9535; write "||" between comparisons'),
    ),
)
_BARE_NAME = re.compile(r"\?\s*\(?\s*([A-Za-z_]\w*)\s*(?:[<>=!]|\)|\]|$)")


class JsonPath:
    """A checked path. Pickled as its text; to be used in one thread at a time."""

    def __init__(self, field: str, path: str, run: Callable[[Any], list[tuple[Any, Any, int | str]]]) -> None:
        self.field, self.path = field, path
        """Where it was set; as it was set."""
        self._run = run

    def find(self, value: Any) -> list[Any]:
        """Returns the values that it selects in a JSON value, in the document's order; `null` is one, missing is none.

        Raises `SelectionLimitError`: more than 1,000,000 values were looked at, or `..` went deeper than 500.
        """
        return [match for match, _holder, _key in self._run(value)]

    def find_held(self, value: Any) -> list[tuple[Any, Any]]:
        """Returns what `find` does, each with the object or array that holds it."""
        return [(match, holder) for match, holder, _key in self._run(value)]

    def remove(self, value: Any) -> None:
        """Removes what it selects from a JSON value, which stays itself. Raises as `find`."""
        places: dict[int, tuple[list[Any], set[int]]] = {}
        for _match, holder, key in self._run(value):
            if isinstance(holder, dict):
                holder.pop(key, None)
            elif isinstance(holder, list) and isinstance(key, int):
                places.setdefault(id(holder), (holder, set()))[1].add(key)
        for array, selected in places.values():
            array[:] = [entry for place, entry in enumerate(array) if place not in selected]

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_jsonpath, (self.field, self.path))

    def __repr__(self) -> str:
        return f"JsonPath({self.path!r})"


def compile_jsonpath(field: str, path: object) -> JsonPath:
    """Returns a checked path.

    Raises `InvalidValueError`: it is no JSONPath of 1 to 1,000 characters; names the character, the reason and the
    way out.
    """
    source = checked_source(field, _(_KIND), path)
    refusal = Refusal(field, _(_KIND), source)
    if not source.startswith("$"):
        begun = source.strip().lstrip("@")
        meant = begun if begun[:1] in ("$", "[", ".") else f".{begun}"
        refusal.at(0, _('starts with "$"; did you mean "{meant}"?', meant=meant if meant[:1] == "$" else f"${meant}"))
    _check_dialect(refusal)
    _check_size(refusal)
    from jsonpath_rfc9535 import JSONPathError

    from pollerd.detection.selection.expressions.jsonpath_engine import BoundedEnvironment

    environment = BoundedEnvironment(refusal)
    try:
        query = environment.query(source)
    except JSONPathError as error:
        index = error.token.index if error.token is not None else None
        refusal.at(None if index is None else min(index, len(source) - 1), str(error.args[0]) if error.args else "")
    except InvalidValueError:
        raise
    except (OverflowError, IndexError, ValueError):
        refusal.at(None, _("a number or text in it cannot be read"))
    return JsonPath(field, source, lambda value: environment.values(query, value))


def _without_strings(source: str) -> str:
    return _STRING.sub(lambda match: "'" + "_" * (len(match[0]) - 2) + "'", source)


def _check_dialect(refusal: Refusal) -> None:
    plain = _without_strings(refusal.source)
    for pattern, reason in _DIALECTS:
        if (match := pattern.search(plain)) is not None:
            refusal.at(match.start(), _(reason))
    bare = _BARE_NAME.search(plain)
    if bare is not None and bare[1] not in ("true", "false", "null"):
        refusal.at(bare.start(1), _('"{bare}" needs "@." before it: "?@.{bare}…"', bare=bare[1]))


def _check_size(refusal: Refusal) -> None:
    """Nested brackets and long conditions would cost depth of calls."""
    plain, depth = _without_strings(refusal.source), 0
    for index, sign in enumerate(plain):
        depth += (sign in "([") - (sign in ")]")
        if depth > MAX_BRACKETS:
            refusal.at(index, _("more than {max_brackets} brackets within each other", max_brackets=MAX_BRACKETS))
    operators = list(_OPERATOR.finditer(plain))
    if len(operators) > MAX_OPERATORS:
        refusal.at(
            operators[MAX_OPERATORS].start(),
            _("more than {max_operators} comparisons and operators", max_operators=MAX_OPERATORS),
        )
