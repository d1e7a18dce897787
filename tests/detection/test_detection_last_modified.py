from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.detect import detect
from pollerd.detection.last_modified import parse_http_date, trusted
from pollerd.model import Baseline, Detection, Outcome, OutcomeKind, Validators

NOW = 1_700_000_000.0
GAP = 3_600.0


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777.0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777.0),
        ("Sun Nov  6 08:49:37 1994", 784_111_777.0),
        ("Sun, 06 Nov 1994 09:49:37 +0100", 784_111_777.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Sat, 31 Dec 2041 23:59:59 GMT", 2_272_147_199.0),
        ("", None),
        ("0", None),
        ("-1", None),
        ("yesterday", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 48:49:37 GMT", None),
        ("Sun, 06 Nov 99999 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 +99999999999999999999", None),
    ],
)
def test_http_dates(value: str, moment: float | None) -> None:
    assert parse_http_date(value) == moment


@given(st.text(max_size=60))
def test_any_text_is_survived(value: str) -> None:
    found = parse_http_date(value)
    assert found is None or found > -100_000


@given(st.floats(0, 4e9))
def test_what_is_written_is_read(moment: float) -> None:
    assert parse_http_date(formatdate(moment, usegmt=True)) == pytest.approx(moment, abs=1.0)


class Server:
    """A page polled every hour; each poll says what its body and its `Last-Modified` are."""

    def __init__(self, good: int = 0) -> None:
        self.baseline, self.now, self.polls = Baseline(last_modified_good=good), NOW, 0

    def poll(self, body: str, modified: float | None, skew: float | None = None) -> Detection:
        """`modified` in seconds before the poll; `skew` of the server's clock, None: it sends no `Date`."""
        ahead = skew or 0.0
        stated = None if modified is None else formatdate(self.now + ahead - modified, usegmt=True)
        outcome = Outcome(
            OutcomeKind.BODY,
            started_at=self.now,
            duration=0.1,
            body=body.encode(),
            content_type="text/plain",
            validators=Validators(last_modified=stated),
            server_date=None if skew is None else self.now + skew,
        )
        found = detect(outcome, self.baseline, GAP if self.polls else None)
        self.baseline = found.baseline
        self.now += GAP
        self.polls += 1
        return found

    def tally(self) -> tuple[int, int]:
        return self.baseline.last_modified_good, self.baseline.last_modified_bad

    def age(self, found: Detection) -> float | None:
        assert found.evidence is not None
        return found.evidence.age


def test_three_proofs_earn_belief() -> None:
    server = Server()
    server.poll("0", 9_000)
    ages = [server.age(server.poll(str(i), 100.0 * i)) for i in range(1, 6)]
    assert ages == [None, None, None, 400.0, 500.0]
    assert server.tally() == (5, 0)


def test_the_first_poll_proves_nothing() -> None:
    server = Server()
    found = server.poll("0", 100)
    assert found.evidence is None
    assert server.tally() == (0, 0)


def test_a_skewed_clock_cancels() -> None:
    server = Server()
    for i in range(4):
        server.poll(str(i), 300, skew=86_400)
    assert server.age(server.poll("last", 300, skew=86_400)) == 300.0


def test_a_skewed_clock_without_date_is_a_lie() -> None:
    server = Server()
    server.poll("0", 300)
    for i in range(1, 4):
        server.poll(str(i), -86_400)
    assert server.tally() == (0, 3)


@pytest.mark.parametrize("constant", [0.0, 2_272_147_199.0])
def test_a_constant_date_is_a_lie_at_every_change(constant: float) -> None:
    server = Server()
    for i in range(4):
        assert server.poll(str(i), server.now - constant).kind is not OutcomeKind.UNCHANGED
    assert server.tally() == (0, 3)


def test_the_present_at_every_response_is_never_believed() -> None:
    server = Server()
    for i in range(20):
        found = server.poll(str(i), 0)
        assert found.evidence is None or found.evidence.age is None
    assert server.tally() == (0, 0)
    server.poll("19", 0)
    assert server.tally() == (0, 1)


def test_a_date_that_moves_while_the_content_stays_costs_belief() -> None:
    server = Server()
    for i in range(6):
        server.poll(str(i), 100)
    assert trusted(server.baseline)
    server.poll("5", 100)
    assert server.tally() == (5, 1)
    assert not trusted(server.baseline)
    for i in range(6, 11):
        server.poll(str(i), 100)
    assert trusted(server.baseline)


def test_a_date_that_stays_while_the_content_stays_is_no_proof() -> None:
    server = Server()
    server.poll("0", 100)
    for i in range(5):
        server.poll("0", 100 + GAP * (i + 1))
    assert server.tally() == (0, 0)


def test_a_missing_date_judges_nothing() -> None:
    server = Server(good=3)
    server.poll("0", 100)
    assert server.age(server.poll("1", None)) is None
    assert server.tally() == (3, 0)


def test_not_modified_leaves_it_all_alone() -> None:
    before = Baseline(fingerprint=b"f" * 16, last_modified=5.0, last_modified_good=4)
    outcome = Outcome(
        OutcomeKind.NOT_MODIFIED, NOW, 0.1, validators=Validators(last_modified="Sun, 06 Nov 1994 08:49:37 GMT")
    )
    assert detect(outcome, before, GAP).baseline is before
