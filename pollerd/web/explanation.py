"""Why a page is polled as it is, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pollerd.api.sites import SiteSchema
from pollerd.daemon.views import ExplanationView, FeedView, WaitsFor
from pollerd.inheritance import origin_of_tag
from pollerd.planning import about
from pollerd.texts import N_, _, localised, n_
from pollerd.web.standing import POLLS_TO_LEARN
from pollerd.web.words import Moment, Sentence, Strong, how_often, in_a_row, percent, sentence

_FAR_FROM_SURE = 10.0
_ESTIMATED_RANKS = 16_384
_DAY = 86_400.0
_DRIFTING = 0.5
_LIVELIER, _QUIETER = 1.5, 1 / 1.5
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")


def words(explained: ExplanationView, page: SiteSchema, now: float, *, sites: int = 0) -> list[Sentence]:
    """Returns the sentences that explain the polling of a page at time `now` (epoch s), among so many `sites`."""
    sentences = [*changing(explained, page), _now(explained, page, now, sites)]
    sentences += [_pace(explained, now), _waiting(explained, page)]
    if explained.capped_to_uniform:
        sentences.append(
            (_("It looks different on nearly every check, so it is limited to an equal share of the budget."),)
        )
    sentences.append(_feed(explained.feed))
    sentences += _notes(explained.notes)
    return [sentence for sentence in sentences if sentence]


def changing(explained: ExplanationView, page: SiteSchema) -> list[Sentence]:
    """Returns the first of these sentences: how often the page changes."""
    return [sentence for sentence in (_rate(explained, page), _coming_month(explained, page)) if sentence]


def rate_in_words(page: SiteSchema) -> str:
    """Returns how often a page changes, in a few words."""
    if (least := _at_least(page)) is not None:
        return _("at least {rate}", rate=how_often(least))
    if page.rate_per_day is None:
        return ""
    return how_often(page.rate_per_day) if page.changes else _("none found")


def _at_least(page: SiteSchema) -> float | None:
    """Returns the changes per day that were found, if checks cannot show how many there are.

    A page that differs at most checks changes faster than it is checked. An estimate then says what is usual for
    such pages, which can be a hundred times of what anybody has seen of this one.
    """
    if page.rate_per_day is None or page.last_poll_at is None or 2 * page.changes <= page.polls:
        return None
    days = (page.last_poll_at - page.created_at) / _DAY
    return page.changes / days if days > 0 and page.rate_per_day * days > page.polls else None


def half_life_in_words(explained: ExplanationView) -> str:
    """Returns which half-life holds for a page whose changes are read, and why."""
    life, origin = about(explained.half_life_in_force), explained.origins.get("half_life", "")
    if origin == "reads":
        return _("For the goal interest its half-life is {life}, learned from its readers.", life=life)
    if origin == "default":
        return _("For the goal interest its half-life is {life}, the default; the reads agree.", life=life)
    if origin == "site":
        return _("For the goal interest its half-life is {life}, set for this site whatever the reads say.", life=life)
    return _(
        'For the goal interest its half-life is {life}, set by the tag "{tag}" whatever the reads say.',
        life=life,
        tag=_tag_of(origin),
    )


def _tag_of(origin: str) -> str:
    """Returns the name of the tag that a setting comes from; see `ExplanationView.origins`."""
    return origin.removeprefix(origin_of_tag(""))


def _rate(explained: ExplanationView, page: SiteSchema) -> Sentence:
    rate, low, high = explained.rate_per_day, explained.rate_low_per_day, explained.rate_high_per_day
    if page.polls < POLLS_TO_LEARN or rate is None:
        source = explained.notes.get("prior_source", "")
        if not source:
            return (_("Not enough checks yet, so pollerd assumes a typical change rate."),)
        return (_("Not enough checks yet, so pollerd assumes a typical change rate ({source}).", source=source),)
    if not page.changes:  # a rate, and more so the start of it, would contradict what was seen
        seen = n_("No change was found in {count} check.", "No change was found in {count} checks.", page.polls)
        if high is None:
            return (seen,)
        most = sentence(N_("If it changes, then at most {high} (95 % confidence)."), high=Strong(how_often(high)))
        return in_a_row((seen,), most)
    if (least := _at_least(page)) is not None:
        text = N_("It changes at least {rate}; how much more often than that, its checks cannot show.")
        return sentence(text, rate=Strong(how_often(least)))
    if low is None or high is None:
        text = N_("It changes about {rate}. This policy does not say how certain that is.")
    elif high > _FAR_FROM_SURE * max(low, 0.0):
        text = N_("It changes about {rate}, but this is uncertain: between {low} and {high}. More checks will show.")
    else:
        text = N_("It changes about {rate} (90 % confidence: between {low} and {high}).")
    return sentence(
        text,
        rate=Strong(how_often(rate)),
        low=None if low is None else how_often(low),
        high=None if high is None else how_often(high),
    )


def _coming_month(explained: ExplanationView, page: SiteSchema) -> Sentence:
    coming = explained.next_30_days
    if coming is None or (coming.high and not page.changes) or _at_least(page) is not None:
        return ()
    if not coming.high:
        return (_("In the coming month it will probably not change."),)
    if not coming.low:
        return (
            n_(
                "In the coming month it will change at most {count} time (90 % confidence).",
                "In the coming month it will change at most {count} times (90 % confidence).",
                coming.high,
            ),
        )
    return sentence(
        N_("In the coming month it will change {low} to {high} times (90 % confidence)."),
        low=Strong(localised(f"{coming.low:,}")),
        high=Strong(localised(f"{coming.high:,}")),
    )


def _now(explained: ExplanationView, page: SiteSchema, now: float, sites: int) -> Sentence:
    if page.last_poll_at is None:
        return (_("It was not checked yet."),)
    ago, chance = Strong(about(max(now - page.last_poll_at, 0.0))), explained.change_probability
    if chance is not None and page.polls >= POLLS_TO_LEARN:
        text = N_("The last check was {ago} ago; the chance that it has changed since is {chance}.")
        last = sentence(text, ago=ago, chance=Strong(percent(chance)))
    else:
        last = sentence(N_("The last check was {ago} ago."), ago=ago)
    if explained.rank is None or explained.rank <= 1:
        return last
    ahead = explained.rank - 1
    if sites > _ESTIMATED_RANKS:
        said = n_("About {count} site is ahead of it.", "About {count} sites are ahead of it.", ahead)
    else:
        said = n_("{count} site is ahead of it.", "{count} sites are ahead of it.", ahead)
    return in_a_row(last, (said,))


def _pace(explained: ExplanationView, now: float) -> Sentence:
    if explained.expected_interval is None or explained.next_poll_at is None:
        return ()
    interval = Strong(about(explained.expected_interval))
    if explained.budget_share is None:
        pace = sentence(N_("At this budget it is checked about every {interval}."), interval=interval)
    else:
        pace = sentence(
            N_("At this budget it is checked about every {interval}, using {share} of the budget."),
            interval=interval,
            share=percent(explained.budget_share),
        )
    saving: Sentence = ()
    if explained.min_saving_in_force:
        least = about(explained.min_saving_in_force)
        saving = (_("A check has to be expected to find changes {saving} sooner.", saving=least),)
    following: Sentence = ()
    at = explained.next_expected_poll_at
    if at is not None and at < now + 1.0:
        following = (_("Next check: any moment."),)
    elif at is not None:
        following = sentence(N_("Next check: about {when}."), when=Moment(at))
    return in_a_row(pace, saving, following)


def _waiting(explained: ExplanationView, page: SiteSchema) -> Sentence:
    """Returns what keeps it from being polled this moment."""
    waits, reason = explained.waits_for, explained.why_not_now
    if reason is None:
        return (_("It is ready and waits for its turn: other sites are ahead of it."),)
    if waits is None:  # said by a node of an older version
        return (_("Not now: {reason}.", reason=reason),)
    if waits is WaitsFor.RETRY:
        said = _failing(explained, page)
    elif waits is WaitsFor.MIN_INTERVAL:
        said = (_min_interval(explained, page),)
    elif waits is WaitsFor.LIKELIER_CHANGE and explained.min_saving_in_force:
        saving = about(explained.min_saving_in_force)
        said = (_("It is too early: a check has to be expected to find changes {saving} sooner.", saving=saving),)
    else:
        said = (_(_REASONS[waits], host=explained.host.rpartition(":")[0] or explained.host),)
    at = explained.next_poll_at
    if at is None or waits in _AT_AN_UNKNOWN_TIME:
        return said
    return in_a_row(said, sentence(N_("Next check from {when} on."), when=Moment(at)))


_AT_AN_UNKNOWN_TIME = frozenset(
    {
        WaitsFor.RESUME,
        WaitsFor.ITS_POLL,
        WaitsFor.ALLOW_PRIVATE,
        WaitsFor.HOST_RESUME,
        WaitsFor.HOST_REQUEST,
        WaitsFor.CONFIRMATION,
    }
)

_REASONS: Mapping[WaitsFor, str] = {
    WaitsFor.RESUME: N_("It is paused."),
    WaitsFor.GONE: N_("The server says that it is gone for good (410), so it is checked rarely."),
    WaitsFor.ITS_POLL: N_("It is being checked right now."),
    WaitsFor.WINDOW: N_("It is outside its checking hours."),
    WaitsFor.ALLOW_PRIVATE: N_("Its address is private, and pollerd runs without --allow-private."),
    WaitsFor.READING: N_("Reading its page takes long, so it is checked less often."),
    WaitsFor.HOST_RESUME: N_("The host {host} is paused."),
    WaitsFor.HOST_PAUSE: N_("{host} asked for a pause."),
    WaitsFor.ROBOTS: N_("The robots.txt of {host} could not be read, so checks are on hold."),
    WaitsFor.HOST_REQUEST: N_("Another request to {host} is under way."),
    WaitsFor.HOST_INTERVAL: N_("pollerd waits between two requests to {host}."),
    WaitsFor.CONFIRMATION: N_("A difference was found. It is checked again before it is reported as a change."),
    WaitsFor.UNIFORM_SHARE: N_("It waits for its equal share of the budget."),
    WaitsFor.MAX_AGE: N_("The server says how long the page stays as it is (Cache-Control)."),
    WaitsFor.LIKELIER_CHANGE: N_("A change is too unlikely to be worth a check yet (minimum chance)."),
}


def _failing(explained: ExplanationView, page: SiteSchema) -> Sentence:
    if page.last_detail:
        failed = n_(
            "The last check failed ({detail}).",
            "The last {count} checks failed ({detail}).",
            explained.failures,
            detail=page.last_detail,
        )
    else:
        failed = n_("The last check failed.", "The last {count} checks failed.", explained.failures)
    return in_a_row((failed,), (_("Retries are spaced further apart each time."),))


def _min_interval(explained: ExplanationView, page: SiteSchema) -> str:
    if page.min_interval is None:
        return _("Its minimum interval is not over.")
    interval, origin = about(page.min_interval), explained.origins.get("min_interval", "")
    if origin.startswith(origin_of_tag("")):
        return _(
            'Its minimum interval of {interval}, set by the tag "{tag}", is not over.',
            interval=interval,
            tag=_tag_of(origin),
        )
    return _("Its minimum interval of {interval} is not over.", interval=interval)


def _feed(feed: FeedView | None) -> Sentence:
    """Returns what a feed shows, and whether it may have dropped items before we saw them."""
    if feed is None:
        return ()
    sentences: list[Sentence] = [(n_("It shows {count} item.", "It shows {count} items.", feed.items),)]
    if feed.new is not None:
        text = n_("{count} was new at the last check.", "{count} were new at the last check.", feed.new)
        sentences.append((text,))
    if not feed.limited:
        sentences.append((_("It has not dropped any yet."),))
    elif feed.full_after is not None:
        sentences.append((_("All are new after about {span}.", span=about(feed.full_after)),))
    if feed.full_polls:
        text = n_(
            "On {count} check every item was new, so older items may have been missed.",
            "On {count} checks every item was new, so older items may have been missed.",
            feed.full_polls,
        )
        sentences.append((Strong(text),))
    return in_a_row(*sentences)


def _notes(notes: Mapping[str, str]) -> list[Sentence]:
    sentences: list[Sentence] = []
    profile, drift = (_number(notes.get(name)) for name in ("profile", "drift"))
    if profile is not None and profile <= _QUIETER:
        sentences.append((_("All sites are changing less than usual."),))
    elif profile is not None and profile >= _LIVELIER:
        sentences.append((_("All sites are changing more than usual."),))
    if drift is not None and drift > _DRIFTING:
        sentences.append((_("Its change rate has been shifting."),))
    if signals := notes.get("signals"):
        sentences.append((_("Signals: {signals}.", signals=signals),))
    return sentences


def _number(text: str | None) -> float | None:
    """Returns the first number of a note; notes write numbers in every language as in 0.62."""
    number = _NUMBER.search(text or "")
    return None if number is None else float(number[0])
