"""Routes that WebSub hubs call. At the root, without token: nobody guesses the path, and what comes is signed."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.problems import problem
from pollerd.api.http.routing import operation_id
from pollerd.crawling.sources.hub_verification import HubVerification
from pollerd.storage import HubState

router = APIRouter(prefix="/websub", include_in_schema=False, generate_unique_id_function=operation_id)
"""Outside the API: hubs call it, as W3C WebSub says."""
_UNKNOWN = "no such subscription"


@router.get("/{callback}", response_class=Response)
async def verify_subscription(request: Request, daemon: Daemon, callback: str) -> Response:
    """Echoes the challenge of a hub that was asked; 404 for what was not asked for."""
    given = request.query_params
    asked = HubVerification(**{name: given.get(f"hub.{name}", "") for name in HubVerification.__struct_fields__})
    challenge = await daemon.control.hubs.verify(callback, asked)
    if challenge is None:
        return problem(HTTPStatus.NOT_FOUND, _UNKNOWN)
    return Response(challenge, media_type="text/plain")


@router.post("/{callback}", response_class=Response)
async def receive_content(request: Request, daemon: Daemon, callback: str) -> Response:
    """Reads what a hub sends. 202 whatever it is, also with a bad signature, which has no effect; 404 for unknown
    paths, 410 for a subscription that was left.
    """
    subscription = await daemon.control.hubs.at(callback)
    if subscription is None:
        return problem(HTTPStatus.NOT_FOUND, _UNKNOWN)
    if subscription.state is HubState.LEAVING:
        return problem(HTTPStatus.GONE, "the subscription was left")
    headers = request.headers
    signature, content_type = headers.get("x-hub-signature", ""), headers.get("content-type")
    await daemon.control.hubs.deliver(subscription, request.body, content_type, signature)
    return Response(status_code=HTTPStatus.ACCEPTED)
