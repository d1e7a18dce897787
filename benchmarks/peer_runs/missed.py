"""Why a change was never reported: by the versions that the page's later requests were served."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from peer_runs.contents import States
from peer_runs.judge import Score
from peer_runs.reports import PageChange, Request, Window

FIRST = "before the page's first request"
NOT_ASKED = "page not asked for again"
BACK = "as before when asked again"
ORDER = "only another order"
SEEN = "seen, not reported"
CAUSES = (FIRST, NOT_ASKED, BACK, ORDER, SEEN)


def causes(score: Score, requests: Iterable[Request], window: Window, states: States) -> Counter[str]:
    """Returns how many changes without a report there are by cause, of `CAUSES`.

    A request that was served what the page's last report was about (or its first request) can tell nothing, whatever
    there was meanwhile. One that was served another state has seen a change: the program did not report it.
    """
    polls: defaultdict[str, list[Request]] = defaultdict(list)
    for request in requests:
        if request.at <= window.ended:
            polls[request.page].append(request)
    for asked in polls.values():
        asked.sort(key=lambda each: each.at)
    return Counter(_cause(change, polls[change.page], score.known[change.page], states) for change in score.missed)


def _cause(change: PageChange, polls: list[Request], known: int, states: States) -> str:
    page = change.page
    if states.of(page, change.version) == states.of(page, change.version - 1):
        return ORDER
    if polls and change.version <= polls[0].version:
        return FIRST
    later = [poll for poll in polls if poll.version >= change.version]
    if not later:
        return NOT_ASKED
    before = states.of(page, known)
    return BACK if all(states.of(page, poll.version) == before for poll in later) else SEEN
