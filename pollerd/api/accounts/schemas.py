"""Users, sessions and tokens: input and output. Secrets are shown once, when they are made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from pollerd.api.auth.password_rules import LONGEST, SHORTEST
from pollerd.api.http.caller import API_FORM, SignedIn, csrf_token
from pollerd.api.schemas.common import Given, Moment
from pollerd.storage import Role, Session, StoredToken, User

RoleWord = Literal["read", "write"]
TokenRole = Literal["read", "write", "signals"]
_ROLE = Field(description="read: may look; write: may do everything")
_TOKEN_ROLE = "read: may look; write: may do everything; signals: may report changed pages and reads, and nothing else"
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
    password: NewPassword | None = Field(None, description="left out: only a trusted proxy signs the user in")
    role: RoleWord = Field("read", description="read: may look; write: may do everything")


class UserPatch(Given):
    """What is to change of a user."""

    password: NewPassword | None = Field(None, description="ends all sessions of the user")
    role: RoleWord | None = None


class UserSchema(BaseModel):
    """A user."""

    name: str
    role: RoleWord = _ROLE
    created_at: Moment
    has_password: bool = Field(description="false: only a trusted proxy signs the user in")

    @classmethod
    def of(cls, user: User) -> UserSchema:
        """Returns the user."""
        return cls(name=user.name, role=_word(user.role), created_at=user.created_at, has_password=user.has_password)


class NewApiToken(Given):
    """A token to make."""

    name: GivenName
    role: TokenRole = Field("read", description=_TOKEN_ROLE)


class ApiTokenSchema(BaseModel):
    """A token that was made while the daemon ran."""

    id: int
    name: str
    role: TokenRole = Field(description=_TOKEN_ROLE)
    created_at: Moment
    used_at: Moment | None = Field(description="noted at most every ten minutes")

    @classmethod
    def of(cls, token: StoredToken) -> ApiTokenSchema:
        """Returns the token, without its secret."""
        return cls(
            id=token.id, name=token.name, role=token.role.value, created_at=token.created_at, used_at=token.used_at
        )


class MadeApiToken(ApiTokenSchema):
    """A token that has just been made."""

    token: str = Field(description="the secret, shown this once")


class SessionSchema(BaseModel):
    """A session: somebody who is signed in."""

    id: int
    name: str | None = Field(description="the user's, or the token's; null: the token is no longer in force")
    is_user: bool = Field(description="false: signed in with a token")
    role: RoleWord | None = Field(description="read: may look; write: may do everything")
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

    name: str | None = Field(description="the user's, or the token's; null: nobody has to sign in")
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
