"""The OpenAPI document, as the API serves it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from prometheus_client import CollectorRegistry

from pollerd.api import ApiSettings, ControlPort, create_api
from pollerd.storage import Store

DOCUMENT: dict[str, Any] = create_api(
    Mock(spec=ControlPort), Mock(spec=Store), CollectorRegistry(), ApiSettings(), "1.2.3"
).openapi()
