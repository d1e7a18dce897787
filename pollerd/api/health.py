"""Health, readiness and metrics for monitoring. At the root, without token."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel, ConfigDict

from pollerd.api.auth.middleware import KNOWN_CALLER
from pollerd.api.auth.recognition import Tokens
from pollerd.api.common import Given
from pollerd.api.http import Daemon, Words, api_router, json_body, operation_id
from pollerd.daemon.views import ClusterView
from pollerd.errors import SchemaError

# Health and readiness.


class Health(BaseModel):
    """Whether the scheduler's loop turns."""

    status: Literal["ok", "stalled"]


class Readiness(BaseModel):
    """Whether the database takes commits, and why not."""

    status: Literal["ready", "not_ready"]
    reason: str | None


router = APIRouter(tags=["health"], generate_unique_id_function=operation_id)
_BUILD_INFO = "pollerd_build_info"


@router.get("/healthz", summary="Is the daemon alive?")
async def healthz(daemon: Daemon, response: Response) -> Health:
    """200 while the scheduler's loop turns, 503 where it does not."""
    if daemon.control.health.alive():
        return Health(status="ok")
    response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return Health(status="stalled")


@router.get("/readyz", summary="Can the daemon work?")
async def readyz(daemon: Daemon, response: Response) -> Readiness:
    """200 while the database is there and takes commits; 503 with the reason where it does not."""
    try:
        reason = await daemon.control.health.not_ready()
    except SchemaError as error:
        reason = str(error)
    if reason is None:
        return Readiness(status="ready", reason=None)
    response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return Readiness(status="not_ready", reason=reason)


@router.get("/metrics", summary="Metrics", response_class=Response)
async def metrics(request: Request, daemon: Daemon) -> Response:
    """Prometheus text, or OpenMetrics where it is asked for. The program's version is for who shows a token."""
    daemon.control.gauges.refresh()
    return stored_metrics(request)


def stored_metrics(request: Request) -> Response:
    """Returns the metrics as last set."""
    registry: CollectorRegistry = request.app.state.registry
    tokens: Tokens = request.app.state.tokens
    shown = request.scope[KNOWN_CALLER] or tokens.settings.metrics_version
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry if shown else _ForStrangers(registry)), media_type=content_type)


class _ForStrangers:
    """A registry without the program's version."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics, with an empty version."""
        for metric in self._registry.collect():
            yield _unversioned(metric) if metric.name == _BUILD_INFO else metric


def _unversioned(metric: Metric) -> Metric:
    shown = Metric(metric.name, metric.documentation, metric.type)
    for sample in metric.samples:
        shown.add_sample(sample.name, {**sample.labels, "version": ""}, sample.value)
    return shown


# The nodes of the database.

cluster_router = api_router("/cluster", tag="cluster")


@cluster_router.get("", summary="The nodes of the database")
async def get_cluster(daemon: Daemon) -> ClusterView:
    """Who is there, what each node holds and may spend. Every node gives the same answer."""
    return await daemon.control.cluster.view()


class NodePatch(Given):
    """`drained` true: the node hands over what it holds, and takes nothing, also after it was started again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"drained": True}, {"drained": False}]})

    drained: bool


@cluster_router.patch("/nodes/{name}", dependencies=[Depends(json_body)], summary="Drain a node, or end that")
async def change_node(
    daemon: Daemon, name: Annotated[Words, Path(description="the node's name")], patch: NodePatch
) -> ClusterView:
    """Any node can be called. The others take its sites within seconds, after its running polls are stored. 409: no
    other node would poll.
    """
    return await daemon.control.cluster.drain(name, patch.drained)


ROUTERS = (router, cluster_router)
