"""Routes of sessions: signing in and out."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response

from pollerd.api.accounts.access import Calling, Recognising, SigningIn, Visiting, failed
from pollerd.api.accounts.schemas import (
    CurrentCaller,
    EndedSessions,
    PasswordChange,
    SessionSchema,
    SignInRequest,
)
from pollerd.api.auth.cookies import clear_cookie, set_cookie
from pollerd.api.auth.sign_in import BegunSession, SignIn, SignInError, Visitor
from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.schemas.common import Listing
from pollerd.errors import InvalidValueError, NotFoundError

router = api_router("/sessions", tag="accounts")
SessionId = Annotated[int, Path(ge=1, le=MAX_ID, description="the session's id")]
_JSON = [Depends(json_body)]


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Sign in", response_model=CurrentCaller)
async def begin_session(
    request: Request, sign_in: SigningIn, visitor: Visiting, body: SignInRequest, response: Response
) -> CurrentCaller | Response:
    """With name and password, or with a token. The session's secret comes as a cookie that no script can read.

    It ends 12 hours after its last use, and after 30 days. All failures are answered alike; after ten of them an
    address, or a name, has to wait (429).
    """
    try:
        begun = await _begun(sign_in, body, visitor)
    except SignInError as error:
        return failed(error)
    set_cookie(response, request.scope, begun.secret)
    response.headers["Location"] = f"{request.url.path}/current"
    return CurrentCaller.of(begun.caller)


async def _begun(sign_in: SignIn, body: SignInRequest, visitor: Visitor) -> BegunSession:
    if body.token is not None and body.name is None and body.password is None:
        return await sign_in.with_token(body.token, visitor)
    if body.token is not None:
        raise InvalidValueError("token", "left out where name or password is given", "(not shown)")
    if body.name is None or body.password is None:
        missing = "name" if body.name is None else "password"
        raise InvalidValueError(missing, "given, unless a token is", None)
    return await sign_in.with_password(body.name, body.password, visitor)


@router.get("", summary="Who is signed in")
async def list_sessions(daemon: Daemon, recognition: Recognising, caller: Calling) -> Listing[SessionSchema]:
    """All sessions, those that were used last first."""
    found = await daemon.store.accounts.sessions(time.time())
    shown = [SessionSchema.of(one, await recognition.holder_of(one), caller) for one in found]
    return Listing.of(shown, None)


@router.delete("", summary="Sign everybody out")
async def end_sessions(
    daemon: Daemon,
    recognition: Recognising,
    user: Annotated[str | None, Query(description="only this user", max_length=64)] = None,
) -> EndedSessions:
    """All sessions end, this one too; their event streams end at once. Tokens stay in force."""
    accounts = daemon.store.accounts
    if user is None:
        ended = await accounts.end_sessions()
    else:
        found = await accounts.user(user)
        if found is None:
            raise NotFoundError("user", user)
        ended = await accounts.end_sessions_of(user_id=found.user.id)
    await recognition.review()
    return EndedSessions(ended=ended)


@router.get("/current", summary="Who am I?")
async def get_current_caller(caller: Calling) -> CurrentCaller:
    """Who makes this call, and what they may do."""
    return CurrentCaller.of(caller)


@router.delete("/current", summary="Sign out")
async def end_current_session(
    request: Request,
    daemon: Daemon,
    recognition: Recognising,
    caller: Calling,
    response: Response,
    everywhere: Annotated[bool, Query(description="also end the same user's, or token's, other sessions")] = False,
) -> EndedSessions:
    """Ends this session. 404 where the call was not made with one."""
    if caller is None or caller.session_id is None:
        raise NotFoundError("session", "current")
    accounts = daemon.store.accounts
    if not everywhere:
        await accounts.end_session(caller.session_id)
        ended = 1
    elif caller.is_user:
        ended = await accounts.end_sessions_of(user_id=caller.user_id)
    else:
        ended = await accounts.end_sessions_of(token_digest=caller.token_digest)
    clear_cookie(response, request.scope)
    await recognition.review()
    return EndedSessions(ended=ended)


@router.put(
    "/current/password",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=_JSON,
    summary="Change your password",
    response_model=None,
    response_class=Response,
)
async def change_own_password(
    request: Request, sign_in: SigningIn, caller: Calling, visitor: Visiting, body: PasswordChange
) -> Response:
    """Of the user whose session makes the call; all of the user's sessions end, this one too.

    404 where the call was not made with a user's session. A wrong present password counts as a failed sign-in.
    """
    if caller is None or caller.session_id is None or not caller.is_user:
        raise NotFoundError("session of a user", "current")
    try:
        await sign_in.change_password(caller, body.password, body.new_password, visitor)
    except SignInError as error:
        return failed(error)
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    clear_cookie(response, request.scope)
    return response


@router.delete("/{session_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="End a session")
async def end_session(daemon: Daemon, recognition: Recognising, session_id: SessionId) -> None:
    """Its event streams end at once."""
    await daemon.store.accounts.end_session(session_id)
    await recognition.review()
