"""Plans of the budget: which share of changes is found in time at which budget, in numbers and in sentences.

Durations are in seconds, budgets in polls per second, shares from 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pollerd.quantities import duration
from pollerd.ranges import BUDGET
from pollerd.shown import SHOWN
from pollerd.texts import N_, _, localised, n_


class PlanLimit(StrEnum):
    """What keeps changes from being learned of in time, whatever the budget."""

    HOST_INTERVAL = "host_interval"
    MIN_INTERVAL = "min_interval"
    MIN_SAVING = "min_saving"
    MIN_YIELD = "min_yield"
    TTL = "ttl"
    NEVER_POLLED = "never_polled"
    LARGEST_BUDGET = "largest_budget"
    """A larger budget than may be set would do it."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What keeps sites from being polled often enough, whatever the budget."""

    __pydantic_config__ = SHOWN
    limit: PlanLimit
    sites: int
    hosts: int
    """Hosts of these sites."""
    seconds: float | None
    """Typical shortest time between two polls of one of them; for host_interval between two requests; None: there is
    none."""
    share: float
    """Share of all changes that is learned of too late because of it."""


@dataclass(frozen=True, slots=True)
class MeasuredDelays:
    """Delays from the date that a page named to the detection of its change, of the last 20,000 changes."""

    __pydantic_config__ = SHOWN
    changes: int
    """Changes whose page named a date."""
    delay_median: float
    """Seconds."""
    delay_p90: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class TagPlan:
    """What today's budget brings for the sites with a tag."""

    __pydantic_config__ = SHOWN
    tag: str
    sites: int
    changes_per_day: float | None
    share: float | None
    """Share of their changes that is learned of in time; None: no change is expected."""
    delay_median: float | None
    """Seconds; None: so many changes are never learned of, or none is expected."""
    delay_p90: float | None
    """Seconds; None: so many changes are never learned of, or none is expected."""
    measured: MeasuredDelays | None


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The budget needed to learn of a share of all changes in time, and what today's budget brings."""

    __pydantic_config__ = SHOWN
    objective: str
    """The objective in force: the plan is for its split of the budget."""
    allocator: str
    tag: str | None
    """Only changes of sites with this tag count; None: all."""
    share: float
    """Share of the changes that is asked for."""
    within: float
    """The seconds that are asked for."""
    budget: float | None
    """Polls per second that are needed; None: no budget does it, or there is nothing to poll."""
    most: float | None
    """Share that is learned of in time if polls cost nothing; None: no change is expected."""
    limits: tuple[HeldBack, ...]
    """Why no budget does it, the most changes first; empty if one does."""
    current_budget: float
    """Polls per second."""
    current_share: float | None
    """Share that is learned of in time with today's budget; None: no change is expected."""
    delay_median: float | None
    """Seconds from a change to its detection with today's budget; None: half of the changes are never learned of."""
    delay_p90: float | None
    """None: a tenth of the changes or more are never learned of."""
    measured: MeasuredDelays | None
    """None: no page named a date."""
    sites: int
    """Sites whose changes count: neither paused nor gone nor closed now nor blocked."""
    changes_per_day: float | None
    """Expected; None: the allocator does not estimate rates; then all sites count as if they changed alike."""
    seldom_polled: int
    """Of these sites, those polled fewer than 20 times: their rates are not known well."""
    sampled: bool
    """Whether the plan is worked out from a sample of very many sites."""
    by_tag: tuple[TagPlan, ...]
    """The tags with most sites, at most 50, whatever was asked for."""
    deadline: float | None = None
    """Seconds, of sites without their own; None under other objectives than deadline."""
    checks_per_day: float | None = None
    """Polls per day of all sites that reach the goal, with `budget` or else with `min_saving`; None: unknown."""
    min_saving: float | None = None
    """The daemon's min_saving, s, with which the goal is reached, where no budget does it with today's; None: none."""
    current_checks_per_day: float | None = None
    """Polls per day of all sites with today's budget and min_saving."""
    current_min_saving: float | None = None
    """The daemon's min_saving, s."""
    median_weight: float | None = None
    """Of the sites."""


# Durations in words: exact if a user gave them, rounded to about two digits if they are estimates.

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS = ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"))
_TWO_DIGITS = 10


def exactly(seconds: float) -> str:
    """Formats a given duration in the largest unit of which it is a whole number: "30 minutes", "1 day"."""
    for length, unit in _UNITS:
        if seconds >= length and seconds % length == 0:
            return _counted(seconds / length, unit)
    return _counted(seconds, "second")


def apart(seconds: float) -> str:
    """Formats how often something may happen: "a minute", "in 10 minutes", after "one request"."""
    each: dict[float, str] = {1: N_("a second"), _MINUTE: N_("a minute"), _HOUR: N_("an hour"), _DAY: N_("a day")}
    if seconds in each:
        return _(each[seconds])
    return _("in {span}", span=exactly(seconds) if seconds == round(seconds) else about(seconds))


def about(seconds: float) -> str:
    """Formats an expected duration: "0.4 s", "45 s", "22 min", "3 h 10 min", "2 d 5 h", "14 d"."""
    if seconds < _TWO_DIGITS:
        return _("{number:g} s", number=float(f"{seconds:.2g}"))
    if round(seconds) < _MINUTE:
        return _("{number:.0f} s", number=seconds)
    if round(seconds / _MINUTE) < _MINUTE:
        return _("{number:.0f} min", number=seconds / _MINUTE)
    if round(seconds / _HOUR) < _DAY // _HOUR:
        return _in_two(seconds, _HOUR, N_("{number:,.0f} h"), 600, _MINUTE, N_("{number:.0f} min"))
    return _in_two(seconds, _DAY, N_("{number:,.0f} d"), _HOUR, _HOUR, N_("{number:,.0f} h"))


def _in_two(seconds: float, large: int, unit: str, step: int, small: int, part: str) -> str:
    """Formats in two units, rounded to `step` s; from ten large ones on in these alone."""
    if seconds >= _TWO_DIGITS * large:
        return _(unit, number=seconds / large)
    whole, rest = divmod(round(seconds / step) * step, large)
    in_large = _(unit, number=whole)
    return f"{in_large} {_(part, number=rest // small)}" if rest else in_large


def _counted(number: float, unit: str) -> str:
    shown = localised(f"{number:,.15g}")
    number = float(f"{number:.15g}")  # so that what is shown as 1 has the singular, too
    match unit:
        case "day":
            return n_("{number} day", "{number} days", number, number=shown)
        case "hour":
            return n_("{number} hour", "{number} hours", number, number=shown)
        case "minute":
            return n_("{number} minute", "{number} minutes", number, number=shown)
    return n_("{number} second", "{number} seconds", number, number=shown)


# A plan in sentences.

_MAX_REASONS = 3
_USUAL_WEIGHTS = 0.2, 5.0


def sentences(plan: BudgetPlan) -> tuple[str, ...]:
    """Returns the plan in whole sentences, the most important first."""
    if not plan.sites:
        if plan.tag is None:
            return (_("No page is polled yet: add one by `pollerd sites add URL`."),)
        return (_("No page tagged {tag} is polled yet.", tag=plan.tag),)
    if plan.current_share is None:
        return (_("No change of {pages} is expected.", pages=_pages(plan)), _objective(plan))
    return tuple(
        filter(None, (_needed(plan), _today(plan), _measured(plan.measured), _objective(plan), *_doubts(plan)))
    )


def in_percent(share: float) -> str:
    """Formats a share as "71 %"; what is not quite nothing or all is neither."""
    if 0 < share < 0.005:
        return _("under 1 %")
    if 0.995 <= share < 1 - 1e-9:
        return _("over 99 %")
    return _("{number:.0f} %", number=100 * share)


def two_digits(number: float) -> str:
    """Formats a number > 0 with two significant digits: "0.25", "14", "1,200"."""
    return localised(f"{float(f'{number:.2g}'):,.10g}")


def pace(polls: float, beside: float = math.inf, digits: int = 3) -> str:
    """Formats polls/s > 0, rounded to some digits, in the unit in which they are one or more: "36 checks per hour".

    beside: polls/s that the text is compared with; if they are fewer, they choose the unit.
    """
    fewest = float(f"{min(polls, beside):.3g}")
    length = next((length for length in (1, _MINUTE, _HOUR) if fewest * length >= 1), _DAY)
    number = float(f"{polls * length:.{digits}g}")
    shown = localised(f"{number:,.10g}")
    match length:
        case 1:
            return n_("{number} check per second", "{number} checks per second", number, number=shown)
        case 60:
            return n_("{number} check per minute", "{number} checks per minute", number, number=shown)
        case 3_600:
            return n_("{number} check per hour", "{number} checks per hour", number, number=shown)
    return n_("{number} check per day", "{number} checks per day", number, number=shown)


def delays_in_words(median: float | None, p90: float | None) -> str:
    """Formats the delays of which half and nine tenths of the changes stay below."""
    if median is None:
        return _("more than half of all changes are never seen")
    half = _("half of all changes are seen within {median}", median=about(median))
    if p90 is None:
        return _("{half}, more than a tenth never", half=half)
    return _("{half}, 90 % within {most}", half=half, most=about(p90))


def _needed(plan: BudgetPlan) -> str:
    goal = _(
        "{exact_percent} of the changes of {pages} within {exactly}",
        exact_percent=_exact_percent(plan.share),
        pages=_pages(plan),
        exactly=exactly(plan.within),
    )
    if plan.budget is None and plan.min_saving is not None and plan.checks_per_day is not None:
        return _("To learn of {goal} you need {checks}.", goal=goal, checks=_checks(plan))
    if plan.budget is None:
        reasons = "; ".join(_reason(limit, sampled=plan.sampled) for limit in plan.limits[:_MAX_REASONS])
        no_budget = (
            N_("No budget lets you learn of {goal}: {reasons}.")
            if reasons
            else N_("No budget lets you learn of {goal}.")
        )
        said = _(no_budget, goal=goal, reasons=reasons)
        if plan.most is None or plan.most >= plan.share:
            return said
        return said + " " + _("{share} is the most.", share=_capital(in_percent(plan.most)))
    return _(
        "To learn of {goal} you need about {needed}; you have {budget}.",
        goal=goal,
        needed=pace(plan.budget, plan.current_budget, digits=2),
        budget=pace(plan.current_budget, plan.budget),
    )


def _checks(plan: BudgetPlan) -> str:
    """Says how many checks are needed, more than the min_saving of today makes."""
    needed, least = plan.checks_per_day or 0.0, plan.min_saving or 0.0
    sentence = _(
        "about {two_digits} checks per day: --min-saving {value}",
        two_digits=two_digits(needed),
        value=duration(float(f"{least:.2g}")),
    )
    if plan.current_min_saving is not None and plan.current_checks_per_day:
        today = _("{two_digits} checks per day", two_digits=two_digits(plan.current_checks_per_day))
        sentence += " " + _("(today {saving}, {checks})", saving=duration(plan.current_min_saving), checks=today)
    a_second = needed / _DAY
    return (
        sentence
        if a_second <= plan.current_budget
        else _("{sentence} and {budget}", sentence=sentence, budget=pace(a_second, digits=2))
    )


def _today(plan: BudgetPlan) -> str:
    share = in_percent(plan.current_share or 0.0)
    delays = delays_in_words(plan.delay_median, plan.delay_p90)
    return _(
        "With {budget} you learn of {share} in that time; {delays}.",
        budget=pace(plan.current_budget),
        share=share,
        delays=delays,
    )


def _measured(delays: MeasuredDelays | None) -> str:
    if delays is None:
        return ""
    half, most = about(delays.delay_median), about(delays.delay_p90)
    if delays.changes == 1:
        return _("Measured where pages name a date: {half} (of 1 change).", half=half)
    return _(
        "Measured where pages name a date: half within {half}, 90 % within {most} (of {changes:,} changes).",
        half=half,
        most=most,
        changes=delays.changes,
    )


def _objective(plan: BudgetPlan) -> str:
    goal, policy = plan.objective, plan.allocator
    if plan.deadline is None:
        return _("Goal: {goal}. The policy {policy} splits the budget.", goal=goal, policy=policy)
    return _(
        "Goal: {goal}, within {exactly} where a page gives none. The policy {policy} splits the budget.",
        goal=goal,
        exactly=exactly(plan.deadline),
        policy=policy,
    )


def _doubts(plan: BudgetPlan) -> tuple[str, ...]:
    if plan.changes_per_day is None:
        return (
            _("{capital} does not estimate how often pages change: all count alike.", capital=_capital(plan.allocator)),
        )
    return _of_objective(plan) + _of_weights(plan) + _of_seldom_polled(plan)


def unusual_weight(median: float, min_saving: float) -> str | None:
    """Says that min_saving is meant for weight 1, where most sites have quite another one; None: they have not."""
    if not min_saving or _USUAL_WEIGHTS[0] <= median <= _USUAL_WEIGHTS[1]:
        return None
    each = (
        _("a check of most is to save {min_saving}", min_saving=duration(min_saving / median))
        if median
        else _("most are hardly checked")
    )
    return _(
        "the median weight is {median:g}, and --min-saving {min_saving} is for weight 1: {each}",
        median=median,
        min_saving=duration(min_saving),
        each=each,
    )


def _of_weights(plan: BudgetPlan) -> tuple[str, ...]:
    if plan.median_weight is None or plan.current_min_saving is None:
        return ()
    sentence = unusual_weight(plan.median_weight, plan.current_min_saving)
    return () if sentence is None else (f"{_capital(sentence)}.",)


def _of_objective(plan: BudgetPlan) -> tuple[str, ...]:
    if plan.objective != "freshness":
        return ()
    return (_("Fewer may be seen in time: for this goal pages that change all the time are polled ever less."),)


def _of_seldom_polled(plan: BudgetPlan) -> tuple[str, ...]:
    if plan.seldom_polled:
        return (
            n_(
                "{count} page was polled fewer than 20 times: how often it changes is not known well yet.",
                "{count} pages were polled fewer than 20 times: how often they change is not known well yet.",
                plan.seldom_polled,
            ),
        )
    return ()


def _reason(held: HeldBack, *, sampled: bool) -> str:
    several = held.sites != 1
    pages = n_("{count} page", "{count} pages", held.sites)
    span = "" if held.seconds is None else exactly(held.seconds)
    rounded = "" if held.seconds is None else about(held.seconds)
    match held.limit:
        case PlanLimit.HOST_INTERVAL:
            if sampled:
                one, many = (
                    N_("at least {count} host allows one request {apart}"),
                    N_("at least {count} hosts allow one request {apart}"),
                )
            else:
                one, many = N_("{count} host allows one request {apart}"), N_("{count} hosts allow one request {apart}")
            hosts = n_(one, many, held.hosts, apart=apart(held.seconds or 0.0))
            return _("{hosts} for {pages}", hosts=hosts, pages=pages) if held.sites > held.hosts else hosts
        case PlanLimit.MIN_INTERVAL:
            return _("{pages} may be polled once in {span} at most (min_interval)", pages=pages, span=span)
        case PlanLimit.MIN_SAVING:
            return n_(
                "{count} page is not worth a poll for {rounded} after each (min_saving)",
                "{count} pages are not worth a poll for {rounded} after each (min_saving)",
                held.sites,
                rounded=rounded,
            )
        case PlanLimit.MIN_YIELD:
            return n_(
                "{count} page is probably unchanged for {rounded} after each poll (min_yield)",
                "{count} pages are probably unchanged for {rounded} after each poll (min_yield)",
                held.sites,
                rounded=rounded,
            )
        case PlanLimit.TTL:
            return n_(
                "{count} page asks to be left alone for {rounded} (respect_ttl)",
                "{count} pages ask to be left alone for {rounded} (respect_ttl)",
                held.sites,
                rounded=rounded,
            )
        case PlanLimit.NEVER_POLLED:
            them = _("they have weight 0, or never change") if several else _("it has weight 0, or never changes")
            return n_(
                "{count} page is never polled: {why}", "{count} pages are never polled: {why}", held.sites, why=them
            )
        case PlanLimit.LARGEST_BUDGET:
            return _("a budget is {highest:,g} checks per second at most", highest=BUDGET.highest)


def _pages(plan: BudgetPlan) -> str:
    if plan.tag is None:
        if plan.sampled:
            return n_("about {count} page", "about {count} pages", plan.sites)
        return n_("{count} page", "{count} pages", plan.sites)
    if plan.sampled:
        return n_("about {count} page tagged {tag}", "about {count} pages tagged {tag}", plan.sites, tag=plan.tag)
    return n_("{count} page tagged {tag}", "{count} pages tagged {tag}", plan.sites, tag=plan.tag)


def _exact_percent(share: float) -> str:
    return f"{100 * share:.10g} %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
