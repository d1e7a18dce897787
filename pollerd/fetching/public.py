"""The public names of `pollerd.fetching`; other packages import them from there."""

from pollerd.fetching.client import Send, Sent, Write, user_agent
from pollerd.fetching.failures import kind_of_status, one_line, proxy_refusal
from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.headers import fresh_seconds, http_date, retry_after_seconds, robots_tags_of
from pollerd.fetching.network.dialling import (
    DIALLING_FAULTS,
    Address,
    addresses_of,
    allowed_addresses,
    connect,
    dial,
    why_not_dialled,
)
from pollerd.fetching.network.guard import DENIED_ERRNO, WITHOUT_FLAG, BlockedAddressError, Guard, denial, open_socket
from pollerd.fetching.network.proxy import Proxy, basic, normalise_proxy, parse_proxy, without_userinfo
from pollerd.fetching.posting.poster import Posted, Poster
from pollerd.fetching.redirects import REDIRECT_STATUSES, MayFollow
from pollerd.fetching.request import Request, own_headers
from pollerd.fetching.robots import RobotsKind, RobotsResponse
from pollerd.fetching.settings import FetchSettings

__all__ = [
    "DENIED_ERRNO",
    "DIALLING_FAULTS",
    "REDIRECT_STATUSES",
    "WITHOUT_FLAG",
    "Address",
    "BlockedAddressError",
    "FetchSettings",
    "Fetcher",
    "Guard",
    "MayFollow",
    "Posted",
    "Poster",
    "Proxy",
    "Request",
    "RobotsKind",
    "RobotsResponse",
    "Send",
    "Sent",
    "Write",
    "addresses_of",
    "allowed_addresses",
    "basic",
    "connect",
    "denial",
    "dial",
    "fresh_seconds",
    "http_date",
    "kind_of_status",
    "normalise_proxy",
    "one_line",
    "open_socket",
    "own_headers",
    "parse_proxy",
    "proxy_refusal",
    "retry_after_seconds",
    "robots_tags_of",
    "user_agent",
    "why_not_dialled",
    "without_userinfo",
]
