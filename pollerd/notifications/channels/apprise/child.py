"""The process in which Apprise runs: started as a file of its own, without anything else of pollerd.

It is given one URL and one message at a time, as lines of JSON, and answers likewise. Once Apprise is loaded, an
audit hook refuses what plugins must not do. Names are resolved by the daemon, which asks the guard: only the addresses
that it answered may be connected to.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import socket
import sys
import sysconfig
import threading
from typing import Any, NoReturn

_MEMORY_BYTES = 1024**3
_SECONDS = 40
"""After so long in one message the process ends, should nobody end it."""
_MOST_LOG = 4_000
_READING = os.O_RDONLY | os.O_CLOEXEC
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_REFUSED = frozenset(
    (
        "socket.bind",
        "socket.sendto",
        "socket.sendmsg",
        "socket.sethostname",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.gethostbyaddr",
        "socket.getnameinfo",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.startfile/2",
        "pty.spawn",
        "os.kill",
        "os.killpg",
        "signal.pthread_kill",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.mkdir",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.chmod",
        "os.chown",
        "os.chflags",
        "os.lockf",
        "os.utime",
        "os.setxattr",
        "os.getxattr",
        "os.listxattr",
        "os.chdir",
        "os.putenv",
        "os.unsetenv",
        "sqlite3.connect",
        "resource.setrlimit",
        "resource.prlimit",
        "mmap.__new__",
        "sys.setprofile",
        "sys.settrace",
        "sys.addaudithook",
        "cpython.run_file",
        "cpython.run_command",
    )
)
_REFUSED_FAMILIES = ("ctypes.", "syslog.", "shutil.", "tempfile.", "winreg.", "fcntl.")
_REFUSED_MODULES = frozenset({"ctypes", "_ctypes", "_posixsubprocess", "_testcapi", "multiprocessing", "pty"})
_FOLDERS = frozenset({"os.listdir", "os.scandir", "os.walk", "glob.glob"})


class ParentProcess:
    """The other end of the pipes."""

    def __init__(self) -> None:
        self._in = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._lock = threading.Lock()
        self.allowed: set[str] = set()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Sends one line and returns the answer; ends the process where the daemon is gone."""
        with self._lock:
            print(json.dumps(question), file=self._out, flush=True)
            line = self._in.readline()
        if not line:
            os._exit(0)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def getaddrinfo(
        self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """Stands in the place of `socket.getaddrinfo`."""
        name = host.decode("ascii") if isinstance(host, bytes) else str(host or "")
        answer = self.ask(resolve=name, port=int(port or 0))
        if "refused" in answer:
            raise PermissionError(answer["refused"])
        found = [entry for entry in answer["addresses"] if family in (0, entry[0])]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        self.allowed.update(entry[1][0] for entry in found)
        return [
            (socket.AddressFamily(one), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", tuple(place))
            for one, place in found
        ]


class Gate:
    """The audit hook. What it raises reaches the plugin as an error of the system."""

    def __init__(self, daemon: ParentProcess) -> None:
        paths = sysconfig.get_paths()
        names = ("stdlib", "platstdlib", "purelib", "platlib")
        self._roots = tuple({os.path.realpath(paths[name]) + os.sep for name in names})
        self._daemon = daemon

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises `PermissionError` for what is refused."""
        if event in _REFUSED or event.startswith(_REFUSED_FAMILIES):
            _refuse(event)
        if event == "socket.connect":
            self._connect(arguments[1])
        elif event == "socket.__new__":
            self._socket(arguments[1], arguments[2])
        elif event == "open":
            self._open(arguments[0], arguments[1], arguments[2])
        elif event in _FOLDERS:
            self._read(event, arguments[0])
        elif event == "import" and arguments[0].partition(".")[0] in _REFUSED_MODULES:
            raise ImportError(f"refused: {arguments[0]}")

    def _connect(self, address: Any) -> None:
        if not isinstance(address, tuple) or address[0] not in self._daemon.allowed:
            _refuse(f"connection to {address!r}")

    def _socket(self, family: int, kind: int) -> None:
        if family not in _FAMILIES or kind & 0xF != socket.SOCK_STREAM:
            _refuse("a socket that is not one of TCP")

    def _open(self, path: Any, mode: Any, flags: Any) -> None:
        reads = set(mode) <= set("rbtU") if isinstance(mode, str) else flags & ~_READING == 0
        if not reads:
            _refuse(f"writing {path!r}")
        self._read("open", path)

    def _read(self, event: str, path: Any) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            name = os.path.realpath(os.fsdecode(path))
            if name == os.devnull or (name + os.sep).startswith(self._roots):
                return
        _refuse(f"{event} {path!r}")


def _refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    raise PermissionError(f"pollerd refuses: {what}")


class Captured(logging.Handler):
    """What Apprise says of one message."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if sum(map(len, self.lines)) < _MOST_LOG:
            self.lines.append(record.getMessage()[:_MOST_LOG])


def main() -> None:
    """Loads Apprise, closes the gate, and sends what it is given until nobody gives more."""
    daemon = ParentProcess()
    _limit()
    import mimetypes

    import apprise
    import requests

    mimetypes.init()
    requests.Session().close()
    apprise.Apprise.instantiate("json://localhost")  # loads all plugins
    _warm_up()
    socket.getaddrinfo = daemon.getaddrinfo
    socket.getfqdn = lambda name="": name or "localhost.localdomain"  # what smtplib calls itself by
    sys.addaudithook(Gate(daemon))
    captured = Captured()
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(captured)
    answer: dict[str, Any] = {"ready": True}
    while True:
        given = daemon.ask(**answer)
        captured.lines.clear()
        daemon.allowed.clear()
        signal.alarm(_SECONDS)
        answer = _sent(given)
        signal.alarm(0)
        answer["log"] = " ".join(captured.lines)[:_MOST_LOG]


def _limit() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    for limit, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)):
        resource.setrlimit(limit, (most, most))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _warm_up() -> None:
    """Takes from modules that are loaded what starts programs without an audit event."""
    started = sys.modules.get("_posixsubprocess")
    for module in (started, sys.modules.get("subprocess")):
        for name in ("fork_exec", "_fork_exec"):
            if module is not None and hasattr(module, name):
                setattr(module, name, lambda *_, **__: _refuse("a program"))


def _sent(given: dict[str, Any]) -> dict[str, Any]:
    """Sends one message; returns how it ended in Apprise's words."""
    from apprise import Apprise, AppriseAsset
    from apprise.common import OverflowMode

    asset = AppriseAsset(
        http_redirects=False,
        pgp_autogen=False,
        pem_autogen=False,
        storage_mode="memory",
        async_mode=False,
        secure_logging=True,
    )
    try:
        plugin = Apprise.instantiate(given["url"], asset=asset)
        if plugin is None or not plugin.verify_certificate:
            return {"status": "INVALID"}
        plugin.overflow_mode = OverflowMode.TRUNCATE
        service = Apprise(asset=asset)
        service.add(plugin)
        result = service.notify(body=given["body"], title=given["title"], body_format=given["format"])
    except BaseException as error:  # noqa: BLE001 - plugins may raise anything, and the answer says so
        return {"status": "FAILURE", "error": f"{type(error).__name__}: {error}"[:_MOST_LOG]}
    status = getattr(result, "status", None)
    return {"status": status.name if status is not None else "SUCCESS" if result else "FAILURE"}


if __name__ == "__main__":
    main()
