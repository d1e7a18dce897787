"""Holds what a machine can hold of the style guide over every text that people read; ends with 1 where one breaks it.

    python benchmarks/wording.py [--count] [PLACE ...]

Texts: the help of every command and option, descriptions of the API, the meanings of log events, other strings of
the program that are sentences, web and message templates, README and the pages for users. The rules are in `RULES`.
PLACE: show only texts of places that begin so, for example `docs/api.md`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]


class Text(NamedTuple):
    """A text that people read, at a place. kind: command, help (of an option), api, message, page or document."""

    kind: str
    place: str
    text: str


class Rule(NamedTuple):
    """A pattern that no text has. better: what to write instead; kinds: of the texts; without any: all."""

    name: str
    pattern: re.Pattern[str]
    better: str
    kinds: tuple[str, ...] = ()


def _rule(name: str, pattern: str, better: str, *kinds: str) -> Rule:
    return Rule(name, re.compile(pattern, re.IGNORECASE), better, kinds)


LONGEST = 25
"""Words of a sentence, or of a part between colons and semicolons; documents but README are still to be rewritten."""

RULES = [
    _rule("tell", r"\b(?:un)?(?:told|tell|tells|telling)\b(?! apart)", "notify, alert, report, show"),
    _rule("believe", r"\bbeliev\w+|\bforet(?:old|ell\w*)\b", "estimated, predicted"),
    _rule("anew", r"\banew\b", "again"),
    _rule("seldom", r"\bseldom\w*", "rarely, less often"),
    _rule("beside", r"\bbeside\b", "next to, in addition to"),
    _rule("in place of", r"\bin place of\b", "instead of"),
    _rule("nobody", r"\b(?:no|every|some|any)body\b", "name who: a user, no user, all users"),
    _rule("whoever", r"\bwho(?:m|so)?ever\b", "name who: a user who"),
    _rule("of ours", r"\bof (?:ours|theirs|mine)\b|\b(?:fault|error)s? of our\b", "internal, pollerd's"),
    _rule("of its own", r"\bof (?:its|his|their|your|our|pollerd's|one's) own\b", "its own X"),
    _rule("as in", r"\bas in [`\d]", "for example"),
    _rule("withdraw", r"\bwithdr[ae]w\w*", "revoke"),
    _rule("stands in", r"\bstands? in\b", "is in"),
    _rule("so many", r"\bat most so (?:many|much|long|often)\b", "maximum", "api", "message", "page", "document"),
    _rule("split", r"\bevenly split\b|\bbest split\b", "if polled equally, best possible"),
    _rule("left out", r"\bleft out\b|\bmust be left out\b", "missing, deleted, skipped, ignored; remove it"),
    _rule(
        "an hour",
        r"\b(?:polls|requests|changes|detections|sites|pages|messages|commits) an? (?:second|minute|hour|day|week)\b",
        "per second, per hour",
    ),
    _rule("dead", r"\bis dead\b|\bdead messages?\b", "failed"),
    _rule("verb", r"^(?!Access)[A-Z][a-z]+s (?!of|that|and|to)", "the verb first, for example List", "command"),
    _rule("repeatable", r"given more than once", "(repeatable)", "command", "help"),
    _rule(
        "no subject",
        r"(?-i:(?:^|\. )(?:Is|Are|Was|Were|Has|Have|Does|Can|May|Must|Will) (?![^.]*\?))",
        "say the subject",
        *("command", "help", "api"),
    ),
    _rule("example", r"(?<!such )\bas (?=\d|[A-Z][a-z]+/)", "for example", "command", "help"),
    _rule("amount", r"\bso (?:many|long|often|much)\b(?! as)", "name the number", "command", "help"),
    _rule("what", r"\bwhat\b(?! counts)", "name the thing", "command", "help"),
    _rule("may", r"\bmay\b", "can, might", "command", "help"),
    _rule("adjective", r"(?:^|\. )(?:At most|At least|Longest|Shortest|Largest|Smallest)\.", "name the thing", "help"),
]


def strings(source: str, place: str) -> Iterator[Text]:
    """Yields the strings of a module that are sentences: two words or more, no docstring, no SQL."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if id(node) not in docstrings | parts and _is_sentence(text):
            yield Text("message", f"{place}:{node.lineno}", text)


_SQL = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|FROM|DROP|WHERE|AND|SET|VALUES|ON|LOCK|GRANT|JOIN)\b"
)


def _is_sentence(text: str) -> bool:
    words = len(re.findall(r"[A-Za-z']{2,}", text))
    return words >= 2 and " " in text and not _SQL.match(text) and "GET    /" not in text  # a table of routes


def help_texts() -> Iterator[Text]:
    """Yields the help of every command and of its options."""
    import typer

    from pollerd.cli.commands import app

    def below(command: Any, path: str) -> Iterator[Text]:
        yield Text("command", path, command.help or "")
        for option in command.params:
            yield Text("help", f"{path} {option.opts[-1]}", getattr(option, "help", None) or "")
        context = command.context_class(command)
        for name, listed in getattr(command, "commands", {}).items():
            yield Text("command", f"{path} {name}", listed.help or "")
            yield from below(command.resolve_command(context, [name])[1], f"{path} {name}")

    yield from below(typer.main.get_command(app), "pollerd")


def api_texts() -> Iterator[Text]:
    """Yields descriptions and summaries of the OpenAPI document."""
    from unittest.mock import Mock

    from prometheus_client import CollectorRegistry

    from pollerd.api.application import create_api
    from pollerd.api.settings import ApiSettings
    from pollerd.storage.store import Store

    def below(node: Any, place: str) -> Iterator[Text]:
        if isinstance(node, dict):
            for name, value in node.items():
                if name in ("description", "summary") and isinstance(value, str):
                    yield Text("api", f"openapi {place}", value)
                yield from below(value, f"{place}/{name}")
        elif isinstance(node, list):
            for number, value in enumerate(node):
                yield from below(value, f"{place}/{number}")

    api = create_api(Mock(), Mock(spec=Store), CollectorRegistry(), ApiSettings(), "0")
    yield from below(api.openapi(), "")


def template_text(source: str) -> str:
    """Returns what a template shows: without comments, code and tags; attributes that are read aloud or shown stay."""
    source = re.sub(r"\{#.*?#\}", "", source, flags=re.DOTALL)
    shown = re.findall(r'(?:placeholder|title|aria-label|alt)="([^"]*)"', source)
    quoted = re.findall(r'"([^"<>{}]*? [^"<>{}]*? [^"<>{}]*?)"', " ".join(re.findall(r"\{[{%].*?[%}]\}", source)))
    source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", " X ", source, flags=re.DOTALL)
    source = re.sub(r"<(script|style).*?</\1>", "", source, flags=re.DOTALL)
    return "\n".join([re.sub(r"<[^>]+>", "\n", source), *shown, *quoted])


def templates() -> Iterator[Text]:
    """Yields each line of the templates' texts."""
    for path in sorted((ROOT / "pollerd").rglob("*.html")):
        for line in template_text(path.read_text()).splitlines():
            if line.strip(" X"):
                yield Text("page", str(path.relative_to(ROOT)), re.sub(r"\s+", " ", line).strip())


DEVELOPERS = tuple(
    ["CONTRIBUTING.md", *(f"docs/{name}/" for name in ("adr", "papers", "research"))]
    + [f"docs/{name}.md" for name in ("architecture", "focused-crawler", "model", "peers", "references")]
    + [f"docs/{name}.md" for name in ("short-lists", "signals")]
)
"""Documents of developers and researchers. They have the field's terms, and tables with the labels of experiments."""


def documents() -> Iterator[Text]:
    """Yields each block of README and the pages for users, without code."""
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
    ]
    for path in sorted(pages):
        place = str(path.relative_to(ROOT))
        if not place.startswith(DEVELOPERS):
            yield from document(path.read_text(), place)


def document(source: str, place: str) -> Iterator[Text]:
    """Yields paragraphs, items and rows of a document, without code, targets of links, and tables of a command."""
    kind, code, made, text, first = "readme" if place == "README.md" else "document", False, False, "", 1
    for number, line in enumerate([*source.splitlines(), ""], 1):
        begins = (
            code or not line.strip() or line.startswith(("```", "    ", "|", "#", "- ", "* ")) or line[:2].isdigit()
        )
        if begins and text:
            yield Text(kind, f"{place}:{first}", re.sub(r"\]\([^)]*\)", "]", text))
            text = ""
        code ^= line.startswith("```")
        made = line.startswith("<!-- command:") or (made and line.startswith(("|", "<!--")))
        if not (code or made) and line.strip() and not line.startswith(("    ", "```")):
            text, first = (line, number) if not text else (f"{text} {line}", first)


def modules() -> Iterator[Text]:
    """Yields the sentences of all modules, but for the lab's, which are of researchers."""
    for path in sorted((ROOT / "pollerd").rglob("*.py")):
        place = str(path.relative_to(ROOT))
        if not place.startswith("pollerd/lab/"):
            yield from strings(path.read_text(), place)


_PROSE = re.compile(r"[^|<>\\={}]*\b(?:the|is|are|of|to|that|for)\b[^|<>\\={}]*", re.DOTALL)
_ENDS = re.compile(r"[.;:?!…·](?=\s|$)|\n\s*\n")


def longest_part(text: str) -> int:
    """Returns the words of the longest part between full stops, colons and semicolons; 0 for what is no prose."""
    return max(len(re.findall(r"[\w'’-]+", part)) for part in _ENDS.split(text)) if _PROSE.fullmatch(text) else 0


def faults(texts: Iterable[Text]) -> Iterator[tuple[Text, str]]:
    """Yields each text that breaks a rule, with the rule and what to write instead."""
    for text in texts:
        shown = re.sub(r"`[^`]*`", "X", text.text)
        for rule in RULES:
            if (not rule.kinds or text.kind in rule.kinds) and (found := rule.pattern.search(shown)):
                yield text, f"{rule.name!r} ({found[0].strip()}): {rule.better}"
        if text.kind != "document" and (words := longest_part(shown)) > LONGEST:
            yield text, f"'long' ({words} words): at most {LONGEST} between full stops, colons and semicolons"


def dashboards() -> Iterator[Text]:
    """Yields titles, legends and descriptions of the Grafana dashboard, and the texts of Prometheus' alerts."""
    for path in sorted((ROOT / "deploy").rglob("*.json")) + sorted((ROOT / "deploy").rglob("alerts*.yml")):
        shown = re.findall(r'"(?:title|description|legendFormat)": "((?:[^"\\]|\\.)*)"', path.read_text())
        shown += re.findall(r"^ *(?:summary|description): (.*(?:\n {12,}.*)*)$", path.read_text(), re.MULTILINE)
        for text in shown:
            yield Text("document", str(path.relative_to(ROOT)), " ".join(text.split()))


def everything() -> Iterator[Text]:
    """Yields all texts."""
    for source in (help_texts, api_texts, modules, templates, documents, dashboards):
        yield from source()


def main() -> int:
    """Prints the faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="numbers only")
    parser.add_argument("places", nargs="*")
    arguments = parser.parse_args()
    wanted = tuple(arguments.places) or ("",)
    found = [(text, said) for text, said in faults(everything()) if text.place.startswith(wanted)]
    if arguments.count:
        for key, number in sorted(Counter((text.kind, said.split("'")[1]) for text, said in found).items()):
            print(f"{number:5} {' '.join(key)}")
    else:
        for text, said in found:
            print(f"{text.place}: {said}\n    {' '.join(text.text.split())[:300]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
