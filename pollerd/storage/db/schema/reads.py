"""Reads of changes, and half-lives learned from them."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, LargeBinary, Table, Text

from pollerd.storage.db.schema.base import Id, metadata, site_id_column

# Reads of a site's changes, of sites that had any: sufficient statistics (see `allocation.reads`), no single reads.
# `open_change`: the newest change that was read, as JSON, if no other has followed; `newest_id`: the largest id of one.
# `precision` and `weighted`: what they say of other sites of the host. `half_life` and its interval: as of the last
# report.
site_reads = Table(
    "site_reads",
    metadata,
    site_id_column(primary_key=True),
    Column("reads", Id, nullable=False, server_default="0"),
    Column("changes", Id, nullable=False, server_default="0"),
    Column("newest_id", Id, nullable=False, server_default="0"),
    Column("last_read_at", Double),
    Column("open_change", Text),
    Column("statistics", LargeBinary),
    Column("precision", Double, nullable=False, server_default="0"),
    Column("weighted", Double, nullable=False, server_default="0"),
    Column("half_life", Double),
    Column("half_life_low", Double),
    Column("half_life_high", Double),
)

# The half-life learned from reads by which a site is polled where none is given: rewritten when it moved noticeably,
# of which nodes are told.
interest = Table(
    "interest",
    metadata,
    site_id_column(primary_key=True),
    Column("learned_half_life", Double, nullable=False),
)

# Reports of reads that were taken lately, and what came of them, so that a repeated one is not counted twice.
read_report = Table(
    "read_report",
    metadata,
    Column("report", Text, primary_key=True),
    Column("received_at", Double, nullable=False),
    Column("reads", Id, nullable=False, server_default="0"),
    Column("unknown_sites", Id, nullable=False, server_default="0"),
    Column("before_changes", Id, nullable=False, server_default="0"),
    Column("other_changes", Id, nullable=False, server_default="0"),
    Column("between_polls", Id, nullable=False, server_default="0"),
    Index(None, "received_at"),
)
