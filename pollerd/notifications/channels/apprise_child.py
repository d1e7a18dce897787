"""The process in which Apprise runs: started as a file of its own, without anything else of pollerd but the fence.

It is given one URL and one message at a time, as lines of JSON, and answers likewise. Once Apprise is loaded, the
kernel refuses what plugins must not do (apprise_fence.py), and before it an audit hook, which names it in words and
is all that there is where the kernel has no fence. Names are resolved and connections opened by the daemon, which asks
the guard; this process is passed their descriptors.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from pollerd.texts import _

_MEMORY_BYTES = 1024**3
_SECONDS = 40
"""After so long in one message the process ends, should nobody end it."""
_MAX_LOG = 4_000
_READ_BYTES = 64 * 1024
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_READING = os.O_RDONLY | os.O_CLOEXEC
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_REFUSED = frozenset(
    (
        "socket.bind",
        "socket.connect",
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
    """The daemon, at the other end of a socket."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=os.dup(0))
        self._lock = threading.Lock()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Sends one line and returns the answer; ends the process where the daemon is gone.

        An answer with a descriptor has it as `descriptor`.
        """
        line, descriptors = b"", list[int]()
        with self._lock:
            try:
                self._socket.sendall(json.dumps(question).encode() + b"\n")
                while not line.endswith(b"\n"):
                    part, passed, _flags, _address = socket.recv_fds(self._socket, _READ_BYTES, 1, _CLOSE_ON_EXEC)
                    if not part:
                        os._exit(0)
                    line += part
                    descriptors += passed
            except OSError:
                os._exit(0)
        answer: dict[str, Any] = json.loads(line)
        return {**answer, "descriptor": descriptors[0]} if descriptors else answer

    def getaddrinfo(
        self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """Stands in the place of `socket.getaddrinfo`."""
        name = host.decode("ascii") if isinstance(host, bytes) else str(host or "")
        answer = self.ask(resolve=name, port=int(port or 0))
        if "refused" in answer:
            raise PermissionError(answer["refused"])
        entries = [entry for entry in answer["addresses"] if family in (0, entry[0])]
        if not entries:
            raise socket.gaierror(socket.EAI_NONAME, _("no such name"))
        return [
            (socket.AddressFamily(number), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", tuple(place))
            for number, place in entries
        ]

    def connection(self, address: Any, timeout: float | None) -> int:
        """Returns the descriptor of a connection to an address that was looked up for this message. Raises OSError."""
        if not isinstance(address, tuple) or len(address) < 2:
            _refuse(_("connection to {address!r}", address=address))
        answer = self.ask(connect=str(address[0]), port=int(address[1]), timeout=timeout)
        if "refused" in answer:
            _refuse(answer["refused"])
        if "descriptor" not in answer:
            raise OSError(answer["failed"], answer["reason"])
        return int(answer["descriptor"])


class Sockets:
    """Methods for `socket.socket`, which this process cannot open: `connect` asks the daemon for an open one.

    Until then a socket is one end of a pair without another end, and its options are kept for the connection.
    """

    def __init__(self, daemon: ParentProcess) -> None:
        self._daemon = daemon
        self._unconnected, other = socket.socketpair()
        other.close()
        self._options = WeakKeyDictionary[socket.socket, list[tuple[Any, ...]]]()
        self._open, self._set_option = socket.socket.__init__, socket.socket.setsockopt

    def replace(self) -> None:
        """Puts these methods in the place of those of `socket.socket`, for all sockets from now on."""

        def open_(sock: socket.socket, family: int = -1, type: int = -1, proto: int = -1, fileno: Any = None) -> None:
            if fileno is not None:
                return self._open(sock, family, type, proto, fileno)
            family, type = (socket.AF_INET if family == -1 else family), (socket.SOCK_STREAM if type == -1 else type)
            if family not in _FAMILIES or type & 0xF != socket.SOCK_STREAM:
                _refuse(_("a socket that is not one of TCP"))
            self._open(sock, family, type, max(proto, 0), os.dup(self._unconnected.fileno()))
            self._options[sock] = []
            return None

        def set_option(sock: socket.socket, *option: Any) -> None:
            if sock in self._options:
                self._options[sock].append(option)
            else:
                self._set_option(sock, *option)

        def connect_ex(sock: socket.socket, address: Any) -> int:
            try:
                self._connect(sock, address)
            except OSError as error:
                return error.errno or errno.EPERM
            return 0

        changed: Any = socket.socket
        changed.__init__, changed.setsockopt, changed.connect_ex = open_, set_option, connect_ex
        changed.connect = lambda sock, address: self._connect(sock, address)

    def _connect(self, sock: socket.socket, address: Any) -> None:
        descriptor = self._daemon.connection(address, sock.gettimeout())
        os.dup2(descriptor, sock.fileno(), inheritable=False)
        os.close(descriptor)
        sock.settimeout(sock.gettimeout())  # the daemon's own are never blocking
        for option in self._options.pop(sock, ()):
            self._set_option(sock, *option)


class Gate:
    """The audit hook. What it raises reaches the plugin as an error of the system."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._roots = tuple(folder + os.sep for folder in folders)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raises `PermissionError` for what is refused."""
        if event in _REFUSED or event.startswith(_REFUSED_FAMILIES):
            _refuse(event)
        if event == "socket.__new__":
            self._socket(arguments[1], arguments[2])
        elif event == "open":
            self._open(arguments[0], arguments[1], arguments[2])
        elif event in _FOLDERS:
            self._read(event, arguments[0])
        elif event == "import" and arguments[0].partition(".")[0] in _REFUSED_MODULES:
            raise ImportError(f"refused: {arguments[0]}")

    def _socket(self, family: int, kind: int) -> None:
        if family not in _FAMILIES or kind & 0xF != socket.SOCK_STREAM:
            _refuse(_("a socket that is not one of TCP"))

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


def _refuse(what: str, *_arguments: Any, **_named: Any) -> NoReturn:
    raise PermissionError(_("pollerd refuses: {what}", what=what))


class Captured(logging.Handler):
    """What Apprise says of one message."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if sum(map(len, self.lines)) < _MAX_LOG:
            self.lines.append(record.getMessage()[:_MAX_LOG])


def main() -> None:
    """Loads Apprise, puts up the fence, and sends what it is given until nobody gives more."""
    daemon = ParentProcess()
    _limit()
    try:
        _fence(daemon)
    except (OSError, RuntimeError) as error:
        daemon.ask(fault=str(error))
        os._exit(1)
    captured = Captured()
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(captured)
    answer: dict[str, Any] = {"ready": True}
    while True:
        request = daemon.ask(**answer)
        captured.lines.clear()
        signal.alarm(_SECONDS)
        answer = _sent(request)
        signal.alarm(0)
        answer["log"] = " ".join(captured.lines)[:_MAX_LOG]


def _fence(daemon: ParentProcess) -> None:
    """Loads all that plugins need of the system, and gives up all that they must not have. Raises as `put_up`."""
    import mimetypes

    import apprise
    import certifi
    import requests

    mimetypes.init()
    time.tzset()
    requests.Session().close()
    apprise.Apprise.instantiate("json://localhost")  # loads all plugins
    _warm_up()
    Sockets(daemon).replace()
    socket.getaddrinfo = daemon.getaddrinfo
    socket.getfqdn = lambda name="": name or "localhost.localdomain"  # what smtplib calls itself by
    paths = sysconfig.get_paths()
    folders = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.add(str(Path(apprise.__file__).resolve().parent.parent))
    _module("apprise_fence").put_up(folders, [os.devnull, certifi.where(), *_certificates()])
    sys.addaudithook(Gate(folders))


def _module(name: str) -> Any:
    """Loads a file beside this one: the package that both are in is not on the path."""
    specification = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _certificates() -> set[str]:
    """Returns the files by which servers are verified: the kernel judges them by where they lie, not by their links."""
    places = ssl.get_default_verify_paths()
    paths = {places.cafile} if places.cafile else set[str]()
    if places.capath:
        paths.update(entry.path for entry in os.scandir(places.capath))
    return {os.path.realpath(path) for path in paths if os.path.isfile(path)}


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
                setattr(module, name, lambda *_arguments, **_named: _refuse("a program"))


def _sent(message: dict[str, Any]) -> dict[str, Any]:
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
        plugin = Apprise.instantiate(message["url"], asset=asset)
        if plugin is None or not plugin.verify_certificate:
            return {"status": "INVALID"}
        plugin.overflow_mode = OverflowMode.TRUNCATE
        service = Apprise(asset=asset)
        service.add(plugin)
        result = service.notify(body=message["body"], title=message["title"], body_format=message["format"])
    except BaseException as error:  # noqa: BLE001 - plugins may raise anything, and the answer says so
        return {"status": "FAILURE", "error": f"{type(error).__name__}: {error}"[:_MAX_LOG]}
    status = getattr(result, "status", None)
    return {"status": status.name if status is not None else "SUCCESS" if result else "FAILURE"}


if __name__ == "__main__":
    main()
