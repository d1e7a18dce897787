"""How long the selectors last that a click chooses, compared with absolute paths; and how long a click takes.

    python benchmarks/picker.py --traces DIR [--skip 12] [--lines 40] [--seed 1]
    python benchmarks/picker.py --clicks 20 [--bytes 500000]

DIR holds `load.py` with page histories (`peer_runs/contents.py` says what is asked of it). Lines of pages are picked by
chance, each from one version alone. Two rows:

- *rebuilt*: the page is built again by a seeded mutator: classes with names of a build tool become others, a share of
  the named classes and ids are renamed, elements are wrapped, notices are put in, sections change places. A selector is
  right if it picks the very element, and nothing else.
- *history*: later versions of the same page. A line counts if its text stands once in both versions; a selector is
  right if it picks an element that has just this text.

Prints how many selectors fail, of those that a click chooses and of absolute paths, and the ratio.

With `--clicks` a daemon polls a served page of so many bytes until three versions are stored, and the form reads each,
too. Then lines that are picked by chance are clicked over HTTP as the page's script does it, and what each offers first
is taken. Prints how long the first click and the later ones took until their answers were there.
"""

from __future__ import annotations

import argparse
import asyncio
import html as markup
import random
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from daemon_process import DaemonProcess
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


VERSIONS = 3


def shop(version: int, size: int) -> str:
    """A page of a shop of so many bytes: a list of things with prices, of which some differ between versions."""
    cards, length, n = list[str](), 0, 0
    while length < size:
        price = f"€ {n * 7 % 900 + (version if n % 50 == 0 else 0)}.00"
        cards.append(
            f'<li class="card css-{n:x}a1"><a href="/thing/{n}"><h3>Thing number {n}</h3></a>'
            f'<p class="price">{price}</p><p>Words about thing {n}, which is a good one.</p></li>\n'
        )
        length, n = length + len(cards[-1].encode()), n + 1
    return f'<html lang="en"><body><h1>Shop</h1><main><ul id="things">{"".join(cards)}</ul></main></body></html>'


class Clicks:
    """A daemon that watches one page, and the form of that page."""

    def __init__(self, session: aiohttp.ClientSession, root: str) -> None:
        self._session, self._root = session, root
        self._form = [("selection", "default"), ("keep", ""), ("keep_how", "elements")]

    async def stored(self) -> int:
        """How many versions of the page are stored."""
        async with self._session.get(f"{self._root}/api/v1/sites/1") as site:
            was_read = int((await site.json())["polls"] > 0)
        async with self._session.get(f"{self._root}/api/v1/changes?site=1") as changes:
            return was_read + len((await changes.json())["items"])

    async def press(self, button: str, value: str) -> tuple[float, str]:
        """Presses a button of the form: the seconds until the answer is there, and the answer."""
        began = time.perf_counter()
        data, headers = [*self._form, (button, value)], {"X-Fragment": "1"}
        async with self._session.post(f"{self._root}/sites/1/counts", data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status != 200:
                raise SystemExit(f"{button}={value}: {answer.status} {text[:300]}")
        return time.perf_counter() - began, text


async def clicked(count: int, size: int, rng: random.Random) -> None:
    """Measures clicks, and prints how long they took."""
    version = 1

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=shop(version, size), content_type="text/html")

    app = web.Application()
    app.router.add_get("/shop", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    with tempfile.TemporaryDirectory(prefix="pollerd-clicks-") as folder:
        daemon = DaemonProcess(Path(folder))
        daemon.start(
            [f"http://127.0.0.1:{runner.addresses[0][1]}/shop"],
            "--budget",
            "5",
            "--min-interval",
            "1",
            "--max-interval",
            "1",
        )
        try:
            await daemon.ready()
            async with aiohttp.ClientSession() as session:
                form = Clicks(session, daemon.root)
                for version in range(1, VERSIONS + 1):
                    while await form.stored() < version:  # noqa: ASYNC110 (another process stores them)
                        await asyncio.sleep(0.1)
                    await form.press("read", "1")
                async with session.post(f"{daemon.root}/api/v1/sites/1/pause") as answer:
                    answer.raise_for_status()
                await _click(form, count, shop(version, size), rng)
        finally:
            daemon.end()
            await runner.cleanup()


async def _click(form: Clicks, count: int, page: str, rng: random.Random) -> None:
    lines = len(PickedPage(page.encode(), TYPE).lines)
    print(f"{len(page.encode()):,} bytes, {lines:,} lines, {VERSIONS} versions")
    offered, taken = list[float](), list[float]()
    for _ in range(count):
        seconds, text = await form.press("pick", str(rng.randrange(lines)))
        offered.append(seconds)
        take = re.search(r'name="take" value="([^"]+)"', text)
        if take is None:
            raise SystemExit(f"nothing was offered: {text[:300]}")
        taken.append((await form.press("take", markup.unescape(take[1])))[0])
    for name, taking in (("click to its offers", offered), ("taken to its preview", taken)):
        first, later = 1_000 * taking[0], [1_000 * one for one in taking[1:]]
        print(f"{name}: first {first:.0f} ms, then median {statistics.median(later):.0f} ms, worst {max(later):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, help="folder with page histories; needed without --clicks")
    parser.add_argument("--clicks", type=int, default=0, help="clicks to time (default: none, selectors are compared)")
    parser.add_argument("--bytes", type=int, default=500_000, help="of the page that is clicked (default %(default)s)")
    parser.add_argument("--skip", type=int, default=0, help="pages to leave out at the start (default %(default)s)")
    parser.add_argument("--pages", type=int, default=100, help="most pages (default %(default)s)")
    parser.add_argument("--lines", type=int, default=40, help="most lines of each page (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.clicks:
        asyncio.run(clicked(options.clicks, options.bytes, random.Random(options.seed)))
        return
    if options.traces is None:
        parser.error("--traces or --clicks")
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
