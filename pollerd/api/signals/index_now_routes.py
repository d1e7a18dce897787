"""Routes of IndexNow's protocol. At the root, without token: reports are proved by a key that their host holds."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec
from fastapi import APIRouter, Request, Response

from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.problems import problem
from pollerd.api.http.routing import operation_id
from pollerd.crawling.sources.index_now import IndexNowReport, index_now_report

router = APIRouter(prefix="/indexnow", include_in_schema=False, generate_unique_id_function=operation_id)
"""Outside the API: programs call it as they call search engines."""
_BODY_SECONDS = 30.0


class _IndexNowBody(msgspec.Struct):
    """A report of several URLs, in the protocol's words."""

    key: str
    urlList: list[str]  # noqa: N815 (the protocol's word)
    host: str | None = None
    keyLocation: str | None = None  # noqa: N815


@router.get("", response_class=Response)
async def report_url(request: Request, daemon: Daemon) -> Response:
    """Takes one URL: parameters url, key and perhaps keyLocation."""
    if not daemon.control.index_now.allowed:
        return _absent()
    given = request.query_params
    urls, key = given.getlist("url"), given.get("key", "")
    return await _taken(daemon, index_now_report(urls, key, given.get("host"), given.get("keyLocation")))


@router.post("", response_class=Response)
async def report_urls(request: Request, daemon: Daemon) -> Response:
    """Takes up to 10,000 URLs of one host, as JSON."""
    if not daemon.control.index_now.allowed:
        return _absent()
    try:
        async with daemon.control.index_now.bodies, asyncio.timeout(_BODY_SECONDS):
            body = msgspec.json.decode(await request.body(), type=_IndexNowBody)
    except TimeoutError:
        return problem(HTTPStatus.REQUEST_TIMEOUT, f"the body must come within {_BODY_SECONDS:g} s")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return problem(HTTPStatus.BAD_REQUEST, "the body must be a JSON object with host, key, keyLocation, urlList")
    return await _taken(daemon, index_now_report(body.urlList, body.key, body.host, body.keyLocation))


async def _taken(daemon: ApiPorts, report: IndexNowReport) -> Response:
    """Answers as the protocol has it: 200 taken, 202 the key is checked later, 403 it is wrong."""
    answer = await daemon.control.index_now.take(report)
    if answer == "refused":
        return problem(HTTPStatus.FORBIDDEN, "the host of the URLs does not hold this key where it should")
    return Response(status_code=HTTPStatus.ACCEPTED if answer == "waiting" else HTTPStatus.OK)


def _absent() -> Response:
    return problem(HTTPStatus.NOT_FOUND, "reports in IndexNow's form are not taken here")
