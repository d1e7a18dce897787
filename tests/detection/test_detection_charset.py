import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.media import codec, to_utf8
from pollerd.model import FIRST_READER


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


CYRILLIC = "Приём заявок закрыт"
UNDER_SCRIPT = b"<script>" + b"x" * 1100 + b"</script>"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("Price 10 €".encode("cp1252"), "text/html; charset=utf-8", "Price 10 €"),
        ("Grüße, caf".encode() + b"\xe9", "text/html; charset=utf-8", "Grüße, café"),
        ("Grüße, caf".encode() + b"\xe9", None, "Grüße, café"),
        (b"a\x81b", "text/html; charset=utf-8", "a\x81b"),
        (b"<html lang=ru>" + CYRILLIC.encode("cp1251"), "text/html; charset=utf-8", "<html lang=ru>" + CYRILLIC),
        (b'<html lang="ja-JP">' + "在庫".encode("cp932"), "text/html; charset=utf-8", '<html lang="ja-JP">在庫'),
        (b"<html lang='zh-Hant-TW'>" + "存貨".encode("big5"), None, "<html lang='zh-Hant-TW'>存貨"),
        (b'<meta charset="cp1251">' + CYRILLIC.encode("cp1251"), "text/html; charset=utf-8", CYRILLIC),
        (UNDER_SCRIPT + b'<meta charset="windows-1251">' + CYRILLIC.encode("cp1251"), "text/html", CYRILLIC),
        (CYRILLIC.encode(), "text/html; charset=euc-jp", CYRILLIC),
        ("在庫".encode("cp932") + b"\x85", "text/html; charset=shift_jis", "在庫…"),
    ],
)
def test_bytes_that_do_not_fit_are_read_by_what_is_known(body: bytes, content_type: str | None, text: str) -> None:
    assert to_utf8(body, content_type).decode().endswith(text)


@pytest.mark.parametrize(
    "head",
    [
        b'<!-- <meta charset="koi8-r"> -->',
        b'<meta name="description" content="how charset=koi8-r came to be">',
        b"<script>'<meta charset=koi8-r>'</script>",
        b"<p>charset=koi8-r</p>",
        b'<meta charset="no-such-thing">',
    ],
)
def test_a_charset_is_one_only_where_it_is_stated(head: bytes) -> None:
    assert to_utf8(head + b"caf\xe9", "text/html").decode().endswith("café")
    assert to_utf8(b"caf\xe9", 'multipart/mixed; boundary="a; charset=koi8-r"') == "café".encode()


@given(
    st.sampled_from(["utf-8", "shift_jis", "gb18030", "euc-kr", "big5", "windows-1253", "iso-2022-jp", "euc-jp"]),
    st.lists(st.integers(0xC0, 0xFF), min_size=6, max_size=12),
    st.integers(0, 5),
    st.integers(0xC0, 0xFF),
)
def test_two_texts_are_never_one(charset: str, letters: list[int], at: int, other: int) -> None:
    """Words of windows-1251 under another name: one letter more or less is seen."""
    one, two = bytes(letters), bytes([*letters[:at], other, *letters[at + 1 :]])
    read = [to_utf8(b"<p>" + word + b"</p>", f"text/html; charset={charset}") for word in (one, two)]
    assert (read[0] == read[1]) == (one == two)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ("x-sjis ms_kanji windows-31j csshiftjis", "cp932"),
        ("x-cp1251 cp1251 windows-1251", "cp1251"),
        ("x-gbk gb_2312-80 iso-ir-58 chinese csgb2312", "gb18030"),
        ("ks_c_5601-1987 windows-949 korean", "cp949"),
        ("x-x-big5 cn-big5", "big5"),
        ("latin1 iso88591 ascii us-ascii x-cp1252 l1", "cp1252"),
        ("unicode-1-1-utf-8 x-unicode20utf8", "utf-8"),
        ("dos-874 tis-620 iso-8859-11", "cp874"),
        ("x-mac-ukrainian x-mac-cyrillic", "mac-cyrillic"),
        ("koi koi8 cskoi8r", "koi8-r"),
        ("iso-8859-8-i logical visual", "iso8859-8"),
    ],
)
def test_labels_of_the_web(labels: str, name: str) -> None:
    assert [codec(label) for label in labels.split()] == [name] * len(labels.split())


def test_the_first_reader_reads_as_it_did() -> None:
    assert to_utf8(b"a\xff", "text/plain; charset=utf-8", FIRST_READER) == b"a\xff"
    assert to_utf8("да".encode("cp1251"), "text/html; charset=x-cp1251", FIRST_READER) == "äà".encode()
    assert to_utf8(b"\x85", "text/html; charset=shift_jis", FIRST_READER) == "\ufffd".encode()


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
