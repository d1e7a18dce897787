"""Examples of reads."""

from __future__ import annotations

from typing import Any

READS: dict[str, Any] = {
    "ReadsTaken": {
        "reads": 31,
        "unknown_sites": 0,
        "before_changes": 2,
        "other_changes": 0,
        "between_polls": 4,
        "repeated": False,
    },
    "SiteReads": {
        "reads": 1_204,
        "changes": 61,
        "last_read_at": "2026-01-31T12:00:00.000Z",
        "half_life": 5_400.0,
        "half_life_low": 4_700.0,
        "half_life_high": 6_200.0,
        "learned_half_life": 5_400.0,
        "in_words": "1,204 reads of 61 changes: interest halves in 1 h 30 min (90 % sure: 1 h 20 min to 1 h 40 min)",
    },
}
"""Schema -> example."""
