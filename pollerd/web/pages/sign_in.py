"""Signing in and out, the first user, and one's own password."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

import orjson
from fastapi import Query, Request, Response

from pollerd.api.accounts.access import Calling, Recognising, SigningIn, Visiting
from pollerd.api.auth.cookies import clear_cookie, set_cookie
from pollerd.api.auth.sign_in import BegunSession, SignInError
from pollerd.api.http.problems import ProblemResponse
from pollerd.web.http.addresses import ours
from pollerd.web.http.forms import Posted
from pollerd.web.http.page import Page, Shown
from pollerd.web.http.route import page_router

router = page_router()
_FROM_OURS = frozenset({"same-origin", "none"})
Next = Annotated[str, Query(alias="next", max_length=2_000)]


def refused_page(request: Request, refusal: ProblemResponse) -> Response:
    """Shows a refusal to somebody at a browser: the way to sign in, or why not.

    A link from a mail, or from any other site, comes without the session's cookie, which is for our own pages only. So
    a first answer has the browser come back by itself, once, and then it sends the cookie.
    """
    page = Page.of(request)
    here = ours(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
    if refusal.status_code != HTTPStatus.UNAUTHORIZED:
        said = orjson.loads(refusal.body)
        read_only = said["type"].endswith(":read-only")
        detail = "You may look, not change." if read_only else said["detail"]
        values = {"heading": said["title"], "detail": detail, "read_only": read_only}
        return page.show("refused.html", status=refusal.status_code, **values)
    from_elsewhere = request.headers.get("sec-fetch-site", "none") not in _FROM_OURS
    if request.method == "GET" and from_elsewhere and "again" not in request.query_params:
        joined = "&" if "?" in here else "?"
        return page.show("again.html", address=f"{here}{joined}again=1")
    target = here if request.method == "GET" else "/"
    answer = page.go(f"/sign-in?next={quote(_without_again(target))}")
    for value in refusal.headers.getlist("set-cookie"):
        answer.headers.append("set-cookie", value)
    return answer


def _without_again(address: str) -> str:
    return address.removesuffix("&again=1").removesuffix("?again=1")


@router.get("/sign-in")
async def show_sign_in(page: Shown, after: Next = "/") -> Response:
    """The form."""
    return page.show("sign_in.html", after=ours(after), failed="")


@router.post("/sign-in")
async def sign_in(page: Shown, form: Posted, sign_in: SigningIn, visitor: Visiting) -> Response:
    """Begins a session, with name and password or with a token."""
    after = ours(form.text("next"))
    try:
        if form.text("token"):
            begun = await sign_in.with_token(form.text("token"), visitor)
        else:
            begun = await sign_in.with_password(form.text("name"), form.whole("password"), visitor)
    except SignInError as error:
        return page.show("sign_in.html", status=_status(error), after=after, failed=_words(error))
    return _begun(page, begun, after)


def _begun(page: Page, begun: BegunSession, after: str) -> Response:
    answer = page.go(after)
    set_cookie(answer, page.request.scope, begun.secret)
    return answer


def _status(error: SignInError) -> int:
    return HTTPStatus.TOO_MANY_REQUESTS if error.wait > 0 else HTTPStatus.UNAUTHORIZED


def _words(error: SignInError) -> str:
    return f"Too many tries. Next one in {math.ceil(error.wait)} s." if error.wait > 0 else str(error)


@router.get("/first-user")
async def show_first_user(page: Shown) -> Response:
    """The form of the first user; a script takes the code from the address, behind the #."""
    return page.show("first_user.html", failed="")


@router.post("/first-user")
async def make_first_user(page: Shown, form: Posted, sign_in: SigningIn, visitor: Visiting) -> Response:
    """Makes the first user, and signs in."""
    try:
        begun = await sign_in.as_first_user(form.text("code"), form.text("name"), form.whole("password"), visitor)
    except SignInError as error:
        failed = _words(error) if error.wait > 0 else "That code is not valid, or no longer. The log has the link."
        return page.show("first_user.html", status=_status(error), failed=failed)
    return _begun(page, begun, "/")


@router.post("/sign-out")
async def sign_out(page: Shown, caller: Calling, recognition: Recognising) -> Response:
    """Ends this session."""
    answer = page.go("/sign-in")
    if caller is not None and caller.session_id is not None:
        await page.ports.store.accounts.end_session(caller.session_id)
        await recognition.review()
    clear_cookie(answer, page.request.scope)
    return answer


@router.get("/password")
async def show_password(page: Shown) -> Response:
    """The form of one's own password."""
    return page.show("password.html", failed="")


@router.post("/password")
async def change_password(
    page: Shown, form: Posted, caller: Calling, sign_in: SigningIn, visitor: Visiting
) -> Response:
    """Gives the user another password; all of the user's sessions end."""
    if caller is None or caller.session_id is None or not caller.is_user:
        return page.show("password.html", status=HTTPStatus.NOT_FOUND, failed="Only a user who is signed in has one.")
    try:
        await sign_in.change_password(caller, form.whole("password"), form.whole("new_password"), visitor)
    except SignInError as error:
        return page.show("password.html", status=_status(error), failed=_words(error))
    answer = page.go("/sign-in")
    clear_cookie(answer, page.request.scope)
    return answer
