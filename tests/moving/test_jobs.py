"""Jobs of urlwatch and webchanges: directives, defaults, several jobs of one URL, files that are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollerd.errors import ConfigError
from pollerd.moving.moved import Fate, Moved
from pollerd.moving.selectors import xpath_within
from pollerd.moving.urlwatch import documents
from pollerd.moving.urlwatch.dialect import URLWATCH, WEBCHANGES, Dialect
from pollerd.moving.urlwatch.directives import DIRECTIVES
from pollerd.moving.urlwatch.filters import KINDS
from pollerd.moving.urlwatch.jobs import read_jobs


def moved(text: str, dialect: Dialect = URLWATCH, **more: Any) -> Moved:
    return read_jobs(text.encode(), dialect, **more)


def site(text: str, dialect: Dialect = URLWATCH) -> dict[str, Any]:
    (found,) = moved(f"url: https://a.org/\n{text}", dialect).sites
    return found


def default(text: str, dialect: Dialect = URLWATCH) -> Any:
    selections: Any = site(text, dialect).get("selections", {"default": {}})
    return selections["default"]


def why(found: Moved, key: str) -> tuple[Fate, str]:
    line = next(line for line in found.report if line.key == key)
    return line.fate, line.how


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name: N\nenabled: false", {"title": "N", "paused": True}),
        ("note: remember\ntags: [a, 'b;c']", {"note": "remember", "tags": ["a", "b,c"]}),
        ("tags: x", {"tags": ["x"]}),
        ("user_visible_url: https://v.org/", {"title": "https://v.org/"}),
        ("headers: {X-A: 1}", {"headers": {"X-A": "1"}}),
        ("cookies: {a: b, c: d}", {"headers": {"Cookie": "a=b; c=d"}}),
        (
            "data: {a: b c}",
            {
                "method": "POST",
                "body": "a=b+c",
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
            },
        ),
        (
            "data: {a: 1}\ndata_as_json: true",
            {"method": "POST", "body": '{"a": 1}', "headers": {"Content-Type": "application/json"}},
        ),
        ("params: {q: x y}", {"url": "https://a.org/?q=x+y"}),
        ("https_proxy: http://p:3128\nhttp_proxy: http://q:3128", {"proxy": "http://p:3128"}),
        ("use_browser: true\nwait_for_selector: '#a'", {"render": "browser", "browser": {"wait_for": "#a"}}),
        ("use_browser: true\nwait_for_timeout: 5", {"render": "browser", "browser": {"wait_seconds": 5}}),
        (
            "use_browser: true\nwait_for_selector: 'text=Done'\nwait_until: networkidle\nblock_elements: [image, odd]",
            {"render": "browser", "browser": {"wait_until": "idle", "block": ["image"]}},
        ),
        ("http_credentials: {username: u, password: p}", {"credentials": {"username": "u", "password": "p"}}),
    ],
)
def test_directives_become_fields(text: str, fields: dict[str, object]) -> None:
    assert site(text, WEBCHANGES) == {"url": "https://a.org/", **fields}


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("diff_filter: [{grep: '^[+]'}]", [{"only": "additions"}]),
        ("diff_filter: [{grep: '^[-]'}]", [{"only": "removals"}]),
        ("diff_filter: [{grep: '^[+].*'}]", [{"only": "additions"}]),
        (r"diff_filter: [{grep: '^\+.*sale'}]", [{"appears": {"re": "^.*sale"}, "in": "added"}]),
        ("additions_only: true", [{"only": "additions", "unless_left_below": 0.25}]),
        ("additions_only: 0.1", [{"only": "additions", "unless_left_below": 0.1}]),
        ("additions_only: disable_safeguard", [{"only": "additions"}]),
        ("deletions_only: true", [{"only": "removals"}]),
        ("compared_versions: 7", [{"new_in": 7}]),
        ("compared_versions: 1", None),
        ("differ: {name: unified, additions_only: true}", [{"only": "additions", "unless_left_below": 0.25}]),
    ],
)
def test_what_decides_becomes_conditions(text: str, conditions: object) -> None:
    assert default(text, WEBCHANGES).get("conditions") == (conditions and {"all": conditions})


@pytest.mark.parametrize(
    ("filters", "steps"),
    [
        ("css:#a,html2text", [{"keep": {"css": "#a"}}, {"text": {"links": "no"}}]),
        ("[{css: {selector: a, exclude: b}}]", [{"remove": {"css": "b"}}, {"keep": {"css": "a"}}]),
        ("[{css: 'p:contains(\"x\")'}]", [{"keep": {"css": 'p:lexbor-contains("x")'}}]),
        ("[{jq: '.a.b[0]'}]", [{"as": "json"}, {"keep": {"jsonpath": '$["a"]["b"][0]'}}]),
        ("[pdf2text]", [{"as": "pdf"}]),
        ("[sort, {sort: ','}]", [{"replace": {"re": ",", "with": r"\n"}}, {"sort": "text"}]),
        ("[strip, {css: p}]", [{"keep": {"css": "p"}}, {"space": "trim"}]),
        ("[sort, strip]", [{"space": "trim"}, {"sort": "text"}]),
    ],
)
def test_filters_become_steps(filters: str, steps: object) -> None:
    assert default(f"filter: {filters}").get("steps") == steps


@pytest.mark.parametrize(
    ("filters", "key", "reason"),
    [
        ("[{shellpipe: 'rm -rf'}]", "filter[0].shellpipe", "starts no programs"),
        ("[{jq: 'map(.x)'}]", "filter[0].jq", "only paths"),
        ("[{xpath: 'lower-case(//a)'}]", "filter[0].xpath", '"lower-case" is XPath 2'),
        ("[{xpath: \"//a[re:test(., 'x')]\"}]", "filter[0].xpath", '"re:"'),
        ("[{css: {selector: a, method: xml, namespaces: {m: 'urn:m'}}}]", "filter[0].css", "local-name()"),
        ("[{grep: '(?<!a)b'}]", "filter[0].grep", "look-behind"),
        ("[{grep: '(a'}]", "filter[0].grep", "no regular expression"),
        (r"[{re.sub: '(a)\1'}]", "filter[0].re.sub", "reference to a group"),
        ("[{grep: 'a{1001}'}]", "filter[0].grep", "1000"),
        ("[myown]", "filter[0].myown", "hooks"),
        ("[{grep: a, css: b}]", "filter[0].css", "only the first key"),
        ("[{html2text: {method: re, strange: 1}}]", "filter[0].html2text.strange", "no counterpart"),
        ("[csv2text]", "filter[0].csv2text", "rows"),
    ],
)
def test_what_cannot_be_carried_is_named(filters: str, key: str, reason: str) -> None:
    found = moved(f"url: https://a.org/\nfilter: {filters}")
    fate, how = why(found, key)
    assert fate is Fate.NOT_CARRIED
    assert reason in how


@pytest.mark.parametrize("pattern", [r"\++", r"a\++b", r"[*+]+", r"\\1", r"[(?=]", r"(?P<n>a)", r"a\Z", r"\u00e9"])
def test_patterns_that_re2_can_run_are_kept(pattern: str) -> None:
    assert default(f"filter: [{{grep: '{pattern}'}}]")["steps"] == [{"lines": {"keep": [{"re": pattern}]}}]


def test_the_password_of_a_pdf_is_carried_and_is_not_told() -> None:
    found = moved("url: https://a.org/\nfilter: [{pypdf: s3cret}, {pdf2text: {password: other}}]")
    assert found.sites[0]["pdf_password"] == "s3cret"
    assert why(found, "filter[0].pypdf.password") == (Fate.CARRIED, "")
    assert why(found, "filter[1].pdf2text.password")[0] is Fate.NOT_CARRIED
    assert "s3cret" not in "\n".join(map(str, found.report))


def test_a_step_that_acts_earlier_is_told() -> None:
    found = moved("url: https://a.org/\nfilter: [html2text, {grep: a}, {css: p}]")
    assert [line.how[:12] for line in found.report if line.key == "filter[2].css" and line.how] == ["acts earlier"]


def test_jobs_of_one_url_are_selections_of_one_site() -> None:
    found = moved(
        "name: First\nurl: https://a.org/x#1\nfilter: [{css: a}]\ntags: [p]\n---\n"
        "name: The Price\nurl: https://a.org/x#2\ntags: [q]\n---\nurl: https://a.org/x#3\n---\n"
        "name: The price!\nurl: https://A.org/x#4\n"
    )
    (only,) = found.sites
    selections: Any = only["selections"]
    assert list(selections) == ["default", "the-price", "selection-3", "the-price-4"]
    assert (only["url"], only["title"], only["tags"]) == ("https://a.org/x", "First", ["p", "q"])


def test_jobs_of_one_url_that_ask_otherwise_are_not_joined() -> None:
    found = moved("url: https://a.org/\n---\nurl: https://a.org/#2\ndata: {a: b}")
    assert len(found.sites) == 1
    assert why(found, "the whole entry")[1] == "job 1 (https://a.org/) has the same URL with another method: " + (
        "a site has one request"
    )


def test_a_site_is_paused_when_all_its_jobs_are() -> None:
    text = "url: https://a.org/\nenabled: {}\n---\nurl: https://a.org/#2\nenabled: {}"
    assert moved(text.format("false", "false")).sites[0]["paused"] is True
    assert not moved(text.format("false", "true")).sites[0].get("paused")
    assert not moved(text.format("true", "false")).sites[0].get("paused")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("command: ls", "the whole job"),
        ("kind: shell\ncommand: ls", "the whole job"),
        ("url: file:///etc/passwd", "url"),
        ("url: 5", "url"),
        ("name: without", "the whole job"),
        ("url: https://a.org/\nmethod: PUT", "method"),
    ],
)
def test_jobs_that_are_left_out_are_named(text: str, key: str) -> None:
    found = moved(f"{text}\n---\nurl: https://b.org/")
    assert [one["url"] for one in found.sites] == ["https://b.org/"]
    assert why(found, key)[0] is Fate.NOT_CARRIED


def test_user_and_password_of_a_url_are_credentials_and_are_not_told() -> None:
    found = moved("url: https://me:s3cr%40t@a.org/x")
    assert found.sites[0] == {"url": "https://a.org/x", "credentials": {"username": "me", "password": "s3cr@t"}}
    assert "s3cr" not in "\n".join(map(str, found.report))


def test_defaults_of_the_settings() -> None:
    config = (
        b"job_defaults:\n  all: {headers: {X-A: all, X-B: all}, timeout: 5}\n  url: {headers: {X-A: kind}}\n"
        b"report: {email: {smtp: {password: hidden}}}\n"
    )
    job = "url: https://a.org/\nheaders: {X-C: job}"
    joined, replaced = moved(job, WEBCHANGES, config=config), moved(job, URLWATCH, config=config)
    assert joined.sites[0]["headers"] == {"X-A": "kind", "X-B": "all", "X-C": "job"}
    assert replaced.sites[0]["headers"] == {"X-C": "job"}
    assert why(joined, "report")[0] is Fate.NOT_CARRIED
    assert "hidden" not in "\n".join(map(str, joined.report))


def test_sources_are_compared_when_asked_for() -> None:
    text = "url: https://a.org/"
    assert moved(text, exact=True).sites[0]["selections"] == {"default": {"steps": [{"as": "source"}]}}
    assert "selections" not in moved(text).sites[0]
    with_text = moved(f"{text}\nfilter: [html2text]", exact=True).sites[0]
    assert with_text["selections"] == {"default": {"steps": [{"text": {"links": "no"}}]}}


# --- files -----------------------------------------------------------------------------------------------------------


def test_aliases_and_merges_are_read() -> None:
    found = moved("url: https://a.org/\nx1: &h {X-A: b}\nheaders:\n  <<: *h\n  X-C: d")
    assert found.sites[0]["headers"] == {"X-A": "b", "X-C": "d"}


def test_a_key_that_is_given_twice_is_told() -> None:
    found = moved("name: a\nname: b\nurl: https://a.org/")
    assert found.sites[0]["title"] == "b"
    assert [line.fate for line in found.report if line.key == "name"] == [Fate.NOT_CARRIED, Fate.CARRIED]


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "aliases written out"),
        ("a: &a [*a]", "stands within"),
        ("[" * 5_000, "nested deeper"),
        ("x: " + "1:" * 500_000 + "1", "digits"),
        ("x: " + "9" * 6_000, "digits"),
        ("- a\n- b", "must be a table"),
        ("url: [", r"line \d: no YAML"),
        ("x: 2026-13-45", "quotes"),
        ("url: \x00", "no YAML"),
        ("# " + "x" * documents.MAX_BYTES, "MiB"),
        ("a: !!python/object/apply:os.system [ls]", "no YAML"),
    ],
)
def test_files_that_cannot_be_read_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        moved(text)
    assert len(str(refused.value)) < 200


def test_empty_documents_and_a_byte_order_mark_are_skipped() -> None:
    assert len(moved("\ufeffurl: https://a.org/\n---\n---\nurl: https://b.org/\n---\n").sites) == 2


# --- nothing is dropped silently -------------------------------------------------------------------------------------

TEXTS = st.text("ab1:/#.[(\\ \n{é€", max_size=8)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXTS, st.floats(0, 9))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
FILTERS = st.lists(
    st.one_of(
        st.sampled_from(sorted(KINDS)),
        st.builds(lambda kind, value: {kind: value}, st.sampled_from([*sorted(KINDS), "other"]), VALUES),
    ),
    max_size=4,
)


def told(found: Moved, key: str) -> bool:
    return any(line.key == key or line.key.startswith((f"{key}.", f"{key}[", f"{key} (")) for line in found.report)


@given(
    st.dictionaries(st.sampled_from([*DIRECTIVES, "proxy", "http_proxy", "navigate", "unheard"]), VALUES, max_size=6),
    FILTERS,
    st.sampled_from([URLWATCH, WEBCHANGES]),
)
def test_every_key_of_a_job_is_in_the_report(job: dict[str, Any], filters: list[Any], dialect: Dialect) -> None:
    whole = {**job, "url": "https://a.org/", "filter": filters}
    found = read_jobs(json.dumps(whole).encode(), dialect)
    assert [key for key in whole if not told(found, key)] == []
    assert [n for n, _ in enumerate(filters) if not told(found, f"filter[{n}]") and not _under(found, n)] == []
    for one in found.sites:
        json.dumps(one)


def _under(found: Moved, number: int) -> bool:
    return any(line.key.startswith(f"filter[{number}]") for line in found.report)


SECRET = "kept-secret-value"


def test_no_secret_of_a_job_is_in_the_report() -> None:
    text = (
        f"url: https://u:{SECRET}@a.org/\nheaders: {{X-A: {SECRET}, 'bad name': {SECRET}, Host: {SECRET}}}\n"
        f"cookies: {{a: {SECRET}}}\ndata: {SECRET}\nhttps_proxy: http://u:{SECRET}@p:1\n"
        f"http_credentials: {{username: u, password: {SECRET}}}\nfilter: [{{pypdf: {SECRET}}}]\nswitches: [{SECRET}]\n"
    )
    found = moved(text, WEBCHANGES)
    assert len(found.report) > 8
    assert SECRET not in "\n".join(map(str, found.report))


@pytest.mark.parametrize(
    ("expression", "within"),
    [
        ("//a", ".//a | self::a"),
        ("//a/@href | //b[@c='|/x']", None),
        ("//a/@href | //b", ".//a/@href | self::a/@href | .//b | self::b"),
        ("//*[@id='x']/p", ".//*[@id='x']/p | self::*[@id='x']/p"),
        ("//text()", ".//text()"),
        ("p/a", "p/a"),
        ("/html/body", None),
        ("//a | /html", None),
        ("(//a)[1]", None),
        ("//a[//b]", None),
        ("count(//a)", None),
        ("//a[contains(., '/b')]", ".//a[contains(., '/b')] | self::a[contains(., '/b')]"),
    ],
)
def test_an_xpath_for_what_another_kept(expression: str, within: str | None) -> None:
    assert xpath_within(expression) == within


def test_a_filter_that_cannot_act_on_what_another_kept_is_lost_and_not_said_to_be_carried() -> None:
    text = "filter: [{css: ul}, {xpath: /html/body/ul/li}, html2text]\n"
    assert default(text)["steps"][:1] == [{"keep": {"xpath": "descendant-or-self::ul"}}]
    fates = [line.fate for line in moved(f"url: https://a.org/\n{text}").report if line.key == "filter[1].xpath"]
    assert fates == [Fate.NOT_CARRIED]
