"""Watches of changedetection.io to sites, with what their groups and the settings add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pollerd.moving.changedetection import browser, conditions, restock, schedule, steps
from pollerd.moving.changedetection.defaults import DEFAULTS, DISPLAY, INTERNAL, LOST, says_nothing
from pollerd.moving.changedetection.groups import WatchGroups, report_groups
from pollerd.moving.changedetection.instance import Instance, Item, Watch, table, texts
from pollerd.moving.changedetection.settings import Settings, report_settings
from pollerd.moving.draft import Draft
from pollerd.moving.join import join
from pollerd.moving.moved import Fate, Moved, Report
from pollerd.moving.request import add_header, set_headers, set_proxy, set_tags, set_url
from pollerd.texts import _

_SOURCE_PREFIX = "source:"
_JINJA = ("{{", "{%")


@dataclass(slots=True)
class WatchContext:
    """A watch while it is being converted."""

    draft: Draft
    fields: Item
    """Without what was applied already."""
    groups: WatchGroups
    settings: Settings
    exact: bool

    def take(self, key: str, default: object = None) -> object:
        """Returns a field, which counts as applied."""
        return self.fields.pop(key, default)


def move(instance: Instance, *, exact: bool = False) -> Moved:
    """Converts all watches. exact: compare the source of pages where a watch of `source:` does."""
    report = Report()
    for what, why in instance.unread:
        report.add("source", what, Fate.NOT_CARRIED, why)
    settings = report_settings(instance.settings, report.of("settings"))
    report_groups(instance.groups, report)
    drafts = list[Draft]()
    for watch in instance.watches:
        draft = _converted(watch, instance, settings, report, exact=exact)
        drafts.append(draft)
    results = {
        draft.report.source: watch.result
        for draft, watch in zip(drafts, instance.watches, strict=True)
        if watch.result is not None
    }
    return replace(join(drafts, report), results=results)


def _converted(watch: Watch, instance: Instance, settings: Settings, report: Report, *, exact: bool) -> Draft:
    draft = Draft(report.of(_source(watch)))
    url = watch.fields.get("url")
    groups = WatchGroups.of(watch.fields, instance.groups, url if isinstance(url, str) else "")
    context = WatchContext(draft, dict(watch.fields), groups, settings, exact)
    usable = _set_url(context)
    _set_names(context)
    _set_request(context, watch)
    browser.apply(draft, context.fields, settings)
    schedule.apply(draft, context.fields, groups, settings)
    steps.apply(draft, context.fields, groups, settings)
    restock.apply(draft, context.fields, groups)
    conditions.apply(draft, context.fields, groups)
    for key, value in context.fields.items():
        _report_rest(draft, key, value)
    draft.is_left_out = not usable or not draft.url
    return draft


def _source(watch: Watch) -> str:
    names = (watch.fields.get(key) for key in ("title", "url"))
    name = next((name for name in names if isinstance(name, str) and name), None) or _("without URL")
    return f"watch {watch.uuid[:8]} ({name})"


def _set_url(context: WatchContext) -> bool:
    draft, url = context.draft, context.take("url")
    if isinstance(url, str) and any(sign in url for sign in _JINJA):
        draft.report.not_carried("url", _("a template (Jinja2) is not rendered: the whole watch is skipped"))
        return False
    if isinstance(url, str) and url.lower().startswith(_SOURCE_PREFIX):
        url = url[len(_SOURCE_PREFIX) :]
        draft.add_step(_("url (source:)"), {"as": "source"})
        draft.report.carried(_("url (source:)"))
    return set_url(draft, "url", url)


def _set_names(context: WatchContext) -> None:
    draft = context.draft
    title, paused, muted = (context.take(key) for key in ("title", "paused", "notification_muted"))
    if title:
        draft.fields["title"] = draft.name = str(title)
    if paused:
        draft.fields["paused"] = True
    if muted:
        draft.fields["muted"] = True
    for key, value in (("title", title), ("paused", paused), ("notification_muted", muted)):
        draft.report.carried(key) if value else draft.report.nothing_said(key)
    _set_tags(context)


def _set_tags(context: WatchContext) -> None:
    draft, tags, old = context.draft, context.take("tags"), context.take("tag")
    titles = [*context.groups.titles, *(part.strip() for part in str(old or "").split(",") if part.strip())]
    if titles:
        set_tags(draft, "tags", titles)
    else:
        draft.report.nothing_said("tags")
    for uuid in texts(tags):
        if uuid not in context.groups.known:
            draft.report.not_carried("tags", _("names a group that is not in what was read"))
    draft.report.carried("tag") if old else draft.report.nothing_said("tag")
    for uuid in context.groups.by_pattern:
        draft.report.approximated(
            "tags", _('its group "{uuid}" joins it by a URL pattern: settled now, once', uuid=uuid)
        )


def _set_request(context: WatchContext, watch: Watch) -> None:
    draft = context.draft
    method, body = str(context.take("method", "GET") or "GET").upper(), context.take("body")
    if method not in ("GET", "POST"):
        draft.report.not_carried(
            "method", _("only GET and POST are sent, not {method}: the watch is skipped", method=method[:20])
        )
        draft.url = ""
    elif method == "POST":
        draft.fields["method"] = method
        draft.report.carried("method")
    else:
        draft.report.nothing_said("method")
    _set_body(draft, body)
    _set_headers(context, watch)
    _set_proxy(context)


def _set_body(draft: Draft, body: object) -> None:
    if not body:
        draft.report.nothing_said("body")
    elif any(sign in str(body) for sign in _JINJA):
        draft.report.not_carried("body", _("a template (Jinja2) is not rendered: the watch is skipped"))
        draft.url = ""
    else:
        draft.fields["body"] = str(body)
        draft.report.carried("body")


def _set_headers(context: WatchContext, watch: Watch) -> None:
    """The settings' headers replace a watch's, and those of headers.txt both, as in the program."""
    draft, headers = context.draft, context.take("headers", {})
    rendered = {name for name, value in table(headers).items() if any(sign in str(value) for sign in _JINJA)}
    for name in rendered:
        draft.report.not_carried(f"headers.{name}", _("a template (Jinja2) is not rendered"))
    kept = {name: value for name, value in table(headers).items() if name not in rendered}
    set_headers(draft, "headers", kept if isinstance(headers, Mapping) else {})
    for name, value in context.settings.headers.items():
        add_header(draft, f"settings.headers.{name}", name, value)
    for name, value in watch.headers.items():
        add_header(draft, f"headers.txt.{name}", name, value)


def _set_proxy(context: WatchContext) -> None:
    draft, key = context.draft, context.take("proxy")
    if not key:
        draft.report.nothing_said("proxy")
    elif str(key) in context.settings.proxies:
        set_proxy(draft, "proxy", context.settings.proxies[str(key)])
    else:
        draft.report.not_carried("proxy", _("it names a proxy whose URL is not in what was read"))


def _report_rest(draft: Draft, key: str, value: object) -> None:
    """Says of each field that is left what it is."""
    if key in DISPLAY or key in INTERNAL:
        draft.report.display(key)
    elif says_nothing(key, value) and not (value is False and DEFAULTS.get(key) is True):
        draft.report.nothing_said(key)
    else:
        draft.report.not_carried(key, LOST.get(key, _("pollerd does not know this field")))
