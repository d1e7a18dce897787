"""What every channel does."""

from __future__ import annotations

from typing import Protocol

from pollerd.notifications.message import Answer, Message


class Channel(Protocol):
    """Sends messages to one receiver."""

    async def send(self, message: Message, now: float) -> Answer:
        """Tries once to send the message, within a deadline; never raises for a fault of the receiver. now: epoch s."""

    async def close(self) -> None:
        """Closes its connections."""
