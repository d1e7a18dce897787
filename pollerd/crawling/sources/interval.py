"""How often a source is read where its user does not say: oftener while it brings news, seldomer while it does not."""

from __future__ import annotations

FIRST_SECONDS = {"sitemap": 6 * 3_600.0, "feed": 3_600.0}
LEAST_SECONDS = {"sitemap": 3_600.0, "feed": 900.0}
MOST_SECONDS = {"sitemap": 86_400.0, "feed": 43_200.0}
"""By kind."""
_SHORTER, _LONGER = 0.5, 1.5


def next_interval(kind: str, before: float | None, *, news: bool) -> float:
    """Returns the seconds until a source of this kind is read again.

    before: the interval that ends now, None: this was the first reading. news: whether the reading made a difference.
    Halved with news, half as long again without, within an hour and a day (feeds: a quarter and half a day).
    """
    if before is None:
        return FIRST_SECONDS[kind]
    return min(max(before * (_SHORTER if news else _LONGER), LEAST_SECONDS[kind]), MOST_SECONDS[kind])
