"""Rules of hosts' robots.txt (RFC 9309), parsed with Protego."""

from __future__ import annotations

import functools
import math
import re
import zlib
from collections import OrderedDict
from dataclasses import dataclass

from protego import Protego

USER_AGENT_TOKEN = "pollerd"
"""The name that rules are looked up under."""

FRESH_SECONDS = 86_400.0
"""Age after which robots.txt is requested again: a day (RFC 9309, section 2.4)."""

LONG_BYTES = 8 * 1024
"""Size from which parsing takes up to half a second and looking up a URL a tenth: too long for the event loop."""
PARSED_BYTES = 256 * 1024
"""Maximum total size of the texts whose rules are kept parsed. Parsed rules take some fifteen times the size."""
ANSWERS = 32_768
"""Maximum number of cached answers, one per robots.txt and URL."""
_READ_ELSEWHERE = 8


_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_DELAY = re.compile(
    r"""^[ \t]*crawl[ _-]?delay[ \t]*[:= \t][ \t]*["'=]?(?P<number>[0-9]{1,9}(?:[.,][0-9]{1,9})?)
    [ \t]*(?P<unit>(?:ms|millisec|s|m|min)[a-z]*\b)?[^0-9\n]*$""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_MILLISECONDS = ("ms", "milli")


class RobotsRules:
    """The parsed rules of one robots.txt for one agent."""

    def __init__(self, text: bytes, agent: str) -> None:
        """Parses the text: UTF-8, or UTF-16 with a byte order mark; bytes that fit neither are replaced."""
        self._parser = Protego.parse(_with_plain_delays(_by_product_token(_decoded(text), agent)))
        self._agent = agent

    def allows(self, url: str) -> bool:
        """Returns whether the agent may request the URL."""
        return bool(self._parser.can_fetch(url.partition("#")[0], self._agent))

    def crawl_delay(self) -> float:
        """Returns the requested seconds between two requests, possibly fractional; 0 without a usable value."""
        delay = self._parser.crawl_delay(self._agent)
        return float(delay) if delay is not None and math.isfinite(delay) and delay > 0 else 0.0


def _decoded(text: bytes) -> str:
    """Returns the lines without byte order marks, which also stand where files were joined."""
    encoding = "utf-16" if text.startswith(_UTF_16_MARKS) else "utf-8"
    return "\n".join(text.decode(encoding, "replace").replace("\ufeff", "").splitlines())


def _with_plain_delays(text: str) -> str:
    """Returns the text with Crawl-delays that have a unit, quotes or a comma as plain seconds, which Protego reads."""
    return _DELAY.sub(_plain_delay, text)


def _plain_delay(line: re.Match[str]) -> str:
    unit = (line["unit"] or "s").lower()
    seconds = 0.001 if unit.startswith(_MILLISECONDS) else 60.0 if unit.startswith("m") else 1.0
    return f"Crawl-delay: {float(line['number'].replace(',', '.')) * seconds}"


def _by_product_token(text: str, agent: str) -> str:
    """Returns the text with each User-agent line that names the agent, such as `pollerd/0.1.0 (+https://…)`, reduced to
    its product token (RFC 9309, section 2.2.1): Protego compares whole lines, and operators copy what their log shows.
    """
    if agent not in text.lower():
        return text
    names_it = re.compile(rf"\s*user[- ]?agent\s*[:\s](?:[^#]*[\s(;,])?{re.escape(agent)}(?![\w-])", re.IGNORECASE)
    return "\n".join(f"User-agent: {agent}" if names_it.match(line) else line for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class RobotsText:
    """A stored robots.txt, compressed; `size` is the uncompressed size in bytes."""

    agent: str
    size: int
    data: bytes

    @classmethod
    def of(cls, text: bytes, agent: str) -> RobotsText:
        """Compresses the text."""
        return cls(agent, len(text), zlib.compress(text))

    @property
    def long(self) -> bool:
        """Whether it should be parsed outside the event loop."""
        return self.size >= LONG_BYTES

    def plain(self) -> bytes:
        """Returns the text as it was fetched."""
        return zlib.decompress(self.data)

    def read(self) -> RobotsRules:
        """Parses the rules again."""
        return RobotsRules(self.plain(), self.agent)


def rules_allow(text: RobotsText, url: str) -> bool:
    """Returns whether the agent may request the URL. For long texts: the last ones stay parsed in the process."""
    return _read(text).allows(url)


def rules_delay(text: RobotsText) -> float:
    """Returns `RobotsRules.crawl_delay` of the text, with the cache of `rules_allow`."""
    return _read(text).crawl_delay()


@functools.lru_cache(_READ_ELSEWHERE)
def _read(text: RobotsText) -> RobotsRules:
    return text.read()


class RobotsCache:
    """robots.txt by host slot: all texts compressed; recently used short ones also parsed, identical ones once.

    Answers for URLs are cached, so that most polls need no rules. Long texts are never parsed here: their answers come
    from elsewhere, through `note`.
    """

    def __init__(self) -> None:
        self._texts: dict[int, RobotsText] = {}
        self._parsed: OrderedDict[RobotsText, RobotsRules] = OrderedDict()
        self._parsed_bytes = 0
        self._answers: OrderedDict[tuple[RobotsText, str], bool] = OrderedDict()

    @property
    def parsed(self) -> tuple[RobotsText, ...]:
        """The texts whose rules are held parsed, the one used longest ago first."""
        return tuple(self._parsed)

    @property
    def parsed_bytes(self) -> int:
        """How many bytes these texts have together, as it is counted for `PARSED_BYTES`."""
        return self._parsed_bytes

    @property
    def answers(self) -> int:
        """How many answers are remembered."""
        return len(self._answers)

    def put(self, slot: int, text: RobotsText) -> None:
        """Stores the text for the host slot."""
        self._texts[slot] = text

    def drop(self, slot: int) -> None:
        """Removes the text of the host slot, if any."""
        self._texts.pop(slot, None)

    def text(self, slot: int) -> RobotsText | None:
        """Returns the text of the host slot; None if everything is allowed."""
        return self._texts.get(slot)

    def allows(self, slot: int, url: str) -> bool | None:
        """Returns whether the host slot's rules, if any, allow the URL; None: the text is long; use `rules_allow`."""
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
        """Returns the crawl delay (s, 0: none) of a short text; None: it is long; use `rules_delay`."""
        return None if text.long else self._rules(text).crawl_delay()

    def note(self, text: RobotsText, url: str, answer: bool) -> None:
        """Caches what a text says of a URL, and evicts the least recently used answers."""
        self._answers[text, url] = answer
        while len(self._answers) > ANSWERS:
            self._answers.popitem(last=False)

    def _rules(self, text: RobotsText) -> RobotsRules:
        rules = self._parsed.get(text)
        if rules is None:
            rules = self._parsed[text] = text.read()
            self._parsed_bytes += text.size
            while self._parsed_bytes > PARSED_BYTES and len(self._parsed) > 1:
                oldest, _rules = self._parsed.popitem(last=False)
                self._parsed_bytes -= oldest.size
        else:
            self._parsed.move_to_end(text)
        return rules
