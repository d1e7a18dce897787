"""Every text for people, in the reader's language: `_("no site has the URL {url}", url=url)`.

A text is written in English where it is used, and looked up in the language of the context: that of the request, of
the command, or of the program. A translation is a file, `locale/LANG/LC_MESSAGES/pollerd.po`; its entries are those of
`locale/pollerd.pot`, which `make catalogue` writes. Without a translation a text costs the look at a variable.
"""

from __future__ import annotations

import io
import math
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any

ENGLISH = "en"
_FOLDER = Path(__file__).parent / "locale"
_FILE = "LC_MESSAGES/pollerd.po"
_MOST_EXAMPLES = 200
"""Numbers up to this one show which category has which plural."""
_MOST_RANGES = 50
"""Languages of a header that are read."""


class TextLanguage(NullTranslations):
    """English: each text stays as it is. Subclasses are the others."""

    code = ENGLISH
    separators: Mapping[int, str] = {}
    """What is written for the English thousands "," and decimals ".", for `str.translate`."""

    def plurals(self, one: str, many: str) -> dict[str, str]:
        """Returns the texts for numbers by CLDR's categories, which browsers know: "one", "few", "other" and so on."""
        return {"one": self.ngettext(one, many, 1), "other": self.ngettext(one, many, 2)}


class _Translated(GNUTranslations, TextLanguage):
    """A language that has a file."""

    def __init__(self, code: str, translation: Path) -> None:
        from babel.core import Locale
        from babel.messages.mofile import write_mo
        from babel.messages.pofile import read_po

        with translation.open("rb") as file:
            catalogue = read_po(file, locale=code)
        compiled = io.BytesIO()
        write_mo(compiled, catalogue)
        compiled.seek(0)
        super().__init__(compiled)
        self.code = code
        locale = Locale.parse(code)
        symbols = locale.number_symbols["latn"]
        self.separators = {ord(","): symbols["group"], ord("."): symbols["decimal"]}
        self._examples = {locale.plural_form(number): number for number in range(_MOST_EXAMPLES, -1, -1)}

    def plurals(self, one: str, many: str) -> dict[str, str]:
        texts = {category: self.ngettext(one, many, number) for category, number in self._examples.items()}
        return {"other": self.ngettext(one, many, _MOST_EXAMPLES), **texts}


_english = TextLanguage()
_of_program = _english
_of_context: ContextVar[TextLanguage | None] = ContextVar("language", default=None)
CODES = (ENGLISH, *sorted(file.parts[-3] for file in _FOLDER.glob(f"*/{_FILE}")))
"""Codes of all languages, such as "de" or "pt_BR": English, and those that have a file."""
LOADED: dict[str, TextLanguage] = {ENGLISH: _english}
"""The languages that were read, by their codes."""


def language(code: str) -> TextLanguage:
    """Returns a language of `CODES`, read at the first call, which can take a second; English for all others."""
    if code not in LOADED:
        LOADED[code] = translated(code, _FOLDER / code / _FILE) if code in CODES else _english
    return LOADED[code]


def translated(code: str, translation: Path) -> TextLanguage:
    """Returns the language of a file in gettext's format (.po)."""
    return _Translated(code, translation)


def current() -> TextLanguage:
    """Returns the language of the context."""
    return _of_context.get() or _of_program


def speak(spoken: TextLanguage) -> None:
    """Sets the language of the program: of messages, and of everything that no reader asked for."""
    global _of_program
    _of_program = spoken


@contextmanager
def speaking(spoken: TextLanguage) -> Iterator[None]:
    """Sets the language of the context, such as that of a request, while it lasts."""
    token = _of_context.set(spoken)
    try:
        yield
    finally:
        _of_context.reset(token)


def code_of_environment(environment: Mapping[str, str]) -> str:
    """Returns the code of the language that POSIX's variables name, first LC_ALL, then LC_MESSAGES, then LANG."""
    names = (environment.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return _nearest(next(filter(None, names), "").partition(".")[0].partition("@")[0]) or ENGLISH


def code_of_header(accept_language: str) -> str | None:
    """Returns the code of the language that a reader likes best (RFC 9110, 12.5.4); None if there is none of theirs."""
    liked = list[tuple[float, str]]()
    for part in accept_language.split(",")[:_MOST_RANGES]:
        tag, _semicolon, quality = part.partition(";")
        weight = quality.strip().removeprefix("q=") or "1"
        liked.append((float(weight) if weight.replace(".", "", 1).isdecimal() and weight.isascii() else 0.0, tag))
    best_first = sorted(liked, key=lambda entry: -entry[0])
    return next((code for weight, tag in best_first if weight > 0 and (code := _nearest(tag.strip()))), None)


def _nearest(tag: str) -> str | None:
    """Returns the code of a tag such as "de-AT", or of its language alone; None if there is no such language."""
    whole = tag.replace("-", "_").casefold()
    known = {code.casefold(): code for code in CODES}
    return known.get(whole) or known.get(whole.partition("_")[0])


# What the program calls. The names are those of gettext, which tools know.


class _Values(string.Formatter):
    """Formats values as `str.format` does, with numbers as the language writes them."""

    def __init__(self, separators: Mapping[int, str]) -> None:
        self._separators = separators

    def format_field(self, value: Any, format_spec: str) -> str:
        """Returns a value in words."""
        written = format(value, format_spec)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return written.translate(self._separators) if is_number else written


def _filled(translated: str, english: str, spoken: TextLanguage, values: Mapping[str, Any]) -> str:
    """Returns a translation with its values; the English text if the translation names a value that is not there."""
    try:
        return _Values(spoken.separators).vformat(translated, (), values)
    except (LookupError, ValueError, AttributeError):
        return english.format(**values)


def _(text: str, /, **values: Any) -> str:
    """Returns a text in the language of the context, with the values in its `{name}`s; without values as it is."""
    spoken = current()
    if spoken is _english:
        return text.format(**values) if values else text
    translated = spoken.gettext(text) if text else ""
    return _filled(translated, text, spoken, values) if values else translated


def n_(one: str, many: str, number: float, /, **values: Any) -> str:
    """Returns the text for a number in the language of the context.

    one, many: the text for 1 and for all others in English; a language can have more forms. `{count}` is the number,
    rounded to a whole one, with thousands, as in "1,204 lines".
    """
    spoken = current()
    english = one if (round(number, 0) if "{count}" in many else number) == 1 else many
    values["count"] = localised(f"{number:,.0f}")
    if spoken is _english:
        return english.format(**values)
    whole = round(number) if math.isfinite(number) else 0
    return _filled(spoken.ngettext(one, many, whole), english, spoken, values)


def recognised(stored: str, texts: Iterable[str]) -> tuple[str, Mapping[str, str]] | None:
    """Returns which of some texts a stored one was made from, with the values in it; None: none of them.

    texts: in English, with `{name}`s. The program wrote the stored one in its language, or in English before.
    """
    for text in texts:
        for written in (text, _of_program.gettext(text)):
            found = _pattern(written).fullmatch(stored)
            if found is not None:
                return text, found.groupdict()
    return None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts = string.Formatter().parse(template)
    return re.compile("".join(re.escape(text) + (f"(?P<{name}>.*)" if name else "") for text, name, *_more in parts))


def N_(text: str) -> str:  # noqa: N802 - gettext's name for it
    """Marks a text that `_` translates later, where it is shown, such as a constant of a module."""
    return text


def localised(english: str) -> str:
    """Returns a number as the language of the context writes it. english: as in "1,204.5"."""
    return english.translate(current().separators)
