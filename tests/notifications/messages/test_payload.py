"""The JSON of webhooks: its form, its bound, and what is said when something is cut."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pollerd.events import EventKind
from pollerd.notifications.message import Event, EventSite
from pollerd.notifications.payload import MAX_BYTES, events_carried, payload_of
from pollerd.notifications.writing import message_of_group, message_of_one
from tests.support.sample_events import change_event, other_event


def read(*events: Event) -> Any:
    body = payload_of(
        message_of_one(events[0]) if len(events) == 1 else message_of_group(events), link="https://p.example"
    )
    assert len(body) <= MAX_BYTES
    return orjson.loads(body)


def test_a_change() -> None:
    assert read(change_event()) == {
        "type": "site.changed",
        "timestamp": "2026-11-25T08:00:01.000Z",
        "data": {
            "id": "change-1",
            "link": "https://pollerd.example/changes/1",
            "site": {"id": 1, "url": "https://shop.example/1", "title": "Shop 1", "tags": ["shop"]},
            "change": {
                "id": 1,
                "kind": "html",
                "selection": "default",
                "summary": "1 line added: «on sale»",
                "matters": True,
                "why": "price fell by 10 %",
                "detected_at": "2026-11-25T08:00:01.000Z",
                "previous_poll_at": "2026-11-25T07:00:00.000Z",
                "added": ["on sale", "for 5 €"],
                "removed": ["sold out"],
                "cut": False,
                "values": {"price": "5.00"},
            },
        },
    }


@pytest.mark.parametrize("kind", EventKind)
def test_each_kind(kind: EventKind) -> None:
    found = read(other_event(kind, failures=3, detail="x"))
    assert found["type"] == kind.value
    assert found["data"]["details"] == {"failures": 3, "detail": "x"}
    assert ("site" in found["data"]) == kind.value.startswith("site.")


def test_a_group_holds_each_as_alone() -> None:
    events = [change_event(1), change_event(2, 2)]
    found = read(*events)
    assert found["type"] == "group"
    assert found["timestamp"] == "2026-11-25T08:00:02.000Z"
    assert found["data"] == {
        "count": 2,
        "sites": 2,
        "cut": False,
        "link": "https://p.example",
        "events": [read(event) for event in events],
    }


def test_a_long_difference_is_cut_and_says_so() -> None:
    found = read(change_event(added=tuple(f"{number} " + "ü" * 300 for number in range(100))))
    change = found["data"]["change"]
    assert change["cut"]
    assert 5 <= len(change["added"]) < 100
    assert found["data"]["link"]


def test_a_large_group_is_cut_and_says_so() -> None:
    found = read(*[change_event(number, number % 7 + 1) for number in range(1_000)])
    assert found["data"]["count"] == 1_000
    assert found["data"]["sites"] == 7
    assert found["data"]["cut"]
    assert 20 < len(found["data"]["events"]) < 1_000
    assert all(event["data"]["change"]["cut"] for event in found["data"]["events"])


def test_as_many_events_as_are_carried_fit() -> None:
    events = [change_event(number) for number in range(700)]
    parts = []
    while events:
        number = events_carried(message_of_group(events), link="https://p.example")
        parts.append(read(*events[:number])["data"])
        events = events[number:]
    assert 1 < len(parts) < 40
    assert not any(part.get("cut") for part in parts)
    assert sum(len(part.get("events", [part])) for part in parts) == 700
    assert events_carried(message_of_one(change_event())) == 1


def test_what_json_cannot_hold() -> None:
    found = read(other_event(EventKind.FAILING, detail="\ud800 half", at={1, 2}, deep={"\udfff": [b"x", 10**30]}))
    assert found["data"]["details"]["detail"] == "\ufffd half"


@settings(deadline=None, max_examples=60)
@given(
    st.text(st.characters(), max_size=3_000),
    st.integers(0, 200),
    st.integers(0, 300),
    st.dictionaries(st.text(st.characters(), max_size=5), st.text(max_size=9_000), max_size=4),
)
def test_it_is_always_below_20_kb(text: str, lines: int, tags: int, data: dict[str, str]) -> None:
    event = change_event(summary=text, why=text, added=(text,) * lines, values={str(n): text for n in range(30)})
    event = replace(event, site=EventSite(1, "https://shop.example/", text, (text,) * tags), data=data)
    for events in ([event], [event] * 3):
        body = payload_of(message_of_one(events[0]) if len(events) == 1 else message_of_group(events))
        assert len(body) <= MAX_BYTES
        orjson.loads(body)
