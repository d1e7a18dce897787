"""Makes a call of pollerd's that blocks the event loop's thread an error.

Sleeping, connecting, looking up names, reading and writing files, waiting for processes, SQLite. Looks at the
file system (stat, listdir) are left out: they are short, and the daemon must know whether its file was replaced.
"""

from __future__ import annotations

from blockbuster import BlockBuster, BlockBusterFunction

import pollerd

_KINDS = ("time.", "io.", "socket.", "ssl.", "sqlite3.", "builtins.", "subprocess.")
_MORE = ("socket.getaddrinfo", "subprocess.Popen.wait", "subprocess.Popen.communicate")
"""What blockbuster has no rules for."""

ALLOWED = (
    ("pollerd/app/config.py", "_from_file"),  # a small file, at the start and when it is read again
    ("pollerd/storage/encryption.py", "_read"),  # a key of one line, at the start
    ("pollerd/storage/migrate.py", "up"),  # loads Alembic and the migrations, on PostgreSQL in the loop
    ("pollerd/scheduling/windows.py", "_zone_of"),  # a kilobyte of a time zone, once each
    ("pollerd/scheduling/windows.py", "_zone_names"),  # their names, once, for who misspells one
    ("pollerd/app/serve.py", "look_on"),  # calls what a test gave it
)
"""Ends of paths, and functions there below which blocking is right."""


def guard() -> BlockBuster:
    """The rules for what pollerd calls, itself or through a library. What a test calls may block."""
    rules = BlockBuster(scanned_modules=pollerd)
    more = {name: BlockBusterFunction(None, name, scanned_modules=pollerd) for name in _MORE}
    rules.functions = {name: rule for name, rule in (rules.functions | more).items() if name.startswith(_KINDS)}
    for rule in rules.functions.values():
        for file, function in ALLOWED:
            rule.can_block_in(file, function)
    return rules
