import pytest

from pollerd.detection.html import is_tag_bomb, plain_text, visible_text

DEEP = b"<div>" * 20_000
COPIES = b"<p>" + b"".join(b"<b id=%d>" % i for i in range(2_000)) + b"<p>x" * 2_000
HIDDEN_DEPTH = b"<div></x>" * 20_000


@pytest.mark.parametrize("html", [DEEP, COPIES, HIDDEN_DEPTH, b"<font color=1><p>x" * 5_000])
def test_pages_that_would_choke_a_parser_are_told(html: bytes) -> None:
    assert is_tag_bomb(html)


@pytest.mark.parametrize(
    "html",
    [
        b"",
        b"<p>a<b>b</b>" * 20_000,
        b"<ul>" + b"<li><a href=x>a</a>" * 20_000 + b"</ul>",
        b"<table>" + b"<tr><td>a<td>b" * 20_000,
        b"<div><span>a</span><br><img></div>" * 10_000,
        b"<div>" * 100 + b"<p>a</p>" * 20_000 + b"</div>" * 100,
        b"a < b" * 5_000,
    ],
)
def test_long_pages_of_the_usual_kind_are_not(html: bytes) -> None:
    assert not is_tag_bomb(html)


def test_tangled_pages_still_show_their_text() -> None:
    page = DEEP + b"<p>a &amp; b<script>s</script><!-- c --><STYLE>t</STYLE><br>c" + b"</div>" * 20_000
    assert visible_text(page) == b"a & b\nc"


def test_unfinished_markup_runs_to_the_end() -> None:
    assert plain_text(b"a<!-- b <p>c") == "a"
    assert plain_text(b"a<script>b") == "a"
    assert plain_text(b"a<b c") == "a"
    assert plain_text(b"a < b") == "a < b"
