"""A response whose head is known; its connection returns to the pool with the last byte of its body."""

from __future__ import annotations

from aiohttp import StreamReader, hdrs
from aiohttp.connector import Connection
from multidict import CIMultiDictProxy


class Response:
    """A response that must be read to the end or closed: its connection is busy until then."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, status: int, headers: CIMultiDictProxy[str], content: StreamReader, connection: Connection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        """The body as sent, still content-encoded."""
        self._connection: Connection | None = connection
        content.on_eof(self._ended)

    @property
    def content_length(self) -> int | None:
        """The announced size of the body in bytes, as sent; None if there is none."""
        text = self.headers.get(hdrs.CONTENT_LENGTH)
        return int(text) if text is not None and text.isdecimal() else None

    def close(self) -> None:
        """Discards the unread rest and its connection; does nothing after the last byte."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ended(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            protocol = connection.protocol
            if protocol is not None:
                # Without its parser it buffers at most a few hundred kilobytes of unsolicited data and then stops
                # reading. With it, unsolicited responses would be stored without limit.
                protocol._parser = None  # noqa: SLF001
            connection.release()
