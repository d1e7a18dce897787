"""Users, sessions and tokens.

Routes of users.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import time
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field

from pollerd.api.auth.middleware import ADDRESS
from pollerd.api.auth.recognition import CallerRecognition, clear_cookie, set_cookie
from pollerd.api.auth.sign_in import LONGEST, SHORTEST, BegunSession, BusyError, Passwords, SignIn, SignInError, Visitor
from pollerd.api.common import Given, Listing
from pollerd.api.http import (
    API_FORM,
    MAX_ID,
    ApiPorts,
    Daemon,
    SignedIn,
    Words,
    api_router,
    caller_of,
    csrf_token,
    json_body,
)
from pollerd.api.problems import ProblemResponse, problem
from pollerd.api.settings import digest_of
from pollerd.errors import NotFoundError, refusal
from pollerd.model import Role
from pollerd.shown import Moment
from pollerd.storage.accounts import NamedUser, Session, StoredToken
from pollerd.texts import N_, _

# What the routes of accounts use of the application, and how a failed sign-in is answered.


def visitor_of(request: Request) -> Visitor:
    """Returns who signs in, as the limits count them."""
    return Visitor(request.scope.get(ADDRESS, ""), request.headers.get("user-agent", ""))


def failed(error: SignInError) -> ProblemResponse:
    """Returns the answer to a sign-in that failed."""
    if error.wait <= 0:
        return problem(HTTPStatus.UNAUTHORIZED, str(error), kind="sign-in-failed")
    seconds = math.ceil(error.wait)
    headers = {"Retry-After": str(seconds)}
    detail = _("Too many attempts. Try again in {seconds} s.", seconds=seconds)
    return problem(HTTPStatus.TOO_MANY_REQUESTS, detail, kind="too-many-sign-ins", headers=headers)


async def _recognition(request: Request) -> CallerRecognition:
    recognition: CallerRecognition = request.app.state.recognition
    return recognition


async def _passwords(request: Request) -> Passwords:
    passwords: Passwords = request.app.state.passwords
    return passwords


async def _sign_in(request: Request) -> SignIn:
    sign_in: SignIn = request.app.state.sign_in
    return sign_in


async def _visitor(request: Request) -> Visitor:
    return visitor_of(request)


async def _caller(request: Request) -> SignedIn | None:
    return caller_of(request)


Recognising = Annotated[CallerRecognition, Depends(_recognition)]
Hashing = Annotated[Passwords, Depends(_passwords)]
SigningIn = Annotated[SignIn, Depends(_sign_in)]
Visiting = Annotated[Visitor, Depends(_visitor)]
Calling = Annotated[SignedIn | None, Depends(_caller)]


# Users, sessions and tokens: input and output. Secrets are shown once, when they are made.

RoleWord = Literal["read", "write"]
TokenRole = Literal["read", "write", "signals"]
_ROLE = Field(description="read: read-only; write: full access")
_TOKEN_ROLE = "read: read-only; write: full access; signals: only reports of changed pages and reads"
_SECRET_LENGTH = 512
GivenName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        description="letters, digits or . @ + - _",
        json_schema_extra={"pattern": r"^[\w.@+-]{1,64}$"},
    ),
]
NewPassword = Annotated[str, Field(min_length=SHORTEST, max_length=LONGEST, description="not shown again")]
SentPassword = Annotated[str, Field(max_length=1024)]
SentToken = Annotated[str, Field(min_length=1, max_length=_SECRET_LENGTH)]


class SignInRequest(Given):
    """Name and password, or a token."""

    name: str | None = Field(None, max_length=256)
    password: SentPassword | None = None
    token: SentToken | None = None


class PasswordChange(Given):
    """A user's own password, old and new."""

    password: SentPassword = Field(description="the present one")
    new_password: NewPassword


class FirstUserRequest(Given):
    """The first user, who may do everything."""

    token: SentToken = Field(description="of the link in the daemon's log, behind its #")
    name: GivenName
    password: NewPassword


class NewUser(Given):
    """A user to add."""

    name: GivenName
    password: NewPassword | None = Field(None, description="missing: only a trusted proxy signs the user in")
    role: RoleWord = Field("read", description="read: read-only; write: full access")


class UserPatch(Given):
    """What is to change of a user."""

    password: NewPassword | None = Field(None, description="ends all sessions of the user")
    role: RoleWord | None = None


class NewApiToken(Given):
    """A token to make."""

    name: GivenName
    role: TokenRole = Field("read", description=_TOKEN_ROLE)


@dataclasses.dataclass(frozen=True, slots=True)
class MadeApiToken(StoredToken):
    """A token that has just been made."""

    token: str
    """The secret, shown this once."""


class SessionSchema(BaseModel):
    """A session: a user who is signed in."""

    id: int
    name: str | None = Field(description="the user's, or the token's; null: the token is no longer in force")
    is_user: bool = Field(description="false: signed in with a token")
    role: RoleWord | None = Field(description="read: read-only; write: full access")
    created_at: Moment
    seen_at: Moment = Field(description="when it was last used; noted at most every ten minutes")
    expires_at: Moment = Field(description="when it ends if it is not used again")
    agent: str = Field(description="the browser, as it names itself")
    address: str = Field(description="from which it was begun; of IPv6 the network")
    current: bool = Field(description="whether this call was made with it")

    @classmethod
    def of(cls, session: Session, holder: SignedIn | None, caller: SignedIn | None) -> SessionSchema:
        """Returns the session of `holder`, as `caller` sees it."""
        return cls(
            id=session.id,
            name=None if holder is None else holder.name,
            is_user=session.user is not None,
            role=None if holder is None else _word(holder.role),
            created_at=session.created_at,
            seen_at=session.seen_at,
            expires_at=session.expires_at,
            agent=session.agent,
            address=session.address,
            current=caller is not None and caller.session_id == session.id,
        )


class CurrentCaller(BaseModel):
    """Who makes this call."""

    name: str | None = Field(description="the user's, or the token's; null: no sign-in is needed")
    is_user: bool
    role: RoleWord = _ROLE
    by: Literal["token", "session", "proxy"] | None = Field(description="how the caller was recognised")
    expires_at: Moment | None = Field(description="when the session ends if it is not used again")
    csrf_token: str = Field(
        description="for the header X-CSRF-Token of changes without an Origin; empty: none is needed"
    )

    @classmethod
    def of(cls, caller: SignedIn | None) -> CurrentCaller:
        """Returns the caller."""
        if caller is None:
            return cls(name=None, is_user=False, role="write", by=None, expires_at=None, csrf_token="")
        return cls(
            name=caller.name,
            is_user=caller.is_user,
            role=_word(caller.role),
            by=caller.by.value,
            expires_at=caller.expires_at,
            csrf_token=csrf_token(caller, API_FORM),
        )


class EndedSessions(BaseModel):
    """How many sessions ended."""

    ended: int


def _word(role: Role) -> RoleWord:
    return "write" if role is Role.WRITE else "read"


router = api_router("/users", tag="accounts")
UserName = Annotated[Words, Path(description="the user's name, in any case", max_length=64)]
_JSON = [Depends(json_body)]
_BUSY = SignInError(1.0)


@router.get("", summary="List users")
async def list_users(daemon: Daemon) -> Listing[NamedUser]:
    """By name."""
    return Listing.of(await daemon.store.accounts.users(), None)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a user", response_model=NamedUser)
async def add_user(
    daemon: Daemon, recognition: Recognising, passwords: Hashing, user: NewUser, response: Response
) -> NamedUser | Response:
    """As soon as there is one, all clients must sign in or send a token. 409 where names differ in case only."""
    try:
        hashed = None if user.password is None else await passwords.hash(user.password)
    except BusyError:
        return failed(_BUSY)
    added = await daemon.store.accounts.add_user(user.name, Role(user.role), hashed, time.time())
    await recognition.review()
    response.headers["Location"] = f"/api/v1/users/{added.name}"
    return added


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


@router.patch("/{user_name}", dependencies=_JSON, summary="Change a user", response_model=NamedUser)
async def change_user(
    daemon: Daemon, recognition: Recognising, passwords: Hashing, user_name: UserName, patch: UserPatch
) -> NamedUser | Response:
    """Gives a user another role or password. Another password ends the user's sessions."""
    try:
        hashed = None if patch.password is None else await passwords.hash(patch.password)
    except BusyError:
        return failed(_BUSY)
    role = None if patch.role is None else Role(patch.role)
    changed = await daemon.store.accounts.change_user(user_name, role=role, password_hash=hashed)
    await recognition.review()
    return changed


@router.delete("/{user_name}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a user")
async def remove_user(daemon: Daemon, recognition: Recognising, user_name: UserName) -> None:
    """The user's sessions and event streams end at once.

    Without users and tokens, a daemon that listens on loopback only is open to all users of its machine again.
    """
    await daemon.store.accounts.remove_user(user_name)
    await recognition.review()


# Routes of tokens that are made and withdrawn while the daemon runs.

tokens_router = api_router("/tokens", tag="accounts")
TokenId = Annotated[int, Path(ge=1, le=MAX_ID, description="the token's id")]
_BYTES = 32


@tokens_router.get("", summary="List tokens")
async def list_tokens(daemon: Daemon) -> Listing[StoredToken]:
    """By name, without their secrets; those of the settings are not among them."""
    return Listing.of(await daemon.store.accounts.tokens(), None)


@tokens_router.post("", status_code=HTTPStatus.CREATED, dependencies=[Depends(json_body)], summary="Make a token")
async def make_token(daemon: Daemon, recognition: Recognising, token: NewApiToken, response: Response) -> MadeApiToken:
    """Its secret is shown this once. As soon as there is one, all clients must sign in or send a token."""
    made, secret = await made_token(daemon, recognition, token.name, Role(token.role))
    response.headers["Location"] = f"/api/v1/tokens/{made.id}"
    response.headers["Cache-Control"] = "no-store"
    return MadeApiToken(made.id, made.name, made.role, made.created_at, made.used_at, secret)


async def made_token(
    daemon: ApiPorts, recognition: CallerRecognition, name: str, role: Role
) -> tuple[StoredToken, str]:
    """Makes a token; returns it with its secret, which is not stored. Raises `DuplicateError`, `InvalidValueError`."""
    secret = secrets.token_urlsafe(_BYTES)
    made = await daemon.store.accounts.add_token(name, role, digest_of(secret), time.time())
    await recognition.review()
    return made, secret


@tokens_router.delete(
    "/{token_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Revoke a token"
)
async def withdraw_token(daemon: Daemon, recognition: Recognising, token_id: TokenId) -> None:
    """What was opened with it ends at once."""
    await daemon.store.accounts.withdraw_token(token_id)
    await recognition.review()


# Routes of sessions: signing in and out.

sessions_router = api_router("/sessions", tag="accounts")
SessionId = Annotated[int, Path(ge=1, le=MAX_ID, description="the session's id")]


@sessions_router.post(
    "", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Sign in", response_model=CurrentCaller
)
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
        raise refusal("token", _("give a token, or a name with its password, not both"))
    if body.name is None or body.password is None:
        missing = "name" if body.name is None else "password"
        raise refusal(missing, _("is needed, unless a token is given"))
    return await sign_in.with_password(body.name, body.password, visitor)


@sessions_router.get("", summary="Who is signed in")
async def list_sessions(daemon: Daemon, recognition: Recognising, caller: Calling) -> Listing[SessionSchema]:
    """All sessions, those that were used last first."""
    sessions = await daemon.store.accounts.sessions(time.time())
    shown = [SessionSchema.of(session, await recognition.holder_of(session), caller) for session in sessions]
    return Listing.of(shown, None)


@sessions_router.delete("", summary="Sign all users out")
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
        account = await accounts.user(user)
        if account is None:
            raise NotFoundError(N_("user"), user)
        ended = await accounts.end_sessions_of(user_id=account.user.id)
    await recognition.review()
    return EndedSessions(ended=ended)


@sessions_router.get("/current", summary="Who am I?")
async def get_current_caller(caller: Calling) -> CurrentCaller:
    """Who makes this call, and what they may do."""
    return CurrentCaller.of(caller)


@sessions_router.delete("/current", summary="Sign out")
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
        raise NotFoundError(N_("session"), "current")
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


@sessions_router.put(
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
        raise NotFoundError(N_("session of a user"), "current")
    try:
        await sign_in.change_password(caller, body.password, body.new_password, visitor)
    except SignInError as error:
        return failed(error)
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    clear_cookie(response, request.scope)
    return response


@sessions_router.delete(
    "/{session_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="End a session"
)
async def end_session(daemon: Daemon, recognition: Recognising, session_id: SessionId) -> None:
    """Its event streams end at once."""
    await daemon.store.accounts.end_session(session_id)
    await recognition.review()


ROUTERS = (router, sessions_router, tokens_router)
