"""uvicorn's HTTP/1.1 protocol with another refusal of invalid HTTP."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pollerd.api.http.answer_headers import HEADERS
from pollerd.api.http.problems import problem

_CAN_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)


class HttpProtocol(H11Protocol):
    """Refuses invalid HTTP with a problem document and the headers of all answers."""

    def send_400_response(self, msg: str) -> None:
        """Answers, if no answer has begun yet, and closes the connection."""
        if self.conn.our_state in _CAN_ANSWER:
            answer = problem(HTTPStatus.BAD_REQUEST, msg)
            headers = [
                (b"date", formatdate(usegmt=True).encode()),
                *answer.raw_headers,
                *HEADERS,
                (b"connection", b"close"),
            ]
            begin = h11.Response(status_code=answer.status_code, headers=headers, reason=HTTPStatus.BAD_REQUEST.phrase)
            for event in (begin, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
