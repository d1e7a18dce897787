"""The allocators' names alone: who only checks or lists them need not load the policies."""

from __future__ import annotations

NAMES = (
    "whittle",
    "htraa",
    "lspe",
    "lakg",
    "gpoks",
    "estimator",
    "proportional",
    "optimal",
    "ucb1-raw",
    "ucb1",
    "thompson",
    "gp-ucb",
    "uniform",
)
"""As `names()` of the registry, the default first; a test compares them."""
