"""How a site stands, as people say it: one state, and for each trouble its cure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pollerd.api.http import ApiPorts
from pollerd.api.sites import SiteSchema
from pollerd.errors import InvalidValueError
from pollerd.model import Detail, OutcomeKind, Site, SiteState
from pollerd.scheduling.windows import opening_times, windows_of
from pollerd.texts import N_, _, recognised

POLLS_TO_LEARN = 5
"""With fewer checks a site has no rate and no chance of its own."""
_OVERDUE = 1.1
"""Of its maximum time between two checks: later than this it is overdue."""
_NO_TEXT = (
    Detail.NO_TEXT_BUT_FRAMES,
    Detail.NO_TEXT_BUT_ANOTHER_PAGE,
    Detail.NO_TEXT_WITHOUT_SCRIPTS,
    Detail.NO_TEXT,
)
_FAILED = (Detail.STATUS_WITHOUT_PAGE, Detail.STATUS, Detail.REDIRECT_LOOP)


class Standing(StrEnum):
    """The state of a site; the value names its colour, too."""

    PAUSED = "paused"
    OFFLINE = "offline"
    ASKED = "asked"
    BLOCKED = "blocked"
    FAILING = "failing"
    NEW = "new"
    EMPTY = "empty"
    CLOSED = "closed"
    OVERDUE = "overdue"
    ALWAYS = "always"
    LEARNING = "learning"
    FINE = "fine"


_SHOWN = {
    Standing.PAUSED: ("‖", N_("paused")),
    Standing.OFFLINE: ("▲", N_("no internet connection")),
    Standing.ASKED: ("○", N_("to be checked next")),
    Standing.BLOCKED: ("▲", N_("blocked")),
    Standing.FAILING: ("✕", N_("failing")),
    Standing.NEW: ("○", N_("new, not read yet")),
    Standing.EMPTY: ("◌", N_("no text")),
    Standing.CLOSED: ("☾", N_("outside its hours")),
    Standing.OVERDUE: ("▲", N_("overdue")),
    Standing.ALWAYS: ("≈", N_("changing all the time")),
    Standing.LEARNING: ("◔", N_("learning")),
    Standing.FINE: ("✓", N_("fine")),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a site needs its user, and what helps."""

    reason: str
    cure: str = ""
    """The words of the button; empty: nothing but waiting helps."""
    place: str = ""
    """Where the cure is, below the site's address: a part of its page, or with `posts` a form without fields."""
    posts: bool = False


@dataclass(frozen=True, slots=True)
class StandingShown:
    """How a site stands."""

    standing: Standing
    trouble: Trouble | None = None

    @property
    def sign(self) -> str:
        """One character for it."""
        return _SHOWN[self.standing][0]

    @property
    def words(self) -> str:
        """The state in words."""
        return _(_SHOWN[self.standing][1])


async def standings(ports: ApiPorts, sites: Sequence[Site], now: float) -> list[tuple[SiteSchema, StandingShown]]:
    """Returns sites as they are shown at `now`, epoch s, with how they stand."""
    live = await ports.control.sites.shown([site.id for site in sites])
    offline, tags, shown = ports.control.health.offline, ports.store.sites.tags.in_force, []
    for site in sites:
        schema, known = SiteSchema.of(site, live.get(site.id), tags), live.get(site.id)
        asked = known is not None and known.asked
        shown.append((schema, site_standing(schema, now, offline=offline, asked=asked)))
    return shown


def site_standing(site: SiteSchema, now: float, *, offline: bool = False, asked: bool = False) -> StandingShown:
    """Returns how a site stands at `now`, epoch s.

    offline: whether our own link is down. asked: whether its next check comes before all others; then a trouble of the
    last one says nothing any more. "Fine" says that the last answer was good and had text, and that five checks at
    least were made.
    """
    at = _standing(site, now, offline=offline)
    return StandingShown(Standing.ASKED) if asked and at.trouble is not None else at


def _standing(site: SiteSchema, now: float, *, offline: bool) -> StandingShown:
    outcome = site.last_outcome
    if site.state is SiteState.PAUSED:
        return StandingShown(Standing.PAUSED)
    if offline:
        return StandingShown(Standing.OFFLINE)
    if outcome is not None and (outcome.failed or site.state is SiteState.GONE):
        refused = outcome in (OutcomeKind.DENIED, OutcomeKind.BLOCKED_ADDRESS)
        return StandingShown(Standing.BLOCKED if refused else Standing.FAILING, _trouble(site, outcome))
    if outcome is None or not site.last_poll_at:
        return StandingShown(Standing.CLOSED if _is_closed(site, now) else Standing.NEW)
    moved = None
    if site.redirect_proposal:
        moved = Trouble(
            _("moved for good to {url}", url=site.redirect_proposal), _("Use the new address"), "/accept-redirect", True
        )
    if no_text := recognised(site.last_detail, _NO_TEXT):
        return StandingShown(Standing.EMPTY, moved or _without_text(*no_text))
    return StandingShown(_reading(site, now), moved)


def _reading(site: SiteSchema, now: float) -> Standing:
    """Returns the state of a site whose last answer was good."""
    assert site.last_poll_at is not None
    read = site.polls - site.failures
    if _is_closed(site, now):
        return Standing.CLOSED
    if site.max_interval is not None and now - site.last_poll_at > _OVERDUE * site.max_interval:
        return Standing.OVERDUE
    if read < POLLS_TO_LEARN:
        return Standing.LEARNING
    # As the scheduler has it: at most one poll in 16 found no change; the first one cannot find any.
    return Standing.ALWAYS if 16 * (read - 1 - site.changes) <= read - 1 else Standing.FINE


def _is_closed(site: SiteSchema, now: float) -> bool:
    try:
        windows = windows_of(site.model_dump(by_alias=True, include={"windows"})["windows"])
    except InvalidValueError:  # stored by hand
        return False
    return windows is not None and not opening_times(windows).is_open(now)


def _without_text(detail: str, values: Mapping[str, str]) -> Trouble:
    if detail == Detail.NO_TEXT_WITHOUT_SCRIPTS:
        return Trouble(_("nearly empty without scripts"), _("Use the browser"), "/use-browser", True)
    if detail == Detail.NO_TEXT:
        return Trouble(_(detail), _("Use the browser"), "/use-browser", True)
    return Trouble(_(detail, **values), _("Change its address"), "#settings")


def _trouble(site: SiteSchema, outcome: OutcomeKind) -> Trouble:
    """Returns why the last poll failed, and what helps."""
    known, values = recognised(site.last_detail, _FAILED) or ("", {})
    detail = _(known, **values) if known else site.last_detail or outcome.in_words
    match outcome:
        case OutcomeKind.DENIED:
            return Trouble(
                _("the site's robots.txt does not allow programs to read this address"),
                _("Choose another address"),
                "#settings",
            )
        case OutcomeKind.BLOCKED_ADDRESS:
            return Trouble(_("its address is in a private network"), _("Change its address"), "#settings")
        case OutcomeKind.NOTHING_SELECTED:
            return Trouble(_("the part that counts was not found"), _("Repair it"), "#counts")
        case OutcomeKind.NOT_FOUND | OutcomeKind.GONE:
            return Trouble(_("the page is gone ({detail})", detail=detail), _("Change its address"), "#settings")
        case _ if values.get("status") == "401":
            return Trouble(_("asks for a user name and password (401)"), _("Enter the password"), "#when")
        case _ if values.get("status") == "403":
            return Trouble(_("refuses programs, or clients that are not signed in (403)"), _("Send a cookie"), "#when")
        case _ if values.get("status") == "202":
            return Trouble(
                _("answers with a test instead of the page (202)"), _("Use the browser"), "/use-browser", True
            )
        case OutcomeKind.PROTOCOL_ERROR if known == Detail.REDIRECT_LOOP:
            return Trouble(_("redirects clients without its cookies in circles"), _("Send a cookie"), "#when")
    return Trouble(detail, _("Try again now"), "/resume", posts=True)
