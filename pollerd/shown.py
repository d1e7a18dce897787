"""How records of the daemon are shown over REST as they are: FastAPI serialises standard dataclasses.

A record that REST shows says so by `__pydantic_config__ = SHOWN`. The docstrings below its fields become the
descriptions of the OpenAPI document; the name of its component is pinned in `pollerd.api.openapi`. Nothing here
imports pydantic: a program without the API does not load it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from functools import cache
from typing import Annotated, Any

from pollerd.timestamps import rfc3339


def shown_as(**names: str) -> dict[str, Any]:
    """Returns the configuration of a record some of whose fields have other names in REST: `field="name"`."""

    def describe(schema: dict[str, Any], record: type) -> None:
        for field in schema["properties"].values():
            field.pop("default", None)  # an answer has them all
        for kind in reversed(record.__mro__):
            for field, text in _field_docs(kind.__module__).get(kind.__qualname__, {}).items():
                if (shown := schema["properties"].get(names.get(field, field))) is not None:
                    shown["description"] = text

    return {
        "alias_generator": lambda field: names.get(field, field),
        "json_schema_extra": describe,
        # Fields that have defaults are always shown, so the document names them as required.
        "json_schema_serialization_defaults_required": True,
    }


@cache
def _field_docs(module: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of fields by classes of a module, with null for None.

    pydantic's `use_attribute_docstrings` parses the module once a class, at each start; this does it once a document.
    """
    by_name: dict[str, dict[str, str]] = {}
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        return {}  # `builtins`, or a program without its source: the document has fewer descriptions
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            by_name[node.name] = docs = {}
            for before, line in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, ast.AnnAssign) and isinstance(line, ast.Expr):
                    text = " ".join(ast.literal_eval(line.value).split())
                    docs[ast.unparse(before.target)] = re.sub(r"\bNone\b", "null", text)
    return by_name


SHOWN = shown_as()
"""Of records whose fields have their own names in REST."""


class _Rfc3339:
    """Epoch seconds, shown in RFC 3339, UTC."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        shown = core_schema.plain_serializer_function_ser_schema(
            rfc3339, return_schema=core_schema.str_schema(), when_used="json-unless-none"
        )
        return {**handler(source), "serialization": shown}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time", "description": "RFC 3339, UTC"}


class _Documented:
    """Adds to a type's schema in the document; what is shown stays."""

    def __init__(self, **added: Any) -> None:
        self._added = added

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), **self._added}


class ShownAs:
    """Shows a record as one that it extends: what it adds stays inside."""

    def __init__(self, record: type) -> None:
        self._record = record

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler.generate_schema(self._record)


class OneOf:
    """Lists the words of a `StrEnum` where it stands in the document: those that there may be here."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.literal_schema([*self._words])


class _NotKnown:
    """A number that may be nan, shown as null."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


Moment = Annotated[float, _Rfc3339()]
"""A time, epoch s; REST shows it in RFC 3339, UTC."""
Share = Annotated[float, _Documented(minimum=0, maximum=1)]
"""From 0 to 1."""
Known = Annotated[float, _NotKnown()]
"""A number; nan: it is not known, null in REST."""
OldName = Annotated[int, _Documented(deprecated=True)]
"""A number that has another name by now."""
