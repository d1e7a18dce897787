"""The OpenAPI document: nothing is left unsaid, and every example is what it is an example of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from pollerd.api.descriptions import FIELDS
from pollerd.site_settings import SITE_SETTINGS
from tests.support.openapi import DOCUMENT

OPERATIONS = [(path, method) for path, item in DOCUMENT["paths"].items() for method in item]


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that stands alone."""
    return {**schema, "components": DOCUMENT["components"]}


def _followed(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: Any = DOCUMENT
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _assert_example(schema: dict[str, Any], example: object) -> None:
    jsonschema_rs.Draft202012Validator(_resolved(schema), validate_formats=True).validate(example)


def _contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if "requestBody" in operation:
        yield from operation["requestBody"]["content"].items()
    for answer in operation["responses"].values():
        yield from _followed(answer).get("content", {}).items()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_operation_says_all_of_itself(path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    for word in ("summary", "description", "operationId"):
        assert operation[word], word
    known = {tag["name"] for tag in DOCUMENT["tags"]}
    assert operation["tags"] == list(dict.fromkeys(operation["tags"]))
    assert set(operation["tags"]) <= known
    assert operation["security"] == ([] if "health" in operation["tags"] else [{"bearer": []}, {"session": []}, {}])
    for status, answer in operation["responses"].items():
        assert _followed(answer)["description"], status
        if int(status) >= 400 and "health" not in operation["tags"]:
            assert list(_followed(answer)["content"]) == ["application/problem+json"]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_parameter_and_body_has_an_example_that_fits(path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    for parameter in operation.get("parameters", ()):
        assert parameter["description"]
        examples = [parameter["example"]] if "example" in parameter else parameter["schema"]["examples"]
        for example in examples:
            _assert_example(parameter["schema"], example)
    for media, content in _contents(operation):
        schema = content["schema"]
        examples = [content["example"]] if "example" in content else _followed(schema).get("examples", ())
        assert examples, (media, schema)
        for example in examples:
            _assert_example(schema, example)


def test_every_field_is_described_and_every_description_is_of_a_field() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    fields = {
        (name, field): one for name, schema in schemas.items() for field, one in schema.get("properties", {}).items()
    }
    assert [place for place, one in fields.items() if not one.get("description")] == []
    known = {f"{name}.{field}" for name, field in fields} | {field for _, field in fields}
    assert set(FIELDS) - known - set(SITE_SETTINGS) == set()


def test_names_of_operations_are_short_and_unique() -> None:
    names = [DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS]
    assert len(set(names)) == len(names)
    assert all("api" not in name for name in names)


def test_refusals_are_documented_where_they_can_come() -> None:
    paths = DOCUMENT["paths"]
    assert {"401", "403", "409", "413", "415", "422", "503"} <= paths["/api/v1/sites"]["post"]["responses"].keys()
    assert {"404", "410"} <= paths["/api/v1/changes/{change_id}/diff"]["get"]["responses"].keys()
    assert "404" not in paths["/api/v1/sites"]["get"]["responses"]
    assert paths["/readyz"]["get"]["responses"].keys() == {"200", "503"}
    assert DOCUMENT["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert "HTTPValidationError" not in DOCUMENT["components"]["schemas"]


def test_what_is_secret_is_only_ever_written() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["NewSite"]["properties"]["headers"]["writeOnly"]
    assert not {"headers", "credentials"} & schemas["Site"]["properties"].keys()
    patch = schemas["SitePatch"]["properties"]
    assert not any("default" in field for field in patch.values())
