"""Screenshots over REST: as a download, never as a page."""

from __future__ import annotations

from msgspec.structs import replace

from pollerd.model import Baseline, Media
from pollerd.storage import Batch
from tests.api.conftest import Api
from tests.api.test_api_history import URL, record

PNG = b"\x89PNG\r\n\x1a\n"


async def test_before_and_after_a_change(api: Api) -> None:
    site_id = await api.add(URL)
    for n in range(2):
        found = record(site_id, n)
        baseline = Baseline(fingerprint=n.to_bytes(16, "big"), media=Media.HTML)
        picture, context = PNG + bytes([n]), replace(found.context, baseline=baseline)
        await api.store.commit(Batch([replace(found, content=b"%d" % n, context=context, screenshot=picture)]))
    change = (await api("GET", "/changes?limit=1")).json["items"][0]["id"]
    after = await api("GET", f"/changes/{change}/screenshot")
    assert (after.status, after.body) == (200, PNG + b"\1")
    assert after.headers["Content-Type"] == "image/png"
    assert after.headers["Content-Disposition"] == f'attachment; filename="change-{change}-after.png"'
    assert after.headers["X-Content-Type-Options"] == "nosniff"
    assert (await api("GET", f"/changes/{change}/screenshot?side=before")).body == PNG + b"\0"
    assert (await api("GET", f"/changes/{change}/screenshot?side=between")).status == 422
    assert (await api("GET", f"/sites/{site_id}/screenshot")).body == PNG + b"\1"


async def test_none_was_kept(api: Api) -> None:
    site_id = await api.add(URL)
    assert (await api("GET", f"/sites/{site_id}/screenshot")).status == 404
    assert (await api("GET", "/sites/99/screenshot")).status == 404
    assert (await api("GET", "/changes/99/screenshot")).status == 404
