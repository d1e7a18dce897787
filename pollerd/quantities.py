"""Durations, paces and shares as users write them (`90`, `1.5h`; `20/min`; `1%`), and numbers with their nouns."""

from __future__ import annotations

import math
import re

from pollerd.texts import N_, _

_NUMBER = r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(_NUMBER + r"\s*(s|min|m|h|d|)")
_PACE = re.compile(_NUMBER + r"\s*(?:/\s*(s|min|m|h|d))?")
_SHARE = re.compile(_NUMBER + r"\s*(%?)")
_BYTES = {"": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_SIZE = re.compile(_NUMBER + r"\s*(kib|mib|gib|)", re.IGNORECASE)

DURATION = N_("seconds, or a number with s, m, h or d, for example 30s or 1.5h")
PACE = N_("polls per second, or a number with /s, /min, /h or /d, for example 5 or 20/min")
SHARE = N_("a share, for example 0.01 or 1%")
SIZE = N_("a whole number of bytes, or a number with KiB, MiB or GiB, for example 10MiB")


def seconds(text: str) -> float:
    """Parses seconds from "90", "1.5h", "2d". Raises ValueError, whose text describes the allowed values."""
    match = _DURATION.fullmatch(text.strip())
    return _finite(math.nan if match is None else float(match[1]) * _SECONDS[match[2]], DURATION)


def per_second(text: str) -> float:
    """Parses polls per second from "5", "5/s", "20/min", "300/h", "5000/d". Raises ValueError as `seconds` does."""
    match = _PACE.fullmatch(text.strip())
    return _finite(math.nan if match is None else float(match[1]) / _SECONDS[match[2] or "s"], PACE)


def share(text: str) -> float:
    """Parses a share from "1%" or "0.01". Raises ValueError as `seconds` does."""
    match = _SHARE.fullmatch(text.strip())
    return _finite(math.nan if match is None else float(match[1]) / (100.0 if match[2] else 1.0), SHARE)


def in_bytes(text: str) -> int:
    """Parses a number of bytes from "1048576", "10MiB", "1.5 GiB". Raises ValueError as `seconds` does."""
    match = _SIZE.fullmatch(text.strip())
    value = _finite(math.nan if match is None else float(match[1]) * _BYTES[match[2].lower()], SIZE)
    if value != int(value):
        raise ValueError(_(SIZE))
    return int(value)


def _finite(value: float, allowed: str) -> float:
    if not math.isfinite(value):
        raise ValueError(_(allowed))
    return value


def duration(value: float) -> str:
    """Formats a finite number of seconds for `seconds`, in the largest unit in which it is 1 or more: 30s, 1.5h, 2d.

    Keeps three digits; durations below a second stay in seconds.
    """
    unit = next((u for u in ("d", "h", "m") if float(f"{abs(value):.3g}") >= _SECONDS[u]), "s")
    rounded = float(f"{value / _SECONDS[unit]:.3g}")
    return f"{rounded:.0f}{unit}" if abs(rounded) >= 100 else f"{rounded:g}{unit}"


def size(value: float) -> str:
    """Formats a number of bytes for `in_bytes`, in the largest of bytes, KiB, MiB and GiB in which it is 1 or more."""
    unit = next((power for power in (3, 2, 1) if value >= 1024**power), 0)
    return f"{value / 1024**unit:.3g} {('bytes', 'KiB', 'MiB', 'GiB')[unit]}"


def soon(seconds: float) -> str:
    """Formats a wait as in "in 3 s": rounded up, so that who waits for it does not come too early."""
    return _("in {seconds:,} s", seconds=max(math.ceil(seconds), 1))


def counted(number: float, thing: str, things: str | None = None) -> str:
    """Formats a number with its noun, as in "1 line" and "1,204 lines"; `things`: an irregular plural."""
    return f"{number:,.0f} {thing if round(number) == 1 else things or thing + 's'}"
