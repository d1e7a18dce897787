"""Routes of tokens that are made and withdrawn while the daemon runs."""

from __future__ import annotations

import secrets
import time
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response

from pollerd.api.accounts.access import Recognising
from pollerd.api.accounts.schemas import ApiTokenSchema, MadeApiToken, NewApiToken
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.http.context import ApiPorts, Daemon
from pollerd.api.http.parameters import MAX_ID, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.http.settings import digest_of
from pollerd.api.schemas.common import Listing
from pollerd.storage import Role, StoredToken

router = api_router("/tokens", tag="accounts")
TokenId = Annotated[int, Path(ge=1, le=MAX_ID, description="the token's id")]
_BYTES = 32


@router.get("", summary="List tokens")
async def list_tokens(daemon: Daemon) -> Listing[ApiTokenSchema]:
    """By name, without their secrets; those of the settings are not among them."""
    return Listing.of(map(ApiTokenSchema.of, await daemon.store.accounts.tokens()), None)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=[Depends(json_body)], summary="Make a token")
async def make_token(daemon: Daemon, recognition: Recognising, token: NewApiToken, response: Response) -> MadeApiToken:
    """Its secret is shown this once. From the first one on, everybody must sign in or send a token."""
    made, secret = await made_token(daemon, recognition, token.name, Role(token.role))
    response.headers["Location"] = f"/api/v1/tokens/{made.id}"
    response.headers["Cache-Control"] = "no-store"
    return MadeApiToken(**ApiTokenSchema.of(made).model_dump(), token=secret)


async def made_token(
    daemon: ApiPorts, recognition: CallerRecognition, name: str, role: Role
) -> tuple[StoredToken, str]:
    """Makes a token; returns it with its secret, which is not stored. Raises `DuplicateError`, `InvalidValueError`."""
    secret = secrets.token_urlsafe(_BYTES)
    made = await daemon.store.accounts.add_token(name, role, digest_of(secret), time.time())
    await recognition.review()
    return made, secret


@router.delete("/{token_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Withdraw a token")
async def withdraw_token(daemon: Daemon, recognition: Recognising, token_id: TokenId) -> None:
    """What was opened with it ends at once."""
    await daemon.store.accounts.withdraw_token(token_id)
    await recognition.review()
