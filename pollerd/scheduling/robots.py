"""What a host's robots.txt allows (RFC 9309), read with Protego."""

from __future__ import annotations

import math
from dataclasses import dataclass

from protego import Protego

FRESH_SECONDS = 86_400.0
"""A robots.txt is asked for again after a day (RFC 9309, section 2.4)."""


@dataclass(frozen=True)
class RobotsRules:
    """The rules of one host for one agent. `parser` None: everything is allowed."""

    parser: Protego | None
    agent: str
    fetched_at: float
    size: int = 0
    """Bytes of the text that was read."""

    @classmethod
    def parse(cls, body: bytes | None, agent: str, fetched_at: float) -> RobotsRules:
        """Reads a robots.txt; None: there is none, so all is allowed. Bytes that are no UTF-8 are replaced."""
        if body is None:
            return cls(None, agent, fetched_at)
        return cls(Protego.parse(body.decode("utf-8-sig", "replace")), agent, fetched_at, len(body))

    def allows(self, url: str) -> bool:
        """Whether the agent may ask for the URL."""
        return self.parser is None or bool(self.parser.can_fetch(url, self.agent))

    def crawl_delay(self) -> float:
        """Seconds between two requests that the host asks for, fractions too; 0 where it says nothing usable."""
        delay = self.parser.crawl_delay(self.agent) if self.parser is not None else None
        return float(delay) if delay is not None and math.isfinite(delay) and delay > 0 else 0.0
