"""Defaults of jobs in the program's own settings: those of the job's kind, then those of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pollerd.errors import ConfigError
from pollerd.moving.moved import Report, SourceReport
from pollerd.moving.urlwatch.dialect import Dialect
from pollerd.moving.urlwatch.documents import read_documents
from pollerd.texts import N_, _

_SOURCE = "config"
_TABLES = frozenset({"headers", "cookies"})
_KINDS = frozenset({"all", "url", "browser", "shell", "command"})
_WHY = {
    "report": N_("how and to whom is reported is not carried over: set up channels and rules"),
    "database": N_("its history is not carried over"),
    "display": N_("how reports are shown is not carried over"),
    "differ_defaults": N_("how differences are shown is not carried over"),
}


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """Defaults by kind of job."""

    kinds: Mapping[str, Mapping[str, object]]
    dialect: Dialect

    def applied(self, job: Mapping[str, object], kind: str) -> dict[str, object]:
        """Returns the job with the defaults of its kind, then of all, where it says nothing; lists are not joined."""
        merged = dict(job)
        for name in (kind, "all"):
            for key, value in self.kinds.get(name, {}).items():
                mine = merged.get(key)
                if mine is None:
                    merged[key] = value
                elif self.dialect.joins_tables and key in _TABLES and isinstance(mine, Mapping):
                    merged[key] = {**(value if isinstance(value, Mapping) else {}), **mine}
        return merged


def read_defaults(data: bytes, dialect: Dialect, report: Report) -> JobDefaults:
    """Reads the defaults of jobs of a program's settings; names what else is set. Raises `ConfigError`."""
    documents = [document for _line, document, _ending in read_documents(data)]
    settings = documents[0] if documents else {}
    if not isinstance(settings, Mapping):
        raise ConfigError(
            _("settings must be a table with job_defaults; given: a {name}", name=type(settings).__name__)
        )
    told = report.of(_SOURCE)
    for key in settings:
        if key != "job_defaults":
            told.not_carried(str(key), _WHY.get(str(key), _("only job_defaults are carried over")))
    return JobDefaults(_kinds(settings.get("job_defaults"), told), dialect)


def _kinds(raw: object, told: SourceReport) -> dict[str, dict[str, object]]:
    kinds = dict[str, dict[str, object]]()
    for kind, values in raw.items() if isinstance(raw, Mapping) else ():
        key = f"job_defaults.{kind}"
        if kind not in _KINDS or not isinstance(values, Mapping | None):
            told.not_carried(key, _("must be a table for one of {kinds}", kinds=", ".join(sorted(_KINDS))))
            continue
        kinds[str(kind)] = {str(name): value for name, value in (values or {}).items()}
        if values:
            told.approximated(key, _("written into each job that does not set it"))
        else:
            told.nothing_said(key)
    return kinds
