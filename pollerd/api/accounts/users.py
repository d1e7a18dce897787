"""Routes of users."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Request, Response

from pollerd.api.accounts.access import Hashing, Recognising, SigningIn, Visiting, failed
from pollerd.api.accounts.schemas import CurrentCaller, FirstUserRequest, NewUser, UserPatch, UserSchema
from pollerd.api.auth.cookies import set_cookie
from pollerd.api.auth.passwords import BusyError
from pollerd.api.auth.sign_in import SignInError
from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import Words, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.storage import Role

router = api_router("/users", tag="accounts")
UserName = Annotated[Words, Path(description="the user's name, in any case", max_length=64)]
_JSON = [Depends(json_body)]
_BUSY = SignInError(1.0)


@router.get("", summary="List users")
async def list_users(daemon: Daemon) -> Listing[UserSchema]:
    """By name."""
    return Listing.of(map(UserSchema.of, await daemon.store.accounts.users()), None)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a user", response_model=UserSchema)
async def add_user(
    daemon: Daemon, recognition: Recognising, passwords: Hashing, user: NewUser, response: Response
) -> UserSchema | Response:
    """From the first one on, everybody must sign in or send a token. 409 where names differ in case only."""
    try:
        hashed = None if user.password is None else await passwords.hash(user.password)
    except BusyError:
        return failed(_BUSY)
    added = await daemon.store.accounts.add_user(user.name, Role(user.role), hashed, time.time())
    await recognition.review()
    response.headers["Location"] = f"/api/v1/users/{added.name}"
    return UserSchema.of(added)


@router.post(
    "/first",
    status_code=HTTPStatus.CREATED,
    dependencies=_JSON,
    summary="Make the first user",
    response_model=CurrentCaller,
)
async def add_first_user(
    request: Request, sign_in: SigningIn, visitor: Visiting, body: FirstUserRequest, response: Response
) -> CurrentCaller | Response:
    """With the token of the link that the daemon writes to its log at a start without users; signs the user in.

    The token is valid for an hour, and once. 409 where there is a user already.
    """
    try:
        begun = await sign_in.as_first_user(body.token, body.name, body.password, visitor)
    except SignInError as error:
        return failed(error)
    set_cookie(response, request.scope, begun.secret)
    response.headers["Location"] = f"/api/v1/users/{begun.caller.name}"
    return CurrentCaller.of(begun.caller)


@router.patch("/{user_name}", dependencies=_JSON, summary="Change a user", response_model=UserSchema)
async def change_user(
    daemon: Daemon, recognition: Recognising, passwords: Hashing, user_name: UserName, patch: UserPatch
) -> UserSchema | Response:
    """Gives a user another role or password. Another password ends the user's sessions."""
    try:
        hashed = None if patch.password is None else await passwords.hash(patch.password)
    except BusyError:
        return failed(_BUSY)
    role = None if patch.role is None else Role(patch.role)
    changed = await daemon.store.accounts.change_user(user_name, role=role, password_hash=hashed)
    await recognition.review()
    return UserSchema.of(changed)


@router.delete("/{user_name}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a user")
async def remove_user(daemon: Daemon, recognition: Recognising, user_name: UserName) -> None:
    """The user's sessions and event streams end at once.

    Without users and tokens, a daemon that listens on loopback only lets in everybody on its machine again.
    """
    await daemon.store.accounts.remove_user(user_name)
    await recognition.review()
