"""What the tests of the whole daemon share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.empty_database import empty_database as empty_database
from tests.support.origin import Origin


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with Origin() as server:
        yield server
