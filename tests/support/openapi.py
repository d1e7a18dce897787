"""The OpenAPI document, as the API serves it."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from prometheus_client import CollectorRegistry

from pollerd.api.application import create_api
from pollerd.api.settings import ApiSettings
from pollerd.storage.store import Store

DOCUMENT: dict[str, Any] = create_api(Mock(), Mock(spec=Store), CollectorRegistry(), ApiSettings(), "1.2.3").openapi()
