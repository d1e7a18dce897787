"""Routes of the nodes of the database: for people, and for the nodes among themselves."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.problems import problem
from pollerd.api.http.routing import api_router, operation_id
from pollerd.api.schemas.health import ClusterState
from pollerd.cluster.signing import HEADER, PATH

router = api_router("/cluster", tag="cluster")
internal = APIRouter(include_in_schema=False, generate_unique_id_function=operation_id)
"""For other nodes only, outside the API: it answers what is signed with the secret of the cluster."""
_MOST_BYTES = 4_096


@router.get("", summary="The nodes of the database")
async def get_cluster(daemon: Daemon) -> ClusterState:
    """Who is there, what each node holds and may spend. Every node gives the same answer."""
    return ClusterState.model_validate(await daemon.control.cluster.view())


@internal.post(PATH)
async def answer_node(request: Request, daemon: Daemon) -> Response:
    """Answers another node; 404 where there are none, 403 without a good signature, 421 what is not held here."""
    answers = daemon.control.node_answers
    if answers is None:
        return problem(HTTPStatus.NOT_FOUND, f"no such path: {PATH}")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {_MOST_BYTES} bytes")
    status, answer = await answers.answer(request.headers.get(HEADER, ""), body)
    if status != HTTPStatus.OK:
        return problem(status, "only what another node of the cluster signed is answered, by who holds it")
    return Response(answer, media_type="application/octet-stream")
