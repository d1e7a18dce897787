"""Forty kinds of page, each with the fingerprint that the reader before there were versions gave it.

`FINGERPRINTS` were made by the last commit without versions (5b2f1f51): by its `detect` of `before`.
"""

from __future__ import annotations

from dataclasses import dataclass

RSS, ATOM, JSON, HTML = "application/rss+xml", "application/atom+xml", "application/json", "text/html"


@dataclass(frozen=True)
class Kind:
    """A page as it was, the same with other bytes, and as it is after a change that a reader sees."""

    name: str
    before: bytes
    same: bytes
    after: bytes
    content_type: str | None = HTML
    sees_more: bool = False
    """Whether the present reader gives `before` another text."""


def _page(name: str, body: str, *, sees_more: bool = False, lang: str = "en", charset: str = "utf-8") -> Kind:
    def built(text: str, comment: str) -> bytes:
        page = f'<!doctype html><html lang="{lang}"><head><title>T</title></head><body><p>One</p>{text}<p>Two</p>'
        return f"{page}<!-- {comment} --></body></html>".encode(charset)

    after = built(body.replace("@", "after"), "a")
    return Kind(
        name, built(body.replace("@", "before"), "a"), built(body.replace("@", "before"), "b"), after, HTML, sees_more
    )


def _bytes(
    name: str,
    before: bytes,
    after: bytes,
    content_type: str | None = HTML,
    same: bytes = b"",
    *,
    sees_more: bool = False,
) -> Kind:
    return Kind(name, before, same or before, after, content_type, sees_more)


def _rss(name: str, item: str, *, about: str = "", sees_more: bool = True) -> Kind:
    def built(item: str, when: str) -> bytes:
        fields = 'xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:g="http://base.google.com/ns/1.0"'
        old = "<item><guid>old</guid><title>Old</title></item>"
        built_at = f"<lastBuildDate>Tue, 24 Nov 2026 10:0{when}:00 GMT</lastBuildDate>"
        channel = f"<title>C</title>{built_at}{about and f'<description>{about}</description>'}{item}{old}"
        return f'<?xml version="1.0"?><rss version="2.0" {fields}><channel>{channel}</channel></rss>'.encode()

    before = item.replace("@", "before")
    return Kind(name, built(before, "1"), built(before, "2"), built(item.replace("@", "after"), "1"), RSS, sees_more)


_DATELESS = (
    b"<rss version='2.0'><channel><item><guid>@</guid><pubDate>0000-00-00 00:00:00</pubDate></item></channel></rss>"
)
_NEW_ITEM = "<item><guid>@</guid><title>Item @</title></item>"
KINDS = [
    _page("plain", "<p>Text @</p>"),
    _page("table", "<table><tr><td>Text</td><td>@</td></tr></table>"),
    _page("list", "<ul><li>a</li><li>@</li></ul>"),
    _page("preformatted", "<pre>x = 1\n  y = @</pre>"),
    _page("script", "<script>var x = 'x';</script><p>@</p>"),
    _page("capitals", "<DIV>Text <B>@</B></DIV>"),
    _page("entities", "<p>Fish &amp; chips &euro; @</p>"),
    _page("image without words", '<img src="x.png"><p>@</p>'),
    _page("image", '<img src="x.png" alt="Words"><p>@</p>', sees_more=True),
    _page("hidden", "<p hidden>Dialog</p><p>@</p>", sees_more=True),
    _page("not displayed", '<div style="display:none"><p>Menu</p></div><p>@</p>', sees_more=True),
    _page("hidden from readers", '<p><span aria-hidden="true">x</span> @</p>', sees_more=True),
    _page("button", '<form><input type="submit" value="Buy"></form><p>@</p>', sees_more=True),
    _page("options", "<select><option>a<option selected>b</select><p>@</p>", sees_more=True),
    _page("struck out", "<p><s>10</s> 7 @</p>", sees_more=True),
    _page("shadow root", '<x-y><template shadowrootmode="open"><p>In</p></template></x-y><p>@</p>', sees_more=True),
    _page("template", "<template><p>no</p></template><p>@</p>"),
    _page("malformed", "<p>a<b>c</p>d</b><table>x<tr><td>@</table>"),
    _page("latin", "<p>Köln @</p>", charset="latin-1"),
    _bytes(
        "another charset than stated",
        "<html lang=ru><p>открыт<p>b".encode("cp1251"),
        "<html lang=ru><p>открыт и закрыт<p>b".encode("cp1251"),
        "text/html; charset=utf-8",
        sees_more=True,
    ),
    _bytes(
        "unknown label",
        "<p>在庫あり".encode("cp932"),
        "<p>在庫なし".encode("cp932"),
        "text/html; charset=x-sjis",
        sees_more=True,
    ),
    _bytes("utf-16", "<p>a é".encode("utf-16"), "<p>b é".encode("utf-16")),
    _bytes("empty", b"", b"<p>a"),
    _bytes(
        "title alone", b"<title>Shop</title><script>1</script>", b"<title>Closed</title>", HTML, b"<title>Shop</title>"
    ),
    _bytes("frames", b"<frameset><frame src=a.html></frameset>", b"<p>a", sees_more=True),
    _rss("rss", _NEW_ITEM, sees_more=False),
    _rss("rss with a description", _NEW_ITEM, about="News of all kinds"),
    _rss("rss with links", "<item><guid>x</guid><link>http://a/x</link><title>@</title></item>"),
    _rss(
        "rss with contents",
        "<item><guid>x</guid><description>@</description><content:encoded>full</content:encoded></item>",
    ),
    _rss("rss of a shop", "<item><guid>x</guid><title>@</title><g:price>10 EUR</g:price></item>"),
    _rss("rss with one guid", f"{_NEW_ITEM.replace('@', 'x')}{_NEW_ITEM.replace('<guid>@', '<guid>x')}"),
    _bytes(
        "rss with a date that is none",
        _DATELESS.replace(b"@", b"x"),
        _DATELESS.replace(b"@", b"y"),
        RSS,
        sees_more=True,
    ),
    _bytes(
        "atom",
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><id>1</id><title>a</title></entry></feed>',
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><entry><id>2</id><title>a</title></entry></feed>',
        ATOM,
        b'<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title>\n<entry><id>1</id><title>a</title></entry></feed>',
    ),
    _bytes(
        "json feed",
        b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "content_text": "a"}]}',
        b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "content_text": "b"}]}',
        JSON,
        b'{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1","content_text":"a"}]}',
    ),
    _bytes("json", b'{"a": 1, "b": [1, 2]}', b'{"a": 2, "b": [1, 2]}', JSON, b'{"b":[1,2],"a":1}'),
    _bytes("text", b"one\r\ntwo", b"one\ntwo\nthree", "text/plain", b"one\ntwo"),
    _bytes("binary", b"\x00\x01\x02", b"\x00\x01\x03", "image/png"),
    _bytes("no type", b"<p>a</p>", b"<p>b</p>", None, b"<p>a</p><!-- b -->"),
    _bytes("xml", b"<a><b>1</b></a>", b"<a><b>2</b></a>", "application/xml"),
    _bytes("markup as text", b"<p>a</p>", b"<p>b</p>", "text/plain"),
    _bytes("a type without a slash", b"<html><p>a", b"<html><p>b", "html", sees_more=True),
    _bytes("two types", b"<p>a</p>", b"<p>b</p>", "text/html, text/html", sees_more=True),
    _bytes("a type that nobody knows", b"a;b\r\n1;2", b"a;b\r\n1;3", "application/csv", sees_more=True),
    _bytes("json cut in a pair", rb'{"a": "x \ud83d", "b": 1}', rb'{"a": "x \ud83d", "b": 2}', JSON, sees_more=True),
    _bytes("guarded json", b')]}\',\n{"a":1}', b')]}\',\n{"a":2}', JSON, sees_more=True),
]

FINGERPRINTS = {
    "plain": "43bb427dede3fab4540f3ca0d315d910",
    "table": "43bb427dede3fab4540f3ca0d315d910",
    "list": "0223783b2c43e7f26898988dc04e42b7",
    "preformatted": "59261b0845ac02df18ff8423773b4dac",
    "script": "0c333588e47040ef4fb1676f092a16af",
    "capitals": "43bb427dede3fab4540f3ca0d315d910",
    "entities": "9e354e403a74f63d5dcb200d8c22c66c",
    "image without words": "0c333588e47040ef4fb1676f092a16af",
    "image": "0c333588e47040ef4fb1676f092a16af",
    "hidden": "e8a51520b145975c979f771625dcdf82",
    "not displayed": "46a93502b7f6db64e1d7b226ab67a6e4",
    "hidden from readers": "4e8878263a1a149e49ddc3a46c176a0c",
    "button": "0c333588e47040ef4fb1676f092a16af",
    "options": "326b75b2d4ec4928a9504352560bfa8e",
    "struck out": "78d231cba4ff5079cc963ceb667c9647",
    "shadow root": "0c333588e47040ef4fb1676f092a16af",
    "template": "0c333588e47040ef4fb1676f092a16af",
    "malformed": "877d0510e1d5327bb8bb04ede3240b2f",
    "latin": "327300ae0e411d0830bc676fb1559e3b",
    "another charset than stated": "79eaf8093cd4812d9e95488b89a811f5",
    "unknown label": "f194867af873e6cb1ad12d8f430aae4c",
    "utf-16": "3bee558af338a814b3ad56f373a83b03",
    "empty": "99aa06d3014798d86001c324468d497f",
    "title alone": "3d6d5f1375e607693c1b8b57e1499618",
    "frames": "99aa06d3014798d86001c324468d497f",
    "rss": "6af599441a077dca20429485efc5ff52",
    "rss with a description": "6af599441a077dca20429485efc5ff52",
    "rss with links": "19dfde93d64b58fff3ed2ad8f25d3cbd",
    "rss with contents": "68777e3587de9cf004bcff9e0997a83f",
    "rss of a shop": "19dfde93d64b58fff3ed2ad8f25d3cbd",
    "rss with one guid": "2f9ddb9409e8486d5b2d69ae24a9bde0",
    "rss with a date that is none": "ccc300c7b747d4206a453ac29d2cf576",
    "atom": "7cd0eb5b95116ecac56886351c17e5a8",
    "json feed": "c350a765943391a9ce1e718205fd6e79",
    "json": "41ef791a829e137f9eaf01a230a5116d",
    "text": "3b80227beb6564481fc3e814dd362f9e",
    "binary": "e3b55f57945a17cf5f4299fc161c9cbb",
    "no type": "a96faf705af16834e6c632b61e964e1f",
    "xml": "b9951325af28cd618c9aefc136b977c9",
    "markup as text": "0fe32c5ce434f1fd8b95f3d0e99fa043",
    "a type without a slash": "7ce2e08327e0140250c0e8247f3592ab",
    "two types": "0fe32c5ce434f1fd8b95f3d0e99fa043",
    "a type that nobody knows": "f58361457e603f05032626b64c5bee0b",
    "json cut in a pair": "b8b1deb992b7f20d8d18b92da60834c5",
    "guarded json": "6e781317c5330350f1a05a09a1423f21",
}
"""By kind."""
