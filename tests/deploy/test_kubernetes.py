"""The Kubernetes manifest: its objects fit each other, the image and pollerd's settings."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pollerd import __version__
from pollerd.app.config import load

_LABELS = {"app.kubernetes.io/name": "pollerd"}
_KINDS = {"Deployment": "apps/v1", "Service": "v1", "PodDisruptionBudget": "policy/v1"}


@pytest.fixture(scope="module")
def objects(top: Path) -> dict[str, Any]:
    parsed = list(yaml.safe_load_all((top / "deploy" / "kubernetes" / "pollerd.yaml").read_text()))
    assert {one["kind"]: one["apiVersion"] for one in parsed} == _KINDS
    assert len(parsed) == len(_KINDS)
    return {one["kind"]: one for one in parsed}


@pytest.fixture(scope="module")
def pod(objects: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment"]["spec"]["template"]["spec"]
    return found


@pytest.fixture(scope="module")
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


def test_the_published_schema_takes_every_field(objects: dict[str, Any]) -> None:
    for one in objects.values():
        kubernetes_validate.validate(one, "1.32", strict=True)
    misspelt = deepcopy(objects["Deployment"])
    misspelt["spec"]["replica"] = misspelt["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(misspelt, "1.32", strict=True)


def test_every_selector_finds_the_pods(objects: dict[str, Any]) -> None:
    deployment = objects["Deployment"]["spec"]
    assert deployment["template"]["metadata"]["labels"] == _LABELS
    assert deployment["selector"] == {"matchLabels": _LABELS}
    assert objects["PodDisruptionBudget"]["spec"]["selector"] == {"matchLabels": _LABELS}
    assert objects["Service"]["spec"]["selector"] == _LABELS


def test_an_eviction_or_a_new_version_takes_one_node_at_a_time(objects: dict[str, Any]) -> None:
    deployment = objects["Deployment"]["spec"]
    assert deployment["replicas"] > 1
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_probes_and_the_service_reach_the_port_that_it_listens_on(
    objects: dict[str, Any], container: dict[str, Any]
) -> None:
    (port,) = container["ports"]
    listen = next(one["value"] for one in container["env"] if one["name"] == "POLLERD_LISTEN")
    assert listen == f"0.0.0.0:{port['containerPort']}"
    (published,) = objects["Service"]["spec"]["ports"]
    assert published["targetPort"] == port["name"]
    paths = {}
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[name]["httpGet"]
        assert asked["port"] == port["name"]
        paths[name] = asked["path"]
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_it_is_our_image_with_settings_that_pollerd_takes(container: dict[str, Any], tmp_path: Path) -> None:
    assert container["image"] == f"pollerd:{__version__}"
    assert container["args"] == ["run"]
    given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    contents = {
        "POLLERD_DATABASE_FILE": "postgresql+asyncpg://pollerd:secret@db/pollerd",
        "POLLERD_TOKEN_FILE": "w" * 43,
        "POLLERD_READ_TOKEN_FILE": "r" * 43,
        "POLLERD_SECRET_KEY_FILE": "k" * 43 + "=",
    }
    files = {name for name in given if name.endswith("_FILE")}
    assert files == set(contents)
    for name in files:
        assert Path(given[name]).parent == Path(container["volumeMounts"][0]["mountPath"])
        given[name] = str(tmp_path / name)
        Path(given[name]).write_text(contents[name])
    config = load({}, environ=given)
    assert config.options.node == "auto"
    assert config.options.database == contents["POLLERD_DATABASE_FILE"]


def test_containers_have_no_more_than_they_need(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    limits = container["securityContext"]
    assert limits["capabilities"] == {"drop": ["ALL"]}
    assert limits["readOnlyRootFilesystem"] is True
    assert limits["allowPrivilegeEscalation"] is False
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    assert volumes["secrets"]["secret"] == {"secretName": "pollerd", "defaultMode": 0o440}
