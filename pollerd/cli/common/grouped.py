"""Options that belong together: a dataclass whose fields are options of a command."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Has a command take the fields of its parameters that are dataclasses as options of its own.

    The fields are annotated as parameters of commands are. In the help they stand where the dataclass stands among the
    parameters; those follow a `*`, because Typer passes all by name.
    """
    parameters, groups = list[Parameter](), dict[str, type]()
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(parameter.annotation, type) and dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _options(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: _taken(group, given) for name, group in groups.items()}
        command(**given, **made)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _options(group: type) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])


def _taken(group: type, given: dict[str, Any]) -> Any:
    """Returns the group, and removes its options from what was given."""
    return group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
