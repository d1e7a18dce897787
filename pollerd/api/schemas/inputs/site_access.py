"""Access of a site: headers, credentials, a proxy."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pollerd import model
from pollerd.api.http import access
from pollerd.api.schemas.common import Given

_PROXY = (
    "http:// or https:// URL of a proxy for all requests of this site, perhaps with user:password@; null: the daemon's"
)
_BODY = (
    "asks for the page by POST with this body, as a form unless headers give another Content-Type; sent once a poll, "
    "never across a redirect; null: GET"
)
_METHOD = (
    "POST without a body sends an empty one, GET takes the body away; null or left out: POST where there is a body. "
    "No other: a request that changes something must not be sent again and again"
)
_SECRET = {"maxLength": access.MAX_SECRET_LENGTH, "writeOnly": True}
Secret = Annotated[str, Field(json_schema_extra=_SECRET)]
BearerToken = Annotated[str, Field(json_schema_extra={**_SECRET, "pattern": access.BEARER})]
RequestBody = Annotated[str, Field(json_schema_extra={"maxLength": access.MAX_BODY_LENGTH, "writeOnly": True})]
Method = Annotated[str, Field(json_schema_extra={"pattern": f"^({'|'.join(access.METHODS)})$"})]
Headers = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={
            "maxProperties": access.MAX_HEADERS,
            "propertyNames": {"pattern": access.HEADER_NAME},
            "additionalProperties": {"type": "string", "pattern": access.HEADER_VALUE},
            "writeOnly": True,
        }
    ),
]


def _exactly(title: str, given: list[str], without: list[str]) -> dict[str, Any]:
    texts, nothing = ({"type": kind} for kind in ("string", "null"))
    return {
        "title": title,
        "required": given,
        "properties": dict.fromkeys(given, texts) | dict.fromkeys(without, nothing),
    }


class CredentialsSchema(Given):
    """A user name and a password, or a bearer token. Kept sealed, never given out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"username": "reader", "password": "example"}],
            "oneOf": [
                _exactly("UserCredentials", ["username", "password"], without=["token"]),
                _exactly("TokenCredentials", ["token"], without=["username", "password"]),
            ],
        }
    )

    username: Secret | None = None
    password: Secret | None = None
    token: BearerToken | None = None


class AccessFields(Given):
    """Access of the site. Stored encrypted; answers contain only the headers' names and the proxy's address."""

    headers: Headers = Field({}, description="sent to the origin of the URL only, never across a redirect to another")
    credentials: CredentialsSchema | None = Field(
        None, description="sent to the origin of the URL only, as headers are"
    )
    proxy: str | None = Field(None, description=_PROXY, examples=["http://proxy.example.org:3128"])
    body: RequestBody | None = Field(None, description=_BODY)
    method: Method | None = Field(None, description=_METHOD)
    pdf_password: Secret | None = Field(None, description="opens the PDF document that the site is; never sent")

    def access(self, base: model.Access) -> model.Access:
        """Returns the given access, unchecked; omitted fields are those of `base`."""
        given = {name: getattr(self, name) for name in access.FIELDS if name in self.model_fields_set}
        if self.credentials is not None:
            given["credentials"] = self.credentials.model_dump(exclude_none=True)
        return access.access_of(given, base)
