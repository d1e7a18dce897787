"""The page of the focused crawler's collection."""

from __future__ import annotations

import pytest

from pollerd.storage.store import Store
from tests.api.conftest import NewApi
from tests.support.collections import fill
from tests.web.conftest import Web, opened


@pytest.fixture
async def mills(store: Store, new_api: NewApi) -> Web:
    """A collection about mills."""
    await fill(store)
    return await opened(new_api)


async def test_what_was_collected_and_its_hosts(mills: Web) -> None:
    page = await mills.get("/collection")
    assert page.status == 200
    assert "Topic: mills" in page.text
    assert (
        "1 page collected (average relevance 50 %) · 50 % of 2 pages fetched were on topic · 2 pages to visit"
        in page.text
    )
    assert 'class="plot graph-plot"' in page.text
    assert page.text.count('class="mean"') == 1


@pytest.mark.parametrize(("state", "rows"), [("fringe", 2), ("rejected", 1), ("gone", 0)])
async def test_pages_by_state(mills: Web, state: str, rows: int) -> None:
    page = await mills.get(f"/collection?state={state}")
    assert page.text.count('data-label="Relevance"') == rows


async def test_a_state_that_is_none(mills: Web) -> None:
    assert (await mills.get("/collection?state=lost")).status == 422
