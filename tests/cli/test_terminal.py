"""The first screen of `pollerd run` on a real terminal: status line and log lines, and what they explain."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pollerd.cli.serving import status_parts
from pollerd.daemon.views import Status
from tests.support.origin import Origin, Page, until
from tests.support.process import daemon_process, environment
from tests.support.terminal import Screen, on_terminal

LOG_LINE = re.compile(r"at=\S+ level=(info|warning|error) event=\w+.*")
STATUS_LINE = re.compile(r"[\d,]+ sites? · .* in flight.*")


def run(tmp_path: Path, *arguments: str) -> tuple[str, ...]:
    database = f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}"
    flags = ("--database", database, "--listen", "127.0.0.1:0", "--log-level", "info")
    return (sys.executable, "-m", "pollerd", "run", *arguments, *flags)


def status(screen: Screen) -> str:
    return screen.lines[-1]


async def test_status_and_log_lines_stand_apart(tmp_path: Path) -> None:
    """A site a second is refused, so log and status lines take turns; what is left is whole."""
    async with Origin() as origin:
        origin.pages["/a"] = Page()
        urls = tmp_path / "urls.txt"
        lines = [origin.url(f"/{n}") for n in range(3)] + [f"nonsense {n}" for n in range(15)]
        urls.write_text("\n".join(lines))
        command = run(tmp_path, str(urls), "--allow-private", "--host-interval", "0")
        async with on_terminal(*command, env=environment(TERM="xterm")) as terminal:
            await terminal.until(lambda screen: "3 polls" in status(screen))
            seen = list(terminal.screen.lines)
            terminal.type(b"\x03")
            assert await terminal.ended() == 0
    assert STATUS_LINE.fullmatch(seen[-1]), seen[-1]
    assert len([line for line in seen if "line_rejected" in line]) == 15
    for line in seen[:-1]:
        assert LOG_LINE.fullmatch(line), line
    *log, last = terminal.screen.lines
    assert last == "", "the status line is gone, and the prompt stands at the start of a line"
    assert [line for line in log if LOG_LINE.fullmatch(line) or line == "^C"] == log
    assert "event=stopped" in log[-1]


async def test_the_line_is_cut_to_the_terminal(tmp_path: Path) -> None:
    async with on_terminal(*run(tmp_path), env=environment(TERM="xterm"), columns=30) as terminal:
        await terminal.until(lambda screen: "0 sites" in status(screen))
        assert len(status(terminal.screen)) < 30
        terminal.type(b"\x03")
        assert await terminal.ended() == 0


async def test_without_a_list_it_says_how_to_add_a_site(tmp_path: Path) -> None:
    async with on_terminal(*run(tmp_path), env=environment(TERM="xterm")) as terminal:
        await terminal.until(lambda screen: "no_sites" in screen.raw and "0 sites" in status(screen))
        (told,) = [line for line in terminal.screen.lines if "no_sites" in line]
        port = re.search(r"listen=127\.0\.0\.1:(\d+)", terminal.screen.raw)
        assert port is not None
        assert f"pollerd sites add URL --url http://127.0.0.1:{port[1]}" in told
        assert f"url=http://127.0.0.1:{port[1]}" in told
        assert "(no sites: add one with `pollerd sites add URL`)" in status(terminal.screen)
        terminal.type(b"\x03")
        assert await terminal.ended() == 0


async def test_a_private_list_names_the_flag(tmp_path: Path) -> None:
    async with Origin() as origin:
        urls = tmp_path / "urls.txt"
        urls.write_text("\n".join(origin.url(f"/{n}") for n in range(4)))
        command = run(tmp_path, str(urls), "--host-interval", "0")
        async with on_terminal(*command, env=environment(TERM="xterm")) as terminal:
            await terminal.until(lambda screen: "4 sites are at private" in status(screen))
            warned = [line for line in terminal.screen.lines if "private_addresses" in line]
            terminal.type(b"\x03")
            assert await terminal.ended() == 0
        assert not origin.hits()
        assert warned
        assert all("level=warning" in line and "--allow-private" in line for line in warned)
        # The flag is all that was missing: the sites do not wait for a backoff to end.
        flags = ["--min-interval", "0"]
        async with daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'poll.db'}", tmp_path / "log", flags=flags):
            await until(lambda: len({hit.path for hit in origin.hits()} - {"/robots.txt"}) == 4)


async def test_the_status_says_what_binds(tmp_path: Path) -> None:
    async with Origin() as origin:
        urls = tmp_path / "urls.txt"
        origin.pages.update({f"/{n}": Page() for n in range(3)})
        urls.write_text("\n".join(origin.url(f"/{n}") for n in range(3)))
        command = run(tmp_path, str(urls), "--allow-private", "--host-interval", "0")
        async with on_terminal(*command, env=environment(TERM="xterm")) as terminal:
            await terminal.until(
                lambda screen: "(budget not used up: a check must be expected to save 20s " in status(screen)
            )


async def test_no_terminal_gets_no_escape_codes(tmp_path: Path) -> None:
    async with on_terminal(*run(tmp_path), env=environment(TERM="dumb")) as terminal:
        await terminal.until(lambda screen: "no_sites" in screen.raw)
        terminal.type(b"\x03")
        assert await terminal.ended() == 0
    assert "\x1b" not in terminal.screen.raw
    async with daemon_process(f"sqlite+aiosqlite:///{tmp_path / 'other.db'}", tmp_path / "log", TERM="xterm") as daemon:
        await daemon.said("no_sites")
        assert "\x1b" not in daemon.log


def test_trouble_and_strangers_words_on_the_line() -> None:
    parts = list(status_parts(Status(1, 0, 2, 1, 0.5, 5.0, True, "gone\x1b]0;x"), "each waits 30s: --min-interval"))
    text = "".join(text for text, _ in parts)
    assert text.startswith("1 site · 0.5/5 polls/s (each waits 30s: --min-interval) · 2 polls · 1 change")
    assert [trouble for _, trouble in parts][-2:] == [True, True]
