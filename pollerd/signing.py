"""Signatures of the requests between nodes and of their answers, with the secret of the cluster (HMAC-SHA256).

A signature names sender, receiver, time and a nonce, so that a request is good once, at one node, for a short while. An
answer is signed over the request's nonce: it is good for that request only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import deque
from dataclasses import dataclass

HEADER = "Pollerd-Node-Signature"
PATH = "/internal/nodes"
"""Where nodes answer one another, below their address."""
WINDOW_SECONDS = 30.0
"""Most by which the clocks of two nodes may differ, and how long a nonce is kept at least."""
_MAC_BYTES = hashlib.sha256().digest_size
_FORM = re.compile(r"([0-9]{1,18}):([0-9]{1,18}):([0-9]{1,15}):([0-9a-f]{32}):([0-9a-f]{64})", re.ASCII)
_MAX_NONCES = 100_000


@dataclass(frozen=True, slots=True)
class Signature:
    """What a request between nodes shows in its header."""

    sender: int
    """Id of the node that asks."""
    receiver: int
    """Id of the node that is asked."""
    at_ms: int
    """When, UTC epoch ms."""
    nonce: str
    """32 hexadecimal digits, never used before."""
    mac: str
    """64 hexadecimal digits."""

    def header(self) -> str:
        """Returns it as the header's value."""
        return f"{self.sender}:{self.receiver}:{self.at_ms}:{self.nonce}:{self.mac}"

    @classmethod
    def parsed(cls, value: str) -> Signature | None:
        """Returns the signature of a header's value; None: it has another form."""
        found = _FORM.fullmatch(value)
        if found is None:
            return None
        sender, receiver, at_ms, nonce, mac = found.groups()
        return cls(int(sender), int(receiver), int(at_ms), nonce, mac)


def signed_request(secret: bytes, body: bytes, *, sender: int, receiver: int, now: float, nonce: str) -> Signature:
    """Returns the signature of a request. now: UTC epoch s; nonce: 32 hexadecimal digits, never used before."""
    bare = Signature(sender, receiver, int(now * 1000), nonce, "")
    return Signature(bare.sender, bare.receiver, bare.at_ms, nonce, _mac_of_request(secret, bare, body).hex())


def signed_answer(secret: bytes, nonce: str, body: bytes) -> bytes:
    """Returns an answer to the request with this nonce, with its signature in front."""
    return _mac(secret, b"answer", nonce.encode(), body) + body


def opened_answer(secret: bytes, nonce: str, answer: bytes) -> bytes | None:
    """Returns the body of a signed answer; None: it is not signed for the request with this nonce."""
    mac, body = answer[:_MAC_BYTES], answer[_MAC_BYTES:]
    return body if hmac.compare_digest(mac, _mac(secret, b"answer", nonce.encode(), body)) else None


class SignatureCheck:
    """Checks requests of other nodes; remembers the nonces of those that were good."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._until: deque[tuple[float, str]] = deque()

    def refusal(self, secret: bytes, signature: Signature, body: bytes, *, receiver: int, now: float) -> str | None:
        """Returns why a request is refused; None: it is good, once. receiver: the id of this node; now: epoch s."""
        if not hmac.compare_digest(signature.mac, _mac_of_request(secret, signature, body).hex()):
            return "it is not signed with this cluster's secret"
        if signature.receiver != receiver:
            return "it is for another node"
        if abs(now - signature.at_ms / 1000) > WINDOW_SECONDS:
            return f"its time differs from this node's by more than {WINDOW_SECONDS:g} s"
        self._forget(now)
        if signature.nonce in self._used:
            return "it was made before"
        if len(self._used) >= _MAX_NONCES:
            return "there were too many within a minute"
        self._used.add(signature.nonce)
        self._until.append((now + 2 * WINDOW_SECONDS, signature.nonce))
        return None

    def _forget(self, now: float) -> None:
        while self._until and self._until[0][0] < now:
            self._used.discard(self._until.popleft()[1])


def _mac_of_request(secret: bytes, signature: Signature, body: bytes) -> bytes:
    head = f"{signature.sender}:{signature.receiver}:{signature.at_ms}:{signature.nonce}"
    return _mac(secret, b"request", head.encode(), body)


def _mac(secret: bytes, *parts: bytes) -> bytes:
    """Returns the HMAC of the parts, each hashed before, so that no two lists of parts give the same bytes."""
    return hmac.digest(secret, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256")
