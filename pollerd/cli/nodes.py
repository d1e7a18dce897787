"""`pollerd nodes`: the nodes of a database, and draining one of them."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from pollerd.cli.client import TIMEOUT_SECONDS, daemon_at
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import show_done, show_json, show_list
from pollerd.texts import _, n_

app = typer.Typer(help="Show the nodes that share the database, and drain one. Without a subcommand: list them.")
_COLUMNS = ("name", "partitions", "sites", "drained", "roles", "grant", "version", "started_at")
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The node's name: `pollerd run --node NAME`.")]


@app.callback(invoke_without_command=True)
def nodes(
    context: typer.Context,
    url: Url = None,
    token: Token = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> None:
    """List the nodes, unless a subcommand is called."""
    if context.invoked_subcommand is None:
        list_(url, token, timeout, as_json)


@app.command("list")
def list_(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """List the nodes: partitions, roles, and share of the budget."""
    with daemon_at(url, token, timeout) as daemon:
        cluster = daemon.call("GET", "/cluster")
    if as_json:
        show_json(cluster)
        return
    show_list(_COLUMNS, cluster["nodes"], as_json=False)
    if cluster["unheld"]:
        typer.echo(
            n_(
                "{unheld} of {count} partition have no node",
                "{unheld} of {count} partitions have no node",
                cluster["partitions"],
                unheld=cluster["unheld"],
            ),
            err=True,
        )


@app.command()
def drain(
    name: _Name, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """Make a node hand over all that it holds. It stays drained, also after a restart, until `undrain`."""
    cluster = _patch(name, url, token, timeout, drained=True)
    rest = sum(node["partitions"] for node in cluster["nodes"] if node["name"] == name)
    done = (
        n_(
            "{name} is drained: it hands over {count} partition",
            "{name} is drained: it hands over {count} partitions",
            rest,
            name=name,
        )
        if rest
        else _("{name} is drained", name=name)
    )
    show_done(done, {"name": name, "drained": True, "partitions": rest}, as_json=as_json)


@app.command()
def undrain(
    name: _Name, url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False
) -> None:
    """End `drain`: the node takes its share again."""
    _patch(name, url, token, timeout, drained=False)
    show_done(_("{name} takes its share again", name=name), {"name": name, "drained": False}, as_json=as_json)


def _patch(name: str, url: str | None, token: str | None, timeout: float, *, drained: bool) -> Any:
    with daemon_at(url, token, timeout) as daemon:
        return daemon.call("PATCH", f"/cluster/nodes/{quote(name, safe='')}", {"drained": drained})
