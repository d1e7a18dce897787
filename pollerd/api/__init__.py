"""REST, metrics and health on FastAPI. It sees the daemon through `ControlPort` only."""

from pollerd.api.application import create_api
from pollerd.api.collection_export import CollectionFormat, CollectionPart
from pollerd.api.lists import Format, Line, parse_list, parse_text
from pollerd.api.ports import ControlPort
from pollerd.api.server import ApiServer
from pollerd.api.settings import ApiSettings, Scope, Token, hash_of, is_hash
from pollerd.api.specs import check_spec

__all__ = [
    "ApiServer",
    "ApiSettings",
    "CollectionFormat",
    "CollectionPart",
    "ControlPort",
    "Format",
    "Line",
    "Scope",
    "Token",
    "check_spec",
    "create_api",
    "hash_of",
    "is_hash",
    "parse_list",
    "parse_text",
]
