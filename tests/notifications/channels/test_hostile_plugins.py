"""A plugin of Apprise that tries what it must not: the audit hook refuses each."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pollerd.fetching.guard import Guard
from pollerd.notifications.channels import apprise_child
from pollerd.notifications.channels.apprise import AppriseProcess
from tests.support.nameserver import look_up, name_server

PROGRAM = f"""
import importlib.util
import logging
specification = importlib.util.spec_from_file_location("child", {apprise_child.__file__!r})
child = importlib.util.module_from_spec(specification)
specification.loader.exec_module(child)
from apprise.decorators import notify

@notify(on="hostile")
def run(body, title, notify_type, *args, **kwargs):
    try:
        exec(body, {{}})
    except BaseException as error:
        logging.getLogger("apprise").warning("%s: %s", type(error).__name__, error)
        raise
    return True

child.main()
"""
UNIX = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/x')"
TCP = "import socket; s = socket.socket(); "
DATAGRAMS = "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
DESCRIPTORS = """
import os, stat
found = []
for one in range(64):
    try:
        found.append(os.fstat(one).st_mode)
    except OSError:
        pass
assert any(stat.S_ISREG(mode) for mode in found)  # what the daemon talks over is a socket
"""
ATTACKS = {
    "connect": TCP + "s.connect(('127.0.0.1', PORT))",
    "connect by name": TCP + "s.connect(('localhost', PORT))",
    "connect without raising": TCP + "s.connect_ex(('127.0.0.1', PORT)) == 0 or 1 / 0",
    "metadata": "import requests; requests.get('http://169.254.169.254/', timeout=1)",
    "below the look-up": "import _socket; _socket.getaddrinfo('localhost', 80)",
    "gethostbyname": "import socket; socket.gethostbyname('localhost')",
    "gethostbyaddr": "import socket; socket.gethostbyaddr('127.0.0.1')",
    "datagrams": "import socket; " + DATAGRAMS,
    "sendto": TCP + "s.sendto(b'x', ('127.0.0.1', PORT))",
    "sendmsg": TCP + "s.sendmsg([b'x'], [], 0, ('127.0.0.1', PORT))",
    "bind": TCP + "s.bind(('127.0.0.1', 0))",
    "unix sockets": UNIX,
    "socket pairs": "import socket; socket.socketpair()",
    "raw sockets": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW)",
    "subprocess": "import subprocess; subprocess.run(['/bin/true'])",
    "below subprocess": "import _posixsubprocess as p\ntry: p.fork_exec()\nexcept TypeError: pass",
    "system": "import os; os.system('true')",
    "fork": "import os; os.fork() or os._exit(0)",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "ctypes": "import ctypes; ctypes.CDLL(None)",
    "below ctypes": "import _ctypes; _ctypes.dlopen(None, 0)",
    "read a file": "open('/etc/passwd').read()",
    "read by descriptor": "import os; os.open('/etc/passwd', os.O_RDONLY)",
    "read above": "import os; open(os.__file__ + '/../../../../../../../../etc/passwd').read()",
    "process": "open('/proc/self/environ').read()",
    "write a file": "open('/tmp/pollerd-hostile', 'w')",
    "write a package": "import os; open(os.__file__, 'a')",
    "list a folder": "import os; os.listdir('/')",
    "remove": "import os; os.remove('/tmp/pollerd-hostile')",
    "temporary files": "import tempfile; tempfile.mkstemp()",
    "kill": "import os; os.kill(os.getppid(), 0)",
    "sqlite": "import sqlite3; sqlite3.connect(':memory:')",
    "environment": "import os; assert set(os.environ) & {'PATH', 'HOME_DIR', 'SEEN'}",
    "descriptors": DESCRIPTORS,
    "syslog": "import syslog; syslog.openlog()",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
async def process(program: Path) -> AsyncIterator[AppriseProcess]:
    made = AppriseProcess(Guard(allow_private=True), program)
    yield made
    await made.kill()


async def test_what_a_plugin_must_not_do(process: AppriseProcess) -> None:
    """One process for all: an attack that crashed it would be seen by the next."""
    connected = threading.Event()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        writer.close()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    done = []
    os.environ["SEEN"] = "1"
    inherited = os.open(__file__, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        async with server:
            for name, attack in ATTACKS.items():
                said = await send(process, attack.replace("PORT", str(port)))
                if said["status"] != "FAILURE":
                    done.append(name)
            assert done == []
            assert not connected.is_set()
            allowed = TCP + f"socket.getaddrinfo('127.0.0.1', {port}); s.connect(('127.0.0.1', {port}))"
            said = await send(process, allowed)
            assert said["status"] == "SUCCESS", said
            assert (await send(process, "import json; json.dumps({})"))["status"] == "SUCCESS"
    finally:
        del os.environ["SEEN"]
        os.close(inherited)


async def test_addresses_of_one_message_are_not_those_of_the_next(process: AppriseProcess) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        look = TCP + f"socket.getaddrinfo('127.0.0.1', {port})"
        dial = TCP + f"s.connect(('127.0.0.1', {port}))"
        assert (await send(process, look))["status"] == "SUCCESS"
        assert (await send(process, dial))["status"] == "FAILURE"


async def test_a_name_with_a_denied_address_is_refused(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = AppriseProcess(Guard(allow_private=False), program)
    look = "import socket; socket.getaddrinfo('{}', 80)"
    try:
        async with name_server(
            {"mixed.example": [["93.184.215.14", "10.0.0.1"]], "good.example": [["93.184.215.14"]]}
        ) as names:
            loop = asyncio.get_running_loop()
            monkeypatch.setattr(loop, "getaddrinfo", look_up(names, loop.getaddrinfo))
            said = [await send(process, look.format(f"{name}.example")) for name in ("mixed", "good", "none")]
    finally:
        await process.kill()
    assert [one["status"] for one in said] == ["FAILURE", "SUCCESS", "FAILURE"]
    assert names.asked[0] == "mixed.example"


async def send(process: AppriseProcess, code: str) -> dict[str, str]:
    return await process.send({"url": "hostile://x", "title": "", "body": code, "format": "text"})
