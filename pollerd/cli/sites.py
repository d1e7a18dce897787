"""`pollerd sites`: the sites of a running daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from pollerd.cli.client import REFUSED, TIMEOUT_SECONDS, ApiClient, daemon_at, say_wrong
from pollerd.cli.options import DURATION, Json, Rebase, Timeout, Token, Url, duration, grouped
from pollerd.cli.output import CallError, UnansweredError, clean, show_fields, show_json, show_list
from pollerd.cli.setting_options import OF_SITES, Settings, with_settings
from pollerd.errors import InvalidValueError
from pollerd.model import SiteState
from pollerd.site_settings import NUMERIC_SETTINGS
from pollerd.texts import N_, _
from pollerd.urls import normalise_url

# Sites named on the command line by id or URL, several at once.

Names = Annotated[list[str], typer.Argument(metavar="SITE...", help="Ids or URLs.")]
Name = Annotated[str, typer.Argument(metavar="SITE", help="Id or URL.")]


def id_of(daemon: ApiClient, site: str) -> int:
    """Returns the id of a site named by id or URL. Raises `CallError` if it does not exist."""
    return _id_of(daemon, N_("site"), site, searched=True)


def source_id_of(daemon: ApiClient, source: str) -> int:
    """Returns the id of a source named by id or URL. Raises `CallError` if it does not exist."""
    return _id_of(daemon, N_("source"), source, searched=False)


def _id_of(daemon: ApiClient, what: str, text: str, *, searched: bool) -> int:
    """Returns the id. searched: the API can search this list for a URL."""
    if text.isdecimal():
        return int(text)
    url = normalise_url(text, fragment=True)
    for page in daemon.pages(f"/{what}s", {"q": url} if searched else {}):
        if page["url"] == url:
            return int(page["id"])
    if "#" in url:  # only a browser goes there: the site of the page alone
        return _id_of(daemon, what, normalise_url(text), searched=searched)
    raise CallError(_("no such {what}: {url}", what=_(what), url=url))


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


# Options by which commands select sites.


@dataclass(frozen=True)
class FilterOptions:
    """The options as given; None: left out."""

    q: Annotated[str | None, typer.Option("--q", help="Words that are parts of URL or title.")] = None
    tag: Annotated[str | None, typer.Option(help="Only sites with this tag.")] = None
    state: Annotated[SiteState | None, typer.Option(help="Only sites in this state.")] = None
    host: Annotated[str | None, typer.Option(help="Only sites of this host (name:port).")] = None
    source: Annotated[str | None, typer.Option(help="Only sites of this source, by its id or URL.")] = None
    rate_min: Annotated[float | None, typer.Option(help="Minimum changes per day (estimate).")] = None
    rate_max: Annotated[float | None, typer.Option(help="Maximum changes per day (estimate).")] = None
    changed: Annotated[
        Any,
        typer.Option(
            help="Only sites of which a change was found within this time.", parser=duration, metavar=DURATION
        ),
    ] = None

    def wanted(self, daemon: ApiClient) -> dict[str, Any]:
        """Returns the filter, as the API takes it; what was not given is left out."""
        conditions = {name: value for name, value in vars(self).items() if value is not None}
        if self.source is not None:
            conditions["source"] = source_id_of(daemon, self.source)
        if self.state is not None:
            conditions["state"] = self.state.value
        return conditions


Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag of the sites (repeatable).")]
_COLUMNS = ("id", "state", "url", "rate_per_day", "polls", "changes", "last_outcome", "last_poll_at", "tags")


@with_settings(OF_SITES)
def add(
    sites: Annotated[list[str], typer.Argument(metavar="URL...")],
    tag: Tags = None,
    *,
    settings: Settings,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Add sites; all get the same settings.

    Example: pollerd sites add https://example.org/ --tag news --select css=#price
    """
    fields = {"tags": tag or [], **settings}
    with daemon_at(url, token, timeout) as daemon:
        added = [daemon.call("POST", "/sites", {"url": site, **fields}) for site in sites]
        for site, stored in zip(sites, added, strict=True):
            _hash, sign, fragment = site.partition("#")
            if fragment and "#" not in stored["url"]:
                why = _("was removed, because it is sent to no server. With --render a browser uses it")
                typer.echo(f"{stored['url']}: {sign}{clean(fragment)} {why}", err=True)
        _show_list(added, as_json)


@grouped
def list_(
    *,
    filters: FilterOptions,
    sort: Annotated[
        str | None,
        typer.Option(
            help="id, url, title, last_change, rate, failures, last_poll or next_poll; with - before it descending."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Maximum number.", min=0)] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List sites and their status. Also changes per day, polls, last outcome and tags.

    Example: pollerd sites list --state blocked --sort -failures
    """
    with daemon_at(url, token, timeout) as daemon:
        conditions = {name: str(value) for name, value in filters.wanted(daemon).items()}
        if sort is not None:
            conditions["sort"] = sort
        _show_list(daemon.pages("/sites", conditions, limit), as_json)


def show(
    site: Name, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Show a site, and why it is polled this often."""
    with daemon_at(url, token, timeout) as daemon:
        site_id = id_of(daemon, site)
        details = daemon.call("GET", f"/sites/{site_id}")
        details["explain"] = daemon.call("GET", f"/sites/{site_id}/explain")
        if as_json:
            show_json(details)
        else:
            show_fields({**details.pop("explain"), **details})


def remove(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Remove sites with all their history."""
    with daemon_at(url, token, timeout) as daemon:
        removed = for_each(daemon, sites, lambda site_id: daemon.call("DELETE", f"/sites/{site_id}"))
        if as_json:
            show_json({"id": site_id, "removed": True} for site_id, _answer in removed)
        else:
            for site_id, _answer in removed:
                typer.echo(_("removed {site_id}", site_id=site_id))


def pause(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Pause sites until they are resumed.

    Example: pollerd sites pause 7 8
    """
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "pause"), as_json)


def resume(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Resume sites that were paused, back off, or are gone."""
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "resume"), as_json)


def poll(
    sites: Names, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Poll sites before all others, as soon as their hosts allow."""
    with daemon_at(url, token, timeout) as daemon:
        _show_list(_posted(daemon, sites, "poll"), as_json)


def _posted(daemon: ApiClient, sites: Sequence[str], what: str) -> Iterator[dict[str, Any]]:
    """Yields the sites after posting `what` for each."""
    done = for_each(daemon, sites, lambda site_id: daemon.call("POST", f"/sites/{site_id}/{what}"))
    return (site for _site_id, site in done)


def _show_list(sites: Iterable[dict[str, Any]], as_json: bool) -> None:
    show_list(_COLUMNS, sites, as_json=as_json)


# `pollerd sites edit`.

_EDITED_COLUMNS = ("id", "url", "tags", *NUMERIC_SETTINGS)


@with_settings(OF_SITES, none="inherited.")
def edit(
    sites: Names,
    tag: Annotated[list[str] | None, typer.Option(help="Replaces all tags (repeatable).")] = None,
    add_tag: Annotated[list[str] | None, typer.Option(help="Add a tag (repeatable).")] = None,
    remove_tag: Annotated[list[str] | None, typer.Option(help="Remove a tag (repeatable).")] = None,
    *,
    settings: Settings,
    rebase: Rebase = None,
    new_url: Annotated[str | None, typer.Option(help="Moves the site there: for one site only.")] = None,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """Change settings of sites. Other settings stay; estimates stay, too, unless the URL changes.

    Example: pollerd sites edit 7 --min-interval 5m
    """
    patch = {
        **settings,
        **{name: v for name, v in (("url", new_url), ("tags", tag), ("rebase", rebase)) if v is not None},
    }
    more, less = add_tag or (), remove_tag or ()
    _check(sites, patch, more, less)
    with daemon_at(url, token, timeout) as daemon:
        edited = (
            site
            for _site_id, site in for_each(daemon, sites, lambda site_id: _edited(daemon, site_id, patch, more, less))
        )
        show_list(_EDITED_COLUMNS, edited, as_json=as_json)


def _check(sites: Sequence[str], patch: dict[str, Any], more: Sequence[str], less: Sequence[str]) -> None:
    wrong = None
    if not patch and not more and not less:
        wrong = _("nothing to change: give a setting, for example --weight 2")
    elif "url" in patch and len(sites) > 1:
        wrong = _("--new-url moves one site, and several are named")
    elif "tags" in patch and (more or less):
        wrong = _("--tag sets all tags: it goes with neither --add-tag nor --remove-tag")
    if wrong is not None:
        typer.echo(f"pollerd: {wrong}", err=True)
        raise typer.Exit(REFUSED)


def _edited(
    daemon: ApiClient, site_id: int, patch: dict[str, Any], more: Sequence[str], less: Sequence[str]
) -> dict[str, Any]:
    if more or less:
        tags = daemon.call("GET", f"/sites/{site_id}")["tags"]
        kept = [tag for tag in dict.fromkeys((*tags, *more)) if tag not in less]
        patch = {**patch, "tags": kept}
    site: dict[str, Any] = daemon.call("PATCH", f"/sites/{site_id}", patch)
    return site
