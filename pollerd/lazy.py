"""Loads the public names of a package on first use (PEP 562).

Importing `pollerd.storage.settings` runs `pollerd/storage/__init__.py` first. If that imported the whole package, a
command that only checks a number would load SQLAlchemy. So a package keeps its public names in `public.py`, and its
`__init__.py` exports them by `names_of`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def names_of(package: str) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package: exports the names of its module `public`, not submodules."""

    def get(name: str) -> Any:
        if name.startswith("__") or find_spec(f"{package}.{name}") is not None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.public"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
