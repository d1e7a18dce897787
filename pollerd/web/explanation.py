"""Why a page is polled as it is, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pollerd.api.sites import SiteSchema
from pollerd.daemon.views import ComingChangesView, ExplanationView, FeedView
from pollerd.planning import about
from pollerd.quantities import counted
from pollerd.web.standing import POLLS_TO_LEARN
from pollerd.web.words import Moment, Part, Sentence, Strong, how_often, percent

_FAR_FROM_SURE = 10.0
_ESTIMATED_RANKS = 16_384
_DRIFTING = 0.5
_LIVELIER, _QUIETER = 1.5, 1 / 1.5
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def words(explained: ExplanationView, page: SiteSchema, now: float, *, sites: int = 0) -> list[Sentence]:
    """Returns the sentences that explain the polling of a page at time `now` (epoch s), among so many `sites`."""
    sentences = [_rate(explained, page), _coming_month(explained.next_30_days), _now(explained, page, now, sites)]
    sentences += [_pace(explained, now), _waiting(explained, page)]
    if explained.capped_to_uniform:
        sentences.append(
            ("It differs at nearly every poll. So that it does not eat the budget it gets what every page gets.",)
        )
    sentences += _feed(explained.feed)
    sentences += _notes(explained.notes)
    return [sentence for sentence in sentences if sentence]


def half_life_in_words(explained: ExplanationView) -> str:
    """Returns which half-life holds for a page whose changes are read, and why."""
    life, origin = about(explained.half_life_in_force), explained.origins.get("half_life", "")
    if origin == "reads":
        return f"Under the objective interest it is polled by a half-life of {life}, which was learned from them."
    if origin == "default":
        return f"The usual half-life of {life} holds: that of the reads hardly differs."
    of = "its own settings" if origin == "site" else origin
    return f"A half-life of {life} is given by {of}, and holds whatever reads say."


def _rate(explained: ExplanationView, page: SiteSchema) -> Sentence:
    rate = explained.rate_per_day
    if page.polls < POLLS_TO_LEARN or rate is None:
        source = explained.notes.get("prior_source", "")
        return (f"We have not seen enough of it yet; until then we assume what is usual here{_from(source)}.",)
    low, high = explained.rate_low_per_day, explained.rate_high_per_day
    if low is not None and high is not None and not low <= rate <= high:
        # The mean of a skew belief, which a small chance of a much higher rate moves.
        between = Strong(f"between {how_often(low)} and {how_often(high)}")
        return ("It changes ", between, f" (90 % sure); with rare bursts {how_often(rate)} on average.")
    said: list[Part] = ["It changes about ", Strong(how_often(rate))]
    if low is None or high is None:
        said.append(". This allocator does not say how sure it is.")
    elif high > _FAR_FROM_SURE * max(low, 0.0):
        said.append(
            f", but we are far from sure (between {how_often(low)} and {how_often(high)}). More polls will tell."
        )
    else:
        said.append(f" (90 % sure: between {how_often(low)} and {how_often(high)}).")
    return tuple(said)


def _coming_month(coming: ComingChangesView | None) -> Sentence:
    if coming is None:
        return ()
    if not coming.high:
        return ("In the coming month it will probably not change.",)
    times = f"{coming.low:,} to {coming.high:,} times" if coming.low else f"at most {counted(coming.high, 'time')}"
    return ("In the coming month it will change ", Strong(times), " (90 % sure).")


def _from(source: str) -> str:
    return f" ({source})" if source else ""


def _now(explained: ExplanationView, page: SiteSchema, now: float, sites: int) -> Sentence:
    if page.last_poll_at is None:
        return ("It was not polled yet.",)
    said: list[Part] = ["The last poll was ", Strong(f"{about(max(now - page.last_poll_at, 0.0))} ago")]
    if explained.change_probability is not None and page.polls >= POLLS_TO_LEARN:
        said += ["; the chance that it has changed since is ", Strong(percent(explained.change_probability))]
    said.append(".")
    if explained.rank is not None and explained.rank > 1:
        estimated = "About " if sites > _ESTIMATED_RANKS else ""
        more = explained.rank - 1
        said.append(f" {estimated}{counted(more, 'page')} {'is' if more == 1 else 'are'} more urgent.")
    return tuple(said)


def _pace(explained: ExplanationView, now: float) -> Sentence:
    interval = explained.expected_interval
    if interval is None or explained.next_poll_at is None:
        return ()
    said: list[Part] = ["At this budget it is polled ", Strong(f"about every {about(interval)}")]
    if explained.budget_share is not None:
        said.append(f" and takes {percent(explained.budget_share)} of the budget")
    said.append(".")
    if explained.min_saving_in_force:
        said.append(f" Each check is to bring news {about(explained.min_saving_in_force)} sooner.")
    if explained.next_expected_poll_at is not None and explained.next_expected_poll_at < now + 1.0:
        said.append(" Next: at any moment.")
    elif explained.next_expected_poll_at is not None:
        said += [" Next: about ", Moment(explained.next_expected_poll_at), "."]
    return tuple(said)


def _waiting(explained: ExplanationView, page: SiteSchema) -> Sentence:
    """Returns what keeps it from being polled this moment."""
    reason = explained.why_not_now
    if reason is None:
        return ("It may be polled at any moment; it waits only because others are more urgent.",)
    for start, sentence in _REASONS.items():
        if reason.startswith(start):
            return sentence(explained, page)
    if explained.failures and " after " in reason:
        return _failing(explained, page)
    return (f"Not now: {reason}.",)


def _failing(explained: ExplanationView, page: SiteSchema) -> Sentence:
    number = "The last poll" if explained.failures == 1 else f"The last {explained.failures:,} polls"
    detail = f" ({page.last_detail})" if page.last_detail else ""
    return (f"{number} failed{detail}.", *_again(explained), " Waits grow with each failure.")


def _again(explained: ExplanationView, words: str = " Next try: ") -> tuple[Part, ...]:
    at = explained.next_poll_at
    return () if at is None else (words, Moment(at), ".")


def _name(explained: ExplanationView) -> str:
    return explained.host.rpartition(":")[0] or explained.host


def _host_asked(explained: ExplanationView, page: SiteSchema) -> Sentence:
    at = explained.next_poll_at
    until: tuple[Part, ...] = () if at is None else (" until ", Moment(at))
    return (f"{_name(explained)} asked to be left alone", *until, ".")


def _min_interval(explained: ExplanationView, page: SiteSchema) -> Sentence:
    if page.min_interval is None:
        return ("Its shortest interval is not over.", *_again(explained, " It may be polled again from "))
    origin = explained.origins.get("min_interval", "")
    whence = f" (from {origin})" if origin.startswith("tag ") else ""
    return (
        f"Its shortest interval is {about(page.min_interval)}{whence}.",
        *_again(explained, " It may be polled again from "),
    )


def _closed(explained: ExplanationView, page: SiteSchema) -> Sentence:
    return ("It may be polled only in its windows", *_again(explained, "; next at "))


def _least(explained: ExplanationView) -> Sentence:
    """Says what a poll has to be worth, as the reason does behind its time."""
    said = (explained.why_not_now or "").rpartition("Z: ")[2]
    return ("It is too early for a poll to be worth it (", said or "min_saving", ").")


_REASONS: Mapping[str, Callable[[ExplanationView, SiteSchema], Sentence]] = {
    "paused by the user": lambda *_: ("You paused it.",),
    "the server said 410": lambda e, _: (
        "The server said it is gone (410); it is checked again rarely.",
        *_again(e, " Next at "),
    ),
    "a poll is under way": lambda *_: ("It is being polled right now.",),
    "closed until": _closed,
    "its address is private": lambda *_: (
        "Its address is a private one, and the daemon runs without --allow-private.",
    ),
    "its host was paused": lambda e, _: (f"Somebody paused {_name(e)}.",),
    "the host asked": _host_asked,
    "robots.txt is unreachable": lambda e, _: (
        f"We could not read the robots.txt of {_name(e)}, so we hold back.",
        *_again(e),
    ),
    "another request": lambda e, _: (f"Another request to {_name(e)} is under way.",),
    "the host's interval": lambda e, _: (f"We wait between requests to {_name(e)}.", *_again(e, " Ready at ")),
    "its change waits": lambda *_: ("Something was new; we look again before we call it a change.",),
    "held to the uniform": lambda e, _: ("It waits for its share of the budget.", *_again(e, " Next at ")),
    "its max-age": lambda e, _: ("The page said how long it stays as it is.", *_again(e, " Next at ")),
    "probably unchanged": lambda e, _: (
        *_least(e),
        *_again(e, " Next at "),
    ),
    "its min_interval": _min_interval,
}


def _feed(feed: FeedView | None) -> list[Sentence]:
    """Returns what a feed shows, and whether it may have dropped items before we saw them."""
    if feed is None:
        return []
    shown: list[Part] = ["It shows ", Strong(counted(feed.items, "item"))]
    if feed.new is not None:
        shown.append(f", {feed.new:,} new at the last poll")
    if not feed.limited:
        shown.append("; it has not dropped any yet")
    elif feed.full_after is not None:
        shown.append(f"; all are new after about {about(feed.full_after)}")
    said: list[Sentence] = [(*shown, ".")]
    if feed.full_polls:
        polls = counted(feed.full_polls, "poll")
        said.append((f"At {polls} every item was new: ", Strong("items may have been lost"), "."))
    return said


def _notes(notes: Mapping[str, str]) -> list[Sentence]:
    said: list[Sentence] = []
    profile, drift = (_number(notes.get(name)) for name in ("profile", "drift"))
    if profile is not None and profile <= _QUIETER:
        said.append(("All pages are quieter than usual now.",))
    elif profile is not None and profile >= _LIVELIER:
        said.append(("All pages are livelier than usual now.",))
    if drift is not None and drift > _DRIFTING:
        said.append(("Its rhythm has been changing.",))
    if signals := notes.get("signals"):
        said.append((f"Others say when it changes: {signals}.",))
    return said


def _number(text: str | None) -> float | None:
    found = _NUMBER.search(text or "")
    return None if found is None else float(found[0])
