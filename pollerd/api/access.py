"""A site's headers, credentials and proxy, as calls give them.

Validates a site's own headers, credentials and proxy. All are secret: no value is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pollerd import site_settings
from pollerd.api.common import Given
from pollerd.errors import InvalidValueError, kind_of, refusal
from pollerd.fetching.settings import normalise_proxy
from pollerd.masking import NOT_SHOWN, is_secret_name
from pollerd.site_settings import NO_ACCESS, Access, Credentials, SiteSpec
from pollerd.texts import N_, _, n_
from pollerd.urls import origin_of

FIELDS = ("headers", "credentials", "proxy", "body", "typed", "pdf_password", "method")
"""The fields of a site that form its `Access`: accepted, and, but for the method, never returned."""
METHODS = ("GET", "POST")
_ALLOWED_METHODS = N_(
    "GET or POST: a page is asked for by safe methods, or by one POST a poll, and nothing is repeated"
)
MAX_HEADERS = 32
MAX_HEADERS_SIZE = 8192
MAX_SECRET_LENGTH = 4096
MAX_BODY_LENGTH = 65_536
HEADER_NAME = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$"
HEADER_VALUE = r"^([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)?$"
_NAME = re.compile(HEADER_NAME.removesuffix("$") + r"\Z")
_VALUE = re.compile(HEADER_VALUE.removesuffix("$") + r"\Z")
BEARER = r"^[A-Za-z0-9._~+/-]+=*$"
_BEARER = re.compile(BEARER.removesuffix("$") + r"\Z")
_OURS = frozenset(
    {
        # Belong to the connection, not to the page (RFC 9110, section 7.6.1).
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # Follow from the URL and the empty body.
        "host",
        "content-length",
        "expect",
        # Make the request conditional or partial: set by the daemon.
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
        # Must describe the daemon truthfully.
        "accept-encoding",
        "user-agent",
    }
)


def check_access(access: Access) -> Access:
    """Returns the access with its proxy's URL normalised.

    Up to 32 headers of 8,192 characters together, without duplicates and without those that the daemon sets; printable
    ASCII. Credentials are a user name without ':' and a password, or a bearer token, of 4,096 characters at most.
    Raises `InvalidValueError`, naming the field and never a value.
    """
    _check_headers(access.headers)
    if access.credentials is not None:
        _check_credentials(access.credentials)
        if any(name.lower() == "authorization" for name in access.header_names):
            raise refusal("headers.Authorization", _("give credentials or an Authorization header, not both"))
    if access.body is not None and not (len(access.body) <= MAX_BODY_LENGTH and _storable(access.body)):
        raise InvalidValueError(
            "body",
            _("at most {max_body_length:,} characters of UTF-8 without NUL", max_body_length=MAX_BODY_LENGTH),
            NOT_SHOWN,
        )
    if access.pdf_password is not None and not (
        0 < len(access.pdf_password) <= MAX_SECRET_LENGTH and _storable(access.pdf_password)
    ):
        allowed = _("1 to {max_secret_length:,} characters of UTF-8 without NUL", max_secret_length=MAX_SECRET_LENGTH)
        raise InvalidValueError("pdf_password", allowed, NOT_SHOWN)
    if access.proxy is None:
        return access
    return replace(access, proxy=normalise_proxy(access.proxy))


def access_of(fields: Mapping[str, Any], base: Access = NO_ACCESS) -> Access:
    """Returns `base` with the given `FIELDS` replaced; `headers` and `credentials` as mappings; null: none.

    Raises `InvalidValueError` for a wrong type.
    """
    headers, credentials, proxy, body = base.headers, base.credentials, base.proxy, base.body
    if "headers" in fields:
        headers = tuple(_texts("headers", fields["headers"]).items())
    if "credentials" in fields:
        credentials = _credentials(fields["credentials"])
    proxy, body = _text_or_none("proxy", fields, proxy), _text_or_none("body", fields, body)
    body = _body_by_method(fields, body)
    pdf_password = _text_or_none("pdf_password", fields, base.pdf_password)
    return Access(headers, credentials, proxy, body, tuple(fields.get("typed", base.typed)), pdf_password)


def _text_or_none(name: str, fields: Mapping[str, Any], before: str | None) -> str | None:
    text = fields.get(name, before)
    if text is None or isinstance(text, str):
        return text
    raise InvalidValueError(name, _("a text"), kind_of(text))


def _body_by_method(fields: Mapping[str, Any], body: str | None) -> str | None:
    """Returns the body to send: POST without one sends an empty one, GET takes one away. `method` null: as it was."""
    method = fields.get("method")
    if method is None:
        return body
    if method not in METHODS:
        raise InvalidValueError("method", _(_ALLOWED_METHODS), str(method)[:40])
    if method == "POST":
        return body or ""
    if fields.get("body") is not None:
        raise refusal("method", _("a body is sent with POST only"))
    return None


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def shown(field: str, value: object) -> object:
    """Returns the given value, or a placeholder if its field (also misspelt or misplaced) or its type may hide a
    secret.
    """
    return NOT_SHOWN if isinstance(value, dict | list) or is_secret_name(field) else value


def base_of(spec: SiteSpec, url: str) -> Access:
    """Returns what remains of a site's access at the new `url`: at another origin only the proxy."""
    return spec.access if origin_of(url) == origin_of(spec.url) else spec.access.elsewhere()


def _credentials(value: object) -> Credentials | None:
    if value is None:
        return None
    texts = _texts("credentials", value)
    unknown = texts.keys() - set(Credentials.__dataclass_fields__)
    if unknown:
        raise InvalidValueError("credentials", _("username and password, or token, and nothing else"), NOT_SHOWN)
    return Credentials(**texts)


def _texts(field: str, texts: object) -> dict[str, str]:
    if texts is None:
        return {}
    if not isinstance(texts, Mapping):
        raise InvalidValueError(field, _("an object of texts"), kind_of(texts))
    for value in texts.values():
        if not isinstance(value, str):
            raise InvalidValueError(field, _("an object of texts"), kind_of(value))
    return dict(texts)


def _check_headers(headers: tuple[tuple[str, str], ...]) -> None:
    if len(headers) > MAX_HEADERS:
        raise InvalidValueError(
            "headers",
            _("at most {max_headers}", max_headers=MAX_HEADERS),
            n_("{count} header", "{count} headers", len(headers)),
        )
    size = sum(len(name) + len(value) for name, value in headers)
    if size > MAX_HEADERS_SIZE:
        raise InvalidValueError(
            "headers",
            _("at most {max_headers_size} characters together", max_headers_size=MAX_HEADERS_SIZE),
            n_("{count} character", "{count} characters", size),
        )
    if len({name.lower() for name, _value in headers}) < len(headers):
        raise InvalidValueError("headers", _("free of names that differ in case only"), NOT_SHOWN)
    for name, value in headers:
        if not _NAME.match(name):
            # A header may have been given in place of its name.
            raise InvalidValueError("headers", _("named by 1 to 64 letters, digits and !#$%&'*+-.^_`|~"), NOT_SHOWN)
        if name.lower() in _OURS:
            raise refusal(f"headers.{name}", _("the daemon sets this header itself"))
        if not _VALUE.match(value):
            allowed = _("printable ASCII without line breaks and spaces around it")
            raise InvalidValueError(f"headers.{name}", allowed, NOT_SHOWN)


def _check_credentials(credentials: Credentials) -> None:
    basic = (credentials.username, credentials.password)
    if (credentials.token is None) == (basic == (None, None)) or (credentials.token is None and None in basic):
        raise InvalidValueError("credentials", _("username and password, or token"), NOT_SHOWN)
    for field, text in (("token", credentials.token), ("username", basic[0]), ("password", basic[1])):
        if text is not None and not (len(text) <= MAX_SECRET_LENGTH and (text.isprintable() or not text)):
            allowed = _("at most {max_secret_length} printable characters", max_secret_length=MAX_SECRET_LENGTH)
            raise InvalidValueError(f"credentials.{field}", allowed, NOT_SHOWN)
    if credentials.token is not None and not _BEARER.match(credentials.token):
        raise InvalidValueError("credentials.token", _("letters, digits and -._~+/, perhaps = at the end"), NOT_SHOWN)
    if credentials.username is not None and ":" in credentials.username:
        raise InvalidValueError("credentials.username", _("free of ':'"), NOT_SHOWN)


# Access of a site: headers, credentials, a proxy.

_PROXY = (
    "http:// or https:// URL of a proxy for all requests of this site, perhaps with user:password@; null: the daemon's"
)
_BODY = (
    "asks for the page by POST with this body, as a form unless headers give another Content-Type; sent once a poll, "
    "never across a redirect; null: GET"
)
_METHOD = (
    "POST without a body sends an empty one, GET removes the body; null or missing: POST if there is a body. "
    "No other: a request that changes something must not be sent again and again"
)
NO_NUL = "^[^\\u0000]*$"
"""Pattern of texts that can be stored."""
_SECRET = {"maxLength": MAX_SECRET_LENGTH, "writeOnly": True}
Secret = Annotated[str, Field(json_schema_extra=_SECRET)]
BearerToken = Annotated[str, Field(json_schema_extra={**_SECRET, "pattern": BEARER})]
RequestBody = Annotated[
    str, Field(json_schema_extra={"maxLength": MAX_BODY_LENGTH, "pattern": NO_NUL, "writeOnly": True})
]
Method = Annotated[str, Field(json_schema_extra={"pattern": f"^({'|'.join(METHODS)})$"})]
Headers = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={
            "maxProperties": MAX_HEADERS,
            "propertyNames": {"pattern": HEADER_NAME},
            "additionalProperties": {"type": "string", "pattern": HEADER_VALUE},
            "writeOnly": True,
        }
    ),
]


def _exactly(title: str, required: list[str], without: list[str]) -> dict[str, Any]:
    texts, nothing = ({"type": kind} for kind in ("string", "null"))
    return {
        "title": title,
        "required": required,
        "properties": dict.fromkeys(required, texts) | dict.fromkeys(without, nothing),
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

    def access(self, base: site_settings.Access) -> site_settings.Access:
        """Returns the given access, unchecked; omitted fields are those of `base`."""
        if self.model_fields_set.isdisjoint(FIELDS):
            return base
        fields = {name: getattr(self, name) for name in FIELDS if name in self.model_fields_set}
        if self.credentials is not None:
            fields["credentials"] = self.credentials.model_dump(exclude_none=True)
        return access_of(fields, base)
