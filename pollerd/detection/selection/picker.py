"""Selectors for people who click: a page as lines, and for one of them CSS selectors that will last.

Pure. A selector is made of parts that pages keep when they are built again: ids, attributes for programs and tests,
classes with names, roles, the label in front. Names that a build tool makes (`css-1x2y3z`) and positions are the last
resort. Of those that pick the same thing in all versions of the page the shortest is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from selectolax.lexbor import SelectolaxError

from pollerd.detection.edits import gaps
from pollerd.detection.html import HIDDEN_ELEMENTS, is_block
from pollerd.detection.media import to_utf8
from pollerd.detection.selection.steps.page import HtmlPage
from pollerd.detection.selection.values.form import Kind, ValueFormat
from pollerd.detection.selection.values.read import read_value
from pollerd.model import READER, Box

LINES_MAX = 5_000
"""Most lines of a page that can be picked."""
LINE_MAX = 300
_REMEMBERED_BYTES = 1024 * 1024
"""Larger pages are read again for each click: a process that remembered them would lack memory for other work."""
_MATCHED_MOST = 300
_ANCESTORS = 8
"""How far up a part of a selector is looked for."""
_CANDIDATES = 120
_OFFERED = 3
_CHAIN = 6
"""How many elements there can be between a heading and what stands under it."""
_LABEL_MAX = 40


class PageLine(Struct, frozen=True):
    """One line of a page."""

    tag: str
    """Of its element, for example `h2`, `li` or `td`."""
    depth: int
    """How many lists and tables are around it."""
    text: str
    box: Box | None = None
    """Where it is in the picture of the page; None: there is none, or it is not to be seen."""


class Offer(Struct, frozen=True):
    """One thing that a click on a line can mean."""

    what: str
    """`part` (the element), `around` (what it belongs to), `all` (it and those like it) or `value`."""
    selectors: tuple[str, ...]
    """Best first, at least one."""
    count: int
    """Of elements that the first selects."""
    versions: int
    """Versions of the page in which it picks the same."""
    text: str
    """The beginning of what it keeps."""
    kind: str = ""
    """Of a value: price, number or date."""
    attribute: str = ""
    """Of a value: the attribute that has it."""


# Names: which of them people gave, and which a tool made.

_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+")
_VOWELS = re.compile(r"[aeiouyAEIOUY]")
_MADE = re.compile(
    r"^(?:css|sc|jss|jsx|emotion|svelte|ember|ext-gen|react-select|radix|headlessui|yui|uid|id)[-_:]?\w*\d", re.I
)
_UTILITY = re.compile(
    r"^-?(?:[a-z]{1,3}:)*(?:[mpwh][xytrbl]?|col|row|order|offset|text|bg|flex|grid|gap|border|rounded|font|d|leading|z|min|max)(?:-[a-z0-9./%\[\]]+)+$"
)


def is_made_by_tools(name: str) -> bool:
    """Returns whether a class or id looks as if a build tool made it, so that the next build makes another one."""
    if _MADE.match(name) or ":" in name or len(name) > 60:
        return True
    segments = [segment for segment in re.split(r"[-_]+", name) if segment]
    return not segments or any(map(_is_hash, segments))


def _is_hash(segment: str) -> bool:
    if segment.isdigit():
        return len(segment) >= 3  # the number of an entry, or a hash
    if len(segment) < 5:
        return len(_TOKEN.findall(segment)) >= 3
    tokens = _TOKEN.findall(segment)
    switches = sum(a.isdigit() != b.isdigit() for a, b in pairwise(tokens))
    if switches >= 2 or (switches == 1 and (tokens[0].isdigit() or len(tokens[-1]) >= 3)):
        return True
    letters = "".join(token for token in tokens if not token.isdigit())
    humps = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", letters)
    if len(humps) >= 3 and sum(map(len, humps)) / len(humps) < 2.5:
        return True  # upper and lower case by turns, as in base64
    return len(letters) >= 6 and len(_VOWELS.findall(letters)) / len(letters) < 0.15


# The page as lines.


class PickedPage:
    """A page, its lines, and the element of each."""

    def __init__(self, body: bytes, content_type: str | None) -> None:
        """Raises SelectionLimitError if no parser can read it in a bounded time."""
        self.tree = HtmlPage(to_utf8(body, content_type, READER)).tree
        self.lines: list[PageLine] = []
        self.nodes: list[Any] = []
        """The element of each line."""
        body_node = self.tree.body
        if body_node is not None:
            self._read(body_node)
        self._places: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            self._places.setdefault(node.mem_id, number)
        self._matched: dict[str, list[Any]] = {}
        """Selectors that were tried, which versions and clicks have in common, and what each picks."""

    def line_of(self, node: Any) -> int | None:
        """Returns the first line that an element has; None: it has none of its own."""
        return self._places.get(node.mem_id)

    def matches(self, selector: str) -> list[Any]:
        """Returns what a selector picks; nothing where it cannot be read."""
        if selector not in self._matched:
            if len(self._matched) >= _MATCHED_MOST:
                self._matched.clear()
            try:
                self._matched[selector] = list(self.tree.css(selector))
            except SelectolaxError:
                self._matched[selector] = []
        return self._matched[selector]

    def chosen(self, choice: SelectorChoice) -> list[Any]:
        """Returns what a selector picks; a path of positions is followed here, as lexbor takes too long."""
        if not choice.anchor:
            return self.matches(choice.selector)
        nodes = self.matches(choice.anchor)
        for step in choice.selector.removeprefix(choice.anchor).split(" > ")[1:]:
            tag, _, place = step.removesuffix(")").partition(_PLACED)
            alike = ((child for child in _children(node) if child.tag == tag) for node in nodes)
            nodes = [child for children in alike for child in islice(children, int(place) - 1, int(place))]
        return nodes

    def _read(self, root: Any) -> None:
        """Walks over the page in its order, iteratively: a page may be nested very deep."""
        texts: list[tuple[str, Any]] = []
        blocks, depth = [root], 0
        node, entering = root, True
        while node is not None and len(self.lines) < LINES_MAX:
            tag = node.tag or ""
            block = node.is_element_node and (is_block(tag) or tag in ("td", "th"))
            if entering:
                if node.is_text_node:
                    texts.append((node.text_content or "", node.parent))
                if block:
                    self._flush(texts, blocks[-1], depth)
                    blocks.append(node)
                    depth += tag in ("ul", "ol", "table")
                child = None if _is_hidden(node) else node.child
                if child is not None:
                    node = child
                    continue
            if block:
                self._flush(texts, blocks[-1], depth)
                blocks.pop()
                depth -= tag in ("ul", "ol", "table")
            if node.mem_id == root.mem_id:
                break
            entering = node.next is not None
            node = node.next if entering else node.parent
        self._flush(texts, blocks[-1] if blocks else root, depth)

    def _flush(self, texts: list[tuple[str, Any]], block: Any, depth: int) -> None:
        """Ends a line: its element is the innermost that has all of its text."""
        text = " ".join("".join(part for part, _ in texts).split())
        if text:
            holders = {parent.mem_id: parent for part, parent in texts if part.strip()}
            node = next(iter(holders.values())) if len(holders) == 1 else block
            self.lines.append(PageLine(node.tag, depth, text[:LINE_MAX]))
            self.nodes.append(node)
        texts.clear()


@lru_cache(maxsize=5)
def _known_page(body: bytes, content_type: str | None) -> PickedPage:
    return PickedPage(body, content_type)


def _page_of(body: bytes, content_type: str | None) -> PickedPage:
    """Returns a page that is only looked at; the last ones are remembered for the next click, unless they are large."""
    return (_known_page if len(body) <= _REMEMBERED_BYTES else PickedPage)(body, content_type)


def _is_hidden(node: Any) -> bool:
    if not node.is_element_node:
        return False
    attributes = node.attributes
    return (
        node.tag in (*HIDDEN_ELEMENTS, "template", "head")
        or "hidden" in attributes
        or (attributes.get("aria-hidden") or "").lower() == "true"
    )


def parts_of(
    body: bytes, content_type: str | None, boxes: Mapping[str, Box] | None = None
) -> tuple[tuple[PageLine, ...], list[str]]:
    """Returns the lines of a page, at most `LINES_MAX`, and selectors of its parts, those that last longest first.

    boxes: of its elements, by their `absolute_path`. Raises SelectionLimitError as `PickedPage`.
    """
    page = _page_of(body, content_type)
    return _lines(page, boxes), _selectors(page)


def _lines(page: PickedPage, boxes: Mapping[str, Box] | None) -> tuple[PageLine, ...]:
    if not boxes or page.tree.body is None:
        return tuple(page.lines)
    box_of, waiting = dict[int, Box | None](), [(page.tree.body, "body")]
    while waiting:
        node, path = waiting.pop()
        box_of[node.mem_id], of_tag = boxes.get(path), dict[str, int]()
        for child in _children(node):
            of_tag[child.tag] = of_tag.get(child.tag, 0) + 1
            waiting.append((child, f"{path} > {child.tag}{_PLACED}{of_tag[child.tag]})"))
    return tuple(replace(line, box=box_of.get(node.mem_id)) for line, node in zip(page.lines, page.nodes, strict=True))


def _selectors(page: PickedPage) -> list[str]:
    costs: dict[str, float] = {}
    seen = set[int]()
    for line in page.nodes:
        for node in (line, *_ancestors(line)):
            if node.mem_id in seen:
                break
            seen.add(node.mem_id)
            costs.update((selector, cost) for cost, selector in _parts(node) if cost <= _TAG_ALONE)
    return sorted(costs, key=lambda selector: costs[selector])  # stable: in the order of the page


# Parts of selectors: (cost, CSS). The lower the cost, the longer a part lasts.

Part = tuple[float, str]


class SelectorChoice(NamedTuple):
    """A selector that may be chosen."""

    cost: float
    selector: str
    anchor: str = ""
    """If the rest of it is a path of positions: what the path begins at. Where that is one element, the path leads to
    one; to follow it takes lexbor time quadratic in the number of siblings.
    """


_ID, _FOR_PROGRAMS, _NAMED, _CLASS, _ROLE, _TAG_ALONE, _UTILITY_CLASS, _PLAIN_TAG = (
    1.0,
    1.0,
    1.5,
    2.0,
    2.5,
    2.5,
    4.0,
    4.5,
)
_LABEL, _DESCENT, _POSITION, _PLACE, _LONELY = 2.2, 0.4, 3.0, 0.1, 5.0
_PLACED = ":nth-of-type("
_PROGRAM_ATTRIBUTES = ("itemprop", "data-testid", "data-test", "data-test-id", "data-qa", "data-cy", "data-field")
_NAMED_ATTRIBUTES = ("property", "name", "aria-label", "rel", "data-role", "data-type", "data-name", "data-component")
_MEANINGFUL = frozenset(
    {"main", "article", "aside", "header", "footer", "nav", "section", "h1", "time", "address", "table", "dl", "figure"}
    | {"details", "form", "blockquote"}
)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_PLAIN_NAME = re.compile(r"-?[A-Za-z_][A-Za-z0-9_-]*")


def _parts(node: Any) -> Iterator[Part]:
    """Yields what names an element by itself."""
    attributes, tag = node.attributes, node.tag
    identity = attributes.get("id") or ""
    if identity and not is_made_by_tools(identity) and identity.isprintable():
        yield _ID, f"#{identity}" if _PLAIN_NAME.fullmatch(identity) else f"[id={_quoted(identity)}]"
    for names, cost in ((_PROGRAM_ATTRIBUTES, _FOR_PROGRAMS), (_NAMED_ATTRIBUTES, _NAMED)):
        for name in names:
            value = attributes.get(name) or ""
            if 0 < len(value) <= _LABEL_MAX and value.isprintable() and not is_made_by_tools(value.replace(" ", "-")):
                yield cost, f"[{name}={_quoted(value)}]"
    yield from _classes(tag, (attributes.get("class") or "").split())
    role = attributes.get("role") or ""
    if _PLAIN_NAME.fullmatch(role):
        yield _ROLE, f"[role={_quoted(role)}]"
    yield (_TAG_ALONE if tag in _MEANINGFUL else _PLAIN_TAG), tag


def _classes(tag: str, names: Sequence[str]) -> Iterator[Part]:
    for name in names:
        if _PLAIN_NAME.fullmatch(name) and not is_made_by_tools(name):
            yield (_UTILITY_CLASS, f"{tag}.{name}") if _UTILITY.match(name) else (_CLASS, f".{name}")
        elif (stem := _STEM.match(name)) is not None and not is_made_by_tools(stem[1]):
            yield _CLASS + 0.5, f'[class*="{stem[1]}"]'


_STEM = re.compile(r"([A-Za-z]+(?:[-_][A-Za-z]+)*?_{1,2})[A-Za-z0-9-]+$")
"""The lasting part of a class of CSS modules, such as `Card_price__2aX9c`."""


def _label(node: Any) -> str:
    """Returns the short text that an element itself has, if it names something and does not count; else nothing."""
    if node is None or not node.is_element_node:
        return ""
    own = [child.text_content or "" for child in _children(node, texts=True) if child.is_text_node]
    text = max((" ".join(part.split()) for part in own), key=len, default="")
    fits = 1 < len(text) <= _LABEL_MAX and not _DIGIT.search(text) and not text.endswith((".", "!", "?"))
    return text if fits and text.isprintable() else ""


def _labels(node: Any, inside: frozenset[int] = frozenset()) -> Iterator[Part]:
    """Yields selectors by what is said in front of an element: a term, a heading, the head of a row.

    inside: elements whose text is no label, as it is what is picked.
    """
    before, chain = _element_before(node), node.tag
    for steps in range(_CHAIN):
        if before is None:
            break
        heading = bool(re.fullmatch("h[1-6]", before.tag or ""))
        if heading or not steps:
            for label in _saying(before):
                yield _LABEL + 0.3 * steps, f"{label} + {chain}"
        if heading:
            break
        before, chain = _element_before(before), f"{before.tag} + {chain}"
    if node.tag == "td" and node.parent is not None:
        head = next((cell for cell in _children(node.parent) if cell.mem_id != node.mem_id), None)
        for label in _saying(head):
            yield _LABEL, f"tr:has(> {label}) > td:nth-child({_position(node)[1]})"
    if label := _label_within(node):
        yield _LABEL + 0.2, f"{node.tag}:lexbor-contains({_quoted(label)})"
    first = next(_children(node), None)
    if (
        first is not None
        and first.mem_id not in inside
        and first.tag in ("strong", "b", "dt")
        and (label := _label(first))
    ):
        yield _LABEL + 0.2, f"{node.tag}:has(> {first.tag}:lexbor-contains({_quoted(label)}))"


def _saying(node: Any) -> Iterator[str]:
    """Yields a selector of an element by its label, which can be of the only element in it."""
    if label := _label(node):
        yield f"{node.tag}:lexbor-contains({_quoted(label)})"
        return
    inside = list(_children(node)) if node is not None and node.is_element_node else []
    if len(inside) == 1 and (label := _label(inside[0])):
        yield f"{node.tag}:has(> {inside[0].tag}:lexbor-contains({_quoted(label)}))"


def _label_within(node: Any) -> str:
    """Returns the beginning of the text that an element itself has, up to its colon, if it names something."""
    child = node.child
    text = (child.text_content or "").strip() if child is not None and child.is_text_node else ""
    label, colon, _ = text[: _LABEL_MAX + 1].partition(":")
    return f"{label}:" if colon and label.isprintable() and len(label) > 1 and not _DIGIT.search(label) else ""


def _element_before(node: Any) -> Any:
    before = node.prev
    while before is not None and not before.is_element_node:
        before = before.prev
    return before


def _children(node: Any, *, texts: bool = False) -> Iterator[Any]:
    child = node.child
    while child is not None:
        if child.is_element_node or (texts and child.is_text_node):
            yield child
        child = child.next


def _position(node: Any) -> tuple[int, int]:
    """Returns the position of an element among those of its tag, and among all, from 1."""
    of_tag = of_all = 1
    before = _element_before(node)
    while before is not None:
        of_tag += before.tag == node.tag
        of_all += 1
        before = _element_before(before)
    return of_tag, of_all


def _ancestors(node: Any) -> Iterator[Any]:
    parent = node.parent
    while parent is not None and parent.is_element_node and parent.tag != "html":
        yield parent
        parent = parent.parent


def absolute_path(node: Any) -> str:
    """Returns the path of an element by positions alone, as browsers copy it."""
    steps = [
        f"{element.tag}{_PLACED}{_position(element)[0]})"
        for element in (node, *_ancestors(node))
        if element.tag != "body"
    ]
    return " > ".join(["body", *reversed(steps)])


def _single(node: Any) -> list[SelectorChoice]:
    """Returns selectors for one element, best first."""
    own = [*_parts(node), *_labels(node)]
    candidates = [SelectorChoice(*_alone(part)) for part in own]
    around = [ancestor for ancestor, _ in zip(_ancestors(node), range(_ANCESTORS), strict=False)]
    inside = frozenset(element.mem_id for element in (node, *around))
    for distance, ancestor in enumerate(around, 1):
        above = [part for part in (*_parts(ancestor), *_labels(ancestor, inside)) if part[0] < _PLAIN_TAG]
        for cost, part in above:
            descent = _DESCENT + 0.05 * distance
            candidates += [
                SelectorChoice(cost + own_cost + descent, f"{part} {own_part}")
                for own_cost, own_part in own
                if "+" not in own_part
            ]
            path = _path(node, around[: distance - 1])
            places = sum(_position(element)[0] for element in (node, *around[: distance - 1]))
            candidates.append(SelectorChoice(cost + _POSITION * distance + _PLACE * places, f"{part} > {path}", part))
    candidates.append(SelectorChoice(_POSITION * 30, absolute_path(node), "body"))
    return sorted(candidates, key=_by_cost)


def _path(node: Any, between: Iterable[Any]) -> str:
    steps = [f"{element.tag}{_PLACED}{_position(element)[0]})" for element in (node, *between)]
    return " > ".join(reversed(steps))


def _alone(part: Part) -> Part:
    """Returns a part as a selector: a plain tag that happens to be the only one of its kind will not stay so."""
    cost, selector = part
    return (cost + _LONELY if cost == _PLAIN_TAG else cost), selector


def _by_cost(candidate: SelectorChoice) -> tuple[float, int, str]:
    return round(candidate.cost, 1), len(candidate.selector), candidate.selector


def _several(nodes: Sequence[Any]) -> list[SelectorChoice]:
    """Returns selectors for siblings that are alike, best first."""
    first = nodes[0]
    shared = [part for part in _parts(first) if all(part in set(_parts(node)) for node in nodes[1:20])]
    candidates = [SelectorChoice(*_alone(part)) for part in shared]
    for distance, ancestor in enumerate(_ancestors(first), 1):
        if distance > _ANCESTORS:
            break
        joint = " > " if distance == 1 else " "
        above = [*_parts(ancestor), *_labels(ancestor)]
        candidates += [
            SelectorChoice(cost + own_cost + _DESCENT * distance, f"{part}{joint}{own}")
            for cost, part in above
            for own_cost, own in shared
        ]
    if first.parent is not None:
        candidates.append(SelectorChoice(_POSITION * 30, f"{absolute_path(first.parent)} > {first.tag}"))
    return sorted(candidates, key=_by_cost)


# What a click offers.

_IN_LABEL = re.compile(r':lexbor-contains\("((?:[^"\\]|\\.)*)"\)')


class _Versions:
    """The page, and its earlier versions, in which a selector has to pick the same."""

    def __init__(self, pages: Sequence[PickedPage], texts: Sequence[str]) -> None:
        """pages: newest first. texts: of earlier versions of which the markup is not known."""
        self.page, *self._earlier = pages
        self._texts = texts
        self._pairs = [_paired_lines(self.page, other) for other in self._earlier]

    @property
    def count(self) -> int:
        """How many there are."""
        return 1 + len(self._earlier)

    def chosen(self, candidates: Iterable[SelectorChoice], nodes: Sequence[Any]) -> tuple[list[str], int]:
        """Returns the first selectors that pick these elements, and the number of versions in which the first does."""
        right: dict[str, int] = {}
        identities = [node.mem_id for node in nodes]
        for number, candidate in enumerate(candidates):
            selector = candidate.selector
            if right and (number >= _CANDIDATES or list(right.values()).count(self.count) >= _OFFERED):
                break
            if selector not in right and self._picks(candidate, identities) and self._has_labels(selector):
                right[selector] = self._agreeing(candidate, nodes)
        best = sorted(right, key=lambda selector: -right[selector])  # stable: of equal ones the shorter is in front
        return best[:_OFFERED], right[best[0]] if best else 0

    def _picks(self, candidate: SelectorChoice, identities: Sequence[int]) -> bool:
        if candidate.anchor:
            return len(self.page.matches(candidate.anchor)) == 1
        return [node.mem_id for node in self.page.matches(candidate.selector)] == identities

    def _has_labels(self, selector: str) -> bool:
        """Returns whether the labels of a selector are in all texts."""
        labels = [label.replace('\\"', '"').replace("\\\\", "\\") for label in _IN_LABEL.findall(selector)]
        return all(label in text for label in labels for text in self._texts)

    def _agreeing(self, candidate: SelectorChoice, nodes: Sequence[Any]) -> int:
        return 1 + sum(
            self._picks_same(page.chosen(candidate), nodes, page, pairs)
            for page, pairs in zip(self._earlier, self._pairs, strict=True)
        )

    def _picks_same(self, picked: Sequence[Any], nodes: Sequence[Any], page: PickedPage, pairs: dict[int, int]) -> bool:
        if len(nodes) > 1:
            return bool(picked) and all(node.tag == nodes[0].tag for node in picked)
        if len(picked) != 1 or picked[0].tag != nodes[0].tag:
            return False
        line, other = self.page.line_of(nodes[0]), page.line_of(picked[0])
        return line not in pairs or pairs[line] == other


def _paired_lines(page: PickedPage, other: PickedPage) -> dict[int, int]:
    """Returns the lines of a page -> those of another version, where texts are equal or as many lines replace them."""
    texts, others = ([line.text for line in version.lines] for version in (page, other))
    pairs: dict[int, int] = {}
    at, other_at = 0, 0
    for start, end, other_start, other_end in [
        *gaps(texts, others),
        (len(texts), len(texts), len(others), len(others)),
    ]:
        pairs |= {at + n: other_at + n for n in range(start - at)}
        if end - start == other_end - other_start:
            pairs |= {start + n: other_start + n for n in range(end - start)}
        at, other_at = end, other_end
    return pairs


def offers(bodies: Sequence[tuple[bytes, str | None]], line: int, texts: Sequence[str] = ()) -> list[Offer]:
    """Returns what a click on a line of a page can mean: the element, what is around it, all like it, its value.

    bodies: versions of the page with their content types, newest first. line: of the newest, as in `parts_of`. texts:
    of stored versions; labels that are not in all of them are not used. Empty if there is no such line. Raises
    SelectionLimitError as `PickedPage`.
    """
    versions = _Versions([_page_of(*body) for body in bodies], texts)
    page = versions.page
    if not 0 <= line < len(page.nodes):
        return []
    node = page.nodes[line]
    made = [_offer(versions, "part", [node], _single(node))]
    around = _around(node)
    if around is not None:
        made.append(_offer(versions, "around", [around], _single(around)))
    alike = _alike(node)
    if len(alike) > 1:
        made.append(_offer(versions, "all", alike, _several(alike)))
    made += _values(versions, node)
    return [offer for offer in made if offer is not None]


def _offer(versions: _Versions, what: str, nodes: Sequence[Any], candidates: Sequence[SelectorChoice]) -> Offer | None:
    selectors, agreeing = versions.chosen(candidates, nodes)
    if not selectors:
        return None
    return Offer(what, tuple(selectors), len(nodes), agreeing, _beginning(nodes[0]))


def _beginning(node: Any) -> str:
    return " ".join((node.text_lexbor() or "").split())[:LINE_MAX]


def _around(node: Any) -> Any:
    """Returns the nearest element with more text than this one, short of the whole page; None: there is none."""
    text = _beginning(node)
    for ancestor in _ancestors(node):
        if ancestor.tag == "body":
            return None
        if _beginning(ancestor) != text:
            return ancestor
    return None


def _alike(node: Any) -> list[Any]:
    """Returns the elements that are alike around, or at, an element: items of a list, rows of a table, cards."""
    for element in (node, *_ancestors(node)):
        if element.tag == "body" or element.parent is None:
            break
        classes = _named_classes(element)
        alike = [
            other
            for other in _children(element.parent)
            if other.tag == element.tag and _named_classes(other) == classes
        ]
        if len(alike) > 1 and (
            element.tag in ("li", "tr", "article", "option", "dd", "dt") or (classes and len(alike) > 2)
        ):
            return alike
    return []


def _named_classes(node: Any) -> frozenset[str]:
    names = (node.attributes.get("class") or "").split()
    return frozenset(name for name in names if not is_made_by_tools(name))


_VALUE_ATTRIBUTES = ("content", "datetime", "value")
_DIGIT = re.compile(r"\d")


def _values(versions: _Versions, node: Any) -> list[Offer]:
    """Returns the value that an element, or one in it, has: first what is written for programs."""
    parts = [node, *(part for part in node.css("*") if part.mem_id != node.mem_id)]
    written = [(part, name, part.attributes.get(name) or "") for part in parts for name in _VALUE_ATTRIBUTES]
    for part, attribute, text in [*written, *((part, "", _beginning(part)) for part in parts)]:
        kind = kind_of_value(text, machine=bool(attribute))
        offer = _offer(versions, "value", [part], _single(part)) if kind else None
        if offer is not None:
            return [Offer("value", offer.selectors, 1, offer.versions, text, kind, attribute)]
    return []


def kind_of_value(text: str, *, machine: bool) -> str:
    """Returns price, number or date, where a text is one; else nothing. machine: it is written for programs."""
    if not _DIGIT.search(text) or len(text) > _LABEL_MAX:
        return ""
    kinds: tuple[Kind, ...] = (
        ("price", "number", "date") if 4 * len(_DIGIT.findall(text)) >= len(text) else ("price", "date")
    )
    for kind in kinds:
        reading = read_value([text], ValueFormat(kind=kind), machine=machine)
        if not reading.problem and (kind != "price" or reading.currency):
            return kind
    return ""
