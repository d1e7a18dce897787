"""Metric instruments on a given registry, and configuration of the logs."""

from pollerd.telemetry.instruments import DECILES, Instruments, descriptors_used
from pollerd.telemetry.logs import set_up_logs

__all__ = ["DECILES", "Instruments", "descriptors_used", "set_up_logs"]
