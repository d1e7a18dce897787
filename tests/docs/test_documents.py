"""The pages: links lead somewhere, citations have a reference, tables of numbers name the command that makes them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from doc_tables.pages import tables_of_numbers

from pollerd.lab.experiments.catalogue import experiments

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
CITATION = re.compile(r"(?<![\w\]\[(])\[([A-G])\](?![(\[])")


def anchor(heading: str) -> str:
    """The fragment that a heading gets."""
    words = re.sub(r"[^\w\- ]", "", heading.strip("# ").lower())
    return words.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        place, _, fragment = link.partition("#")
        if place.startswith(("http:", "https:", "mailto:")):
            continue
        target = (page.parent / place).resolve() if place else page
        found = target.exists() and ROOT in (target, *target.parents)
        if found and fragment and target.suffix == ".md":
            found = fragment in {anchor(line) for line in target.read_text().splitlines() if line.startswith("#")}
        if not found:
            broken.append(link)
    assert broken == []


def test_citations_have_a_reference() -> None:
    known = set(re.findall(r"^\| \[([A-Z])\] \|", (ROOT / "docs/references.md").read_text(), re.MULTILINE))
    cited = {
        letter
        for file in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("pollerd/**/*.py")]
        for letter in CITATION.findall(file.read_text())
    }
    assert cited <= known == set("ABCDE")


def test_tables_of_numbers_name_a_command_that_there_is() -> None:
    names, nameless, unknown = set(experiments()), [], []
    tables = tables_of_numbers(ROOT / "docs")
    for table in tables:
        if table.command is None:
            nameless.append(table.name)
            continue
        program, *words = table.command.split()
        if program == "pollerd":
            ok = bool(table.experiments) and set(table.experiments) <= names
        elif program == "make":
            ok = re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
        else:
            ok = program == "none:" or (ROOT / program).is_file()
        if not ok:
            unknown.append((table.name, table.command))
    assert (nameless, unknown) == ([], [])
    assert len(tables) > 80


def test_the_architecture_page_shows_the_rooms_in_the_order_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = [re.split(r" [|:] ", row) for row in contracts[0]["layers"]]
    picture = re.search(r"```\n(┌.*?┘)\n```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    assert picture is not None
    places = [picture[1].find(f"│ {room} ") for row in rows for room in row if room != "__main__"]
    names = [room for row in rows for room in row if room != "__main__"]
    shown = [picture[1].find(f" {name} ") for name in names]
    assert len(places) == len(shown)
    missing = [name for name, place in zip(names, shown, strict=True) if place < 0]
    assert missing in ([], ["list_document"])
    heights = [picture[1][:place].count("\n") for place in shown if place >= 0]
    assert heights == sorted(heights)


def test_the_architecture_page_names_files_that_there_are() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    assert named
    missing = {name for name in named if not (ROOT / name).exists() and not (ROOT / "pollerd" / name).exists()}
    assert missing == set()
