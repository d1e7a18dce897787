"""How long the selectors last that a click chooses, compared with absolute paths.

    python benchmarks/picker.py --traces DIR [--skip 12] [--lines 40] [--seed 1]

DIR holds `load.py` with page histories (`peer_runs/contents.py` says what is asked of it). Lines of pages are picked by
chance, each from one version alone. Two rows:

- *rebuilt*: the page is built again by a seeded mutator: classes with names of a build tool become others, a share of
  the named classes and ids are renamed, elements are wrapped, notices are put in, sections change places. A selector is
  right if it picks the very element, and nothing else.
- *history*: later versions of the same page. A line counts if its text stands once in both versions; a selector is
  right if it picks an element that has just this text.

Prints how many selectors fail, of those that a click chooses and of absolute paths, and the ratio.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree, html
from peer_runs.contents import pages

from pollerd.detection.selection.picker import PickedPage, absolute_path, offers

TYPE = "text/html; charset=utf-8"
MARK = "x-mark"
"""The attribute by which the mutator's target is known; the picker does not look at it."""


@dataclass
class Tally:
    """How many selectors were tried, and how many of them failed."""

    tried: int = 0
    chosen_failed: int = 0
    path_failed: int = 0

    def add(self, *, chosen: bool, path: bool) -> None:
        """Counts one line; chosen, path: whether its selectors were right."""
        self.tried += 1
        self.chosen_failed += not chosen
        self.path_failed += not path

    def row(self, name: str) -> str:
        """Returns it as a row of the table."""
        ratio = self.chosen_failed / max(self.path_failed, 1)
        return f"| {name} | {self.tried} | {self.chosen_failed} | {self.path_failed} | {ratio:.2f} |"


def picked(body: bytes, line: int) -> str | None:
    """Returns the selector that a click on a line chooses first."""
    offered = offers([(body, TYPE)], line)
    return offered[0].selectors[0] if offered and offered[0].what == "part" else None


# The mutator.


def built_by_tool(tree: Any, rng: random.Random) -> None:
    """Gives a share of the elements a class of a build tool, as sites with CSS-in-JS have."""
    for element in tree.iter("div", "p", "span", "section", "li", "a"):
        if rng.random() < 0.4:
            element.set("class", f"{element.get('class', '')} css-{rng.getrandbits(32):07x}".strip())


def rebuilt(tree: Any, rng: random.Random) -> None:
    """Builds a page again: as a release of its site does."""
    renamed: dict[str, str] = {}
    for element in tree.iter(etree.Element):
        names = [_renamed(name, renamed, rng) for name in element.get("class", "").split()]
        if names:
            element.set("class", " ".join(names))
        if element.get("id") and rng.random() < 0.05:
            del element.attrib["id"]
    body = tree.find("body")
    parents = [element for element in body.iter("div", "section", "main", "ul") if len(element) > 1]
    for parent in rng.sample(parents, max(len(parents) // 10, 1)) if parents else []:
        change = rng.choice((_wrap, _notice, _reorder))
        change(parent, rng)
    _notice(body, rng)


def _renamed(name: str, renamed: dict[str, str], rng: random.Random) -> str:
    if name.startswith("css-"):
        return renamed.setdefault(name, f"css-{rng.getrandbits(32):07x}")
    return renamed.setdefault(name, f"{name}-new" if rng.random() < 0.1 else name)


def _wrap(parent: Any, rng: random.Random) -> None:
    child = rng.choice(list(parent))
    wrapper = etree.Element("div")
    parent.replace(child, wrapper)
    wrapper.tail, child.tail = child.tail, None
    wrapper.append(child)


def _notice(parent: Any, rng: random.Random) -> None:
    notice = etree.Element("div")
    etree.SubElement(notice, "p").text = f"Notice {rng.randrange(1000)}"
    parent.insert(rng.randrange(len(parent) + 1), notice)


def _reorder(parent: Any, rng: random.Random) -> None:
    children = list(parent)
    first, second = rng.sample(range(len(children)), 2)
    children[first], children[second] = children[second], children[first]
    parent[:] = children


def of_mutator(body: bytes, lines: int, rng: random.Random, tally: Tally) -> None:
    """Picks lines of a page, builds it again for each, and looks whether the selectors pick the same element."""
    tree = html.document_fromstring(body.decode("utf-8", "replace"))
    built_by_tool(tree, rng)
    before = etree.tostring(tree, method="html", encoding="utf-8")
    for element in tree.iter(etree.Element):
        element.set(MARK, str(rng.getrandbits(60)))
    marked = etree.tostring(tree, method="html", encoding="utf-8")
    page, with_marks = PickedPage(before, TYPE), PickedPage(marked, TYPE)
    if [line.text for line in page.lines] != [line.text for line in with_marks.lines]:
        return
    for line in rng.sample(range(len(page.lines)), min(lines, len(page.lines))):
        selector, mark = picked(before, line), with_marks.nodes[line].attributes.get(MARK)
        if selector is None or not mark:
            continue
        later = html.document_fromstring(marked.decode())
        rebuilt(later, rng)
        after = PickedPage(etree.tostring(later, method="html", encoding="utf-8"), TYPE)
        path = absolute_path(page.nodes[line])
        right = [[node.attributes.get(MARK) for node in after.matches(one)] == [mark] for one in (selector, path)]
        tally.add(chosen=right[0], path=right[1])


# Histories.


def of_history(bodies: Sequence[bytes], lines: int, rng: random.Random, tally: Tally) -> None:
    """Picks lines of the first version, and looks whether the selectors pick their texts in the last one."""
    first, last = PickedPage(bodies[0], TYPE), PickedPage(bodies[-1], TYPE)
    for line in rng.sample(both := list(_in_both(first, last)), min(lines, len(both))):
        selector = picked(bodies[0], line)
        if selector is None:
            continue
        text, path = first.lines[line].text, absolute_path(first.nodes[line])
        right = [_texts(last.matches(one)) == [text] for one in (selector, path)]
        tally.add(chosen=right[0], path=right[1])


def _in_both(first: PickedPage, last: PickedPage) -> Iterator[int]:
    counts, last_counts = Counter(line.text for line in first.lines), Counter(line.text for line in last.lines)
    for number, line in enumerate(first.lines):
        if counts[line.text] == last_counts[line.text] == 1 and line.text == " ".join(_texts([first.nodes[number]])):
            yield number


def _texts(nodes: Sequence[Any]) -> list[str]:
    return [" ".join((node.text_lexbor() or "").split()) for node in nodes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--skip", type=int, default=0, help="pages to leave out at the start (default %(default)s)")
    parser.add_argument("--pages", type=int, default=100, help="most pages (default %(default)s)")
    parser.add_argument("--lines", type=int, default=40, help="most lines of each page (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    histories = [page.bodies for page in pages(options.traces).values() if page.media == "text/html"]
    rng = random.Random(options.seed)
    mutated, history = Tally(), Tally()
    for bodies in histories[options.skip : options.skip + options.pages]:
        of_mutator(bodies[0], options.lines, rng, mutated)
        if len(bodies) > 1:
            of_history(bodies, options.lines, rng, history)
    print("| pages | lines | chosen by a click: fail | absolute path: fails | ratio |")
    print("|---|---|---|---|---|")
    print(mutated.row("rebuilt by the mutator"))
    print(history.row("later in their history"))


if __name__ == "__main__":
    main()
