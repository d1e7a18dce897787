"""Addresses of our own pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode


def query(**parts: Any) -> str:
    """Returns the parts that are given as a query, with its question mark."""
    return f"?{urlencode({name: value for name, value in parts.items() if value not in (None, '', False)})}"


def within(address: str, root: str) -> str:
    """Returns an address that was sent, if it is at `root` or below; else `root`."""
    return address if address == root or address.startswith((f"{root}/", f"{root}?")) else root


def ours(address: str) -> str:
    """Returns an address that was sent, if it is a path of ours that browsers take for no other host; else "/"."""
    is_path = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if is_path and address.isprintable() else "/"
