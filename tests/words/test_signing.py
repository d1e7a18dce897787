"""Requests between nodes: what is signed is good once, at one node, for a while, and in no other form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pollerd.signing import WINDOW_SECONDS, Signature, SignatureCheck, opened_answer, signed_answer, signed_request

SECRET, BODY, NOW, NONCE = b"s" * 64, b"\x01question", 1_000_000.0, "0123456789abcdef" * 2


def signature(**changed: object) -> Signature:
    given = signed_request(SECRET, BODY, sender=3, receiver=5, now=NOW, nonce=NONCE)
    return replace(given, **changed)  # type: ignore[arg-type]


def refusal(shown: Signature, *, body: bytes = BODY, receiver: int = 5, now: float = NOW) -> str | None:
    return SignatureCheck().refusal(SECRET, shown, body, receiver=receiver, now=now)


def test_what_is_signed_is_good_and_survives_its_header() -> None:
    parsed = Signature.parsed(signature().header())
    assert parsed == signature()
    assert refusal(signature()) is None


@pytest.mark.parametrize(
    "changed", [{"sender": 4}, {"receiver": 6}, {"at_ms": 1}, {"nonce": "f" * 32}, {"mac": "0" * 64}]
)
def test_nothing_of_it_can_be_changed(changed: dict[str, object]) -> None:
    shown = signature(**changed)
    assert refusal(shown, receiver=shown.receiver, now=shown.at_ms / 1000) == (
        "it is not signed with this cluster's secret"
    )


def test_another_body_or_secret_is_refused() -> None:
    assert refusal(signature(), body=BODY + b"!") is not None
    other = signed_request(b"t" * 64, BODY, sender=3, receiver=5, now=NOW, nonce=NONCE)
    assert refusal(other) == "it is not signed with this cluster's secret"


def test_it_is_for_one_node() -> None:
    assert refusal(signature(), receiver=7) == "it is for another node"


@pytest.mark.parametrize("late", [-WINDOW_SECONDS - 1, WINDOW_SECONDS + 1])
def test_it_is_good_for_a_while(late: float) -> None:
    assert refusal(signature(), now=NOW + 0.9 * late) is None
    assert "time differs" in (refusal(signature(), now=NOW + late) or "")


def test_it_is_good_once() -> None:
    check = SignatureCheck()
    answers = [check.refusal(SECRET, signature(), BODY, receiver=5, now=NOW + late) for late in (0.0, 29.0, -29.0)]
    assert answers == [None, "it was made before", "it was made before"]


def test_nonces_are_kept_as_long_as_they_could_be_used_again() -> None:
    check = SignatureCheck()
    assert check.refusal(SECRET, signature(), BODY, receiver=5, now=NOW - WINDOW_SECONDS) is None
    again = check.refusal(SECRET, signature(), BODY, receiver=5, now=NOW + WINDOW_SECONDS)
    assert again == "it was made before"


@pytest.mark.parametrize("value", ["", "a", "1:2:3", f"-1:2:3:{'0' * 32}:{'0' * 64}", f"1:2:3:{'0' * 32}:{'0' * 64}\n"])
def test_other_forms_are_no_signature(value: str) -> None:
    assert Signature.parsed(value) is None


def test_an_answer_is_good_for_its_request_only() -> None:
    answer = signed_answer(SECRET, NONCE, b"answer")
    assert opened_answer(SECRET, NONCE, answer) == b"answer"
    assert opened_answer(SECRET, "f" * 32, answer) is None
    assert opened_answer(b"t" * 64, NONCE, answer) is None
    assert opened_answer(SECRET, NONCE, answer[:-1]) is None
    assert opened_answer(SECRET, NONCE, b"") is None


def test_a_request_is_no_answer() -> None:
    """What one node signed as a question cannot be shown to it as an answer."""
    shown = signature()
    forged = bytes.fromhex(shown.mac) + BODY
    assert opened_answer(SECRET, shown.nonce, forged) is None
