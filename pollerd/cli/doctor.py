"""`pollerd doctor`: checks of a running daemon, each with a line and a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

import typer
from prometheus_client.parser import text_string_to_metric_families

from pollerd.cli.client import TIMEOUT_SECONDS, ApiClient, client_of
from pollerd.cli.options import Json, Timeout, Token, Url
from pollerd.cli.output import CallError, clean, show_json
from pollerd.errors import PollerdError
from pollerd.planning import unusual_weight
from pollerd.quantities import counted

FINE, NOTE, WRONG = "ok", "note", "WRONG"
_CALIBRATION_POLLS = 500
"""Number of polls below which a calibration error is mostly chance."""
_DECILE_POLLS = 100
"""The same, of the polls whose predicted chance is in one tenth."""
_CALIBRATION_FAIR, _CALIBRATION_POOR = 0.05, 0.15
_DISPATCH_SECONDS = 60.0
_LAG_NOTE, _LAG_WRONG = 0.25, 2.0
_COMMIT_SECONDS = 0.5
_DESCRIPTORS_SHORT = 0.95
_USED_WELL = 0.9
_SILENT_SECONDS, _CLOCK_SECONDS, _STARTS = 10.0, 2.0, 4
_UNSPENT = 0.6
_SKEWED, _FEW_SITES = 1.3, 100
_CONNECTIONS_MANY, _CONNECTIONS_SHORT = 0.8, 0.95


@dataclass(frozen=True)
class CheckResult:
    """Result of one check: a verdict, its subject, and the finding."""

    verdict: str
    about: str
    text: str


class Metrics:
    """Samples of a Prometheus text."""

    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        self._samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """Returns the sum of the samples of pollerd_`name` with these labels; 0 without any."""
        full = f"pollerd_{name}"
        return sum(s.value for s in self._samples if s.name == full and labels.items() <= s.labels.items())


def doctor(url: Url = None, token: Token = None, timeout: Timeout = TIMEOUT_SECONDS, as_json: Json = False) -> None:
    """Check the daemon's health, one line per item."""
    findings = _found(url, token, timeout)
    if as_json:
        show_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(f"{finding.verdict:5}  {finding.about}: {clean(finding.text)}")
    raise typer.Exit(1 if any(finding.verdict == WRONG for finding in findings) else 0)


def _found(url: str | None, token: str | None, timeout: float) -> list[CheckResult]:
    """Returns the results; a failed or incomplete query of the daemon is one of them."""
    findings = []
    try:
        for finding in examined(client_of(url, token, timeout)):
            findings.append(finding)  # noqa: PERF402  (keeps the results before an error)
    except PollerdError as error:
        findings.append(CheckResult(WRONG, "daemon", str(error)))
    return findings


def examined(daemon: ApiClient) -> Iterator[CheckResult]:
    """Yields the results of the checks of a running daemon. Raises CallError if it cannot be queried."""
    alive, ready = _health(daemon, "/healthz"), _health(daemon, "/readyz")
    responds = alive["status"] == "ok"
    yield CheckResult(FINE if responds else WRONG, "loop", "it responds" if responds else "it does not respond")
    reason = ready["reason"]
    yield CheckResult(FINE, "database", "it works") if reason is None else CheckResult(WRONG, "database", reason)
    try:
        allocation = daemon.call("GET", "/allocation")
    except CallError:
        if reason is None:
            raise
        return  # it still waits for its database, and has nothing else to show
    metrics = Metrics(daemon.ask("/metrics")[1].decode())
    yield _link(metrics)
    yield _budget(allocation, metrics)
    yield from _weights(allocation)
    yield calibration(allocation["calibration"])
    yield from _deciles(allocation["calibration"])
    yield _late(allocation)
    yield _noisy(allocation)
    yield from _without_text(allocation)
    yield from map(_shadow, allocation["shadows"])
    yield _states(metrics)
    yield _robots(metrics)
    yield from _sources(metrics)
    yield from fences(daemon.call("GET", "/channels")["items"])
    yield from nodes(daemon.call("GET", "/cluster"))
    yield _faults(metrics)
    yield _lag(metrics)
    yield _connections(metrics)
    yield _commits(metrics)


def _health(daemon: ApiClient, path: str) -> dict[str, Any]:
    status, body = daemon.ask(path)
    if status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        raise CallError(f"the server at {daemon.url} is not pollerd")
    try:
        health: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise CallError(f"the server at {daemon.url} is not pollerd") from error
    return health


def _link(metrics: Metrics) -> CheckResult:
    if metrics.value("descriptors_used_ratio") >= _DESCRIPTORS_SHORT:
        return CheckResult(WRONG, "link", "nearly all file descriptors are in use: raise the limit (LimitNOFILE)")
    if metrics.value("offline"):
        return CheckResult(WRONG, "link", "no internet connection: polling is paused until a host answers")
    return CheckResult(FINE, "link", "the internet connection works")


def _budget(allocation: dict[str, Any], metrics: Metrics) -> CheckResult:
    used, age = allocation["utilization"], metrics.value("dispatch_age_seconds")
    text = f"{used:.0%} of {allocation['budget']:g} polls per second used in the last minute"
    if age > _DISPATCH_SECONDS:
        return CheckResult(WRONG, "budget", f"{text}; sites are due, but none was polled for {age:.0f} s")
    if used < _USED_WELL and allocation["binding"] != "budget":
        return CheckResult(FINE, "budget", allocation["binding_in_words"])
    if used < _USED_WELL:
        return CheckResult(NOTE, "budget", f"{text}: the rest waits for sites that are due later")
    return CheckResult(FINE, "budget", text)


def _weights(allocation: dict[str, Any]) -> Iterator[CheckResult]:
    """Warns if most weights are not those that min_saving is meant for."""
    median, saving = allocation.get("median_weight"), allocation.get("min_saving")
    if median is not None and saving is not None and (warning := unusual_weight(median, saving)) is not None:
        yield CheckResult(NOTE, "weights", warning)


def calibration(report: dict[str, Any]) -> CheckResult:
    """Checks the calibration in `GET /allocation`."""
    number, error = report["polls"], report["expected_error"]
    if error is None:
        return CheckResult(NOTE, "calibration", "no predictions yet")
    text = f"predictions are off by {error:.1%} on average ({counted(number, 'poll')})"
    if number < _CALIBRATION_POLLS:
        return CheckResult(NOTE, "calibration", f"{text}: too few to judge")
    if error < _CALIBRATION_FAIR:
        return CheckResult(FINE, "calibration", f"{text}: predictions are good")
    gap = sum(d["polls"] * (d["predicted"] - d["found"]) for d in report["deciles"] if d["polls"])
    lean = "more" if gap > 0 else "fewer"
    verdict = WRONG if error >= _CALIBRATION_POOR else NOTE
    return CheckResult(verdict, "calibration", f"{text}: {lean} changes are predicted than found")


def _deciles(report: dict[str, Any]) -> Iterator[CheckResult]:
    for tenth, decile in enumerate(report["deciles"]):
        if decile["polls"]:
            predicted, observed, polls = decile["predicted"], decile["found"], decile["polls"]
            text = f"predicted {predicted:.0%}, observed {observed:.0%} ({counted(polls, 'poll')}"
            text += ", too few to judge)" if polls < _DECILE_POLLS else ")"
            off = polls >= _DECILE_POLLS and abs(predicted - observed) >= _CALIBRATION_POOR
            yield CheckResult(NOTE if off else FINE, f"calibration {tenth / 10:.1f}-{(tenth + 1) / 10:.1f}", text)


def _late(allocation: dict[str, Any]) -> CheckResult:
    late = allocation["late_sites"]
    if not allocation["maximum_intervals_feasible"]:
        detail = f"the budget is too small for all maximum intervals; {counted(late, 'site is', 'sites are')} overdue"
        return CheckResult(WRONG, "max_interval", detail)
    return CheckResult(NOTE if late else FINE, "max_interval", f"{counted(late, 'site is', 'sites are')} overdue")


def _noisy(allocation: dict[str, Any]) -> CheckResult:
    noisy, sites = allocation["noisy_sites"], allocation["sites"]
    changing = "changes on nearly every poll, and is" if noisy == 1 else "change on nearly every poll, and are"
    text = f"{noisy} of {counted(sites, 'site')} {changing} limited to an equal share of the budget"
    if not noisy:
        text = "no site changes on nearly every poll"
    if waiting := allocation["proofs_waiting"]:
        text += f"; {counted(waiting, 'change awaits', 'changes await')} confirmation by a second poll"
    return CheckResult(NOTE if noisy else FINE, "noise", text)


def _without_text(allocation: dict[str, Any]) -> Iterator[CheckResult]:
    if number := allocation["sites_without_text"]:
        have = "has" if number == 1 else "have"
        text = f"{counted(number, 'site')} {have} no text that can be compared; `pollerd sites show` says why"
        yield CheckResult(NOTE, "text", text)


def _shadow(shadow: dict[str, Any]) -> CheckResult:
    about, hourly = f"shadow {shadow['allocator']}", shadow["expected_detections_per_hour"]
    if shadow["state"] == "dropped":
        return CheckResult(WRONG, about, f"dropped: {shadow['reason']}")
    expected = "" if hourly is None else f", {hourly:.4g} changes per hour expected"
    return CheckResult(FINE, about, f"{shadow['state']}{expected}")


def _states(metrics: Metrics) -> CheckResult:
    counts = {state: metrics.value("sites", state=state) for state in ("active", "backing_off", "blocked", "gone")}
    text = ", ".join(f"{number:.0f} {state.replace('_', ' ')}" for state, number in counts.items())
    if counts["backing_off"] + counts["blocked"] > counts["active"]:
        return CheckResult(WRONG, "sites", f"{text}: most cannot be polled")
    return CheckResult(FINE, "sites", text)


def _robots(metrics: Metrics) -> CheckResult:
    results = {name: metrics.value("robots_fetches_total", result=name) for name in ("found", "absent", "unreachable")}
    missed, all_ = results["unreachable"], sum(results.values())
    detail = counted(all_, "request")
    if not missed:
        return CheckResult(FINE, "robots.txt", f"{detail}, none failed")
    text = f"{missed:.0f} of {detail} failed: these hosts are not polled until a request succeeds"
    return CheckResult(NOTE, "robots.txt", text)


def _sources(metrics: Metrics) -> Iterator[CheckResult]:
    failing, reads = metrics.value("sources_failing"), metrics.value("source_reads_total")
    if failing:
        text = f"{counted(failing, 'list')} could not be read, or had too few sites: no site was paused because of it;"
        yield CheckResult(NOTE, "sources", f"{text} `pollerd sources list` shows why")
    elif reads:
        yield CheckResult(FINE, "sources", f"{counted(reads, 'fetch', 'fetches')}, all lists are readable")


def fences(channels: list[dict[str, Any]]) -> Iterator[CheckResult]:
    """Checks what `GET /channels` shows of processes that the kernel should fence; nothing where there are none."""
    for channel in channels:
        if reason := channel.get("not_fenced"):
            yield CheckResult(NOTE, f"channel {channel['name']}", f"not fenced: {reason}")


def nodes(cluster: dict[str, Any]) -> Iterator[CheckResult]:
    """Checks what `GET /cluster` shows; nothing where the daemon runs alone."""
    if not cluster["nodes"]:
        return
    unheld, partitions, members = cluster["unheld"], cluster["partitions"], cluster["nodes"]
    drained = [node["name"] for node in members if node["drained"]]
    if unheld:
        text = f"{unheld} of {counted(partitions, 'partition')} have no node: their sites are not polled now"
        if drained:
            text += f"; drained: {', '.join(drained)} (`pollerd nodes undrain {drained[0]}`)"
        yield CheckResult(WRONG, "nodes", text)
    elif len(members) < cluster["nodes_wanted"]:
        yield CheckResult(WRONG, "nodes", f"{len(members)} of {cluster['nodes_wanted']} expected nodes are there")
    else:
        yield CheckResult(FINE, "nodes", f"{counted(len(members), 'node')} with {counted(partitions, 'partition')}")
    yield _server_connections(cluster["connections"], cluster["max_connections"])
    sites = [node["sites"] for node in members if not node["drained"]]
    if sites and max(sites) > _SKEWED * sum(sites) / len(sites) + _FEW_SITES:
        text = f"one node has {max(sites)} of {sum(sites)}: its partitions are moving, or most sites are of one domain"
        yield CheckResult(NOTE, "sites of nodes", text)
    for node in members:
        yield _node(node, cluster["budget"] or 0.0)


def _server_connections(number: int, most: int) -> CheckResult:
    text = f"{number} of {most} of the database server are in use"
    if number >= _CONNECTIONS_SHORT * most:
        return CheckResult(WRONG, "connections", f"{text}: raise max_connections, or a node cannot reconnect")
    return CheckResult(NOTE if number >= _CONNECTIONS_MANY * most else FINE, "connections", text)


def _node(node: dict[str, Any], budget: float) -> CheckResult:
    text = counted(node["partitions"], "partition") + f" with {counted(node['sites'], 'site')}"
    if node["drained"]:
        text = f"drained; {text}"
    if node["roles"]:
        text += f", {' and '.join(node['roles'])}"
    grant, spent = node["grant"], node["spent"]
    text += f"; its share: {'none' if grant is None else f'{grant:.3g}'} of {budget:g} polls per second"
    verdict, faults = FINE, []
    if (silent := node["silent_seconds"]) is not None and silent > _SILENT_SECONDS:
        verdict = WRONG
        faults.append(f"no sign of it for {silent:.0f} s: it hangs, or has no connection to the database")
    if node["starts"] >= _STARTS:
        verdict = WRONG
        faults.append(f"it was started {node['starts']} times within an hour: its log shows why it ends")
    if abs(ahead := node["clock_ahead"] or 0.0) >= _CLOCK_SECONDS:
        verdict = WRONG
        faults.append(f"its clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}: synchronise it (NTP)")
    if grant is not None and spent is not None and spent < _UNSPENT * grant:
        verdict = verdict if verdict == WRONG else NOTE
        faults.append(f"it uses {spent:.3g}: it is slow, or no site is due")
    return CheckResult(verdict, f"node {node['name']}", "; ".join([text, *faults]))


def _faults(metrics: Metrics) -> CheckResult:
    number = metrics.value("site_faults_total")
    if number:
        return CheckResult(
            WRONG, "faults", f"{counted(number, 'time')} a site was set aside because of an internal error: see the log"
        )
    return CheckResult(FINE, "faults", "no internal errors")


def _lag(metrics: Metrics) -> CheckResult:
    lag = metrics.value("event_loop_lag_seconds")
    verdict = WRONG if lag >= _LAG_WRONG else NOTE if lag >= _LAG_NOTE else FINE
    return CheckResult(verdict, "loop lag", f"{lag * 1000:.0f} ms at most in 15 s")


def _connections(metrics: Metrics) -> CheckResult:
    refused = metrics.value("api_connections_refused_total")
    if refused:
        text = f"{counted(refused, 'connection was', 'connections were')} refused since the start: too many were open"
        return CheckResult(NOTE, "API", text)
    return CheckResult(FINE, "API", "no connection was refused")


def _commits(metrics: Metrics) -> CheckResult:
    number = metrics.value("commit_seconds_count")
    if not number:
        return CheckResult(NOTE, "commits", "none yet")
    mean = metrics.value("commit_seconds_sum") / number
    return CheckResult(NOTE if mean > _COMMIT_SECONDS else FINE, "commits", f"{mean * 1000:.0f} ms on average")
