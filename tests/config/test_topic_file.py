"""The topic file and the seeds: what they say, and what is wrong with them, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pollerd.app.config import load
from pollerd.crawler.room import read_mission, read_seeds, read_topic
from pollerd.crawler.topics import TopicSettings
from pollerd.errors import ConfigError, PollerdError


def topic(tmp_path: Path, text: str) -> TopicSettings:
    file = tmp_path / "topic.toml"
    file.write_text(text)
    return read_topic(file)


def test_all_that_may_be_said(tmp_path: Path) -> None:
    (tmp_path / "hat.html").write_text("<title>Hats</title><script>x</script><p>A felt hat</p>")
    (tmp_path / "cat.txt").write_text("A cat")
    found = topic(
        tmp_path,
        'name = "hats"\nkeywords = ["hat"]\nexamples = ["a brim"]\nexample_files = ["hat.html"]\n'
        'background = ["a dog"]\nbackground_files = ["cat.txt"]\nallow_domains = ["*.Example.org", "bücher.de"]\n'
        'deny_domains = ["ads.example.org"]\nmax_depth = 3\npages_per_host = 4\ncollection_size = 5\n'
        'relevance_min = 0.2\nlanguage = "english"\n',
    )
    assert found == TopicSettings(
        name="hats",
        keywords=("hat",),
        examples=("a brim", "Hats\nA felt hat"),
        background=("a dog", "A cat"),
        language="english",
        allow_domains=("example.org", "xn--bcher-kva.de"),
        deny_domains=("ads.example.org",),
        max_depth=3,
        pages_per_host=4,
        collection_size=5,
        relevance_min=0.2,
    )


def test_a_name_and_some_words_are_enough(tmp_path: Path) -> None:
    assert topic(tmp_path, 'name = "hats"\nkeywords = ["hat"]') == TopicSettings("hats", keywords=("hat",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('keywords = ["hat"]', "topic: name: is needed"),
        ('name = "hats"', "topic: keywords: must be some words"),
        ('name = "hats"\nkeywords = ["1"]', "topic: topic: must be examples or keywords with words in them"),
        ('name = "hats"\nkeywords = "hat"', "topic: keywords: must be a list; given: 'hat'"),
        ('name = "hats"\nkeywords = ["hat"]\nmax_depth = -1', "topic: max_depth: must be at least 0; given: -1"),
        ('name = "hats"\nkeywords = ["hat"]\nmax_depth = "2"', "topic: max_depth: must be a whole number"),
        ('name = "hats"\nkeywords = ["hat"]\nrelevance_min = 2', "topic: relevance_min: must be above 0, at most 1"),
        (
            'name = "hats"\nkeywords = ["hat"]\nallow_domains = ["http://a/"]',
            "topic: allow_domains.0: must be a domain",
        ),
        (
            'name = "hats"\nkeywords = ["hat"]\nlanguage = "klingon"',
            "topic: language: must be one of arabic, .*'klingon'",
        ),
        ('name = "hats"\nkeyword = ["hat"]', "topic: unknown keyword; known: name, keywords, "),
        ('name = "hats"\nexample_files = ["none.txt"]', "example_files: there is no file .*none.txt"),
        ("name = ", "topic: .*topic.toml: Invalid value"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(PollerdError, match=words):
        topic(tmp_path, text)


def test_seeds_are_a_list_of_urls(tmp_path: Path) -> None:
    file = tmp_path / "seeds.txt"
    file.write_text("# to begin with\nHTTP://Example.org\nhttp://a/b # here\n")
    assert read_seeds(file) == ["http://example.org/", "http://a/b"]
    file.write_text("http://a/\nftp://b/\n")
    with pytest.raises(ConfigError, match=r"seeds: .*seeds.txt, line 2: url: must be an absolute http"):
        read_seeds(file)
    with pytest.raises(ConfigError, match=r"seeds: there is no file .*none.txt"):
        read_seeds(tmp_path / "none.txt")


def test_a_collection_is_meant_to_be_current_unless_something_else_is_said() -> None:
    assert load({}, environ={}).daemon.objective == "changes"
    assert load({"topic": "topic.toml"}, environ={}).daemon.objective == "freshness"
    assert load({"topic": "topic.toml", "objective": "changes"}, environ={}).daemon.objective == "changes"


def test_seeds_alone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seeds: they are for a topic"):
        read_mission(None, tmp_path / "seeds.txt")
    assert read_mission(None, None) == (None, [])
