"""How a call to a daemon fails."""

from __future__ import annotations

from pollerd.errors import PollerdError


class CallError(PollerdError):
    """The daemon refuses the call, or something on this side stands in its way."""


class UnansweredError(CallError):
    """The daemon cannot be reached, is silent, or cannot do its work now."""
