"""Asks a Prometheus every query of the dashboard and of the alert rules, and tells which answer nothing.

    check_queries.py http://prometheus:9090 [DASHBOARD.json]

Exit code 0: every query of the dashboard returns numbers, every alert rule is loaded and evaluated without error, and
every series that an alert looks at is there (a rule that looks at nothing never fires). 1 otherwise. In the Compose
stack, which does not publish Prometheus:

    docker compose run --rm --no-deps -v ./deploy:/deploy:ro --entrypoint python pollerd \
        /deploy/check_queries.py http://prometheus:9090
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

DASHBOARD = Path(__file__).resolve().parent / "grafana" / "dashboards" / "pollerd.json"
_SELECTOR = re.compile(r"\b(?:pollerd_[a-z_]+|up)\b(?:\{[^}]*\})?")
_STAND_INS = {"$__rate_interval": "1m", "$instance": ".+"}
_PATIENCE_SECONDS = 10


def dashboard_queries(text: str) -> Iterator[tuple[str, str]]:
    """(panel, expression) of every target of a Grafana dashboard, its variables replaced."""
    for panel in json.loads(text)["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in _STAND_INS.items():
                expression = expression.replace(variable, value)
            yield panel["title"], expression


def selectors(expression: str) -> list[str]:
    """The series that an expression looks at, as written: name and label matchers."""
    return _SELECTOR.findall(expression)


class Prometheus:
    """Its HTTP API. Raises OSError where it cannot be reached or refuses a query."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def values(self, expression: str) -> list[float]:
        """What an instant query returns, without what is not a number."""
        result = self._get("query", query=expression)["result"]
        return [value for value in (float(sample["value"][1]) for sample in result) if not math.isnan(value)]

    def alerts(self) -> list[dict[str, Any]]:
        """The alert rules it has loaded."""
        groups = self._get("rules", type="alert")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, call: str, **query: str) -> Any:
        with urlopen(f"{self._url}/api/v1/{call}?{urlencode(query)}", timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]


def faults(prometheus: Prometheus, dashboard: str) -> Iterator[tuple[str, str]]:
    """(what was asked, what is wrong with the answer or "") of every query."""
    for panel, expression in dashboard_queries(dashboard):
        values = prometheus.values(expression)
        yield f"panel {panel!r}: {expression} = {values}", "" if values else "nothing"
    rules = prometheus.alerts()
    if not rules:
        yield "alert rules", "none are loaded"
    for rule in rules:
        yield f"alert {rule['name']}: {rule['state']}, {rule['health']}", rule.get("lastError", "")
        for selector in selectors(rule["query"]):
            yield f"alert {rule['name']} looks at {selector}", "" if prometheus.values(selector) else "nothing"


def main(url: str, dashboard: Path = DASHBOARD) -> int:
    """Prints every query with its answer; how many are at fault is the exit code, 1 at most."""
    wrong = 0
    for asked, fault in faults(Prometheus(url), dashboard.read_text(encoding="utf-8")):
        wrong += bool(fault)
        print(f"FAULT ({fault}): {asked}" if fault else f"ok: {asked}")
    print(f"{wrong} at fault")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:3])))
