"""Errors of calls to a daemon."""

from __future__ import annotations

from pollerd.errors import PollerdError


class CallError(PollerdError):
    """The daemon refuses the call, or an error on this side prevents it."""


class UnansweredError(CallError):
    """The daemon cannot be reached, is silent, or is temporarily unable to answer."""
