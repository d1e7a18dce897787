"""Routes of rules: who is told of what."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response

from pollerd.api.http.context import Daemon
from pollerd.api.http.parameters import MAX_ID, json_body
from pollerd.api.http.routing import api_router
from pollerd.api.http.timestamps import parse_moment
from pollerd.api.schemas.common import Listing
from pollerd.api.schemas.notifications import Mute, NewRule, RuleSchema

router = api_router("/rules", tag="notifications")
RuleId = Annotated[int, Path(ge=1, le=MAX_ID, description="the rule's id")]
_JSON = [Depends(json_body)]


@router.get("", summary="List rules")
async def list_rules(daemon: Daemon) -> Listing[RuleSchema]:
    """All rules, by id."""
    return Listing.of(map(RuleSchema.of, await daemon.store.notifications.rules()), None)


@router.post("", status_code=HTTPStatus.CREATED, dependencies=_JSON, summary="Add a rule")
async def add_rule(daemon: Daemon, rule: NewRule, response: Response) -> RuleSchema:
    """It tells what happens from now on. 409 with `existing_id` where the name is taken."""
    async with daemon.turn:
        added = await daemon.control.notifications.add_rule(rule.document())
    response.headers["Location"] = f"/api/v1/rules/{added.id}"
    return RuleSchema.of(added)


@router.get("/{rule_id:id}", summary="One rule")
async def get_rule(daemon: Daemon, rule_id: RuleId) -> RuleSchema:
    """The rule as it stands."""
    return RuleSchema.of(await daemon.store.notifications.rule(rule_id))


@router.put("/{rule_id:id}", dependencies=_JSON, summary="Replace a rule")
async def replace_rule(daemon: Daemon, rule_id: RuleId, rule: NewRule) -> RuleSchema:
    """All of it: what is left out has its default. What it has put into the outbox is told as before."""
    async with daemon.turn:
        return RuleSchema.of(await daemon.control.notifications.change_rule(rule_id, rule.document()))


@router.post("/{rule_id:id}/mute", dependencies=_JSON, summary="Mute a rule for a while")
async def mute_rule(daemon: Daemon, rule_id: RuleId, body: Mute) -> RuleSchema:
    """Until then it tells nothing; what happens meanwhile is not told later."""
    until = None if body.until is None else parse_moment("until", body.until)
    async with daemon.turn:
        return RuleSchema.of(await daemon.control.notifications.mute_rule(rule_id, until))


@router.delete("/{rule_id:id}", status_code=HTTPStatus.NO_CONTENT, response_class=Response, summary="Remove a rule")
async def delete_rule(daemon: Daemon, rule_id: RuleId) -> None:
    """What it has put into the outbox is still told."""
    async with daemon.turn:
        await daemon.control.notifications.delete_rule(rule_id)
