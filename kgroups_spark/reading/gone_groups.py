"""Groups that are gone: when and why they were removed, and the last moment at which their offsets were all there."""

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
    """`removed_at`, `cause`: None where no record tells. `offsets_as_of`, `members_as_of`: the last moment at which the
    group had what it had when it last committed, and its last members; None: none that history knows."""

    offsets_partition: int
    removed_at: datetime | None
    cause: str | None
    offsets_as_of: datetime | None
    members_as_of: datetime | None


def last_removal(reader: LakeReader, group_id: str, as_of: datetime | None) -> Removal | None:
    """The newest removal of a group that does not exist (any more) as of a moment (None: now); None: it never did."""
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
    """Rows of one group that are in the log before its end as of a moment."""

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
    """Where the logs of offsets partitions end as of a moment; those that are not named end later."""
    ends = reader.sql("SELECT offsets_partition, end_offset FROM log_ends_as_of(:as_of)", as_of=as_of)
    return {row["offsets_partition"]: row["end_offset"] for row in ends}


def _offsets_as_of(before: _Before, partition: int, events: Rows, removed: dict[str, Any]) -> datetime | None:
    """A millisecond before the first removal after the last commit: what was removed piece by piece is all there then.
    Offsets of topics that were deleted are not wanted back."""
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
    """For sorting; what has no time comes last: a correction found it so after all that was read."""
    return 2**63 if moment is None else to_epoch_ms(moment)
