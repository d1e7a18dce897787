"""Events to be told, with hostile text where a page or user may say something."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.message import Event, EventChange, EventSite

AT = 1_795_593_600.0
"""2026-11-25 08:00 UTC."""
HOSTILE = (
    "<a href=https://evil.example>x</a>",
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![x](https://evil.example/p.png)",
    "@everyone and @here",
    "<!channel> <!here|x> <@U123> <https://evil.example|bank>",
    "`code` ``` fence",
    "*bold* **strong** _it_ __under__ ~struck~ ~~struck~~ ||spoiler||",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "=====",
    "| a | b |",
    "see https://evil.example/x and www.evil.example and evil.example",
    "mail me@evil.example or #hash or /command or :smile: or &lt;b&gt;",
    '" onmouseover="x" \'',
    "\\*not escaped\\*",
    "a\r\nBcc: victim@evil.example",
    "\u202egnp.exe\u2028next\u2029\x00\x07\u200f",
    "\ud800 half",
    "[x]: https://evil.example",
)


def change_event(number: int = 1, site: int = 1, **change: Any) -> Event:
    """A change of a site."""
    told = EventChange(
        id=number,
        kind=Media.HTML,
        summary="1 line added: «on sale»",
        detected_at=AT + number,
        previous_poll_at=AT - 3_600,
        added=("on sale", "for 5 €"),
        removed=("sold out",),
        values={"price": "5.00"},
        why="price fell by 10 %",
    )
    return Event(
        id=f"change-{number}",
        kind=EventKind.CHANGED,
        at=AT + number,
        site=EventSite(site, f"https://shop.example/{site}", f"Shop {site}", ("shop",)),
        change=replace(told, **change),
        link=f"https://pollerd.example/changes/{number}",
    )


def other_event(kind: EventKind, **data: Any) -> Event:
    """An event of another kind."""
    site = EventSite(7, "https://shop.example/7") if kind.value.startswith("site.") else None
    return Event(f"{kind.value.replace('.', '-')}-7", kind, AT, site, data=data, link="https://pollerd.example/sites/7")
