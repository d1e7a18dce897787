"""Services and options of Apprise that break what pollerd promises; refused by name."""

from __future__ import annotations

from typing import Final

_LOCAL = "tells this machine alone, and pollerd starts no programs and opens no local sockets for it"
_DATAGRAMS = "sends datagrams, which are not guarded"
_OWN_SOCKETS = "opens sockets of its own, which are not guarded"
_DEVICE = "uses a device of this machine"
_SERVICES: Final = {
    **dict.fromkeys(("dbus", "qt", "kde", "glib", "gnome", "macosx", "windows", "syslog", "file"), _LOCAL),
    **dict.fromkeys(("rsyslog", "growl"), _DATAGRAMS),
    **dict.fromkeys(
        ("aprs", "amqp", "amqps", "irc", "ircs", "mqtt", "mqtts", "smpp", "smpps", "xmpp", "xmpps", "nostr"),
        _OWN_SOCKETS,
    ),
    "blink1": _DEVICE,
    "deltachat": _LOCAL,
}
_OWN_RETRIES = "pollerd itself tries again, and no sooner than it should"
_TIMES = "pollerd sets the time limits"
_FILES = "no files and no other URLs are read"
_OPTIONS: Final = {
    "optional": "a message that was not sent would count as sent",
    "retry": _OWN_RETRIES,
    "wait": _OWN_RETRIES,
    "redirect": "redirects are not followed",
    "cto": _TIMES,
    "rto": _TIMES,
    "store": "nothing is kept on disk",
    **dict.fromkeys(
        (
            "attach",
            "attachment",
            "template",
            "include",
            "keyfile",
            "subfile",
            "pgpkey",
            "pemkey",
            "pgp",
            "pem",
            "pubkey",
        ),
        _FILES,
    ),
    **dict.fromkeys(("tz", "timezone"), _FILES),
}
_FALSE = ("n", "0", "f", "-", "disable", "deny", "none")
"""How Apprise's words for no begin."""


def refused_service(scheme: str) -> str | None:
    """Returns why the service of a URL's scheme (lower case) is refused; None: it is not."""
    return _SERVICES.get(scheme)


def refused_option(name: str, value: str) -> str | None:
    """Returns why an option of a URL is refused, name and value in lower case; None: it is not."""
    if name == "verify" and (not value or value.startswith(_FALSE) or value == "off"):
        return "certificates are always verified"
    if name == "overflow" and value.startswith("s"):
        return "one message is sent as one"
    return _OPTIONS.get(name)
