"""What every answer tells browsers: take it for what its Content-Type says, and run nothing that stands in it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"default-src 'none'"))


class AnswerHeaders:
    """Sets `HEADERS` on every answer, refusals and faults too.

    An answer that has one of them already keeps its own: a page for people brings a policy of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message = {**message, "headers": given + [h for h in HEADERS if h[0] not in names]}
            await send(message)

        await self._app(scope, receive, with_headers)
