"""Prints how many pieces the product has: a room a line, then the measures that say whether it can be held in the head.

CI prints both with every check, so that growth is noticed at once:

    python benchmarks/sizes.py [--untraced]

What is counted, in `pollerd/` only:

- preamble: lines of a file before its first statement that is neither docstring nor import.
- twin records: pairs of record classes (dataclasses, structs, pydantic models) of five fields or more, of which one has
  at least three quarters of the other's fields.
- lists of settings: classes, signatures, calls, mappings and sequences that name at least four settings of a site.
- wrappers: asynchronous methods of the storage of at most three statements that pass a synchronous one to the database,
  and transactions (`@reads`, `@writes`) that do nothing but hand on what they are given.
- traces: files and functions of ours that run between two commits of an unchanged page, or between a request's
  arrival and its answer, by `sys.setprofile` in all threads.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import itertools
import statistics
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "pollerd"
OPTIONAL = ("lab", "moving", "crawling", "crawler", "bandits", "experiments", "demo", "collection")
"""Names of folders and files of rooms that a daemon does without."""
SETTINGS = frozenset(
    {"weight", "cost", "min_interval", "max_interval", "half_life", "min_yield"}
    | {"respect_ttl", "selections", "windows", "render", "keep_screenshots", "deadline"}
)
RECORD_BASES = ("Struct", "BaseModel", "NamedTuple", "TypedDict")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class RoomSize:
    """Sums over the Python files of one folder and those below it."""

    files: int = 0
    lines: int = 0
    largest: tuple[int, str] = (0, "")
    longest: tuple[int, str] = (0, "")

    def add(self, path: Path, source: str, tree: ast.Module) -> None:
        """Adds a file."""
        lines = code_lines(source, tree)
        self.files, self.lines = self.files + 1, self.lines + lines
        self.largest = max(self.largest, (lines, str(path.relative_to(ROOT))))
        for node in ast.walk(tree):
            if isinstance(node, Function):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                self.longest = max(self.longest, (length, f"{path.stem}.{node.name}"))


def code_lines(source: str, tree: ast.AST) -> int:
    """Returns the number of lines without blank lines, comments and docstrings."""
    text = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = (line.strip() for number, line in enumerate(source.splitlines(), 1) if number not in text)
    return sum(1 for line in kept if line and not line.startswith("#"))


def room_of(path: Path) -> str:
    """Returns the folder that a file counts for: the one below pollerd for the product, else the top-level one."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[: 2 if parts[0] == "pollerd" and len(parts) > 2 else 1])


def preamble(source: str, tree: ast.Module) -> int:
    """Returns the number of lines before the first statement that is neither docstring nor import."""
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not (is_docstring or is_guarded or isinstance(node, ast.Import | ast.ImportFrom)):
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            return min([node.lineno, *(each.lineno for each in decorators)]) - 1
    return source.count("\n")


def classes_of(trees: dict[Path, ast.Module]) -> list[tuple[ast.ClassDef, list[str]]]:
    """Returns each class with the last names of its bases."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [(node, [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]) for node in nodes]


def fields_of(node: ast.ClassDef) -> set[str]:
    """Returns the names that a class annotates."""
    return {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if "ClassVar" not in ast.unparse(each.annotation)
    }


def members_of(node: ast.ClassDef) -> set[str]:
    """Returns the names of a class's methods and annotated attributes."""
    return fields_of(node) | {each.name for each in node.body if isinstance(each, Function)} - {"__init__"}


def protocols(trees: dict[Path, ast.Module]) -> tuple[int, int]:
    """Returns the number of Protocols, and of those that at most one class fits."""
    classes = classes_of(trees)
    wanted = [members_of(node) for node, bases in classes if "Protocol" in bases]
    others = [members_of(node) for node, bases in classes if "Protocol" not in bases]
    return len(wanted), sum(sum(members <= other for other in others) <= 1 for members in wanted)


def twin_records(trees: dict[Path, ast.Module]) -> int:
    """Returns the number of pairs of records that share most of their fields."""
    records = []
    for node, bases in classes_of(trees):
        decorated = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
        if decorated or any(base in RECORD_BASES or base.endswith(("Fields", "Schema")) for base in bases):
            records.append(fields_of(node))
    large = [fields for fields in records if len(fields) >= 5]
    return sum(len(a & b) >= 0.75 * min(len(a), len(b)) for a, b in itertools.combinations(large, 2))


def lists_of_settings(trees: dict[Path, ast.Module]) -> tuple[int, int]:
    """Returns how many declarations name four settings or more, and in how many files they are."""
    counts = [sum(len(names & SETTINGS) >= 4 for names in map(names_in, ast.walk(tree))) for tree in trees.values()]
    return sum(counts), sum(count > 0 for count in counts)


def names_in(node: ast.AST) -> set[object]:
    """Returns the names that one class, signature, call, mapping or sequence lists."""
    match node:
        case ast.ClassDef():
            return set(fields_of(node))
        case ast.FunctionDef(args=given) | ast.AsyncFunctionDef(args=given):
            return {each.arg for each in (*given.args, *given.kwonlyargs)}
        case ast.Call(keywords=keywords):
            return {each.arg for each in keywords}
        case ast.Dict(keys=keys):
            return {each.value for each in keys if isinstance(each, ast.Constant)}
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return {each.value for each in items if isinstance(each, ast.Constant)}
    return set()


def wrappers(trees: dict[Path, ast.Module]) -> int:
    """Returns how many methods of the storage only pass a function to the database, or hand on what they are given."""
    found = 0
    for node, _ in classes_of({path: tree for path, tree in trees.items() if path.is_relative_to(PRODUCT / "storage")}):
        for method in node.body:
            if not isinstance(method, Function):
                continue
            body = [each for each in method.body if not isinstance(getattr(each, "value", None), ast.Constant)]
            if isinstance(method, ast.AsyncFunctionDef):
                source = " ".join(map(ast.unparse, body))
                found += len(body) <= 3 and (".read(" in source or ".write(" in source)
            elif any(ast.unparse(each) in ("reads", "writes") for each in method.decorator_list):
                found += len(body) == 1 and hands_on(body[0])
    return found


def hands_on(statement: ast.stmt) -> bool:
    """Returns whether a statement is a call with the connection and other names alone, as they are."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return False
    given = [ast.unparse(each) for each in (*call.args, *(each.value for each in call.keywords))]
    return "connection" in given and all(each.removeprefix("self.").isidentifier() for each in given)


class Trace:
    """Functions of the product that run while `recording()`, in all threads started since this was made."""

    def __init__(self) -> None:
        self._seen = set[tuple[str, int]]()
        self._on = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Forgets what was seen, and records until the end of the block."""
        self._seen.clear()
        self._on = True
        yield
        self._on = False

    def sizes(self) -> str:
        """Returns how many files and functions ran."""
        return f"{len({file for file, _ in self._seen})} / {len(self._seen)}"

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self._on and event == "call" and frame.f_code.co_filename.startswith(str(PRODUCT)):
            self._seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))


async def traced() -> dict[str, str]:
    """Returns files and functions of one unchanged poll, of a site that is added and of one that is changed."""
    trace = Trace()  # before the daemon's threads
    from aiohttp import ClientSession, TCPConnector

    found = {}
    async with (
        _served_page() as page,
        _serving(polls=True) as api,
        ClientSession(
            api,
            connector=TCPConnector(force_close=True),  # no connection of the API ends while a poll is recorded
        ) as session,
    ):
        async with session.post("/api/v1/sites", json={"url": page}) as answer:
            assert answer.ok, await answer.text()
        await asyncio.sleep(3.0)  # its first poll, the first that finds nothing new, and what both load
        with trace.recording():
            await asyncio.sleep(2.0)  # its interval
        found["unchanged poll"] = trace.sizes()
    async with _serving(polls=False) as api, ClientSession(api) as session:
        for turn in range(2):  # the first call loads what it needs
            for name, method, path, body in (
                ("POST /sites", "POST", "/api/v1/sites", {"url": f"http://127.0.0.1/{turn}"}),
                ("PATCH /sites/ID", "PATCH", "/api/v1/sites/1", {"weight": 2.0 + turn}),
            ):
                with trace.recording():
                    async with session.request(method, path, json=body) as answer:
                        assert answer.ok, await answer.text()
                found[name] = trace.sizes()
    return found


@asynccontextmanager
async def _served_page() -> AsyncIterator[str]:
    """A page with an ETag on loopback: its URL."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        same = request.headers.get("If-None-Match") == '"1"'
        return web.Response(status=304 if same else 200, text=None if same else "page", headers={"ETag": '"1"'})

    runner = web.ServerRunner(web.Server(answer))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/page"
    await runner.cleanup()


@asynccontextmanager
async def _serving(*, polls: bool) -> AsyncIterator[str]:
    """The API of a daemon that polls a site every two seconds, or none at all: its URL."""
    import socket

    import numpy as np
    from prometheus_client import CollectorRegistry

    from pollerd.api.application import create_api
    from pollerd.api.server import ApiServer
    from pollerd.api.settings import ApiSettings
    from pollerd.app.build import LiveSettings, live_daemon
    from pollerd.daemon.settings import DaemonSettings
    from pollerd.fetching.settings import FetchSettings
    from pollerd.scheduling.settings import SchedulingSettings
    from pollerd.storage import migrate
    from pollerd.storage.store import Store
    from pollerd.telemetry import Instruments

    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"sqlite+aiosqlite:///{folder}/poll.db"
        await migrate.upgrade(url)
        store, registry = await Store.open(url), CollectorRegistry()
        live = LiveSettings(
            daemon=DaemonSettings(budget=10.0),
            scheduling=SchedulingSettings(
                min_saving_seconds=0.0, min_interval_seconds=2.0, host_interval_seconds=0.0, min_yield=0.0
            ),
            fetching=FetchSettings(allow_private=True),
        )
        async with live_daemon(store, live, Instruments(registry, "sizes"), np.random.default_rng(1)) as daemon:
            server = ApiServer(create_api(daemon.control, store, registry, ApiSettings(), "sizes"), drain_seconds=1)
            async with asyncio.TaskGroup() as tasks:
                if polls:
                    tasks.create_task(daemon.run())
                tasks.create_task(server.serve(sockets=[listener]))
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
                server.should_exit = True
                daemon.stop()
        await store.close()


def modules_of_a_daemon() -> int:
    """Returns how many of the product's modules are loaded; after `traced` those of a running daemon."""
    return sum(name.split(".")[0] == "pollerd" for name in sys.modules)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--untraced", action="store_true", help="without starting a daemon")
    arguments = parser.parse_args()
    rooms: dict[str, RoomSize] = {}
    sources: dict[Path, str] = {}
    trees: dict[Path, ast.Module] = {}
    for top in ("pollerd", "migrations", "benchmarks", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            source = path.read_text()
            tree = ast.parse(source)
            rooms.setdefault(room_of(path), RoomSize()).add(path, source, tree)
            if top == "pollerd":
                sources[path], trees[path] = source, tree
    print(f"{'room':24}{'files':>6}{'lines':>8}  largest file, longest function")
    for name, size in rooms.items():
        (most, file), (length, function) = size.largest, size.longest
        print(f"{name:24}{size.files:6}{size.lines:8,}  {file} {most}, {function} {length}")
    print()
    for name, value in measures(sources, trees, trace=not arguments.untraced):
        print(f"{name:58}{value:>16}")


def measures(
    sources: dict[Path, str], trees: dict[Path, ast.Module], *, trace: bool
) -> Iterator[tuple[str, str | int | float]]:
    """Yields the measures of the whole product, by name."""
    lengths = {path: source.count("\n") for path, source in sources.items()}
    needed = [path for path in sources if not {*path.relative_to(PRODUCT).parts, path.stem}.intersection(OPTIONAL)]
    yield "files / lines", f"{len(lengths)} / {sum(lengths.values())}"
    yield "without optional rooms", f"{len(needed)} / {sum(lengths[path] for path in needed)}"
    yield "lines of the median file", statistics.median(lengths.values())
    yield "files under 60 lines", sum(length < 60 for length in lengths.values())
    yield "lines of preamble", sum(preamble(sources[path], tree) for path, tree in trees.items())
    yield "twin records", twin_records(trees)
    yield "Protocols / with at most one implementation", "{} / {}".format(*protocols(trees))
    yield "lists of a site's settings / files with them", "{} / {}".format(*lists_of_settings(trees))
    yield "files that name the setting respect_ttl", sum("respect_ttl" in source for source in sources.values())
    yield "asynchronous wrappers in storage", wrappers(trees)
    if trace:
        for name, value in asyncio.run(traced()).items():
            yield f"files / functions of {name}", value
        yield "modules of ours that a daemon loads", modules_of_a_daemon()


if __name__ == "__main__":
    main()
