"""Names of the programs of which sites can be moved."""

from __future__ import annotations

from enum import StrEnum


class MovedFrom(StrEnum):
    """Programs of which sites can be moved."""

    URLWATCH = "urlwatch"
    WEBCHANGES = "webchanges"
    CHANGEDETECTION = "changedetection"
