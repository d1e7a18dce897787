"""The catalogue of texts is current, and translations fit it."""

from __future__ import annotations

import string
from typing import Any

from babel.messages.pofile import read_po
from catalogue import FILE, template

from pollerd import texts


def test_the_catalogue_is_current() -> None:
    assert FILE.read_bytes() == template(), "run `make catalogue`"


def test_translations_name_the_values_of_their_texts() -> None:
    for code in texts.CODES[1:]:
        with (FILE.parent / code / "LC_MESSAGES/pollerd.po").open("rb") as file:
            for message in read_po(file, locale=code):
                if message.python_brace_format:
                    known = set().union(*map(names_in, texts_of(message.id)))
                    assert set().union(*map(names_in, texts_of(message.string))) <= known, (code, message.id)


def texts_of(part: Any) -> tuple[str, ...]:
    return part if isinstance(part, tuple) else (part,)


def names_in(text: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name is not None}


def test_the_catalogue_has_texts_of_all_kinds() -> None:
    with FILE.open("rb") as file:
        entries = {message.id if isinstance(message.id, str) else message.id[0] for message in read_po(file)}
    kinds = {
        "{field}: must be {allowed}",
        "{count} poll",
        "%Y-%m-%d %H:%M",
        "Polling hours, as JSON.",
        "Add sites; all get the same settings.",
    }
    assert kinds <= {entry.partition("\n")[0] for entry in entries}
