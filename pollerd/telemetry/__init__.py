"""Metric instruments, on a registry handed in, and the set-up of the logs."""

from pollerd.telemetry.instruments import Instruments
from pollerd.telemetry.logs import set_up_logs

__all__ = ["Instruments", "set_up_logs"]
