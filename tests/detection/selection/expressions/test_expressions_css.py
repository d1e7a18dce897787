"""CSS selectors: what is accepted, refused with place and way out, and selected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from pollerd.detection.selection.expressions.css import compile_css
from pollerd.errors import InvalidValueError

CHEAP = ["p", "*", "#a", ".x.y", "a[href]", "a[href^='h' i]", "div > p", "div p, a", r"\31 a", "/* c */ p"]
DEAR = ["p + p", "p ~ a", ":nth-child(2n+1)", "p:nth-child(2 of .x)", ":is(p, a)", "p:not(.z)", "div:has(> p)", ":root"]
DEAR += [":lexbor-contains('x' i)", "p:nth-child( odd )", ",".join(["p"] * 30)]


@pytest.mark.parametrize(("selector", "cheap"), [*((c, True) for c in CHEAP), *((d, False) for d in DEAR)])
def test_accepted(selector: str, cheap: bool) -> None:
    compiled = compile_css("f", selector)
    assert (compiled.cheap, compiled.warnings) == (cheap, ())


@pytest.mark.parametrize(("selector", "opened"), [("a[href", 2), ("p:not(.z", 6), ("p:nth-child(2", 12), ("a[b='x", 5)])
def test_left_open_is_accepted_with_a_warning(selector: str, opened: int) -> None:
    assert f"character {opened}: " in compile_css("f", selector).warnings[0]


REFUSED = [
    ("p [", 3, '"[" needs an attribute name'),
    ("p[]", 2, '"[" needs an attribute name'),
    ("p:contains('a')", 2, '":contains" is not CSS; write ":lexbor-contains(\\"…\\")" or use lines.keep'),
    ("p:has-text(a)", 2, "lexbor-contains"),
    ("p:first", 2, "limit: 1"),
    ("p:eq(1)", 2, ":nth-child(…)"),
    ("p:visible", 2, "class or attribute"),
    ("p:hover", 2, "a state in a browser"),
    ("p:not(:hover)", 7, "a state in a browser"),
    (":scope > p", 1, "remove it"),
    ("p::text", 2, "does not name an element"),
    ("svg|p", 4, "namespaces"),
    ("p[x|y]", 4, "namespaces"),
    ("a@href", 2, "attribute"),
    ("//p", 1, "xpath"),
    ("$.a", 1, "jsonpath"),
    ("p{", 2, "only the selector"),
    ("p #1a", 3, "begins like this"),
    ("p.", 2, "begins like this"),
    ("a[b!=c]", 4, ":not("),
    ("a[b=1]", 5, "quotes"),
    ("p,,a", 2, "missing"),
    ("p >", 3, "missing"),
    ("> p", 1, "cannot begin"),
    ("p:not()", 6, "missing"),
    ("p:not", 2, "needs a selector in brackets"),
    ("p a(b)", 4, "behind a pseudo-class"),
    ("p:nth-child(foo)", 2, "needs a count"),
    ("p:nth-child(2 n)", 2, "needs a count"),
    ("p:nth-child(9999999999)", 2, "needs a count"),
    ("p:nth-of-type(2 of .x)", 2, "needs a count"),
    ("p /* a", 3, "never closed"),
    ("p[a='x\n']", 7, "a line ends"),
    ("p\\", 2, "at the end"),
    ("a, p q)", 3, "'p q)' is no selector"),
    ("p:is(a, 1b)", 8, "'1b' is no selector"),
    ("p:is(> a)", 6, "'> a' is no selector"),
    ("ul:has(> li, :is(1, a))", 18, "'1' is no selector"),
    ("p:nth-child(1 of a, %)", 20, "'%' is no selector"),
    (":not(" * 11 + "p", 55, "10 brackets"),
]


@pytest.mark.parametrize(("selector", "character", "reason"), REFUSED, ids=[row[0][:12] for row in REFUSED])
def test_refused_with_place_and_way_out(selector: str, character: int, reason: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        compile_css("steps[2].keep.css", selector)
    assert refused.value.field == f"steps[2].keep.css, character {character}"
    assert reason in refused.value.allowed


def test_more_than_100_selectors_are_refused() -> None:
    compile_css("f", ",".join(["p:nth-child(2)"] * 60))
    for selector in (",".join(["p"] * 101), "p" + ":has(a)" * 100):
        with pytest.raises(InvalidValueError, match="more than 100 selectors"):
            compile_css("f", selector)


@pytest.mark.parametrize("value", ["a, b", "a > b", "a:hover", "a(b", "a]b", "/@$&|<{!", "1", "it's"])
def test_signs_in_strings_and_escapes_mean_nothing(value: str) -> None:
    tree = LexborHTMLParser("<p>x</p><p>y</p>")
    node = tree.css("p")[1]
    node.attrs["title"] = node.attrs["id"] = value
    escaped = "".join(f"\\{ord(sign):x} " for sign in value)
    for selector in (f'p[title="{value}"]', f"#{escaped}", f'p:is(#{escaped}, [title="{value}"])'):
        assert [found.text() for found in compile_css("f", selector).select(tree)] == ["y"]


@pytest.mark.parametrize("selector", ["", " ", None, 1, "p\0", "a" * 1_001])
def test_what_is_no_selector_is_refused(selector: object) -> None:
    with pytest.raises(InvalidValueError):
        compile_css("f", selector)


@given(selector=st.text(alphabet="pa.#[]=\"'~|^$*>+, :()not-hsic1n/\\@!é", min_size=1, max_size=25))
def test_any_text_is_run_or_refused_when_set(selector: str) -> None:
    """Nothing that is accepted fails when used, alone or in brackets, where lexbor drops what it cannot read."""
    try:
        compiled = compile_css("f", selector)
    except InvalidValueError:
        return
    compiled.select(LexborHTMLParser("<p id=a class=b>x<a href=c>y</a></p>"))
    if not compiled.warnings:
        compile_css("f", f"*:is({selector})")


def test_each_element_once_in_document_order() -> None:
    tree = LexborHTMLParser("<div><p id=a class=c>1<b>2</b></p></div><p>3</p>")
    found = compile_css("f", "b, p, .c, #a, div").select(tree)
    assert [(node.tag, node.text()) for node in found] == [("div", "12"), ("p", "12"), ("b", "2"), ("p", "3")]


@given(tags=st.lists(st.sampled_from(["<div>", "<div class=x>", "</div>", "<b>", "</b>"]), max_size=30))
def test_descendants_and_children_are_those_of_the_tree(tags: list[str]) -> None:
    tree = LexborHTMLParser("".join(tags))
    everything = compile_css("f", "*").select(tree)
    inside, children = set(), set()
    for node in everything:
        above = node.parent
        if above is not None and above.tag == "div":
            children.add(node.mem_id)
        while above is not None:
            if above.tag == "div" and above.attributes.get("class") == "x":
                inside.add(node.mem_id)
            above = above.parent
    order = [node.mem_id for node in everything]
    assert [node.mem_id for node in compile_css("f", ".x *").select(tree)] == [key for key in order if key in inside]
    assert [node.mem_id for node in compile_css("f", "div > *").select(tree)] == [
        key for key in order if key in children
    ]


@given(
    st.lists(st.sampled_from(["<p>", "</p>", "<div>", "</div>", "<i>", "</i>", "<div id=a>", "x"]), max_size=40),
    st.sampled_from(["#a", "body", "div", "div div", "div:nth-of-type(1)", "[title='a > p:nth-of-type(1)'] *", "i, p"]),
    st.lists(st.tuples(st.sampled_from(["p", "div", "i"]), st.integers(1, 3)), min_size=1, max_size=3),
)
def test_a_path_of_positions_leads_where_it_leads_in_lexbor(
    tags: list[str], begin: str, steps: list[tuple[str, int]]
) -> None:
    tree = LexborHTMLParser("".join(tags))
    path = begin + "".join(f" > {tag}:nth-of-type({place})" for tag, place in steps)
    selected = [node.mem_id for node in compile_css("f", path).select(tree)]
    assert selected == list(dict.fromkeys(node.mem_id for node in tree.css(path)))


def test_a_path_of_positions_among_thousands_is_not_left_to_lexbor() -> None:
    """Where it would take time quadratic in their number."""
    asked = list[str]()

    class Page(LexborHTMLParser):
        def css(self, query: str) -> list[LexborNode]:
            asked.append(query)
            return super().css(query)

    page = Page(f"<ul id=all>{'<li><b>x</b></li>' * 3_000}</ul>")
    (found,) = compile_css("f", "#all > li:nth-of-type(2999) > b:nth-of-type(1)").select(page)
    assert found.parent is not None
    assert found.parent.next is not None
    assert found.parent.next.next is None
    assert asked == ["#all"]
