"""docs/settings.md shows both tables of settings as they are declared: `WRITE_DOCS=1 pytest` of this file writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pollerd.app.options import OPTIONS, Applies, Option
from pollerd.site_settings import INHERITED, SITE_SETTINGS, Kind, Setting

PAGE = Path(__file__).resolve().parents[2] / "docs/settings.md"


def line_of(option: Option) -> str:
    flag = f"`{option.flag_name}`" if option.name != "urls" else "`URLS`, the argument"
    default = option.default_text
    if default and option.default is not None and option.kind in (Kind.TEXT, Kind.CHOICE, Kind.TRUST):
        default = f"`{default}`"
    said = [option.help.removesuffix("."), option.more]
    if option.applies is Applies.RESTART:
        said.append("in force after a restart")
    return f"| {flag} | {default} | {'; '.join(part for part in said if part)} |"


def row_of(name: str, setting: Setting) -> str:
    default = "as the daemon's" if name in OPTIONS else ""
    if setting.default not in (None, ""):
        default = f"{setting.default:g}"
    allowed = "" if setting.range is None else setting.range.allowed
    said = setting.help or setting.cli.removesuffix(".")
    return (
        f"| `{name}` | {'yes' if name in INHERITED else 'no'} | {default} | {allowed} | {said[0].upper()}{said[1:]} |"
    )


def tables() -> dict[str, str]:
    """Each table by its first line."""
    options = ["| flag | default | meaning |", "|---|---|---|", *(line_of(one) for one in OPTIONS.values())]
    described = {name: one for name, one in SITE_SETTINGS.items() if one.help or one.cli}
    settings = [
        "| setting | tags can have it | default | allowed | meaning |",
        "|---|---|---|---|---|",
        *(row_of(name, one) for name, one in described.items()),
    ]
    return {lines[0]: "\n".join(lines) for lines in (options, settings)}


def with_tables(page: str) -> str:
    """The page with each table in place of the one that begins with the same line."""
    for first, table in tables().items():
        before, found, rest = page.partition(f"{first}\n")
        assert found, first
        after = rest.partition("\n\n")[2]
        page = f"{before}{table}\n\n{after}"
    return page


def test_the_page_has_every_setting_as_it_is_declared() -> None:
    page = PAGE.read_text()
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(with_tables(page))
        pytest.skip("the page was written")
    assert page == with_tables(page)
