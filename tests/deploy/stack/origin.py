"""A small web for the stack's check: page /N changes every N seconds, one is missing, one fails."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if not name.isdecimal():
            self._answer(500 if name == "failing" else 404, b"")
            return
        version = int(time.time() // int(name))
        etag = f'"{version}"'
        if self.headers.get("If-None-Match") == etag:
            self._answer(304, b"")
            return
        self._answer(200, f"<html><body><p>This is edition {version} of the page.</p></body></html>".encode(), etag)

    def _answer(self, status: int, body: bytes, etag: str | None = None) -> None:
        self.send_response(status)
        if etag is not None:
            self.send_header("ETag", etag)
            self.send_header("Content-Type", "text/html; charset=utf-8")
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 8000), Page).serve_forever()
