"""Sites named on the command line by id or URL, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from pollerd.cli.client.client import ApiClient
from pollerd.cli.client.connection import REFUSED, say_wrong
from pollerd.cli.common.call_errors import CallError, UnansweredError
from pollerd.errors import InvalidValueError
from pollerd.urls import normalise_url

Names = Annotated[list[str], typer.Argument(metavar="SITE...", help="Ids or URLs.")]
Name = Annotated[str, typer.Argument(metavar="SITE", help="Id or URL.")]


def id_of(daemon: ApiClient, site: str) -> int:
    """Returns the id of a site named by id or URL. Raises `CallError` if it does not exist."""
    return _id_of(daemon, "site", site, searched=True)


def source_id_of(daemon: ApiClient, source: str) -> int:
    """Returns the id of a source named by id or URL. Raises `CallError` if it does not exist."""
    return _id_of(daemon, "source", source, searched=False)


def _id_of(daemon: ApiClient, what: str, given: str, *, searched: bool) -> int:
    """Returns the id. searched: the API can search this list for a URL."""
    if given.isdecimal():
        return int(given)
    url = normalise_url(given)
    for found in daemon.pages(f"/{what}s", {"q": url} if searched else {}):
        if found["url"] == url:
            return int(found["id"])
    raise CallError(f"no such {what}: {url}")


def for_each(daemon: ApiClient, sites: Sequence[str], act: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
    """Applies `act` to each site: yields (id, result). Reports a refused one and continues.

    Ends the command with exit code 2 after the last one if any was refused.
    """
    refused = False
    for site in sites:
        try:
            site_id = id_of(daemon, site)
            yield site_id, act(site_id)
        except UnansweredError:
            raise
        except (CallError, InvalidValueError) as error:
            refused = True
            say_wrong(error)
    if refused:
        raise typer.Exit(REFUSED)
