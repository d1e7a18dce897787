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
from pollerd.texts import _, n_

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
    yield CheckResult(FINE if responds else WRONG, "loop", _("it responds") if responds else _("it does not respond"))
    reason = ready["reason"]
    yield CheckResult(FINE, "database", _("it works")) if reason is None else CheckResult(WRONG, "database", reason)
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
        raise CallError(_("the server at {url} is not pollerd", url=daemon.url))
    try:
        health: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise CallError(_("the server at {url} is not pollerd", url=daemon.url)) from error
    return health


def _link(metrics: Metrics) -> CheckResult:
    if metrics.value("descriptors_used_ratio") >= _DESCRIPTORS_SHORT:
        return CheckResult(WRONG, "link", _("nearly all file descriptors are in use: raise the limit (LimitNOFILE)"))
    if metrics.value("offline"):
        return CheckResult(WRONG, "link", _("no internet connection: polling is paused until a host answers"))
    return CheckResult(FINE, "link", _("the internet connection works"))


def _budget(allocation: dict[str, Any], metrics: Metrics) -> CheckResult:
    used, age = allocation["utilization"], metrics.value("dispatch_age_seconds")
    text = _(
        "{used:.0%} of {budget:g} polls per second used in the last minute", used=used, budget=allocation["budget"]
    )
    if age > _DISPATCH_SECONDS:
        return CheckResult(
            WRONG, "budget", _("{text}; sites are due, but none was polled for {age:.0f} s", text=text, age=age)
        )
    if used < _USED_WELL and allocation["binding"] != "budget":
        return CheckResult(FINE, "budget", allocation["binding_in_words"])
    if used < _USED_WELL:
        return CheckResult(NOTE, "budget", _("{text}: the rest waits for sites that are due later", text=text))
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
        return CheckResult(NOTE, "calibration", _("no predictions yet"))
    text = n_(
        "predictions are off by {error:.1%} on average ({count} poll)",
        "predictions are off by {error:.1%} on average ({count} polls)",
        number,
        error=error,
    )
    if number < _CALIBRATION_POLLS:
        return CheckResult(NOTE, "calibration", _("{text}: too few to judge", text=text))
    if error < _CALIBRATION_FAIR:
        return CheckResult(FINE, "calibration", _("{text}: predictions are good", text=text))
    gap = sum(d["polls"] * (d["predicted"] - d["found"]) for d in report["deciles"] if d["polls"])
    lean = "more" if gap > 0 else "fewer"
    verdict = WRONG if error >= _CALIBRATION_POOR else NOTE
    return CheckResult(
        verdict, "calibration", _("{text}: {lean} changes are predicted than found", text=text, lean=lean)
    )


def _deciles(report: dict[str, Any]) -> Iterator[CheckResult]:
    for tenth, decile in enumerate(report["deciles"]):
        if decile["polls"]:
            predicted, observed, polls = decile["predicted"], decile["found"], decile["polls"]
            text = n_(
                "predicted {predicted:.0%}, observed {observed:.0%} ({count} poll",
                "predicted {predicted:.0%}, observed {observed:.0%} ({count} polls",
                polls,
                predicted=predicted,
                observed=observed,
            )
            text += _(", too few to judge)") if polls < _DECILE_POLLS else ")"
            off = polls >= _DECILE_POLLS and abs(predicted - observed) >= _CALIBRATION_POOR
            yield CheckResult(NOTE if off else FINE, f"calibration {tenth / 10:.1f}-{(tenth + 1) / 10:.1f}", text)


def _late(allocation: dict[str, Any]) -> CheckResult:
    late = allocation["late_sites"]
    if not allocation["maximum_intervals_feasible"]:
        detail = n_(
            "the budget is too small for all maximum intervals; {count} site is overdue",
            "the budget is too small for all maximum intervals; {count} sites are overdue",
            late,
        )
        return CheckResult(WRONG, "max_interval", detail)
    return CheckResult(
        NOTE if late else FINE, "max_interval", n_("{count} site is overdue", "{count} sites are overdue", late)
    )


def _noisy(allocation: dict[str, Any]) -> CheckResult:
    noisy, sites = allocation["noisy_sites"], allocation["sites"]
    text = n_(
        "{count} of {sites} sites changes on nearly every poll, and is limited to an equal share of the budget",
        "{count} of {sites} sites change on nearly every poll, and are limited to an equal share of the budget",
        noisy,
        sites=sites,
    )
    if not noisy:
        text = _("no site changes on nearly every poll")
    if waiting := allocation["proofs_waiting"]:
        text += n_(
            "; {count} change awaits confirmation by a second poll",
            "; {count} changes await confirmation by a second poll",
            waiting,
        )
    return CheckResult(NOTE if noisy else FINE, "noise", text)


def _without_text(allocation: dict[str, Any]) -> Iterator[CheckResult]:
    if number := allocation["sites_without_text"]:
        text = n_(
            "{count} site has no text that can be compared; `pollerd sites show` says why",
            "{count} sites have no text that can be compared; `pollerd sites show` says why",
            number,
        )
        yield CheckResult(NOTE, "text", text)


def _shadow(shadow: dict[str, Any]) -> CheckResult:
    about, hourly = f"shadow {shadow['allocator']}", shadow["expected_detections_per_hour"]
    if shadow["state"] == "dropped":
        return CheckResult(WRONG, about, _("dropped: {reason}", reason=shadow["reason"]))
    if hourly is None:
        return CheckResult(FINE, about, shadow["state"])
    expected = _("{state}, {hourly:.4g} changes per hour expected", state=shadow["state"], hourly=hourly)
    return CheckResult(FINE, about, expected)


def _states(metrics: Metrics) -> CheckResult:
    counts = {state: metrics.value("sites", state=state) for state in ("active", "backing_off", "blocked", "gone")}
    text = _("{active:.0f} active, {backing_off:.0f} backing off, {blocked:.0f} blocked, {gone:.0f} gone", **counts)
    if counts["backing_off"] + counts["blocked"] > counts["active"]:
        return CheckResult(WRONG, "sites", _("{text}: most cannot be polled", text=text))
    return CheckResult(FINE, "sites", text)


def _robots(metrics: Metrics) -> CheckResult:
    results = {name: metrics.value("robots_fetches_total", result=name) for name in ("found", "absent", "unreachable")}
    missed, all_ = results["unreachable"], sum(results.values())
    detail = n_("{count} request", "{count} requests", all_)
    if not missed:
        return CheckResult(FINE, "robots.txt", _("{detail}, none failed", detail=detail))
    text = _(
        "{missed:.0f} of {detail} failed: these hosts are not polled until a request succeeds",
        missed=missed,
        detail=detail,
    )
    return CheckResult(NOTE, "robots.txt", text)


def _sources(metrics: Metrics) -> Iterator[CheckResult]:
    failing, reads = metrics.value("sources_failing"), metrics.value("source_reads_total")
    if failing:
        text = n_(
            "{count} list could not be read, or had too few sites: no site was paused because of it;",
            "{count} lists could not be read, or had too few sites: no site was paused because of it;",
            failing,
        )
        yield CheckResult(NOTE, "sources", _("{text} `pollerd sources list` shows why", text=text))
    elif reads:
        yield CheckResult(
            FINE,
            "sources",
            n_("{count} fetch, all lists are readable", "{count} fetches, all lists are readable", reads),
        )


def fences(channels: list[dict[str, Any]]) -> Iterator[CheckResult]:
    """Checks what `GET /channels` shows of processes that the kernel should fence; nothing where there are none."""
    for channel in channels:
        if reason := channel.get("not_fenced"):
            yield CheckResult(NOTE, f"channel {channel['name']}", _("not fenced: {reason}", reason=reason))


def nodes(cluster: dict[str, Any]) -> Iterator[CheckResult]:
    """Checks what `GET /cluster` shows; nothing where the daemon runs alone."""
    if not cluster["nodes"]:
        return
    unheld, partitions, members = cluster["unheld"], cluster["partitions"], cluster["nodes"]
    drained = [node["name"] for node in members if node["drained"]]
    if unheld:
        text = n_(
            "{unheld} of {count} partition have no node: their sites are not polled now",
            "{unheld} of {count} partitions have no node: their sites are not polled now",
            partitions,
            unheld=unheld,
        )
        if drained:
            text += _(
                "; drained: {drained} (`pollerd nodes undrain {first}`)",
                drained=", ".join(drained),
                first=drained[0],
            )
        yield CheckResult(WRONG, "nodes", text)
    elif len(members) < cluster["nodes_wanted"]:
        yield CheckResult(
            WRONG,
            "nodes",
            _(
                "{count} of {nodes_wanted} expected nodes are there",
                count=len(members),
                nodes_wanted=cluster["nodes_wanted"],
            ),
        )
    else:
        yield CheckResult(
            FINE,
            "nodes",
            _(
                "{nodes} with {partitions}",
                nodes=n_("{count} node", "{count} nodes", len(members)),
                partitions=n_("{count} partition", "{count} partitions", partitions),
            ),
        )
    yield _server_connections(cluster["connections"], cluster["max_connections"])
    sites = [node["sites"] for node in members if not node["drained"]]
    if sites and max(sites) > _SKEWED * sum(sites) / len(sites) + _FEW_SITES:
        text = _(
            "one node has {sites} of {sum}: its partitions are moving, or most sites are of one domain",
            sites=max(sites),
            sum=sum(sites),
        )
        yield CheckResult(NOTE, "sites of nodes", text)
    for node in members:
        yield _node(node, cluster["budget"] or 0.0)


def _server_connections(number: int, most: int) -> CheckResult:
    text = _("{number} of {most} of the database server are in use", number=number, most=most)
    if number >= _CONNECTIONS_SHORT * most:
        return CheckResult(
            WRONG, "connections", _("{text}: raise max_connections, or a node cannot reconnect", text=text)
        )
    return CheckResult(NOTE if number >= _CONNECTIONS_MANY * most else FINE, "connections", text)


def _node(node: dict[str, Any], budget: float) -> CheckResult:
    text = n_("{count} partition", "{count} partitions", node["partitions"]) + n_(
        " with {count} site", " with {count} sites", node["sites"]
    )
    if node["drained"]:
        text = _("drained; {text}", text=text)
    if node["roles"]:
        text += ", " + _(" and ").join(node["roles"])
    grant, spent = node["grant"], node["spent"]
    text += _(
        "; its share: {grant} of {budget:g} polls per second",
        grant="none" if grant is None else f"{grant:.3g}",
        budget=budget,
    )
    verdict, faults = FINE, []
    if (silent := node["silent_seconds"]) is not None and silent > _SILENT_SECONDS:
        verdict = WRONG
        faults.append(
            _("no sign of it for {silent:.0f} s: it hangs, or has no connection to the database", silent=silent)
        )
    if node["starts"] >= _STARTS:
        verdict = WRONG
        faults.append(
            _("it was started {starts} times within an hour: its log shows why it ends", starts=node["starts"])
        )
    if abs(ahead := node["clock_ahead"] or 0.0) >= _CLOCK_SECONDS:
        verdict = WRONG
        faults.append(
            _("its clock is {ahead:.1f} s ahead: synchronise it (NTP)", ahead=ahead)
            if ahead > 0
            else _("its clock is {behind:.1f} s behind: synchronise it (NTP)", behind=-ahead)
        )
    if grant is not None and spent is not None and spent < _UNSPENT * grant:
        verdict = verdict if verdict == WRONG else NOTE
        faults.append(_("it uses {spent:.3g}: it is slow, or no site is due", spent=spent))
    return CheckResult(verdict, f"node {node['name']}", "; ".join([text, *faults]))


def _faults(metrics: Metrics) -> CheckResult:
    number = metrics.value("site_faults_total")
    if number:
        return CheckResult(
            WRONG,
            "faults",
            n_(
                "{count} time a site was set aside because of an internal error: see the log",
                "{count} times a site was set aside because of an internal error: see the log",
                number,
            ),
        )
    return CheckResult(FINE, "faults", _("no internal errors"))


def _lag(metrics: Metrics) -> CheckResult:
    lag = metrics.value("event_loop_lag_seconds")
    verdict = WRONG if lag >= _LAG_WRONG else NOTE if lag >= _LAG_NOTE else FINE
    return CheckResult(verdict, "loop lag", _("{lag:.0f} ms at most in 15 s", lag=lag * 1000))


def _connections(metrics: Metrics) -> CheckResult:
    refused = metrics.value("api_connections_refused_total")
    if refused:
        text = n_(
            "{count} connection was refused since the start: too many were open",
            "{count} connections were refused since the start: too many were open",
            refused,
        )
        return CheckResult(NOTE, "API", text)
    return CheckResult(FINE, "API", _("no connection was refused"))


def _commits(metrics: Metrics) -> CheckResult:
    number = metrics.value("commit_seconds_count")
    if not number:
        return CheckResult(NOTE, "commits", _("none yet"))
    mean = metrics.value("commit_seconds_sum") / number
    return CheckResult(
        NOTE if mean > _COMMIT_SECONDS else FINE, "commits", _("{mean:.0f} ms on average", mean=mean * 1000)
    )
