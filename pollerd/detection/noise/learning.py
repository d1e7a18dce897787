"""Masks learned from two polls right after each other, whose differences are noise, and comparison under a site's mask.

The second of the two is a repeat fetch (a proof poll).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

import xxhash
from msgspec import Struct, structs

from pollerd.detection.edits import Gap, unmatched
from pollerd.detection.noise.alignment import NoisyBlock, NoisyLine, crossings, gaps, noise_of
from pollerd.detection.noise.clocks import follows_time, has_time, is_clock
from pollerd.detection.noise.forms import differing_forms, grows, without_forms
from pollerd.detection.noise.mask import (
    ANCHORS_MAX,
    DEPTH_MAX,
    EDGE,
    NO_MASK,
    OFFSET_MAX,
    RULES_MAX,
    Anchor,
    BlockRule,
    FormRule,
    KnownBy,
    LineRule,
    Mask,
    MaskApplication,
    Place,
    Rule,
    UnitIndex,
    apply,
    body,
    from_bytes,
    hidden_by_rule,
    to_bytes,
)
from pollerd.detection.noise.states import may_alternate, names_price_or_version
from pollerd.detection.noise.templates import MARK, Template, TokenKind, shown, united
from pollerd.model import Baseline
from pollerd.texts import _

GAPS_MAX = 2_000
"""Maximum number of gaps examined: they are representative of the others."""
TEMPLATES_TRIED = 4 * RULES_MAX
_EVERYWHERE_MIN = 3
_PREFIX_BYTES = 32
_PREFIX_LETTERS = 2
_PATIENCE = 3
"""Consecutive pairs of fetches without a rule's place after which the rule is dropped."""
_SPREAD = 2
"""A block's range of sizes is extended at both ends by this multiple of the observed difference."""
_SHOWN = 60
_ROW_LINES = 8
"""Most lines that may differ at a change of a row."""
_SPEAKING = (TokenKind.WORD, TokenKind.CODE)


def learn(
    a: bytes,
    b: bytes,
    known: Mask = NO_MASK,
    before: bytes | None = None,
    *,
    returns: bool = True,
    by: KnownBy = KnownBy.PROOF,
) -> Mask:
    """Returns the mask under which contents `a` and `b` of two fetches (as `normalise` gives them, unmasked) are equal.

    `known` is the mask so far: it is kept, widened where the two fetches require it; rules whose place was in neither
    content of three consecutive pairs are dropped. `before` is the content of the poll before both: a part that it
    shares with `a` was stable until then and is no noise, but a change between the two; it is not masked. `returns`:
    whether a part that `b` shares with `before` is noise: False where a change may have been taken back between the
    two, or is not on all servers of the host yet. A part that is a state, a price, a version or a date is none then.
    `by`: how rules that are learned are known.

    Noise without a unique place (more than `RULES_MAX` rules, neighbours that differ too, or that also occur next to
    stable lines) is left out: then the two differ under the mask as well. Deterministic; raises nothing.
    """
    if MARK in a or MARK in b or (a == b and known == NO_MASK):
        return known
    return _FetchPair(a, b, known, before, returns=returns).mask(by)


Admits = Callable[[bytes, bytes], bool]
"""Returns whether what differs between two texts of a place is noise; the later one comes second."""


def learn_at_lines(a: bytes, b: bytes, known: Mask, admits: Admits, by: KnownBy) -> Mask:
    """Returns the known mask with rules for the lines that differ between two contents, as far as they are admitted.

    Rules that would accept any text are left out. Everything else may differ for real.
    """
    if MARK in a or MARK in b or a == b:
        return known
    return _FetchPair(a, b, known, None, returns=True, admits=admits).with_lines(by)


def _admits_all(line: bytes, other: bytes) -> bool:
    return True


class _FetchPair:
    """Two fetches of a page, one right after the other."""

    def __init__(
        self, a: bytes, b: bytes, known: Mask, before: bytes | None, *, returns: bool, admits: Admits = _admits_all
    ) -> None:
        self._returns, self._admits = returns, admits
        self._a, self._b, self._known = MaskApplication(a, known), MaskApplication(b, known), known
        self._one, self._other = self._a.page, self._b.page
        self._before = None if before is None else UnitIndex(before)
        self._crossings = [] if self._before is None else crossings(self._one.keys, self._before.keys)
        self._followed = set() if self._before is None else set(pairwise([EDGE, *self._before.keys]))
        self._kept_blocks: list[BlockRule] = []
        self._any_lines: set[Gap] = set()
        self._refused, self._other_refused = _refused(self._one, known), _refused(self._other, known)
        self._refused_forms = [rule.form for rule in known.refused if isinstance(rule, FormRule)]
        differing = self._without_chance(gaps(self._one.keys, self._other.keys)[:GAPS_MAX])
        differing = self._outside_known_blocks(differing)
        self._noise = [each for gap in differing for each in self._noise_of(gap) if self._is_noise(each)]
        self._noisy = {*_units(self._noise, other=False), *self._hidden(self._a)}
        self._other_noisy = {*_units(self._noise, other=True), *self._hidden(self._b)}
        self._noisy_keys = {
            *(self._one.keys[at] for at in _units(self._noise, other=False)),
            *(self._other.keys[at] for at in _units(self._noise, other=True)),
        }

    def mask(self, by: KnownBy) -> Mask:
        """Returns the known rules that still hold, and those learned from this pair of fetches."""
        lines = [each for each in self._noise if isinstance(each, NoisyLine)]
        blocks = [each for each in self._noise if isinstance(each, NoisyBlock)]
        rules = (self._resized(rule) for rule in map(self._block_rule, blocks) if rule is not None)
        fresh_blocks = [replace(rule, by=by) for rule in rules]
        fresh_lines = [replace(rule, by=self._known_by(rule, by)) for rule in self._line_rules(lines)]
        relearned = {anchor for rule in fresh_blocks for anchor in (rule.before, rule.after)}
        kept_blocks = [
            rule
            for rule in self._kept_blocks
            if relearned.isdisjoint((rule.before, rule.after)) and self._holds(rule.before) and self._holds(rule.after)
        ]
        all_blocks = [*fresh_blocks, *kept_blocks][:RULES_MAX]
        all_lines = _distinct([*fresh_lines, *self._kept_lines({each.at for each in lines})])
        return replace(self._known, blocks=tuple(all_blocks), lines=tuple(all_lines[: RULES_MAX - len(all_blocks)]))

    def _known_by(self, rule: LineRule, by: KnownBy) -> KnownBy:
        """Returns how the noise of a line is known: as before, if its rule only takes more values."""
        return next((known.by for known in self._known.lines if rule.has_slots_of(known)), by)

    def with_lines(self, by: KnownBy) -> Mask:
        """Returns the known mask with rules learned from lines of this pair that accept no more than a few tokens."""
        noisy = [each for each in self._noise if isinstance(each, NoisyLine) and not each.template.is_vague]
        fresh = [replace(rule, by=by) for rule in self._line_rules(noisy)]
        lines = _distinct([*self._known.lines, *fresh])
        return replace(self._known, lines=tuple(lines[: RULES_MAX - len(self._known.blocks)]))

    def _is_noise(self, noise: NoisyLine | NoisyBlock) -> bool:
        if not self._refused.isdisjoint(_units([noise], other=False)):
            return False
        if not self._other_refused.isdisjoint(_units([noise], other=True)):
            return False
        texts = (self._text(noise, other=False), self._text(noise, other=True))
        if self._refused_forms and any(without_forms(text, self._refused_forms) != text for text in texts):
            return False
        return self._confirmed(noise) and self._admits(*texts)

    def _text(self, noise: NoisyLine | NoisyBlock, *, other: bool) -> bytes:
        page = self._other if other else self._one
        return b"\n".join(body(page.units[at]) for at in _units([noise], other=other))

    def _without_chance(self, differing: list[Gap]) -> list[Gap]:
        """Merges gaps separated only by units that the poll before did not have: both share those by chance."""
        merged: list[Gap] = []
        for gap in differing:
            last = merged[-1] if merged else None
            if last is not None and not any(map(self._witnessed, self._one.keys[last.a_end : gap.a_start])):
                merged[-1] = Gap(last.a_start, gap.a_end, last.b_start, gap.b_end)
            else:
                merged.append(gap)
        return merged

    def _witnessed(self, key: int) -> bool:
        return self._before is None or key == EDGE or key in self._before

    def _outside_known_blocks(self, differing: list[Gap]) -> list[Gap]:
        """Returns the gaps that no known block explains. A partly explained gap is merged with the block."""
        for rule in self._known.blocks:
            places, other_places = self._a.blocks[rule], self._b.blocks[rule]
            if not places or not other_places:
                if rule.unseen + 1 < _PATIENCE or places or other_places:
                    self._kept_blocks.append(replace(rule, unseen=0 if places or other_places else rule.unseen + 1))
                continue
            holds = True
            for place, other in zip(places, other_places, strict=False):
                touched = [gap for gap in differing if _touches(gap, place, other)]
                differing = [gap for gap in differing if gap not in touched]
                same = self._a.block_text(place, rule) == self._b.block_text(other, rule)
                beside = self._a.begins_block(place.end) or self._b.begins_block(other.end)
                if beside or not same or not all(_within(gap, place, other) for gap in touched):
                    joined = _joined(touched, place, other)
                    differing.append(joined)
                    holds = False
                    if not rule.any_order or (touched and any(gap in self._any_lines for gap in touched)):
                        self._any_lines.add(joined)
            if holds:
                self._kept_blocks.append(replace(rule, unseen=0))
        return sorted(differing, key=lambda gap: gap.a_start)

    def _noise_of(self, gap: Gap) -> list[NoisyLine | NoisyBlock]:
        if gap in self._any_lines:
            return [NoisyBlock(Place(gap.a_start, gap.a_end), Place(gap.b_start, gap.b_end), any_order=False)]
        return [self._extended(self._widened(each)) for each in noise_of(gap, self._one, self._other)]

    def _extended(self, noise: NoisyLine | NoisyBlock) -> NoisyLine | NoisyBlock:
        """Extends a reordered block by adjacent lines that were at another place only in the poll before."""
        if isinstance(noise, NoisyLine) or not noise.any_order:
            return noise
        place, other = noise.place, noise.other_place
        for start, end in self._crossings:
            above, below = max(place.start - start, 0), max(end - place.end, 0)
            beside = start < place.end and place.start < end
            if (
                beside
                and self._same_units(place.start, other.start, -above)
                and self._same_units(place.end, other.end, below)
            ):
                place = Place(place.start - above, place.end + below)
                other = Place(other.start - above, other.end + below)
        return replace(noise, place=place, other_place=other)

    def _same_units(self, at: int, other_at: int, count: int) -> bool:
        """Returns whether `count` units from the positions on (before them, if negative) are equal in both."""
        ours, theirs = sorted((at, at + count)), sorted((other_at, other_at + count))
        return self._one.keys[slice(*ours)] == self._other.keys[slice(*theirs)]

    def _widened(self, noisy: NoisyLine | NoisyBlock) -> NoisyLine | NoisyBlock:
        """Widens the spans by the known rules of the same line."""
        if isinstance(noisy, NoisyBlock):
            return noisy
        spans = noisy.spans
        for rule in self._known.lines:
            if noisy.at in self._a.found[rule]:
                known = rule.template.spans(noisy.line)
                spans = spans if known is None else united(noisy.line, spans, known)
        return replace(noisy, spans=spans)

    def _confirmed(self, noise: NoisyLine | NoisyBlock) -> bool:
        """Returns whether the same place differed from the poll before as well."""
        if isinstance(noise, NoisyLine):
            ours, theirs = Place(noise.at, noise.at + 1), Place(noise.other_at, noise.other_at + 1)
        else:
            ours, theirs = noise.place, noise.other_place
        if not self._differs(noise, self._one, ours):
            return False
        if self._differs(noise, self._other, theirs):
            return True
        return self._returns and may_alternate(self._text(noise, other=False), self._text(noise, other=True))

    def _differs(self, noise: NoisyLine | NoisyBlock, page: UnitIndex, place: Place) -> bool:
        """Returns whether the place of one of the two fetches differs from the poll before."""
        if self._before is None:
            return True
        keys = page.keys[place.start : place.end]
        if isinstance(noise, NoisyLine):
            return keys[0] not in self._before
        if noise.any_order:
            among = set(keys)
            return [key for key in self._before.keys if key in among] != keys
        still = sum((page.key(at - 1), page.key(at)) in self._followed for at in range(place.start, place.end))
        return 2 * still < len(keys)

    def _hidden(self, side: MaskApplication) -> Iterator[int]:
        """Yields the units that the known mask hides."""
        yield from side.lines
        yield from (at for at, covered in enumerate(side.covered) if covered)

    def _holds(self, anchor: Anchor) -> bool:
        """Returns whether an anchor did not turn out to be noise itself."""
        return anchor.keys[0] not in self._noisy_keys

    def _kept_lines(self, relearned: set[int]) -> Iterator[LineRule]:
        for known in self._known.lines:
            hits, other_hits = self._a.found[known], self._b.found[known]
            rule = replace(known, anchors=tuple(filter(self._holds, known.anchors)))
            if not rule.anchors and not rule.prefix:
                continue
            if not hits and not other_hits:
                if rule.unseen + 1 < _PATIENCE:
                    yield replace(rule, unseen=rule.unseen + 1)
            elif not hits or not hits <= relearned:
                yield replace(rule, unseen=0)

    def _line_rules(self, lines: Sequence[NoisyLine]) -> Iterator[LineRule]:
        by_template: dict[Template, list[NoisyLine]] = {}
        for each in lines:
            by_template.setdefault(each.template, []).append(each)
        largest_first = sorted(by_template.items(), key=lambda item: -len(item[1]))
        for template, group in largest_first[:TEMPLATES_TRIED]:
            prefix = _prefix(group[0])
            label = shown(group[0].line, group[0].spans)
            if len(group) >= _EVERYWHERE_MIN and prefix and self._all_noisy(template, prefix):
                yield LineRule(template, (), prefix, _("lines like «{label}»", label=label)[: 2 * _SHOWN])
                continue
            anchors = list(dict.fromkeys(anchor for each in group for anchor in self._anchors(each, template)))
            for start in range(0, len(anchors), ANCHORS_MAX):
                some = tuple(anchors[start : start + ANCHORS_MAX])
                yield LineRule(template, some, b"", self._shown_line(group, label))

    def _all_noisy(self, template: Template, prefix: bytes) -> bool:
        """Returns whether no stable line matches."""
        return not any(
            at not in noisy and unit.startswith(prefix) and template.masked(body(unit)) is not None
            for page, noisy in ((self._one, self._noisy), (self._other, self._other_noisy))
            for at, unit in enumerate(page.units)
        )

    def _anchors(self, noisy: NoisyLine, template: Template) -> Iterator[Anchor]:
        for step in (1, -1):
            for anchor in self._candidates(noisy.at, noisy.other_at, step):
                if self._only_noise(anchor, template):
                    yield anchor
                    break

    def _candidates(self, at: int, other_at: int, step: int) -> Iterator[Anchor]:
        """Yields anchors on one side of a position (1: before it, -1: after it), ever deeper; only of stable units."""
        for distance in range(1, OFFSET_MAX + 1):
            nearest, other_nearest = at - step * distance, other_at - step * distance
            if not self._stable(nearest, other_nearest):
                continue
            keys: list[int] = []
            for n in range(DEPTH_MAX):
                place = nearest - step * n
                if not self._stable(place, other_nearest - step * n):
                    return
                keys.append(self._one.key(place))
                yield Anchor(step * distance, tuple(keys))
                if not 0 <= place < len(self._one.units):
                    return
            return

    def _stable(self, at: int, other_at: int) -> bool:
        noisy = at in self._noisy or other_at in self._other_noisy
        key = self._one.key(at)
        return not noisy and key == self._other.key(other_at) and self._witnessed(key)

    def _only_noise(self, anchor: Anchor, template: Template) -> bool:
        """Returns whether the rule would match no stable line."""
        for page, noisy in ((self._one, self._noisy), (self._other, self._other_noisy)):
            hits = [at for at in page.targets(anchor) if 0 <= at < len(page.units)]
            if not hits or any(at not in noisy and template.masked(body(page.units[at])) is not None for at in hits):
                return False
        return True

    def _block_rule(self, noise: NoisyBlock) -> BlockRule | None:
        place, other = noise.place, noise.other_place
        least, most = sorted((place.end - place.start, other.end - other.start))
        shortest, longest = max(least - _SPREAD * (most - least), min(1, least)), most + _SPREAD * (most - least)
        befores = list(self._candidates(place.start, other.start, 1))
        afters = list(self._candidates(place.end - 1, other.end - 1, -1))
        label = self._shown_block(noise)
        for depth in range(max(len(befores), len(afters)) if befores and afters else 0):
            before, after = befores[min(depth, len(befores) - 1)], afters[min(depth, len(afters) - 1)]
            rule = BlockRule(before, after, shortest, longest, noise.any_order, noise.templates, label)
            if self._only_noisy_blocks(rule):
                return rule
        return None

    def _resized(self, rule: BlockRule) -> BlockRule:
        """Extends the rule's sizes by those of the known block."""
        for known in self._known.blocks:
            if (known.before, known.after) == (rule.before, rule.after):
                sizes = (known.shortest, known.longest, rule.shortest, rule.longest)
                return replace(rule, shortest=min(sizes), longest=max(sizes))
        return rule

    def _only_noisy_blocks(self, rule: BlockRule) -> bool:
        for page, noisy in ((self._one, self._noisy), (self._other, self._other_noisy)):
            blocks = list(page.blocks(rule))
            if not blocks or any(at not in noisy for place in blocks for at in range(place.start, place.end)):
                return False
        return True

    def _shown_line(self, group: Sequence[NoisyLine], label: str) -> str:
        return f"{self._shown_place(group[0].at)}: {label}"

    def _shown_block(self, noise: NoisyBlock) -> str:
        what = _("the same lines in any order") if noise.any_order else _("any lines")
        return f"{self._shown_place(noise.place.start)}: {what}"

    def _shown_place(self, at: int) -> str:
        for above in range(at - 1, -1, -1):
            line = body(self._one.units[above]).decode("utf-8", "replace").strip()
            if above not in self._noisy and any(sign.isalnum() for sign in line):
                cut = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
                return _("after «{line}»", line=cut)
        return _("at the top")


def _refused(page: UnitIndex, mask: Mask) -> set[int]:
    """Returns the units at the places of rules that a user refused."""
    units = set[int]()
    for rule in mask.refused:
        if isinstance(rule, LineRule):
            units.update(page.lines(rule))
        elif isinstance(rule, BlockRule):
            units.update(at for place in page.blocks(rule) for at in range(place.start, place.end))
    return units


def _within(gap: Gap, place: Place, other: Place) -> bool:
    inside = place.start <= gap.a_start and gap.a_end <= place.end
    return inside and other.start <= gap.b_start and gap.b_end <= other.end


def _touches(gap: Gap, place: Place, other: Place) -> bool:
    ours = gap.a_start <= place.end and place.start <= gap.a_end
    return ours or (gap.b_start <= other.end and other.start <= gap.b_end)


def _joined(differing: Sequence[Gap], place: Place, other: Place) -> Gap:
    return Gap(
        min([place.start, *(gap.a_start for gap in differing)]),
        max([place.end, *(gap.a_end for gap in differing)]),
        min([other.start, *(gap.b_start for gap in differing)]),
        max([other.end, *(gap.b_end for gap in differing)]),
    )


def _units(noise: Iterable[NoisyLine | NoisyBlock], *, other: bool) -> Iterator[int]:
    for each in noise:
        if isinstance(each, NoisyLine):
            yield each.other_at if other else each.at
        else:
            place = each.other_place if other else each.place
            yield from range(place.start, place.end)


def _prefix(noisy: NoisyLine) -> bytes:
    """Returns the beginning of the line, if it begins with a word."""
    start = noisy.line[: noisy.spans[0].start]
    letters = sum(len(token.text) for token in start if token.kind in _SPEAKING)
    return b"".join(token.text for token in start)[:_PREFIX_BYTES] if letters >= _PREFIX_LETTERS else b""


def _distinct(rules: Iterable[LineRule]) -> list[LineRule]:
    """Removes duplicate rules, regardless of their labels."""
    return list({(rule.template, rule.anchors, rule.prefix): rule for rule in rules}.values())


# Comparison under a mask, and the verdict on a repeat fetch.

HEAVY_UNDER_MASK_BYTES = 8 * 1024
"""Contents above this size may take more than about 5 ms of CPU under a mask."""

_read = lru_cache(maxsize=1024)(from_bytes)


def without_noise(content: bytes, mask: bytes) -> bytes:
    """Returns the content with each noisy part replaced by its name; unchanged if `mask` is empty.

    Raises InvalidValueError for a mask that is not from `learn_from_pair`.
    """
    return apply(content, _read(mask)).content if mask else content


def fingerprint_of(content: bytes, mask: bytes) -> bytes:
    """Returns the 16-byte fingerprint of the content without its noise."""
    return xxhash.xxh3_128_digest(without_noise(content, mask))


def under_mask(content: bytes, mask: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Returns `fingerprint_of`, and for each rule of the mask a hash of what it acts on, as `hidden_by_rule` says."""
    if not mask:
        return xxhash.xxh3_128_digest(content), ()
    masked, hidden = hidden_by_rule(content, _read(mask))
    return xxhash.xxh3_128_digest(masked.content), hidden


def doubtable_rules(mask: bytes) -> tuple[bool, ...]:
    """Returns for each rule of the mask whether what it hides may be no noise."""
    return _read(mask).may_be_doubted()


def without_rules(baseline: Baseline, content: bytes, rules: Collection[int]) -> Baseline:
    """Returns the unproven baseline of the content under the site's mask without the rules at these indices.

    It has no `raw_fingerprint`, so that the next body is compared even if it is the same as the last.
    """
    mask = to_bytes(_read(baseline.mask).without(rules))
    return structs.replace(
        baseline, mask=mask, fingerprint=fingerprint_of(content, mask), raw_fingerprint=None, proven=False
    )


def rules_of(mask: bytes) -> tuple[Rule, ...]:
    """Returns the rules that hide something, in the order of `hidden` of a detection."""
    return _read(mask).rules


def refused_rules(mask: bytes) -> tuple[Rule, ...]:
    """Returns the rules that hide nothing because a user wants to see what they hid."""
    return _read(mask).refused


def with_rule(baseline: Baseline, content: bytes | None, rule_id: str, *, hidden: bool) -> Baseline | None:
    """Returns the baseline of a content after a user said whether a rule of its mask hides something.

    content: None if it is no longer stored; then the page begins anew. None if there is no such rule. The next body is
    compared even if it is the same as the last.
    """
    known = _read(baseline.mask)
    if not any(rule.id == rule_id for rule in (*known.rules, *known.refused)):
        return None
    mask = to_bytes(known.hiding(rule_id) if hidden else known.refusing(rule_id))
    fingerprint = None if content is None else fingerprint_of(content, mask)
    return structs.replace(baseline, mask=mask, fingerprint=fingerprint, raw_fingerprint=None)


def shareable(mask: bytes) -> bytes:
    """Returns the mask for other pages of the host: without what a user refused at this one."""
    known = _read(mask)
    return to_bytes(replace(known, refused=())) if known.refused else mask


def noise_of_pair(mask: bytes) -> tuple[str, ...]:
    """Returns what the mask hides and where, a line each, for users."""
    return tuple(_read(mask).describe()) if mask else ()


def mask_is_stale(content: bytes, mask: bytes) -> bool:
    """Returns whether the page's structure has changed, so that places of the mask are missing."""
    return apply(content, _read(mask)).missing > 0


def under_known_noise(first: bytes, second: bytes, baseline: Baseline, masks: Sequence[bytes]) -> Baseline | None:
    """Returns the baseline of the second content if both differ only in noise that is known from other pages.

    Tries the masks in order; None if no mask makes the two equal.
    """
    for mask in masks:
        rest = apply(second, _read(mask))
        if not rest.all_noise and rest.content == without_noise(first, mask):
            return structs.replace(baseline, mask=mask, fingerprint=xxhash.xxh3_128_digest(rest.content))
    return None


class FormVerdict(Struct, frozen=True, gc=False):
    """What is noise by form, or by a row of changes, of the difference between two contents."""

    baseline: Baseline
    """Of the second content, under the mask that hides it."""
    only_noise: bool
    """Whether nothing else differs."""


def noise_by_form(
    before: bytes, after: bytes, baseline: Baseline, at_before: float | None, at_after: float
) -> FormVerdict | None:
    """Returns what of the difference between two contents is noise by form; None: they differ, and not by form.

    `baseline` is the result of `detect` for the second content. The page was as `before` until `at_before` and is as
    `after` at `at_after`, epoch s, by which clocks are told from other times; None: it is not known. What a user wants
    to see is left alone, and so is a page that is hardly anything else.
    """
    if MARK in before or MARK in after:
        return None
    known = _read(baseline.mask)
    settled = {rule.form for rule in (*known.forms, *known.refused) if isinstance(rule, FormRule)}
    forms = differing_forms(before, after)
    fresh = tuple(FormRule(form, example[:_SHOWN]) for form, example in forms.items() if form not in settled)
    mask = replace(known, forms=(*known.forms, *fresh)) if fresh else known
    if at_before is not None and _tells_time(before, after):
        times = (at_before, at_after)
        mask = learn_at_lines(before, after, mask, lambda line, other: _is_clock(line, other, *times), KnownBy.FORM)
    if mask != known:
        return _hidden_by(mask, before, after, baseline)
    same = known.hides and apply(before, known).content == apply(after, known).content
    return FormVerdict(baseline, only_noise=True) if same else None


def may_go_on(before: bytes, after: bytes) -> bool:
    """Returns whether a line of two contents moved as a clock or counter might, whatever the time between them.

    Quick to say no, as it nearly always is: if more than a few lines differ.
    """
    lines, others = before.split(b"\n"), after.split(b"\n")
    if len(lines) != len(others):
        return False
    differing = [pair for pair in zip(lines, others, strict=True) if pair[0] != pair[1]]
    return len(differing) <= _ROW_LINES and any(_goes_on(*pair, elapsed=None) for pair in differing)


def noise_by_row(versions: Sequence[tuple[float, bytes]], baseline: Baseline) -> FormVerdict | None:
    """Returns what is noise at the last of some versions of a page because it moved at each as clocks and counters do.

    versions: when each was found (epoch s), and its content, oldest first. `baseline`: of the last. None: no place did.
    """
    known = _read(baseline.mask)
    mask, ids = known, None
    for (at, before), (at_after, after) in pairwise(versions):
        admits = partial(_goes_on, elapsed=at_after - at)
        mask = learn_at_lines(before, after, known, admits, KnownBy.ROW)
        rule_ids = {rule.id for rule in mask.lines} - {rule.id for rule in known.lines}
        ids = rule_ids if ids is None else ids & rule_ids
        if not ids:
            return None
    lines = tuple(rule for rule in mask.lines if rule in known.lines or rule.id in (ids or ()))
    return _hidden_by(replace(mask, lines=lines), versions[-2][1], versions[-1][1], baseline)


def _hidden_by(mask: Mask, before: bytes, after: bytes, baseline: Baseline) -> FormVerdict | None:
    rest = apply(after, mask)
    if rest.all_noise:
        return None
    baseline = structs.replace(baseline, mask=to_bytes(mask), fingerprint=xxhash.xxh3_128_digest(rest.content))
    return FormVerdict(baseline, only_noise=apply(before, mask).content == rest.content)


def _goes_on(line: bytes, other: bytes, elapsed: float | None) -> bool:
    before, after = line.decode("utf-8", "replace"), other.decode("utf-8", "replace")
    if names_price_or_version(after):
        return False
    return follows_time(before, after, elapsed) or grows(before, after)


def _tells_time(before: bytes, after: bytes) -> bool:
    """Returns whether there is a time of day or an epoch in the lines that only the second content has: most have none,
    and to learn from two contents takes ten times as long.
    """
    lines, others = before.split(b"\n"), after.split(b"\n")
    return any(has_time(others[at].decode("utf-8", "replace")) for at in unmatched(others, lines))


def _is_clock(line: bytes, other: bytes, at: float, at_other: float) -> bool:
    return is_clock(line.decode("utf-8", "replace"), other.decode("utf-8", "replace"), at, at_other)


class PairVerdict(Struct, frozen=True, gc=False):
    """What two polls right after each other show."""

    baseline: Baseline
    """Of the second content, under the mask that the two teach."""
    same: bool
    """Whether the two are equal but for what the mask hides."""
    only_noise: bool
    """Whether the second is equal to the content of the poll before, but for what the mask hides."""
    wide: bool = False
    """Whether the mask now hides any text, lines or order: a change between the two would be taken for noise too."""


def learn_from_pair(
    first: bytes,
    second: bytes,
    baseline: Baseline,
    earlier: bytes | None,
    *,
    returns: bool = True,
    by: KnownBy = KnownBy.PROOF,
) -> PairVerdict:
    """Returns what the second of two polls right after each other shows.

    `baseline` is the result of `detect` for the second; its mask is widened by the differences between the two.
    `earlier`, the content of the poll before them, if known, distinguishes a change between the two from noise;
    `returns` and `by` as in `learn`. A page that is nothing but noise gets no mask: nothing would be left to compare.
    """
    known = _read(baseline.mask)
    widened = learn(first, second, known, earlier, returns=returns, by=by)
    learned = widened != known and not apply(second, widened).all_noise
    if learned:
        widened = widened if earlier is None else _with_values_of(earlier, second, widened, by)
        mask = to_bytes(widened) if widened else b""
        baseline = structs.replace(baseline, mask=mask, fingerprint=fingerprint_of(second, mask))
    shown = without_noise(second, baseline.mask)
    return PairVerdict(
        baseline,
        same=without_noise(first, baseline.mask) == shown,
        only_noise=earlier is not None and without_noise(earlier, baseline.mask) == shown,
        wide=learned and widened.is_wider_than(known),
    )


def _with_values_of(earlier: bytes, second: bytes, mask: Mask, by: KnownBy) -> Mask:
    """Returns the mask whose slots also take the values of the earlier content, if nothing else differs from it.

    Two codes of digits alone look like numbers, and an earlier one with letters then like a change.
    """
    wider = learn(earlier, second, mask, by=by)
    if wider == mask or not wider.hides_in_slots_of(mask):
        return mask
    return wider if apply(earlier, wider).content == apply(second, wider).content else mask
