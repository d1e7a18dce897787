"""CSS selectors, run by lexbor: checked when set, with the character at which something is wrong."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from pollerd.detection.selection.expressions.css_parser import CssParser
from pollerd.detection.selection.expressions.css_scanner import CssScanner
from pollerd.detection.selection.expressions.refusal import Refusal, checked_source

_KIND = "a CSS selector"


class CssSelector:
    """A checked selector. Pure; pickled as its text."""

    def __init__(self, field: str, selector: str, cheap: bool, warnings: tuple[str, ...]) -> None:
        self.field, self.selector, self.warnings = field, selector, warnings
        """Where it was set; as it was set; what a user should know about it."""
        self.cheap = cheap
        """Whether it has only tags, IDs, classes, attributes, `>`, descendants and commas, and few of them: its time is
        linear in the page, so that small pages may be searched in the event loop. Others may be quadratic."""

    def select(self, tree: LexborHTMLParser) -> list[LexborNode]:
        """Returns the elements that it matches, in document order, each once."""
        return list({node.mem_id: node for node in tree.css(self.selector)}.values())

    def __reduce__(self) -> tuple[object, ...]:
        return (compile_css, (self.field, self.selector))

    def __repr__(self) -> str:
        return f"CssSelector({self.selector!r})"


def compile_css(field: str, selector: object) -> CssSelector:
    """Returns a checked selector.

    Raises `InvalidValueError`: it is no selector of 1 to 1,000 characters, or one that cannot be run; names the
    character and the way out.
    """
    source = checked_source(field, _KIND, selector)
    refusal = Refusal(field, _KIND, source)
    scanner = CssScanner(refusal)
    parser = CssParser(scanner)
    parser.parse()
    try:
        LexborHTMLParser("<p>").css(source)
    except SelectolaxError:
        refusal.at(None, "the engine (lexbor) does not understand it")
    return CssSelector(field, source, parser.cheap, tuple(scanner.warnings))
