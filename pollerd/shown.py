"""How records of the daemon are shown over REST as they are: FastAPI serialises standard dataclasses.

A record that REST shows says so by `__pydantic_config__ = SHOWN`. The docstrings below its fields become the
descriptions of the OpenAPI document; the name of its component is pinned in `pollerd.api.openapi`. Nothing here imports pydantic: a
program without the API does not load it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pollerd.timestamps import rfc3339

SHOWN: dict[str, Any] = {"use_attribute_docstrings": True, "json_schema_serialization_defaults_required": True}
"""Fields that have defaults are always shown, so the document names them as required."""
Config = ClassVar[dict[str, Any]]


class _Rfc3339:
    """Epoch seconds, shown in RFC 3339, UTC."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        shown = core_schema.plain_serializer_function_ser_schema(
            rfc3339, return_schema=core_schema.str_schema(), when_used="json-unless-none"
        )
        return {**handler(source), "serialization": shown}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "format": "date-time"}


Moment = Annotated[float, _Rfc3339()]
"""A time, epoch s; REST shows it in RFC 3339, UTC."""
