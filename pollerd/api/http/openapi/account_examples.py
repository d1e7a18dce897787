"""Examples of users, sessions and tokens."""

from __future__ import annotations

from typing import Any

_AT = "2026-01-31T12:00:00.000Z"
_LATER = "2026-01-31T12:20:00.000Z"
_ENDS = "2026-02-01T00:20:00.000Z"

PARAMETERS: dict[str, Any] = {
    "user_name": "ada",
    "session_id": 5,
    "token_id": 3,
    "everywhere": True,
    "user": "ada",
}

_USER: dict[str, Any] = {"name": "ada", "role": "write", "created_at": _AT, "has_password": True}
_TOKEN: dict[str, Any] = {"id": 3, "name": "backup", "role": "read", "created_at": _AT, "used_at": _LATER}
_SESSION: dict[str, Any] = {
    "id": 5,
    "name": "ada",
    "is_user": True,
    "role": "write",
    "created_at": _AT,
    "seen_at": _LATER,
    "expires_at": _ENDS,
    "agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "address": "192.0.2.7",
    "current": True,
}

SCHEMAS: dict[str, Any] = {
    "SignInRequest": {"name": "ada", "password": "correct horse battery"},
    "FirstUserRequest": {
        "token": "8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f8d0e3f6f3a1",
        "name": "ada",
        "password": "correct horse battery",
    },
    "PasswordChange": {"password": "correct horse battery", "new_password": "staple that battery"},
    "NewUser": {"name": "ada", "password": "correct horse battery", "role": "write"},
    "UserPatch": {"role": "read"},
    "User": _USER,
    "UserList": {"items": [_USER], "next_cursor": None},
    "NewApiToken": {"name": "backup", "role": "read"},
    "ApiToken": _TOKEN,
    "ApiTokenList": {"items": [_TOKEN], "next_cursor": None},
    "MadeApiToken": {**_TOKEN, "used_at": None, "token": "8d0e3f6f3a1b4c5d9e7f2a6b1c3d5e7f8d0e3f6f3a1"},
    "SessionList": {"items": [_SESSION], "next_cursor": None},
    "Session": _SESSION,
    "CurrentCaller": {
        "name": "ada",
        "is_user": True,
        "role": "write",
        "by": "session",
        "expires_at": _ENDS,
        "csrf_token": "bm90IGEgcmVhbCBvbmUsIG9mIGNvdXJzZSwgYXMgc2hvd24",
    },
    "EndedSessions": {"ended": 2},
}
