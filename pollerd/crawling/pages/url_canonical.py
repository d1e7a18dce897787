"""Removes session ids and tracking parameters from URLs.

They give one page many URLs, and a crawler that follows them never ends.
"""

from __future__ import annotations

import re

_TRACKING = re.compile(
    "utm_.*|gclid|gclsrc|dclid|fbclid|msclkid|yclid|twclid|igshid|mc_[ce]id|_g[al]|mkt_tok|vero_id|wickedid",
    re.IGNORECASE,
)
_SESSION = re.compile(
    "aspsessionid.*|phpsessid|jsessionid|session_?id|sess_id|cfid|cftoken|zenid|oscsid", re.IGNORECASE
)
# Names of a session only if the value looks like an id.
_PERHAPS_SESSION = frozenset({"sid", "s", "session", "osessid", "sess"})
_TOKEN = re.compile(r"(?=[0-9a-z]*[0-9])(?=[0-9a-z]*[a-z])[0-9a-z]{16,}|[0-9a-f-]{32,36}", re.IGNORECASE)
_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)


def strip_session_params(url: str) -> str:
    """Returns a normalised URL without session ids and tracking parameters; the rest is unchanged."""
    if "?" not in url and ";" not in url:
        return url
    path, question, query = url.partition("?")
    path = _IN_PATH.sub("", path)
    kept = [part for part in query.split("&") if not _is_visitor(part)] if question else []
    return f"{path}?{'&'.join(kept)}" if any(kept) else path


def _is_visitor(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    if _TRACKING.fullmatch(name) or _SESSION.fullmatch(name):
        return True
    return name.lower() in _PERHAPS_SESSION and _TOKEN.fullmatch(value) is not None
