"""Ctrl-C before anything has begun."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.support.process import environment

_INTERRUPTED = """
import os, runpy, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "pydantic_core":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
runpy.run_module("pollerd", run_name="__main__", alter_sys=True)
"""
"""Ctrl-C at a moment of which nothing else can be sure: half of what there is to load is loaded."""


async def test_an_impatient_ctrl_c_while_loading_is_a_quiet_end(tmp_path: Path) -> None:
    """On a terminal, that is: who is started with `&` by a script inherits that SIGINT is ignored."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _INTERRUPTED, "run", "--listen", "127.0.0.1:0"),
        cwd=tmp_path,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
