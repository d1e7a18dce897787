"""The Compose stack, the image and the systemd unit keep what README.md promises of them."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pollerd import __version__
from pollerd.api.settings import SignInSettings
from pollerd.app.config import load

SERVICES = ("secrets", "postgres", "pollerd", "balancer", "browser", "prometheus", "grafana")


@pytest.fixture(scope="module")
def compose(top: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((top / "docker-compose.yml").read_text())
    return parsed


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest, compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"][request.param]
    return found


def test_all_services_are_looked_at(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == set(SERVICES)


def test_images_are_pinned_by_tag(service: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?", service["image"])


def test_our_image_has_our_version(compose: dict[str, Any]) -> None:
    assert compose["services"]["pollerd"]["image"] == f"pollerd:{__version__}"


def test_containers_have_no_more_than_they_need(service: dict[str, Any], compose: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert service["restart"] == ("no" if service is compose["services"]["secrets"] else "unless-stopped")
    assert not {"privileged", "devices", "pid", "ipc"} & set(service)


def test_only_the_secrets_are_made_as_root_and_without_network(compose: dict[str, Any]) -> None:
    services = dict(compose["services"])
    maker = services.pop("secrets")
    assert (maker["user"], maker["cap_add"], maker["network_mode"]) == ("0:0", ["CHOWN"], "none")
    del services["pollerd"]  # its user is the image's
    assert all(not one["user"].startswith("0") and "cap_add" not in one for one in services.values())


def test_ports_are_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = {name: one.get("ports", []) for name, one in compose["services"].items()}
    assert {name for name, published in ports.items() if published} == {"balancer", "grafana"}, (
        "a port of pollerd would be taken once"
    )
    assert all(port.startswith("127.0.0.1:") for published in ports.values() for port in published)


def test_the_database_is_reached_by_pollerd_only(compose: dict[str, Any]) -> None:
    networks, services = compose["networks"], compose["services"]
    assert networks["database"]["internal"] is True
    assert networks["metrics"]["internal"] is True
    on_database = {name for name, one in services.items() if "database" in one.get("networks", ())}
    assert on_database == {"postgres", "pollerd"}
    assert services["prometheus"]["networks"] == ["metrics"]


def test_one_address_leads_to_every_replica(compose: dict[str, Any], top: Path) -> None:
    services = compose["services"]
    pollerd, balancer = services["pollerd"], services["balancer"]
    assert not {"container_name", "hostname", "ports"} & set(pollerd), "each replica needs its own"
    given = pollerd["environment"]
    assert given["POLLERD_NODE"] == "auto"
    host, _, port = given["POLLERD_LISTEN"].rpartition(":")
    assert host == "0.0.0.0"
    text = (top / "deploy/nginx/nginx.conf").read_text()
    assert "set $nodes pollerd;" in text, "the name is looked up while it runs"
    assert f"proxy_pass http://$nodes:{port};" in text
    assert "proxy_buffering off;" in text, "events go through as they come"
    listened = re.search(r"listen (\d+);", text)
    assert listened is not None
    assert balancer["ports"] == [f"127.0.0.1:8080:{listened[1]}"]
    assert set(balancer["networks"]) <= set(pollerd["networks"])
    assert "location ~ ^/(api/|" in text
    assert text.count(f"proxy_pass http://$nodes:{port};") == 2
    (mounted,) = balancer["volumes"]
    assert mounted["target"] in balancer["entrypoint"]


def test_calls_keep_their_addresses_behind_the_balancer(compose: dict[str, Any], top: Path) -> None:
    """Else ten wrong sign-ins of one caller would keep all others waiting."""
    services, front = compose["services"], compose["networks"]["front"]
    (subnet,) = front["ipam"]["config"]
    given = services["pollerd"]["environment"]["POLLERD_TRUSTED_PROXY"]
    assert given == subnet["subnet"]
    default = re.fullmatch(r"\$\{POLLERD_FRONT_NETWORK:-(.+)\}", given)
    assert default is not None
    assert SignInSettings.of(trusted_proxies=[default[1]]).trusted_proxies[0].is_private
    assert services["balancer"]["networks"] == ["front"]
    assert {name for name, one in services.items() if "front" in one.get("networks", ())} == {"balancer", "pollerd"}
    text = (top / "deploy/nginx/nginx.conf").read_text()
    assert "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;" in text
    assert "gzip on;" not in text.partition("location ~")[0] + text.partition("location / ")[2], "pages carry secrets"


def test_prometheus_finds_every_replica(compose: dict[str, Any], top: Path) -> None:
    config = yaml.safe_load((top / "deploy/prometheus/prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    port = int(compose["services"]["pollerd"]["environment"]["POLLERD_LISTEN"].rpartition(":")[2])
    assert (found["names"], found["type"], found["port"]) == (["pollerd"], "A", port)


def test_the_browser_has_no_way_out_but_pollerds_proxy(compose: dict[str, Any], top: Path) -> None:
    networks, services = compose["networks"], compose["services"]
    assert networks["browser"]["internal"] is True
    assert services["browser"]["networks"] == ["browser"]
    assert {name for name, one in services.items() if "browser" in one.get("networks", ())} == {"browser", "pollerd"}
    assert services["browser"]["profiles"] == ["browser"], "only who asks for it has one"
    assert "ports" not in services["browser"]
    start = (top / "deploy/docker/browser/start.sh").read_text()
    for switch in ("'--proxy-bypass-list=<-loopback>'", "--disable-quic", "--proxy-server="):
        assert switch in start
    assert "USER 10002:10002" in (top / "deploy/docker/browser/Dockerfile").read_text()


def test_no_secret_stands_in_plain_text(top: Path, service: dict[str, Any]) -> None:
    for name, value in (service.get("environment") or {}).items():
        if re.search("PASSWORD|TOKEN|SECRET|DATABASE", name) and isinstance(value, str):
            assert name.endswith("_FILE"), name
            assert value.startswith("/run/pollerd-secrets/"), name
    assert not re.search(r"://[^\s/]+:[^\s/]+@", (top / "docker-compose.yml").read_text())


def test_secrets_named_are_secrets_made(compose: dict[str, Any], top: Path) -> None:
    named = set(re.findall(r"/run/pollerd-secrets/(\w+)", (top / "docker-compose.yml").read_text()))
    made = (top / "deploy/docker/make_secrets.py").read_text()
    assert all(f'"{name}"' in made for name in named)


def test_every_setting_is_one_that_pollerd_knows(compose: dict[str, Any], tmp_path: Path) -> None:
    environment = compose["services"]["pollerd"]["environment"]
    secret = tmp_path / "secret"
    samples = {"POLLERD_OBJECTIVE": "changes", "POLLERD_ALLOCATOR": "uniform", "POLLERD_CONTACT": "https://example.org"}
    samples |= {"POLLERD_ALLOW_PRIVATE": "true", "POLLERD_SYNC": "true", "POLLERD_LOG_FORMAT": "json"}
    samples |= {"POLLERD_MIN_YIELD": "2%", "POLLERD_RESPECT_TTL": "true"}
    samples |= {"POLLERD_BROWSER": "http://browser:9222", "POLLERD_BROWSER_PROXY": "proxy.pollerd:3129"}
    samples |= {"POLLERD_TRUSTED_PROXY": "172.31.250.0/24"}  # what Compose makes of it
    samples |= {"POLLERD_LOG_LEVEL": "info", "POLLERD_PROXY": "http://proxy.example.org:3128"}
    for name, value in environment.items():
        if name.endswith("_FILE"):
            samples[name] = str(secret.with_name(name))
            Path(samples[name]).write_text("A" * 43 + "=" if "KEY" in name else f"sqlite:///{name}")
        else:
            samples.setdefault(name, value or "60")
    config = load({}, environ=samples)
    assert config.api.host == "0.0.0.0"
    assert len(config.api.tokens) == 2


def test_mounted_files_are_there(compose: dict[str, Any], top: Path) -> None:
    mounts = [m for one in compose["services"].values() for m in one["volumes"] if isinstance(m, dict)]
    assert len(mounts) >= 5
    for mount in mounts:
        assert mount["read_only"] is True
        assert mount["bind"] == {"create_host_path": False}
        assert (top / mount["source"]).exists(), mount["source"]


def test_a_stop_waits_longer_than_the_daemon_drains(compose: dict[str, Any], top: Path) -> None:
    longest = load({}, environ={}).daemon.drain_seconds + 5.0
    assert float(compose["services"]["pollerd"]["stop_grace_period"].removesuffix("s")) > longest
    unit = (top / "deploy/systemd/pollerd.service").read_text()
    patience = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert patience is not None
    assert float(patience[1]) > longest


def test_the_image_is_built_of_pinned_and_hashed_parts(top: Path) -> None:
    text = (top / "Dockerfile").read_text()
    assert "--require-hashes" in text
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-[a-z]+$", text, re.MULTILINE)
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "uninstall" in last


def test_user_ids_agree(compose: dict[str, Any], make_secrets: Any) -> None:
    services = compose["services"]
    assert services["postgres"]["user"].startswith(f"{make_secrets.POSTGRES}:")
    assert services["grafana"]["user"].startswith(f"{make_secrets.GRAFANA}:")
    assert make_secrets.POLLERD == 10001


class UnitFile(configparser.ConfigParser):
    """Of systemd: names in either case, as they are written."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_unit_gives_up_what_it_does_not_need(top: Path) -> None:
    unit = UnitFile(strict=False, interpolation=None)
    unit.read(top / "deploy/systemd/pollerd.service")
    service = unit["Service"]
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "DynamicUser", "RestrictSUIDSGID"):
        assert service[name] == "yes", name
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert service["Restart"] == "on-failure"


def test_systemd_takes_the_unit(top: Path, tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    text = (top / "deploy/systemd/pollerd.service").read_text()
    unit = tmp_path / "pollerd.service"
    # The program is not installed where the unit says.
    unit.write_text(text.replace("/opt/pollerd/bin/pollerd", "/bin/true"))
    done = subprocess.run([tool, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_takes_its_settings(top: Path) -> None:
    lines = (top / "deploy/systemd/pollerd.env").read_text().splitlines()
    settings = [line.removeprefix("#") for line in lines if re.match(r"#?POLLERD_", line)]
    given = dict(line.split("=", 1) for line in settings)
    given["POLLERD_TOKEN"] = "token"
    assert load({}, environ=given).api.host == "0.0.0.0"
