"""Patterns: a text to be found, or a regular expression that RE2 runs in linear time.

A search takes time linear in the text. A regular expression that reads far on to find each match (`x[^y]*y|x`) takes
that for each match: so matches and the length of a result are bounded, and long texts belong beside the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pollerd.detection.selection.expressions.pattern_rewrite import rewritten
from pollerd.detection.selection.expressions.refusal import MAX_CHARACTERS, Refusal, checked_source
from pollerd.errors import InvalidValueError, SelectionLimitError
from pollerd.texts import N_, _

# Search of a text in another: case ignored by full case folding ("STRASSE" is found by "straße"), or not.


class TextMatch:
    """A found text: fits `PatternMatch`."""

    __slots__ = ("_end", "_start", "_text")

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end

    def group(self, group: int | str = 0) -> str:
        """Returns the found text, the only group (0). Raises `IndexError` for others."""
        if group != 0:
            raise IndexError(_("no such group"))
        return self._text[self._start : self._end]

    def start(self) -> int:
        """Returns where it begins."""
        return self._start

    def end(self) -> int:
        """Returns where it ends: the index after its last character."""
        return self._end


class TextFinder:
    """Finds a text; in time linear in what is searched. `case`: upper and lower case differ."""

    groups = 0
    names: frozenset[str] = frozenset()

    def __init__(self, text: str, case: bool) -> None:
        self._case = case
        self._wanted = text if case else text.casefold()

    def search(self, text: str) -> bool:
        """Returns whether the text is in the other."""
        if self._case:
            return self._wanted in text
        folded = text.casefold()
        if self._wanted not in folded:
            return False
        return len(folded) == len(text) or next(self.finditer(text), None) is not None

    def finditer(self, text: str) -> Iterator[TextMatch]:
        """Yields the places from left to right, none within another."""
        folded = text if self._case else text.casefold()
        starts = None if len(folded) == len(text) else _starts(text)
        at, length = folded.find(self._wanted), len(self._wanted)
        while at >= 0:
            start, end = at, at + length
            if starts is None or (start in starts and end in starts):
                yield TextMatch(text, *((start, end) if starts is None else (starts[start], starts[end])))
                at = folded.find(self._wanted, end)
            else:  # it begins or ends within a folded character: half of ß is no s
                at = folded.find(self._wanted, at + 1)


def _starts(text: str) -> dict[int, int]:
    """Index in the folded text of each character and of the end → index in the text."""
    starts, at = {}, 0
    for index, sign in enumerate(text):
        starts[at] = index
        at += len(sign.casefold())
    starts[at] = len(text)
    return starts


# Replacements: templates by which matches are replaced.

_KIND = "a replacement"
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b", "\\": "\\"}
_PART = re.compile(r"\\(?:(?P<number>[1-9][0-9]?)|g<(?P<name>[^>]*)>|(?P<sign>.?))", re.DOTALL)


class Replacement:
    """A checked template: texts and groups in turn."""

    def __init__(self, template: str, parts: tuple[str | tuple[int | str], ...]) -> None:
        self.template = template
        self._parts = parts

    @classmethod
    def parse(cls, field: str, template: object, groups: int, names: frozenset[str]) -> Replacement:
        """Returns a template for a pattern with so many groups. Raises `InvalidValueError`."""
        if not isinstance(template, str) or len(template) > MAX_CHARACTERS:
            raise InvalidValueError(
                field,
                _("{kind} of at most {max_characters:,} characters", kind=_KIND, max_characters=MAX_CHARACTERS),
                template,
            )
        refusal, parts, end = Refusal(field, _KIND, template), list[str | tuple[int | str]](), 0
        for match in _PART.finditer(template):
            parts += [template[end : match.start()], _part(match, refusal, groups, names)]
            end = match.end()
        return cls(template, (*parts, template[end:]))

    def expand(self, match: PatternMatch) -> str:
        """Returns what replaces a match; a group that took no part is empty."""
        return "".join(part if isinstance(part, str) else match.group(part[0]) or "" for part in self._parts)


def _part(match: re.Match[str], refusal: Refusal, groups: int, names: frozenset[str]) -> str | tuple[int | str]:
    if (sign := match["sign"]) is not None:
        return _plain(sign, match, refusal)
    name = match["number"] or match["name"]
    if name.isascii() and name.isdigit() and len(name) < 5:
        if int(name) <= groups:
            return (int(name),)
        allowed = _("no groups") if not groups else _("groups 1 to {groups}", groups=groups)
        refusal.at(
            match.start(), _('"{match}" names no group; the pattern has {allowed}', match=match[0], allowed=allowed)
        )
    if name not in names:
        allowed = ", ".join(sorted(names)) or "none"
        refusal.at(
            match.start(), _('"{match}" names no group; groups with a name: {allowed}', match=match[0], allowed=allowed)
        )
    return (name,)


def _plain(sign: str, match: re.Match[str], refusal: Refusal) -> str:
    if not sign:
        refusal.at(match.start(), _(r'a single "\" at the end; write \\'))
    if sign in _PLAIN:
        return _PLAIN[sign]
    if sign.isascii() and sign.isalnum():
        refusal.at(match.start(), _("\\{sign} means nothing here; groups are \\1, \\g<0> and \\g<name>", sign=sign))
    return match[0]


MAX_MATCHES = 100_000
"""Maximum number of matches in one text."""
MAX_RESULT_CHARACTERS = 20_000_000
"""Maximum length of what `Pattern.sub` returns."""
MEMORY = 8 << 20
"""Bytes that RE2 may use for one expression: its program and what it remembers while searching."""
MAX_REWRITTEN = 100_000
"""Maximum length of an expression for RE2: a \\W in a class takes 14,000 characters."""
_ALLOWED = N_('a text, {"text": …, "case": true or false} or {"re": …}')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class PatternMatch(Protocol):
    """A match: `group(0)` is all of it; a group that took no part is None. Indices count characters."""

    def group(self, group: int | str = 0, /) -> str | None:
        """Returns what a group matched."""

    def start(self) -> int:
        """Returns where the match begins."""

    def end(self) -> int:
        """Returns the index after its last character."""


class Finder(Protocol):
    """Finds something in texts."""

    @property
    def groups(self) -> int:
        """The number of groups."""

    @property
    def names(self) -> frozenset[str]:
        """The names of groups."""

    def search(self, text: str) -> bool:
        """Returns whether there is a match."""

    def finditer(self, text: str) -> Iterator[PatternMatch]:
        """Yields the matches from left to right."""


class RegexFinder:
    """Finds a regular expression with RE2."""

    def __init__(self, regex: Any) -> None:
        self._regex = regex
        self.groups: int = regex.groups
        self.names = frozenset(regex.groupindex)

    def search(self, text: str) -> bool:
        """Returns whether there is a match."""
        return self._regex.search(_encodable(text)) is not None

    def finditer(self, text: str) -> Iterator[PatternMatch]:
        """Yields the matches from left to right."""
        yield from self._regex.finditer(_encodable(text))


class Pattern:
    """A checked pattern. Pure; pickled as its definition."""

    def __init__(self, field: str, definition: Mapping[str, object], finder: Finder, warnings: tuple[str, ...]) -> None:
        self.field, self.warnings = field, warnings
        """Where it was set; what a user should know about it."""
        self._definition, self._finder = dict(definition), finder

    @property
    def source(self) -> str:
        """The text or regular expression as set."""
        return str(self._definition.get("re", self._definition.get("text")))

    @property
    def groups(self) -> int:
        """The number of groups that `\\1`, `\\2` … may name."""
        return self._finder.groups

    @property
    def names(self) -> frozenset[str]:
        """The groups that have a name."""
        return self._finder.names

    def search(self, text: str) -> bool:
        """Returns whether the pattern is in the text."""
        return self._finder.search(text)

    def finditer(self, text: str) -> Iterator[PatternMatch]:
        """Yields the matches from left to right, as `re.finditer`.

        Raises `SelectionLimitError`: there are more than 100,000.
        """
        for number, match in enumerate(self._finder.finditer(text)):
            if number >= MAX_MATCHES:
                raise SelectionLimitError(self.field, _("matches"), MAX_MATCHES)
            yield match

    def sub(self, replacement: Replacement, text: str) -> str:
        """Returns the text with each match replaced.

        Raises `SelectionLimitError`: there are more than 100,000 matches, or the result is longer than 20,000,000
        characters.
        """
        pieces, end, length = [], 0, 0
        for match in self.finditer(text):
            piece = text[end : match.start()] + replacement.expand(match)
            length += len(piece)
            if length > MAX_RESULT_CHARACTERS:
                raise SelectionLimitError(self.field, _("characters after replacing"), MAX_RESULT_CHARACTERS)
            pieces.append(piece)
            end = match.end()
        return "".join(pieces) + text[end:]

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_pattern, (self.field, self._definition))

    def __repr__(self) -> str:
        return f"Pattern({self._definition!r})"


def compile_pattern(field: str, definition: object) -> Pattern:
    """Returns the pattern of `{"text": …, "case": false}`, `{"re": …}` or a bare text.

    Raises `InvalidValueError`: it is none of these, longer than 1,000 characters, or cannot run in linear
    time; names the character.
    """
    if isinstance(definition, str):
        definition = {"text": definition}
    if not isinstance(definition, Mapping) or set(definition) not in ({"text"}, {"text", "case"}, {"re"}):
        raise InvalidValueError(field, _(_ALLOWED), definition)
    if "re" in definition:
        return _regex_pattern(field, definition)
    text = checked_source(f"{field}.text", "a text", definition["text"])
    case = definition.get("case", False)
    if not isinstance(case, bool):
        raise InvalidValueError(f"{field}.case", _("true or false"), case)
    return Pattern(field, definition, TextFinder(text, case), ())


def compile_replacement(field: str, template: object, pattern: Pattern) -> Replacement:
    r"""Returns what each match is replaced by: `\1`, `\g<0>`, `\g<name>`, `\n`, `\t`, `\\` as in Python's `re`.

    Raises `InvalidValueError`: it is no text of at most 1,000 characters, names a group that the pattern
    does not have, or an unknown escape.
    """
    return Replacement.parse(field, template, pattern.groups, pattern.names)


def _regex_pattern(field: str, definition: Mapping[str, object]) -> Pattern:
    where = f"{field}.re"
    source = checked_source(where, _("a regular expression"), definition["re"])
    refusal = Refusal(where, _("a regular expression"), source)
    regex = compile_re2(rewritten(source, refusal), refusal)
    return Pattern(field, definition, RegexFinder(regex), _warnings(source, regex))


def _warnings(source: str, regex: Any) -> tuple[str, ...]:
    warnings = []
    if regex.search("") is not None:
        warnings.append(_("it matches the empty string, so it matches everywhere"))
    if not source.isascii() and r"\b" in source.replace(r"\\", ""):
        warnings.append(_(r"\b knows only the letters a to z: next to others it sees the end of a word"))
    return tuple(warnings)


def compile_re2(expression: str, refusal: Refusal) -> Any:
    """Returns RE2's own object of a rewritten expression. Raises `InvalidValueError` with RE2's reason."""
    import re2

    if len(expression) > MAX_REWRITTEN:
        refusal.at(None, _(r"too many \W and \S inside of brackets"))
    options = re2.Options()
    options.max_mem, options.log_errors = MEMORY, False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else _("not understood")
        _refuse_by_re2(reason, refusal)


def _refuse_by_re2(fault: str, refusal: Refusal) -> None:
    """RE2 names the reason and the part that it concerns, of which the place is searched."""
    reason, _colon, part = fault.partition(": ")
    if "too large" in fault:
        refusal.at(None, _("it is too large; repeat less often, above all of \\w and \\d (write [a-z], [0-9])"))
    if reason == "invalid repetition size":
        reason = _("repetitions within repetitions come to more than 1,000, or the first number is larger")
    position = refusal.source.rfind(part) if part else -1
    refusal.at(position if position >= 0 else None, f"{reason}: {part[:40]}" if part else reason)


def _encodable(text: str) -> str:
    """Halves of surrogate pairs, which JSON may hold, become U+FFFD: RE2 reads UTF-8."""
    return text if text.isascii() or _LONE_SURROGATE.search(text) is None else _LONE_SURROGATE.sub("\ufffd", text)
