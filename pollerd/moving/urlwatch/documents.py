"""Reads YAML files of jobs: several documents; aliases are allowed as far as they stay small when written out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pollerd.errors import ConfigError
from pollerd.texts import _

MAX_BYTES = 10 * 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 500_000
"""Maximum number of keys and values, aliases written out."""
_MAX_DIGITS = 100
_NUMBER = re.compile(r"[-+0-9:_.eE]*")


def read_documents(data: bytes) -> Iterator[tuple[int, object, list[str]]]:
    """Yields (line from 1, document, keys that are given twice) of each document that is not empty.

    Raises `ConfigError` for what cannot be read: with the line, and never with an excerpt.
    """
    import yaml

    if len(data) > MAX_BYTES:
        raise ConfigError(
            _(
                "a file of jobs may have at most {max_bytes} MiB; given: {count} bytes",
                max_bytes=MAX_BYTES // 1024**2,
                count=len(data),
            )
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml, yaml.parse(data, Loader=base))
        yield from _built(yaml, base(data))
    except yaml.YAMLError as error:
        raise ConfigError(_message(error)) from error
    except ValueError as error:
        raise ConfigError(_("no YAML: it holds a number or a date that is none; texts like it need quotes")) from error


def _built(yaml: Any, loader: Any) -> Iterator[tuple[int, object, list[str]]]:
    nodes = 0
    try:
        while loader.check_node():
            node = loader.get_node()
            line, sizes = node.start_mark.line + 1, dict[int, int]()
            nodes += _size(yaml, node, sizes, set())
            if nodes > MAX_NODES:
                raise ConfigError(
                    _(
                        "line {line}: more than {max_nodes} keys and values with aliases written out",
                        line=line,
                        max_nodes=MAX_NODES,
                    )
                )
            twice = sorted(_given_twice(yaml, node, set()))
            document = loader.construct_document(node)
            if document is not None:
                yield line, document, twice
    finally:
        loader.dispose()


def _size(yaml: Any, node: Any, sizes: dict[int, int], open_: set[int]) -> int:
    """Returns the number of nodes below with aliases written out, without writing them out."""
    known = sizes.get(id(node))
    if known is not None:
        return known
    if id(node) in open_:
        raise ConfigError(_("line {line}: an alias stands within what it stands for", line=node.start_mark.line + 1))
    open_.add(id(node))
    size = 1 + sum(_size(yaml, child, sizes, open_) for child in _children(yaml, node))
    open_.discard(id(node))
    sizes[id(node)] = size
    return size


def _children(yaml: Any, node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _given_twice(yaml: Any, node: Any, seen: set[int]) -> set[str]:
    """Returns the keys that a table holds twice: the last counts, as in the programs that these files are of."""
    if id(node) in seen:
        return set()
    seen.add(id(node))
    repeated = set[str]()
    if isinstance(node, yaml.MappingNode):
        names = [key.value for key, _value in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        repeated = {name for name in set(names) if names.count(name) > 1}
    return repeated.union(*(_given_twice(yaml, child, seen) for child in _children(yaml, node)))


def _check_events(yaml: Any, events: Iterable[Any]) -> None:
    """Rejects what would be expensive to build: too deep nesting, and endless numbers."""
    depth = nodes = 0
    for event in events:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(
                    _(
                        "line {line}: nested deeper than {max_depth}",
                        line=event.start_mark.line + 1,
                        max_depth=MAX_DEPTH,
                    )
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            long = not event.style and len(event.value) > _MAX_DIGITS
            if long and _NUMBER.fullmatch(event.value):
                raise ConfigError(
                    _(
                        "line {line}: a number of more than {max_digits} digits",
                        line=event.start_mark.line + 1,
                        max_digits=_MAX_DIGITS,
                    )
                )
            if nodes > MAX_NODES:
                raise ConfigError(
                    _(
                        "line {line}: more than {max_nodes} keys and values",
                        line=event.start_mark.line + 1,
                        max_nodes=MAX_NODES,
                    )
                )


def _message(error: Any) -> str:
    """Returns the problem and its line. Omits PyYAML's excerpt of the document, which may be a secret."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return _(
        "{mark}no YAML: {problem}",
        mark="" if mark is None else f"line {mark.line + 1}: ",
        problem=problem or _("bytes that are no text"),
    )
