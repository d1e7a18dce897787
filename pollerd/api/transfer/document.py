"""The document: JSON lines, so that a million sites stream in both directions. See docs/lists.md.

The first line is the header, the last has the numbers of records and the digest of all lines before. In between are the
records, section after section, each with the name of its section.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO

import orjson

from pollerd.errors import InvalidValueError, refusal
from pollerd.texts import N_, _, n_

# Encrypts exported secrets with a passphrase, bound to the document and to their owner.
#
# The key is derived by scrypt (RFC 7914), the cipher is ChaCha20-Poly1305 (RFC 8439). The additional authenticated data
# are the document's header and the owner's name, so that no secret can be moved to another site. The same passphrase
# also signs the whole document (HMAC-SHA256). `cryptography` takes 6 MB: it is imported only for encryption.

MIN_PASSPHRASE = 8
MAX_PASSPHRASE = 1024
_COST = {"kdf": "scrypt", "n": 2**15, "r": 8, "p": 3, "cipher": "chacha20-poly1305"}
"""32 MiB and about a third of a second. Documents with another cost are refused, as it could be arbitrarily high."""
_SALT_BYTES, _NONCE_BYTES, _KEY_BYTES = 16, 12, 32
WRONG = N_("that of this document, which is unchanged since it was written")


class Vault:
    """Encrypts and decrypts with one passphrase for one document."""

    def __init__(self, passphrase: str, parameters: Mapping[str, Any]) -> None:
        """parameters: from `new_parameters`. Takes a third of a second: run it in a thread.

        Raises `InvalidValueError` for parameters that are not ours.
        """
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        salt = _bytes(parameters.get("salt"))
        if salt is None or len(salt) != _SALT_BYTES or {**_COST, "salt": parameters["salt"]} != dict(parameters):
            raise InvalidValueError(
                "document",
                _("sealed with {kdf} and {cipher} as we do", kdf=_COST["kdf"], cipher=_COST["cipher"]),
                _("another way"),
            )
        kdf = Scrypt(salt, 2 * _KEY_BYTES, n=2**15, r=8, p=3)
        key = kdf.derive(unicodedata.normalize("NFC", passphrase).encode())
        self._cipher, self._signing = ChaCha20Poly1305(key[:_KEY_BYTES]), key[_KEY_BYTES:]
        self.header = b""
        """The document's first line, to which secrets are bound."""

    def seal(self, owner: str, secret: bytes) -> str:
        """Returns the encrypted secret as text; it can be decrypted only for the same owner in the same document."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, secret, self._bound(owner))).decode()

    def open(self, owner: str, sealed: object) -> bytes:
        """Returns the decrypted secret. Raises `InvalidValueError`."""
        from cryptography.exceptions import InvalidTag

        data = _bytes(sealed)
        try:
            if data is not None and len(data) > _NONCE_BYTES:
                return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], self._bound(owner))
        except InvalidTag:
            pass
        raise InvalidValueError("passphrase", _(WRONG), "(not shown)")

    def signature(self, digest: bytes) -> str:
        """Returns the signature of a document with this digest."""
        return hmac.new(self._signing, digest, hashlib.sha256).hexdigest()

    def _bound(self, owner: str) -> bytes:
        return self.header + owner.encode()


def new_parameters() -> dict[str, Any]:
    """Returns a document's encryption parameters: the cost and a new salt."""
    return {**_COST, "salt": base64.b64encode(os.urandom(_SALT_BYTES)).decode()}


def passphrase_of(encoded: str | None, *, new: bool = False) -> str | None:
    """Decodes the passphrase of a call: UTF-8 in base64, as headers are ASCII. Raises `InvalidValueError`.

    new: it is used for encryption, and must not be short.
    """
    if encoded is None:
        return None
    try:
        passphrase = base64.b64decode(encoded, validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise InvalidValueError("passphrase", _("a text of UTF-8, encoded in base64"), "(not shown)") from error
    if not (MIN_PASSPHRASE if new else 1) <= len(passphrase) <= MAX_PASSPHRASE:
        allowed = _(
            "{min_passphrase} to {max_passphrase} characters",
            min_passphrase=MIN_PASSPHRASE,
            max_passphrase=MAX_PASSPHRASE,
        )
        raise InvalidValueError("passphrase", allowed, n_("{count} character", "{count} characters", len(passphrase)))
    return passphrase


def _bytes(text: object) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


VERSION = 1
BLOCK = 500
"""Records processed at a time."""
_MAX_LINE = 1024 * 1024

Record = dict[str, Any]
Blocks = Callable[[], Iterator[list[tuple[int, Record]]]]
"""The records of one section with their line numbers, in pieces; can be iterated repeatedly."""


@dataclass
class Counts:
    """Numbers of records of a section that were, or would be, applied."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class Writer:
    """Formats header and records as lines, counts and digests them."""

    def __init__(self, version: str, sections: Sequence[str], parameters: dict[str, Any] | None) -> None:
        """version: the program's; parameters: encryption of secrets, None: they are left out."""
        header = {"pollerd_export": VERSION, "written_by": version, "sections": sections, "secrets": parameters}
        self.header = orjson.dumps(header) + b"\n"
        self._digest = hashlib.sha256(self.header)
        self._counts = dict.fromkeys(sections, 0)

    def lines(self, section: str, records: Sequence[Record]) -> bytes:
        """Returns the records as lines."""
        self._counts[section] += len(records)
        made = b"".join(orjson.dumps({"section": section, **record}) + b"\n" for record in records)
        self._digest.update(made)
        return made

    def end(self, vault: Vault | None) -> bytes:
        """Returns the last line."""
        digest = self._digest.digest()
        signed = {} if vault is None else {"signature": vault.signature(digest)}
        return orjson.dumps({"end": {"records": self._counts, "sha256": digest.hex(), **signed}}) + b"\n"


@dataclass
class Document:
    """A complete document: its contents and their places."""

    file: BinaryIO
    header: bytes
    parameters: dict[str, Any] | None
    named: frozenset[str] = frozenset()
    """The sections that the header names."""
    digest: bytes = b""
    signature: str | None = None
    places: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Section -> (offset of its first record, number of its line, number of records)."""

    def blocks(self, section: str) -> Iterator[list[tuple[int, Record]]]:
        """Yields the records of a section, `BLOCK` at a time."""
        offset, line, count = self.places.get(section, (0, 0, 0))
        while count > 0:
            self.file.seek(offset)
            block = [(line + i, orjson.loads(text)) for i, text in enumerate(islice(self.file, min(BLOCK, count)))]
            offset, line, count = self.file.tell(), line + len(block), count - len(block)
            yield block

    def opened(self, passphrase: str | None) -> Vault | None:
        """Returns the vault of its secrets; None if it has none. Raises `InvalidValueError` for a wrong passphrase."""
        if self.parameters is None:
            return None
        if passphrase is None:
            raise InvalidValueError("passphrase", _("given: the document holds sealed secrets"), None)
        vault = Vault(passphrase, self.parameters)
        if not hmac.compare_digest(vault.signature(self.digest).encode(), str(self.signature).encode()):
            raise InvalidValueError("passphrase", _(WRONG), "(not shown)")
        vault.header = self.header
        return vault


def read_document(file: BinaryIO, sections: Sequence[str]) -> Document:
    """Reads the whole file once and checks that it is a complete, undamaged export. Slow: run it in a thread.

    Raises `InvalidValueError`, field `document`, naming the line.
    """
    file.seek(0)
    header = file.readline(_MAX_LINE)
    document = _begun(file, header, sections)
    digest = hashlib.sha256(header)
    offset, number, current = len(header), 1, ""
    for line in iter(lambda: file.readline(_MAX_LINE), b""):
        number += 1
        record = _record(line, number)
        if "end" in record:
            if file.read(1):
                raise InvalidValueError(
                    "document", _("at its end after its last line"), _("more after line {number}", number=number)
                )
            return _ended(document, record["end"], digest.digest())
        section = record.get("section")
        if section not in sections or (section != current and section in document.places):
            allowed = _("records of {sections}, section after section", sections=", ".join(sections))
            raise InvalidValueError(
                "document", allowed, _("{section} in line {number}", section=str(section)[:100], number=number)
            )
        current = str(section)
        start, first, count = document.places.get(current, (offset, number, 0))
        document.places[current] = (start, first, count + 1)
        digest.update(line)
        offset += len(line)
    raise refusal("document", _("it is cut off: its last line, which counts the records, is missing"))


def _begun(file: BinaryIO, header: bytes, sections: Sequence[str]) -> Document:
    head = _loaded(header)
    if not isinstance(head, dict) or "pollerd_export" not in head:
        raise refusal("document", _("this is not an export of pollerd (pollerd export writes one)"))
    if head["pollerd_export"] != VERSION:
        raise refusal(
            "document",
            _(
                "it has version {pollerd_export!r}, and this program reads version {version}",
                pollerd_export=str(head["pollerd_export"])[:100],
                version=VERSION,
            ),
        )
    named = head.get("sections")
    unknown = (
        [str(section) for section in named if section not in sections]
        if isinstance(named, list)
        else [_("no sections")]
    )
    if unknown:
        raise InvalidValueError(
            "document", _("of sections among {sections}", sections=", ".join(sections)), ", ".join(unknown)[:200]
        )
    secrets = head.get("secrets")
    if not (secrets is None or isinstance(secrets, dict)):
        raise refusal("document", _("this is not an export of pollerd (pollerd export writes one)"))
    return Document(file, header, secrets, frozenset(map(str, named or ())))


def _record(line: bytes, number: int) -> Record:
    record = _loaded(line)
    if not isinstance(record, dict) or not line.endswith(b"\n"):
        # The line is not shown: it may contain secrets.
        raise refusal("document", _("line {number} is cut off, or no JSON object", number=number))
    return record


def _loaded(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _ended(document: Document, end: object, digest: bytes) -> Document:
    if not isinstance(end, dict):
        raise refusal("document", _("it is cut off: its last line, which counts the records, is missing"))
    counted = {section: count for section, (_offset, _line, count) in document.places.items()}
    stated = end.get("records")
    counts_stated = {s: n for s, n in stated.items() if n} if isinstance(stated, dict) else None
    known = isinstance(stated, dict) and stated.keys() <= document.named
    if not known or counts_stated != counted or end.get("sha256") != digest.hex():
        raise InvalidValueError("document", _("what was written: it counts and digests its lines"), _("a damaged one"))
    document.digest, document.signature = digest, end.get("signature")
    return document
