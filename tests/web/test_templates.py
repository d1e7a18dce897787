"""No template can let text of others out as markup: read from the templates themselves."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from jinja2 import Environment

from pollerd.web.page import environment
from pollerd.web.words import visible

FOLDER = resources.files("pollerd.web") / "templates"
NAMES = sorted(file.name for file in FOLDER.iterdir())
FORBIDDEN = {
    "markup that nobody checked": r"\|\s*safe|Markup\(|autoescape",
    "an attribute without quotes": r"<(?:[^>\"]|\"[^\"]*\")*\s[\w-]+=(?!\")",
    "a handler": r"\son\w+\s*=",
    "a style": r"\sstyle\s*=|<style",
    "a script of its own": r"<script(?![^>]*\ssrc=)",
    "an address that runs": r"javascript:",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_no_template_holds(name: str, what: str) -> None:
    text = (FOLDER / name).read_text()
    assert not re.search(FORBIDDEN[what], re.sub(r"{%.*?%}|{#.*?#}", "", text, flags=re.DOTALL)), what


@pytest.fixture(scope="module")
def made() -> Environment:
    return environment(lambda name: f"/assets/0/{name}")


def test_everything_is_escaped_whatever_the_name_of_the_template(made: Environment) -> None:
    assert made.autoescape is True
    assert made.from_string("{{ x }}").render(x="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"


def test_what_hides_or_reorders_text_is_shown(made: Environment) -> None:
    shown = made.from_string("{{ x }}").render(x="a\u202eb\x00c\x1b[31m\ud800")
    assert shown == "a⟨RLO⟩b⟨00⟩c⟨ESC⟩[31m\ufffd"


def test_long_text_is_cut() -> None:
    assert len(visible("x" * 10_000)) == 2_001


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "JaVaScRiPt:x", "//x", ""])
def test_links_lead_to_the_web_only(made: Environment, url: str) -> None:
    assert made.from_string("{{ x|link }}").render(x=url) == ""


def test_a_name_that_is_not_given_is_an_error(made: Environment) -> None:
    with pytest.raises(Exception, match="undefined"):
        made.from_string("{{ y }}").render(x=1)


def test_markup_is_made_in_one_module() -> None:
    for file in resources.files("pollerd.web").iterdir():
        if file.name.endswith(".py") and file.name != "page.py":
            assert "Markup" not in file.read_text(), file.name
