"""What was found in the last hour and day, beside what was expected."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.api.http.context import ApiPorts

_SPANS = (("Last hour", 3_600.0), ("Last day", 86_400.0))


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """One span. None: nothing is known of what was expected."""

    found: int
    covered: float
    """The share of the span for which it is known what was expected."""
    scheduled: float | None
    uniform: float | None
    best: float | None


async def found_spans(ports: ApiPorts, now: float) -> list[tuple[str, FoundSpan]]:
    """Returns the spans that end now (epoch s), with their names."""
    spans = []
    for name, seconds in _SPANS:
        known = await ports.store.history.yield_since(now - seconds)
        some = known.seconds > 0
        expected = (known.scheduled, known.uniform, known.best) if some else (None, None, None)
        spans.append((name, FoundSpan(known.found, min(known.seconds / seconds, 1.0), *expected)))
    return spans
