"""The fence of the kernel: a plugin that takes the audit hook away, and then calls the system by native code."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pollerd.fetching.guard import Guard
from pollerd.notifications.channels import apprise as apprise_process
from pollerd.notifications.channels import apprise_fence
from pollerd.notifications.channels.apprise import AppriseProcess, LostProcessError
from tests.fetching.conftest import Certificate, Serve, certificate, serve
from tests.fetching.sites import message, says
from tests.notifications.channels.mailbox import mailbox
from tests.notifications.channels.test_hostile_plugins import PROGRAM, send
from tests.support.ports import free_port

__all__ = ["certificate", "serve"]
whole = pytest.mark.skipif(apprise_fence.missing() is not None, reason=str(apprise_fence.missing()))

NATIVE = """
import ctypes, gc, os, signal, socket, sys
for gate in [one for one in gc.get_objects() if type(one).__name__ == "Gate"]:
    type(gate).__call__ = lambda *_: None
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *given):
    ctypes.set_errno(0)
    if getattr(libc, name)(*given) in (-1, 0xFFFFFFFFFFFFFFFF) or ctypes.get_errno():
        raise OSError(ctypes.get_errno(), name)
def system(number, *given):
    call("syscall", ctypes.c_long(number), *map(ctypes.c_long, given))
daemon = os.getppid()
place = ctypes.create_string_buffer(__import__("struct").pack("=HHI8x", 2, socket.htons(PORT), 0x0100007F))
"""
OPENED = "one = socket.socket(); socket.getaddrinfo('127.0.0.1', PORT); one.connect(('127.0.0.1', PORT)); "
ATTACKS = {
    "the hook by a bound method": "open('/etc/passwd')",
    "sockets": "call('socket', 2, 1, 0)",
    "sockets of Python": "import _socket; _socket.socket()",
    "datagrams": "call('socket', 2, 2, 0)",
    "Unix sockets": "call('socket', 1, 1, 0)",
    "raw sockets": "call('socket', 2, 3, 1)",
    "netlink": "call('socket', 16, 3, 0)",
    "pairs": "call('socketpair', 1, 1, 0, (ctypes.c_int * 2)())",
    "connect": OPENED + "call('connect', one.fileno(), place, 16)",
    "connect while sending": OPENED + "call('sendto', one.fileno(), b'x', 1, 0x20000000, place, 16)",
    "sendmsg": OPENED + "call('sendmsg', one.fileno(), ctypes.create_string_buffer(56), 0)",
    "bind": OPENED + "call('bind', one.fileno(), place, 16)",
    "listen": OPENED + "call('listen', one.fileno(), 1)",
    "accept": OPENED + "call('accept', one.fileno(), None, None)",
    "exec": "call('execv', b'/bin/true', (ctypes.c_char_p * 2)(b'true', None))",
    "exec of Python": "os.execv('/bin/true', ['true'])",
    "exec of a descriptor": "call('fexecve', 0, (ctypes.c_char_p * 2)(b'x', None), (ctypes.c_char_p * 1)(None))",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "fork": "call('fork')",
    "fork of Python": "os.fork() or os._exit(0)",
    "subprocess": """
import importlib.util, subprocess
found = importlib.util.find_spec("_posixsubprocess")
started = importlib.util.module_from_spec(found)
found.loader.exec_module(started)
assert started.fork_exec.__module__ == "_posixsubprocess"
subprocess._fork_exec = sys.modules["_posixsubprocess"].fork_exec = started.fork_exec
subprocess.run(["/bin/true"], close_fds=True)
""",
    "clone": "system({'x86_64': 56, 'aarch64': 220}[os.uname().machine], signal.SIGCHLD, 0, 0, 0, 0)",
    "clone3": "system(435, 0, 0)",
    "namespaces": "call('unshare', 0x10000000)",
    "a signal to the daemon": "call('kill', daemon, 0)",
    "a signal to itself by kill": "call('kill', os.getpid(), 0)",
    "a signal to all": "call('kill', -1, 0)",
    "a signal to a thread": "system({'x86_64': 234, 'aarch64': 131}[os.uname().machine], daemon, daemon, 0)",
    "a queued signal": "call('sigqueue', daemon, 0, None)",
    "pidfd": "signal.pidfd_send_signal(os.pidfd_open(daemon), 0)",
    "pidfd of native code": "system(434, daemon, 0)",
    "a signal by pidfd": "system(424, 0, 0, 0, 0)",
    "a descriptor by pidfd": "system(438, 0, 0, 0)",
    "a signal by an owner": OPENED + "call('fcntl', one.fileno(), 8, daemon)",
    "a signal by ioctl": OPENED + "call('ioctl', one.fileno(), 0x8901, ctypes.byref(ctypes.c_int(daemon)))",
    "ptrace": "call('ptrace', 16, daemon, None, None)",
    "memory of the daemon": "call('process_vm_readv', daemon, None, 0, None, 0, 0)",
    "limits of the daemon": "call('prlimit', daemon, 7, None, None)",
    "limits": "call('prlimit', 0, 7, (ctypes.c_ulong * 2)(9, 9), None)",
    "prctl": "call('prctl', 4, 1, 0, 0, 0)",
    "io_uring": "system(425, 1, 0)",
    "memfd": "call('memfd_create', b'x', 0)",
    "bpf": "system({'x86_64': 321, 'aarch64': 280}[os.uname().machine], 0, 0, 0)",
    "keys": "system({'x86_64': 250, 'aarch64': 219}[os.uname().machine], 0, 0, 0)",
    "shared memory": "call('shmget', 0, 4096, 0o1600)",
    "watching folders": "call('inotify_init1', 0)",
    "mount": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "chroot": "call('chroot', b'/tmp')",
    "other user": "call('setuid', 65534)",
    "read": "call('open', b'/etc/passwd', 0)",
    "read above": "call('open', os.path.dirname(os.__file__).encode() + b'/../../../../../../../../../etc/passwd', 0)",
    "read memory by file": "call('open', b'/proc/self/mem', 0)",
    "read the daemon's environment": "open(f'/proc/{daemon}/environ')",
    "list": "os.listdir('/')",
    "openat2": "system(437, -100, 0, 0, 0)",
    "write": "call('open', b'/tmp/pollerd-hostile', os.O_WRONLY | os.O_CREAT, 0o600)",
    "write a library": "call('open', os.__file__.encode(), os.O_WRONLY)",
    "write and read a library": "call('open', os.__file__.encode(), os.O_RDWR)",
    "truncate": "call('truncate', os.__file__.encode(), 0)",
    "remove": "call('unlink', b'/tmp/pollerd-hostile')",
    "rename": "call('rename', b'/tmp/pollerd-hostile', b'/tmp/pollerd-hostile-2')",
    "make a folder": "call('mkdir', b'/tmp/pollerd-hostile', 0o700)",
    "make a pipe": "call('mkfifo', b'/tmp/pollerd-hostile', 0o600)",
    "link": "call('symlink', b'/etc/passwd', os.__file__.encode() + b'-hostile')",
    "permissions": "call('chmod', b'/tmp', 0o777)",
    "owner": "call('chown', b'/tmp', 0, 0)",
    "times": "os.utime('/tmp')",
    "attributes": "os.setxattr('/tmp', 'user.x', b'x')",
    "the fence itself": "call('prctl', 22, 0, None)",
}
ALLOWED = {
    "threads": """
import threading
found = []
threads = [threading.Thread(target=found.append, args=(one,)) for one in range(8)]
[one.start() for one in threads], [one.join() for one in threads]
assert sorted(found) == list(range(8))
""",
    "a thread is fenced": """
import threading
found = []
def run():
    try:
        open("/etc/passwd")
    except PermissionError as error:
        found.append(error)
one = threading.Thread(target=run)
one.start(), one.join()
assert found
""",
    "modules": "import colorsys, wave, plistlib; import encodings.cp437",
    "a signal to itself": "import threading; signal.pthread_kill(threading.get_ident(), 0)",
    "time": "import time; time.sleep(0); assert time.localtime().tm_year > 2000; os.urandom(8)",
    "memory": "x = bytearray(50_000_000); del x",
    "limits are read": "import resource; assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)",
}
REFUSING = """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
code = b"".join(struct.pack("<HBBI", *line) for line in [(0x20, 0, 0, 0)] + [
    line for number in {numbers} for line in ((0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | {errno}))
] + [(0x06, 0, 0, 0x7FFF0000)])
kept = ctypes.create_string_buffer(code)
filter = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, filter) == 0
"""
"""A kernel, or a container, that refuses these system calls."""
SECCOMP = {"x86_64": 317, "aarch64": 277}.get(os.uname().machine, 0)


@asynccontextmanager
async def running(folder: Path, before: str = "") -> AsyncIterator[AppriseProcess]:
    """A process with a hostile plugin that runs these lines first."""
    path = folder / "program.py"
    path.write_text(before + PROGRAM)
    process = AppriseProcess(Guard(allow_private=True), path)
    try:
        yield process
    finally:
        await process.kill()


def to(url: str) -> dict[str, str]:
    return {"url": url, "title": "x", "body": "x" * 30_000, "format": "text"}


@whole
async def test_native_code_is_held(serve: Serve, tmp_path: Path) -> None:
    site = await serve(says(message("200 OK")))
    ends = {}
    prelude = NATIVE.replace("PORT", str(site.port))
    async with running(tmp_path) as process:
        for name, attack in ATTACKS.items():
            ends[name] = await send(process, prelude + attack.replace("PORT", str(site.port)))
        allowed = {name: await send(process, prelude + code) for name, code in ALLOWED.items()}
    refused = ("PermissionError: ", f"OSError: [Errno {errno.ENOSYS}]")
    assert {name: end for name, end in ends.items() if not end["log"].startswith(refused)} == {}
    assert {name: end for name, end in allowed.items() if end["status"] != "SUCCESS"} == {}
    assert not Path("/tmp/pollerd-hostile").exists()
    assert not Path(os.__file__ + "-hostile").exists()


@whole
async def test_tls_and_plain_connections_pass_the_fence_twice(
    serve: Serve, certificate: Certificate, tmp_path: Path
) -> None:
    plain, secure = await serve(says(message("200 OK"))), await serve(says(message("200 OK")), certificate.server)
    trust = f"import os; os.environ['SSL_CERT_FILE'] = os.environ['REQUESTS_CA_BUNDLE'] = {str(certificate.pem)!r}\n"
    said = []
    async with (
        mailbox(certificate.server) as starting,
        mailbox(certificate.server, implicit=True) as secured,
        running(tmp_path, trust) as process,
    ):
        mail = "from=a@example.org&to=b@example.org&smtp=127.0.0.1"
        urls = (
            f"json://127.0.0.1:{plain.port}/one",
            f"jsons://127.0.0.1:{secure.port}/one",
            f"mailtos://127.0.0.1:{starting.port}?{mail}&mode=starttls",
            f"mailtos://127.0.0.1:{secured.port}?{mail}&mode=ssl",
        )
        for _ in range(2):
            said += [await process.send(to(url)) for url in urls]
            await process.kill()
        assert [one["status"] for one in said] == ["SUCCESS"] * 8, said
        assert (len(plain.seen), len(secure.seen), len(starting.mails), len(secured.mails)) == (2, 2, 2, 2)


@whole
async def test_a_server_that_is_not_trusted_is_refused(serve: Serve, certificate: Certificate, tmp_path: Path) -> None:
    site = await serve(says(message("200 OK")), certificate.server)
    async with running(tmp_path) as process:
        said = await process.send(to(f"jsons://127.0.0.1:{site.port}"))
    assert said["status"] == "FAILURE"
    assert site.seen == []


@whole
async def test_a_process_that_died_is_started_again_behind_the_fence(serve: Serve, tmp_path: Path) -> None:
    site = await serve(says(message("200 OK")))
    async with running(tmp_path) as process:
        with pytest.raises(LostProcessError):
            await send(process, "import os; os.abort()")
        await process.kill()
        for _ in range(2):
            assert (await process.send(to(f"json://127.0.0.1:{site.port}")))["status"] == "SUCCESS"
            opened = await send(process, NATIVE.replace("PORT", "1") + "call('socket', 2, 1, 0)")
            assert opened["status"] == "FAILURE"


async def test_connections_that_fail_say_why(tmp_path: Path) -> None:
    free = free_port()
    dial = "import socket; s = socket.socket(); s.settimeout(5); "
    async with running(tmp_path) as process:
        closed = await send(process, dial + f"socket.getaddrinfo('127.0.0.1', 9); s.connect(('127.0.0.1', {free}))")
        other = await send(process, dial + "s.connect(('127.0.0.2', 9))")
        path = await send(process, dial + "s.connect('/run/x')")
    assert closed["log"].startswith(f"ConnectionRefusedError: [Errno {errno.ECONNREFUSED}]"), closed
    assert "not looked up for this message" in other["log"]
    assert {one["log"].partition(":")[0] for one in (other, path)} == {"PermissionError"}


async def test_options_and_timeouts_of_a_socket_hold_for_its_connection(serve: Serve, tmp_path: Path) -> None:
    site = await serve(says(message("200 OK")))
    code = f"""
import socket
one = socket.socket()
one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
one.settimeout(30)
socket.getaddrinfo("127.0.0.1", {site.port})
one.connect(("127.0.0.1", {site.port}))
assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
assert one.getpeername() == ("127.0.0.1", {site.port})
one.settimeout(None)
one.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
assert one.recv(12) == b"HTTP/1.1 200"
two = socket.create_connection(("127.0.0.1", {site.port}), 30)
assert two.fileno() != one.fileno()
"""
    async with running(tmp_path) as process:
        said = await send(process, code)
    assert said["status"] == "SUCCESS", said


@whole
@pytest.mark.parametrize("numbers", [(444,), (444, SECCOMP)])
async def test_a_kernel_that_refuses_leaves_it_to_the_hook(serve: Serve, tmp_path: Path, numbers: list[int]) -> None:
    site = await serve(says(message("200 OK")))
    refusing = REFUSING.format(numbers=numbers, errno=errno.ENOSYS)
    prelude = NATIVE.replace("PORT", "1")
    async with running(tmp_path, refusing) as process:
        sent = await process.send(to(f"json://127.0.0.1:{site.port}"))
        hook = await send(process, "open('/etc/passwd')")
        by_hook = await send(process, "import _socket; _socket.socket().connect(('127.0.0.1', 9))")
        read = await send(process, prelude + "call('open', b'/etc/passwd', 0)")
        opened = await send(process, prelude + "call('socket', 2, 1, 0)")
    assert sent["status"] == "SUCCESS"
    assert (hook["status"], by_hook["status"]) == ("FAILURE", "FAILURE")
    filtered = SECCOMP not in numbers
    assert read["status"] == "SUCCESS"  # not held, as the status says
    assert opened["status"] == ("FAILURE" if filtered else "SUCCESS")
    asked = f"{refusing}\nimport runpy; print(runpy.run_path({apprise_fence.__file__!r})['missing']())"
    said = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True, timeout=60)
    assert ("Landlock" if filtered else "seccomp") in said.stdout


async def test_the_log_says_that_a_process_is_not_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_process, "missing", lambda: "this kernel has no Landlock")
    with capture_logs() as logs:
        async with running(tmp_path) as process:
            for _ in range(2):
                assert (await send(process, "pass"))["status"] == "SUCCESS"
    warned = [one for one in logs if one["event"] == "apprise_not_fenced"]
    assert [one["reason"] for one in warned] == ["this kernel has no Landlock"]


@whole
async def test_a_kernel_that_breaks_its_word_sends_nothing(serve: Serve, tmp_path: Path) -> None:
    site = await serve(says(message("200 OK")))
    async with running(tmp_path, REFUSING.format(numbers=(446,), errno=errno.EPERM)) as process:
        for _ in range(2):
            with pytest.raises(LostProcessError, match=r"cannot be fenced: .*the kernel refuses"):
                await process.send(to(f"json://127.0.0.1:{site.port}"))
            await process.kill()
    assert site.seen == []


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Runs a filter as the kernel does; returns 0 for a call that is allowed, otherwise its errno."""
    program = apprise_fence.seccomp_program(machine, 4242)
    known = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, architecture or known, 0, *padded)
    at = word = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif code == 0x54:
            word &= value
        else:
            is_true = word == value if code == 0x15 else word >= value
            at += if_true if is_true else if_false


FORBIDDEN = {
    "socket": (41, 198),
    "connect": (42, 203),
    "sendmsg": (46, 211),
    "bind": (49, 200),
    "execve": (59, 221),
    "kill": (62, 129),
    "tkill": (200, 130),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "memfd_create": (319, 279),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "pidfd_open": (434, 434),
    "seccomp": (317, 277),
    "rename": (264, 38),
    "unlinkat": (263, 35),
    "mount": (165, 40),
    "fork, or nothing": (57, 1079),
}
THREAD, FORK = 0x3D0F00, 17


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_the_filter_on_both_machines(machine: str, column: int) -> None:
    forbidden = {name: verdict(machine, numbers[column]) for name, numbers in FORBIDDEN.items()}
    assert {name for name, error in forbidden.items() if error not in (errno.EPERM, errno.ENOSYS)} == set()
    read, openat, clone, sendto, tgkill = ((0, 257, 56, 44, 234), (63, 56, 220, 206, 131))[column]
    assert verdict(machine, read) == 0
    assert [verdict(machine, openat, 0, 0, flags) for flags in (0, 1, 2, 64, 512, os.O_CLOEXEC)] == [0, 1, 1, 1, 1, 0]
    assert [verdict(machine, clone, flags) for flags in (THREAD, FORK, 0, THREAD | 0x10000000)] == [0, 1, 1, 1]
    assert [verdict(machine, sendto, 3, 0, 1, 0, place) for place in (0, 1, 1 << 40)] == [0, 1, 1]
    assert [verdict(machine, tgkill, process) for process in (4242, 4243, 1)] == [0, 1, 1]
    assert [verdict(machine, number) for number in (435, 437, 2_000, 0x4000_0000)] == [errno.ENOSYS] * 4
    assert verdict(machine, read, architecture=0x40000003) == errno.EPERM  # the calls of 32 bits have other numbers


@whole
async def test_all_plugins_are_loaded_before_the_fence(tmp_path: Path) -> None:
    """Behind the fence no module of a plugin is missing that a process without it has."""
    code = """
import importlib, pkgutil, apprise.plugins as plugins
from apprise import Apprise
names = [one.name for one in pkgutil.walk_packages(plugins.__path__, "apprise.plugins.")]
assert len(names) > 100
for name in names:
    importlib.import_module(name)
assert len(Apprise().details()["schemas"]) > 100
"""
    async with running(tmp_path) as process:
        said = await send(process, code)
    assert said["status"] == "SUCCESS", said
