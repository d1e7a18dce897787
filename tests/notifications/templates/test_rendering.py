"""Templates of users: what they make, what they may not do, that they end, and what is sent where they fail."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pollerd.daemon.workers import WorkerPool
from pollerd.errors import TooHeavyError
from pollerd.events import EventKind
from pollerd.notifications.templates import (
    LONGEST_TEMPLATE,
    NAMES,
    Body,
    TemplateError,
    body_of,
    check,
    context_of,
    render,
)
from pollerd.notifications.writing import Medium, message_of_group, message_of_one
from tests.support.sample_events import HOSTILE, change_event, other_event

MESSAGE = message_of_one(change_event())
CONTEXT = context_of(MESSAGE)
SEVERAL = context_of(
    message_of_group([change_event(1), other_event(EventKind.GONE)]), "https://pollerd.example/changes"
)


def text_of(template: str, medium: Medium = Medium.TEXT) -> str:
    return render(template, medium, CONTEXT)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ subject }}: {{ summary }}", "Shop 1 changed: 1 line added: «on sale»"),
        ("{{ site.title }} {{ site.url }} {{ site.tags }}", "Shop 1 https://shop.example/1 shop"),
        ("{{ change.values.price }} {{ change.values['price'] }}", "5.00 5.00"),
        ("{% for line in change.added %}+ {{ line }}\n{% endfor %}", "+ on sale\n+ for 5 €\n"),
        ("{{ change.added | join('\\n') }}", "on sale\nfor 5 €"),
        ("{% for name, value in change.values.items() %}{{ name|upper }}={{ value }}{% endfor %}", "PRICE=5.00"),
        ("{{ 'x' if change.matters else 'y' }}{{ change.why | replace('price', 'cost') }}", "xcost fell by 10 %"),
        (
            "{% set n = namespace(sum=0) %}{% for i in range(4) %}{% set n.sum = n.sum + i %}{% endfor %}{{ n.sum }}",
            "6",
        ),
        (
            "{{ change.nothing | default('none') }}{{ change.previous_poll_at | truncate(10, true, '') }}",
            "none2026-11-25",
        ),
        ("{{ event.facts | map(attribute='name') | join(',') }}", "price,matched,changed after,at"),
        (
            "{{ 2.345 | round(1) }} {{ none }} {{ true }} {{ link | url }}",
            "2.3  True https://pollerd.example/changes/1",
        ),
        ("{{ {'a': 1} }}{{ [1, none, 'x'] }}", '{"a":1}1, , x'),
    ],
)
def test_what_templates_make(template: str, text: str) -> None:
    check(template)
    assert text_of(template) == text


def test_several_events() -> None:
    template = (
        "{{ kind }} {{ count }}{% for event in events %} {{ loop.index }} {{ event.kind }}{% endfor %} {{ link }}"
    )
    expected = "group 2 1 site.gone 2 site.changed https://pollerd.example/changes"
    assert render(template, Medium.TEXT, SEVERAL) == expected
    with pytest.raises(TemplateError, match="line 1"):
        render("{{ change.summary }}", Medium.TEXT, SEVERAL)


def test_every_name_is_always_there() -> None:
    assert set(CONTEXT) == set(SEVERAL) == set(NAMES)


@pytest.mark.parametrize(
    ("template", "line", "reason"),
    [
        ("a\n{{ x", 2, "end of template"),
        ("{% for %}", 1, ""),
        ("\n{{ sumary }}", 2, "there is no value sumary; did you mean summary"),
        ("{{ summary | uper }}", 1, "there is no filter uper .*nearest: upper"),
        ("{{ summary | safe }}", 1, "no filter safe"),
        ("{{ summary | attr('x') }}", 1, "no filter attr"),
        ("{{ summary | format(1) }}", 1, "no filter format"),
        ("{{ summary | center(10) }}", 1, "no filter center"),
        ("{{ lipsum(5) }}", 1, "there is no value lipsum; known: "),
        ("{% include 'x' %}", 1, "include"),
        ("{% import 'x' as x %}", 1, "import"),
        ("{% from 'x' import y %}", 1, "import"),
        ("{% extends 'x' %}", 1, "extends"),
        ("{% macro m() %}{% endmacro %}", 1, "macro"),
        ("{% autoescape false %}{{ summary }}{% endautoescape %}", 1, "autoescape"),
        ("{% set x %}{{ summary }}{% endset %}", 1, "set as a block"),
        ("{% filter upper %}x{% endfilter %}", 1, "filter as a block"),
        ("{% for x in events recursive %}{% endfor %}", 1, "recursive"),
        ("{{ ''.__class__ }}", 1, "__class__ is private"),
        ("\n\n{{ change._x }}", 3, "_x is private"),
        ("{{ change['__class__'] }}", 1, "__class__ is private"),
        ("{{ _steps }}", 1, "_steps is private"),
        ("{% set _steps = 1 %}", 1, "_steps is private"),
        ("x" * (LONGEST_TEMPLATE + 1), None, "longer than"),
        ("{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}", None, "nested too deep"),
        ("{{ " + "not " * 4_000 + "1 }}", None, "nested too deep"),
        ("{% if 1 %}" * 300 + "{% endif %}" * 300, None, "nested too deep"),
        ("{{ " + "9" * 6_000 + " }}", None, "a number that is too long"),
    ],
)
def test_refused_when_it_is_set(template: str, line: int | None, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        check(template)
    assert caught.value.line == line
    assert re.search(reason, caught.value.reason), caught.value.reason


@pytest.mark.parametrize(
    ("template", "line", "reason"),
    [
        ("\n{{ change.nothing }}", 2, "has no attribute 'nothing'"),
        ("{{ event.data.failures }}", 1, "failures"),
        ("{% for i in range(10**9) %}x{% endfor %}", 1, "Range too big"),
        ("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", 1, "100,000 steps"),
        ("{% for i in range(1000) %}{% for j in range(1000)|map('upper') %}{% endfor %}{% endfor %}", 1, "steps"),
        ("a\n{{ 'x' * 10**9 }}", 2, "repetition that is too long"),
        ("{{ [1] * 10**9 }}", 1, "repetition that is too long"),
        ("{{ '%1000000000d' % 1 }}", 1, "not by %"),
        ("{{ 9**9**9 }}", 1, "too many digits"),
        ("{{ 10**60 * 10**60 * 10**60 }}", 1, "too many digits"),
        ("{% for i in range(100000) %}" + "x" * 1_000 + "{% endfor %}", None, "renders more than 200,000"),
        (
            "{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            1,
            "text of more than 200,000",
        ),
        (
            "{% set n = namespace(x='ab') %}{% for i in range(40) %}{% set n.x = n.x|replace('a', n.x) %}{% endfor %}",
            1,
            "text",
        ),
        (
            "{% set n = namespace(x=[1]) %}{% for i in range(40) %}{% set n.x = n.x + n.x %}{% endfor %}",
            1,
            "list of more",
        ),
        ("{{ (['x' * 90000] * 90000) | join }}", 1, "text of more than"),
        ("{{ 1 | round(10**9) }}", 1, "20 places"),
        ("{{ ''[('_' ~ '_class__')] }}", 1, "not allowed"),
        ("{{ change[('_' ~ '_class__')] }}", 1, "not allowed"),
        ("{{ 'x'.format(1) }}", 1, "not allowed"),
        ("{{ 'x'.ljust(10**9) }}", 1, "not allowed"),
        ("{{ change.added.append(1) }}", 1, "not allowed"),
        ("{{ change.values.clear() }}", 1, "not allowed"),
        ("{{ 'x'.upper }}", 1, "is no text"),
        ("{{ range }}", 1, "is no text"),
        ("{{ self }}", 1, "is no text"),
        ("{{ range(3) | map('upper') }}", 1, "join makes one"),
        ("{{ events | map(attribute='site.title.__class__') | list }}", 1, "unsafe"),
        ("{{ 1 / 0 }}", 1, "division by zero"),
        ("{{ summary + 1 }}", 1, ""),
        ("{{ summary() }}", 1, "not callable"),
    ],
)
def test_fails_when_it_is_rendered(template: str, line: int | None, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        text_of(template)
    assert caught.value.line == line
    assert re.search(reason, caught.value.reason), caught.value.reason
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "it comes from another process"


@pytest.mark.parametrize("text", HOSTILE)
def test_values_are_escaped_for_the_medium(text: str) -> None:
    event = change_event(summary=text, added=(text, text), values={"v": text})
    context = context_of(message_of_one(event))
    template = (
        "<b>{{ change.summary }}</b>{{ change.added|join('\\n') }}{{ change.values }}{{ change.summary|e|upper }}"
    )
    page = render(template, Medium.HTML, context)
    assert set(re.findall("<[^>]*>", page)) == {"<b>", "</b>"}
    chat = render(template.replace("<b>", "**").replace("</b>", "**"), Medium.MARKDOWN, context)
    rendered = MarkdownIt("commonmark").render(chat)
    assert set(re.findall(r"<(\w+)", rendered)) <= {"p", "br", "strong"}
    assert not re.search(r"@(?!\u200b)|<|`|\[", chat)
    assert "\u202e" not in chat + page


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "{{ ",
                    " }}",
                    "{% for x in events %}",
                    "{% endfor %}",
                    "change",
                    ".added",
                    "['a']",
                    "|join",
                    "|upper",
                ),
                *(
                    "x",
                    " ~ ",
                    "*",
                    "**",
                    "10",
                    "range(9)",
                    "{% if x %}",
                    "{% endif %}",
                    "('_'",
                    "_class__",
                    "|list",
                    "(",
                ),
                *(
                    ")",
                    "[",
                    "]",
                    "'",
                    "|sort",
                    ".values",
                    "()",
                    "{# ",
                    " #}",
                    "\n",
                    "é",
                    "{% set x = 1 %}",
                    "namespace()",
                ),
            ]
        ),
        max_size=14,
    ).map("".join)
)
def test_any_template_renders_or_says_why_not(template: str) -> None:
    made = said = ""
    try:
        made = text_of(template)
    except TemplateError as error:
        said = str(error)
    assert len(made) <= 200_000
    assert "\n" not in said


async def test_in_a_process_with_limits() -> None:
    """What the bounds let through for too long ends by the caller's clock, and the built-in body is told."""
    pool = WorkerPool(1, patience_seconds=2.0, memory_bytes=1 << 30)
    try:
        assert await pool.do(render, "{{ summary }}", Medium.TEXT, CONTEXT) == "1 line added: «on sale»"
        with pytest.raises(TemplateError, match="line 1"):
            await pool.do(render, "{{ change.nothing }}", Medium.TEXT, CONTEXT)
        endless = "{% for i in range(90000) %}{{ range(90000)|sort|sum }}{% endfor %}"
        with pytest.raises(TooHeavyError) as caught:
            await pool.do(render, endless, Medium.TEXT, CONTEXT)
        body = body_of(MESSAGE, Medium.TEXT, caught.value)
        assert body == Body(MESSAGE.text, "template: it takes more than 2 s of CPU time")
    finally:
        pool.close()


def test_where_a_template_fails_the_built_in_message_is_sent() -> None:
    assert body_of(MESSAGE, Medium.TEXT, "made") == Body("made")
    failed = TemplateError("'x' is undefined", 3)
    for medium, text in ((Medium.TEXT, MESSAGE.text), (Medium.HTML, MESSAGE.html), (Medium.MARKDOWN, MESSAGE.markdown)):
        assert body_of(MESSAGE, medium, failed) == Body(text, "template, line 3: 'x' is undefined")
    assert body_of(MESSAGE, Medium.TEXT, " \n") == Body(MESSAGE.text, "template: it renders nothing")
    heavy = TooHeavyError("its process ended twice")
    assert body_of(MESSAGE, Medium.TEXT, heavy).problem == "template: its process ended twice"
