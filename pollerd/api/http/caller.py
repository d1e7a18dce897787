"""Who makes a call, as the middleware found out; and tokens that show that a form is one of ours."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus

from fastapi import HTTPException, Request

from pollerd.storage import Role

CALLER = "pollerd.caller"
"""Scope key: the `SignedIn` of a call; None: nobody has to sign in, or the call is open to everybody."""
CSRF_HEADER = "X-CSRF-Token"
API_FORM = "api"
"""The form name whose token calls of REST send in `CSRF_HEADER`."""
_NOT_OURS = "the form was not made by this session: load the page again"


class By(StrEnum):
    """How a caller was recognised."""

    TOKEN = "token"
    SESSION = "session"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """A caller who was recognised."""

    by: By
    name: str
    """The user's, or the token's."""
    role: Role
    user_id: int | None = None
    """Of a user; None: it is a token."""
    of_settings: bool = False
    """Whether it is a token of the settings."""
    session_id: int | None = None
    token_digest: bytes | None = field(default=None, repr=False)
    seen_at: float | None = None
    """When the session was last noted as used, epoch s."""
    expires_at: float | None = None
    """When the session ends if it is not used again, epoch s."""
    secret: bytes = field(default=b"", repr=False)
    """What the tokens of forms are derived from; empty if browsers do not send what recognised the caller."""

    @property
    def may_write(self) -> bool:
        """Whether the caller may change things."""
        return self.role is Role.WRITE

    @property
    def may_read(self) -> bool:
        """Whether the caller may look."""
        return self.role is not Role.SIGNALS

    @property
    def may_report(self) -> bool:
        """Whether the caller may report changed pages."""
        return self.role in (Role.WRITE, Role.SIGNALS)

    @property
    def is_user(self) -> bool:
        """Whether it is a user, and not a token."""
        return self.user_id is not None


def caller_of(request: Request) -> SignedIn | None:
    """Returns who makes the call; None: nobody has to sign in, or the call is open and the caller unknown."""
    found: SignedIn | None = request.scope.get(CALLER)
    return found


def reader_of(request: Request) -> str:
    """Returns a name for what each reader has of their own; without users there is one reader, the empty name."""
    caller = caller_of(request)
    return f"user:{caller.user_id}" if caller is not None and caller.is_user else ""


def csrf_token(caller: SignedIn | None, form: str) -> str:
    """Returns the token that a form of this name must send; empty if it needs none."""
    if caller is None or not caller.secret:
        return ""
    digest = hmac.new(caller.secret, b"form:" + form.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def csrf_is_right(caller: SignedIn | None, form: str, given: str) -> bool:
    """Returns whether a sent token is that of the form, or none is needed."""
    expected = csrf_token(caller, form)
    return not expected or hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def check_csrf(request: Request, form: str, given: str) -> None:
    """Raises 403 unless the token that came with a form is right."""
    if not csrf_is_right(caller_of(request), form, given):
        raise HTTPException(HTTPStatus.FORBIDDEN, _NOT_OURS)
