"""What a template may contain, and its bounds built in before it is compiled."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables
from jinja2.visitor import NodeTransformer

from pollerd.detection.selection.values.nearest import with_nearest
from pollerd.notifications.templates.error import TemplateError
from pollerd.notifications.templates.filters import FILTERS

COUNTED, BOUNDED = "_counted", "_bounded"
STEPS = "_steps"
_REFUSED: tuple[tuple[type[nodes.Node], str], ...] = (
    (nodes.Include, "include"),
    (nodes.Import, "import"),
    (nodes.FromImport, "from … import"),
    (nodes.Extends, "extends"),
    (nodes.Block, "block"),
    (nodes.Macro, "macro"),
    (nodes.CallBlock, "call"),
    (nodes.FilterBlock, "filter as a block"),
    (nodes.AssignBlock, "set as a block"),
    (nodes.EvalContextModifier, "autoescape"),
)


def check_syntax(tree: nodes.Template, known: Collection[str]) -> None:
    """Raises TemplateError for what a template may not contain. known: names of the values that it is given."""
    for kind, tag in _REFUSED:
        for found in tree.find_all(kind):
            raise TemplateError(f"{tag} is not possible here", found.lineno)
    _check_private(tree)
    for one in tree.find_all(nodes.For):
        if one.recursive:
            raise TemplateError("recursive loops are not possible here", one.lineno)
    for used in tree.find_all(nodes.Filter):
        if used.name not in FILTERS:
            names = sorted(FILTERS)
            raise TemplateError(with_nearest(f"there is no filter {used.name}", used.name, names), used.lineno)
    missing = find_undeclared_variables(tree) - set(known)
    for name in tree.find_all(nodes.Name):
        if name.name in missing:
            allowed = f"there is no {name.name}; there are {', '.join(sorted(known))}"
            raise TemplateError(with_nearest(allowed, name.name, sorted(known)), name.lineno)


def _check_private(tree: nodes.Template) -> None:
    """Refuses names, attributes and keys that begin with an underscore: what Python keeps inside has such names."""
    for name in tree.find_all(nodes.Name):
        _check_public(name.name, name.lineno)
    for attribute in tree.find_all(nodes.Getattr):
        _check_public(attribute.attr, attribute.lineno)
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and constant.value.startswith("__"):
            _check_public(constant.value, constant.lineno)


def _check_public(name: str, line: int) -> None:
    if name.startswith("_"):
        raise TemplateError(f"{name[:60]} is private: names that begin with _ cannot be used", line)


class Bounding(NodeTransformer):
    """Lets each loop count its steps, and what grows be measured. Jinja2 calls its methods by the names of nodes."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """Counts the items of a loop."""
        self.generic_visit(node)
        node.iter = _filtered(node.iter, COUNTED)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Measures texts that are put together."""
        return self._measured(node)

    def visit_Add(self, node: nodes.Add) -> nodes.Node:  # noqa: N802
        """Measures sums, and lists that are put together."""
        return self._measured(node)

    def visit_Mul(self, node: nodes.Mul) -> nodes.Node:  # noqa: N802
        """Measures products."""
        return self._measured(node)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        """Measures what a filter returns."""
        return self._measured(node)

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        """Measures what a call returns."""
        return self._measured(node)

    def _measured(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, BOUNDED)


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=node.environment)
