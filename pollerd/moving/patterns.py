"""Regular expressions of Python (`re`) in the dialect of RE2, which pollerd uses: what it lacks is named."""

from __future__ import annotations

import re
import warnings

from pollerd.texts import N_, _

MAX_CHARACTERS = 5_000
_MAX_REPEATS = 1_000
_LACKING = (
    (re.compile(r"\(\?<[=!]"), N_("look-behind")),
    (re.compile(r"\(\?[=!]"), N_("look-ahead")),
    (re.compile(r"\(\?P=|\\[1-9]"), N_("a reference to a group")),
    (re.compile(r"\(\?\("), N_("a condition on a group")),
    (re.compile(r"\(\?>|[*+?}]\+"), N_("an atomic group or a possessive repeat")),
    (re.compile(r"\(\?#"), N_("a comment")),
    (re.compile(r"\(\?[aimsLu]*x"), N_("the flag x")),
    (re.compile(r"\(\?[imsx]*[aLu]"), N_("the flag a, L or u")),
)
_ESCAPED_SIGN = re.compile(r"\\[^0-9A-Za-z]")
_ESCAPED_BACKSLASH = re.compile(r"\\\\")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_SIGNS = frozenset(r"\.^$*+?{}[]|()-")
_CONTROLS = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
_PERL = re.compile(r"/(.*?)/([a-z]*)?")


def lacking(pattern: str) -> str | None:
    """Returns what in the pattern RE2 cannot do, or why it is no pattern; None if it can be used."""
    if len(pattern) > MAX_CHARACTERS:
        return _("has more than {max_characters} characters", max_characters=MAX_CHARACTERS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of nested sets: Python may read them otherwise one day
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        return _("is no regular expression ({error})", error=str(error)[:80])
    outside = _ESCAPED_SIGN.sub("..", _CLASS.sub("c", _ESCAPED_BACKSLASH.sub("..", pattern)))
    for sign, name in _LACKING:
        if sign.search(outside):
            return _("{name} cannot run in linear time, or is unknown to RE2", name=_(name))
    if any(int(number or 0) > _MAX_REPEATS for numbers in _REPEAT.findall(outside) for number in numbers):
        return _("a repeat above {max_repeats} is too much for RE2", max_repeats=_MAX_REPEATS)
    return None


def of_slashes(text: str) -> str | None:
    """Returns `/pattern/flags` with its flags inside (i without any); None for a text without slashes."""
    match = _PERL.fullmatch(text)
    return None if match is None else f"(?{match[2] or 'i'}){match[1]}"


def groups(pattern: str) -> int:
    """Returns the number of groups of a pattern that `lacking` accepts."""
    return re.compile(pattern).groups


def escaped(text: str) -> str:
    """Returns the pattern of a text itself."""
    return "".join(_CONTROLS.get(sign, f"\\{sign}" if sign in _SIGNS else sign) for sign in text)
