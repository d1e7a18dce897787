"""What the tests of the whole daemon share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.origin import Origin
from tests.support.stores import empty_database as empty_database
from tests.support.stores import statements_are_compiled_once as statements_are_compiled_once


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        yield server
