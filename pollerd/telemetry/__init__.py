"""Metric instruments, on a registry handed in, and the set-up of the logs."""

from pollerd.telemetry.instruments import DECILES, Instruments
from pollerd.telemetry.logs import set_up_logs

__all__ = ["DECILES", "Instruments", "set_up_logs"]
