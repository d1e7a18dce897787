"""A small collection of the focused crawler, made by what the crawler itself calls."""

from __future__ import annotations

from pollerd.model import OutcomeKind, PageState, Poll, SiteState
from pollerd.storage.page_values import CrawlUpdate, OutLinkDraft, PageRecord, Trial
from pollerd.storage.store import Store
from pollerd.storage.values import Batch, PollRecord, SiteContext

SEEDS = ("https://mills.example/", "https://other.example/")
AT = 1_790_000_000.0
LEADS = (
    OutLinkDraft("https://mills.example/water.html", 0.75),
    OutLinkDraft("https://mills.example/a&b.html", 0.0, 1_780_000_000.0),
)


async def fill(store: Store) -> None:
    """A collection on mills: of two seeds one was taken, and led to two pages more; the other was not."""
    await store.frontier.begin("mills", AT)
    await store.frontier.add_seeds(SEEDS, AT)
    trials = {trial.url: trial for trial in await store.frontier.promote(10, 1, 100, 0.5, AT)}
    taken, refused = (trials[url] for url in SEEDS)
    findings = CrawlUpdate(2)
    records = [
        _record(taken, PageRecord(taken.page_id, PageState.COLLECTED, 0, "", 0.5, LEADS, weight=0.5, on_trial=True)),
        _record(
            refused,
            PageRecord(refused.page_id, PageState.REJECTED, 0, "off topic", 0.02, (), ended=True, on_trial=True),
        ),
    ]
    committed = await store.commit(Batch(records, findings=findings))
    rows = await store.frontier.link_context.around(committed.stale_pages)
    await store.frontier.write_values([(row, 0.3) for row in rows if row.value is not None])


def _record(trial: Trial, page: PageRecord) -> PollRecord:
    poll = Poll(trial.site_id, AT, None, OutcomeKind.FIRST, 200, 0.1, 100, False)
    context = SiteContext(trial.site_id, trial.url)
    return PollRecord(poll, context, SiteState.ACTIVE, last_seen_at=AT, page=page)
