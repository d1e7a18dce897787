"""The web interface: pages drawn by the server over the ports that REST uses."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.web.public import *
else:
    __getattr__ = names_of("pollerd.web")
