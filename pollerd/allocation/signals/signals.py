"""Sources of signals, their signals, and their learned quality: received, read, learned from polls, stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pollerd.allocation.evidence import ELSEWHERE, PUSHED, SourceQuality
from pollerd.allocation.signals.pairs import Clock, Pairs, SignalReading, SignalTimes, Window, normalised, read, windows
from pollerd.allocation.signals.quality import LearnedSource, PooledQuality, say_at, stored_quality
from pollerd.allocation.slots import Since, distinct_slots
from pollerd.errors import InvalidValueError

Array = NDArray[np.float64]
_SURE = 1e-9
"""Probabilities of outcomes are kept this far from 0 and 1."""
MAX_SOURCES = 2**31 - 1
_BURST_SHARE, _BURST_PAGES, _BURST_EXCESS, _BURST_ODDS = 0.5, 10, 3.0, 3.0
"""Signals for more than this share of a source's pages at once, for this many at least, and for this many times more
than its quality lets expect, count only for sources with higher log odds: the whole list was written anew."""


class Signals:
    """Sources of signals, their pages and quality. Without a source it holds nothing and costs nothing."""

    def __init__(self, times: SignalTimes = SignalTimes.NONE) -> None:
        self.sources: dict[int, LearnedSource] = {}
        self.version = 0
        """Rises when there are other sources, or they are read elsewhere."""
        self._pairs, self._capacity = Pairs(times), 0
        self._laid_out = True
        """Whether `_pairs` has the sources' pages as they are now."""
        self._removed: set[int] = set()
        """Sources that `_pairs` has yet, but that were removed."""
        self._pooled = PooledQuality()
        self._restored: dict[int, list[float]] = {}
        """Stored quality of sources that were not added yet."""

    @property
    def active(self) -> bool:
        """Whether there is a source."""
        return bool(self.sources)

    @property
    def pairs(self) -> Pairs:
        """The sources' pages. Laid out when it is asked for: many sources may be added at a time."""
        self._lay_out()
        return self._pairs

    def _lay_out(self) -> None:
        if not self._laid_out:
            self._pairs.rebuild(self.sources, self._capacity)
            self._laid_out = True
            self._removed.clear()

    def _changed(self, capacity: int) -> None:
        """Notes that sources have other pages, or are read elsewhere; capacity: number of slots from now on."""
        self._laid_out, self._capacity = False, capacity
        self.version += 1

    def add(
        self, source: int, slots: NDArray[np.int64], polled_as: int | None, cycle: float, capacity: int, host: int
    ) -> None:
        """Adds a source, or changes its pages and keeps its quality. cycle: s, the uniform cycle.

        A new one starts like the others of its host (-1: unknown), or else like all.
        """
        source = _number("source", source)
        slots = distinct_slots(slots)
        fetched_as = PUSHED if polled_as is None else int(polled_as)
        if source in self._removed:
            self._lay_out()  # nothing is left of it: this is another one
        known = self.sources.get(source)
        if known is None:
            new = LearnedSource(slots, fetched_as, cycle, host)
            self._pooled.teach(new, self.sources.values())
            self._restore_one(source, new)
            self.sources[source] = new
            self._pooled.include(new)
        else:
            known.slots, known.polled_as, known.host = slots, fetched_as, host
            self._pooled.clear()
        self._changed(capacity)

    def remove(self, source: int, capacity: int) -> None:
        """Forgets a source."""
        self._restored.pop(source, None)
        if self.sources.pop(source, None) is not None:
            self._removed.add(source)
            self._pooled.clear()
            self._changed(capacity)

    def forget(self, slots: NDArray[np.int64], capacity: int) -> None:
        """Takes slots int64[k], which are freed, from all sources; what was fetched as one of them is unread then."""
        freed = set(slots.tolist())
        elsewhere = [of for of in self.sources.values() if of.polled_as in freed]
        for of in elsewhere:
            of.polled_as = ELSEWHERE
        rows = np.concatenate([np.empty(0, np.int64), *self.pairs.levels(slots)])
        fewer = np.unique(self.pairs.source[rows[rows >= 0]]).tolist()
        for source in fewer:
            of = self.sources[source]
            of.slots = of.slots[~np.isin(of.slots, slots)]
        if fewer or elsewhere:
            self._changed(capacity)
            self._lay_out()  # nothing is left of them: others may have their numbers next

    def receive(
        self,
        slots: NDArray[np.int64],
        source: int,
        at: Array,
        now: float,
        rates: Array,
        decay: Array | None = None,
    ) -> NDArray[np.int64]:
        """Counts signals: slots int64[k], at float64[k] epoch s or nan, rates float64[k] 1/s expected of the slots.

        decay float64[k], 1/s: of the worth of their news, where joint times are kept. A signal dated before the page's
        last poll tells of nothing new; a date in the future is no date. Returns the slots that got one.
        """
        of, pairs = self.sources.get(source), self.pairs
        if of is None:
            return np.empty(0, np.int64)
        rows = pairs.rows_of(slots, source)
        dated = (at <= now) & (rows >= 0)
        polled = np.where(rows >= 0, pairs.polled_at[pairs.first(slots)].astype(np.float64) + pairs.origin, -np.inf)
        good = (rows >= 0) & ~(dated & (at <= polled))
        is_burst = self._is_burst(of, int(good.sum()), rates[good], now)
        reported_at = of.reported_at(now)
        of.received(int((rows >= 0).sum()), at[dated], now)
        self._announce(of, rows[dated], at[dated], good[dated] & (not is_burst), now)
        if is_burst:
            return np.empty(0, np.int64)
        fresh = np.ones(len(slots))
        if -np.inf < reported_at < now:
            # undated, since the last reading: it may report a change that a poll in between has seen
            fresh = np.where(dated, 1.0, np.clip((now - polled) / (now - reported_at), 0.0, 1.0))
        pairs.begin(now)
        if of.learns_delay:
            age = now - polled[good]
            np.add.at(pairs.early, rows[good], (of.on_the_way(age) @ of.delay_chances).astype(np.float32))
            # the only signal since the last poll teaches the delay
            first = np.isposinf(pairs.after_poll[rows[good]])
            pairs.after_poll[rows[good]] = np.where(first & np.isfinite(age), age, np.nan)
        np.add.at(pairs.number, rows[good], fresh[good].astype(np.float32))
        # halfway since its last report, if it does not report each change at once
        undated_at = (now + reported_at) / 2 if -np.inf < reported_at < now else now
        news_at = np.where(dated, at, undated_at)[good]
        pairs.date(rows[good], news_at, fresh[good], None if decay is None else decay[good])
        return slots[good]

    def _announce(
        self, of: LearnedSource, rows: NDArray[np.int64], at: Array, news: NDArray[np.bool_], now: float
    ) -> None:
        if len(rows):
            self.pairs.begin(now)
            self.pairs.announce(rows, at, news, of.newest)
            of.newest = float(at.max())

    def announced(self, slots: NDArray[np.int64]) -> tuple[Array, Array]:
        """Returns the latest dates of changes since the last polls of slots int64[k], float64[k] epoch s, nan: none.

        And how far the most believed of the sources that gave them is, float64[k], 0 to 1. What is dated with the time
        at which a list was made is no such date.
        """
        dates, say = np.full(len(slots), np.nan), np.zeros(len(slots))
        for row in self.pairs.levels(slots):
            some = np.flatnonzero((row >= 0) & self.pairs.announced[row])
            there = row[some]
            dates[some] = np.fmax(dates[some], self.pairs.dated_at[there].astype(np.float64) + self.pairs.origin)
            say[some] = np.maximum(say[some], [self.sources[i].say for i in self.pairs.source[there].tolist()])
        return dates, say

    def _is_burst(self, of: LearnedSource, number: int, rates: Array, now: float) -> bool:
        if number < _BURST_PAGES or number <= _BURST_SHARE * len(of.slots) or of.log_odds >= _BURST_ODDS:
            return False
        return number > _BURST_EXCESS * float(-np.expm1(-rates * of.quiet_before(now)).sum())

    def read(
        self, slots: NDArray[np.int64], gap: Array, rates: Array, now: float, clock: Clock | None = None
    ) -> tuple[SignalReading, list[Window]]:
        """Returns the reading of slots int64[k] with sources, gap float64[k] s after their polls, rates float64[k, K].

        rates: per s of the gap; clock: on which gaps are measured, None: the ordinary one.
        """
        of, say = windows(self.pairs, self.sources, slots, gap, now, clock)
        return read(of, say, rates * gap[:, None], rates, gap), of

    def learn(
        self,
        slots: NDArray[np.int64],
        read_before: tuple[SignalReading, list[Window]],
        rates: Array,
        rows: Array,
        changed: NDArray[np.bool_],
    ) -> set[int]:
        """Learns the quality of sources from polls of distinct slots int64[k] with sources; returns these sources.

        read_before: what `read` returned before the polls; rates, rows float64[k, K]: the belief before the signals
        since the last polls; changed bool[k].
        """
        reading, of = read_before
        with_signals = normalised(rows, reading.evidence)
        # The rival has the same belief about the rate, but no news. A belief learned without signals from polls that
        # came when there were signals takes every page for fast, and is never refuted.
        quiet = (with_signals * np.exp(-reading.level)).sum(1), (rows * np.exp(-reading.quiet)).sum(1)
        factor = _log_chance(quiet[0], changed) - _log_chance(quiet[1], changed)
        caught = np.maximum(-np.expm1(-reading.level), 1e-12)
        after = with_signals * np.where(changed[:, None], caught, np.exp(-reading.level))
        after /= np.maximum(after.sum(1, keepdims=True), 1e-300)
        learned: set[int] = set()
        for window, row in zip(of, self.pairs.levels(slots), strict=True):
            self._learn_pushed(row, window, read_before, rates, rows, changed)
            self._learn_delays(row, with_signals, rates, reading.quiet[:, 0] / rates[:, 0], changed)
            self._learn_source(window, row, after, reading.level, rates, changed, factor)
            there = row[row >= 0]
            self.pairs.use_up(there)
            learned |= set(self.pairs.source[there].tolist())
        return learned

    def _learn_pushed(
        self,
        row: NDArray[np.int64],
        window: Window,
        read_before: tuple[SignalReading, list[Window]],
        rates: Array,
        rows: Array,
        changed: NDArray[np.bool_],
    ) -> None:
        """Learns recall and false signals of pushed sources of one level by the likelihood of polls and signals.

        row int64[k], window: of the sources of the level.
        """
        which = [i for i in np.flatnonzero(row >= 0).tolist() if self._source_of(row[i]).polled_as == PUSHED]
        if not which:
            return
        some = np.array(which)
        nodes = np.stack([self._source_of(i).joint.nodes for i in row[some]])
        # each poll at all points of both hypotheses, in one reading
        points = nodes.shape[1] * nodes.shape[-1]
        every = np.repeat(some, points)
        recall, signals = (nodes[:, :, i].reshape(-1, 1) for i in (0, 1))
        power = np.tile(np.repeat([0.0, 1.0], nodes.shape[-1]), len(some))[:, None]
        mine, of = window.take(every), [one.take(every) for one in read_before[1] if one is not window]
        mine = replace(mine, recall=recall, false_rate=signals / mine.cycle, power=power)
        quiet, rates = read_before[0].quiet[every], rates[every]
        reading = read([mine, *of], read_before[0].say[every], quiet, rates, quiet[:, 0] / rates[:, 0])
        most = reading.evidence.max(1, keepdims=True)
        likely = rows[every] * np.exp(reading.evidence - most)
        unchanged = (likely * np.exp(-reading.level)).sum(1)
        found = np.where(changed[every], likely.sum(1) - unchanged, unchanged)
        # of false signals, too, of a page that changes once a cycle, which the reading leaves out
        usual = mine.number * np.log(mine.false_rate) - mine.false_rate * (mine.covered + mine.late)
        chances = ((most + usual)[:, 0] + np.log(np.maximum(found, _SURE))).reshape(len(some), *nodes.shape[1::2])
        ids = self.pairs.source[row[some]]
        for source in np.unique(ids).tolist():
            here = ids == source
            self.sources[source].learn_pushed(chances[here])

    def _source_of(self, row: int) -> LearnedSource:
        return self.sources[int(self.pairs.source[row])]

    def _learn_delays(
        self, row: NDArray[np.int64], belief: Array, rates: Array, gap: Array, changed: NDArray[np.bool_]
    ) -> None:
        """Learns the delays of sources without dates, of one level, by what polls found after one signal.

        After none would speak for late ones as soon as a source misses changes. belief, rates float64[k, K]: of the
        page's rate, with signals; gap float64[k], s.
        """
        for i in np.flatnonzero(row >= 0).tolist():
            of, after_poll = self._source_of(row[i]), float(self.pairs.after_poll[row[i]])
            if not of.learns_delay or not np.isfinite(after_poll):
                continue
            told, (false_rate, power) = of.recall * rates[i, :, None], of.false_signals
            false = false_rate * (rates[i, :, None] * of.learned_cycle) ** power
            level = rates[i, :, None] * (1.0 - of.recall) * gap[i] + told * of.open_time(gap[i])
            level += np.log((false + told) / (false + told * of.on_the_way(np.array(after_poll))))
            unchanged = belief[i] @ np.exp(-level)
            of.learn_delay(np.log(np.clip(1.0 - unchanged if changed[i] else unchanged, _SURE, 1.0)))

    def _learn_source(
        self,
        window: Window,
        row: NDArray[np.int64],
        after: Array,
        level: Array,
        rates: Array,
        changed: NDArray[np.bool_],
        factor: Array,
    ) -> None:
        """Shares out the changes found among announced and unannounced ones (EM), for the sources of one level.

        after, level float64[k, K]: belief after the polls, and L before them.
        """
        each, before = window.weights(rates)
        old, true = -np.expm1(-before), -np.expm1(-each - before)
        share = after / np.maximum(-np.expm1(-level), 1e-12)
        # a signal that is true tells of a change since the poll, if one was found, or else of one before it
        told = np.where(changed, (share * (true - old * np.exp(-level))).sum(1), (after * old).sum(1))
        number, covered = window.number[:, 0], (window.covered + window.late)[:, 0]
        told = number * np.clip(told, 0.0, 1.0)
        unsaid = np.where(changed, (share * (1.0 - window.recall) * rates * window.covered).sum(1), 0.0)
        there = np.flatnonzero(row >= 0)
        usual = np.empty(len(there))
        self._pooled.clear()
        for k, i in enumerate(there.tolist()):
            of = self._source_of(row[i])
            usual[k] = of.mean_evidence
            of.learn(*(float(x[i]) for x in (told, unsaid, number, covered, factor)))
        rows = row[there]
        false = ((after * window.false_rates(rates)).sum(1) * covered)[there] / self.pairs.own_false(rows)
        self.pairs.learn_false(rows, (number - told)[there], false)
        self.pairs.learn(rows, factor[there] - usual)

    def polled(self, slots: NDArray[np.int64], now: float) -> None:
        """Notes that slots int64[k] were polled: older signals are used up."""
        pairs = self.pairs
        pairs.begin(now)
        for row in pairs.levels(slots):
            pairs.use_up(row[row >= 0])
        first = pairs.first(slots)
        pairs.polled_at[first[first >= 0]] = now - pairs.origin

    def know_last_polls(self, elapsed: Array | Since, now: float) -> None:
        """Takes over when pages were polled last of which that is not known: elapsed float64[n] s of all slots.

        Of a first poll nothing is learned, so no other call tells of it.
        """
        pairs = self.pairs
        slots = pairs.unknown
        if not slots.size:
            return
        since = elapsed[slots]
        first = pairs.first(slots)
        unknown = np.isneginf(pairs.polled_at[first])
        fresh = unknown & np.isfinite(since)
        pairs.begin(now)
        pairs.polled_at[first[fresh]] = now - since[fresh] - pairs.origin
        pairs.unknown = slots[unknown & ~fresh]

    def gaps(self, slots: NDArray[np.int64], now: float) -> Array:
        """Returns the s since the last polls of slots int64[k] with sources, inf: not known, float64[k]."""
        pairs = self.pairs
        return np.maximum(now - pairs.origin - pairs.polled_at[pairs.first(slots)].astype(np.float64), 0.0)

    def believed(self, least: float) -> NDArray[np.int64]:
        """Returns the slots that have a source with a say of at least `least`, ascending, int64[n]."""
        slots = [of.slots for of in self.sources.values() if of.say >= least]
        return np.unique(np.concatenate(slots)) if slots else np.empty(0, np.int64)

    def say(self, slot: int) -> float:
        """Returns how far the sources of a slot are believed there, 0 to 1."""
        rows = [int(level[0]) for level in self.pairs.levels(np.array([slot]))]
        odds = [self.sources[int(self.pairs.source[row])].log_odds + float(self.pairs.log_odds[row]) for row in rows]
        return float(say_at(np.array(max(odds)))) if odds else 0.0

    def waiting(self, slots: NDArray[np.int64]) -> Array:
        """Returns the number of signals since the last polls of slots int64[k], float64[k]; nan where no source is."""
        if not self.active:
            return np.full(len(slots), np.nan)
        out = np.where(self.pairs.first(slots) >= 0, 0.0, np.nan)
        for row in self.pairs.levels(slots):
            out += np.where(row >= 0, self.pairs.number[row], 0.0)
        return out

    def quality(self, source: int) -> SourceQuality | None:
        """Returns what was learned of a source."""
        of = self.sources.get(source)
        return None if of is None else of.quality()

    # -- storage

    def state(self) -> dict[str, NDArray[Any]]:
        """Returns the quality of the sources as arrays; none without sources.

        What sources said of single pages is not in it: the caller passes signals that no poll followed again.
        """
        kept = self._restored | {source: of.learned() for source, of in self.sources.items()}
        if not kept:
            return {}
        ids = sorted(kept)
        return {
            "signal_sources": np.array(ids, np.int64),
            "signal_quality": np.array([kept[i] for i in ids], np.float64),
        }

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Restores `state`; a source that is not known yet gets its quality when it is added.

        Raises InvalidValueError for arrays that `state` cannot have returned.
        """
        ids, quality = arrays["signal_sources"].tolist(), arrays["signal_quality"]
        table = stored_quality(quality, len(ids)).tolist()
        self._restored = {_number("shared_state", source): row for source, row in zip(ids, table, strict=True)}
        self._pooled.clear()
        for source, of in self.sources.items():
            self._restore_one(source, of)

    def _restore_one(self, source: int, of: LearnedSource) -> None:
        numbers = self._restored.pop(source, None)
        if numbers is not None:
            of.learn_again(numbers)


def _log_chance(quiet: Array, changed: NDArray[np.bool_]) -> Array:
    """Returns the log probability float64[k] of what polls found; quiet float64[k]: that of no change."""
    return np.asarray(np.log(np.clip(np.where(changed, 1.0 - quiet, quiet), _SURE, 1.0 - _SURE)))


def _number(field: str, value: int) -> int:
    if not 0 <= int(value) <= MAX_SOURCES:
        raise InvalidValueError(field, f"from 0 to {MAX_SOURCES}", value)
    return int(value)
