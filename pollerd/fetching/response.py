"""A response of which the head is known; its connection goes back to the pool with the last byte of its body."""

from __future__ import annotations

from aiohttp import StreamReader, hdrs
from aiohttp.connector import Connection
from multidict import CIMultiDictProxy


class Response:
    """Read it to the end or close it: its connection is busy until then."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, status: int, headers: CIMultiDictProxy[str], content: StreamReader, connection: Connection
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        """The body as sent, content-encoding and all."""
        self._connection: Connection | None = connection
        content.on_eof(self._ended)

    @property
    def content_length(self) -> int | None:
        """The announced size of the body in bytes, as sent; None where it is not."""
        text = self.headers.get(hdrs.CONTENT_LENGTH)
        return int(text) if text is not None and text.isdecimal() else None

    def close(self) -> None:
        """Gives up what was not read, and its connection; after the last byte there is nothing to give up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ended(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            protocol = connection.protocol
            if protocol is not None:
                # Without its parser it keeps a few hundred kilobytes of what may come now, unread, and then listens no
                # more. With it, what a site says to nobody would be kept as responses, without end.
                protocol._parser = None  # noqa: SLF001
            connection.release()
