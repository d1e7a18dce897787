"""Pages and selections that would take much time or memory if nothing bounded them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pollerd.detection.selection.selection import canonical

HTML, JSON, RSS, PDF, TEXT, XML = (
    "text/html",
    "application/json",
    "application/rss+xml",
    "application/pdf",
    "text/plain",
    "application/xml",
)


@dataclass(frozen=True)
class HostilePage:
    """A body, and the steps of a selection that reads it."""

    media: str
    make: Callable[[], bytes]
    steps: list[dict[str, object]]

    @property
    def settings(self) -> str:
        """The selections of its site."""
        return canonical({"default": {"steps": self.steps}})


def keep(**selector: str) -> list[dict[str, object]]:
    return [{"keep": selector}]


def repeated(unit: bytes, size: int, head: bytes = b"", tail: bytes = b"") -> bytes:
    """Returns about `size` bytes."""
    return head + unit * max((size - len(head) - len(tail)) // len(unit), 1) + tail


def nested(opening: bytes, closing: bytes, depth: int, inner: bytes) -> bytes:
    return opening * depth + inner + closing * depth


def pdf_bomb(size: int) -> bytes:
    """Returns a document whose one page has that many bytes of operators, compressed."""
    stream = zlib.compress(b"BT /F1 12 Tf 72 720 Td " + b"(abcdefghijklmnop) Tj " * (size // 22) + b"ET", 9)
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [5 0 R] >>",
        font,
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream),
        page + b"/Resources << /Font << /F1 3 0 R >> >> >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    tail = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(body)
    return body + b"xref\n0 6\n0000000000 65535 f \n" + table + tail


def laughs() -> bytes:
    entities = b"".join(b'<!ENTITY l%d "%s">' % (i, b"&l%d;" % (i - 1) * 10) for i in range(1, 10))
    return b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY l0 "ha">' + entities + b"]><r>&l9;</r>"


def entries() -> bytes:
    items = b"".join(b"<item><guid>%d</guid><title>entry %d</title></item>" % (i, i) for i in range(10_000))
    return b'<?xml version="1.0"?><rss version="2.0"><channel><title>t</title>' + items + b"</channel></rss>"


MANY = partial(repeated, b"<p><a>x</a></p>")
SLOW_XPATH = "//*[count(preceding::*) > count(following::*) and count(preceding::*) > count(//*/preceding::*)]"
PAGES: dict[str, HostilePage] = {
    "CSS `p a`, 32 KiB of elements": HostilePage(HTML, partial(MANY, 32 * 1024), keep(css="p a")),
    "CSS `b b b b i`, 32 KiB nested": HostilePage(
        HTML, partial(nested, b"<b>", b"", 10_900, b"<i>x</i>"), keep(css="b b b b i")
    ),
    "CSS `p a`, 5 MB of elements": HostilePage(HTML, partial(MANY, 5_000_000), keep(css="p a")),
    "CSS `p ~ p ~ p`, 5 MB of siblings": HostilePage(
        HTML, partial(repeated, b"<p>x</p>", 5_000_000), keep(css="p ~ p ~ p")
    ),
    "CSS `div:has(i)`, 500 kB nested": HostilePage(
        HTML, partial(nested, b"<div>", b"</div>", 45_000, b"x"), keep(css="div:has(i)")
    ),
    "XPath `//a`, 5 MB of elements": HostilePage(HTML, partial(MANY, 5_000_000), keep(xpath="//a")),
    "XPath of cubic time, 500 kB": HostilePage(HTML, partial(MANY, 500_000), keep(xpath=SLOW_XPATH)),
    "XPath of a string, 5 MB": HostilePage(
        HTML, partial(MANY, 5_000_000), keep(xpath="//p[contains(string(/), string(.))]")
    ),
    "XPath `//p[1]`, 5 MB nested": HostilePage(
        HTML, partial(nested, b"<p><span>", b"</span></p>", 250_000, b"x"), keep(xpath="//p[1]")
    ),
    "JSONPath `$..x`, 10,000 levels": HostilePage(
        JSON, partial(nested, b"[", b"]", 10_000, b"1"), keep(jsonpath="$..x")
    ),
    "JSONPath `$..*`, 5 MB": HostilePage(
        JSON, lambda: b"[" + b",".join([b'{"a":[1,2,3]}'] * 350_000) + b"]", keep(jsonpath="$..*")
    ),
    "JSONPath with a filter in a filter, 200 kB": HostilePage(
        JSON, lambda: b"[" + b",".join([b'{"a":1}'] * 25_000) + b"]", keep(jsonpath="$[?count($[?@.a == 1]) > 1]")
    ),
    "`(a+)+$`, 100 kB": HostilePage(TEXT, partial(repeated, b"a", 100_000, b"", b"!"), [{"find": {"re": "(a+)+$"}}]),
    "`(x+x+)+y` in lines, 5 MB": HostilePage(
        TEXT, partial(repeated, b"x" * 99 + b"\n", 5_000_000), [{"lines": {"keep": [{"re": "(x+x+)+y"}]}}]
    ),
    "each character replaced by a thousand, 5 MB": HostilePage(
        TEXT, partial(repeated, b"a", 5_000_000), [{"replace": {"re": "a", "with": "b" * 1_000}}]
    ),
    "`(?:.?){1000}`, 5 MB": HostilePage(TEXT, partial(repeated, b"ab", 5_000_000), [{"find": {"re": "(?:.?){1000}"}}]),
    "feed of 10,000 items": HostilePage(RSS, entries, [{"items": {"fields": ["title"]}}]),
    "XML, billion laughs": HostilePage(XML, laughs, [{"as": "xml"}, *keep(xpath="//r")]),
    "PDF, a page of 500 MB": HostilePage(PDF, partial(pdf_bomb, 500_000_000), [{"as": "pdf"}]),
    "PDF that is none": HostilePage(PDF, partial(repeated, b"%PDF-1.4\n1 0 obj\n", 5_000_000), [{"as": "pdf"}]),
    "700,000 lines, unique and sorted by number": HostilePage(
        TEXT,
        lambda: b"\n".join(b"%d" % (i * 7919 % 1_000_003) for i in range(700_000)),
        [{"unique": "all"}, {"sort": "number"}],
    ),
}
