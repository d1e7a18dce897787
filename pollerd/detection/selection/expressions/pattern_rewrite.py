"""Rewrites a regular expression of Python's `re` for RE2, and refuses by name what RE2 cannot run in linear time.

As in `re`, \\d, \\w and \\s know all of Unicode: RE2's own know ASCII. `\\b` stays ASCII, and `$` is the very end.
"""

from __future__ import annotations

import functools
import re

from pollerd.detection.selection.expressions.refusal import Refusal
from pollerd.texts import N_, _

MAX_REPEATS = 1_000
"""RE2's maximum count of a repetition."""
_WORD, _SPACE = r"\pL\pN_", r"\s\pZ"
_SHORTHANDS = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
}
_IN_CLASS = {"d": r"\p{Nd}", "D": r"\P{Nd}", "w": _WORD, "s": _SPACE}
_GROUPS = {
    "(?=": N_('look-ahead {} cannot run in linear time; match more and use "with"'),
    "(?!": N_("negative look-ahead {} cannot run in linear time; keep and drop lines in two steps"),
    "(?<=": N_('look-behind {} cannot run in linear time; match more and use "with"'),
    "(?<!": N_("negative look-behind {} cannot run in linear time; keep and drop lines in two steps"),
    "(?P=": N_("back-reference {} cannot run in linear time; write out what it repeats"),
    "(?>": N_("atomic group {} is not understood; write (?:…), nothing is tried twice anyway"),
    "(?#": N_("comment {} is not understood; leave it out"),
    "(?(": N_("condition {} is not understood; write the cases with |"),
    "(?|": N_("branch reset {} is not understood; write (?:…|…)"),
    "(?P>": N_("recursion {} is not understood; write it out to the depth needed"),
    "(?&": N_("recursion {} is not understood; write it out to the depth needed"),
    "(?R": N_("recursion {} is not understood; write it out to the depth needed"),
}
_NO_FLAG = N_('"{flag}" is no flag; there are i, m and s')
_NO_ESCAPE = N_("\\{sign} means nothing; write {sign}")
_FLAGS = {
    "x": N_("(?x) is not understood; leave out white space and comments"),
    "a": N_("(?a) is not understood; write [0-9], [A-Za-z0-9_]"),
    "L": N_("(?L) is not understood; leave it out"),
    "U": N_("(?U) is not understood; write *? for a short match"),
}
_ESCAPES = {
    "N": N_(r"\N is not understood; write the character itself"),
    "g": N_(r"back-reference \g cannot run in linear time; write out what it repeats"),
    "k": N_(r"back-reference \k cannot run in linear time; write out what it repeats"),
    "Q": N_(r"\Q is not understood; put \ before each sign, or use text"),
    "K": N_(r'\K is not understood; use a group and \1 in "with"'),
    "G": N_(r"\G is not understood; leave it out"),
    "R": N_(r"\R is not understood; write \r?\n"),
    "h": N_(r"\h is not understood; write [ \t]"),
    "X": N_(r"\X is not understood; write ."),
    "C": N_(r"\C is not understood; write ."),
}
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_FLAG_GROUP = re.compile(r"\(\?([a-zA-Z]*)(-?)([a-zA-Z]*)([:)])")
_NAMED = re.compile(r"\(\?P?<([^\W\d]\w*)>")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[0-3][0-7]{2})")
_OCTAL_IN_CLASS = re.compile(r"\\([0-7]{1,3})")
_REFERENCE = re.compile(r"\\([1-9][0-9]?)")
_HEX = {"x": 2, "u": 4, "U": 8}
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]+")
_PROPERTY = re.compile(r"\\[pP](?:\{\^?\w+\}|[A-Z])")


@functools.cache
def negated_ranges(shorthand: str) -> str:
    """Returns \\W or \\S as ranges for the inside of a class, where RE2 has no other way; by RE2's own tables."""
    import re2

    # Letters, numbers and spaces are in the planes 0 to 3 of Unicode; the rest belongs to what is negated.
    low, high = "".join(map(chr, range(0xD800))), "".join(map(chr, range(0xE000, 0x40000)))
    runs = re2.compile(_SHORTHANDS[shorthand] + "+")
    spans = [(ord(run.group()[0]), ord(run.group()[-1])) for part in (low, high) for run in runs.finditer(part)]
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in [*spans, (0x40000, 0x10FFFF)])


def rewritten(source: str, refusal: Refusal) -> str:
    """Returns the expression for RE2. Raises `InvalidValueError` for what it cannot do."""
    return _Rewriter(source, refusal).all()


class _Rewriter:
    """Reads the expression from the left, a sign, escape, class or repetition at a time."""

    def __init__(self, source: str, refusal: Refusal) -> None:
        self._source, self._refusal, self._at = source, refusal, 0
        self._repeated = False

    def all(self) -> str:
        pieces = []
        while self._at < len(self._source):
            repeated, self._repeated = self._repeated, False
            pieces.append(self._next(repeated))
        return "".join(pieces)

    def _next(self, repeated: bool) -> str:
        sign = self._source[self._at]
        if sign == "\\":
            return self._escape()
        if sign == "[":
            return self._class()
        if sign == "(":
            return self._group()
        if sign in "*+?{":
            return self._repetition(sign, repeated)
        return self._take(1)

    def _take(self, length: int, instead: str | None = None) -> str:
        taken = self._source[self._at : self._at + length]
        self._at += length
        return taken if instead is None else instead

    def _repetition(self, sign: str, repeated: bool) -> str:
        if sign == "{":
            return self._counted()
        if repeated and sign == "+":
            self._refusal.at(
                self._at, _('possessive "+" is not understood; leave it out, nothing is tried twice anyway')
            )
        # A second ? makes it short; whatever else follows is RE2's to refuse.
        self._repeated = not repeated
        return self._take(1)

    def _counted(self) -> str:
        match = _REPEAT.match(self._source, self._at)
        if match is None or match[0] == "{}":
            return self._take(1, r"\{")
        least, comma, most = match.groups()
        for number in (least, most):
            if len(number) > 4 or int(number or 0) > MAX_REPEATS:
                self._refusal.at(
                    self._at,
                    _(
                        "{match} repeats more than {max_repeats:,} times; write + or *",
                        match=match[0][:40],
                        max_repeats=MAX_REPEATS,
                    ),
                )
        self._repeated = True
        return self._take(len(match[0]), f"{{{least or 0}{comma}{most}}}")

    def _group(self) -> str:
        if not self._source.startswith("(?", self._at):
            return self._take(1)
        for beginning, reason in _GROUPS.items():
            if self._source.startswith(beginning, self._at):
                self._refusal.at(self._at, _(reason).format(f'"{beginning}"'))
        if (match := _NAMED.match(self._source, self._at)) is not None:
            return self._take(len(match[0]), f"(?P<{match[1]}>")
        match = _FLAG_GROUP.match(self._source, self._at)
        if match is None:
            unknown = self._source[self._at : self._at + 3]
            self._refusal.at(self._at, _('"{unknown}" begins no group; write (?:…) or (?P<name>…)', unknown=unknown))
        return self._flags(match)

    def _flags(self, match: re.Match[str]) -> str:
        for flag in match[1] + match[3]:
            if flag not in "imsu":
                self._refusal.at(self._at, _(_FLAGS.get(flag, _NO_FLAG), flag=flag))
        on, off = match[1].replace("u", ""), match[3].replace("u", "")
        flags = on + ("-" + off if off else "")
        instead = f"(?{flags}{match[4]}" if flags or match[4] == ":" else ""
        return self._take(len(match[0]), instead)

    def _escape(self) -> str:
        sign = self._source[self._at + 1 : self._at + 2]
        if not sign:
            self._refusal.at(self._at, _(r'a single "\" at the end; write \\'))
        if sign in _SHORTHANDS:
            return self._take(2, _SHORTHANDS[sign])
        if sign in "zZ":
            return self._take(2, r"\z")
        if sign in "AbB":
            return self._take(2)
        if (match := _OCTAL.match(self._source, self._at)) is not None:
            return self._take(len(match[0]), rf"\x{{{int(match[1], 8):x}}}")
        if (match := _REFERENCE.match(self._source, self._at)) is not None:
            self._refusal.at(
                self._at,
                _('back-reference "{match}" cannot run in linear time; write out what it repeats', match=match[0]),
            )
        return self._character(sign)

    def _character(self, sign: str) -> str:
        """Escapes that mean one character or a property, in a class or not."""
        if sign in _HEX:
            return self._hexadecimal(sign)
        if sign in "pP":
            match = _PROPERTY.match(self._source, self._at)
            if match is None:
                self._refusal.at(self._at, _("\\{sign} needs a property: \\{sign}{{Lu}}, \\{sign}{{Greek}}", sign=sign))
            return self._take(len(match[0]))
        if sign in "afnrtv":
            return self._take(2)
        if sign.isascii() and sign.isalnum():
            self._refusal.at(self._at, _(_ESCAPES.get(sign, _NO_ESCAPE), sign=sign))
        return self._take(2, sign if not sign.isascii() or sign == "_" else None)

    def _hexadecimal(self, sign: str) -> str:
        start = self._at + 2
        braced = sign == "x" and self._source.startswith("{", start)
        end = self._source.find("}", start) if braced else start + _HEX[sign]
        digits = self._source[start + braced : max(end, 0)]
        right = bool(_HEX_DIGITS.fullmatch(digits)) and (1 <= len(digits) <= 6 if braced else len(digits) == _HEX[sign])
        code = int(digits, 16) if right else -1
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self._refusal.at(
                self._at, _("\\{sign} needs the {hex} hexadecimal digits of a character", sign=sign, hex=_HEX[sign])
            )
        return self._take(end + braced - self._at, rf"\x{{{code:x}}}")

    def _class(self) -> str:
        opened = self._at
        beginning = self._take(2 if self._source.startswith("[^", self._at) else 1)
        pieces = [self._take(1, r"\]")] if self._source.startswith("]", self._at) else []
        while not self._source.startswith("]", self._at):
            if self._at >= len(self._source):
                self._refusal.at(opened, _('"[" is never closed'))
            pieces.append(self._member())
        self._take(1)
        # One \W of a class says it all; each is long.
        return f"{beginning}{''.join(dict.fromkeys(pieces))}]"

    def _member(self) -> str:
        """A sign, an escape or a range of a class."""
        start = self._at
        first = self._class_sign()
        ranged = self._source.startswith("-", self._at) and not self._source.startswith("-]", self._at)
        if not ranged or self._at + 1 >= len(self._source):
            return first
        self._take(1)
        last = self._class_sign()
        if self._is_shorthand(first) or self._is_shorthand(last):
            self._refusal.at(start, _(r'a range goes from one character to another; put "-" first or write \-'))
        return f"{first}-{last}"

    @staticmethod
    def _is_shorthand(piece: str) -> bool:
        return piece[:2].lower() == r"\p" or piece.startswith(r"\s") or "}-" in piece

    def _class_sign(self) -> str:
        if self._source[self._at] != "\\":
            sign = self._source[self._at]
            return self._take(1, rf"\{sign}" if sign in "[^-&" else sign)
        sign = self._source[self._at + 1 : self._at + 2]
        if not sign:
            self._refusal.at(self._at, _(r'a single "\" at the end; write \\'))
        if sign in _IN_CLASS:
            return self._take(2, _IN_CLASS[sign])
        if sign in "WS":
            return self._take(2, negated_ranges(sign))
        if sign == "b":
            return self._take(2, r"\x{8}")
        match = _OCTAL_IN_CLASS.match(self._source, self._at)
        if match is not None and int(match[1], 8) <= 0o377:
            return self._take(len(match[0]), rf"\x{{{int(match[1], 8):x}}}")
        return self._character(sign)
