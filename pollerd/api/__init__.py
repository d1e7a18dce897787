"""REST, metrics and health on FastAPI. Accesses the daemon only through `ControlPort`."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.api.public import *
else:
    __getattr__ = names_of("pollerd.api")
