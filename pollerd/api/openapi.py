"""The OpenAPI document: FastAPI's own, completed with refusals, examples and security.

Central for all calls: a call declares what it returns, this module adds what every call may return. Examples of
parameters and bodies without their own are looked up by name in `openapi_examples`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from pollerd import texts
from pollerd.allocation import registry
from pollerd.allocation.registered import OBJECTIVES
from pollerd.api.descriptions import description_of
from pollerd.api.examples import BODIES, PARAMETERS, PROBLEMS, TEXTS

Json = dict[str, Any]
MEDIA_TYPE = "application/problem+json"

_METHODS = ("get", "put", "post", "patch", "delete")
_PARAMETER = re.compile(r"\{[^}]*\}")
_TAGS = {
    "sites": "What is polled, and how.",
    "sources": "Sitemaps and feeds whose pages become sites.",
    "signals": "Polls and reports that say when other pages change.",
    "reads": "Reports of how often changes were read, from which half-lives of interest are learned.",
    "tags": "What sites have in common.",
    "notifications": "Alerts: rules, channels, and the delivery log.",
    "hosts": "Who is asked, and how politely.",
    "changes": "What was found.",
    "allocation": "How the budget is spent.",
    "accounts": "Who may call: users, sessions, tokens.",
    "transfer": "All that was set, from one daemon to another.",
    "cluster": "The nodes that share the database.",
    "collection": "What the focused crawler found.",
    "health": "Health and metrics for machines; open to all clients that reach the API.",
}
_BEARER: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of scope `read` for GET, of scope `write` for all else. Where the daemon has neither "
    "tokens nor users it listens on loopback only, and none is needed.",
}
_SESSION: Json = {
    "type": "apiKey",
    "in": "cookie",
    "name": "pollerd",
    "description": "A session, as `POST /sessions` begins it; under TLS the cookie is `__Host-pollerd`. The "
    "port of the address is added to its name (`pollerd-8080`); without it, it is read all the same. Changes need the"
    " daemon's Origin, which browsers send, or the header X-CSRF-Token.",
}
_PROBLEM: Json = {
    "type": "object",
    "description": "Why a call was refused (RFC 9457). Some kinds have more members.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "about:blank, or urn:pollerd:problem: and the kind"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "what is wrong here, for a person"},
        "existing_id": {"type": "integer", "description": "409: the site that has the URL already"},
        "limit": {"type": "string", "description": "410: the setting that a content went by"},
        "pruned": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/ChangeSide"},
            "description": "410: what is gone",
        },
        "summary": {"type": "string", "description": "410: the change's"},
    },
}
_INVALID: Json = {
    "allOf": [{"$ref": "#/components/schemas/Problem"}],
    "description": "A value that cannot be used.",
    "required": ["errors"],
    "properties": {
        "errors": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["field", "allowed", "given"],
                "properties": {
                    "field": {"type": "string", "description": "its name; parts of bodies are parted by dots"},
                    "allowed": {"type": "string", "description": "what it must be"},
                    "given": {"description": "what it was; nothing that may be secret is shown"},
                },
            },
        }
    },
}
_NAMES = {
    "AllocationView": "Allocation",
    "BenefitPointView": "BenefitPoint",
    "BudgetPlan": "Plan",
    "CalibrationView": "Calibration",
    "ChangeJudgement": "Judgement",
    "ClusterView": "ClusterState",
    "CollectionView": "Collection",
    "ComingChangesView": "ComingChanges",
    "ComparedPolicies": "ComparedFigures",
    "DecileView": "Decile",
    "ExplanationView": "Explanation",
    "FeedView": "Feed",
    "Form": "DiffFormat",
    "Format": "ListFormat",
    "HeldBack": "PlannedLimit",
    "HostView": "Host",
    "JobProgress": "Job",
    "MeasuredDelays": "MeasuredDelay",
    "Media": "MediaKind",
    "NamedUser": "User",
    "NodeView": "ClusterNode",
    "NoiseView": "Noise",
    "NoiseViewList": "NoiseList",
    "OfferedHub": "Hub",
    "PagePreview": "Preview",
    "QueueCounts": "Queue",
    "RobotsView": "HostRobots",
    "Row": "DiffRow",
    "ShadowView": "Shadow",
    "Side": "DiffSide",
    "SignalYieldView": "SignalYields",
    "StoredPage": "KnownPage",
    "StoredToken": "ApiToken",
    "TagPlan": "TagDelays",
}
"""Names of schemas in the document, and so in generated clients, that differ from `_public_name`'s rule."""
_LISTING = re.compile(r"Listing_(\w+)_")
_WORDS = {
    "AllocatorName": registry.names(),
    "Objective": OBJECTIVES,
    "PausedBy": ("host", "operator"),
    "SourceKind": ("sitemap", "feed"),
    "SourceHosts": ("same", "any"),
    "SignalKind": ("sitemap", "feed", "list", "links", "push"),
    "ListedState": ("joined", "vanished"),
    "ChangeSide": ("before", "after"),
    "AccountRole": ("read", "write"),
    "CallerKind": ("token", "session", "proxy"),
}
_SERVERS = [{"url": "/", "description": "the daemon that serves this document"}]
_CONFLICTS = frozenset(
    (
        *(
            "add_site",
            "add_source",
            "add_signal_source",
            "change_site",
            "accept_redirect",
            "undo_job",
            "change_node",
            "add_user",
            "add_first_user",
        ),
        *("make_token", "add_channel", "change_channel", "add_rule", "replace_rule"),
    )
)
_LEFT_OUT = (
    "SitePatch",
    "AllocationPatch",
    "HostPatch",
    "SiteSelection",
    "SourcePatch",
    "UserPatch",
    "BulkChange",
    "BulkValue",
)
"""Bodies of which a field that is left out says nothing, not its default."""
_NOT_FOUND = frozenset({"end_sessions", "end_current_session", "change_own_password", "preview_page"})
"""Calls without a parameter in their path that may name what is not there."""
_RETRY: Json = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
_CHALLENGE: Json = {"WWW-Authenticate": {"description": "RFC 6750", "schema": {"type": "string"}}}
_LOCATION: Json = {"Location": {"description": "path of what was added", "schema": {"type": "string"}}}


def install(app: FastAPI) -> None:
    """Completes the app's document, and serves it at /openapi.json.

    Runs in a thread, as FastAPI does with functions that are not async: building it takes 0.2 s.
    """
    derive = app.openapi

    def complete() -> Json:
        if app.openapi_schema is None:
            with texts.speaking(texts.language(texts.ENGLISH)):
                app.openapi_schema = completed(derive())
        return app.openapi_schema

    def serve(_: Request) -> JSONResponse:
        return JSONResponse(translated(app.openapi()))

    app.openapi = complete  # type: ignore[method-assign]
    app.add_route("/openapi.json", serve, include_in_schema=False)


TEXTS_OF_DOCUMENT = frozenset({"description", "summary"})
"""Members that are texts for people."""


def translated(node: Any) -> Any:
    """Returns a document with its texts in the language of the context."""
    if isinstance(node, list):
        return [translated(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        name: texts._(value) if name in TEXTS_OF_DOCUMENT and isinstance(value, str) else translated(value)
        for name, value in node.items()
    }


def completed(document: Json) -> Json:
    """Returns the document with everything that FastAPI does not know."""
    document["servers"] = _SERVERS
    document = _renamed(document)
    parts = document["components"]
    for name in ("HTTPValidationError", "ValidationError"):
        parts["schemas"].pop(name, None)
    parts["schemas"] |= {"Problem": _PROBLEM, "InvalidValue": _INVALID}
    parts["responses"] = {HTTPStatus(s).phrase.replace(" ", ""): _refusal(s) for s in PROBLEMS}
    parts["securitySchemes"] = {"bearer": _BEARER, "session": _SESSION}
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    for name in BODIES.keys() & parts["schemas"].keys():
        parts["schemas"][name].setdefault("examples", [BODIES[name]])
    for schema in _LEFT_OUT:
        for field in parts["schemas"][schema]["properties"].values():
            field.pop("default", None)  # omitted fields keep their values
    for name, schema in parts["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            if not described.get("description") and (text := description_of(name, field)):
                described["description"] = text
    for path, operation in _operations(document):
        _complete(path, operation)
    return document


def _renamed(document: Json) -> Json:
    """Returns the document with schemas under their public names, and with shared enums."""
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        schema["title"] = _public_name(name)
    renamed: Json = _referring(document)
    named = {_public_name(name): schema for name, schema in renamed["components"]["schemas"].items()}
    words = {name: {"type": "string", "title": name, "enum": list(values)} for name, values in _WORDS.items()}
    renamed["components"]["schemas"] = named | words
    return renamed


def _public_name(name: str) -> str:
    """Returns a schema's public name: `SiteSchema` becomes `Site`, `Listing[SiteSchema]` becomes `SiteList`."""
    if listing := _LISTING.fullmatch(name):
        return _public_name(listing[1]) + "List"
    return _NAMES.get(name, name.removesuffix("Schema"))


def _referring(node: Any) -> Any:
    if isinstance(node, list):
        return [_referring(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        head, slash, name = node["$ref"].rpartition("/")
        return {**node, "$ref": f"{head}{slash}{_public_name(name)}"}
    for name, words in _WORDS.items():
        if node.get("enum") == list(words):
            return {"$ref": f"#/components/schemas/{name}"}
    return {key: _referring(value) for key, value in node.items()}


def methods_at(document: Json, path: str) -> list[str]:
    """Returns the methods of a path in the document, in capitals; none for an unknown path."""
    for template, item in document["paths"].items():
        if re.fullmatch(_PARAMETER.sub(_pattern_of, template), path):
            return [method.upper() for method in item]
    return []


def _pattern_of(parameter: re.Match[str]) -> str:
    return "[0-9]+" if parameter[0].endswith("_id}") else "[^/]+"


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, item[method]


def _refusal(status: int) -> Json:
    response: Json = {
        "description": PROBLEMS[status]["detail"],
        "content": {MEDIA_TYPE: {"schema": _schema_of(status), "example": PROBLEMS[status]}},
    }
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        response["headers"] = _RETRY
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        response["headers"] = _CHALLENGE
    return response


def _schema_of(status: int) -> Json:
    name = "InvalidValue" if status == HTTPStatus.UNPROCESSABLE_ENTITY else "Problem"
    return {"$ref": f"#/components/schemas/{name}"}


def _complete(path: str, operation: Json) -> None:
    for parameter in operation.get("parameters", ()):
        _complete_parameter(operation["operationId"], parameter)
    answers = operation["responses"]
    answers.pop("422", None)
    for answer in answers.values():
        for media, content in answer.get("content", {}).items():
            content.setdefault("schema", {"type": "string"})
            if "example" not in content and media in TEXTS:
                content["example"] = TEXTS[media]
    if "201" in answers:
        answers["201"]["headers"] = _LOCATION
    if "health" in operation["tags"]:
        operation["security"] = []
        _complete_health(answers)
        return
    operation["security"] = [{"bearer": []}, {"session": []}, {}]
    for status in _refusals(path, operation):
        phrase = HTTPStatus(status).phrase.replace(" ", "")
        answers[str(status)] = {"$ref": f"#/components/responses/{phrase}"}


def _complete_parameter(operation: str, parameter: Json) -> None:
    """Completes a parameter. A query parameter is present or absent, never null."""
    schema = parameter["schema"]
    options = [option for option in schema.pop("anyOf", ()) if option != {"type": "null"}]
    for option in options:
        schema |= option
    name = parameter["name"]
    example = PARAMETERS.get(f"{operation}.{name}", PARAMETERS.get(name))
    if example is not None and "example" not in parameter and "examples" not in schema:
        parameter["example"] = example
    parameter.setdefault("description", name)


def _complete_health(answers: Json) -> None:
    """Adds the 503 of health checks, in the same shape as their 200."""
    if "application/json" in answers["200"].get("content", {}):
        answers["503"] = {"description": "it is not", "content": answers["200"]["content"]}
    else:
        answers["200"]["content"] = {"text/plain": {"schema": {"type": "string"}, "example": "pollerd_polls_total 7\n"}}


def _refusals(path: str, operation: Json) -> Iterator[int]:
    yield from (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    if "{" in path or "collection" in operation["tags"] or operation["operationId"] in _NOT_FOUND:
        yield HTTPStatus.NOT_FOUND
    if operation["operationId"] == "diff_change":
        yield HTTPStatus.GONE
    if operation["operationId"] in _CONFLICTS:
        yield HTTPStatus.CONFLICT
    if "requestBody" in operation:
        yield from (
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        )
