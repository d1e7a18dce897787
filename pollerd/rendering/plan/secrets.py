"""Takes the secrets out of a plan's document, so that they are sealed apart from it and shown to nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SEALED = "(sealed)"
"""Stands in a document in the place of a secret."""


def secret_positions(document: object) -> tuple[int, ...]:
    """Returns the positions of steps that hold a secret, from 0."""
    steps = document.get("steps", ()) if isinstance(document, Mapping) else ()
    if not isinstance(steps, list | tuple):
        return ()
    return tuple(at for at, step in enumerate(steps) if isinstance(step, Mapping) and "secret" in step)


def split_secrets(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns a document that `compile_plan` took, with `SEALED` for each secret, and the secrets in order."""
    positions = secret_positions(document)
    if not positions:
        return dict(document), ()
    steps = [dict(step) for step in document["steps"]]
    found = tuple(str(steps[at]["secret"]) for at in positions)
    for at in positions:
        steps[at]["secret"] = SEALED
    return {**document, "steps": steps}, found


def join_secrets(document: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """Returns the document with its secrets again, as `split_secrets` took them out. Raises `ValueError` if they are
    not as many.
    """
    positions = secret_positions(document)
    if len(positions) != len(secrets):
        raise ValueError(f"{len(positions)} places for {len(secrets)} secrets")
    if not positions:
        return dict(document)
    steps = [dict(step) for step in document["steps"]]
    for at, secret in zip(positions, secrets, strict=True):
        steps[at]["secret"] = secret
    return {**document, "steps": steps}
