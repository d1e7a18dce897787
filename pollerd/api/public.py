"""The public names of `pollerd.api`; other packages import them from there."""

from pollerd.api.application import create_api
from pollerd.api.auth.first_user import link as first_user_link
from pollerd.api.auth.tokens import Tokens
from pollerd.api.http.format_names import CollectionFormat, CollectionPart, Format
from pollerd.api.http.limits import check_spec
from pollerd.api.http.ports.control import ControlPort
from pollerd.api.http.settings import ApiSettings, ApiToken, EntranceSettings, Scope, hash_of, is_hash
from pollerd.api.schemas.sources import sources_of
from pollerd.api.server import ApiServer
from pollerd.api.signals.listed import signal_sources_of
from pollerd.api.sites.list_formats import (
    Line,
    may_name_a_site,
    parse_entries,
    parse_file,
    parse_list,
    parse_text,
    tags_of,
)
from pollerd.api.waiting import create_waiting_api

__all__ = [
    "ApiServer",
    "ApiSettings",
    "ApiToken",
    "CollectionFormat",
    "CollectionPart",
    "ControlPort",
    "EntranceSettings",
    "Format",
    "Line",
    "Scope",
    "Tokens",
    "check_spec",
    "create_api",
    "create_waiting_api",
    "first_user_link",
    "hash_of",
    "is_hash",
    "may_name_a_site",
    "parse_entries",
    "parse_file",
    "parse_list",
    "parse_text",
    "signal_sources_of",
    "sources_of",
    "tags_of",
]
