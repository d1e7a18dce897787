"""Groups of changedetection.io (its tags): they add to the lists of their watches."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

from pollerd.moving.changedetection.defaults import DISPLAY, INTERNAL, says_nothing
from pollerd.moving.changedetection.instance import Item, table, texts
from pollerd.moving.moved import Report
from pollerd.texts import N_, _

LISTS = (
    *("include_filters", "subtractive_selectors", "ignore_text", "trigger_text", "text_should_not_be_present"),
    *("extract_text", "extract_lines_containing"),
)
"""Fields that a group adds to those of its watches, whatever `overrides_watch` says."""
RESTOCK = "processor_config_restock_diff"
_JOINED = N_("written into each of its watches: later changes of the group reach none of them")


@dataclass(frozen=True, slots=True)
class WatchGroups:
    """The groups of one watch, in order."""

    tags: tuple[Item, ...]
    known: frozenset[str]
    by_pattern: tuple[str, ...]
    """Titles of those that it is in by their URL pattern."""

    @classmethod
    def of(cls, watch: Item, groups: Mapping[str, Item], url: str) -> WatchGroups:
        """Returns the groups of a watch: those that it names, then those whose pattern its URL fits."""
        named = [uuid for uuid in texts(watch.get("tags")) if uuid in groups]
        fitting = [uuid for uuid, tag in groups.items() if uuid not in named and _fits(tag, url)]
        titles = tuple(str(groups[uuid].get("title") or uuid) for uuid in fitting)
        return cls(tuple(groups[uuid] for uuid in [*named, *fitting]), frozenset(groups), titles)

    @property
    def titles(self) -> list[str]:
        """Titles of all groups of the watch."""
        return [str(tag["title"]) for tag in self.tags if tag.get("title")]

    def joined(self, key: str, own: object) -> list[str]:
        """Returns the watch's own texts of a list and those of its groups, each once."""
        added = [text for tag in self.tags for text in texts(tag.get(key))]
        return list(dict.fromkeys([*texts(own), *added]))

    def restock(self, own: Item) -> Item:
        """Returns the settings of prices and stock: of the first group that overrides, else the watch's."""
        for tag in self.tags:
            if tag.get("overrides_watch") and tag.get(RESTOCK):
                return table(tag[RESTOCK])
        return own


def _fits(tag: Item, url: str) -> bool:
    pattern = str(tag.get("url_match_pattern") or "").strip().lower()
    if not pattern or not url:
        return False
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatchcase(url.lower(), pattern)
    return pattern in url.lower()


def report_groups(groups: Mapping[str, Item], report: Report) -> None:
    """Says of each field of each group what becomes of it."""
    for uuid, tag in groups.items():
        told = report.of(f"group {tag.get('title') or uuid[:8]}")
        for key, value in tag.items():
            if key in ("title", "uuid"):
                told.carried(key)
            elif key in DISPLAY or key in INTERNAL:
                told.display(key)
            elif says_nothing(key, value):
                told.nothing_said(key)
            elif key in LISTS or key in ("url_match_pattern", "overrides_watch", RESTOCK):
                told.approximated(key, _(_JOINED))
            else:
                told.not_carried(key, _("only lists, prices and stock of a group reach its watches"))
