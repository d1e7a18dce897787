"""Masks: rules for the lines and blocks of lines of a page that are noise, their places, and their stored form.

A form rule hides phrases of one form wherever they are (`forms`), before all others.

A line rule hides only what its slots accept, in lines that match the rest of its template, at its place. A block rule
hides any lines (as many as seen; where their number varied, the range is extended by twice the difference) or the order
of its lines, if both neighbours of the block are in place. All else is kept byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import orjson
import xxhash

from pollerd.detection.noise.forms import NoiseForm, named, without_forms
from pollerd.detection.noise.templates import MARK, MARK_END, Literal, Slot, SlotKind, Template
from pollerd.errors import InvalidValueError
from pollerd.texts import N_, _

RULES_MAX = 64
ANCHORS_MAX = 8
"""Per line rule."""
TEMPLATES_MAX = 8
"""Per block rule."""
DEPTH_MAX = 4
OFFSET_MAX = 8
EDGE = -1
"""Key of the position before the first unit and after the last."""


class KnownBy(StrEnum):
    """How it is known that what a rule hides is noise."""

    PROOF = "proof"
    """It differed between two polls right after each other."""
    FORM = "form"
    """It is a relative time, a view counter, a time taken, or a clock that shows when the page was asked."""
    ALTERNATION = "alternation"
    """It often came and went between two polls right after each other, between values known before."""
    ROW = "row of changes"
    """At each of the last changes, which were nothing else, it had moved as clocks and counters do."""

    @property
    def in_words(self) -> str:
        """The same as pages name it."""
        return _(_KNOWN_BY[self])


_KNOWN_BY = {
    KnownBy.PROOF: N_("comparison of two checks"),
    KnownBy.FORM: N_("its form"),
    KnownBy.ALTERNATION: N_("alternation of known values"),
    KnownBy.ROW: N_("a row of changes"),
}


@dataclass(frozen=True, slots=True)
class Anchor:
    """Stable units near a position, by their keys, nearest first.

    `offset`: distance in units from the nearest to the position: positive if it comes after, negative if before.
    """

    offset: int
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineRule:
    """Lines that fit `template`, at any of `anchors`; with a `prefix`, all lines with that prefix anywhere."""

    template: Template
    anchors: tuple[Anchor, ...]
    prefix: bytes
    shown: str
    """Description for users, such as `after «Latest news»: ‹number›`."""
    unseen: int = 0
    """Consecutive pairs of fetches in which it was not found."""
    by: KnownBy = KnownBy.PROOF

    @property
    def id(self) -> str:
        """Names it among the rules of a site; the same for one that takes more values at its place."""
        anchors = [_from_anchor(anchor) for anchor in self.anchors]
        return _digest(anchors, self.prefix.decode("latin-1"), _form_of(self.template))

    def has_slots_of(self, other: LineRule) -> bool:
        """Returns whether it has its slots where the other one has them, in the same lines."""
        same_place = self.prefix == other.prefix and set(self.anchors) <= set(other.anchors)
        return same_place and self.template.form == other.template.form


@dataclass(frozen=True, slots=True)
class BlockRule:
    """`shortest` to `longest` units between two anchors: in any order if `any_order`, else any units at all."""

    before: Anchor
    after: Anchor
    shortest: int
    longest: int
    any_order: bool
    templates: tuple[Template, ...]
    """In any order: templates of its noisy lines."""
    shown: str
    unseen: int = 0
    by: KnownBy = KnownBy.PROOF

    @property
    def id(self) -> str:
        """Names it among the rules of a site."""
        return _digest(_from_anchor(self.before), _from_anchor(self.after), self.any_order)


@dataclass(frozen=True, slots=True)
class FormRule:
    """All phrases of a form. `example`: one of them, for users."""

    form: NoiseForm
    example: str

    @property
    def id(self) -> str:
        """Names it among the rules of a site."""
        return self.form.replace(" ", "-")

    @property
    def by(self) -> KnownBy:
        """How it is known."""
        return KnownBy.FORM

    @property
    def shown(self) -> str:
        """Description for users."""
        return _("each {form}, such as «{example}»", form=self.form.in_words, example=self.example)


Rule = BlockRule | LineRule | FormRule


@dataclass(frozen=True, slots=True)
class Mask:
    """All rules of one site; at most `RULES_MAX` blocks and lines in total. The empty mask hides nothing.

    `refused`: rules that hide nothing, because a user wants to see what they hid; nor is anything learned at their
    places.
    """

    blocks: tuple[BlockRule, ...] = ()
    lines: tuple[LineRule, ...] = ()
    forms: tuple[FormRule, ...] = ()
    refused: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hides or self.refused)

    @property
    def hides(self) -> bool:
        """Whether it hides anything."""
        return bool(self.blocks or self.lines or self.forms)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that hide something: blocks, lines, forms."""
        return (*self.blocks, *self.lines, *self.forms)

    def refusing(self, rule_id: str) -> Mask:
        """Returns the mask with the rules of this id refused; itself if none of them hides anything."""
        gone = [rule for rule in self.rules if rule.id == rule_id]
        if not gone:
            return self
        kept = replace(self.only(rule for rule in self.rules if rule.id != rule_id), refused=self.refused)
        return replace(kept, refused=tuple({rule.id: rule for rule in (*self.refused, *gone)}.values())[-RULES_MAX:])

    def hiding(self, rule_id: str) -> Mask:
        """Returns the mask with the refused rules of this id in force again; itself if none is refused."""
        back = [rule for rule in self.refused if rule.id == rule_id]
        if not back:
            return self
        kept = self.only((*self.rules, *back))
        return replace(kept, refused=tuple(rule for rule in self.refused if rule.id != rule_id))

    @staticmethod
    def only(rules: Iterable[Rule]) -> Mask:
        """Returns a mask of these rules, none of them refused; of blocks and lines the last ones, if too many."""
        rules = list(rules)
        blocks = [rule for rule in rules if isinstance(rule, BlockRule)][-RULES_MAX:]
        lines = [rule for rule in rules if isinstance(rule, LineRule)]
        forms = {rule.form: rule for rule in rules if isinstance(rule, FormRule)}
        return Mask(tuple(blocks), tuple(lines[max(len(lines) + len(blocks) - RULES_MAX, 0) :]), tuple(forms.values()))

    def hides_in_slots_of(self, known: Mask) -> bool:
        """Returns whether it hides nothing outside the blocks and slots of `known`, if perhaps more values there."""
        blocks = {(rule.before, rule.after, rule.any_order) for rule in known.blocks}
        return all((rule.before, rule.after, rule.any_order) in blocks for rule in self.blocks) and all(
            any(rule.has_slots_of(other) for other in known.lines) for rule in self.lines
        )

    def is_wider_than(self, known: Mask) -> bool:
        """Returns whether it hides any text, any lines or any order where `known` does not."""
        return not self._wide() <= known._wide()

    def _wide(self) -> set[object]:
        blocks = {(rule.before, rule.after, rule.any_order) for rule in self.blocks}
        lines = {rule.template for rule in self.lines if rule.template.is_vague}
        return blocks | lines

    def may_be_doubted(self) -> tuple[bool, ...]:
        """Returns for each rule, blocks first, whether what it hides may be no noise: not if its form says so."""
        return (
            *(True for _ in self.blocks),
            *(not rule.template.is_relative_time and rule.by is not KnownBy.FORM for rule in self.lines),
            *(False for _ in self.forms),
        )

    def without(self, rules: Collection[int]) -> Mask:
        """Returns the mask without the rules at these indices, in the order of `rules`."""
        kept = self.only(rule for i, rule in enumerate(self.rules) if i not in rules)
        return replace(kept, refused=self.refused)

    def describe(self) -> list[str]:
        """Returns descriptions for users, one per rule."""
        return [rule.shown for rule in self.rules]


NO_MASK = Mask()


# Units of a content: lines, further split where cells, sentences, elements or statements end.
#
# Thus one clock does not make a whole one-line document noise, nor an entry of a feed.

# One class of bytes first, for which a search is quick: a pattern that only looks around takes eight times as long.
_END = re.compile(rb"[\n\t;}.!?<](?:(?<=[\n\t;}])(?!\n)|(?<=[.!?]) |(?<=<)(?=[A-Za-z]))")
_OPENING = ord("<")


def units(content: bytes) -> list[bytes]:
    """Returns the units of `content` in order, line ends included; concatenated they are the content."""
    out, start = [], 0
    for match in _END.finditer(content):
        end = match.end()
        if content[end - 1] == _OPENING:  # it begins the next unit
            end -= 1
        if end > start:
            out.append(content[start:end])
            start = end
    return [*out, content[start:]] if start < len(content) else out


def keys(parts: Sequence[bytes]) -> list[int]:
    """Returns the 64-bit hash of each unit without its line end and trailing comma."""
    digest = xxhash.xxh3_64_intdigest
    return [digest(part.rstrip(b",\n")) for part in parts]


# Places of a mask's rules in a content.

PLACES_MAX = 1_000
"""Anchors whose nearest unit occurs more often are ignored, which bounds the work on any content."""


@dataclass(frozen=True, slots=True)
class Place:
    """Units `start` to `end`."""

    start: int
    end: int


class UnitIndex:
    """The units of a content, with the positions of each key."""

    def __init__(self, content: bytes) -> None:
        self.units = units(content)
        self.keys = keys(self.units)
        self._at: dict[int, list[int]] = {}
        for at, key in enumerate(self.keys):
            self._at.setdefault(key, []).append(at)

    def __contains__(self, key: int) -> bool:
        return key in self._at

    def key(self, at: int) -> int:
        """Returns the key at a position; `EDGE` beyond either end."""
        return self.keys[at] if 0 <= at < len(self.keys) else EDGE

    def targets(self, anchor: Anchor) -> list[int]:
        """Returns the positions that the anchor points to, ascending."""
        step = 1 if anchor.offset > 0 else -1
        nearest = anchor.keys[0]
        positions = self._at.get(nearest, []) if nearest != EDGE else [-1 if step > 0 else len(self.keys)]
        if len(positions) > PLACES_MAX:
            return []
        deeper = list(enumerate(anchor.keys))[1:]
        return [at + anchor.offset for at in positions if all(self.key(at - step * n) == key for n, key in deeper)]

    def lines(self, rule: LineRule) -> Iterator[int]:
        """Yields the candidate units of the rule; they need not fit its template."""
        if rule.prefix:
            yield from (at for at, unit in enumerate(self.units) if unit.startswith(rule.prefix))
        for anchor in rule.anchors:
            yield from (at for at in self.targets(anchor) if 0 <= at < len(self.units))

    def blocks(self, rule: BlockRule) -> Iterator[Place]:
        """Yields the blocks between the rule's anchors; each start with the nearest end."""
        lasts = self.targets(rule.after)
        for start in self.targets(rule.before):
            at = bisect_left(lasts, start + rule.shortest - 1)
            if at < len(lasts) and lasts[at] < start + rule.longest:
                yield Place(start, lasts[at] + 1)


def body(unit: bytes) -> bytes:
    """Returns a unit without its line end and trailing comma."""
    return unit.rstrip(b",\n")


# Application of a mask to a content: noise is replaced by its name, and all else is left byte for byte.

_ALL_NOISE_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Masked:
    """Result of applying a mask to a content."""

    content: bytes
    """The content with each noisy part replaced by its name between `MARK` and `MARK_END`."""
    size: int
    """Size of the original content in bytes."""
    hidden: int
    """Bytes of it that are noise; reordered lines do not count."""
    missing: int
    """Number of rules whose place was not found: the page's structure has changed, and a repeat fetch is useful."""

    @property
    def all_noise(self) -> bool:
        """True if less than a twentieth of the content is not noise."""
        return self.size > 0 and self.hidden >= _ALL_NOISE_SHARE * self.size


def apply(content: bytes, mask: Mask) -> Masked:
    """Returns `content` (any bytes) without its noise; idempotent.

    Two contents without `MARK` with equal results differ only within their masked spans. A content that contains `MARK`
    is returned unchanged. Time: at most linear in the content for each rule; raises nothing.
    """
    if not mask.hides or MARK in content:
        return Masked(content, len(content), 0, 0)
    return MaskApplication(content, mask).result()


def hidden_by_rule(content: bytes, mask: Mask) -> tuple[Masked, tuple[int, ...]]:
    """Returns the result of `apply`, and for each rule a hash of the parts of the content that it acts on.

    In the order of `Mask.rules`; 0 for a rule without a place. Empty if nothing was masked.
    """
    if not mask.hides or MARK in content:
        return apply(content, mask), ()
    applied = MaskApplication(content, mask)
    return applied.result(), applied.hidden_by_rule()


class MaskApplication:
    """Application of a mask to a content, step by step; learning uses its findings as well."""

    def __init__(self, content: bytes, mask: Mask) -> None:
        self.given, self.mask = content, mask
        self.content = content = without_forms(content, [rule.form for rule in mask.forms]) if mask.forms else content
        self._ended = content.endswith(b"\n")
        # With every line terminated, a missing final line end makes no difference.
        self.page = UnitIndex(content if self._ended else content + b"\n")
        self.blocks: dict[BlockRule, list[Place]] = {}
        self.lines: dict[int, bytes] = {}
        self.found: dict[LineRule, set[int]] = {}
        """Units that match each rule, including those already masked by an earlier rule."""
        self._line_hides: dict[int, int] = {}
        self._starts: dict[int, tuple[Place, BlockRule]] = {}
        self.covered = bytearray(len(self.page.units))
        for block in mask.blocks:
            self._take_block(block)
        for line in mask.lines:
            self._take_lines(line)

    def result(self) -> Masked:
        """Returns the masked content."""
        pieces, at, count = [], 0, len(self.page.units)
        while at <= count:
            place, rule = self._starts.get(at, (None, None))
            if place is not None and rule is not None:
                pieces.append(self.block_text(place, rule))
            if place is not None and place.end > at:
                at = place.end
                continue
            if at < count:
                pieces.append(self.lines.get(at, self.page.units[at]))
            at += 1
        written = b"".join(pieces)
        missing = sum(not places for places in self.blocks.values()) + sum(not hits for hits in self.found.values())
        return Masked(written if self._ended else written[:-1], len(self.given), self._hidden(), missing)

    def hidden_by_rule(self) -> tuple[int, ...]:
        """Returns a hash of the units that each rule acts on, as they stand; 0 for a rule without a place."""
        units = self.page.units
        blocks = (
            [unit for place in self.blocks[rule] for unit in units[place.start : place.end]]
            for rule in self.mask.blocks
        )
        lines = ([units[at] for at in sorted(self.found[rule])] for rule in self.mask.lines)
        forms = (self._lines_with(rule.form) for rule in self.mask.forms)
        return tuple(xxhash.xxh3_64_intdigest(b"".join(some)) if some else 0 for some in (*blocks, *lines, *forms))

    def _lines_with(self, form: NoiseForm) -> list[bytes]:
        """Returns the lines with phrases of the form, as they were given."""
        name, pairs = named(form).encode(), zip(self.given.split(b"\n"), self.content.split(b"\n"), strict=True)
        return [line for line, without in pairs if name in without]

    def begins_block(self, at: int) -> bool:
        """Returns whether a block begins at the unit."""
        return at in self._starts

    def block_text(self, place: Place, rule: BlockRule) -> bytes:
        """Returns the replacement of a block."""
        if not rule.any_order:
            return MARK + b"any lines" + MARK_END + b"\n"
        lines = sorted(text for text, _ in self._block_lines(place, rule))
        return MARK + b"any order\n" + b"".join(line + b"\n" for line in lines) + MARK_END + b"\n"

    def _take_block(self, rule: BlockRule) -> None:
        taken = self.blocks[rule] = []
        for place in self.page.blocks(rule):
            if place.start not in self._starts and not any(self.covered[place.start : place.end]):
                self._starts[place.start] = (place, rule)
                self.covered[place.start : place.end] = b"\1" * (place.end - place.start)
                taken.append(place)

    def _take_lines(self, rule: LineRule) -> None:
        fitting = self.found[rule] = set()
        for at in self.page.lines(rule):
            text = body(self.page.units[at])
            masked = None if self.covered[at] else rule.template.masked(text)
            if masked is not None:
                fitting.add(at)
                if at not in self.lines:
                    self.lines[at] = masked[0] + self.page.units[at][len(text) :]
                    self._line_hides[at] = masked[1]

    def _hidden(self) -> int:
        hidden = sum(self._line_hides.values())
        for place, rule in self._starts.values():
            if rule.any_order:
                hidden += sum(size for _, size in self._block_lines(place, rule))
            else:
                hidden += sum(map(len, self.page.units[place.start : place.end]))
        names = [named(rule.form).encode() for rule in self.mask.forms]
        put_in = sum(self.content.count(name) * len(name) for name in names)
        return min(hidden + len(self.given) - len(self.content) + put_in, len(self.given))

    def _block_lines(self, place: Place, rule: BlockRule) -> Iterator[tuple[bytes, int]]:
        """Yields the lines of a block in any order, and the hidden bytes of each."""
        for unit in self.page.units[place.start : place.end]:
            line = body(unit)
            fits = (template.masked(line) for template in rule.templates)
            yield next((masked for masked in fits if masked is not None), (line, 0))


# The stored form of a mask: versioned JSON, at most `BYTES_MAX` long.

VERSION = 2
_PLAIN_VERSION = 1
"""Of a mask whose rules all come from proofs, without forms and refused rules."""
BYTES_MAX = 64 * 1024
"""Rules beyond this size are dropped, the last first."""


def to_bytes(mask: Mask) -> bytes:
    """Serialises the mask for `from_bytes`; empty for the empty mask."""
    if not mask:
        return b""
    written = _written(mask)
    while len(written) > BYTES_MAX:
        lines, blocks = mask.lines, mask.blocks
        if mask.refused:
            mask = replace(mask, refused=mask.refused[:-1])
        else:
            mask = replace(mask, lines=lines[:-1]) if lines else replace(mask, blocks=blocks[:-1])
        written = _written(mask)
    return written


def from_bytes(data: bytes) -> Mask:
    """Parses a mask; raises InvalidValueError for bytes of another version, or damaged ones."""
    if not data:
        return NO_MASK
    try:
        version, blocks, lines, *more = orjson.loads(data)
        if version not in (_PLAIN_VERSION, VERSION) or len(blocks) + len(lines) > RULES_MAX:
            raise ValueError("version or number of rules")
        forms, refused = more if version == VERSION else ((), ((), (), ()))
        return Mask(
            tuple(map(_block, blocks)),
            tuple(map(_line, lines)),
            tuple(map(_form, forms)),
            (*map(_block, refused[0]), *map(_line, refused[1]), *map(_form, refused[2])),
        )
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InvalidValueError("mask", f"an undamaged mask of version {VERSION}", data[:80]) from error


def _written(mask: Mask) -> bytes:
    written, refused = _lists(mask), _lists(Mask.only(mask.refused))
    if not mask.forms and not mask.refused and all(rule.by is KnownBy.PROOF for rule in mask.rules):
        plain = [[rule[:-1] for rule in rules] for rules in written[:2]]
        return orjson.dumps([_PLAIN_VERSION, *plain])
    return orjson.dumps([VERSION, *written, refused])


def _lists(mask: Mask) -> list[list[Any]]:
    blocks, lines = [_from_block(rule) for rule in mask.blocks], [_from_line(rule) for rule in mask.lines]
    return [blocks, lines, [[rule.form, rule.example] for rule in mask.forms]]


def _form(data: list[Any]) -> FormRule:
    form, example = data
    return FormRule(NoiseForm(form), str(example))


def _from_block(rule: BlockRule) -> list[Any]:
    templates = [_from_template(template) for template in rule.templates]
    anchors = [_from_anchor(rule.before), _from_anchor(rule.after)]
    return [*anchors, rule.shortest, rule.longest, rule.any_order, templates, rule.shown, rule.unseen, rule.by]


def _block(data: list[Any]) -> BlockRule:
    before, after, shortest, longest, any_order, templates, shown, unseen, *by = data
    return BlockRule(
        _anchor(before),
        _anchor(after),
        _integer(shortest),
        _integer(longest),
        bool(any_order),
        tuple(map(_template, templates)),
        str(shown),
        _integer(unseen),
        *map(KnownBy, by),
    )


def _from_line(rule: LineRule) -> list[Any]:
    anchors = [_from_anchor(anchor) for anchor in rule.anchors]
    return [_from_template(rule.template), anchors, rule.prefix.decode("latin-1"), rule.shown, rule.unseen, rule.by]


def _line(data: list[Any]) -> LineRule:
    template, anchors, prefix, shown, unseen, *by = data
    parsed_anchors = tuple(map(_anchor, anchors))
    encoded = prefix.encode("latin-1")
    return LineRule(_template(template), parsed_anchors, encoded, str(shown), _integer(unseen), *map(KnownBy, by))


def _digest(*parts: object) -> str:
    return xxhash.xxh3_64_hexdigest(orjson.dumps(parts))


def _form_of(template: Template) -> list[Any]:
    return [[part.count, part.digest] if isinstance(part, Literal) else part for part in template.form]


def _from_anchor(anchor: Anchor) -> list[int]:
    return [anchor.offset, *anchor.keys]


def _anchor(data: list[Any]) -> Anchor:
    offset, *keys = map(_integer, data)
    if not offset or not keys:
        raise ValueError("an anchor needs an offset and keys")
    return Anchor(offset, tuple(keys))


def _from_template(template: Template) -> list[Any]:
    return [
        [part.count, part.digest]
        if isinstance(part, Literal)
        else [part.kind, part.size, [shape.decode("latin-1") for shape in part.shapes]]
        for part in template.parts
    ]


def _template(data: list[Any]) -> Template:
    return Template(tuple(_part(part) for part in data))


def _part(data: list[Any]) -> Literal | Slot:
    if len(data) == 2:
        return Literal(*map(_integer, data))
    kind, size, shapes = data
    return Slot(SlotKind(kind), _integer(size), tuple(shape.encode("latin-1") for shape in shapes))


def _integer(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("not an integer")
    return value
