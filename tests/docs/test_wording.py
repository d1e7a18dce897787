"""The style of texts is held by a script, which finds planted errors and ends with 1 for them."""

from __future__ import annotations

import sys

import pytest
import wording
from wording import RULES, Text, document, everything, faults, strings, template_text

PLANTED = {
    "tell": Text("message", "x", "users are told of changes"),
    "believe": Text("api", "x", "the believed rate"),
    "anew": Text("help", "x", "Starts anew."),
    "seldom": Text("document", "x", "It polls seldomer."),
    "beside": Text("document", "x", "The key is beside the file."),
    "in place of": Text("message", "x", "text in place of Markdown"),
    "nobody": Text("page", "x", "Nobody is signed in."),
    "whoever": Text("document", "x", "Whoever can read it."),
    "of ours": Text("message", "x", "a fault of ours"),
    "of its own": Text("document", "x", "a device of its own"),
    "as in": Text("message", "x", "seconds, or as in 30m"),
    "withdraw": Text("page", "x", "a withdrawn token"),
    "stands in": Text("document", "x", "It stands in the list."),
    "so many": Text("message", "x", "at most so many"),
    "split": Text("page", "x", "evenly split"),
    "left out": Text("api", "x", "left out: the default"),
    "an hour": Text("document", "x", "5 polls a second"),
    "dead": Text("api", "x", "a message is dead at once"),
    "verb": Text("command", "pollerd x", "Lists sites."),
    "repeatable": Text("help", "x", "Tag; can be given more than once."),
    "no subject": Text("help", "x", "The name. Is read at the start."),
    "example": Text("help", "x", "Time, as 6h."),
    "amount": Text("help", "x", "Stop after so many lines."),
    "what": Text("command", "pollerd x", "Show what changed."),
    "may": Text("help", "x", "Number of sites that it may have."),
    "adjective": Text("help", "x", "Longest."),
}


def test_every_rule_has_a_planted_error() -> None:
    assert list(PLANTED) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name: str) -> None:
    assert [said.split("'")[1] for _, said in faults([PLANTED[name]])] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Show a site, and why it is polled this often.",
        "must be at least 1, for example 5",
        "To keep the previous content, use `anew`.",
        "Which pages are due? Is one overdue?",
    ],
)
def test_plain_texts_pass(text: str) -> None:
    assert list(faults([Text("command", "pollerd x", text)])) == []


def test_long_sentences_are_found_but_in_documents() -> None:
    long = f"The page {'and the page ' * 9}is polled."
    (found,) = faults([Text("message", "x", long), Text("document", "y", long)])
    assert (found[0].place, "31 words" in found[1]) == ("x", True)
    assert list(faults([Text("readme", "x", long.replace("and the page and", "and the page; then"))])) == []


def test_strings_of_a_module_are_its_sentences() -> None:
    source = '''"""A docstring that tells."""
X = f"the site {x} is told"
SQL = "SELECT a FROM site WHERE told"
NAME = "told"
Y = "two " "parts"
'''
    assert [text.text for text in strings(source, "m.py")] == ["the site X is told", "two parts"]


def test_templates_show_their_texts_and_attributes() -> None:
    shown = template_text('{# told #}<p title="one title">A {{ told }} text</p>{% if told %}<b>B</b>{% endif %}')
    assert "told" not in shown
    assert [line.strip() for line in shown.splitlines() if line.strip(" X")] == ["A  X  text", "B", "one title"]


def test_documents_have_paragraphs_without_code_and_tables_of_commands() -> None:
    source = "A line\nand `told`.\n\n```\ntold\n```\n<!-- command: x -->\n| told |\n|---|\n\n- [item](told.md)\n"
    assert [text.text for text in document(source, "p.md")] == ["A line and `told`.", "- [item]"]


def test_all_texts_of_the_program_and_its_documents_pass() -> None:
    texts = list(everything())
    assert {text.kind for text in texts} == {"command", "help", "api", "message", "document", "readme", "page"}
    assert len(texts) > 5_000
    assert [(text.place, said) for text, said in faults(texts)] == []


@pytest.mark.parametrize(("text", "code"), [("what was told", 1), ("what was sent", 0)])
def test_the_script_fails_when_a_text_breaks_a_rule(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, code: int
) -> None:
    monkeypatch.setattr(wording, "everything", lambda: iter([Text("message", "pollerd/x.py:1", text)]))
    monkeypatch.setattr(sys, "argv", ["wording.py"])
    assert wording.main() == code
    assert ("pollerd/x.py:1: 'tell' (told)" in capsys.readouterr().out) == bool(code)
