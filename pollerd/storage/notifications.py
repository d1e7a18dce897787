"""All that is stored of notifications: who is notified of what, what is still to be sent, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from pollerd.storage.contents import ContentStore
from pollerd.storage.delivery_log import DeliveryLog
from pollerd.storage.encryption import Encryption
from pollerd.storage.engine import Database
from pollerd.storage.notices import OutboxStatements
from pollerd.storage.outbox import Outbox
from pollerd.storage.rules import Channels, Rules
from pollerd.storage.statements import Statements


@dataclass(frozen=True)
class NotificationStore:
    """The subjects of notifications."""

    channels: Channels
    rules: Rules
    outbox: Outbox
    log: DeliveryLog

    @classmethod
    def of(
        cls, *, database: Database, sql: Statements, encryption: Encryption, contents: ContentStore
    ) -> NotificationStore:
        """Returns those of a database."""
        channels = Channels(database=database, encryption=encryption)
        statements = OutboxStatements(sql)
        log = DeliveryLog(database=database, sql=sql, contents=contents, statements=statements)
        queue = Outbox(database=database, sql=sql, log=log, statements=statements)
        return cls(channels, Rules(database=database, channels=channels), queue, log)
