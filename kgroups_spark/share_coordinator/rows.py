"""The rows of `share_partitions` and `share_batches`, and events of share partitions, as plain tuples.

Times are milliseconds. `state_partition`: the partition of `__share_group_state`.
"""

from __future__ import annotations

from typing import NamedTuple


class SharePartitionRow(NamedTuple):
    """A row of `share_partitions`: the persisted state of a partition of a topic that a share group reads.

    Null where Kafka stores no value (-1, for times 0). Records in flight and the end of the window are never stored.
    """

    state_partition: int | None  # null: the group coordinator lists it, but the log has no state of it
    group_id: str
    topic_id: str
    topic: str | None
    partition: int
    start_offset: int | None  # null: not set yet
    state_epoch: int | None
    leader_epoch: int | None
    snapshot_epoch: int | None
    delivery_complete_count: int | None  # null: unknown, or a release before 4.2
    init_state: str | None  # initializing, initialized, deleting; null: the group coordinator does not list it
    create_timestamp: int | None  # of the state in the newest snapshot
    write_timestamp: int | None  # of the newest snapshot
    log_timestamp: int | None  # of the newest record
    log_offset: int | None


class ShareBatchRow(NamedTuple):
    """A row of `share_batches`: offsets from first to last (inclusive) with a delivery state within the window."""

    state_partition: int
    group_id: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    delivery_state: str  # available, acknowledged, archiving, archived; never written: acquired; else the number
    delivery_count: int
    attempts_left: int | None  # null: there is no further attempt, or the limit is unknown
    archived_as: str | None  # attempts_used_up, rejected_or_gap; null: neither archiving nor archived, or unknown


class ShareEvent(NamedTuple):
    """The effect of a record on a share partition: one of EVENTS. Fields are None if they are unknown or not set."""

    log_offset: int
    log_timestamp: int | None
    group_id: str
    topic_id: str
    partition: int
    event: str
    offset_before: int | None
    offset_after: int | None
    state_epoch_before: int | None
    state_epoch_after: int | None


EVENTS = ("share_partition_initialized", "share_offset_reset", "share_offsets_deleted")
