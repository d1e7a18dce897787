"""How a page is fetched, and when, as a form: settings as fields, and fields as `PATCH /sites/{id}` takes them.

Pure. A secret is never in a field: an empty field leaves it as it is, and a box takes it away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import orjson

from pollerd.api.inputs import shown_setting
from pollerd.daemon.views import ExplanationView
from pollerd.errors import InvalidValueError, refusal
from pollerd.planning import about
from pollerd.quantities import duration
from pollerd.rendering.plan import DEFAULT_PLAN, RESOURCE_TYPES, StepAction, secret_positions
from pollerd.site_settings import DAYS, SITE_SETTINGS, Access, Kind, Setting, SiteSpec, Windows
from pollerd.texts import N_, _
from pollerd.web.http import PostedForm, number_of, tags_in_one_field
from pollerd.web.words import DAY_WORDS

Patch = dict[str, Any]

# Steps of a browser.

STEP_WORDS: Mapping[str, str] = {
    StepAction.WAIT_FOR: N_("wait for the part"),
    StepAction.WAIT_FOR_TEXT: N_("wait for the words"),
    StepAction.WAIT: N_("wait for seconds"),
    StepAction.CLICK: N_("click"),
    StepAction.CLICK_IF_EXISTS: N_("click, if it is there"),
    StepAction.TYPE: N_("type into"),
    StepAction.SELECT: N_("choose in"),
    StepAction.CHECK: N_("tick"),
    StepAction.PRESS: N_("press the key"),
    StepAction.SCROLL: N_("scroll (pixels, or bottom)"),
    StepAction.SCROLL_TO: N_("scroll to"),
    StepAction.REMOVE: N_("remove"),
}
"""Action -> how the form names it."""
_WITH_TEXT = {StepAction.TYPE: "text", StepAction.SELECT: "value", StepAction.PRESS: "on"}
"""Actions with a second text, and its key."""


@dataclass(slots=True)
class StepRow:
    """One step of a browser before the page is read."""

    action: str = StepAction.CLICK
    target: str = ""
    text: str = ""
    secret: bool = False
    was: str = ""
    """The position among the sealed secrets of the site, if the step has one; then an empty text keeps it."""
    timeout: str = ""


def _step_rows(document: Mapping[str, Any]) -> list[StepRow]:
    sealed = list(secret_positions(document))
    rows = []
    for at, step in enumerate(document.get("steps", ())):
        action = next(action for action in StepAction if action in step)
        text = step.get(_WITH_TEXT.get(action, ""), "")
        was = str(sealed.index(at)) if at in sealed else ""
        timeout = "" if step.get("timeout") is None else f"{step['timeout']:g}"
        rows.append(StepRow(action, _shown(step[action]), text, bool(was), was, timeout))
    return rows


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _step_of(row: StepRow, typed: Sequence[str]) -> Patch:
    """Returns a step as a plan has it. typed: the sealed secrets of the site."""
    if row.action not in STEP_WORDS:
        raise InvalidValueError("action", _("one of those that are offered"), row.action)
    is_number = row.action == StepAction.WAIT or (row.action == StepAction.SCROLL and row.target != "bottom")
    step: Patch = {row.action: _number(row.action, row.target) if is_number else row.target}
    key = _WITH_TEXT.get(StepAction(row.action))
    if row.action == StepAction.TYPE and row.secret:
        step["secret"] = _kept_secret(row, typed)
    elif key is not None and (row.text or row.action != StepAction.PRESS):
        step[key] = row.text
    if row.timeout:
        step["timeout"] = _number("timeout", row.timeout)
    return step


def _number(name: str, text: str) -> float:
    """Returns a number, whole ones as such: pixels have no fractions. Raises `InvalidValueError`."""
    number = number_of(name, text)
    return int(number) if number.is_integer() else number


def _kept_secret(row: StepRow, typed: Sequence[str]) -> str:
    if row.text:
        return row.text
    if row.was.isascii() and row.was.isdecimal() and int(row.was) < len(typed):
        return typed[int(row.was)]
    raise refusal("secret", _("type the secret of this step"))


# Hours.


@dataclass(slots=True)
class HoursRow:
    """Hours of some days in which the site can be checked."""

    days: tuple[str, ...] = ()
    begins: str = ""
    ends: str = ""


HOURS = 24
WEEK = tuple(f"{day}-{hour}" for day in DAYS for hour in range(HOURS))
"""Names of the hours of a week, as the week to paint sends them: `mon-0` is from 0:00 to 1:00."""


def hours_of(rows: Sequence[HoursRow]) -> frozenset[str]:
    """Returns the hours of a week that rows have a part in; rows that are no hours have none."""
    painted = set[int]()
    for row in rows:
        begin, end = _minutes(row.begins or "00:00"), _minutes(row.ends or "24:00")
        if begin is None or end is None:
            continue
        end += 0 if end > begin else HOURS * 60  # it ends on the next day
        for day in row.days or DAYS:
            first = DAYS.index(day) * HOURS if day in DAYS else 0
            painted.update((first + hour) % len(WEEK) for hour in range(begin // 60, -(-end // 60)))
    return frozenset(WEEK[hour] for hour in painted)


def _minutes(clock: str) -> int | None:
    hours, _colon, minutes = clock.partition(":")
    if not (hours.isascii() and hours.isdecimal() and minutes.isascii() and minutes.isdecimal()):
        return None
    return min(int(hours), HOURS) * 60 + min(int(minutes), 59) if int(hours) < HOURS else HOURS * 60


def rows_of(hours: Collection[str]) -> list[HoursRow]:
    """Returns rows that have exactly these hours of a week; none: there are no hours, or all, so nothing is limited."""
    if len(hours) in (0, len(WEEK)):
        return []
    days: dict[tuple[int, int], list[str]] = {}
    for day in DAYS:
        painted = [hour for hour in range(HOURS) if f"{day}-{hour}" in hours]
        for begin in (hour for hour in painted if hour - 1 not in painted):
            end = next(hour for hour in range(begin, HOURS + 1) if hour not in painted)
            days.setdefault((begin, end), []).append(day)
    return [
        HoursRow(() if len(on) == len(DAYS) else tuple(on), f"{begin:02}:00", f"{end:02}:00")
        for (begin, end), on in days.items()
    ]


DURATIONS = ("30s", "1m", "5m", "15m", "30m", "1h", "3h", "6h", "12h", "1d", "7d")
"""Intervals that the form offers; others can be typed."""
WEIGHTS = ("0.5", "1", "2", "5")


# The form.


@dataclass(slots=True)
class FetchForm:
    """How a page is fetched, as fields; secrets are known by whether they are set."""

    render: bool = False
    wait_selector: str = ""
    wait_seconds: str = ""
    wait_idle: bool = True
    blocked: tuple[str, ...] = tuple(sorted(DEFAULT_PLAN.block))
    timeout: str = ""
    width: str = ""
    height: str = ""
    steps: list[StepRow] = field(default_factory=list)
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Name, and the value that was typed: of one that is set it is empty."""
    username: str = ""
    has: Mapping[str, bool] = field(default_factory=dict)
    """Which secrets are set: credentials, proxy, pdf_password, body."""
    post: bool = False
    zone: str = "UTC"
    hours: list[HoursRow] = field(default_factory=list)
    week: frozenset[str] = frozenset()
    """The hours that are painted, of `WEEK`."""
    texts: dict[str, str] = field(default_factory=dict)
    """The other fields, by name of their setting."""
    errors: dict[str, str] = field(default_factory=dict)
    """Field -> its error."""

    @property
    def cookie_is_set(self) -> bool:
        """Whether a cookie is sent."""
        return any(name.lower() == "cookie" for name, _value in self.headers)


def secrets_set(access: Access) -> dict[str, bool]:
    """Returns which secrets a site has."""
    return {
        "credentials": access.credentials is not None,
        "proxy": access.proxy is not None,
        "pdf_password": access.pdf_password is not None,
        "body": access.body is not None,
    }


def fetch_form(spec: SiteSpec) -> FetchForm:
    """Returns the fields of a site's own settings; texts of plain settings are for the caller to add."""
    form = FetchForm(render=bool(spec.render), has=secrets_set(spec.access), post=spec.access.body is not None)
    form.headers = [(name, "") for name in spec.access.header_names]
    if spec.render:
        _take_plan(form, orjson.loads(spec.render) or {})
    if spec.windows is not None:
        form.zone = spec.windows.zone
        form.hours = [HoursRow(tuple(opening.days), opening.begins, opening.ends) for opening in spec.windows.open]
        form.week = hours_of(form.hours)
    return form


def _take_plan(form: FetchForm, document: Mapping[str, Any]) -> None:
    wait, viewport = document.get("wait"), document.get("viewport", {})
    if wait is not None:
        form.wait_idle, form.wait_selector = wait.get("idle", False), wait.get("selector", "")
        form.wait_seconds = f"{wait['seconds']:g}" if wait.get("seconds") else ""
    if "block" in document:
        form.blocked = tuple(document["block"])
    form.timeout = f"{document['timeout']:g}" if document.get("timeout") is not None else ""
    form.width, form.height = (f"{viewport[name]:g}" if name in viewport else "" for name in ("width", "height"))
    form.steps = _step_rows(document)


def posted_fetch_form(posted: PostedForm, spec: SiteSpec) -> FetchForm:
    """Returns the form as it was sent, without secrets, for showing it again."""
    form = FetchForm(
        render=posted.text("render") == "browser",
        wait_selector=posted.text("wait_selector"),
        wait_seconds=posted.text("wait_seconds"),
        wait_idle=posted.has("wait_idle"),
        blocked=tuple(name for name in posted.texts("block") if name in RESOURCE_TYPES),
        timeout=posted.text("timeout"),
        width=posted.text("width"),
        height=posted.text("height"),
        username=posted.text("username"),
        has=secrets_set(spec.access),
        post=posted.text("method") == "POST",
        zone=posted.text("zone") or "UTC",
    )
    form.steps = [row for row in _posted_steps(posted) if row.target]
    names, values = posted.texts("header_name"), posted.texts("header_value")
    form.headers = [
        (name.strip(), value.strip()) for name, value in zip_longest(names, values, fillvalue="") if name.strip()
    ]
    form.hours, stored = _posted_hours(posted), fetch_form(spec)
    form.week = frozenset(posted.texts("hour")) & frozenset(WEEK)
    # What was painted holds, unless the exact times were edited; those that are stored can be finer than hours.
    if posted.has("painted") and form.week != stored.week and form.hours == stored.hours:
        form.hours = rows_of(form.week)
    else:
        form.week = hours_of(form.hours)
    return form


def _posted_steps(posted: PostedForm) -> list[StepRow]:
    columns = [posted.texts(f"step_{name}") for name in ("action", "target", "text", "secret", "was", "timeout")]
    return [
        StepRow(action, target.strip(), text, secret == "secret", was, timeout.strip())
        for action, target, text, secret, was, timeout in zip(*columns, strict=False)
    ]


def _posted_hours(posted: PostedForm) -> list[HoursRow]:
    rows = zip(posted.texts("hours_from"), posted.texts("hours_to"), strict=False)
    made = [
        HoursRow(tuple(posted.texts(f"hours_days_{number}")), begins.strip(), ends.strip())
        for number, (begins, ends) in enumerate(rows)
    ]
    return [row for row in made if row.begins or row.ends or row.days]


# The patch: only fields that differ from the site's own, so that sending a form back changes nothing.


def patch_of(form: FetchForm, posted: PostedForm, spec: SiteSpec) -> Patch:
    """Returns the changes of the form. Raises `InvalidValueError`, naming the field."""
    before, patch = fetch_form(spec), Patch()
    if form.render != before.render or (form.render and _plan_differs(form, before)):
        patch["render"] = _plan_of(form, spec.access.typed) if form.render else None
    if (form.zone, form.hours) != (before.zone, before.hours) and (form.hours or before.hours):
        patch["windows"] = _windows_of(form) if form.hours else None
    headers = _headers_of(form, posted, spec.access)
    if headers != dict(spec.access.headers):
        patch["headers"] = headers
    return patch | _secrets_of(form, posted, spec.access)


_PLAN_FIELDS = ("wait_selector", "wait_seconds", "wait_idle", "timeout", "width", "height", "steps")


def _plan_differs(form: FetchForm, before: FetchForm) -> bool:
    same_block = sorted(form.blocked) == sorted(before.blocked)
    return not same_block or any(getattr(form, name) != getattr(before, name) for name in _PLAN_FIELDS)


def _plan_of(form: FetchForm, typed: Sequence[str]) -> Any:
    """Returns the plan of a browser, with its secrets; `browser` for the usual one."""
    plan: Patch = {}
    if (form.wait_selector, form.wait_seconds, form.wait_idle) != ("", "", True):
        plan["wait"] = {"idle": form.wait_idle}
        if form.wait_selector:
            plan["wait"]["selector"] = form.wait_selector
        if form.wait_seconds:
            plan["wait"]["seconds"] = _number("wait_seconds", form.wait_seconds)
    if frozenset(form.blocked) != DEFAULT_PLAN.block:
        plan["block"] = list(form.blocked)
    if form.timeout:
        plan["timeout"] = _number("timeout", form.timeout)
    viewport = {name: _number(name, getattr(form, name)) for name in ("width", "height") if getattr(form, name)}
    if viewport:
        plan["viewport"] = viewport
    steps = []
    for at, row in enumerate(form.steps):
        try:
            steps.append(_step_of(row, typed))
        except InvalidValueError as error:
            raise error.of(f"render.steps[{at}]") from error
    if steps:
        plan["steps"] = steps
    return plan or "browser"


def _windows_of(form: FetchForm) -> Patch:
    opened = [
        {**({"days": list(row.days)} if row.days else {}), "from": row.begins or "00:00", "to": row.ends or "24:00"}
        for row in form.hours
    ]
    return {"zone": form.zone, "open": opened}


def _headers_of(form: FetchForm, posted: PostedForm, access: Access) -> dict[str, str]:
    """Returns all headers: those that are set and whose value was left empty stay."""
    known = dict(access.headers)
    headers = {name: value or known.get(name, "") for name, value in form.headers}
    cookie = posted.whole("cookie").strip().removeprefix("Cookie:").strip()
    if cookie:
        headers = {name: value for name, value in headers.items() if name.lower() != "cookie"} | {"Cookie": cookie}
    return headers


def _secrets_of(form: FetchForm, posted: PostedForm, access: Access) -> Patch:
    patch: Patch = {}
    username, password, token = (posted.whole(name) for name in ("username", "password", "token"))
    if token:
        patch["credentials"] = {"token": token}
    elif bool(username) is not bool(password):
        raise refusal("credentials", _("type both the user name and the password: what was typed before is not kept"))
    elif username:
        patch["credentials"] = {"username": username, "password": password}
    elif posted.has("forget_credentials") and access.credentials is not None:
        patch["credentials"] = None
    for name in ("proxy", "pdf_password"):
        if posted.whole(name):
            patch[name] = posted.whole(name)
        elif posted.has(f"forget_{name}") and getattr(access, name) is not None:
            patch[name] = None
    body = posted.whole("body").replace("\r\n", "\n")
    if form.post and (body or access.body is None):
        patch |= {"method": "POST", "body": body}
    elif not form.post and access.body is not None:
        patch |= {"method": "GET", "body": None}
    return patch


# Settings that are one field each.

_PAGE = ("url", "title", "tags")
_FORMS = ("selections", "render", "windows")
OF_SITE: Mapping[str, Setting] = {name: SITE_SETTINGS[name] for name in _PAGE}
"""Settings that say which site it is; the others have the forms "What counts" and "When and how"."""
OTHERS: Mapping[str, Setting] = {
    name: setting for name, setting in SITE_SETTINGS.items() if setting.form and name not in (*_PAGE, *_FORMS)
}
"""Settings of this form that are one field each."""


def form_fields(settings: Mapping[str, Setting], own: SiteSpec, effective: SiteSpec) -> list[dict[str, Any]]:
    """Returns the fields of the form: first those that make a site one, then those that tags can have, too.

    own: what the site itself says; effective: with what it inherits.
    """
    offered = sorted(
        (setting for setting in settings.values() if setting.form),
        key=lambda setting: setting.inherits,
    )
    return [
        {
            "name": entry.name,
            "label": _(entry.form),
            "kind": entry.kind,
            "value": text_of(entry, getattr(own, entry.name)),
            "inherited": (text_of(entry, getattr(effective, entry.name)) or _("as all")) if entry.inherits else "",
            "choices": _CHOICES.get(entry.kind, ()),
        }
        for entry in offered
    ]


_CHOICES = {
    Kind.TRUST: (("hint", N_("as a hint, up to an hour")), ("strict", N_("strictly, up to a day")), ("off", N_("no"))),
    Kind.SWITCH: (("true", N_("yes")), ("false", N_("no"))),
}


def text_of(setting: Setting, value: Any) -> str:
    """Returns a setting as its field of the form has it; empty: the site says none."""
    if value is None or value == "":
        return ""
    match setting.kind:
        case Kind.TAGS:
            return tags_in_one_field(value)
        case Kind.NUMBER | Kind.SHARE:
            return f"{value:g}"
        case Kind.SECONDS:
            return duration(value)
        case Kind.TRUST:
            return str(value.name).lower()
        case Kind.SWITCH:
            return "true" if value else "false"
        case Kind.WINDOWS | Kind.SELECTIONS | Kind.RENDER:
            shown = shown_setting(setting, value)
            return shown if isinstance(shown, str) else orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()
    return str(value)


def value_in(form: PostedForm, setting: Setting) -> Any:
    """Returns what the form says of a setting, as REST takes it. Raises `InvalidValueError`."""
    name, text = setting.name, form.text(setting.name)
    match setting.kind:
        case Kind.TEXT:
            return text
        case Kind.TAGS:
            return form.tags(name)
        case Kind.NUMBER:
            return form.optional_number(name)
        case Kind.SECONDS:
            return form.optional_duration(name)
        case Kind.SWITCH:
            return text == "true" if text else None
        case Kind.WINDOWS | Kind.SELECTIONS:
            return json_in(name, text)
        case Kind.RENDER:
            return text if text == "browser" else json_in(name, text)
    return text or None  # shares and words are read by REST


def json_in(name: str, text: str) -> Any:
    """Returns what a field has as JSON; None: it is empty. Raises `InvalidValueError`."""
    if not text:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidValueError(name, f"JSON ({error})", text[:100]) from error


# What the form shows.


def when_values(
    own: SiteSpec, effective: SiteSpec, explained: ExplanationView, form: FetchForm | None = None
) -> dict[str, Any]:
    """Returns what the template of the form needs. form: as it was sent; None: as it is stored."""
    shown = form or fetch_form(own)
    fields = {entry["name"]: entry for entry in form_fields(OTHERS, own, effective)}
    for name, text in shown.texts.items():
        fields[name]["value"] = text
    return {
        "when": shown,
        "when_fields": fields,
        "form_words": {
            "steps": STEP_WORDS,
            "days": DAY_WORDS,
            "durations": DURATIONS,
            "weights": WEIGHTS,
            "hours": HOURS,
        },
        "resources": RESOURCE_TYPES,
        "consequence": consequence(explained, effective),
        "hours_in_words": hours_in_words(effective.windows),
    }


def hours_in_words(windows: Windows | None) -> str:
    """Returns the hours in which a site is checked, as in "Mon–Fri 8–18, Sat 10–12:30 (UTC)"; empty: at all hours."""
    if windows is None:
        return ""
    openings = [
        f"{_days_in_words(opening.days)} {_hour(opening.begins)}–{_hour(opening.ends)}" for opening in windows.open
    ]
    return f"{', '.join(openings)} ({windows.zone})"


def _days_in_words(days: Collection[str]) -> str:
    """Returns days of the week, three or more in a row as a span."""
    if not days or set(days) == set(DAY_WORDS):
        return _("every day")
    spans, names = list[list[str]](), list(DAY_WORDS)
    for day in sorted(days, key=names.index):
        if spans and names.index(day) == names.index(spans[-1][-1]) + 1:
            spans[-1].append(day)
        else:
            spans.append([day])
    words = [[_(DAY_WORDS[day]) for day in span] for span in spans]
    return ", ".join(f"{span[0]}–{span[-1]}" if len(span) > 2 else ", ".join(span) for span in words)


def _hour(time: str) -> str:
    return time.removesuffix(":00").removeprefix("0") or "0"


def consequence(explained: ExplanationView, effective: SiteSpec) -> str:
    """Returns what the settings lead to, in words; empty: the site is not scheduled yet."""
    interval = explained.expected_interval
    if interval is None:
        return ""
    longest = effective.max_interval if effective.max_interval is not None else interval
    interval = max(min(interval, longest), effective.min_interval or 0.0)
    return _(
        "With the present budget it is checked about every {interval}. Half of its changes are known within {half}.",
        interval=about(interval),
        half=about(interval / 2),
    )
