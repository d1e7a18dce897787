"""What a click on a line of a page chooses: parts that last, the same in all versions, nothing that a tool made."""

from __future__ import annotations

import pytest

from pollerd.detection.selection.expressions.css import compile_css
from pollerd.detection.selection.picker import (
    Offer,
    PickedPage,
    SelectorChoice,
    absolute_path,
    is_made_by_tools,
    offers,
    parts_of,
)
from pollerd.detection.selection.steps.page import HtmlPage

HTML = "text/html; charset=utf-8"
PAGE = """<html><head><title>Shop</title></head><body><nav><a href="/">Home</a></nav><main>
<h1 class="css-1x2y3z">Espresso machine</h1>
<p class="css-9k8j7h Product_price__2aX9c">€ 999.00</p>
<dl><dt>Weight</dt><dd>12 kg</dd><dt>Colour</dt><dd>red</dd></dl>
<table><tr><th>Stock</th><td>7</td></tr><tr><th>Sold</th><td>12</td></tr></table>
<h2>Reviews</h2><p>Three of them</p><ul><li class="review">Good</li>
<li class="review">Fine</li><li class="review">So so</li></ul>
<p hidden>Secret</p><script>var x = "code";</script>
</main></body></html>"""


def offered(page: str, text: str, *earlier: str, texts: tuple[str, ...] = ()) -> dict[str, Offer]:
    """Returns what a click on the line with this text offers, by kind."""
    body = page.encode()
    line = next(n for n, one in enumerate(parts_of(body, HTML)[0]) if one.text == text)
    bodies = [(version.encode(), HTML) for version in (page, *earlier)]
    return {offer.what: offer for offer in offers(bodies, line, texts)}


def test_a_page_is_parsed_once_for_its_lines_and_its_selectors(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = list[int]()

    def counted(html: bytes) -> HtmlPage:
        parsed.append(len(html))
        return HtmlPage(html)

    monkeypatch.setattr("pollerd.detection.selection.picker.HtmlPage", counted)
    large = PAGE.encode() + b"<!-- " + b"x" * 1_100_000 + b" -->"  # is not remembered
    lines, selectors = parts_of(large, HTML)
    assert lines
    assert selectors
    assert parsed == [len(large)]


def test_the_lines_of_a_page_are_what_readers_see() -> None:
    lines, _selectors = parts_of(PAGE.encode(), HTML)
    texts = [line.text for line in lines]
    assert texts[:3] == ["Home", "Espresso machine", "€ 999.00"]
    assert "Secret" not in texts
    assert not any("code" in text for text in texts)
    assert [(line.tag, line.depth) for line in lines if line.text == "Fine"] == [("li", 1)]


@pytest.mark.parametrize(
    "name", ["css-1x2y3z", "sc-bdVaJa", "_3fK2s", "Button_root__2aX9c", "ember123", ":r3:", "post-48213", "eZxQpL"]
)
def test_names_of_build_tools(name: str) -> None:
    assert is_made_by_tools(name)


@pytest.mark.parametrize(
    "name",
    ["price", "product-card", "col-md-6", "main-content", "btn-primary", "PageHeader", "navItem2", "iconWrapper"],
)
def test_names_that_people_gave(name: str) -> None:
    assert not is_made_by_tools(name)


def test_a_class_of_a_tool_is_used_by_its_lasting_part_only() -> None:
    part = offered(PAGE, "€ 999.00")["part"]
    assert "9k8j7h" not in " ".join(part.selectors)
    rebuilt = PAGE.replace("2aX9c", "7Zq1b").replace("9k8j7h", "0a1b2c").replace("1x2y3z", "3c4d5e")
    assert [node.text().strip() for node in PickedPage(rebuilt.encode(), HTML).matches(part.selectors[0])] == [
        "€ 999.00"
    ]


def test_a_label_in_front_is_an_anchor() -> None:
    assert offered(PAGE, "12 kg")["part"].selectors[0] == 'dt:lexbor-contains("Weight") + dd'
    assert offered(PAGE, "12")["part"].selectors[0] == 'th:lexbor-contains("Sold") + td'


def test_a_label_that_a_stored_version_lacks_is_not_used() -> None:
    part = offered(PAGE, "12 kg", texts=("Espresso machine\n12 kg\nred",))["part"]
    assert not any("Weight" in selector for selector in part.selectors)


def test_all_items_of_a_list_and_what_is_around_one() -> None:
    made = offered(PAGE, "Fine")
    assert (made["all"].selectors[0], made["all"].count) == (".review", 3)
    assert made["around"].text == "Good Fine So so"


def test_the_value_in_a_line() -> None:
    value = offered(PAGE, "€ 999.00")["value"]
    assert (value.kind, value.attribute) == ("price", "")
    page = PAGE.replace("€ 999.00", '<span itemprop="price" content="999.00">only 999</span> euros')
    line = next(n for n, one in enumerate(parts_of(page.encode(), HTML)[0]) if one.text == "only 999 euros")
    (value,) = (offer for offer in offers([(page.encode(), HTML)], line) if offer.what == "value")
    assert (value.kind, value.attribute, value.selectors[0]) == ("number", "content", '[itemprop="price"]')


def test_a_selector_that_picks_something_else_in_an_earlier_version_loses() -> None:
    page = '<body><div id="box"><p>Sale</p></div><aside class="deal"><p>Now 5</p></aside></body>'
    part = offered(page, "Now 5")["part"]
    assert part.selectors[0] == ".deal > p:nth-of-type(1)"
    other = '<body><div id="box" class="deal"><p>Sale</p></div><aside><p>Now 5</p></aside></body>'
    part = offered(page, "Now 5", other)["part"]
    assert "deal" not in part.selectors[0]
    assert part.versions == 2


def test_every_selector_is_one_that_settings_take() -> None:
    page = PAGE.replace("Weight", 'We"i\\ght').replace('class="review"', 'class="1x w-1/2 re:view" id="a.b"', 1)
    for line in range(len(parts_of(page.encode(), HTML)[0])):
        for offer in offers([(page.encode(), HTML)], line):
            assert len(PickedPage(page.encode(), HTML).matches(offer.selectors[0])) == offer.count
            for selector in offer.selectors:
                compile_css("keep", selector)


def test_a_page_without_lines_and_a_line_that_is_not_there() -> None:
    assert parts_of(b"", HTML)[0] == ()
    assert offers([(PAGE.encode(), HTML)], 99) == []
    assert offers([(PAGE.encode(), HTML)], -1) == []


def test_an_absolute_path_picks_its_element() -> None:
    page = PickedPage(PAGE.encode(), HTML)
    for node in page.nodes:
        assert [found.mem_id for found in page.matches(absolute_path(node))] == [node.mem_id]


def test_a_page_that_is_nested_very_deep_is_read() -> None:
    body = b"<div>" * 400 + b"<p>deep</p>"
    assert [line.text for line in parts_of(body, HTML)[0]] == ["deep"]
    assert offers([(body, HTML)], 0)


def test_a_path_of_positions_leads_where_css_says() -> None:
    page = PickedPage(PAGE.replace("<ul>", '<ul><!-- a --><li class="x"><b>1</b></li>').encode(), HTML)
    paths = [SelectorChoice(1.0, absolute_path(node), "body") for node in page.nodes]
    paths += [SelectorChoice(1.0, f"{anchor} > li:nth-of-type(1) > b:nth-of-type(1)", anchor) for anchor in ("ul", "p")]
    paths += [SelectorChoice(1.0, ".review > li:nth-of-type(9)", ".review"), SelectorChoice(1.0, ".review")]
    for path in paths:
        by_css = [node.mem_id for node in page.matches(path.selector)]
        assert [node.mem_id for node in page.chosen(path)] == by_css, path


def test_a_second_click_offers_what_the_first_did() -> None:
    later = PAGE.replace("999", "899")
    for _ in range(2):
        assert offered(PAGE, "€ 999.00", later)["part"].text == "€ 999.00"
        assert offered(later, "€ 899.00", PAGE)["part"].text == "€ 899.00"
        assert offered(PAGE, "12 kg", later) == offered(PAGE, "12 kg", later)
