"""What a site inherits: its own settings go before those of its tags, in the site's order, and those before defaults.

Pure: values in, values out. `site_settings` says which settings are inherited, and the default of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from pollerd.site_settings import INHERITED, NO_ACCESS, NUMERIC_SETTINGS, Access, SiteSpec, Tags, TagSettings

SITE, DEFAULT = "site", "default"
"""Origins of values besides tags."""

Origins = dict[str, str]
"""Where each setting comes from: "site", "tag NAME" or "default"; several, where values are joined."""


_DEFAULT = "default"
_WITHOUT_ELEMENTS = frozenset({"json", "feed", "pdf", "text", "source", "bytes"})
_ON_TEXT = frozenset({"lines", "replace", "find", "space", "case", "unique", "sort"})


def joined_selections(documents: Sequence[str]) -> str:
    """Returns one document of several, nearest first; at least one. A selection with `"inherit": false` stays alone."""
    nearest, *others = (orjson.loads(document) for document in documents)
    if not others:
        return documents[0]
    joined = {name: _joined(name, selection, others) for name, selection in nearest.items()}
    return orjson.dumps(joined, option=orjson.OPT_SORT_KEYS).decode()


def _joined(name: str, own: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if own.get("inherit") is False:
        return own
    steps = list(own.get("steps", []))
    theirs = [step for other in others for step in other.get(name, other.get(_DEFAULT, {})).get("steps", [])]
    removals = [step for step in theirs if "remove" in step and _fits(step, steps)]
    drops = [{"lines": {"drop": step["lines"]["drop"]}} for step in theirs if "drop" in step.get("lines", {})]
    first = next((i for i, step in enumerate(steps) if "as" not in step), len(steps))
    steps[first:first] = removals
    on_text = next((i for i, step in enumerate(steps) if _ON_TEXT & step.keys()), len(steps))
    steps[on_text:on_text] = drops
    return {**own, "steps": steps} if steps else own


def _fits(removal: dict[str, Any], steps: Sequence[dict[str, Any]]) -> bool:
    """Returns whether something can be removed in this way before these steps."""
    if any("items" in step for step in steps):
        return False
    read_as = next((step["as"] for step in steps if "as" in step), "auto")
    of_json = [_by_jsonpath(step) for step in steps if "keep" in step or "remove" in step]
    if _by_jsonpath(removal):  # of a page, or of a document that may be one, nothing is removed by JSONPath
        return read_as in ("auto", "json") and (any(of_json) or read_as == "json")
    return read_as not in _WITHOUT_ELEMENTS and not any(of_json)


def _by_jsonpath(step: dict[str, Any]) -> bool:
    return "jsonpath" in orjson.dumps(step).decode()


_JOINS: Mapping[str, Callable[[Sequence[Any]], Any]] = {"selections": joined_selections}
"""Makes one value of those that are given, nearest first, at least one; of other settings the nearest counts."""


def origin_of_tag(name: str) -> str:
    """Returns the origin "tag NAME"."""
    return f"tag {name}"


def effective(spec: SiteSpec, tags: Tags) -> tuple[SiteSpec, Origins]:
    """Returns the settings by which the site is polled, and the origin of each.

    Unset settings of the result are the daemon's. Headers are joined name by name; one that is named Authorization, and
    credentials, stand for the same thing: the nearest of them wins.
    """
    own = {name: value if (value := getattr(spec, name)) != "" else None for name in INHERITED}
    levels: list[tuple[str, Mapping[str, Any], Access]] = [(SITE, own, spec.access)]
    levels += [(origin_of_tag(tag.name), tag.settings, tag.access) for tag in _those_of(spec.tags, tags)]
    values: dict[str, Any] = {}
    origins: Origins = {}
    for name, setting in INHERITED.items():
        stated = [(origin, fields[name]) for origin, fields, _ in levels if fields.get(name) is not None]
        used = stated if name in _JOINS else stated[:1]
        values[name] = _joined_values(name, [value for _, value in used]) if used else setting.default
        origins[name] = ", ".join(origin for origin, _ in used) or DEFAULT
    access, of_access = _access([(origin, access) for origin, _, access in levels if access])
    return replace(spec, **values, access=access), origins | of_access


def _joined_values(name: str, values: Sequence[Any]) -> Any:
    return _JOINS[name](values) if name in _JOINS else values[0]


def inherit(spec: SiteSpec, tags: Tags) -> SiteSpec:
    """Returns the settings by which the site is polled, as `effective`; cheap for a site without tags that say any."""
    if tags and spec.tags and any(name in tags for name in spec.tags):
        return effective(spec, tags)[0]
    if spec.weight is not None and spec.cost is not None:
        return spec
    weight = NUMERIC_SETTINGS["weight"] if spec.weight is None else spec.weight
    cost = NUMERIC_SETTINGS["cost"] if spec.cost is None else spec.cost
    return replace(spec, weight=weight, cost=cost)


def inherit_all(specs: Sequence[SiteSpec], tags: Tags) -> Sequence[SiteSpec]:
    """Returns `inherit` of each; where no tag has settings, the specs as they are."""
    return [inherit(spec, tags) for spec in specs] if tags else specs


READ_BY_POLLS = ("selections", "render", "keep_screenshots")
"""Settings that decide what of an answer counts, and how it is fetched; a poll finds them in its `SiteContext`."""


def polled_otherwise(before: SiteSpec, after: SiteSpec) -> bool:
    """Returns whether polls send something else, or read the answer otherwise, given all that is in force."""
    return any(getattr(before, name) != getattr(after, name) for name in (*READ_BY_POLLS, "access"))


def read_by_polls(tag: TagSettings | None) -> tuple[object, ...]:
    """Returns what of a tag decides what its sites send, and what of the answers counts; None: it has no settings."""
    if tag is None:
        return (*(None for _ in READ_BY_POLLS), NO_ACCESS, "")
    return (*(tag.settings.get(name) for name in READ_BY_POLLS), tag.access, tag.fault)


def of_tags(names: Iterable[str], tags: Tags) -> Mapping[str, Any]:
    """Returns the settings that a site without any of its own would inherit from these tags, in their order."""
    settings = [tag.settings for tag in _those_of(names, tags)]
    by_name = {name: [fields[name] for fields in settings if fields.get(name) is not None] for name in INHERITED}
    return {name: _joined_values(name, values) for name, values in by_name.items() if values}


def access_of_tags(own: Access, names: Iterable[str], tags: Tags) -> Access:
    """Returns what requests of a site with this access and these tags carry."""
    return _access([("", access) for access in (own, *(tag.access for tag in _those_of(names, tags))) if access])[0]


def selections_of_tags(own: str, names: Iterable[str], tags: Tags) -> str:
    """Returns what of its page counts for a site with these selections of its own and these tags."""
    documents = [own, *(tag.settings.get("selections") for tag in _those_of(names, tags))]
    texts = [str(document) for document in documents if document]
    return joined_selections(texts) if texts else ""


def fault_of_tags(names: Iterable[str], tags: Tags) -> str:
    """Returns why the first unusable of these tags cannot be used; empty: all can."""
    return next((tag.fault for tag in _those_of(names, tags) if tag.fault), "")


def may_leak(names: Iterable[str], tags: Tags) -> list[str]:
    """Returns those of the tags that carry headers or credentials, which must not follow a site elsewhere."""
    return [tag.name for tag in _those_of(names, tags) if tag.access.elsewhere() != tag.access]


def _those_of(names: Iterable[str], tags: Tags) -> list[TagSettings]:
    return [tags[name] for name in names if name in tags]


def _access(levels: Sequence[tuple[str, Access]]) -> tuple[Access, Origins]:
    """Joins the access of levels, nearest first."""
    if not levels:
        return NO_ACCESS, {}
    headers: dict[str, tuple[str, str]] = {}
    origins: Origins = {}
    credentials = proxy = body = pdf_password = None
    typed: tuple[str, ...] = ()
    for origin, access in levels:
        authorised = credentials is not None or "authorization" in headers
        for name, value in access.headers:
            if name.lower() not in headers and not (authorised and name.lower() == "authorization"):
                headers[name.lower()] = name, value
                origins[f"headers.{name}"] = origin
        if access.credentials is not None and not authorised:
            credentials, origins["credentials"] = access.credentials, origin
        if access.body is not None and body is None:
            body, origins["body"] = access.body, origin
        typed = typed or access.typed
        if access.pdf_password is not None and pdf_password is None:
            pdf_password, origins["pdf_password"] = access.pdf_password, origin
        if access.proxy is not None and proxy is None:
            proxy, origins["proxy"] = access.proxy, origin
    return Access(tuple(headers.values()), credentials, proxy, body, typed, pdf_password), origins
