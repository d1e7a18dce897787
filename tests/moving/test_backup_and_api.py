"""Files and answers of changedetection.io that are old, odd, too large or hostile."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pollerd.errors import ConfigError, TransientError
from pollerd.moving.changedetection import api, backup
from pollerd.moving.changedetection.api import read_api
from pollerd.moving.changedetection.backup import read_backup
from pollerd.moving.changedetection.watch import move

UUID = "93f64c70-4cbc-479a-a9cf-ee25bfa68ff6"
ANSWERS: dict[str, Any] = json.loads((Path(__file__).parent / "files" / "changedetection-api.json").read_text())


def zipped(**files: object) -> bytes:
    """A zip; `__` in a name stands for a slash."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content)
            archive.writestr(name.replace("__", "/"), data)
    return out.getvalue()


def a_backup(**files: object) -> bytes:
    return zipped(**{"changedetection.json": {"settings": {}}, **files})


def test_the_older_file_of_all_watches() -> None:
    old = {
        "note": "Hello",
        "watching": {
            UUID: {"url": "https://a.org/", "tag": "x", "css_filter": ".a", "minutes_between_check": 20},
            "u2": {"url": "https://b.org/", "time_between_check": {"hours": 2}},
        },
        "settings": {"application": {"password": "kept-secret", "tags": {"g": {"title": "G"}}}},
        "strange": 1,
    }
    for data in (json.dumps(old).encode(), zipped(**{"url-watches.json": old})):
        found = move(read_backup(data))
        first, second = found.sites
        assert (first["tags"], first["min_interval"], second["max_interval"]) == (["x"], 1200.0, 7200.0)
        assert first["selections"] == {"default": {"steps": [{"keep": {"css": ".a"}}, {"space": "collapse"}]}}
        assert "strange" in [line.key for line in found.report]
        assert "kept-secret" not in "\n".join(map(str, found.report))


def test_headers_of_a_file_beside_a_watch() -> None:
    data = a_backup(**{f"{UUID}__watch.json": {"url": "https://a.org/"}, f"{UUID}__headers.txt": b"# no: no\nX-A: b\n"})
    assert move(read_backup(data)).sites[0]["headers"] == {"X-A": "b"}


def test_names_of_the_zip_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watch = {"url": "https://a.org/"}
    names = ["..__..__watch.json", f"..__{UUID}__watch.json", f"__{UUID}__watch.json", f"{UUID}__..__watch.json"]
    read = read_backup(a_backup(**dict.fromkeys(names, watch)))
    assert (read.watches, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 broken", b"no", b"{", b"[1]", b'{"a": 1}', zipped(x=b"1")])
def test_what_is_no_backup_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        read_backup(data)


def test_bombs_are_refused() -> None:
    with pytest.raises(ConfigError, match="times as large"):
        read_backup(a_backup(**{f"{UUID}__watch.json": b" " * 5_000_000}))
    with pytest.raises(ConfigError, match="MiB unpacked"):
        read_backup(a_backup(**{f"{UUID}__watch.json": b" " * (backup.MAX_JSON_BYTES + 1)}))
    with pytest.raises(ConfigError, match="no JSON"):
        read_backup(b"{" + b'"a":[' * 200_000)
    with pytest.raises(ConfigError, match="MiB"):
        read_backup(b"{" + b" " * backup.MAX_JSON_BYTES)


def test_what_lies_in_the_zip_beside_is_never_unpacked() -> None:
    whole = a_backup(**{f"{UUID}__history.txt": b" " * 50_000_000, "secret.txt": b"kept-secret"})
    assert read_backup(whole).watches == []


def test_one_broken_watch_stops_no_other() -> None:
    other = UUID.replace("9", "8")
    found = move(
        read_backup(a_backup(**{f"{UUID}__watch.json": b"{", f"{other}__watch.json": {"url": "https://b.org"}}))
    )
    assert [site["url"] for site in found.sites] == ["https://b.org/"]
    assert [line.how for line in found.report if line.key == f"{UUID}/watch.json"] == [
        f"{UUID}/watch.json: line 1: no JSON"
    ]


# --- the API ---------------------------------------------------------------------------------------------------------


class Recorded:
    """Answers as recorded from the real program."""

    def __init__(self, answers: dict[str, Any], status: int = 200) -> None:
        self.answers, self.status = answers, status
        self.asked: list[str] = []

    def get(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if path not in self.answers:
            return 404, b""
        return self.status, json.dumps(self.answers[path]).encode()


def test_what_the_real_api_tells() -> None:
    source = Recorded(ANSWERS)
    found = move(read_api(source))
    assert {site["url"] for site in found.sites} >= {"https://example.org/form", "https://example.org/hours"}
    assert {tuple(site.get("tags", ())) for site in found.sites} == {("Shops",)}  # type: ignore[arg-type]
    assert [line for line in found.report if "does not know" in line.how] == []
    assert "kept-secret" not in "\n".join(map(str, found.report))
    assert all("?" not in path for path in source.asked)


def test_a_watch_that_is_gone_stops_no_other() -> None:
    answers = {**ANSWERS, "/watch": {**ANSWERS["/watch"], "gone": {}, "../tags": {}}}
    read = read_api(Recorded(answers))
    assert ("watch gone", "it was removed in the meantime (404)") in read.unread
    assert ("watch ../tags", "its id is none") in read.unread
    assert len(read.watches) == len(ANSWERS["/watch"])


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [(403, "Invalid", ConfigError), (302, {}, ConfigError), (200, "text", ConfigError), (503, {}, TransientError)],
)
def test_refusals(status: int, answer: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_api(Recorded({"/watch": answer}, status))


def test_a_source_that_goes_away_is_told() -> None:
    listed: dict[str, Any] = {f"u{n}": {} for n in range(api.MAX_FAILURES + 5)}
    source = Recorded({"/watch": listed, "/tags": {}})
    with pytest.raises(TransientError, match="in a row"):
        read_api(source)
    assert len(source.asked) == api.MAX_FAILURES + 2


def test_three_thousand_watches() -> None:
    listed = {f"u{n}": {"url": f"https://a.org/{n}"} for n in range(3_000)}
    answers = {"/watch": listed, "/tags": {}, **{f"/watch/{uuid}": watch for uuid, watch in listed.items()}}
    seen: list[int] = []
    found = move(read_api(Recorded(answers), lambda done, total: seen.append(done)))
    assert (len(found.sites), seen[-1]) == (3_000, 3_000)
