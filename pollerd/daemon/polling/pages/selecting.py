"""Reads an answer by the selections of its site, in the loop or beside it."""

from __future__ import annotations

from pollerd.daemon.process.workers import Effort, WorkerPool
from pollerd.model import Detection, Outcome
from pollerd.storage import SiteContext


def needs_whole_page(context: SiteContext) -> bool:
    """Returns whether a selection of the site has no baseline yet: then validators must not be sent."""
    from pollerd.detection.selection.comparing import begins_anew

    return begins_anew(context.selections, context.states)


async def detect_selected(
    workers: WorkerPool, effort: Effort, context: SiteContext, outcome: Outcome, elapsed: float | None
) -> Detection:
    """Returns the detection of a site with selections. Raises what reading a page may: the site alone is to blame."""
    # Loaded with the first site that has selections.
    from pollerd.detection.selection.comparing import detect_selections, heavy_for_selections

    known = (context.selections, context.baseline, context.states)
    given = (outcome, context.url, *known, elapsed, context.access.pdf_password)
    if heavy_for_selections(outcome, context.selections, context.baseline, context.states):
        return await workers.do(detect_selections, *given, effort=effort)
    return detect_selections(*given)
