"""How a page is rendered, as compiled from what the user says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class StepAction(StrEnum):
    """What a step does to the page before it is read."""

    CLICK = "click"
    CLICK_IF_EXISTS = "click_if_exists"
    TYPE = "type"
    PRESS = "press"
    CHECK = "check"
    SELECT = "select"
    WAIT_FOR = "wait_for"
    WAIT_FOR_TEXT = "wait_for_text"
    WAIT = "wait"
    SCROLL = "scroll"
    SCROLL_TO = "scroll_to"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class RenderStep:
    """One step. Its value may be a secret: neither `repr` nor an error shows it."""

    action: StepAction
    selector: str = ""
    """CSS; empty where the action has none."""
    value: str = field(default="", repr=False)
    """What is typed, pressed, selected, or looked for."""
    number: float = 0.0
    """Seconds of `wait`; pixels of `scroll`, 0: to the bottom."""
    timeout: float = 10.0
    """Seconds."""
    secret: bool = False
    """Whether `value` is a secret, to be sealed in the database."""


@dataclass(frozen=True, slots=True)
class RenderWait:
    """What is waited for before the steps, in this order."""

    idle: bool = True
    """Until the network is idle for half a second, at most ten seconds: some pages never rest."""
    selector: str | None = None
    """Until an element of this CSS selector is there; none in time is a failure."""
    seconds: float = 0.0
    """For so long."""


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """How a page is rendered."""

    wait: RenderWait = RenderWait()
    block: frozenset[str] = frozenset({"image", "media", "font"})
    """Types of resources that are not loaded."""
    steps: tuple[RenderStep, ...] = ()
    screenshot: bool = False
    """Whether a PNG is taken of it; no part of the document, but what the site's `keep_screenshots` says."""
    timeout: float | None = None
    """Seconds for the whole poll, at most the daemon's deadline; None: that."""
    width: int = 1280
    height: int = 720
    """The viewport, in CSS pixels."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of its steps."""
        return tuple(step.value for step in self.steps if step.secret)
