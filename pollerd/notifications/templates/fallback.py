"""What is sent where a template fails: the built-in message, and why."""

from __future__ import annotations

from typing import NamedTuple

from pollerd.errors import PollerdError
from pollerd.notifications.message import Message
from pollerd.notifications.messages.escaping import Medium
from pollerd.notifications.messages.plain import one_line
from pollerd.notifications.templates.error import TemplateError

_LONGEST_PROBLEM = 300


class Body(NamedTuple):
    """The body of a message; problem: why it is the built-in one in place of the template's, empty if it is not."""

    text: str
    problem: str = ""


def body_of(message: Message, medium: Medium, rendered: str | PollerdError) -> Body:
    """Returns what a template rendered, or the built-in body where it failed: nothing stays untold for a template.

    rendered: the result of `render`, or what the process in which it ran raised: TemplateError or TooHeavyError. A body
    of nothing but white space is a failure, too.
    """
    if isinstance(rendered, str) and rendered.strip():
        return Body(rendered)
    return Body(built_in_body(message, medium), _problem(rendered))


def built_in_body(message: Message, medium: Medium) -> str:
    """Returns the body without a template."""
    bodies = {Medium.TEXT: message.text, Medium.HTML: message.html, Medium.MARKDOWN: message.markdown}
    return bodies[medium]


def _problem(rendered: str | PollerdError) -> str:
    if isinstance(rendered, str):
        return "template: it renders nothing"
    return one_line(str(rendered) if isinstance(rendered, TemplateError) else f"template: {rendered}", _LONGEST_PROBLEM)
