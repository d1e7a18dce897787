"""A browser follows every link of the pages, with contents of every kind, at desk and phone width.

`--level check` visits each page once, with all contents at once; `--level all` each of them with each.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
import pytest
from axe_playwright_python.async_playwright import Axe

from pollerd.daemon.control.preview import PagePreview
from pollerd.detection.selection.preview import preview
from pollerd.model import OutcomeKind, Poll, SiteState
from pollerd.moving.moved import StoredResult
from pollerd.site_settings import SiteSpec
from pollerd.storage.values import Batch, PollRecord, SiteContext
from tests.web.conftest import HOSTILE, SMALL_OR_CUT, NewReader, Reader, Web, add_changes, add_hostile
from tests.web.test_browser import NARROW, RULES, WIDE

_LINKS = "[...document.querySelectorAll('a[href], area[href]')].map((link) => link.href)"
_IMAGES = "[...document.querySelectorAll('img')].map((image) => image.src)"
# Elements that end right of the window, unless they are in a box that scrolls by itself.
_OUTSIDE = """[...document.querySelectorAll("main *, header *, footer *")].filter((element) => {
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.right <= document.documentElement.clientWidth + 1) return false;
  for (let parent = element.parentElement; parent; parent = parent.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(parent).overflowX)) return false;
  return getComputedStyle(element).visibility !== "hidden" && element.closest(".hidden") === null;
}).map((element) => element.outerHTML.slice(0, 120))"""


def kind_of(path: str) -> str:
    """Returns what addresses of the same page have in common."""
    return re.sub(r"\d+", "N", path)


def page_of(path: str) -> str:
    """Returns what addresses of the same page have in common, whatever it is asked for."""
    return kind_of(urlsplit(path).path)


async def empty(web: Web) -> None:
    """No site yet."""


async def values_and_rules(web: Web) -> None:
    """Sites with selections, values, rules, channels and a hidden part."""
    price = {"kind": "price", "from": {"css": ".price"}}
    selections = {"default": {"steps": [{"keep": {"css": "main"}}], "values": {"price": price}}}
    url = "https://shop.example.org/lamp"
    site_id = await web.api.add(url, title="Lamp", tags=["shop"], selections=selections)
    await web.poll(
        site_id, url, ["Lamp\n€ 1,199.00\n", "Lamp\n€ 999.00\n", "Lamp\n€ 949.00\n"], summary="€ 999 → € 949"
    )
    hook = {"name": "#prices", "kind": "webhook", "settings": {"url": "https://a.example/x"}}
    await web.api("POST", "/channels", hook)
    await web.api("POST", "/rules", {"name": "prices", "channels": ["#prices"], "sites": {"tags": ["shop"]}})


async def in_trouble(web: Web) -> None:
    """Sites that are paused, failing, gone, or that no poll has read yet."""
    failures = {
        "refused": (OutcomeKind.DENIED, 401, SiteState.BACKING_OFF),
        "slow": (OutcomeKind.TIMEOUT, None, SiteState.BACKING_OFF),
        "gone": (OutcomeKind.GONE, 410, SiteState.GONE),
    }
    for name, (outcome, status, state) in failures.items():
        url = f"https://{name}.example.org/{'long-path-' * 12}"
        site_id = await web.api.add(url)
        poll = Poll(site_id, 1.8e9, None, outcome, status, 0.1, 0, False)
        context = SiteContext(site_id, url)
        await web.api.store.commit(
            Batch(
                [PollRecord(poll=poll, context=context, state=state, failures=3, not_before=1.9e9, last_seen_at=1.8e9)]
            )
        )
    paused = await web.api.add("https://paused.example.org/")
    await web.api("POST", f"/sites/{paused}/pause", {})
    await web.api.add("https://new.example.org/")


async def long_list(web: Web) -> None:
    """More sites than a page of the list shows."""
    await web.api.control.sites.add(
        [SiteSpec(f"https://h{n}.example.org/{n}", tags=(f"t{n % 30}",)) for n in range(120)]
    )


async def moving_in(web: Web) -> str:
    """A file of another program that was tried, with old and new results; returns its page."""
    name, text = '"><script>window.hit=1</script>', "<script>window.hit=1</script>\nold"
    jobs = f"name: {orjson.dumps(name).decode()}\nurl: https://a.example/\nfilter: [{{css: h1}}, {{shellpipe: ls}}]\n"
    form = aiohttp.FormData({"format": ""})
    form.add_field("file", (jobs + "---\ncommand: ls\n").encode(), filename="urls.yaml")
    page = await web.post("/sites/import", form)
    run = web.api.app.state.web.kept["imports"][1]
    (source,) = run.moved.moved.sources[0]
    run.moved.moved.results[source] = StoredResult(text, 1.7e9)
    selections = preview(run.moved.site(1).selections, f"<h1>{HOSTILE[5]}</h1>".encode(), "text/html", "", {}, {})
    read = PagePreview("https://a.example/", OutcomeKind.BODY, 200, "", None, selections, None)
    run.compared[1] = run.moved.compared(1, read)
    assert page.status == 200
    return "/sites/import/1"


CONTENTS = (empty, add_changes, add_hostile, values_and_rules, in_trouble, long_list, moving_in)


async def everything(web: Web) -> str | None:
    """All contents at once; returns the page that no link leads to."""
    return [await fill(web) for fill in CONTENTS][-1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Crawls with each of the contents, or below the level `all` once."""
    whole = metafunc.config.getoption("level") == "all"
    metafunc.parametrize("fill", CONTENTS if whole else (everything,), ids=lambda fill: fill.__name__)


@pytest.mark.timeout(900)  # hundreds of pages, each in a browser
async def test_every_link_leads_to_a_sound_page(
    web: Web, new_reader: NewReader, fill: Callable[[Web], Awaitable[str | None]]
) -> None:
    same = page_of if fill is everything else kind_of
    unlinked = await fill(web)
    reader = await new_reader(web.root)
    waiting, reached, broken = ["/", *([unlinked] if unlinked else [])], {"/"}, []
    while waiting:
        path = waiting.pop()
        broken += await faults(reader, web, path)
        for link in await reader.page.evaluate(_LINKS):
            address = urlsplit(urljoin(web.root, link))
            if f"{address.scheme}://{address.netloc}" != web.root:
                continue
            target = address.path + (f"?{address.query}" if address.query else "")
            if re.fullmatch(r"/sites/\d+", address.path):  # a part of a site's page is a page to see
                target += f"#{address.fragment}"
            if same(target) not in reached:
                reached.add(same(target))
                if address.path.startswith("/api/") or address.path == "/metrics":
                    answer = await web.get(target)
                    broken += [f"{path}: {answer.status} {target}"] if answer.status != 200 else []
                else:
                    waiting.append(target)
    assert not broken, "\n".join(broken)
    assert {"/sites", "/changes", "/rules", "/system"} <= reached
    assert reader.complaints == []
    assert reader.foreign == []


async def faults(reader: Reader, web: Web, path: str) -> list[str]:
    """Opens a page, and returns the faults it has at desk and at phone width."""
    await reader.page.goto("about:blank")  # another part of the same page is no new page
    answer = await reader.page.goto(web.root + path)
    if answer is None or answer.status != 200:
        return [f"{path}: {answer and answer.status}"]
    await asyncio.sleep(0.1)  # scripts write times
    out = []
    for source in await reader.page.evaluate(_IMAGES):
        image = await web.get(source.removeprefix(web.root))
        out += [f"{path}: {image.status} {source}"] if image.status != 200 else []
    for width in (WIDE, NARROW):
        await reader.page.set_viewport_size({"width": width["width"], "height": width["height"]})
        out += [f"{path} ({width['width']} px): {fault}" for fault in await _faults_drawn(reader)]
    return out


async def _faults_drawn(reader: Reader) -> list[str]:
    """Returns the faults of a page at the present width."""
    outside, small = await reader.page.evaluate(_OUTSIDE), await reader.page.evaluate(SMALL_OR_CUT)
    out = [f"outside the window: {element}" for element in outside]
    out += [f"small or cut: {letters}" for letters in small]
    report = (await Axe().run(reader.page, options=RULES)).response
    return out + [
        f"{finding['id']}: {node['html'][:200]}" for finding in report["violations"] for node in finding["nodes"]
    ]
