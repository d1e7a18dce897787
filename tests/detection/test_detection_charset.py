import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.media import codec, to_utf8


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("naïve €".encode(), None, "naïve €"),
        ("naïve €".encode("cp1252"), None, "naïve €"),
        ("naïve €".encode("cp1252"), "text/html; charset=ISO-8859-1", "naïve €"),
        ("Привет".encode("cp1251"), 'text/html; Charset="windows-1251"', "Привет"),
        (b'<meta charset="koi8-r">' + "да".encode("koi8-r"), "text/html", '<meta charset="koi8-r">да'),
        (
            b"<META http-equiv=Content-Type content='text/html; charset=shift_jis'>" + "日本".encode("cp932"),
            "text/html",
            "<META http-equiv=Content-Type content='text/html; charset=shift_jis'>日本",
        ),
        (
            b"<?xml version='1.0' encoding='gb2312'?>" + "中文".encode("gb18030"),
            "text/xml",
            "<?xml version='1.0' encoding='gb2312'?>中文",
        ),
        (b"\xef\xbb\xbfx", "text/plain; charset=koi8-r", "x"),
        (b"\xff\xfe" + "дa".encode("utf-16-le"), "text/html; charset=utf-8", "дa"),
        (b"\xfe\xff" + "дa".encode("utf-16-be"), None, "дa"),
        ("é".encode(), "text/html; charset=no-such-thing", "é"),
        ("é".encode(), "text/html; charset=", "é"),
        (b'<meta charset="utf-16">' + "é".encode(), None, '<meta charset="utf-16">é'),
    ],
)
def test_the_text_behind_the_bytes(body: bytes, content_type: str | None, text: str) -> None:
    assert to_utf8(body, content_type).decode() == text


def test_faulty_utf8_that_is_stated_stays_as_it_is() -> None:
    assert to_utf8(b"a\xff", "text/plain; charset=utf-8") == b"a\xff"


@pytest.mark.parametrize(
    "name", ["base64", "rot13", "unicode_escape", "idna", "punycode", "undefined", "utf-7", "os", "a\0b", "é", "x" * 99]
)
def test_what_is_no_encoding_of_web_text_is_not_used(name: str) -> None:
    assert codec(name) is None


@given(st.text("abcdefghijklmnopqrstuvwxyzABC0123456789-_.", min_size=1, max_size=60), st.binary(max_size=40))
def test_a_charset_that_nobody_knows_is_as_if_none_were_stated(name: str, body: bytes) -> None:
    if codec(name) is None:
        assert to_utf8(body, f"text/html; charset={name}") == to_utf8(body, "text/html")


@given(st.text(max_size=60))
def test_any_charset_name_leaves_the_ascii_of_utf8(name: str) -> None:
    body = "é abc".encode()
    if codec(name) is None:
        assert to_utf8(body, f"text/html; charset={name}").decode().endswith("abc")
