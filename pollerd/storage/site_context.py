"""Contexts of sites, read for a batch of polls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection

from pollerd.errors import PermanentError
from pollerd.inheritance import READ_BY_POLLS, access_of_tags, fault_of_tags, of_tags, selections_of_tags
from pollerd.model import FIRST_READER, OF_SELECTIONS, Baseline, Media, OutcomeKind, Validators
from pollerd.site_settings import NO_ACCESS, Access, Tags
from pollerd.storage.encoding import decode_header, number, stored_window
from pollerd.storage.encryption import Encryption
from pollerd.storage.selection_states import load_selection_states
from pollerd.storage.statements import Statements, run
from pollerd.storage.tags import names_among
from pollerd.storage.values import SiteContext
from pollerd.texts import _

_KEEP_SCREENSHOTS = 6
"""Its place in a row of `Statements.contexts`."""


def load_contexts(
    connection: Connection,
    sql: Statements,
    encryption: Encryption,
    site_ids: Sequence[int],
    tags: Tags,
    named: Collection[str] = (),
) -> dict[int, SiteContext]:
    """Returns contexts by site id; deleted sites are missing. The context of an unreadable row has a `fault`.

    tags: those that have settings; named: those that rules name. Only where some are named, or say what is sent, those
    of the sites are asked for.
    """
    rows = run(connection, sql.contexts, sql.id_list(site_ids))
    contexts = {row[0]: _readable(encryption, row) for row in rows}
    configured = {row[0]: row[_KEEP_SCREENSHOTS] for row in rows}
    sending = [
        name for name, tag in tags.items() if tag.access or tag.fault or tag.settings.keys() & set(READ_BY_POLLS)
    ]
    if sending or named:
        for site_id, names in names_among(connection, sql, site_ids, [*{*sending, *named}]).items():
            if site_id in contexts:
                contexts[site_id] = _inherited(contexts[site_id], names, tags, configured[site_id])
    selecting = [site_id for site_id, context in contexts.items() if context.selections]
    for site_id, context in contexts.items():
        if not context.selections and context.baseline.fingerprint == OF_SELECTIONS:
            anew = replace(context.baseline, fingerprint=None, raw_fingerprint=None)
            contexts[site_id] = replace(context, baseline=anew)
    for site_id, states in (load_selection_states(connection, sql, selecting) if selecting else {}).items():
        contexts[site_id] = replace(contexts[site_id], states=states)
    return contexts


def _inherited(context: SiteContext, names: Sequence[str], tags: Tags, keep_screenshots: bool | None) -> SiteContext:
    """keep_screenshots: as the site itself says."""
    inherited = of_tags(names, tags)
    if keep_screenshots is None:
        keep_screenshots = bool(inherited.get("keep_screenshots"))
    return replace(
        context,
        tags=tuple(names),
        access=access_of_tags(context.access, names, tags),
        selections=selections_of_tags(context.own_selections, names, tags),
        render=context.render or str(inherited.get("render", "")),
        keep_screenshots=keep_screenshots,
        fault=context.fault or fault_of_tags(names, tags),
    )


def _readable(encryption: Encryption, row: Sequence[Any]) -> SiteContext:
    try:
        return _memory(NO_ACCESS if row[3] is None else encryption.decrypt(row[3]), *row)
    except (ValueError, TypeError, AttributeError, PermanentError) as error:
        return SiteContext(row[0], row[1], fault=_("its row in the database cannot be read: {error}", error=error))


def _memory(  # noqa: PLR0913 (the columns of a row)
    access: Access,
    site_id: int,
    url: str,
    settings_changed_at: float | None,
    sealed: bytes | None,
    selections: str | None,
    render: str | None,
    keep_screenshots: bool | None,
    spelling: str | None,
    etag: bytes | None,
    last_modified: bytes | None,
    fingerprint: bytes | None,
    raw_fingerprint: bytes | None,
    reader: int | None,
    no_text: str | None,
    media: str | None,
    items: bytes | None,
    ttl: float | None,
    ttl_broken: bool,
    feed_window: str | None,
    lm_seen: float | None,
    lm_good: int,
    lm_bad: int,
    polls_since_full: int,
    content_id: int | None,
    content_type: str | None,
    redirect_url: str | None,
    redirect_count: int,
    last_outcome: str | None,
    mask: bytes | None,
) -> SiteContext:
    baseline = Baseline(
        fingerprint=fingerprint,
        raw_fingerprint=raw_fingerprint,
        media=None if media is None else Media(media),
        items=items or b"",
        ttl=number(ttl),
        ttl_broken=bool(ttl_broken),
        last_modified=lm_seen,
        last_modified_good=lm_good,
        last_modified_bad=lm_bad,
        mask=mask or b"",
        proven=mask is not None,
        reader=FIRST_READER if reader is None else reader,
        no_text=no_text or "",
        window=stored_window(feed_window, site_id),
    )
    return SiteContext(
        site_id=site_id,
        url=url,
        validators=Validators(decode_header(etag), decode_header(last_modified)),
        baseline=baseline,
        polls_since_full=polls_since_full,
        content_id=content_id,
        content_type=content_type,
        redirect_url=redirect_url,
        redirect_count=redirect_count,
        settings_changed_at=settings_changed_at,
        last_outcome=None if last_outcome is None else OutcomeKind(last_outcome),
        access=access,
        selections=selections or "",
        own_selections=selections or "",
        render=render or "",
        keep_screenshots=bool(keep_screenshots),
        spelling=spelling or "",
    )
