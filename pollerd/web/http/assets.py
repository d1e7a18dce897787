"""The stylesheet and the scripts: kept in memory, under addresses that change with their contents."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from pollerd.web.http.headers import POLICY

router = APIRouter(prefix="/assets", include_in_schema=False)
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    media: str
    plain: bytes
    packed: bytes
    """By gzip."""


class Assets:
    """All files, and the address that they have in common."""

    def __init__(self) -> None:
        folder = resources.files("pollerd.web") / "assets"
        contents = {file.name: file.read_bytes() for file in sorted(folder.iterdir(), key=lambda one: one.name)}
        self.files: Mapping[str, Asset] = {
            name: Asset(_MEDIA[name[name.rindex(".") :]], body, gzip.compress(body, 9, mtime=0))
            for name, body in contents.items()
            if name[name.rindex(".") :] in _MEDIA
        }
        digest = hashlib.sha256(b"\0".join(part for name, body in contents.items() for part in (name.encode(), body)))
        self.build = digest.hexdigest()[:16]
        """Names this state of the files."""

    def url(self, name: str) -> str:
        """Returns the address of a file. Raises KeyError."""
        if name not in self.files:
            raise KeyError(name)
        return f"/assets/{self.build}/{name}"


@router.get("/{build}/{name}", response_class=Response)
async def asset(request: Request, build: str, name: str) -> Response:
    """A file. One of another version of the program is not found: then the page that asks for it is an old one."""
    assets: Assets = request.app.state.web.assets
    found = assets.files.get(name)
    if found is None or build != assets.build:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding", **POLICY}
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(found.packed if packed else found.plain, media_type=found.media, headers=headers)
