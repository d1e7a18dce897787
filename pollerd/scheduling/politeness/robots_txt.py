"""What a host's robots.txt allows (RFC 9309), read with Protego."""

from __future__ import annotations

import functools
import math
import zlib
from collections import OrderedDict
from dataclasses import dataclass

from protego import Protego

USER_AGENT_TOKEN = "pollerd"
"""The name that rules are looked up under."""

FRESH_SECONDS = 86_400.0
"""A robots.txt is asked for again after a day (RFC 9309, section 2.4)."""

LONG_BYTES = 8 * 1024
"""From this size reading takes up to half a second, and looking up one URL a tenth: neither should be waited for."""
PARSED_BYTES = 256 * 1024
"""Text of which short rules are held parsed. Parsed, they take some fifteen times the room of their text."""
ANSWERS = 32_768
"""How many URLs are remembered with what robots.txt says of them."""
_READ_ELSEWHERE = 8


class RobotsRules:
    """The rules of one robots.txt for one agent, parsed."""

    def __init__(self, text: bytes, agent: str) -> None:
        """Bytes that are no UTF-8 are replaced."""
        self._parser, self._agent = Protego.parse(text.decode("utf-8-sig", "replace")), agent

    def allows(self, url: str) -> bool:
        """Whether the agent may ask for the URL."""
        return bool(self._parser.can_fetch(url, self._agent))

    def crawl_delay(self) -> float:
        """Seconds between two requests that the host asks for, fractions too; 0 where it says nothing usable."""
        delay = self._parser.crawl_delay(self._agent)
        return float(delay) if delay is not None and math.isfinite(delay) and delay > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RobotsText:
    """A robots.txt as it is kept: `size` bytes, compressed."""

    agent: str
    size: int
    data: bytes

    @classmethod
    def of(cls, text: bytes, agent: str) -> RobotsText:
        """The text, packed."""
        return cls(agent, len(text), zlib.compress(text))

    @property
    def long(self) -> bool:
        """Whether it should be read beside the event loop."""
        return self.size >= LONG_BYTES

    def plain(self) -> bytes:
        """The text as it was fetched."""
        return zlib.decompress(self.data)

    def read(self) -> RobotsRules:
        """The rules, parsed anew."""
        return RobotsRules(self.plain(), self.agent)


def rules_allow(text: RobotsText, url: str) -> bool:
    """Whether the agent may ask for the URL. For long texts: those read last stay parsed in the process."""
    return _read(text).allows(url)


def rules_delay(text: RobotsText) -> float:
    """`RobotsRules.crawl_delay` of the text, read as in `rules_allow`."""
    return _read(text).crawl_delay()


@functools.lru_cache(_READ_ELSEWHERE)
def _read(text: RobotsText) -> RobotsRules:
    return text.read()


class RobotsCache:
    """robots.txt by host slot: all as compressed text, short ones used lately also parsed, equal ones once.

    What a text says of a URL is remembered, so that most polls need no rules. Long texts are never parsed here: their
    answers come from elsewhere, through `note`.
    """

    def __init__(self) -> None:
        self._texts: dict[int, RobotsText] = {}
        self._parsed: OrderedDict[RobotsText, RobotsRules] = OrderedDict()
        self._parsed_bytes = 0
        self._answers: OrderedDict[tuple[RobotsText, str], bool] = OrderedDict()

    def put(self, slot: int, text: RobotsText) -> None:
        """Keeps the text for the host slot."""
        self._texts[slot] = text

    def drop(self, slot: int) -> None:
        """Forgets the host slot's; nothing where there is none."""
        self._texts.pop(slot, None)

    def text(self, slot: int) -> RobotsText | None:
        """The host slot's text; None where all is allowed."""
        return self._texts.get(slot)

    def allows(self, slot: int, url: str) -> bool | None:
        """Whether the host slot's rules, where there are any, let us ask for the URL; None: a long text has to be
        asked, with `rules_allow`."""
        text = self._texts.get(slot)
        if text is None:
            return True
        answer = self._answers.get((text, url))
        if answer is not None:
            self._answers.move_to_end((text, url))
        elif not text.long:
            answer = self._rules(text).allows(url)
            self.note(text, url, answer)
        return answer

    def delay(self, text: RobotsText) -> float | None:
        """The crawl delay (s, 0: none) of a text that is not long; None: `rules_delay` has to tell."""
        return None if text.long else self._rules(text).crawl_delay()

    def note(self, text: RobotsText, url: str, answer: bool) -> None:
        """Remembers what a text says of a URL, in place of the answer used longest ago."""
        self._answers[text, url] = answer
        while len(self._answers) > ANSWERS:
            self._answers.popitem(last=False)

    def _rules(self, text: RobotsText) -> RobotsRules:
        rules = self._parsed.get(text)
        if rules is None:
            rules = self._parsed[text] = text.read()
            self._parsed_bytes += text.size
            while self._parsed_bytes > PARSED_BYTES and len(self._parsed) > 1:
                oldest, _ = self._parsed.popitem(last=False)
                self._parsed_bytes -= oldest.size
        else:
            self._parsed.move_to_end(text)
        return rules
