"""Accounts, and signing in.

Users, tokens and sessions.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import Path, Query, Request, Response

from pollerd.api.accounts import Calling, Hashing, Recognising, SessionSchema, SigningIn, Visiting, made_token
from pollerd.api.auth.recognition import clear_cookie, set_cookie
from pollerd.api.auth.sign_in import BegunSession, BusyError, SignInError, check_password
from pollerd.api.http import MAX_ID, Words
from pollerd.api.problems import ProblemResponse
from pollerd.errors import InvalidValueError
from pollerd.model import Role
from pollerd.texts import N_, _
from pollerd.web.http import Posted, PostedForm, one_of, ours
from pollerd.web.page import Page, Shown, page_router

router = page_router(prefix="/system")
HERE = "/system/accounts"
_ROLES = (
    (Role.READ.value, N_("read-only")),
    (Role.WRITE.value, N_("full access")),
    (Role.SIGNALS.value, N_("signals only")),
)
UserName = Annotated[Words, Path(max_length=64)]
Id = Annotated[int, Path(ge=1, le=MAX_ID)]


@router.get("/accounts")
async def show_accounts(page: Shown, recognition: Recognising, caller: Calling) -> Response:
    """Who may come in."""
    return await _page(page, recognition, caller)


async def _page(page: Page, recognition: Recognising, caller: Calling, **more: Any) -> Response:
    accounts = page.ports.store.accounts
    sessions = [
        SessionSchema.of(session, await recognition.holder_of(session), caller)
        for session in await accounts.sessions(page.now)
    ]
    values = {"made": None, "failed": "", "status": HTTPStatus.OK, **more}
    return page.show(
        "accounts.html",
        users=await accounts.users(),
        tokens=await accounts.tokens(),
        sessions=sessions,
        roles=_ROLES[:2],
        token_roles=_ROLES,
        **values,
    )


@router.post("/users")
async def add_user(page: Shown, form: Posted, recognition: Recognising, passwords: Hashing) -> Response:
    """Adds a user; from the first one on everybody must sign in."""
    password = form.whole("password")
    hashed = await _hashed(passwords, password) if password else None
    await page.ports.store.accounts.add_user(form.text("name"), _role(form), hashed, page.now)
    await recognition.review()
    return page.go(HERE)


async def _hashed(passwords: Hashing, password: str) -> str:
    try:
        return await passwords.hash(check_password(password))
    except BusyError:
        raise InvalidValueError(
            "password", _("sent again in a moment: others are being checked"), _("(not shown)")
        ) from None


def _role(form: PostedForm) -> Role:
    return one_of(Role, "role", form.text("role"))


@router.post("/users/{user_name}")
async def change_user(
    page: Shown, user_name: UserName, form: Posted, recognition: Recognising, passwords: Hashing
) -> Response:
    """Gives a user another role, and a password where one is given."""
    password = form.whole("password")
    hashed = await _hashed(passwords, password) if password else None
    await page.ports.store.accounts.change_user(user_name, role=_role(form), password_hash=hashed)
    await recognition.review()
    return page.go(HERE)


@router.post("/users/{user_name}/remove")
async def remove_user(page: Shown, user_name: UserName, recognition: Recognising) -> Response:
    """Removes a user, whose sessions end."""
    await page.ports.store.accounts.remove_user(user_name)
    await recognition.review()
    return page.go(HERE)


@router.post("/tokens")
async def make_token(page: Shown, form: Posted, recognition: Recognising, caller: Calling) -> Response:
    """Makes a token, which is shown this once."""
    made, secret = await made_token(page.ports, recognition, form.text("name"), _role(form))
    return await _page(page, recognition, caller, made=(made.name, secret))


@router.post("/tokens/{token_id:id}/withdraw")
async def withdraw_token(page: Shown, token_id: Id, recognition: Recognising) -> Response:
    """What was opened with it ends."""
    await page.ports.store.accounts.withdraw_token(token_id)
    await recognition.review()
    return page.go(HERE)


@router.post("/sessions/{session_id:id}/end")
async def end_session(page: Shown, session_id: Id, recognition: Recognising) -> Response:
    """Signs somebody out."""
    await page.ports.store.accounts.end_session(session_id)
    await recognition.review()
    return page.go(HERE)


@router.post("/sign-out-everywhere")
async def sign_out_everywhere(
    page: Shown, form: Posted, recognition: Recognising, caller: Calling, sign_in: SigningIn, visitor: Visiting
) -> Response:
    """Ends all sessions; of a user asks for the password."""
    if caller is not None and caller.is_user:
        try:
            await sign_in.confirm(caller, form.whole("password"), visitor)
        except SignInError as error:
            return await _page(page, recognition, caller, failed=str(error), status=HTTPStatus.UNAUTHORIZED)
    await page.ports.store.accounts.end_sessions()
    await recognition.review()
    return page.go("/sign-in")


# Signing in and out, the first user, and one's own password.

sign_in_router = page_router()
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
        problem = orjson.loads(refusal.body)
        read_only = problem["type"].endswith(":read-only")
        detail = _("You have read-only access.") if read_only else problem["detail"]
        values = {"heading": problem["title"], "detail": detail, "read_only": read_only}
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


@sign_in_router.get("/sign-in")
async def show_sign_in(page: Shown, after: Next = "/") -> Response:
    """The form."""
    return page.show("sign_in.html", after=ours(after), failed="")


@sign_in_router.post("/sign-in")
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
    return _("Too many attempts. Try again in {ceil} s.", ceil=math.ceil(error.wait)) if error.wait > 0 else str(error)


@sign_in_router.get("/first-user")
async def show_first_user(page: Shown) -> Response:
    """The form of the first user; a script takes the code from the address, behind the #."""
    return page.show("first_user.html", failed="")


@sign_in_router.post("/first-user")
async def make_first_user(page: Shown, form: Posted, sign_in: SigningIn, visitor: Visiting) -> Response:
    """Makes the first user, and signs in."""
    try:
        begun = await sign_in.as_first_user(form.text("code"), form.text("name"), form.whole("password"), visitor)
    except SignInError as error:
        failed = _words(error) if error.wait > 0 else _("This code is invalid or has expired. The log has the link.")
        return page.show("first_user.html", status=_status(error), failed=failed)
    return _begun(page, begun, "/")


@sign_in_router.post("/sign-out")
async def sign_out(page: Shown, caller: Calling, recognition: Recognising) -> Response:
    """Ends this session."""
    answer = page.go("/sign-in")
    if caller is not None and caller.session_id is not None:
        await page.ports.store.accounts.end_session(caller.session_id)
        await recognition.review()
    clear_cookie(answer, page.request.scope)
    return answer


@sign_in_router.get("/password")
async def show_password(page: Shown) -> Response:
    """The form of one's own password."""
    return page.show("password.html", failed="")


@sign_in_router.post("/password")
async def change_password(
    page: Shown, form: Posted, caller: Calling, sign_in: SigningIn, visitor: Visiting
) -> Response:
    """Gives the user another password; all of the user's sessions end."""
    if caller is None or caller.session_id is None or not caller.is_user:
        return page.show(
            "password.html", status=HTTPStatus.NOT_FOUND, failed=_("Only signed-in users have a password.")
        )
    try:
        await sign_in.change_password(caller, form.whole("password"), form.whole("new_password"), visitor)
    except SignInError as error:
        return page.show("password.html", status=_status(error), failed=_words(error))
    answer = page.go("/sign-in")
    clear_cookie(answer, page.request.scope)
    return answer


ROUTERS = (sign_in_router, router)
