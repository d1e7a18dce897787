"""Users, sessions and tokens in both databases."""

from __future__ import annotations

import pytest

from pollerd.errors import DuplicateError, InvalidValueError, NotFoundError
from pollerd.model import Role
from pollerd.storage import migrate
from pollerd.storage.accounts import MAX_SESSIONS, SESSION_IDLE_SECONDS, SESSION_MOST_SECONDS, Existing, NewSession
from pollerd.storage.engine import Database, database_url
from pollerd.storage.settings import StorageSettings
from pollerd.storage.store import Store
from tests.storage.samples import query

NOW = 1_000_000.0


def digest(number: int) -> bytes:
    return number.to_bytes(32, "big")


async def test_users_are_there_after_a_restart_and_for_another_process(url: str, settings: StorageSettings) -> None:
    store = await Store.open(url, settings=settings)
    assert await store.accounts.existing() == Existing(users=False, tokens=False)
    user = await store.accounts.add_user("Ada", Role.WRITE, "$hash", NOW)
    beside = await Store.open(url, settings=settings, exclusive=False)
    await beside.accounts.add_user("bob@example.org", Role.READ, None, NOW + 1)
    await beside.close()
    assert [(one.name, one.role, one.has_password) for one in await store.accounts.users()] == [
        ("Ada", Role.WRITE, True),
        ("bob@example.org", Role.READ, False),
    ]
    await store.close()
    store = await Store.open(url, settings=settings)
    found = await store.accounts.user("ADA")
    assert found is not None
    assert (found.user, found.hash) == (user, "$hash")
    assert await store.accounts.existing() == Existing(users=True, tokens=False)
    assert await store.accounts.user("eve") is None
    await store.close()


@pytest.mark.parametrize("name", ["", "a b", "a" * 65, "a\0b", "a\nb", "a:b", "\u202eeve", "<b>"])
async def test_names_that_could_mislead_are_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidValueError, match="name"):
        await store.accounts.add_user(name, Role.READ, None, NOW)
    with pytest.raises(InvalidValueError, match="name"):
        await store.accounts.add_token(name, Role.READ, digest(1), NOW)


async def test_names_that_look_alike_are_one(store: Store) -> None:
    user = await store.accounts.add_user("J\u00f6rg", Role.READ, None, NOW)
    for name in ("J\u00f6rg", "j\u00d6RG", "Jo\u0308rg", "\uff2a\u00f6rg"):
        with pytest.raises(DuplicateError) as caught:
            await store.accounts.add_user(name, Role.READ, None, NOW)
        assert caught.value.existing_id == user.id


async def test_the_first_user_is_made_once(store: Store) -> None:
    assert (await store.accounts.add_first_user("ada", "$hash", NOW)).role is Role.WRITE
    with pytest.raises(DuplicateError):
        await store.accounts.add_first_user("eve", "$hash", NOW)
    assert [user.name for user in await store.accounts.users()] == ["ada"]


async def test_another_password_and_removal_end_sessions_another_role_does_not(store: Store) -> None:
    accounts = store.accounts
    ada = await accounts.add_user("ada", Role.WRITE, "$one", NOW)
    bob = await accounts.add_user("bob", Role.READ, "$two", NOW)
    for number, user in enumerate((ada, bob)):
        await accounts.begin_session(NewSession(digest=digest(number), user_id=user.id), NOW)
    changed = await accounts.change_user("ada", role=Role.READ)
    session = await accounts.session(digest(0), NOW)
    assert session is not None
    assert session.user == changed
    assert changed.role is Role.READ
    await accounts.change_user("Ada", password_hash="$three")
    assert await accounts.session(digest(0), NOW) is None
    assert await accounts.session(digest(1), NOW) is not None
    await accounts.remove_user("bob")
    assert await accounts.sessions(NOW) == []
    for call in (accounts.change_user("bob", role=Role.READ), accounts.remove_user("bob")):
        with pytest.raises(NotFoundError):
            await call


async def test_a_better_hash_does_not_undo_another_password(store: Store) -> None:
    ada = await store.accounts.add_user("ada", Role.WRITE, "$old", NOW)
    await store.accounts.rehash(ada.id, "$old", "$better")
    await store.accounts.rehash(ada.id, "$old", "$late")
    found = await store.accounts.user("ada")
    assert found is not None
    assert found.hash == "$better"


async def test_a_session_is_over_when_it_is_not_used_and_after_its_longest_time(store: Store) -> None:
    accounts = store.accounts
    ada = await accounts.add_user("ada", Role.WRITE, None, NOW)
    new = NewSession(digest=digest(1), user_id=ada.id, agent="Firefox\0" + "x" * 300, address="192.0.2.1")
    made = await accounts.begin_session(new, NOW)
    assert made.expires_at == NOW + SESSION_IDLE_SECONDS
    assert made.agent.startswith("Firefox")
    assert len(made.agent) == 200
    almost = NOW + SESSION_IDLE_SECONDS - 1
    assert await accounts.session(digest(1), almost) == made
    assert await accounts.session(digest(1), almost + 1) is None
    at = NOW
    while at < NOW + SESSION_MOST_SECONDS:
        await accounts.note_seen(made.id, at)
        at += SESSION_IDLE_SECONDS / 2
    await accounts.note_seen(made.id, NOW)  # it does not go back
    used = await accounts.session(digest(1), NOW + SESSION_MOST_SECONDS - 1)
    assert used is not None
    assert used.expires_at == NOW + SESSION_MOST_SECONDS
    assert await accounts.session(digest(1), NOW + SESSION_MOST_SECONDS) is None
    await accounts.begin_session(NewSession(digest=digest(2), user_id=ada.id), NOW + SESSION_MOST_SECONDS)
    assert [session.id for session in await accounts.sessions(NOW)] == [made.id + 1], "what is over is deleted"


async def test_sessions_end_one_by_one_of_one_holder_and_all(store: Store) -> None:
    accounts = store.accounts
    ada = await accounts.add_user("ada", Role.WRITE, None, NOW)
    by_user = [await accounts.begin_session(NewSession(digest=digest(n), user_id=ada.id), NOW + n) for n in range(3)]
    by_token = await accounts.begin_session(NewSession(digest=digest(9), token_digest=digest(99)), NOW + 9)
    assert [session.id for session in await accounts.sessions(NOW + 9)] == [
        by_token.id,
        *(session.id for session in reversed(by_user)),
    ]
    await accounts.end_session(by_user[0].id)
    with pytest.raises(NotFoundError):
        await accounts.end_session(by_user[0].id)
    assert await accounts.end_sessions_of(user_id=ada.id) == 2
    assert await accounts.sessions(NOW + 9) == [by_token]
    assert await accounts.end_sessions() == 1


async def test_too_many_sessions_end_the_oldest_of_the_same_holder(store: Store) -> None:
    accounts = store.accounts
    ada = await accounts.add_user("ada", Role.WRITE, None, NOW)
    await accounts.begin_session(NewSession(digest=digest(9_999), token_digest=digest(1)), NOW)
    for n in range(MAX_SESSIONS + 2):
        await accounts.begin_session(NewSession(digest=digest(n), user_id=ada.id), NOW)
    assert len(await accounts.sessions(NOW)) == MAX_SESSIONS + 1
    assert await accounts.session(digest(1), NOW) is None
    assert await accounts.session(digest(2), NOW) is not None
    assert await accounts.session(digest(9_999), NOW) is not None


async def test_tokens_are_made_used_and_withdrawn_with_their_sessions(store: Store) -> None:
    accounts = store.accounts
    made = await accounts.add_token("backup", Role.READ, digest(1), NOW)
    with pytest.raises(DuplicateError):
        await accounts.add_token("Backup", Role.READ, digest(2), NOW)
    assert await accounts.token(digest(1)) == made
    assert await accounts.token(digest(2)) is None
    assert await accounts.existing() == Existing(users=False, tokens=True)
    await accounts.note_used(made.id, NOW + 5)
    assert [token.used_at for token in await accounts.tokens()] == [NOW + 5]
    await accounts.begin_session(NewSession(digest=digest(3), token_digest=digest(1)), NOW)
    await accounts.withdraw_token(made.id)
    assert await accounts.tokens() == []
    assert await accounts.sessions(NOW) == []
    with pytest.raises(NotFoundError):
        await accounts.withdraw_token(made.id)


async def test_0019_adds_tables_and_leaves_the_rest(new_url: str, settings: StorageSettings) -> None:
    store = await Store.open(new_url, settings=settings)
    await store.accounts.add_user("ada", Role.WRITE, "$hash", NOW)
    await store.runs.start("1", NOW)
    await store.close()
    database = Database(database_url(new_url), settings, create=False)
    await database.write(lambda c: migrate.down(c, "0018"))
    await database.write(migrate.up)
    await database.close()
    assert await query(new_url, "SELECT count(*) FROM user_account") == [(0,)]
    assert await query(new_url, "SELECT count(*) FROM daemon_run") == [(1,)]
