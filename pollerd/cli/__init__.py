"""The `pollerd` command."""

from __future__ import annotations

import os
import sys

from pollerd import texts
from pollerd.cli.loading import INTERRUPTED, loading
from pollerd.errors import PollerdError


def main() -> None:
    """Runs the command line; usage errors end with one clear line and exit code 2, Ctrl-C with 130."""
    try:
        with loading():
            texts.speak(texts.language(texts.code_of_environment(os.environ)))
            from pollerd.cli.commands import app
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except PollerdError as error:
        _say(error)
        sys.exit(2)
    except ExceptionGroup as group:
        known, unknown = group.split(PollerdError)
        if unknown is not None or known is None:
            raise
        for leaf in _leaves(known):
            _say(leaf)
        sys.exit(2)


def _say(error: Exception) -> None:
    from pollerd.cli.output import as_typed

    print(f"pollerd: {as_typed(str(error))}", file=sys.stderr)  # noqa: T201


def _leaves(group: ExceptionGroup[PollerdError]) -> list[Exception]:
    leaves: list[Exception] = []
    for error in group.exceptions:
        leaves.extend(_leaves(error) if isinstance(error, ExceptionGroup) else [error])
    return leaves
