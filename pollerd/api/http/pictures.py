"""Answers that are pictures: saved by a browser, never opened as a document of ours."""

from __future__ import annotations

from typing import Any

from fastapi import Response

BYTES = "application/octet-stream"
"""What a picture is sent as where the call accepts that and not the picture's own type."""
_FILE = {"schema": {"type": "string", "format": "binary"}}


def picture_answers(media: str, example: str) -> dict[int | str, dict[str, Any]]:
    """Returns the OpenAPI of a picture. Generators of clients that know no pictures take it as bytes."""
    content = {one: {**_FILE, "example": example} for one in (media, BYTES)}
    return {200: {"description": "the picture", "content": content}}


def picture(body: bytes, media: str, name: str, accept: str) -> Response:
    """Returns the picture as a file of this name. accept: the call's header of that name.

    What it shows may be a stranger's: a browser saves it; an <img> of a page shows it all the same.
    """
    types = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"}
    as_bytes = BYTES in types and not types & {media, "image/*"}
    return Response(body, media_type=BYTES if as_bytes else media, headers=headers)
