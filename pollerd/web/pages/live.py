"""How the daemon is, for pages that can hold no stream: they ask now and then."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse

from pollerd.api.changes.live_state import LiveState
from pollerd.web.http.headers import PAGE_HEADERS
from pollerd.web.http.route import page_router

router = page_router(prefix="/live")


@router.get("/state")
async def live_state(request: Request) -> JSONResponse:
    """As the event `health` has it."""
    state: LiveState = request.app.state.live_state
    return JSONResponse(state.state(), headers=PAGE_HEADERS)
