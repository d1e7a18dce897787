"""The focused crawler behind the hook of the live loop."""

from __future__ import annotations

from pollerd.crawling.control.concurrency import pause_s
from pollerd.daemon.crawler.concurrency import ConcurrencyLimiter
from pollerd.daemon.crawler.page_judge import PageJudge
from pollerd.daemon.crawler.page_reader import PageReader
from pollerd.daemon.crawler.trial_starter import TrialStarter


class CrawlHook:
    """Connects the focused crawler, its page reader and its limit on concurrent requests to the polls."""

    chooses_ahead = False

    def __init__(
        self, *, starter: TrialStarter, judge: PageJudge, reader: PageReader, limiter: ConcurrencyLimiter
    ) -> None:
        self._limiter = limiter
        self.wants_whole = reader.wants_whole
        self.following = reader.following
        self.read = reader.read
        self.started, self.responded, self.processed = limiter.started, limiter.responded, limiter.processed
        self.known_urls, self.judge = judge.known_urls, judge.judge
        self.apply_committed, self.forget, self.run = judge.apply_committed, judge.forget, starter.run

    def may_start(self) -> bool:
        """Returns whether the limit allows one more request."""
        return self._limiter.may_start

    def pause_after(self, latency: float, interval: float) -> float:
        """Returns the latency as the pause for a host that answers more slowly than its interval, else 0."""
        return pause_s(0.0, latency) if latency > interval else 0.0
