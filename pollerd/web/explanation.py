"""Why a page is polled as it is, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pollerd.api.sites import SiteSchema
from pollerd.daemon.views import ExplanationView, FeedView
from pollerd.planning import about
from pollerd.texts import _, n_
from pollerd.web.standing import POLLS_TO_LEARN
from pollerd.web.words import Moment, Part, Sentence, Strong, how_often, percent

_FAR_FROM_SURE = 10.0
_ESTIMATED_RANKS = 16_384
_DRIFTING = 0.5
_LIVELIER, _QUIETER = 1.5, 1 / 1.5
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def words(explained: ExplanationView, page: SiteSchema, now: float, *, sites: int = 0) -> list[Sentence]:
    """Returns the sentences that explain the polling of a page at time `now` (epoch s), among so many `sites`."""
    sentences = [_rate(explained, page), _coming_month(explained, page), _now(explained, page, now, sites)]
    sentences += [_pace(explained, now), _waiting(explained, page)]
    if explained.capped_to_uniform:
        sentences.append(
            (_("It differs at nearly every poll. So that it does not eat the budget it gets what every page gets."),)
        )
    sentences += _feed(explained.feed)
    sentences += _notes(explained.notes)
    return [sentence for sentence in sentences if sentence]


def half_life_in_words(explained: ExplanationView) -> str:
    """Returns which half-life holds for a page whose changes are read, and why."""
    life, origin = about(explained.half_life_in_force), explained.origins.get("half_life", "")
    if origin == "reads":
        return _(
            "Under the objective interest it is polled by a half-life of {life}, which was learned from them.",
            life=life,
        )
    if origin == "default":
        return _("The usual half-life of {life} holds: that of the reads hardly differs.", life=life)
    of = _("its own settings") if origin == "site" else origin
    return _("A half-life of {life} is given by {of}, and holds whatever reads say.", life=life, of=of)


def _rate(explained: ExplanationView, page: SiteSchema) -> Sentence:
    rate = explained.rate_per_day
    if page.polls < POLLS_TO_LEARN or rate is None:
        source = explained.notes.get("prior_source", "")
        return (
            _(
                "We have not seen enough of it yet; until then we assume what is usual here{from_}.",
                from_=_from(source),
            ),
        )
    low, high = explained.rate_low_per_day, explained.rate_high_per_day
    if not page.changes:  # a rate, and more so the start of it, would contradict what was seen
        seen = n_("No change was found in {count} check.", "No change was found in {count} checks.", page.polls)
        if high is None:
            return (seen,)
        return (seen, _(" If it changes, then at most "), Strong(how_often(high)), _(" (95 % sure)."))
    if low is not None and high is not None and not low <= rate <= high:
        # The mean of a skew belief, which a small chance of a much higher rate moves.
        between = Strong(_("between {low} and {high}", low=how_often(low), high=how_often(high)))
        return (
            _("It changes "),
            between,
            _(" (90 % sure); with rare bursts {how_often} on average.", how_often=how_often(rate)),
        )
    parts: list[Part] = [_("It changes about "), Strong(how_often(rate))]
    if low is None or high is None:
        parts.append(_(". This allocator does not say how sure it is."))
    elif high > _FAR_FROM_SURE * max(low, 0.0):
        parts.append(
            _(
                ", but this is far from certain (between {low} and {high}). More checks will show.",
                low=how_often(low),
                high=how_often(high),
            )
        )
    else:
        parts.append(
            _(
                " (90 % sure: between {low} and {high}).",
                low=how_often(low),
                high=how_often(high),
            )
        )
    return tuple(parts)


def _coming_month(explained: ExplanationView, page: SiteSchema) -> Sentence:
    coming = explained.next_30_days
    if coming is None or (coming.high and not page.changes):
        return ()
    if not coming.high:
        return (_("In the coming month it will probably not change."),)
    times = (
        _("{low:,} to {high:,} times", low=coming.low, high=coming.high)
        if coming.low
        else n_("at most {count} time", "at most {count} times", coming.high)
    )
    return (_("In the coming month it will change "), Strong(times), " (90 % sure).")


def _from(source: str) -> str:
    return f" ({source})" if source else ""


def _now(explained: ExplanationView, page: SiteSchema, now: float, sites: int) -> Sentence:
    if page.last_poll_at is None:
        return (_("It was not polled yet."),)
    parts: list[Part] = [
        _("The last poll was "),
        Strong(_("{span} ago", span=about(max(now - page.last_poll_at, 0.0)))),
    ]
    if explained.change_probability is not None and page.polls >= POLLS_TO_LEARN:
        parts += [_("; the chance that it has changed since is "), Strong(percent(explained.change_probability))]
    parts.append(".")
    if explained.rank is not None and explained.rank > 1:
        estimated = "About " if sites > _ESTIMATED_RANKS else ""
        more = explained.rank - 1
        parts.append(
            n_(
                " {estimated}{count} page {more} more urgent.",
                " {estimated}{count} pages {more} more urgent.",
                more,
                estimated=estimated,
                more="is" if more == 1 else "are",
            )
        )
    return tuple(parts)


def _pace(explained: ExplanationView, now: float) -> Sentence:
    interval = explained.expected_interval
    if interval is None or explained.next_poll_at is None:
        return ()
    parts: list[Part] = [
        _("At this budget it is polled "),
        Strong(_("about every {interval}", interval=about(interval))),
    ]
    if explained.budget_share is not None:
        parts.append(_(" and takes {budget_share} of the budget", budget_share=percent(explained.budget_share)))
    parts.append(".")
    if explained.min_saving_in_force:
        parts.append(
            _(
                " Each check is to bring news {min_saving_in_force} sooner.",
                min_saving_in_force=about(explained.min_saving_in_force),
            )
        )
    if explained.next_expected_poll_at is not None and explained.next_expected_poll_at < now + 1.0:
        parts.append(_(" Next: at any moment."))
    elif explained.next_expected_poll_at is not None:
        parts += [_(" Next: about "), Moment(explained.next_expected_poll_at), "."]
    return tuple(parts)


def _waiting(explained: ExplanationView, page: SiteSchema) -> Sentence:
    """Returns what keeps it from being polled this moment."""
    reason = explained.why_not_now
    if reason is None:
        return (_("It may be polled at any moment; it waits only because others are more urgent."),)
    for start, sentence in _REASONS.items():
        if reason.startswith(start):
            return sentence(explained, page)
    if explained.failures and " after " in reason:
        return _failing(explained, page)
    return (_("Not now: {reason}.", reason=reason),)


def _failing(explained: ExplanationView, page: SiteSchema) -> Sentence:
    number = (
        _("The last poll") if explained.failures == 1 else _("The last {failures:,} polls", failures=explained.failures)
    )
    detail = f" ({page.last_detail})" if page.last_detail else ""
    return (f"{number} failed{detail}.", *_again(explained), _(" Waits grow with each failure."))


def _again(explained: ExplanationView, words: str = " Next try: ") -> tuple[Part, ...]:
    at = explained.next_poll_at
    return () if at is None else (words, Moment(at), ".")


def _name(explained: ExplanationView) -> str:
    return explained.host.rpartition(":")[0] or explained.host


def _host_asked(explained: ExplanationView, page: SiteSchema) -> Sentence:
    at = explained.next_poll_at
    until: tuple[Part, ...] = () if at is None else (" until ", Moment(at))
    return (_("{explained} asked to be left alone", explained=_name(explained)), *until, ".")


def _min_interval(explained: ExplanationView, page: SiteSchema) -> Sentence:
    if page.min_interval is None:
        return (_("Its shortest interval is not over."), *_again(explained, _(" It may be polled again from ")))
    origin = explained.origins.get("min_interval", "")
    whence = f" (from {origin})" if origin.startswith("tag ") else ""
    return (
        _("Its shortest interval is {min_interval}{whence}.", min_interval=about(page.min_interval), whence=whence),
        *_again(explained, _(" It may be polled again from ")),
    )


def _closed(explained: ExplanationView, page: SiteSchema) -> Sentence:
    return (_("It may be polled only in its windows"), *_again(explained, _("; next at ")))


def _least(explained: ExplanationView) -> Sentence:
    """Says what a poll has to be worth, as the reason does behind its time."""
    reason = (explained.why_not_now or "").rpartition("Z: ")[2]
    return (_("It is too early for a poll to be worth it ("), reason or "min_saving", ").")


_REASONS: Mapping[str, Callable[[ExplanationView, SiteSchema], Sentence]] = {
    "paused by the user": lambda _explained, _page: (_("You paused it."),),
    "the server said 410": lambda explained, _page: (
        _("The server said it is gone (410); it is checked again rarely."),
        *_again(explained, _(" Next at ")),
    ),
    "a poll is under way": lambda _explained, _page: (_("It is being polled right now."),),
    "closed until": _closed,
    "its address is private": lambda _explained, _page: (
        _("Its address is a private one, and the daemon runs without --allow-private."),
    ),
    "its host was paused": lambda explained, _page: (_("A user paused {host}.", host=_name(explained)),),
    "the host asked": _host_asked,
    "robots.txt is unreachable": lambda explained, _page: (
        _("We could not read the robots.txt of {host}, so we hold back.", host=_name(explained)),
        *_again(explained),
    ),
    "another request": lambda explained, _page: (_("Another request to {host} is under way.", host=_name(explained)),),
    "the host's interval": lambda explained, _page: (
        _("We wait between requests to {host}.", host=_name(explained)),
        *_again(explained, _(" Ready at ")),
    ),
    "its change waits": lambda _explained, _page: (_("Something was new; we look again before we call it a change."),),
    "held to the uniform": lambda explained, _page: (
        _("It waits for its share of the budget."),
        *_again(explained, _(" Next at ")),
    ),
    "its max-age": lambda explained, _page: (
        _("The page said how long it stays as it is."),
        *_again(explained, _(" Next at ")),
    ),
    "probably unchanged": lambda explained, _page: (
        *_least(explained),
        *_again(explained, _(" Next at ")),
    ),
    "its min_interval": _min_interval,
}


def _feed(feed: FeedView | None) -> list[Sentence]:
    """Returns what a feed shows, and whether it may have dropped items before we saw them."""
    if feed is None:
        return []
    shown: list[Part] = [_("It shows "), Strong(n_("{count} item", "{count} items", feed.items))]
    if feed.new is not None:
        shown.append(_(", {new:,} new at the last poll", new=feed.new))
    if not feed.limited:
        shown.append(_("; it has not dropped any yet"))
    elif feed.full_after is not None:
        shown.append(_("; all are new after about {full_after}", full_after=about(feed.full_after)))
    sentences: list[Sentence] = [(*shown, ".")]
    if feed.full_polls:
        polls = n_("{count} poll", "{count} polls", feed.full_polls)
        sentences.append(
            (_("At {polls} every item was new: ", polls=polls), Strong(_("items may have been lost")), ".")
        )
    return sentences


def _notes(notes: Mapping[str, str]) -> list[Sentence]:
    sentences: list[Sentence] = []
    profile, drift = (_number(notes.get(name)) for name in ("profile", "drift"))
    if profile is not None and profile <= _QUIETER:
        sentences.append((_("All pages are quieter than usual now."),))
    elif profile is not None and profile >= _LIVELIER:
        sentences.append((_("All pages are livelier than usual now."),))
    if drift is not None and drift > _DRIFTING:
        sentences.append((_("Its rhythm has been changing."),))
    if signals := notes.get("signals"):
        sentences.append((_("Others say when it changes: {signals}.", signals=signals),))
    return sentences


def _number(text: str | None) -> float | None:
    number = _NUMBER.search(text or "")
    return None if number is None else float(number[0])
