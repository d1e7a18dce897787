"""Rendering: pages that need a browser, loaded through a guarded proxy of ours. Only it uses Playwright."""

from typing import TYPE_CHECKING

from pollerd.lazy import names_of

if TYPE_CHECKING:
    from pollerd.rendering.public import *
else:
    __getattr__ = names_of("pollerd.rendering")
