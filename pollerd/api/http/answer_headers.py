"""Security headers of every answer: browsers must respect its Content-Type, and run nothing in it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"default-src 'none'"))


class AnswerHeaders:
    """Sets `HEADERS` on every answer, including refusals and faults.

    An answer that sets one of them keeps its own: an HTML page has its own policy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message = {**message, "headers": given + [h for h in HEADERS if h[0] not in names]}
            await send(message)

        await self._app(scope, receive, with_headers)
