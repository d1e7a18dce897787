"""What the house promises and no linter counts: sizes of folders, names of classes, constructors of the live daemon."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MIN_FILES, MAX_ARGUMENTS, MAX_POSITIONAL = 3, 7, 2


def classes(folder: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Public and private classes of the product at the top of a module."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield path, node


def test_a_folder_holds_at_least_three_modules() -> None:
    """One or two are modules of the folder above. The lab's experiments are named by their folders."""
    files = Counter(path.parent for path in (ROOT / "pollerd").rglob("*.py") if path.name != "__init__.py")
    assert len(files) > 20
    few = {folder: number for folder, number in files.items() if number < MIN_FILES}
    assert {str(folder): number for folder, number in few.items() if "lab" not in folder.parts} == {}


def test_no_two_classes_share_a_name() -> None:
    names = Counter(node.name for _, node in classes("pollerd") if not node.name.startswith("_"))
    assert len(names) > 300
    assert [name for name, number in names.items() if number > 1] == []


def test_constructors_of_the_daemon_are_short_and_say_what_they_take() -> None:
    """At most seven arguments; from three on all by keyword."""
    long, positional, seen = [], [], 0
    for path, node in classes("pollerd/daemon"):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                by_position, by_keyword = len(method.args.args) - 1, len(method.args.kwonlyargs)
                seen += 1
                where = f"{path.relative_to(ROOT)}: {node.name}"
                if by_position + by_keyword > MAX_ARGUMENTS:
                    long.append(where)
                if by_position > MAX_POSITIONAL:
                    positional.append(where)
    assert seen > 40
    assert (long, positional) == ([], [])


def test_every_extra_that_a_pinned_package_asks_for_is_pinned() -> None:
    """Pip looks at the newest version of an extra without a pin of its own, and has no hash for that one."""
    lines = (ROOT / "constraints-dev.txt").read_text().splitlines()
    pinned = [Requirement(line.removesuffix(" \\")) for line in lines if line[:1].isalnum()]
    assert len(pinned) > 50
    extras = {canonicalize_name(pin.name): pin.extras for pin in pinned}
    needs = [
        need
        for pin in pinned
        for need in map(Requirement, requires(pin.name) or ())
        if need.extras and (need.marker is None or need.marker.evaluate({"extra": ""}))
    ]
    assert needs
    assert [str(need) for need in needs if not need.extras <= extras[canonicalize_name(need.name)]] == []


def test_the_pins_of_the_browser_are_those_of_all_with_what_it_adds() -> None:
    """A package pinned in two files could be shipped in two versions, of which one is tested."""
    shipped, tested = (pins(f"constraints{of}.txt") for of in ("", "-dev"))
    lines = (ROOT / "constraints-browser.txt").read_text().splitlines()
    assert "-r constraints.txt" in lines
    added = pins("constraints-browser.txt")
    asked_for = [Requirement(line) for line in requires("pollerd") or ()]
    browser = {
        canonicalize_name(need.name) for need in asked_for if need.marker and need.marker.evaluate({"extra": "browser"})
    }
    assert browser
    assert browser <= added.keys() | shipped.keys()
    assert not added.keys() & shipped.keys()
    assert added.items() <= tested.items()
    assert sum("--hash=sha256:" in line for line in lines) >= len(added)


def pins(file: str) -> dict[str, str]:
    """Versions by package of a file that `pip-compile` wrote."""
    lines = (ROOT / file).read_text().splitlines()
    found = [Requirement(line.removesuffix(" \\")) for line in lines if line[:1].isalnum()]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in found}


PRIVATE_WORDS = frozenset(
    (
        *("appraisal", "appraiser", "bookkeeper", "brood", "discoverer", "errand", "fleet", "fringe", "hear", "heard"),
        *("heirs", "lesson", "lessons", "memories", "outlook", "roster", "succession", "swelling", "tally", "taught"),
        *("told", "twin", "twins", "unasked", "wish", "wishes", "workshop", "worth", "worthy"),
    )
)
"""Metaphors that the field has a term for: `docs/glossary.md` has the terms."""
NAMES_THAT_STAY = frozenset({"worth", "told_ttl", "told_rates", "told", "fringe", "fringe_share"})
"""Fields of REST, options of commands, and columns of reports, which users' programs and ledgers have."""


def test_names_are_the_fields_words() -> None:
    found = {
        (str(path.relative_to(ROOT)), token.string)
        for path in (ROOT / "pollerd").rglob("*.py")
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME and token.string not in NAMES_THAT_STAY
        if not PRIVATE_WORDS.isdisjoint(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", token.string).lower().split("_"))
    }
    assert found == set()


def test_tests_import_nothing_private() -> None:
    """Ruff sees private attributes (SLF001), but no imports of private names."""
    imports = (
        (path, node)
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pollerd")
    )
    names = [f"{path.name}: {name.name}" for path, node in imports for name in node.names]
    assert len(names) > 500
    translates = ": _"  # gettext's name
    assert [name for name in names if ": _" in name and ": __" not in name and not name.endswith(translates)] == []
