"""The public names of `pollerd.fetching`; other packages import them from there."""

from pollerd.fetching.fetcher import Fetcher
from pollerd.fetching.headers import http_date, retry_after_seconds
from pollerd.fetching.network.guard import WITHOUT_FLAG, BlockedAddressError, Guard, denial
from pollerd.fetching.network.proxy import normalise_proxy, without_userinfo
from pollerd.fetching.redirects import MayFollow
from pollerd.fetching.request import Request, own_headers
from pollerd.fetching.robots import RobotsKind, RobotsResponse
from pollerd.fetching.settings import FetchSettings

__all__ = [
    "WITHOUT_FLAG",
    "BlockedAddressError",
    "FetchSettings",
    "Fetcher",
    "Guard",
    "MayFollow",
    "Request",
    "RobotsKind",
    "RobotsResponse",
    "denial",
    "http_date",
    "normalise_proxy",
    "own_headers",
    "retry_after_seconds",
    "without_userinfo",
]
