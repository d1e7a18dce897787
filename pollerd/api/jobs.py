"""Jobs.

Routes of jobs: one thing that is done to many sites.
"""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Path
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field, create_model

from pollerd.api.common import Given, Listing
from pollerd.api.http import MAX_ID, Caller, Cursor, Daemon, Limit, api_router, json_body
from pollerd.api.inputs import check_spec, check_tag, input_fields, shown_setting
from pollerd.api.problems import problem
from pollerd.api.sites import SiteFilterSchema, Tag
from pollerd.errors import InvalidValueError, refusal
from pollerd.model import JobAction
from pollerd.site_settings import INHERITED, SiteSpec
from pollerd.storage.jobs import JobProgress, JobSpec
from pollerd.texts import N_, _

# Jobs: what is done to many sites, and how far it is.

MAX_IDS = 10_000
_VALUES = {
    JobAction.TAG: N_('a tag, for example {"tag": "news"}'),
    JobAction.UNTAG: N_('a tag, for example {"tag": "news"}'),
    JobAction.WEIGHT: N_('a weight or null, for example {"weight": 2}'),
    JobAction.LIMITS: N_(
        'intervals in s, respect_ttl, or null, for example {"min_interval": 60, "max_interval": null}'
    ),
}
_NAMES = {
    JobAction.TAG: {"tag"},
    JobAction.UNTAG: {"tag"},
    **{
        action: {name for name, setting in INHERITED.items() if setting.bulk == action}
        for action in (JobAction.WEIGHT, JobAction.LIMITS)
    },
}


class _Tagged(Given):
    """What an action needs: a tag, a weight, or limits. null takes a setting away."""

    tag: Tag = ""


if TYPE_CHECKING:
    BulkValue = _Tagged
else:
    BulkValue = create_model(
        "BulkValue",
        __base__=_Tagged,
        __doc__=_Tagged.__doc__,
        __module__=__name__,
        **input_fields({name: setting for name, setting in INHERITED.items() if setting.bulk}, described=False),
    )


class BulkChange(Given):
    """What is to be done to sites: to all that fit a filter, or to those with these ids."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"filter": {"q": "example.org", "state": "backing_off"}, "action": "pause"},
                {"ids": [7, 8], "action": "tag", "value": {"tag": "news"}},
                {"filter": {}, "action": "limits", "value": {"min_interval": 3600}},
            ],
            "oneOf": [{"required": ["filter"]}, {"required": ["ids"]}],
        }
    )

    action: Annotated[JobAction, Field(strict=False)]
    filter: SiteFilterSchema = Field(SiteFilterSchema.model_validate({}), description="which sites; {}: all of them")
    ids: list[Annotated[int, Field(ge=1, le=MAX_ID)]] = Field([], min_length=1, max_length=MAX_IDS)
    value: BulkValue = Field(BulkValue(), description="of tag, untag, weight and limits; others have none")

    def spec(self) -> JobSpec:
        """Returns what is to be done, checked. Raises `InvalidValueError`."""
        if len(self.model_fields_set & {"filter", "ids"}) != 1:
            raise InvalidValueError("filter", _("given, or ids: one of the two"), sorted(self.model_fields_set))
        value = self._value()
        if "ids" in self.model_fields_set:
            return JobSpec(self.action, value, ids=tuple(self.ids))
        return JobSpec(self.action, value, filter=self.filter.filter())

    def _value(self) -> dict[str, Any]:
        values = {name: getattr(self.value, name) for name in self.value.model_fields_set}
        names = _NAMES.get(self.action, set())
        if values.keys() - names or (names and not values):
            if self.action not in _VALUES:
                raise refusal("value", _("{action} takes no value", action=self.action))
            raise InvalidValueError("value", _(_VALUES[self.action]), values)
        if "tag" in names:
            return {"tag": check_tag(values["tag"], "value.tag")}
        check_spec(SiteSpec("http://site/", **values))
        return values


def shown_job(job: JobProgress) -> JobProgress:
    """Returns the job with its value as settings are shown: its JSON keeps no types."""
    value = dict(job.value)
    for name, setting in INHERITED.items():
        if setting.bulk and value.get(name) is not None:
            value[name] = shown_setting(setting, setting.type(value[name]))
    return dataclasses.replace(job, value=value)


router = api_router(tag="sites")
JobId = Annotated[int, Path(ge=1, le=MAX_ID, description="the job's id")]


@router.post(
    "/sites/bulk", status_code=HTTPStatus.ACCEPTED, dependencies=[Depends(json_body)], summary="Change many sites"
)
async def change_sites(daemon: Daemon, change: BulkChange, caller: Caller) -> JobProgress:
    """Starts a job on the sites that fit the filter now, or that have these ids; sites that are added later are not.

    It works on 1,000 sites at a time, goes on after a restart, and has ended in this answer where there are no more.
    What was changed can be undone for 24 hours; sites that it deletes are purged after them. Resuming takes pauses
    away, and nothing else.
    """
    return shown_job(await daemon.control.jobs.start(change.spec(), by=caller))


@router.get("/jobs", summary="List jobs")
async def list_jobs(daemon: Daemon, limit: Limit = 100, cursor: Cursor = None) -> Listing[JobProgress]:
    """Newest first; ended ones for about 30 days."""
    page = await daemon.store.jobs.list_jobs(limit, cursor)
    return Listing.of(map(shown_job, page.items), page.next_cursor)


@router.get("/jobs/{job_id:id}", summary="One job")
async def get_job(daemon: Daemon, job_id: JobId) -> JobProgress:
    """The job and how far it is."""
    return shown_job(await daemon.store.jobs.get(job_id))


@router.post(
    "/jobs/{job_id:id}/undo", status_code=HTTPStatus.ACCEPTED, response_model=JobProgress, summary="Undo a job"
)
async def undo_job(daemon: Daemon, job_id: JobId, caller: Caller) -> JobProgress | JSONResponse:
    """Takes back what it did, but for what was changed again since; 409 where that is not possible (any more)."""
    try:
        return shown_job(await daemon.control.jobs.undo(job_id, by=caller))
    except InvalidValueError as error:
        return problem(HTTPStatus.CONFLICT, _("the job must be {allowed}", allowed=error.allowed), kind="not-undoable")


ROUTERS = (router,)
