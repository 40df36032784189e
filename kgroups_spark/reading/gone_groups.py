"""Removed groups: time and cause of the removal, and the last moment at which all of their offsets existed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kgroups_spark.reading.reader import LakeReader, Rows
from kgroups_spark.times import to_datetime, to_epoch_ms

# The causes of removals in group_events, in words.
REMOVAL_CAUSES = {
    "expired": "expired: retention had passed",
    "group_deleted": "somebody deleted the group",
    "offset_deleted": "somebody deleted the offset",
    "topic_deleted": "the topic was deleted",
    "unknown": "the log leaves several explanations, or none",
}


@dataclass(frozen=True)
class Removal:
    """`removed_at`, `cause`: None if no record shows them. `offsets_as_of`, `members_as_of`: the last moments at which
    the group had the offsets of its last commit, and its last members; None: history has none."""

    offsets_partition: int
    removed_at: datetime | None
    cause: str | None
    offsets_as_of: datetime | None
    members_as_of: datetime | None


def last_removal(reader: LakeReader, group_id: str, as_of: datetime | None) -> Removal | None:
    """The newest removal of a group that does not exist as of a moment (None: now); None: it never existed."""
    before = _Before(reader, group_id, as_of)
    versions = before.rows("group_versions", "log_offset, log_timestamp, is_removed")
    if not versions:
        return None
    removed = max(versions, key=lambda row: (_at(row["log_timestamp"]), row["log_offset"]))
    partition = removed["offsets_partition"]
    events = [
        row
        for row in before.rows("group_events", "log_offset, log_timestamp, event, cause", _REMOVALS)
        if row["offsets_partition"] == partition
    ]
    group_removed = [row for row in events if row["event"] == "group_removed"]
    cause = max(group_removed, key=lambda row: int(row["log_offset"]))["cause"] if group_removed else None
    return Removal(
        partition,
        removed["log_timestamp"],
        cause,
        _offsets_as_of(before, partition, events, removed),
        _members_as_of(before, partition),
    )


_REMOVALS = "event IN ('group_removed', 'offset_removed')"


@dataclass(frozen=True)
class _Before:
    """Rows of one group before the log's end as of a moment."""

    reader: LakeReader
    group_id: str
    as_of: datetime | None

    def rows(self, table: str, columns: str, where: str = "true") -> Rows:
        """The rows of a table or view with offsets_partition and log_offset."""
        found = self.reader.sql(
            f"SELECT offsets_partition, {columns} FROM {table} WHERE group_id = :group_id AND {where}",
            group_id=self.group_id,
        )
        if self.as_of is None:
            return found
        ends = log_ends(self.reader, self.as_of)
        return [row for row in found if row["log_offset"] < ends.get(row["offsets_partition"], row["log_offset"] + 1)]


def log_ends(reader: LakeReader, as_of: datetime) -> dict[int, int]:
    """The end offsets of the offsets partitions' logs as of a moment; a partition that is missing ends later."""
    ends = reader.sql("SELECT offsets_partition, end_offset FROM log_ends_as_of(:as_of)", as_of=as_of)
    return {row["offsets_partition"]: row["end_offset"] for row in ends}


def _offsets_as_of(before: _Before, partition: int, events: Rows, removed: dict[str, Any]) -> datetime | None:
    """A millisecond before the first removal after the last commit, when offsets that were removed one by one all still
    existed. Removals because of deleted topics do not count."""
    commits = before.rows(
        "effective_commits",
        "effective_log_offset AS log_offset",
        "committed_offset IS NOT NULL AND effective_log_offset IS NOT NULL",
    )
    places = [row["log_offset"] for row in commits if row["offsets_partition"] == partition]
    if not places:
        return None
    wanted = [row for row in events if row["log_offset"] > max(places) and row["cause"] != "topic_deleted"]
    first = min(wanted, key=lambda row: int(row["log_offset"]), default=removed)
    return _just_before(first["log_timestamp"])


def _members_as_of(before: _Before, partition: int) -> datetime | None:
    """A millisecond before the last member left."""
    left = [
        row["log_timestamp"]
        for row in before.rows("group_member_versions", "log_offset, log_timestamp", "is_removed")
        if row["offsets_partition"] == partition and row["log_timestamp"] is not None
    ]
    return _just_before(max(left, default=None))


def _just_before(moment: datetime | None) -> datetime | None:
    return None if moment is None else to_datetime(to_epoch_ms(moment) - 1)


def _at(moment: datetime | None) -> int:
    """A sort key in epoch ms. A row without a time comes last: a correction found it after everything that was read."""
    return 2**63 if moment is None else to_epoch_ms(moment)
