"""What urlwatch, webchanges and changedetection.io make of pages, beside what their jobs become here.

    python benchmarks/peers.py PYTHON

PYTHON is the interpreter of an environment with `urlwatch`, `webchanges` and `changedetection.io`. Writes
tests/moving/peers.json: for each job of peer_jobs.py the page, the program's own output, and the selection that the job
becomes; and tests/moving/files: a backup of that changedetection.io without its history, and what its API tells.
"""

from __future__ import annotations

import argparse
import http.server
import io
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import yaml
from peer_jobs import PAGES, URLWATCH, WATCHES, WEBCHANGES
from peer_runs.servers import serving

from pollerd.moving.changedetection.instance import Instance, Watch
from pollerd.moving.changedetection.watch import move
from pollerd.moving.urlwatch.dialect import URLWATCH as URLWATCH_DIALECT
from pollerd.moving.urlwatch.dialect import WEBCHANGES as WEBCHANGES_DIALECT
from pollerd.moving.urlwatch.jobs import read_jobs

FOLDER = Path(__file__).parents[1] / "tests" / "moving"
PORT = 18_085
GROUP = {"title": "Shops", "ignore_text": ["sid="], "url_match_pattern": "*shop*"}
EXTRA: list[dict[str, object]] = [
    {
        "url": "https://shop.example.org/kettle",
        "processor": "restock_diff",
        "title": "Stock",
        "processor_config_restock_diff": {"in_stock_processing": "all_changes", "price_change_max": 50},
    },
    {"url": "https://example.org/form", "method": "POST", "body": "a=1", "headers": {"X-Key": "kept-secret-value"}},
    {
        "url": "https://example.org/hours",
        "fetch_backend": "html_webdriver",
        "time_between_check": {"hours": 1, "minutes": 30},
        "time_between_check_use_default": False,
        "conditions": [{"field": "extracted_number", "operator": "<", "value": "40"}],
        "notification_urls": ["json://alerts.example.org/kept-secret-path"],
    },
]
"""Watches that are moved, and fetch nothing that is there."""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves the pages."""

    def do_GET(self) -> None:
        media, body = PAGES.get(self.path.lstrip("/"), ("text/plain", "nothing here"))
        data = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{media}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: object) -> None:
        """Says nothing."""


def by_filters(python: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The jobs of urlwatch and webchanges."""
    jobs = [("urlwatch", page, filters) for page, filters in URLWATCH]
    jobs += [("webchanges", page, filters) for page, filters in WEBCHANGES]
    given = json.dumps([[program, filters, *PAGES[page]] for program, page, filters in jobs])
    script = str(Path(__file__).with_name("peer_extract.py"))
    run = subprocess.run([python, script], input=given, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    rows: list[dict[str, Any]] = []
    for (program, page, filters), output in zip(jobs, found["outputs"], strict=True):
        dialect = URLWATCH_DIALECT if program == "urlwatch" else WEBCHANGES_DIALECT
        key = "filter" if program == "urlwatch" else "filters"
        job = {"url": "http://example.org/", key: filters}
        moved = read_jobs(yaml.safe_dump(job).encode(), dialect)
        rows.append({"program": program, "page": page, "job": job, **output, **_moved(moved)})
    return rows, found["versions"]


def _moved(moved: Any) -> dict[str, Any]:
    selections = moved.sites[0].get("selections", {"default": {}})
    return {"selection": selections["default"], "losses": [f"{line.key}: {line.how}" for line in moved.losses()]}


@contextmanager
def changedetection(python: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Runs the program with an empty folder; yields its address and the key of its API."""
    command = [str(Path(python).with_name("changedetection.io")), "-d", str(folder), "-p", str(PORT), "-h", "127.0.0.1"]
    settings = {**os.environ, "ALLOW_IANA_RESTRICTED_ADDRESSES": "true"}
    with subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{PORT}", _key(folder / "changedetection.json")
        finally:
            process.terminate()


def _key(file: Path) -> str:
    for _ in range(120):
        if file.exists():
            time.sleep(3)
            return str(json.loads(file.read_text())["settings"]["application"]["api_access_token"])
        time.sleep(0.5)
    raise SystemExit("changedetection.io does not start")


def call(url: str, key: str, body: object = None, method: str = "GET") -> Any:
    """Calls the API."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"x-api-key": key, "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url}: {error.code} {error.read().decode()[:300]}") from error
    try:
        return json.loads(text)
    except ValueError:
        return text


def by_watches(python: str, pages: str, folder: Path) -> list[dict[str, Any]]:
    """The watches of changedetection.io; also records a backup and what the API tells."""
    rows: list[dict[str, Any]] = []
    with changedetection(python, folder) as (root, key):
        api = f"{root}/api/v1"
        for uuid in call(f"{api}/watch", key):  # examples that it begins with
            call(f"{api}/watch/{uuid}", key, method="DELETE")
        for uuid in call(f"{api}/tags", key):
            call(f"{api}/tag/{uuid}", key, method="DELETE")
        made = [(page, _created(api, key, {"url": f"{pages}/{page}", **watch})) for page, watch in WATCHES]
        for page, uuid in made:
            output = _output(api, key, uuid)
            fields = call(f"{api}/watch/{uuid}", key)
            moved = move(Instance([Watch(uuid, fields)], {}, None))
            job = {name: fields[name] for name in dict(WATCHES[len(rows)][1])}
            rows.append({"program": "changedetection.io", "page": page, "job": job, "output": output, **_moved(moved)})
        group = call(f"{api}/tag", key, GROUP, "POST")["uuid"]
        for watch in EXTRA:
            _created(api, key, {**watch, "paused": True, "tags": [group]})
        for _, uuid in made[2:]:
            call(f"{api}/watch/{uuid}", key, method="DELETE")
        _record_api(api, key)
        _record_backup(root, folder)
    return rows


def _created(api: str, key: str, watch: dict[str, object]) -> str:
    return str(call(f"{api}/watch", key, watch, "POST")["uuid"])


def _output(api: str, key: str, uuid: str) -> str | None:
    for _ in range(120):
        if call(f"{api}/watch/{uuid}", key)["history_n"]:
            return str(call(f"{api}/watch/{uuid}/history/latest", key))
        time.sleep(0.5)
    return None


def _record_api(api: str, key: str) -> None:
    """What the calls of the importer answer."""
    paths = ["/watch", "/tags"]
    paths += [f"/watch/{uuid}" for uuid in call(f"{api}/watch", key)] + [
        f"/tag/{uuid}" for uuid in call(f"{api}/tags", key)
    ]
    answers = {path: call(f"{api}{path}", key) for path in paths}
    (FOLDER / "files" / "changedetection-api.json").write_text(json.dumps(answers, indent=1) + "\n")


def _record_backup(root: str, folder: Path) -> None:
    """The backup that the program makes, without the history of its watches."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(f"{root}/backups/create", timeout=30) as page:
        token = re.search(r'name="csrf_token" value="([^"]+)"', page.read().decode())
    data = f"csrf_token={token[1]}".encode() if token else b""
    headers = {"Referer": f"{root}/backups/create"}
    opener.open(urllib.request.Request(f"{root}/backups/request-backup", data, headers), timeout=30).close()
    for _ in range(60):
        made = next(folder.glob("changedetection-backup-*.zip"), None)
        if made is not None:
            break
        time.sleep(0.5)
    else:
        raise SystemExit("changedetection.io makes no backup")
    kept = re.compile(r"changedetection\.json|url-list.*|[^/]+/(watch|tag|restock_diff)\.json")
    out = io.BytesIO()
    with zipfile.ZipFile(made) as whole, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as small:
        for entry in whole.infolist():
            if kept.fullmatch(entry.filename):
                small.writestr(entry, whole.read(entry), zipfile.ZIP_DEFLATED)
    (FOLDER / "files" / "changedetection-backup.zip").write_bytes(out.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="interpreter of the environment with the three programs")
    python = parser.parse_args().python
    (FOLDER / "files").mkdir(parents=True, exist_ok=True)
    rows, versions = by_filters(python)
    waiting = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    with serving(waiting) as server, tempfile.TemporaryDirectory() as folder:
        rows += by_watches(python, f"http://127.0.0.1:{server.server_port}", Path(folder))
    pages = {name: {"type": media, "body": body} for name, (media, body) in PAGES.items()}
    table = {"versions": versions, "pages": pages, "jobs": rows}
    (FOLDER / "peers.json").write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(rows)} jobs; {versions}")


if __name__ == "__main__":
    main()
