"""Validates how a browser renders a site's page: its plan, what it costs, and the secrets that its steps type."""

from __future__ import annotations

from typing import Any

import orjson

from pollerd.errors import InvalidValueError
from pollerd.masking import NOT_SHOWN
from pollerd.rendering.plan.secrets import SEALED, join_secrets, split_secrets

BROWSER = "browser"
MAX_BYTES = 64 * 1024


def check_render(given: object, typed: Any = None) -> tuple[str, tuple[str, ...]]:
    """Returns a plan as `SiteSpec.render` holds it, and its secrets. `browser`: the usual plan; None: no browser.

    typed: secrets that stand apart from the plan, as in an export; empty: they were left out of it. None: the plan
    holds them itself.

    Raises `InvalidValueError`, naming the field with its position and never a secret.
    """
    if given is None:
        return "", ()
    from pollerd.rendering.plan.compile import compile_plan  # loaded with the first site that has a plan

    document: Any = {} if given == BROWSER else given
    if typed and isinstance(document, dict):
        document = _joined(document, typed)
    compile_plan("render", document)
    plan, secrets = split_secrets(document)
    if typed is not None and not typed:
        secrets = ()
    if SEALED in secrets:
        allowed = "with its secrets: those that are shown as sealed must be given again"
        raise InvalidValueError("render.steps", allowed, SEALED)
    written = orjson.dumps(plan, option=orjson.OPT_SORT_KEYS).decode()
    if len(written) > MAX_BYTES:
        raise InvalidValueError("render", f"at most {MAX_BYTES:,} bytes as JSON", f"{len(written):,} bytes")
    return written, secrets


def _joined(document: dict[str, Any], typed: Any) -> dict[str, Any]:
    if not (isinstance(typed, list | tuple) and all(isinstance(one, str) for one in typed)):
        raise InvalidValueError("typed", "a list of texts", NOT_SHOWN)
    try:
        return join_secrets(document, typed)
    except ValueError as error:
        raise InvalidValueError("typed", f"as many secrets as the plan has ({error})", NOT_SHOWN) from error


def shown_render(render: str) -> Any:
    """Returns the plan as it is shown: without secrets."""
    if not render:
        return None
    plan = orjson.loads(render)
    return plan or BROWSER
