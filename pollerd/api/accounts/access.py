"""What the routes of accounts use of the application, and how a failed sign-in is answered."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from pollerd.api.auth.middleware import ADDRESS
from pollerd.api.auth.passwords import Passwords
from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.auth.sign_in import SignIn, SignInError, Visitor
from pollerd.api.http.caller import SignedIn, caller_of
from pollerd.api.http.problems import ProblemResponse, problem


def visitor_of(request: Request) -> Visitor:
    """Returns who signs in, as the limits count them."""
    return Visitor(request.scope.get(ADDRESS, ""), request.headers.get("user-agent", ""))


def failed(error: SignInError) -> ProblemResponse:
    """Returns the answer to a sign-in that failed."""
    if error.wait <= 0:
        return problem(HTTPStatus.UNAUTHORIZED, str(error), kind="sign-in-failed")
    seconds = math.ceil(error.wait)
    headers = {"Retry-After": str(seconds)}
    detail = f"Too many tries. Next one in {seconds} s."
    return problem(HTTPStatus.TOO_MANY_REQUESTS, detail, kind="too-many-sign-ins", headers=headers)


async def _recognition(request: Request) -> CallerRecognition:
    found: CallerRecognition = request.app.state.recognition
    return found


async def _passwords(request: Request) -> Passwords:
    found: Passwords = request.app.state.passwords
    return found


async def _sign_in(request: Request) -> SignIn:
    found: SignIn = request.app.state.sign_in
    return found


async def _visitor(request: Request) -> Visitor:
    return visitor_of(request)


async def _caller(request: Request) -> SignedIn | None:
    return caller_of(request)


Recognising = Annotated[CallerRecognition, Depends(_recognition)]
Hashing = Annotated[Passwords, Depends(_passwords)]
SigningIn = Annotated[SignIn, Depends(_sign_in)]
Visiting = Annotated[Visitor, Depends(_visitor)]
Calling = Annotated[SignedIn | None, Depends(_caller)]
