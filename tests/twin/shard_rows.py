"""Rows of the tables of offsets, transactions and topics from the shard of objects, see
kgroups_spark/coordinator/rows.py."""

from __future__ import annotations

from typing import NamedTuple


class CommittedRow(NamedTuple):
    """A row of `committed_offsets`."""

    offsets_partition: int
    group_id: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None
    topic_id: str | None
    record_type: int
    value_version: int
    log_offset: int
    is_orphan: bool


class PendingRow(NamedTuple):
    """A row of `pending_offsets`."""

    offsets_partition: int
    producer_id: int
    producer_epoch: int | None
    group_id: str
    topic: str
    partition: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None
    topic_id: str | None
    log_offset: int
    transaction_start_offset: int | None
    open_since: int | None
    transactional_id: str | None


class OpenTransactionRow(NamedTuple):
    """A row of `open_transactions`."""

    offsets_partition: int
    producer_id: int
    producer_epoch: int | None
    transaction_start_offset: int
    open_since: int | None
    offset_count: int
    group_ids: list[str]
    transactional_id: str | None
    is_hanging: bool | None = None  # without the moment of an audit


class TopicRow(NamedTuple):
    """A row of `topics`."""

    topic_id: str
    topic: str
    seen_log_timestamp: int | None
    source: str
