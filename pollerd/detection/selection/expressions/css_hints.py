"""What CSS selectors can hold here, and the way out for what they cannot."""

from __future__ import annotations

_CONTAINS = 'write ":lexbor-contains(\\"…\\")" or use lines.keep'
PLAIN = frozenset(
    (
        *("any-link", "blank", "checked", "disabled", "empty", "enabled", "first-child", "first-of-type", "last-child"),
        *("last-of-type", "link", "only-child", "only-of-type", "optional", "placeholder-shown", "read-only"),
        *("read-write", "required", "root"),
    )
)
"""Pseudo-classes without brackets."""
OF_SELECTORS = frozenset(("has", "is", "not", "where"))
"""Pseudo-classes with selectors in brackets."""
COUNTED = frozenset(("nth-child", "nth-last-child", "nth-last-of-type", "nth-of-type"))
"""Pseudo-classes with a count in brackets."""
CONTAINS = "lexbor-contains"
_NOT_CSS = {
    **dict.fromkeys(("contains", "-soup-contains", "-soup-contains-own", "has-text", "icontains"), _CONTAINS),
    **dict.fromkeys(("first",), "set limit: 1 beside it"),
    **dict.fromkeys(("eq", "gt", "lt", "last", "nth"), 'write ":nth-child(…)", or set skip and limit beside it'),
    **dict.fromkeys(("even", "odd"), 'write ":nth-child(even)" or ":nth-child(odd)"'),
    **dict.fromkeys(("matches", "any", "-webkit-any", "-moz-any"), 'write ":is(…)"'),
    **dict.fromkeys(("text", "attr"), "the text is taken of what is kept; a value has its field attribute"),
    **dict.fromkeys(("visible", "hidden"), "name what is hidden by class or attribute"),
}
_STATES = frozenset(
    (
        *("active", "autofill", "current", "default", "focus", "focus-visible", "focus-within", "fullscreen", "future"),
        *("hover", "in-range", "indeterminate", "invalid", "local-link", "modal", "open", "out-of-range", "past"),
        *("paused", "playing", "popover-open", "target", "target-within", "user-invalid", "user-valid", "valid"),
        *("visited",),
    )
)
_OTHERS = {
    "scope": "leave it out: the page is what is searched",
    "lang": 'write "[lang=…]"',
    "dir": 'write "[dir=…]"',
    "defined": "leave it out",
    "host": "leave it out",
}


def pseudo_class_reason(name: str, given: str) -> str:
    """Returns why a pseudo-class is refused, and the way out. `name` is its lower case, `given` as written."""
    if name in _NOT_CSS:
        return f'":{given}" is not CSS; {_NOT_CSS[name]}'
    if name in _STATES:
        return f'":{given}" is a state in a browser, which a page as fetched does not have; leave it out'
    if name in _OTHERS:
        return f'":{given}" is not understood; {_OTHERS[name]}'
    if name in OF_SELECTORS:
        return f'":{given}" needs a selector in brackets'
    if name in COUNTED:
        return f'":{given}" needs a count in brackets: 2, odd, even or 2n+1'
    if name == CONTAINS:
        return f'":{given}" needs a text in brackets'
    return f'":{given}" is not understood; name what is meant by tag, class or attribute'
