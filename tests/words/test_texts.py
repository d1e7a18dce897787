"""Texts in the language of the reader, of the command, of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from pollerd import texts
from pollerd.plots import moment_text
from pollerd.texts import N_, _, n_, speaking
from pollerd.web.page import environment

PO = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);\n"

msgid "no site has the URL {url}"
msgstr "{url}: żadna strona nie ma tego adresu"

msgid "{count} poll"
msgid_plural "{count} polls"
msgstr[0] "{count} pobranie"
msgstr[1] "{count} pobrania"
msgstr[2] "{count} pobrań"

msgid "about {days:,.1f} days"
msgstr "około {days:,.1f} dnia"

msgid "see {link}"
msgstr "zobacz {linc}"

msgid "<b>%(name)s</b> changed"
msgstr "zmiana: <b>%(name)s</b>"

msgid "Sites"
msgstr "Strony"

msgid "%Y-%m-%d %H:%M"
msgstr "%d.%m.%Y %H:%M"
"""


@pytest.fixture
def polish(tmp_path: Path) -> texts.TextLanguage:
    file = tmp_path / "pollerd.po"
    file.write_text(PO)
    return texts.translated("pl", file)


def test_english_stays() -> None:
    assert _("no site has the URL {url}", url="{url}") == "no site has the URL {url}"
    assert _("{not a value}") == "{not a value}"
    assert [n_("{count} poll", "{count} polls", n) for n in (0, 1, 1204, 2.6)] == [
        "0 polls",
        "1 poll",
        "1,204 polls",
        "3 polls",
    ]


def test_texts_numbers_plurals_and_times_are_those_of_the_language(polish: texts.TextLanguage) -> None:
    constant = N_("Sites")
    with speaking(polish):
        assert _("no site has the URL {url}", url="a{b}c") == "a{b}c: żadna strona nie ma tego adresu"
        assert [n_("{count} poll", "{count} polls", n) for n in (1, 3, 1205)] == [
            "1 pobranie",
            "3 pobrania",
            "1\u00a0205 pobrań",
        ]
        assert _("about {days:,.1f} days", days=1234.5) == "około 1\u00a0234,5 dnia"
        assert _(constant) == "Strony"
        assert moment_text(0.0) == "01.01.1970 00:00"
        assert (_("no translation of {this}", this=1), _("")) == ("no translation of 1", "")
    assert _(constant) == "Sites"


def test_scripts_get_the_plurals_by_the_categories_that_browsers_know(polish: texts.TextLanguage) -> None:
    one, few, many = "{count} pobranie", "{count} pobrania", "{count} pobrań"
    assert polish.plurals("{count} poll", "{count} polls") == {"one": one, "few": few, "many": many, "other": many}
    assert texts.language("en").plurals("one", "many") == {"one": "one", "other": "many"}


def test_a_translation_that_names_an_unknown_value_is_not_used(polish: texts.TextLanguage) -> None:
    with speaking(polish):
        assert _("see {link}", link="/x") == "see /x"


def test_templates_are_translated_and_values_are_escaped_and_visible(polish: texts.TextLanguage) -> None:
    made = environment(lambda name: name)
    template = made.from_string(
        "{% trans name=name %}<b>{{ name }}</b> changed{% endtrans %} "
        "{{ _('Sites') }} {{ n_('{count} poll', '{count} polls', 3) }}"
    )
    assert template.render(name="<i>\u202e") == "<b>&lt;i&gt;⟨RLO⟩</b> changed Sites 3 polls"
    with speaking(polish):
        assert template.render(name="<i>\u202e") == "zmiana: <b>&lt;i&gt;⟨RLO⟩</b> Strony 3 pobrania"


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "de_AT.UTF-8"}, "de"),
        ({"LANG": "de_DE", "LC_MESSAGES": "pt_BR.UTF-8"}, "pt_BR"),
        ({"LANG": "de_DE", "LC_ALL": "C"}, "en"),
        ({"LANG": "../../x"}, "en"),
    ],
)
def test_the_language_of_the_environment(
    environment: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "CODES", ("en", "de", "pt_BR"))
    assert texts.code_of_environment(environment) == code


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("de", "de"),
        ("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7", "en"),
        ("fr, *;q=0.1", None),
        ("PT-br;q=0.5, de-AT;q=0.6", "de"),
        ("de;q=0, pt-BR;q=x, en; q=0.1", "en"),
        ("de;q=1.2.3, ²;q=²", None),
        ("," * 10_000, None),
    ],
)
def test_the_language_of_a_header(header: str, code: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "CODES", ("en", "de", "pt_BR"))
    assert texts.code_of_header(header) == code
