import socket
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollerd.errors import InvalidValueError
from pollerd.urls import (
    NORMAL,
    host_of,
    join_url,
    made_normal,
    normalise_url,
    origin_of,
    robots_url,
    spelling_of,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://example.org", "http://example.org/"),
        ("  HTTPS://Example.ORG:443/A?b=C#part \n", "https://example.org/A?b=C"),
        ("http://example.org:80", "http://example.org/"),
        ("http://example.org:/", "http://example.org/"),
        ("http://example.org:8080/../a/./b", "http://example.org:8080/a/b"),
        ("http://example.org.:8080/", "http://example.org:8080/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://example.org?q", "http://example.org/?q"),
        ("http://example.org/?", "http://example.org/"),
        ("http://bücher.example/ü?é=1", "http://xn--bcher-kva.example/%C3%BC?%C3%A9=1"),
        ("http://a_b.example/", "http://a_b.example/"),
        ("http://example.org/%zz%2f", "http://example.org/%25zz%2F"),
        ("http://example.org/?u=http://b/c&x=a+b%20c", "http://example.org/?u=http://b/c&x=a+b%20c"),
        ("http://[2001:DB8::0:1]:80/", "http://[2001:db8::1]/"),
        ("http://[::1]:8080", "http://[::1]:8080/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0177.0.0.1/", "http://127.0.0.1/"),
        ("http://127.1:99/", "http://127.0.0.1:99/"),
        ("http://0", "http://0.0.0.0/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("http://1.2.3.4.", "http://1.2.3.4/"),
        ("http://localhost/", "http://localhost/"),
        ("feed://example.org/rss", "http://example.org/rss"),
        ("Feed:https://example.org/rss", "https://example.org/rss"),
        ("feed://https://example.org/rss", "https://example.org/rss"),
    ],
)
def test_normalises(text: str, normal: str) -> None:
    assert normalise_url(text) == normal
    assert normalise_url(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.org",
        "/path",
        "ftp://example.org/",
        "file:///etc/passwd",
        "data:text/html,hi",
        "javascript:alert(1)",
        "http://",
        "http:///path",
        "http:/example.org",
        "http:example.org",
        "http://?q",
        "http://.",
        "http://a..b/",
        "http://user@example.org/",
        "http://:secret@example.org/",
        "http://example.org\\@evil.example/",
        "http://exa mple.org/",
        "http://example.org/a b",
        "http://example.org/a\tb",
        "http://example.org/\x00",
        "http://example.org/\x7f",
        "http://example.org/\u2028",
        "http://example.org/\udcff",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:99999999999999999999/",
        "http://example.org:+80/",
        "http://example.org:８０/",
        "http://example.org:x/",
        "http://ex%61mple.org/",
        "http://a／b.example/",
        "http://[::1",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://[1.2.3.4]/",
        "http://999.1.1.1/",
        "http://1.2.3.4.5/",
        "http://09.1.1.1/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 130 + "example/",
        "http://example.org/" + "a" * 2048,
        "http://example.org/" + "ü" * 500,
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        normalise_url(text)
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2@example.org/",
        "ftp://me:hunter2@example.org/",
        "https://me:hunter2@exa mple.org/",
        "https://me:hunter2" + "x" * 3000 + "@example.org/",
    ],
)
def test_refusal_does_not_repeat_a_password(text: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        normalise_url(text)
    assert "hunter2" not in str(refused.value)


_NUMBER = st.one_of(
    st.integers(0, 2**33).flatmap(lambda n: st.sampled_from([str(n), hex(n), f"0{n:o}", f"0{n}"])),
    st.integers(0, 256).map(str),
    st.sampled_from(["0", "00", "0x", "08", "a"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_NUMBER, min_size=1, max_size=5).filter(lambda parts: parts[-1] != "a").map(".".join))
def test_a_number_as_host_is_the_address_that_c_libraries_make_of_it(host: str) -> None:
    try:
        address = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        with pytest.raises(InvalidValueError):
            normalise_url(f"http://{host}/")
    else:
        assert normalise_url(f"http://{host}/") == f"http://{address}/"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_normalised_for_good_or_refused(tail: str) -> None:
    try:
        normal = normalise_url(f"http://{tail}")
    except InvalidValueError:
        return
    assert normalise_url(normal) == normal
    assert normal.isascii()
    assert normal.isprintable()


@pytest.mark.parametrize(
    ("url", "host", "origin"),
    [
        ("http://example.org/a:b", "example.org:80", "http://example.org"),
        ("https://example.org/", "example.org:443", "https://example.org"),
        ("https://example.org:8443/", "example.org:8443", "https://example.org:8443"),
        ("http://[::1]/", "[::1]:80", "http://[::1]"),
        ("http://[::1]:81/", "[::1]:81", "http://[::1]:81"),
    ],
)
def test_host_and_origin(url: str, host: str, origin: str) -> None:
    assert host_of(url) == host
    assert origin_of(url) == origin
    assert robots_url(url) == f"{origin}/robots.txt"


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/c", "https://a.example/c"),
        ("c", "https://a.example/x/c"),
        ("?q=1#f", "https://a.example/x/y?q=1"),
        ("//b.example", "https://b.example/"),
        ("http://b.example/", "http://b.example/"),
        ("/with space", "https://a.example/with%20space"),
        ("/\udce9", "https://a.example/%E9"),
        ("", "https://a.example/x/y"),
        (" ./a/../b\n", "https://a.example/x/b"),
        ("/a\tb\r\nc", "https://a.example/abc"),
    ],
)
def test_reference(location: str, target: str) -> None:
    assert join_url("https://a.example/x/y", location) == target


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "http://[", "https://u:p@a.example/", "http://", "/a\\b", "a:b"]
)
def test_reference_refused(location: str) -> None:
    with pytest.raises(InvalidValueError):
        join_url("https://a.example/x/y", location)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["https://a.example/", "http://a.example:81/x/y.z/w?q=/r", "https://a.example/x/"]),
    st.from_regex(r"(https?:(//[a-z0-9.:]{1,4})?)?/?(([a-z:~.-]{0,3}/?){1,4})(\?[a-z=/?.&]{0,4})?", fullmatch=True),
)
def test_a_reference_is_joined_as_the_standard_says(base: str, reference: str) -> None:
    try:
        expected = normalise_url(urljoin(base, reference))
    except InvalidValueError:
        with pytest.raises(InvalidValueError):
            join_url(base, reference)
        return
    assert join_url(base, reference) == expected


_PARTS = (
    r"https?://([a-z0-9][a-z0-9-]{0,5}\.){0,2}[a-z][a-z0-9-]{0,5}|http://[0-9]{1,3}(\.[0-9]{1,3}){3}",
    r"(:[0-9]{1,5})?",
    r"(/[A-Za-z0-9._~=&,:@-]{0,4}){0,4}",
    r"(\?[A-Za-z0-9._~/=&,:@-]{0,8})?",
)


@settings(max_examples=500)
@given(st.tuples(*(st.from_regex(part, fullmatch=True) for part in _PARTS)))
def test_what_is_seen_to_be_normal_is(parts: tuple[str, ...]) -> None:
    text = "".join(parts)
    if NORMAL.fullmatch(text):
        assert made_normal(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "http://a.example/b/../c",
        "http://a.example/./",
        "http://a.example:80/",
        "http://a.example?q",
        "http://a--b.example/",
        "http://xn--bcher-kva.example/",
        "http://1.2.3/",
        "http://1.2.3.04/",
        "http://a.0x7f/",
        f"http://{'a' * 64}.example/",
        f"http://{'a.' * 126}aa/",
        "http://a.example/%41",
        "http://a.example/\n",
        "http://A.example/",
    ],
)
def test_what_may_not_be_normal_is_looked_at(text: str) -> None:
    assert NORMAL.fullmatch(text) is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("HTTP://A.example#/route?x=1", "http://a.example/#/route?x=1"),
        ("http://a.example/p?q=1#/é x", None),
        ("http://a.example/p?q=1#/é", "http://a.example/p?q=1#/%C3%A9"),
        ("http://a.example/p#", "http://a.example/p"),
        ("http://a.example/p", "http://a.example/p"),
    ],
)
def test_a_fragment_is_kept_for_a_browser_alone(text: str, url: str | None) -> None:
    if url is None:
        with pytest.raises(InvalidValueError):
            normalise_url(text, fragment=True)
        return
    assert normalise_url(text, fragment=True) == url
    assert normalise_url(url, fragment=True) == url
    assert normalise_url(text) == url.partition("#")[0]
    assert host_of(url) == "a.example:80"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("http://example.org/~a?b=/", ""),
        ("http://example.org", ""),
        ("http://example.org/a#part", ""),
        ("HTTP://Example.org:80/a", ""),
        ("http://example.org/é?ü=ß", ""),  # as browsers send it
        ("http://example.org/a/../%7eb", ""),  # which of the two is meant is not known
        ("http://example.org/%7eb", "http://example.org/%7eb"),
        ("Feed:Http://Example.org:80?a=%2f", "http://example.org/?a=%2f"),
        ("http://example.org/a%2fb;c=%3B?q=%2F&r=a+b%20c", "http://example.org/a%2fb;c=%3B?q=%2F&r=a+b%20c"),
        ("http://example.org/a?", "http://example.org/a?"),
        ('http://example.org/a|b[c]"<>^`{}', "http://example.org/a|b[c]%22%3C%3E^%60%7B%7D"),
        ("http://example.org/100%?x=%u1234", "http://example.org/100%?x=%u1234"),
        ("http://example.org/" + "%7E" * 400 + "é" * 150, ""),  # longer than a URL may be
    ],
)
def test_a_url_is_sent_as_it_was_given(text: str, sent: str) -> None:
    assert spelling_of(text, normalise_url(text)) == sent


@given(st.text(st.sampled_from("aA~%2fFeE7c3a9|[]'\"<>^`{}é?&=+;:@,!$()*./"), max_size=30))
def test_what_is_sent_is_the_same_url_and_can_be_sent(end: str) -> None:
    normal = normalise_url(f"http://example.org/{end}")
    sent = spelling_of(f"http://example.org/{end}", normal)
    if sent:
        assert normalise_url(sent) == normal
        assert spelling_of(sent, normal) == sent
        assert sent.isascii()
        assert not set(sent) & set(' "<>`{}')
