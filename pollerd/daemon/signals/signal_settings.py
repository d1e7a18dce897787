"""The user's settings of signals."""

from __future__ import annotations

from dataclasses import dataclass

from yarl import URL

from pollerd.errors import InvalidValueError

CALLBACK_PATH = "/websub/"
_LONGEST = 1_000


@dataclass(frozen=True, kw_only=True)
class SignalSettings:
    """What is taken from others that say when pages change. Raises InvalidValueError for a URL that is none."""

    callback_url: str | None = None
    """Where WebSub hubs reach this daemon, without `/websub/`; None: no hub is subscribed to."""

    indexnow: bool = False
    """Whether reports in IndexNow's form are taken from everybody, if their hosts hold the key."""

    def __post_init__(self) -> None:
        if self.callback_url is None:
            return
        try:
            url = URL(self.callback_url)
            fits = url.scheme in ("http", "https") and bool(url.host) and not url.query_string and not url.fragment
            fits = fits and url.user is None and url.password is None
        except ValueError:
            fits = False
        if not fits or not self.callback_url.isascii() or len(self.callback_url) > _LONGEST:
            allowed = "an http or https URL without credentials and query, in ASCII"
            raise InvalidValueError("callback_url", allowed, self.callback_url[:200])

    def callback(self, end: str) -> str:
        """Returns the URL that a hub calls, with this end. Only if there is a `callback_url`."""
        return f"{(self.callback_url or '').rstrip('/')}{CALLBACK_PATH}{end}"
