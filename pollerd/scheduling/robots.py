"""What a host's robots.txt allows (RFC 9309), read with Protego."""

from __future__ import annotations

import math
import zlib
from collections import OrderedDict
from dataclasses import dataclass

from protego import Protego

FRESH_SECONDS = 86_400.0
"""A robots.txt is asked for again after a day (RFC 9309, section 2.4)."""

PARSED_BYTES = 4 * 1024 * 1024
"""Text of which rules are held parsed. Parsed, they take some fifteen times the room of their text."""
LONG_BYTES = 8 * 1024
"""From this size parsing takes long enough, 10 to 500 ms, that it should not be waited for."""


@dataclass(frozen=True)
class RobotsRules:
    """The rules of one host for one agent. `parser` None: everything is allowed."""

    parser: Protego | None
    agent: str
    fetched_at: float
    text: bytes = b""
    """What was read."""

    @classmethod
    def parse(cls, body: bytes | None, agent: str, fetched_at: float) -> RobotsRules:
        """Reads a robots.txt; None: there is none, so all is allowed. Bytes that are no UTF-8 are replaced."""
        if body is None:
            return cls(None, agent, fetched_at)
        return cls(Protego.parse(body.decode("utf-8-sig", "replace")), agent, fetched_at, body)

    def allows(self, url: str) -> bool:
        """Whether the agent may ask for the URL."""
        return self.parser is None or bool(self.parser.can_fetch(url, self.agent))

    def crawl_delay(self) -> float:
        """Seconds between two requests that the host asks for, fractions too; 0 where it says nothing usable."""
        delay = self.parser.crawl_delay(self.agent) if self.parser is not None else None
        return float(delay) if delay is not None and math.isfinite(delay) and delay > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PackedRobots:
    """A robots.txt as it is kept."""

    agent: str
    data: bytes

    @classmethod
    def of(cls, text: bytes, agent: str) -> PackedRobots:
        """The text, compressed."""
        return cls(agent, zlib.compress(text))

    def read(self) -> RobotsRules:
        """The rules, parsed anew."""
        return RobotsRules.parse(zlib.decompress(self.data), self.agent, 0.0)


class RobotsShelf:
    """robots.txt by host slot: all as compressed text, those used lately also parsed; equal ones are parsed once."""

    def __init__(self) -> None:
        self._packed: dict[int, PackedRobots] = {}
        self._long: set[int] = set()
        self._parsed: OrderedDict[PackedRobots, RobotsRules] = OrderedDict()
        self._parsed_bytes = 0

    def put(self, slot: int, text: bytes, agent: str) -> None:
        """Keeps the text for the host slot."""
        self._packed[slot] = PackedRobots.of(text, agent)
        if len(text) >= LONG_BYTES:
            self._long.add(slot)
        else:
            self._long.discard(slot)

    def put_parsed(self, slot: int, rules: RobotsRules) -> None:
        """Keeps rules that were just read."""
        self.put(slot, rules.text, rules.agent)
        self.hold(self._packed[slot], rules)

    def drop(self, slot: int) -> None:
        """Forgets the host slot's; nothing where there is none."""
        self._packed.pop(slot, None)
        self._long.discard(slot)

    def unread(self, slot: int) -> PackedRobots | None:
        """The host slot's text where it is long and not held parsed: to be read elsewhere, then held."""
        if slot not in self._long or self._packed[slot] in self._parsed:
            return None
        return self._packed[slot]

    def allows(self, slot: int, url: str) -> bool:
        """Whether the host slot's rules, where there are any, let us ask for the URL."""
        packed = self._packed.get(slot)
        if packed is None:
            return True
        rules = self._parsed.get(packed)
        if rules is None:
            rules = packed.read()
            self.hold(packed, rules)
        else:
            self._parsed.move_to_end(packed)
        return rules.allows(url)

    def hold(self, packed: PackedRobots, rules: RobotsRules) -> None:
        """Keeps rules that were read from a text, in place of those used longest ago."""
        if packed not in self._parsed:
            self._parsed_bytes += len(rules.text)
        self._parsed[packed] = rules
        while self._parsed_bytes > PARSED_BYTES and len(self._parsed) > 1:
            _, oldest = self._parsed.popitem(last=False)
            self._parsed_bytes -= len(oldest.text)
