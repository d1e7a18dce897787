"""Which test files a level of checking runs, and by which rule the others are left out.

| level | files |
|---|---|
| `test` | the quick ones: `.ci/times.txt` names those that take longer than `QUICK_SECONDS` |
| `check` | the quick ones, and the others that import something that changed since `make check-all` last passed |
| `all` | all |

What a file imports is read from the source: `import` statements wherever they stand, with the packages around a module;
strings that name a module, as in tables of lazily loaded commands; and for a test the conftest.py files above it. What
changed is what git reports since the commit in `.ci/checked`, including what is not committed. A changed file that is
not Python counts as its nearest package, and documentation as the tests of `tests/docs`. Any other file outside all
packages counts as everything.
"""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMES = ROOT / ".ci" / "times.txt"
CHECKED = ROOT / ".ci" / "checked"
QUICK_SECONDS = 1.7
LEVELS = ("test", "check", "all")
_SOURCES = ("pollerd/", "tests/", "benchmarks/")
_MIGRATIONS = "pollerd/storage/migrate.py"  # runs them
_DOCUMENTATION = (".md", ".png")
# Formatted as ruff does it. That a docstring may hold such a line, too, makes a test run that need not.
_FROM = re.compile(r"^[ \t]*from[ ]+([\w.]+)[ ]+import[ ]+(\([^)]*\)|[^\n]+)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ ]+([^\n]+)", re.MULTILINE)
_WORD = re.compile(r"[\w.]+")
_TEXT = re.compile(r"""["']([A-Za-z_][\w.]*)(?::\w+)?["']""")


@dataclass
class Choice:
    """Test files to run, the slowest first, and those left out with the reason.

    Attributes:
        files: Paths relative to the root.
        left_out: For each rule, the files it leaves out.
    """

    files: list[str] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def add(self, file: str, reason: str | None) -> None:
        """Takes a file, or leaves it out for a reason."""
        if reason is None:
            self.files.append(file)
        else:
            self.left_out.setdefault(reason, []).append(file)


def recorded_times() -> dict[str, float]:
    """Seconds that each file took when `pytest --note-times` ran last; files that are not named are quick."""
    if not TIMES.exists():
        return {}
    lines = (line.split() for line in TIMES.read_text().splitlines() if not line.startswith("#"))
    return {file: float(seconds) for seconds, file in lines}


def slow_files() -> set[str]:
    """Files that `make test` leaves out."""
    return {file for file, seconds in recorded_times().items() if seconds > QUICK_SECONDS}


def choose(level: str, files: Iterable[str], passed: Mapping[str, str] | None = None) -> Choice:
    """Decides for each of these test files (relative to the root) whether this level runs it.

    passed: digests (`digests`) with which files passed: those that would pass again are left out.
    """
    times, slow = recorded_times(), slow_files()
    by_time = sorted(files, key=lambda file: -times.get(file, 0.0))
    rules = {file: f"takes longer than {QUICK_SECONDS:g} s" for file in slow if level != "all"}
    if level == "check":
        commit = CHECKED.read_text().strip() if CHECKED.exists() else ""
        changed = changed_files(commit)
        touched = None if changed is None else reached_from(changed)
        rule = f"imports nothing that changed since {commit[:12]}, where make check-all passed"
        rules = {
            file: f"{why} and {rule}" for file, why in rules.items() if touched is not None and file not in touched
        }
    if passed is not None:
        known = digests()
        rules |= {file: "passed with the same files before" for file in by_time if passed.get(file) == known[file]}
    choice = Choice()
    for file in by_time:
        choice.add(file, rules.get(file))
    return choice


def changed_files(commit: str) -> list[str] | None:
    """Files that differ from this commit, committed or not; None where git does not know it."""
    try:
        changed = _git("diff", "--name-only", "--no-renames", commit or "unknown", "--")
        return changed + _git("ls-files", "--others", "--exclude-standard")
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def reached_from(changed: list[str]) -> set[str] | None:
    """Files whose imports lead to one of the changed ones; None for all files."""
    importers: dict[str, set[str]] = {}
    for file, imported in import_graph().items():
        for name in imported:
            importers.setdefault(name, set()).add(file)
    ahead: list[str] = []
    for file in changed:
        stands_for = _standing_for(file)
        if stands_for is None:
            return None
        ahead.extend(stands_for)
    reached: set[str] = set()
    while ahead:
        file = ahead.pop()
        if file not in reached:
            reached.add(file)
            ahead.extend(importers.get(file, ()))
    return reached


def _standing_for(file: str) -> tuple[str, ...] | None:
    """The Python files that a changed file counts as; None for everything."""
    if file.startswith("migrations/"):
        return (_MIGRATIONS,)
    if file.startswith(_SOURCES) and file.endswith(".py"):
        return (file,)
    if file.startswith(_SOURCES):
        for folder in Path(file).parents:
            if (ROOT / folder / "__init__.py").exists():
                return (str(folder / "__init__.py"),)
    if file.endswith(_DOCUMENTATION):
        return tuple(name for name in import_graph() if name.startswith("tests/docs/"))
    return () if file.startswith(".ci/") else None


def digests() -> dict[str, str]:
    """For each Python file, a digest of all files that the outcome of its tests depends on, by the rules above."""
    own: defaultdict[str, set[bytes]] = defaultdict(set)
    for file in _git("ls-files", "--cached", "--others", "--exclude-standard"):
        if (ROOT / file).is_file():
            content = hashlib.sha256(file.encode() + b"\0" + (ROOT / file).read_bytes()).digest()
            stands_for = _standing_for(file)
            for name in ("",) if stands_for is None else stands_for:
                own[name].add(content)
    graph = import_graph()

    def reached(file: str) -> set[str]:
        ahead, seen = [file], {""}
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead.extend(graph.get(name, ()))
        return seen

    tests = [file for file in graph if Path(file).name.startswith("test_")]
    contents = {file: sorted(content for name in reached(file) for content in own[name]) for file in tests}
    return {file: hashlib.sha256(b"".join(found)).hexdigest() for file, found in contents.items()}


@functools.cache
def import_graph() -> dict[str, set[str]]:
    """For each Python file of the product, the tests and the benchmarks, those of them that it imports."""
    modules: dict[str, str] = {}
    for folder in _SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            file = str(path.relative_to(ROOT))
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            modules[name] = file
    return {file: set(_imported(file, name, modules)) - {file} for name, file in modules.items()}


def _imported(file: str, module: str, modules: dict[str, str]) -> Iterator[str]:
    """Files of the modules that a file imports or names, and of the packages around them."""
    package = module if file.endswith("__init__.py") else module.rpartition(".")[0]
    room = ".".join(package.split(".")[:2])
    source = (ROOT / file).read_text()
    names = set()
    for base, listed in _FROM.findall(source):
        dots = len(base) - len(base.lstrip("."))
        above = package.split(".")[: len(package.split(".")) - dots + 1] if dots else []
        base = ".".join(filter(None, [*above, base.lstrip(".")]))
        names.update([base, *(f"{base}.{name}" for name in _WORD.findall(listed))])
    names.update(name for listed in _IMPORT.findall(source) for name in _WORD.findall(listed))
    if not file.startswith("pollerd/"):
        # Scripts of these folders import each other by their bare names, and tests run `python -m pollerd`.
        names.update([f"{folder}.{name}" for folder in ("benchmarks", "tests.cases") for name in names])
        names.update(f"{name}.__main__" for name in _TEXT.findall(source))
    for name in set(_TEXT.findall(source)):
        # Lazily loaded commands and experiments are named below their room or package.
        names.update(full for full in (name, f"{room}.{name}", f"{package}.{name}") if full in modules)
    if file.startswith("tests/"):  # whose fixtures come from the conftest.py files above them
        names.update(".".join([*folder.parts, "conftest"]) for folder in Path(file).parents)
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            if known := modules.get(".".join(parts[:length])):
                yield known
