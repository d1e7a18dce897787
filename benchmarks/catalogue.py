"""Writes `pollerd/locale/pollerd.pot`, the texts that a translation has (make catalogue).

They come from the calls of `_`, `n_` and `N_` in modules, templates and scripts, from the help of all commands, and
from the descriptions of the API. A translation begins as a copy, `pollerd/locale/LANG/LC_MESSAGES/pollerd.po`; with
`pybabel update -i pollerd/locale/pollerd.pot -d pollerd/locale -D pollerd` it follows the texts.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po
from wording import ROOT, api_texts, help_texts

FILE = ROOT / "pollerd/locale/pollerd.pot"
_KEYWORDS = {"_": None, "N_": None, "_parts": None, "n_": (1, 2), "gettext": None, "ngettext": (1, 2)}
_METHODS = [
    ("lab/**", "ignore"),
    ("**.py", "python"),
    ("web/templates/**.html", "jinja2"),
    ("web/assets/**.js", "javascript"),
]
_OPTIONS = {
    "web/templates/**.html": {"trimmed": "true", "silent": "false", "newstyle_gettext": "false"},
    "web/assets/**.js": {"parse_template_string": "true"},
}

Message = str | tuple[str, ...]


def messages() -> Iterator[tuple[str, Message]]:
    """Yields each text with the file that has it; of a text with a number, the one for 1 and the one for more."""
    for file, _line, message, _comments, _context in extract_from_dir(ROOT / "pollerd", _METHODS, _OPTIONS, _KEYWORDS):
        yield f"pollerd/{file}", message
    for text in help_texts():
        yield "pollerd/cli/commands.py", text.text
    for text in api_texts():
        yield "pollerd/api/openapi.py", text.text


def template() -> bytes:
    """Returns the file's contents."""
    catalogue = Catalog(project="pollerd", charset="utf-8")
    files: dict[Message, set[str]] = {}
    for file, message in messages():
        if message:
            files.setdefault(message, set()).add(file)
    for message in sorted(files, key=lambda key: (min(files[key]), key if isinstance(key, str) else key[0])):
        catalogue.add(message, locations=[(file, 0) for file in sorted(files[message])])
    written = io.BytesIO()
    write_po(written, catalogue, width=0, omit_header=True, include_lineno=False)
    return _HEADER + written.getvalue()


_HEADER = b"""\
# Texts of pollerd. Written by `make catalogue`: change them where they are used.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"

"""


def main() -> int:
    """Writes the file."""
    FILE.write_bytes(template())
    return 0


if __name__ == "__main__":
    sys.exit(main())
