"""XPath 1.0: refusals when set, values, and trees that load nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.detection.selection.expressions.xpath import compile_xpath, parse_html, parse_xml
from pollerd.errors import InvalidValueError

REFUSED = [
    ("//p[lower-case(.)='a']", 5, '"lower-case" is XPath 2; XPath 1.0 is understood. Use translate()'),
    ("//p[matches(., 'a')]", 5, "XPath 2"),
    ("if (a) then b else c", 1, "XPath 2"),
    ("(1, 2)", 1, "XPath 2"),
    ("document('file:///etc/passwd')", 1, "XSLT"),
    ("re:test(., 'a')", 1, "extension functions"),
    ("//svg:rect", 3, "local-name()"),
    ("//*:p", 3, "local-name()"),
    ("//p[. = $x]", 9, "variables"),
    ("foo()", 1, "none of the functions"),
    ("//p[concat('a')]", 5, "takes 2 to 99 arguments, not 1"),
    ("//p[last(1)]", 5, "takes 0 arguments"),
    ("namespace::*", 1, "axis namespace"),
    ("//p[. = 'x]", 9, "never closed"),
    ("(" * 31 + "a", 31, "30 brackets"),
    ("//p[", None, "Invalid expression"),
    ("count('a')", None, "Invalid type"),
]


@pytest.mark.parametrize(("expression", "character", "reason"), REFUSED, ids=[row[0][:14] for row in REFUSED])
def test_refused_when_set(expression: str, character: int | None, reason: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_xpath("steps[0].keep.xpath", expression)
    at = f", character {character}" if character else ""
    assert refused.value.field == f"steps[0].keep.xpath{at}"
    assert reason in refused.value.allowed


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("//p/text()", ["a", "d"]),
        ("//p/@id", ["1"]),
        ("count(//b)", ["1"]),
        ("1 div 4", ["0.25"]),
        ("1 div 0", ["Infinity"]),
        ("0 div 0", ["NaN"]),
        ("-1 div 0", ["-Infinity"]),
        ("true()", ["true"]),
        ("not(true())", ["false"]),
        ("concat('f(', \"$x)\")", ["f($x)"]),
        ("//p[(position() = 1) and (text())]/b/text()", ["c"]),
        ("//i", []),
    ],
)
def test_values(expression: str, found: list[str]) -> None:
    tree = parse_html(b"<p id=1>a<b>c</b></p><p>d</p>")
    assert compile_xpath("f", expression).evaluate(tree) == found


def test_elements() -> None:
    assert [element.tag for element in compile_xpath("f", "//b | //p").evaluate(parse_html(b"<p>a<b>c</b>"))] == [
        "p",
        "b",
    ]


def test_a_wrong_type_that_shows_only_on_a_page() -> None:
    compiled = compile_xpath("f", "//p[count('a')]")
    with pytest.raises(InvalidValueError):
        compiled.evaluate(parse_html(b"<p>"))


@given(expression=st.text(alphabet="pab/[]()@*.|='\"1+-:,$ !textcount", min_size=1, max_size=25))
def test_any_text_is_an_expression_or_refused(expression: str) -> None:
    try:
        compiled = compile_xpath("f", expression)
    except InvalidValueError:
        return
    assert isinstance(compiled.evaluate(parse_xml(b"<b/>")), list)


@given(text=st.binary(max_size=60))
def test_trees_of_anything(text: bytes) -> None:
    for tree in (parse_html(text), parse_xml(text)):
        assert tree is None or isinstance(compile_xpath("f", "//text()").evaluate(tree), list)


def test_comments_do_not_part_a_text() -> None:
    assert compile_xpath("f", "//p/text()").evaluate(parse_html(b"<p>a<!-- b -->c<?d?>e</p>")) == ["ace"]


def test_no_file_is_read_and_no_entity_grows(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    document = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{(tmp_path / "secret").as_uri()}">]><a>1&x;2</a>'
    texts = compile_xpath("f", "//text()")
    assert "secret" not in "".join(texts.evaluate(parse_xml(document.encode())))
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    laughs = parse_xml(f'<!DOCTYPE a [<!ENTITY a0 "ha">{entities}]><a b="&a9;">&a9;</a>'.encode())
    assert laughs is None or len("".join(compile_xpath("f", "//text() | //@*").evaluate(laughs))) < 10_000
