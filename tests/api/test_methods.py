"""The method of a site's requests, and the password of its PDF: over REST and in every format of lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pollerd.api import opml
from pollerd.api.formats import Format
from pollerd.api.list_formats import parse_entries, parse_file
from pollerd.api.lists import HEADS, TAILS, WRITERS
from pollerd.errors import InvalidValueError
from pollerd.lists.list_document import read_document
from pollerd.site_settings import Access, SiteSpec
from tests.api.conftest import Api

URL = "https://a.invalid/"


async def test_post_without_a_body_is_said_plainly(api: Api) -> None:
    site = await api.add(URL, method="POST")
    assert (await api("GET", f"/sites/{site}")).json["method"] == "POST"
    assert (await api.store.sites.get(site)).spec.access == Access(body="")

    async def patched(**patch: Any) -> Access:
        reply = await api("PATCH", f"/sites/{site}", patch)
        assert reply.status == 200, reply.body
        return (await api.store.sites.get(site)).spec.access

    assert await patched(body="q=1", method="POST") == Access(body="q=1")
    assert await patched(method="POST") == Access(body="q=1")
    assert await patched(method=None) == Access(body="q=1")
    assert await patched(method="GET") == Access()
    assert await patched(pdf_password="hush") == Access(pdf_password="hush")
    assert b"hush" not in (await api("GET", f"/sites/{site}")).body


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"method": "PUT"}, "method", "nothing is repeated"),
        ({"method": "DELETE"}, "method", "safe methods"),
        ({"method": "post"}, "method", "GET or POST"),
        ({"method": 7}, "method", ""),
        ({"method": "GET", "body": "x"}, "method", "a body is sent with POST only"),
        ({"pdf_password": ""}, "pdf_password", "1 to 4,096"),
        ({"pdf_password": "a\0b"}, "pdf_password", "without NUL"),
        ({"pdf_password": 7}, "pdf_password", ""),
    ],
)
async def test_what_cannot_be_is_refused_by_name(api: Api, given: dict[str, Any], field: str, allowed: str) -> None:
    reply = await api("POST", "/sites", {"url": URL, **given})
    error = reply.json["errors"][0]
    assert (reply.status, error["field"]) == (422, field), reply.body
    assert allowed in error["allowed"]


LISTS = {
    Format.CSV: f"url,method,pdf_password\n{URL},POST,\n{URL}x,,hush\n",
    Format.JSON_LINES: f'{{"url": "{URL}", "method": "POST"}}\n{{"url": "{URL}x", "pdf_password": "hush"}}\n',
    Format.OPML: (
        f"{opml.HEAD}{opml.outline(URL, {'method': 'POST'})}{opml.outline(f'{URL}x', {'pdf_password': 'hush'})}"
        f"{opml.TAIL}"
    ),
}
WANTED = [SiteSpec(URL, access=Access(body="")), SiteSpec(f"{URL}x", access=Access(pdf_password="hush"))]


@pytest.mark.parametrize("form", LISTS)
def test_every_format_of_lists_can_say_it(tmp_path: Path, form: Format) -> None:
    file = tmp_path / "x"
    file.write_text(LISTS[form])
    with file.open("rb") as opened:
        assert [found for _, found in parse_file(opened, form)] == WANTED


@pytest.mark.parametrize("form", ["toml", "yaml"])
def test_documents_can_say_it(tmp_path: Path, form: str) -> None:
    text = f"sites:\n- {{url: '{URL}', method: POST}}\n- {{url: '{URL}x', pdf_password_file: secret}}\n"
    if form == "toml":
        text = f'[[sites]]\nurl="{URL}"\nmethod="POST"\n[[sites]]\nurl="{URL}x"\npdf_password_file="secret"\n'
    (tmp_path / "secret").write_text("hush\n")
    assert [found for _, found in parse_entries(read_document(text.encode(), form, tmp_path).entries)] == WANTED


@pytest.mark.parametrize("form", LISTS)
def test_an_export_keeps_the_method_where_the_body_is_no_secret(tmp_path: Path, form: Format) -> None:
    specs = [WANTED[0], SiteSpec(f"{URL}y", access=Access(body="secret"))]
    text = HEADS.get(form, "") + "".join(WRITERS[form](spec) for spec in specs) + TAILS.get(form, "")
    assert "secret" not in text
    file = tmp_path / "x"
    file.write_text(text)
    with file.open("rb") as opened:
        assert [found for _, found in parse_file(opened, form)] == [WANTED[0], SiteSpec(f"{URL}y")]


def test_a_list_refuses_other_methods() -> None:
    (_, found) = next(parse_entries(iter([(1, {"url": URL, "method": "PUT"})])))
    assert isinstance(found, InvalidValueError)
    assert found.field == "method"
