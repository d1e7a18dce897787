import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate

import pytest

from pollerd.detection.detect import detect
from pollerd.detection.feed import xml_entries, xml_feed
from pollerd.detection.normalise import normalise
from pollerd.model import Baseline, Detection, Evidence, Media, Outcome, OutcomeKind

NOW = 1_700_000_000.0
Item = tuple[str, str, float]
Build = Callable[..., bytes]


def rss(items: list[Item], built: float = NOW) -> bytes:
    entries = "".join(
        f"<item><guid>{key}</guid><title>{title}</title><pubDate>{formatdate(date)}</pubDate></item>"
        for key, title, date in items
    )
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>c</title><ttl>{int(built) % 60}</ttl>'
        f"<lastBuildDate>{formatdate(built)}</lastBuildDate>{entries}</channel></rss>"
    ).encode()


def rdf(items: list[Item], built: float = NOW) -> bytes:
    entries = "".join(
        f'<item rdf:about="{key}"><title>{title}</title><link>{key}</link><dc:date>{iso(date)}</dc:date></item>'
        for key, title, date in items
    )
    return (
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><dc:date>{iso(built)}</dc:date></channel>{entries}</rdf:RDF>'
    ).encode()


def atom(items: list[Item], built: float = NOW) -> bytes:
    entries = "".join(
        f"<entry><id>{key}</id><title>{title}</title><updated>{iso(date)}</updated></entry>"
        for key, title, date in items
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><updated>{iso(built)}</updated>{entries}</feed>'.encode()


def json_feed(items: list[Item], built: float = NOW) -> bytes:
    listed = [{"id": key, "title": title, "date_published": iso(date)} for key, title, date in items]
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": str(built), "items": listed}).encode()


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def poll(body: bytes, baseline: Baseline, elapsed: float | None = 3600.0, now: float = NOW) -> Detection:
    return detect(Outcome(OutcomeKind.BODY, started_at=now, duration=0.1, body=body), baseline, elapsed)


OLD: list[Item] = [(f"id:{i}", f"Title {i}", NOW - 86_400 * (i + 1)) for i in range(5)]
KINDS = pytest.mark.parametrize("build", [rss, rdf, atom, json_feed])


@KINDS
class TestEveryKindOfFeed:
    def first(self, build: Build) -> Detection:
        return poll(build(OLD), Baseline(), None)

    def test_the_first_poll_sets_the_baseline_and_tells_of_no_change(self, build: Build) -> None:
        found = self.first(build)
        assert (found.kind, found.baseline.media) == (OutcomeKind.FIRST, Media.FEED)
        assert found.evidence == Evidence(changed=False, at_least=3, span=3 * 86_400.0)
        assert len(found.baseline.items) == 5 * 8

    def test_another_build_date_is_no_change(self, build: Build) -> None:
        assert poll(build(OLD, NOW + 60), self.first(build).baseline).kind is OutcomeKind.UNCHANGED

    def test_another_order_is_no_change(self, build: Build) -> None:
        assert poll(build(OLD[::-1]), self.first(build).baseline).kind is OutcomeKind.UNCHANGED

    def test_new_entries_are_counted_and_dated(self, build: Build) -> None:
        new: list[Item] = [("id:a", "A", NOW - 600), ("id:b", "B", NOW - 900)]
        found = poll(build(new + OLD[:3]), self.first(build).baseline)
        assert found.kind is OutcomeKind.CHANGED
        assert found.evidence is not None
        assert (found.evidence.changed, found.evidence.count, found.evidence.age) == (True, 2, 600.0)

    def test_an_edit_is_a_change_without_a_number(self, build: Build) -> None:
        key, _, date = OLD[1]
        found = poll(build([OLD[0], (key, "Title, corrected", date), *OLD[2:]]), self.first(build).baseline)
        assert found.kind is OutcomeKind.CHANGED
        assert found.evidence is not None
        assert (found.evidence.count, found.evidence.age) == (None, None)

    def test_a_window_rolled_over_gives_no_number(self, build: Build) -> None:
        new: list[Item] = [(f"id:n{i}", f"N{i}", NOW - 60 * (i + 1)) for i in range(5)]
        found = poll(build(new), self.first(build).baseline)
        assert found.evidence is not None
        assert (found.evidence.changed, found.evidence.count, found.evidence.age) == (True, None, 60.0)

    @pytest.mark.parametrize("date", [NOW + 9_000, NOW - 7_200, NOW, 0.0])
    def test_a_date_ahead_or_before_the_last_poll_or_of_this_very_moment_is_not_believed(
        self, build: Build, date: float
    ) -> None:
        found = poll(build([("id:a", "A", date), *OLD[:4]]), self.first(build).baseline)
        assert found.evidence is not None
        assert (found.evidence.count, found.evidence.age) == (1, None)

    def test_entries_all_stamped_with_the_build_are_no_change(self, build: Build) -> None:
        one = build([(key, title, NOW) for key, title, _ in OLD])
        other = build([(key, title, NOW + 500) for key, title, _ in OLD])
        assert poll(other, poll(one, Baseline(), None).baseline, now=NOW + 3_600).kind is OutcomeKind.UNCHANGED

    def test_an_entry_that_comes_back_is_not_new(self, build: Build) -> None:
        away = poll(build(OLD[1:]), self.first(build).baseline)
        back = poll(build(OLD), away.baseline)
        assert (away.kind, back.kind) == (OutcomeKind.CHANGED, OutcomeKind.CHANGED)
        assert back.evidence is not None
        assert back.evidence.count is None

    def test_an_empty_feed_is_a_feed(self, build: Build) -> None:
        found = poll(build([]), self.first(build).baseline)
        assert (found.kind, found.baseline.media) == (OutcomeKind.CHANGED, Media.FEED)


def test_the_servers_clock_dates_the_entries() -> None:
    first = poll(rss(OLD), Baseline(), None)
    late = Outcome(
        OutcomeKind.BODY, started_at=NOW + 500, duration=0.1, body=rss([("a", "A", NOW - 100), *OLD]), server_date=NOW
    )
    evidence = detect(late, first.baseline, 3_600.0).evidence
    assert evidence is not None
    assert evidence.age == 100.0


def test_only_the_latest_entries_are_remembered() -> None:
    baseline = Baseline()
    for start in range(0, 1_000, 50):
        items = [(f"id:{i}", "t", NOW - 1) for i in range(start + 60, start, -1)]
        baseline = poll(rss(items), baseline).baseline
    assert len(baseline.items) == 256 * 8
    assert len(poll(rss([(f"x{i}", "t", NOW) for i in range(2_000)]), baseline).baseline.items) == 1_024 * 8


def test_tokens_in_the_markup_of_a_summary_do_not_count() -> None:
    def body(token: str) -> bytes:
        text = f"&lt;p&gt;Same &lt;b&gt;text&lt;/b&gt;&lt;img src='pixel?{token}'&gt;&lt;/p&gt;"
        item = f"<item><guid>1</guid><description>{text}</description></item>"
        return f"<rss version='2.0'><channel>{item}</channel></rss>".encode()

    first = poll(body("1"), Baseline(), None)
    assert first.content is not None
    assert b"Same text" in first.content
    assert poll(body("2"), first.baseline).kind is OutcomeKind.UNCHANGED


def test_entities_are_neither_expanded_nor_fetched() -> None:
    with tempfile.NamedTemporaryFile(mode="w", suffix=".txt") as secret:
        secret.write("do not read me")
        secret.flush()
        levels = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
        body = (
            f'<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY l0 "laugh">{levels}'
            f'<!ENTITY x SYSTEM "file://{secret.name}">]><rss version="2.0"><channel>'
            "<item><guid>1</guid><title>&l9;</title><description>&x;</description></item></channel></rss>"
        ).encode()
        content = normalise(body, "application/rss+xml").content
    assert len(content) < 10_000
    assert b"do not read me" not in content


def with_entities(declared: str, title: str) -> bytes:
    item = f"<item><guid>1</guid><title>{title}</title></item>"
    return f"<!DOCTYPE rss [{declared}]><rss version='2.0'><channel>{item}</channel></rss>".encode()


@pytest.mark.parametrize(
    ("declared", "title"),
    [
        ("<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>", "&b;"),
        (f"<!ENTITY a '{'ha' * 10_000}'>", "&a;" * 100),
        ("<!ENTITY % a 'ha'>%a;", "x"),
        ("<!ENTITY a '<b/>'>", "&a;"),
        ("<!ENTITY a 'ha'><!ENTITY a 'haha'>", "&a;"),
        ("<!ENTITY a SYSTEM 'file:///etc/passwd'>", "&a;"),
        ("<!ENTITY a 'ha'", "&a;"),
    ],
)
def test_a_feed_whose_entities_may_swell_is_not_read_as_one(declared: str, title: str) -> None:
    body = with_entities(declared, title)
    assert xml_entries(body) is None
    assert len(normalise(body, "application/rss+xml").content) <= len(body)


def test_a_feed_may_declare_characters() -> None:
    declared = "<!ENTITY nbsp '&#160;'><!ENTITY copy \"&#xA9;\"><!ENTITY name 'plain'>"
    (entry,) = xml_entries(with_entities(declared, "now &amp; then")) or ()
    assert entry.title == "now & then"


def test_a_body_that_is_a_file_name_is_not_opened() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "feed.xml")
        with open(path, "wb") as file:
            file.write(rss(OLD))
        assert not xml_entries(path.encode())


@pytest.mark.parametrize("unit", [b"<item>", b"<item><title>&amp;", b"<!DOCTYPE a [", b"<", b"&", b"<![CDATA["])
def test_a_long_malformed_feed_is_a_feed_without_entries_or_text_as_it_is(unit: bytes) -> None:
    body = b"<rss><channel>" + unit * (200_000 // len(unit))
    found = normalise(body, "application/rss+xml")
    assert found.entries == ()
    assert (found.media, found.content) in ((Media.FEED, b""), (Media.TEXT, body))


FIELDS = 'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:shop="http://base.google.com/ns/1.0"'


def shown(items: str, about: str = "d") -> str:
    channel = f"<title>T</title><description>{about}</description>{items}"
    body = f'<rss version="2.0" {FIELDS}><channel>{channel}</channel></rss>'
    return normalise(body.encode(), "application/rss+xml").content.decode()


@pytest.mark.parametrize(
    ("field", "column"),
    [
        (
            "<description>short</description><content:encoded>&lt;p&gt;The whole&lt;/p&gt;</content:encoded>",
            "short\tThe whole",
        ),
        ("<link>http://a/v1.zip</link>", "\thttp://a/v1.zip"),
        ('<enclosure url="http://a/v1.mp3" type="audio/mpeg" length="1"/>', "\thttp://a/v1.mp3"),
        ("<category>open</category><category>urgent</category>", "\topen, urgent"),
        ("<shop:price>7.00 EUR</shop:price><shop:availability>in stock</shop:availability>", "availability: in stock"),
        ("<price>7.00</price>", "\tprice: 7.00"),
    ],
)
def test_what_an_entry_shows_beside_title_and_summary(field: str, column: str) -> None:
    assert column in shown(f"<item><guid>1</guid><title>A</title>{field}</item>")


def test_what_is_there_twice_is_shown_once() -> None:
    assert shown("<item><guid>http://a/1</guid><link>http://a/1</link><description>x</description></item>", "") == (
        "http://a/1\t\t\tx"
    )


def test_the_text_of_a_feed_counts_and_its_title_where_there_is_nothing_else() -> None:
    assert shown("", "All systems DOWN") == "\tT\t\tAll systems DOWN"
    assert shown("<item><guid>1</guid></item>", "News") == "\t\t\tNews\n1\t\t\t"


@pytest.mark.parametrize(
    "date",
    [
        *("0000-00-00 00:00:00", "0000-00-00T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
        *("2026", "2026-11", "2026-13-01", "2026-02-30", "2026-00-10", "2026-11-20 25:00:00", "12", "1764300000"),
        *(
            "2026.11.24",
            "Fri, 31 Feb 2026 10:00:00 GMT",
            "Fri, 30 Foo 2026 10:00:00 GMT",
            "now",
            "-0001-11-30T00:00:00Z",
        ),
    ],
)
def test_what_is_no_date_is_none_and_spoils_nothing(date: str) -> None:
    items = f"<item><guid>a</guid><pubDate>{date}</pubDate></item><item><guid>b</guid><pubDate>{SOUND}</pubDate></item>"
    found = xml_entries(f'<rss version="2.0"><channel>{items}</channel></rss>'.encode())
    assert found is not None
    assert [(entry.id, entry.dates) for entry in found] == [("a", ()), ("b", (1_795_600_800.0,))]


SOUND = "Wed, 25 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    "date",
    [
        SOUND,
        "25 Nov 2026 10:00:00 GMT",
        "2026-11-25T10:00:00Z",
        "2026-11-25 10:00:00",
        "20261125T100000Z",
        "2026-11-25T11:00+01:00",
    ],
)
def test_dates_in_other_writings(date: str) -> None:
    found = xml_entries(
        f"<rss version='2.0'><channel><item><guid>a</guid><pubDate>{date}</pubDate></item></channel></rss>".encode()
    )
    assert found is not None
    assert found[0].dates == (1_795_600_800.0,)


def one_guid(*titles: str) -> bytes:
    items = "".join(f"<item><guid>home</guid><title>{title}</title></item>" for title in titles)
    return f'<rss version="2.0"><channel>{items}</channel></rss>'.encode()


def test_entries_with_one_guid_are_told_apart() -> None:
    found = xml_feed(one_guid("Third", "Second", "First"))
    assert found is not None
    assert [entry.id for entry in found.entries] == ["home Third", "home Second", "home"]
    first = poll(one_guid("Second", "First"), Baseline(), None)
    third = poll(one_guid("Third", "Second", "First"), first.baseline)
    assert third.evidence == Evidence(changed=True, count=1, at_least=1)
    alone = poll(one_guid("First"), Baseline(), None)
    second = poll(one_guid("Second", "First"), alone.baseline)
    assert second.evidence == Evidence(changed=True, count=1, at_least=1)
