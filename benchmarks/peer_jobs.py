"""Pages and jobs by which the other programs are compared with what is made of them: see peers.py."""

from __future__ import annotations

PAGES: dict[str, tuple[str, str]] = {
    "shop.html": (
        "text/html",
        """<!DOCTYPE html><html lang="en"><head><title>Kettles</title><style>p{color:red}</style></head><body>
<nav><a href="/home">Home</a> <a href="/cart">Cart</a></nav>
<div id="main" class="box"><h1>Kettle 1.7 l</h1>
<p class="price" itemprop="price" content="49.90">Now 49.90 EUR</p>
<p class="stock" itemprop="availability" style="color:green">In stock</p>
<ul class="jobs"><li>beta release</li><li>Alpha release</li><li>beta release</li><li>gamma</li></ul>
<table id="t"><tr><th>Size</th><th>Left</th></tr><tr><td>S</td><td>3</td></tr><tr><td>L</td><td>0</td></tr></table>
<p>Last updated 10:31, sid=ab12cd</p><script>var x = 1;</script></div>
<footer class="foot">Version v2.10.3 of 2026, visit <a href="https://example.org/">us</a></footer></body></html>
""",
    ),
    "list.txt": ("text/plain", "  gamma \nbeta\nbeta\nAlpha 12\nPage 1 of 9\nsid=99xyz\nbeta\nalpha 7\n"),
    "data.json": (
        "application/json",
        '{"z": 1, "items": [{"name": "kettle", "price": 12.5}, {"name": "pan", "price": 8}], "a": {"b": [10, 20]}}',
    ),
    "feed.xml": (
        "application/xml",
        "<log><entry><id>1</id><note>first</note></entry><entry><id>2</id><note>second</note></entry></log>",
    ),
}
"""Name -> (media type, body)."""

URLWATCH: list[tuple[str, list[object]]] = [
    ("shop.html", [{"css": "#main h1"}, "html2text"]),
    ("shop.html", [{"css": {"selector": "ul.jobs li", "skip": 1, "maxitems": 2}}, "html2text", "strip"]),
    ("shop.html", [{"css": {"selector": "#main", "exclude": "ul, table, script"}}, {"html2text": "re"}, "striplines"]),
    ("shop.html", [{"xpath": "//p[@class='price']/text()"}]),
    ("shop.html", [{"xpath": "//table[@id='t']//td"}, "html2text"]),
    ("shop.html", [{"element-by-id": "t"}, "html2text"]),
    ("shop.html", [{"element-by-class": "foot"}, "html2text", {"re.findall": r"v(\d+\.\d+\.\d+)"}]),
    ("shop.html", [{"element-by-tag": "footer"}, {"html2text": "bs4"}]),
    ("shop.html", [{"element-by-style": "color:green"}, "html2text"]),
    ("shop.html", ["html2text", {"grepi": "(?i)last updated"}, "strip"]),
    ("shop.html", ["html2text", {"grep": "release"}, "sort", "remove-duplicate-lines"]),
    ("shop.html", ["html2text", {"re.sub": {"pattern": r"sid=\w+", "repl": "sid=X"}}, {"grep": "sid"}]),
    ("list.txt", ["sort"]),
    ("list.txt", ["striplines", "remove-duplicate-lines"]),
    ("list.txt", [{"grepi": r"^Page \d+ of \d+$"}, {"re.sub": "sid=.*"}, "striplines"]),
    ("list.txt", [{"re.findall": {"pattern": r"(\w+) (\d+)", "repl": r"\2 \1"}}]),
    ("list.txt", [{"sort": {"reverse": True}}]),
    ("list.txt", ["reverse"]),
    ("list.txt", ["sha1sum"]),
    ("data.json", [{"format-json": 2}]),
    ("data.json", [{"jq": ".items[].name"}]),
    ("feed.xml", ["pretty-xml"]),
    ("feed.xml", [{"xpath": {"path": "//note/text()", "method": "xml"}}]),
    # One filter acts on what the other kept, in its own language.
    ("shop.html", [{"css": "ul.jobs"}, {"xpath": "//li[2]"}, "html2text"]),
    ("shop.html", [{"xpath": "//div[@id='main']"}, {"css": "p.price"}, "html2text"]),
    ("shop.html", [{"xpath": "//div"}, {"css": "li:nth-child(2), td:last-child"}, "html2text"]),
    ("shop.html", [{"css": {"selector": "#main", "exclude": ".price"}}, {"xpath": "//p"}, "html2text"]),
    ("shop.html", [{"element-by-tag": "ul"}, {"xpath": "//li[contains(., 'beta')]"}, "html2text", "sort"]),
    ("shop.html", [{"xpath": "//nav | //footer"}, {"xpath": "//a"}, "html2text"]),
    ("shop.html", [{"xpath": "//ul"}, {"xpath": "//ul"}, "html2text"]),
    ("shop.html", [{"css": "nav"}, {"xpath": "//a/@href"}]),
    ("shop.html", [{"css": "#main"}, {"xpath": "//p"}, {"css": ".stock"}, "html2text"]),
    ("shop.html", [{"xpath": "//div"}, {"css": "[itemprop=price]"}, "html2text", {"re.findall": r"[\d.]+"}]),
    ("shop.html", [{"xpath": "//table"}, {"css": "tr:first-child th"}, "html2text", "striplines"]),
    ("feed.xml", [{"css": {"selector": "entry > note", "method": "xml"}}, "html2text"]),
]
WEBCHANGES: list[tuple[str, list[object]]] = [
    ("shop.html", [{"css": "#main h1"}, {"html2text": "strip_tags"}]),
    ("shop.html", [{"css": "footer"}, "html2text"]),
    ("shop.html", [{"element-by-class": "stock"}, {"html2text": "bs4"}]),
    ("list.txt", [{"keep_lines_containing": "beta"}]),
    ("list.txt", [{"keep_lines_containing": {"re": r"\d"}}]),
    ("list.txt", [{"delete_lines_containing": "beta"}]),
    ("list.txt", [{"strip": {"splitlines": True}}, "remove_repeated"]),
    ("list.txt", [{"remove_repeated": {"adjacent": False}}]),
    ("list.txt", [{"strip": {"chars": " \n"}}]),
    ("data.json", [{"format-json": {"indentation": 2, "sort_keys": True}}]),
    ("feed.xml", ["format-xml"]),
]
"""(page, filters of a job)."""

WATCHES: list[tuple[str, dict[str, object]]] = [
    ("shop.html", {"title": "Whole page"}),
    ("shop.html", {"title": "Price", "include_filters": [".price"], "trigger_text": ["EUR"]}),
    ("shop.html", {"title": "Without parts", "subtractive_selectors": ["nav", "xpath://footer", "ul, table"]}),
    ("shop.html", {"title": "Two filters", "include_filters": ["//h1", "ul.jobs li"], "remove_duplicate_lines": True}),
    ("shop.html", {"title": "Ignored", "ignore_text": ["last updated", "/menu|home/i"]}),
    ("shop.html", {"title": "Extracted", "include_filters": [".foot"], "extract_text": [r"/v(\d+)\.(\d+)/"]}),
    ("shop.html", {"title": "Sorted", "include_filters": [".jobs"], "sort_text_alphabetically": True}),
    ("shop.html", {"title": "Lines", "extract_lines_containing": ["RELEASE"], "trim_text_whitespace": True}),
    ("data.json", {"title": "Names", "include_filters": ["json:items[*].name"]}),
    ("data.json", {"title": "One price", "include_filters": ["json:$.items[0].price"]}),
    ("data.json", {"title": "By jq", "include_filters": ["jq:.a.b[1]"]}),
    ("list.txt", {"title": "Plain", "text_should_not_be_present": ["/sold out/"], "check_unique_lines": True}),
]
"""(page, fields of a watch)."""
