"""First steps: the card for newcomers, until it is dismissed, and the example sites."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Response

from pollerd.api.auth.recognition import CallerRecognition
from pollerd.api.http import Caller
from pollerd.errors import ConfigError, refusal
from pollerd.model import JobAction
from pollerd.site_settings import SiteSpec
from pollerd.storage.jobs import JobSpec
from pollerd.texts import N_, _
from pollerd.web.http import Posted, ours
from pollerd.web.page import Page, Shown, page_router

router = page_router(prefix="/first-steps")
EXAMPLE_TAG = "example"
_EXAMPLE_START = "http://127."
_MOST_EXAMPLES = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One step."""

    text: str
    """English; translated where it is shown."""
    address: str
    done: bool


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The card."""

    steps: tuple[Step, ...]
    can_start: bool
    """Whether this process can serve example sites, and serves none that are watched."""
    examples: int
    """Number of example sites that are watched."""
    are_served: bool
    """Whether they are served: not after a restart."""


async def first_steps(page: Page) -> FirstSteps | None:
    """Returns what the card shows; None: the reader dismissed it or can change nothing, or all is done."""
    if not page.may_write:
        return None
    store, examples = page.ports.store, page.web.examples
    watched = await _watched_examples(page)
    dismissed = await store.changes.has_dismissed_steps(page.reader)
    if dismissed and not watched:
        return None
    recognition: CallerRecognition = page.request.app.state.recognition
    rules = await store.notifications.rules.all()
    sites = page.ports.control.health.sites
    steps = (
        Step(N_("Add sites"), "/sites/import", sites > len(watched)),
        Step(N_("Choose what counts on a site"), "/sites", await store.sites.any_selections()),
        Step(N_("Get alerts"), "/rules", any(rule.spec.enabled for rule in rules)),
        Step(N_("Set up signing in"), "/system/accounts", await recognition.needed()),
    )
    if (dismissed or all(step.done for step in steps)) and not watched:
        return None
    alone = store.shared is None
    is_served = examples is not None and examples.running
    return FirstSteps(
        () if dismissed else steps,
        examples is not None and alone and not (watched and is_served),
        len(watched),
        is_served,
    )


async def _watched_examples(page: Page) -> list[int]:
    """Returns the ids of the example sites."""
    tagged = await page.ports.store.sites.page(tag=EXAMPLE_TAG, limit=_MOST_EXAMPLES)
    return [site.id for site in tagged.items if site.spec.url.startswith(_EXAMPLE_START)]


@router.post("/dismiss")
async def dismiss(page: Shown, form: Posted) -> Response:
    """Hides the card from this reader, in every browser; with the button "again" shows it."""
    await page.ports.store.changes.dismiss_steps(page.reader, dismissed=not form.has("again"))
    return page.go(ours(form.text("back") or "/"))


@router.post("/examples")
async def start_examples(page: Shown, caller: Caller) -> Response:
    """Serves the example sites, and watches them; those that ended with an earlier process make room for them."""
    examples = page.web.examples
    if examples is None or page.ports.store.shared is not None:
        raise refusal("examples", _("only a single daemon serves example sites: try `pollerd demo`"))
    ended = [] if examples.running else await _watched_examples(page)
    try:
        urls = await examples.start()
    except ConfigError as error:
        raise refusal("examples", str(error)) from error
    if ended:
        await page.ports.control.jobs.start(JobSpec(JobAction.DELETE, {}, ids=tuple(ended)), by=caller)
    async with page.ports.turn:
        await page.ports.control.sites.add([SiteSpec(url=url, tags=(EXAMPLE_TAG,)) for url in urls])
    return page.go("/sites?tag=example")


@router.post("/examples/remove")
async def remove_examples(page: Shown, caller: Caller) -> Response:
    """Deletes the example sites, and serves them no longer."""
    ids = await _watched_examples(page)
    if ids:
        await page.ports.control.jobs.start(JobSpec(JobAction.DELETE, {}, ids=tuple(ids)), by=caller)
    if page.web.examples is not None:
        await page.web.examples.stop()
    return page.go("/")


ROUTERS = (router,)
