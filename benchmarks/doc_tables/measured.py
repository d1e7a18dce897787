"""Reasons why no run here can check a table: it was measured on a machine, or on data that is not here."""

from __future__ import annotations

from doc_tables.pages import DocTable

_TIMES = "times or memory of a machine"
_LIVE = "a live daemon: what it asks for next hangs on how soon answers come in"
_PEERS = "live programs, on recorded pages that are not in this repository"
_DATA = "recorded histories that are not in this repository"
_SIMULATED = "a simulation of half an hour; tests/lab/test_planned.py holds what it shows"
_SEEDED = "a simulation of minutes that prints its shares; whoever runs it with these seeds compares them"
_WHY = {
    "benchmarks/allocators.py": _TIMES,
    "benchmarks/detection_instructions.py": _TIMES,
    "benchmarks/event_order.py": _TIMES,
    "benchmarks/finite_feeds.py --histories": _DATA,
    "benchmarks/finite_feeds.py": _SEEDED,
    "benchmarks/item_rates.py --histories": _DATA,
    "benchmarks/item_rates.py": _SEEDED,
    "benchmarks/frontier.py": _TIMES,
    "benchmarks/head_to_head.py": _PEERS,
    "benchmarks/hostile_selections.py": _TIMES,
    "benchmarks/light_load.py": _TIMES,
    "benchmarks/live_nodes.py": _LIVE,
    "benchmarks/mass_shift.py": _SEEDED,
    "benchmarks/picker.py": _DATA,
    "benchmarks/postgres_throughput.py": _TIMES,
    "benchmarks/notification_cost.py": _TIMES,
    "benchmarks/planned.py": _SIMULATED,
    "benchmarks/proof_delay.py": _TIMES,
    "benchmarks/proof_histories.py": _DATA,
    "benchmarks/recall.py": _PEERS,
    "benchmarks/reads.py": _SEEDED,
    "benchmarks/scale.py": _TIMES,
    "benchmarks/selection_cost.py": _TIMES,
    "benchmarks/served_signals.py": _LIVE,
    "benchmarks/signals_histories.py": _DATA,
    "benchmarks/signals_pull.py": _SEEDED,
    "benchmarks/signals_push.py": _SEEDED,
    "benchmarks/signals_scale.py": _TIMES,
    "benchmarks/site_list.py": _TIMES,
    "make bench": _TIMES,
    "pollerd reproduce gpoks-8.1": _TIMES,
    "benchmarks/crawl.py": _LIVE,
    "benchmarks/histories.py": _DATA,
    "benchmarks/short_horizon.py": _DATA,
    "benchmarks/short_lists.py": _DATA,
    "benchmarks/split_budget.py": _DATA,
    "benchmarks/split_known_rates.py": _SEEDED,
    "benchmarks/timely.py --histories": _DATA,
    "benchmarks/timely.py": _SEEDED,
    "benchmarks/web_pages.py": _TIMES,
}


def why_not_compared(table: DocTable) -> str | None:
    """Returns the reason, or None if a run can check it; a command that is `none: WHY` gives its own."""
    command = table.command or ""
    if command.startswith("none:"):
        return command.removeprefix("none:").strip()
    return next((why for begin, why in _WHY.items() if f"{command} ".startswith(f"{begin} ")), None)
