"""A rule as a value: which events, of which sites, are told on which channels, and when."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pollerd.events import EventKind
from pollerd.model import Media, OutcomeKind, Windows
from pollerd.notifications.schedule.digest import Digest

PatternSettings = Mapping[str, object]
"""`{"text": …, "case": false}` or `{"re": …}`, as `detection.selection.expressions.pattern` compiles them."""


class RuleScope(Struct, frozen=True):
    """Which sites a rule concerns: those with one of the ids, tags or hosts; without any of these, all sites.

    media, selections: of these, only changes of such contents, or found in such a selection.
    """

    ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    media: tuple[Media, ...] = ()
    selections: tuple[str, ...] = ()


class Words(Struct, frozen=True):
    """Patterns of which one must be found: in the summary of a change, or in a line that it added or removed."""

    summary: tuple[PatternSettings, ...] = ()
    added: tuple[PatternSettings, ...] = ()
    removed: tuple[PatternSettings, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.summary or self.added or self.removed)


class Patience(Struct, frozen=True, gc=False):
    """When a site counts as failing: after so many polls in a row, or so many seconds, whichever comes first."""

    after_polls: int | None = 3
    after: float | None = None
    """Seconds since the site was last seen working, or was added."""
    except_outcomes: tuple[OutcomeKind, ...] = ()
    """A poll with such an outcome is never the one with which a site begins to fail."""


class Rule(Struct, frozen=True):
    """Who is told of what."""

    name: str
    channels: tuple[str, ...]
    """Names of channels."""
    id: int = 0
    """Its row; 0: it has none yet."""
    events: tuple[EventKind, ...] = (EventKind.CHANGED,)
    scope: RuleScope = RuleScope()
    matters: bool = True
    """Of changes only those that matter by the conditions of their selection."""
    words: Words = Words()
    failing: Patience = Patience()
    digest: Digest | None = None
    """None: told at once."""
    quiet: Windows | None = None
    """Hours in which nothing is sent; what they hold back is told at their end, in one digest."""
    muted_until: float | None = None
    """Until then (epoch s) the rule matches nothing."""
    enabled: bool = True

    def is_silent(self, now: float) -> bool:
        """Returns whether the rule is switched off or muted."""
        return not self.enabled or (self.muted_until is not None and now < self.muted_until)
