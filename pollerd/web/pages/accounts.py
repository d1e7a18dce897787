"""Users, tokens and sessions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Response

from pollerd.api.accounts.access import Calling, Hashing, Recognising, SigningIn, Visiting
from pollerd.api.accounts.api_tokens import made_token
from pollerd.api.accounts.schemas import SessionSchema
from pollerd.api.auth.password_rules import check_password
from pollerd.api.auth.passwords import BusyError
from pollerd.api.auth.sign_in import SignInError
from pollerd.api.http.parameters import MAX_ID, Words
from pollerd.errors import InvalidValueError
from pollerd.storage import Role
from pollerd.web.http.forms import Posted, PostedForm, one_of
from pollerd.web.http.page import Page, Shown
from pollerd.web.http.route import page_router

router = page_router(prefix="/system")
HERE = "/system/accounts"
_ROLES = (
    (Role.READ.value, "may look"),
    (Role.WRITE.value, "may do everything"),
    (Role.SIGNALS.value, "may report changed pages only"),
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
        SessionSchema.of(one, await recognition.holder_of(one), caller) for one in await accounts.sessions(page.now)
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
        raise InvalidValueError("password", "sent again in a moment: others are being checked", "(not shown)") from None


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
