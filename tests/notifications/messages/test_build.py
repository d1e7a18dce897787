"""Messages of one event, of a group and of a digest: what they say, that all data is inert, that they fit."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from pollerd.events import EventKind
from pollerd.model import Media
from pollerd.notifications.message import Event, EventSite, Message
from pollerd.notifications.writing import (
    Limits,
    Look,
    Medium,
    group_id,
    ids_hash,
    message_of_digest,
    message_of_group,
    message_of_one,
)
from tests.support.sample_events import AT, HOSTILE, change_event, other_event


class Page(HTMLParser):
    """Checks a document: its tags are closed, and it loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)
        assert given.keys() <= {"style", "href", "rel", "lang", "dir", "charset", "name", "content"}, given
        assert "url(" not in (given.get("style") or "")
        if "href" in given:
            self.links.append(given["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(message: Message) -> Page:
    page = Page()
    page.feed(message.html)
    page.close()
    assert page.open == []
    assert page.tags <= {"html", "head", "meta", "title", "body", "h1", "div", "a"}
    assert all(link.startswith(("https://", "http://")) for link in page.links)
    return page


def test_a_change_alone() -> None:
    message = message_of_one(
        change_event(), Look(zone=ZoneInfo("Europe/Berlin"), unsubscribe_url="https://p.example/u")
    )
    assert (message.id, message.thread) == ("change-1", "site-1")
    assert message.subject == "Shop 1 changed"
    assert message.unsubscribe_url == "https://p.example/u"
    assert message.text == (
        "1 line added: «on sale»\n"
        "Shop 1 https://shop.example/1\n\n"
        "- sold out\n+ on sale\n+ for 5 €\n\n"
        "price: 5.00\n"
        "matched: price fell by 10 %\n"
        "changed after: 2026-11-25 08:00 CET\n"
        "at: 2026-11-25 09:00 CET\n\n"
        "See it: https://pollerd.example/changes/1\n"
    )
    assert message.markdown.startswith(
        "1 line added: «on sale»  \nShop 1 <https://shop.example/1>  \n\n－ sold out  \n＋ on"
    )
    assert page_of(message).links == ["https://shop.example/1", "https://pollerd.example/changes/1"]
    assert "+ for 5 €</div>" in message.html
    assert '<meta name="color-scheme" content="light dark">' in message.html


@pytest.mark.parametrize(
    ("event", "subject", "says"),
    [
        (replace(change_event(), change=None), "Shop 1 changed", "It changed."),
        (other_event(EventKind.FIRST_SEEN), "New site: https://shop.example/7", "It was fetched for the first time."),
        (
            other_event(EventKind.FAILING, failures=3, detail="timeout after 30 s", since=AT - 60),
            "https://shop.example/7 is failing",
            "timeout after 30 s\nhttps://shop.example/7\n\n"
            "failed: 3 polls in a row\nlast successful poll: 2026-11-25 07:59 UTC",
        ),
        (
            other_event(EventKind.RECOVERED, since="2026-11-25"),
            "https://shop.example/7 is back",
            "failed since: 2026-11-25",
        ),
        (
            other_event(EventKind.RECOVERED, since="2026-11-25T07:59:00.000Z"),
            "https://shop.example/7 is back",
            "failed since: 2026-11-25 07:59 UTC",
        ),
        (
            other_event(EventKind.RECOVERED, since="Tuesday"),
            "https://shop.example/7 is back",
            "failed since: Tuesday",
        ),
        (other_event(EventKind.GONE), "https://shop.example/7 is gone", "removed for good (410)"),
        (
            other_event(EventKind.MOVED, new_url="https://new.example/"),
            "https://shop.example/7 moved",
            "new URL: https://new.example/",
        ),
        (
            other_event(EventKind.NO_TEXT, detail="the page has no text without its scripts"),
            "https://shop.example/7 has no text",
            "without its scripts",
        ),
        (
            other_event(EventKind.NOTHING_SELECTED, selection="price"),
            "https://shop.example/7: the watched part is missing",
            "selection: price",
        ),
        (
            other_event(EventKind.BLIND, **{"from": AT, "to": AT + 60}),
            "pollerd could not poll",
            "from: 2026-11-25 08:00 UTC\nto: 2026-11-25 08:01 UTC",
        ),
        (other_event(EventKind.OVER_BUDGET), "The budget is too small for the maximum intervals", "cannot be polled"),
        (
            other_event(EventKind.OVER_BUDGET, over=True),
            "The budget is large enough again",
            "All maximum intervals can be kept.",
        ),
        (other_event(EventKind.CHANNEL_DOWN, channel="mail", detail="535"), "Channel mail is down", "535"),
        (other_event(EventKind.CHANNEL_DOWN, channel="mail", over=True), "Channel mail works again", "sent now"),
        (other_event(EventKind.TEST), "Test message from pollerd", "This channel works"),
    ],
)
def test_each_kind_of_event(event: Event, subject: str, says: str) -> None:
    message = message_of_one(event)
    assert message.subject == subject
    assert says in message.text
    page_of(message)


def test_what_a_page_says_of_its_new_url_is_no_link() -> None:
    message = message_of_one(other_event(EventKind.MOVED, new_url="https://evil.example/"))
    assert "https://evil.example/" not in page_of(message).links
    assert "<https://evil" not in message.markdown


def test_a_group() -> None:
    events = [change_event(number, number % 12 + 1) for number in range(137)]
    message = message_of_group(events[::-1], Look(overview_url="https://pollerd.example/changes"))
    assert message.subject == "137 changes at 12 sites"
    assert message.id == group_id(events) == ids_hash([event.id for event in events])
    assert [event.id for event in message.events] == [event.id for event in events]
    assert message.text.startswith("* Shop 1 changed: 1 line added: «on sale»\n  https://pollerd.example/changes/0\n")
    shown = message.text.count("* Shop")
    assert shown == 137 or f"and {137 - shown} more\nSee all: https://pollerd.example/changes\n" in message.text
    chat = message.markdown.count("• Shop")
    assert message.markdown.endswith(f"and {137 - chat} more  \nSee all: <https://pollerd.example/changes>\n")
    page_of(message)


def test_how_many_events_both_bodies_list() -> None:
    events = [change_event(number) for number in range(2_000)]
    for message in (message_of_group(events), message_of_digest(events)):
        assert 100 < message.listed < 2_000
        listed = min(message.text.count("* "), message.html.count('margin:6px 0"'))
        assert message.listed == listed
    assert message_of_group(events[: message_of_group(events).listed]).listed == message_of_group(events).listed
    assert message_of_one(events[0]).listed == 1


def test_a_group_of_several_kinds() -> None:
    assert message_of_group([change_event(), other_event(EventKind.GONE)]).subject == "2 events at 2 sites"
    assert message_of_group([other_event(EventKind.BLIND)]).subject == "1 event"


def test_the_id_of_a_group_is_that_of_its_members() -> None:
    one, two, three = (change_event(number) for number in (1, 2, 3))
    assert group_id([one, two]) == group_id([two, one]) == group_id([two, one, two])
    assert (
        len({group_id([one]), group_id([one, two]), group_id([one, two, three]), ids_hash(["change-1change-2"])}) == 4
    )
    assert "." not in group_id([one])


def test_a_digest_is_told_by_site() -> None:
    events = [other_event(EventKind.BLIND), change_event(1, 2), change_event(2, 1), change_event(3, 2)]
    message = message_of_digest(events)
    assert message.subject == "Digest: 4 events at 2 sites"
    lines = [line for line in message.text.splitlines() if line.startswith(("Shop", "*"))]
    assert lines == [
        "* 2026-11-25 08:00 UTC · pollerd could not poll: Polling stopped for a while.",
        "Shop 2 https://shop.example/2",
        "* 2026-11-25 08:00 UTC · 1 line added: «on sale»",
        "* 2026-11-25 08:00 UTC · 1 line added: «on sale»",
        "Shop 1 https://shop.example/1",
        "* 2026-11-25 08:00 UTC · 1 line added: «on sale»",
    ]
    page_of(message)


def test_only_what_a_channel_uses_is_written() -> None:
    message = message_of_group([change_event()], Look(media=frozenset({Medium.MARKDOWN})))
    assert message.markdown
    assert not message.text
    assert not message.html


def test_a_long_difference_is_cut_with_the_link() -> None:
    event = change_event(added=tuple(f"line {number} " + "x" * 300 for number in range(100)), removed=(), cut=True)
    message = message_of_one(event, Look(Limits(markdown=2_000)))
    assert "＋ line 3 " in message.markdown
    assert re.search(r"and \d+ more lines  \nSee all: <https://pollerd.example/changes/1>\n$", message.markdown)
    assert len(message.markdown) <= 2_000
    assert "The difference is cut." in message.text


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_inert_wherever_it_is(text: str) -> None:
    event = change_event(
        summary=text, why=text, selection=text, added=(text,), removed=(text,), values={text: text}, kind=Media.HTML
    )
    event = replace(event, site=EventSite(1, "https://shop.example/1", text))
    failing = replace(other_event(EventKind.FAILING, detail=text, since=text), site=event.site)
    for message in (
        message_of_one(event),
        message_of_one(failing),
        message_of_group([event]),
        message_of_digest([event]),
    ):
        check(message)


@settings(deadline=None, max_examples=60)
@given(st.text(st.characters(), max_size=100), st.integers(800, 3_000), st.integers(1, 30))
def test_any_text_fits_and_is_inert(text: str, most: int, number: int) -> None:
    limits = Limits(subject=60, text=most, html=most + 2_000, markdown=most)
    events = [change_event(n, summary=text, added=(text,) * 10, values={"v": text}) for n in range(number)]
    for message in (message_of_one(events[0], Look(limits)), message_of_digest(events, Look(limits))):
        check(message)
        assert len(message.subject) <= 60
        assert max(len(message.text), len(message.markdown)) <= most
        assert len(message.html) <= most + 2_000


def check(message: Message) -> None:
    """Only our own tags, links and lines are there, and no character that cannot be sent."""
    assert (
        message.subject.isprintable()
        or "\u200d" in message.subject
        or "\u200c" in message.subject
        or unassigned(message)
    )
    assert "\n" not in message.subject
    assert "\r" not in message.subject
    ours = r"https://(?:shop|pollerd)\.example/\S*"
    assert not [one for one in page_of(message).links if not re.fullmatch(ours, one)]
    for text in (message.text, message.html, message.markdown):
        text.encode()
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)
    rendered = MarkdownIt("commonmark").render(message.markdown)
    assert set(re.findall(r"<(\w+)", rendered)) <= {"p", "br", "a"}
    assert not [one for one in re.findall(r'href="([^"]*)"', rendered) if not re.fullmatch(ours, one)]
    assert not re.search(r"@(?!\u200b)|<!|<@", message.markdown)


def unassigned(message: Message) -> bool:
    """Whether a character is there that this Python does not know yet, or that is private."""
    return any(not sign.isprintable() for sign in message.subject)
