"""Prints the size of each package: files, lines of code, its largest file and its longest function.

CI prints it with every check, so that a package that grows too large is noticed at once:

    python benchmarks/sizes.py
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass
class RoomSize:
    """Sums over the Python files of one folder and those below it."""

    files: int = 0
    lines: int = 0
    largest: tuple[int, str] = (0, "")
    longest: tuple[int, str] = (0, "")

    def add(self, path: Path) -> None:
        """Adds a file."""
        source = path.read_text()
        tree = ast.parse(source)
        lines = code_lines(source, tree)
        self.files, self.lines = self.files + 1, self.lines + lines
        self.largest = max(self.largest, (lines, str(path.relative_to(ROOT))))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                self.longest = max(self.longest, (length, f"{path.stem}.{node.name}"))


def code_lines(source: str, tree: ast.AST) -> int:
    """Returns the number of lines without blank lines, comments and docstrings."""
    text = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = (line.strip() for number, line in enumerate(source.splitlines(), 1) if number not in text)
    return sum(1 for line in kept if line and not line.startswith("#"))


def room_of(path: Path) -> str:
    """Returns the folder that a file counts for: the one below pollerd for the product, else the top-level one."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[: 2 if parts[0] == "pollerd" and len(parts) > 2 else 1])


def main() -> None:
    """Prints the table."""
    rooms: dict[str, RoomSize] = {}
    for top in ("pollerd", "migrations", "benchmarks", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            rooms.setdefault(room_of(path), RoomSize()).add(path)
    print(f"{'room':24}{'files':>6}{'lines':>8}  largest file, longest function")
    for name, size in rooms.items():
        (most, file), (length, function) = size.largest, size.longest
        print(f"{name:24}{size.files:6}{size.lines:8,}  {file} {most}, {function} {length}")


if __name__ == "__main__":
    main()
