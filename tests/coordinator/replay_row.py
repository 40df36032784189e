"""One record as the replay takes it."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from tests.twin.offset_metadata import OffsetAndMetadata

Kind = Literal["offset_commit", "group_record", "marker", "undecodable"]


class ReplayRow(NamedTuple):
    """One record of the log, in log order. Fields that its kind has no use for are left at their default.

    kind            what it is                                  what counts
    offset_commit   type 0 or 1, decoded; value None: tombstone group, topic, partition, value
    group_record    types 2 to 23, decoded; None: tombstone     group, member or regular expression, value
    marker          control record                              outcome (committed, aborted; None: neither)
    undecodable     anything that cannot be used                group where its key can be read
    """

    log_offset: int
    log_timestamp: int | None
    kind: Kind
    record_type: int | None = None
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    member_id: str | None = None
    regular_expression: str | None = None
    commit: OffsetAndMetadata | None = None
    value: dict[str, Any] | None = None
    value_version: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    outcome: Literal["committed", "aborted"] | None = None
    batch_offset: int | None = None

    @property
    def slot(self) -> tuple[str | None, str | None, int | None]:
        """Group, topic and partition of an offset commit: types 0 and 1 share it (T1)."""
        return (self.group_id, self.topic, self.partition)
