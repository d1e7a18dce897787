"""Secrets are made once, whole, and each for the one who reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pollerd.app.config import load

OWNERS = {
    "database_url": 10001,
    "database_password": 999,
    "token": 10001,
    "read_token": 10001,
    "secret_key": 10001,
    "grafana_admin_password": 472,
}


@pytest.fixture
def owners(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whom files were handed to; only root may really do it."""
    given: list[int] = []
    monkeypatch.setattr(os, "fchown", lambda _file, owner, _group: given.append(owner))
    return given


@pytest.fixture
def made(tmp_path: Path, make_secrets: ModuleType, owners: list[int]) -> Callable[[], dict[str, str]]:
    """Runs it on a folder: what lies there afterwards."""

    def run() -> dict[str, str]:
        make_secrets.main(tmp_path)
        return {file.name: file.read_text().strip() for file in tmp_path.iterdir()}

    return run


def test_all_are_made_and_none_twice(made: Callable[[], dict[str, str]], owners: list[int]) -> None:
    first = made()
    assert set(first) == set(OWNERS)
    assert len(set(first.values())) == len(first)
    assert all(len(text) >= 43 for text in first.values())
    assert sorted(owners) == sorted(OWNERS.values())
    assert made() == first
    assert len(owners) == len(OWNERS)


def test_only_their_owner_reads_them(made: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    made()
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o400}


def test_pollerd_takes_them(made: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    secrets = made()
    variables = {f"POLLERD_{name.upper()}_FILE": str(tmp_path / name) for name in ("token", "read_token")}
    config = load({}, environ={**variables, "POLLERD_DATABASE_FILE": str(tmp_path / "database_url")})
    assert len(config.api.tokens) == 2
    assert secrets["database_password"] in config.options.database


def test_a_deleted_token_is_made_anew(made: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    first = made()
    (tmp_path / "token").unlink()
    second = made()
    assert second["token"] != first["token"]
    assert {name for name in first if first[name] != second[name]} == {"token"}


def test_a_break_before_the_password_is_mended(made: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    made()
    (tmp_path / "database_password").unlink()
    (tmp_path / ".token.new").write_text("half")
    secrets = made()
    assert secrets["database_password"] in secrets["database_url"]


def test_a_lost_database_url_is_told(made: Callable[[], dict[str, str]], tmp_path: Path) -> None:
    made()
    (tmp_path / "database_url").unlink()
    with pytest.raises(SystemExit, match="database_url was deleted"):
        made()
