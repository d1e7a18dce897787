"""Migrations only add: the version before works with the schema of the next, so nodes can be upgraded one by one.

What is no longer used is removed a version later, in a migration that says from which schema on no program uses it, as
`REMOVES_WHAT_IS_UNUSED_SINCE = "0037"`: older nodes have to be stopped for it.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pollerd.storage import migrate

FOLDER = Path(__file__).resolve().parents[2] / "migrations/versions"
FIRST = "0036"
"""The first migration that has to keep the rule: those before it were made while one daemon at a time migrated."""
ADDS = frozenset({"create_table", "create_index", "add_column", "execute", "get_bind", "get_context", "f"})
REMOVING_SQL = ("DROP", "RENAME", "ALTER COLUMN", "SET NOT NULL")
UNUSED_SINCE = "REMOVES_WHAT_IS_UNUSED_SINCE"


def faults_of(source: str) -> list[str]:
    """What of a migration the version before could not work with."""
    if f"\n{UNUSED_SINCE} = " in f"\n{source}":
        return []
    tree = ast.parse(source)
    upgrade = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "upgrade")
    faults = []
    for call in ast.walk(upgrade):
        text = ast.unparse(call)
        if not isinstance(call, ast.Call) or not text.startswith("op."):
            continue
        name = text.removeprefix("op.").partition("(")[0]
        if name not in ADDS:
            faults.append(f"op.{name} does more than add")
        if name == "execute":
            faults += [f"{words} in op.execute" for words in REMOVING_SQL if words in text.upper()]
        if name == "add_column" and "nullable=False" in text and "server_default=" not in text:
            faults.append("op.add_column of a column that the version before would have to fill")
    return faults


KEPT_TO = [path for path in sorted(FOLDER.glob("0*.py")) if path.name[:4] >= FIRST]


@pytest.mark.parametrize("path", KEPT_TO, ids=lambda path: path.name)
def test_a_migration_only_adds(path: Path) -> None:
    assert faults_of(path.read_text()) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('op.drop_column("site", "x")', "op.drop_column does more than add"),
        ('op.alter_column("site", "x", nullable=False)', "op.alter_column does more than add"),
        ('op.rename_table("a", "b")', "op.rename_table does more than add"),
        ('op.execute("ALTER TABLE site RENAME COLUMN a TO b")', "RENAME in op.execute"),
        (
            'op.add_column("site", sa.Column("x", sa.Text, nullable=False))',
            "op.add_column of a column that the version before would have to fill",
        ),
        ('op.add_column("site", sa.Column("x", sa.Text, nullable=False, server_default=""))', None),
        ('op.add_column("site", sa.Column("x", sa.Text))', None),
        ('op.create_index("ix", "site", ["x"])', None),
    ],
)
def test_what_the_rule_finds(body: str, fault: str | None) -> None:
    source = f"def upgrade():\n    {body}\n"
    assert faults_of(source) == ([] if fault is None else [fault])
    if fault is not None and "add_column" not in fault:
        assert faults_of(f'{UNUSED_SINCE} = "0036"\n{source}') == []


def test_a_migration_that_removes_says_from_which_schema_on_nothing_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert migrate.oldest_supported() == "0035", "0036 and later only add"
    (tmp_path / "versions").mkdir()
    for name in ("0035_a", "0036_b", "0037_c", "0040_e"):
        (tmp_path / "versions" / f"{name}.py").write_text("")
    (tmp_path / "versions" / "0041_f.py").write_text(f'x = 1\n{UNUSED_SINCE} = "0037"\n')
    monkeypatch.setattr(migrate, "folder", lambda: tmp_path)
    assert migrate.oldest_supported() == "0037"
