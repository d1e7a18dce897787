"""Where urlwatch and webchanges differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the two programs."""

    name: str
    joins_tables: bool
    """Whether headers and cookies of the defaults and of a job are joined key by key, else replaced as a whole."""
    markdown: bool
    """Whether `html2text` means Markdown where nothing else is said, else plain text."""
    shell_kind: str
    """The key of programs' defaults."""


URLWATCH = Dialect("urlwatch", False, False, "shell")
WEBCHANGES = Dialect("webchanges", True, True, "command")
