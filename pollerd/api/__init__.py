"""REST, metrics and health on FastAPI. It sees the daemon through `ControlPort` only."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.api.public import *
else:
    __getattr__ = names_of("pollerd.api")
