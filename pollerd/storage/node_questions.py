"""Questions of nodes to the one that polls a site, and their answers: a row each, which NOTIFY tells of."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select, text, update

from pollerd.storage.engine import Database
from pollerd.storage.node_values import NEWS_CHANNEL, NODE_ANSWER, NODE_QUESTION, SERVER_NOW
from pollerd.storage.schema import node_question
from pollerd.storage.transactions import Subject, reads, writes

_NOTIFY = text(f"SELECT pg_notify('{NEWS_CHANNEL}', current_schema() || ' ' || :what || ' ' || :key)")


class NodeQuestionStore(Subject):
    """Questions that wait for an answer, and answers that wait for who asked."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    @writes
    def ask(self, connection: Connection, node_id: int, question: bytes) -> int:
        """Asks a node; returns the number of the question."""
        new = node_question.insert().values(node_id=node_id, question=question, asked_at=SERVER_NOW)
        number: int = connection.execute(new.returning(node_question.c.id)).scalar_one()
        connection.execute(_NOTIFY, {"what": NODE_QUESTION, "key": str(number)})
        return number

    @reads
    def asked_of(self, connection: Connection, node_id: int, most: int) -> list[tuple[int, bytes]]:
        """Returns number and text of the newest questions to a node that wait for an answer, at most `most`."""
        c = node_question.c
        open_ = select(c.id, c.question).where(c.node_id == node_id, c.answer.is_(None))
        return [(row.id, row.question) for row in connection.execute(open_.order_by(c.id.desc()).limit(most))]

    @writes
    def answer(self, connection: Connection, answers: Sequence[tuple[int, bytes]]) -> None:
        """Answers questions, number and answer each; those that nobody waits for any more are left out."""
        c = node_question.c
        for number, body in answers:
            if connection.execute(update(node_question).where(c.id == number).values(answer=body)).rowcount:
                connection.execute(_NOTIFY, {"what": NODE_ANSWER, "key": str(number)})

    @writes
    def take(self, connection: Connection, number: int) -> bytes | None:
        """Ends a question, and returns its answer; None: there is none yet, or the question is gone."""
        c = node_question.c
        return connection.execute(delete(node_question).where(c.id == number).returning(c.answer)).scalar_one_or_none()
