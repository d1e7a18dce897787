"""The public names of `pollerd.web`; other packages import them from there."""

from pollerd.web.application import add_pages

__all__ = ["add_pages"]
