"""Text of PDF documents. pdfium is not safe in threads: call it in a process of its own only."""

from __future__ import annotations

import re

from pollerd.errors import SelectionLimitError
from pollerd.texts import _

PAGES_MAX = 2_000
CHARACTERS_MAX = 20_000_000
_BREAKS = re.compile(r"\r\n?|\x0c")


def is_pdf(body: bytes, content_type: str | None) -> bool:
    """Returns whether a body is a PDF document, by its type or its first bytes."""
    return (content_type or "").partition(";")[0].strip().lower() == "application/pdf" or body[:5] == b"%PDF-"


def pdf_text(body: bytes, password: str | None = None) -> bytes:
    """Returns the text of all pages as UTF-8, without empty lines; `password` opens an encrypted document.

    Raises ValueError if the document cannot be read, SelectionLimitError if it has too many pages or characters.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body, password=password)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == pypdfium2.raw.FPDF_ERR_PASSWORD:
            which = _("a pdf_password") if password is None else _("another pdf_password")
            raise ValueError(_("the PDF document is encrypted, and needs {which}", which=which)) from None
        raise ValueError(_("not a PDF document that can be read: {error}", error=error)) from error
    try:
        if len(document) > PAGES_MAX:
            raise SelectionLimitError("page", _("pages of PDF"), PAGES_MAX)
        return _texts(document)
    finally:
        document.close()


def _texts(document: object) -> bytes:
    lines: list[str] = []
    size = 0
    for page in document:  # type: ignore[attr-defined]
        text = _BREAKS.sub("\n", page.get_textpage().get_text_range())
        size += len(text)
        if size > CHARACTERS_MAX:
            raise SelectionLimitError("page", _("characters of PDF"), CHARACTERS_MAX)
        lines += [line.strip() for line in text.split("\n")]
        page.close()
    return "\n".join(filter(None, lines)).encode("utf-8", "replace")
