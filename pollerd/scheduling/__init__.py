"""When a poll may happen: site and host tables, politeness, backoff, choosing. Pure: `now` and `rng` are arguments."""

from pollerd.scheduling.backoff import backoff_seconds, clamp_retry_after
from pollerd.scheduling.capacity import capacity
from pollerd.scheduling.choice import Choice, Chooser
from pollerd.scheduling.hosts import HostTable
from pollerd.scheduling.link import LinkState, LinkWatch, hosts_that_must_fail
from pollerd.scheduling.noise import NoiseCap
from pollerd.scheduling.robots import RobotsText, rules_allow, rules_delay
from pollerd.scheduling.settings import SchedulingSettings
from pollerd.scheduling.sites import SiteTable

__all__ = [
    "Choice",
    "Chooser",
    "HostTable",
    "LinkState",
    "LinkWatch",
    "NoiseCap",
    "RobotsText",
    "SchedulingSettings",
    "SiteTable",
    "backoff_seconds",
    "capacity",
    "clamp_retry_after",
    "hosts_that_must_fail",
    "rules_allow",
    "rules_delay",
]
