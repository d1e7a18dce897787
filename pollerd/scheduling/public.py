"""Public names of `pollerd.scheduling`; other packages import them from there."""

from pollerd.scheduling.capacity import AttainableRates, HostLoad, reach, totals
from pollerd.scheduling.choice import Choice, Chooser
from pollerd.scheduling.due import next_due
from pollerd.scheduling.min_yield import Bounds, first_waits, waits
from pollerd.scheduling.noise import NoiseCap
from pollerd.scheduling.politeness.backoff import backoff_seconds, clamp_retry_after, lengthened
from pollerd.scheduling.politeness.hosts import HostTable
from pollerd.scheduling.politeness.outage import PROBE_SECONDS, LinkState, OutageDetector, hosts_that_must_fail
from pollerd.scheduling.politeness.robots_txt import USER_AGENT_TOKEN, RobotsText, rules_allow, rules_delay
from pollerd.scheduling.settings import HINT_TTL_SECONDS, LONGEST_TTL_SECONDS, SchedulingSettings
from pollerd.scheduling.sites import SiteTable
from pollerd.scheduling.waiting import PollLimit, Waiting

__all__ = [
    "HINT_TTL_SECONDS",
    "LONGEST_TTL_SECONDS",
    "PROBE_SECONDS",
    "USER_AGENT_TOKEN",
    "AttainableRates",
    "Bounds",
    "Choice",
    "Chooser",
    "HostLoad",
    "HostTable",
    "LinkState",
    "NoiseCap",
    "OutageDetector",
    "PollLimit",
    "RobotsText",
    "SchedulingSettings",
    "SiteTable",
    "Waiting",
    "backoff_seconds",
    "clamp_retry_after",
    "first_waits",
    "hosts_that_must_fail",
    "lengthened",
    "next_due",
    "reach",
    "rules_allow",
    "rules_delay",
    "totals",
    "waits",
]
