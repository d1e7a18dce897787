"""Reasons why no run here can check a table: it was measured on a machine, or on data that is not here."""

from __future__ import annotations

from doc_tables.pages import DocTable

_TIMES = "times or memory of a machine"
_LIVE = "a live daemon: what it asks for next hangs on how soon answers come in"
_PEERS = "live programs, on recorded pages that are not in this repository"
_DATA = "recorded histories that are not in this repository"
_WHY = {
    "benchmarks/allocators.py": _TIMES,
    "benchmarks/frontier.py": _TIMES,
    "benchmarks/head_to_head.py": _PEERS,
    "benchmarks/light_load.py": _TIMES,
    "benchmarks/notification_cost.py": _TIMES,
    "benchmarks/recall.py": _PEERS,
    "benchmarks/scale.py": _TIMES,
    "benchmarks/selection_cost.py": _TIMES,
    "make bench": _TIMES,
    "pollerd reproduce gpoks-8.1": _TIMES,
    "benchmarks/crawl.py": _LIVE,
    "benchmarks/histories.py": _DATA,
    "benchmarks/short_horizon.py": _DATA,
    "benchmarks/short_lists.py": _DATA,
}


def why_not_compared(table: DocTable) -> str | None:
    """Returns the reason, or None if a run can check it; a command that is `none: WHY` gives its own."""
    command = table.command or ""
    if command.startswith("none:"):
        return command.removeprefix("none:").strip()
    return next((why for begin, why in _WHY.items() if f"{command} ".startswith(f"{begin} ")), None)
