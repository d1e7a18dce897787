"""Text of PDF documents, written here by hand."""

from __future__ import annotations

import hashlib
import re
import zlib

import pytest

from pollerd.detection.pdf import PAGES_MAX, is_pdf, pdf_text
from pollerd.detection.selection.selection import compile_selection
from pollerd.errors import SelectionLimitError
from pollerd.model import Media


def pdf(*pages: str, copies: int = 1) -> bytes:
    """A document with a line of text on each page; `copies`: how often each page occurs."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids += [f"{len(objects)} 0 R"] * copies
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    tail = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{tail}".encode()


def test_text_of_all_pages() -> None:
    assert pdf_text(pdf("The mill is for sale", "Page 2 of 2")) == b"The mill is for sale\nPage 2 of 2"


@pytest.mark.parametrize("content_type", ["application/pdf", "application/octet-stream", None])
def test_a_selection_reads_it_by_its_type_or_its_first_bytes(content_type: str | None) -> None:
    selection = compile_selection("default", "f", {"steps": [{"lines": {"drop": [{"re": r"^Page \d+ of \d+$"}]}}]})
    found = selection.read(pdf("The mill is for sale", "Page 2 of 2"), content_type, "http://example.org/")
    assert (found.content, found.media) == (b"The mill is for sale", Media.TEXT)


@pytest.mark.parametrize("body", [b"", b"%PDF-", b"%PDF-1.4\n" + b"\0" * 1000, b"<html>no</html>", pdf("x")[:200]])
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="PDF"):
        pdf_text(body)


def test_too_many_pages_are_refused() -> None:
    with pytest.raises(SelectionLimitError):
        pdf_text(pdf("x", copies=PAGES_MAX + 1))


def test_a_compressed_page_of_any_size_ends_in_text_or_an_error() -> None:
    stream = zlib.compress(b"BT /F1 1 Tf " + b"(x) Tj " * 200_000 + b"ET", 9)
    plain = pdf("MARK").split(b"BT /F1 12 Tf 72 720 Td (MARK) Tj ET")
    bomb = plain[0].replace(b"<< /Length 36 >>", b"<< /Filter /FlateDecode /Length %d >>" % len(stream))
    assert pdf_text(bomb + stream + plain[1]).count(b"x") in range(200_001)


PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def rc4(key: bytes, data: bytes) -> bytes:
    box, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + box[i] + key[i % len(key)]) % 256
        box[i], box[j] = box[j], box[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + box[i]) % 256
        box[i], box[j] = box[j], box[i]
        out.append(byte ^ box[(box[i] + box[j]) % 256])
    return bytes(out)


def encrypted(text: str, password: str) -> bytes:
    """A page under a password, by the standard handler's first revision (ISO 32000-1, section 7.6.3)."""
    padded = (password.encode() + PADDING)[:32]
    owner = rc4(hashlib.md5(padded, usedforsecurity=False).digest()[:5], padded)
    file_id, rights = b"0123456789abcdef", -4
    seed = padded + owner + rights.to_bytes(4, "little", signed=True) + file_id
    key = hashlib.md5(seed, usedforsecurity=False).digest()[:5]
    plain = pdf(text)
    found = re.search(rb"4 0 obj.*?stream\n(.*?)\nendstream", plain, re.DOTALL)
    assert found is not None
    of_object = hashlib.md5(key + bytes([4, 0, 0, 0, 0]), usedforsecurity=False).digest()[:10]
    body = plain[: found.start(1)] + rc4(of_object, found[1]) + plain[found.end(1) :]
    handler = b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P %d >>" % (
        owner.hex().encode(),
        rc4(key, PADDING).hex().encode(),
        rights,
    )
    trailer = b"/Encrypt %s /ID [<%s> <%s>]" % (handler, file_id.hex().encode(), file_id.hex().encode())
    return body.replace(b"/Root 1 0 R >>\nstartxref", b"/Root 1 0 R %s >>\nstartxref" % trailer)


def test_a_password_opens_an_encrypted_document() -> None:
    body = encrypted("The mill is for sale", "hush")
    assert pdf_text(body, "hush") == b"The mill is for sale"
    for password, told in ((None, "needs a pdf_password"), ("wrong", "needs another pdf_password")):
        with pytest.raises(ValueError, match=told):
            pdf_text(body, password)
    selection = compile_selection("default", "f", {"steps": [{"as": "pdf"}]})
    assert selection.read(body, None, "http://a/", "hush").content == b"The mill is for sale"
    assert "needs another pdf_password" in selection.read(body, None, "http://a/", "wrong").missing
    assert pdf_text(pdf("open to all"), "hush") == b"open to all"


def test_what_is_taken_for_a_document() -> None:
    assert is_pdf(b"%PDF-1.7", None)
    assert is_pdf(b"", "application/pdf; x=y")
    assert not is_pdf(b"<html>", "text/html")
