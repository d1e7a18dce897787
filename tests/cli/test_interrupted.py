"""Ctrl-C before anything has begun."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.support.origin import until
from tests.support.process import environment


async def test_an_impatient_ctrl_c_while_loading_is_a_quiet_end(tmp_path: Path) -> None:
    """On a terminal, that is: who is started with `&` by a script inherits that SIGINT is ignored."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pollerd", "run", "--listen", "127.0.0.1:0"),
        cwd=tmp_path,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    maps = Path(f"/proc/{process.pid}/maps")
    await until(lambda: "pydantic_core" in maps.read_text())  # half of what there is to load
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
