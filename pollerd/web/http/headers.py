"""What every page and file tells browsers: nothing foreign, nothing inline, no frames, nothing kept."""

from __future__ import annotations

from collections.abc import Mapping

_CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect", "worker")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types pollerd",
    )
)
POLICY: Mapping[str, str] = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With no-referrer browsers would send `Origin: null` from our own forms.
    "Referrer-Policy": "same-origin",
}
"""For pages and files."""
PAGE_HEADERS: Mapping[str, str] = {**POLICY, "Cache-Control": "no-store"}
