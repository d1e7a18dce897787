"""What lies in deploy/ and at the top, as tests read it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).resolve().parents[2]


def script(path: Path) -> ModuleType:
    """A program that is no part of the package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def top() -> Path:
    """The checkout."""
    return TOP


@pytest.fixture(scope="session")
def check_queries() -> ModuleType:
    """deploy/check_queries.py."""
    return script(TOP / "deploy" / "check_queries.py")


@pytest.fixture(scope="session")
def make_secrets() -> ModuleType:
    """deploy/docker/make_secrets.py."""
    return script(TOP / "deploy" / "docker" / "make_secrets.py")
