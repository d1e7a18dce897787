"""The focused crawler, put together from its topic file for a daemon that has one."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pollerd.api.list_formats import parse_text
from pollerd.crawler.concurrency import ConcurrencyLimiter, Learned
from pollerd.crawler.crawl import CrawlHook, TrialStarter
from pollerd.crawler.judging import PageJudge, PageReader
from pollerd.crawler.state import load_crawl, load_shapes
from pollerd.crawler.topics import TopicSettings
from pollerd.daemon.runtime import Runtime
from pollerd.daemon.scheduler_state import SchedulerState
from pollerd.detection.html import visible_text
from pollerd.errors import ConfigError, InvalidValueError, allowed_by, file_fault, refusal
from pollerd.scheduling.choice import Chooser
from pollerd.site_settings import SiteSpec
from pollerd.storage.crawler.collection import CollectionStore
from pollerd.storage.crawler.frontier import Frontier
from pollerd.texts import _


async def crawl_hook(
    collection: CollectionStore,
    frontier: Frontier,
    scheduler: SchedulerState,
    chooser: Chooser,
    topic: TopicSettings,
    seeds: Sequence[str],
    runtime: Runtime,
) -> CrawlHook:
    """Loads the collection, adds new seeds, and builds the parts of the crawler. Raises as `load_crawl` does."""
    state = await load_crawl(collection, frontier, scheduler, topic, seeds, runtime.clock)
    starter = TrialStarter(
        state=state,
        frontier=frontier,
        scheduler=scheduler,
        chooser=chooser,
        topic=topic,
        rng=runtime.rng,
        clock=runtime.clock,
    )
    shapes = await load_shapes(collection)
    judge = PageJudge(state=state, frontier=frontier, scheduler=scheduler, topic=topic, shapes=shapes)
    reader = PageReader(topic=topic, sites=state.sites, unread=state.unread, runtime=runtime)
    limiter = ConcurrencyLimiter(Learned(runtime.rng))
    return CrawlHook(starter=starter, judge=judge, reader=reader, limiter=limiter)


# The topic file (TOML) and the seeds of `pollerd run --topic --seeds`.

_HTML = frozenset({".html", ".htm", ".xhtml"})


def _domain(value: object) -> object:
    """Normalises a domain as in URLs, perhaps written with a leading dot or `*.`."""
    if not isinstance(value, str):
        return value
    domain = value.strip().lower().removeprefix("*.").strip(".")
    if not domain or any(sign in domain for sign in "/:@ *"):
        raise ValueError(_("a domain such as example.org, without scheme, port or path"))
    return domain.encode("idna").decode() if not domain.isascii() else domain


Domain = Annotated[str, BeforeValidator(_domain)]


class TopicFile(BaseModel):
    """All fields of a topic file. Ranges are checked by `TopicSettings`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    keywords: list[str] = []
    examples: list[str] = []
    example_files: list[str] = []
    background: list[str] = []
    background_files: list[str] = []
    language: str = TopicSettings.language
    allow_domains: list[Domain] = []
    deny_domains: list[Domain] = []
    max_depth: int = TopicSettings.max_depth
    pages_per_host: int = TopicSettings.pages_per_host
    collection_size: int = TopicSettings.collection_size
    relevance_min: float = Field(TopicSettings.relevance_min, allow_inf_nan=False)


def read_mission(topic: Path | None, seeds: Path | None) -> tuple[TopicSettings | None, list[str]]:
    """Reads topic and seeds from the named files. Raises as the two below, or ConfigError for seeds alone."""
    if topic is None:
        if seeds is not None:
            raise ConfigError(_("seeds: they are for a topic; topic is not set"))
        return None, []
    return read_topic(topic), [] if seeds is None else read_seeds(seeds)


def read_topic(path: Path) -> TopicSettings:
    """Reads the topic of a file; text files are relative to it, and of HTML files the visible text counts.

    Raises ConfigError if a file cannot be read, and InvalidValueError with the field for invalid values.
    """
    try:
        fields = _validated(tomllib.loads(_text(path, "topic")))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"topic: {path}: {error}") from error
    examples = (*fields.examples, *(_plain(path.parent / name, "example_files") for name in fields.example_files))
    background = (
        *fields.background,
        *(_plain(path.parent / name, "background_files") for name in fields.background_files),
    )
    try:
        topic = TopicSettings(
            name=fields.name,
            examples=examples,
            keywords=tuple(fields.keywords),
            background=background,
            language=fields.language,
            allow_domains=tuple(fields.allow_domains),
            deny_domains=tuple(fields.deny_domains),
            max_depth=fields.max_depth,
            pages_per_host=fields.pages_per_host,
            collection_size=fields.collection_size,
            relevance_min=fields.relevance_min,
        )
        from pollerd.crawler.pages import recipe_of, topic_of  # not loaded without a topic

        topic_of(recipe_of(topic))
    except InvalidValueError as error:
        raise error.of(f"topic: {error.field}") from error
    return topic


def read_seeds(path: Path) -> list[str]:
    """Reads the normalised URLs of a list, one per line. Raises ConfigError if it cannot be read or has a bad line."""
    try:
        with path.open("rb") as file:
            return [_seed(path, number, entry) for number, entry in parse_text(file) if entry is not None]
    except OSError as error:
        raise ConfigError(f"seeds: {file_fault(path, error)}") from error


def _seed(path: Path, number: int, entry: SiteSpec | InvalidValueError) -> str:
    if isinstance(entry, InvalidValueError):
        raise ConfigError(_("seeds: {path}, line {number}: {entry}", path=path, number=number, entry=entry))
    return entry.url


def _validated(values: dict[str, Any]) -> TopicFile:
    try:
        return TopicFile.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise ConfigError(
                _(
                    "topic: unknown {field}; known: {model_fields}",
                    field=field,
                    model_fields=", ".join(TopicFile.model_fields),
                )
            ) from error
        if first["type"] == "missing":
            raise refusal(f"topic: {field}", _("is needed")) from error
        raise InvalidValueError(f"topic: {field}", allowed_by(first), first["input"]) from error


def _plain(path: Path, field: str) -> str:
    text = _text(path, field)
    return visible_text(text.encode()).decode() if path.suffix.lower() in _HTML else text


def _text(path: Path, field: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{field}: {file_fault(path, error)}") from error
