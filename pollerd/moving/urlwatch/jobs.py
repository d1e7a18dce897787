"""Files of jobs of urlwatch and webchanges: jobs and their defaults to sites."""

from __future__ import annotations

from collections.abc import Mapping

from pollerd.errors import ConfigError
from pollerd.moving.draft import Draft
from pollerd.moving.join import join
from pollerd.moving.moved import Fate, Moved, Report
from pollerd.moving.request import set_proxy, set_url
from pollerd.moving.urlwatch.defaults import JobDefaults, read_defaults
from pollerd.moving.urlwatch.dialect import Dialect
from pollerd.moving.urlwatch.directives import apply_directive, in_order
from pollerd.moving.urlwatch.documents import read_documents
from pollerd.moving.urlwatch.filters import apply_filters, compare_body
from pollerd.texts import N_, _

_FILTERS = ("filter", "filters")
_PROXIES = ("http_proxy", "https_proxy", "proxy")
_BROWSER_KINDS = frozenset({"browser"})
_PROGRAM_KINDS = frozenset({"shell", "command"})
_TWICE = N_("is given twice in a table: the last counts, as in its program")


def read_jobs(data: bytes, dialect: Dialect, config: bytes | None = None, *, exact: bool = False) -> Moved:
    """Converts a file of jobs.

    config: the program's own settings (`urlwatch.yaml`, `config.yaml`), of which the defaults of jobs are used. exact:
    compare the page's source where the program does, in place of what a reader sees. Raises `ConfigError` for a file
    that cannot be read as a whole; a job that cannot be used is named in the report.
    """
    report = Report()
    defaults = JobDefaults({}, dialect) if config is None else read_defaults(config, dialect, report)
    drafts = list[Draft]()
    for number, (line, job, twice) in enumerate(read_documents(data), 1):
        for name in twice:
            report.add(_("job {number} (line {line})", number=number, line=line), name, Fate.NOT_CARRIED, _(_TWICE))
        if not isinstance(job, Mapping):
            raise ConfigError(
                _("line {line}: a job must be a table with a url; given: a {name}", line=line, name=type(job).__name__)
            )
        draft = _converted(number, {str(key): value for key, value in job.items()}, defaults, report, exact=exact)
        drafts.append(draft)
    return join(drafts, report)


def _converted(number: int, job: dict[str, object], defaults: JobDefaults, report: Report, *, exact: bool) -> Draft:
    """Returns the draft of a job. Each key gets a line, also if the job is left out."""
    draft = Draft(report.of(_source(number, job)))
    kind = _kind(job, defaults.dialect)
    job = defaults.applied(job, kind)
    url = next((name for name in ("url", "navigate") if job.get(name) is not None), None)
    usable = kind not in _PROGRAM_KINDS and url is not None and set_url(draft, url, job[url])
    if kind in _BROWSER_KINDS:
        draft.fields["render"] = "browser"
    for key, value in in_order(job):
        if key == url or key in _FILTERS or key in _PROXIES:
            continue
        if key in ("url", "navigate"):
            draft.report.not_carried(key, _("{url} is used", url=url))
        elif value is None:
            draft.report.nothing_said(key)
        else:
            apply_directive(draft, key, value)
    _apply_proxies(draft, job)
    _apply_filters(draft, job, defaults.dialect, exact=exact)
    draft.fields.pop("data_as_json", None)
    if kind in _PROGRAM_KINDS or url is None:
        draft.report.not_carried(_("the whole job"), _("pollerd watches URLs, and starts no programs"))
    draft.is_left_out = not usable or not draft.url
    return draft


def _source(number: int, job: Mapping[str, object]) -> str:
    titles = [str(job[key]) for key in ("name", "url", "navigate") if job.get(key)]
    title = titles[0] if titles else ""
    return f"job {number} ({title})" if title else f"job {number}"


def _kind(job: Mapping[str, object], dialect: Dialect) -> str:
    """Returns the kind of a job: as it says, else by its keys."""
    if isinstance(job.get("kind"), str):
        return dialect.shell_kind if job["kind"] in _PROGRAM_KINDS else str(job["kind"])
    if "command" in job and "url" not in job and "navigate" not in job:
        return dialect.shell_kind
    return "browser" if "navigate" in job or job.get("use_browser") else "url"


def _apply_proxies(draft: Draft, job: Mapping[str, object]) -> None:
    """A site has one proxy: the one for the scheme of its URL."""
    scheme = draft.url.partition(":")[0]
    option = next((name for name in ("proxy", f"{scheme}_proxy") if job.get(name)), None)
    for name in _PROXIES:
        if name not in job:
            continue
        if name == option:
            set_proxy(draft, name, job[name])
        else:
            draft.report.nothing_said(name, _("it is not the proxy of this URL's scheme"))


def _apply_filters(draft: Draft, job: Mapping[str, object], dialect: Dialect, *, exact: bool) -> None:
    filters = [name for name in _FILTERS if job.get(name) not in (None, [], "")]
    for name in _FILTERS:
        if name in job and name not in filters:
            draft.report.nothing_said(name)
    for name in filters[1:]:
        draft.report.not_carried(name, _("{filters} is used", filters=filters[0]))
    if filters:
        apply_filters(draft, filters[0], job[filters[0]], dialect, exact=exact)
    else:
        compare_body(draft, exact=exact)
