"""Settings of notifications that hold for the whole daemon."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from yarl import URL

from pollerd.errors import InvalidValueError
from pollerd.texts import _


@dataclass(kw_only=True)
class NotificationSettings:
    """`public_url`: where users reach this daemon, for links in messages; None: messages have no links.

    Raises InvalidValueError for a URL that is none.
    """

    public_url: str | None = None
    allow_private_channels: bool = False
    """Whether channels may lead to private and loopback addresses."""
    ca_file: str | None = None
    contact: str | None = None
    proxy: str | None = field(default=None, repr=False)
    """As of `FetchSettings`."""

    def __post_init__(self) -> None:
        if self.public_url is None:
            return
        try:
            url = URL(self.public_url)
            fits = url.scheme in ("http", "https") and bool(url.host) and not url.query_string and not url.fragment
        except ValueError:
            fits = False
        if not fits:
            raise InvalidValueError("public_url", _("an http or https URL without query"), self.public_url[:200])

    def link_to(self, public_url: str) -> None:
        """Sets the public URL. Raises InvalidValueError for one that is none; then all is as before."""
        self.public_url = replace(self, public_url=public_url).public_url

    @property
    def host(self) -> str:
        """Name of this daemon in mails: that of its public URL."""
        host = None if self.public_url is None else URL(self.public_url).raw_host
        return host or "pollerd.localhost"

    @property
    def base_url(self) -> str:
        """The public URL without a slash at its end; empty: there is none."""
        return (self.public_url or "").rstrip("/")
